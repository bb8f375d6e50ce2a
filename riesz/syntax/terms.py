"""Right-hand sides as formulaic's terms, and how many terms a text stands for, counted before any is made.

Parsing must not evaluate anything. formulaic evaluates calls while it parses the left side of a ``~``, so it is never given
text with that sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import formulaic
from formulaic.parser import DefaultFormulaParser
from formulaic.parser.algos.tokenize import tokenize
from formulaic.parser.types import ASTNode, Token

from riesz.errors import FormulaError
from riesz.syntax.tokens import names_in, parse_python

MOST_TERMS = 200_000  # (x1 + ... + x450)**2; many more would take minutes and gigabytes
_LARGEST_EXPONENT = 1000  # of `**`


def read_terms(side: str, available: Sequence[str], text: str) -> Any:
    """The terms of a right-hand side, in which ``.`` stands for the available columns.

    Parameters
    ----------
    side : str
        Without ``~``.
    available : sequence of str
    text : str
        The whole formula, for messages.

    Returns
    -------
    formulaic.Formula

    Examples
    --------
    >>> from riesz.syntax.terms import read_terms
    >>> [str(term) for term in read_terms("a * .", ["x1", "x2"], "y ~ a * .")]
    ['1', 'a', 'x1', 'x2', 'a:x1', 'a:x2']
    """
    if any(token.kind is Token.Kind.OPERATOR and "~" in str(token) for token in tokenize(side)):
        raise FormulaError(f"{text!r} has a second ~ sign in {side!r}; expected one, between outcome and treatment.")
    if count_terms(side, len(available)) > MOST_TERMS:
        raise FormulaError(
            f"{text!r} stands for more than {MOST_TERMS:,} terms. Write fewer interactions, or name those that matter."
        )
    return formulaic.Formula(side, _context={"__formulaic_variables_available__": list(available)})


def read_expression_term(text: str) -> Any:
    """A formula with one expression as its only term, such as ``log(y)``, with or without braces around it."""
    return read_terms(f"0 + {{{text.strip('{}')}}}", [], text)


def term_columns(term: Any, columns: Sequence[str]) -> set[str]:
    """The columns of the data that a term reads."""
    read: set[str] = set()
    for factor in term.factors:
        if factor.expr in columns:
            read.add(factor.expr)
        elif factor.eval_method.value == "python":
            tree, quoted = parse_python(factor.expr, factor.expr)
            read |= {quoted.get(node.id, node.id) for node in names_in(tree)} & set(columns)
    return read


def count_terms(side: str, available: int) -> int:
    """An upper bound on the number of terms of a right-hand side, or any number above ``MOST_TERMS``.

    Parameters
    ----------
    side : str
    available : int
        The number of columns that ``.`` stands for.

    Examples
    --------
    >>> from riesz.syntax.terms import count_terms
    >>> count_terms("a * (b + c)", 0), count_terms(".**2", 3)
    (6, 10)
    """
    tree = DefaultFormulaParser().get_ast(side)
    counts: dict[int, int] = {}
    stack = [tree]  # without recursion, which deep formulas would exhaust
    while stack:
        node = stack[-1]
        children = [child for child in node.args if isinstance(child, ASTNode)] if isinstance(node, ASTNode) else []
        uncounted = [child for child in children if id(child) not in counts]
        if uncounted:
            stack += uncounted
            continue
        counts[id(stack.pop())] = _count(node, counts, available)
        if counts[id(node)] > MOST_TERMS:
            return counts[id(node)]
    return counts[id(tree)]


def _count(node: Any, counts: dict[int, int], available: int) -> int:
    """The terms of a node, given those of its children."""
    if not isinstance(node, ASTNode):
        return 1
    parts = [counts.get(id(child), 1) for child in node.args]
    match node.operator.symbol, parts:
        case ".", _:
            return available
        case "**" | "^", [base, _]:
            return _count_power(base, node.args[1])
        case "-", [left, _]:
            return left
        case "-", _:
            return 1
        case "*", [left, right]:
            return left * right + left + right
        case ":", [left, right]:
            return left * right
    return sum(parts)


def _count_power(base: int, exponent: Any) -> int:
    """The terms of ``base**exponent``; more than the most if the exponent is not a small number."""
    written = "" if isinstance(exponent, ASTNode) else str(exponent)
    if written and not written.isdecimal():
        return base  # formulaic refuses it
    if not written or len(written) > 7 or int(written) > _LARGEST_EXPONENT:
        return MOST_TERMS + 1
    return int(base ** int(written))
