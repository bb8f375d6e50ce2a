"""Calls with wrong arguments: misspelt keywords, missing or surplus arguments, and what counts as a number."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from numbers import Real
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np

from riesz.errors import ArgumentError, RieszError, listing, nearest

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


def refuse_unknown(who: str, keywords: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse keywords that a call does not have.

    Examples
    --------
    >>> from riesz.syntax.check_arguments import refuse_unknown
    >>> refuse_unknown("riesz.ate()", {"fold": 2}, ["folds", "seed"])
    Traceback (most recent call last):
    ...
    riesz.errors.ArgumentError: riesz.ate() has no keyword 'fold'. Did you mean `folds`? Its keywords are folds, seed.
    """
    names = list(allowed)
    for name in keywords:
        if name not in names:
            choice = f"Its keyword{' is' if len(names) == 1 else 's are'} {', '.join(names)}."
            raise ArgumentError(
                f"{who} has no keyword {name!r}.{nearest(name, names)} {choice if names else 'It has no keywords.'}"
            )


def check_call(who: str, function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Refuse arguments that do not fit a function's signature, before it is called.

    Parameters
    ----------
    who : str
        The call as the message names it, such as ``riesz.ate()``.
    function : callable
        Its ``inspect.signature`` says which arguments it takes.
    arguments, keywords
        The arguments of the call.
    """
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name == "self":  # a method, whose users do not see self
        parameters, arguments = parameters[1:], arguments[1:]
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        refuse_unknown(who, keywords, [parameter.name for parameter in parameters if parameter.kind in kinds])
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    unlimited = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    if len(arguments) > len(positional) and not unlimited:
        got = f"{len(arguments)} argument{'s' if len(arguments) > 1 else ''}"
        most = f"at most {len(positional)}" if positional else "none"
        raise ArgumentError(f"{who} got {got} without a keyword; it takes {most}.")
    filled = [parameter.name for parameter in positional[: len(arguments)]]
    twice = [name for name in filled if name in keywords]
    if twice:
        raise ArgumentError(f"{who} got {listing(twice)} twice, with and without a keyword. Give it once.")
    required = [parameter.name for parameter in positional if parameter.default is parameter.empty]
    missing = [name for name in required if name not in filled and name not in keywords]
    if missing:
        call = f"{who[:-1]}, " if not who.endswith("()") else who[:-1]
        example = ", ".join(f"{name}=..." for name in missing)
        raise ArgumentError(f"{who} needs {listing(missing)}, as in {call}{example}).")


def shown(value: object) -> str:
    """A value as messages show it; for a number with hundreds of digits, only its size.

    Examples
    --------
    >>> from riesz.syntax.check_arguments import shown
    >>> shown("a"), shown(10**999)
    ("'a'", 'about 10**999')
    """
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"about {'-' if value < 0 else ''}10**{int(value.bit_length() * np.log10(2))}"
    return repr(value) if not isinstance(value, np.generic) else str(value)


def is_number(value: object) -> bool:
    """Whether a value is one finite number; booleans and text are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:  # a whole number that is too large for a float
        return False


def check_alpha(alpha: object) -> None:
    """Refuse an alpha that no interval can have."""
    if not (is_number(alpha) and 0 < alpha < 1):  # type: ignore[operator]  # a number, as just checked
        raise RieszError(f"alpha={alpha!r}: expected a number between 0 and 1, such as 0.05 for a 95% interval.")


def is_count(value: object, least: int, most: float = np.inf) -> bool:
    """Whether a value is a whole number within limits."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(least <= value <= most)


def checked(who: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: the function refuses wrong arguments with the messages of :func:`check_call`.

    Parameters
    ----------
    who : str
        The call as messages name it.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*arguments: P.args, **keywords: P.kwargs) -> R:
            check_call(who, function, arguments, keywords)
            return function(*arguments, **keywords)

        return call

    return decorate


def checked_methods(prefix: str = "") -> Callable[[type[C]], type[C]]:
    """A class decorator: public methods refuse wrong arguments as :func:`checked` functions do.

    Parameters
    ----------
    prefix : str
        What messages put before the name of a method, such as ``fit.`` in ``fit.by()``.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(200, seed=1).data
    >>> riesz.ate("y ~ treat(a) + x1", data, learner="linear").conf_int(alpa=0.1)
    Traceback (most recent call last):
    ...
    riesz.errors.ArgumentError: conf_int() has no keyword 'alpa'. Did you mean `alpha`? Its keywords are alpha, ...
    """

    def decorate(cls: type[C]) -> type[C]:
        for name, value in list(vars(cls).items()):
            if inspect.isfunction(value) and not name.startswith("_") and not hasattr(value, "__wrapped__"):
                setattr(cls, name, checked(f"{prefix}{name}()")(value))
        return cls

    return decorate


class CheckedSettings:
    """A base of classes with settings, such as learners: their constructors refuse misspelt keywords.

    Examples
    --------
    >>> import riesz
    >>> riesz.Linear(penalti=0)
    Traceback (most recent call last):
    ...
    riesz.errors.ArgumentError: riesz.Linear() has no keyword 'penalti'. Did you mean `penalty`? Its keywords are penalty, ...
    """

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        if keywords and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            who = f"{'riesz.' if cls.__module__.startswith('riesz.') else ''}{cls.__name__}()"
            refuse_unknown(who, keywords, [parameter.name for parameter in parameters])
        return super().__new__(cls)
