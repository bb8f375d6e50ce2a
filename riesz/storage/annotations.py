"""Checks that values read from files have the types that their dataclasses declare.

Python does not check annotations, so a damaged file could hold text in place of an array. Only the annotations that stored
dataclasses use are supported.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

_HINTS: dict[type, dict[str, Any]] = {}  # kept, because they are slow to resolve


def check_fields(instance: Any) -> None:
    """Raise a ValueError that names the first field of a dataclass whose value is not of the declared type."""
    kind = type(instance)
    hints = _HINTS[kind] if kind in _HINTS else _HINTS.setdefault(kind, get_type_hints(kind))
    for field in fields(instance):
        if not conforms(getattr(instance, field.name), hints[field.name]):
            raise ValueError(f"{type(instance).__name__}.{field.name} is of the wrong type")


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value has the annotated type.

    Examples
    --------
    >>> from riesz.storage.annotations import conforms
    >>> conforms(("a", "b"), tuple[str, ...]), conforms(("a", 1), tuple[str, ...])
    (True, False)
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(conforms(value, choice) for choice in inner)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in inner)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _is_dtype(value, get_args(inner[1])[0])
    if origin is tuple:
        same = isinstance(value, tuple) and (inner[-1] is Ellipsis or len(value) == len(inner))
        hints = [inner[0]] * len(value) if same and inner[-1] is Ellipsis else inner
        return same and all(conforms(item, item_hint) for item, item_hint in zip(value, hints, strict=True))
    if origin in (list, Sequence):
        return isinstance(value, (list, tuple)) and all(conforms(item, inner[0]) for item in value)
    if origin is frozenset:
        return isinstance(value, frozenset) and all(conforms(item, inner[0]) for item in value)
    if origin in (dict, Mapping):
        keys, items = inner
        return isinstance(value, Mapping) and all(conforms(k, keys) and conforms(v, items) for k, v in value.items())
    if origin is Callable or hint is Callable:
        return False  # files hold no functions
    if hint is type(None):
        return value is None
    if hint is float:
        return isinstance(value, (int, float))
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(hint, type) and isinstance(value, hint)


def _is_dtype(value: np.ndarray[Any, Any], expected: Any) -> bool:
    return expected is Any or (isinstance(expected, type) and np.issubdtype(value.dtype, expected))
