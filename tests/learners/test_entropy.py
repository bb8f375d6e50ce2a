"""Representers of known sign by the Kullback-Leibler loss: entropy balancing, derivatives, signs, known truths, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime, minimize_scalar

import riesz
from riesz import datasets
from riesz.design.design import Design
from riesz.learners.boosting.engine import Growth, boost, make_dataset
from riesz.learners.boosting.entropy import Entropy, EntropyDescent
from riesz.learners.boosting.losses import Quadratic
from riesz.learners.known_signs import known_signs, largest, levels
from riesz.learners.linear.entropy import Problem, _step_without
from riesz.learners.linear.ridge import make_basis

BINARY = "y ~ treat(a) * (x1 + g) + bs(x2, df=5)"
CASES = {
    "ate": ("binary_frame", BINARY, riesz.ATE()),
    "att": ("binary_frame", BINARY, riesz.ATT()),
    "atc": ("binary_frame", BINARY, riesz.ATC()),
    "mean": ("binary_frame", BINARY, riesz.Mean(1)),
    "arms": ("arms_frame", "y ~ treat(arm, reference='placebo') * x1 + x2 + g", riesz.ATE()),
    "policy": ("continuous_frame", "y ~ treat(d) * x1 + x2", riesz.Mean("d + 0.2")),
}
LEARNERS = [riesz.Linear(rr="entropy"), riesz.Splines(rr="entropy"), riesz.Boosting(rr="entropy")]


def fit(request: pytest.FixtureRequest, case: str, learner: object, **options: object) -> riesz.Results:
    frame, formula, estimand = CASES[case]
    data = request.getfixturevalue(frame)
    return riesz.estimate(formula, data, estimand, learner=learner, **{"folds": 1, **options})


# Linear: entropy balancing.


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("case", CASES)
def test_without_penalty_it_is_entropy_balancing(
    request: pytest.FixtureRequest, case: str, weights: str | None
) -> None:
    linear = fit(request, case, riesz.Linear(0, 0, rr="entropy"), weights=weights if case != "policy" else "w")
    options = {"objective": "entropy", "tolerance": 0, "penalty": 0}
    balancing = fit(request, case, riesz.Balancing(**options), weights=weights if case != "policy" else "w")
    np.testing.assert_allclose(linear.riesz_representer, balancing.riesz_representer, atol=1e-6)
    np.testing.assert_allclose(linear.params, balancing.params, atol=1e-6)
    np.testing.assert_allclose(linear.bse, balancing.bse, atol=1e-6)
    most = largest(linear.model.blueprint.design)[linear.predictions.rr.links.component, None]
    below = np.abs(balancing.predictions.rr.values) < most  # readings far from all rows are limited
    assert below.mean() > 0.98
    np.testing.assert_allclose(linear.predictions.rr.values[below], balancing.predictions.rr.values[below], atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_without_penalty_every_column_is_balanced(request: pytest.FixtureRequest, case: str) -> None:
    result = fit(request, case, riesz.Linear(0, 0, rr="entropy"), weights="w")
    design = result.model.blueprint.design
    shares = design.weights / design.weights.sum()
    for component, rr in enumerate(result.predictions.rr.observed):
        moments = shares @ design.moment_rows(component)
        np.testing.assert_allclose((shares * rr) @ design.z, moments, atol=1e-8)
    np.testing.assert_allclose(
        result.estimates["estimate"].unstack()["dr"], result.estimates["estimate"].unstack()["ipw"], atol=1e-6
    )


def problem_of(
    frame: pd.DataFrame, estimand: object, formula: str = "y ~ treat(a) * (x1 + x2)", **options: Any
) -> Problem:
    design = riesz.estimate(formula, frame, estimand, learner="linear", **options).model.blueprint.design
    basis = make_basis(design, design.weights, design.y[None])
    return Problem.of(design, basis, 0, levels(known_signs(design, "a learner", "another"), design)[0])


@pytest.mark.parametrize("estimand", [riesz.ATE(), riesz.ATT(), riesz.Mean(0)], ids=str)
def test_derivatives_of_the_loss_are_finite_differences(binary_frame: pd.DataFrame, estimand: object) -> None:
    problem = problem_of(binary_frame, estimand, weights="w")
    theta = np.random.default_rng(1).normal(size=problem.basis.rank) / 3
    _, gradient, hessian = problem.expand(theta, 0.3)
    np.testing.assert_allclose(gradient, approx_fprime(theta, lambda t: problem.expand(t, 0.3)[0], 1e-7), atol=1e-5)
    np.testing.assert_allclose(hessian, approx_fprime(theta, lambda t: problem.expand(t, 0.3)[1], 1e-7), atol=1e-5)
    design, index = problem.design, problem.basis.transform @ theta
    rr, shares = np.exp(np.sign(problem.level) * (design.z @ index)) * np.abs(problem.level), problem.basis.shares
    by_hand = shares @ rr - shares @ design.moment_rows(0) @ index
    by_hand += 0.15 * problem.basis.penalty @ theta**2
    assert problem.expand(theta, 0.3)[0] == pytest.approx(by_hand)


@pytest.mark.parametrize("cluster", [None, "village"])
def test_the_leave_one_out_loss_is_nearly_that_of_solving_again(
    binary_frame: pd.DataFrame, cluster: str | None
) -> None:
    data = binary_frame.head(120)
    problem = problem_of(data, riesz.ATE(), cluster=cluster)
    units = np.arange(120) if cluster is None else data[cluster].to_numpy()
    u = (problem.design.z @ problem.basis.transform) * np.sign(problem.level)[:, None]
    m = problem.design.moment_rows(0) @ problem.basis.transform
    b = np.abs(problem.level)
    for lam in (1.0, 0.1, 0.01):
        theta, total = problem.solve(lam, np.zeros(problem.basis.rank)), 0.0
        for unit in np.unique(units):
            out = units == unit
            again = theta.copy()
            for _ in range(50):
                r = b[~out] * np.exp(u[~out] @ again)
                gradient = (r @ u[~out] - m[~out].sum(axis=0)) / 120 + lam * problem.basis.penalty * again
                hessian = (u[~out].T * r) @ u[~out] / 120 + np.diag(lam * problem.basis.penalty)
                again -= np.linalg.solve(hessian, gradient)
            total += float(np.sum(b[out] * np.exp(u[out] @ again) - m[out] @ again)) / 120
        assert problem.left_out(theta, lam) == pytest.approx(total, abs=0.03)
        assert problem.expand(theta, 0.0)[0] < total


def test_clusters_of_every_size_are_left_out_exactly() -> None:
    """Fewer rows than directions, or more: the step agrees with solving the system of the others."""
    rng = np.random.default_rng(2)
    others, gradient = rng.normal(size=(50, 6)), rng.normal(size=6)
    for rows in (3, 20):
        u, curvature = rng.normal(size=(rows, 6)), rng.uniform(1, 2, rows)
        hessian = others.T @ others + (u.T * curvature) @ u
        expected = np.linalg.solve(others.T @ others, gradient)
        half = np.linalg.cholesky(np.linalg.inv(hessian))
        np.testing.assert_allclose(_step_without(u, curvature, half, gradient), expected, rtol=1e-8)
        alone = np.linalg.cholesky((u.T * curvature) @ u + 1e-9 * np.eye(6))
        assert _step_without(u, curvature, np.linalg.inv(alone).T, gradient) is None


def test_it_finds_weights_that_are_exponential_better_than_the_squared_loss() -> None:
    """With a logit in x the untreated weights of the ATT are exp(x'b) exactly."""
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(1500, 2))
        odds = np.exp(x @ [1.0, -0.6] - 0.5)
        a = (rng.uniform(size=1500) < odds / (1 + odds)).astype(float)
        data = pd.DataFrame(x, columns=["x1", "x2"]).assign(a=a, y=x[:, 0] + a + rng.normal(size=1500))
        truth = np.where(a == 1, 1.0, -odds)
        fits = [riesz.att("y ~ treat(a) * (x1 + x2)", data, learner=riesz.Linear(rr=rr)) for rr in ("entropy", "riesz")]
        errors.append([np.mean((result.predictions.rr.observed[0] - truth) ** 2) for result in fits])
    assert (np.array(errors)[:, 0] < 0.25 * np.array(errors)[:, 1]).all()


