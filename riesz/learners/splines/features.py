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
    left, right = np.array(first, dtype=np.intp), np.array(second, dtype=np.intp)
    return Features(left, right, np.full_like(left, NONE))


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
    x, s = _inputs(points), _shares(shares, points)
    bounded = _bounded(features, points, x)
    readings, derivative = points.of_reading, design.is_derivative
    phi = x[features.first]
    pairs = np.flatnonzero(features.second != NONE)
    if len(pairs):
        phi[pairs] = bounded[features.first[pairs]] * bounded[features.second[pairs]]
    products = np.flatnonzero(features.share != NONE)
    phi[products] *= s[features.share[products]]
    read = phi[:, readings]
    slopes = np.zeros_like(read)
    if derivative.any():
        slopes[:, derivative] = _slopes(features, shares, points, (x, bounded, s))[:, readings[derivative]]
    return Evaluation(phi[:, points.observed, np.arange(len(design))], read, slopes)


def _inputs(points: EvaluationPoints) -> Array:
    """Inputs at every point, and ones for the factor that is left out, shape (d + 1, S, n)."""
    n, count, t = points.treatment.shape
    x = np.empty((len(points.roles) + 1, count, n))
    x[:t] = points.treatment.transpose(2, 1, 0)
    x[t:-1] = points.covariates.T[:, None]
    x[-1] = 1.0
    for place, (columns, values, _) in points.changed.items():
        x[columns + t, place] = values.T
    return x


def _shares(shares: Shares, points: EvaluationPoints) -> Array:
    """Shares at every point, and ones, shape (s + 1, S, n)."""
    values = shares.values(points.raw).swapaxes(1, 2)
    return np.concatenate([values, np.ones((1, *values.shape[1:]))])


def _bounded(features: Features, points: EvaluationPoints, x: Array) -> Array:
    """Inputs within the limits of their expansions, as products of two use them: far out, products would be huge."""
    if (features.second == NONE).all():
        return x
    low, high = _limits(points)
    return np.clip(x, low[:, None, None], high[:, None, None])


def _limits(points: EvaluationPoints) -> Array:
    """Limits of every input and of the constant, shape (2, d + 1)."""
    unlimited = np.array([[-np.inf], [np.inf]])
    treatment = unlimited * np.ones(points.treatment.shape[2])
    return np.hstack([treatment, *(how.limits for how in points.expansions.covariates), unlimited])


def _slopes(features: Features, shares: Shares, points: EvaluationPoints, factors: tuple[Array, Array, Array]) -> Array:
    """Derivatives of features along the treatment (or another column that a reading moves) at the points, shape (F, S, n)."""
    x, bounded, s = factors
    t = points.treatment.shape[2]
    dx, ds = np.zeros_like(x), np.zeros_like(s)
    dx[:t] = points.tangent.transpose(2, 1, 0)
    for place, (columns, _, tangents) in points.changed.items():
        if tangents is not None:
            dx[columns + t, place] = tangents.T
    ds[: len(shares.spread)] = (points.slope[:, None] / shares.spread).T[:, :, None]
    inputs, slopes = x[features.first], dx[features.first]
    pairs = np.flatnonzero(features.second != NONE)
    if len(pairs):
        moving = np.where(bounded == x, dx, 0.0)
        first, second = features.first[pairs], features.second[pairs]
        inputs[pairs] = bounded[first] * bounded[second]
        slopes[pairs] = moving[first] * bounded[second] + bounded[first] * moving[second]
    return np.asarray(slopes * s[features.share] + inputs * ds[features.share])
