"""Data frames as JSON and arrays, and back: numbers as they are, labels as codes, dates as counts.

Columns of other kinds (nested values, time zones) are left out and named.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from riesz.storage.coding import Reader, UnstorableError, Writer

_NULLABLE = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64", "boolean")


def write_frame(frame: pd.DataFrame, writer: Writer) -> dict[str, Any]:
    """A frame as JSON; ``lost`` names the columns that could not be stored."""
    columns, lost = [], []
    for name in frame.columns:
        try:
            columns.append([name, _write_column(frame[name].reset_index(drop=True), writer)])
        except UnstorableError:
            lost.append(name)
    return {"rows": len(frame), "columns": columns, "index": write_index(frame.index, writer), "lost": lost}


def read_frame(stored: Any, reader: Reader) -> pd.DataFrame:
    """The frame back."""
    made = {name: _read_column(spec, reader) for name, spec in stored["columns"]}
    frame = pd.DataFrame(made, index=range(stored["rows"]))
    if any(len(column) != stored["rows"] for column in made.values()):
        raise ValueError("columns of different lengths")
    return frame.set_axis(read_index(stored["index"], reader, stored["rows"]), axis=0)


def _write_column(column: pd.Series, writer: Writer) -> dict[str, Any]:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        kinds = (str, bool, int, float, np.generic)
        return {
            "kind": "category",
            "codes": writer.array(column.cat.codes.to_numpy()),
            "labels": writer.write([level if isinstance(level, kinds) else str(level) for level in dtype.categories]),
            "objects": bool(dtype.categories.dtype == object),
            "ordered": bool(dtype.ordered),
        }
    if str(dtype) in _NULLABLE:
        return {
            "kind": "nullable",
            "dtype": str(dtype),
            "values": writer.array(column.to_numpy(float, na_value=np.nan)),
        }
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return {"kind": "numbers", "values": writer.array(column.to_numpy())}
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return {"kind": "dates", "dtype": str(dtype), "values": writer.array(column.to_numpy().view("int64"))}
    if pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty"):
        codes, found = pd.factorize(column)
        return {
            "kind": "text",
            "codes": writer.array(np.asarray(codes)),
            "labels": writer.write([str(x) for x in found]),
        }
    if pd.api.types.infer_dtype(column, skipna=True) in (
        "integer",
        "floating",
        "mixed-integer-float",
        "boolean",
        "decimal",
    ):
        values = pd.to_numeric(column.astype(object).where(column.notna(), np.nan)).to_numpy(dtype=float)
        return {"kind": "numbers", "values": writer.array(values)}
    raise UnstorableError(f"A column of {dtype} cannot be stored in a file.")


def _read_column(spec: Any, reader: Reader) -> pd.Series:
    match spec["kind"]:
        case "numbers":
            return pd.Series(reader.read({"array": spec["values"]}))
        case "nullable" if spec["dtype"] in _NULLABLE:
            values = pd.Series(reader.read({"array": spec["values"]}))
            return values.astype("Float64").where(values.notna(), pd.NA).astype(spec["dtype"])
        case "dates" if str(spec["dtype"]).startswith("datetime64["):
            return pd.Series(reader.read({"array": spec["values"]}).view(np.dtype(spec["dtype"])))
        case "category":
            labels = pd.Index(reader.read(spec["labels"]), dtype=object if spec["objects"] else None)
            dtype = pd.CategoricalDtype(labels, ordered=spec["ordered"])
            return pd.Series(pd.Categorical.from_codes(reader.read({"array": spec["codes"]}), dtype=dtype))
        case "text":
            codes = reader.read({"array": spec["codes"]})
            texts = np.array([*reader.read(spec["labels"]), None], dtype=object)
            return pd.Series(texts[codes])
    raise ValueError(f"unknown column {str(spec)[:60]}")


def write_index(index: pd.Index, writer: Writer) -> dict[str, Any]:
    """Row labels as JSON; those that cannot be stored become what is printed of them."""
    if isinstance(index, pd.RangeIndex):
        return {"kind": "range", "range": [index.start, index.stop, index.step]}
    levels = [_write_labels(pd.Series(index.get_level_values(level)), writer) for level in range(index.nlevels)]
    return {"kind": "labels", "levels": levels, "names": [None if name is None else str(name) for name in index.names]}


def _write_labels(labels: pd.Series, writer: Writer) -> dict[str, Any]:
    try:
        return _write_column(labels, writer)
    except UnstorableError:  # periods, time zones, tuples: their text still tells the rows apart, and reads the same
        return _write_column(pd.Series([str(label) for label in labels]), writer)


def read_index(spec: Any, reader: Reader, rows: int) -> pd.Index:
    """The row labels back."""
    if spec["kind"] == "range":
        made: pd.Index = pd.RangeIndex(*spec["range"])
    else:
        levels = [_read_column(level, reader) for level in spec["levels"]]
        made = pd.Index(levels[0]) if len(levels) == 1 else pd.MultiIndex.from_arrays(levels)
        made = made.set_names(spec["names"])
    if len(made) != rows:
        raise ValueError("an index of the wrong length")
    return made