def test_groups_get_the_inverse_of_their_shares(binary_frame: pd.DataFrame) -> None:
    """On indicators of groups rr without penalty is one over the share of the arm in the group."""
    result = riesz.ate("y ~ treat(a) * g", binary_frame, learner=riesz.Linear(0, 0, rr="entropy"), folds=1)
    p = binary_frame.groupby("g")["a"].transform("mean")
    expected = np.where(binary_frame["a"] == 1, 1 / p, -1 / (1 - p))
    np.testing.assert_allclose(result.riesz_representer["ATE"], expected, rtol=1e-8)


def test_a_large_penalty_leaves_the_best_constant_of_each_arm(arms_frame: pd.DataFrame) -> None:
    """One over the share of the arm, also where there are more columns than rows."""
    data = arms_frame.join(pd.DataFrame(np.random.default_rng(1).normal(size=(400, 450))).add_prefix("z"))
    learner = riesz.Linear(1.0, 1e9, rr="entropy")
    result = riesz.ate("y ~ treat(arm, reference='placebo') + .", data, learner=learner, folds=1)
    share = data["arm"].map(data["arm"].value_counts(normalize=True))
    for arm in ("high", "low"):
        sign = np.where(data["arm"] == arm, 1.0, np.where(data["arm"] == "placebo", -1.0, 0.0))
        np.testing.assert_allclose(result.riesz_representer[f"ATE_{arm}"], sign / share, rtol=1e-4)


