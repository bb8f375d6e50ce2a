"""The user's table, from any data frame library, as one pandas frame with three kinds of column.

In: pandas, polars (eager or lazy), pyarrow or anything narwhals reads. Out: a pandas frame of the needed columns with
a fresh index, in which a column is float64, categorical, or unchanged if neither is possible. Missing values are NaN.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.design.arrow import copy_table, decode, is_arrow, to_series
from riesz.errors import DataError, listing, nearest
from riesz.syntax.backticks import quote
from riesz.syntax.counterfactual import replace_columns
from riesz.syntax.labels import label, labels

_MOST_NUMERIC_GROUPS = 20
_SMALL = 2**26  # bytes; smaller tables are copied
_COPY_ON_WRITE = int(pd.__version__.partition(".")[0]) >= 3
_ARROW_INDEX = re.compile(r"__index_level_\d+__")  # pandas' row labels in an Arrow table
_FILE = re.compile(r"^[^~]*([\\/]|\.\w{1,8}$)")  # a path, or a name with an ending, but not a formula
LARGEST, SMALLEST = 1e100, 1e-100  # squares of numbers outside these limits overflow or become zero


@dataclass(frozen=True)
class ClusterLabels:
    """How rows are clustered: not at all, one way or two ways.

    Attributes
    ----------
    names : tuple of str
    codes : tuple of ndarray of int, each of shape (n,)
        Cluster of each row, coded 0, 1, ... in the order of the labels.
    labels : tuple of pandas.Index
        The user's labels of the clusters, in the order of their codes.
    """

    names: tuple[str, ...]
    codes: tuple[npt.NDArray[np.intp], ...]
    labels: tuple[pd.Index, ...]

    def describe(self) -> str:
        """A short text for the summary."""
        parts = [f"{name} ({int(codes.max()) + 1})" for name, codes in zip(self.names, self.codes, strict=True)]
        return "cluster: " + " and ".join(parts)


@dataclass(frozen=True)
class Groups:
    """How rows fall into groups.

    Attributes
    ----------
    name : str
    levels : tuple of str
    codes : ndarray of int, shape (n,)
        Group of each row, in the order of ``levels``; -1 where it is missing.
    """

    name: str
    levels: tuple[str, ...]
    codes: npt.NDArray[np.intp]


class Table:
    """The user's data, whose columns are converted on demand.

    Later changes to the user's data have no effect on it. Tables of up to 64 MB are copied. Larger ones, which many fits may hold,
    share their columns with the user's until either is changed (pandas' copy-on-write; polars and Arrow never change a column in
    place). Before pandas 3 every pandas table is copied.

    Attributes
    ----------
    columns : tuple of str
    rows : int
    """

    def __init__(self, data: Any) -> None:
        self._native: Any
        if isinstance(data, pd.DataFrame):
            small = int(data.memory_usage().sum()) <= _SMALL
            self._native, names = data.copy(deep=small or not _COPY_ON_WRITE), list(data.columns)
        else:
            self._native, names = _read(data)
        not_text = [name for name in names if not isinstance(name, str)]
        if not_text:
            raise DataError(
                f"Column names must be text; got {listing(not_text)}. Rename them: data.columns = map(str, data.columns)."
            )
        twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        if twice:
            raise DataError(f"The data have duplicate column names: {listing(twice)}. Rename or drop one of each.")
        self.columns = tuple(names)
        self.rows = len(self._native)
        if self.rows == 0 or not names:
            raise DataError(
                f"The data are empty ({self.rows} rows, {len(names)} columns). Check the filter or the file they come from."
            )

    def to_pandas(self, columns: Sequence[str]) -> pd.DataFrame:
        """The named columns, normalised, with a fresh index."""
        return pd.DataFrame({name: normalise(self._column(name)) for name in columns}, index=range(self.rows))

    def export(self) -> pd.DataFrame:
        """The whole table in pandas, with its columns unchanged."""
        if isinstance(self._native, pd.DataFrame):
            return self._native
        return pd.DataFrame({name: self._column(name) for name in self.columns})

    def index(self, kept: npt.NDArray[np.intp]) -> pd.Index:
        """The user's row labels of some rows; their numbers when the table has no labels."""
        return self._native.index[kept] if isinstance(self._native, pd.DataFrame) else pd.Index(kept)

    def per_row(self, spec: Any, what: str) -> pd.Series:
        """One value for each row of the table, from a column's name or from an array of the same length."""
        if isinstance(spec, str):
            if spec not in self.columns:
                raise DataError(f"{what}={spec!r} is not a column of the data.{nearest(spec, self.columns)}")
            return self._column(spec)
        if isinstance(spec, pd.Series):
            self.check_index(spec, what)
        if np.shape(spec) != (self.rows,):
            raise DataError(
                f"{what} has the wrong length: shape {np.shape(spec)}; expected one value for each of the {self.rows} rows of the "
                "data, or a column's name."
            )
        return _series(spec)

    def check_index(self, values: pd.Series, what: str) -> None:
        """Refuse a Series whose index differs from the data's: values are used by position, so it would be misaligned silently."""
        if (
            isinstance(self._native, pd.DataFrame)
            and len(values) == self.rows
            and not values.index.equals(self._native.index)
        ):
            raise DataError(
                f"{what} is a Series whose index differs from the data's, so its values would fall on the wrong rows. Align it "
                "(series.reindex(data.index)), make it a column, or pass series.to_numpy() if the order is right."
            )

    def clusters(self, spec: Any, kept: npt.NDArray[np.intp]) -> ClusterLabels:
        """Read a ``cluster=`` argument on the rows in use: None, a column's name, two of them, or arrays."""
        columns = self.cluster_columns(spec)
        codes, labels = [], []
        for name, column in columns.items():
            used = column.iloc[kept]
            if used.isna().any():
                raise DataError(
                    f"cluster `{name}` is missing on {int(used.isna().sum())} rows in use; give every row a cluster."
                )
            try:
                numbers, levels = pd.factorize(used, sort=True)
            except TypeError:
                raise DataError(
                    f"cluster `{name}` holds {used.dtype} values; cluster labels must be text or numbers."
                ) from None
            if numbers.max() == 0:
                raise DataError(f"cluster `{name}` has a single value; clustered errors need at least two clusters.")
            codes.append(np.asarray(numbers, dtype=np.intp))
            labels.append(pd.Index(levels, name=name))
        return ClusterLabels(tuple(columns), tuple(codes), tuple(labels))

    def cluster_columns(self, spec: Any) -> dict[str, pd.Series]:
        """The labels of a ``cluster=`` argument on every row of the table, by name."""
        if spec is None:
            return {}
        if isinstance(spec, pd.DataFrame):
            parts = [spec[name] for name in spec.columns]
        elif isinstance(spec, (list, tuple)) and (len(spec) <= 2 or (len(spec) < self.rows and _is_column(spec[0]))):
            parts = list(spec)
        elif not isinstance(spec, str) and np.ndim(spec) == 2:
            parts = list(np.asarray(spec).T)
        else:
            parts = [spec]
        if not 1 <= len(parts) <= 2:
            raise DataError(
                f"cluster names {len(parts)} ways to cluster; expected one or two. Keep those that matter most."
            )
        user_names = [part if isinstance(part, str) else getattr(part, "name", None) for part in parts]
        names = [str(name or f"cluster {number + 1}") for number, name in enumerate(user_names)]
        if len(set(names)) < len(names):
            raise DataError(
                f"Both ways to cluster are called {names[0]!r}; expected two different ones. Rename one or leave it out."
            )
        return {name: self.per_row(part, "cluster") for name, part in zip(names, parts, strict=True)}

    def groups(self, spec: Any, kept: npt.NDArray[np.intp]) -> Groups:
        """Read a column's name, or one label for each row of the table, as groups of the rows in use."""
        name = spec if isinstance(spec, str) else str(getattr(spec, "name", None) or "group")
        return make_groups(name, self.per_row(spec, "by").iloc[kept].reset_index(drop=True))

    def _column(self, name: str) -> pd.Series:
        if isinstance(self._native, pd.DataFrame):
            return decode(self._native[name].reset_index(drop=True))
        return _from_narwhals(self._native[name], name in self._categories).rename(name)

    @cached_property
    def _categories(self) -> frozenset[str]:
        """The columns of an Arrow table that were ordered categories in pandas."""
        if isinstance(self._native, pd.DataFrame) or not self._native.implementation.is_pyarrow():
            return frozenset()
        described = (self._native.to_native().schema.pandas_metadata or {}).get("columns", [])
        return frozenset(
            column["name"]
            for column in described
            if column["pandas_type"] == "categorical"
            and column["numpy_type"].startswith("int")  # the type of the codes
        )


