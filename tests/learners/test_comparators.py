"""RieszNet, DragonNet, TARNet and the neural embedding: exact gradients, known minimisers, truth, SRR, files, settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import riesz
from riesz import datasets
from riesz.design.design import Design
from riesz.learners.neural.engine.batching import Batch, Feed, Scales
from riesz.learners.neural.objectives.base import Objective, Outputs, make_outputs, pull_back
from riesz.learners.neural.objectives.riesz_loss import RieszLoss

SMALL: dict[str, Any] = {"width": 16, "stages": (riesz.Stage(1e-2, 12, 12),), "batch_size": 32}
HEADS = {"head_width": 8, "head_depth": 1}
RIESZ, DRAGON = riesz.RieszNet(**SMALL, **HEADS), riesz.DragonNet(**SMALL, **HEADS)
TAR, EMBEDDING = riesz.TARNet(**SMALL, **HEADS), riesz.NeuralEmbedding(**SMALL)
ALL = [RIESZ, DRAGON, TAR, EMBEDDING]
WITH_RR = [RIESZ, DRAGON]


def name(learner: object) -> str:
    return type(learner).__name__


def batch_of(learner: Any, design: Design, rows: np.ndarray) -> tuple[Batch, Scales, Feed]:
    sample, expansions = learner._training_sample(design)
    feed = Feed([sample], torch.device("cpu"), [expansions])
    scale = learner._scale(sample, feed.inputs_of(sample))
    scales = Scales([(scale, 0)] * len(rows), feed)
    return feed.batch(torch.as_tensor(rows), torch.ones(rows.shape), scales), scales, feed


@pytest.mark.parametrize("kind", [riesz.RieszNet, riesz.DragonNet, riesz.TARNet, riesz.NeuralEmbedding])
def test_the_docstring_states_the_defaults(kind: Any) -> None:
    learner, text = kind(), " ".join(kind.__doc__.split())
    stage = learner.stages[0]
    sizes = [
        f"of {learner.width} units",
        *([f"layers of {learner.head_width}"] if hasattr(learner, "head_width") else []),
    ]
    course = [
        f"rate of {stage.learning_rate:g}",
        f"at most {stage.epochs} epochs",
        f"until {stage.patience} epochs have",
    ]
    for piece in ["one network per training set", "two layers of", *sizes, *course]:
        assert piece in text, piece
    assert (learner.networks, learner.depth, getattr(learner, "head_depth", 2)) == (1, 2, 2)


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
@pytest.mark.parametrize("learner", [RIESZ, DRAGON, TAR], ids=name)
def test_slopes_of_the_loss_are_its_derivatives(learner: Any, family: str) -> None:
    """The formula agrees with automatic differentiation of the loss."""
    draw = datasets.get("binary").draw(60, seed=1).data.assign(y=lambda d: d["y"] > d["y"].median())
    fit = riesz.estimate("y ~ treat(a) + .", draw, [riesz.ATE(), riesz.ATT()], family=family)
    rows = np.stack([np.arange(32), np.arange(28, 60)])
    batch, scales, feed = batch_of(learner, fit.model.blueprint.design, rows)
    shape = learner._shape(feed, 2, learner.objective(family))
    k, e = shape.components, shape.extras
    generator = torch.Generator().manual_seed(3)
    sizes = ((2, 32, k), (2, 32, k), (2, 32), (2, e))
    outputs = Outputs(*(3.0 * torch.randn(size, generator=generator) for size in sizes))  # wide: squeezing counts
    objective = learner.objective(family)
    _, by_formula = objective.slopes(outputs, batch, scales)
    _, automatic = Objective.slopes(objective, outputs, batch, scales)
    for slope, expected in zip(by_formula, automatic, strict=True):
        torch.testing.assert_close(slope if slope.numel() else expected, expected)


def cells() -> pd.DataFrame:
    """One binary covariate; propensity 1/4 where x = 0 and 3/5 where x = 1."""
    counts = {(0, 0): 300, (0, 1): 100, (1, 0): 160, (1, 1): 240}
    rows = [(x, a) for (x, a), count in counts.items() for _ in range(count)]
    data = pd.DataFrame(rows, columns=["x", "a"], dtype=float)
    return data.assign(y=data["a"] + data["x"] + np.random.default_rng(0).normal(size=len(data)))


PROPENSITY = np.array([0.25, 0.6])


@pytest.mark.parametrize("question", [riesz.ATE(), riesz.ATT()], ids=["ate", "att"])
def test_the_inverse_propensity_minimises_the_riesz_loss(question: Any) -> None:
    """In a saturated design the gradient is zero, in every cell, at the rr that is known."""
    data = cells()
    fit = riesz.estimate("y ~ treat(a) * x", data, question)
    batch, scales, feed = batch_of(RIESZ, fit.model.blueprint.design, np.arange(len(data))[None])
    x, p = data["x"].to_numpy(), PROPENSITY[data["x"].astype(int)]
    at_1, at_0 = (1 / p, -1 / (1 - p)) if question == riesz.ATE() else (np.ones_like(p), -p / (1 - p))
    treated = batch.shares[0, ..., 1].round().numpy()  # of each point, shape (n, S)
    rr = torch.as_tensor(np.where(treated == 1, at_1[:, None], at_0[:, None]), dtype=torch.float32)
    heads = (rr * scales.constraint[0, 0]).reshape(1, -1, 1)
    outputs = make_outputs(heads, torch.zeros(1, len(data), 2), batch, torch.zeros(1, 1))
    _, slopes = RieszLoss("gaussian", 0.1, 0.0, srr=True).slopes(outputs, batch, scales)
    gradient = pull_back(slopes, batch, feed.dual)[0].reshape(treated.shape).numpy()
    assert np.abs(gradient).sum() > 1e-3
    for cell in range(4):
        here = (treated == cell % 2) & (x[:, None] == cell // 2)
        assert abs(gradient[here].sum()) < 1e-6


@pytest.mark.parametrize("learner", WITH_RR, ids=name)
def test_training_finds_the_inverse_propensity(learner: Any) -> None:
    data = cells()
    long = replace(
        learner, weight_decay=0.0, stages=(riesz.Stage(1e-2, 80, 80), riesz.Stage(1e-3, 20, 20)), keep="last"
    )
    fit = riesz.ate("y ~ treat(a) + x", data, learner=long, folds=1)
    p = PROPENSITY[data["x"].astype(int)]
    true = np.where(data["a"] == 1, 1 / p, -1 / (1 - p))
    np.testing.assert_allclose(fit.riesz_representer["ATE"], true, rtol=0.1)


@pytest.mark.parametrize(
    ("learner", "family"),
    [
        *((learner, "gaussian") for learner in ALL),
        *((learner, "binomial") for learner in (RIESZ, DRAGON, TAR)),
        (replace(RIESZ, stages=(riesz.Stage(1e-2, 20, 6, plateau=2),)), "gaussian"),
    ],
)
def test_side_by_side_equals_alone(learner: Any, family: str) -> None:
    """Same seed and data, same numbers to the last bit, whichever networks are trained beside it."""
    draws = [datasets.get("binary").draw(n, seed=seed).data for seed, n in enumerate((150, 150, 151, 200))]
    if family == "binomial":
        draws = [draw.assign(y=(draw["y"] > draw["y"].median()).astype(float)) for draw in draws]
    formula, questions = "y ~ treat(a) + .", [riesz.ATE(), riesz.ATT()]
    together, small = (
        riesz.estimate_many(formula, draws, questions, learner=own, folds=2, family=family)
        for own in (learner, replace(learner, side_by_side=2))
    )
    for draw, *fits in zip(draws, together, small, strict=True):
        alone = riesz.estimate(formula, draw, questions, learner=learner, folds=2, family=family)
        for fit in fits:
            np.testing.assert_array_equal(alone.fittedvalues, fit.fittedvalues)
            np.testing.assert_array_equal(alone.predictions.rr.observed, fit.predictions.rr.observed)


@pytest.mark.parametrize(
    ("learner", "simulation", "verb"),
    [
        (riesz.RieszNet(), "binary", "ate"),
        (riesz.RieszNet(), "continuous", "ade"),
        (riesz.DragonNet(), "binary", "att"),
    ],
)
def test_truth_is_found(learner: Any, simulation: str, verb: str) -> None:
    made = datasets.get(simulation)
    draw, question = made.draw(1000, seed=5), made.questions[verb]
    fit = riesz.estimate(made.formula, draw.data, question, learner=learner)
    assert abs(fit.params.iloc[0] - made.truth(question)[0]) < 4 * fit.bse.iloc[0]
    true = made.riesz_representer(question, draw.data)[0]
    assert np.mean((fit.riesz_representer.iloc[:, 0] - true) ** 2) < 0.4 * np.mean(true**2)
    assert np.mean((fit.fittedvalues - draw.mu) ** 2) < 0.15 * draw.mu.var()


@pytest.mark.parametrize("learner", [riesz.TARNet(), riesz.NeuralEmbedding()], ids=name)
def test_mu_is_found(learner: Any) -> None:
    made = datasets.get("binary")
    draw = made.draw(1000, seed=5)
    fit = riesz.ate(made.formula, draw.data, learner=learner)
    assert np.mean((fit.fittedvalues - draw.mu) ** 2) < 0.15 * draw.mu.var()
    assert abs(fit.params["ATE"] - made.truth(riesz.ATE())[0]) < 0.4


def test_the_propensity_is_close_to_the_truth() -> None:
    """DragonNet's rr at a = 1 is one over its propensity."""
    made = datasets.get("binary")
    draw = made.draw(2000, seed=2)
    fit = riesz.ate(made.formula, draw.data, learner=riesz.DragonNet())
    p = 1 / fit.predictions.rr.values[0]
    true = made.riesz_representer(riesz.Mean(1), draw.data)[0]
    treated = draw.data["a"].to_numpy() == 1
    assert np.sqrt(np.mean((p[treated] - 1 / true[treated]) ** 2)) < 0.08