# What all three have in common.


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_rr_has_the_known_sign(request: pytest.FixtureRequest, learner: riesz.Learner, case: str) -> None:
    result = fit(request, case, learner, folds=3, weights="w")
    rr, design = result.predictions.rr.observed, result.model.blueprint.design
    assert np.isfinite(result.params).all()
    assert np.isfinite(result.bse).all()
    if case in ("ate", "att", "atc"):
        assert (rr[0] * np.where(design.strata == 1, 1, -1) > 0).all()
    if case == "policy":
        assert (rr > 0).all()
    if case == "mean":
        assert (rr[0][design.strata == 1] > 0).all()
        assert (rr[0][design.strata == 0] == 0).all()
    if case == "arms":
        for component, arm in enumerate(result.params.index):
            number = ["ATE_high", "ATE_low"].index(arm) + 1
            assert (rr[component][design.strata == 3 - number] == 0).all()
            assert (rr[component][design.strata == number] > 0).all()


@pytest.mark.parametrize("estimand", [riesz.ATE(), riesz.ATT(), riesz.Mean(1)], ids=str)
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_the_representer_of_a_simulation_is_found(learner: riesz.Learner, estimand: Any) -> None:
    simulation = datasets.get("binary")
    data = simulation.draw(2000, seed=4).data
    result = riesz.estimate("y ~ treat(a) * (x1 + x2)", data, estimand, learner=learner, folds=3)
    truth = simulation.riesz_representer(estimand, data)[0]
    rr = result.predictions.rr.observed[0]
    assert np.mean((rr - truth) ** 2) < np.mean(truth**2) / 6
    scale = np.mean(result.model.blueprint.design.apply(result.predictions.rr)[0]) / np.mean(rr**2)
    assert 0.8 < scale < 1.25  # it is learned with its scale
    if not isinstance(learner, riesz.Linear):  # its mu is not linear
        assert abs(result.params.iloc[0] - simulation.truth(estimand)[0]) < 3.5 * result.bse.iloc[0]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_settings_give_estimates_and_files(binary_frame: pd.DataFrame, tmp_path: Path, learner: riesz.Learner) -> None:
    data = binary_frame.assign(y=(binary_frame["y"] > 1).astype(float))
    options = {"learner": learner, "folds": 2, "weights": "w", "cluster": "village", "family": "binomial"}
    result = riesz.ate("y ~ treat(a) * x1 + x2 + g", data, **options)
    assert {"direct", "ipw", "dr", "tmle"} <= set(result.estimates.index.get_level_values(-1))
    assert result.estimates["estimate"].notna().all()
    result.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    assert again.model.learner == learner
    assert str(again.summary()) == str(result.summary())
    pd.testing.assert_frame_equal(again.predict(data.head(9)), result.predict(data.head(9)), rtol=1e-12)


