"""Arrow's dictionary columns as pandas' categories: missing values stay missing, and numbers stay labels.

In: an array of pyarrow, or a pandas column that is backed by one. Out: a pandas column. pyarrow is imported only if
the user passes its arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def is_arrow(values: object) -> bool:
    """Whether something is an array of pyarrow."""
    return type(values).__module__.partition(".")[0] == "pyarrow"


def copy_table(table: Any) -> Any:
    """A copy of a pyarrow table's numbers: their memory may belong to a numpy array that the user later changes."""
    import pyarrow

    rows = pyarrow.array(np.arange(table.num_rows))
    columns = [column.take(rows) if pyarrow.types.is_primitive(column.type) else column for column in table.columns]
    return pyarrow.Table.from_arrays(columns, schema=table.schema)


def to_series(values: Any, keep_order: bool = False) -> pd.Series:
    """An array of pyarrow as a pandas column; a dictionary becomes categories.

    Parameters
    ----------
    values : pyarrow.Array or pyarrow.ChunkedArray
    keep_order : bool
        Whether the order of a dictionary is meaningful, as that of pandas' categories is. Otherwise, unless Arrow says that it
        is ordered, it is the order in which values appeared, and the categories are sorted.
    """
    if not _is_dictionary(values.type):
        return pd.Series(values.to_pandas()).reset_index(drop=True)
    chunks = getattr(values, "chunks", [values])
    # each chunk has its own dictionary, perhaps with a missing value
    dictionaries = [_levels(chunk.dictionary) for chunk in chunks]
    levels = dictionaries[0].append(dictionaries[1:]).dropna().unique() if dictionaries else pd.Index([])
    ordered = bool(values.type.ordered)
    if not (keep_order or ordered):
        levels = levels.sort_values()
    codes = [np.empty(0, dtype=np.intp)]
    for chunk, dictionary in zip(chunks, dictionaries, strict=True):
        indices = chunk.indices.fill_null(len(dictionary)).to_numpy(zero_copy_only=False).astype(np.intp)
        codes.append(np.append(levels.get_indexer(dictionary), -1)[indices])
    labels = pd.Categorical.from_codes(np.concatenate(codes), categories=levels, ordered=ordered)
    return pd.Series(labels.remove_unused_categories())


def _levels(dictionary: Any) -> pd.Index:
    if str(dictionary.type).startswith("extension"):  # intervals, periods
        return pd.Index(dictionary.type.to_pandas_dtype().__from_arrow__(dictionary))
    return pd.Index(dictionary.to_pandas())


def decode(column: pd.Series) -> pd.Series:
    """A pandas column, with categories in place of an Arrow dictionary; other columns as they are."""
    if isinstance(column.dtype, pd.ArrowDtype) and _is_dictionary(column.dtype.pyarrow_dtype):
        series = to_series(column.array.__arrow_array__())
        return series.set_axis(column.index).rename(column.name)
    return column


def _is_dictionary(kind: Any) -> bool:
    return str(kind).startswith("dictionary")
