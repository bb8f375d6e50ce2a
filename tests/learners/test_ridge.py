"""The closed-form learner against refitting from scratch."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import optimize
from scipy.special import expit

import riesz
from riesz.design.design import Design
from riesz.learners.linear import ridge
from riesz.learners.linear.learner import fit_linear


def make(data: pd.DataFrame, formula: str, estimand: riesz.ATE, **options: object) -> Design:
    return riesz.estimate(formula, data, estimand, folds=1, **options).model.blueprint.design


def standardised(design: Design, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns and their moments in standardised units, from the definition."""
    z = design.z
    m = design.moment_rows(0)
    mean = np.average(z, axis=0, weights=weights)
    sd = np.sqrt(np.average((z - mean) ** 2, axis=0, weights=weights))
    mean[0], sd[0] = 0.0, 1.0  # the intercept
    return (z - mean) / sd, (m - mean * m[:, :1]) / sd


def solve(z: np.ndarray, target: np.ndarray, share: np.ndarray, lam: float) -> np.ndarray:
    penalty = lam * np.diag(np.r_[0.0, np.ones(z.shape[1] - 1)])
    return np.linalg.solve(z.T @ (share[:, None] * z) + penalty, target)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("lam", [0.0, 0.01, 3.0])
def test_solution_is_the_ridge_solution(binary_frame: pd.DataFrame, weights: str | None, lam: float) -> None:
    design = make(binary_frame, "y ~ treat(a) * x1 + bs(x2, df=5) + g", riesz.ATE(), weights=weights)
    share = design.weights / design.weights.sum()
    z, m = standardised(design, share)
    fit = fit_linear(design, lam, lam, constrained=False)
    np.testing.assert_allclose(design.z @ fit.mu, z @ solve(z, z.T @ (share * design.y), share, lam), atol=1e-8)
    np.testing.assert_allclose(design.z @ fit.rr[:, 0], z @ solve(z, share @ m, share, lam), atol=1e-8)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("weights", [None, "w"])
