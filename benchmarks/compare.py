"""Two learners on the same data sets: paired differences of their absolute errors, and the coverage of both.

    python benchmarks/compare.py BEFORE AFTER [--estimator dr] [--datasets 100-999] [--record NAME]

Files are those of semisynthetic.py (benchmarks/results/ihdp_*.csv, bhp_*.csv), raw draws of coverage.py
(benchmarks/raw/coverage_*.csv) or raw records of worlds.py and designs.py (benchmarks/raw/*.jsonl). Data sets in only one of
the files, and fits that raised an error, are left out and counted. AFTER is *significantly worse* if a one-sided paired t-test of
the absolute errors rejects "not worse" at 1%. Several parameters of one data set count as one cluster, by their mean error.
``--record`` writes benchmarks/results/compare_<NAME>.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import trial_tables
import trials
from provenance import record
from scipy import stats
from semisynthetic import chosen

HERE = Path(__file__).parent
LEVEL = 0.01
DRAW = ["simulation", "n", "draw"]


def read(path: Path, estimator: str) -> pd.DataFrame:
    """Columns dataset (text), parameter, estimate, truth, covered, from any of the three kinds of files."""
    if path.suffix == ".jsonl":
        _, *records = trials.read_lines(path)
        frame = trial_tables.intervals(records)
        frame = frame[~frame["has_error"]]
        return frame.assign(dataset=frame["key"].astype(str))[["dataset", "parameter", "estimate", "truth", "covered"]]
    frame = pd.read_csv(path)
    if "dataset" in frame:
        if estimator not in frame:
            raise SystemExit(f"{path} has no column {estimator!r}; it has {', '.join(frame)}.")
        frame = frame.assign(parameter="", estimate=frame[estimator], dataset=frame["dataset"].astype(str))
    elif "draw" in frame:
        text = frame[DRAW].astype(str)
        frame = frame.assign(dataset=text.agg(" ".join, axis=1), parameter=frame["verb"] + " " + frame["parameter"])
    else:
        raise SystemExit(f"{path} has neither data sets nor draws; its columns are {', '.join(frame)}.")
    return frame[["dataset", "parameter", "estimate", "truth", "covered"]].astype({"covered": float})


def paired(before: pd.DataFrame, after: pd.DataFrame) -> dict[str, float | int | bool]:
    """Errors and coverage of both on the data sets they share, and the test of their difference."""
    both = before.merge(after, on=["dataset", "parameter"], suffixes=("_before", "_after"), validate="one_to_one")
    if both.empty:
        raise SystemExit("The files share no data sets.")
    gap = (both["truth_before"] - both["truth_after"]).abs()
    if (gap > 1e-5 * (1 + both["truth_before"].abs())).any():
        raise SystemExit(f"The truth of data set {both['dataset'][gap.idxmax()]} differs between the files.")
    error = {name: both[f"estimate_{name}"] - both["truth_before"] for name in ("before", "after")}
    difference = (error["after"].abs() - error["before"].abs()).groupby(both["dataset"], sort=False).mean()
    if len(difference) < 2:
        raise SystemExit("The files share one data set; a test needs two.")
    if difference.std() == 0:
        t, worse = 0.0, 0.5  # equal errors throughout, or all differ by the same amount
        if difference.iloc[0] != 0:
            t, worse = float(np.copysign(np.inf, difference.iloc[0])), float(difference.iloc[0] < 0)
    else:
        t = float(difference.mean() / difference.sem())
        worse = float(stats.t.sf(t, len(difference) - 1))
    table: dict[str, float | int | bool] = {
        "data_sets": len(difference),
        "left_out": int(before["dataset"].nunique() + after["dataset"].nunique() - 2 * both["dataset"].nunique()),
    }
    for name in ("before", "after"):
        table |= {
            f"mae_{name}": float(error[name].abs().mean()),
            f"rmse_{name}": float(np.sqrt((error[name] ** 2).mean())),
            f"coverage_{name}": float(both[f"covered_{name}"].mean()),
        }
    return {
        **table,
        "difference": float(difference.mean()),
        "difference_std_error": float(difference.sem()),
        "t": t,
        "p_worse": worse,
        "significantly_worse": worse < LEVEL,
        "rmse_ratio": float(table["rmse_after"] / table["rmse_before"]) if table["rmse_before"] else np.nan,
    }


def in_words(result: dict[str, float | int | bool]) -> str:
    """The result in words."""
    verdict = "significantly worse" if result["significantly_worse"] else "not significantly worse"
    return "\n".join(
        [
            f"{result['data_sets']} data sets in both files ({result['left_out']} in one only)",
            *(
                f"{name:6}  mean absolute error {result[f'mae_{name}']:.4f}, root mean square {result[f'rmse_{name}']:.4f}, "
                f"coverage {result[f'coverage_{name}']:.1%}"
                for name in ("before", "after")
            ),
            f"difference {result['difference']:+.4f} (std err {result['difference_std_error']:.4f}), t = {result['t']:.2f}",
            f"After is {verdict} at {LEVEL:.0%} (one-sided p = {result['p_worse']:.3g}); "
            f"ratio of root mean squares {result['rmse_ratio']:.3f}.",
        ]
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--estimator", default="dr", help="column of semi-synthetic files")
    parser.add_argument("--datasets", help="such as 100-999")
    parser.add_argument("--record", metavar="NAME")
    given = parser.parse_args(arguments)
    frames = [read(path, given.estimator) for path in (given.before, given.after)]
    if given.datasets:
        kept = {str(number) for number in chosen(given.datasets)}
        frames = [frame[frame["dataset"].isin(kept)] for frame in frames]
    result = paired(*frames)
    print(in_words(result))
    if given.record:
        command = f"python benchmarks/compare.py {given.before} {given.after} --estimator {given.estimator}"
        command += f" --datasets {given.datasets}" if given.datasets else ""
        plain = trials.plain(result)
        facts = {name: round(value, 4) if isinstance(value, float) else value for name, value in plain.items()}
        record(HERE / "results" / f"compare_{given.record}.json", f"{command} --record {given.record}", facts)


if __name__ == "__main__":
    main()
