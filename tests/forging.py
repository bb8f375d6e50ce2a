"""Altered files of fits with a correct checksum, as a stranger might produce them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from riesz.storage.archive import checksum

Arrays = dict[str, npt.NDArray[Any]]


def unpack(file: Path) -> tuple[dict[str, Any], Arrays]:
    """The document and the arrays of a file."""
    with zipfile.ZipFile(file) as archive:
        document = json.loads(archive.read("riesz.json"))
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        return document, {name.removesuffix(".npy"): np.load(io.BytesIO(archive.read(name))) for name in names}


def pack(file: Path, document: dict[str, Any], arrays: Arrays) -> Path:
    """Write a document and arrays with their checksum."""
    document["checksum"] = checksum(document["content"], arrays)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("riesz.json", json.dumps(document))
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, values, allow_pickle=False)
    return file


def forge(file: Path, change: Callable[[dict[str, Any], Arrays], object]) -> Path:
    """Alter the content of a file."""
    document, arrays = unpack(file)
    change(document["content"], arrays)
    return pack(file, document, arrays)
