"""Exceptions and warnings; all exceptions derive from :class:`RieszError`.

Every message says what was got, what is expected and what to do. Exceptions about a bad argument are also :class:`ValueError` or
:class:`TypeError`, which Python users catch.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_LONGEST_NAME = 200  # characters; comparing longer names with others is slow
_LONGEST = 1500  # characters of a message, which may quote names of any length


class RieszError(Exception):
    """The base class of all exceptions of riesz.

    Examples
    --------
    >>> import pandas as pd, riesz
    >>> data = pd.DataFrame({"y": [1.0, 2.0, 3.0], "a": [0, 1, 0]})
    >>> try:
    ...     riesz.ate("y ~ a", data)
    ... except riesz.RieszError as error:
    ...     print(type(error).__name__)
    FormulaError
    """

    def __init__(self, message: str = "", *rest: object) -> None:
        super().__init__(_shortened(message), *rest)


class FormulaError(RieszError, ValueError):
    """The formula cannot be read, or names something that is not in the data.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(50, seed=1).data
    >>> riesz.ate("y ~ a + x1", data)
    Traceback (most recent call last):
    ...
    riesz.errors.FormulaError: 'y ~ a + x1' marks no treatment. Wrap the treatment in treat() on the right-hand side, for ...
    """


class DataError(RieszError, ValueError):
    """The data, weights or clusters cannot be used as they are.

    Examples
    --------
    >>> import riesz
    >>> riesz.datasets.get("binnary")
    Traceback (most recent call last):
    ...
    riesz.errors.DataError: There is no simulation 'binnary'. Did you mean `binary`? The simulations are ...
    """


class EstimandError(RieszError, ValueError):
    """The estimand does not apply to this treatment, or is not linear in mu.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("continuous").draw(50, seed=1).data
    >>> riesz.ate("y ~ treat(a) + .", data)
    Traceback (most recent call last):
    ...
    riesz.errors.EstimandError: Treatment `a` has 50 distinct values; `ate` needs two, or a few arms. For a continuous ...
    """


class LearnerError(RieszError, ValueError):
    """The learner cannot be fitted with these settings on this design.

    Examples
    --------
    >>> import riesz
    >>> riesz.defaults.learner = "orchard"
    Traceback (most recent call last):
    ...
    riesz.errors.LearnerError: learner='orchard' is not known. Expected one of 'auto', 'linear', ...
    """


class ArgumentError(RieszError, TypeError):
    """A keyword or default that does not exist, or a missing argument."""


class RieszWarning(UserWarning):
    """A possible problem with a fit that nevertheless continues.

    Examples
    --------
    >>> import warnings, riesz
    >>> data = riesz.datasets.get("continuous").draw(200, seed=1).data.round({"a": 1}).clip(lower=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fit = riesz.ade("y ~ treat(a) + x1", data, learner="linear")
    >>> print(caught[0].message)
    Treatment `a` is heavily tied: its 5 commonest values account for ...
    """


def _shortened(message: object) -> str:
    text = str(message)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 300]} ... {text[-290:]}"


def nearest(name: str, candidates: Iterable[str]) -> str:
    """A hint such as ``" Did you mean `age`?"``, or an empty string if no candidate is similar; case does not matter.

    Examples
    --------
    >>> from riesz.errors import nearest
    >>> nearest("Aeg", ["age", "income"])
    ' Did you mean `age`?'
    """
    if len(name) > _LONGEST_NAME:
        return ""
    comparable = [candidate for candidate in candidates if len(candidate) <= _LONGEST_NAME]
    folded = {candidate.casefold(): candidate for candidate in reversed(comparable)}
    same = folded.get(name.casefold())
    matches = [same] if same is not None else difflib.get_close_matches(name, comparable, n=1)
    matches = matches or [folded[key] for key in difflib.get_close_matches(name.casefold(), folded, n=1)]
    return f" Did you mean `{matches[0]}`?" if matches else ""


def listing(names: Iterable[object], most: int = 8) -> str:
    """Names in back-ticks, shortened if there are many.

    Examples
    --------
    >>> from riesz.errors import listing
    >>> listing(["age", "income", "region"], most=2)
    '`age`, `income` and 1 more'
    """
    quoted = [f"`{name}`" for name in names]
    hidden = len(quoted) - most
    return ", ".join(quoted[:most]) + (f" and {hidden} more" if hidden > 0 else "")


def pick(parameter: str | None, names: Sequence[str]) -> str:
    """The parameter of this name, or the only one; otherwise an error that lists the parameters.

    Examples
    --------
    >>> from riesz.errors import pick
    >>> pick(None, ["ATE"]), pick("ATT", ["ATE", "ATT"])
    ('ATE', 'ATT')
    """
    if parameter is None and len(names) == 1:
        return names[0]
    if parameter is None:
        raise RieszError(
            f"There are several parameters. Choose one, such as parameter={names[0]!r}; expected one of "
            f"{', '.join(map(repr, names))}."
        )
    if parameter not in names:
        raise RieszError(f"parameter={parameter!r}: expected one of {', '.join(map(repr, names))}.")
    return parameter
