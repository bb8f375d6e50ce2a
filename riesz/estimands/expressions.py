"""Policies and interventions as users write them: a string, a callable, an array or one number.

In: the user's value and the rows in use. Out: one float64 per row. Strings are Python expressions over the columns
(``"age > 40"``, ``"where(a > 80, a - 15, a)"``), with numpy's common functions and the caller's variables at hand.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.errors import EstimandError, nearest
from riesz.estimands.linear_form import Array
from riesz.quoting import hide_quotes

FUNCTIONS: dict[str, Any] = {
    "np": np,
    "where": np.where,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "clip": np.clip,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "round": np.round,
    "isin": np.isin,
}


def names_in(text: str, what: str) -> set[str]:
    """The names an expression reads, functions included."""
    code, quoted = hide_quotes(text.strip().removeprefix("~").strip())
    try:
        tree = ast.parse(code, mode="eval")
    except SyntaxError as error:
        raise EstimandError(
            f"{what} {text!r} cannot be read: {error.msg}. Wanted a Python expression over the columns, such as "
            "'age > 40' or 'where(a > 80, a - 15, a)'."
        ) from None
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return {quoted.get(name, name) for name in found}


def evaluate(text: str, data: pd.DataFrame, context: Mapping[str, Any], what: str, columns: Sequence[str] = ()) -> Any:
    """Evaluate an expression over the columns of a frame."""
    names = names_in(text, what)
    code, quoted = hide_quotes(text.strip().removeprefix("~").strip())
    scope: dict[str, Any] = {}
    for name in names:
        if name in data.columns:
            column = data[name]
            scope[name] = np.asarray(column.astype(object) if column.dtype == "category" else column)
        elif name in FUNCTIONS:
            scope[name] = FUNCTIONS[name]
        elif name in context:
            scope[name] = context[name]
        else:
            raise EstimandError(
                f"{what} {text!r} uses `{name}`, which is not a column of the data.{nearest(name, [*data.columns, *columns])}"
            )
    scope |= {key: scope[name] for key, name in quoted.items()}
    try:
        with np.errstate(all="ignore"):  # what is not finite is told by `per_row`
            # no name can reach the import (all were looked up above), but numpy's methods do when they are first used
            return eval(compile(code, "<expression>", "eval"), {"__builtins__": {"__import__": __import__}}, scope)
    except Exception as error:
        hint = " Write & and | for `and` and `or`, with parentheses." if "truth value" in str(error) else ""
        raise EstimandError(
            f"{what} {text!r} failed: {type(error).__name__}: {str(error).rstrip('.')}.{hint}"
        ) from error


def per_row(
    spec: Any,
    data: pd.DataFrame,
    kept: npt.NDArray[np.intp],
    total: int,
    context: Mapping[str, Any],
    what: str,
    columns: Sequence[str] = (),
) -> Array:
    """One number per row from a string, a callable, an array, a Series or a number.

    Parameters
    ----------
    spec : str, callable, array_like or float
        Arrays and Series go by position, one value for each row of the user's table.
    data : pandas.DataFrame
        The rows in use.
    kept : ndarray of int, shape (n,)
        Where those rows stand in the user's table.
    total : int
        Rows of the user's table.
    context : mapping
        The caller's variables, for strings.
    what : str
        The argument's name, for messages.
    columns : sequence of str
        Every column of the user's table, for suggestions.

    Returns
    -------
    ndarray, shape (n,)
    """
    if isinstance(spec, str):
        value = evaluate(spec, data, context, what, columns)
    elif callable(spec):
        value = call(spec, data, what)
    else:
        value = spec
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise EstimandError(
            f"{what} gave values that are not numbers ({_kind(value)}); wanted one number a row."
        ) from None
    if array.ndim == 0:
        array = np.full(len(data), float(array))
    if array.shape == (total,) and not callable(spec) and not isinstance(spec, str):
        array = array[kept]
    if array.shape != (len(data),):
        wanted = (
            f"{len(data)} values, one for each row in use"
            if callable(spec) or isinstance(spec, str)
            else (f"{total} values, one for each row of the data")
        )
        raise EstimandError(f"{what} has the wrong length: shape {array.shape}; wanted {wanted}.")
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).sum())
        raise EstimandError(f"{what} is missing or infinite on {bad} rows; wanted a finite number on every row.")
    return array


def call(function: Any, data: pd.DataFrame, what: str) -> Any:
    """Call a user's function on a frame of its own, which it may change; what goes wrong there is told by name."""
    if not callable(function):
        raise EstimandError(f"{what} is a {type(function).__name__}; wanted a function of the frame.")
    try:
        return function(data.copy(deep=False))
    except EstimandError:
        raise
    except Exception as error:
        raise EstimandError(f"{what} failed: {type(error).__name__}: {str(error).rstrip('.')}.") from error


def _kind(value: object) -> str:
    return str(getattr(value, "dtype", type(value).__name__))
