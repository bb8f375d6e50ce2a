"""Formulas from files: parsed and evaluated only if they are known to be safe and not too large.

Formulas are partly Python, so evaluating one from an unknown author could run that author's code. Two checks use the list of safe
operations in ``safe_expressions.py``: the first is of the text, before formulaic parses it; the second is of each syntax tree that
formulaic will evaluate for outcome, treatment and right-hand side. The columns are counted before any is computed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from formulaic.errors import FormulaicError
from formulaic.parser.algos.tokenize import tokenize
from formulaic.parser.types import Token
from formulaic.transforms import TRANSFORMS
from formulaic.utils.code import sanitize_variable_names
from formulaic.utils.stateful_transforms import stateful_eval

from riesz.errors import FormulaError
from riesz.syntax.backticks import hide_quotes
from riesz.syntax.formula import Formula, parse_formula
from riesz.syntax.safe_expressions import Checker, UnsafeError
from riesz.syntax.terms import read_expression_term

_LONGEST = 200_000  # characters
_LONGEST_MESSAGE = 1000
_LONGEST_LITERAL = 20  # digits of a number among the terms
_CELLS = 2**27  # numbers in the columns of a formula: 1 GB
_GROWTH = 64  # a formula may give this many times as many numbers as the fit's design has
_PARSER_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


def parse_safe_formula(
    text: Any, columns: Sequence[str], reserved: Sequence[str], data: pd.DataFrame, cells: int
) -> Formula:
    """Parse a formula that comes from a file; one that is not known to be safe is an error.

    Parameters
    ----------
    text : str
    columns : sequence of str
        The columns of the user's table.
    reserved : sequence of str
        Those that ``.`` leaves out.
    data : pandas.DataFrame
        The rows of the fit. The formula may read its numbers and labels, and nothing else.
    cells : int
        The number of entries of the fit's design matrix.

    Returns
    -------
    Formula
    """
    part = unsafe_part(text, columns)
    if part is not None:
        raise _refusal(part, text)
    formula, factors = _parse(text, columns, reserved)
    for factor in factors:
        part = _unsafe_part_of_factor(factor, data)
        if part is not None:
            raise _refusal(part, text)
    needed = sum(_term_width(term, data) for term in formula.rhs) * len(data)
    if needed > max(_CELLS, _GROWTH * cells):
        raise FormulaError(
            f"The formula {_short(text)} of the file would make {needed // len(data):,} columns of {len(data):,} rows, far more "
            f"than the fit has ({cells // len(data):,}). Use the fit that was saved, or fit again."
        )
    return formula


def unsafe_part(text: Any, columns: Sequence[str]) -> str | None:
    """The first part of a formula's text that is not known to be safe; None if there is none.

    Examples
    --------
    >>> from riesz.syntax.safe_formula import unsafe_part
    >>> unsafe_part("y ~ treat(a) + bs(x, df=4)", ["y", "a", "x"])
    >>> unsafe_part("y ~ treat(a) + {x.__class__}", ["y", "a", "x"])
    'x.__class__'
    """
    if not isinstance(text, str) or len(text) > _LONGEST or "\\" in text:
        return str(text)
    try:
        for token in tokenize(text):
            if token.kind is Token.Kind.PYTHON:
                code, quoted = hide_quotes(str(token))
                Checker(columns, quoted, (), treat=True).check(ast.parse(code.strip(), mode="eval").body)
    except UnsafeError as error:
        return ast.unparse(error.node)
    except (FormulaicError, *_PARSER_ERRORS):
        return text
    return None


def _parse(text: str, columns: Sequence[str], reserved: Sequence[str]) -> tuple[Formula, list[Any]]:
    """The formula and its factors; messages are short although the text may have any length."""
    try:
        formula = parse_formula(text, columns, reserved, {})
        return formula, [*_factors(formula)]
    except FormulaError as error:
        message = str(error)
        if len(message) <= _LONGEST_MESSAGE:
            raise
        ending = message[-_LONGEST_MESSAGE // 3 :]  # it repeats the text; the cause is at the end
        raise FormulaError(f"The formula {_short(text)} of the file cannot be read: ...{ending}") from None
    except (FormulaicError, *_PARSER_ERRORS) as error:
        reason = str(error)[:_LONGEST_MESSAGE] or "it is nested too deeply"
        raise FormulaError(f"The formula {_short(text)} of the file cannot be read ({reason}).") from None


def _factors(formula: Formula) -> Iterator[Any]:
    """Everything that formulaic will evaluate: outcome, treatment and the right-hand side."""
    sides = [read_expression_term(side) for side in (formula.outcome, formula.treatment_expression) if side is not None]
    for terms in (*sides, formula.rhs):
        for term in terms:
            yield from term.factors


def _unsafe_part_of_factor(factor: Any, data: pd.DataFrame) -> str | None:
    """The part of a factor that is not known to be safe, parsed as formulaic parses it when it evaluates."""
    method, text = factor.eval_method.value, str(factor.expr)
    labels = {name for name in data.columns if isinstance(data[name].dtype, pd.CategoricalDtype)}
    numbers = {name for name in data.columns if data[name].dtype == np.float64}
    columns = labels | numbers  # formulas may not read other types
    if method == "lookup":
        return None if text in columns else text
    if method == "literal":
        return None if len(text) <= _LONGEST_LITERAL and text.replace(".", "", 1).isdecimal() else text
    try:
        tree, aliases = _tree(text, columns)
        Checker(columns, aliases, labels, treat=False).check(tree)
    except UnsafeError as error:
        return ast.unparse(error.node)
    except _PARSER_ERRORS:
        return text
    return None


def _tree(text: str, columns: set[str]) -> tuple[ast.expr, dict[str, str]]:
    """The syntax tree of a factor, and the columns by the identifiers that replace them."""
    aliases: dict[str, str] = {}
    code = sanitize_variable_names(text, dict.fromkeys(columns), aliases)
    return ast.parse(code, mode="eval").body, aliases


def _term_width(term: Any, data: pd.DataFrame) -> int:
    """An upper bound on the number of columns of a term."""
    width = 1
    for factor in term.factors:
        width *= _factor_width(factor, data)
    return width


def _factor_width(factor: Any, data: pd.DataFrame) -> int:
    if factor.eval_method.value == "literal":
        return 1
    if factor.eval_method.value == "lookup":
        return _levels(data[factor.expr]) if factor.expr in data else 1
    return _expression_width(factor.expr, data)


def _expression_width(text: str, data: pd.DataFrame) -> int:
    tree, aliases = _tree(text, set(data.columns))
    nodes = [*ast.walk(tree)]
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    items = sum(len(node.elts) for node in nodes if isinstance(node, (ast.List, ast.Tuple)))
    match tree:
        case ast.Call(func=ast.Name(id="bs" | "cr" | "cs" | "cc" | "poly")):  # degrees of freedom, knots, degree
            return sum(abs(value) for value in constants if type(value) is int) + items + 5
        case ast.Call(func=ast.Name(id="C"), args=[inner, *_]):
            return items + _distinct(inner, aliases, data)
    strings = sum(isinstance(value, str) for value in constants)
    read = {aliases.get(node.id, node.id) for node in nodes if isinstance(node, ast.Name)} & set(data.columns)
    return 1 + strings + sum(_levels(data[name]) - 1 for name in read)


def _levels(column: pd.Series) -> int:
    return len(column.cat.categories) if isinstance(column.dtype, pd.CategoricalDtype) else 1


def _distinct(node: ast.expr, aliases: dict[str, str], data: pd.DataFrame) -> int:
    """The number of levels of ``C(...)`` of a column, or of a safe expression that is computed row by row."""
    if isinstance(node, ast.Name):
        return int(data[aliases.get(node.id, node.id)].nunique())
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)} - {"np"}
    scope = {name: data[aliases.get(name, name)] for name in names if aliases.get(name, name) in data}
    try:
        with np.errstate(all="ignore"):
            values = stateful_eval(ast.unparse(node), {**TRANSFORMS, **scope}, None, None, None)
        return len(pd.unique(np.asarray(values).ravel()))
    except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError):
        return 1  # evaluating the formula will raise the error


def _refusal(part: str, text: str) -> FormulaError:
    return FormulaError(
        f"This fit was loaded from a file, and predict() would have to evaluate {_short(part)} in {_short(text)}, which is not "
        "known to be safe. Use the fit that was saved, or fit again."
    )


def _short(text: object) -> str:
    written = str(text)
    return repr(written if len(written) <= 200 else f"{written[:200]}...")
