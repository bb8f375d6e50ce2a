"""Levels of factors and fixed effects that no training fold has."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import riesz


@pytest.fixture(scope="module")
def data(curved_frame: pd.DataFrame) -> pd.DataFrame:
    return curved_frame


@pytest.fixture(scope="module")
def panel() -> pd.DataFrame:
    """120 people in 8 years; the person's effect moves treatment and outcome, the true slope is 0.083."""
    rng = np.random.default_rng(0)
    people, years = 120, 8
    nr, effect = np.repeat(np.arange(people), years), rng.normal(size=people)
    x, noise, error = rng.normal(size=(3, people * years))
    d = 0.8 * effect[nr] + 0.3 * x + noise
    return pd.DataFrame({"y": 0.083 * d + effect[nr] + 0.5 * x + 0.5 * error, "d": d, "x": x, "nr": nr})


@pytest.mark.parametrize("factor", ["C(nr)", "person"])
def test_fixed_effects_that_no_fold_trains(panel: pd.DataFrame, factor: str) -> None:
    data = panel.assign(person=panel["nr"].map("p{}".format))
    formula = f"y ~ treat(d) + x + {factor}"
    with pytest.raises(
        riesz.DataError, match=r"960 of 960 rows have a level of a factor .* never be trained"
    ) as caught:
        riesz.ade(formula, data, cluster="nr")
    assert "folds=1, learner=riesz.Linear(0, 0)" in str(caught.value)
    within = smf.ols("y ~ d + x + C(nr)", panel).fit().params["d"]
    assert abs(within - 0.083) < 0.03 < 0.4 < smf.ols("y ~ d + x", panel).fit().params["d"]
    fit = riesz.ade(formula, data, cluster="nr", folds=1, learner=riesz.Linear(0, 0))
    np.testing.assert_allclose(fit.params["ADE"], within, rtol=1e-6)


def test_other_ways_out_of_untrained_fixed_effects(panel: pd.DataFrame) -> None:
    """What the message says: subtract each unit's mean, or add the means of treatment and covariates."""
    means = panel.groupby("nr")[["y", "d", "x"]].transform("mean")
    demeaned = riesz.ade("y ~ treat(d) + x", panel.assign(**(panel[["y", "d", "x"]] - means)), cluster="nr")
    mundlak = riesz.ade("y ~ treat(d) + x + dm + xm", panel.assign(dm=means["d"], xm=means["x"]), cluster="nr")
    for fit in (demeaned, mundlak):
        assert abs(fit.params["ADE"] - 0.083) < 2 * fit.bse["ADE"] < 0.05


def test_fixed_effects_that_every_fold_trains(panel: pd.DataFrame) -> None:
    fit = riesz.ade("y ~ treat(d) + x + C(nr)", panel, learner=riesz.Linear(0, 0))
    assert abs(fit.params["ADE"] - 0.083) < 2.5 * fit.bse["ADE"]


def test_a_few_untrained_rows_are_a_warning(data: pd.DataFrame) -> None:
    folds, rows = np.arange(600) // 120, np.arange(600)
    for level, named in (("z", r"`g\[T.z\]`"), ("A", "`the reference level of g`")):
        rare = data.assign(g=data["b"].astype(str).where(rows >= 5, level))
        with pytest.warns(riesz.RieszWarning, match=rf"5 of 600 rows have a level \({named}\)"):
            riesz.ate("y ~ treat(a) + x1 + g", rare, folds=folds)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            riesz.ate("y ~ treat(a) + x1 + g", rare, folds=1, learner=riesz.Linear(0, 0))
            riesz.ate("y ~ treat(a) + x1 + g", rare.assign(g=rare["g"].where(rows > 2, "True")), folds=folds)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        riesz.ate("y ~ treat(a) + x1 + C(k) + b", data)


def test_untrained_levels_of_given_folds(data: pd.DataFrame) -> None:
    with pytest.raises(riesz.DataError, match="no row outside their fold has"):
        riesz.ate("y ~ treat(a) + C(k)", data, folds="k")
