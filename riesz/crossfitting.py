"""Sample splitting: who is trained on what, and every row's prediction by a fit that has not seen it.

In: the full design, and what folds must respect (arms, clusters). Out: one :class:`~riesz.predictions.Predictions` of the full
sample for each repeat, rows in the user's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from riesz.design import Design
from riesz.errors import DataError
from riesz.folds import Labels
from riesz.learners import Fit, Learner
from riesz.predictions import Predictions, join, rescale


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
class CrossFit:
    """The outcome of cross-fitting.

    Attributes
    ----------
    predictions : tuple of Predictions, one a repeat
    folds : ndarray of int, shape (repeats, n)
        Which split predicted each row.
    fits : tuple of Fit
        One for each split, repeat by repeat.
    """

    predictions: tuple[Predictions, ...]
    folds: Labels
    fits: tuple[Fit, ...]


def make_splits(labels: Sequence[Labels]) -> list[Split]:
    """Splits from fold labels; with labels in two dimensions (two-way clusters), from every pair of them.

    A pair trains on the rows that share neither label, so that no cluster of either kind is on both sides
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


def check_splits(
    splits: Sequence[Split], arms: Labels | None, levels: Sequence[str], name: str, counting: npt.NDArray[np.bool_]
) -> None:
    """Every training set must hold every arm, on rows that count (whose weight is not zero)."""
    for number, split in enumerate(splits):
        train = split.train[counting[split.train]]
        if not len(train):
            raise DataError(
                f"Split {number + 1} has no training rows with a positive weight. Use other folds or fewer of them."
            )
        if arms is None:
            continue
        seen = np.unique(arms[train])
        lost = [str(level) for code, level in enumerate(levels) if code not in seen]
        if lost:
            raise DataError(
                f"The training rows of split {number + 1} have no row with {name}={lost[0]}. Use fewer folds, or fold labels of "
                "your own in which every arm appears at least twice."
            )


def cross_fit(
    design: Design,
    learner: Learner,
    splits: Sequence[Sequence[Split]],
    seed: np.random.SeedSequence,
    n_jobs: int,
    progress: bool | None,
) -> CrossFit:
    """Fit every split of every repeat and predict its test rows.

    Parameters
    ----------
    design : Design
        The full sample.
    learner : Learner
    splits : sequence of sequence of Split
        One sequence a repeat.
    seed : numpy.random.SeedSequence
        Each split gets a seed of its own from it.
    n_jobs : int
        Threads to spread the fits over.
    progress : bool or None
        Show a bar; None shows one in a terminal or notebook once the work takes more than a second or so.

    Returns
    -------
    CrossFit
    """
    flat = [split for repeat in splits for split in repeat]
    seeds = [int(child.generate_state(1)[0]) for child in seed.spawn(len(flat))]
    for rows in {len(split.train) for split in flat}:
        learner.check(design, rows)
    hidden = None if progress is None else not progress
    with tqdm(total=len(flat), desc="fitting", unit="fit", disable=hidden, delay=1.5, leave=False) as bar:

        def work(batch: npt.NDArray[np.intp]) -> list[tuple[Fit, Predictions]]:
            designs = [design.take(flat[index].train) for index in batch]
            fits = learner.fit(designs, [seeds[index] for index in batch], bar.update)
            return [(fit, fit.predict(design.take(flat[i].test))) for fit, i in zip(fits, batch, strict=True)]

        batches = np.array_split(np.arange(len(flat)), min(n_jobs, len(flat)))
        if len(batches) == 1:
            done = work(batches[0])
        else:
            with ThreadPoolExecutor(len(batches)) as pool:
                done = [result for results in pool.map(work, batches) for result in results]
    predictions, folds, start = [], np.empty((len(splits), len(design)), dtype=np.intp), 0
    for repeat, own in enumerate(splits):
        parts = [predicted for _, predicted in done[start : start + len(own)]]
        tests = [split.test for split in own]
        predictions.append(rescale(join(parts, tests), design))
        for number, test in enumerate(tests):
            folds[repeat, test] = number
        start += len(own)
    return CrossFit(tuple(predictions), folds, tuple(fit for fit, _ in done))
