"""Families of outcomes: regressions agree with statsmodels, slopes are exact, files keep them, and wrong outcomes are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import torch
from scipy.optimize import check_grad

import riesz
from riesz import datasets
from riesz.crossfit.stacking import stack
from riesz.families import FAMILIES, MEANS, Family, find_family
from riesz.learners import LEARNERS
from riesz.learners.neural.objectives.outcome import gaps, losses

LEAST_SQUARES = riesz.Linear(penalty=0, rr_penalty=0)
LOG_LINKS = ("poisson", "gamma")
OF_LOG_LINKS = [name for name in LEARNERS if set(LOG_LINKS) <= set(LEARNERS[name].example().families)]
GLM: dict[str, Any] = {
    "poisson": sm.families.Poisson(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
    "binomial": sm.families.Binomial(),
}


def frame(n: int = 300, seed: int = 4) -> pd.DataFrame:
    """Columns ``poisson``, ``gamma`` and ``binomial``, with the same covariates, an arm a and a dose d."""
    rng = np.random.default_rng(seed)
    x1, x2 = rng.uniform(-1.5, 1.5, (2, n))
    a = (rng.uniform(size=n) < 1 / (1 + np.exp(-x1))).astype(float)
    d = 0.5 * x1 + rng.normal(size=n)
    mu = np.exp(0.5 + 0.4 * x1 + 0.3 * x2 + 0.4 * a + 0.2 * d)
    outcomes = {"poisson": rng.poisson(mu), "gamma": rng.gamma(2.0, mu / 2), "binomial": rng.uniform(size=n) < mu / 8}
    return pd.DataFrame({"x1": x1, "x2": x2, "a": a, "d": d, "w": rng.uniform(0.5, 2, n)} | outcomes).astype(float)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("family", GLM)
def test_linear_without_penalty_is_the_regression_of_statsmodels(family: str, weights: str | None) -> None:
    data = frame()
    fit = riesz.ate(
        f"{family} ~ treat(a) * x1 + x2", data, learner=LEAST_SQUARES, family=family, folds=1, weights=weights
    )
    x = sm.add_constant(data[["a", "x1", "x2"]].assign(product=data["a"] * data["x1"]))
    w = data["w"] / data["w"].mean() if weights else None
    reference = sm.GLM(data[family], x, family=GLM[family], freq_weights=w).fit(tol=1e-14, maxiter=100)
    np.testing.assert_allclose(fit.fittedvalues, reference.fittedvalues, rtol=1e-8)


@pytest.mark.parametrize("verb", ["ate", "ade"])
@pytest.mark.parametrize("family", GLM)
def test_without_penalty_and_splitting_the_plug_in_needs_no_correction(family: str, verb: str) -> None:
    """rr is that of the plug-in's influence function, so that direct == dr == tmle."""
    treatment = {"ate": "a", "ade": "d"}[verb]
    fit = getattr(riesz, verb)(
        f"{family} ~ treat({treatment}) * x1 + x2", frame(), learner=LEAST_SQUARES, family=family, folds=1
    )
    values = fit.estimates["estimate"].droplevel(0)
    np.testing.assert_allclose(values[["dr", "tmle"]], values["direct"], rtol=1e-7)
    assert np.isnan(values["ipw"])


@pytest.mark.parametrize("family", GLM)
def test_the_standard_error_is_that_of_the_delta_method(family: str) -> None:
    """The average derivative's influence function, with the sandwich covariance of statsmodels for the target 'sample'."""
    data = frame()
    fit = riesz.ade(f"{family} ~ treat(d) + x1", data, learner=LEAST_SQUARES, family=family, folds=1, target="sample")
    x = sm.add_constant(data[["d", "x1"]])
    reference = sm.GLM(data[family], x, family=GLM[family]).fit(tol=1e-14, maxiter=100, cov_type="HC0")
    mu, v = reference.fittedvalues.to_numpy(), find_family(family)
    slope, bend = v.slope(mu), v.bend(mu) * v.slope(mu)
    gradient = np.array([0.0, slope.mean(), 0.0]) + reference.params["d"] * (bend @ x.to_numpy()) / len(x)
    # statsmodels' HC0 uses the observed information, which equals the expected one only for canonical links
    if v.canonical:
        expected = np.sqrt(gradient @ reference.cov_params().to_numpy() @ gradient)
        assert fit.bse.iloc[0] == pytest.approx(expected, rel=2e-2)
    assert fit.params.iloc[0] == pytest.approx(reference.params["d"] * slope.mean(), rel=1e-7)


