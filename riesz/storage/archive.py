"""The file: a zip archive with one JSON document and the arrays it refers to.

A checksum of all content detects a changed file when it is loaded, and not only when a later call fails. It does not protect
against manipulation, because a changed file can have a new checksum; the rule that nothing in a file is run, and the limit on its
size, do not depend on it. A few bytes can unpack to gigabytes, so the sizes that the file declares are added up before anything is
unpacked.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from riesz.errors import ArgumentError, DataError
from riesz.storage.paths import open_file, write_file
from riesz.version import __version__

FORMAT = 4  # to be raised when older versions could misread new files; formats 1 to 3 can be read, too
ALLOWED = 2**30  # bytes that any file may unpack to: 1 GB
RATIO = 100  # a larger file may unpack to this many times its size
_DOCUMENT = "riesz.json"
_DOCUMENT_SHARE = 32  # the document may take this part of the bytes: JSON grows that much when it is read
_MOST_MEMBERS = 1_000_000
_CHUNK = 2**20
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    KeyError,
    OSError,
    RecursionError,
    NotImplementedError,
    SyntaxError,  # numpy raises this and the next for the header of an array
    tokenize.TokenError,
)

AnyArray = npt.NDArray[Any]


class Archive(NamedTuple):
    """The content of a file.

    Attributes
    ----------
    content : object
        The document.
    arrays : dict
    allowed : float
        Number of bytes that reading the content may create.
    """

    content: Any
    arrays: dict[str, AnyArray]
    allowed: float


def write_archive(path: Any, content: Any, arrays: Mapping[str, AnyArray]) -> None:
    """Write a document and its arrays; the file appears when it is complete."""
    write_file(path, lambda handle: _write(handle, content, arrays))


def to_bytes(content: Any, arrays: Mapping[str, AnyArray]) -> bytes:
    """Write a document and its arrays to memory, for pickle."""
    buffer = io.BytesIO()
    _write(buffer, content, arrays)
    return buffer.getvalue()


def _write(handle: BinaryIO, content: Any, arrays: Mapping[str, AnyArray]) -> None:
    document = {
        "program": "riesz",
        "format": FORMAT,
        "version": __version__,
        "checksum": checksum(content, arrays),
        "content": content,
    }
    with zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(_DOCUMENT, json.dumps(document, allow_nan=False))
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, values, allow_pickle=False)


def read_archive(path: Any, largest: float | None = None) -> Archive:
    """Read a document and its arrays; a file that is not one, is damaged, too large or from a newer version is an error.

    Parameters
    ----------
    path : path
    largest : float, optional
        Bytes that the file may unpack to. By default ``ALLOWED``, or ``RATIO`` times the size of a larger file.
    """
    if largest is not None and not (isinstance(largest, (int, float)) and largest > 0):
        raise ArgumentError(
            f"largest={largest!r}: expected a number of bytes, such as 4e9, or None for the usual limit."
        )
    file, handle = open_file(path)
    with handle:
        return _read(handle, str(file), largest)


def from_bytes(content: bytes) -> Archive:
    """Read a document and its arrays from memory. Content from pickle has no limit of its size, because the caller trusts it."""
    return _read(io.BytesIO(content), "The pickled object", math.inf)


def _read(handle: BinaryIO, name: str, largest: float | None) -> Archive:
    size = handle.seek(0, os.SEEK_END)
    allowed = float(max(ALLOWED, RATIO * size) if largest is None else largest)
    try:
        with zipfile.ZipFile(handle) as archive:
            members = _members(archive, name, allowed)
            document = json.loads(archive.read(members.pop(_DOCUMENT)), parse_constant=_no_constant)
            _check_version(document, name)
            arrays = {key.removesuffix(".npy"): _array(archive, member) for key, member in members.items()}
            if document["checksum"] != checksum(document["content"], arrays):
                raise ValueError("its content does not match its checksum")
            return Archive(document["content"], {key: _native(values) for key, values in arrays.items()}, allowed)
    except DataError:
        raise
    except MemoryError:
        raise DataError(f"{name!r} does not fit into the memory of this machine; nothing was loaded.") from None
    except zipfile.BadZipFile as error:
        raise DataError(
            f"{name!r} is not a file that fit.save() wrote, or it was cut short or damaged ({error}). Save the fit again."
        ) from None
    except _DAMAGE as error:
        raise damaged(name, error) from None


def _members(archive: zipfile.ZipFile, name: str, allowed: float) -> dict[str, zipfile.ZipInfo]:
    """The members by name, after a check of their total size. Unpacking never gives more bytes than the sizes that they declare."""
    listed = archive.infolist()
    members = {member.filename: member for member in listed}
    if _DOCUMENT not in members:
        raise DataError(f"{name!r} is a zip archive, but not one that fit.save() wrote.")
    plain = all(m.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) and not m.flag_bits & 1 for m in listed)
    if len(members) < len(listed) or len(members) > _MOST_MEMBERS or not plain:
        raise ValueError("it is packed in a way that fit.save() does not use")
    total, document = sum(member.file_size for member in listed), members[_DOCUMENT].file_size
    if max(total, document * _DOCUMENT_SHARE) > allowed:
        raise DataError(
            f"{name!r} would take {_gigabytes(max(total, document * _DOCUMENT_SHARE))} when unpacked; the limit is "
            f"{_gigabytes(allowed)} (1 GB, or {RATIO} times the size of the file, unless largest= says otherwise). If you trust "
            f"the file, load it with largest={1.01 * max(total, document * _DOCUMENT_SHARE):.3g}."
        )
    return members


def _gigabytes(count: float) -> str:
    return f"{count / 2**30:,.1f} GB" if count >= 2**29 else f"{count / 2**20:,.1f} MB"


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> AnyArray:
    """An array, created only if its header and the member's size agree."""
    with archive.open(member) as handle:
        version = np.lib.format.read_magic(handle)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[
            version
        ]
        shape, by_columns, dtype = read_header(handle)
        if dtype.kind not in "biuf":
            raise ValueError("an array of a kind that fit.save() does not write")
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != member.file_size - handle.tell():
            raise ValueError("an array whose size is not what its header says")
        values = np.empty(math.prod(shape), dtype=dtype)
        place = values.view(np.uint8).data
        for start in range(0, len(place), _CHUNK):
            piece = handle.read(min(_CHUNK, len(place) - start))
            place[start : start + len(piece)] = piece
            if len(piece) < min(_CHUNK, len(place) - start):
                raise EOFError("an array that was cut short")
        if handle.read(1):
            raise ValueError("an array with more content than it says")
    return values.reshape(shape[::-1]).T if by_columns else values.reshape(shape)


