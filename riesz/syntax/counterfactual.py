"""Counterfactual frames: the data with some columns replaced, and which columns a given frame replaced."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from riesz.errors import EstimandError, listing, nearest
from riesz.syntax.labels import labels


def replace_columns(frame: pd.DataFrame, columns: Mapping[str, Any]) -> pd.DataFrame:
    """A copy of the frame with some columns replaced or added.

    ``frame.assign(**columns)`` does the same, but takes names as keywords, so that a column cannot be called ``self``.

    Examples
    --------
    >>> import pandas as pd
    >>> from riesz.syntax.counterfactual import replace_columns
    >>> replace_columns(pd.DataFrame({"self": [1, 2]}), {"self": 0})["self"].tolist()
    [0, 0]
    """
    copy = frame.copy(deep=False)
    for name, values in columns.items():
        copy[name] = values
    return copy


def changed_columns(frame: pd.DataFrame, data: pd.DataFrame, used: Collection[str]) -> dict[str, pd.Series]:
    """The columns in which a counterfactual frame differs from the data, with the data's types.

    A level that is not in the data, a number that is not finite, a missing column or another number of rows is an error.

    Parameters
    ----------
    frame : pandas.DataFrame
        The frame at which an estimand evaluates mu.
    data : pandas.DataFrame
    used : collection of str
        The columns that the formula reads.

    Examples
    --------
    >>> import pandas as pd
    >>> from riesz.syntax.counterfactual import changed_columns
    >>> data = pd.DataFrame({"a": [0.0, 1.0], "x": [2.0, 3.0]})
    >>> changed_columns(data.assign(a=1), data, ["a", "x"])["a"].tolist()
    [1.0, 1.0]
    """
    _check_rows(frame, data)
    missing = sorted(set(used) - set(frame.columns))
    if missing:
        raise EstimandError(f"A reading of mu lacks the column {listing(missing)}, which the formula needs.")
    conformed = {name: _conform(frame[name], data[name]) for name in sorted(used)}
    changes = {name: column for name, column in conformed.items() if not _same(column, data[name])}
    _refuse_new_columns(frame, data, used)
    if not changes:
        _refuse_changes_without_effect(frame, data, used)
    return changes


def _check_rows(frame: pd.DataFrame, data: pd.DataFrame) -> None:
    advice = "Use data.assign(...), which keeps the rows in place."
    if len(frame) != len(data):
        raise EstimandError(
            f"A reading of mu has {len(frame)} rows; expected the {len(data)} rows of the data. {advice}"
        )
    if not frame.index.equals(data.index):
        raise EstimandError(
            f"A reading of mu has another index than the data; expected the same rows in order. {advice}"
        )


def _refuse_new_columns(frame: pd.DataFrame, data: pd.DataFrame, used: Collection[str]) -> None:
    """A misspelt column would change nothing, and the moment would not be the intended one."""
    new = [str(name) for name in frame.columns if name not in data.columns]
    if new:
        hint = nearest(new[0], sorted(used)) or nearest(new[0], list(data.columns))
        raise EstimandError(
            f"A reading of mu has the column {listing(new)}, which the data do not have.{hint} Change columns of the formula, "
            "such as mu(data.assign(a=0)), and add no other columns."
        )


def _refuse_changes_without_effect(frame: pd.DataFrame, data: pd.DataFrame, used: Collection[str]) -> None:
    ignored = [name for name in frame.columns if name not in used and not frame[name].equals(data[name])]
    if ignored:
        raise EstimandError(
            f"A reading of mu changes only {listing(ignored)}, which the formula does not read, so that mu stays the same. The "
            f"formula reads {listing(sorted(used))}."
        )


def _conform(column: pd.Series, like: pd.Series) -> pd.Series:
    """The column with the type of another one."""
    if isinstance(like.dtype, pd.CategoricalDtype):
        return _conform_labels(column, like)
    try:
        values = column.to_numpy(dtype=float)
    except (TypeError, ValueError):
        raise EstimandError(
            f"A reading of mu sets `{like.name}` to values that are not numbers ({column.dtype}), but the column holds numbers."
        ) from None
    if not np.isfinite(values).all():
        raise EstimandError(
            f"A reading of mu sets `{like.name}` to a missing or infinite value; expected finite numbers."
        )
    return pd.Series(values, index=like.index, name=like.name)


def _conform_labels(column: pd.Series, like: pd.Series) -> pd.Series:
    if column.dtype == like.dtype:
        return column
    seen = column.astype(object).isin(list(like.cat.categories)).to_numpy()
    if not seen.all():
        unseen = sorted(labels(column.astype(object)[~seen].unique()))
        raise EstimandError(
            f"A reading of mu sets `{like.name}` to {listing(unseen)}, a level never seen in the data. Its levels are "
            f"{listing(labels(like.cat.categories))}."
        )
    return pd.Series(pd.Categorical(column.astype(object), dtype=like.dtype), index=like.index, name=like.name)


def _same(left: pd.Series, right: pd.Series) -> bool:
    if isinstance(right.dtype, pd.CategoricalDtype):
        return bool(np.array_equal(left.cat.codes, right.cat.codes))
    return bool(np.array_equal(left.to_numpy(), right.to_numpy()))
