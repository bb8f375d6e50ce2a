"""Sensitivity to unobserved confounding: formulas by hand, robustness values by bisection, and an independent package."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from known import Known
from scipy import stats
from scipy.special import expit

import riesz

FORMULA = "y ~ treat(a) * (x1 + x2)"


def draw(n: int, seed: int) -> tuple[pd.DataFrame, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Data, mu(0) and mu(1), and a propensity; all a little wrong, as learned ones are."""
    rng = np.random.default_rng(seed)
    x1, x2 = rng.normal(size=(2, n))
    p = 0.1 + 0.8 * expit(x1)
    a = (rng.uniform(size=n) < p).astype(float)
    low = x1 + x2
    high = low + 1 + 0.5 * x1
    y = np.where(a == 1, high, low) + (rng.exponential(size=n) - 1) * (1 + a)
    frame = pd.DataFrame({"y": y, "a": a, "x1": x1, "x2": x2, "village": rng.integers(0, 50, n)})
    return frame, (low + 0.1 * x1, high - 0.1), np.clip(1.05 * p, 0.05, 0.95)


def by_hand(frame: pd.DataFrame, mu: tuple[np.ndarray, np.ndarray], p: np.ndarray, estimand: str) -> tuple:
    """Estimate and B with their influence functions, written out for a binary treatment."""
    a, y = frame["a"].to_numpy(), frame["y"].to_numpy()
    residual = y - np.where(a == 1, mu[1], mu[0])
    if estimand == "ATE":
        n, rr, m_mu, m_rr = np.ones_like(p), a / p - (1 - a) / (1 - p), mu[1] - mu[0], 1 / p + 1 / (1 - p)
    else:
        n, rr, m_mu, m_rr = a, a - (1 - a) * p / (1 - p), a * (mu[1] - mu[0]), a / (1 - p)
    share = n.mean()
    theta = (m_mu + rr * residual).mean() / share
    phi = (m_mu + rr * residual - theta * n) / share
    sigma2, nu2 = (residual**2).mean(), (2 * m_rr - rr**2).mean() / share**2
    b = np.sqrt(sigma2 * nu2)
    # delta method on log B = (log sigma2 + log E[2 m - rr^2]) / 2 - log share
    raw = 2 * m_rr - rr**2
    pull = b * ((residual**2 / sigma2 - 1) / 2 + (raw / raw.mean() - 1) / 2 - (n / share - 1))
    return theta, phi, b, pull


@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
def test_against_a_computation_by_hand(estimand: str) -> None:
    frame, mu, p = draw(500, seed=1)
    verb = {"ATE": riesz.ate, "ATT": riesz.att}[estimand]
    fit = verb(FORMULA, frame, learner=Known(mu, p, estimand), folds=1)
    theta, phi, b, pull = by_hand(frame, mu, p, estimand)
    cf_y, cf_d, rho, level, n = 0.07, 0.04, -0.6, 0.9, len(frame)
    s = 0.6 * np.sqrt(cf_y * cf_d / (1 - cf_d))
    z = stats.norm.ppf(level) / np.sqrt(n - 1)
    row = fit.sensitivity(cf_y, cf_d, rho, level).table.loc[estimand]
    np.testing.assert_allclose(row["estimate"], theta, rtol=1e-12)
    np.testing.assert_allclose(row["lower"], theta - s * b, rtol=1e-12)
    np.testing.assert_allclose(row["upper"], theta + s * b, rtol=1e-12)
    np.testing.assert_allclose(row["conf_low"], theta - s * b - z * (phi - s * pull).std(), rtol=1e-10)
    np.testing.assert_allclose(row["conf_high"], theta + s * b + z * (phi + s * pull).std(), rtol=1e-10)


@pytest.mark.parametrize("null", [0.0, 0.4, 3.0])
@pytest.mark.parametrize("rho", [1.0, 0.5])
@pytest.mark.parametrize("repeats", [1, 3])
def test_robustness_values_by_bisection(null: float, rho: float, repeats: int) -> None:
    frame = draw(400, seed=2)[0]
    found = riesz.att(FORMULA, frame, repeats=repeats).sensitivity(rho=rho, null=null)
    row = found.table.loc["ATT"]
    below = null < row["estimate"]
    for name, bound in (
        ("rv", "lower" if below else "upper"),
        ("rva", "conf_low" if below else "conf_high"),
    ):
        low, high = 0.0, 1 - 1e-12
        for _ in range(60):
            middle = (low + high) / 2
            reached = (found.at(middle, middle).table.loc["ATT", bound] > null) != below
            low, high = (low, middle) if reached else (middle, high)
        np.testing.assert_allclose(row[name], low, atol=1e-9)
    assert row["rva"] < row["rv"]