def _native(values: AnyArray) -> AnyArray:
    """The values in the byte order of this machine."""
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def checksum(content: Any, arrays: Mapping[str, AnyArray]) -> str:
    """SHA-256 of a document and its arrays."""
    digest = hashlib.sha256(json.dumps(content, allow_nan=False, sort_keys=True).encode())
    for name in sorted(arrays):
        values = arrays[name]
        digest.update(f"{name} {values.dtype.str} {values.shape}".encode())
        digest.update(np.ascontiguousarray(values).ravel().view(np.uint8).data)
    return digest.hexdigest()


def damaged(file: object, error: object) -> DataError:
    """The error for a file with invalid content."""
    return DataError(f"{str(file)!r} is damaged or was altered ({error}); nothing was loaded. Save the fit again.")


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"the number {text}")


def _check_version(document: Any, name: str) -> None:
    if not isinstance(document, dict) or document.get("program") != "riesz" or type(document.get("format")) is not int:
        raise DataError(f"{name!r} is not a file that fit.save() wrote.")
    if document["format"] > FORMAT:
        raise DataError(
            f"{name!r} was written by riesz {str(document.get('version'))[:20]} in format {document['format']}; this is riesz "
            f"{__version__}, which reads formats up to {FORMAT}. Update riesz to load it."
        )
