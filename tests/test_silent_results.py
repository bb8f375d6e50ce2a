"""Results that were wrong, or ended in a raw error, without a word."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from patsy import DesignInfo

import riesz
from riesz.results.restrictions import read_restrictions


@pytest.fixture(scope="module")
def fit(binary_frame: pd.DataFrame) -> riesz.Results:
    asked = {"ATE": riesz.ATE(), "ATT": riesz.ATT(), "level: one": riesz.Mean(1), "ATC": riesz.ATC()}
    return riesz.estimate("y ~ treat(a) * (x1 + x2)", binary_frame, asked)


@pytest.mark.parametrize(
    "hypothesis",
    [
        "ATE = ATT = ATC",
        "ATE = 0 = ATT",
        "ATE = ATT, ATC = ATT = 1",
        "2 * ATE = ATT = 3 * ATC - 1",
        "ATE = ATT = ATC = 1, ATE",
        "ATE = -1",
        "-(ATE + ATT) / 2 = ATC",
        "2 * -ATE = 1",
        "1.5 = ATE",
        "ATE",
    ],
)
def test_hypotheses_are_read_as_in_patsy(hypothesis: str) -> None:
    """A chain A = B = C is two restrictions (it was A - B + C = 0)."""
    names = ["ATE", "ATT", "ATC"]
    known = DesignInfo(names).linear_constraint(hypothesis)
    r, q = read_restrictions(hypothesis, names)
    np.testing.assert_array_equal(r, known.coefs)
    np.testing.assert_array_equal(q, known.constants.ravel())


def test_a_chain_is_tested_as_in_statsmodels() -> None:
    """The same estimates and covariance: a fit of arm means equals least squares on indicators."""
    rng = np.random.default_rng(0)
    arm = rng.integers(0, 3, 300)
    data = pd.DataFrame({"y": rng.normal(size=300) + 0.3 * arm, "arm": [f"m{k}" for k in arm]})
    fit = riesz.mean("y ~ treat(arm)", data, at=["m0", "m1", "m2"], learner=riesz.Linear(0, 0), folds=1)
    names = ["mean_m0", "mean_m1", "mean_m2"]
    assert list(fit.params.index) == names
    dummies = pd.get_dummies(data["arm"]).astype(float).set_axis(names, axis=1)
    ols = sm.OLS(data["y"], dummies).fit(cov_type="HC0", use_t=False)
    ols_covariance = fit.cov_params().to_numpy()
    np.testing.assert_allclose(fit.params, ols.params, rtol=1e-10)
    for chain in ("mean_m0 = mean_m1 = mean_m2", "mean_m0 = 0 = mean_m1", "mean_m0 = mean_m1 = mean_m2 = 0.1"):
        wald = ols.wald_test(chain, cov_p=ols_covariance, use_f=False, scalar=True)
        mine = fit.wald_test(chain)
        np.testing.assert_allclose(float(mine.statistic), float(wald.statistic), rtol=1e-8)
        np.testing.assert_allclose(float(mine.pvalue), float(wald.pvalue), rtol=1e-8)
        assert mine.df_denom == len(DesignInfo(names).linear_constraint(chain).coefs)
        t = ols.t_test(chain, cov_p=ols_covariance)
        np.testing.assert_allclose(fit.t_test(chain).effect, t.effect, rtol=1e-10)
        np.testing.assert_allclose(fit.t_test(chain).pvalue, t.pvalue, rtol=1e-8)


def test_other_ways_to_write_a_hypothesis(fit: riesz.Results) -> None:
    text = fit.wald_test("ATE = `level: one` = 1")
    assert text.df_denom == 2
    for same in (
        ["ATE = `level: one`", "`level: one` = 1"],
        ("ATE = `level: one`", "`level: one` = 1"),
        {"ATE - `level: one`": 0, "`level: one`": 1},
        ([[1, 0, -1, 0], [0, 0, 1, 0]], [0, 1]),
        (np.array([[1, 0, -1, 0], [0, 0, 1, 0]]), np.array([[0], [1]])),
    ):
        np.testing.assert_allclose(fit.wald_test(same).statistic, text.statistic, rtol=1e-12)
    by_frame = fit.wald_test(pd.DataFrame([[1, 0, -1, 0], [0, 0, 1, 0]]))
    np.testing.assert_allclose(by_frame.statistic, fit.wald_test("ATE = `level: one`, `level: one`").statistic)


@pytest.mark.parametrize(
    ("hypothesis", "words"),
    [
        ("ATE == 1", "a single ="),
        ("ATE > 1", "a single ="),
        ("ATE = ", "cannot be read"),
        ("", "cannot be read"),
        ("ATE = ATE", "holds no parameter, or the same ones on both sides"),
        ("ATE = 1 = 2", "holds no parameter"),
        ("ATE * ATT = 1", "not linear"),
        ("1 / ATE = 1", "not linear"),
        ("ATE / 0 = 1", "divides by zero"),
        ("ATE = 1e999", "too large"),
        (f"ATE = 1{'0' * 400}", "too large"),
        ("exp(ATE) = 1", "not linear arithmetic"),
        ("ATEE = 1", "no parameter `ATEE`. Did you mean `ATE`?"),
        ({"ATE = ATT": 1}, "has no ="),
        ({"ATE": "one"}, "expected a number"),
        ([], "cannot be read"),
        ({}, "is empty"),
        (None, "cannot be read"),
        ([1, 2], "one column for each of 4 parameters"),
        ([np.nan, 0, 0, 1], "missing or infinite"),
        ([[0, 0, 0, 0]], "restricts no parameter"),
        (([1, 0, 0, 0], [1, 2]), "cannot be read"),
    ],
)
def test_a_hypothesis_that_cannot_be_read_says_why(fit: riesz.Results, hypothesis: object, words: str) -> None:
    for test in (fit.t_test, fit.wald_test):
        with pytest.raises(riesz.RieszError) as caught:
            test(hypothesis)
        assert words in str(caught.value)


def test_contradictory_restrictions_are_refused(fit: riesz.Results) -> None:
    with pytest.raises(riesz.RieszError, match="contradict each other"):
        fit.wald_test("ATE = 0, ATE = 1")
    assert len(fit.t_test("ATE = 0, ATE = 1").effect) == 2  # one by one they are fine


def test_parameters_that_are_the_same_have_no_difference_to_test(binary_frame: pd.DataFrame) -> None:
    same = riesz.estimate("y ~ treat(a) * x1", binary_frame, {"one": riesz.ATE(), "two": riesz.ATE()})
    test = same.t_test("one = two")
    assert test.effect[0] == 0
    assert test.sd.ravel()[0] < 1e-9
