r"""Inputs of learners from the columns of a design: each covariate itself, with splines or with indicators of mass points.

A numeric input x may become orthonormal combinations of x and a natural cubic spline of x,

.. math:: s_j(x) = (x - t_j)_+^3 - (x - t_{k-1})_+^3 \frac{t_k - t_j}{t_k - t_{k-1}}
    + (x - t_k)_+^3 \frac{t_{k-1} - t_j}{t_k - t_{k-1}}, \qquad j = 1, \dots, k - 2,

with knots :math:`t_1 < \dots < t_k` at quantiles of the values that are not mass points. Beyond the outer knots it is a straight
line. Derivatives are exact. A mass point v of a covariate, a value with at least 5% of the weight, may get an indicator
:math:`1\{x = v\}`, unless there are only two values: the effect of zero hours, no debt or a top code need not be smooth.

A covariate may also have steps :math:`1\{x > c\}`, with cuts c at quantiles. There are many of them, so that they are computed
where they are used (:class:`~riesz.learners.splines.features.Factors`).

Knots, mass points, cuts and scales come from the covariates of all rows of a sample, so that every fold has the same inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.storage.coding import stored

_QUANTILES = (0.03, 0.22, 0.41, 0.59, 0.78, 0.97)
_FINER = (0.015, 0.07, 0.15, 0.23, 0.32, 0.41, 0.5, 0.59, 0.68, 0.77, 0.85, 0.93, 0.985)
_MANY = 1500  # distinct values that allow the finer knots
_FEWEST_KNOTS = 4
_LEAST = 1e-90  # cubes of much smaller numbers become zero
_GRID = 60  # points between the outer knots at which limits are computed
_CUTS = 15  # per covariate, at quantiles; half as many with many columns
_MANY_COLUMNS = 60
_MASS = 0.05  # share of the weight that makes a value a mass point


class Role(IntEnum):
    """The part of a column that an input stands for: the straight line, a bend, the indicator of a mass point, or a step."""

    LINE = 0
    BEND = 1
    INDICATOR = 2
    STEP = 3


@stored
@dataclass(frozen=True)
class Expansion:
    """How one input becomes several.

    Attributes
    ----------
    knots : ndarray, shape (k,)
        Empty if there is no spline.
    centre : ndarray, shape (s,)
    rotation : ndarray, shape (s, s)
        Makes the input and its spline orthonormal on the rows from which they were computed.
    atoms : tuple of float
        Values that have an indicator, in ascending order.
    """

    knots: Array
    centre: Array
    rotation: Array
    atoms: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        """Number of features, e."""
        return int(self.rotation.shape[1]) + len(self.atoms)

    @property
    def roles(self) -> npt.NDArray[np.intp]:
        """The :class:`Role` of each feature, shape (e,)."""
        smooth = [Role.LINE if place == 0 else Role.BEND for place in range(self.rotation.shape[1])]
        return np.array([*smooth, *[Role.INDICATOR] * len(self.atoms)], dtype=np.intp)

    @cached_property
    def limits(self) -> Array:
        """The smallest and the largest value of each feature between the outer knots, shape (2, e); infinite without knots."""
        smooth = self.rotation.shape[1]
        limits = np.array([[-np.inf], [np.inf]]) * np.ones(self.size)
        if len(self.knots):
            inside = self.features(np.linspace(self.knots[0], self.knots[-1], _GRID))[:, :smooth]
            limits[:, :smooth] = inside.min(axis=0), inside.max(axis=0)
        return limits

    def features(self, x: Array) -> Array:
        """The features of an array of values, shape (..., e)."""
        smooth = (_raw(x, self.knots) - self.centre) @ self.rotation
        if not self.atoms:
            return np.asarray(smooth)
        return np.concatenate([smooth, x[..., None] == np.array(self.atoms)], axis=-1)

    def slopes(self, x: Array) -> Array:
        """The derivatives of the features, shape (..., e); those of indicators are zero."""
        smooth = _raw_slopes(x, self.knots) @ self.rotation
        return np.asarray(np.concatenate([smooth, np.zeros((*x.shape, len(self.atoms)))], axis=-1))


@stored
@dataclass(frozen=True)
class Expansions:
    """How a learner's inputs are made from the columns of a design; measured on one sample, applied to any rows.

    Attributes
    ----------
    treatment : Expansion or None
        With None the treatment is not changed.
    covariates : tuple of Expansion
    cuts : tuple of tuple of float
        The values of each covariate above which there is a step; empty without steps.
    """

    treatment: Expansion | None
    covariates: tuple[Expansion, ...]
    cuts: tuple[tuple[float, ...], ...] = ()

    @cached_property
    def steps(self) -> tuple[npt.NDArray[np.intp], Array]:
        """The covariate and the cut of each step, in the order of covariates."""
        sources = np.repeat(np.arange(len(self.cuts)), [len(cuts) for cuts in self.cuts])
        return sources.astype(np.intp), np.array([cut for cuts in self.cuts for cut in cuts], dtype=float)


def make_expansions(sample: Design, *, splines: bool, indicators: bool) -> Expansions:
    """Measure the columns of a sample.

    Parameters
    ----------
    sample : Design
        All rows.
    splines : bool
        Whether numeric columns, and a treatment that is a number, get splines.
    indicators : bool
        Whether mass points of covariates get indicators.
    """
    treatment, weights = sample.treatment, sample.weights
    number = sample.strata is None and treatment.shape[1] == 1
    return Expansions(
        make_expansion(treatment[:, 0]) if splines and number else None,
        tuple(
            make_expansion(column, mass_points(column, weights) if indicators else (), splines=splines)
            for column in sample.x.T
        ),
    )


def mass_points(x: Array, weights: Array) -> tuple[float, ...]:
    """The values of a column with at least 5% of the weight, if it has more than two values.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.learners.inputs.expansions import mass_points
    >>> mass_points(np.array([0.0, 0.0, 1.5, 2.5]), np.ones(4))
    (0.0, 1.5, 2.5)
    >>> mass_points(np.array([0.0, 1.0, 1.0]), np.ones(3))
    ()
    """
    values, place = np.unique(x, return_inverse=True)
    if len(values) <= 2:
        return ()
    share = np.bincount(place, weights) / weights.sum()
    return tuple(values[share >= _MASS].tolist())


def make_cuts(covariates: Array) -> tuple[tuple[float, ...], ...]:
    """Cuts at quantiles of every column of shape (n, c); none for a column with few distinct values.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.learners.inputs.expansions import make_cuts
    >>> of_number, of_indicator = make_cuts(np.column_stack([np.arange(160.0), np.arange(160) % 2]))
    >>> len(of_number), of_number[0], of_indicator
    (15, 9.0, ())
    """
    count = _CUTS if covariates.shape[1] <= _MANY_COLUMNS else _CUTS // 2
    levels = np.arange(1, count + 1) / (count + 1)
    cuts = []
    for column in covariates.T:
        few = len(np.unique(column)) < 2 * len(_QUANTILES)
        quantiles = np.unique(np.quantile(column, levels, method="lower"))
        cuts.append(() if few else tuple(quantiles[quantiles < column.max()].tolist()))
    return tuple(cuts)


def make_expansion(x: Array, atoms: tuple[float, ...] = (), *, splines: bool = True) -> Expansion:
    """An expansion for the values of one input.

    Without splines, or if there are few distinct values besides the mass points or hardly any spread between the knots, the input
    itself is used, with the indicators of its mass points.
    """
    line = Expansion(np.empty(0), np.zeros(1), np.ones((1, 1)), atoms)
    if not splines:
        return line
    other_values = x[~np.isin(x, mass_points(x, np.ones(len(x))))]
    distinct = len(np.unique(other_values))
    if distinct < 2 * len(_QUANTILES):
        return line
    knots = _apart(np.quantile(other_values, _FINER if distinct >= _MANY else _QUANTILES))
    if len(knots) < _FEWEST_KNOTS or not _LEAST < np.ptp(knots) < 1 / _LEAST:
        return line
    raw = _raw(x, knots)
    centre = raw.mean(axis=0)
    triangle = np.linalg.qr(raw - centre, mode="r")
    return Expansion(knots, centre, np.linalg.inv(triangle) * np.sqrt(len(x)), atoms)


def _apart(knots: Array) -> Array:
    """The knots except those that nearly coincide with the one before."""
    least = 1e-3 * np.ptp(knots)
    kept = [knots[0]]
    for knot in knots[1:]:
        if knot - kept[-1] > least:
            kept.append(knot)
    return np.array(kept)


def _raw(x: Array, knots: Array) -> Array:
    return np.concatenate(
        [x[..., None], _spline(x, knots, 3) / np.ptp(knots) ** 2 if len(knots) else x[..., None][..., :0]], -1
    )


def _raw_slopes(x: Array, knots: Array) -> Array:
    line = np.ones_like(x)[..., None]
    return np.concatenate([line, 3 * _spline(x, knots, 2) / np.ptp(knots) ** 2 if len(knots) else line[..., :0]], -1)


def _spline(x: Array, knots: Array, power: int) -> Array:
    """The spline of the module's docstring with another power, shape (..., k - 2)."""

    def above(t: Array) -> Array:
        gap = np.subtract.outer(x, t)
        np.maximum(gap, 0.0, out=gap)
        result: Array = gap * gap  # much faster than a power
        return result if power == 2 else np.multiply(result, gap, out=result)

    *inner, before, last = knots
    t, gap = np.asarray(inner), last - before
    end: Array = above(np.array([last])) * (before - t)
    end -= above(np.array([before])) * (last - t)
    end /= gap
    end += above(t)
    return end