def _from_narwhals(column: nw.Series[Any], keep_order: bool = False) -> pd.Series:
    if column.implementation.is_pyarrow():
        return to_series(column.to_native(), keep_order)
    if column.dtype == nw.Categorical and column.implementation.is_polars():
        column = column.cast(nw.String)  # polars orders categories by appearance, other libraries by name
    if column.dtype in (nw.Int128, nw.UInt128):  # pandas and Arrow have none
        return pd.Series(column.to_list(), dtype=object)
    try:
        return pd.Series(column.to_pandas()).reset_index(drop=True)
    except (ModuleNotFoundError, ImportError):  # polars without pyarrow
        return pd.Series(column.to_list())


def _series(values: Any) -> pd.Series:
    """One value per row, from any array or column; categories stay categories."""
    if isinstance(values, (pd.Series, pd.Index, pd.api.extensions.ExtensionArray)):
        return decode(pd.Series(values).reset_index(drop=True))
    if is_arrow(values):
        return to_series(values)
    column = nw.from_native(values, series_only=True, pass_through=True)
    return _from_narwhals(column) if isinstance(column, nw.Series) else pd.Series(np.asarray(values))


def _is_column(part: object) -> bool:
    """Whether one entry of a list stands for a whole column: its name, or its values."""
    return isinstance(part, str) or np.ndim(part) > 0  # type: ignore[arg-type]


