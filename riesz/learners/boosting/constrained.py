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
from riesz.learners.boosting.engine import Grown, Growth, new_booster
from riesz.learners.boosting.losses import Quadratic
from riesz.learners.boosting.trees import read_trees

_LEAST = 1e-12
_FEW = 1000  # values among which most leaves are found
_SAME = 1e-9  # leaves whose first values differ by less than this share of the largest one are given one value


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


class ConstrainedDescent:
    """Boosting of beta_perp."""

    def __init__(self, data: Any, problem: Anchored, growth: Growth, seed: int) -> None:
        if problem.moment == 0:
            raise LearnerError(
                "The anchor's moment is zero on a training set, so beta_perp cannot be learned. Pass another anchor, or use "
                "riesz.Boosting(rr='riesz'), which needs none."
            )
        self._booster = new_booster(data, growth, seed)
        self._problem, self._growth = problem, growth
        sums = problem.sums
        self._learned = _Part.where(sums.curvature != 0, problem)
        self._held = _Part.where((sums.held_curvature != 0) | (sums.held_slope != 0), problem)
        self._before = np.zeros(
            len(problem.anchor)
        )  # LightGBM's scores, which do not include the final values of the leaves
        self._leaves: list[tuple[Array, Array]] = []  # per tree, its first values in ascending order and the final ones
        self._ended = False
        self.held_out = np.inf

    def grow(self) -> None:
        """Add a tree, unless no leaf can be split."""
        if not self._ended:
            self._ended = bool(self._booster.update(fobj=self._step))

    def grown(self, trees: int) -> Grown:
        """The model of f, with the values of the leaves."""
        trees = min(trees, len(self._leaves))
        if not trees:
            return Grown("", 0.0, 0)
        first = read_trees(self._booster.model_to_string(num_iteration=trees), 0.0, 1.0)
        for tree, (known, values) in enumerate(self._leaves[:trees]):
            before = first.values[tree, : first.splits[tree] + 1]
            for leaf, value in enumerate(values[_nearest(known, before)]):
                self._booster.set_leaf_output(tree, leaf, value)
        return Grown(self._booster.model_to_string(num_iteration=trees), 0.0, trees)

    def _step(self, scores: Array, _: Any) -> tuple[Array, Array]:
        if self._booster.num_trees() > len(self._leaves):
            self._settle(scores)
        sums, moment, learned, held = self._problem.sums, self._problem.moment, self._learned, self._held
        curvature, r = sums.curvature[learned.lines], learned.anchor - learned.f
        scale = moment / max(float(curvature @ r**2), _LEAST * abs(moment))
        held_moment = self._problem.held_moment - float(sums.held_slope[held.lines] @ held.f)
        held_square = float(sums.held_curvature[held.lines] @ (held.anchor - held.f) ** 2)
        self.held_out = scale**2 * held_square - 2.0 * scale * held_moment
        gradient = sums.slope / scale
        gradient[learned.lines] -= curvature * r
        return gradient, sums.curvature

    def _settle(self, scores: Array) -> None:
        """Give the newest tree's leaves their values."""
        sums, learned = self._problem.sums, self._learned
        known, place = _grouped(scores - self._before)
        leaves, curvature = place[learned.lines], sums.curvature[learned.lines]
        residuals = curvature * (learned.anchor - learned.f)
        weights, residuals, moments = (
            np.bincount(at, values, minlength=len(known)).astype(np.float64)
            for at, values in ((leaves, curvature), (leaves, residuals), (place, sums.slope))
        )
        values = self._growth.learning_rate * leaf_values(weights, residuals, moments)
        for part in (learned, self._held):
            part.f[:] += values[place[part.lines]]
        self._before = scores.copy()
        self._leaves.append((known, values))


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
