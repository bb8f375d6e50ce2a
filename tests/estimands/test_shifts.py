"""Shifts and modified policies: amounts that average zero, their anchors, and missing or short arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import riesz


@pytest.fixture(scope="module")
def data(curved_frame: pd.DataFrame) -> pd.DataFrame:
    return curved_frame


def test_shift_whose_amounts_average_zero(data: pd.DataFrame) -> None:
    """E[delta(X) (1 + .6 (d - 1) + ...)]: with delta = +-.2 by the sign of x1 the slope in d meets x1 there."""
    formula, delta = "y ~ treat(d) + {treat(d) ** 2} + treat(d):x1 + x1 + C(k)", "where(x1 > 0, .2, -.2)"
    fit = riesz.shift(formula, data, delta=delta)
    move = np.where(data["x1"] > 0, 0.2, -0.2)
    truth = float(np.mean(move + 0.3 * ((data["d"] + move - 1) ** 2 - (data["d"] - 1) ** 2)))
    assert abs(fit.params["shift"] - truth) < 3 * fit.bse["shift"]
    anchor = move * (data["d"] - data["d"].mean())
    np.testing.assert_allclose(fit.anchor["shift"], anchor, rtol=1e-12)
    design = fit.model.blueprint.design
    np.testing.assert_allclose(design.apply(design.anchor).mean(), 0.04, rtol=1e-8)  # h = E[delta^2]
    assert len(fit.predict(data.iloc[:20])) == 20


@pytest.mark.parametrize("kind", ["array", "function", "other column", "treatment"])
def test_other_amounts_that_average_zero(data: pd.DataFrame, kind: str) -> None:
    move = np.where(data["x1"] > data["x1"].median(), 0.2, -0.2)
    wide = data.assign(move=move)
    delta: Any = {
        "array": move,
        "function": lambda frame: np.where(frame["x1"] > data["x1"].median(), 0.2, -0.2),
        "other column": "move",
        "treatment": "where(d > 1, -.2, .2) + 0 * x1",
    }[kind]
    formula = "y ~ treat(d) + {treat(d) ** 2} + treat(d):x1 + x1 + C(k)"
    fit = riesz.shift(formula, wide, delta=delta, learner=riesz.Linear(0, 0), folds=1)
    moved = np.where(data["d"] > 1, -0.2, 0.2) if kind == "treatment" else move
    design = np.column_stack(
        [np.ones(600), data["d"], data["d"] ** 2, data["d"] * data["x1"], data["x1"], pd.get_dummies(data["k"])]
    )
    coefficients = np.linalg.lstsq(design.astype(float), data["y"], rcond=None)[0]
    there = design.copy().astype(float)
    there[:, 1:4] = np.column_stack([data["d"] + moved, (data["d"] + moved) ** 2, (data["d"] + moved) * data["x1"]])
    np.testing.assert_allclose(fit.params["shift"], ((there - design) @ coefficients).mean(), rtol=1e-6)
    if kind == "function":
        assert len(fit.predict(wide.iloc[:50])) == 50


def test_constant_amounts_keep_their_anchor(data: pd.DataFrame) -> None:
    for delta in (0.5, "0.5", np.full(600, 0.5), lambda frame: 0.5):
        fit = riesz.shift("y ~ treat(d) * x1", data, delta=delta)
        np.testing.assert_array_equal(fit.anchor["shift"], data["d"] - data["d"].mean())


def test_advice_on_anchors_can_be_followed(data: pd.DataFrame) -> None:
    noise = np.random.default_rng(1).permutation(np.repeat([-0.2, 0.2], 300))
    with pytest.raises(
        riesz.EstimandError, match=r"not differ significantly from zero.*riesz\.CustomMoment\(..., anchor=...\)"
    ):
        riesz.shift("y ~ treat(d) + x1", data, delta=noise)


def test_arrays_of_a_few_numbers_were_meant_as_a_list(data: pd.DataFrame) -> None:
    with pytest.raises(
        riesz.EstimandError, match=r"delta is an array of 5 values, but the data have 600 rows.*delta=list\("
    ):
        riesz.shift("y ~ treat(d) + x1", data, delta=np.linspace(0.1, 0.5, 5))
    fit = riesz.shift("y ~ treat(d) + x1", data, delta=list(np.linspace(0.1, 0.5, 5)))
    assert fit.params.index.tolist() == ["shift_0.1", "shift_0.2", "shift_0.3", "shift_0.4", "shift_0.5"]
    with pytest.raises(riesz.EstimandError, match=r"at is an array of 2 values.*at=list\("):
        riesz.mean("y ~ treat(a) + x1", data, at=np.array([0, 1]))
    with pytest.raises(riesz.EstimandError, match="wrong length"):
        riesz.shift("y ~ treat(d) + x1", data, delta=np.ones(599))


@pytest.mark.parametrize("treatment", ["a", "d", "arm"])
def test_mean_at_none(data: pd.DataFrame, treatment: str) -> None:
    arms = data.assign(arm=np.where(data["k"] > 1, "high", "low"))
    with pytest.raises(riesz.EstimandError, match=r"at is missing|at='None'"):
        riesz.mean(f"y ~ treat({treatment}) + x1", arms, at=None)
    with pytest.raises(riesz.EstimandError, match="delta is missing"):
        riesz.shift("y ~ treat(d) + x1", data, delta=[0.1, None])
