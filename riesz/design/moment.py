r"""The moment as arrays, and how to apply it.

Component c of a moment is :math:`m_c(f)_i = \sum_k w_{cki} f(\text{point}_{ki})`, with the derivative of ``f`` along a tangent
in place of its value at derivative readings. A point differs from the observed row only in the columns that its
reading changes (often one), so only those are kept: ``(readings, n, p)`` is never built.

A component reads mu at few of the readings (an arm and the reference), so what differs between components is kept for
its *links* alone, the pairs of a component and a reading that it reads: with 100 arms 198 pairs instead of 9,900.

Shapes: n rows, p columns, K components, R readings, L links.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array, Rows
from riesz.design.constant_columns import Compact
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Links:
    """Which component reads which reading, sorted by component, then by reading.

    Attributes
    ----------
    component, reading : ndarray of int, shape (L,)
    """

    component: npt.NDArray[np.intp]
    reading: npt.NDArray[np.intp]

    def of(self, component: int) -> npt.NDArray[np.intp]:
        """The places of a component's links."""
        return np.flatnonzero(self.component == component)

    def part(self, components: npt.NDArray[np.intp]) -> Part:
        """Some of the components, given in ascending order, with their links and readings."""
        links = np.flatnonzero(np.isin(self.component, components))
        readings, renumbered = np.unique(self.reading[links], return_inverse=True)
        return Part(components, links, readings, Links(np.searchsorted(components, self.component[links]), renumbered))


@dataclass(frozen=True)
class Part:
    """Some of the components, with the links and the readings that they need: what a moment is made of.

    Attributes
    ----------
    components : ndarray of int, shape (k,)
    links : ndarray of int, shape (l,)
        Their places among all links.
    readings : ndarray of int, shape (r,)
        Their places among all readings.
    renumbered : Links
        The links between the components and readings of the part, which are numbered from 0.
    """

    components: npt.NDArray[np.intp]
    links: npt.NDArray[np.intp]
    readings: npt.NDArray[np.intp]
    renumbered: Links