@pytest.mark.parametrize("learner", WITH_RR, ids=name)
class TestSRR:
    def test_mu_moves_along_rr_and_nothing_else_changes(self, learner: Any, binary_frame: pd.DataFrame) -> None:
        with_, without = (
            riesz.ate("y ~ treat(a) + x1", binary_frame, learner=replace(learner, srr=srr), folds=1)
            for srr in (True, False)
        )
        np.testing.assert_array_equal(with_.riesz_representer, without.riesz_representer)
        moved = with_.fittedvalues - without.fittedvalues
        rr = with_.riesz_representer["ATE"]
        epsilon = (moved * rr).sum() / (rr**2).sum()
        assert epsilon != 0
        np.testing.assert_allclose(moved, epsilon * rr, atol=1e-6)

    def test_epsilon_learns_what_is_left_along_rr(self, learner: Any, binary_frame: pd.DataFrame) -> None:
        """With mu and rr held, epsilon descends to the regression of what mu leaves on rr."""
        fit = riesz.ate("y ~ treat(a) + x1", binary_frame, learner="linear", folds=1)
        design = fit.model.blueprint.design
        batch, scales, _ = batch_of(learner, design, np.arange(400)[None])
        objective = learner.objective("gaussian")
        k = objective.heads(1).linear
        generator = torch.Generator().manual_seed(1)
        heads, outcome = torch.randn((1, 400, k), generator=generator), torch.randn((1, 400), generator=generator)
        epsilon = torch.zeros(1, 1)
        for _ in range(500):
            outputs = Outputs(heads, torch.zeros_like(heads), outcome, epsilon)
            epsilon = epsilon - 0.02 * objective.slopes(outputs, batch, scales)[1].extras
        rr = heads[..., 0] if learner is RIESZ else objective._representer(heads[..., 0], batch)[0][..., 0]
        left = batch.y - outcome
        best = (rr * left).sum() / rr.square().sum()
        assert abs(float(best)) > 0.01
        assert float(epsilon) == pytest.approx(float(best), rel=1e-3)

    def test_several_parameters_have_an_epsilon_each(self, learner: Any, binary_frame: pd.DataFrame) -> None:
        both = [riesz.ATE(), riesz.Mean(1)]
        fit = riesz.estimate("y ~ treat(a) + x1", binary_frame, both, learner=replace(learner, srr=True), folds=2)
        for one in fit._crossfit.fits:
            epsilon = one.networks[0].extras
            assert epsilon.shape == (2,)
            assert (epsilon != 0).all()


def test_dragonnet_trains_with_the_rr_that_it_reports(binary_frame: pd.DataFrame) -> None:
    """The targeted term's rr, row by row, is the closed form of the same propensity."""
    estimands = [riesz.ATE(), riesz.ATT(), riesz.APE("x1 > 0")]
    design = riesz.estimate("y ~ treat(a) + x1", binary_frame, estimands, learner="linear").model.blueprint.design
    batch, _, _ = batch_of(DRAGON, design, np.arange(400)[None])
    logit = torch.linspace(-6, 6, 400)[None]
    trained, _ = DRAGON.objective("gaussian")._representer(logit, batch)
    p = (torch.sigmoid(logit[0].double()).numpy() + DRAGON.squeeze) / (1 + 2 * DRAGON.squeeze)
    a, x = binary_frame["a"].to_numpy(), binary_frame["x1"].to_numpy() > 0
    ate = a / p - (1 - a) / (1 - p)
    want = np.stack([ate, a - (1 - a) * p / (1 - p), np.where(x, a / p, (1 - a) / (1 - p))])
    np.testing.assert_allclose(trained[0].T, want, rtol=1e-4)


def test_the_summary_mentions_squeezed_propensities(binary_frame: pd.DataFrame) -> None:
    fits = [
        riesz.ate("y ~ treat(a) + x1", binary_frame, learner=replace(DRAGON, squeeze=squeeze), folds=2)
        for squeeze in (0.4, 1e-4)
    ]
    assert [bool(fit.details()["squeezed"].mean() > 0.01) for fit in fits] == [True, False]
    assert ["depends on the squeezing" in " ".join(str(fit.summary()).split()) for fit in fits] == [True, False]


@pytest.mark.parametrize("keep", ["best", "last"])
def test_details_are_those_of_the_weights_that_are_kept(binary_frame: pd.DataFrame, keep: Any) -> None:
    learner = replace(DRAGON, keep=keep, squeeze=0.2, stages=(riesz.Stage(3e-2, 60, 60),))
    fit = riesz.ate("y ~ treat(a) + .", binary_frame, learner=learner, folds=1)
    losses = fit.history["valid_loss"]
    assert losses.argmin() < 59  # or the two could not be told apart
    kept = fit.history.iloc[losses.argmin() if keep == "best" else 59]
    pd.testing.assert_series_equal(
        fit.details()[["valid_loss", "squeezed"]].iloc[0], kept[["valid_loss", "squeezed"]], check_names=False
    )


@pytest.mark.parametrize("learner", [RIESZ, riesz.MADNet(**SMALL, **HEADS)], ids=name)
def test_checks_in_the_history_allow_for_a_negative_moment(learner: Any, continuous_frame: pd.DataFrame) -> None:
    """A shift down has a negative moment of the anchor; the course of E_n[anchor rr] / h ends near one all the same."""
    slow = replace(learner, stages=(riesz.Stage(1e-2, 30, 30),))
    courses = [
        riesz.shift("y ~ treat(d) + x1", continuous_frame, delta=delta, learner=slow, folds=1, repeats=1).history
        for delta in (0.5, -0.5)
    ]
    up, down = (course.query("network == 0") if "network" in course else course for course in courses)
    assert down["rr_anchor"].iloc[-1] == pytest.approx(up["rr_anchor"].iloc[-1], abs=0.3)
    assert up["rr_anchor"].iloc[-1] > 0.3
    assert up["ipw"].iloc[-1] * down["ipw"].iloc[-1] < 0


