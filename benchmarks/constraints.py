"""The Riesz representer's error under each way to enforce h_n(beta_perp) = 0, after short and long training.

    python benchmarks/constraints.py [--draws 40]

One network per training set, two folds, the same seeds for all constraints. Writes
benchmarks/results/constraints.csv: one row per simulation, size, length of training and constraint, with the
relative squared error of rr on held-out rows, E_n[(rr - alpha)^2] / E_n[alpha^2], the absolute error of the one-step estimate,
and the excess of both over the absolute penalty, paired by draw.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from provenance import record
from tqdm.auto import tqdm

import riesz

HERE = Path(__file__).parent
QUESTIONS = {"binary": riesz.ATE(), "continuous": riesz.ADE()}
ROWS = (300, 1000)
EPOCHS = (5, 20, 100)
CONSTRAINTS = ("absolute", "multiplier", "exact")


def errors(name: str, rows: int, epochs: int, constraint: str, draws: int) -> pd.DataFrame:
    """Errors of rr and of the one-step estimate, one row per draw."""
    simulation, estimand = riesz.datasets.get(name), QUESTIONS[name]
    samples = [simulation.draw(rows, seed=seed) for seed in range(draws)]
    learner = riesz.MADNet(constraint=constraint, networks=1, stages=(riesz.Stage(3e-3, epochs, 10),), repeats=1)
    fits = riesz.estimate_many(
        simulation.plain_formula,
        [sample.data for sample in samples],
        estimand,
        learner=learner,
        folds=2,
        progress=False,
    )
    truth = float(simulation.truth(estimand)[0])
    rows_of_errors = []
    for sample, fit in zip(samples, fits, strict=True):
        alpha = simulation.riesz_representer(estimand, sample.data)[0]
        rr = fit.riesz_representer.iloc[:, 0].to_numpy()
        rows_of_errors.append((np.mean((rr - alpha) ** 2) / np.mean(alpha**2), abs(float(fit.params.iloc[0]) - truth)))
    return pd.DataFrame(rows_of_errors, columns=["rr", "dr"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=40)
    draws = parser.parse_args().draws
    rows = []
    cells = [(name, size, epochs) for name in QUESTIONS for size in ROWS for epochs in EPOCHS]
    for cell in tqdm(cells, unit="cell"):
        by_constraint = {constraint: errors(*cell, constraint, draws) for constraint in CONSTRAINTS}
        for constraint, error in by_constraint.items():
            gap = error - by_constraint["absolute"]
            facts = [fact for of in ("rr", "dr") for fact in (error[of].mean(), gap[of].mean(), gap[of].sem())]
            rows.append((*cell, constraint, *facts))
    measured = [f"{of}_{what}" for of in ("rr", "dr") for what in ("error", "gap", "gap_std_error")]
    table = pd.DataFrame(rows, columns=["simulation", "rows", "epochs", "constraint", *measured])
    print(table.round(4).to_string(index=False))
    stem = HERE / "results" / "constraints"
    table.round(5).to_csv(stem.with_suffix(".csv"), index=False)
    record(stem.with_suffix(".json"), f"python benchmarks/constraints.py --draws {draws}", {"draws": draws})


if __name__ == "__main__":
    main()
