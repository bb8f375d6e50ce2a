"""Back-ticked names, as in formulas and policies: replaced before Python parses the text, and put back afterwards."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Mapping

QUOTED = re.compile(r"`([^`]+)`")
_STRING_OR_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`([^`]+)`""")


def hide_quotes(text: str) -> tuple[str, dict[str, str]]:
    """Replace back-ticked names by identifiers, so that Python can parse the text.

    Back-ticks inside string literals are kept.

    Returns
    -------
    str
        The text with ``__quoted_0__`` and so on in place of back-ticked names.
    dict
        Identifier to name.

    Examples
    --------
    >>> from riesz.syntax.backticks import hide_quotes
    >>> hide_quotes("`x 1` == '`'")
    ("__quoted_0__ == '`'", {'__quoted_0__': 'x 1'})
    """
    names: dict[str, str] = {}
    stem = "__quoted"
    while stem in text:  # an identifier of the text must not look like a hidden one
        stem += "_"

    def hide(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return match.group(0)
        names[key := f"{stem}_{len(names)}__"] = name
        return key

    return _STRING_OR_QUOTED.sub(hide, text), names


def unparse(node: ast.AST, names: Mapping[str, str]) -> str:
    """The source of a parsed expression, with its back-ticked names put back."""
    code = ast.unparse(node)
    for key, name in names.items():
        code = code.replace(key, f"`{name}`")
    return code


def quote(name: str) -> str:
    """A column's name as formulas and policies write it: in back-ticks if it is not a Python identifier.

    Examples
    --------
    >>> from riesz.syntax.backticks import quote
    >>> quote("age"), quote("start date")
    ('age', '`start date`')
    """
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"`{name}`"
