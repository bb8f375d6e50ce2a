"""Adversarial networks: gradients of both players, optimistic steps, and what they learn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import riesz
from riesz import datasets
from riesz.learners.inputs.expansions import make_expansions
from riesz.learners.neural.engine import training
from riesz.learners.neural.engine.batching import Feed, Scales
from riesz.learners.neural.engine.scaling import make_scale
from riesz.learners.neural.objectives.base import Outputs

SMALL = riesz.AdversarialNet(width=12, head_width=6, keep="best", stages=(riesz.Stage(1e-2, 5, 5),))
ATE = "y ~ treat(a) + ."


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_slopes_are_those_of_each_player(family: str) -> None:
    """A network descends on its loss, its adversary climbs the game; by automatic differentiation of both."""
    draw = datasets.get("binary").draw(60, seed=1).data.assign(y=lambda d: d["y"] > d["y"].median())
    fit = riesz.estimate(ATE, draw, [riesz.ATE(), riesz.ATT()], family=family, learner="linear")
    design = fit.model.blueprint.design
    feed = Feed([design], torch.device("cpu"), [make_expansions(design, splines=False, indicators=False)])
    scale = make_scale(design, feed.inputs_of(design), "standard")
    scales = Scales([(scale, 0)] * 4, feed)
    rows = np.arange(60)
    index = torch.as_tensor(np.stack([rows[:32], rows[:32], rows[28:], rows[28:]]))
    batch = feed.batch(index, torch.ones(4, 32), scales)
    generator = torch.Generator().manual_seed(3)
    outputs = Outputs(
        *(torch.randn(shape, generator=generator).requires_grad_() for shape in ((4, 32, 2), (4, 32, 2), (4, 32)))
    )
    objective = replace(SMALL, rr_weight=0.7).objective(family)
    with torch.enable_grad():
        terms = objective.loss(outputs, batch, scales)
        of_networks = torch.autograd.grad(terms.loss.sum(), outputs[:3], retain_graph=True)
        of_adversaries = torch.autograd.grad(-terms.parts["game"].sum(), outputs[:3], allow_unused=True)
    _, slopes = objective.slopes(Outputs(*(part.detach() for part in outputs)), batch, scales)
    for slope, network, adversary in zip(slopes[:3], of_networks, of_adversaries, strict=True):
        torch.testing.assert_close(slope[0::2], network[0::2])
        torch.testing.assert_close(slope[1::2], torch.zeros_like(slope[1::2]) if adversary is None else adversary[1::2])


def test_the_game_is_the_papers(binary_frame: pd.DataFrame) -> None:
    """Its value, and the Riesz loss on validation rows, from the functions themselves."""
    fit = riesz.ate("y ~ treat(a) + x1", binary_frame, learner="linear", folds=1)
    design = fit.model.blueprint.design
    feed = Feed([design], torch.device("cpu"), [make_expansions(design, splines=False, indicators=False)])
    scale = make_scale(design, feed.inputs_of(design), "standard")
    scales = Scales([(scale, 0)] * 2, feed)
    n = len(binary_frame)
    batch = feed.batch(torch.arange(n).repeat(2, 1), torch.ones(2, n), scales)
    x = torch.tensor(binary_frame["x1"].to_numpy(copy=True), dtype=torch.float32)
    a = torch.tensor(binary_frame["a"].to_numpy(copy=True), dtype=torch.float32)
    # r = c (1 + a x), f = a + x, so that m(r) = c x and m(f) = 1
    unit = float(scale.constraint[0])
    heads = torch.stack([unit * (1 + a * x), a + x])[..., None]
    moments = torch.stack([unit * x, torch.ones(n)])[..., None]
    outputs = Outputs(heads, moments, batch.y)
    objective = SMALL.objective("gaussian")
    game = objective.loss(outputs, batch, scales).parts["game"]
    expected = (unit - unit * (1 + a * x) * (a + x) - (a + x) ** 2).mean()
    torch.testing.assert_close(game, expected[None], rtol=1e-4, atol=1e-5)
    terms = objective.validation(outputs, batch, scales)
    riesz_loss = unit**2 * ((1 + a * x) ** 2 - 2 * x).mean()
    torch.testing.assert_close(terms.loss, 0.1 * riesz_loss[None], rtol=1e-4, atol=1e-5)


def test_steps_are_optimistic(binary_frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each player's step is Adam's, plus its difference from Adam's step before; written out for decay and momentum."""
    seen = []
    step = training._Run._step

    def spy(run: training._Run) -> None:
        before, gradient = run.flat.double().clone(), run.gradient.double().clone()
        step(run)
        seen.append((before, gradient, run.flat.double().clone()))

    monkeypatch.setattr(training._Run, "_step", spy)
    learner = replace(SMALL, stages=(riesz.Stage(1e-3, 4, 4),), momentum=0.6, weight_decay=0.2, penalty=0.5, pace=2.0)
    riesz.ate("y ~ treat(a) + x1", binary_frame, learner=replace(learner, batch_size=10_000), folds=1)
    size = seen[0][0].shape[1] // 2
    for player, rate, decay in ((slice(0, size), 1e-3, 0.2), (slice(size, None), 2e-3, 0.5)):
        first = second = moved = torch.zeros(1, size, dtype=torch.float64)
        for t, (before, gradient, after) in enumerate(seen, start=1):
            theta, g = before[:, player], gradient[:, player]
            first, second = 0.6 * first + 0.4 * g, 0.999 * second + 0.001 * g**2
            adam = -rate * decay * theta - rate * (first / (1 - 0.6**t)) / ((second / (1 - 0.999**t)).sqrt() + 1e-8)
            torch.testing.assert_close(after[:, player], theta + 2 * adam - moved, rtol=1e-4, atol=1e-6)
            moved = adam
        assert moved.abs().max() > 0


