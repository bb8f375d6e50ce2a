"""Signatures and docstrings of the functions that take the keywords of :class:`~riesz.settings.Settings`.

A function with ``**options`` shows each keyword with its type and default instead, so that editors complete ``clus<TAB>``, and its
docstring documents them, so that ``riesz.ate?`` shows them. Both come from the fields of ``Settings``.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from riesz.settings import keywords
from riesz.syntax.check_arguments import checked

P = ParamSpec("P")
R = TypeVar("R")

_WIDTH = 100

FORMULA = (
    "formula : str",
    'Outcome, treatment and covariates: ``"y ~ treat(a) + ."``. ``treat()`` marks the treatment; ``treat(arm, '
    'reference="placebo")`` sets the reference arm, by default the smallest number or the first label in '
    "alphabetical order. ``.`` is every column that is not outcome, treatment, weights or cluster. Interactions, "
    "splines, factors and transformations work as in formulaic. As in R and patsy, calls in a formula are Python "
    "and are run: read a formula from someone else before you fit it.",
)
DATA = (
    "data : DataFrame or path",
    "pandas, polars (eager or lazy) or pyarrow. Or data that need not fit in memory, for ``ate``, ``att``, ``atc`` and "
    '``ade`` with ``learner="linear"``: a Parquet file, a folder of them, a glob such as ``"sales/*.parquet"`` (text or '
    "``pathlib.Path``), or a ``pyarrow.dataset.Dataset``. They are read three or four times in chunks, with only the "
    "columns that are needed. Folds follow from the seed, the file and the row's number in it; labels are in "
    "alphabetical order; identical rows are not merged. Arguments with one value per row are then names of columns, and "
    "results have no methods that need rows.",
)


def takes_settings(who: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator for a function with ``**options``: keywords, documentation and refusal of wrong arguments from ``Settings``.

    In the docstring, lines of the section Parameters that are only ``formula``, ``data`` or ``**options`` are replaced by their
    documentation.

    Parameters
    ----------
    who : str
        The call as messages name it, such as ``riesz.estimate()``.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        original = inspect.signature(function, eval_str=True)
        positional = [
            parameter for parameter in original.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD
        ]
        signature = original.replace(parameters=[*positional, *keyword_parameters()])
        function.__signature__ = signature  # type: ignore[attr-defined]
        function.__doc__ = documented(function.__doc__ or "")
        return checked(who)(function)

    return decorate


def keyword_parameters() -> list[inspect.Parameter]:
    """The keywords of the verbs as parameters of a signature."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=kind)
        for name, (field, kind) in keywords().items()
    ]


def keyword_entries() -> str:
    """The keywords of the verbs as entries of a numpydoc section."""
    return "\n".join(
        entry(f"{name} : {field.metadata['kind']}", field.metadata["text"]) for name, (field, _) in keywords().items()
    )


def entry(head: str, text: str) -> str:
    """One entry of a numpydoc section.

    Examples
    --------
    >>> from riesz.api.signature import entry
    >>> print(entry("seed : int", "Determines folds and fits."))
    seed : int
        Determines folds and fits.
    """
    indent = "    "
    lines = textwrap.wrap(text, _WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
    return "\n".join([head, *(indent + line for line in lines)])


def documented(text: str) -> str:
    """A docstring with the shared entries in place of their names."""
    entries = {"formula": entry(*FORMULA), "data": entry(*DATA), "**options": keyword_entries()}
    shared = re.compile(rf"^({'|'.join(map(re.escape, entries))})$", flags=re.MULTILINE)
    return shared.sub(lambda match: entries[match.group()], inspect.cleandoc(text))
