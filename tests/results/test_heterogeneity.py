"""Group effects, projections and joint intervals, against statsmodels on the pseudo-outcome and by simulation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import riesz
from riesz.estimators import ESTIMATORS, Scores
from riesz.inference import Projection, Weights, covariance, joint_critical_value, project

FORMULA = "y ~ treat(a) * (x1 + x2)"


@pytest.fixture(scope="module")
def fit(binary_frame: pd.DataFrame) -> riesz.Results:
    return riesz.ate(FORMULA, binary_frame)


def pseudo_outcome(fit: riesz.Results) -> np.ndarray:
    return ESTIMATORS[fit.model.settings.estimator](fit.predictions, fit.model.blueprint.design).values[0]


def robust(y: np.ndarray, x: np.ndarray, weights: np.ndarray | None = None, clusters: np.ndarray | None = None):
    """statsmodels' estimates and standard errors, with our G / (G - 1)."""
    model = sm.WLS(y, x, weights=np.ones(len(y)) if weights is None else weights)
    if clusters is None:
        made, count = model.fit(cov_type="HC0"), len(y)
    else:
        made = model.fit(cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False})
        count = len(np.unique(clusters))
    return made.params, made.cov_params() * count / (count - 1)


def test_groups_are_regressions_on_indicators(fit: riesz.Results, binary_frame: pd.DataFrame) -> None:
    effects = fit.by("g")  # not in the formula
    params, covariance = robust(pseudo_outcome(fit), pd.get_dummies(binary_frame["g"]).to_numpy(float))
    n, sizes = len(binary_frame), binary_frame["g"].value_counts().sort_index().to_numpy()
    covariance = covariance * (n - 1) / n * sizes / (sizes - 1)  # a group's factor counts its own rows
    assert effects.params.index.tolist() == ["ATE_u", "ATE_v", "ATE_w"]
    np.testing.assert_allclose(effects.params, params, rtol=1e-10)
    np.testing.assert_allclose(effects.cov_params(), covariance, rtol=1e-8, atol=1e-14)
    tidy = effects.tidy()
    assert tidy["group"].tolist() == ["u", "v", "w"]
    assert tidy["n"].tolist() == binary_frame["g"].value_counts().sort_index().tolist()
    test = effects.heterogeneity().loc["ATE"]
    gap = np.array([[1, -1, 0], [0, 1, -1]]) @ params
    middle = np.array([[1, -1, 0], [0, 1, -1]]) @ covariance @ np.array([[1, -1, 0], [0, 1, -1]]).T
    np.testing.assert_allclose(test["statistic"], gap @ np.linalg.solve(middle, gap))
    assert test["df"] == 2
    np.testing.assert_allclose(test["p_value"], stats.chi2.sf(test["statistic"], 2))
    text = str(effects)
    assert "ATE by g" in text
    assert "Same in all groups (ATE): chi2(2)" in text


def test_group_effects_average_to_the_effect_on_all(binary_frame: pd.DataFrame) -> None:
    """Weighted by each group's share of the normalizer, group effects give the parameter back, in every setting."""
    for options in ({}, {"weights": "w"}, {"cluster": "village"}, {"estimator": "tmle"}, {"target": "sample"}):
        fit = riesz.estimate(FORMULA, binary_frame, [riesz.ATE(), riesz.ATT()], **options)
        effects = fit.by("g")
        w = binary_frame["w"] if "weights" in options else pd.Series(1.0, index=binary_frame.index)
        for name, n in (("ATE", 1.0), ("ATT", binary_frame["a"])):
            share = (w * n).groupby(binary_frame["g"]).sum()
            share = share / share.sum()
            own = [f"{name}_{level}" for level in share.index]
            np.testing.assert_allclose(share.to_numpy() @ effects.params[own], fit.params[name], rtol=1e-10)
    one = riesz.ate(FORMULA, binary_frame, cluster="village")
    everyone = one.by(np.zeros(len(binary_frame)))
    np.testing.assert_allclose(everyone.bse, one.bse, rtol=1e-10)


