"""The formula: which column is the outcome, which the treatment, and which columns of a design come out.

``treat(a)`` is syntax, like R's ``terms(specials=)``, and never an evaluated function: the text is tokenised, ``treat(e)``
is found inside each token and rewritten to ``e``. So nothing is registered with formulaic, nothing shadows a
column called ``treat``, and ``bs(treat(d), df=4)``, ``treat(a):x`` and back-ticked names work.

In: the text, the columns there are, the caller's variables. Out: a :class:`Formula`, which ``design.py`` turns into
arrays. All that touches formulaic's parser is in this module.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import formulaic
import formulaic.transforms
import numpy as np
import pandas as pd
from formulaic.parser.algos.tokenize import tokenize
from formulaic.parser.types import Token

from riesz.errors import FormulaError, listing, nearest
from riesz.syntax.backticks import QUOTED, hide_quotes, unparse
from riesz.syntax.terms import read_terms

_EXAMPLE = "for example 'y ~ treat(a) + x1 + x2'"
_TAKEN = {"1", ".", "Intercept"}  # columns of these names would be read as something else
_REASONS = {  # formulaic's words, and ours
    r"Could not find matching context marker": "a parenthesis has no partner",
    r"Formula ended before quote context was closed\. Expected: (\S+)": r"a closing \1 is missing",
    r"Operator `(\S+)` has insuffient arguments and/or is misplaced": r"nothing stands beside `\1`",
}


@dataclass(frozen=True)
class Formula:
    """A formula that was read and checked against the columns.

    Attributes
    ----------
    text : str
        As the user wrote it.
    outcome : str
        The left-hand side.
    outcome_columns : tuple of str
        The columns it reads.
    rhs : formulaic.SimpleFormula
        The right-hand side, with ``treat(e)`` rewritten to ``e`` and ``.`` expanded.
    treatment : str
        The treatment's column. For ``treat(log(p))`` a column of that name is to be made.
    treatment_expression : str or None
        How to make that column; None when it is there already.
    reference : object
        From ``treat(a, reference=...)``; None when not given.
    variables : frozenset of str
        Every column of the data that is needed.
    covariates : tuple of str
        The columns on the right-hand side other than the treatment, in order.
    columns : tuple of str
        Every column of the data, for suggestions.
    """

    text: str
    outcome: str
    outcome_columns: tuple[str, ...]
    rhs: Any
    treatment: str
    treatment_expression: str | None
    reference: Any
    variables: frozenset[str]
    covariates: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class _Treat:
    """One ``treat(...)`` call: what is inside, and the reference given."""

    expression: str
    reference: Any


def parse(text: str, columns: Sequence[str], reserved: Sequence[str], context: Mapping[str, Any]) -> Formula:
    """Read a formula.

    Parameters
    ----------
    text : str
    columns : sequence of str
        The columns of the data.
    reserved : sequence of str
        Columns that ``.`` leaves out: weights, clusters, folds.
    context : mapping
        The caller's variables; only names inside calls may come from it.

    Returns
    -------
    Formula
    """
    left, right = _split(text)
    if _find_treats(left):
        raise FormulaError(f"{text!r} has treat() on the left of ~. The outcome stands there; write {_EXAMPLE}.")
    treats = _find_treats(right)
    if not treats:
        raise FormulaError(
            f"{text!r} marks no treatment. Wrap the treatment in treat() on the right-hand side, {_EXAMPLE}."
        )
    expressions = sorted({treat.expression for treat in treats})
    if len(expressions) > 1:
        raise FormulaError(
            f"{text!r} marks {len(expressions)} treatments: {listing(expressions)}. One treatment at a time: wrap one, and let "
            "the others enter as covariates."
        )
    references = [treat.reference for treat in treats if treat.reference is not None]
    if any(reference != references[0] for reference in references):
        raise FormulaError(f"{text!r} gives treat() several references: {listing(references)}. Give one, once.")

    outcome_names = _names(left, columns, context, text)
    if not outcome_names:
        raise FormulaError(f"{text!r}: the left-hand side {left!r} names no column. Wanted the outcome, {_EXAMPLE}.")
    name, inside = _treatment_column(expressions[0], columns, context, text)

    rewritten = _rewrite(right, name)
    hidden = set(outcome_names) | {name} | set(inside) | set(reserved)
    available = [column for column in columns if column not in hidden]
    right_names = _names(rewritten, columns if name in columns else [*columns, name], context, text)
    leaked = [column for column in dict.fromkeys([*right_names, *inside]) if column in outcome_names]
    if leaked:
        raise FormulaError(
            f"{text!r}: the outcome {listing(leaked)} is also on the right-hand side. Leave it out there; a column made from "
            "the outcome cannot be a covariate."
        )
    frozen = [column for column in right_names if column in inside and column != name]
    if frozen:
        raise FormulaError(
            f"{text!r}: {listing(frozen)} is inside treat({expressions[0]}) and also a covariate, so it would stay put while "
            "the treatment moves. Leave it out of the covariates."
        )
    if _has_dot(rewritten) and not available:
        raise FormulaError(
            f"{text!r}: `.` stands for no column; outcome, treatment, weights and clusters are left out of it."
        )
    reached = {name, *right_names, *(available if _has_dot(rewritten) else ())}
    odd = sorted(reached & _TAKEN)
    if odd:
        raise FormulaError(
            f"A column is called {listing(odd)}, which means something else in a formula. Rename it or drop it."
        )
    rhs = _formulaic(rewritten, available, text)
    spanned = set().union(*(term_columns(term, [*columns, name]) for term in rhs))
    if name not in spanned:
        raise FormulaError(
            f"{text!r}: the treatment `{name}` is taken out of the right-hand side again, so nothing there can move with it. "
            "Leave it in."
        )
    covariates = tuple(column for column in columns if column in spanned and column != name)
    raw = {name} if not inside else set(inside)
    shadowed = sorted(
        (_called(left) | _called(rewritten) | _called(f"{{{expressions[0]}}}")) & {*outcome_names, *raw, *covariates}
    )
    if shadowed:
        raise FormulaError(
            f"{text!r}: {listing(shadowed)} is both a column and a function that the formula calls. Rename the column."
        )
    return Formula(
        text=text,
        outcome=left,
        outcome_columns=tuple(outcome_names),
        rhs=rhs,
        treatment=name,
        treatment_expression=expressions[0] if inside else None,
        reference=references[0] if references else None,
        variables=frozenset(set(outcome_names) | raw | set(covariates)),
        covariates=covariates,
        columns=tuple(columns),
    )


def _split(text: str) -> tuple[str, str]:
    if not isinstance(text, str):
        raise FormulaError(f"The formula is a {type(text).__name__}; wanted text, {_EXAMPLE}.")
    marks = [token for token in _tokens(text, text) if token.kind is Token.Kind.OPERATOR and str(token) == "~"]
    if len(marks) != 1 or marks[0].source_start is None:
        raise FormulaError(f"{text!r} has {len(marks)} ~ signs; wanted outcome ~ treatment and covariates, {_EXAMPLE}.")
    at = marks[0].source_start
    left, right = text[:at].strip(), text[at + 1 :].strip()
    if not left or not right:
        side = "left" if not left else "right"
        raise FormulaError(f"{text!r}: nothing stands on the {side} of ~. Write {_EXAMPLE}.")
    return left, right


def _tokens(side: str, text: str) -> list[Token]:
    try:
        return list(tokenize(side))
    except Exception as error:
        raise _unreadable(text, error) from None


def _unreadable(text: str, error: Exception) -> FormulaError:
    reason = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().split("\n")[0].rstrip(".")
    for theirs, ours in _REASONS.items():
        reason = re.sub(theirs, ours, reason)
    return FormulaError(f"The formula {text!r} cannot be read: {reason or type(error).__name__}. Write {_EXAMPLE}.")


def _parse_python(code: str, text: str) -> tuple[ast.Expression, dict[str, str]]:
    """Parse the Python inside a token."""
    hidden, names = hide_quotes(code)
    try:
        return ast.parse(hidden, mode="eval"), names
    except SyntaxError as error:
        raise FormulaError(f"The formula {text!r} cannot be read: {error.msg} in {code!r}.") from None


def _is_treat(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "treat"


def _python_tokens(side: str) -> list[Token]:
    return [token for token in _tokens(side, side) if token.kind is Token.Kind.PYTHON]


def _find_treats(side: str) -> list[_Treat]:
    found = []
    for token in _python_tokens(side):
        if "treat" not in str(token):
            continue
        tree, names = _parse_python(str(token), side)
        found += [_read_treat(node, names) for node in ast.walk(tree) if _is_treat(node)]
    return found


def _read_treat(node: ast.AST, names: Mapping[str, str]) -> _Treat:
    assert isinstance(node, ast.Call)
    unknown = [keyword.arg for keyword in node.keywords if keyword.arg != "reference"]
    if len(node.args) != 1 or unknown:
        raise FormulaError(
            f"{unparse(node, names)} cannot be read; wanted treat(column) or treat(column, reference=level), one column a call."
        )
    inner = node.args[0]
    if (
        isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Name)
        and inner.func.id == "C"
        and len(inner.args) == 1
    ):
        inner = inner.args[0]  # treat(C(arm)) says what treat(arm) finds out by itself
    reference = None
    for keyword in node.keywords:
        try:
            reference = ast.literal_eval(keyword.value)
        except ValueError:
            given = unparse(keyword.value, names)
            raise FormulaError(f"reference={given} is not a plain value; quote it: reference={given!r}.") from None
    return _Treat(unparse(inner, names), reference)


def _rewrite(side: str, name: str) -> str:
    """Put the treatment's column where ``treat(...)`` stands."""
    column = name if name.isidentifier() else f"`{name}`"

    class Replace(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            if _is_treat(node):
                return ast.Name(id="__treatment__", ctx=ast.Load())
            return self.generic_visit(node)

    pieces, at = [], 0
    for token in _python_tokens(side):
        if "treat" not in str(token) or token.source_start is None or token.source_end is None:
            continue
        tree, names = _parse_python(str(token), side)
        new = unparse(Replace().visit(tree), names).replace("__treatment__", column)
        braces = side[token.source_start] == "{"  # the token's span has the opening brace, not the closing one
        pieces += [side[at : token.source_start], f"{{{new}}}" if braces else new]
        at = token.source_end + 1 + braces
    return "".join([*pieces, side[at:]])


def _treatment_column(
    expression: str, columns: Sequence[str], context: Mapping[str, Any], text: str
) -> tuple[str, tuple[str, ...]]:
    """The treatment's column, and the columns it is made of when it is an expression."""
    bare = expression.strip("`") if QUOTED.fullmatch(expression) else expression
    if bare in columns:
        return bare, ()
    if bare.isidentifier() or QUOTED.fullmatch(expression):
        raise FormulaError(
            f"Treatment `{bare}` is not a column of the data.{nearest(bare, columns)} The columns are {listing(columns)}."
        )
    inside = _names("{" + expression + "}", columns, context, text)
    if not inside:
        raise FormulaError(f"treat({expression}) names no column of the data. The columns are {listing(columns)}.")
    return expression.replace("`", ""), tuple(inside)


def _names(side: str, columns: Sequence[str], context: Mapping[str, Any], text: str) -> list[str]:
    """The columns that one side reads; names that are neither column nor known are an error."""
    found: list[str] = []
    for token in _tokens(side, text):
        if token.kind is Token.Kind.NAME:
            name = str(token)
            if name not in columns:
                raise FormulaError(
                    f"`{name}` in {text!r} is not a column of the data.{nearest(name, columns)} The columns are {listing(columns)}."
                )
            found.append(name)
        elif token.kind is Token.Kind.PYTHON:
            found += _names_in_call(str(token), columns, context, text)
    return list(dict.fromkeys(found))


def _names_in_call(code: str, columns: Sequence[str], context: Mapping[str, Any], text: str) -> list[str]:
    tree, quoted = _parse_python(code, text)
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = []
    for node in (one for one in ast.walk(tree) if isinstance(one, ast.Name)):
        name = quoted.get(node.id, node.id)
        if id(node) in functions:
            if name not in formulaic.transforms.TRANSFORMS and name not in context and not hasattr(builtins, name):
                known = [*formulaic.transforms.TRANSFORMS, "treat"]
                hint = f" Write {code.replace('factor(', 'C(')}." if name == "factor" else nearest(name, known)
                raise FormulaError(f"{name}() in {text!r} is not a known function.{hint}")
        elif name in columns:
            found.append(name)
        elif name not in formulaic.transforms.TRANSFORMS and name not in context:
            raise FormulaError(
                f"`{name}` in {text!r} is neither a column of the data nor a variable where the call was made."
                f"{nearest(name, columns)}"
            )
        elif name in context and node.id not in quoted and _looks_like_a_column(context[name]):
            raise FormulaError(
                f"`{name}` in {text!r} is not a column of the data, but an array where the call was made.{nearest(name, columns)} "
                "Add it to the data, so that missing rows and folds treat it like the rest."
            )
    return found


def _called(side: str) -> set[str]:
    """The functions that one side calls by name."""
    trees = [_parse_python(str(token), side)[0] for token in _python_tokens(side)]
    calls = [node.func for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {function.id for function in calls if isinstance(function, ast.Name)}


def _looks_like_a_column(value: object) -> bool:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return False
    return isinstance(value, (np.ndarray, pd.Series, pd.DataFrame, list, tuple)) and len(value) > 50  # knots are few


def _has_dot(side: str) -> bool:
    return any(str(token) == "." for token in _tokens(side, side))


def _formulaic(side: str, available: list[str], text: str) -> Any:
    try:
        parsed = read_terms(side, available, text)
    except FormulaError:
        raise
    except Exception as error:
        raise _unreadable(text, error) from None
    if not isinstance(parsed, formulaic.SimpleFormula):
        raise FormulaError(f"{text!r}: the right-hand side has several parts; wanted one, without `|`.")
    return parsed


def parse_projection(text: str, columns: Sequence[str], covariates: Sequence[str], context: Mapping[str, Any]) -> Any:
    """Read a one-sided formula such as ``"~ x1 + x2"``, in which ``.`` stands for the covariates; a formulaic formula."""
    side = text.strip().removeprefix("~").strip() if isinstance(text, str) else ""
    if not side or "~" in side or _find_treats(side):
        raise FormulaError(
            f"{text!r}: wanted the right-hand side of a formula, for example '~ x1 + x2', without treat()."
        )
    _names(side, columns, context, text)
    return _formulaic(side, list(covariates), text)


def term_columns(term: Any, columns: Sequence[str]) -> set[str]:
    """The columns of the data that a term reads."""
    found: set[str] = set()
    for factor in term.factors:
        if factor.expr in columns:
            found.add(factor.expr)
        elif factor.eval_method.value == "python":
            tree, quoted = _parse_python(factor.expr, factor.expr)
            functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
            names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in functions}
            found |= {quoted.get(name, name) for name in names} & set(columns)
    return found