def test_a_stack_takes_them_with_their_scale(binary_frame: pd.DataFrame) -> None:
    learner = riesz.Stack([*LEARNERS, riesz.Linear()])
    result = riesz.ate("y ~ treat(a) * (x1 + x2)", binary_frame, learner=learner, folds=2, repeats=1)
    assert np.isfinite(result.bse).all()
    assert result._crossfit.stacking[0].claims.tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    "learner", [*LEARNERS, riesz.Linear(0.1, 0.1, rr="entropy")], ids=lambda learner: type(learner).__name__
)
def test_moments_without_a_known_sign_are_refused_before_fitting(
    continuous_frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, learner: riesz.Learner
) -> None:
    monkeypatch.setattr(type(learner), "fit", lambda *_: pytest.fail("refused too late"))
    name = type(learner).__name__
    for estimand in (riesz.ADE(), riesz.Shift(0.5), riesz.IPE("1 + 0 * x1")):
        with pytest.raises(
            riesz.LearnerError, match=rf"{name}\(rr='entropy'\) needs .* sign is known .* Use riesz\.{name}\(\)"
        ):
            riesz.estimate("y ~ treat(d) * x1 + x2", continuous_frame, estimand, learner=learner)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_rr_does_not_depend_on_the_family(binary_frame: pd.DataFrame, learner: riesz.Learner, family: str) -> None:
    data = binary_frame.assign(y=np.exp(binary_frame["y"] / 4))
    result = riesz.ate("y ~ treat(a) * x1 + x2", data, learner=learner, family=family, folds=2)
    other = riesz.ate("y ~ treat(a) * x1 + x2", data, learner=learner, folds=2)
    assert (result.fittedvalues > 0).all()
    assert result.estimates["estimate"].notna().all()
    if not isinstance(learner, riesz.Splines):  # covariates of mu join rr
        np.testing.assert_allclose(result.riesz_representer, other.riesz_representer, rtol=1e-8)


@pytest.mark.parametrize(
    "learner", [riesz.Linear(rr="entropy"), riesz.Boosting(rr="entropy")], ids=["Linear", "Boosting"]
)
def test_quantiles_are_refused_before_fitting(binary_frame: pd.DataFrame, learner: riesz.Learner) -> None:
    with pytest.raises(riesz.LearnerError, match=r"rr='entropy'\) cannot be used with family='quantile\(0.5\)'"):
        riesz.ate("y ~ treat(a) * x1", binary_frame, learner=learner, family=riesz.Quantile(0.5))


def test_a_treatment_alone_has_known_signs(binary_frame: pd.DataFrame) -> None:
    y, a = binary_frame["y"], binary_frame["a"]
    result = riesz.ate("y ~ treat(a)", binary_frame, learner=riesz.Linear(0, 0, rr="entropy"), folds=1)
    assert result.params["ATE"] == pytest.approx(y[a == 1].mean() - y[a == 0].mean())