def test_kinds_of_groups(fit: riesz.Results, binary_frame: pd.DataFrame) -> None:
    high = binary_frame["x1"] > 0
    assert fit.by(high).params.index.tolist() == ["ATE_False", "ATE_True"]
    np.testing.assert_allclose(fit.by(high.astype(float)).params, fit.by(high).params)
    assert fit.by(pd.qcut(binary_frame["x1"], 4)).params.shape == (4,)
    assert (
        fit.by(binary_frame["g"].astype("category").cat.reorder_categories(["w", "v", "u"])).params.index[0] == "ATE_w"
    )
    with pytest.raises(riesz.DataError, match="400 distinct numbers"):
        fit.by("x1")
    with pytest.raises(riesz.DataError, match="Did you mean `village`"):
        fit.by("vilage")
    missing = binary_frame["g"].where(binary_frame.index >= 10)
    effects = fit.by(missing)
    assert "10 rows have no g" in str(effects)
    assert effects.tidy()["n"].sum() == 390


def test_groups_without_treated_rows_are_left_out(binary_frame: pd.DataFrame) -> None:
    fit = riesz.att(FORMULA, binary_frame)
    label = np.where(binary_frame["a"] == 0, "never", "some")
    label[:50] = "some"
    with pytest.warns(riesz.RieszWarning, match="ATT is not estimated in `never`"):
        effects = fit.by(label)
    assert effects.params.index.tolist() == ["ATT_some"]


def test_projection_is_a_regression_of_the_pseudo_outcome(binary_frame: pd.DataFrame) -> None:
    x = sm.add_constant(binary_frame[["x1", "x2"]]).to_numpy()
    fit = riesz.ate(FORMULA, binary_frame)
    params, covariance = robust(pseudo_outcome(fit), x)
    projection = fit.blp("~ x1 + x2")
    np.testing.assert_allclose(projection.params, params, rtol=1e-9)
    np.testing.assert_allclose(projection.cov_params(), covariance, rtol=1e-7, atol=1e-14)
    assert projection.heterogeneity().loc["ATE", "df"] == 2

    fit = riesz.ate(FORMULA, binary_frame, weights="w", cluster="village")
    weights, clusters = binary_frame["w"].to_numpy(), binary_frame["village"].to_numpy()
    params, covariance = robust(pseudo_outcome(fit), x, weights, clusters)
    projection = fit.blp("~ x1 + x2")
    np.testing.assert_allclose(projection.params, params, rtol=1e-9)
    np.testing.assert_allclose(projection.cov_params(), covariance, rtol=1e-7, atol=1e-14)


def test_projection_of_a_ratio_solves_its_own_equation(binary_frame: pd.DataFrame) -> None:
    fit = riesz.estimate(FORMULA, binary_frame, [riesz.ATE(), riesz.ATT()])
    scores = ESTIMATORS["dr"](fit.predictions, fit.model.blueprint.design).values[1]
    b, n = sm.add_constant(binary_frame[["x1"]]).to_numpy(), binary_frame["a"].to_numpy()
    projection = fit.blp("~ x1")
    assert projection.params.index.tolist() == ["ATE_Intercept", "ATE_x1", "ATT_Intercept", "ATT_x1"]
    theta = projection.params[["ATT_Intercept", "ATT_x1"]].to_numpy()
    np.testing.assert_allclose(b.T @ (scores - n * (b @ theta)), 0, atol=1e-9)
    constant = fit.blp("~ 1")
    np.testing.assert_allclose(constant.params, fit.params, rtol=1e-10)
    np.testing.assert_allclose(constant.cov_params(), fit.cov_params(), rtol=1e-9)


def test_projection_recovers_the_slope_of_the_effect() -> None:
    """tau(x) = 1 + x1 in the design of the test data, with many more rows."""
    rng = np.random.default_rng(3)
    n = 5000
    x1 = rng.normal(size=n)
    a = (rng.uniform(size=n) < 1 / (1 + np.exp(-0.5 * x1))).astype(float)
    data = pd.DataFrame({"y": a * (1 + x1) + rng.normal(size=n), "a": a, "x1": x1})
    projection = riesz.ate("y ~ treat(a) * x1", data).blp("~ x1")
    assert (abs(projection.params - 1) < 4 * projection.bse).all()
    assert projection.bse.max() < 0.1
    assert projection.heterogeneity().loc["ATE", "p_value"] < 1e-10


