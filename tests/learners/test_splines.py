"""The closed form on splines: exact where theory says so, close where it bends, jumps or interacts, sparse where little matters."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz import datasets
from riesz.design.design import Design
from riesz.families import find_family
from riesz.learners.base import Fit
from riesz.learners.inputs.evaluation_points import make_evaluation_points
from riesz.learners.inputs.units import units
from riesz.learners.linear.ridge import make_basis
from riesz.learners.propensity.smallest import smallest
from riesz.learners.splines.arm_sums import arm_sums
from riesz.learners.splines.candidates import quadratic_problems
from riesz.learners.splines.feature_sets import Sample, all_features, arms_of, covariate_features, level
from riesz.learners.splines.features import NONE, Features, evaluate, joined
from riesz.learners.splines.learner import SplinesFit, measure
from riesz.learners.splines.screening import screen
from riesz.learners.splines.shrinkage import Quadratic, group_penalties

SPLINES = riesz.Splines()
EXACT = riesz.Splines(penalty=0, rr_penalty=0)
CONSTRAINED = riesz.Splines(rr="constrained")


class Quiet:
    """Takes progress updates and does nothing."""

    def done(self) -> None: ...

    def tell(self, **facts: object) -> None: ...


def design_of(formula: str, data: pd.DataFrame, *estimands: riesz.estimands.Estimand, **options: object) -> Design:
    return riesz.estimate(formula, data, list(estimands), learner="linear", **options).model.blueprint.design


def fitted(design: Design, learner: riesz.Splines = SPLINES) -> Fit:
    (fit,) = learner.fit([design], [0], Quiet())
    return fit


@pytest.mark.parametrize("name", ["binary", "continuous", "arms"])
def test_a_truth_among_the_features_is_found(name: str) -> None:
    """Mu linear in the inputs and their products with the treatment, no noise: exact, with its derivatives."""
    simulation = datasets.get(name)
    data = simulation.draw(400, seed=2).data
    treatment = simulation.assignment.treatment.name
    a = pd.factorize(data[treatment])[0] if name == "arms" else data[treatment].astype(float)
    data[simulation.outcome.name] = 1.0 + a * (0.5 + data["x1"]) - data["x2"]
    questions = [simulation.questions[verb] for verb in simulation.questions if verb not in ("policy", "ipe")]
    treat = re.search(r"treat\([^)]*\)", simulation.formula)
    assert treat is not None
    design = design_of(f"{simulation.outcome.name} ~ {treat[0]} + x1 + x2", data, *questions)
    mu = fitted(design).predict(design).mu
    np.testing.assert_allclose(mu.observed, design.y, atol=1e-3)
    slopes = design.is_derivative
    if slopes.any():
        np.testing.assert_allclose(mu.slopes[slopes][0], 0.5 + data["x1"], atol=1e-2)


def test_mu_bends_where_the_truth_does() -> None:
    generator = np.random.default_rng(0)
    data = pd.DataFrame({"x": generator.uniform(-2, 2, 1000), "a": generator.integers(0, 2, 1000)})
    data["y"] = np.sin(2 * data["x"]) + data["a"] + 0.2 * generator.standard_normal(1000)
    design = design_of("y ~ treat(a) + x", data, riesz.ATE())
    truth = np.sin(2 * data["x"]) + data["a"]
    assert np.mean((fitted(design).predict(design).mu.observed - truth) ** 2) < 0.01 * np.var(truth)


def test_mu_sees_the_products_of_strong_covariates() -> None:
    """Without products of covariates, x1 x2 cannot be told from noise."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1000, 10))
    data = pd.DataFrame(x, columns=[f"x{j}" for j in range(10)]).assign(a=rng.integers(0, 2, 1000))
    truth = x[:, 0] + x[:, 1] + 2 * x[:, 0] * x[:, 1]
    data["y"] = truth + rng.standard_normal(1000)
    design = design_of("y ~ treat(a) + .", data, riesz.ATE())
    with_products, without = (
        np.mean((fitted(design, learner).predict(design).mu.observed - truth) ** 2) / np.var(truth)
        for learner in (SPLINES, riesz.Splines(interactions=0))
    )
    assert with_products < 0.1 < 0.4 < without


