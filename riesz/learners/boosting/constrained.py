r"""Trees for the moment-constrained problem: the paper's beta_perp.

.. math:: \min_f \|\beta - f\|_n^2 \quad \text{subject to} \quad h_n(f) = 0.

A penalty on :math:`|h_n(f)|` would flip its gradient's sign at every tree, and a fixed multiplier would be the Riesz loss under
another name. Instead every tree keeps the constraint. It is grown on the gradient of the Lagrangian, with the multiplier at which
:math:`r = \beta - f` would be a multiple of the Riesz representer, :math:`\lambda = \|r\|_n^2 / h_n(r)`. Then its leaves get the
values c that bring f closest to beta while the tree alone satisfies the constraint,

.. math:: c_l = (R_l - \nu M_l) / W_l, \qquad \nu = \sum_l M_l R_l / W_l \Big/ \sum_l M_l^2 / W_l,

where :math:`W_l` and :math:`R_l` are the sums over the leaf of the observed rows' weights w and of w r, and :math:`M_l` that of
the weights with which the moment reads there. f moves by the learning rate times c, so that h_n(f) stays zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array, ratio
from riesz.errors import LearnerError
from riesz.learners.boosting.engine import Growth
from riesz.learners.boosting.leaves import DescentWithLeaves
from riesz.learners.boosting.losses import Quadratic

_LEAST = 1e-12


@dataclass(frozen=True)
class Anchored:
    """The problem of one booster.

    Attributes
    ----------
    sums : Quadratic
        w as curvature and w m as slope, of the training rows and of the held-out rows.
    anchor : ndarray, shape (points,)
        beta; its values at points without an observed row are not used.
    moment, held_moment : float
        Sum of w m(beta) over the training rows, and over the held-out rows.
    """

    sums: Quadratic
    anchor: Array
    moment: float
    held_moment: float


def leaf_values(weights: Array, residuals: Array, moments: Array) -> Array:
    """The values c above from W, R and M, shape (leaves,); zero in leaves without observed rows."""
    free = ratio(residuals, weights, otherwise=0.0)
    pull = ratio(moments, weights, otherwise=0.0)
    size = float(moments @ pull)
    return free if size == 0 else free - pull * (float(moments @ free) / size)


class ConstrainedDescent(DescentWithLeaves):
    """Boosting of beta_perp."""

    def __init__(self, data: Any, problem: Anchored, growth: Growth, seed: int) -> None:
        if problem.moment == 0:
            raise LearnerError(
                "The anchor's moment is zero on a training set, so beta_perp cannot be learned. Pass another anchor, or use "
                "riesz.Boosting(rr='riesz'), which needs none."
            )
        super().__init__(data, len(problem.anchor), growth, seed)
        self._problem, self._rate = problem, growth.learning_rate
        sums = problem.sums
        self._learned = _Part.where(sums.curvature != 0, problem)
        self._held = _Part.where((sums.held_curvature != 0) | (sums.held_slope != 0), problem)

    def _gradient(self) -> tuple[Array, Array]:
        sums, moment, learned, held = self._problem.sums, self._problem.moment, self._learned, self._held
        curvature, r = sums.curvature[learned.lines], learned.anchor - learned.f
        scale = moment / max(float(curvature @ r**2), _LEAST * abs(moment))
        held_moment = self._problem.held_moment - float(sums.held_slope[held.lines] @ held.f)
        held_square = float(sums.held_curvature[held.lines] @ (held.anchor - held.f) ** 2)
        self.held_out = scale**2 * held_square - 2.0 * scale * held_moment
        gradient = sums.slope / scale
        gradient[learned.lines] -= curvature * r
        return gradient, sums.curvature

    def _values(self, leaf: npt.NDArray[np.intp], leaves: int) -> Array:
        sums, learned = self._problem.sums, self._learned
        at_rows, curvature = leaf[learned.lines], sums.curvature[learned.lines]
        residuals = curvature * (learned.anchor - learned.f)
        weights, residuals, moments = (
            np.bincount(at, values, minlength=leaves).astype(np.float64)
            for at, values in ((at_rows, curvature), (at_rows, residuals), (leaf, sums.slope))
        )
        values = self._rate * leaf_values(weights, residuals, moments)
        for part in (learned, self._held):
            part.f[:] += values[leaf[part.lines]]
        return values


@dataclass(frozen=True)
class _Part:
    """Some of the lines.

    Attributes
    ----------
    lines : ndarray of int, shape (m,)
    anchor : ndarray, shape (m,)
        beta there.
    f : ndarray, shape (m,)
        beta_perp there; every tree changes it in place.
    """

    lines: npt.NDArray[np.intp]
    anchor: Array
    f: Array

    @staticmethod
    def where(mask: npt.NDArray[np.bool_], problem: Anchored) -> _Part:
        """The lines where a mask is true, before the first tree."""
        lines = np.flatnonzero(mask)
        return _Part(lines, problem.anchor[lines], np.zeros(len(lines)))