@pytest.mark.parametrize("learner", [*WITH_RR, TAR], ids=name)
def test_a_binary_outcome_has_probabilities(learner: Any, binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(y=(binary_frame["y"] > 1.5).astype(float))
    for inputs in ("standard", "paper"):
        fit = riesz.ate("y ~ treat(a) + x1", data, learner=replace(learner, inputs=inputs), family="binomial", folds=2)
        assert fit.fittedvalues.between(0, 1).all()
        assert abs(fit.fittedvalues.mean() - data["y"].mean()) < 0.1


def test_least_squares_refuses_a_binary_family(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(y=(binary_frame["y"] > 1.5).astype(float))
    with pytest.raises(riesz.LearnerError, match="may leave"):
        riesz.ate("y ~ treat(a) + x1", data, learner=EMBEDDING, family="binomial")


def test_units_do_not_matter(continuous_frame: pd.DataFrame) -> None:
    """RieszNet's loss depends on units, but its heads are scaled."""
    formula = "y ~ treat(d) + x1 + x2"
    plain = riesz.ade(formula, continuous_frame, learner=RIESZ, folds=2)
    changed = continuous_frame.assign(y=continuous_frame["y"] * 64, d=continuous_frame["d"] / 32)
    other = riesz.ade(formula, changed, learner=RIESZ, folds=2)
    np.testing.assert_allclose(other.params / 64 / 32, plain.params, rtol=1e-3)
    np.testing.assert_allclose(other.riesz_representer / 32, plain.riesz_representer, rtol=1e-3, atol=1e-5)


def test_the_treatment_is_no_input(binary_frame: pd.DataFrame) -> None:
    """The only input of TARNet's body is x1."""
    fit = riesz.ate("y ~ treat(a) + x1", binary_frame, learner=TAR, folds=1)
    assert fit._crossfit.fits[0].networks[0].shape.inputs == 1
    with pytest.raises(riesz.LearnerError, match="has none besides the treatment"):
        riesz.ate("y ~ treat(a)", binary_frame, learner=TAR)


def test_the_embedding_is_a_ridge_regression_per_arm(binary_frame: pd.DataFrame) -> None:
    """With hardly any penalty its residuals have no mean in either arm, and are no longer than those of the trained layer."""
    learner = replace(EMBEDDING, penalty=1e-9)
    fit = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=learner, folds=1)
    np.testing.assert_allclose(fit.resid.groupby(binary_frame["a"]).mean(), 0, atol=1e-4)
    shrunk = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=replace(EMBEDDING, penalty=1e6), folds=1)
    np.testing.assert_allclose(shrunk.fittedvalues, binary_frame["y"].mean(), atol=1e-3)


@pytest.mark.parametrize("kind", [riesz.TARNet, riesz.RieszNet])
def test_small_batches_learn_for_the_same_population_as_large_ones(kind: Any) -> None:
    """A batch without heavy rows counts little: ten rows in a thousand have half the weight, and an outcome of one, not zero."""
    rng, n = np.random.default_rng(0), 1000
    heavy = np.isin(np.arange(n), rng.choice(n, 10, replace=False))
    data = pd.DataFrame({"a": rng.integers(0, 2, n), "x": rng.normal(size=n), "w": np.where(heavy, 99.0, 1.0)})
    data["y"] = heavy + 0.01 * rng.normal(size=n)
    size = {"width": 4, "depth": 1, "head_width": 2, "head_depth": 1, "validation": 0.1, "keep": "last"}
    learner = kind(**size, batch_size=64, stages=(riesz.Stage(1e-2, 100, 100), riesz.Stage(1e-3, 30, 30)))
    treated = data[data["a"] == 1]
    expected = np.average(treated["y"], weights=treated["w"])  # 0.57; each batch as a sample of its own gave 0.38
    options: Any = {"learner": learner, "folds": 1, "weights": "w", "estimator": "direct"}
    assert riesz.mean("y ~ treat(a) + x", data, at=1, **options).params.iloc[0] == pytest.approx(expected, abs=0.08)


