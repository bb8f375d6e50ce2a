"""Dataclasses as JSON and arrays, and back.

Only dataclasses with the decorator :func:`stored` are written, and only they are created when a file is read: a file names types
and holds no code. The fields of a created object must have the types that its dataclass declares.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.errors import RieszError
from riesz.storage.annotations import check_fields
from riesz.storage.conversion import complete, convert

AnyArray = npt.NDArray[Any]

T = TypeVar("T")

#: Types by their names in files, filled by :func:`stored`.
TYPES: dict[str, type] = {}


def stored(kind: type[T]) -> type[T]:
    """Decorate a dataclass that files may hold, under the name of the class. Reading a file creates no other types.

    ``conversion.py`` converts the fields of older files.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from riesz.storage.coding import TYPES, Reader, Writer, stored
    >>> @stored
    ... @dataclass(frozen=True)
    ... class Rope:
    ...     length: float
    >>> Writer().write(Rope(2.5))
    {'type': 'Rope', 'fields': {'length': 2.5}}
    >>> Reader({}).read({"type": "Rope", "fields": {"length": 3.0}})
    Rope(length=3.0)
    >>> del TYPES["Rope"]
    """
    registered = TYPES.setdefault(kind.__name__, kind)
    if (registered.__module__, registered.__qualname__) != (kind.__module__, kind.__qualname__):
        raise TypeError(
            f"Two stored types have the name {kind.__name__}: {registered!r} and {kind!r}. Rename one of them."
        )
    TYPES[kind.__name__] = kind
    return kind


class UnstorableError(RieszError):
    """An object that a file cannot hold, such as a function."""


class Writer:
    """Turns values into JSON, and collects their arrays.

    Attributes
    ----------
    arrays : dict
    """

    def __init__(self) -> None:
        self.arrays: dict[str, AnyArray] = {}
        self._names: dict[int, str] = {}

    def array(self, values: AnyArray) -> str:
        """Collect an array, only once if it is written again, and return its name."""
        if id(values) not in self._names:
            self._names[id(values)] = name = f"a{len(self.arrays)}"
            self.arrays[name] = values
        return self._names[id(values)]

    def texts(self, texts: Sequence[str]) -> dict[str, str]:
        """Many texts as two arrays, because a document with a million texts is slow to read."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        lengths = np.array([len(item) for item in encoded], dtype=np.int64)
        return {"lengths": self.array(lengths), "bytes": self.array(np.frombuffer(b"".join(encoded), dtype=np.uint8))}

    def write(self, value: Any) -> Any:
        """A value as JSON."""
        if value is None or isinstance(value, (bool, str, int)):
            return value
        if isinstance(value, np.generic):
            return self.write(value.item())
        if isinstance(value, float):
            return value if np.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            return {"array": self.array(value)}
        if isinstance(value, (tuple, list)):
            return {type(value).__name__: [self.write(item) for item in value]}
        if isinstance(value, frozenset) and all(isinstance(item, str) for item in value):
            return {"set": sorted(value)}
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.write(item) for key, item in value.items()}}
        if isinstance(value, pd.Interval):
            return {"interval": [self.write(value.left), self.write(value.right), value.closed]}
        if isinstance(value, pd.Timestamp) and value.tz is None:
            return {"timestamp": [int(value.to_datetime64().view("int64")), value.unit]}
        if type(value) is datetime.date:
            return {"date": value.isoformat()}
        name = type(value).__name__
        if is_dataclass(value) and TYPES.get(name) is type(value):
            return {"type": name, "fields": {f.name: self.write(getattr(value, f.name)) for f in fields(value)}}
        raise UnstorableError(f"A {name} cannot be stored in a file.")


class Reader:
    """Turns JSON and arrays back into values.

    Parameters
    ----------
    arrays : mapping
    allowed : float
        Number of bytes that reading may create. An array counts each time that the file refers to it.
    find : callable, optional
        Called with the name of a type that is not registered yet, to import the module that may define it. It must import only
        modules of the package, whatever the name is.
    """

    def __init__(
        self, arrays: Mapping[str, AnyArray], allowed: float = np.inf, find: Callable[[str], object] = str
    ) -> None:
        self._arrays, self._left, self._find = arrays, allowed, find

    def spend(self, count: int) -> None:
        """Count bytes that are about to be created."""
        self._left -= count
        if self._left < 0:
            raise ValueError("it refers to the same content too often")

    def array(self, name: Any) -> AnyArray:
        """An array by its name."""
        values = self._arrays[name]
        self.spend(values.nbytes)
        return values

    def texts(self, spec: Any) -> list[str]:
        """Many texts."""
        if "lengths" not in spec:  # format 1
            texts = self.read(spec)
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise ValueError("labels that are not text")
            return texts
        lengths, content = self.array(spec["lengths"]), self.array(spec["bytes"])
        if lengths.dtype != np.int64 or content.dtype != np.uint8 or lengths.ndim != 1 or content.ndim != 1:
            raise ValueError("labels of the wrong kind")
        self.spend(64 * len(lengths))
        ends = np.cumsum(lengths)
        if lengths.size and (lengths.min() < 0 or ends[-1] != len(content) or lengths.max() > len(content)):
            raise ValueError("labels of the wrong length")
        whole = content.tobytes()
        pairs = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
        return [whole[start:end].decode("utf-8", "surrogatepass") for start, end in pairs]

    def read(self, value: Any) -> Any:
        """A value from its JSON."""
        match value:
            case None | bool() | str() | int() | float():
                return value
            case {"float": ("nan" | "inf" | "-inf") as text}:
                return float(text)
            case {"array": str(name)}:
                return self.array(name)
            case {"tuple": list(items)}:
                return tuple(self.read(item) for item in items)
            case {"list": list(items)}:
                return [self.read(item) for item in items]
            case {"set": list(items)} if all(isinstance(item, str) for item in items):
                return frozenset(items)
            case {"dict": dict(items)}:
                return {key: self.read(item) for key, item in items.items()}
            case {"interval": [left, right, ("left" | "right" | "both" | "neither") as closed]}:
                return pd.Interval(self.read(left), self.read(right), closed=closed)
            case {"timestamp": [int(count), ("s" | "ms" | "us" | "ns") as unit]}:
                return pd.Timestamp(np.datetime64(count, unit))
            case {"date": str(text)}:
                return datetime.date.fromisoformat(text)
            case {"type": str(name), "fields": dict(items)} if self._is_known(name):
                current, values = convert(name, items)
                fields_read = {str(key): self.read(item) for key, item in values.items()}
                return self._make(current, complete(current, fields_read, self._make))
        raise ValueError(f"unknown content {str(value)[:60]}")

    @staticmethod
    def _make(name: str, values: dict[str, Any]) -> Any:
        instance = TYPES[name](**values)
        check_fields(instance)
        return instance

    def _is_known(self, name: str) -> bool:
        if name not in TYPES:
            self._find(name)
        return name in TYPES