@pytest.fixture
def separated_frame() -> pd.DataFrame:
    """The sign of x decides on the treatment."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=300)
    return pd.DataFrame({"x": x, "a": (x > 0).astype(float), "y": x + rng.normal(size=300)})


def test_without_overlap_there_is_no_solution_without_penalty(separated_frame: pd.DataFrame) -> None:
    formula = "y ~ treat(a) * x"
    with pytest.raises(riesz.LearnerError, match=r"rr_penalty=0\) has no solution .* Use rr_penalty='loo'"):
        riesz.ate(formula, separated_frame, learner=riesz.Linear(rr_penalty=0, rr="entropy"), folds=1)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_without_overlap_rr_stays_bounded(separated_frame: pd.DataFrame, learner: riesz.Learner) -> None:
    result = riesz.ate("y ~ treat(a) * x", separated_frame, learner=learner, folds=2)
    assert np.isfinite(result.bse).all()
    assert np.abs(result.predictions.rr.values).max() < 300


def test_rr_is_limited_where_there_was_no_training_row(binary_frame: pd.DataFrame) -> None:
    result = riesz.ate("y ~ treat(a) * x1", binary_frame, learner=riesz.Linear(rr="entropy"), folds=2)
    far = binary_frame.assign(x1=1e4 * binary_frame["x1"])
    predicted = result.predict(far)
    assert np.isfinite(predicted).all().all()
    assert np.abs(predicted["rr_ATE"] if "rr_ATE" in predicted else predicted.filter(like="rr")).max().max() < 100


@pytest.mark.parametrize("cls", [riesz.Linear, riesz.Splines, riesz.Boosting])
def test_settings_are_checked(cls: Any) -> None:
    with pytest.raises(riesz.LearnerError, match=r"\(rr='kl'\): expected one of .*'entropy'"):
        cls(rr="kl")


# Trees.


def tree_loss(seed: int) -> Entropy:
    rng = np.random.default_rng(seed)
    signs = rng.choice([-2.0, 0.0, 1.5], 60)
    curvature = np.where(signs != 0, rng.uniform(0, 2, 60), 0.0)
    return Entropy(signs, Quadratic(curvature, rng.normal(size=60), curvature[::-1].copy(), rng.normal(size=60)))


def test_derivatives_of_the_loss_of_trees_are_finite_differences() -> None:
    loss = tree_loss(1)
    f = np.random.default_rng(2).normal(size=60)
    np.testing.assert_allclose(loss.derivative(f), approx_fprime(f, loss.loss, 1e-7), atol=1e-5)
    by_hand = (
        loss.sums.held_curvature @ (np.abs(loss.levels) * np.exp(np.sign(loss.levels) * f)) - loss.sums.held_slope @ f
    )
    assert loss.held_out(f) == pytest.approx(by_hand)


@pytest.mark.parametrize("seed", range(5))
def test_leaves_get_the_constant_with_the_smallest_loss(seed: int) -> None:
    loss = tree_loss(seed)
    f, leaf = np.random.default_rng(seed).normal(size=60), np.repeat([0, 1, 2], 20)
    for number, value in enumerate(loss.best_constants(f, leaf, 3)):
        best = minimize_scalar(
            lambda c, number=number: loss.loss(f + c * (leaf == number)),
            bounds=(-1, 1),
            method="bounded",
            options={"xatol": 1e-9},
        )
        assert value == pytest.approx(best.x, abs=1e-4)


def test_every_tree_lowers_the_loss() -> None:
    rng = np.random.default_rng(3)
    n = 400
    x = rng.normal(size=n)
    a = (rng.uniform(size=n) < 1 / (1 + np.exp(-x))).astype(float)
    columns = np.vstack([np.column_stack([np.full(n, arm), x]) for arm in (0.0, 1.0)])
    curvature = np.concatenate([1 - a, a])
    slope = np.repeat([-1.0, 1.0], n)
    loss = Entropy(np.repeat([-1.0, 1.0], n), Quadratic(curvature, slope, curvature, slope))
    growth = Growth(learning_rate=0.1, leaves=6, least=10.0, most=40, patience=40)
    losses = []
    for trees in (1, 5, 20, 40):
        grown = boost([EntropyDescent(make_dataset(columns), loss, growth, seed=1)], growth)[0]
        course = EntropyDescent(make_dataset(columns), loss, growth, seed=1)
        for _ in range(trees + 1):
            course.grow()
        losses.append(loss.loss(course.grown(trees).at(columns)))
        assert course.held_out == pytest.approx(losses[-1], rel=1e-6)
    assert np.all(np.diff(losses) < 0)
    assert grown.trees > 0


def test_trees_of_another_sign_are_refused_in_files(binary_frame: pd.DataFrame) -> None:
    learner = riesz.Boosting(rr="entropy", trees=5)
    result = riesz.ate("y ~ treat(a) + x1", binary_frame, learner=learner, folds=1)
    design: Design = result.model.blueprint.design
    stored = learner.store(result._crossfit.fits[0])
    assert learner.restore([stored], design)[0].levels.shape == (1, 2)
    for other in ("riesz", "constrained"):
        with pytest.raises(ValueError, match="trees of other settings"):
            riesz.Boosting(rr=other).restore([stored], design)
