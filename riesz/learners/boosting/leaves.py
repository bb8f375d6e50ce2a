"""Boosting whose trees get other leaf values than LightGBM's: only their splits are LightGBM's.

LightGBM gives a leaf the sum of its gradients over that of its hessians. A problem that needs other values computes them from sums
over the leaf. Leaves are told apart by LightGBM's values; where two are equal, the leaves are given one value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.learners.boosting.engine import Grown, Growth, new_booster
from riesz.learners.boosting.trees import read_trees

_FEW = 1000  # values among which most leaves are found
_SAME = 1e-9  # leaves whose first values differ by less than this share of the largest one are given one value


class DescentWithLeaves(ABC):
    """Gradient boosting with the problem's own leaf values.

    Parameters
    ----------
    data : object
        LightGBM's.
    points : int
        Number of lines.
    growth : Growth
    seed : int
    start : float
        The value before the first tree.
    """

    def __init__(self, data: Any, points: int, growth: Growth, seed: int, start: float = 0.0) -> None:
        self._booster = new_booster(data, growth, seed)
        self._start = start
        self._before = np.zeros(points)  # LightGBM's scores, which do not include the final values of the leaves
        self._leaves: list[tuple[Array, Array]] = []  # per tree, its first values in ascending order and the final ones
        self._ended = False
        self.held_out = np.inf

    @abstractmethod
    def _values(self, leaf: npt.NDArray[np.intp], leaves: int) -> Array:
        """The values of the newest tree's leaves, shape (leaves,), from the leaf of each line; the function moves by them."""

    @abstractmethod
    def _gradient(self) -> tuple[Array, Array]:
        """What the next tree is grown on: gradients and hessians, shapes (points,); notes the loss on the held-out rows."""

    def grow(self) -> None:
        """Add a tree, unless no leaf can be split."""
        if not self._ended:
            self._ended = bool(self._booster.update(fobj=self._step))

    def grown(self, trees: int) -> Grown:
        """The model with the values of the leaves."""
        trees = min(trees, len(self._leaves))
        if not trees:
            return Grown("", self._start, 0)
        first = read_trees(self._booster.model_to_string(num_iteration=trees), 0.0, 1.0)
        for tree, (known, values) in enumerate(self._leaves[:trees]):
            before = first.values[tree, : first.splits[tree] + 1]
            for leaf, value in enumerate(values[_nearest(known, before)]):
                self._booster.set_leaf_output(tree, leaf, value)
        return Grown(self._booster.model_to_string(num_iteration=trees), self._start, trees)

    def _step(self, scores: Array, _: Any) -> tuple[Array, Array]:
        if self._booster.num_trees() > len(self._leaves):
            known, leaf = _grouped(scores - self._before)
            self._before = scores.copy()
            self._leaves.append((known, self._values(leaf, len(known))))
        return self._gradient()


def _grouped(values: Array) -> tuple[Array, npt.NDArray[np.intp]]:
    """The distinct ones of many values that take few, up to rounding, in ascending order, and the place of each value among them.

    A few of the values show nearly all distinct ones, so that passes over all values are few.
    """
    close = _SAME * float(max(values.max(), -values.min()))
    known = _distinct(values[:: 1 + len(values) // _FEW], close)
    place = _nearest(known, values)
    new = values[np.abs(known[place] - values) > close]
    if len(new):
        known = np.sort(np.concatenate([known, _distinct(new, close)]))
        place = _nearest(known, values)
    return known, place


def _distinct(values: Array, close: float) -> Array:
    """The distinct ones of some values, up to a difference, in ascending order."""
    known = []
    while values.size:
        known.append(values[0])
        values = values[np.abs(values - values[0]) > close]
    return np.sort(known)


def _nearest(known: Array, values: Array) -> npt.NDArray[np.intp]:
    """The place of the nearest among values in ascending order."""
    return np.searchsorted((known[1:] + known[:-1]) / 2, values)