def test_covariates_that_do_not_matter_are_dropped() -> None:
    """Two of 40 covariates matter: few features stay, and mu is closer to the truth than one ridge penalty brings it."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((500, 40))
    data = pd.DataFrame(x, columns=[f"x{j}" for j in range(40)]).assign(a=rng.integers(0, 2, 500))
    truth = np.sin(2 * x[:, 0]) + x[:, 1]
    data["y"] = truth + rng.standard_normal(500)
    design = design_of("y ~ treat(a) + .", data, riesz.ATE())
    sparse = fitted(design)
    assert sparse.details()["features"] < 60
    errors = [
        np.mean((fitted(design, learner).predict(design).mu.observed - truth) ** 2)
        for learner in (SPLINES, riesz.Splines(penalty=0.1), riesz.Splines(penalty=1.0))
    ]
    assert errors[0] < 0.5 * min(errors[1:])


@pytest.mark.parametrize("learner", [SPLINES, riesz.Splines(penalty=0.1, rr_penalty=0.1)])
def test_slopes_are_derivatives_of_values(continuous_frame: pd.DataFrame, learner: riesz.Splines) -> None:
    step = 1e-5
    formula = "y ~ treat(d) + x1 + x2"
    design = design_of(formula, continuous_frame, riesz.ADE())
    fit = fitted(design, learner)
    at = fit.predict(design)
    moved = [
        fit.predict(design_of(formula, continuous_frame.assign(d=continuous_frame["d"] + shift), riesz.ADE()))
        for shift in (step, -step)
    ]
    for name in ("mu", "rr"):
        up, down = (getattr(there, name).observed for there in moved)
        slopes = getattr(at, name).slopes  # of the one reading
        np.testing.assert_allclose(slopes, np.atleast_2d(up - down) / (2 * step), rtol=1e-4, atol=1e-5)


def test_slopes_of_products_are_derivatives_of_values(continuous_frame: pd.DataFrame) -> None:
    """Of two covariates and the treatment, also where a covariate is what moves."""
    step = 1e-6
    question = riesz.CustomMoment(lambda mu, data: mu.derivative(data, wrt="x1") + mu.derivative(data, wrt="d"))
    features = Features(*(np.array(numbers) for numbers in ([NONE, 5, 5, 6], [NONE, NONE, 11, 11], [0, 0, NONE, 0])))

    def values(data: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        design = design_of("y ~ treat(d) + x1 + x2", data, question)
        phi = evaluate(features, shares, make_evaluation_points(design, expansions), design)
        return phi.observed, phi.slopes

    expansions, shares = measure(design_of("y ~ treat(d) + x1 + x2", continuous_frame, question), True)
    slopes = values(continuous_frame)[1]
    inside = continuous_frame["x1"].between(*expansions.covariates[0].knots[[0, -1]])
    for reading, column in enumerate(("x1", "d")):
        up, down = (
            values(continuous_frame.assign(**{column: continuous_frame[column] + sign * step}))[0] for sign in (1, -1)
        )
        difference = (up - down) / (2 * step)
        np.testing.assert_allclose(slopes[:, reading, inside], difference[:, inside], rtol=1e-4, atol=1e-5)


def test_products_stay_bounded_beyond_the_outer_knots(binary_frame: pd.DataFrame) -> None:
    design = design_of("y ~ treat(a) + x1 + x2", binary_frame, riesz.ATE())
    expansions, shares = measure(design, True)
    far = design_of("y ~ treat(a) + x1 + x2", binary_frame.assign(x1=1e6), riesz.ATE())
    product = Features(*(np.array([number]) for number in (1, 6, NONE)))
    spline, other = expansions.covariates
    phi = evaluate(product, shares, make_evaluation_points(far, expansions), far)
    x2 = np.clip(binary_frame["x2"].to_numpy(), *other.knots[[0, -1]])
    np.testing.assert_allclose(phi.observed[0], spline.features(spline.knots[-1:])[0, 0] * other.features(x2)[:, 0])


def test_group_penalties_shrink_noise_away_and_leave_signal() -> None:
    rng = np.random.default_rng(3)
    n, groups = 2000, np.repeat(np.arange(30), 3)
    x = rng.standard_normal((90, n))
    theta = np.where(groups < 2, 0.5, 0.0)
    y = theta @ x + rng.standard_normal(n)
    gram, linear = x @ x.T / n, x @ y / n
    problem = Quadratic(gram, linear, float(n), lambda at, used: float(np.mean((y - at @ x) ** 2)))
    found = group_penalties(problem, groups, sparsity=2.0)
    assert found.kept[:6].tolist() == list(range(6))
    expected = np.linalg.lstsq(x[found.kept].T, y)[0]
    np.testing.assert_allclose(found.theta[:6], expected[:6], atol=0.01)
    dense = group_penalties(problem, groups, sparsity=0.0)
    assert len(found.kept) <= 12 < len(dense.kept)
    free = group_penalties(problem, np.where(groups == 29, NONE, groups), sparsity=2.0)
    assert set(range(87, 90)) <= set(free.kept)
    np.testing.assert_array_equal(free.penalty[np.isin(free.kept, range(87, 90))], 0.0)


def test_products_that_only_readings_see_are_left_out() -> None:
    """An arm without rows at a mass point: their product is zero in the training set, but not where the moment reads."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {"d": rng.integers(0, 4, 60) * 1.0, "x": rng.normal(size=60), "c": rng.integers(0, 9, 60) * 1.0}
    )
    data["y"] = data["d"] + data["x"] + rng.normal(size=60)
    fit = riesz.mean("y ~ treat(d) + x + c", data, at=[0.0, 1.0, 2.0, 3.0], learner=riesz.Splines(), folds=2)
    assert np.isfinite(fit.params).all()
    assert (fit.bse < 5).all()
    gram, linear = np.diag([1.0, 1.0, 0.0]), np.array([1.0, 0.5, 0.3])
    problem = Quadratic(gram, linear, 100.0, lambda theta, used: 0.1)
    assert group_penalties(problem, np.array([0, 1, 2]), sparsity=2.0).kept.tolist() == [0, 1]


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize(
    ("frame", "formula", "questions"),
    [
        ("binary_frame", "y ~ treat(a) + x1 + x2 + g", [riesz.ATE(), riesz.ATT(), riesz.Mean(1)]),
        ("continuous_frame", "y ~ treat(d) + x1 + g", [riesz.ADE(), riesz.IPE("where(x1 > 0, 1, -0.5)")]),
        ("continuous_frame", "y ~ treat(d) + x1 + x2", [riesz.Shift(0.5)]),
        ("arms_frame", "y ~ treat(arm, reference='placebo') + x1 + x2", [riesz.ATE()]),
    ],
)
def test_without_penalty_and_splitting_all_estimators_agree(
    request: pytest.FixtureRequest,
    frame: str,
    formula: str,
    questions: list[riesz.estimands.Estimand],
    weights: str | None,
) -> None:
    """direct == ipw == dr == tmle, since mu and rr are in one linear class."""
    data = request.getfixturevalue(frame)
    fit = riesz.estimate(formula, data, questions, learner=EXACT, folds=1, weights=weights)
    values = fit.estimates["estimate"].unstack()
    spread = values.max(axis=1) - values.min(axis=1)
    assert (spread < 1e-7 * (1 + values.abs().max(axis=1))).all(), values


