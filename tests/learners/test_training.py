"""Training: odd sizes, few clusters, rows for validation, growing penalties, interrupts, the user's threads and dtypes."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import riesz
from riesz import datasets
from riesz.learners.neural.engine.train_together import _draw_parts, find_device
from riesz.learners.neural.objectives.moment_constrained import MOST_GROWTH

SMALL = riesz.MADNet(width=8, head_width=4, networks=1, repeats=1, keep="best", stages=(riesz.Stage(1e-2, 6, 6),))
ATE = "y ~ treat(a) + ."


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return datasets.get("binary").draw(200, seed=1).data


@pytest.mark.parametrize("sizes", [(7, 3), (9, 8), (5, 5), (11, 10), (50, 25), (100, 50)])
@pytest.mark.parametrize("simulation", ["binary", "continuous"])
def test_side_by_side_equals_alone_at_odd_widths(sizes: tuple[int, int], simulation: str) -> None:
    """Numbers at the end of an array may be rounded differently, so only padding may be there."""
    learner = replace(SMALL, width=sizes[0], head_width=sizes[1])
    question = riesz.ATE() if simulation == "binary" else riesz.ADE()
    draws = [datasets.get(simulation).draw(n, seed=n).data for n in (90, 91, 151)]
    together = riesz.estimate_many(ATE, draws, question, learner=learner, folds=3)
    for draw, fit in zip(draws, together, strict=True):
        alone = riesz.estimate(ATE, draw, question, learner=learner, folds=3)
        np.testing.assert_array_equal(alone.influence, fit.influence)


class TestRowsForValidation:
    @pytest.mark.parametrize(
        "clusters",
        [
            np.arange(200) % 3,
            np.arange(200) % 2,
            np.where(np.arange(200) < 170, 0, np.arange(200)),
        ],
        ids=["three", "two", "one large"],
    )
    def test_few_clusters(self, data: pd.DataFrame, clusters: np.ndarray) -> None:
        fit = riesz.ate(ATE, data, learner=SMALL, folds=2, cluster=clusters)
        assert np.isfinite(fit.bse["ATE"])

    @pytest.mark.parametrize("count", [4, 6, 8, 10])
    def test_every_arm_is_on_both_sides_when_clusters_are_treated_as_one(self, count: int) -> None:
        groups = np.arange(200) * count // 200
        arms = groups % 2
        labels = _draw_parts(200, 5, arms, groups, np.random.default_rng(0))
        for part in range(5):
            assert set(arms[labels == part]) == set(arms[labels != part]) == {0, 1}

    def test_clusters_stay_whole_where_they_can(self) -> None:
        groups = np.arange(200) // 4
        labels = _draw_parts(200, 5, np.arange(200) % 2, groups, np.random.default_rng(0))
        assert all(len(np.unique(labels[groups == group])) == 1 for group in range(50))

    @pytest.mark.parametrize("share", [0.01, 0.001, 0.5])
    def test_any_share_keeps_some(self, data: pd.DataFrame, share: float) -> None:
        fit = riesz.ate(ATE, data.iloc[:60], learner=replace(SMALL, validation=share), folds=2)
        assert fit.history["valid_loss"].notna().all()


class TestGrowingPenalty:
    def test_validation_losses_can_be_compared(self, data: pd.DataFrame) -> None:
        """Loss minus its parts is the penalty times the violation: that of the first epoch throughout."""
        history = riesz.ate(ATE, data, learner=replace(SMALL, growth=1.5), folds=1).history
        rest = history["valid_loss"] - history["anchor_loss"] - history["outcome_loss"]
        np.testing.assert_allclose(rest, SMALL.penalty * history["violation"], rtol=1e-3, atol=1e-5)

    def test_it_ends(self, data: pd.DataFrame) -> None:
        objective = replace(SMALL, growth=2.0).objective("gaussian")
        later = objective.at(torch.tensor([0.0, 3.0, 500.0]), torch.zeros(3, 1))
        np.testing.assert_allclose(later.penalty[:, 0], SMALL.penalty * np.array([1.0, 8.0, MOST_GROWTH]))


def test_a_column_that_does_not_vary_in_a_training_set_moves_nothing(data: pd.DataFrame) -> None:
    """One row has a huge value; in the training sets without it, the column is constant."""
    rare = np.zeros(len(data))
    rare[5] = 1e6
    learner = replace(SMALL, stages=(riesz.Stage(1e-2, 30, 30),))
    fit = riesz.ate(ATE, data.assign(rare=rare), learner=learner, folds=2)
    others = np.delete(np.abs(fit.influence["ATE"].to_numpy()), 5)
    assert abs(fit.influence["ATE"].iloc[5]) < 3 * others.max()


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_ends_training_at_once(data: pd.DataFrame, jobs: int) -> None:
    def ring(*_: object) -> None:
        raise KeyboardInterrupt

    endless = replace(SMALL, stages=(riesz.Stage(1e-4, 100_000, 100_000),))
    before = signal.signal(signal.SIGALRM, ring)
    start = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.5)
        with pytest.raises(KeyboardInterrupt):
            riesz.ate(ATE, data, learner=endless, folds=2, n_jobs=jobs)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 30  # hours otherwise
    one, two = (riesz.ate(ATE, data, learner=SMALL, folds=2) for _ in range(2))
    np.testing.assert_array_equal(one.influence, two.influence)


class TestStateOfTheUsers:
    def test_threads(self, data: pd.DataFrame) -> None:
        before, found = torch.get_num_threads(), []
        for threads, jobs in ((1, 1), (2, 1), (2, 2)):
            torch.set_num_threads(threads)
            try:
                fit = riesz.ate(ATE, data, learner=replace(SMALL, width=200), folds=2, n_jobs=jobs)
                assert torch.get_num_threads() == threads
            finally:
                torch.set_num_threads(before)
            found.append(fit.influence)
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])

    @pytest.mark.parametrize("learner", [SMALL, replace(SMALL, constraint="exact")])
    def test_default_dtype(self, data: pd.DataFrame, learner: riesz.MADNet) -> None:
        plain = riesz.ate(ATE, data, learner=learner, folds=2)
        torch.set_default_dtype(torch.float64)
        try:
            other = riesz.ate(ATE, data, learner=learner, folds=2)
        finally:
            torch.set_default_dtype(torch.float32)
        np.testing.assert_array_equal(plain.influence, other.influence)


@pytest.mark.parametrize("device", [None, 0, torch.device("cpu")])
def test_a_device_is_named(device: Any) -> None:
    with pytest.raises(riesz.LearnerError, match="name of a device"):
        find_device(device)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x", 3), "learning_rate must be a positive number"),
        ((np.inf, 3), "learning_rate must be a positive number"),
        ((1e-2, "3"), "epochs must be a whole number, 1 or larger"),
        ((1e-2, np.nan), "epochs must be a whole number"),
        ((1e-2, 2.5), "epochs must be a whole number"),
        ((1e-2, 3, -1), "patience must be a whole number, 0 or larger, or None"),
        ((1e-2, 3, 3, 0), "plateau must be a whole number, 1 or larger, or None"),
        ((1e-2, 3, 3, None, -1e-4), "min_delta must be a number, 0 or larger"),
    ],
)
def test_odd_stages_are_refused(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        riesz.Stage(*arguments)


def test_numbers_of_numpy_are_numbers() -> None:
    assert riesz.Stage(np.float64(1e-2), np.int64(3), np.int64(2)) == riesz.Stage(1e-2, 3, 2)
