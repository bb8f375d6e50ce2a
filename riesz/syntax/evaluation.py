"""Evaluates formulas with formulaic: returns numbers, or raises one kind of error.

Formulas are partly Python, so evaluating one may raise any exception or warning. Warnings of numpy, pandas and formulaic are
suppressed, because the callers check for numbers that are not finite. formulaic's warning of unknown levels, which it would
code as the reference level, becomes an error. Warnings of the user's functions are passed on.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import formulaic
import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy
from formulaic.errors import DataMismatchWarning

from riesz.arrays import Array
from riesz.errors import DataError, EstimandError, FormulaError, RieszError
from riesz.syntax.terms import read_expression_term

_PACKAGES = tuple(os.path.dirname(str(module.__file__)) + os.sep for module in (formulaic, np, pd, scipy))
_CHECKED = 50  # rows on which terms are evaluated a second time
_ROUNDING = 1e-12  # of a column's size
_TOLERANCE = 1e-7  # of a column's range


class EvaluationError(Exception):
    """A formula could not be evaluated; callers turn it into a :class:`~riesz.errors.RieszError`.

    Attributes
    ----------
    unseen : bool
        Whether the rows have levels that the factors do not have.
    memory : bool
        Whether the columns do not fit in memory.
    """

    def __init__(self, reason: str, *, unseen: bool = False, memory: bool = False) -> None:
        super().__init__(reason)
        self.unseen, self.memory = unseen, memory


def evaluate(spec: Any, data: pd.DataFrame, context: Mapping[str, Any]) -> tuple[Array, Any]:
    """The columns of a formula, and its specification: the knots, levels and centres that were fitted.

    Parameters
    ----------
    spec : formulaic.SimpleFormula or formulaic.ModelSpec
        A formula to be fitted on these rows, or the specification from a fit on other rows.
    data : pandas.DataFrame
    context : mapping
        The caller's variables.

    Returns
    -------
    ndarray, shape (n, p)
    formulaic.ModelSpec
    """
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            matrix = spec.get_model_matrix(data, context=context, na_action="ignore", output="numpy")
            if np.iscomplexobj(matrix):
                raise TypeError("got complex numbers, expected real ones.")
            values = np.ascontiguousarray(matrix, dtype=float)
    except Exception as error:
        if _caused_by_memory(error):
            raise EvaluationError("out of memory", memory=True) from error
        raise EvaluationError(_plain(error)) from error
    for warning in caught:
        if _is_from_the_user(warning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if any(issubclass(warning.category, DataMismatchWarning) for warning in caught):
        raise EvaluationError("levels that the data do not have", unseen=True)
    return values, matrix.model_spec


def values_of(spec: Any, context: Mapping[str, Any], frame: pd.DataFrame) -> Array:
    """The columns of a formula, without its specification."""
    return evaluate(spec, frame, context)[0]


def depend_on_other_rows(
    evaluate_on: Callable[[pd.DataFrame], Array], sample: pd.DataFrame, expected: Array, limits: Array
) -> bool:
    """Whether columns change, or cannot be computed, when they are evaluated on a sample of the rows alone.

    Parameters
    ----------
    evaluate_on : callable
        ``frame -> (k, p)``: evaluates the columns with the specification fitted on all rows.
    sample : pandas.DataFrame, k rows
    expected : ndarray, shape (k, p)
        The columns in these rows if they are evaluated on all rows.
    limits : ndarray, shape (2, p)
        The columns' lowest and highest values on all rows.
    """
    try:
        values = evaluate_on(sample.reset_index(drop=True))
    except EvaluationError as error:
        if error.memory:
            raise
        return True
    with np.errstate(all="ignore"):
        tolerance = np.nan_to_num(_TOLERANCE * np.ptp(limits, axis=0) + _ROUNDING * np.abs(limits).max(axis=0))
    return not np.isclose(values, expected, rtol=0.0, atol=tolerance, equal_nan=True).all()


def extent(matrix: Array) -> Array:
    """The lowest and highest value of each column, shape (2, p), without a copy of the matrix, which may be large."""
    return np.stack([matrix.min(axis=0), matrix.max(axis=0)]) if len(matrix) else np.zeros((2, matrix.shape[1]))


def extreme_rows(column: pd.Series) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The row with a variable's lowest value and the row with its highest, each as a sample of one row.

    The mean or maximum of at least one of these samples differs from that of all rows, even for a dummy.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.codes
    if not pd.api.types.is_numeric_dtype(column.dtype):  # a date, in a projection
        return np.array([0]), np.array([len(column) - 1])
    values = column.to_numpy()
    return np.array([int(values.argmin())]), np.array([int(values.argmax())])


def shuffled_rows(n: int) -> npt.NDArray[np.intp]:
    """A few rows in random order."""
    return np.random.default_rng(0).permutation(n)[: max(1, min(_CHECKED, n // 2))]


def evaluate_term(
    text: str, data: pd.DataFrame, context: Mapping[str, Any], what: str, fitted: pd.DataFrame | None = None
) -> pd.Series:
    """The column that an expression such as ``log(y)`` stands for.

    Parameters
    ----------
    text : str
    data : pandas.DataFrame
    context : mapping
        The caller's variables.
    what : str
        What the column is, for messages.
    fitted : pandas.DataFrame, optional
        The rows of the fit, if ``data`` are new rows: the constants of center() and the like are those of the fit.
    """
    if text.strip("`") in data.columns:
        return data[text.strip("`")]
    formula = read_expression_term(text)
    try:
        fitted_values, spec = evaluate(formula, data if fitted is None else fitted, context)
        rows = shuffled_rows(len(fitted_values))
        evaluate_on = partial(values_of, spec, context)
        if fitted is not None and depend_on_other_rows(
            evaluate_on, fitted.iloc[rows], fitted_values[rows], extent(fitted_values)
        ):
            raise DataError(
                f"The {what} {text!r} is not computed row by row, so it cannot be computed for new rows. Add it to the data as a "
                "column and fit again."
            )
        values = fitted_values if fitted is None else values_of(spec, context, data)
    except EvaluationError as error:
        if error.memory:
            raise unusable(error, f"The {what} {text!r} of {len(data):,} rows") from error.__cause__
        raise DataError(f"The {what} {text!r} cannot be computed: {error} Change that part.") from error.__cause__
    if values.shape[1] != 1:
        raise DataError(f"The {what} {text!r} gives {values.shape[1]} columns; expected one.")
    column = pd.Series(values[:, 0], index=data.index, name=text)
    bad = int((~np.isfinite(column)).sum())
    if bad:
        raise DataError(
            f"The {what} {text!r} is not finite on {bad} rows (the logarithm of zero?). Change it or drop those rows."
        )
    return column


def unseen_level(levels: str, fitted_levels: str, rows: str) -> RieszError:
    """The error for levels of a factor that the fitted rows do not have.

    Parameters
    ----------
    levels : str
        The new levels, with the name of the factor.
    fitted_levels : str
        A sentence that lists the levels in the fit, or an empty string.
    rows : {"new", "counterfactual"}
    """
    if rows == "new":
        return DataError(
            f"The new rows have {levels}, which does not occur in the fit.{fitted_levels} Drop those rows or map them to a "
            "known level."
        )
    return EstimandError(
        f"A reading of mu sets {levels}, which is never seen in the data.{fitted_levels} Let the variable enter as a number, or "
        "set values that are in the data."
    )


def unusable(error: EvaluationError, what: str) -> RieszError:
    """The error for a formula that cannot be evaluated on the rows in use."""
    if error.memory:
        return DataError(
            f"{what} do not fit in memory. Use fewer rows, or a formula with fewer columns: merge levels of factors, drop "
            "interactions, use fewer knots."
        )
    if error.unseen:
        return FormulaError(
            "The data have levels that C(..., levels=[...]) in the formula does not list; they would be coded as the reference "
            "level. List all levels, or drop those rows."
        )
    return FormulaError(
        f"The formula's columns cannot be computed: {error} Change that part, or convert the column it reads."
    )


def _caused_by_memory(error: BaseException | None) -> bool:
    """Whether memory ran out; formulaic wraps what is raised inside a term."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_from_the_user(warning: warnings.WarningMessage) -> bool:
    return (
        issubclass(warning.category, UserWarning)
        and os.path.exists(warning.filename)  # what formulaic compiles has no file
        and not warning.filename.startswith(_PACKAGES)
    )


def _plain(error: Exception) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().split("\n")[0]