@stored
@dataclass(frozen=True)
class Evaluation:
    """Functions at every row and at every reading: mu, or others that do not differ between components.

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
        values = change(self.values)
        if _are_zero_slopes(self.slopes):
            return Evaluation(change(self.observed), values, zero_slopes(values.shape))
        return Evaluation(change(self.observed), values, change(self.slopes))

    def times(self, other: Evaluation) -> Evaluation:
        """The product of two functions."""
        slopes = self.slopes * other.values + self.values * other.slopes
        return Evaluation(self.observed * other.observed, self.values * other.values, slopes)

    def places(self, links: Links) -> npt.NDArray[np.intp]:
        """For each link, the place of its value among the values of a function that all components read."""
        return links.reading

    def linked(self, links: Links) -> Linked:
        """The same where components read it.

        Of shape (n,) it is one function that all components read; of shape (K, n) it is one for each component.
        """
        if self.observed.ndim == 1:
            return Linked(self.observed, self.values[links.reading], self.slopes[links.reading], links)
        place = links.component, links.reading
        return Linked(self.observed, self.values[place], self.slopes[place], links)

    def only(self, part: Part) -> Evaluation:
        """The same function, of shape (n,), at the readings of a part."""
        if len(part.readings) == len(self.values):
            return self
        return Evaluation(self.observed, self.values[part.readings], self.slopes[part.readings])


@stored
@dataclass(frozen=True)
class Linked:
    """One function for each component, at every row and at the readings of its component: rr, or the anchor.

    Attributes
    ----------
    observed : ndarray, shape (K, n)
        The functions at the observed rows; shape (n,) if all are the same.
    values : ndarray, shape (L, n)
        At the point of each link's reading, the function of the link's component.
    slopes : ndarray, shape (L, n)
        Its derivative at derivative readings; zero at the others.
    links : Links
    """

    observed: Array
    values: Array
    slopes: Array
    links: Links

    def map(self, change: Callable[[Array], Array]) -> Linked:
        """Apply a linear, row-by-row change to all three arrays."""
        return Linked(change(self.observed), change(self.values), change(self.slopes), self.links)

    def times(self, other: Evaluation | Linked) -> Linked:
        """The product of each function with another one."""
        factor = other.linked(self.links)
        slopes = self.slopes * factor.values + self.values * factor.slopes
        return Linked(self.observed * factor.observed, self.values * factor.values, slopes, self.links)

    def scaled(self, factors: Array) -> Linked:
        """Each function multiplied by the number of its component, shape (K,)."""
        per_link = factors[self.links.component, None]
        return Linked(self.observed * factors[:, None], self.values * per_link, self.slopes * per_link, self.links)

    def places(self, links: Links) -> npt.NDArray[np.intp]:
        """The places of some of its links among all of them."""
        all_pairs, some_pairs = (zip(pairs.component, pairs.reading, strict=True) for pairs in (self.links, links))
        numbers = {pair: number for number, pair in enumerate(all_pairs)}
        return np.array([numbers[pair] for pair in some_pairs], dtype=np.intp)

    def linked(self, links: Links) -> Linked:
        """The same at some of its links."""
        places = self.places(links)
        if np.array_equal(places, np.arange(len(self.values))):
            return self
        return Linked(self.observed, self.values[places], self.slopes[places], links)

    def only(self, part: Part) -> Linked:
        """The functions of the components of a part."""
        if len(part.links) == len(self.values):
            return self
        values, slopes = self.values[part.links], self.slopes[part.links]
        return Linked(self.observed[part.components], values, slopes, part.renumbered)


@stored
@dataclass(frozen=True)
class Points:
    """The points at which one reading evaluates mu: the columns in which they differ from the observed rows.

    Attributes
    ----------
    columns : ndarray of int, shape (q,)
    kept_values : Compact, n rows, q columns
        Those columns at the reading's points.
    tangents : ndarray, shape (n, q), or None
        Their derivative along the treatment, at a derivative reading.
    kept_treatment : Compact, n rows, t columns
        The raw treatment there, for learners that do not use the formula's columns of it.
    treatment_slope : float
        1 when the reading is a derivative along the treatment, else 0.
    """

    columns: npt.NDArray[np.intp]
    kept_values: Compact
    tangents: Array | None
    kept_treatment: Compact
    treatment_slope: float

    @property
    def values(self) -> Array:
        """The columns at the reading's points, shape (n, q)."""
        return self.kept_values.dense()

    @property
    def treatment(self) -> Array:
        """The raw treatment there, shape (n, t)."""
        return self.kept_treatment.dense()

    def take(self, rows: Rows) -> Points:
        """The same at some rows."""
        tangents = None if self.tangents is None else self.tangents[rows]
        values, treatment = self.kept_values.take(rows), self.kept_treatment.take(rows)
        return replace(self, kept_values=values, tangents=tangents, kept_treatment=treatment)


@dataclass(frozen=True)
class Look:
    """Where one reading of a component evaluates mu if the rows have another treatment than the observed one.

    Attributes
    ----------
    weight : ndarray, shape (n,)
    kept_treatment : Compact, n rows, t columns
        The raw treatment there.
    along : {"value", "treatment", "other"}
        Whether mu's value is read, its derivative along the treatment, or one along another column.
    moves_covariates : bool
        Whether the reading changes columns other than the treatment.
    """

    weight: Array
    kept_treatment: Compact
    along: Literal["value", "treatment", "other"]
    moves_covariates: bool

    @property
    def treatment(self) -> Array:
        """The raw treatment there, shape (n, t)."""
        return self.kept_treatment.dense()


