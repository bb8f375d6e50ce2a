"""Random folds that spread arms evenly and keep clusters whole, and random subsets of rows.

Used by cross-fitting, and by learners that set rows aside for validation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.intp]


def draw_part(n: int, most: int, seed: int | Sequence[int]) -> Labels:
    """At most ``most`` of the numbers 0 to n - 1, in ascending order; all of them if n is not larger.

    They are drawn at random, because every k-th row may be of the same kind if rows come in pairs or survey waves. With the same
    seed, a larger subset contains a smaller one.

    Examples
    --------
    >>> from riesz.crossfit.folds import draw_part
    >>> draw_part(3, 5, seed=1)
    array([0, 1, 2])
    >>> len(draw_part(100, 5, seed=1))
    5
    """
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).permutation(n)[:most])


def draw_labels(n: int, folds: int, strata: Labels | None, groups: Labels | None, rng: np.random.Generator) -> Labels:
    """Assign rows to folds at random.

    Parameters
    ----------
    n, folds : int
    strata : ndarray of int, shape (n,), or None
        Arms, spread evenly over the folds.
    groups : ndarray of int, shape (n,), or None
        Clusters, kept whole. Large clusters are placed first, each where it leaves the arms most even.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int, shape (n,)
    """
    if strata is None:
        strata = np.zeros(n, dtype=np.intp)
    if groups is None:
        labels = np.empty(n, dtype=np.intp)
        order = rng.permutation(n)
        order = order[np.argsort(strata[order], kind="stable")]
        labels[order] = np.arange(n) % folds
        return rng.permutation(folds)[labels]
    counts = np.zeros((int(groups.max()) + 1, int(strata.max()) + 1))
    np.add.at(counts, (groups, strata), 1.0)
    shares = counts / counts.sum(axis=0)
    shuffled = rng.permutation(len(counts))
    order = shuffled[np.argsort(-counts[shuffled].sum(axis=1), kind="stable")]
    load = np.zeros((folds, counts.shape[1]))
    of_group = np.empty(len(counts), dtype=np.intp)
    for group in order:
        # the fold with the smallest load in the arms of this cluster; ties by overall load
        fullness = load @ shares[group] + 1e-9 * load.sum(axis=1)
        best = int(np.argmin(fullness))
        of_group[group] = best
        load[best] += shares[group]
    return of_group[groups]
