"""Derivatives of columns at skewed treatments and outliers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz


@pytest.mark.parametrize("sigma", [0.5, 2.0, 3.0])
def test_derivative_of_a_skewed_treatment(sigma: float) -> None:
    """The tangents of log(treat(income)) are 1 / income, however skewed income is."""
    rng = np.random.default_rng(0)
    income = np.exp(sigma * rng.normal(size=2000))
    frame = pd.DataFrame({"y": np.log(income) + rng.normal(size=2000), "income": income})
    fit = riesz.ade("y ~ log(treat(income))", frame, folds=1, learner=riesz.Linear(0, 0))
    tangent = fit.model.blueprint.design.readings()[0].tangents[:, 0]
    np.testing.assert_allclose(tangent * income, 1.0, atol=1e-5)


def test_derivative_with_an_outlier() -> None:
    rng = np.random.default_rng(1)
    a, x = rng.normal(size=(2, 2000))
    frame = pd.DataFrame({"a": a, "x": x, "y": np.sin(a) + x + 0.1 * rng.normal(size=2000)})
    frame.loc[0, "a"] = 1e6
    fit = riesz.ade("y ~ {np.sin(treat(a))} + x", frame, folds=1, learner=riesz.Linear(0, 0))
    assert abs(fit.params["ADE"] - np.exp(-0.5)) < 0.03
