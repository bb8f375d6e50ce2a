"""Cross-fitting: every row is predicted by a fit that was not trained on it.

In: the full design and the splits. Out: one :class:`~riesz.predictions.Predictions` of the full sample per repeat, rows in the
user's order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.crossfit.copies import find_copies
from riesz.crossfit.folds import Labels
from riesz.crossfit.progress import progress_bar
from riesz.crossfit.threads import Stopped, go_on, in_threads, one_openmp_thread, one_thread
from riesz.design.derived import merged, reweighted, summed
from riesz.design.design import Design
from riesz.design.table import ClusterLabels
from riesz.errors import DataError
from riesz.learners import Fit, Learner
from riesz.learners.cost import LONG, identification_seconds, words
from riesz.predictions import Predictions, cap, join, scales, times
from riesz.syntax.caller import warn

PATIENCE = 1.5  # seconds without a progress bar


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to predict.

    Attributes
    ----------
    train, test : ndarray of int
    """

    train: Labels
    test: Labels


@dataclass(frozen=True)
class Problem:
    """A design and its splits, to be cross-fitted. Rows that are copies of one another are learned from as one row.

    Attributes
    ----------
    design : Design
        The full sample.
    splits : sequence of sequence of Split
        One sequence per repeat.
    seed : int
        The seeds of the splits are drawn from it.
    """

    design: Design
    splits: Sequence[Sequence[Split]]
    seed: int

    @cached_property
    def copies(self) -> Labels | None:
        """The number of each row's distinct row; None if there are no copies."""
        return find_copies(self.design)

    @cached_property
    def _distinct(self) -> Design:
        assert self.copies is not None
        return merged(self.design, self.copies)

    def training(self, split: Split) -> Design:
        """The design that the learner is fitted on."""
        if self.copies is None:
            return self.design.take(split.train)
        numbers, distinct = self.copies[split.train], self._distinct
        weights = summed(self.design.weights[split.train], numbers, len(distinct))
        rows = np.unique(numbers)
        if not np.array_equal(weights[rows], distinct.weights[rows]):  # fold labels of the user that separate copies
            distinct = reweighted(distinct, weights)
        return distinct.take(rows)

    def seeds(self) -> list[int]:
        """One seed per split, repeat by repeat."""
        count = sum(len(repeat) for repeat in self.splits)
        return [int(child.generate_state(1)[0]) for child in np.random.SeedSequence([self.seed, 1]).spawn(count)]


@dataclass(frozen=True)
class CrossFit:
    """The result of cross-fitting.

    Attributes
    ----------
    predictions : tuple of Predictions, one per repeat
        Rescaled and, if ``trim`` was given, trimmed.
    untrimmed : tuple of Predictions, one per repeat
        The same before trimming.
    scales : ndarray, shape (repeats, K)
        The factors by which a scale-free rr was multiplied.
    caps : ndarray, shape (repeats, K)
        Where |rr| was capped; infinite without trimming.
    folds : ndarray of int, shape (repeats, n)
        Which split predicted each row.
    fits : tuple of Fit
        One per split, repeat by repeat.
    splits : tuple of sequence of Split, one per repeat
    """

    predictions: tuple[Predictions, ...]
    untrimmed: tuple[Predictions, ...]
    scales: Array
    caps: Array
    folds: Labels
    fits: tuple[Fit, ...]
    splits: tuple[Sequence[Split], ...]


def make_splits(labels: Sequence[Labels]) -> list[Split]:
    """Splits from fold labels: one per label, or with labels in two dimensions (two-way clusters) one per pair of labels.

    The split of a pair trains on the rows that have neither label, so that no cluster of either dimension is on both sides
    (Chiang, Kato, Ma and Sasaki 2022).
    """
    first = labels[0]
    if len(labels) == 1:
        values = np.unique(first)
        if len(values) == 1:
            everyone = np.arange(len(first))
            return [Split(everyone, everyone)]
        return [Split(np.flatnonzero(first != v), np.flatnonzero(first == v)) for v in values]
    second = labels[1]
    pairs = [
        Split(np.flatnonzero((first != u) & (second != v)), np.flatnonzero((first == u) & (second == v)))
        for u in np.unique(first)
        for v in np.unique(second)
    ]
    return [split for split in pairs if len(split.test)]


def warn_of_cut_clusters(splits: Sequence[Split], clusters: ClusterLabels) -> None:
    """Warn if a split trains on some rows of a cluster and predicts others."""
    for name, codes in zip(clusters.names, clusters.codes, strict=True):
        both = [np.intersect1d(codes[split.train], codes[split.test]) for split in splits]
        cut, count = len(np.unique(np.concatenate(both))), int(codes.max()) + 1
        if cut:
            warn(
                f"The folds cut {cut} of {count} clusters of `{name}`: some rows of a cluster are trained on and others "
                "predicted, so standard errors may be too small. Fit with cluster=, or give all rows of a cluster the same fold."
            )


