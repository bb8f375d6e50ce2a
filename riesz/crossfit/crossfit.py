"""Cross-fitting: every row is predicted by a fit that was not trained on it.

In: the full design and the splits. Out: one :class:`~riesz.predictions.Predictions` of the full sample per repeat, rows in the
user's order. The candidates of a stack are fitted on the same splits, one after the other; ``candidates.py`` combines their
predictions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from riesz.crossfit.candidates import Candidate, CrossFit, combine_candidates, usable_candidates
from riesz.crossfit.copies import find_copies
from riesz.crossfit.folds import Labels
from riesz.crossfit.progress import progress_bar
from riesz.crossfit.splits import Split
from riesz.crossfit.threads import Stopped, go_on, in_threads, one_openmp_thread, one_thread
from riesz.design.derived import merged, reweighted, summed
from riesz.design.design import Design
from riesz.learners import Fit, Learner
from riesz.learners.expected_time import LONG, MANY, identification_seconds, words
from riesz.predictions import Predictions, join, scales, times
from riesz.syntax.caller import warn

PATIENCE = 1.5  # seconds without a progress bar


@dataclass(frozen=True)
class Problem:
    """A design and its splits, to be cross-fitted. Rows that are copies of one another are fitted as one row.

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
        combine_candidates(problem.design, problem.splits, fitted, predictions, left_out)
        for problem, fitted, predictions, (_, left_out) in zip(problems, candidates, raw, usable, strict=True)
    ]


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
    """Warn before the first fit if very many columns or rows make the fits slow."""
    total = count = most = 0.0
    for problem in problems:
        splits = [split for repeat in problem.splits for split in repeat]
        rows, columns = max(len(split.train) for split in splits), len(problem.design.names)
        each, most = learner.seconds(problem.design, rows), max(most, rows)
        count += len(splits)
        total += len(splits) * each / min(n_jobs, len(splits))
        total += identification_seconds(len(problem.design), columns) if each else 0.0
    if total >= LONG:
        columns = max(len(problem.design.names) for problem in problems)
        if columns >= MANY:
            warn(
                f"The formula makes {columns:,} columns, so {count:,.0f} fits will take {words(total)}. Merge rare levels of "
                "factors, leave columns out, or use fewer folds and repeats."
            )
        else:
            warn(
                f"{count:,.0f} fits on up to {most:,.0f} rows will take {words(total)}. To shorten this, use fewer folds and "
                f"repeats, set most_rows= of {learner.describe(problems[0].design.family)} if it has that, or use "
                "learner='splines'."
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
