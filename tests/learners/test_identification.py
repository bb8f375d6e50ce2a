"""Designs that do not identify the effect, and collinear ones that do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz


@pytest.fixture(scope="module")
def data(confounded_frame: pd.DataFrame) -> pd.DataFrame:
    return confounded_frame


def test_a_copy_of_the_treatment_among_the_covariates(data: pd.DataFrame) -> None:
    for copy in (data["t"], np.where(data["t"] == 1, "T", "C"), 3 - 2 * data["t"]):
        with pytest.raises(riesz.LearnerError, match=r"not identified.*repeats the treatment"):
            riesz.ate("y ~ treat(t) + .", data.assign(copy=copy))


def test_a_cell_without_treated_rows(data: pd.DataFrame) -> None:
    hole = data[~((data["g"] == "d") & (data["t"] == 1))]
    with pytest.raises(riesz.LearnerError, match=r"t:g\[T.d\].*no rows in one of the arms"):
        riesz.ate("y ~ treat(t) * (x + g)", hole)
    assert np.isfinite(riesz.ate("y ~ treat(t) * x + g", hole).bse).all()


def test_harmless_collinearity_changes_nothing(data: pd.DataFrame) -> None:
    options = {"learner": riesz.Linear(0, 0), "folds": np.arange(len(data)) % 5}
    plain = riesz.ate("y ~ treat(t) * x + g", data, **options)
    twice = riesz.ate("y ~ treat(t) * x + g + z + one", data.assign(z=2 * data["x"] - 3, one=1.0), **options)
    np.testing.assert_allclose(twice.params, plain.params, rtol=1e-8)
    np.testing.assert_allclose(twice.bse, plain.bse, rtol=1e-8)


def test_the_logit_penalty_is_the_given_one(data: pd.DataFrame) -> None:
    frame = data.assign(y=(data["y"] > 0).astype(float))
    fit = riesz.ate("y ~ treat(t) * x", frame, family="binomial", learner=riesz.Linear(0.1, 0.1))
    np.testing.assert_allclose(fit.details()["penalty"], 0.1, rtol=1e-6)
