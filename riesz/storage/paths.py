"""Checks paths, and writes files so that a write that fails leaves an existing file unchanged."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from riesz.errors import ArgumentError, DataError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def as_path(path: Any, verb: str) -> Path:
    """The path of an argument; an error if it is not a path."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        got = "an open file" if isinstance(path, io.IOBase) else f"a {type(path).__name__}"
        raise ArgumentError(f"{verb} got {got}, {path!r:.80}; expected a path, such as 'fit.riesz'.")
    text = os.fsdecode(path)
    if not text or "\0" in text:
        raise DataError(
            f"{verb} got the path {text!r}, which is not the path of a file; expected a path such as 'fit.riesz'."
        )
    return Path(text)


def write_file(path: Any, write: Callable[[BinaryIO], None]) -> None:
    """Write a file under a temporary name in the same folder, and rename it when it is complete.

    If anything fails, an existing file is unchanged. Several processes may write the same path at once; the file of the process
    that finishes last remains.
    """
    file = as_path(path, "save()")
    try:
        target = Path(os.path.realpath(file))
        if target.is_dir():
            raise DataError(f"{str(file)!r} is a folder. Give the path of a file in it: {str(file / 'fit.riesz')!r}.")
        if target.exists() and not target.is_file():
            raise DataError(
                f"{str(file)!r} is not a file that can be replaced (a device or a pipe). Give another path."
            )
        temporary = target.with_name(f".riesz-{uuid.uuid4().hex}")
        try:
            with open(temporary, "xb") as handle:
                write(handle)
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"The fit cannot be saved to {str(file)!r}: {_reason(error, file)} {_UNCHANGED}") from error


_UNCHANGED = "If there was a file of that name before, it is unchanged."


def _reason(error: OSError, file: Path) -> str:
    if error.errno in _FULL:
        return "no space is left there. Free some, or save to another disk."
    if error.errno in _FORBIDDEN:
        return "its folder is not writable. Save to another folder."
    if error.errno == errno.ENOENT:
        return f"there is no folder {str(file.parent)!r}. Create it first, or save to another one."
    return f"{error.strerror or error}. Save to another path."


def open_file(path: Any) -> tuple[Path, BinaryIO]:
    """Open a file for reading."""
    file = as_path(path, "load()")
    try:
        if file.is_dir():
            raise DataError(f"{str(file)!r} is a folder; expected the path of a file that fit.save() wrote.")
        if not file.is_file():
            raise DataError(f"There is no file {str(file)!r}. Give the path of a file that fit.save() wrote.")
        return file, open(file, "rb")
    except OSError as error:
        raise DataError(f"The file {str(file)!r} cannot be opened: {error.strerror or error}.") from error
