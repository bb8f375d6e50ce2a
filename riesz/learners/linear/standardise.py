"""Standardised columns, the directions that they span on some rows, and combinations that are zero on every row.

In: a design and the shares of its rows. Out: what :mod:`riesz.learners.linear.ridge` builds its basis from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.learners.linear.nesting import parts

_DOUBTFUL = 1e-9  # directions with a smaller share of the largest eigenvalue are computed again
_NULL = 1e-18  # and count as collinear if their mean square, of standardised columns, is smaller than this


@dataclass(frozen=True)
class Standard:
    """Standardised columns: (z - centre) / spread, except the intercept; products and powers without their parts.

    Attributes
    ----------
    centre, spread : ndarray, shape (p,)
        Without an intercept the centre is zero: centring would add one.
    penalised : ndarray, shape (p,)
        1, and 0 for the intercept.
    intercept : int or None
    turn : sparse array, shape (p, p), or None
        Multiplied from the right after scaling: a product a:x (or a power) becomes its residual in a regression on its parts a and
        x, with standard deviation one. The result does not depend on the zeros of a and x.
    repeated : ndarray of bool, shape (p,), or None
        Products and powers that equal a combination of their parts, up to rounding.
    """

    centre: Array
    spread: Array
    penalised: Array
    intercept: int | None
    turn: Any = None
    repeated: npt.NDArray[np.bool_] | None = None

    def apply(self, z: Array) -> Array:
        """Standardise rows; more precise than ``z @ matrix`` if means are large."""
        scaled = (z - self.centre) / self.spread
        return scaled if self.turn is None else np.asarray(scaled @ self.turn)

    def coefficients(self, combinations: Array) -> Array:
        """``matrix @ combinations`` without computing the matrix, since there may be many columns."""
        unscaled = (combinations if self.turn is None else np.asarray(self.turn @ combinations)) / self.spread[:, None]
        if self.intercept is not None:
            unscaled[self.intercept] -= self.centre @ unscaled
        return unscaled

    @property
    def matrix(self) -> Array:
        """The same as a matrix, shape (p, p), which also applies to moments of the columns."""
        transform = np.diag(1.0 / self.spread)
        if self.intercept is not None:
            transform[self.intercept] -= self.centre / self.spread
        return transform if self.turn is None else np.asarray(transform @ self.turn)


def standardise(design: Design, shares: Array) -> Standard:
    """Weighted means and standard deviations of the columns, and what products add to their parts."""
    names = design.names
    intercept = names.index("Intercept") if "Intercept" in names else None
    start = design.sample.take([0]).z[0]  # sums of squares around a row of the data stay precise if means are large
    first, second = np.zeros(len(names)), np.zeros(len(names))
    for place, block in design.blocks():
        gap = block.z - start
        first += shares[place] @ gap
        second += shares[place] @ gap**2
    mean = start + first
    variance = np.clip(second - first**2, 0.0, None)
    penalised = np.ones(len(names))
    if intercept is None:
        centre, spread = np.zeros(len(names)), np.sqrt(variance + mean**2)
    else:
        centre, spread = mean, np.sqrt(variance)
        centre[intercept], spread[intercept], penalised[intercept] = 0.0, 1.0, 0.0
    constant = spread <= 1e-9 * np.abs(
        mean
    )  # because of rounding, the spread of a constant column may not be exactly zero
    standard = Standard(centre, np.where(constant, 1.0, spread), penalised, intercept)
    parts_of = parts_of_products(design)
    if intercept is None or not any(parts_of):
        return standard
    return _without_parts(standard, lambda turned: _gram(design, turned, shares), parts_of)


def standard_from_moments(
    gram: Array, origin: Array, unit: Array, intercept: int | None, parts_of: tuple[tuple[int, ...], ...]
) -> Standard:
    """The same from the mean products of the columns (z - origin) / unit, shape (p, p).

    The origin of the intercept is 0, its unit 1.
    """
    penalised = np.ones(len(gram))
    if intercept is None:
        return Standard(origin, unit * np.sqrt(gram.diagonal()), penalised, None)
    mean = gram[intercept].copy()
    mean[intercept], penalised[intercept] = 0.0, 0.0
    centre, spread = origin + unit * mean, unit * np.sqrt(np.clip(gram.diagonal() - mean**2, 0.0, None))
    standard = Standard(centre, np.where(spread <= 1e-9 * np.abs(centre), 1.0, spread), penalised, intercept)
    if not any(parts_of):
        return standard
    scaled = np.diag(unit / standard.spread)
    scaled[intercept] -= unit * mean / standard.spread
    scaled[intercept, intercept] = 1.0
    scaled_gram = scaled.T @ gram @ scaled
    return _without_parts(standard, lambda turned: np.asarray(turned.turn.T @ scaled_gram @ turned.turn), parts_of)


def parts_of_products(design: Design) -> tuple[tuple[int, ...], ...]:
    """For each product with a continuous treatment, and each power of it, the columns that are part of it."""
    if design.strata is not None:
        return ()
    covariates = set(design.covariates.tolist())
    return tuple(() if place in covariates else nested for place, nested in enumerate(parts(design.names)))


def _without_parts(
    standard: Standard, gram_of: Callable[[Standard], Array], parts_of: tuple[tuple[int, ...], ...]
) -> Standard:
    """The same with products and powers replaced by their residuals in regressions on their parts.

    ``gram_of`` gives the mean products of standardised columns.

    This is done more than once: far from zero a cube is nearly collinear with its square, and the square with a line.
    """
    by_parts: dict[tuple[int, ...], list[int]] = {}
    for place, nested in enumerate(parts_of):
        if nested:
            by_parts.setdefault(nested, []).append(place)
    products = np.array([bool(nested) for nested in parts_of])
    turn = sparse.eye_array(len(parts_of), format="csc")
    size = 1.0 + np.abs(standard.centre) / standard.spread  # rounding errors are in proportion to it
    for _ in range(1 + _depth(parts_of)):
        gram = gram_of(replace(standard, turn=turn))
        step = sparse.lil_array(sparse.eye_array(len(parts_of)))
        for nested, places in by_parts.items():
            step[np.ix_(nested, places)] = -np.linalg.lstsq(
                gram[np.ix_(nested, nested)], gram[np.ix_(nested, places)], rcond=1e-12
            )[0]
        turn = (turn @ step).tocsc()
        residual_spread = np.sqrt(np.clip((step.T @ gram @ step).diagonal(), 0.0, None))
        adds = products & (
            residual_spread > 100 * np.finfo(float).eps * (abs(turn).T @ size)
        )  # others repeat their parts
        turn = (turn @ sparse.diags_array(1.0 / np.where(adds, residual_spread, 1.0))).tocsc()
    return replace(standard, turn=turn, repeated=products & ~adds)


def _depth(parts_of: Sequence[Sequence[int]]) -> int:
    """The largest number of levels on which parts have parts themselves."""
    depth = [0] * len(parts_of)
    for place in sorted(range(len(parts_of)), key=lambda place: len(parts_of[place])):
        depth[place] = max((1 + depth[part] for part in parts_of[place]), default=0)
    return max(depth)


def _gram(design: Design, standard: Standard, shares: Array) -> Array:
    gram = np.zeros((len(standard.spread), len(standard.spread)))
    for place, block in design.blocks():
        columns = standard.apply(block.z)
        gram += (columns * shares[place, None]).T @ columns
    return gram


def directions(design: Design, standard: Standard, shares: Array) -> tuple[Array, Array]:
    """Combinations of standardised columns that are nearly orthonormal on the rows, and those that are zero on every row.

    Directions that look collinear are computed again separately, to distinguish a small one from rounding error. With more
    columns than rows they are computed from the products of rows, a problem of that size.

    Returns
    -------
    ndarray, shape (p, k)
    ndarray, shape (p, p - k)
        Empty with more columns than rows, where they are not used.
    """
    wide = len(standard.spread) > len(design)
    kept = slice(None) if standard.repeated is None else ~standard.repeated
    unit_vectors = np.empty((len(standard.spread), 0)) if wide else np.eye(len(standard.spread))
    redundant = unit_vectors[:, :0] if wide or standard.repeated is None else unit_vectors[:, standard.repeated]
    if wide:
        values, axes = _among_rows(design, standard, shares, kept)
    else:
        some = None if standard.repeated is None else unit_vectors[:, kept]
        values, axes = _among_columns(design, standard, shares, some)
    sure = values > _DOUBTFUL * values[-1]
    inner = axes[:, sure] / np.sqrt(values[sure])
    if sure.all():
        return inner, redundant
    values, doubtful = _among_columns(design, standard, shares, axes[:, ~sure])
    rounding = 10 * np.finfo(float).eps * float(np.max(np.abs(standard.centre) / standard.spread, initial=0.0))
    real = values > max(_NULL, rounding**2)
    null = unit_vectors if wide else np.hstack([doubtful[:, ~real], redundant])
    return np.hstack([inner, doubtful[:, real] / np.sqrt(values[real])]), null


def _among_columns(design: Design, standard: Standard, shares: Array, at: Array | None) -> tuple[Array, Array]:
    """Combinations of given ones, or of all columns, that are orthogonal on the rows: their mean squares, and the combinations."""
    width = len(standard.spread) if at is None else at.shape[1]
    gram = np.zeros((width, width))
    for place, block in design.blocks():
        scaled = standard.apply(block.z) * np.sqrt(shares[place, None])
        q = scaled if at is None else scaled @ at
        gram += q.T @ q  # takes half the time of a product of two different matrices
    values, vectors = np.linalg.eigh(gram)
    return values, vectors if at is None else at @ vectors


def _among_rows(design: Design, standard: Standard, shares: Array, which: Any) -> tuple[Array, Array]:
    """The same for some of the columns, from the products of rows; combinations of mean square zero are left out."""
    columns = np.sqrt(shares)[:, None] * standard.apply(design.z)
    values, vectors = np.linalg.eigh(columns[:, which] @ columns[:, which].T)
    positive = values > len(values) * np.finfo(float).eps * values[-1]
    directions = np.zeros((columns.shape[1], int(positive.sum())))
    directions[which] = columns[:, which].T @ (vectors[:, positive] / np.sqrt(values[positive]))
    return values[positive], directions


def unidentified(design: Design) -> tuple[int, list[str]] | None:
    """Find a component that reads a combination of columns which is zero on every row, but not at the readings.

    A covariate that repeats the treatment gives such a combination, and so does a cell without rows in one arm. The data do not
    determine the combination's coefficient, so the estimate would be arbitrary.

    Returns
    -------
    (component, columns) or None
        The columns of the combination, those with the largest weights first.
    """
    shares = design.weights / design.weights.sum()
    standard = standardise(design, shares)
    _, null = directions(design, standard, shares)
    if not null.shape[1]:
        return None
    for c in range(design.components):
        size, reading, typical = 0.0, np.zeros(len(standard.spread)), np.zeros(len(standard.spread))
        for _, block in design.blocks():
            m = block.moment_rows(c) @ standard.matrix
            size += float(np.abs(m @ null).sum()) / len(design)
            reading += m.sum(axis=0) / len(design)
            typical += np.abs(m).sum(axis=0) / len(design)
        if size > 1e-6 * typical.max():  # a derivative is large where the treatment's unit is
            weight = np.abs(null @ (null.T @ reading))
            order = np.argsort(-weight)
            return c, [design.names[j] for j in order if weight[j] > 0.1 * weight.max()][:4]
    return None
