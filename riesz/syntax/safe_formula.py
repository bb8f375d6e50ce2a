"""Formulas that came out of a file: evaluated only if they are known to be harmless, and only at a known size.

Formulas are Python in part, so evaluating one that a stranger wrote would run the stranger's code. What is checked is not the
text but the terms that formulaic made of it, each as the syntax tree that it will evaluate (``safe_expressions.py``), for outcome,
treatment and right-hand side. How many columns they make is counted before they are made.
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
_CELLS = 2**27  # numbers in the columns that a formula makes: 1 GB, or 64 times the fit's own design
_TOO_DEEP = (SyntaxError, ValueError, RecursionError, MemoryError)  # of Python's parser


def parse_safe_formula(
    text: Any, columns: Sequence[str], reserved: Sequence[str], data: pd.DataFrame, cells: int
) -> Formula:
    """Read a formula that came out of a file; one that is not known to be harmless is an error.

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
        How many numbers the fit's own design holds.

    Returns
    -------
    Formula
    """
    part = unsafe_part(text, columns)
    if part is not None:
        raise _refusal(part, text)
    try:
        formula = parse_formula(text, columns, reserved, {})
        factors = [*_factors(formula)]
    except FormulaError as error:
        if len(said := str(error)) <= _LONGEST_MESSAGE:
            raise
        ending = said[
            -_LONGEST_MESSAGE // 3 :
        ]  # it repeats the text, which may have any length; the cause stands at the end
        raise FormulaError(f"The formula {_short(text)} of the file cannot be read: ...{ending}") from None
    except (FormulaicError, *_TOO_DEEP) as error:
        reason = str(error)[:_LONGEST_MESSAGE] or "it is nested too deeply"
        raise FormulaError(f"The formula {_short(text)} of the file cannot be read ({reason}).") from None
    for factor in factors:
        part = _strange_factor(factor, data)
        if part is not None:
            raise _refusal(part, text)
    made = sum(_widths(term, data) for term in formula.rhs) * len(data)
    if made > max(_CELLS, 64 * cells):
        raise FormulaError(
            f"The formula {_short(text)} of the file would make {made // len(data):,} columns of {len(data):,} rows, far more than "
            f"the fit has ({cells // len(data):,}). Use the fit that was saved, or fit again."
        )
    return formula


def unsafe_part(text: Any, columns: Sequence[str]) -> str | None:
    """The first part of a formula, as it is written, that is not known to be harmless; None if there is none.

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
    except (FormulaicError, *_TOO_DEEP):
        return text
    return None


def _factors(formula: Formula) -> Iterator[Any]:
    """Everything that formulaic will evaluate: outcome, treatment and the right-hand side."""
    sides = [read_expression_term(side) for side in (formula.outcome, formula.treatment_expression) if side is not None]
    for terms in (*sides, formula.rhs):
        for term in terms:
            yield from term.factors


def _strange_factor(factor: Any, data: pd.DataFrame) -> str | None:
    """The part of a factor that is not known to be harmless, read as formulaic reads it when it evaluates."""
    how, text = factor.eval_method.value, str(factor.expr)
    labels = {name for name in data.columns if isinstance(data[name].dtype, pd.CategoricalDtype)}
    columns = labels | {
        name for name in data.columns if data[name].dtype == np.float64
    }  # other kinds are not for formulas
    if how == "lookup":
        return None if text in columns else text
    if how == "literal":
        return None if len(text) <= 20 and text.replace(".", "", 1).isdecimal() else text
    try:
        tree, aliases = _tree(text, columns)
        Checker(columns, aliases, labels, treat=False).check(tree)
    except UnsafeError as error:
        return ast.unparse(error.node)
    except _TOO_DEEP:
        return text
    return None


def _tree(text: str, columns: set[str]) -> tuple[ast.expr, dict[str, str]]:
    aliases: dict[str, str] = {}
    code = sanitize_variable_names(text, dict.fromkeys(columns), aliases)
    return ast.parse(code, mode="eval").body, aliases


def _widths(term: Any, data: pd.DataFrame) -> int:
    """How many columns a term makes at most."""
    width = 1
    for factor in term.factors:
        width *= _width(factor, data)
    return width


def _width(factor: Any, data: pd.DataFrame) -> int:
    if factor.eval_method.value == "literal":
        return 1
    if factor.eval_method.value == "lookup":
        return _levels(data[factor.expr]) if factor.expr in data else 1
    tree, aliases = _tree(factor.expr, set(data.columns))
    numbers = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) is int]
    items = sum(len(n.elts) for n in ast.walk(tree) if isinstance(n, (ast.List, ast.Tuple)))
    match tree:
        case ast.Call(func=ast.Name(id="bs" | "cr" | "cs" | "cc" | "poly")):
            return sum(map(abs, numbers)) + items + 5  # degrees of freedom, knots, degree
        case ast.Call(func=ast.Name(id="C"), args=[inner, *_]):
            return items + _distinct(inner, aliases, data)
    texts = sum(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in ast.walk(tree))
    read = {aliases.get(n.id, n.id) for n in ast.walk(tree) if isinstance(n, ast.Name)} & set(data.columns)
    return 1 + texts + sum(_levels(data[name]) - 1 for name in read)


def _levels(column: pd.Series) -> int:
    return len(column.cat.categories) if isinstance(column.dtype, pd.CategoricalDtype) else 1


def _distinct(node: ast.expr, aliases: dict[str, str], data: pd.DataFrame) -> int:
    """The levels of ``C(...)``: those of a column, or of an expression that was found harmless and goes row by row."""
    if isinstance(node, ast.Name):
        return int(data[aliases.get(node.id, node.id)].nunique())
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - {"np"}
    scope = {name: data[aliases.get(name, name)] for name in names if aliases.get(name, name) in data}
    try:
        with np.errstate(all="ignore"):
            made = stateful_eval(ast.unparse(node), {**TRANSFORMS, **scope}, None, None, None)
        return len(pd.unique(np.asarray(made).ravel()))
    except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError):
        return 1  # the formula will say what is wrong


def _refusal(part: str, text: str) -> FormulaError:
    return FormulaError(
        f"This fit was loaded from a file, and predict() would have to evaluate {_short(part)} in {_short(text)}, which is not "
        "known to be harmless. Use the fit that was saved, or fit again."
    )


def _short(text: object) -> str:
    said = str(text)
    return repr(said if len(said) <= 200 else f"{said[:200]}...")
