r"""The moment as arrays, and how to apply it.

Component c of a moment is :math:`m_c(f)_i = \sum_k w_{cki} f(\text{point}_{ki})`, with the derivative of ``f`` along a tangent
in place of its value at derivative readings. A point differs from the observed row only in the columns that its
reading changes (often one), so only those are kept: ``(readings, n, p)`` is never built.

Shapes: n rows, p columns, K components, R readings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array, Rows
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Evaluation:
    """A function f at every row and at every reading.

    Attributes
    ----------
    observed : ndarray, shape (..., n)
        f at the observed rows.
    values : ndarray, shape (..., R, n)
        f at each reading's point.
    slopes : ndarray, shape (..., R, n)
        f's derivative at derivative readings; zero at the others.
    """

    observed: Array
    values: Array
    slopes: Array

    def map(self, change: Callable[[Array], Array]) -> Evaluation:
        """Apply a linear, row-by-row change to all three arrays."""
        return Evaluation(change(self.observed), change(self.values), change(self.slopes))

    def times(self, other: Evaluation) -> Evaluation:
        """The product of two functions."""
        slopes = self.slopes * other.values + self.values * other.slopes
        return Evaluation(self.observed * other.observed, self.values * other.values, slopes)


@stored
@dataclass(frozen=True)
class Points:
    """Where one reading looks: the columns in which it differs from the observed row.

    Attributes
    ----------
    columns : ndarray of int, shape (q,)
    values : ndarray, shape (n, q)
        Those columns at the reading's points.
    tangents : ndarray, shape (n, q), or None
        Their derivative along the treatment, at a derivative reading.
    treatment : ndarray, shape (n, t)
        The raw treatment there, for learners that do not use the formula's columns of it.
    treatment_slope : float
        1 when the reading is a derivative along the treatment, else 0.
    """

    columns: npt.NDArray[np.intp]
    values: Array
    tangents: Array | None
    treatment: Array
    treatment_slope: float

    def take(self, rows: Rows) -> Points:
        """The same at some rows."""
        tangents = None if self.tangents is None else self.tangents[rows]
        return replace(self, values=self.values[rows], tangents=tangents, treatment=self.treatment[rows])


@dataclass(frozen=True)
class Look:
    """Where one reading of a component looks when the rows' treatment is another than the observed one.

    Attributes
    ----------
    weight : ndarray, shape (n,)
    treatment : ndarray, shape (n, t)
        The raw treatment there.
    along : {"value", "treatment", "other"}
        Whether mu's value is read, its derivative along the treatment, or one along another column.
    moves_covariates : bool
        Whether more than the treatment is changed.
    """

    weight: Array
    treatment: Array
    along: Literal["value", "treatment", "other"]
    moves_covariates: bool


@stored
@dataclass(frozen=True)
class Moment:
    """All components of an estimand on one sample.

    Attributes
    ----------
    points : tuple of Points, length R
    weights : ndarray, shape (K, R, n)
    normalizer : ndarray, shape (K, n)
    """

    points: tuple[Points, ...]
    weights: Array
    normalizer: Array

    @property
    def is_derivative(self) -> npt.NDArray[np.bool_]:
        """Which readings are derivatives, shape (R,)."""
        return np.array([point.tangents is not None for point in self.points])

    def apply(self, f: Evaluation, rows: Rows = slice(None)) -> Array:
        """m_c(f) for every row, or for some of them.

        Parameters
        ----------
        f : Evaluation
            At these rows, of shape (n,) for one function read by all components, or (K, n) for one function a component.
        rows : index of n rows
            All of them by default.

        Returns
        -------
        ndarray, shape (K, n)
        """
        read = np.where(self.is_derivative[:, None], f.slopes, f.values)
        return np.asarray((self.weights[..., rows] * read).sum(axis=1))

    def rows(self, z: Array, rows: Rows, component: int, tilt: Evaluation | None = None) -> Array:
        """The moment of every column of the design, so that m(z'theta) = rows @ theta.

        Parameters
        ----------
        z : ndarray, shape (b, p)
            The design at these rows.
        rows : index of b rows
        component : int
        tilt : Evaluation, shape (b,), optional
            A function v: the moment is then that of v z'theta.

        Returns
        -------
        ndarray, shape (b, p)
        """
        out = np.zeros_like(z)
        level = np.zeros(len(z))
        for k, (weight, point) in enumerate(zip(self.weights[component][:, rows], self.points, strict=True)):
            if not weight.any():  # a reading of other components
                continue
            columns = _span(point.columns)
            # m reads (v z)' = v' z + v z' at a derivative reading, v z at the others
            value = weight if tilt is None else weight * tilt.values[k]
            if point.tangents is not None:
                out[:, columns] += value[:, None] * point.tangents[rows]
                if tilt is None:
                    continue
                value = weight * tilt.slopes[k]
            level += value
            if point.columns.size:
                out[:, columns] += value[:, None] * (point.values[rows] - z[:, columns])
        if level.any():
            out += level[:, None] * z
        return out

    def linear(self, z: Array, rows: Rows, theta: Array) -> Evaluation:
        """Evaluate F linear functions z'theta at these rows and at every reading.

        Parameters
        ----------
        z : ndarray, shape (b, p)
        rows : index of b rows
        theta : ndarray, shape (p, F)

        Returns
        -------
        Evaluation
            Of shape (F, b).
        """
        observed = z @ theta
        values = np.empty((theta.shape[1], len(self.points), len(z)))
        slopes = np.zeros_like(values)
        for k, point in enumerate(self.points):
            active = theta[point.columns]
            values[:, k] = (observed + (point.values[rows] - z[:, _span(point.columns)]) @ active).T
            if point.tangents is not None:
                slopes[:, k] = (point.tangents[rows] @ active).T
        return Evaluation(observed.T, values, slopes)


def _span(columns: npt.NDArray[np.intp]) -> Rows:
    """The same columns as a slice, which copies nothing, when they stand side by side."""
    if columns.size and (np.diff(columns) == 1).all():
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns
