"""Networks: exact gradients and derivatives, independence of other networks, units, every verb, clear errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import riesz
from riesz import datasets
from riesz.design.design import Design
from riesz.learners.inputs.evaluation_points import make_evaluation_points
from riesz.learners.inputs.expansions import Expansions, Role, make_expansion, make_expansions, mass_points
from riesz.learners.neural.engine.batching import Feed, Scales
from riesz.learners.neural.engine.network import NetworkBatch, Shape, initial
from riesz.learners.neural.engine.scaling import make_scale
from riesz.learners.neural.engine.train_together import draw_members
from riesz.learners.neural.objectives.base import Objective, Outputs

SMALL = riesz.MADNet(
    width=16,
    depth=2,
    head_width=8,
    head_depth=1,
    repeats=1,
    stages=(riesz.Stage(1e-2, 12, 12),),
    batch_size=32,
    weight_decay=1e-3,
    keep="best",
    inputs="standard",
    networks=1,
)


def plain_inputs(design: Design) -> Expansions:
    return make_expansions(design, splines=False, indicators=False)


def networks_of(shape: Shape, members: int) -> NetworkBatch:
    flat = np.stack([initial(shape, seed) for seed in range(members)]).astype(np.float64)
    return NetworkBatch(shape, torch.as_tensor(flat))


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("head_depth", [0, 1, 2, 3])
def test_backward_is_the_derivative_of_forward(head_depth: int, dual: bool) -> None:
    shape = Shape(inputs=4, components=2, outcomes=3, width=6, depth=2, head_width=5, head_depth=head_depth)
    networks = networks_of(shape, 2)
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(2, 14 if dual else 7, 4, generator=generator, dtype=torch.float64)
    observed = torch.tensor([[0, 3, 4], [2, 5, 6]]) + torch.tensor([[0], [rows.shape[1]]])
    sizes = ((2, rows.shape[1], 2), (2, 3, 3))
    directions = [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]
    networks.forward_to_train(rows, observed, dual)
    networks.backward(*(direction.clone() for direction in directions), observed, dual)
    step = 1e-6
    for place in range(0, shape.size, 5):
        moved = []
        for sign in (1, -1):
            flat = networks.flat.clone()
            flat[:, place] += sign * step
            found = NetworkBatch(shape, flat).forward_to_train(rows, observed, dual)
            moved.append(sum((own * along).sum(dim=(1, 2)) for own, along in zip(found, directions, strict=True)))
        torch.testing.assert_close(
            networks.gradient[:, place], (moved[0] - moved[1]) / (2 * step), atol=1e-7, rtol=1e-6
        )


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("head_depth", [0, 2])
def test_the_training_pass_agrees_with_the_whole_pass(head_depth: int, dual: bool) -> None:
    """It computes some of the outputs of the whole pass."""
    shape = Shape(inputs=4, components=2, outcomes=3, width=6, depth=2, head_width=5, head_depth=head_depth)
    networks = networks_of(shape, 2)
    rows = torch.randn(2, 14 if dual else 7, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    whole = networks.forward(rows, dual)
    observed = torch.tensor([[0, 3, 4], [2, 5, 6]]) + torch.tensor([[0], [rows.shape[1]]])
    components, outcomes = networks.forward_to_train(rows, observed, dual)
    torch.testing.assert_close(components, whole[..., :2])
    torch.testing.assert_close(outcomes.flatten(0, 1), whole.flatten(0, 1)[observed.flatten(), 2:])


def test_tangents_are_exact_derivatives() -> None:
    shape = Shape(inputs=4, components=1, outcomes=2, width=6, depth=3, head_width=5, head_depth=2)
    networks = networks_of(shape, 3)
    generator = torch.Generator().manual_seed(1)
    x, t = torch.randn(2, 3, 9, 4, generator=generator, dtype=torch.float64)
    tangents = networks.forward(torch.cat([x, t], dim=1), dual=True)[:, 9:]
    up, down = (networks.forward(x + sign * 1e-6 * t, dual=False) for sign in (1, -1))
    torch.testing.assert_close(tangents, (up - down) / 2e-6, atol=1e-8, rtol=1e-6)


def test_sizes_are_the_papers() -> None:
    shape = Shape(inputs=26, components=1, outcomes=2, width=200, depth=4, head_width=0, head_depth=0)
    assert shape.size == 126_603


def test_the_observed_row_is_not_evaluated_twice(binary_frame: pd.DataFrame, continuous_frame: pd.DataFrame) -> None:
    """Two points for a binary ATE, one for an ADE, two for a shift, three for ATE of three arms."""

    def points(fit: riesz.Results) -> int:
        design = fit.model.blueprint.design
        return make_evaluation_points(design, plain_inputs(design)).treatment.shape[1]

    assert points(riesz.ate("y ~ treat(a) + x1", binary_frame)) == 2
    assert points(riesz.ade("y ~ treat(d) + x1", continuous_frame)) == 1
    assert points(riesz.shift("y ~ treat(d) + x1", continuous_frame, delta=0.5)) == 2
    assert points(riesz.mean("y ~ treat(a) + x1", binary_frame, at=1)) == 2


@pytest.mark.parametrize(
    "learner",
    [
        SMALL,
        replace(SMALL, constraint="exact"),
        replace(SMALL, constraint="multiplier"),
        replace(SMALL, keep="each", stages=(riesz.Stage(1e-2, 40, 3),)),
        replace(SMALL, networks=3),
        replace(SMALL, redraw=True, keep="last", stages=(riesz.Stage(1e-2, 9, 1), riesz.Stage(1e-3, 9, 2))),
    ],
)
def test_side_by_side_equals_alone(learner: riesz.MADNet) -> None:
    """Same seed and data, same numbers to the last bit, whichever networks are trained beside it."""
    draws = [datasets.get("binary").draw(n, seed=seed).data for seed, n in enumerate((150, 150, 150, 151, 200))]
    together = riesz.estimate_many("y ~ treat(a) + .", draws, riesz.ATE(), learner=learner, folds=2)
    for draw, fit in zip(draws, together, strict=True):
        alone = riesz.ate("y ~ treat(a) + .", draw, learner=learner, folds=2)
        np.testing.assert_array_equal(alone.influence, fit.influence)
        np.testing.assert_array_equal(alone.riesz_representer, fit.riesz_representer)
    small = riesz.estimate_many(
        "y ~ treat(a) + .", draws, riesz.ATE(), learner=replace(learner, side_by_side=2), folds=2
    )
    np.testing.assert_array_equal(small[3].influence, together[3].influence)


def test_seeds_are_as_many_as_tables(binary_frame: pd.DataFrame) -> None:
    with pytest.raises(riesz.LearnerError, match="seeds has 1 numbers for 2 tables; expected one per table"):
        riesz.estimate_many("y ~ treat(a) + x1", [binary_frame] * 2, riesz.ATE(), seeds=[3])


def test_seeds_determine_everything_and_nothing_global_changes(binary_frame: pd.DataFrame) -> None:
    before = (torch.initial_seed(), torch.get_num_threads(), torch.get_default_dtype(), torch.random.get_rng_state())
    one, two, other = (
        riesz.ate("y ~ treat(a) + x1", binary_frame, learner=SMALL, folds=2, seed=seed) for seed in (3, 3, 4)
    )
    after = (torch.initial_seed(), torch.get_num_threads(), torch.get_default_dtype(), torch.random.get_rng_state())
    np.testing.assert_array_equal(one.influence, two.influence)
    assert not np.array_equal(one.influence, other.influence)
    assert before[:3] == after[:3]
    assert torch.equal(before[3], after[3])


@pytest.mark.parametrize("constraint", ["absolute", "exact"])
def test_scale_free(binary_frame: pd.DataFrame, constraint: str) -> None:
    fit = riesz.estimate(
        "y ~ treat(a) + x1 + x2 + g",
        binary_frame,
        [riesz.ATE(), riesz.ATT(), riesz.Mean(1)],
        learner=replace(SMALL, constraint=constraint),
        folds=3,
        weights="w",
    )
    design, rr = fit.model.blueprint.design, fit.predictions.rr
    np.testing.assert_allclose(design.mean(design.apply(rr)), design.mean(rr.observed**2), rtol=1e-9)
    values = fit.estimates["estimate"].unstack()
    np.testing.assert_allclose(values["dr"], values["tmle"], rtol=1e-9)


@pytest.mark.parametrize(
    "learner",
    [
        SMALL,
        replace(SMALL, keep="each"),
        replace(SMALL, networks=2, stages=(riesz.Stage(1e-2, 4, 4),)),
    ],
    ids=["best", "each", "two networks"],
)
@pytest.mark.parametrize("name", datasets.SIMULATIONS)
def test_every_verb(name: str, learner: riesz.MADNet) -> None:
    """All questions of every simulation in one fit: arms, derivatives, shifts, binary outcomes, clusters."""
    simulation = datasets.get(name)
    data = simulation.draw(200, seed=1).data
    fit = riesz.estimate(
        simulation.formula, data, list(simulation.questions.values()), learner=learner, folds=2, **simulation.keywords
    )
    assert np.isfinite(fit.params).all()
    assert (fit.bse > 0).all()
    if simulation.keywords.get("family") == "binomial":
        assert fit.fittedvalues.between(0, 1).all()


@pytest.mark.parametrize("inputs", ["standard", "paper"])
def test_slopes_are_those_of_the_fitted_surface(continuous_frame: pd.DataFrame, inputs: str) -> None:
    """The derivative readings of mu and rr agree with differences of their own values."""
    formula, data = "y ~ treat(d) + x1 + x2", continuous_frame
    step = 1e-2
    both = [
        riesz.ADE(),
        riesz.Mean(f"d + {step}"),
        riesz.CustomMoment(lambda mu, data: mu(data.assign(d=data["d"] - step))),
    ]
    fit = riesz.estimate(formula, data, both, learner=replace(SMALL, inputs=inputs), folds=1)
    mu = fit.predictions.mu
    difference = (mu.values[1] - mu.values[2]) / (2 * step)
    np.testing.assert_allclose(mu.slopes[0], difference, atol=2e-2 * np.abs(difference).max())


@pytest.mark.parametrize("inputs", ["standard", "paper"])
def test_a_custom_moment_that_moves_covariates(binary_frame: pd.DataFrame, inputs: str) -> None:
    """Mu is read at changed covariates: with x1 as the only input, the network must use its changed values."""
    moved = riesz.CustomMoment(
        lambda mu, data: mu(data.assign(x1=data["x1"] + 1)) - mu(data), anchor=lambda data: data["x1"], name="moved"
    )
    learner = replace(SMALL, stages=(riesz.Stage(1e-2, 60, 60),), inputs=inputs)
    fit = riesz.estimate("y ~ treat(a) + x1", binary_frame, moved, learner=learner, folds=1)
    linear = riesz.estimate("y ~ treat(a) * x1", binary_frame, moved, folds=1)
    assert abs(fit.params["moved"] - linear.params["moved"]) < 4 * linear.bse["moved"]


def test_units_do_not_matter(continuous_frame: pd.DataFrame) -> None:
    """Powers of two change float32 arithmetic by nothing but the exponent."""
    formula = "y ~ treat(d) + x1 + x2"
    plain = riesz.ade(formula, continuous_frame, learner=SMALL, folds=2)
    changed = continuous_frame.assign(
        y=continuous_frame["y"] * 64, d=continuous_frame["d"] / 32, x1=continuous_frame["x1"] * 8
    )
    other = riesz.ade(formula, changed, learner=SMALL, folds=2)
    np.testing.assert_allclose(other.params / 64 / 32, plain.params, rtol=1e-3)
    np.testing.assert_allclose(other.bse / 64 / 32, plain.bse, rtol=1e-3)


@pytest.mark.parametrize(("name", "verb"), [("binary", "ate"), ("continuous", "ade")])
def test_truth_is_found(name: str, verb: str) -> None:
    simulation = datasets.get(name)
    draw = simulation.draw(1000, seed=5)
    learner = riesz.MADNet(width=64, head_width=32, head_depth=1, repeats=1)
    question = simulation.questions[verb]
    fit = riesz.estimate("y ~ treat(a) + .", draw.data, question, learner=learner)
    assert abs(fit.params.iloc[0] - simulation.truth(question)[0]) < 4 * fit.bse.iloc[0]
    true = simulation.riesz_representer(question, draw.data)[0]
    assert np.mean((fit.riesz_representer.iloc[:, 0] - true) ** 2) < 0.4 * np.mean(true**2)
    assert np.mean((fit.fittedvalues - draw.mu) ** 2) < 0.15 * draw.mu.var()


def test_history_is_tidy(binary_frame: pd.DataFrame) -> None:
    learner = replace(SMALL, stages=(riesz.Stage(1e-2, 4, 10), riesz.Stage(1e-3, 3, 10)))
    fit = riesz.ate("y ~ treat(a) + x1", binary_frame, learner=learner, folds=3)
    history = fit.history
    assert history.groupby("member")["epoch"].max().tolist() == [7, 7, 7]
    assert history.groupby("stage")["epoch"].max().to_dict() == {1: 4, 2: 7}
    assert {"loss", "valid_loss", "violation", "rr_anchor"} <= set(history.columns)
    first, last = history[history["epoch"] == 1], history[history["epoch"] == 7]
    assert last["loss"].mean() < first["loss"].mean()
    assert riesz.ate("y ~ treat(a)", binary_frame).history.drop(columns="member").empty


@pytest.mark.parametrize("cluster", [None, "village"])
def test_a_later_stage_may_draw_validation_rows_anew(binary_frame: pd.DataFrame, cluster: str | None) -> None:
    table = binary_frame.assign(village=np.arange(400) // 7)
    stages = (riesz.Stage(1e-2, 4, 4), riesz.Stage(1e-9, 2, 2))  # the second stage hardly moves
    same, anew = (
        riesz.ate(
            "y ~ treat(a) + x1",
            table,
            learner=replace(SMALL, redraw=redraw, keep="last", stages=stages),
            folds=1,
            cluster=cluster,
        )
        for redraw in (False, True)
    )
    np.testing.assert_array_equal(same.history["valid_loss"][:4], anew.history["valid_loss"][:4])
    np.testing.assert_allclose(same.history["valid_loss"].iloc[4], same.history["valid_loss"].iloc[3], rtol=1e-4)
    assert abs(anew.history["valid_loss"].iloc[4] / anew.history["valid_loss"].iloc[3] - 1) > 1e-3
    np.testing.assert_allclose(same.fittedvalues, anew.fittedvalues, rtol=1e-3, atol=1e-3)


def test_patience_stops_a_member_and_the_best_weights_return(binary_frame: pd.DataFrame) -> None:
    eager = replace(SMALL, stages=(riesz.Stage(3e-2, 200, 3),))
    fit = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=eager, folds=4)
    epochs = fit.details()["epochs"]
    assert (epochs < 200).all()
    assert epochs.nunique() > 1
    best = fit.history.groupby("member").apply(lambda h: h.loc[h["valid_loss"].idxmin(), "epoch"])
    np.testing.assert_array_equal(epochs - best, 4)


def test_a_stage_that_keeps_the_last_weights_counts_its_patience_anew(binary_frame: pd.DataFrame) -> None:
    """The second stage is worse than the first from its first epoch on, so it ends there unless it has a separate best loss."""
    stages = (riesz.Stage(1e-2, 20, 20), riesz.Stage(1.0, 20, 0))

    def epochs(keep: str) -> int:
        learner = replace(SMALL, stages=stages, keep=keep)
        history = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=learner, folds=1).history
        return int((history["stage"] == 2).sum())

    assert epochs("best") == 1
    assert epochs("last") > 1


def weights_after(frame: pd.DataFrame, epochs: int, **changes: object) -> torch.Tensor:
    """Weights of a network after this number of steps, each on all rows."""
    learner = replace(
        SMALL, batch_size=10_000, weight_decay=0.0, stages=(riesz.Stage(1e-3, epochs, epochs),), **changes
    )
    fit = riesz.ate("y ~ treat(a) + x1 + x2", frame, learner=replace(learner, keep="last"), folds=1)
    (one,) = fit._crossfit.fits
    return one.networks[0].trained.mu


def test_the_larger_learning_rate_is_that_of_the_treatments_main_effect(binary_frame: pd.DataFrame) -> None:
    """Adam's first step is the learning rate: the last bias alone moves by it, up or down, instead of the stage's."""
    slow, fast = (weights_after(binary_frame, 1, bias_learning_rate=rate) for rate in (None, 0.9))
    apart = (fast - slow).abs()
    assert apart[-1].item() == pytest.approx(0.9 - 1e-3, rel=1e-3)
    assert apart[:-1].max().item() == 0.0


def test_momentum_is_adams(binary_frame: pd.DataFrame) -> None:
    """After one step Adam's average is the gradient whatever the momentum; after more it is not."""
    for steps, alike in ((1, True), (3, False)):
        usual, none = weights_after(binary_frame, steps), weights_after(binary_frame, steps, momentum=0.0)
        assert torch.allclose(usual, none, atol=1e-6) is alike
    with pytest.raises(riesz.LearnerError, match=r"momentum=1\.0.*expected a share below 1"):
        replace(SMALL, momentum=1.0)
    with pytest.raises(riesz.LearnerError, match=r"momentum=1\.0.*expected a share below 1"):
        riesz.RieszNet(momentum=1.0)


