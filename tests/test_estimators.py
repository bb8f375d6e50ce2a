"""Requirements for every registered estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.estimators import ESTIMATORS, describe

FORMULA = "y ~ treat(a) * x1 + x2"
SEVERAL = [riesz.ATE(), riesz.Mean([0, 1])]


@pytest.fixture(scope="module")
def fit(binary_frame: pd.DataFrame) -> riesz.Results:
    return riesz.estimate(FORMULA, binary_frame, SEVERAL, learner="linear", weights="w", folds=2)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_scores_are_finite_with_one_per_row(fit: riesz.Results, name: str) -> None:
    scores = ESTIMATORS[name](fit.predictions, fit.model.blueprint.design)
    for part in (scores.values, scores.residuals):
        assert part.shape == (3, len(fit.fittedvalues))
        assert np.isfinite(part).all()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_can_be_chosen_by_name(binary_frame: pd.DataFrame, fit: riesz.Results, name: str) -> None:
    chosen = riesz.estimate(FORMULA, binary_frame, SEVERAL, learner="linear", weights="w", folds=2, estimator=name)
    assert describe(name) in str(chosen.summary())
    np.testing.assert_array_equal(chosen.params, fit.estimates.xs(name, level="estimator")["estimate"])
    assert (chosen.bse > 0).all() if ESTIMATORS[name].debiased else chosen.bse.isna().all()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_units_of_the_outcome(binary_frame: pd.DataFrame, name: str) -> None:
    one, two = (
        riesz.estimate(
            FORMULA, binary_frame.assign(y=unit * binary_frame["y"]), SEVERAL, learner="linear", estimator=name
        )
        for unit in (1.0, 1000.0)
    )
    np.testing.assert_allclose(two.params, 1000 * one.params, rtol=1e-6)
    np.testing.assert_allclose(two.bse, 1000 * one.bse, rtol=1e-6)


def test_a_learner_of_mu_alone_has_the_estimators_without_representer(binary_frame: pd.DataFrame) -> None:
    fit = riesz.ate(FORMULA, binary_frame, learner="kernel_embedding", folds=2)
    shown = fit.estimates.index.get_level_values("estimator").tolist()
    assert shown == [name for name, estimator in ESTIMATORS.items() if not estimator.needs_rr]
