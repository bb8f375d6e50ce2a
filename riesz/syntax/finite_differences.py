r"""Derivatives of columns that can only be evaluated: differences whose step suits what is differentiated.

A central difference with step h errs by the third derivative times h^2 / 6, and by rounding, about the column's size times
:math:`\epsilon / h`. A step near :math:`\epsilon^{1/3}` balances the two when a column is about as large as it varies. Far from
zero it is not: the square of a year is four million and varies by thousands. Such a column bends little, so that it can be
differentiated with longer steps: the longest with which all shorter ones agree, as far as rounding lets them tell.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array

Mask = npt.NDArray[np.bool_]
#: ``(values of the treatment, which rows, which columns) -> (rows, columns)``
Evaluate = Callable[[Array, Mask, Mask], Array]

STEP = float(np.cbrt(np.finfo(float).eps))  # of the local spread
_KINK = 1e-2  # left and right slopes that differ by more than this share are a kink
_ROUNDING = 4 * np.finfo(float).eps  # of a column's size: a few operations made it
_PRECISE = 1e-7  # rounding up to this share of a typical slope does no harm
_LONGER = 16.0  # from one step to the next
_LONGEST = 0.25  # of the range


def derivatives(at: Evaluate, a: Array, here: Array, step: Array, limits: tuple[float, float]) -> Array:
    """Differentiate columns along a treatment, row by row.

    Parameters
    ----------
    at : callable
        The columns at other values of the treatment.
    a : ndarray, shape (n,)
        The treatment.
    here : ndarray, shape (n, q)
        The columns there.
    step : ndarray, shape (n,)
        For columns that are not far from zero.
    limits : (float, float)
        Where the columns are defined: differences are one-sided (of second order) at the ends.

    Returns
    -------
    ndarray, shape (n, q)
        Right-hand slopes where the two sides disagree (a kink, such as a knot of a linear spline).
    """
    every = np.ones(here.shape[1], dtype=bool)
    slopes = _differences(at, a, here, step, limits, every, kinks=True)
    rounding = _ROUNDING * np.abs(here) / step[:, None]
    doubtful = (rounding > _PRECISE * np.sqrt((slopes**2).mean(axis=0))).any(axis=0)
    if doubtful.any():
        slopes[:, doubtful] = _with_longer_steps(at, a, here, step, limits, doubtful, slopes[:, doubtful])
    return slopes


def _differences(
    at: Evaluate, a: Array, here: Array, step: Array, limits: tuple[float, float], which: Mask, kinks: bool
) -> Array:
    """Central ones, and towards the middle where a step would leave the limits."""
    lowest, highest = limits
    everywhere = np.ones(len(a), dtype=bool)
    above, below = np.minimum(a + step, highest), np.maximum(a - step, lowest)
    up, down = at(above, everywhere, which), at(below, everywhere, which)
    slopes: Array = (up - down) / (above - below)[:, None]
    if kinks:
        inside = (above > a) & (below < a)
        right = (up[inside] - here[inside]) / (above - a)[inside, None]
        left = (here[inside] - down[inside]) / (a - below)[inside, None]
        kink = np.abs(right - left) > _KINK * (np.abs(right) + np.abs(left))
        slopes[inside] = np.where(kink, right, slopes[inside])
    for rows, towards in ((a - step < lowest, 1.0), (a + step > highest, -1.0)):
        if rows.any():
            near, far = a + towards * step, a + 2 * towards * step
            one, two = (
                (near - a)[rows, None],
                (far - a)[rows, None],
            )  # far from zero not quite the steps that were asked for
            first, second = (at(point, rows, which) - here[np.ix_(rows, which)] for point in (near, far))
            slopes[rows] = (two / one * first - one / two * second) / (two - one)
    return slopes


def _with_longer_steps(
    at: Evaluate, a: Array, here: Array, step: Array, limits: tuple[float, float], which: Mask, first: Array
) -> Array:
    """The difference with the longest step that agrees with all shorter ones up to rounding."""
    size, longest = np.abs(here[:, which]), _LONGEST * (limits[1] - limits[0])
    best, tried = first, [(first, _ROUNDING * size / step[:, None])]
    agrees = np.ones(best.shape, dtype=bool)
    while agrees.any() and (step < longest).any():
        step = np.minimum(_LONGER * step, longest)
        found, rounding = _differences(at, a, here, step, limits, which, kinks=False), _ROUNDING * size / step[:, None]
        for slopes, bound in tried:
            agrees &= np.abs(found - slopes) <= bound + rounding
        best = np.where(agrees, found, best)
        tried.append((found, rounding))
    return best