@pytest.mark.parametrize("learner", [riesz.MADNet.paper(), riesz.RieszNet.paper(), riesz.DragonNet.paper()])
def test_the_papers_settings_do_not_depend_on_where_the_outcome_is_zero(
    binary_frame: pd.DataFrame, learner: riesz.MADNet
) -> None:
    quick = replace(learner, width=16, head_width=8, stages=(riesz.Stage(1e-3, 3, 3),))
    moved = binary_frame.assign(y=binary_frame["y"] + 1000.0)
    fits = [riesz.ate("y ~ treat(a) + x1", frame, learner=quick, folds=1) for frame in (binary_frame, moved)]
    for name in ("direct", "dr"):
        own, other = (fit.estimates.loc[("ATE", name), "estimate"] for fit in fits)
        assert own == pytest.approx(other, abs=1e-4)


def test_exact_constraint_holds_on_the_training_rows(continuous_frame: pd.DataFrame) -> None:
    """h_n(beta - r) = 0 up to the projection of beta: h_n(r) equals h_n(projected beta) by construction."""
    learner = replace(SMALL, constraint="exact")
    fit = riesz.ade("y ~ treat(d) + x1", continuous_frame, learner=learner, folds=1)
    plain = riesz.ade("y ~ treat(d) + x1", continuous_frame, learner=SMALL, folds=1)
    design = fit.model.blueprint.design
    r = fit._crossfit.fits[0].predict(design).rr
    np.testing.assert_allclose(design.mean(design.apply(r)), 1.0, atol=0.05)
    np.testing.assert_array_equal(fit.fittedvalues, plain.fittedvalues)


