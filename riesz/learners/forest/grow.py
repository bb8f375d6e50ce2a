"""Honest trees on scikit-learn's: the structure of a tree from one half of a subsample, the means of its leaves from the other.

In: for each row, scores to split on, and numbers whose leaf means are computed, at every site. Out: a forest, and for each row the
average over the trees whose subsample the row, and its cluster, is not part of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array, ratio
from riesz.crossfit.threads import go_on
from riesz.learners.forest.trees import LeafMeans

Numbers = npt.NDArray[np.intp]
Singles = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Growth:
    """How trees grow.

    Attributes
    ----------
    trees : int
    share : float
        Share of the units that each tree uses.
    least : float
        Least number of rows in a leaf, or sum of their weights, which have mean one.
    honest : bool
        Whether the leaves' means come from other rows than the structure.
    columns : int
        Number of covariates that are tried at each split.
    """

    trees: int
    share: float
    least: float
    honest: bool
    columns: int


@dataclass(frozen=True)
class Problem:
    """What trees are grown on.

    Attributes
    ----------
    units : ndarray of int, shape (n,)
        Rows with the same number are kept together; 0 to the number of units - 1.
    weights : ndarray, shape (n,)
        With mean one.
    points : sequence of ndarray, shape (n, c)
        Covariates, one table per site, first the rows'.
    scores : sequence of ndarray, shape (n, s)
        What the trees split on, one table per site.
    numbers : sequence of ndarray, shape (n, q)
        Whose means are computed, one table per site. Those of all sites are summed in a leaf, then divided by its weight.
    """

    units: Numbers
    weights: Array
    points: Sequence[Singles]
    scores: Sequence[Array]
    numbers: Sequence[Array]


@dataclass(frozen=True)
class Grown:
    """A forest, and what it says about the rows that it was grown on.

    Attributes
    ----------
    forest : LeafMeans
    out_of_bag : tuple of ndarray, shape (n, q)
        One table per site: averages over the trees that do not use the row's unit.
    count : tuple of ndarray, shape (n,)
        The numbers of these trees.
    """

    forest: LeafMeans
    out_of_bag: tuple[Array, ...]
    count: tuple[Array, ...]


def grow(problem: Problem, growth: Growth, seed: int) -> Grown:
    """Grow a forest; one tree after the other, so that the seed alone decides."""
    rng = np.random.default_rng(seed)
    units = int(problem.units.max()) + 1
    totals = [np.zeros_like(numbers) for numbers in problem.numbers]
    counts = [np.zeros(len(problem.units)) for _ in problem.numbers]
    weighted = [problem.weights[:, None] * numbers for numbers in problem.numbers]
    parts = []
    for _ in range(growth.trees):
        go_on()
        of_unit = draw_halves(units, growth, rng)
        role = of_unit[problem.units]
        tree = _structure(problem, growth, role > 0 if not growth.honest else role == 1, rng)
        part = _fill(tree, problem, weighted, role > 0 if not growth.honest else role == 2)
        for points, total, count in zip(problem.points, totals, counts, strict=True):
            outside = np.flatnonzero(role == 0)
            leaf = part.of_node[tree.apply(points[outside])]
            total[outside] += part.means[leaf]
            count[outside] += part.filled[leaf]
        parts.append(part)
    averages = tuple(total / np.maximum(count, 1.0)[:, None] for total, count in zip(totals, counts, strict=True))
    return Grown(_joined(parts), averages, tuple(counts))


def draw_halves(units: int, growth: Growth, rng: np.random.Generator) -> Numbers:
    """For each unit 1 if it gives structure, 2 if it gives means, 0 if it is not in the subsample, shape (units,)."""
    order = rng.permutation(units)
    used = max(round(growth.share * units), 2)
    role = np.zeros(units, dtype=np.intp)
    role[order[:used]] = 2
    role[order[: used // 2]] = 1
    return role


def _structure(problem: Problem, growth: Growth, use: npt.NDArray[np.bool_], rng: np.random.Generator) -> Any:
    """A tree of scikit-learn, grown on the scores of some rows at all sites."""
    from sklearn.tree import ExtraTreeRegressor

    sites = len(problem.points)
    weights = np.tile(problem.weights[use], sites)
    least = growth.least * sites / weights.sum()
    model = ExtraTreeRegressor(
        min_weight_fraction_leaf=float(np.clip(least, 0.0, 0.5)),
        max_features=growth.columns,
        random_state=int(rng.integers(2**31 - 1)),
    )
    points = np.vstack([points[use] for points in problem.points])
    model.fit(points, np.vstack([scores[use] for scores in problem.scores]), sample_weight=weights, check_input=False)
    return model.tree_


@dataclass(frozen=True)
class _Part:
    """One tree with its leaves' means; arrays as in :class:`LeafMeans`, with all its nodes and leaves numbered from 0."""

    feature: Numbers
    left: Numbers
    right: Numbers
    threshold: Array
    means: Array
    filled: npt.NDArray[np.bool_]
    of_node: Numbers


def _fill(tree: Any, problem: Problem, weighted: Sequence[Array], use: npt.NDArray[np.bool_]) -> _Part:
    """The means of the leaves of a tree, from some rows."""
    is_leaf = tree.children_left < 0
    leaves = int(is_leaf.sum())
    of_node = np.cumsum(is_leaf) - 1
    inner = np.cumsum(~is_leaf) - 1
    new = np.where(
        is_leaf, -of_node - 1, inner
    )  # nodes are in the order of depth first, so children come after parents
    sums = np.zeros((leaves, weighted[0].shape[1]))
    for site, (points, numbers) in enumerate(zip(problem.points, weighted, strict=True)):
        leaf = of_node[tree.apply(points[use])]
        if not site:
            mass = np.bincount(leaf, problem.weights[use], minlength=leaves).astype(np.float64)
        for column, values in enumerate(numbers[use].T):
            sums[:, column] += np.bincount(leaf, values, minlength=leaves)
    filled = mass > 0
    means = np.where(filled[:, None], ratio(sums, mass[:, None], otherwise=0.0), 0.0)
    split = np.flatnonzero(~is_leaf)
    left, right = new[tree.children_left[split]], new[tree.children_right[split]]
    return _Part(tree.feature[split], left, right, tree.threshold[split], means, filled, of_node)


def _joined(parts: Sequence[_Part]) -> LeafMeans:
    """Trees one after the other."""
    nodes = np.cumsum([0, *(len(part.feature) for part in parts)])
    leaves = np.cumsum([0, *(len(part.filled) for part in parts)])
    places = list(zip(parts, nodes, leaves, strict=False))

    def children(name: str) -> Numbers:
        moved = [
            np.where((child := getattr(part, name)) < 0, child - leaf, child + node) for part, node, leaf in places
        ]
        return np.concatenate(moved).astype(np.int64)

    return LeafMeans(
        roots=np.array([node if len(part.feature) else -leaf - 1 for part, node, leaf in places], dtype=np.int64),
        feature=np.concatenate([part.feature for part in parts]).astype(np.int64),
        left=children("left"),
        right=children("right"),
        threshold=np.concatenate([part.threshold for part in parts]).astype(float),
        means=np.concatenate([part.means for part in parts]),
        filled=np.concatenate([part.filled for part in parts]),
    )
