"""Cross-fitting: every row is predicted by a fit that was not trained on it.

In: the full design and the splits. Out: one :class:`~riesz.predictions.Predictions` of the full sample per repeat, rows in the
user's order. The candidates of a stack are fitted on the same splits, one after the other, and their predictions are combined.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
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
from riesz.crossfit.stacking import Stacking, stack
from riesz.crossfit.threads import Stopped, go_on, in_threads, one_openmp_thread, one_thread
from riesz.design.derived import merged, reweighted, summed
from riesz.design.design import Design
from riesz.design.table import ClusterLabels
from riesz.errors import DataError, LearnerError
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
class Candidate:
    """One learner of a stack, cross-fitted; without a stack the only one.

    Attributes
    ----------
    learner : Learner
    fits : tuple of Fit
        One per split, repeat by repeat.
    predictions : tuple of Predictions, one per repeat
        Rescaled if rr is scale-free and, if ``trim`` was given, trimmed. Empty for a stack from a file, which holds the
        candidates' scores instead.
    """

    learner: Learner
    fits: tuple[Fit, ...]
    predictions: tuple[Predictions, ...]


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
    candidates : tuple of Candidate
        The learners that were fitted.
    stacking : tuple of Stacking
        How they were combined, one per repeat; empty if there is one candidate.
    left_out : mapping of str to str
        Candidates that cannot be used for this estimand, with the reason.
    splits : tuple of sequence of Split, one per repeat
    """

    predictions: tuple[Predictions, ...]
    untrimmed: tuple[Predictions, ...]
    scales: Array
    caps: Array
    folds: Labels
    candidates: tuple[Candidate, ...]
    stacking: tuple[Stacking, ...]
    left_out: Mapping[str, str]
    splits: tuple[Sequence[Split], ...]

    @property
    def fits(self) -> tuple[Fit, ...]:
        """All fits, candidate by candidate."""
        return tuple(fit for candidate in self.candidates for fit in candidate.fits)


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
        Each of its candidates gets the training sets of all problems at once.
    n_jobs : int
        Number of threads that the fits are spread over.
    progress : bool or None
        Show a progress bar; None shows one in a terminal or notebook if the fits take longer than :data:`PATIENCE`.

    Returns
    -------
    list of CrossFit
        One per problem.
    """
    usable = [usable_candidates(learner, problem.design, _fewest(problem)) for problem in problems]
    used = [candidate for candidate in learner.candidates() if any(candidate in fitted for fitted, _ in usable)]
    total = sum(_count(problem) for problem in problems) * len(used)
    hidden, stop = None if progress is None else not progress, Event()
    for candidate in used:
        _warn_of_long_fits(problems, candidate, n_jobs)
    candidates: list[list[Candidate]] = [[] for _ in problems]
    raw: list[list[tuple[Predictions, ...]]] = [[] for _ in problems]
    with progress_bar(total=total, desc="fitting", unit="fit", disable=hidden, delay=PATIENCE, leave=False) as bar:
        for candidate in used:
            places = [place for place, (fitted, _) in enumerate(usable) if candidate in fitted]
            done = _fit_all([problems[place] for place in places], candidate, n_jobs, Bar(bar, stop), stop)
            for place, (fits, predictions) in zip(places, done, strict=True):
                design = problems[place].design
                rescaled = tuple(times(repeat, scales(repeat, design)) for repeat in predictions)
                candidates[place].append(Candidate(candidate, fits, rescaled))
                raw[place].append(predictions)
    return [
        _combine(problem, fitted, predictions, left_out)
        for problem, fitted, predictions, (_, left_out) in zip(problems, candidates, raw, usable, strict=True)
    ]


def usable_candidates(learner: Learner, design: Design, rows: int) -> tuple[list[Learner], dict[str, str]]:
    """The candidates of a learner that can be used for a design, and why the others cannot.

    Parameters
    ----------
    learner : Learner
    design : Design
        The full sample.
    rows : int
        Size of the smallest training set.

    Returns
    -------
    list of Learner
        At least one; if no candidate can be used, the error of the first is raised.
    dict of str to str
        Description of each other candidate, and the reason.
    """
    candidates = learner.candidates()
    usable, errors = [], {}
    for candidate in candidates:
        try:
            candidate.check(design, rows)
        except LearnerError as error:
            if len(candidates) == 1:
                raise
            errors[candidate.describe(design.family)] = error
            continue
        usable.append(candidate)
    if not any(candidate.learns_rr for candidate in usable) and any(candidate.learns_rr for candidate in candidates):
        raise next(iter(errors.values()))
    return usable, {words: str(error) for words, error in errors.items()}


def _fewest(problem: Problem) -> int:
    """Size of the smallest training set."""
    return min(len(problem.training(split)) for repeat in problem.splits for split in repeat)


def _count(problem: Problem) -> int:
    """Number of fits."""
    return sum(len(repeat) for repeat in problem.splits)


def _fit_all(
    problems: Sequence[Problem], learner: Learner, n_jobs: int, bar: Bar, stop: Event
) -> list[tuple[tuple[Fit, ...], tuple[Predictions, ...]]]:
    """Fits of one candidate for every problem, and its predictions of every repeat, as learned."""
    jobs = [(problem, split) for problem in problems for repeat in problem.splits for split in repeat]
    seeds = [seed for problem in problems for seed in problem.seeds()]

    def work(batch: npt.NDArray[np.intp]) -> list[tuple[Fit, Predictions]]:
        batch_jobs = [jobs[index] for index in batch]
        designs = [problem.training(split) for problem, split in batch_jobs]
        with one_openmp_thread() if learner.one_thread else nullcontext():
            fits = learner.fit(designs, [seeds[index] for index in batch], bar)
            return [(fit, _predict(fit, *job)) for fit, job in zip(fits, batch_jobs, strict=True)]

    batches = np.array_split(np.arange(len(jobs)), min(n_jobs, len(jobs)))
    with one_thread() if learner.one_thread else nullcontext():
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


def _gather(
    problem: Problem, fitted: Iterator[tuple[Fit, Predictions]]
) -> tuple[tuple[Fit, ...], tuple[Predictions, ...]]:
    """Join the fits and predictions of one problem, rows in the order of the design."""
    fits, predictions = [], []
    for splits in problem.splits:
        pieces = [next(fitted) for _ in splits]
        predictions.append(join([predicted for _, predicted in pieces], [split.test for split in splits]))
        fits += [fit for fit, _ in pieces]
    return tuple(fits), tuple(predictions)


def _combine(
    problem: Problem,
    candidates: Sequence[Candidate],
    raw: Sequence[tuple[Predictions, ...]],
    left_out: Mapping[str, str],
) -> CrossFit:
    """Stack the candidates' predictions, repeat by repeat, and rescale the result."""
    design, stackings = problem.design, []
    combined = []
    for repeat in zip(*raw, strict=True):
        if len(candidates) == 1:
            combined.append(repeat[0])
            continue
        predictions, stacking = stack(repeat, design)
        combined.append(predictions)
        stackings.append(stacking)
    factors = [scales(predictions, design) for predictions in combined]
    if len(candidates) == 1:
        rescaled = candidates[0].predictions
    else:
        rescaled = tuple(times(predictions, factor) for predictions, factor in zip(combined, factors, strict=True))
    folds = np.empty((len(problem.splits), len(design)), dtype=np.intp)
    for labels, splits in zip(folds, problem.splits, strict=True):
        for number, split in enumerate(splits):
            labels[split.test] = number
    uncapped = np.full((len(rescaled), design.components), np.inf)
    return CrossFit(
        rescaled,
        rescaled,
        np.stack(factors),
        uncapped,
        folds,
        tuple(candidates),
        tuple(stackings),
        left_out,
        tuple(problem.splits),
    )


def trimmed(crossfit: CrossFit, caps: Array) -> CrossFit:
    """A cross-fit with |rr| capped; ``caps`` has shape (repeats, K)."""
    if np.isinf(caps).all():
        return crossfit
    capped = tuple(cap(predictions, most) for predictions, most in zip(crossfit.untrimmed, caps, strict=True))
    return replace(crossfit, predictions=capped, caps=caps)
