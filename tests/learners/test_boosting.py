"""Boosted trees: known representers, the exact constraint, invariances, files, and clear refusals."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz import datasets
from riesz.design.design import Design
from riesz.learners.boosting import engine
from riesz.learners.boosting.constrained import Anchored, ConstrainedDescent, leaf_values
from riesz.learners.boosting.engine import Descent, Growth, boost, make_dataset
from riesz.learners.boosting.losses import Quadratic
from riesz.learners.boosting.points import make_table
from riesz.learners.boosting.training import draw_parts, make_sample
from riesz.learners.boosting.trees import read_trees

FORMS = ("riesz", "constrained", "propensity", "entropy")
GROWTH = Growth(learning_rate=0.1, leaves=6, least=10.0, most=40, patience=40)


def design_of(
    frame: pd.DataFrame, formula: str = "y ~ treat(a) + x1 + x2", verb: str = "ate", **options: Any
) -> Design:
    return getattr(riesz, verb)(formula, frame, learner="linear", **options).model.blueprint.design


def fit(frame: pd.DataFrame, rr: str = "riesz", verb: str = "ate", **options: Any) -> riesz.Results:
    learner = options.pop("learner", riesz.Boosting(rr=rr))
    formula = options.pop("formula", "y ~ treat(a) + x1 + x2 + g")
    return getattr(riesz, verb)(formula, frame, **{"learner": learner, "folds": 3, **options})


@pytest.mark.parametrize("rr", FORMS)
@pytest.mark.parametrize("verb", ["ate", "att", "mean"])
def test_the_representer_of_a_simulation_is_found(rr: str, verb: str) -> None:
    """Squared error below a sixth of ||rr||^2 at n = 2000; that of the best constant is 50% or more."""
    simulation = datasets.get("binary")
    data = simulation.draw(2000, seed=4).data
    estimand = {"ate": riesz.ATE(), "att": riesz.ATT(), "mean": riesz.Mean(1)}[verb]
    result = riesz.estimate("y ~ treat(a) + .", data, estimand, learner=riesz.Boosting(rr=rr))
    truth = simulation.riesz_representer(estimand, data)[0]
    assert np.mean((result.predictions.rr.observed[0] - truth) ** 2) < np.mean(truth**2) / 6
    assert np.mean((truth.mean() - truth) ** 2) > 0.4 * np.mean(truth**2)
    assert abs(result.params.iloc[0] - simulation.truth(estimand)[0]) < 3.5 * result.bse.iloc[0]


@pytest.mark.parametrize("rr", ["riesz", "constrained"])
def test_the_representer_of_a_shift_is_found(rr: str) -> None:
    simulation = datasets.get("continuous")
    data = simulation.draw(2000, seed=4).data
    estimand = riesz.Shift(0.5)
    result = riesz.estimate("y ~ treat(a) + .", data, estimand, learner=riesz.Boosting(rr=rr))
    truth = simulation.riesz_representer(estimand, data)[0]
    assert np.mean((result.predictions.rr.observed[0] - truth) ** 2) < 0.35 * np.mean(truth**2)
    assert abs(result.params.iloc[0] - simulation.truth(estimand)[0]) < 3.5 * result.bse.iloc[0]


def test_mu_of_a_jump_is_found() -> None:
    """A step is what trees know best: a line of the same rows is far from it."""
    rng = np.random.default_rng(3)
    x, a = rng.normal(size=2000), rng.integers(0, 2, 2000).astype(float)
    mu = 3.0 * (x > 0.4) + a
    data = pd.DataFrame({"y": mu + rng.normal(size=2000), "a": a, "x": x})
    boosted, line = (
        riesz.ate("y ~ treat(a) + x", data, learner=learner) for learner in (riesz.Boosting(), riesz.Linear())
    )
    error = np.mean((boosted.fittedvalues - mu) ** 2)
    assert error < 0.08
    assert error < 0.1 * np.mean((line.fittedvalues - mu) ** 2)


def anchored(frame: pd.DataFrame, verb: str, formula: str) -> tuple[Anchored, Any, np.ndarray, np.ndarray]:
    """The constrained problem of all rows, its data and its points, and the weights with which the moment reads them."""
    design = design_of(frame, formula, verb, **({"delta": 0.3} if verb == "shift" else {}))
    table = make_table(design)
    rows = np.arange(len(design))
    curvature, anchor = np.zeros((2, len(table.columns)))
    observed = table.observed_lines(rows)
    curvature[observed] = 1.0
    anchor[observed] = design.anchor.observed[0]
    slope = table.slopes(design.links.reading, design.link_weights).ravel()
    moment = float(design.apply(design.anchor)[0].sum())
    loss = Quadratic(curvature, slope, curvature, slope)
    return Anchored(loss, anchor, moment, moment), make_dataset(table.columns), table.columns, slope


@pytest.mark.parametrize("verb", ["ate", "att", "shift"])
def test_the_constraint_holds_after_each_tree(
    binary_frame: pd.DataFrame, continuous_frame: pd.DataFrame, verb: str
) -> None:
    frame, formula = (
        (continuous_frame, "y ~ treat(d) + x1 + x2") if verb == "shift" else (binary_frame, "y ~ treat(a) + x1 + x2")
    )
    problem, data, columns, slope = anchored(frame, verb, formula)
    distance = [float(problem.sums.curvature @ problem.anchor**2)]
    for trees in (1, 2, 5, 20):
        course = ConstrainedDescent(data, problem, GROWTH, seed=1)
        for _ in range(trees + 1):
            course.grow()
        f = course.grown(trees).at(columns)
        assert np.abs(slope * f).sum() > 1.0
        assert abs(slope @ f) < 1e-9 * np.abs(slope * f).sum()
        distance.append(float(problem.sums.curvature @ (problem.anchor - f) ** 2))
    assert np.all(np.diff(distance) < 0)  # every tree brings f closer to beta


def test_leaves_solve_the_constrained_least_squares() -> None:
    """Against the linear system of the Lagrangian."""
    rng = np.random.default_rng(1)
    w, residuals, moments = rng.uniform(1, 2, 5), rng.normal(size=5), rng.normal(size=5)
    system = np.block([[np.diag(w), moments[:, None]], [moments[None], np.zeros((1, 1))]])
    expected = np.linalg.solve(system, np.append(residuals, 0.0))[:5]
    np.testing.assert_allclose(leaf_values(w, residuals, moments), expected, rtol=1e-12)


def test_weights_are_duplicated_rows() -> None:
    rng = np.random.default_rng(2)
    columns = rng.integers(0, 20, (300, 3)).astype(float)
    y = columns[:, 0] - 0.1 * columns[:, 1] ** 2 + rng.normal(size=300)
    held = np.arange(300) % 4 == 0
    counts = rng.integers(1, 4, 300)
    copies = np.repeat(np.arange(300), counts)

    def grown(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        kept, out = np.where(held[rows], 0.0, weights), np.where(held[rows], weights, 0.0)
        loss = Quadratic(kept, kept * y[rows], out, out * y[rows])
        bag = boost([Descent(make_dataset(columns[rows]), loss, GROWTH, seed=1)], GROWTH)
        assert bag[0].trees > 5
        return bag[0].at(columns)

    once = grown(np.arange(300), counts.astype(float))
    np.testing.assert_allclose(grown(copies, np.ones(len(copies))), once, rtol=1e-5)


@pytest.mark.parametrize("rr", FORMS)
def test_units_and_origin_of_the_outcome_do_not_matter(binary_frame: pd.DataFrame, rr: str) -> None:
    plain = fit(binary_frame, rr)
    other = fit(binary_frame.assign(y=100 - 8 * binary_frame["y"]), rr)
    np.testing.assert_allclose(other.params, -8 * plain.params, rtol=1e-5)
    np.testing.assert_allclose(other.bse, 8 * plain.bse, rtol=1e-5)


@pytest.mark.parametrize("rr", FORMS)
def test_the_order_of_rows_does_not_matter(binary_frame: pd.DataFrame, rr: str) -> None:
    """Of the same training rows with the same parts: sums in another order are all that differs."""
    order = np.random.default_rng(5).permutation(400)
    design = design_of(binary_frame, "y ~ treat(a) + x1 + x2 + g")
    learner = riesz.Boosting(rr=rr)
    rows = np.arange(0, 400, 2)
    one, two = (learner.fit([design.take(part)], [3], _Silent())[0] for part in (rows, rows[order[order < 200]]))
    np.testing.assert_array_equal(one.predict(design).rr.observed, two.predict(design).rr.observed)


class _Silent:
    def done(self) -> None:
        pass

    def tell(self, **facts: object) -> None:
        pass


def test_parts_keep_clusters_together_and_spread_arms(binary_frame: pd.DataFrame) -> None:
    design = design_of(binary_frame, cluster="village")
    labels = draw_parts(design, seed=1)
    assert len(np.unique(labels)) == 10
    for village in np.unique(design.groups):
        assert len(np.unique(labels[design.groups == village])) == 1
    shares = [design.treatment[draw_parts(design_of(binary_frame), seed=1) == part].mean() for part in range(10)]
    assert np.ptp(shares) < 0.06


def test_held_out_rows_take_their_readings_along(binary_frame: pd.DataFrame) -> None:
    """What is read at a held-out row changes no tree, only when they stop."""
    design = design_of(binary_frame)
    sample = make_sample(design, False)
    table = sample.table
    held = np.arange(400) % 5 == 0
    curvature = np.zeros(len(table.columns))
    curvature[table.observed_lines(np.arange(400))] = 1.0
    out = held[np.arange(len(curvature)) % 400]
    slope = table.slopes(design.links.reading, design.link_weights).ravel()
    loss = Quadratic(np.where(out, 0, curvature), np.where(out, 0, slope), curvature * out, slope * out)
    gradient, hessian = loss.gradient(np.ones(len(out)))
    assert not gradient[out].any()
    assert not hessian[out].any()
    assert loss.held_out(np.ones(len(out))) == pytest.approx(80.0 - 2 * slope[out].sum())


@pytest.mark.parametrize("rr", FORMS)
def test_threads_do_not_matter(binary_frame: pd.DataFrame, rr: str, capfd: pytest.CaptureFixture[str]) -> None:
    alone, together = (fit(binary_frame, rr, n_jobs=jobs, repeats=2) for jobs in (1, 3))
    np.testing.assert_array_equal(alone.params, together.params)
    np.testing.assert_array_equal(alone.predictions.rr.values, together.predictions.rr.values)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("rr", FORMS)
def test_several_components(arms_frame: pd.DataFrame, rr: str) -> None:
    both = fit(arms_frame, rr, formula="y ~ treat(arm, reference='placebo') + x1 + x2")
    assert both.params.index.tolist() == ["ATE_high", "ATE_low"]
    np.testing.assert_allclose(both.params, [1.0, 0.5], atol=0.6)
    assert both.predictions.rr.observed.shape == (2, 400)


@pytest.mark.parametrize("rr", FORMS)
def test_probabilities_stay_probabilities(binary_frame: pd.DataFrame, rr: str) -> None:
    data = binary_frame.assign(y=(binary_frame["y"] > 1.5).astype(float))
    mu = fit(data, rr, family="binomial").predictions.mu
    assert 0 < mu.observed.min() < mu.observed.max() < 1
    assert 0 < mu.values.min() < mu.values.max() < 1
    rare = binary_frame.assign(y=0.0)
    rare.loc[:3, "y"] = 1.0
    assert np.isfinite(fit(rare, rr, family="binomial").params).all()


@pytest.mark.parametrize("rr", FORMS)
def test_files_predict_the_same(binary_frame: pd.DataFrame, tmp_path: Path, rr: str) -> None:
    result = fit(binary_frame, rr, formula="y ~ treat(a) * (x1 + x2) + g")
    result.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    new = binary_frame.assign(x1=binary_frame["x1"] + 0.01)
    pd.testing.assert_frame_equal(again.predict(new), result.predict(new), rtol=1e-12)
    assert again.details().equals(result.details())


def test_trees_in_a_file_are_checked(binary_frame: pd.DataFrame) -> None:
    design = design_of(binary_frame)
    stored = riesz.Boosting().store(riesz.Boosting().fit([design], [1], _Silent())[0])
    trees = stored.mu[0]
    assert trees.splits.min() > 0
    for name, wrong in {
        "left": np.zeros_like(trees.left),  # a way back to the root
        "right": trees.right + 1000,
        "feature": -1 - trees.feature,
        "threshold": trees.threshold * np.nan,
        "values": trees.values[:, :-1],
        "splits": trees.splits + 1000,
        "start": np.inf,
    }.items():
        with pytest.raises(ValueError, match=r"trees (with|of)"):
            replace(trees, **{name: wrong})
    wide = replace(trees, feature=trees.feature + 7)
    for content in (
        replace(stored, mu=(wide,)),
        replace(stored, rr=()),
        replace(stored, mu=()),
        replace(stored, family="binomial"),
        replace(stored, clip=0.3),
    ):
        with pytest.raises(ValueError, match=r"trees (of|for) (an)?other"):
            riesz.Boosting().restore([content], design)


def test_arrays_are_the_booster(binary_frame: pd.DataFrame) -> None:
    rng = np.random.default_rng(6)
    columns = rng.normal(size=(500, 4))
    loss = Quadratic(np.ones(500), np.sin(3 * columns[:, 0]), np.ones(500), columns[:, 1])
    booster = boost([Descent(make_dataset(columns), loss, GROWTH, seed=1)], replace(GROWTH, most=30))[0]
    new = np.vstack([columns, rng.normal(size=(500, 4)) * 5, np.zeros((1, 4))])
    np.testing.assert_array_equal(booster.stored().at(new), booster.at(new))
    assert read_trees("", 2.0, 1.0).at(new).tolist() == [2.0] * 1001


def stepped_slopes(n: int, seed: int, binary: bool = False) -> pd.DataFrame:
    """A treatment and an outcome that jump together, at a dozen places of a covariate; the slope is 1, of the logit if binary."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 5))
    step = np.sin(20 * x[:, 0]) > 0
    d = 1.5 * step + rng.standard_normal(n)
    index = d + 3.0 * step - 1.5
    y = index + rng.standard_normal(n)
    if binary:
        y = (rng.uniform(size=n) < 1 / (1 + np.exp(-index))).astype(float)
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(1, 6)]).assign(d=d, y=y)


