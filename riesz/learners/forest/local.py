r"""The local problems at points x, and the choice of their penalties.

With :math:`J(x) = \sum_i \alpha_i(x) b_i b_i'` and :math:`R(x) = \sum_i \alpha_i(x) r_i`, where r is b y for mu and the moment of b
for rr, and their global counterparts :math:`J_0 = E_n[b b'] = I` and :math:`R_0 = E_n[r]`,

.. math:: \theta(x) = \{J(x) + \lambda I\}^{-1} \{R(x) + \lambda R_0\}.

The penalty draws :math:`\theta(x)` to the global solution :math:`R_0`, whatever the units. Of arms, J is diagonal: the local shares
of the arms, which are drawn to their shares in the sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.learners.forest.dictionary import Dictionary

Numbers = npt.NDArray[np.intp]
OutOfBag = float | Literal["oob"]

#: Penalties that are tried; the last one gives the global solution.
GRID = np.array([1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 1e6])
_LEAST = 1e-6  # stands in for smaller eigenvalues, if there is no penalty


@dataclass(frozen=True)
class Local:
    """J(x) at m points, in its eigenvectors.

    Attributes
    ----------
    sizes : ndarray, shape (m, d)
    axes : ndarray, shape (m, d, d), or None
        None if J is diagonal.
    """

    sizes: Array
    axes: Array | None

    def solve(self, right: Array, level: Array, functions: Numbers, penalty: float) -> Array:
        """The solutions.

        Parameters
        ----------
        right : ndarray, shape (m, f)
            R(x) of some functions of the treatment; it is zero for the others.
        level : ndarray, shape (f,)
            Theirs in R_0.
        functions : ndarray of int, shape (f,)
        penalty : float

        Returns
        -------
        ndarray, shape (m, f) if J is diagonal, otherwise (m, d)
        """
        goal = right + penalty * level
        if self.axes is None:
            return np.asarray(goal / np.maximum(self.sizes[:, functions] + penalty, _LEAST))
        whole = np.zeros(self.sizes.shape)
        whole[:, functions] = goal
        rotated = np.einsum("mij,mi->mj", self.axes, whole) / np.maximum(self.sizes + penalty, _LEAST)
        return np.asarray(np.einsum("mij,mj->mi", self.axes, rotated))

    def columns(self, functions: Numbers) -> Numbers:
        """The functions that the columns of a solution belong to."""
        return functions if self.axes is None else np.arange(self.sizes.shape[1])


def make_local(dictionary: Dictionary, products: Array, count: Array) -> Local:
    """J(x) from averages of products, shape (m, q); the global one where no tree has rows (``count`` zero)."""
    d = dictionary.size
    if dictionary.arms:
        present = (dictionary.transform[:, 0] > 0).astype(float)
        return Local(np.where(count[:, None] > 0, products, present), None)
    one, two = dictionary.products
    whole = np.empty((len(products), d, d))
    whole[:, one, two] = whole[:, two, one] = products
    whole[count == 0] = np.eye(d)
    sizes, axes = np.linalg.eigh(whole)
    return Local(np.maximum(sizes, 0.0), axes)


def filled(right: Array, level: Array, count: Array) -> Array:
    """R(x), with the global one where no tree has rows."""
    return np.where(count[:, None] > 0, right, level)


def best(losses: list[float]) -> float:
    """The penalty of the grid with the smallest loss."""
    return float(GRID[int(np.argmin(losses))])
