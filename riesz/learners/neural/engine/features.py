r"""Smooth features of numeric inputs, for networks that should bend early.

A network finds a wave in a noisy covariate late, when it has begun to learn the noise. Each numeric input x is therefore
given to it as orthonormal combinations of x and a natural cubic spline of x,

.. math:: s_j(x) = (x - t_j)_+^3 - (x - t_{k-1})_+^3 \frac{t_k - t_j}{t_k - t_{k-1}}
    + (x - t_k)_+^3 \frac{t_{k-1} - t_j}{t_k - t_{k-1}}, \qquad j = 1, \dots, k - 2,

with knots :math:`t_1 < \dots < t_k` at quantiles. Beyond the outer knots it is a straight line. Derivatives are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.storage.coding import stored

_QUANTILES = (0.03, 0.22, 0.41, 0.59, 0.78, 0.97)
_LEAST = 1e-90  # cubes of smaller numbers vanish


@stored
@dataclass(frozen=True)
class Expansion:
    """How one input becomes several.

    Attributes
    ----------
    knots : ndarray, shape (k,)
        Empty when the input stays as it is.
    centre : ndarray, shape (e,)
    rotation : ndarray, shape (e, e)
        Makes the features orthonormal on the rows they were made from.
    """

    knots: Array
    centre: Array
    rotation: Array

    @property
    def size(self) -> int:
        """How many features come out, e."""
        return len(self.centre)

    def features(self, x: Array) -> Array:
        """The features of any array of values, shape (..., e)."""
        return (_raw(x, self.knots) - self.centre) @ self.rotation

    def slopes(self, x: Array) -> Array:
        """Their derivatives, shape (..., e)."""
        return _raw_slopes(x, self.knots) @ self.rotation


@stored
@dataclass(frozen=True)
class Expansions:
    """How the inputs of a network are made from those of a design; fitted on one sample, applied to any rows.

    Attributes
    ----------
    treatment : Expansion or None
        None leaves the treatment as it is.
    covariates : tuple of Expansion
    """

    treatment: Expansion | None
    covariates: tuple[Expansion, ...]


def make_expansions(sample: Design, expand: bool) -> Expansions:
    """Measure the inputs of a sample; ``expand`` asks for smooth features of numeric ones."""
    columns, treatment = sample.x.T, sample.treatment
    number = sample.strata is None and treatment.shape[1] == 1
    return Expansions(
        make_expansion(treatment[:, 0]) if expand and number else None,
        tuple(make_expansion(column) if expand else plain() for column in columns),
    )


def plain() -> Expansion:
    """An input that stays as it is."""
    return Expansion(np.empty(0), np.zeros(1), np.ones((1, 1)))


def make_expansion(x: Array) -> Expansion:
    """An expansion for the values of one input; few distinct values, or hardly any spread between the knots, leave it as it is."""
    values = np.unique(x)
    if len(values) < 2 * len(_QUANTILES):
        return plain()
    knots = np.quantile(x, _QUANTILES)
    if np.min(np.diff(knots)) < 1e-3 * np.ptp(knots) or not _LEAST < np.ptp(knots) < 1 / _LEAST:
        return plain()
    raw = _raw(x, knots)
    centre = raw.mean(axis=0)
    _, triangle = np.linalg.qr(raw - centre)
    return Expansion(knots, centre, np.linalg.inv(triangle) * np.sqrt(len(x)))


def _raw(x: Array, knots: Array) -> Array:
    return np.concatenate(
        [x[..., None], _spline(x, knots, 3) / np.ptp(knots) ** 2 if len(knots) else x[..., None][..., :0]], -1
    )


def _raw_slopes(x: Array, knots: Array) -> Array:
    one = np.ones_like(x)[..., None]
    return np.concatenate([one, 3 * _spline(x, knots, 2) / np.ptp(knots) ** 2 if len(knots) else one[..., :0]], -1)


def _spline(x: Array, knots: Array, power: int) -> Array:
    """The spline of the module's text with another power, shape (..., k - 2)."""

    def above(t: Array) -> Array:
        return np.asarray(np.clip(x[..., None] - t, 0.0, None) ** power)

    *inner, before, last = knots
    t, gap = np.asarray(inner), last - before
    end = above(np.array([last])) * (before - t) - above(np.array([before])) * (last - t)
    return np.asarray(above(t) + end / gap)