@pytest.mark.parametrize("name", OF_LOG_LINKS)
@pytest.mark.parametrize("family", LOG_LINKS)
def test_every_learner_of_these_families_fits_saves_and_predicts(family: str, name: str, tmp_path: Path) -> None:
    data = frame(160)
    learner = LEARNERS[name].example()
    fit = riesz.ate(f"{family} ~ treat(a) + x1 + x2", data, learner=learner, family=family, folds=2, repeats=1)
    assert (fit.fittedvalues > 0).all()
    assert np.isfinite(fit.params).all()
    assert np.isfinite(fit.estimates["estimate"].drop("ipw", level=1, errors="ignore")).all()
    assert family in repr(fit.model.settings.family)
    fit.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    np.testing.assert_array_equal(again.params, fit.params)
    assert again.model.settings.family == family
    if name != "propensity":  # files do not hold scikit-learn's models
        pd.testing.assert_frame_equal(again.predict(data.head()), fit.predict(data.head()))


@pytest.mark.parametrize("name", OF_LOG_LINKS)
def test_scaling_a_positive_outcome_scales_the_estimate(name: str) -> None:
    data = frame(160)
    learner = LEARNERS[name].example()
    options: dict[str, Any] = {"learner": learner, "family": "gamma", "folds": 2, "repeats": 1}
    one = riesz.ate("gamma ~ treat(a) + x1 + x2", data, **options)
    thousand = riesz.ate("gamma ~ treat(a) + x1 + x2", data.assign(gamma=1000 * data["gamma"]), **options)
    tolerance = 1e-2 if name in ("madnet", "riesznet", "dragonnet", "tarnet", "auto", "propensity") else 1e-5
    assert thousand.params.iloc[0] == pytest.approx(1000 * one.params.iloc[0], rel=tolerance)


