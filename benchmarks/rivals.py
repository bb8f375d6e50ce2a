"""DoubleML's interactive regression model with common learners, for the average effect of a binary treatment.

Needs ``doubleml``, and ``lightgbm`` for the first pair of learners. Five folds with equal shares of the treated, drawn from the
seed, one repetition, and DoubleML's other defaults (propensities are clipped to [0.01, 0.99]). Labels among the covariates become
dummies.

- ``doubleml-lightgbm``: 200 trees with 15 leaves and learning rate 0.05 for outcome and treatment; a classifier for 0/1 outcomes.
- ``doubleml-lasso-rf``: a lasso with cross-validated penalty on standardised covariates for the outcome (also for a binary one),
  a random forest with at least five rows per leaf for the treatment.
"""

from __future__ import annotations

import importlib.metadata
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

FOLDS = 5
PACKAGES = ("scikit-learn", "lightgbm", "doubleml")


def lightgbm(binary: bool, seed: int) -> tuple[Any, Any]:
    """The learners of the outcome and of the treatment, unfitted."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    settings = {
        "n_estimators": 200,
        "learning_rate": 0.05,
        "num_leaves": 15,
        "n_jobs": 1,
        "verbose": -1,
        "random_state": seed % 2**31,
    }
    return (LGBMClassifier if binary else LGBMRegressor)(**settings), LGBMClassifier(**settings)


def lasso_and_forest(binary: bool, seed: int) -> tuple[Any, Any]:
    """The learners of the outcome and of the treatment, unfitted."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LassoCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    forest = RandomForestClassifier(n_estimators=500, min_samples_leaf=5, n_jobs=1, random_state=seed % 2**31)
    return make_pipeline(StandardScaler(), LassoCV(max_iter=10_000)), forest


RIVALS: dict[str, Callable[[bool, int], tuple[Any, Any]]] = {
    "doubleml-lightgbm": lightgbm,
    "doubleml-lasso-rf": lasso_and_forest,
}


def identity(name: str) -> dict[str, Any]:
    """Versions and settings, which distinguish one study from another."""
    packages = ["doubleml", "scikit-learn", *(["lightgbm"] if name == "doubleml-lightgbm" else [])]
    settings = [repr(model) for binary in (False, True) for model in RIVALS[name](binary, 0)]
    return {**{package: importlib.metadata.version(package) for package in packages}, "settings": settings}


def fit(name: str, data: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The average effect of ``a`` on ``y``.

    Parameters
    ----------
    name : str
        In ``RIVALS``.
    data : pandas.DataFrame
        Columns y, a (zeros and ones) and covariates.
    seed : int

    Returns
    -------
    pandas.DataFrame
        One row with the columns of ``trials.parameters``.
    """
    from sklearn.model_selection import StratifiedKFold

    y, a = data["y"].to_numpy(dtype=float), data["a"].to_numpy(dtype=float)
    x = pd.get_dummies(data.drop(columns=["y", "a"]), dtype=float).to_numpy(dtype=float)
    models = RIVALS[name](bool(np.isin(y, (0, 1)).all()), seed)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed % 2**31).split(x, a)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn about column names, and of the lasso about convergence
        import doubleml

        model = doubleml.DoubleMLIRM(
            doubleml.DoubleMLData.from_arrays(x, y, a), *models, n_folds=FOLDS, draw_sample_splitting=False
        )
        model.set_sample_splitting(list(folds))
        model.fit()
        interval = model.confint(level=0.95)
    p = np.asarray(model.predictions["ml_m"]).reshape(-1)
    rr = np.abs(a / p - (1 - a) / (1 - p))
    values = {
        "estimate": float(model.coef[0]),
        "std_error": float(model.se[0]),
        "low": float(interval.iloc[0, 0]),
        "high": float(interval.iloc[0, 1]),
        "largest_rr": float(rr.max()),
        "effective_n": float(rr.sum() ** 2 / (rr**2).sum()),
    }
    return pd.DataFrame(values, index=["ATE"])
