r"""The features of :class:`~riesz.Splines`, as products.

A feature is a product of up to two inputs and one share of the treatment,

.. math:: \phi_f = x_{i(f)} \, x_{j(f)} \, s_{k(f)}(a),

each of which may be left out. Inputs are the columns of :class:`~riesz.learners.inputs.evaluation_points.EvaluationPoints`: the
treatment, then lines, bends and indicators of the covariates, then steps. Shares are the treatment's columns, centred and scaled,
and, when the treatment has arms, the indicators of the arms.

They are computed point by point: with many arms, inputs and shares at all points would take memory in proportion to the square of
the number of arms.

Shapes: n rows, S points per row, d inputs, F features, R readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation, zero_slopes
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

    def take(self, which: npt.NDArray[np.generic] | slice) -> Features:
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


def unique(features: Features) -> Features:
    """Every feature once, in the order of first appearance."""
    keys = np.column_stack([features.first, features.second, features.share])
    return features.take(np.sort(np.unique(keys, axis=0, return_index=True)[1]))


def without(features: Features, others: Features) -> Features:
    """The features that are not among others."""
    known = set(zip(others.first.tolist(), others.second.tolist(), others.share.tolist(), strict=True))
    keys = zip(features.first.tolist(), features.second.tolist(), features.share.tolist(), strict=True)
    return features.take(np.array([key not in known for key in keys], dtype=bool))


def covariate_parts(features: Features, points: EvaluationPoints) -> Features:
    """The features without their shares, each once; those made from the treatment are left out."""
    parts = features.take(np.append(points.sources >= 0, False)[features.first])
    return unique(Features(parts.first, parts.second, np.full_like(parts.share, NONE)))


def penalty_groups(features: Features, points: EvaluationPoints) -> Numbers:
    """Numbers that are equal for features with a common penalty, shape (F,).

    The line, the bends and the indicators of a column have penalties of their own, and so have every step, the products of each of
    them with each share, and every product of two inputs.
    """
    roles = np.append(points.roles, len(Role))
    sources = np.append(points.sources, NONE - 1)
    alone = features.second == NONE
    keys = np.column_stack(
        [
            sources[features.first],
            roles[features.first],
            np.where(alone & (roles[features.first] != Role.STEP), NONE, features.first),
            features.second,
            features.share,
        ]
    )
    return np.asarray(np.unique(keys, axis=0, return_inverse=True)[1].ravel(), dtype=np.intp)


@dataclass(frozen=True)
class Factors:
    """Inputs and shares at one point of every row. A factor that is left out, number -1, is 1.

    Attributes
    ----------
    treatment : ndarray, shape (t, n)
        The first inputs.
    covariates : ndarray, shape (d - t, n)
        The others.
    limits : ndarray, shape (2, d + 1)
        Of the expansions of inputs; infinite for the factor that is left out.
    s : ndarray, shape (s + 1, n)
        Shares, and 1 as the last.
    x : ndarray, shape (covariates, n)
        The covariates as they are.
    steps : tuple of ndarray
        The covariate and the cut of each step.
    """

    treatment: Array
    covariates: Array
    limits: Array
    s: Array
    x: Array
    steps: tuple[Numbers, Array]

    def take(self, rows: Numbers) -> Factors:
        """Those of some rows."""
        parts = (part[:, rows] for part in (self.treatment, self.covariates, self.s, self.x))
        treatment, covariates, s, x = parts
        return Factors(treatment, covariates, self.limits, s, x, self.steps)

    def inputs(self, which: Numbers) -> Array:
        """Inputs with given numbers, shape (m, n)."""
        x = np.empty((len(which), self.s.shape[1]))
        if len(self.covariates):
            np.take(self.covariates, which - len(self.treatment), axis=0, out=x, mode="clip")
        others = np.flatnonzero(which < len(self.treatment))
        x[others] = np.concatenate([self.treatment, np.ones((1, x.shape[1]))])[which[others]]
        first_step = len(self.treatment) + len(self.covariates)
        places = np.flatnonzero(which >= first_step)
        if len(places):
            sources, cuts = (values[which[places] - first_step] for values in self.steps)
            x[places] = self.x[sources] > cuts[:, None]
        return x

    def bounded(self, which: Numbers) -> Array:
        """The same within the limits of their expansions, as products of two use them: far out, products would be huge."""
        low, high = self.limits[:, which, None]
        x = self.inputs(which)
        return np.clip(x, low, high, out=x)

    def values(self, features: Features) -> Array:
        """The products, shape (F, n)."""
        phi = self.inputs(features.first)
        pairs = np.flatnonzero(features.second != NONE)
        if len(pairs):
            phi[pairs] = self.bounded(features.first[pairs]) * self.bounded(features.second[pairs])
        products = np.flatnonzero(features.share != NONE)
        phi[products] *= self.s[features.share[products]]
        return phi

    def slopes(self, features: Features, derivatives: tuple[Array, Array]) -> Array:
        """Derivatives of the products, shape (F, n), given those of inputs and shares."""
        s, (dx, ds) = self.s, derivatives
        inputs, slopes = self.inputs(features.first), dx[features.first]
        pairs = np.flatnonzero(features.second != NONE)
        if len(pairs):
            numbers = features.first[pairs], features.second[pairs]
            first, second = (self.bounded(which) for which in numbers)
            d_first, d_second = (
                np.where(bounded == self.inputs(which), dx[which], 0.0)
                for bounded, which in zip((first, second), numbers, strict=True)
            )
            inputs[pairs] = first * second
            slopes[pairs] = d_first * second + first * d_second
        return np.asarray(slopes * s[features.share] + inputs * ds[features.share])


@stored
@dataclass(frozen=True)
class SplineSolution:
    """A linear function of features.

    Attributes
    ----------
    features : Features
    coefficients : ndarray, shape (1 + F,)
        The intercept first.
    penalty : float
        A factor of the groups' penalties, if they have their own; NaN if it is made of parts.
    """

    features: Features
    coefficients: Array
    penalty: float

    def at(self, factors: Factors) -> Array:
        """The values, shape (n,)."""
        return np.asarray(self.coefficients[0] + self.coefficients[1:] @ factors.values(self.features))


def evaluate(features: Features, shares: Shares, points: EvaluationPoints, design: Design) -> Evaluation:
    """Features at the rows of a design and at their readings, shape (F, n); the points are those of the design's own rows."""
    count, n, readings = len(features), len(design), len(points.of_reading)
    observed, values = np.empty((count, n)), np.empty((count, readings, n))
    slopes = np.zeros_like(values) if design.is_derivative.any() else zero_slopes(values.shape)
    for point in range(points.raw.shape[1]):
        factors, rows, read = factors_at(points, shares, point), points.observed == point, points.of_reading == point
        phi = factors.values(features)
        observed[:, rows], values[:, read] = phi[:, rows], phi[:, None]
        along = read & design.is_derivative
        if along.any():
            slopes[:, along] = factors.slopes(features, derivatives_at(points, shares, point))[:, None]
    return Evaluation(observed, values, slopes)