@pytest.mark.parametrize("verb", ["ate", "ade"])
def test_two_clusters_are_enough(verb: str) -> None:
    """With two folds a training set is one cluster: rows of it are held out."""
    kind = "binary" if verb == "ate" else "continuous"
    data = datasets.get(kind).draw(300, seed=1).data.assign(half=np.arange(300) % 2)
    fit = getattr(riesz, verb)(
        "y ~ treat(a) + x1 + x2", data, learner=riesz.Boosting.example(), cluster="half", folds=2
    )
    assert np.isfinite(fit.params).all()
    assert np.isfinite(fit.fittedvalues).all()


def test_trees_learn_what_splines_leave_of_a_slope() -> None:
    """The slope is 1; splines alone miss the confounding by jumps."""
    data = stepped_slopes(2000, 1)
    fits = {
        name: riesz.ade("y ~ treat(d) + .", data, learner=learner, folds=2)
        for name, learner in {"trees": riesz.Boosting(), "splines": riesz.Splines()}.items()
    }
    error = {name: float(result.params.iloc[0]) - 1.0 for name, result in fits.items()}
    assert abs(error["trees"]) < 0.6 * abs(error["splines"])
    assert "trees of the covariates are added to splines" in " ".join(str(fits["trees"].summary()).split())


@pytest.mark.parametrize("binary", [False, True])
def test_slopes_of_splines_with_trees_are_derivatives_of_values(binary: bool) -> None:
    """Finite differences along the treatment; probabilities stay within 0 and 1."""
    data = stepped_slopes(2000, 2, binary)
    options = {"family": "binomial"} if binary else {}
    question = riesz.CustomMoment(
        lambda mu, data: (
            mu.derivative(data, wrt="d")
            + 0.0 * mu(data.assign(d=data["d"] + 1e-5))
            - 0.0 * mu(data.assign(d=data["d"] - 1e-5))
            + mu(data)
        ),
        name="slope and mean",
        anchor=lambda data: data["d"] + 1.0,
    )
    design = riesz.estimate("y ~ treat(d) + .", data, question, learner="linear", **options).model.blueprint.design
    (boosted,) = riesz.Boosting().fit([design], [3], _Silent())
    mu = boosted.predict(design).mu
    slope = int(np.flatnonzero(design.is_derivative)[0])
    at = {
        name: int(k)
        for k, reading in enumerate(design.readings())
        for name, move in (("up", 1e-5), ("down", -1e-5))
        if not design.is_derivative[k] and np.allclose(reading.treatment - design.treatment, move, atol=1e-9)
    }
    difference = (mu.values[at["up"]] - mu.values[at["down"]]) / 2e-5
    np.testing.assert_allclose(mu.slopes[slope], difference, rtol=1e-3, atol=1e-4)
    assert boosted.details()["mu_trees"] > 0
    if binary:
        assert mu.observed.min() > 0
        assert mu.observed.max() < 1


