"""Agreement with independent references, each computed here from its own definition."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import optimize
from scipy.special import expit, logit

import riesz

PLAIN = riesz.Linear(0, 0)


@pytest.fixture(scope="module")
def cells() -> pd.DataFrame:
    """A saturated discrete design: six cells of unequal size."""
    rng = np.random.default_rng(3)
    g = rng.choice(["u", "v", "w"], 300, p=[0.5, 0.3, 0.2])
    p = pd.Series(g).map({"u": 0.3, "v": 0.5, "w": 0.7})
    a = (rng.uniform(size=300) < p).astype(float)
    y = 2 * a + (g == "v") * (1 + a) + rng.normal(size=300) * (1 + a)
    return pd.DataFrame({"y": y, "a": a, "g": g, "w": rng.uniform(0.2, 3, 300), "id": rng.integers(0, 30, 300)})


def by_hand(data: pd.DataFrame, estimand: str, w: np.ndarray) -> tuple[float, np.ndarray]:
    """Estimate and influence function from weighted cell means and cell shares alone."""
    y, a, g = data["y"].to_numpy(), data["a"].to_numpy(), data["g"].to_numpy()
    mu1, mu0, p = np.zeros((3, len(data)))
    for level in np.unique(g):
        here = g == level
        mu1[here] = np.average(y[here & (a == 1)], weights=w[here & (a == 1)])
        mu0[here] = np.average(y[here & (a == 0)], weights=w[here & (a == 0)])
        p[here] = np.average(a[here], weights=w[here])
    mu = np.where(a == 1, mu1, mu0)
    part, norm = {
        "ate": (mu1 - mu0 + (a / p - (1 - a) / (1 - p)) * (y - mu), np.ones(len(y))),
        "att": (a * (mu1 - mu0) + (a - (1 - a) * p / (1 - p)) * (y - mu), a),
        "atc": ((1 - a) * (mu1 - mu0) + (a * (1 - p) / p - (1 - a)) * (y - mu), 1 - a),
        "mean": (mu1 + a / p * (y - mu), np.ones(len(y))),
    }[estimand]
    psi = np.average(part, weights=w) / np.average(norm, weights=w)
    return psi, (part - psi * norm) / np.average(norm, weights=w)


@pytest.mark.parametrize("estimand", ["ate", "att", "atc", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_saturated_design(cells: pd.DataFrame, estimand: str, weighted: bool) -> None:
    """Everything has a closed form: estimates, influence functions and standard errors to 1e-8."""
    w = cells["w"].to_numpy() if weighted else np.ones(len(cells))
    psi, influence = by_hand(cells, estimand, w)
    extra = {"at": 1} if estimand == "mean" else {}
    fit = getattr(riesz, estimand)(
        "y ~ treat(a) * g", cells, learner=PLAIN, folds=1, weights="w" if weighted else None, **extra
    )
    n = len(cells)
    error = np.sqrt(n / (n - 1) * (w**2 * influence**2).sum()) / w.sum()
    np.testing.assert_allclose(fit.params.iloc[0], psi, rtol=1e-8)
    np.testing.assert_allclose(fit.influence.iloc[:, 0], influence, atol=1e-8)
    np.testing.assert_allclose(fit.bse.iloc[0], error, rtol=1e-8)
    clustered = fit.with_cov(cluster="id")
    sums = pd.Series(w * influence).groupby(cells["id"].to_numpy()).sum()
    g = len(sums)
    np.testing.assert_allclose(clustered.bse.iloc[0], np.sqrt(g / (g - 1) * (sums**2).sum()) / w.sum(), rtol=1e-8)


def test_saturated_design_frequency_weights(cells: pd.DataFrame) -> None:
    counts = np.random.default_rng(0).integers(1, 4, len(cells))
    long = cells.loc[cells.index.repeat(counts)]
    psi, influence = by_hand(long.reset_index(drop=True), "att", np.ones(len(long)))
    fit = riesz.att("y ~ treat(a) * g", cells, learner=PLAIN, folds=1, freq_weights=counts)
    n = len(long)
    np.testing.assert_allclose(fit.params.iloc[0], psi, rtol=1e-8)
    np.testing.assert_allclose(fit.bse.iloc[0], np.sqrt((influence**2).sum() / (n * (n - 1))), rtol=1e-8)


def test_saturated_design_binary_outcome(cells: pd.DataFrame) -> None:
    """With a saturated logit the one-step and the logistic TMLE are the cell means again."""
    data = cells.assign(y=(cells["y"] > 1).astype(float))
    psi, influence = by_hand(data, "ate", np.ones(len(data)))
    fit = riesz.ate("y ~ treat(a) * g", data, learner=PLAIN, folds=1, family="binomial")
    np.testing.assert_allclose(fit.estimates.loc["ATE", "estimate"].drop("ipw"), psi, rtol=1e-6)
    np.testing.assert_allclose(fit.influence.iloc[:, 0], influence, atol=1e-5)


def test_two_way_clusters(cells: pd.DataFrame) -> None:
    """V1 + V2 - V12, each with its own G / (G - 1)."""
    other = np.random.default_rng(5).integers(0, 25, len(cells))
    data = cells.assign(year=other)
    fit = riesz.ate("y ~ treat(a) * g", data, learner=PLAIN, folds=1)
    influence = fit.influence["ATE"]

    def variance(keys: list) -> float:
        sums = influence.groupby(keys).sum()
        return len(sums) / (len(sums) - 1) * (sums**2).sum() / len(data) ** 2

    one, two, both = variance([data["id"]]), variance([data["year"]]), variance([data["id"], data["year"]])
    np.testing.assert_allclose(fit.with_cov(cluster=["id", "year"]).bse.iloc[0], np.sqrt(one + two - both), rtol=1e-10)


def test_two_way_clusters_of_dependent_parameters(continuous_frame: pd.DataFrame) -> None:
    """Twice the shift has twice the effect in a linear formula: an eigenvalue of zero, which should not give a warning."""
    for seed in range(3):
        village, year = np.random.default_rng(seed).integers(0, 30, (2, len(continuous_frame)))
        data = continuous_frame.assign(village=village, year=year)
        fit = riesz.shift("y ~ treat(d) + x1", data, delta=[0.1, 0.2, 0.3], folds=2, cluster=["village", "year"])
        np.testing.assert_allclose(fit.bse / fit.bse.iloc[0], [1, 2, 3])


def test_lin_regression(binary_frame: pd.DataFrame) -> None:
    """The ATE of an interacted regression is OLS with centred interactions (Lin 2013)."""
    data = binary_frame.assign(c1=lambda d: d["x1"] - d["x1"].mean(), c2=lambda d: d["x2"] - d["x2"].mean())
    ols = smf.ols("y ~ a * (c1 + c2)", data).fit(cov_type="HC0")
    fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner=PLAIN, folds=1)
    np.testing.assert_allclose(fit.estimates["estimate"], ols.params["a"], rtol=1e-10)


def test_average_derivative_of_ols(continuous_frame: pd.DataFrame) -> None:
    """The ADE of a quadratic regression is the mean of its analytic derivative."""
    ols = smf.ols("y ~ d + I(d**2) + d:x1 + x1", continuous_frame).fit()
    b = ols.params
    slope = b["d"] + 2 * b["I(d ** 2)"] * continuous_frame["d"] + b["d:x1"] * continuous_frame["x1"]
    fit = riesz.ade("y ~ treat(d) + I(treat(d)**2) + treat(d):x1 + x1", continuous_frame, learner=PLAIN, folds=1)
    np.testing.assert_allclose(fit.estimates["estimate"], slope.mean(), rtol=1e-8)


def test_cross_fitting_by_hand(binary_frame: pd.DataFrame) -> None:
    """Five folds of least squares and Riesz regression written out with numpy alone."""
    data = binary_frame
    y, a, x1, x2 = (data[name].to_numpy() for name in ("y", "a", "x1", "x2"))
    folds = np.arange(len(data)) % 5

    def features(arm: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(y)), arm, x1, x2, arm * x1])

    z, z1, z0 = features(a), features(np.ones(len(y))), features(np.zeros(len(y)))
    mu, m, rr = np.zeros((3, len(y)))
    for fold in range(5):
        train, test = folds != fold, folds == fold
        theta = np.linalg.lstsq(z[train], y[train], rcond=None)[0]
        rho = np.linalg.solve(z[train].T @ z[train], (z1 - z0)[train].sum(axis=0))
        mu[test], m[test], rr[test] = z[test] @ theta, (z1 - z0)[test] @ theta, z[test] @ rho
    score = m + rr * (y - mu)
    learner = riesz.Linear(0, 0, rr="riesz")
    fit = riesz.ate("y ~ treat(a) * x1 + x2", data, learner=learner, folds=folds)
    np.testing.assert_allclose(fit.params["ATE"], score.mean(), rtol=1e-9)
    np.testing.assert_allclose(fit.bse["ATE"], score.std(ddof=1) / np.sqrt(len(y)), rtol=1e-9)
    np.testing.assert_allclose(fit.estimates.loc[("ATE", "direct"), "estimate"], m.mean(), rtol=1e-9)
    np.testing.assert_allclose(fit.estimates.loc[("ATE", "ipw"), "estimate"], (rr * y).mean(), rtol=1e-9)
    sample = riesz.ate("y ~ treat(a) * x1 + x2", data, learner=learner, folds=folds, target="sample")
    residual = rr * (y - mu)
    n = len(y)
    np.testing.assert_allclose(sample.bse["ATE"], np.sqrt((residual**2).sum() / (n * (n - 1))), rtol=1e-9)


def test_median_over_repeats_by_hand(binary_frame: pd.DataFrame) -> None:
    """Median estimate; median of squared error plus squared distance; correlation of averaged influence functions."""
    estimands = [riesz.ATE(), riesz.ATT()]
    fit = riesz.estimate("y ~ treat(a) * x1 + bs(x2, df=4)", binary_frame, estimands, repeats=3, seed=4)
    folds = fit._crossfit.folds
    single = [
        riesz.estimate("y ~ treat(a) * x1 + bs(x2, df=4)", binary_frame, estimands, folds=labels) for labels in folds
    ]
    values = np.array([one.params for one in single])
    errors = np.array([one.bse for one in single])
    middle = np.median(values, axis=0)
    variance = np.median(errors**2 + (values - middle) ** 2, axis=0)
    influence = np.mean([one.influence for one in single], axis=0)
    correlation = np.corrcoef(influence.T)[0, 1]
    np.testing.assert_allclose(fit.params, middle, rtol=1e-9)
    np.testing.assert_allclose(fit.bse, np.sqrt(variance), rtol=1e-9)
    np.testing.assert_allclose(fit.cov_params().iloc[0, 1], correlation * np.sqrt(variance.prod()), rtol=1e-4)
    assert not np.allclose(values[0], values[1])


@pytest.mark.parametrize("case", ["binomial", "bounds"])
def test_logistic_tmle(continuous_frame: pd.DataFrame, case: str) -> None:
    """The logistic submodel, solved with scipy and differentiated numerically."""
    data = continuous_frame
    if case == "binomial":
        data = data.assign(y=(data["y"] > 0).astype(float))
        options, low, high = {"family": "binomial"}, 0.0, 1.0
    else:
        low, high = data["y"].min() - 1, data["y"].max() + 1
        options = {"bounds": (low, high)}
    fit = riesz.ade("y ~ treat(d) * x1 + x2", data, folds=1, learner=riesz.Linear(0.01, 0.01), **options)
    p, design = fit.predictions, fit.model.blueprint.design
    y = (design.y - low) / (high - low)
    mu, rr = np.clip((p.mu.observed - low) / (high - low), 1e-3, 1 - 1e-3), p.rr.observed[0]
    slope, rr_slope = p.mu.slopes[0] / (high - low), p.rr.slopes[0]
    slope = np.where((mu > 1e-3) & (mu < 1 - 1e-3), slope, 0.0)  # where mu is held at its limits
    t = optimize.brentq(lambda t: (rr * (y - expit(logit(mu) + t * rr))).sum(), -5 / rr.max(), 5 / rr.max(), xtol=1e-14)
    h = 1e-6
    up, down = (expit(logit(mu + s * h * slope) + t * (rr + s * h * rr_slope)) for s in (1, -1))
    expected = (high - low) * ((up - down) / (2 * h)).mean()
    np.testing.assert_allclose(fit.estimates.loc[("ADE", "tmle"), "estimate"], expected, rtol=1e-7)


def test_bounds_of_a_mean_are_in_the_outcomes_units(binary_frame: pd.DataFrame) -> None:
    """A mean under an arm has h(1) = 1: the lower bound must be added back."""
    low, high = binary_frame["y"].min() - 2, binary_frame["y"].max() + 2
    fit = riesz.mean("y ~ treat(a) * x1 + x2", binary_frame, at=1, bounds=(low, high))
    values = fit.estimates["estimate"].unstack().iloc[0]
    assert abs(values["tmle"] - values["dr"]) < 0.5 * fit.bse.iloc[0]


REFERENCES = Path(__file__).parent / "data" / "references"
GENRIESZ = json.loads((REFERENCES / "genriesz.json").read_text(encoding="utf-8"))["estimate and standard error"]


@pytest.mark.parametrize("case", GENRIESZ)
def test_generalized_riesz_regression(case: str) -> None:
    """The package genriesz with the same basis and loss, without penalties; ``write_genriesz.py`` made the numbers.

    Its regressions are exact, and its representers nearly: they have moments of their columns right to about 1e-5. It treats the
    share of the treated as known, so that its standard error of the ATT is that of another parameter.
    """
    verb, loss = case.split()
    data = pd.read_csv(REFERENCES / "rows.csv")
    formula = {"ade": "y ~ treat(d) * (x1 + x2) + I(treat(d)**2) + I(x1**2) + I(x2**2) + x1:x2"}
    learner = riesz.Linear(0, 0, rr={"squared": "riesz", "entropy": "entropy"}[loss])
    fit = getattr(riesz, verb)(formula.get(verb, "y ~ treat(a) * (x1 + x2)"), data, learner=learner, folds=1)
    theirs, ours = GENRIESZ[case], fit.estimates["estimate"].droplevel(0)
    np.testing.assert_allclose(ours["direct"], theirs["ra"][0], rtol=1e-8)
    for name, method in {"dr": "arw", "tmle": "tmle", "ipw": "rw"}.items():
        np.testing.assert_allclose(ours[name], theirs[method][0], atol=5e-5)
    if verb != "att":
        np.testing.assert_allclose(fit.bse.iloc[0], theirs["arw"][1], rtol=1e-5)


def test_entropy_balancing_of_the_package_ebal() -> None:
    """The package ebal gives the untreated the means of the treated; ``write_ebal.py`` made the weights.

    Hainmueller's weights are those of the ATT, by the primal problem and by the Kullback-Leibler loss.
    """
    data = pd.read_csv(REFERENCES / "rows.csv")
    expected = json.loads((REFERENCES / "ebal.json").read_text(encoding="utf-8"))["weights"]
    for learner in (riesz.Balancing(tolerance=0, objective="entropy"), riesz.Linear(0, 0, rr="entropy")):
        fit = riesz.att("y ~ treat(a) * (x1 + x2)", data, learner=learner, folds=1)
        weights = -fit.riesz_representer["ATT"][data["a"] == 0]
        np.testing.assert_allclose(weights / weights.sum(), expected, atol=1e-7)
