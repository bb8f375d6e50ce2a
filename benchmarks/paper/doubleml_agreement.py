"""riesz.Propensity against DoubleML's interactive regression model, with the same data, folds and models.

    python benchmarks/paper/doubleml_agreement.py

Needs doubleml from PyPI. Fails if an estimate or a standard error differs by more than 1e-6; the differences go to
benchmarks/paper/results/doubleml_agreement.json. DoubleML divides variances by n and riesz by n - 1, for which this script
adjusts.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import doubleml
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LassoCV, LogisticRegression

import riesz

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))
from provenance import PACKAGES, record  # noqa: E402

ROWS, FOLDS, TOLERANCE = 1000, 5, 1e-6
MODELS = {
    "lasso, logistic": (LassoCV(), LogisticRegression(max_iter=1000)),
    "boosted trees": (HistGradientBoostingRegressor(max_iter=30), HistGradientBoostingClassifier(max_iter=30)),
    "forest, logistic": (RandomForestRegressor(50, random_state=1), LogisticRegression(max_iter=1000)),
}


def ours(data: pd.DataFrame, labels: np.ndarray, models: tuple[Any, Any], score: str) -> tuple[float, float]:
    verb = riesz.ate if score == "ATE" else riesz.att
    fit = verb("y ~ treat(a) + .", data, learner=riesz.Propensity(*models), folds=labels)
    return float(fit.params.iloc[0]), float(fit.bse.iloc[0] * np.sqrt((len(data) - 1) / len(data)))


def theirs(data: pd.DataFrame, labels: np.ndarray, models: tuple[Any, Any], score: str) -> tuple[float, float]:
    model = doubleml.DoubleMLIRM(
        doubleml.DoubleMLData(data, "y", "a"), *models, score=score, draw_sample_splitting=False
    )
    model.set_sample_splitting([(np.flatnonzero(labels != k), np.flatnonzero(labels == k)) for k in range(FOLDS)])
    model.fit()
    return float(model.coef[0]), float(model.se[0])


def main() -> None:
    rows = []
    for name in ("binary", "weak_overlap"):
        data = riesz.datasets.get(name).draw(ROWS, seed=1).data
        labels = np.random.default_rng(0).permutation(ROWS) % FOLDS
        for words, models in MODELS.items():
            for score in ("ATE", "ATTE"):
                here, there = ours(data, labels, models, score), theirs(data, labels, models, score)
                rows.append(
                    {
                        "data": name,
                        "models": words,
                        "score": score,
                        "riesz": here[0],
                        "doubleml": there[0],
                        "difference": abs(here[0] - there[0]),
                        "difference_std_error": abs(here[1] - there[1]),
                    }
                )
    table = pd.DataFrame(rows)
    print(table.to_string(index=False))
    largest = float(table[["difference", "difference_std_error"]].to_numpy().max())
    facts = {
        "rows": ROWS,
        "folds": FOLDS,
        "largest_difference": largest,
        "cases": rows,
    }
    packages = (*PACKAGES, "scikit-learn", "doubleml")
    record(
        HERE / "results" / "doubleml_agreement.json", "python benchmarks/paper/doubleml_agreement.py", facts, packages
    )
    assert largest < TOLERANCE, f"riesz and DoubleML differ by {largest:.2g}; expected less than {TOLERANCE:g}"


if __name__ == "__main__":
    main()
