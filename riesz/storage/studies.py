"""The files of a simulation study: a CSV file with the draws, and a JSON file that describes the study.

A study that was interrupted continues from its file. The file must therefore hold one study and complete draws: the draws of
another study raise an error that names the differences, and lines that were cut off while they were written are dropped.
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
    """A setting as the file holds it: plain values unchanged, arrays as a checksum, everything else as text.

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


def settings_of(name: str, instance: object) -> dict[str, Any]:
    """The type of an object with settings, and each of them: ``{"learner": "Linear", "learner.penalty": "loo", ...}``.

    Examples
    --------
    >>> import riesz
    >>> from riesz.storage.studies import settings_of
    >>> settings_of("learner", riesz.Linear())["learner.penalty"]
    'loo'
    """
    if not is_dataclass(instance) or isinstance(instance, type):
        return {name: words(instance)}
    settings = {f"{name}.{field.name}": words(getattr(instance, field.name)) for field in fields(instance)}
    return {name: type(instance).__name__, **settings}


class StudyFile:
    """The draws of a study in a file.

    Parameters
    ----------
    path : Path
        The CSV file; the JSON file has the same name with ``.json`` added.
    identity : mapping
        The settings of the study, one entry for everything in which studies may differ.
    rows : int
        Number of rows per draw.
    """

    def __init__(self, path: Path, identity: Identity, rows: int) -> None:
        self._path, self._rows = path, rows
        self._description = Path(f"{path}.json")
        self._identity = json.loads(json.dumps(identity))  # in the form in which it is read again

    def open(self) -> pd.DataFrame:
        """The complete draws in the file; incomplete ones are removed from it. If there is no file, start one."""
        if self._path.is_dir():
            raise DataError(f"path={str(self._path)!r} is a folder. Give the name of a file in it.")
        try:
            content = self._path.read_bytes() if self._path.exists() else b""
            if not content:
                self._replace(self._description, json.dumps(self._identity, indent=2) + "\n")
                self._replace(self._path, ",".join(COLUMNS) + "\n")
                return _frame([])
            self._check(content)
            records = _complete_draws(content, self._rows)
            text = _text(records)
            if text.encode() != content:
                self._replace(self._path, text)
        except OSError as error:
            raise self._unusable(error) from error
        return _frame(records)

    def append(self, frame: pd.DataFrame) -> None:
        """Add the rows of draws in a single write."""
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
        if not self._description.exists():
            raise DataError(
                f"{self._path} holds draws, but {self._description}, which describes their study, is missing. Give another "
                "path, or delete the file to start again."
            )
        try:
            stored = json.loads(self._description.read_text())
        except ValueError:
            stored = None
        if not isinstance(stored, dict):
            raise DataError(
                f"{self._description} cannot be read, so the study of the draws in {self._path} is unknown. Give another path, "
                "or delete both files."
            )
        names = list(dict.fromkeys([*stored, *self._identity]))
        different = [name for name in names if stored.get(name) != self._identity.get(name)]
        if different:
            # another learner also has other settings, which need no mention
            main = [name for name in different if "." not in name] or different
            differences = [
                f"{name} is {stored.get(name)!r} in the file and {self._identity.get(name)!r} in this call"
                for name in main
            ]
            raise DataError(
                f"{self._path} holds the draws of another study: {'; '.join(differences)}. Give another path, or delete the file "
                "if its draws are no longer needed."
            )

    def _replace(self, path: Path, text: str) -> None:
        """Write a file under a temporary name and rename it, so that the file is never incomplete."""
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
            reason = f"there is no folder {folder}; create it first"
        return DataError(f"The draws cannot be saved in {self._path}: {reason}.")


def _complete_draws(content: bytes, rows: int) -> list[list[str]]:
    """The lines of complete draws, without repetitions."""
    written = content[: content.rfind(b"\n") + 1].decode(errors="replace")
    draws: dict[int, dict[tuple[str, str], list[str]]] = {}
    # line by line: a line that was cut off inside a quote must not take in the next one
    for line in written.splitlines()[1:]:
        record = next(csv.reader([line]), [])
        if _is_complete(record):
            draws.setdefault(int(record[2]), {})[record[3], record[4]] = record
    return [record for records in draws.values() if len(records) == rows for record in records.values()]


def _is_complete(record: Sequence[str]) -> bool:
    if len(record) != len(COLUMNS) or record[-1] not in ("True", "False"):
        return False
    try:
        _ = int(record[1]), int(record[2]), [float(number) for number in record[5:9] if number]
    except ValueError:
        return False
    return bool(record[5] and record[7])  # truth and estimate are never empty


def _text(records: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *records])
    return text.getvalue()


def _frame(records: Sequence[Sequence[str]]) -> pd.DataFrame:
    columns = dict(zip(COLUMNS, zip(*records, strict=True), strict=True)) if records else dict.fromkeys(COLUMNS, ())
    number = {name: [float(word or "nan") for word in columns[name]] for name in COLUMNS[5:9]}
    integers = {name: np.array([int(word) for word in columns[name]], dtype=np.int64) for name in ("n", "draw")}
    covered = np.array([word == "True" for word in columns["covered"]], dtype=bool)
    return pd.DataFrame({**columns, **integers, **number, "covered": covered}, columns=list(COLUMNS))
