"""Calls with wrong arguments: a misspelt keyword, a missing or a surplus argument, and what counts as a number."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from numbers import Real
from typing import Any, ParamSpec, TypeVar

import numpy as np

from riesz.errors import ArgumentError, listing, nearest

P = ParamSpec("P")
R = TypeVar("R")


def refuse_unknown(who: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse keywords that there are not.

    Examples
    --------
    >>> from riesz.syntax.calls import refuse_unknown
    >>> refuse_unknown("riesz.ate()", {"fold": 2}, ["folds", "seed"])
    Traceback (most recent call last):
    ...
    riesz.errors.ArgumentError: riesz.ate() has no keyword 'fold'. Did you mean `folds`? There are folds, seed.
    """
    there = list(known)
    for name in given:
        if name not in there:
            others = f"There {'is' if len(there) == 1 else 'are'} {', '.join(there)}." if there else "It takes none."
            raise ArgumentError(f"{who} has no keyword {name!r}.{nearest(name, there)} {others}")


def check_call(who: str, function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Refuse arguments that do not fit a function's signature, before it is called; ``who`` is the call, such as ``ate()``."""
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name == "self":  # a method, which its users do not see
        parameters, arguments = parameters[1:], arguments[1:]
    if not any(one.kind is one.VAR_KEYWORD for one in parameters):
        named = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        refuse_unknown(who, keywords, named)
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(arguments) > len(places) and not any(one.kind is one.VAR_POSITIONAL for one in parameters):
        got = f"{len(arguments)} argument{'s' if len(arguments) > 1 else ''}"
        most = f"at most {len(places)}" if places else "none"
        raise ArgumentError(f"{who} got {got} without a keyword; it takes {most}.")
    filled = [one.name for one in places[: len(arguments)]]
    twice = [name for name in filled if name in keywords]
    if twice:
        raise ArgumentError(f"{who} got {listing(twice)} twice, with and without a keyword. Give it once.")
    needed = [one.name for one in parameters if one.default is one.empty and one in places]
    lost = [name for name in needed if name not in filled and name not in keywords]
    if lost:
        given = f"{who[:-1]}, " if not who.endswith("()") else who[:-1]
        raise ArgumentError(f"{who} needs {listing(lost)}, as in {given}{', '.join(f'{name}=...' for name in lost)}).")


def shown(value: object) -> str:
    """A value as messages show it; for a number with hundreds of digits, only its size.

    Examples
    --------
    >>> from riesz.syntax.calls import shown
    >>> shown("a"), shown(10**999)
    ("'a'", 'about 10**999')
    """
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"about {'-' if value < 0 else ''}10**{int(value.bit_length() * np.log10(2))}"
    return repr(value) if not isinstance(value, np.generic) else str(value)


def is_number(value: object) -> bool:
    """Whether a value is one finite number; truth values and text are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:  # a whole number that no float can hold
        return False


def is_count(value: object, least: int, most: float = np.inf) -> bool:
    """Whether a value is a whole number within limits."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(least <= value <= most)


def checked(who: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: the function refuses wrong arguments in the words of :func:`check_call`, under this name."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*arguments: P.args, **keywords: P.kwargs) -> R:
            check_call(who, function, arguments, keywords)
            return function(*arguments, **keywords)

        return call

    return decorate