def test_penalty_minimises_the_leave_one_out_loss(
    binary_frame: pd.DataFrame, weights: str | None, clustered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refit without each row (each village) for every penalty of the grid, and compare the choices."""
    data = binary_frame.iloc[:80]
    cluster = "village" if clustered else None
    design = make(data, "y ~ treat(a) * (x1 + x2) + bs(x2, df=6) + g", riesz.ATE(), weights=weights, cluster=cluster)
    share = design.weights / design.weights.sum()
    z, m = standardised(design, share)
    groups = data["village"].to_numpy() if clustered else np.arange(len(data))
    outcome, representer = np.zeros((2, len(ridge.GRID)))
    for k, lam in enumerate(ridge.GRID):
        for group in np.unique(groups):
            out = groups == group
            left = share * ~out
            theta = solve(z, z.T @ (left * design.y), left, lam)
            rho = solve(z, left @ m, left, lam)
            outcome[k] += share[out] @ (design.y[out] - z[out] @ theta) ** 2
            representer[k] += share[out] @ ((z[out] @ rho) ** 2 - 2 * m[out] @ rho)
    chosen = fit_linear(design, "loo", "loo", constrained=True).details()
    assert chosen["penalty"] == ridge.GRID[outcome.argmin()]
    assert chosen["rr_penalty_0"] == ridge.GRID[representer.argmin()]
    assert 0 < outcome.argmin() < len(ridge.GRID) - 1  # the test means something


@pytest.mark.parametrize("small", [1, 10**6], ids=["as a correction", "as it stands"])
def test_both_ways_to_leave_clusters_out_are_refits(
    binary_frame: pd.DataFrame, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clusters of one to seven rows, with weights: both ways give the losses of refitting without each."""
    monkeypatch.setattr(ridge, "_SMALL", small)
    data = binary_frame.iloc[:84].assign(family=np.repeat(np.arange(21), np.tile(np.arange(1, 8), 3)))
    formula = "y ~ treat(a) * (x1 + x2) + bs(x2, df=6) + g"
    design = make(data, formula, riesz.ATE(), weights="w", cluster="family")
    share = design.weights / design.weights.sum()
    z, m = standardised(design, share)
    basis = ridge.make_basis(design, design.weights, design.y[None])
    b, h = basis.projections[:, 0], ridge.moments(design, basis)[0]
    for lam in (1e-3, 0.1):
        outcome = representer = 0.0
        for family in range(21):
            out = data["family"].to_numpy() == family
            left = share * ~out
            theta, rho = solve(z, z.T @ (left * design.y), left, lam), solve(z, left @ m, left, lam)
            outcome += share[out] @ (design.y[out] - z[out] @ theta) ** 2
            representer += share[out] @ ((z[out] @ rho) ** 2 - 2 * m[out] @ rho)
        grid = np.array([lam])
        assert ridge.choose_outcome_penalty(design, basis, design.y, b, grid)[1] == pytest.approx(outcome, rel=1e-9)
        assert ridge.choose_riesz_penalty(design, basis, 0, h, grid)[1] == pytest.approx(representer, rel=1e-9)


def test_a_direction_in_one_cluster_alone_needs_a_positive_penalty(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.iloc[:100].assign(family=np.arange(100) // 2, own=lambda d: (d["family"] == 3).astype(float))
    design = make(data, "y ~ treat(a) * (x1 + x2) + bs(x2, df=6) + g + own", riesz.ATE(), cluster="family")
    basis = ridge.make_basis(design, design.weights, design.y[None])
    chosen, loss = ridge.choose_outcome_penalty(design, basis, design.y, basis.projections[:, 0], ridge.GRID)
    assert chosen > 0
    assert np.isfinite(loss)


def test_constrained_is_proportional_to_riesz_at_every_penalty(binary_frame: pd.DataFrame) -> None:
    design = make(binary_frame, "y ~ treat(a) * x1 + bs(x2, df=5) + g", riesz.ATT())
    for lam in (0.0, 0.01, 1.0):
        one = fit_linear(design, 0.0, lam, constrained=True).rr[:, 0]
        two = fit_linear(design, 0.0, lam, constrained=False).rr[:, 0]
        np.testing.assert_allclose(np.corrcoef(design.z @ one, design.z @ two)[0, 1], 1.0, atol=1e-12)


def test_logit_without_penalty_is_statsmodels_logit(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(y=(binary_frame["y"] > 1).astype(float))
    design = make(data, "y ~ treat(a) * x1 + x2", riesz.ATE(), family="binomial")
    fit = fit_linear(design, 0.0, 0.0, constrained=True)
    np.testing.assert_allclose(fit.mu, sm.Logit(design.y, design.z).fit(disp=0).params, rtol=1e-6)


def test_logistic_ridge_minimises_its_penalised_likelihood(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(y=(binary_frame["y"] > 1).astype(float))
    design = make(data, "y ~ treat(a) + x1 + x2", riesz.ATE(), family="binomial")
    lam, n = 0.05, len(data)
    fitted = expit(design.z @ fit_linear(design, lam, 0.0, constrained=True).mu)
    # the columns are standardised with the working weights of the solution itself
    share = fitted * (1 - fitted) / (fitted * (1 - fitted)).sum()
    z, _ = standardised(design, share)

    def loss(theta: np.ndarray) -> float:
        eta = z @ theta
        return (np.logaddexp(0, eta) - design.y * eta).sum() / n + lam / 2 * (theta[1:] ** 2).sum()

    best = optimize.minimize(loss, np.zeros(z.shape[1]), tol=1e-12)
    np.testing.assert_allclose(expit(z @ best.x), fitted, atol=1e-5)


def test_separated_outcome_stays_finite() -> None:
    x = np.linspace(-1, 1, 200)
    data = pd.DataFrame({"y": (x > 0).astype(float), "a": np.arange(200) % 2, "x": x})
    fit = riesz.ate("y ~ treat(a) + x", data, family="binomial")
    assert np.isfinite(fit.params).all()
    assert np.isfinite(fit.bse).all()


def test_ill_conditioned_design_is_solved_accurately() -> None:
    """A far-off covariate and its square: the fit must not depend on where zero is."""
    rng = np.random.default_rng(2)
    year = rng.integers(1990, 2020, 500).astype(float)
    a = (rng.uniform(size=500) < 0.5).astype(float)
    y = a + 0.1 * (year - 2005) + 0.02 * (year - 2005) ** 2 + rng.normal(size=500)
    data = pd.DataFrame({"y": y, "a": a, "year": year, "centred": year - 2005})
    options = {"learner": riesz.Linear(0, 0), "folds": 1}
    far = riesz.ate("y ~ treat(a) * year + I(year**2)", data, **options)
    near = riesz.ate("y ~ treat(a) * centred + I(centred**2)", data, **options)
    np.testing.assert_allclose(far.params, near.params, rtol=1e-7)
    np.testing.assert_allclose(far.bse, near.bse, rtol=1e-7)


def test_more_columns_than_rows() -> None:
    rng = np.random.default_rng(1)
    x = pd.DataFrame(rng.normal(size=(80, 120)), columns=[f"x{i}" for i in range(120)])
    a = (rng.uniform(size=80) < 0.5).astype(float)
    data = x.assign(a=a, y=a + x["x0"] + rng.normal(size=80))
    fit = riesz.ate("y ~ treat(a) + .", data)
    assert abs(fit.params["ATE"] - 1) < 4 * fit.bse["ATE"]
