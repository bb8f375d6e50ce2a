"""Standardised columns, the directions that they span on some rows, and combinations that no row shows.

In: a design and the shares of its rows. Out: what :mod:`riesz.learners.ridge` builds its basis from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riesz.design import Design
from riesz.moment import Array

_DOUBTFUL = 1e-9  # directions with a smaller share of the largest eigenvalue are looked at twice
_NULL = 1e-18  # and are collinear when their mean square, of standardised columns, is smaller than this


@dataclass(frozen=True)
class Standard:
    """Standardised columns: (z - centre) / spread, the intercept left alone.

    Attributes
    ----------
    centre, spread : ndarray, shape (p,)
        Without an intercept the centre is zero: centring would add one.
    penalised : ndarray, shape (p,)
        1, and 0 for the intercept.
    intercept : int or None
    """

    centre: Array
    spread: Array
    penalised: Array
    intercept: int | None

    def apply(self, z: Array) -> Array:
        """Standardise rows; more precise than ``z @ matrix`` when means are large."""
        return (z - self.centre) / self.spread

    @property
    def matrix(self) -> Array:
        """The same as a matrix, shape (p, p), which also applies to moments of the columns."""
        made = np.diag(1.0 / self.spread)
        if self.intercept is not None:
            made[self.intercept] -= self.centre / self.spread
        return made


def standardise(design: Design, shares: Array) -> Standard:
    """Weighted means and standard deviations of the columns."""
    names, z = design.base.names, design.base.z
    intercept = names.index("Intercept") if "Intercept" in names else None
    start = z[0]  # sums of squares around a row of the data lose nothing to large means
    first, second = np.zeros(len(names)), np.zeros(len(names))
    for own, rows in design.blocks():
        gap = z[rows] - start
        first += shares[own] @ gap
        second += shares[own] @ gap**2
    mean = start + first
    variance = np.clip(second - first**2, 0.0, None)
    penalised = np.ones(len(names))
    if intercept is None:
        centre, spread = np.zeros(len(names)), np.sqrt(variance + mean**2)
    else:
        centre, spread = mean, np.sqrt(variance)
        centre[intercept], spread[intercept], penalised[intercept] = 0.0, 1.0, 0.0
    constant = spread <= 1e-9 * np.abs(mean)  # rounding leaves a constant a spread of its own
    return Standard(centre, np.where(constant, 1.0, spread), penalised, intercept)


def directions(design: Design, standard: Standard, shares: Array) -> tuple[Array, Array]:
    """Combinations of standardised columns that are nearly orthonormal on the rows, and those that are zero on every row.

    Directions that look collinear are looked at again by themselves: that second look tells a small one from rounding.

    Returns
    -------
    ndarray, shape (p, k)
    ndarray, shape (p, p - k)
    """

    def look(at: Array) -> tuple[Array, Array]:
        gram = np.zeros((at.shape[1], at.shape[1]))
        for own, rows in design.blocks():
            q = standard.apply(design.base.z[rows]) @ at
            gram += (q * shares[own, None]).T @ q
        values, vectors = np.linalg.eigh(gram)
        return values, at @ vectors

    values, found = look(np.eye(len(standard.spread)))
    sure = values > _DOUBTFUL * values[-1]
    inner = found[:, sure] / np.sqrt(values[sure])
    if sure.all():
        return inner, found[:, ~sure]
    values, doubtful = look(found[:, ~sure])
    rounding = 10 * np.finfo(float).eps * float(np.max(np.abs(standard.centre) / standard.spread, initial=0.0))
    real = values > max(_NULL, rounding**2)
    return np.hstack([inner, doubtful[:, real] / np.sqrt(values[real])]), doubtful[:, ~real]


def unidentified(design: Design) -> tuple[int, list[str]] | None:
    """Find a component that reads a combination of columns which is zero on every row, but not where the moment looks.

    A covariate that repeats the treatment does that, and a cell without rows in one arm. No data can tell that
    combination's coefficient, so the estimate would be arbitrary.

    Returns
    -------
    (component, columns) or None
        The columns that take part, the heaviest first.
    """
    shares = design.weights / design.weights.sum()
    standard = standardise(design, shares)
    _, null = directions(design, standard, shares)
    if not null.shape[1]:
        return None
    for c in range(design.components):
        size, reading, typical = 0.0, np.zeros(len(standard.spread)), np.zeros(len(standard.spread))
        for _, rows in design.blocks():
            m = design.base.moment.rows(design.base.z[rows], rows, c) @ standard.matrix
            size += float(np.abs(m @ null).sum()) / len(design)
            reading += m.sum(axis=0) / len(design)
            typical += np.abs(m).sum(axis=0) / len(design)
        if size > 1e-6 * typical.max():  # a derivative is large where the treatment's unit is
            weight = np.abs(null @ (null.T @ reading))
            order = np.argsort(-weight)
            return c, [design.base.names[j] for j in order if weight[j] > 0.1 * weight.max()][:4]
    return None
