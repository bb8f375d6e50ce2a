"""The marker ``treat(...)``: find it in a formula, and put the treatment's column in its place.

``treat(a)`` is syntax, like R's ``terms(specials=)``, and never an evaluated function. So nothing is registered with formulaic,
nothing shadows a column called ``treat``, and ``bs(treat(d), df=4)``, ``treat(a):x`` and back-ticked names work.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from riesz.errors import FormulaError, listing
from riesz.syntax.backticks import unparse
from riesz.syntax.tokens import EXAMPLE, parse_python, python_tokens

_PLACEHOLDER = "__treatment__"


@dataclass(frozen=True)
class Treat:
    """The arguments of a ``treat(...)`` call.

    Attributes
    ----------
    expression : str
        The treatment: a column, or an expression such as ``log(price)``.
    reference : object
        The reference level; None if it is not given.
    """

    expression: str
    reference: Any


def find_treats(side: str) -> list[Treat]:
    """The ``treat(...)`` calls of one side of a formula.

    Examples
    --------
    >>> from riesz.syntax.treat import find_treats
    >>> find_treats("treat(a, reference='u') * x")
    [Treat(expression='a', reference='u')]
    """
    treats = []
    for token in python_tokens(side):
        if "treat" in str(token):
            tree, quoted = parse_python(str(token), side)
            treats += [_read(node, quoted) for node in ast.walk(tree) if _is_call(node, "treat")]
    return treats


def find_treatment(left: str, right: str, text: str) -> Treat:
    """The one treatment that a formula marks, on its right-hand side; ``text`` is the whole formula, for messages."""
    if find_treats(left):
        raise FormulaError(
            f"{text!r} has treat() on the left of ~, where the outcome is expected. Mark the treatment on the right, {EXAMPLE}."
        )
    treats = find_treats(right)
    if not treats:
        raise FormulaError(
            f"{text!r} marks no treatment. Wrap the treatment in treat() on the right-hand side, {EXAMPLE}."
        )
    expressions = sorted({treat.expression for treat in treats})
    if len(expressions) > 1:
        raise FormulaError(
            f"{text!r} marks {len(expressions)} treatments: {listing(expressions)}. Mark one, and let the others enter as "
            "covariates."
        )
    references = [treat.reference for treat in treats if treat.reference is not None]
    if any(reference != references[0] for reference in references):
        raise FormulaError(f"{text!r} gives treat() several references: {listing(references)}. Give one.")
    return Treat(expressions[0], references[0] if references else None)


def replace_treats(side: str, column: str) -> str:
    """One side of a formula with a column where ``treat(...)`` stands.

    Examples
    --------
    >>> from riesz.syntax.treat import replace_treats
    >>> replace_treats("bs(treat(d), df=4) + treat(d):x", "d")
    'bs(d, df=4) + d:x'
    """
    written = column if column.isidentifier() else f"`{column}`"
    pieces, position = [], 0
    for token in python_tokens(side):
        if "treat" not in str(token) or token.source_start is None or token.source_end is None:
            continue
        tree, quoted = parse_python(str(token), side)
        code = unparse(_Replace().visit(tree), quoted).replace(_PLACEHOLDER, written)
        braces = side[token.source_start] == "{"  # the token's span has the opening brace, not the closing one
        pieces += [side[position : token.source_start], f"{{{code}}}" if braces else code]
        position = token.source_end + 1 + braces
    return "".join([*pieces, side[position:]])


class _Replace(ast.NodeTransformer):
    """Puts a placeholder where ``treat(...)`` is called."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _is_call(node, "treat"):
            return ast.Name(id=_PLACEHOLDER, ctx=ast.Load())
        return self.generic_visit(node)


def _is_call(node: ast.AST, function: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function


def _read(node: ast.AST, quoted: Mapping[str, str]) -> Treat:
    assert isinstance(node, ast.Call)
    unknown = [keyword.arg for keyword in node.keywords if keyword.arg != "reference"]
    if len(node.args) != 1 or unknown:
        raise FormulaError(
            f"{unparse(node, quoted)} cannot be read; expected treat(column) or treat(column, reference=level)."
        )
    inner = node.args[0]
    if isinstance(inner, ast.Call) and _is_call(inner, "C") and len(inner.args) == 1:
        inner = inner.args[0]  # treat(C(arm)) means treat(arm)
    references = [_literal(keyword.value, quoted) for keyword in node.keywords]
    return Treat(unparse(inner, quoted), references[-1] if references else None)


def _literal(node: ast.expr, quoted: Mapping[str, str]) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        written = unparse(node, quoted)
        raise FormulaError(f"reference={written} is not a plain value. Quote it: reference={written!r}.") from None