@pytest.mark.parametrize("binary", [False, True])
def test_files_of_splines_with_trees_predict_the_same(binary: bool, tmp_path: Path) -> None:
    data = stepped_slopes(1500, 3, binary)
    options = {"family": "binomial"} if binary else {}
    result = riesz.ade("y ~ treat(d) + .", data, learner=riesz.Boosting(), folds=2, **options)
    result.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    new = data.assign(x1=data["x1"] + 0.01)
    pd.testing.assert_frame_equal(again.predict(new), result.predict(new), rtol=1e-12)
    assert again.details().equals(result.details())
    design = result.model.blueprint.design
    stored = riesz.Boosting().store(result._crossfit.fits[0])
    wide = replace(stored.mu[0], feature=stored.mu[0].feature + 7)
    for content in (
        replace(stored, mu=(wide,)),
        replace(stored, rr=()),
        replace(stored, family="gaussian" if binary else "binomial"),
    ):
        with pytest.raises(ValueError, match=r"trees (of|for) (an)?other"):
            riesz.Boosting().restore([content], design)


def test_derivatives_along_covariates_are_refused_with_a_way_out(continuous_frame: pd.DataFrame) -> None:
    for moment in (
        lambda mu, data: mu.derivative(data, wrt="x1"),
        lambda mu, data: mu.derivative(data.assign(x1=data["x1"] + 1.0), wrt="d"),
    ):
        with pytest.raises(riesz.LearnerError, match=r"slope is zero. Use the default learner"):
            riesz.estimate(
                "y ~ treat(d) + x1",
                continuous_frame,
                riesz.CustomMoment(moment, name="along"),
                learner=riesz.Boosting(),
            )