@pytest.mark.parametrize("learner", [SPLINES, CONSTRAINED], ids=["auto", "constrained"])
@pytest.mark.parametrize("name", [name for name in datasets.SIMULATIONS if "skewed" not in name])
def test_every_verb(name: str, learner: riesz.Splines, tmp_path: Path) -> None:
    """All questions of every simulation in one fit; dr equals tmle if rr is scale-free, and a file predicts as the fit does."""
    simulation = datasets.get(name)
    data = simulation.draw(300, seed=1).data
    options = simulation.keywords
    fit = riesz.estimate(
        simulation.formula, data, list(simulation.questions.values()), learner=learner, folds=2, **options
    )
    assert np.isfinite(fit.params).all()
    values = fit.estimates["estimate"].unstack()
    if "family" in options:
        assert find_family(options["family"]).has(fit.fittedvalues.to_numpy()).all()
    elif not fit.details().filter(like="propensity").size:
        np.testing.assert_allclose(values["dr"], values["tmle"], rtol=1e-8)
    else:
        assert learner is SPLINES
    fit.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    np.testing.assert_array_equal(again.params, fit.params)
    assert again.model.learner == learner
    pd.testing.assert_frame_equal(again.details(), fit.details())


def test_a_loaded_fit_predicts(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    fit = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=SPLINES, folds=2)
    fit.save(tmp_path / "fit.riesz")
    new = binary_frame.head(5).assign(x1=[0.0, 1.0, -1.0, 4.0, -4.0])
    pd.testing.assert_frame_equal(riesz.load(tmp_path / "fit.riesz").predict(new), fit.predict(new))