@pytest.mark.parametrize(
    "learner", [riesz.Linear(), riesz.Splines(), riesz.Kernel(), riesz.Boosting(trees=20), "madnet"]
)
@pytest.mark.parametrize("family", LOG_LINKS)
def test_slopes_of_a_logarithm_are_exact(family: str, learner: Any) -> None:
    """The derivative that the moment reads is that of mu itself."""
    learner = LEARNERS["madnet"].example() if learner == "madnet" else learner
    data, step = frame(), 1e-3
    fit = riesz.ade(f"{family} ~ treat(d) + x1 + x2", data, learner=learner, family=family, folds=1)
    at = [fit.predict(data.assign(d=data["d"] + move))["mu"] for move in (-step, step)]
    derivative = (at[1] - at[0]) / (2 * step)
    np.testing.assert_allclose(fit.predictions.mu.slopes[0], derivative, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("name", ["counts", "costs"])
def test_a_stack_weighs_mu_by_the_loss_of_the_family(name: str) -> None:
    simulation = datasets.get(name)
    draw = simulation.draw(400, seed=2)
    fit = riesz.estimate(
        simulation.plain_formula,
        draw.data,
        next(iter(simulation.questions.values())),
        learner=riesz.Stack([riesz.Splines(), riesz.Kernel(), riesz.KernelEmbedding()]),
        calibrate=None,
        **simulation.keywords,
    )
    crossfit, design = fit._crossfit, fit.model.blueprint.design
    assert len(crossfit.candidates) == 2  # the embedding is a method of least squares
    assert "KernelEmbedding does not learn mu with family" in " ".join(str(fit.summary()).split())
    family = find_family(design.family)
    mu = np.stack([candidate.predictions[0].mu.observed for candidate in crossfit.candidates])
    predictions, _ = stack([candidate.predictions[0] for candidate in crossfit.candidates], design)
    of_arm = slice(None) if name == "costs" else design.strata == 1

    def loss(values: np.ndarray) -> float:
        return float(family.loss(design.y, values)[of_arm].mean())

    best = min(loss(w * mu[0] + (1 - w) * mu[1]) for w in np.linspace(0, 1, 201))
    assert loss(predictions.mu.observed) <= best + 1e-8


def test_the_targeted_estimate_solves_its_equation() -> None:
    """With a log-linear submodel mu stays positive, and rr is orthogonal to the residuals."""
    data = frame()
    fit = riesz.ate(
        "poisson ~ treat(a) * x1 + x2", data, learner=riesz.Splines(), family="poisson", estimator="tmle", folds=2
    )
    scores = riesz.estimators.ESTIMATORS["tmle"](fit.predictions, fit.model.blueprint.design)
    assert abs(scores.residuals.mean()) < 1e-10
    assert fit.params.iloc[0] == pytest.approx(fit.estimates["estimate"]["ATE", "dr"], rel=0.1)


@pytest.mark.parametrize(
    ("family", "outcome", "words"),
    [
        ("poisson", -1.0, "values of 0 or larger"),
        ("gamma", 0.0, "values larger than 0"),
        ("binomial", 2.0, "in \\[0, 1\\]"),
    ],
)
def test_a_wrong_outcome_is_refused_before_training(family: str, outcome: float, words: str) -> None:
    data = frame()
    data.loc[3, family] = outcome
    with pytest.raises(riesz.DataError, match=f"family='{family}' expects .*{words}"):
        riesz.ate(f"{family} ~ treat(a) + x1", data, family=family)


def test_a_family_that_is_not_known_is_refused() -> None:
    with pytest.raises(riesz.LearnerError, match="Did you mean `poisson`"):
        riesz.ate("poisson ~ treat(a) + x1", frame(), family="possion")


def test_a_learner_that_cannot_says_so() -> None:
    with pytest.raises(
        riesz.LearnerError, match=r"does not learn mu with family='gamma'; expected one of 'gaussian', 'binomial'"
    ):
        riesz.ate("gamma ~ treat(a) + x1", frame(), family="gamma", learner=riesz.Lasso())


def test_a_composition_needs_the_family_of_its_outcome_alone() -> None:
    """rr does not depend on the family: a learner that does not know it learns rr as with family='gaussian'."""
    learner = riesz.Compose(outcome=riesz.Splines(), rr=riesz.Lasso())
    fit = riesz.ate("gamma ~ treat(a) * x1 + x2", frame(), family="gamma", learner=learner, folds=2)
    other = riesz.ate("gamma ~ treat(a) * x1 + x2", frame(), learner=riesz.Lasso(), folds=2)
    np.testing.assert_allclose(fit.riesz_representer, other.riesz_representer, rtol=1e-10)
    with pytest.raises(riesz.LearnerError, match="does not learn mu with family='gamma'"):
        riesz.ate(
            "gamma ~ treat(a) + x1", frame(), family="gamma", learner=riesz.Compose(riesz.Lasso(), riesz.Splines())
        )


def test_an_arm_without_events_is_estimated() -> None:
    """The logarithm of zero is minus infinity; mu is then nearly zero there."""
    data = frame()
    data.loc[data["a"] == 0, "poisson"] = 0.0
    for learner in (riesz.Splines(), riesz.Boosting(trees=30), riesz.Propensity(), riesz.Linear()):
        fit = riesz.ate("poisson ~ treat(a) * x1 + x2", data, family="poisson", learner=learner, folds=2)
        assert fit.params.iloc[0] > 0
        assert np.isfinite(fit.bse).all()


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_slopes_of_a_family_are_derivatives(family: Family) -> None:
    mu, step = np.array([0.1, 0.3, 0.7]), 1e-6
    np.testing.assert_allclose(family.inverse(family.link(mu)), mu, rtol=1e-12)
    index = family.link(mu)
    along = (family.inverse(index + step) - family.inverse(index - step)) / (2 * step)
    np.testing.assert_allclose(family.slope(mu), along, rtol=1e-6)
    bend = (family.slope(mu + step) - family.slope(mu - step)) / (2 * step)
    np.testing.assert_allclose(family.bend(mu), bend, rtol=1e-6, atol=1e-9)
    y = np.array([0.2, 0.5, 0.9])

    def loss(mu: np.ndarray) -> float:
        return float(family.loss(y, mu).sum())

    assert check_grad(loss, lambda mu: family.loss_slope(y, mu), mu) < 1e-5


@pytest.mark.parametrize("family", MEANS)
def test_losses_of_networks_are_those_of_the_family(family: str) -> None:
    """Up to a factor and a function of y; and their slopes are derivatives."""
    index = torch.tensor([[-0.7, 0.2, 1.3]], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[0.3, 0.9, 0.4]], dtype=torch.float64)
    values = losses(index, y, family)
    (slope,) = torch.autograd.grad(values.sum(), index)
    torch.testing.assert_close(gaps(index.detach(), y, family), slope)
    of, numbers = find_family(family), index.detach().numpy()
    own = of.loss(y.numpy(), of.inverse(numbers))
    np.testing.assert_allclose(values.detach().numpy() - own, np.zeros((1, 3)), atol=1e-10)