@pytest.mark.parametrize("keep", ["best", "each", "last"])
@pytest.mark.parametrize("simulation", ["binary", "continuous"])
def test_side_by_side_equals_alone(simulation: str, keep: str) -> None:
    """Networks of several tables, their adversaries among them, do not depend on each other."""
    learner = replace(
        SMALL, width=9, head_width=5, keep=keep, stages=(riesz.Stage(1e-2, 8, 2), riesz.Stage(1e-3, 3, 1))
    )
    question = riesz.ATE() if simulation == "binary" else riesz.ADE()
    draws = [datasets.get(simulation).draw(n, seed=n).data for n in (90, 91, 151)]
    together = riesz.estimate_many(ATE, draws, question, learner=learner, folds=3)
    for draw, fit in zip(draws, together, strict=True):
        alone = riesz.estimate(ATE, draw, question, learner=learner, folds=3)
        np.testing.assert_array_equal(alone.influence, fit.influence)


def test_a_player_has_its_own_start_and_pace(binary_frame: pd.DataFrame) -> None:
    """The adversary changes the network, through its pace and its weight decay, and does not start where it does."""
    plain = riesz.ate(ATE, binary_frame[["y", "a", "x1"]], learner=SMALL, folds=1)
    for changes in ({"pace": 1.0}, {"penalty": 20.0}):
        other = riesz.ate(ATE, binary_frame[["y", "a", "x1"]], learner=replace(SMALL, **changes), folds=1)
        assert not np.array_equal(plain.riesz_representer, other.riesz_representer)
    network = plain._crossfit.fits[0].networks[0]
    assert len(network.trained.mu) == network.shape.size


@pytest.mark.parametrize(("verb", "name", "least"), [("ate", "binary", 0.9), ("ade", "continuous", 0.85)])
def test_it_recovers_the_true_representer(verb: str, name: str, least: float) -> None:
    simulation = datasets.get(name)
    data, question = simulation.draw(1000, seed=2).data, simulation.questions[verb]
    result = getattr(riesz, verb)(ATE, data, learner=riesz.AdversarialNet(), folds=3)
    truth, rr = simulation.riesz_representer(question, data)[0], result.predictions.rr.observed[0]
    assert np.corrcoef(rr, truth)[0, 1] > least
    assert abs((rr @ truth) / (truth @ truth) - 1) < 0.2  # its scale is learned, too
    history = result.history
    assert {"rr_loss", "game", "outcome_loss", "rr_anchor", "ipw"} <= set(history.columns)
    assert history["game"].tail(10).mean() < 0.1  # the adversary has little left to find on held-out rows