def _read(data: Any) -> tuple[Any, list[str]]:
    if isinstance(data, (str, PurePath)) and _FILE.search(str(data)):
        raise DataError(
            f"data is the name of a file; expected a table. Read it first: data = pandas.read_csv({str(data)!r})."
        )
    try:
        frame = nw.from_native(data)
    except TypeError:
        raise DataError(
            f"data is a {type(data).__name__}; expected a pandas, polars or pyarrow table. Arrays become one with "
            "pandas.DataFrame({'y': y, 'a': a, ...})."
        ) from None
    eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    if eager.implementation.is_pyarrow():
        native = eager.to_native()
        names = [name for name in native.column_names if not _ARROW_INDEX.fullmatch(name)]
        return nw.from_native(copy_table(native) if native.nbytes <= _SMALL else native), names
    small = eager.estimated_size() <= _SMALL
    return eager[np.arange(len(eager))] if small else eager.clone(), list(eager.columns)


def normalise(column: pd.Series) -> pd.Series:
    """Numbers and booleans to float64, text to categories; a category keeps its order and loses unused levels."""
    column = decode(column)
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return column.cat.remove_unused_categories()
    if dtype == np.float64 or pd.api.types.is_complex_dtype(dtype) or pd.api.types.is_timedelta64_dtype(dtype):
        return column
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        return column.astype("Float64").astype("float64") if column.isna().any() else column.astype("float64")
    if pd.api.types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype) or dtype.kind in "mM":
        return column
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind in ("date", "datetime", "time", "timedelta", "complex") or (
        kind == "mixed" and column.map(is_nested).any()
    ):
        return column
    if kind in ("integer", "floating", "mixed-integer-float", "boolean", "decimal"):
        return pd.to_numeric(column.astype(object).where(column.notna(), np.nan)).astype("float64")
    text = column.astype(object).where(column.notna(), np.nan)
    try:
        return pd.Series(pd.Categorical(text), index=column.index, name=column.name)
    except TypeError:
        return column


def is_nested(value: object) -> bool:
    """Whether something holds several values, and so is neither a number nor a label."""
    return isinstance(value, (tuple, list, dict, set, frozenset, np.ndarray))


