"""Calibration: any learner on many random worlds (``riesz.datasets.random_world``), by every factor of their design.

    python benchmarks/worlds.py --kind binary --seeds odd --from 10001 --count 1000 --learner linear --jobs 2

Learners are tuned on even seeds and judged on odd ones. A learner is a name (``linear``), an expression with a ``--name`` that is
used in the names of its files (``--learner "riesz.MADNet(networks=1)" --name madnet-one``) or, for binary worlds, a rival
(``doubleml-lightgbm``, ``doubleml-lasso-rf``; see rivals.py). Further keywords of the fit: ``--options repeats=1 folds=2``.

Each finished world is one line of benchmarks/raw/worlds_<kind>_<name>_<seeds>.jsonl (not committed); after an interruption the
same command resumes. A fit that raises an error is kept as such and counted; ``--retry`` fits those again. The table goes to
benchmarks/results/worlds_<kind>_<name>.csv, one row per level of each factor, and the JSON file beside it compares overall figures
with the targets; both go to benchmarks/raw/ for even seeds. Columns are explained in trial_tables.py. Seconds are of processor
time, of the fit alone, in a process with one thread.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import rivals
import trial_tables
import trials
from provenance import PACKAGES, record

from riesz import datasets
from riesz.datasets.worlds import ARMS, KINDS

HERE = Path(__file__).parent
NAMES = {"binary": ("ATE",), "arms": tuple(f"ATE_{arm}" for arm in ARMS[1:]), "continuous": ("ADE",)}
FIRST = {"odd": 10_001, "even": 0}  # odd seeds below were used in tests and examples


def case(kind: str, seed: int) -> trials.Case:
    """The first draw of a world."""
    world = datasets.random_world(seed, kind)
    data = world.draw()
    oracle = world.oracle(data)
    return trials.Case(
        seed,
        world.factors,
        data,
        world.formula,
        world.estimand,
        NAMES[kind],
        world.truth,
        oracle.estimate,
        oracle.std_error,
        world.keywords,
    )


def seeds(parity: str, first: int, count: int) -> list[int]:
    """The first odd or even numbers from ``first`` on."""
    start = first + (first % 2 != (parity == "odd"))
    return list(range(start, start + 2 * count, 2))


def study(
    kind: str, parity: str, method: trials.Method, numbers: list[int], jobs: int, retry: bool = False
) -> list[dict]:
    """The records of a learner on the worlds with these seeds."""
    if method.is_rival and kind != "binary":
        raise SystemExit(f"{method.learner} is for binary worlds; got --kind {kind}.")
    path = HERE / "raw" / f"worlds_{kind}_{method.name}_{parity}.jsonl"
    file = trials.StudyLines(path, {"study": "worlds", "kind": kind, "seeds": parity, **method.identity()})
    if retry:
        file.drop_errors()
    work = trials.OneFit(case, (kind,), method)
    return trials.run(file, numbers, work, jobs, f"{kind} worlds, {method.name}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, default="binary")
    parser.add_argument("--seeds", choices=FIRST, default="odd")
    parser.add_argument("--from", dest="first", type=int, help="the first seed: 10001 or, of even ones, 0 by default")
    parser.add_argument("--count", type=int, default=1000)
    trials.add_arguments(parser)
    given = parser.parse_args(arguments)
    method = trials.method(given.learner, given.name, given.options)
    first = FIRST[given.seeds] if given.first is None else given.first
    numbers = seeds(given.seeds, first, given.count)
    records = study(given.kind, given.seeds, method, numbers, given.jobs, given.retry)
    frame = trial_tables.intervals(records)
    table, facts = trial_tables.by_factor(frame), trial_tables.facts(records, frame)
    facts["warnings_by_overlap"] = trial_tables.warning_shares(records, "overlap")
    print(trial_tables.shown(table, facts))
    stem = HERE / "results" / f"worlds_{given.kind}_{method.name}"
    if given.seeds == "even":
        stem = HERE / "raw" / f"worlds_{given.kind}_{method.name}_even"
    stem.parent.mkdir(exist_ok=True)
    table.round(4).to_csv(f"{stem}.csv", index=False)
    command = (
        f"python benchmarks/worlds.py --kind {given.kind} --seeds {given.seeds} --from {first} --count {given.count}"
    )
    packages = (*PACKAGES, *(rivals.PACKAGES if method.is_rival else ()))
    record(Path(f"{stem}.json"), command + trials.command(given), facts, packages)


if __name__ == "__main__":
    main()