def test_a_slope_without_covariates_is_refused_with_a_way_out(continuous_frame: pd.DataFrame) -> None:
    with pytest.raises(riesz.LearnerError, match=r"none besides the treatment\. Add some, .* or use riesz\.Splines"):
        riesz.ade("y ~ treat(d)", continuous_frame, learner=riesz.Boosting())


def test_other_refusals(binary_frame: pd.DataFrame, continuous_frame: pd.DataFrame) -> None:
    with pytest.raises(riesz.LearnerError, match="enters the formula only together with the treatment"):
        fit(binary_frame, formula="y ~ treat(a) + treat(a):x1")
    with pytest.raises(riesz.LearnerError, match="training set has 12 rows"):
        fit(binary_frame.iloc[:18], formula="y ~ treat(a) + x1")
    with pytest.raises(riesz.LearnerError, match="the treatment is a number"):
        fit(continuous_frame, "propensity", "shift", delta=0.2, formula="y ~ treat(d) + x1")
    with pytest.raises(riesz.LearnerError, match="none besides the treatment"):
        fit(binary_frame, "propensity", formula="y ~ treat(a)")
    for settings in (
        {"rr": "other"},
        {"leaves": 1},
        {"learning_rate": 0.0},
        {"clip": 0.6},
        {"trees": 0},
        {"rows_per_leaf": -1},
    ):
        with pytest.raises(riesz.LearnerError, match="Boosting"):
            riesz.Boosting(**settings)


def test_no_covariates_at_all(binary_frame: pd.DataFrame) -> None:
    """Rr is then the inverse of the arms' shares."""
    result = fit(binary_frame, formula="y ~ treat(a)")
    y, a = binary_frame["y"], binary_frame["a"]
    assert result.params.iloc[0] == pytest.approx(y[a == 1].mean() - y[a == 0].mean(), abs=0.02)


def test_where_lightgbm_does_not_load(binary_frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine.available()
    engine.available.cache_clear()
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    try:
        assert not engine.available()
        with pytest.raises(riesz.LearnerError, match=r"pip install lightgbm.*libomp on a Mac.*libgomp on Linux"):
            fit(binary_frame)
    finally:
        engine.available.cache_clear()


def test_an_anchor_without_a_moment_is_refused(binary_frame: pd.DataFrame) -> None:
    problem, data, *_ = anchored(binary_frame, "ate", "y ~ treat(a) + x1")
    with pytest.raises(riesz.LearnerError, match=r"anchor's moment is zero .*rr='riesz'"):
        ConstrainedDescent(data, replace(problem, moment=0.0), GROWTH, seed=1)
