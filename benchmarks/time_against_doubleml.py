"""Processor time of a learner relative to DoubleML's interactive model with LightGBM, on the same data, and errors of both.

    python benchmarks/time_against_doubleml.py [--learner madnet] [--rows 1000 10000 100000] [--draws 10 4 1]

Twenty covariates, smooth and interacting confounding (``smooth`` and ``interacting`` of ``riesz.datasets.hard_cases``). Both
estimate the average treatment effect of each draw, one after the other in one process with one thread. They take turns in being
first, so that other load on the machine affects both alike. The learner has its default settings, with as many repeats as it
recommends; DoubleML has five folds, one repeat, 200 trees with 15 leaves and learning rate 0.05 (rivals.py). Both fit once before
times are measured. Seconds are of processor time.

Each finished draw is one line of benchmarks/raw/time_<name>.jsonl (not committed); after an interruption the same command resumes.
``--afresh`` starts over: times of one table should come from one run on one machine. The table goes to
benchmarks/results/time_<name>.csv, one row per case and n: mean seconds, their ratio, and for both coverage, root mean square
error in oracle standard errors and median width relative to the oracle's. The JSON file beside it compares the ratios with the
limits.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import designs
import numpy as np
import pandas as pd
import rivals
import trial_tables
import trials
from provenance import PACKAGES, record

HERE = Path(__file__).parent
CASES = ("smooth", "interacting")
RIVAL = "doubleml-lightgbm"
#: number of rows to the largest acceptable ratio for the default learner
LIMITS = {1_000: 3.0, 10_000: 2.0, 100_000: 2.0}
FIGURES = ("coverage", "rms_oracle_error", "median_width")


@dataclass(frozen=True)
class BothFits:
    """Both methods on one data set; a key is the case, the number of rows and the number of the draw, as text."""

    methods: tuple[trials.Method, trials.Method]

    def __call__(self, key: str) -> dict[str, Any]:
        name, rows, number = key.split()
        case = designs.case(name, int(rows), int(number))
        turn = -1 if int(number) // 2 % 2 else 1
        fits = {method.name: trials.measure(case, method) for method in self.methods[::turn]}
        return {"key": key, "case": name, "n": int(rows), "fits": fits}

    def warm_up(self) -> None:
        for method in self.methods:
            trials.warm_up(method)


def keys(rows: Sequence[int], draws: Sequence[int]) -> list[str]:
    """The keys of all fits. Draws have even numbers, those for tuning, because this study mainly measures time."""
    return [
        f"{name} {n} {2 * number}"
        for n, count in zip(rows, draws, strict=True)
        for name in CASES
        for number in range(count)
    ]


def table(records: Sequence[dict[str, Any]], names: tuple[str, str]) -> pd.DataFrame:
    """One row per case and n: seconds of the learner and of the rival, their ratio, and the figures of both."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for entry in records:
        groups.setdefault((entry["case"], entry["n"]), []).append(entry)
    lines = []
    for (case, n), entries in groups.items():
        fits = {name: [entry["fits"][name] for entry in entries] for name in names}
        frames = {name: trial_tables.intervals(fits[name]) for name in names}
        both = ~np.any([frame["has_error"].to_numpy() for frame in frames.values()], axis=0)
        line = {"case": case, "n": n, "draws": len(entries), "errors": int((~both).sum())}
        for name in names:
            line[f"seconds {name}"] = float(frames[name].loc[both, "seconds"].mean())
        line["ratio"] = line[f"seconds {names[0]}"] / line[f"seconds {names[1]}"]
        for figure in FIGURES:
            line |= {f"{figure} {name}": trial_tables.figures(frames[name][both])[figure] for name in names}
        lines.append(line)
    return pd.DataFrame(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--draws", type=int, nargs="+", default=[10, 4, 1], help="one number per number of rows")
    parser.add_argument("--afresh", action="store_true", help="delete earlier measurements and start over")
    trials.add_arguments(parser, jobs=1)
    given = parser.parse_args(arguments)
    if len(given.rows) != len(given.draws):
        parser.error(
            f"--rows has {len(given.rows)} numbers and --draws {len(given.draws)}; expected one draw count per n"
        )
    learner = trials.method(given.learner, given.name, given.options)
    rival = trials.method(RIVAL)
    names = (learner.name, rival.name)
    path = HERE / "raw" / f"time_{learner.name}.jsonl"
    if given.afresh:
        path.unlink(missing_ok=True)
    identity = {"study": "time", "machine": platform.node(), **learner.identity(), "rival": rival.identity()}
    file = trials.StudyLines(path, identity)
    if given.retry:
        file.drop_errors()
    todo = keys(given.rows, given.draws)
    records = trials.run(file, todo, BothFits((learner, rival)), given.jobs, f"{names[0]} and {names[1]}")
    measured = table(records, names)
    print(measured.round(3).T.to_string(header=False))
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    measured.round(4).to_csv(results / f"time_{learner.name}.csv", index=False)
    ratios = measured.groupby("n")["ratio"].max()
    facts = {
        "largest_ratios": {str(n): judged(n, float(ratio)) for n, ratio in ratios.items()},
        "library": sorted({entry["fits"][names[0]]["library"] for entry in records}),
        "processor": processor(),
    }
    for n, entry in facts["largest_ratios"].items():
        print(f"n = {n}: at most {entry['ratio']:.2f} times DoubleML's time, limit {entry['limit']}")
    command = f"python benchmarks/time_against_doubleml.py --rows {' '.join(map(str, given.rows))}"
    command += f" --draws {' '.join(map(str, given.draws))}{trials.command(given)}"
    record(results / f"time_{learner.name}.json", command, facts, (*PACKAGES, *rivals.PACKAGES))


def judged(n: int, ratio: float) -> dict[str, Any]:
    """The ratio beside its limit, if there is one for this number of rows."""
    limit = LIMITS.get(n)
    return {"ratio": round(ratio, 2), "limit": limit, "met": None if limit is None else ratio <= limit}


def processor() -> str:
    """The model of the processor, if the system reports it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


if __name__ == "__main__":
    main()