@pytest.mark.parametrize("growth", [1.0, 1.2])
def test_penalty_shrinks_the_violation(binary_frame: pd.DataFrame, growth: float) -> None:
    def violation(penalty: float) -> float:
        learner = replace(SMALL, penalty=penalty, growth=growth, stages=(riesz.Stage(1e-2, 40, 40),))
        history = riesz.ate("y ~ treat(a) + x1", binary_frame, learner=learner, folds=1).history
        return history["violation"].iloc[-5:].mean()

    assert violation(5.0) < 0.5 * violation(0.0)


def test_a_loss_that_diverges_is_an_error(binary_frame: pd.DataFrame) -> None:
    wild = replace(SMALL, stages=(riesz.Stage(1e-2, 2, 5), riesz.Stage(1e25, 50, 50)))
    with pytest.raises(riesz.LearnerError, match=r"not finite in stage 2, epoch \d+.*smaller learning rate"):
        riesz.ate("y ~ treat(a) + x1", binary_frame, learner=wild, folds=2)


def test_awkward_designs(binary_frame: pd.DataFrame) -> None:
    few = binary_frame.iloc[:60]
    assert np.isfinite(riesz.ate("y ~ treat(a) + x1", few, learner=replace(SMALL, batch_size=512), folds=2).bse).all()
    assert np.isfinite(riesz.ate("y ~ treat(a)", few, learner=SMALL, folds=2).bse).all()
    constant = few.assign(one=1.0)
    assert np.isfinite(riesz.ate("y ~ treat(a) + one + x1", constant, learner=SMALL, folds=2).bse).all()
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 90))).rename(columns=lambda j: f"v{j}")
    wide = wide.assign(a=few["a"].to_numpy(), y=few["y"].to_numpy())
    assert np.isfinite(riesz.ate("y ~ treat(a) + .", wide, learner=SMALL, folds=2).bse).all()
    with pytest.raises(riesz.LearnerError, match="needs at least 20"):
        riesz.ate("y ~ treat(a) + x1", binary_frame.iloc[:30], learner=SMALL, folds=2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"architecture": "resnet"}, "expected one of 'multihead'"),
        ({"width": 0}, "whole number"),
        ({"penalty": -1.0}, "0 or larger"),
        ({"validation": 0.9}, "between 0 and a half"),
        ({"stages": ()}, "one or more stages"),
        ({"keep": "first"}, "'best', 'each', 'last'"),
        ({"bias_learning_rate": -0.9}, "0 or larger"),
    ],
)
def test_bad_settings(settings: dict, words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        riesz.MADNet(**settings)


def test_bad_device(binary_frame: pd.DataFrame) -> None:
    with pytest.raises(riesz.LearnerError, match="device='tpu' is not available"):
        riesz.ate("y ~ treat(a)", binary_frame, learner=replace(SMALL, device="tpu"))


def test_clusters_are_not_cut_by_validation() -> None:
    data = datasets.get("clustered").draw(300, seed=1).data
    fit = riesz.ate("y ~ treat(a) + x1", data, learner=SMALL, cluster="village", folds=2)
    design = fit.model.blueprint.design
    feed = Feed([design], torch.device("cpu"), [plain_inputs(design)])
    scale = make_scale(design, feed.inputs_of(design), "standard")
    (member,) = draw_members(design, 0, feed, scale, networks=1, validation=0.2, draws=2)
    groups, (first, second) = design.groups, member.parts
    for train, valid in member.parts:
        assert not set(groups[train]) & set(groups[valid])
        assert len(train) + len(valid) == 300
    assert set(first[1]) != set(second[1])


def test_presets() -> None:
    ate, ade = riesz.MADNet.paper(), riesz.MADNet.paper("ade")
    assert (ate.width, ate.depth, ate.head_width, ate.head_depth, ate.penalty, ate.rho) == (200, 3, 100, 2, 5.0, 1.0)
    assert [(s.learning_rate, s.epochs, s.patience) for s in ate.stages] == [(1e-4, 100, 2), (1e-5, 600, 40)]
    assert [(s.learning_rate, s.epochs, s.patience) for s in ade.stages] == [(1e-3, 100, 2), (1e-4, 300, 20)]
    assert (ate.batch_size, ate.weight_decay, ate.bias_learning_rate, ate.keep) == (64, 1e-3, 0.9, "last")
    assert (ate.momentum, ate.inputs, ate.networks, ate.redraw) == (1e-3, "paper", 1, True)
    assert all(learner.paper().redraw for learner in (riesz.RieszNet, riesz.DragonNet, riesz.TARNet))
    assert not riesz.RieszNet.original().redraw
    with pytest.raises(riesz.LearnerError, match="expected 'ate' or 'ade'"):
        riesz.MADNet.paper("att")


def test_expansion_is_orthonormal_and_its_slopes_exact() -> None:
    x = np.random.default_rng(0).gamma(2.0, size=500)
    made = make_expansion(x)
    features = made.features(x)
    np.testing.assert_allclose(features.T @ features / 500, np.eye(5), atol=1e-9)
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-9)
    far = np.array([-5.0, 0.1, 3.0, 12.0])
    difference = (made.features(far + 1e-6) - made.features(far - 1e-6)) / 2e-6
    np.testing.assert_allclose(made.slopes(far), difference, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made.slopes(np.array([20.0])), made.slopes(np.array([30.0])), rtol=1e-6)
    assert make_expansion(np.arange(500) % 3.0).size == 1