def test_the_first_order_condition_of_rr_holds(binary_frame: pd.DataFrame) -> None:
    """Without validation's choice and with hardly a price, E_n[rr f] = E_n[m(f)] for simple f on the training rows."""
    learner = riesz.AdversarialNet(keep="last", weight_decay=1e-3, stages=(riesz.Stage(1e-3, 150, 150),))
    result = riesz.ate("y ~ treat(a) + x1", binary_frame, learner=learner, folds=1)
    rr, a, x = result.predictions.rr.observed[0], binary_frame["a"].to_numpy(), binary_frame["x1"].to_numpy()
    np.testing.assert_allclose(np.mean(rr * a), 1.0, atol=0.15)
    np.testing.assert_allclose(np.mean(rr * x), 0.0, atol=0.15)
    np.testing.assert_allclose(np.mean(rr * a * x), np.mean(x), atol=0.15)


def test_units_of_the_treatment_do_not_matter(continuous_frame: pd.DataFrame) -> None:
    formula, learner = "y ~ treat(d) + x1 + x2", replace(SMALL, stages=(riesz.Stage(1e-2, 3, 3),))
    plain = riesz.ade(formula, continuous_frame, learner=learner, folds=2)
    scaled = riesz.ade(formula, continuous_frame.assign(d=continuous_frame["d"] * 1000), learner=learner, folds=2)
    np.testing.assert_allclose(scaled.params * 1000, plain.params, rtol=1e-2)


def test_network_is_the_adversary_of_that_name(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    data = binary_frame[["y", "a", "x1"]].iloc[:120]
    short, named = (
        riesz.ate(ATE, data, learner=learner, folds=2)
        for learner in (riesz.AdversarialNet(), riesz.Adversarial("network"))
    )
    np.testing.assert_array_equal(short.influence, named.influence)
    named.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    pd.testing.assert_frame_equal(again.predict(data.head(5)), named.predict(data.head(5)))


def test_it_says_what_it_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five folds of 20,000 rows take less than a minute; wide networks say beforehand that they take longer."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(2000, 3))).add_prefix("x")
    data = x.assign(a=rng.integers(0, 2, 2000).astype(float), y=rng.normal(size=2000))
    design = riesz.ate(ATE, data, learner="linear", folds=2).model.blueprint.design
    assert 5 < 5 * riesz.AdversarialNet().seconds(design, 16_000) < 60
    assert 5 * riesz.AdversarialNet(width=256).seconds(design, 16_000) > 60
    assert riesz.AdversarialNet(most_rows=4000).seconds(design, 10**6) < 3
    monkeypatch.setattr(riesz.AdversarialNet, "_train", _interrupt)
    words = r"2 fits on up to 1,000 rows will take about .* most_rows= of AdversarialNet"
    with pytest.warns(riesz.RieszWarning, match=words), pytest.raises(KeyboardInterrupt):
        riesz.ate(ATE, data, learner=riesz.AdversarialNet(networks=400), folds=2)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rr_weight": 0}, r"AdversarialNet\(rr_weight=0\): expected a positive number"),
        ({"pace": -1.0}, "expected a positive number"),
        ({"penalty": -1.0}, "expected a number, 0 or larger, or None for weight_decay"),
        ({"head_width": 0}, "expected a whole number"),
        ({"keep": "first"}, "expected one of 'best', 'each', 'last'"),
    ],
)
def test_settings_are_checked(settings: dict, words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        riesz.AdversarialNet(**settings)


def test_presets() -> None:
    paper = riesz.AdversarialNet.paper(stages=(riesz.Stage(1e-3, 100, 100),))
    assert (paper.width, paper.head_width, paper.momentum, paper.keep) == (200, 100, 1e-3, "last")
    assert riesz.AdversarialNet.paper("ade").stages[0].learning_rate == 1e-3
    with pytest.raises(riesz.LearnerError, match="expected 'ate' or 'ade'"):
        riesz.AdversarialNet.paper("att")  # type: ignore[arg-type]
