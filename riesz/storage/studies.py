"""The file of a simulation study: rows as CSV, and beside it a JSON file that says which study they belong to.

A study that is stopped, or killed, goes on from its file. So the file must hold one study and whole draws: another study is
refused, with what differs, and lines that were cut off while they were written are dropped.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from riesz.errors import DataError

Identity = Mapping[str, Any]
COLUMNS = ("simulation", "n", "draw", "verb", "parameter", "truth", "oracle", "estimate", "std_error", "covered")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # addresses in memory differ between runs


def words(value: object) -> Any:
    """A setting as a file keeps it: plain values as they are, arrays by their content, all else by its text.

    Examples
    --------
    >>> from riesz.storage.studies import words
    >>> words((1, "loo", None))
    [1, 'loo', None]
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): words(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [words(item) for item in value]
    if isinstance(value, (np.ndarray, pd.Series)):
        content = hashlib.sha256(repr(np.asarray(value).tolist()).encode()).hexdigest()[:16]
        return f"{len(value)} values with checksum {content}"
    return _ADDRESS.sub("", repr(value))


def settings_of(name: str, thing: object) -> dict[str, Any]:
    """The type of an object with settings, and each of them: ``{"learner": "Linear", "learner.penalty": "loo", ...}``.

    Examples
    --------
    >>> import riesz
    >>> from riesz.storage.studies import settings_of
    >>> settings_of("learner", riesz.Linear())["learner.penalty"]
    'loo'
    """
    if not is_dataclass(thing) or isinstance(thing, type):
        return {name: words(thing)}
    settings = {f"{name}.{field.name}": words(getattr(thing, field.name)) for field in fields(thing)}
    return {name: type(thing).__name__, **settings}


class StudyFile:
    """Where a study keeps its draws.

    Parameters
    ----------
    path : Path
        The CSV file; the JSON file is called the same with ``.json`` added.
    identity : mapping
        What the study is, one entry for each thing in which studies may differ.
    rows : int
        How many rows a draw has.
    """

    def __init__(self, path: Path, identity: Identity, rows: int) -> None:
        self._path, self._rows = path, rows
        self._beside = Path(f"{path}.json")
        self._identity = json.loads(json.dumps(identity))  # as it will be read again

    def open(self) -> pd.DataFrame:
        """The draws that are there; what is not whole is taken out of the file, and a new file is begun."""
        if self._path.is_dir():
            raise DataError(f"path={str(self._path)!r} is a folder. Give the name of a file in it.")
        try:
            content = self._path.read_bytes() if self._path.exists() else b""
            if not content:
                self._replace(self._beside, json.dumps(self._identity, indent=2) + "\n")
                self._replace(self._path, ",".join(COLUMNS) + "\n")
                return _frame([])
            self._check(content)
            records = _whole(content, self._rows)
            text = _text(records)
            if text.encode() != content:
                self._replace(self._path, text)
        except OSError as error:
            raise self._unusable(error) from error
        return _frame(records)

    def append(self, frame: pd.DataFrame) -> None:
        """Add the rows of some draws, in one piece."""
        text = frame[list(COLUMNS)].to_csv(header=False, index=False, lineterminator="\n")
        try:
            with self._path.open(
                "ab", buffering=0
            ) as file:  # one write: rows of another process cannot come in between
                file.write(text.encode())
                os.fsync(file.fileno())
        except OSError as error:
            raise self._unusable(error) from error

    def _check(self, content: bytes) -> None:
        first = content.split(b"\n", 1)[0].rstrip(b"\r").decode(errors="replace")
        if first.split(",") != list(COLUMNS):
            raise DataError(
                f"{self._path} is not the file of a study: its first line is {first[:80]!r}, expected {','.join(COLUMNS)!r}. "
                "Give another path."
            )
        if not self._beside.exists():
            raise DataError(
                f"{self._path} holds draws, but {self._beside}, which says of which study they are, is missing. Give another "
                "path, or remove the file if it may be made anew."
            )
        try:
            known = json.loads(self._beside.read_text())
        except ValueError:
            known = None
        if not isinstance(known, dict):
            raise DataError(
                f"{self._beside} cannot be read, so nothing says of which study the draws in {self._path} are. Give another path, "
                "or remove both files."
            )
        names = list(dict.fromkeys([*known, *self._identity]))
        other = [name for name in names if known.get(name) != self._identity.get(name)]
        if other:
            kind = [name for name in other if "." not in name] or other  # another learner also has other settings
            differences = [
                f"{name} is {known.get(name)!r} there and {self._identity.get(name)!r} here" for name in kind
            ]
            raise DataError(
                f"{self._path} holds the draws of another study: {'; '.join(differences)}. Give another path, or remove the file "
                "if its draws are not needed any more."
            )

    def _replace(self, path: Path, text: str) -> None:
        """Write a file under another name and rename it, so that it is never there in part."""
        handle, name = tempfile.mkstemp(prefix=path.name, suffix=".unfinished", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _unusable(self, error: OSError) -> DataError:
        folder = self._path.parent
        reason = error.strerror or type(error).__name__
        if not folder.is_dir():
            reason = f"there is no folder {folder}; make it first"
        return DataError(f"The draws cannot be kept in {self._path}: {reason}.")


def _whole(content: bytes, rows: int) -> list[list[str]]:
    """The lines of whole draws, each once."""
    written = content[: content.rfind(b"\n") + 1].decode(errors="replace")
    draws: dict[int, dict[tuple[str, str], list[str]]] = {}
    for line in written.splitlines()[1:]:  # by itself: a quote that was cut off must not swallow the next line
        record = next(csv.reader([line]), [])
        if _is_whole(record):
            draws.setdefault(int(record[2]), {})[record[3], record[4]] = record
    return [record for records in draws.values() if len(records) == rows for record in records.values()]


def _is_whole(record: Sequence[str]) -> bool:
    if len(record) != len(COLUMNS) or record[-1] not in ("True", "False"):
        return False
    try:
        _ = int(record[1]), int(record[2]), [float(number) for number in record[5:9] if number]
    except ValueError:
        return False
    return bool(record[5] and record[7])  # a truth and an estimate there are always


def _text(records: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *records])
    return text.getvalue()


def _frame(records: Sequence[Sequence[str]]) -> pd.DataFrame:
    columns = dict(zip(COLUMNS, zip(*records, strict=True), strict=True)) if records else dict.fromkeys(COLUMNS, ())
    number = {name: [float(word or "nan") for word in columns[name]] for name in COLUMNS[5:9]}
    whole = {name: np.array([int(word) for word in columns[name]], dtype=np.int64) for name in ("n", "draw")}
    covered = np.array([word == "True" for word in columns["covered"]], dtype=bool)
    return pd.DataFrame({**columns, **whole, **number, "covered": covered}, columns=list(COLUMNS))