def test_a_loss_that_is_hardly_smaller_is_not_better(binary_frame: pd.DataFrame) -> None:
    stages = [(riesz.Stage(1e-2, 50, 3, min_delta=1e6),), (riesz.Stage(1e-2, 1),)]
    stopped, one = (
        riesz.ate("y ~ treat(a) + .", binary_frame, learner=replace(RIESZ, stages=stage), folds=1) for stage in stages
    )
    assert stopped.history["epoch"].max() == 1 + 3 + 1
    assert stopped.history["valid_loss"].diff().min() < 0  # smaller, but not by that much
    np.testing.assert_allclose(stopped.fittedvalues, one.fittedvalues)


def test_a_plateau_halves_the_learning_rate(binary_frame: pd.DataFrame) -> None:
    def course(plateau: int | None) -> pd.Series:
        stages = (riesz.Stage(3e-2, 150, 150, plateau),)
        return riesz.ate("y ~ treat(a) + x1", binary_frame, learner=replace(RIESZ, stages=stages), folds=1).history[
            "valid_loss"
        ]

    constant, never, often = course(None), course(149), course(1)
    np.testing.assert_array_equal(constant, never)
    assert np.ptp(often.iloc[-10:]) < 1e-6 < np.ptp(constant.iloc[-10:])


def test_histories_contain_the_loss_and_its_parts(binary_frame: pd.DataFrame) -> None:
    columns = {
        RIESZ: {"rr_loss", "targeted_loss", "outcome_loss", "rr_anchor", "ipw"},
        DRAGON: {"propensity_loss", "targeted_loss", "outcome_loss", "squeezed"},
        TAR: {"outcome_loss"},
    }
    for learner, expected in columns.items():
        history = riesz.ate("y ~ treat(a) + x1", binary_frame, learner=learner, folds=2).history
        assert expected | {"epoch", "stage", "loss", "valid_loss", "member", "network"} == set(history.columns)
        assert np.isfinite(history.to_numpy()).all()
    assert (
        riesz.plots.history(riesz.ate("y ~ treat(a) + x1", binary_frame, learner=TAR, folds=2)).get_xlabel() == "Epoch"
    )


def test_rr_anchor_tends_to_one() -> None:
    learner = replace(RIESZ, stages=(riesz.Stage(1e-2, 60, 60),))
    history = riesz.ate("y ~ treat(a) + x", cells(), learner=learner, folds=1).history
    assert abs(history["rr_anchor"].iloc[0] - 1) > 0.1
    assert abs(history["rr_anchor"].iloc[-5:].mean() - 1) < 0.1


