"""Data frames as JSON and arrays, and back: numbers unchanged, labels as codes, dates as counts, intervals as their ends.

Columns of other kinds (nested values, time zones) are left out and reported. Files of format 1 can also be read: in these, whole
numbers with missing values are floats, and levels that are intervals or dates are text.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from riesz.storage.coding import AnyArray, Reader, UnstorableError, Writer

_WHOLE = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
_NULLABLE = {
    **dict.fromkeys(_WHOLE, pd.arrays.IntegerArray),
    **dict.fromkeys(("Float32", "Float64"), pd.arrays.FloatingArray),
    "boolean": pd.arrays.BooleanArray,
}
_CLOSED = ("left", "right", "both", "neither")


def write_frame(frame: pd.DataFrame, writer: Writer) -> dict[str, Any]:
    """A frame as JSON; ``lost`` holds the names of columns that could not be stored."""
    columns, lost = [], []
    for name in frame.columns:
        try:
            columns.append([name, _write_column(frame[name].reset_index(drop=True), writer)])
        except UnstorableError:
            lost.append(name)
    return {"rows": len(frame), "columns": columns, "index": write_index(frame.index, writer), "lost": lost}


def read_frame(stored: Any, reader: Reader) -> pd.DataFrame:
    """A frame from its JSON."""
    rows, names = stored["rows"], [name for name, _ in stored["columns"]]
    if type(rows) is not int or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError("a table with an invalid number of rows or invalid names")
    columns = {name: _read_column(spec, reader) for name, spec in stored["columns"]}
    if any(len(column) != rows for column in columns.values()):
        raise ValueError("columns of different lengths")
    return pd.DataFrame(columns, index=range(rows)).set_axis(read_index(stored["index"], reader, rows), axis=0)


def _write_column(column: pd.Series, writer: Writer) -> dict[str, Any]:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return {
            "kind": "category",
            "codes": writer.array(column.cat.codes.to_numpy()),
            "levels": _write_levels(dtype.categories, writer),
            "ordered": bool(dtype.ordered),
        }
    if isinstance(dtype, pd.IntervalDtype):
        ends = column.array
        left, right = _write_column(pd.Series(ends.left), writer), _write_column(pd.Series(ends.right), writer)
        return {"kind": "intervals", "left": left, "right": right, "closed": dtype.closed}
    if str(dtype) in _NULLABLE:
        return _write_nullable(column, str(dtype), writer)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return {"kind": "numbers", "values": writer.array(column.to_numpy())}
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return {"kind": "dates", "dtype": str(dtype), "values": writer.array(column.to_numpy().view("int64"))}
    return _write_objects(column, writer)


def _write_objects(column: pd.Series, writer: Writer) -> dict[str, Any]:
    """A column of Python objects or Arrow values, by the kind of its values."""
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind in ("string", "empty"):
        codes, labels = pd.factorize(column)
        return {
            "kind": "text",
            "codes": writer.array(np.asarray(codes)),
            "labels": writer.texts([str(label) for label in labels]),
            "objects": bool(column.dtype == object),
        }
    if kind == "date":
        days = np.array([None if pd.isna(day) else day for day in column], dtype="datetime64[D]")
        return {"kind": "days", "values": writer.array(days.view("int64"))}
    if kind == "integer":
        try:
            return _write_nullable(column.astype(object).astype("Int64"), "Int64", writer)
        except (OverflowError, TypeError, ValueError):
            pass  # beyond 64 bits: as floating point
    if kind in ("integer", "floating", "mixed-integer-float", "boolean", "decimal"):
        values = pd.to_numeric(column.astype(object).where(column.notna(), np.nan)).to_numpy(dtype=float)
        return {"kind": "numbers", "values": writer.array(values)}
    raise UnstorableError(f"A column of {column.dtype} cannot be stored in a file.")


def _write_nullable(column: pd.Series, dtype: str, writer: Writer) -> dict[str, Any]:
    """Whole numbers stay whole: as floats they would change beyond 2^53."""
    missing = column.isna().to_numpy()
    values = column.to_numpy(dtype=bool if dtype == "boolean" else dtype.lower(), na_value=0)
    return {
        "kind": "nullable",
        "dtype": dtype,
        "values": writer.array(values),
        "missing": writer.array(missing) if missing.any() else None,
    }


def _write_levels(levels: pd.Index, writer: Writer) -> dict[str, Any]:
    """The levels of a category. If they have several types, those that are not numbers, booleans or text become text."""
    try:
        return _write_column(pd.Series(levels), writer)
    except UnstorableError:
        plain = (str, bool, int, float, np.generic)
        return {
            "kind": "mixed",
            "labels": writer.write([level if isinstance(level, plain) else str(level) for level in levels]),
        }


def _read_column(spec: Any, reader: Reader) -> pd.Series:
    match spec["kind"]:
        case "numbers":
            return pd.Series(_flat(reader, spec["values"], "biuf"))
        case "nullable" if spec["dtype"] in _NULLABLE:
            return _read_nullable(spec, reader)
        case "dates" if spec["dtype"] in [f"datetime64[{unit}]" for unit in ("s", "ms", "us", "ns")]:
            return pd.Series(_flat(reader, spec["values"], "i", 8).view(np.dtype(spec["dtype"])))
        case "days":
            days = _flat(reader, spec["values"], "i", 8).view("datetime64[D]")
            return pd.Series(list(days.astype(object)), dtype=object)
        case "intervals" if spec["closed"] in _CLOSED:
            return _read_intervals(spec, reader)
        case "category":
            return _read_category(spec, reader)
        case "text":
            return _read_text(spec, reader)
        case "mixed":
            return pd.Series(reader.read(spec["labels"]), dtype=object)
    raise ValueError(f"unknown column {str(spec)[:60]}")


def _flat(reader: Reader, name: Any, kinds: str, size: int | None = None) -> AnyArray:
    """An array with one value for each row."""
    values = reader.array(name)
    if values.ndim != 1 or values.dtype.kind not in kinds or (size is not None and values.dtype.itemsize != size):
        raise ValueError("an array of the wrong kind for a column")
    return values


def _codes(reader: Reader, name: Any, levels: int) -> AnyArray:
    """The level of each row, -1 where it is missing."""
    codes = _flat(reader, name, "i")
    if codes.size and not -1 <= int(codes.min()) <= int(codes.max()) < levels:
        raise ValueError("codes without a level")
    return codes


def _read_nullable(spec: Any, reader: Reader) -> pd.Series:
    if "missing" not in spec:  # format 1
        floats = pd.Series(_flat(reader, spec["values"], "f"))
        return floats.astype("Float64").where(floats.notna(), pd.NA).astype(spec["dtype"])
    dtype = "bool" if spec["dtype"] == "boolean" else spec["dtype"].lower()
    values = _flat(reader, spec["values"], np.dtype(dtype).kind)
    missing = np.zeros(len(values), dtype=bool) if spec["missing"] is None else _flat(reader, spec["missing"], "b")
    if values.dtype != dtype or len(missing) != len(values):
        raise ValueError("whole numbers of the wrong size")
    return pd.Series(_NULLABLE[spec["dtype"]](values.copy(), missing.copy()))


def _read_intervals(spec: Any, reader: Reader) -> pd.Series:
    left, right = _read_column(spec["left"], reader), _read_column(spec["right"], reader)
    closed = cast(Literal["left", "right", "both", "neither"], spec["closed"])
    return pd.Series(pd.arrays.IntervalArray.from_arrays(left.array, right.array, closed=closed))


def _read_category(spec: Any, reader: Reader) -> pd.Series:
    if "levels" in spec:
        levels = pd.Index(_read_column(spec["levels"], reader))
    else:  # format 1
        levels = pd.Index(reader.read(spec["labels"]), dtype=object if spec["objects"] else None)
    dtype = pd.CategoricalDtype(levels, ordered=bool(spec["ordered"]))
    return pd.Series(pd.Categorical.from_codes(_codes(reader, spec["codes"], len(levels)), dtype=dtype))


def _read_text(spec: Any, reader: Reader) -> pd.Series:
    labels = reader.texts(spec["labels"])
    codes = _codes(reader, spec["codes"], len(labels))
    reader.spend(8 * len(codes))
    values = np.array([*labels, None], dtype=object)[codes]
    return pd.Series(values, dtype=object if spec.get("objects", False) else None)


def write_index(index: pd.Index, writer: Writer) -> dict[str, Any]:
    """Row labels as JSON; those that cannot be stored become text."""
    if isinstance(index, pd.RangeIndex):
        return {"kind": "range", "range": [index.start, index.stop, index.step]}
    levels = [_write_labels(pd.Series(index.get_level_values(level)), writer) for level in range(index.nlevels)]
    return {"kind": "labels", "levels": levels, "names": [None if name is None else str(name) for name in index.names]}


def _write_labels(labels: pd.Series, writer: Writer) -> dict[str, Any]:
    try:
        return _write_column(labels, writer)
    except UnstorableError:  # periods, time zones, tuples: their text still identifies the rows
        return _write_column(pd.Series([str(label) for label in labels]), writer)


def read_index(spec: Any, reader: Reader, rows: int) -> pd.Index:
    """Row labels from their JSON."""
    if spec["kind"] == "range":
        index: pd.Index = pd.RangeIndex(*(int(part) for part in spec["range"]))
    else:
        levels = [_read_column(level, reader) for level in spec["levels"]]
        if len({len(level) for level in levels} | {rows}) > 1:
            raise ValueError("an index of the wrong length")
        index = pd.Index(levels[0]) if len(levels) == 1 else pd.MultiIndex.from_arrays(levels)
        if not all(name is None or isinstance(name, str) for name in spec["names"]):
            raise ValueError("an index whose names are not text")
        index = index.set_names(spec["names"])
    if len(index) != rows:
        raise ValueError("an index of the wrong length")
    return index
