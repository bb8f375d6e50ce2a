"""Quantile regressions: they agree with statsmodels, intervals cover averages of conditional quantiles, and the rest is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import torch

import riesz
from riesz import datasets, montecarlo
from riesz.design.density import at_density, bandwidth
from riesz.families import find_family
from riesz.learners import LEARNERS
from riesz.learners.neural.objectives.outcome import gaps, losses
from riesz.predictions import scales

EXACT = riesz.Linear(penalty=0, rr_penalty=0)
MEDIAN = riesz.Quantile(0.5)
SKEWED = datasets.get("skewed").draw(600, seed=3).data
ABLE = [name for name in LEARNERS if "quantile" in LEARNERS[name].example().families]


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.8])
def test_linear_without_penalty_is_the_regression_of_statsmodels(tau: float) -> None:
    fit = riesz.ate("y ~ treat(a) * x1 + x2", SKEWED, learner=EXACT, family=riesz.Quantile(tau), folds=1)
    x = sm.add_constant(SKEWED[["a", "x1", "x2"]].assign(product=SKEWED["a"] * SKEWED["x1"]).astype(float))
    reference = sm.QuantReg(SKEWED["y"], x).fit(q=tau, max_iter=5000, p_tol=1e-5)
    spread = SKEWED["y"].std()
    np.testing.assert_allclose(fit.fittedvalues, reference.fittedvalues, atol=0.01 * spread)
    family, y = find_family(fit.model.settings.family), SKEWED["y"].to_numpy()
    lowest = family.loss(y, reference.fittedvalues.to_numpy()).mean()
    assert family.loss(y, fit.fittedvalues.to_numpy()).mean() < lowest + 1e-5 * spread


def test_the_standard_error_is_that_of_quantile_regression() -> None:
    """The influence function of a coefficient, with the kernel weights in the sandwich's matrix."""
    fit = riesz.ate("y ~ treat(a) + x1", SKEWED, learner=EXACT, family=MEDIAN, folds=1)
    design, q = fit.model.blueprint.design, fit.fittedvalues.to_numpy()
    density = at_density(design, q).observed
    z = design.z
    inverse = np.linalg.inv((z.T * density) @ z / len(z))
    influence = (0.5 - (design.y <= q))[:, None] * z @ inverse
    expected = np.sqrt((influence.T @ influence)[1, 1]) / len(z)
    assert fit.bse.iloc[0] == pytest.approx(expected, rel=5e-3)


def test_rr_is_weighted_by_the_density() -> None:
    """E_n[K rr f] = h_n(f) on the rows, and the scale comes from E_n[m(rr)] / E_n[K rr^2]."""
    fit = riesz.ate("y ~ treat(a) * x1", SKEWED, learner=EXACT, family=riesz.Quantile(0.75), folds=1)
    design, rr = fit.model.blueprint.design, fit.riesz_representer["ATE"].to_numpy()
    weighted = rr * at_density(design, fit.fittedvalues.to_numpy()).observed
    moments = [weighted.mean(), (weighted * SKEWED["a"]).mean(), (weighted * SKEWED["x1"]).mean()]
    np.testing.assert_allclose(moments, [0, 1, 0], atol=1e-8)
    np.testing.assert_allclose(scales(fit.predictions, design), 1.0, rtol=1e-8)


def test_the_bandwidth_follows_the_units() -> None:
    residuals = np.random.default_rng(1).standard_normal(500)
    assert bandwidth(1000 * residuals, np.ones(500)) == pytest.approx(1000 * bandwidth(residuals, np.ones(500)))
    assert bandwidth(residuals, np.full(500, 3.0)) == pytest.approx(bandwidth(residuals, np.ones(500)))
    assert bandwidth(np.zeros(500), np.ones(500)) > 0


@pytest.mark.parametrize("name", ABLE)
def test_every_learner_of_quantiles_fits_saves_and_predicts(name: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"learner": LEARNERS[name].example(), "family": MEDIAN, "folds": 2, "repeats": 1}
    fit = riesz.ate("y ~ treat(a) * x1 + x2", SKEWED, **options)
    assert np.isfinite(fit.params).all()
    assert np.isnan(fit.estimates["estimate"].drop(["direct", "dr"], level=1)).all()
    text = " ".join(str(fit.summary()).split())
    assert "mu is the conditional 0.5 quantile" in text
    assert "not the quantile treatment effect" in text
    assert "not doubly robust" in text
    assert len(fit.balance()) > 0
    fit.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    np.testing.assert_array_equal(again.params, fit.params)
    assert again.model.settings.family == "quantile(0.5)"
    pd.testing.assert_frame_equal(again.predict(SKEWED.head()), fit.predict(SKEWED.head()))
    moved = riesz.ate("y ~ treat(a) * x1 + x2", SKEWED.assign(y=10 * SKEWED["y"] + 3), **options)
    assert moved.params.iloc[0] == pytest.approx(10 * fit.params.iloc[0], rel=0.02)