def test_a_null_inside_the_confidence_interval() -> None:
    fit = riesz.ate(FORMULA, draw(400, seed=2)[0])
    near = fit.params["ATE"] - 0.5 * fit.bse["ATE"]
    found = fit.sensitivity(null=near)
    assert found.table.loc["ATE", "rva"] == 0 < found.table.loc["ATE", "rv"]
    assert "without any confounder" in str(found)
    assert fit.sensitivity(rho=0.0).table.loc["ATE", "rv"] == 1


def test_without_a_confounder_it_is_the_estimate() -> None:
    """At strength zero: the estimate and its one-sided confidence bounds, with weights, clusters and repeats alike."""
    frame = draw(400, seed=3)[0].assign(w=np.random.default_rng(0).uniform(0.5, 2, 400))
    fit = riesz.estimate(FORMULA, frame, [riesz.ATE(), riesz.ATT()], cluster="village", weights="w", repeats=3)
    table = fit.sensitivity(0.0, 0.0).table
    half = stats.norm.ppf(0.95) * fit.bse
    np.testing.assert_allclose(table["estimate"], fit.params, rtol=1e-12)
    np.testing.assert_allclose(table["lower"], fit.params, rtol=1e-12)
    np.testing.assert_allclose(table["conf_low"], fit.params - half, rtol=1e-10)
    np.testing.assert_allclose(table["conf_high"], fit.params + half, rtol=1e-10)


def test_every_kind_of_estimand(continuous_frame: pd.DataFrame, arms_frame: pd.DataFrame) -> None:
    for fit in (
        riesz.ade("y ~ treat(d) * (x1 + g)", continuous_frame),
        riesz.shift("y ~ treat(d) * (x1 + g)", continuous_frame, delta=[0.1, 0.5]),
        riesz.ate("y ~ treat(arm) * x1", arms_frame),
        riesz.mean("y ~ treat(arm) * x1", arms_frame, at="low", estimator="tmle"),
    ):
        table = fit.sensitivity().table
        assert (table["conf_low"] < table["lower"]).all()
        assert (table["lower"] < table["estimate"]).all()
        assert table["rv"].between(0, 1).all()


def test_the_bound_is_sharp_for_the_confounder_left_out() -> None:
    """Least squares: leaving x2 out biases the short estimate by exactly rho sqrt(cf_y cf_d / (1 - cf_d)) B of the short fit."""
    rng = np.random.default_rng(4)
    n = 300
    x1, x2 = rng.normal(size=(2, n))
    d = x1 + x2 + rng.normal(size=n)
    frame = pd.DataFrame({"y": d + x1 + 0.7 * x2 + rng.normal(size=n), "d": d, "x1": x1, "x2": x2})
    options = {"learner": riesz.Linear(0, 0), "folds": 1}
    long = riesz.ade("y ~ treat(d) + x1 + x2", frame, **options)
    short = riesz.ade("y ~ treat(d) + x1", frame, **options)
    sigma2 = [float((fit.resid**2).mean()) for fit in (long, short)]
    nu2 = [float((fit.riesz_representer["ADE"] ** 2).mean()) for fit in (long, short)]
    gap = short.params["ADE"] - long.params["ADE"]
    rho = gap / np.sqrt((sigma2[1] - sigma2[0]) * (nu2[0] - nu2[1]))
    found = short.sensitivity(cf_y=1 - sigma2[0] / sigma2[1], cf_d=1 - nu2[1] / nu2[0], rho=rho)
    np.testing.assert_allclose(found.table.loc["ADE", "lower"], long.params["ADE"], rtol=1e-10)

    benchmark = long.sensitivity_benchmark("x2").loc[("x2", "ADE")]
    np.testing.assert_allclose(benchmark["cf_y"], sigma2[1] / sigma2[0] - 1, rtol=1e-8)
    np.testing.assert_allclose(benchmark["cf_d"], 1 - nu2[1] / nu2[0], rtol=1e-8)
    np.testing.assert_allclose(benchmark["rho"], rho, rtol=1e-8)
    np.testing.assert_allclose(benchmark["change"], gap, rtol=1e-8)
    at = long.sensitivity(benchmark["cf_y"], benchmark["cf_d"]).table.loc["ADE"]
    np.testing.assert_allclose(benchmark[["lower", "upper"]].astype(float), at[["lower", "upper"]].astype(float))


