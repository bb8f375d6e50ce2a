r"""The symbol ``mu``, and the linear forms that calls of it record.

``mu(frame)`` does not evaluate anything: it records a :class:`Reading`. Readings can be added, subtracted and multiplied by
per-row numbers, so that an estimand is written as its formula, on whole frames::

    mu(data.assign(a=1)) - mu(data.assign(a=0))

Expressions that are not linear in ``mu`` are refused before any fitting.

Symbols: a linear form is :math:`m(f)_i = \sum_k w_{ki} f(\text{frame}_k)_i`, with a derivative of ``f`` in place
of its value where the reading says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.errors import EstimandError
from riesz.syntax.counterfactual import replace_columns

FrameFunction = Callable[[pd.DataFrame], Any]


@dataclass(frozen=True)
class Reading:
    """One evaluation of mu inside a moment.

    Attributes
    ----------
    frame : pandas.DataFrame
        The rows at which mu is read, one per observed row.
    wrt : str or None
        None reads the value of mu; a column name reads its derivative along that column.
    weight : ndarray, shape (n,)
        The factor of the reading in each row.
    """

    frame: pd.DataFrame
    wrt: str | None
    weight: Array


def _refuse(what: str) -> EstimandError:
    return EstimandError(
        f"A moment must be linear in mu, but this one {what}. Allowed: adding and subtracting readings such as "
        "mu(data.assign(a=1)), and multiplying them by numbers or by columns of the data."
    )


class LinearForm:
    """A sum of weighted readings; what a moment returns.

    Supports ``+``, ``-``, multiplication and division by numbers, arrays and Series of one value per row.
    """

    __pandas_priority__: Final = 5000  # so that Series * form calls the form, not the Series
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, readings: tuple[Reading, ...]) -> None:
        self.readings = readings

    def __len__(self) -> int:
        return len(self.readings)

    def __add__(self, other: object) -> LinearForm:
        if isinstance(other, LinearForm):
            return LinearForm(self.readings + other.readings)
        if np.isscalar(other) and other == 0:  # the start value of sum()
            return self
        raise _refuse("adds something that is not a reading of mu (an affine term)")

    __radd__ = __add__

    def __neg__(self) -> LinearForm:
        return self * -1.0

    def __sub__(self, other: object) -> LinearForm:
        return self + (-other if isinstance(other, LinearForm) else other)

    def __rsub__(self, other: object) -> LinearForm:
        return -self + other

    def __mul__(self, other: Any) -> LinearForm:
        if isinstance(other, LinearForm):
            raise _refuse("multiplies two readings")
        n = len(self.readings[0].weight)
        try:
            weight = np.asarray(other, dtype=float)
        except (TypeError, ValueError):
            raise EstimandError(
                f"A moment was multiplied by values that are not numbers ({type(other).__name__}); expected a number or a column "
                "of numbers. Compare labels first: (data['g'] == 'level') * mu(...)."
            ) from None
        if weight.ndim > 1 or (weight.ndim == 1 and len(weight) != n):
            raise EstimandError(
                f"A moment was multiplied by an array of shape {weight.shape}; expected a number or one value for "
                f"each of the {n} rows. Build weights from the `data` the moment is given."
            )
        return LinearForm(tuple(Reading(r.frame, r.wrt, r.weight * weight) for r in self.readings))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> LinearForm:
        if isinstance(other, LinearForm):
            raise _refuse("divides by a reading")
        with np.errstate(divide="ignore"):  # infinite weights are refused with the moment
            return self.__mul__(1.0 / np.asarray(other, dtype=float))

    def __rtruediv__(self, other: object) -> LinearForm:
        raise _refuse("divides by a reading")

    def __pow__(self, other: object) -> LinearForm:
        raise _refuse("raises a reading to a power")

    def __abs__(self) -> LinearForm:
        raise _refuse("takes an absolute value")

    def __float__(self) -> float:
        raise _refuse("turns a reading into a number")

    def __array_function__(self, function: Callable[..., Any], *_: Any) -> LinearForm:
        raise _refuse(f"applies {function.__name__}() to a reading")

    def __bool__(self) -> bool:
        raise _refuse("branches on a reading")

    def _compare(self, other: object) -> bool:
        raise _refuse("compares a reading with something")

    __lt__ = __le__ = __gt__ = __ge__ = _compare
    __eq__ = __ne__ = _compare

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> LinearForm:
        """``array * form`` calls numpy first; send linear operations back to the form and refuse the rest."""
        if method == "__call__" and ufunc is np.multiply:
            left, right = inputs
            return self.__mul__(left if right is self else right)
        if method == "__call__" and ufunc is np.negative:
            return -self
        if method == "__call__" and ufunc in (np.add, np.subtract):
            left, right = inputs
            if ufunc is np.add:  # an array plus a form is affine, and refused with the reason
                return self.__add__(left if right is self else right)
            return self.__sub__(right) if left is self else self.__rsub__(left)
        raise _refuse(f"applies {ufunc.__name__}() to a reading")

    def apply(self, function: FrameFunction) -> Array:
        """Evaluate the form at a known function of a frame.

        Derivatives are central differences in float64, for smooth known functions (anchors, the true mu of a simulation), not for
        learned ones.

        Parameters
        ----------
        function : callable
            From a frame to one value, or one row of values, per row of the frame.

        Returns
        -------
        ndarray, shape (n,) or (n, d)
        """
        total: Any = 0.0
        for reading in self.readings:
            value = np.asarray(read(reading, function), dtype=float)
            total = total + (reading.weight * value.T).T
        return np.asarray(total, dtype=float)


def read(reading: Reading, function: FrameFunction) -> Any:
    """A known function, or its derivative by central differences, at the rows of a reading."""
    if reading.wrt is None:
        return function(reading.frame)
    at = reading.frame[reading.wrt].to_numpy(dtype=float)
    step = 1e-5 * (max(float(np.ptp(at)), 1e-4 * float(np.abs(at).max())) or 1.0)  # a single row has no spread
    above, below = at + step, at - step
    up, down = (
        np.asarray(function(replace_columns(reading.frame, {reading.wrt: values})), dtype=float)
        for values in (above, below)
    )
    rise = up - down
    return (rise.T / (above - below)).T


class Mu:
    """The symbol mu: call it on a frame to read its value there.

    Examples
    --------
    >>> import pandas as pd
    >>> from riesz.estimands.linear_form import Mu
    >>> mu, data = Mu(), pd.DataFrame({"a": [0, 1], "x": [2.0, 3.0]})
    >>> form = data["x"] * (mu(data.assign(a=1)) - mu(data.assign(a=0)))
    >>> form.apply(lambda frame: 10 * frame["a"])
    array([20., 30.])
    """

    def __call__(self, frame: pd.DataFrame) -> LinearForm:
        """Read mu at the rows of a frame."""
        return LinearForm((Reading(_checked(frame).copy(deep=False), None, np.ones(len(frame))),))

    def derivative(self, frame: pd.DataFrame, wrt: str) -> LinearForm:
        """Read the derivative of mu along the column ``wrt`` at the rows of a frame."""
        if wrt not in _checked(frame).columns:
            raise EstimandError(f"mu.derivative(..., wrt={wrt!r}): the frame has no column `{wrt}`.")
        return LinearForm((Reading(frame.copy(deep=False), wrt, np.ones(len(frame))),))


def _checked(frame: object) -> pd.DataFrame:
    if not isinstance(frame, pd.DataFrame):
        raise EstimandError(
            f"mu was called on a {type(frame).__name__}; expected a frame, for example mu(data.assign(a=1))."
        )
    return frame
