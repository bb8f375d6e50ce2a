"""Fixed hard cases (``riesz.datasets.hard_cases``): coverage, errors and warnings of any learner, many draws of each.

    python benchmarks/designs.py --learner linear --jobs 2 [--only wave_20 kang_schafer] [--count 300]

300 draws of each case, 100 of ``strong_confounding``. Learners, ``--name``, ``--options`` and ``--retry`` are as for worlds.py.
Learners are tuned on draws with even numbers (``--seeds even``) and judged on odd ones. Each finished draw is one line of
benchmarks/raw/designs_<case>_<name>_<seeds>.jsonl (not committed); after an interruption the same command resumes.

The table goes to benchmarks/results/designs_<name>.csv, one row per case, with a JSON file beside it; for even draws, and with
``--only`` or ``--count``, it goes to benchmarks/raw/. Columns are those of trial_tables.py and ``rmse`` in units of the estimate,
``missed_unwarned`` (share of fits whose interval misses the truth without a warning), ``missed_told`` (among fits that miss, the
share whose first note or first warning is about overlap) and ``overlap_alarm`` (share of fits with that warning). A case is
``met`` if at least 91% of the intervals cover, or if no fit misses without a warning; ``strong_confounding`` is met if the first
note or warning of every fit that misses is about overlap.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import rivals
import trial_tables
import trials
from provenance import PACKAGES, record
from worlds import seeds

import riesz
from riesz.datasets.hard_cases import HARD_CASES

HERE = Path(__file__).parent
LEAST_COVERAGE = 0.91
STRONG = "strong_confounding"
#: Cases of the study with their number of draws.
DRAWS = {
    "zero_inflated_1000": 300,
    "zero_inflated_4000": 300,
    "wave_20": 300,
    "wave_50": 300,
    "kang_schafer": 300,
    STRONG: 100,
}
FIRST = {"odd": 1, "even": 0}


def case(name: str, rows: int | None, number: int) -> trials.Case:
    """One draw of a hard case; ``rows`` is None for its usual number."""
    source = HARD_CASES[name]
    draw = source.draw(number, rows)
    oracle = draw.oracle
    return trials.Case(
        number,
        {"case": name},
        draw.data,
        source.formula,
        riesz.ATE(),
        ["ATE"],
        np.array([source.truth]),
        oracle.estimate,
        oracle.std_error,
    )


def study(
    name: str, parity: str, method: trials.Method, count: int, jobs: int, retry: bool = False
) -> list[dict[str, Any]]:
    """The records of a learner on the first draws of a case."""
    path = HERE / "raw" / f"designs_{name}_{method.name}_{parity}.jsonl"
    file = trials.StudyLines(path, {"study": "designs", "case": name, "seeds": parity, **method.identity()})
    if retry:
        file.drop_errors()
    numbers = seeds(parity, FIRST[parity], count)
    return trials.run(file, numbers, trials.OneFit(case, (name, None), method), jobs, f"{name}, {method.name}")


def line(name: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row of a case in the table."""
    frame = trial_tables.intervals(records)
    fitted = frame[~frame["has_error"]]
    missed = fitted.index[fitted["covered"] == 0]  # one row per record
    about_overlap = [warns_of_overlap(records[place]) for place in missed]
    unwarned = (~fitted.loc[missed, "warned"]).sum() / max(len(fitted), 1)
    alarms = ["weak_overlap" in (entry.get("warnings") or ()) for entry in records if entry["error"] is None]
    row = {
        "case": name,
        **trial_tables.figures(frame),
        "rmse": float(np.sqrt(((fitted["estimate"] - fitted["truth"]) ** 2).mean())),
        "missed_unwarned": float(unwarned),
        "missed_told": float(np.mean(about_overlap)) if about_overlap else np.nan,
        "overlap_alarm": float(np.mean(alarms)) if alarms else np.nan,
    }
    covers = bool(row["coverage"] >= LEAST_COVERAGE) or (bool(alarms) and unwarned == 0)
    met = bool(alarms) and all(about_overlap) if name == STRONG else covers
    return {**row, "met": met}


def warns_of_overlap(entry: Mapping[str, Any]) -> bool:
    """Whether the first note of the summary, or the first warning, is about overlap."""
    return any("overlap" in (entry.get(name) or "").lower() for name in ("first_note", "first_warning"))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", choices=FIRST, default="odd")
    parser.add_argument("--count", type=int, help="draws of each case; by default as above")
    parser.add_argument("--only", nargs="+", choices=HARD_CASES)
    trials.add_arguments(parser)
    given = parser.parse_args(arguments)
    method = trials.method(given.learner, given.name, given.options)
    lines, errors, library = [], {}, {}
    for name in given.only or DRAWS:
        count = given.count or DRAWS.get(name, 300)
        records = study(name, given.seeds, method, count, given.jobs, given.retry)
        lines.append(line(name, records))
        case_facts = trial_tables.facts(records, trial_tables.intervals(records))
        errors[name], library[name] = case_facts["errors"], case_facts["library"]
    table = pd.DataFrame(lines)
    print(table.round(3).T.to_string(header=False))
    whole = given.seeds == "odd" and not given.only and not given.count
    stem = HERE / ("results" if whole else "raw") / f"designs_{method.name}"
    stem.parent.mkdir(exist_ok=True)
    table.round(4).to_csv(f"{stem}.csv", index=False)
    facts = {
        "met": [row["case"] for row in lines if row["met"]],
        "not_met": [row["case"] for row in lines if not row["met"]],
        "errors": {name: counts for name, counts in errors.items() if counts},
        "library": library,
    }
    print(f"\nmet: {', '.join(facts['met']) or 'none'}; not met: {', '.join(facts['not_met']) or 'none'}")
    parts = (f" --only {' '.join(given.only)}" if given.only else "") + (
        f" --count {given.count}" if given.count else ""
    )
    command = f"python benchmarks/designs.py --seeds {given.seeds}{parts}{trials.command(given)}"
    packages = (*PACKAGES, *(rivals.PACKAGES if method.is_rival else ()))
    record(Path(f"{stem}.json"), command, facts, packages)


if __name__ == "__main__":
    main()