def check_splits(splits: Sequence[Split], arms: Labels | None, levels: Sequence[str], name: str) -> None:
    """Refuse splits whose training rows lack an arm."""
    for number, split in enumerate(splits):
        if not len(split.train):
            raise DataError(f"Split {number + 1} has no training rows. Use other folds or fewer of them.")
        if arms is None:
            continue
        seen = np.unique(arms[split.train])
        missing = [str(level) for code, level in enumerate(levels) if code not in seen]
        if missing:
            raise DataError(
                f"The training rows of split {number + 1} have no row with {name}={missing[0]}. Use fewer folds, or fold labels "
                "with every arm in at least two folds."
            )


class Bar:
    """Receives the progress of learners: fits done and, for networks, epoch and losses. It also stops threads that should stop."""

    def __init__(self, bar: Any, stop: Event) -> None:
        self._bar, self._stop = bar, stop
        self._next = time.monotonic() + PATIENCE

    def done(self) -> None:
        """One more fit is done."""
        self._go_on()
        self._bar.update()

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def tell(self, **facts: object) -> None:
        """Show the state of training, at most five times per second."""
        self._go_on()
        if not self._bar.disable and time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.2
            self._bar.set_postfix(facts)


def cross_fit(problems: Sequence[Problem], learner: Learner, n_jobs: int, progress: bool | None) -> list[CrossFit]:
    """Fit every split of every repeat of every problem, and predict its test rows.

    Parameters
    ----------
    problems : sequence of Problem
    learner : Learner
        Gets the training sets of all problems at once.
    n_jobs : int
        Number of threads that the fits are spread over.
    progress : bool or None
        Show a progress bar; None shows one in a terminal or notebook if the fits take longer than :data:`PATIENCE`.

    Returns
    -------
    list of CrossFit
        One per problem.
    """
    jobs = [(problem, split) for problem in problems for repeat in problem.splits for split in repeat]
    seeds = [seed for problem in problems for seed in problem.seeds()]
    _warn_of_long_fits(problems, learner, n_jobs)
    for problem in problems:
        learner.check(
            problem.design, min(len(problem.training(split)) for repeat in problem.splits for split in repeat)
        )
    hidden, stop = None if progress is None else not progress, Event()
    with (
        progress_bar(total=len(jobs), desc="fitting", unit="fit", disable=hidden, delay=PATIENCE, leave=False) as bar,
        one_thread() if learner.one_thread else nullcontext(),
    ):

        def work(batch: npt.NDArray[np.intp]) -> list[tuple[Fit, Predictions]]:
            batch_jobs = [jobs[index] for index in batch]
            designs = [problem.training(split) for problem, split in batch_jobs]
            with one_openmp_thread() if learner.one_thread else nullcontext():
                fits = learner.fit(designs, [seeds[index] for index in batch], Bar(bar, stop))
                return [(fit, _predict(fit, *job)) for fit, job in zip(fits, batch_jobs, strict=True)]

        batches = np.array_split(np.arange(len(jobs)), min(n_jobs, len(jobs)))
        done = [work(batches[0])] if len(batches) == 1 else in_threads(work, batches, stop)
    fitted = iter([pair for batch in done for pair in batch])
    return [_gather(problem, fitted) for problem in problems]


def _warn_of_long_fits(problems: Sequence[Problem], learner: Learner, n_jobs: int) -> None:
    """Warn before the first fit if very many columns make the fits slow."""
    total = count = 0.0
    for problem in problems:
        splits = [split for repeat in problem.splits for split in repeat]
        rows, columns = max(len(split.train) for split in splits), len(problem.design.names)
        each = learner.seconds(problem.design, rows)
        count += len(splits)
        total += len(splits) * each / min(n_jobs, len(splits))
        total += identification_seconds(len(problem.design), columns) if each else 0.0
    if total >= LONG:
        columns = max(len(problem.design.names) for problem in problems)
        warn(
            f"The formula makes {columns:,} columns, so {count:,.0f} fits will take {words(total)}. Merge rare levels of "
            "factors, leave columns out, or use fewer folds and repeats."
        )


def _predict(fit: Fit, problem: Problem, split: Split) -> Predictions:
    go_on()
    return fit.predict(problem.design.take(split.test))


def _gather(problem: Problem, fitted: Iterator[tuple[Fit, Predictions]]) -> CrossFit:
    """Join the fits and predictions of one problem, rows in the order of the design."""
    predictions, factors, fits = [], [], []
    folds = np.empty((len(problem.splits), len(problem.design)), dtype=np.intp)
    for repeat, splits in enumerate(problem.splits):
        pieces = [next(fitted) for _ in splits]
        tests = [split.test for split in splits]
        raw = join([predicted for _, predicted in pieces], tests)
        factors.append(scales(raw, problem.design))
        predictions.append(times(raw, factors[-1]))
        fits += [fit for fit, _ in pieces]
        for number, test in enumerate(tests):
            folds[repeat, test] = number
    repeats = tuple(predictions)
    uncapped = np.full((len(repeats), len(factors[0])), np.inf)
    return CrossFit(repeats, repeats, np.stack(factors), uncapped, folds, tuple(fits), tuple(problem.splits))


def trimmed(crossfit: CrossFit, caps: Array) -> CrossFit:
    """A cross-fit with |rr| capped; ``caps`` has shape (repeats, K)."""
    if np.isinf(caps).all():
        return crossfit
    capped = tuple(cap(predictions, most) for predictions, most in zip(crossfit.untrimmed, caps, strict=True))
    return replace(crossfit, predictions=capped, caps=caps)
