r"""Derivatives of the formula's columns by finite differences, because formulaic evaluates columns but does not differentiate them.

A central difference with step h has two errors: the third derivative times :math:`h^2 / 6`, and rounding, about the column's size
times :math:`\epsilon / h`. A step near :math:`\epsilon^{1/3}` balances them if a column is about as large as its variation. Far
from zero it is larger: the square of a year is four million and varies by thousands. Such a column has little curvature, so
longer steps are better: the longest step that agrees with all shorter ones up to rounding is used.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array

Mask = npt.NDArray[np.bool_]
#: ``(values of the treatment, mask of rows, mask of columns) -> (rows, columns)``
Evaluate = Callable[[Array, Mask, Mask], Array]

STEP = float(np.cbrt(np.finfo(float).eps))  # share of the local spread
_KINK = 1e-2  # left and right slopes that differ by more than this share are a kink
_ROUNDING = 4 * np.finfo(float).eps  # share of a column's size, after a few operations
_PRECISE = 1e-7  # rounding below this share of a typical slope is negligible
_LONGER = 16.0  # ratio of one step to the one before
_LONGEST = 0.25  # share of the range


def derivatives(at: Evaluate, a: Array, columns: Array, step: Array, limits: tuple[float, float]) -> Array:
    """Differentiate columns along a treatment, row by row.

    Parameters
    ----------
    at : callable
        Evaluates the columns at other values of the treatment.
    a : ndarray, shape (n,)
        The treatment.
    columns : ndarray, shape (n, q)
        Their values at this treatment.
    step : ndarray, shape (n,)
        The step for columns that are not far from zero.
    limits : (float, float)
        The range in which the columns are defined; differences are one-sided, of second order, at its ends.

    Returns
    -------
    ndarray, shape (n, q)
        Right-hand slopes at kinks, such as a knot of a linear spline.
    """
    all_columns = np.ones(columns.shape[1], dtype=bool)
    slopes = _differences(at, a, columns, step, limits, all_columns, kinks=True)
    rounding = _ROUNDING * np.abs(columns) / step[:, None]
    doubtful = (rounding > _PRECISE * np.sqrt((slopes**2).mean(axis=0))).any(axis=0)
    if doubtful.any():
        slopes[:, doubtful] = _with_longer_steps(at, a, columns, step, limits, doubtful, slopes[:, doubtful])
    return slopes


def _differences(
    at: Evaluate, a: Array, columns: Array, step: Array, limits: tuple[float, float], which: Mask, kinks: bool
) -> Array:
    """Central differences, and one-sided ones where a step would leave the limits."""
    lowest, highest = limits
    all_rows = np.ones(len(a), dtype=bool)
    above, below = np.minimum(a + step, highest), np.maximum(a - step, lowest)
    up, down = at(above, all_rows, which), at(below, all_rows, which)
    slopes: Array = (up - down) / (above - below)[:, None]
    if kinks:
        inside = (above > a) & (below < a)
        right = (up[inside] - columns[inside]) / (above - a)[inside, None]
        left = (columns[inside] - down[inside]) / (a - below)[inside, None]
        kink = np.abs(right - left) > _KINK * (np.abs(right) + np.abs(left))
        slopes[inside] = np.where(kink, right, slopes[inside])
    for rows, direction in ((a - step < lowest, 1.0), (a + step > highest, -1.0)):
        if rows.any():
            near, far = a + direction * step, a + 2 * direction * step
            short, long = (near - a)[rows, None], (far - a)[rows, None]  # the steps after rounding
            first, second = (at(point, rows, which) - columns[np.ix_(rows, which)] for point in (near, far))
            slopes[rows] = (long / short * first - short / long * second) / (long - short)
    return slopes


def _with_longer_steps(
    at: Evaluate, a: Array, columns: Array, step: Array, limits: tuple[float, float], which: Mask, first: Array
) -> Array:
    """The difference with the longest step that agrees with all shorter ones up to rounding."""
    size, longest = np.abs(columns[:, which]), _LONGEST * (limits[1] - limits[0])
    best, tried = first, [(first, _ROUNDING * size / step[:, None])]
    agrees = np.ones(best.shape, dtype=bool)
    while agrees.any() and (step < longest).any():
        step = np.minimum(_LONGER * step, longest)
        slopes = _differences(at, a, columns, step, limits, which, kinks=False)
        rounding = _ROUNDING * size / step[:, None]
        for shorter, bound in tried:
            agrees &= np.abs(slopes - shorter) <= bound + rounding
        best = np.where(agrees, slopes, best)
        tried.append((slopes, rounding))
    return best