def test_benchmark_is_a_fit_without_the_columns() -> None:
    """Same rows and folds: the change is that of a fit by hand, for interactions, splines and factors too."""
    frame = draw(400, seed=5)[0].assign(g=lambda data: np.where(data["x2"] > 0, "u", "v"))
    full = "y ~ treat(a) * (bs(x1, df=4) + x2) + g"
    options = {"repeats": 2, "seed": 3, "learner": riesz.Linear(0.01, 0.01)}
    fit = riesz.estimate(full, frame, [riesz.ATE(), riesz.ATT()], **options)
    found = fit.sensitivity_benchmark("x1", ["x2", "g"])
    for group, formula in (("x1", "y ~ treat(a) * x2 + g"), ("x2, g", "y ~ treat(a) * bs(x1, df=4)")):
        short = riesz.estimate(formula, frame, [riesz.ATE(), riesz.ATT()], **options)
        change = (short._elements.value - fit._elements.value).mean(axis=0)
        np.testing.assert_allclose(found.loc[group, "change"], change, rtol=1e-8)
    noise = riesz.ate(FORMULA, frame.assign(x2=np.random.default_rng(0).normal(size=400))).sensitivity_benchmark("x2")
    assert noise["cf_y"].item() < 0.02
    assert noise["cf_d"].item() < 0.02


def test_contour() -> None:
    found = riesz.ate(FORMULA, draw(400, seed=6)[0]).sensitivity(cf_y=0.1, cf_d=0.1)
    grid = found.contour(upto=0.2, points=5)
    assert len(grid) == 25
    point = grid[np.isclose(grid["cf_y"], 0.1) & np.isclose(grid["cf_d"], 0.1)].iloc[0]
    for column in ("lower", "upper", "conf_low", "conf_high"):
        np.testing.assert_allclose(point[column], found.table.loc["ATE", column])
    assert grid.loc[0, "lower"] == found.table.loc["ATE", "estimate"]


def test_summary_in_words() -> None:
    found = riesz.ate(FORMULA, draw(400, seed=6)[0]).sensitivity()
    for text in (repr(found), found._repr_html_(), found.summary().as_latex()):
        assert "RVa" in text
    assert "could bring the estimate to 0" in repr(found)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fit: fit.sensitivity(cf_y=1.5), "cf_y=1.5: expected a share"),
        (lambda fit: fit.sensitivity(cf_d=1.0), "cf_d=1.0: expected a share"),
        (lambda fit: fit.sensitivity(rho=2), "rho=2: expected a correlation"),
        (lambda fit: fit.sensitivity(level=95), "level=95: expected a number between 0 and 1"),
        (lambda fit: fit.sensitivity(null={"ATT": 0}), "no value for `ATE`"),
        (lambda fit: fit.sensitivity().contour("ATT"), "expected one of 'ATE'"),
        (lambda fit: fit.sensitivity().contour(upto=1), "upto=1: expected a share"),
        (lambda fit: fit.sensitivity_benchmark(), "at least one covariate"),
        (lambda fit: fit.sensitivity_benchmark("x11"), "Did you mean `x1`"),
        (lambda fit: fit.sensitivity_benchmark("a"), "not a covariate of the formula"),
    ],
)
def test_bad_input(call, message: str) -> None:
    fit = riesz.ate(FORMULA, draw(200, seed=6)[0])
    with pytest.raises(riesz.RieszError, match=message):
        call(fit)


def test_an_analysis_that_is_impossible_raises_an_error() -> None:
    frame, mu, _ = draw(200, seed=7)
    with pytest.raises(riesz.RieszError, match="needs a debiased estimate"):
        riesz.ate(FORMULA, frame, estimator="direct").sensitivity()
    turned = np.where(frame["a"] == 1, 0.02, 0.98)  # a representer that is far too long
    with pytest.raises(riesz.RieszError, match="is not positive for ATE"):
        riesz.ate(FORMULA, frame, learner=Known(mu, turned), folds=1).sensitivity()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
def test_agrees_with_doubleml(estimand: str) -> None:
    """All figures to 1e-4 on the same nuisances.

    Two things are put right in DoubleML's own arrays first, both visible in a simulation of the bounds' standard deviation: its
    scaled score is minus the influence function (which exchanges the errors of the lower and the upper bound), and it takes the
    share of the treated in B as known.
    """
    doubleml = pytest.importorskip("doubleml")
    from doubleml.double_ml_framework import DoubleMLCore, DoubleMLFramework
    from doubleml.utils import DMLDummyClassifier, DMLDummyRegressor

    frame, mu, p = draw(4000, seed=8)
    model = doubleml.DoubleMLIRM(
        doubleml.DoubleMLData(frame[["y", "a", "x1", "x2"]], "y", "a"),
        DMLDummyRegressor(),
        DMLDummyClassifier(),
        score={"ATE": "ATE", "ATT": "ATTE"}[estimand],
    )
    given = {"ml_g0": mu[0][:, None], "ml_g1": mu[1][:, None], "ml_m": p[:, None]}
    model.fit(external_predictions={"a": given})
    verb = {"ATE": riesz.ate, "ATT": riesz.att}[estimand]
    fit = verb(FORMULA, frame, learner=Known(mu, p, estimand), folds=1)
    ours = fit.sensitivity(0.05, 0.04, null=0.3).table.loc[estimand]

    # estimate, bounds and RV as they are
    theirs = model.sensitivity_analysis(cf_y=0.05, cf_d=0.04, null_hypothesis=0.3).sensitivity_params
    np.testing.assert_allclose(ours["estimate"], model.coef[0], atol=1e-10)
    np.testing.assert_allclose(ours["lower"], theirs["theta"]["lower"][0], atol=1e-10)
    np.testing.assert_allclose(ours["upper"], theirs["theta"]["upper"][0], atol=1e-10)
    np.testing.assert_allclose(ours["rv"], theirs["rv"][0], atol=1e-4)
    if estimand == "ATE":  # the errors of the two bounds, exchanged
        z = stats.norm.ppf(0.95)
        np.testing.assert_allclose((ours["lower"] - ours["conf_low"]) / z, theirs["se"]["upper"][0], atol=1e-4)
        np.testing.assert_allclose((ours["conf_high"] - ours["upper"]) / z, theirs["se"]["lower"][0], atol=1e-4)

    # confidence bounds and RVa after the two corrections
    elements = dict(model.framework.sensitivity_elements)
    if estimand == "ATT":
        share = frame["a"].to_numpy()[:, None, None] / frame["a"].mean()
        elements["psi_max_bias"] = elements["psi_max_bias"] - elements["max_bias"] * (share - 1)
    core = DoubleMLCore(
        all_thetas=model.framework.all_thetas,
        all_ses=model.framework.all_ses,
        var_scaling_factors=np.array([float(len(frame))]),
        scaled_psi=-model.framework.scaled_psi,
        sensitivity_elements=elements,
    )
    right = DoubleMLFramework(core).sensitivity_analysis(0.05, 0.04, null_hypothesis=0.3).sensitivity_params
    np.testing.assert_allclose(ours["conf_low"], right["ci"]["lower"][0], atol=1e-4)
    np.testing.assert_allclose(ours["conf_high"], right["ci"]["upper"][0], atol=1e-4)
    np.testing.assert_allclose(ours["rva"], right["rva"][0], atol=1e-4)


def test_the_bounds_have_the_standard_errors_they_claim() -> None:
    """Over 300 draws the lower bound's standard deviation is its standard error; with the covariance's sign turned it is not."""
    s, level = np.sqrt(0.2 * 0.2 / 0.8), 0.95
    lower, error, wrong = [], [], []
    for seed in range(300):
        frame, mu, p = draw(300, seed=100 + seed)
        row = riesz.att(FORMULA, frame, learner=Known(mu, p, "ATT"), folds=1).sensitivity(0.2, 0.2, level=level).table
        _, phi, _, pull = by_hand(frame, mu, p, "ATT")
        lower.append(row["lower"].item())
        error.append((row["lower"].item() - row["conf_low"].item()) / stats.norm.ppf(level))
        wrong.append((phi + s * pull).std() / np.sqrt(len(frame)))
    spread = np.std(lower)
    assert abs(np.mean(error) / spread - 1) < 0.1
    assert abs(np.mean(wrong) / spread - 1) > 0.2


def test_a_benchmark_of_no_strength_bounds_nothing() -> None:
    """Below zero a strength is noise: rho and bounds are then not known, but the change is."""
    frame = draw(300, seed=9)[0]
    noise = np.random.default_rng(3).normal(size=(300, 8))
    frame = frame.assign(**{f"n{k}": column for k, column in enumerate(noise.T)})
    fit = riesz.ate(f"{FORMULA} + {' + '.join(f'n{k}' for k in range(8))}", frame, learner=riesz.Linear(0, 0))
    found = fit.sensitivity_benchmark("x1", [f"n{k}" for k in range(8)])
    clear, weak = (row for _, row in found.iterrows())
    assert clear.notna().all()
    assert weak["cf_y"] == 0
    assert weak[["rho", "lower", "upper"]].isna().all()
    assert np.isfinite(weak["change"])
    fit.sensitivity().plot(benchmarks=found)