def test_boosting_learns_a_quantile_with_a_jump() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 2000)
    a = (rng.uniform(size=2000) < np.where(x > 0, 0.7, 0.3)).astype(float)
    data = pd.DataFrame({"y": a + 3 * (x > 0) + rng.exponential(size=2000), "a": a, "x": x})
    for rr in ("constrained", "riesz"):
        fit = riesz.ate("y ~ treat(a) + x", data, learner=riesz.Boosting(rr=rr), family=riesz.Quantile(0.3), folds=2)
        below = (data["y"] <= fit.fittedvalues).groupby(data["x"] > 0).mean()
        np.testing.assert_allclose(below, 0.3, atol=0.06)
        assert abs(fit.params.iloc[0] - 1) < 4 * fit.bse.iloc[0]
        assert fit.bse.iloc[0] < 0.15


@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in ABLE])
def test_other_learners_are_refused(name: str) -> None:
    with pytest.raises(riesz.LearnerError, match=r"does not learn mu with family='quantile\(0.5\)'"):
        riesz.ate("y ~ treat(a) + x1", SKEWED, learner=LEARNERS[name].example(), family=MEDIAN)


def test_what_a_quantile_does_not_have_is_refused() -> None:
    ask: dict[str, Any] = {"formula": "y ~ treat(a) + x1", "data": SKEWED, "family": MEDIAN}
    for estimator in ("tmle", "ipw"):
        with pytest.raises(riesz.LearnerError, match=r"mu is a quantile\. Use estimator='dr'"):
            riesz.ate(**ask, estimator=estimator)
    with pytest.raises(riesz.LearnerError, match=r"mu is not a mean\. Use calibrate=None"):
        riesz.ate(**ask, calibrate="levels")
    with pytest.raises(riesz.LearnerError, match="weighted by a density, which propensities do not give"):
        riesz.ate(**ask, learner=riesz.Boosting(rr="propensity"))
    with pytest.raises(riesz.LearnerError, match=r"riesz\.Boosting learns step functions"):
        riesz.ade("y ~ treat(x1) + x2", SKEWED, family=MEDIAN, learner=riesz.Boosting())
    with pytest.raises(riesz.RieszError, match="Sensitivity to unobserved confounders is known for means"):
        riesz.ate(**ask).sensitivity()
    with pytest.raises(riesz.LearnerError, match="expected a number between 0 and 1"):
        riesz.Quantile(1.0)


def test_networks_minimise_the_pinball_loss() -> None:
    index = torch.tensor([[-0.7, 0.2, 1.3]], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[0.3, 0.1, 1.4]], dtype=torch.float64)
    values = losses(index, y, "quantile(0.2)")
    (slope,) = torch.autograd.grad(values.sum(), index)
    torch.testing.assert_close(gaps(index.detach(), y, "quantile(0.2)"), slope)
    own = riesz.Quantile(0.2).loss(y.numpy(), index.detach().numpy())
    np.testing.assert_allclose(values.detach().numpy(), own)


def test_the_stack_has_the_smallest_pinball_loss() -> None:
    learner = riesz.Stack([riesz.Linear(), riesz.Boosting()])
    fit = riesz.ate("y ~ treat(a) + x1 + x2", SKEWED, learner=learner, family=riesz.Quantile(0.75), folds=2)
    assert np.isfinite(fit.candidates["estimate"]).all()
    crossfit, design = fit._crossfit, fit.model.blueprint.design
    mu = [candidate.predictions[0].mu.observed for candidate in crossfit.candidates]
    for arm in (0, 1):
        rows = design.strata == arm

        def loss(values: np.ndarray, rows: np.ndarray = rows) -> float:
            return float(riesz.Quantile(0.75).loss(design.y, values)[rows].mean())

        best = min(loss(w * mu[0] + (1 - w) * mu[1]) for w in np.linspace(0, 1, 101))
        assert loss(fit.predictions.mu.observed) <= best + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("name", "verb"), [("skewed", "ate"), ("skewed_dose", "ade")])
def test_intervals_cover_the_average_of_conditional_quantiles(name: str, verb: str) -> None:
    frame = montecarlo.study(name, n=1000, draws=range(300), verbs=[verb], learner="linear")
    table = montecarlo.coverage(frame, family_error=0.001)
    assert not table["rejected"].any(), table
    assert (table["bias"].abs() < 4.5 * table["bias_std_error"]).all(), table
    assert (table["mean_std_error"] / table["spread"]).between(0.85, 1.15).all(), table
