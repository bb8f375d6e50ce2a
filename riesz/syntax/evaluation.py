"""What formulaic evaluates, guarded: numbers out, and one error for all that can go wrong on the way.

Formulas are Python in part, so evaluating one may raise or warn of anything. Warnings of numpy, pandas and formulaic stay here:
numbers that are not finite are told by the callers, and formulaic's warning of levels that it does not know, which it would take
for the reference level, is an error. Warnings of the user's functions are passed on.
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
_CHECKED = 50  # rows on which terms are evaluated again
_ROUNDING = 1e-12  # of a column's size
_TOLERANCE = 1e-7  # of a column's range


class EvaluationError(Exception):
    """A formula could not be evaluated; never shown to a user, who is told by the callers.

    Attributes
    ----------
    unseen : bool
        Whether there are levels that the factors do not have.
    memory : bool
        Whether the columns do not fit in memory.
    """

    def __init__(self, reason: str, *, unseen: bool = False, memory: bool = False) -> None:
        super().__init__(reason)
        self.unseen, self.memory = unseen, memory


def evaluate(spec: Any, data: pd.DataFrame, context: Mapping[str, Any]) -> tuple[Array, Any]:
    """The columns of a formula, or of what it learned from other rows, and what it learned from these.

    Parameters
    ----------
    spec : formulaic.SimpleFormula or formulaic.ModelSpec
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
            made = spec.get_model_matrix(data, context=context, na_action="ignore", output="numpy")
            if np.iscomplexobj(made):
                raise TypeError("complex numbers came out, expected real ones.")
            values = np.ascontiguousarray(made, dtype=float)
    except Exception as error:
        if _caused_by_memory(error):
            raise EvaluationError("out of memory", memory=True) from error
        raise EvaluationError(_plain(error)) from error
    for warning in caught:
        if _is_from_the_user(warning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if any(issubclass(warning.category, DataMismatchWarning) for warning in caught):
        raise EvaluationError("levels that the data do not have", unseen=True)
    return values, made.model_spec


def values_of(spec: Any, context: Mapping[str, Any], frame: pd.DataFrame) -> Array:
    """The columns alone."""
    return evaluate(spec, frame, context)[0]


def depend_on_other_rows(again: Callable[[pd.DataFrame], Array], some: pd.DataFrame, known: Array, size: Array) -> bool:
    """Whether columns have other values, or cannot be made, when only some rows are there.

    Parameters
    ----------
    again : callable
        ``frame -> (k, p)``: evaluates the columns, with what was learned from all rows.
    some : pandas.DataFrame, k rows
    known : ndarray, shape (k, p)
        The columns at these rows when all rows are there.
    size : ndarray, shape (2, p)
        The columns' lowest and highest values on all rows.
    """
    try:
        values = again(some.reset_index(drop=True))
    except EvaluationError as error:
        if error.memory:
            raise
        return True
    with np.errstate(all="ignore"):
        tolerance = np.nan_to_num(_TOLERANCE * np.ptp(size, axis=0) + _ROUNDING * np.abs(size).max(axis=0))
    return not np.isclose(values, known, rtol=0.0, atol=tolerance, equal_nan=True).all()


def extent(matrix: Array) -> Array:
    """The lowest and the highest value of each column, shape (2, p); without a copy of the matrix, which may be large."""
    return np.stack([matrix.min(axis=0), matrix.max(axis=0)]) if len(matrix) else np.zeros((2, matrix.shape[1]))


def rows_apart(column: pd.Series) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The lowest and the highest row of a variable, each alone: a mean or a maximum of even a dummy is another there."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.codes
    if not pd.api.types.is_numeric_dtype(column.dtype):  # a date, in a projection
        return np.array([0]), np.array([len(column) - 1])
    values = column.to_numpy()
    return np.array([int(values.argmin())]), np.array([int(values.argmax())])


def shuffled_rows(n: int) -> npt.NDArray[np.intp]:
    """A few rows, in an order of their own."""
    return np.random.default_rng(0).permutation(n)[: max(1, min(_CHECKED, n // 2))]


def evaluate_term(
    text: str, data: pd.DataFrame, context: Mapping[str, Any], what: str, fitted: pd.DataFrame | None = None
) -> pd.Series:
    """One column from a formula's expression, such as ``log(y)``.

    Parameters
    ----------
    text : str
    data : pandas.DataFrame
    context : mapping
        The caller's variables.
    what : str
        What the column is, for messages.
    fitted : pandas.DataFrame, optional
        Rows that the expression was evaluated on before: it keeps what center() and the like measured there.
    """
    if text.strip("`") in data.columns:
        return data[text.strip("`")]
    formula = read_expression_term(text)
    try:
        known, spec = evaluate(formula, data if fitted is None else fitted, context)
        rows = shuffled_rows(len(known))
        again = partial(values_of, spec, context)
        if fitted is not None and depend_on_other_rows(again, fitted.iloc[rows], known[rows], extent(known)):
            raise DataError(
                f"The {what} {text!r} is not computed row by row, so it cannot be computed for new rows. Make it a column of the "
                "data beforehand, and fit again."
            )
        values = known if fitted is None else values_of(spec, context, data)
    except EvaluationError as error:
        if error.memory:
            raise unusable(error, f"The {what} {text!r} of {len(data):,} rows") from error.__cause__
        raise DataError(f"The {what} {text!r} cannot be computed: {error} Change that part.") from error.__cause__
    if values.shape[1] != 1:
        raise DataError(f"The {what} {text!r} gives {values.shape[1]} columns; wanted one.")
    column = pd.Series(values[:, 0], index=data.index, name=text)
    bad = int((~np.isfinite(column)).sum())
    if bad:
        raise DataError(
            f"The {what} {text!r} is not finite on {bad} rows (the logarithm of zero?). Change it or drop those rows."
        )
    return column


def never_seen(levels: str, known: str, rows: str) -> RieszError:
    """The error for levels of a factor that the fitted rows do not have, at ``"new"`` or at counterfactual rows."""
    if rows == "new":
        return DataError(
            f"The new rows have {levels}, which the fit never saw.{known} Drop those rows or map them to a known level."
        )
    return EstimandError(
        f"A reading of mu sets {levels}, which is never seen in the data.{known} Let the variable enter as a number, or ask for "
        "values that are in the data."
    )


def unusable(error: EvaluationError, what: str) -> RieszError:
    """The error for a formula that cannot be evaluated on the rows in use."""
    if error.memory:
        return DataError(
            f"{what} do not fit in memory. Use fewer rows, or a formula with fewer columns: merge the levels of factors, "
            "drop interactions, use fewer knots."
        )
    if error.unseen:
        return FormulaError(
            "The data have levels that C(..., levels=[...]) in the formula does not list; they would be taken for the reference "
            "level. List them all, or drop those rows."
        )
    return FormulaError(
        f"The formula's columns cannot be made: {error} Change that part, or convert the column it reads."
    )


def _caused_by_memory(error: BaseException | None) -> bool:
    """Formulaic wraps what is raised inside a term."""
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
