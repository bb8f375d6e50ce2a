"""Boosting on LightGBM: how it is loaded, how its data are made once per sample, and one loop for every loss.

In: a table of points, and losses that give gradients. Out: boosters without their data. LightGBM is imported when a fit starts.
One thread, fixed order of summation and no random numbers: the same trees in every thread and process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.crossfit.threads import go_on
from riesz.errors import LearnerError
from riesz.learners.boosting.trees import Trees, read_trees

_BINS = 63
_FIXED = {
    "objective": "none",
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
    "seed": 0,
    "max_bin": _BINS,
    "min_data_in_bin": 1,
    "min_data_in_leaf": 0,  # LightGBM guesses counts from hessians; the sum of hessians alone decides
    "feature_pre_filter": False,
    "enable_bundle": False,
}


@cache
def available() -> bool:
    """Whether LightGBM can be loaded here."""
    try:
        import lightgbm  # noqa: F401
    except (ImportError, OSError):  # OSError: the package is there, but not the OpenMP library that it needs
        return False
    return True


def need_lightgbm(who: str) -> None:
    """Say what to install if LightGBM cannot be loaded."""
    if available():
        return
    raise LearnerError(
        f"{who} uses LightGBM, which cannot be loaded. Install it with pip install lightgbm. If it is installed, its OpenMP "
        "library is missing: install libomp on a Mac (brew install libomp), libgomp on Linux (apt-get install libgomp1). Or use "
        "learner='linear'."
    )


@dataclass(frozen=True)
class Growth:
    """How trees grow.

    Attributes
    ----------
    learning_rate : float
    leaves : int
    least : float
        Least sum of hessians in a leaf.
    most : int
        Largest number of trees.
    patience : int
        Trees without an improvement on the held-out rows after which growing ends.
    more : float
        The number of trees that is best on held-out rows is multiplied by it.
    """

    learning_rate: float
    leaves: int
    least: float
    most: int
    patience: int
    more: float = 1.0

    def with_least(self, least: float) -> Growth:
        """The same with another least sum of hessians."""
        return replace(self, least=least)

    def parameters(self, seed: int) -> dict[str, Any]:
        """As parameters of LightGBM."""
        return {
            **_FIXED,
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_sum_hessian_in_leaf": self.least,
            "seed": seed,
        }


class Loss(Protocol):
    """What one booster minimises on its training rows, and how it does on its held-out rows."""

    def start(self) -> float:
        """The value before the first tree."""

    def gradient(self, scores: Array) -> tuple[Array, Array]:
        """First and second derivatives at the scores of all points, both zero at held-out rows; shapes (points,)."""

    def held_out(self, scores: Array) -> float:
        """The loss on the held-out rows."""


def make_dataset(columns: Array) -> Any:
    """LightGBM's data of a table: its columns in bins."""
    import lightgbm

    return lightgbm.Dataset(columns, label=np.zeros(len(columns)), params=dict(_FIXED), free_raw_data=False).construct()


def subset(dataset: Any, lines: npt.NDArray[np.intp]) -> Any:
    """Some lines of a table, in ascending order."""
    return dataset.subset(lines.tolist()).construct()


@dataclass(frozen=True)
class Grown:
    """A booster without its data, and the value that its trees start from.

    Attributes
    ----------
    text : str
        LightGBM's model; empty if it has no tree.
    start : float
    trees : int
    factor : float
        The trees are multiplied by it.
    """

    text: str
    start: float
    trees: int
    factor: float = 1.0

    @cached_property
    def _booster(self) -> Any:
        import lightgbm

        return lightgbm.Booster(model_str=self.text)

    def at(self, columns: Array) -> Array:
        """The value at points of shape (m, columns)."""
        if not self.trees:
            return np.full(len(columns), self.start)
        return np.asarray(self._booster.predict(columns, raw_score=True, num_threads=1) * self.factor + self.start)

    def scaled(self, mean: float, spread: float) -> Grown:
        """Mean + spread times this function."""
        return replace(self, start=mean + spread * self.start, factor=spread * self.factor)

    def stored(self) -> Trees:
        """The same as plain arrays."""
        return read_trees(self.text, self.start, self.factor)


class Course(Protocol):
    """A booster while it grows."""

    held_out: float

    def grow(self) -> None:
        """Note the loss of the trees so far on the held-out rows, and add a tree."""

    def grown(self, trees: int) -> Grown:
        """The booster of the first ``trees`` trees."""


class Descent:
    """Gradient boosting of a loss."""

    def __init__(self, data: Any, loss: Loss, growth: Growth, seed: int) -> None:
        self._booster = new_booster(data, growth, seed)
        self._loss, self._start = loss, loss.start()
        self._ended = False
        self.held_out = np.inf

    def grow(self) -> None:
        """Add a tree, unless no leaf can be split."""
        if not self._ended:
            self._ended = bool(self._booster.update(fobj=self._step))

    def _step(self, scores: Array, _: Any) -> tuple[Array, Array]:
        scores = scores + self._start
        self.held_out = self._loss.held_out(scores)
        return self._loss.gradient(scores)

    def grown(self, trees: int) -> Grown:
        """The model as text."""
        trees = min(trees, self._booster.num_trees())
        return Grown(self._booster.model_to_string(num_iteration=trees) if trees else "", self._start, trees)


def new_booster(data: Any, growth: Growth, seed: int) -> Any:
    """LightGBM's booster without a tree."""
    import lightgbm

    return lightgbm.Booster(growth.parameters(seed), data)


def boost(courses: Sequence[Course], growth: Growth) -> list[Grown]:
    """Grow boosters side by side and stop them together.

    The number of trees is the one with the smallest sum of their held-out losses: each holds out other rows.
    """
    best, trees = np.inf, 0
    for count in range(growth.most + 1):
        go_on()
        for course in courses:
            course.grow()
        total = sum(course.held_out for course in courses)  # of ``count`` trees: the newest is not yet counted
        if total < best:
            best, trees = total, count
        elif count - trees >= growth.patience:
            break
    kept = min(int(trees * growth.more), growth.most)
    for _ in range(kept - count):
        go_on()
        for course in courses:
            course.grow()
    return [course.grown(kept) for course in courses]
