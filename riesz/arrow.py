"""Arrow's dictionary columns as pandas' categories: missing values stay missing, and numbers stay labels.

In: an array of pyarrow, or a pandas column that is backed by one. Out: a pandas column. pyarrow is imported only for users who
bring an array of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def is_arrow(values: object) -> bool:
    """Whether something is an array of pyarrow."""
    return type(values).__module__.partition(".")[0] == "pyarrow"


def copy_table(table: Any) -> Any:
    """A pyarrow table with memory of its own: that of the original may be a numpy array that the user goes on to change."""
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pyarrow.ipc.open_stream(sink.getvalue()).read_all()


def to_series(values: Any, keep_order: bool = False) -> pd.Series:
    """An array of pyarrow as a pandas column; a dictionary becomes categories.

    Parameters
    ----------
    values : pyarrow.Array or pyarrow.ChunkedArray
    keep_order : bool
        Whether the order of a dictionary means something, as that of pandas' categories does. Otherwise, unless Arrow says that it
        is ordered, it is the order in which values appeared, and the categories are sorted.
    """
    if not _is_dictionary(values.type):
        return pd.Series(values.to_pandas()).reset_index(drop=True)
    decoded = values.cast(values.type.value_type)
    encoded = (decoded.combine_chunks() if hasattr(decoded, "chunks") else decoded).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    levels = pd.Index(encoded.dictionary.to_pandas())
    categories = pd.Categorical.from_codes(codes.astype(np.intp), categories=levels)
    if keep_order or values.type.ordered:
        chunks = getattr(values, "chunks", [values])
        known = [pd.Index(chunk.dictionary.to_pandas()).dropna() for chunk in chunks]
        order = known[0].append(known[1:]).unique()
        categories = categories.reorder_categories(order[order.isin(levels)], ordered=bool(values.type.ordered))
    else:
        categories = categories.reorder_categories(levels.sort_values())
    return pd.Series(categories)


def decode(column: pd.Series) -> pd.Series:
    """A pandas column, with categories in place of an Arrow dictionary; other columns as they are."""
    if isinstance(column.dtype, pd.ArrowDtype) and _is_dictionary(column.dtype.pyarrow_dtype):
        made = to_series(column.array.__arrow_array__())
        return made.set_axis(column.index).rename(column.name)
    return column


def _is_dictionary(kind: Any) -> bool:
    return str(kind).startswith("dictionary")