def zero_inflated(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows with 40% exact zeros of z, where treatment is likely and the outcome jumps; and the true mu."""
    rng = np.random.default_rng(seed)
    z = np.where(rng.uniform(size=n) < 0.4, 0.0, rng.gamma(2.0, size=n))
    a = (rng.uniform(size=n) < np.where(z == 0, 0.75, 0.25)).astype(float)
    mu = a + 3.0 * (z == 0) + np.log1p(z)
    return pd.DataFrame({"y": mu + rng.standard_normal(n), "a": a, "z": z}), mu


def test_a_jump_at_a_mass_point_is_seen() -> None:
    data, mu = zero_inflated(1000, seed=1)
    fit = riesz.ate("y ~ treat(a) + z", data, learner=SPLINES)
    assert abs(fit.params["ATE"] - 1) < 3 * fit.bse["ATE"]
    blind = riesz.ate("y ~ treat(a) + z", data, learner=riesz.Splines(indicators=False, steps=False))
    seen, unseen = (np.mean((np.asarray(one.predictions.mu.observed).ravel() - mu) ** 2) for one in (fit, blind))
    assert seen < 0.3 * unseen


@pytest.mark.parametrize("clusters", [False, True])
def test_steps_of_covariates_are_found(clusters: bool) -> None:
    """A jump in one of ten covariates, and a slope that jumps with another."""
    rng = np.random.default_rng(4)
    x, a = rng.normal(size=(1500, 10)), rng.integers(0, 2, 1500)
    mu = a + 2.0 * (x[:, 3] > 0.3) + (x[:, 5] > 0.0) * (1.0 + x[:, 6])
    data = pd.DataFrame(x).add_prefix("x").assign(a=a, y=mu + 0.5 * rng.standard_normal(1500), g=np.arange(1500) // 2)
    formula = "y ~ treat(a) + " + " + ".join(f"x{j}" for j in range(10))
    options = {"cluster": "g"} if clusters else {}
    design = design_of(formula, data, riesz.ATE(), **options)
    errors = [
        np.mean((fitted(design, riesz.Splines(steps=steps)).predict(design).mu.observed - mu) ** 2)
        for steps in (True, False)
    ]
    assert errors[0] < 0.6 * errors[1]


def test_no_steps_where_there_are_none() -> None:
    """Among twenty covariates without a jump, steps are found in few samples, and cost little."""
    found = 0
    for seed in range(8):
        rng = np.random.default_rng([5, seed])
        x, a = rng.normal(size=(600, 20)), rng.integers(0, 2, 600)
        data = pd.DataFrame(x).add_prefix("x").assign(a=a, y=a + x[:, 0] + np.sin(x[:, 1]) + rng.standard_normal(600))
        fit = fitted(design_of("y ~ treat(a) + .", data, riesz.ATE()))
        assert isinstance(fit, SplinesFit)
        features, places = fit.solutions[0].features, sum(how.size for how in fit.expansions.covariates) + 1
        found += bool((features.first >= places).any())
    assert found <= 3


def test_a_step_is_no_feature_where_readings_change_covariates() -> None:
    """Its derivative along the covariate would be zero; the spline has one."""
    rng = np.random.default_rng(6)
    x, a = rng.uniform(-1, 1, (1000, 2)), rng.normal(size=1000)
    data = pd.DataFrame(x, columns=["x1", "x2"]).assign(
        a=a, y=a + 3.0 * (x[:, 0] > 0) + 0.1 * rng.standard_normal(1000)
    )
    question = riesz.CustomMoment(lambda mu, data: mu.derivative(data, wrt="x1"))
    fit = fitted(design_of("y ~ treat(a) + x1 + x2", data, question))
    assert isinstance(fit, SplinesFit)
    assert fit.residual is None
    places = sum(how.size for how in fit.expansions.covariates) + 12
    assert (fit.solutions[0].features.first < places).all()


def dose(n: int, seed: int, spread: Callable[[np.ndarray], np.ndarray]) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose treatment has normal errors with a spread that depends on x1; and rr of the average derivative."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    sigma = spread(x[:, 0])
    mean = np.sin(2 * x[:, 1]) + x[:, 2]
    d = mean + sigma * rng.standard_normal(n)
    y = d + x[:, 1] + rng.standard_normal(n)
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(1, 6)]).assign(d=d, y=y), (d - mean) / sigma**2


def error_of_rr(fit: riesz.Results, rr: np.ndarray) -> float:
    return float(np.mean((fit._crossfit.predictions[0].rr.observed[0] - rr) ** 2) / np.mean(rr**2))


def test_rr_of_a_slope_is_the_residual_of_the_treatment() -> None:
    """With equal variances it is a multiple of it, and closer to the truth than what the constrained problem finds."""
    data, rr = dose(2000, 1, np.ones_like)
    fits = [riesz.ade("y ~ treat(d) + .", data, learner=learner) for learner in (SPLINES, CONSTRAINED)]
    errors = [error_of_rr(fit, rr) for fit in fits]
    assert errors[0] < 0.06
    assert errors[0] < 0.8 * errors[1]
    assert abs(fits[0].params["ADE"] - 1) < 3 * fits[0].bse["ADE"]
    for fit in fits[0]._crossfit.fits:
        assert isinstance(fit, SplinesFit)
        assert len(fit.solutions[1].features) == 1


def test_rr_follows_a_variance_that_varies() -> None:
    data, rr = dose(3000, 2, lambda x: np.exp(0.5 * x))
    fit = riesz.ade("y ~ treat(d) + .", data, learner=SPLINES)
    d = (data["d"] - data["d"].mean()).to_numpy()
    best_line = rr - (rr @ d) / (d @ d) * d
    assert error_of_rr(fit, rr) < 0.5 * np.mean(best_line**2) / np.mean(rr**2)
    assert sum(len(part.solutions[1].features) > 1 for part in fit._crossfit.fits) >= 4


def test_a_shift_of_the_treatment_does_not_matter_to_its_residual() -> None:
    """A function of the covariates that is added to the treatment drops out of rr."""
    data, _ = dose(800, 3, np.ones_like)
    moved = data.assign(d=data["d"] + 3.0 * data["x1"] - data["x2"])
    first, second = (
        riesz.ade("y ~ treat(d) + .", frame, learner=SPLINES)._crossfit.predictions[0].rr.observed[0]
        for frame in (data, moved)
    )
    assert np.corrcoef(first, second)[0, 1] > 0.99


def test_residuals_are_refused_with_a_way_out(binary_frame: pd.DataFrame) -> None:
    with pytest.raises(riesz.RieszError, match=r"a treatment that is one number.*riesz.Splines\(\)"):
        riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=riesz.Splines(rr="residual"))


def test_arms_may_have_regressions_of_their_own() -> None:
    """One arm is a noisy line, the other bends without noise."""
    generator = np.random.default_rng(3)
    x, a = generator.uniform(-2, 2, (600, 6)), generator.integers(0, 2, 600)
    data = pd.DataFrame(x, columns=[f"x{j}" for j in range(6)]).assign(a=a)
    truth = np.where(a == 1, x @ np.full(6, 0.3), 3 * np.sin(2 * x[:, 0]))
    data["y"] = truth + np.where(a == 1, 2 * generator.standard_normal(600), 0.0)
    design = design_of("y ~ treat(a) + .", data, riesz.ATE())
    fit = fitted(design)
    mu = fit.predict(design).mu
    assert np.isnan(fit.details()["penalty"])
    assert np.mean((mu.observed - truth)[a == 0] ** 2) < 0.01 * truth[a == 0].var()
    readings = mu.values[0 if np.allclose(mu.values[0][a == 1], mu.observed[a == 1]) else 1]
    np.testing.assert_allclose(readings[a == 1], mu.observed[a == 1])


def test_small_arms_share_a_regression(binary_frame: pd.DataFrame) -> None:
    few = pd.concat([binary_frame[binary_frame["a"] == 0], binary_frame[binary_frame["a"] == 1].head(20)])
    fit = fitted(design_of("y ~ treat(a) + x1 + x2", few, riesz.ATE()))
    assert np.isfinite(fit.details()["penalty"])


def test_inputs_come_from_the_covariates_of_all_rows(binary_frame: pd.DataFrame) -> None:
    """Not from y or the treatment, and not from a fold."""
    fits = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=SPLINES, folds=3)._crossfit.fits
    shuffled = binary_frame.assign(y=binary_frame["y"].to_numpy()[::-1], a=binary_frame["a"].to_numpy()[::-1])
    fits += riesz.ate("y ~ treat(a) + x1 + x2", shuffled, learner=SPLINES, folds=3)._crossfit.fits
    for fit in fits[1:]:
        for one, other in zip(fit.expansions.covariates, fits[0].expansions.covariates, strict=True):
            np.testing.assert_array_equal(one.knots, other.knots)
            np.testing.assert_array_equal(one.rotation, other.rotation)


def test_many_columns_leave_out_products() -> None:
    generator = np.random.default_rng(0)
    data = pd.DataFrame(generator.standard_normal((120, 150)), columns=[f"x{j}" for j in range(150)])
    data["a"] = np.arange(120) % 2
    data["y"] = data["x0"] + data["a"]
    fit = riesz.ate("y ~ treat(a) + .", data, learner=SPLINES, folds=2)
    assert np.isfinite(fit.params).all()


def test_no_covariates() -> None:
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"a": np.arange(200) % 2})
    data["y"] = data["a"] + rng.standard_normal(200)
    fit = riesz.ate("y ~ treat(a)", data, learner=SPLINES, folds=2)
    means = data.groupby("a")["y"].mean()
    assert fit.params["ATE"] == pytest.approx(means[1] - means[0], abs=0.1)


def test_units_do_not_matter(binary_frame: pd.DataFrame) -> None:
    formula = "y ~ treat(a) + x1 + x2 + g"
    plain = riesz.ate(formula, binary_frame, learner=SPLINES)
    changed = binary_frame.assign(x1=1e4 * binary_frame["x1"] + 7, y=3 * binary_frame["y"] - 5)
    other = riesz.ate(formula, changed, learner=SPLINES)
    np.testing.assert_allclose(other.params, 3 * plain.params, rtol=1e-5)
    np.testing.assert_allclose(other.bse, 3 * plain.bse, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"penalty": -1.0}, "penalty=-1.0"),
        ({"rr_penalty": "gcv"}, "rr_penalty='gcv'"),
        ({"interactions": -1}, "interactions=-1"),
        ({"interactions": 1.5}, "interactions=1.5"),
        ({"indicators": "yes"}, "indicators='yes'"),
    ],
)
def test_bad_settings(settings: dict[str, object], words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=re.escape(words)):
        replace(SPLINES, **settings)


def test_units_are_ranges_of_dummies_and_deviations_of_the_rest() -> None:
    columns = np.array([[0.0, 0.0, 5.0, 1.0], [0.0, 1.0, 5.0, 2.0], [1e-10, 2.0, 5.0, 2.0], [0.0, 3.0, 5.0, 1.0]])
    share = np.array([0.1, 0.2, 0.3, 0.4])
    mean = share @ columns[:, 1]
    expected = [1e-10, np.sqrt(share @ (columns[:, 1] - mean) ** 2), np.inf, 1.0]
    np.testing.assert_allclose(units(columns, share, constant=np.inf), expected)


def test_a_rare_dummy_is_penalised_in_its_own_units() -> None:
    """With two-valued columns alone, the ridge regression is that of the raw columns."""
    generator = np.random.default_rng(6)
    data = pd.DataFrame(generator.integers(0, 2, (400, 12)), columns=[f"x{j}" for j in range(12)])
    data["rare"] = (np.arange(400) % 40 == 0).astype(int)
    data["a"] = generator.integers(0, 2, 400)
    data["y"] = data["x0"] + 0.3 * generator.standard_normal(400)
    design = design_of("y ~ treat(a) + .", data, riesz.ATE())
    z = design.z
    scale = units(z, design.weights / design.weights.sum(), constant=1.0)
    basis = make_basis(design, design.weights, design.y[None], units=scale)
    kept = [name != "Intercept" for name in design.names]
    centred = z - z.mean(axis=0)
    gram = centred[:, kept].T @ centred[:, kept] / 400
    direct = np.linalg.solve(gram + 0.5 * np.eye(len(gram)), centred[:, kept].T @ design.y / 400)
    np.testing.assert_allclose(basis.solve(basis.projections[:, 0], 0.5)[kept], direct, atol=1e-10)


def test_importing_it_does_not_import_torch() -> None:
    import subprocess
    import sys

    code = "import sys, riesz; riesz.Splines(); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


MOMENTS = {
    "arms": ("arm", [riesz.ATE(), riesz.ATT()]),
    "moved": (
        "arm",
        [riesz.CustomMoment(lambda mu, data: mu(data.assign(x1=data["x1"] + 1)) - mu(data), name="moved")],
    ),
    "slopes": ("d", [riesz.ADE(), riesz.Shift(0.5)]),
    "along x1": ("d", [riesz.CustomMoment(lambda mu, data: mu.derivative(data, "x1"), name="x1")]),
}


@pytest.mark.parametrize("case", MOMENTS)
def test_predictions_are_combinations_of_the_features(
    case: str, arms_frame: pd.DataFrame, continuous_frame: pd.DataFrame
) -> None:
    """Of all features at all readings, evaluated together."""
    treatment, estimands = MOMENTS[case]
    frame = arms_frame if treatment == "arm" else continuous_frame
    design = design_of(f"y ~ treat({treatment}) * (x1 + x2)", frame, *estimands)
    fit = fitted(design, CONSTRAINED)
    assert isinstance(fit, SplinesFit)
    predictions, points = fit.predict(design), make_evaluation_points(design, fit.expansions)
    functions = [
        predictions.mu,
        *(predictions.rr.only(design.links.part(np.array([c]))) for c in range(design.components)),
    ]
    for target, (solution, function) in enumerate(zip(fit.solutions, functions, strict=True)):
        phi = evaluate(solution.features, fit.shares, points, design)
        readings = slice(None) if target == 0 else design.links.part(np.array([target - 1])).readings
        level, theta = solution.coefficients[0], solution.coefficients[1:]
        np.testing.assert_allclose(np.ravel(function.observed), level + theta @ phi.observed, rtol=1e-12, atol=1e-12)
        values, slopes = (np.tensordot(theta, part[:, readings], 1) for part in (phi.values, phi.slopes))
        np.testing.assert_allclose(function.values, level + values, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(function.slopes, slopes, rtol=1e-12, atol=1e-12)


def many_arms(arms: int, n: int) -> Design:
    rng = np.random.default_rng([arms, n])
    x1, x2, noise = rng.normal(size=(3, n))
    arm = rng.permutation(n) % arms
    data = pd.DataFrame({"y": x1 + 0.1 * arm + noise, "arm": [f"g{k:02d}" for k in arm], "x1": x1, "x2": x2})
    return design_of("y ~ treat(arm) + x1 + x2", data, riesz.ATE())


def peak_of(call: Callable[[], object]) -> int:
    """The most memory in use during a call, beyond what was in use before, in bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_predictions_for_many_arms_need_little_memory() -> None:
    """Not in proportion to the square of the number of arms times rows."""
    design = many_arms(16, 1500)
    fit = fitted(design, riesz.Splines(penalty=0.1, rr_penalty=0.1))
    predictions = fit.predict(design)
    kept = sum(part.nbytes for f in (predictions.mu, predictions.rr) for part in (f.observed, f.values, f.slopes))
    assert peak_of(lambda: fit.predict(design)) < kept + 8 * 4_000_000


def test_values_at_the_readings_of_many_arms_are_kept_once() -> None:
    design = many_arms(30, 1000)
    expansions, shares = measure(design, indicators=True)
    points = make_evaluation_points(design, expansions)
    inputs = np.arange(len(points.roles))
    features = Features(inputs, np.full_like(inputs, NONE), np.full_like(inputs, 3))
    values = 8 * len(inputs) * 30 * 1000
    assert evaluate(features, shares, points, design).values.nbytes == values
    assert peak_of(lambda: evaluate(features, shares, points, design)) < 1.5 * values


def products_without_main_effects(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Twenty covariates; the product x3 x4 enters logit and outcome, and neither x3 nor x4 enters by itself."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 20))
    product = x[:, 3] * x[:, 4]
    p = 1 / (1 + np.exp(-0.8 * product))
    a = (rng.uniform(size=n) < p).astype(float)
    data = pd.DataFrame(x, columns=[f"x{j}" for j in range(20)]).assign(a=a)
    data["y"] = x[:, 0] + a + 2 * product + rng.standard_normal(n)
    return data, p


@pytest.mark.parametrize("target", [0, 1])
def test_a_product_without_main_effects_is_screened_in(target: int) -> None:
    """By its slope in the loss of mu, and in that of rr; products of covariates that do not matter are not."""
    data, _ = products_without_main_effects(2000, 1)
    design = design_of("y ~ treat(a) + .", data, riesz.ATE())
    sample = Sample(design, make_evaluation_points(design, measure(design, True)[0]), measure(design, True)[1], 0)
    pool = sample.pool(joined([level(), level(0)]))
    theta = np.array([design.y.mean(), 0.0]) if target == 0 else np.array([0.0, 4.0])  # rr without confounding
    pairs = screen(sample, pool, theta, target)
    assert pairs[0] == (3, 4)
    noise = design_of("y ~ treat(a) + .", data.assign(y=np.random.default_rng(0).permutation(data["y"])), riesz.ATE())
    if target == 0:
        assert screen(replace(sample, design=noise), pool, theta, 0) == []


def test_the_effect_is_unconfounded_by_products_without_main_effects() -> None:
    """Without the product the estimate is far off; the oracle's standard error is about 0.05."""
    data, _ = products_without_main_effects(2000, 3)
    fits = [
        riesz.ate("y ~ treat(a) + .", data, learner=learner, folds=2)
        for learner in (SPLINES, riesz.Splines(interactions=0))
    ]
    errors = [abs(float(fit.params.iloc[0]) - 1.0) for fit in fits]
    assert errors[0] < 0.2 < 0.8 < errors[1]


def test_mu_gets_the_covariates_of_rr_and_rr_those_of_mu() -> None:
    """x1 matters for the treatment alone, x2 for the outcome alone: with double selection both enter both."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((800, 6))
    data = pd.DataFrame(x, columns=[f"x{j}" for j in range(1, 7)])
    data["a"] = (rng.uniform(size=800) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
    data["y"] = data["a"] + 2 * x[:, 1] + rng.standard_normal(800)
    design = design_of("y ~ treat(a) + .", data, riesz.ATE())
    for rr in ("propensity", "constrained"):
        used = {}
        for double in (True, False):
            fit = fitted(design, riesz.Splines(rr=rr, double_selection=double))
            assert isinstance(fit, SplinesFit)
            sources = make_evaluation_points(design, fit.expansions).sources
            other = (*fit.solutions[1:], *fit.logits)[0]
            used[double] = [
                set(sources[part.features.first[part.features.first >= 0]]) for part in (fit.solutions[0], other)
            ]
        assert {0, 1} <= used[True][0]
        assert {0, 1} <= used[True][1]
        assert not {0, 1} <= used[False][0] or not {0, 1} <= used[False][1]


def test_rr_follows_from_the_propensities_of_arms() -> None:
    """Close to the true rr of three arms where logits are linear, and exactly what its own propensities imply."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((4000, 2))
    logits = np.column_stack([np.zeros(4000), x[:, 0], -x[:, 1]])
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    arm = (rng.uniform(size=4000)[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    data = pd.DataFrame(
        {"y": rng.standard_normal(4000), "arm": np.array(["u", "v", "w"])[arm], "x1": x[:, 0], "x2": x[:, 1]}
    )
    design = design_of("y ~ treat(arm) + x1 + x2", data, riesz.ATE(), riesz.Mean("v"))
    rr = fitted(design).predict(design).rr.observed
    truth = np.stack([(arm == k) / p[:, k] - (arm == 0) / p[:, 0] for k in (1, 2)] + [(arm == 1) / p[:, 1]])
    assert (np.mean((rr - truth) ** 2, axis=1) < 0.03 * np.mean(truth**2, axis=1)).all()
    np.testing.assert_allclose(rr[0][arm == 1], rr[2][arm == 1], rtol=1e-12)


def test_propensities_are_kept_from_zero() -> None:
    """By the rule for the number of rows and the rarest arm, or by ``clip``; a note says how many rows that concerns."""
    rng = np.random.default_rng(6)
    data = pd.DataFrame({"x": rng.standard_normal(600)})
    data["a"] = (rng.uniform(size=600) < 1 / (1 + np.exp(-4 * data["x"]))).astype(float)
    data["y"] = data["a"] + rng.standard_normal(600)
    design = design_of("y ~ treat(a) + x", data, riesz.ATE())
    for clip, most in ((None, 1 / smallest(600, 0.5)), (0.1, 10.0)):
        rr = fitted(design, riesz.Splines(clip=clip)).predict(design).rr.observed
        assert np.abs(rr).max() == pytest.approx(most)
    summary = " ".join(str(riesz.ate("y ~ treat(a) + x", data, learner=riesz.Splines(clip=0.1)).summary()).split())
    assert re.search(r"The propensities of \d+% of the rows were clipped \(clip=0.1\)", summary)


def test_weights_of_controls_of_an_effect_on_the_treated_are_not_clipped() -> None:
    """They never divide by a small propensity: their sum is minus that of the treated rows, however few are treated."""
    rng = np.random.default_rng(7)
    data = pd.DataFrame({"x": rng.standard_normal(4000)})
    data["a"] = (rng.uniform(size=4000) < 1 / (1 + np.exp(4 - data["x"]))).astype(float)
    data["y"] = data["a"] + data["x"] + rng.standard_normal(4000)
    assert data["a"].mean() < 0.04
    design = design_of("y ~ treat(a) + x", data, riesz.ATT())
    fit = fitted(design)
    assert fit.details()["clipped"] > 0.05  # of the propensities of the treated, which rr does not divide by
    rr = fit.predict(design).rr.observed[0]
    treated = data["a"].to_numpy() == 1
    assert rr[~treated].sum() == pytest.approx(-rr[treated].sum(), rel=0.1)


def test_with_a_rare_arm_rr_is_constrained_and_errors_are_honest() -> None:
    """15 of 1,000 rows are treated at random: propensities would be cut at twice their true size."""
    errors = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, noise = rng.standard_normal((2, 1000))
        a = (rng.permutation(1000) < 15).astype(float)
        data = pd.DataFrame({"y": 2 * a * (1 + x) + x + noise, "a": a, "x": x})
        fit = riesz.ate("y ~ treat(a) + x", data, learner=SPLINES, folds=3)
        assert "clipped" not in fit.details()
        errors.append((float(fit.params.iloc[0]) - 2.0, float(fit.bse.iloc[0])))
    error, stated = np.array(errors).T
    assert np.mean(np.abs(error / stated) < 1.96) >= 0.85
    assert stated.mean() > 0.7 * error.std()


def test_screening_counts_clusters() -> None:
    """Of covariates that are constant in clusters, and that do not matter, few pairs pass."""
    found, naive = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = np.repeat(rng.standard_normal((100, 12)), 10, axis=0)
        data = pd.DataFrame(x, columns=[f"x{j}" for j in range(12)]).assign(
            a=np.tile([0.0, 1.0], 500), y=np.repeat(rng.standard_normal(100), 10), village=np.repeat(np.arange(100), 10)
        )
        for counts, options in ((found, {"cluster": "village"}), (naive, {})):
            formula = "y ~ treat(a) + " + " + ".join(f"x{j}" for j in range(12))
            design = design_of(formula, data, riesz.ATE(), **options)
            sample = Sample(
                design, make_evaluation_points(design, measure(design, True)[0]), measure(design, True)[1], 0
            )
            counts.append(len(screen(sample, sample.pool(level()), np.array([design.y.mean()]), 0)))
    assert np.mean(found) < 1.5
    assert np.mean(naive) > 4


def test_products_of_many_arms_stay_within_the_limit() -> None:
    rng = np.random.default_rng(8)
    n, arms = 1200, 20
    data = pd.DataFrame(rng.standard_normal((n, 8)), columns=[f"x{j}" for j in range(8)])
    data["arm"] = [f"g{k:02d}" for k in rng.permutation(n) % arms]
    data["y"] = data["x0"] * data["x1"] + data["x2"] * data["x3"] + 0.1 * rng.standard_normal(n)
    design = design_of("y ~ treat(arm) + .", data, riesz.Mean("g01"))
    assert fitted(design).details()["features"] <= 1000


def test_a_given_penalty_or_a_moment_that_moves_covariates_has_a_constrained_rr(arms_frame: pd.DataFrame) -> None:
    formula = "y ~ treat(arm) + x1 + x2"
    moved = riesz.CustomMoment(lambda mu, data: mu(data.assign(x1=data["x1"] + 1)) - mu(data), name="moved")
    assert (
        fitted(design_of(formula, arms_frame, riesz.ATE()))
        .predict(design_of(formula, arms_frame, riesz.ATE()))
        .scale_free
        is False
    )
    for learner, question in ((riesz.Splines(rr_penalty=0.1), riesz.ATE()), (SPLINES, moved)):
        design = design_of(formula, arms_frame, question)
        assert fitted(design, learner).predict(design).scale_free
    with pytest.raises(riesz.LearnerError, match=r"evaluates the moment|derives the Riesz representer"):
        riesz.Splines(rr="propensity").check(design_of(formula, arms_frame, moved), 300)


def test_rr_from_propensities_is_refused_for_a_number(continuous_frame: pd.DataFrame) -> None:
    with pytest.raises(riesz.LearnerError, match=r"the treatment is a number. Use rr='constrained'"):
        riesz.ade("y ~ treat(d) + x1", continuous_frame, learner=riesz.Splines(rr="propensity"))
    for settings in ({"rr": "other"}, {"clip": 0.7}, {"double_selection": "yes"}):
        with pytest.raises(riesz.LearnerError, match="Splines"):
            riesz.Splines(**settings)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_arms_give_the_problems_of_all_rows_and_of_each_arm(arms_frame: pd.DataFrame, weighted: bool) -> None:
    """The same second moments as from the values of all features, for mu, for each arm's rows, and for membership."""
    data = arms_frame.assign(w=np.linspace(0.5, 2.0, len(arms_frame)))
    design = design_of("y ~ treat(arm) + x1 + x2", data, riesz.ATE(), **({"weights": "w"} if weighted else {}))
    expansions, shares = measure(design, True)
    sample = Sample(design, make_evaluation_points(design, expansions), shares, 0).without_readings()
    sums, inputs = arm_sums(sample), covariate_features(sample)
    assert sums is not None
    features = joined([level(), all_features(sample)])
    rows = arms_of(sample, 1)
    assert rows is not None
    pairs = [(sums.of_all(features), quadratic_problems(sample, sample.pool(features), [0])[0])]
    for arm, of_arm in enumerate(rows):
        for ours, theirs in (
            (sums.of_arm(arm), sample.take(of_arm)),
            (sums.of_membership(arm), sample.membership(arm)),
        ):
            pairs.append((ours, quadratic_problems(theirs, theirs.pool(inputs), [0])[0]))
    for ours, direct in pairs:
        np.testing.assert_allclose(ours.gram, direct.gram, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ours.linear, direct.linear, rtol=1e-9, atol=1e-12)
        theta = np.random.default_rng(0).standard_normal(len(ours.linear))
        assert ours.rows == pytest.approx(direct.rows)
        assert ours.noise(theta, 3.0) == pytest.approx(direct.noise(theta, 3.0))
