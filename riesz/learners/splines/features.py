r"""The features of :class:`~riesz.Splines`, as products.

A feature is a product of up to two inputs and one share of the treatment,

.. math:: \phi_f = x_{i(f)} \, x_{j(f)} \, s_{k(f)}(a),

each of which may be left out. Inputs are the columns of :class:`~riesz.learners.inputs.evaluation_points.EvaluationPoints`: the
treatment, then lines, bends and indicators of the covariates. Shares are the treatment's columns, centred and scaled, and, when
the treatment has arms, the indicators of the arms.

Shapes: n rows, S points per row, d inputs, F features, R readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.inputs.evaluation_points import EvaluationPoints
from riesz.learners.inputs.expansions import Role
from riesz.storage.coding import stored

Numbers = npt.NDArray[np.intp]

NONE = -1  # no such factor


@stored
@dataclass(frozen=True)
class Shares:
    """How the treatment enters products.

    Attributes
    ----------
    centre, spread : ndarray, shape (t,)
        Of the treatment's columns.
    arms : ndarray, shape (K, t), or None
        The treatments of K arms, whose indicators follow the columns.
    """

    centre: Array
    spread: Array
    arms: Array | None

    def values(self, raw: Array) -> Array:
        """The shares at treatments of shape (..., t), shape (s, ...)."""
        columns = np.moveaxis((raw - self.centre) / self.spread, -1, 0)
        if self.arms is None:
            return columns
        return np.concatenate([columns, [(raw == arm).all(axis=-1).astype(float) for arm in self.arms]])

    def of_arm(self, arm: int) -> int:
        """The number of an arm's indicator among the shares."""
        return len(self.centre) + arm


@stored
@dataclass(frozen=True)
class Features:
    """A list of products.

    Attributes
    ----------
    first, second : ndarray of int, shape (F,)
        Inputs; -1 for none.
    share : ndarray of int, shape (F,)
        -1 for none.
    """

    first: Numbers
    second: Numbers
    share: Numbers

    def __len__(self) -> int:
        return len(self.first)

    def take(self, which: npt.NDArray[np.generic]) -> Features:
        """Those with given numbers, or where a mask is true."""
        return Features(self.first[which], self.second[which], self.share[which])

    def times(self, share: int) -> Features:
        """The same, each multiplied by a share; they must have none."""
        return Features(self.first, self.second, np.full_like(self.share, share))


def joined(parts: Sequence[Features]) -> Features:
    """Several lists as one."""
    return Features(
        np.concatenate([part.first for part in parts]),
        np.concatenate([part.second for part in parts]),
        np.concatenate([part.share for part in parts]),
    )


def singles(inputs: Numbers) -> Features:
    """Inputs by themselves."""
    inputs = np.asarray(inputs, dtype=np.intp)
    return Features(inputs, np.full_like(inputs, NONE), np.full_like(inputs, NONE))


def pairs(first: Sequence[int], second: Sequence[int]) -> Features:
    """Products of two inputs each."""
    one, two = np.array(first, dtype=np.intp), np.array(second, dtype=np.intp)
    return Features(one, two, np.full_like(one, NONE))


def penalty_groups(features: Features, points: EvaluationPoints) -> Numbers:
    """Numbers that are equal for features with a common penalty, shape (F,).

    The line, the bends and the indicators of a column have penalties of their own, and so have their products with each share,
    and every product of two inputs.
    """
    roles = np.append(points.roles, len(Role))
    sources = np.append(points.sources, NONE - 1)
    alone = features.second == NONE
    keys = np.column_stack(
        [
            sources[features.first],
            roles[features.first],
            np.where(alone, NONE, features.first),
            features.second,
            features.share,
        ]
    )
    return np.asarray(np.unique(keys, axis=0, return_inverse=True)[1].ravel(), dtype=np.intp)


def evaluate(features: Features, shares: Shares, points: EvaluationPoints, design: Design) -> Evaluation:
    """Features at the rows of a design and at their readings, shape (F, n); the points are those of the design's own rows."""
    n, count, t = points.treatment.shape
    x = _inputs(points, points.treatment, points.covariates, constant=1.0)
    for place, (columns, values, _) in points.changed.items():
        x[columns + t, place] = values.T
    s = np.concatenate([shares.values(points.raw).swapaxes(1, 2), np.ones((1, count, n))])
    phi = _product(features, x, x, s)
    readings = points.of_reading
    read = phi[:, readings]
    slopes = np.zeros_like(read)
    derivative = design.is_derivative
    if derivative.any():
        slopes[:, derivative] = _slopes(features, shares, points, x, s)[:, readings[derivative]]
    return Evaluation(phi[:, points.observed, np.arange(n)], read, slopes)


def _inputs(points: EvaluationPoints, treatment: Array, covariates: Array, constant: float) -> Array:
    """Inputs at every point, and a constant, shape (d + 1, S, n)."""
    n, count, t = points.treatment.shape
    x = np.empty((t + covariates.shape[1] + 1, count, n))
    x[:t] = treatment.transpose(2, 1, 0)
    x[t:-1] = covariates.T[:, None]
    x[-1] = constant
    return x


def _product(features: Features, one: Array, two: Array, share: Array) -> Array:
    """Products of three factors, shape (F, S, n); the last row of each stands for none."""
    phi = one[features.first]
    for factor, chosen in ((two, features.second), (share, features.share)):
        there = np.arange(len(features)) if factor[-1].ravel()[0] != 1.0 else np.flatnonzero(chosen != NONE)
        phi[there] *= factor[chosen[there]]
    return phi


def _slopes(features: Features, shares: Shares, points: EvaluationPoints, x: Array, s: Array) -> Array:
    """Derivatives of features along the treatment (or another column that a reading moves) at the points, shape (F, S, n)."""
    n, count, t = points.treatment.shape
    dx = _inputs(points, points.tangent, np.zeros_like(points.covariates), constant=0.0)
    for place, (columns, _, tangents) in points.changed.items():
        if tangents is not None:
            dx[columns + t, place] = tangents.T
    ds = np.zeros_like(s)
    ds[: len(shares.spread)] = (points.slope[:, None] / shares.spread).T[:, :, None]
    return _product(features, dx, x, s) + _product(features, x, dx, s) + _product(features, x, x, ds)