def test_a_column_with_a_mass_point_still_gets_its_spline() -> None:
    """40% zeros: the knots are quantiles of the other values, and the zero has an indicator."""
    rest = np.random.default_rng(0).gamma(2.0, size=300)
    x = np.r_[np.zeros(200), rest]
    atoms = mass_points(x, np.ones(500))
    assert atoms == (0.0,)
    how = make_expansion(x, atoms)
    np.testing.assert_allclose(how.knots, make_expansion(rest).knots)
    assert how.roles.tolist() == [Role.LINE] + [Role.BEND] * 4 + [Role.INDICATOR]
    features = how.features(x)
    assert features.shape == (500, how.size)
    np.testing.assert_array_equal(features[:, -1], x == 0)
    np.testing.assert_array_equal(how.slopes(x)[:, -1], 0)
    assert how.limits.shape == (2, how.size)
    inside = how.features(np.linspace(how.knots[0], how.knots[-1], 1000))[:, :-1]
    np.testing.assert_allclose(inside.min(axis=0), how.limits[0, :-1], rtol=0.01, atol=0.01)
    np.testing.assert_array_equal(how.limits[:, -1], [-np.inf, np.inf])


def test_mass_points_carry_weight_and_dummies_have_none() -> None:
    x = np.r_[np.zeros(4), np.ones(6), np.linspace(2, 3, 90)]
    assert mass_points(x, np.ones(100)) == (1.0,)
    assert mass_points(x, np.where(x == 0, 2.0, 1.0)) == (0.0, 1.0)
    assert mass_points(x[:10], np.ones(10)) == ()


