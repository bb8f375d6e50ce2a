"""What riesz raises: one root, and a child for each door a user may knock on.

Every message says what was got, what was wanted and what to do. Children of :class:`RieszError` that report
a bad argument are also :class:`ValueError`, which is what Python users catch.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_LONGEST_NAME = 200  # names of more characters are not compared with others, which would take long


_LONGEST = 1500  # characters of a message: whoever meets a name of a megabyte should still be able to read it


class RieszError(Exception):
    """Root of everything riesz raises on purpose.

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
    riesz.errors.DataError: There is no simulation 'binnary'. Did you mean `binary`? There are ...
    """


class EstimandError(RieszError, ValueError):
    """The question cannot be asked of this treatment, or is not linear in mu.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("continuous").draw(50, seed=1).data
    >>> riesz.ate("y ~ treat(a) + .", data)
    Traceback (most recent call last):
    ...
    riesz.errors.EstimandError: Treatment `a` has 50 distinct values; `ate` wants two, or a few arms. For a continuous ...
    """


class LearnerError(RieszError, ValueError):
    """The learner cannot be fitted with these settings on this design.

    Examples
    --------
    >>> import riesz
    >>> riesz.defaults.learner = "forest"
    Traceback (most recent call last):
    ...
    riesz.errors.LearnerError: learner='forest' is not known. Expected one of 'linear', 'madnet', ...
    """


class ArgumentError(RieszError, TypeError):
    """A keyword that no verb knows, or a default that there is not."""


class RieszWarning(UserWarning):
    """Something a careful reader would want to know, though the fit goes on.

    Examples
    --------
    >>> import warnings, riesz
    >>> data = riesz.datasets.get("continuous").draw(200, seed=1).data.round({"a": 1}).clip(lower=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fit = riesz.ade("y ~ treat(a) + x1", data, learner="linear")
    >>> caught[0].category.__name__
    'RieszWarning'
    """


def _shortened(message: object) -> str:
    text = str(message)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 300]} ... {text[-290:]}"


def nearest(name: str, candidates: Iterable[str]) -> str:
    """A hint such as ``" Did you mean `age`?"``, or nothing when no candidate is close; case does not matter."""
    if len(name) > _LONGEST_NAME:
        return ""
    known = [one for one in candidates if len(one) <= _LONGEST_NAME]
    folded = {one.casefold(): one for one in reversed(known)}
    match = [folded[name.casefold()]] if name.casefold() in folded else difflib.get_close_matches(name, known, n=1)
    match = match or [folded[one] for one in difflib.get_close_matches(name.casefold(), folded, n=1)]
    return f" Did you mean `{match[0]}`?" if match else ""


def listing(names: Iterable[object], most: int = 8) -> str:
    """Names in back-ticks, shortened when there are many."""
    quoted = [f"`{name}`" for name in names]
    rest = len(quoted) - most
    return ", ".join(quoted[:most]) + (f" and {rest} more" if rest > 0 else "")


def pick(parameter: str | None, names: Sequence[str]) -> str:
    """The parameter that is meant, or an error that lists those there are."""
    if parameter is None and len(names) == 1:
        return names[0]
    if parameter is None:
        raise RieszError(
            f"There are several parameters: say which one, such as parameter={names[0]!r}; wanted one of "
            f"{', '.join(map(repr, names))}."
        )
    if parameter not in names:
        raise RieszError(f"parameter={parameter!r}: wanted one of {', '.join(map(repr, names))}.")
    return parameter
