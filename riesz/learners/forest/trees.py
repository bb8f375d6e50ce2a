r"""Trees as plain arrays, with the means of their leaves, and averages over trees at points.

With :math:`L_t(x)` the honest rows in the leaf of tree t that x falls into, and weights w, the forest's weights are

.. math:: \alpha_i(x) = \frac{1}{T} \sum_t \frac{w_i 1\{i \in L_t(x)\}}{\sum_{j \in L_t(x)} w_j},

over the T trees in which the leaf has honest rows. Any :math:`\sum_i \alpha_i(x) v_i` is thus the average over trees of the means
of v in the leaves, which are all that is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.storage.coding import stored

Numbers = npt.NDArray[np.int64]


@stored
@dataclass(frozen=True)
class LeafMeans:
    """A forest. A point goes left at a node if its column ``feature`` is at most ``threshold``.

    Attributes
    ----------
    roots : ndarray of int, shape (T,)
        The first node of each tree.
    feature, left, right : ndarray of int, shape (N,)
        Of the nodes of all trees, one tree after the other. A child below zero is a leaf: -1 the first.
    threshold : ndarray, shape (N,)
    means : ndarray, shape (L, q)
        Of all leaves.
    filled : ndarray of bool, shape (L,)
        Whether a leaf has honest rows.
    """

    roots: Numbers
    feature: Numbers
    left: Numbers
    right: Numbers
    threshold: Array
    means: Array
    filled: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        nodes, leaves = len(self.feature), len(self.filled)
        if any(part.shape != (nodes,) for part in (self.feature, self.left, self.right, self.threshold)):
            raise ValueError("trees of the wrong shape")
        if self.means.ndim != 2 or self.filled.shape != (leaves,) or len(self.means) != leaves:
            raise ValueError("leaves of the wrong shape")
        if not (np.isfinite(self.threshold).all() and np.isfinite(self.means).all()):
            raise ValueError("trees with numbers that are not finite")
        if self.roots.ndim != 1 or not len(self.roots):
            raise ValueError("a forest without trees")
        number = np.arange(nodes)
        for child, parent in ((self.left, number), (self.right, number), (self.roots, -1)):
            inner = (child > parent) & (child < nodes)  # a child comes after its parent, so there are no cycles
            if not (inner | (child < 0) & (child >= -leaves)).all():
                raise ValueError("trees with a wrong child")
        if nodes and self.feature.min() < 0:
            raise ValueError("trees with a wrong column")

    @property
    def width(self) -> int:
        """The least number of columns that the trees need."""
        return int(self.feature.max(initial=-1)) + 1

    def leaves(self, points: npt.NDArray[np.float32], tree: int) -> Numbers:
        """The leaf of a tree that each point falls into, for points of shape (m, columns), shape (m,)."""
        node = np.full(len(points), self.roots[tree])
        inside = np.flatnonzero(node >= 0)
        while inside.size:
            at = node[inside]
            low = points[inside, self.feature[at]] <= self.threshold[at]
            below = np.where(low, self.left[at], self.right[at])
            node[inside] = below
            inside = inside[below >= 0]
        return -node - 1

    def average(self, points: npt.NDArray[np.float32]) -> tuple[Array, Array]:
        """Means over trees at points of shape (m, columns).

        Returns
        -------
        ndarray, shape (m, q)
            Zero where no tree has honest rows.
        ndarray, shape (m,)
            The number of trees that have.
        """
        total, count = np.zeros((len(points), self.means.shape[1])), np.zeros(len(points))
        for tree in range(len(self.roots)):
            leaf = self.leaves(points, tree)
            total += self.means[leaf]  # zero where a leaf is not filled
            count += self.filled[leaf]
        return total / np.maximum(count, 1.0)[:, None], count
