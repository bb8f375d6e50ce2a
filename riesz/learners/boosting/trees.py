"""Trees as plain arrays, for files, and their values at points.

A file of a fit holds arrays that are checked, never LightGBM's own text, which its parser would trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.storage.coding import stored

Numbers = npt.NDArray[np.int64]


@stored
@dataclass(frozen=True)
class Trees:
    """A constant plus a factor times the sum of the trees of a booster.

    Tree t has nodes 0 to ``splits[t] - 1`` and one leaf more than nodes. A point goes left at a node if its column ``feature``
    is at most ``threshold``. A child below zero is a leaf: -1 the first. What lies beyond a tree's own nodes and leaves is zero.

    Attributes
    ----------
    start, factor : float
    splits : ndarray of int, shape (T,)
    feature, left, right : ndarray of int, shape (T, N)
    threshold : ndarray, shape (T, N)
    values : ndarray, shape (T, N + 1)
    """

    start: float
    factor: float
    splits: Numbers
    feature: Numbers
    left: Numbers
    right: Numbers
    threshold: Array
    values: Array

    def __post_init__(self) -> None:
        trees, nodes = self.feature.shape if self.feature.ndim == 2 else (-1, -1)
        same = all(part.shape == (trees, nodes) for part in (self.left, self.right, self.threshold))
        if not same or self.values.shape != (trees, nodes + 1) or self.splits.shape != (trees,):
            raise ValueError("trees of the wrong shape")
        if trees and not 0 <= self.splits.min() <= self.splits.max() <= nodes:
            raise ValueError("trees with a wrong number of nodes")
        if not (
            np.isfinite([self.start, self.factor]).all()
            and np.isfinite(self.threshold).all()
            and np.isfinite(self.values).all()
        ):
            raise ValueError("trees with numbers that are not finite")
        number, splits = np.arange(nodes), self.splits[:, None]
        real = number < splits
        for child in (self.left, self.right):
            inner = (child > number) & (child < splits)  # a child comes after its parent, so there are no cycles
            leaf = (child < 0) & (child >= -splits - 1)
            if not (inner | leaf | ~real).all():
                raise ValueError("trees with a wrong child")
        if nodes and self.feature.min() < 0:
            raise ValueError("trees with a wrong column")

    @property
    def width(self) -> int:
        """The least number of columns that the trees need."""
        return int(self.feature.max(initial=-1)) + 1

    def stored(self) -> Trees:
        """These arrays."""
        return self

    def at(self, columns: Array) -> Array:
        """The sum at points of shape (m, columns)."""
        total, points = np.zeros(len(columns)), np.arange(len(columns))
        for tree, splits in enumerate(self.splits):
            node = np.full(len(columns), 0 if splits else -1)
            while (inside := points[node >= 0]).size:
                nodes = node[inside]
                low = columns[inside, self.feature[tree, nodes]] <= self.threshold[tree, nodes]
                node[inside] = np.where(low, self.left[tree, nodes], self.right[tree, nodes])
            total += self.values[tree, -node - 1]
        return total * self.factor + self.start


def read_trees(text: str, start: float, factor: float) -> Trees:
    """The trees in LightGBM's text; no tree if it is empty."""
    fields = [_fields(section) for section in text.split("\nTree=")[1:]]
    values = [np.array(tree["leaf_value"].split(), dtype=float) for tree in fields]
    nodes = max((len(leaves) - 1 for leaves in values), default=0)

    def part(name: str, width: int) -> Array:
        return _padded([np.array(tree.get(name, "").split(), dtype=float) for tree in fields], width)

    return Trees(
        start=start,
        factor=factor,
        splits=np.array([len(leaves) - 1 for leaves in values], dtype=np.int64),
        feature=part("split_feature", nodes).astype(np.int64),
        left=part("left_child", nodes).astype(np.int64),
        right=part("right_child", nodes).astype(np.int64),
        threshold=part("threshold", nodes),
        values=_padded(values, nodes + 1),
    )


def _fields(section: str) -> dict[str, str]:
    body = section.split("\n\n")[0]
    return dict(line.split("=", 1) for line in body.split("\n") if "=" in line)


def _padded(rows: Sequence[Array], width: int) -> Array:
    whole = np.zeros((len(rows), width))
    for row, values in zip(whole, rows, strict=True):
        row[: len(values)] = values
    return whole
