"""Registries: from a name to a part of the package, such as a learner, one line per part.

A line may be text, ``"module:name"``, as in the entry points of Python packages. The module is imported when the part is first
needed, so that ``import riesz`` does not import torch for the learners that need it. You may also add the part itself::

    riesz.learners.LEARNERS["mine"] = MyLearner

Everything that depends on a part (its verb, its file format, its tests, its page in the reference) follows from the registry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

Part = TypeVar("Part")


class Registry(MutableMapping[str, Part], Generic[Part]):
    """A dict from names to parts; a part given as ``"module:name"`` is imported when it is first looked up.

    Parameters
    ----------
    parts : mapping
        Name to part, or to ``"module:name"``. Tables and messages keep this order.

    Examples
    --------
    >>> from riesz.registry import Registry
    >>> registry = Registry({"fraction": "fractions:Fraction", "int": int})
    >>> registry["fraction"](1, 3)
    Fraction(1, 3)
    >>> list(registry)
    ['fraction', 'int']
    """

    def __init__(self, parts: Mapping[str, Part | str]) -> None:
        self._parts: dict[str, Any] = dict(parts)

    def __getitem__(self, name: str) -> Part:
        part = self._parts[name]
        if isinstance(part, str):
            part = self._parts[name] = resolve_name(part)
        imported: Part = part
        return imported

    def __setitem__(self, name: str, part: Part) -> None:
        self._parts[name] = part

    def __delitem__(self, name: str) -> None:
        del self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, name: object) -> bool:  # the inherited method would import the part
        return name in self._parts

    def __repr__(self) -> str:
        return f"Registry({', '.join(self)})"

    def named(self, name: str) -> Part | None:
        """The part whose class or function has this name, or None; imports no other part.

        Examples
        --------
        >>> from riesz.learners import LEARNERS
        >>> LEARNERS.named("Linear") is LEARNERS["linear"]
        True
        """
        keys = [key for key, definition in self.definitions().items() if definition == name]
        return self[keys[0]] if keys else None

    def definitions(self) -> dict[str, str]:
        """For each name in the registry, the name of its class or function.

        Examples
        --------
        >>> from riesz.learners import LEARNERS
        >>> LEARNERS.definitions()["madnet"]
        'MADNet'
        """
        return {
            name: part.rpartition(":")[2] if isinstance(part, str) else getattr(part, "__name__", name)
            for name, part in self._parts.items()
        }
