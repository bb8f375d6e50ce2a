"""Cattaneo's birth-weight data, and what Stata 17's ``teffects`` makes of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.datasets import birthweight

OUTCOME = "bweight ~ treat(mbsmoke) * (prenatal1 + mmarried + mage + fbaby)"
OLS = riesz.Linear(penalty=0, rr_penalty=0)


@pytest.fixture(scope="module")
def births() -> pd.DataFrame:
    return riesz.datasets.load_birthweight()


def test_the_data_are_statas(births: pd.DataFrame) -> None:
    assert births.shape == (4642, 23)
    assert not births.isna().any().any()
    assert births["mbsmoke"].sum() == 864
    assert births["msmoke"].cat.categories.tolist() == ["0 daily", "1-5 daily", "6-10 daily", "11+ daily"]
    assert ((births["msmoke"] != "0 daily") == (births["mbsmoke"] == 1)).all()
    assert births["bweight"].mean() == pytest.approx(3361.680, abs=5e-4)


@pytest.mark.parametrize(("verb", "stata"), [("ate", -239.63921146), ("att", -223.30165084)])
def test_regression_adjustment_is_statas(births: pd.DataFrame, verb: str, stata: float) -> None:
    """``teffects ra (bweight prenatal1 mmarried mage fbaby) (mbsmoke)``."""
    fit = getattr(riesz, verb)(OUTCOME, births, learner=OLS, folds=1)
    assert fit.params.iloc[0] == pytest.approx(stata, abs=1e-8)


def test_means_at_levels_are_statas(births: pd.DataFrame) -> None:
    fit = riesz.mean(OUTCOME, births, at=0, learner=OLS, folds=1)
    assert fit.params.iloc[0] == pytest.approx(3403.24227194, abs=1e-7)


def test_doses_against_none_are_statas(births: pd.DataFrame) -> None:
    fit = riesz.ate(OUTCOME.replace("mbsmoke", "msmoke"), births, learner=OLS, folds=1)
    assert np.allclose(fit.params, [-181.288567, -263.262306, -236.148270], atol=5e-7)


def test_a_distribution_without_the_file_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(birthweight, "_PACKAGE", "statsmodels.treatment.nowhere")
    with pytest.raises(riesz.DataError, match=r"Install statsmodels 0\.14 or later from PyPI"):
        riesz.datasets.load_birthweight()
