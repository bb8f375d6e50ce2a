r"""Trees for a representer of known sign, by the Kullback-Leibler loss.

With the known sign g of rr and the size a of the best constant in each arm, trees sum up to f and :math:`rr = g\, a \exp(g f)`.
In the weights q of the observed rows, 0 where g is 0, and b of the moment at the readings, as in ``losses.py``, the loss is

.. math:: \sum_p q_p a_p \exp(g_p f_p) - b_p f_p.

Its first derivative is :math:`q\, rr - b`, as that of the Riesz loss, and its second :math:`q\, |rr|`. The latter as hessian would
allow a leaf with a single observed row whose |rr| is large. So trees are grown on the first derivative over
:math:`\sqrt{|rr|}` with hessian q: where |rr| varies little, the gain of a split is the same, and LightGBM's least sum of hessians
counts observed rows. Then a leaf gets the value c at which the loss is smallest,

.. math:: P e^c - N e^{-c} = M

with the sums P and N over the leaf of :math:`q\, |rr|` where g is 1 and -1, and M of b. It is limited to [-1, 1], and f moves by
the learning rate times c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.learners.boosting.engine import Growth
from riesz.learners.boosting.leaves import DescentWithLeaves
from riesz.learners.boosting.losses import Quadratic

_LARGEST = 30.0  # size of f where the loss is computed
_LEAST = 1e-12  # share of the sizes in a leaf that counts as none


@dataclass(frozen=True)
class Entropy:
    """The loss above.

    Attributes
    ----------
    levels : ndarray, shape (points,)
        g a.
    sums : Quadratic
        q as curvature and b as slope, of the training rows and of the held-out rows.
    """

    levels: Array
    sums: Quadratic

    def sizes(self, f: Array) -> Array:
        """|rr| at the points, shape (points,), 0 where g is 0."""
        return np.abs(self.levels) * np.exp(np.clip(np.sign(self.levels) * f, -_LARGEST, _LARGEST))

    def loss(self, f: Array) -> float:
        """The sum over the training rows."""
        return float(self.sums.curvature @ self.sizes(f) - self.sums.slope @ f)

    def derivative(self, f: Array) -> Array:
        """The derivative of that sum along f at the points, shape (points,)."""
        return self.sums.curvature * np.sign(self.levels) * self.sizes(f) - self.sums.slope

    def held_out(self, f: Array) -> float:
        """The sum over the held-out rows."""
        return float(self.sums.held_curvature @ self.sizes(f) - self.sums.held_slope @ f)

    def best_constants(self, f: Array, leaf: npt.NDArray[np.intp], leaves: int) -> Array:
        """The c of each leaf that is best to add to f there, within [-1, 1]; shape (leaves,)."""
        sizes = self.sums.curvature * self.sizes(f)
        positive, negative, moment = (
            np.bincount(leaf, values, minlength=leaves).astype(np.float64)
            for values in (
                np.where(self.levels > 0, sizes, 0.0),
                np.where(self.levels < 0, sizes, 0.0),
                self.sums.slope,
            )
        )
        least = _LEAST * (positive + negative) + 1e-300
        p, n = np.maximum(positive, least), np.maximum(negative, least)
        root = np.sqrt(moment**2 + 4.0 * p * n)
        # of the two forms of the solution, the one without cancellation
        up = np.where(moment >= 0, (root + moment) / (2.0 * p), 2.0 * n / np.where(moment >= 0, 1.0, root - moment))
        return np.clip(np.log(up), -1.0, 1.0)


class EntropyDescent(DescentWithLeaves):
    """Boosting of f."""

    def __init__(self, data: Any, loss: Entropy, growth: Growth, seed: int) -> None:
        points = len(loss.levels)
        start = _best_start(loss)
        super().__init__(data, points, growth, seed, start)
        self._loss, self._rate, self._f = loss, growth.learning_rate, np.full(points, start)

    def _gradient(self) -> tuple[Array, Array]:
        sizes = self._loss.sizes(self._f)
        self.held_out = self._loss.held_out(self._f)
        root = np.sqrt(np.where(sizes > 0.0, sizes, 1.0))
        return self._loss.derivative(self._f) / root, self._loss.sums.curvature

    def _values(self, leaf: npt.NDArray[np.intp], leaves: int) -> Array:
        values = self._rate * self._loss.best_constants(self._f, leaf, leaves)
        self._f += values[leaf]
        return values


def _best_start(loss: Entropy) -> float:
    """The best constant, in a few steps of at most 1."""
    f, one_leaf = np.zeros(len(loss.levels)), np.zeros(len(loss.levels), dtype=np.intp)
    for _ in range(20):
        f += loss.best_constants(f, one_leaf, 1)
    return float(f[0])