def test_projection_formulas(fit: riesz.Results, binary_frame: pd.DataFrame) -> None:
    assert fit.blp("~ .").params.index.tolist() == ["Intercept", "x1", "x2"]
    assert len(fit.blp("bs(x2, df=4) + C(g)").params) == 7
    assert fit.blp("~ half(x1)", context={"half": lambda x: x / 2}).params.shape == (2,)
    with pytest.raises(riesz.FormulaError, match="right-hand side"):
        fit.blp("y ~ x1")
    with pytest.raises(riesz.FormulaError, match="not a column"):
        fit.blp("~ x9")
    with pytest.raises(riesz.DataError, match="collinear"):
        fit.blp("~ x1 + I(2 * x1)")
    assert fit.model.settings.estimator == "dr"
    direct = riesz.ate(FORMULA, binary_frame, estimator="direct").blp("~ x1")
    assert direct.bse.isna().all()
    assert direct.heterogeneity()["p_value"].isna().all()


def test_rows_with_missing_regressors_are_left_out(binary_frame: pd.DataFrame) -> None:
    holes = binary_frame.assign(z=binary_frame["x1"].where(binary_frame.index >= 40))
    fit = riesz.ate(FORMULA, holes)
    projection = fit.blp("~ z")
    params, _ = robust(pseudo_outcome(fit)[40:], sm.add_constant(holes["z"].to_numpy()[40:]))
    np.testing.assert_allclose(projection.params, params, rtol=1e-9)
    assert "40 rows with missing values" in str(projection)
    assert (fit.nobs, projection.nobs) == (400, 360)
    assert fit.by(holes["g"].where(holes.index >= 40)).nobs == 360


def test_joint_intervals(fit: riesz.Results) -> None:
    effects = fit.by("g")
    joint, each = effects.conf_int(joint=True), effects.conf_int()
    critical = ((joint[1] - joint[0]) / 2 / effects.bse).to_numpy()
    np.testing.assert_allclose(critical, critical[0])
    sidak = stats.norm.isf((1 - 0.95 ** (1 / 3)) / 2)  # groups are independent but for centring
    np.testing.assert_allclose(critical[0], sidak, atol=0.02)
    assert ((joint[1] - joint[0]) > (each[1] - each[0])).all()
    pd.testing.assert_frame_equal(joint, effects.conf_int(joint=True))
    pd.testing.assert_frame_equal(fit.conf_int(joint=True), fit.conf_int())  # one parameter
    np.testing.assert_allclose(effects.tidy(joint=True)["conf_low"], joint[0])


def test_joint_critical_value_of_known_matrices() -> None:
    np.testing.assert_allclose(joint_critical_value(np.ones((3, 3)), 0.05), stats.norm.isf(0.025))
    exact = stats.norm.isf((1 - 0.9 ** (1 / 4)) / 2)
    np.testing.assert_allclose(joint_critical_value(np.diag([1.0, 4.0, 9.0, 0.01]), 0.1), exact, atol=0.02)
    pair = np.array([[1.0, 0.8], [0.8, 1.0]])
    c = joint_critical_value(pair, 0.05)
    box = stats.multivariate_normal(cov=pair)
    inside = box.cdf([c, c]) - box.cdf([-c, c]) - box.cdf([c, -c]) + box.cdf([-c, -c])
    np.testing.assert_allclose(inside, 0.95, atol=0.002)
    assert np.isnan(joint_critical_value(np.full((2, 2), np.nan), 0.05))


def test_joint_intervals_cover_jointly() -> None:
    """Six group effects with unequal errors and clusters: all six inside at once in 93 to 97 of 100 samples."""
    rng = np.random.default_rng(11)
    n, draws, hits = 900, 800, 0
    clusters = (np.repeat(np.arange(n // 3), 3),)
    groups = np.tile(np.arange(6), n // 6)
    b = np.equal.outer(groups, np.arange(6)).astype(float)
    weights = Weights(np.ones(n), np.ones(n))
    for _ in range(draws):
        shared = np.repeat(rng.standard_normal(n // 3), 3)
        s = (groups + 1) * (shared + rng.standard_normal(n))[None]
        made = project(Scores(s, s), np.ones((1, n)), Projection([b]), weights, "population")
        matrix = covariance(made.variation, weights, clusters)
        t = np.abs(made.value) / np.sqrt(np.diag(matrix))
        hits += t.max() <= joint_critical_value(matrix, 0.05)
    assert 0.93 <= hits / draws <= 0.97
