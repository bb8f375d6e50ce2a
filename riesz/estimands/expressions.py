"""Policies and interventions as users write them: a string, a function, an array or one number.

In: the user's value and the rows in use. Out: one float64 per row. Strings are arithmetic over the columns (``"age > 40"``,
``"where(a > 80, a - 15, a)"``) with numpy's elementwise functions and the caller's variables; ``syntax/policies.py`` evaluates
them without running code.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.errors import EstimandError
from riesz.syntax.policies import evaluate_policy, parse_policy


def names_in(text: str, what: str) -> set[str]:
    """The names an expression reads, functions included."""
    tree, quoted = parse_policy(text, what)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return {quoted.get(name, name) for name in names}


def per_row(
    spec: Any,
    data: pd.DataFrame,
    kept: npt.NDArray[np.intp],
    total: int,
    context: Mapping[str, Any],
    what: str,
    columns: Sequence[str] = (),
) -> Array:
    """One number per row from a string, a function, an array, a Series or a number.

    Parameters
    ----------
    spec : str, callable, array_like or float
        Arrays and Series are used by position, one value per row of the user's table.
    data : pandas.DataFrame
        The rows in use.
    kept : ndarray of int, shape (n,)
        The positions of those rows in the user's table.
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
        value = evaluate_policy(spec, data, context, what, columns)
    elif callable(spec):
        value = call(spec, data, what)
    else:
        value = spec
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise EstimandError(
            f"{what} gave values that are not numbers ({_kind(value)}); expected one number per row."
        ) from None
    if array.ndim == 0:
        array = np.full(len(data), float(array))
    if array.shape == (total,) and not callable(spec) and not isinstance(spec, str):
        array = array[kept]
    if array.shape != (len(data),):
        computed = callable(spec) or isinstance(spec, str)
        expected = f"{len(data)} values, one per row in use" if computed else f"{total} values, one per row of the data"
        raise EstimandError(f"{what} has the wrong length: shape {array.shape}; expected {expected}.")
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).sum())
        raise EstimandError(f"{what} is missing or infinite on {bad} rows; expected a finite number on every row.")
    return array


def call(function: Any, data: pd.DataFrame, what: str) -> Any:
    """Call a user's function on a copy of the frame, which it may change; its errors are raised as EstimandError."""
    if not callable(function):
        raise EstimandError(f"{what} is a {type(function).__name__}; expected a function of the frame.")
    try:
        return function(data.copy(deep=False))
    except EstimandError:
        raise
    except Exception as error:
        raise EstimandError(f"{what} failed: {type(error).__name__}: {str(error).rstrip('.')}.") from error


def _kind(value: object) -> str:
    return str(getattr(value, "dtype", type(value).__name__))