def make_groups(name: str, column: pd.Series) -> Groups:
    """Groups from labels, booleans or a few numbers."""
    if pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        column = column.map({True: "True", False: "False"}, na_action="ignore").astype("category")
    column = normalise(column)
    if column.dtype == np.float64:
        distinct = np.unique(column.dropna())
        if len(distinct) > _MOST_NUMERIC_GROUPS:
            raise DataError(
                f"`{name}` has {len(distinct)} distinct numbers; expected at most {_MOST_NUMERIC_GROUPS} groups. Cut it first, for "
                f"example with pandas.qcut(data[{name!r}], 4), or project on it with fit.blp('~ {quote(name)}')."
            )
        column = pd.Series(pd.Categorical(column, categories=distinct))
    if not isinstance(column.dtype, pd.CategoricalDtype):
        raise DataError(f"`{name}` is {column.dtype}; groups must be labels, booleans or a few numbers.")
    levels = labels(column.cat.categories)
    if len(levels) > max(2, len(column) / 2):
        raise DataError(f"`{name}` has {len(levels)} groups in {len(column)} rows, like an identifier; merge some.")
    if not levels:
        raise DataError(f"`{name}` is missing on every row in use; every row needs a group.")
    return Groups(name, levels, column.cat.codes.to_numpy(dtype=np.intp))


def refuse_unusable(data: pd.DataFrame, columns: Sequence[str]) -> None:
    """Raise helpful errors for dates, nested values, infinities and columns of identifiers."""
    for name in columns:
        column = data[name]
        if column.dtype == np.float64:
            size = np.abs(column.to_numpy())
            infinite = int((size > LARGEST).sum())
            if 0 < size.max(initial=0.0) < SMALLEST:
                raise DataError(
                    f"Column `{name}` holds only numbers below {label(SMALLEST)}, whose squares become zero. Rescale it, for "
                    f"example by data[{name!r}] / data[{name!r}].std()."
                )
            if infinite:
                raise DataError(
                    f"Column `{name}` has {infinite} infinite values (or beyond {label(LARGEST)}). Set them to missing or "
                    "drop those rows."
                )
        elif isinstance(column.dtype, pd.CategoricalDtype):
            levels = len(column.cat.categories)
            if (levels > 100 and levels > len(data) / 4) or (levels > 10 and levels > 0.9 * len(data)):
                raise DataError(
                    f"Column `{name}` has {levels} distinct labels in {len(data)} rows, like an identifier; as a factor it would "
                    f"add a column for each. Leave it out with {_without(name)}."
                )
        else:
            raise DataError(
                f"Column `{name}` is {column.dtype}; expected numbers, booleans or labels. Convert it, or leave it out with "
                f"{_without(name)}."
            )


def _without(name: str) -> str:
    """How a formula leaves a column out of ``.``."""
    quoted = quote(name)
    return f"`. - {name}`" if quoted == name else f"'. - {quoted}'"


def drop_missing(data: pd.DataFrame, columns: Sequence[str], na_action: str) -> pd.DataFrame:
    """Rows with nothing missing in the named columns; the index holds their old positions.

    Parameters
    ----------
    data : pandas.DataFrame
    columns : sequence of str
        The columns that must not be missing.
    na_action : {"drop", "raise"}
    """
    if na_action not in ("drop", "raise"):
        raise DataError(f"na_action={na_action!r}: expected 'drop' or 'raise'.")
    missing = {name: int(count) for name in columns if (count := data[name].isna().sum())}
    if not missing:
        return data
    worst = sorted(missing, key=lambda name: -missing[name])
    counts = ", ".join(f"`{name}` ({missing[name]})" for name in worst[:6])
    if na_action == "raise":
        raise DataError(f"Missing values in {counts}, and na_action='raise'. Fill them, or use na_action='drop'.")
    kept = data[data[list(columns)].notna().all(axis=1)]
    if kept.empty:
        raise DataError(
            f"Every row has a missing value among the columns used: {counts} of {len(data)} rows. Leave the emptiest columns out "
            "of the formula, or fill them."
        )
    categorical = [name for name in kept.columns if isinstance(kept[name].dtype, pd.CategoricalDtype)]
    return replace_columns(kept, {name: kept[name].cat.remove_unused_categories() for name in categorical})