@stored
@dataclass(frozen=True)
class Moment:
    """All components of an estimand on one sample.

    Attributes
    ----------
    points : tuple of Points, length R
    links : Links
    weights : ndarray, shape (L, n)
        What a link's component multiplies its reading by.
    normalizer : ndarray, shape (K, n)
    """

    points: tuple[Points, ...]
    links: Links
    weights: Array
    normalizer: Array

    @property
    def is_derivative(self) -> npt.NDArray[np.bool_]:
        """Which readings are derivatives, shape (R,)."""
        return np.array([point.tangents is not None for point in self.points])

    def only(self, part: Part) -> Moment:
        """The components of a part."""
        points = tuple(self.points[k] for k in part.readings)
        return Moment(points, part.renumbered, self.weights[part.links], self.normalizer[part.components])

    def readers(self, column: int) -> npt.NDArray[np.intp]:
        """The components, in ascending order, that read mu where a column of the raw treatment, or its slope, is not zero."""
        reads = [point.treatment_slope != 0 or point.kept_treatment.is_nonzero(column) for point in self.points]
        return np.unique(self.links.component[np.array(reads)[self.links.reading]])

    def apply(self, f: Evaluation | Linked, rows: Rows = slice(None)) -> Array:
        """m_c(f) for every row, or for some of them.

        Parameters
        ----------
        f : Evaluation, shape (n,), or Linked
            At these rows: one function that all components read, or one function per component.
        rows : index of n rows
            All of them by default.

        Returns
        -------
        ndarray, shape (K, n)
        """
        places, derivative = f.places(self.links), self.is_derivative
        total = np.zeros((len(self.normalizer), f.values.shape[-1]))
        for link, (component, reading) in enumerate(zip(self.links.component, self.links.reading, strict=True)):
            read = f.slopes if derivative[reading] else f.values
            total[component] += self.weights[link, rows] * read[places[link]]
        return total

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
        for link in self.links.of(component):
            k, weight = self.links.reading[link], self.weights[link, rows]
            if not weight.any():
                continue
            point = self.points[k]
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
                out[:, columns] += value[:, None] * (point.kept_values.dense(rows) - z[:, columns])
        if level.any():
            out += level[:, None] * z
        return out

    def linear(self, z: Array, rows: Rows, shared: Array, each: Array) -> tuple[Evaluation, Linked]:
        """Evaluate linear functions z'theta at these rows and where they are read.

        Parameters
        ----------
        z : ndarray, shape (b, p)
        rows : index of b rows
        shared : ndarray, shape (p,)
            Coefficients of a function that all components read.
        each : ndarray, shape (p, K)
            Coefficients of one function per component; without columns there are no such functions.

        Returns
        -------
        Evaluation
            Of shape (b,).
        Linked
        """
        theta = np.column_stack([shared, each])
        observed = z @ theta
        links = self.links
        readers = links.reading if each.shape[1] else links.reading[:0]
        values, values_each = np.empty((len(self.points), len(z))), np.empty((len(readers), len(z)))
        slopes, slopes_each = np.zeros_like(values), np.zeros_like(values_each)
        for k, point in enumerate(self.points):
            places = np.flatnonzero(readers == k)
            functions = np.append(0, 1 + links.component[places])
            active = theta[np.ix_(point.columns, functions)]
            at = (observed[:, functions] + (point.kept_values.dense(rows) - z[:, _span(point.columns)]) @ active).T
            values[k], values_each[places] = at[0], at[1:]
            if point.tangents is not None:
                derivatives = (point.tangents[rows] @ active).T
                slopes[k], slopes_each[places] = derivatives[0], derivatives[1:]
        return (
            Evaluation(observed[:, 0], values, slopes),
            Linked(observed[:, 1:].T, values_each, slopes_each, links),
        )


def zero_slopes(shape: tuple[int, ...]) -> Array:
    """Slopes of functions of which no derivative is read: zeros in no memory, which must not be changed."""
    return np.broadcast_to(0.0, shape)


def _are_zero_slopes(slopes: Array) -> bool:
    """Whether slopes were made by :func:`zero_slopes`."""
    return slopes.size > 0 and not any(slopes.strides) and not slopes[(0,) * slopes.ndim]


def _span(columns: npt.NDArray[np.intp]) -> Rows:
    """The same columns as a slice, which copies nothing, when they stand side by side."""
    if columns.size and (np.diff(columns) == 1).all():
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns
