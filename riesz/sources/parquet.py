"""Data on disk, read in chunks: a Parquet file, folder or glob, or a dataset of pyarrow.

In: what the user passed as ``data=``. Out: a :class:`Source`, which yields Arrow tables with only the columns that are asked for.
pyarrow is imported only here, and only for a source.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Protocol

from riesz.errors import DataError, listing, nearest

_ENDINGS = (".parquet", ".pq")
_NUMBERS, _MOST, _FEWEST = 2_880_000, 2**17, 2**12  # in a chunk; most and fewest rows


def chunk_rows(columns: int) -> int:
    """Rows per chunk: many, so that the work per chunk does not matter, but few if there are many columns.

    Examples
    --------
    >>> from riesz.sources.parquet import chunk_rows
    >>> chunk_rows(5), chunk_rows(100)
    (131072, 28800)
    """
    return min(max(_NUMBERS // columns, _FEWEST), _MOST)


@dataclass(frozen=True)
class Chunk:
    """Some rows of one file.

    Attributes
    ----------
    table : pyarrow.Table
    file : int
        The number of the file.
    name : str
        The file, for messages.
    first : int
        The number of its first row in the file.
    """

    table: Any
    file: int
    name: str
    first: int


class Source(Protocol):
    """Data that are read in chunks, in the same order every time.

    Attributes
    ----------
    columns : tuple of str
        All columns.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns."""

    def chunks(self, columns: Sequence[str], size: int) -> Iterator[Chunk]:
        """Read some columns, at most ``size`` rows at a time; raises :class:`~riesz.errors.DataError` if they cannot be read."""

    def check(self, columns: Sequence[str]) -> None:
        """Refuse columns that a file lacks, or whose type changes between files."""


def open_source(data: object) -> Source | None:
    """The source that an argument ``data=`` stands for; None if it is something else, such as a table.

    A source is a path (text or ``pathlib.Path``) that ends in ``.parquet``, an existing folder, a glob such as
    ``"sales/*.parquet"``, or a ``pyarrow.dataset.Dataset``.
    """
    if isinstance(data, (str, PurePath)):
        path = os.path.expanduser(os.fspath(data))
        if path.endswith(_ENDINGS) or os.path.isdir(path):
            _need_pyarrow()
            return ParquetFiles.open(path)
        return None
    if type(data).__module__.startswith("pyarrow._dataset"):
        return DatasetSource(data)
    return None


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files, in the order of their names, read one row group after the other.

    Attributes
    ----------
    files : tuple of str
    columns : tuple of str
        Those of the first file.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def open(cls, path: str) -> ParquetFiles:
        """The files of a path, a folder or a glob."""
        files = _find_files(path)
        return cls(files, tuple(_schema(files[0]).names))

    def check(self, columns: Sequence[str]) -> None:
        kinds: dict[str, tuple[str, str, str]] = {}
        for file in self.files:
            schema = _schema(file)
            for name in columns:
                if name not in schema.names:
                    raise _absent(name, file, schema.names)
                kind = _kind(schema.field(name).type, name, file)
                before = kinds.setdefault(name, (kind, file, str(schema.field(name).type)))
                if before[0] == "empty":
                    kinds[name] = (kind, file, str(schema.field(name).type))
                elif kind not in ("empty", before[0]):
                    raise DataError(
                        f"Column `{name}` is {schema.field(name).type} in {file} but {before[2]} in {before[1]}; expected the same "
                        "type in all files. Write it again with one type."
                    )

    def chunks(self, columns: Sequence[str], size: int) -> Iterator[Chunk]:
        import pyarrow

        for number, file in enumerate(self.files):
            first = 0
            try:
                for batch in _open(file).iter_batches(batch_size=size, columns=list(columns)):
                    if batch.num_rows:
                        yield Chunk(pyarrow.Table.from_batches([batch]), number, file, first)
                        first += batch.num_rows
            except (pyarrow.ArrowException, OSError) as error:
                raise _unreadable(file, error, _first_unreadable(file, columns)) from None


@dataclass(frozen=True)
class DatasetSource:
    """A dataset of pyarrow, read in the order of its files.

    Attributes
    ----------
    dataset : pyarrow.dataset.Dataset
    """

    dataset: Any

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns."""
        return tuple(self.dataset.schema.names)

    def check(self, columns: Sequence[str]) -> None:
        for name in columns:
            _kind(self.dataset.schema.field(name).type, name, "the dataset")

    def chunks(self, columns: Sequence[str], size: int) -> Iterator[Chunk]:
        import pyarrow

        first, where = 0, "the dataset"
        try:
            batches = self.dataset.to_batches(
                columns=list(columns), batch_size=size, batch_readahead=1, fragment_readahead=1
            )
            for batch in batches:
                if batch.num_rows:
                    yield Chunk(pyarrow.Table.from_batches([batch]), 0, where, first)
                    first += batch.num_rows
        except (pyarrow.ArrowException, OSError) as error:
            raise _unreadable(where, error, None) from None


def _need_pyarrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise DataError("Reading Parquet files needs pyarrow. Install it: pip install pyarrow.") from None


def _find_files(path: str) -> tuple[str, ...]:
    if os.path.isdir(path):
        files = [
            str(file)
            for file in Path(path).rglob("*")
            if file.suffix in _ENDINGS and not any(part[0] in "._" for part in file.relative_to(path).parts)
        ]
        if not files:
            raise DataError(f"The folder {path} has no Parquet files; expected names that end in {listing(_ENDINGS)}.")
        return tuple(sorted(files))
    if os.path.isfile(path):
        return (path,)
    files = sorted(glob.glob(path, recursive=True))
    if not files:
        raise DataError(f"There is no file {path}. Check the path; a relative path starts at {os.getcwd()}.")
    return tuple(files)


def _open(file: str) -> Any:
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(file)
    except FileNotFoundError:
        raise DataError(f"The file {file} no longer exists. Do not change files while a fit reads them.") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(file, error, None) from None


def _schema(file: str) -> Any:
    return _open(file).schema_arrow


def _kind(kind: Any, name: str, file: str) -> str:
    """What a column's type counts as; types that differ only in size count as the same."""
    from pyarrow import types

    if types.is_dictionary(kind):
        if kind.ordered:
            raise DataError(
                f"Column `{name}` of {file} is an ordered category, whose order may differ between chunks. Write it as text, or "
                "leave it out; levels are then in alphabetical order."
            )
        kind = kind.value_type
    if types.is_null(kind):
        return "empty"
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    raise DataError(
        f"Column `{name}` of {file} is {kind}; expected numbers, booleans or text. Convert it, or leave it out of the formula."
    )


def _absent(name: str, file: str, names: Sequence[str]) -> DataError:
    hint = ""
    if f"{name}=" in file:
        hint = " It is in the names of folders: pass pyarrow.dataset.dataset(folder, partitioning='hive')."
    return DataError(f"The file {file} has no column `{name}`, which the fit needs.{hint or nearest(name, names)}")


def _first_unreadable(file: str, columns: Sequence[str]) -> str | None:
    """The first column that cannot be read; None if no column can be blamed."""
    import pyarrow

    for name in columns:
        try:
            for _ in _open(file).iter_batches(columns=[name]):
                pass
        except (pyarrow.ArrowException, OSError, DataError):
            return name
    return None


def _unreadable(file: str, error: Exception, column: str | None) -> DataError:
    reason = str(error).strip().split("\n")[0]
    what = f"Column `{column}` of {file}" if column else file[:1].upper() + file[1:]
    return DataError(f"{what} cannot be read: {reason}. Write the file again, or leave it out of the folder.")
