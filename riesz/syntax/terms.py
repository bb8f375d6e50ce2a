"""Right-hand sides as formulaic's terms, and how many terms a text stands for, told before any is made.

Reading must not evaluate anything. formulaic evaluates calls while it reads what stands left of a ``~``, so a text with that
sign is not given to it.
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

MOST_TERMS = 200_000  # (x1 + ... + x450)**2; far more would take minutes and gigabytes to write down
_MOST_REPEATED = 1000  # the largest exponent of `**`


def read_terms(side: str, available: Sequence[str], text: str) -> Any:
    """The terms of a right-hand side, in which ``.`` stands for the columns available.

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
    """The formula with one expression as its only term, such as ``log(y)``; braces around it may be there or not."""
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
    """At most so many terms a right-hand side stands for, repeated ones counted; beyond the limit, some number above it.

    Examples
    --------
    >>> from riesz.syntax.terms import count_terms
    >>> count_terms("a * (b + c)", 0), count_terms(".**2", 3)
    (6, 10)
    """
    tree = DefaultFormulaParser().get_ast(side)
    counts: dict[int, int] = {}
    todo = [tree]
    while todo:
        node = todo[-1]
        inner = [child for child in node.args if isinstance(child, ASTNode)] if isinstance(node, ASTNode) else []
        waiting = [child for child in inner if id(child) not in counts]
        if waiting:
            todo += waiting
            continue
        counts[id(todo.pop())] = _count(node, counts, available)
        if counts[id(node)] > MOST_TERMS:
            return counts[id(node)]
    return counts[id(tree)]


def _count(node: Any, counts: dict[int, int], available: int) -> int:
    if not isinstance(node, ASTNode):
        return 1
    parts = [counts.get(id(child), 1) for child in node.args]
    symbol = node.operator.symbol
    if symbol == ".":
        return available
    if symbol in ("**", "^"):
        exponent = "" if isinstance(node.args[1], ASTNode) else str(node.args[1])
        if exponent and not exponent.isdecimal():
            return parts[0]  # formulaic refuses it
        repeated = int(exponent) if exponent and len(exponent) < 8 else _MOST_REPEATED + 1
        return parts[0] ** repeated if repeated <= _MOST_REPEATED else MOST_TERMS + 1
    if symbol == "-":
        return parts[0] if len(parts) == 2 else 1
    if len(parts) == 2 and symbol in ("*", ":"):
        return parts[0] * parts[1] + (parts[0] + parts[1] if symbol == "*" else 0)
    return sum(parts)
