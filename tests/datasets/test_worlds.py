"""Random worlds have the right truth, and do not change between versions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.datasets import random_world
from riesz.datasets.worlds import KINDS

#: kind and seed to rows, the sum of the outcomes of the first draw, and the truth: worlds are frozen
FROZEN: dict[tuple[str, int], tuple[int, float, list[float]]] = {
    ("binary", 0): (1800, -759.6699687733999, [-0.9433606577090748]),
    ("binary", 1): (1266, 1623.0, [0.362401888861263]),
    ("binary", 2): (626, 252.48999331276966, [0.8582584066114343]),
    ("arms", 0): (3666, 4469.0, [0.25577438703975064, 0.09776698483815932]),
    ("arms", 1): (763, -37.15229190348574, [0.042212600497100745, 0.40377895806500874]),
    ("arms", 2): (3717, 4428.0, [-0.3164196799262339, 0.1755468455991146]),
    ("continuous", 0): (376, 2.4828078357203442, [-0.20271364709848286]),
    ("continuous", 1): (1059, -846.1310125873858, [-0.3684138994986049]),
    ("continuous", 2): (3284, 110.29734315897869, [-0.6526424889583533]),
}


@pytest.mark.parametrize(("kind", "seed"), FROZEN)
def test_worlds_are_frozen(kind: str, seed: int) -> None:
    world = random_world(seed, kind)
    rows, total, truth = FROZEN[kind, seed]
    assert world.n == rows
    assert world.draw()["y"].sum() == pytest.approx(total, rel=1e-9)
    assert world.truth == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_third_has_weak_overlap(kind: str) -> None:
    worlds = [random_world(seed, kind) for seed in range(200)]
    assert 0.25 < np.mean([world.strength >= 1.5 for world in worlds]) < 0.42
    assert all((world.strength >= 1.5) == (world.factors["overlap"] == "weak") for world in worlds)
    assert {300 <= world.n <= 5000 and 3 <= len(world.covariates) <= 50 for world in worlds} == {True}


@pytest.mark.parametrize("kind", KINDS)
def test_the_oracle_is_centred_and_its_error_is_right(kind: str) -> None:
    """Over worlds and draws (estimate - truth) / std_error is standard normal."""
    z = []
    for seed in range(0, 16, 2):
        world = random_world(seed, kind)
        for draw in range(12):
            oracle = world.oracle(world.draw(draw))
            z.append((oracle.estimate - world.truth) / oracle.std_error)
    z = np.concatenate(z)
    assert abs(z.mean()) < 4 * z.std() / np.sqrt(len(z) / 2)  # contrasts share an arm
    assert 0.85 < z.std() < 1.15


@pytest.mark.parametrize("seed", range(6))
def test_the_derivative_is_that_of_mu(seed: int) -> None:
    world = random_world(seed, "continuous")
    data = world.draw()
    scores, a = world._scores(data), data["a"].to_numpy()
    above, below = (world.mean(world._index(a + step, scores)) for step in (1e-5, -1e-5))
    assert np.allclose(world._moment(a, scores)[0], (above - below) / 2e-5, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_can_be_fitted(kind: str) -> None:
    world = next(w for w in (random_world(seed, kind) for seed in range(100)) if w.n < 500 and w.outcome == "normal")
    fit = riesz.estimate(world.formula, world.draw(), world.estimand, learner="linear", **world.keywords)
    assert len(fit.params) == len(world.truth)


def test_draws_differ_and_repeat() -> None:
    world = random_world(5, "binary")
    pd.testing.assert_frame_equal(world.draw(1), random_world(5, "binary").draw(1))
    assert not world.draw(1)["y"].equals(world.draw(2)["y"])


def test_bad_arguments() -> None:
    with pytest.raises(riesz.DataError, match=r"kind='bynary' is not known\. Did you mean `binary`"):
        random_world(1, "bynary")  # type: ignore[arg-type]
    with pytest.raises(riesz.DataError, match="must be a whole number"):
        random_world(-1)