@pytest.mark.filterwarnings("ignore:Treatment `dose` is heavily tied")
def test_networks_see_mass_points_unless_as_in_the_paper(binary_frame: pd.DataFrame) -> None:
    """Of covariates, never of the treatment."""
    rng = np.random.default_rng(1)
    hours = np.where(rng.uniform(size=len(binary_frame)) < 0.4, 0.0, rng.gamma(2.0, size=len(binary_frame)))
    dose = np.where(rng.uniform(size=len(binary_frame)) < 0.4, 0.0, rng.normal(size=len(binary_frame)))
    data = binary_frame.assign(hours=hours, dose=dose)

    def inputs(learner: riesz.MADNet) -> int:
        fit = riesz.ade("y ~ treat(dose) + hours + x1", data, learner=learner, folds=2)
        return fit._crossfit.fits[0].networks[0].feed.inputs

    assert inputs(SMALL) == 4
    assert inputs(replace(SMALL, inputs="paper")) == 3


def test_mu_and_rr_each_keep_their_best_epoch(binary_frame: pd.DataFrame) -> None:
    learner = replace(SMALL, keep="each", stages=(riesz.Stage(2e-2, 60, 8),))
    fit = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=learner, folds=4)
    history = fit.history.assign(rest=lambda h: h["valid_loss"] - h["outcome_loss"])
    differ = []
    for member, course in history.groupby("member"):
        best = [course.loc[course[name].idxmin(), "epoch"] for name in ("outcome_loss", "rest")]
        assert course["epoch"].max() in (max(best) + 9, 60)
        trained = fit._crossfit.fits[member].networks[0].trained
        assert torch.equal(trained.mu, trained.rr) == (best[0] == best[1])
        differ.append(best[0] != best[1])
    assert any(differ)


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
@pytest.mark.parametrize("changes", [{}, {"growth": 1.1}, {"constraint": "multiplier"}], ids=str)
def test_slopes_of_the_loss_are_its_derivatives(family: str, changes: dict[str, object]) -> None:
    """The formula agrees with automatic differentiation of the loss."""
    learner = replace(SMALL, **changes)
    draw = datasets.get("binary").draw(60, seed=1).data.assign(y=lambda d: d["y"] > d["y"].median())
    fit = riesz.estimate("y ~ treat(a) + .", draw, [riesz.ATE(), riesz.ATT()], family=family)
    design = fit.model.blueprint.design
    feed = Feed([design], torch.device("cpu"), [plain_inputs(design)])
    rows = np.arange(60)
    scale = make_scale(design, feed.inputs_of(design), "standard")
    scales = Scales([(scale, 0), (scale, 0)], feed)
    batch = feed.batch(torch.as_tensor(np.stack([rows[:32], rows[28:]])), torch.ones(2, 32), scales)
    generator = torch.Generator().manual_seed(3)
    outputs = Outputs(*(torch.randn(shape, generator=generator) for shape in ((2, 32, 2), (2, 32, 2), (2, 32))))
    objective = learner.objective(design.family).at(torch.tensor([3.0, 5.0]), torch.tensor([[0.3, -0.2], [0.1, 0.4]]))
    _, by_formula = objective.slopes(outputs, batch, scales)
    _, automatic = Objective.slopes(objective, outputs, batch, scales)
    for slope, expected in zip(by_formula, automatic, strict=True):
        torch.testing.assert_close(slope, expected)