@pytest.mark.parametrize("learner", ALL, ids=name)
def test_files_hold_the_networks(learner: Any, binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    few = replace(learner, networks=2, stages=(riesz.Stage(1e-2, 3, 3),), device="cpu")
    fit = riesz.ate("y ~ treat(a) + x1 + g", binary_frame, learner=few, folds=2)
    fit.save(tmp_path / "fit")
    again = riesz.load(tmp_path / "fit")
    assert again.model.learner == few
    pd.testing.assert_frame_equal(again.history, fit.history)
    for loaded, saved in zip(again._crossfit.fits, fit._crossfit.fits, strict=True):
        assert type(loaded) is type(saved)
    rows = fit.model.blueprint.design.take(np.arange(9))
    if learner.learns_rr and learner is DRAGON:
        with pytest.raises(riesz.LearnerError, match="function of the moment, which DragonNet needs"):
            again._crossfit.fits[0].predict(again.model.blueprint.design.take(np.arange(9)))
        return
    mu = again._crossfit.fits[0].predict(again.model.blueprint.design.take(np.arange(9))).mu
    np.testing.assert_array_equal(mu.values, fit._crossfit.fits[0].predict(rows).mu.values)


def test_presets() -> None:
    ate, ade = riesz.RieszNet.paper(), riesz.RieszNet.paper("ade")
    assert (ate.width, ate.depth, ate.head_width, ate.head_depth) == (200, 3, 100, 2)
    assert (ate.rr_weight, ate.targeted_weight, ate.batch_size, ate.weight_decay) == (0.1, 1.0, 64, 1e-3)
    assert [(s.learning_rate, s.epochs, s.patience) for s in ate.stages] == [(1e-4, 100, 2), (1e-5, 600, 40)]
    assert [(s.learning_rate, s.epochs, s.patience) for s in ade.stages] == [(1e-3, 100, 2), (1e-4, 300, 20)]
    assert riesz.DragonNet.paper(squeeze=0.05).squeeze == 0.05
    assert riesz.DragonNet.paper().stages == riesz.TARNet.paper().stages == ate.stages
    with pytest.raises(riesz.LearnerError, match="expected 'ate' or 'ade'"):
        riesz.RieszNet.paper("att")


@pytest.mark.parametrize(
    ("make", "settings", "words"),
    [
        (riesz.RieszNet, {"architecture": "resnet"}, "expected one of 'multihead'"),
        (riesz.RieszNet, {"keep": "each"}, "'best', 'last'"),
        (riesz.RieszNet, {"rr_weight": 0.0}, "rr is not learned"),
        (riesz.RieszNet, {"stages": ()}, "one or more stages"),
        (riesz.DragonNet, {"squeeze": 0.5}, "between 0 and 0.5"),
        (riesz.DragonNet, {"propensity_weight": 0}, "propensity is not learned"),
        (riesz.DragonNet, {"srr": "yes"}, "expected one of True, False"),
        (riesz.TARNet, {"width": 0}, "whole number"),
        (riesz.TARNet, {"validation": 0.9}, "between 0 and a half"),
        (riesz.NeuralEmbedding, {"penalty": -1}, "positive number or 'loo'"),
        (
            riesz.Stage,
            {"learning_rate": 1e-3, "epochs": 5, "patience": 5, "plateau": 0},
            "plateau must be a whole number, 1 or larger",
        ),
        (riesz.RieszNet, {"stages": riesz.Stage(1e-3, 5)}, "one or more stages"),
        (riesz.RieszNet, {"stages": 300}, "one or more stages"),
        (riesz.RieszNet, {"validation": "0.2"}, "expected a number"),
        (riesz.RieszNet, {"width": 2.5}, "expected a whole number"),
    ],
)
def test_bad_settings(make: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        make(**settings)


def test_numbers_of_numpy_are_numbers() -> None:
    made = riesz.RieszNet(width=np.int64(8), weight_decay=np.float32(0.5))
    assert (type(made.width), made.width, made.weight_decay) == (int, 8, 0.5)


@pytest.mark.parametrize("anchor", ["product", "ratio"])
def test_the_origin_of_the_treatment_does_not_matter(continuous_frame: pd.DataFrame, anchor: Any) -> None:
    estimand = riesz.IPE("where(x1 > 0, 1, -0.5)", anchor=anchor)
    here, moved = (
        riesz.estimate(
            "y ~ treat(d) + .", continuous_frame.assign(d=lambda t, by=by: t["d"] + by), estimand, learner=RIESZ
        )
        for by in (0.0, 64.0)
    )
    np.testing.assert_allclose(moved.riesz_representer, here.riesz_representer, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(moved.params, here.params, rtol=1e-3)
