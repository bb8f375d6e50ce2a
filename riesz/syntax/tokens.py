"""The tokens of a formula, and the Python inside them.

formulaic's tokeniser splits a formula into names, operators and Python code; nothing is evaluated. What it raises, and what
Python's parser raises, becomes a :class:`~riesz.errors.FormulaError` in plain words.
"""

from __future__ import annotations

import ast
import re

from formulaic.parser.algos.tokenize import tokenize
from formulaic.parser.types import Token

from riesz.errors import FormulaError
from riesz.syntax.backticks import hide_quotes

EXAMPLE = "for example 'y ~ treat(a) + x1 + x2'"
_REASONS = {  # patterns of formulaic's messages, and plainer words
    r"Could not find matching context marker": "there is an unmatched parenthesis",
    r"Formula ended before quote context was closed\. Expected: (\S+)": r"a closing \1 is missing",
    r"Operator `(\S+)` has insuffient arguments and/or is misplaced": r"an operand of `\1` is missing",
}


def tokens_of(side: str, text: str) -> list[Token]:
    """The tokens of one side of a formula; ``text`` is the whole formula, for messages."""
    try:
        return list(tokenize(side))
    except Exception as error:
        raise unreadable(text, error) from None


def python_tokens(side: str) -> list[Token]:
    """The tokens of one side that are Python code: calls, and code in braces."""
    return [token for token in tokens_of(side, side) if token.kind is Token.Kind.PYTHON]


def parse_python(code: str, text: str) -> tuple[ast.Expression, dict[str, str]]:
    """The syntax tree of a token's Python code, and its back-ticked names by the identifiers that replace them.

    Examples
    --------
    >>> from riesz.syntax.tokens import parse_python
    >>> parse_python("log(`gross wage`)", "log(`gross wage`) ~ treat(a)")[1]
    {'__quoted_0__': 'gross wage'}
    """
    hidden, quoted = hide_quotes(code)
    try:
        return ast.parse(hidden, mode="eval"), quoted
    except SyntaxError as error:
        raise FormulaError(f"The formula {text!r} cannot be read: {error.msg} in {code!r}.") from None


def names_in(tree: ast.AST) -> list[ast.Name]:
    """The names in a tree that are not called as functions."""
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in functions]


def functions_in(tree: ast.AST) -> list[str]:
    """The functions that a tree calls by name; methods and functions of modules are not among them."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [function.id for function in calls if isinstance(function, ast.Name)]


def unreadable(text: str, error: Exception) -> FormulaError:
    """The error for a formula that formulaic cannot parse."""
    reason = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().split("\n")[0].rstrip(".")
    for pattern, plain in _REASONS.items():
        reason = re.sub(pattern, plain, reason)
    return FormulaError(f"The formula {text!r} cannot be read: {reason or type(error).__name__}. Write {EXAMPLE}.")
