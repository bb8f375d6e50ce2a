"""The rows of a source that a fit uses, chunk by chunk: normalised columns, weights, hashes, without missing values.

In: a :class:`~riesz.sources.parquet.Source` and what a fit needs from it. Out: :class:`CleanRows`, the same in every pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.design.table import LARGEST, SMALLEST, Table, normalise, refuse_unusable
from riesz.errors import DataError, nearest
from riesz.sources.fold_hash import row_hashes
from riesz.sources.parquet import Chunk, Source
from riesz.syntax.counterfactual import replace_columns


@dataclass(frozen=True)
class CleanRows:
    """The rows of one chunk that are used.

    Attributes
    ----------
    frame : pandas.DataFrame, n rows
        The columns of formula and estimands: float64, or categories.
    sampling, frequency : ndarray, shape (n,)
    hashes : ndarray of uint64, shape (n,)
    fold_labels : pandas.Series or None
        The user's fold labels.
    total : int
        Rows of the chunk, with those that are not used.
    """

    frame: pd.DataFrame
    sampling: Array
    frequency: Array
    hashes: npt.NDArray[np.uint64]
    fold_labels: pd.Series | None
    total: int

    @property
    def weights(self) -> Array:
        """Sampling weight times frequency weight, shape (n,)."""
        return self.sampling * self.frequency

    def take(self, rows: npt.NDArray[np.intp]) -> CleanRows:
        """Some of the rows."""
        labels = None if self.fold_labels is None else self.fold_labels.iloc[rows].reset_index(drop=True)
        frame = self.frame.iloc[rows].reset_index(drop=True)
        return CleanRows(frame, self.sampling[rows], self.frequency[rows], self.hashes[rows], labels, self.total)


@dataclass(frozen=True)
class RowReader:
    """Reads what a fit needs from a source; iterate over :meth:`chunks` once per pass.

    Attributes
    ----------
    source : Source
    columns : tuple of str
        Those of formula and estimands.
    weights, freq_weights, folds : str or None
        Names of columns.
    na_action : {"drop", "raise"}
    seed : int
        Of the hashes.
    size : int
        Rows per chunk.
    """

    source: Source
    columns: tuple[str, ...]
    weights: str | None
    freq_weights: str | None
    folds: str | None
    na_action: str
    seed: int
    size: int

    def check(self) -> None:
        """Refuse columns that do not exist or change their type, before anything is read."""
        for argument in ("weights", "freq_weights", "folds"):
            name: str | None = getattr(self, argument)
            if name is not None and name not in self.source.columns:
                raise DataError(f"{argument}={name!r} is not a column of the data.{nearest(name, self.source.columns)}")
        self.source.check(self._all_columns)

    @property
    def _all_columns(self) -> list[str]:
        extra = [name for name in (self.weights, self.freq_weights, self.folds) if name is not None]
        return list(dict.fromkeys([*self.columns, *extra]))

    def chunks(self) -> Iterator[CleanRows]:
        """The used rows of every chunk; chunks without any are left out, except that their rows count."""
        for chunk in self.source.chunks(self._all_columns, self.size):
            yield self._clean(chunk)

    def _clean(self, chunk: Chunk) -> CleanRows:
        everything = self._all_columns
        table = Table(_with_dictionaries(chunk.table))
        frame = table.to_pandas(everything)
        present = frame.notna().to_numpy()
        if self.na_action == "raise" and not present.all():
            first = everything[int(np.flatnonzero(~present.all(axis=0))[0])]
            raise DataError(
                f"Missing values in `{first}` of {chunk.name}, and na_action='raise'. Fill them, or use na_action='drop'."
            )
        used = present.all(axis=1)
        sampling = self._weight(frame, self.weights, chunk.name, used)
        frequency = self._weight(frame, self.freq_weights, chunk.name, used)
        if self.freq_weights is not None and (frequency[used] != np.round(frequency[used])).any():
            raise DataError("freq_weights count rows, so they must be whole numbers. For survey weights use weights=.")
        used &= np.nan_to_num(sampling * frequency) > 0
        hashes = row_hashes(self.seed, chunk.file, chunk.first, len(frame))
        kept = np.flatnonzero(used)
        if len(kept) < len(frame):
            frame = frame.iloc[kept].reset_index(drop=True)
        refuse_unusable(frame, [name for name in self.columns if frame[name].dtype == np.float64])
        labels = None if self.folds is None else frame[self.folds]
        return CleanRows(
            frame[list(self.columns)], sampling[kept], frequency[kept], hashes[kept], labels, chunk.table.num_rows
        )

    def _weight(self, frame: pd.DataFrame, name: str | None, file: str, used: npt.NDArray[np.bool_]) -> Array:
        if name is None:
            return np.ones(len(frame))
        column = normalise(frame[name])
        if column.dtype != np.float64:
            raise DataError(f"The weights `{name}` of {file} are {column.dtype}; expected numbers, one per row.")
        values = column.to_numpy()
        size = np.abs(values[used])
        if (values[used] < 0).any() or (size > LARGEST).any() or ((size > 0) & (size < SMALLEST)).any():
            raise DataError(
                f"The weights `{name}` of {file} are negative, infinite or extremely small on some rows; expected 0, or numbers "
                f"between {SMALLEST:g} and {LARGEST:g}."
            )
        return np.asarray(values)


def _with_dictionaries(table: Any) -> Any:
    """Text as dictionaries, which become categories much faster."""
    from pyarrow import types

    for place, field in enumerate(table.schema):
        if types.is_string(field.type) or types.is_large_string(field.type):
            table = table.set_column(place, field.name, table.column(place).dictionary_encode())
    return table.replace_schema_metadata(None)  # of pandas: levels are in alphabetical order


def with_levels(frame: pd.DataFrame, levels: dict[str, pd.CategoricalDtype]) -> pd.DataFrame:
    """The frame with all levels of its factors."""
    changes = {name: frame[name].astype(dtype) for name, dtype in levels.items() if name in frame.columns}
    return replace_columns(frame, changes) if changes else frame
