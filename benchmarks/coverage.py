"""Coverage of 95% intervals, and errors relative to the oracle's, for every verb of every simulation.

    python benchmarks/coverage.py [--draws 2000] [--rows 1000] [--jobs 2] [--only binary arms] [--verbs ate ade] [--learner linear]

Raw draws are written to benchmarks/raw/ (not committed) as they finish; after an interruption the same command resumes. The table
goes to benchmarks/results/coverage_<learner>_<rows>.csv. The closed-form learner gets a correctly specified formula, others the
plain one (``y ~ treat(a) + .``). ``--verbs`` selects among the verbs for which each simulation has a truth. With ``--only``, cells
of other simulations stay in the table if they have the same number of draws and a selected verb. The JSON file beside the table
lists the cells whose coverage is rejected, and those whose error is more than 1.25 times that of the one-step estimate from the
true mu and rr on the same draws.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from provenance import record

from riesz import datasets, montecarlo

HERE = Path(__file__).parent
WORST = 1.25
FAMILY_ERROR = 0.01


def verbs_of(name: str, selected: list[str] | None) -> list[str]:
    """The verbs for which a simulation has a truth, or the selected ones among them."""
    return [verb for verb in datasets.get(name).questions if selected is None or verb in selected]


def cells(table: pd.DataFrame) -> list[str]:
    """Simulation, verb and parameter of each cell, as text."""
    return [f"{row.simulation}: {row.verb}, {row.parameter}" for row in table.itertuples()]


def joined(table: pd.DataFrame, before: pd.DataFrame) -> pd.DataFrame:
    """A table with the cells of simulations that are only in an earlier table, tested together, in the simulations' order."""
    only_before = ~before["simulation"].isin(table["simulation"]) & before["draws"].isin(table["draws"])
    order = {name: place for place, name in enumerate(datasets.SIMULATIONS)}
    both = pd.concat([table, before[only_before]], ignore_index=True)
    both = both.sort_values("simulation", key=lambda names: names.map(order), kind="stable", ignore_index=True)
    return both.assign(rejected=both["p_value"] < FAMILY_ERROR / len(both))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--learner", default="linear")
    all_verbs = sorted({verb for name in datasets.SIMULATIONS for verb in verbs_of(name, None)})
    parser.add_argument("--verbs", nargs="+", default=None, choices=all_verbs)
    parser.add_argument("--only", nargs="*", default=list(datasets.SIMULATIONS))
    arguments = parser.parse_args()
    chosen = {name: verbs for name in arguments.only if (verbs := verbs_of(name, arguments.verbs))}
    if not chosen:
        parser.error(f"none of {', '.join(arguments.only)} has a truth for {', '.join(arguments.verbs)}")
    raw = HERE / "raw"
    raw.mkdir(exist_ok=True)
    suffix = f"_{'-'.join(arguments.verbs)}" if arguments.verbs else ""  # other verbs are another study
    pieces = [
        montecarlo.study(
            name,
            arguments.rows,
            range(arguments.draws),
            formula=None if arguments.learner == "linear" else datasets.get(name).plain_formula,
            verbs=verbs,
            path=raw / f"coverage_{arguments.learner}_{name}_{arguments.rows}{suffix}.csv",
            processes=arguments.jobs,
            progress=True,
            learner=arguments.learner,
        )
        for name, verbs in chosen.items()
    ]
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    stem = results / f"coverage_{arguments.learner}_{arguments.rows}"
    table = montecarlo.coverage(pd.concat(pieces, ignore_index=True), family_error=FAMILY_ERROR).round(6)
    if stem.with_suffix(".csv").exists():
        before = pd.read_csv(stem.with_suffix(".csv"))
        table = joined(table, before[before["verb"].isin(arguments.verbs or all_verbs)])
    print(table.round(4).to_string(index=False))
    intervals = int(table["draws"].sum())
    pooled = float((table["coverage"] * table["draws"]).sum() / intervals)
    print(
        f"\npooled coverage {pooled:.4f} over {intervals:,} intervals; rejected cells: {int(table['rejected'].sum())}"
    )
    table.to_csv(stem.with_suffix(".csv"), index=False)
    command = f"python benchmarks/coverage.py --draws {arguments.draws} --rows {arguments.rows}"
    if arguments.verbs:
        command += f" --verbs {' '.join(arguments.verbs)}"
    simulations = list(table["simulation"].unique())
    if simulations != [name for name in datasets.SIMULATIONS if verbs_of(name, arguments.verbs)]:
        command += f" --only {' '.join(simulations)}"
    facts = {
        "pooled_coverage": round(pooled, 4),
        "intervals": intervals,
        "rejected_cells": cells(table[table["rejected"]]),
        "largest_rmse_ratio": round(float(table["rmse_ratio"].max()), 3),
        "cells_above_1.25_times_the_oracle": cells(table[table["rmse_ratio"] > WORST]),
    }
    record(stem.with_suffix(".json"), command + f" --learner {arguments.learner}", facts)


if __name__ == "__main__":
    main()
