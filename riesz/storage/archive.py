"""The file: a zip archive with one JSON document and the arrays it refers to.

A checksum of all content tells an altered file when it is loaded, not when some later question stumbles over it. Whoever
alters a file can make a new checksum: that nothing in it is ever run does not rest on it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from riesz.errors import DataError
from riesz.version import __version__

FORMAT = 1  # to be raised whenever older versions could misread what is written
_DOCUMENT = "riesz.json"
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    KeyError,
    OSError,
    MemoryError,
    RecursionError,
    NotImplementedError,
    SyntaxError,  # these two from numpy, of an array's header
    tokenize.TokenError,
)

AnyArray = npt.NDArray[Any]


def write_archive(path: str | os.PathLike[str], content: Any, arrays: Mapping[str, AnyArray]) -> None:
    """Write a document and its arrays; the file appears when it is complete."""
    file = Path(path)
    unfinished = file.with_name(file.name + ".unfinished")
    document = {
        "program": "riesz",
        "format": FORMAT,
        "version": __version__,
        "checksum": checksum(content, arrays),
        "content": content,
    }
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr(_DOCUMENT, json.dumps(document, allow_nan=False))
            for name, values in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, values, allow_pickle=False)
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


def read_archive(path: str | os.PathLike[str]) -> tuple[Any, dict[str, AnyArray]]:
    """Read a document and its arrays; a file that is not one, is damaged or comes from a newer version is an error."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"There is no file {str(file)!r}. Give the path that fit.save() was given.")
    try:
        with zipfile.ZipFile(file) as archive:
            if _DOCUMENT not in archive.namelist():
                raise DataError(f"{str(file)!r} is a zip archive, but not one that fit.save() wrote.")
            document = json.loads(archive.read(_DOCUMENT))
            _check_version(document, file)
            arrays = {}
            for name in archive.namelist():
                if name != _DOCUMENT:
                    with archive.open(name) as member:
                        arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
            if document["checksum"] != checksum(document["content"], arrays):
                raise ValueError("its content does not match its checksum")
            return document["content"], arrays
    except DataError:
        raise
    except zipfile.BadZipFile as error:
        raise DataError(
            f"{str(file)!r} is not a file that fit.save() wrote, or it was cut short or damaged ({error}). Save the fit again."
        ) from None
    except _DAMAGE as error:
        raise damaged(file, error) from None


def checksum(content: Any, arrays: Mapping[str, AnyArray]) -> str:
    """SHA-256 of a document and its arrays."""
    made = hashlib.sha256(json.dumps(content, allow_nan=False, sort_keys=True).encode())
    for name in sorted(arrays):
        values = arrays[name]
        made.update(f"{name} {values.dtype.str} {values.shape}".encode())
        made.update(np.ascontiguousarray(values).tobytes())
    return made.hexdigest()


def damaged(file: str | os.PathLike[str], error: object) -> DataError:
    """What to say of a file whose content makes no sense."""
    return DataError(f"{str(file)!r} is damaged or was altered ({error}); nothing was loaded. Save the fit again.")


def _check_version(document: Any, file: Path) -> None:
    if not isinstance(document, dict) or document.get("program") != "riesz" or type(document.get("format")) is not int:
        raise DataError(f"{str(file)!r} is not a file that fit.save() wrote.")
    if document["format"] > FORMAT:
        raise DataError(
            f"{str(file)!r} was written by riesz {str(document.get('version'))[:20]} in format {document['format']}; this is riesz "
            f"{__version__}, which reads formats up to {FORMAT}. Update riesz to load it."
        )