def evaluate_observed(features: Features, factors: Factors, readings: int) -> Evaluation:
    """Features at the observed rows alone, shape (F, n); NaN at their readings."""
    values = factors.values(features)
    shape = (len(features), readings, values.shape[1])
    return Evaluation(values, np.broadcast_to(np.nan, shape), zero_slopes(shape))


def factors_at(points: EvaluationPoints, shares: Shares, point: int) -> Factors:
    """Inputs and shares at a point."""
    covariates = points.by_input
    if point in points.changed:
        columns, values, _ = points.changed[point]
        covariates = covariates.copy()
        covariates[columns] = values.T
    return _factors(points, shares, points.treatment[:, point], points.raw[:, point], covariates)


def factors_observed(points: EvaluationPoints, shares: Shares) -> Factors:
    """Inputs and shares at the observed rows."""
    rows = np.arange(len(points.observed)), points.observed
    return _factors(points, shares, points.treatment[rows], points.raw[rows], points.by_input)


def _factors(points: EvaluationPoints, shares: Shares, treatment: Array, raw: Array, covariates: Array) -> Factors:
    same = bool((raw == raw[0]).all())  # one arm for all rows, as readings often set
    values = shares.values(raw[:1] if same else raw)
    s = np.concatenate([values, np.ones((1, values.shape[1]))])
    unlimited = np.array([[-np.inf], [np.inf]])
    of_treatment = unlimited * np.ones(treatment.shape[1])
    steps = points.expansions.steps
    of_steps = unlimited * np.ones(len(steps[0]))
    limits = np.hstack([of_treatment, *(how.limits for how in points.expansions.covariates), of_steps, unlimited])
    return Factors(treatment.T, covariates, limits, np.broadcast_to(s, (len(s), len(raw))), points.x, steps)


def derivatives_at(points: EvaluationPoints, shares: Shares, point: int) -> tuple[Array, Array]:
    """Derivatives of inputs and shares along the treatment (or another column that a reading moves), as in :class:`Factors`."""
    n, _, t = points.treatment.shape
    dx = np.zeros((len(points.roles) + 1, n))
    dx[:t] = points.tangent[:, point].T
    if point in points.changed:
        columns, _, tangents = points.changed[point]
        if tangents is not None:
            dx[columns + t] = tangents.T
    ds = np.zeros((len(shares.spread) + (0 if shares.arms is None else len(shares.arms)) + 1, n))
    ds[: len(shares.spread)] = (points.slope[point] / shares.spread)[:, None]
    return dx, ds
