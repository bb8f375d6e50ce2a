"""The formula: which column is the outcome, which the treatment, and which terms make the design.

In: the text, the columns of the data, the caller's variables. Out: a :class:`Formula`, of which ``columns.py`` evaluates the
right-hand side. The parts: ``tokens.py`` splits the text, ``treat.py`` finds the treatment, ``names.py`` distinguishes columns
from variables, ``terms.py`` expands the right-hand side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import formulaic
from formulaic.parser.types import Token

from riesz.errors import FormulaError, listing
from riesz.syntax.backticks import QUOTED
from riesz.syntax.names import Names, functions_called
from riesz.syntax.terms import read_terms, term_columns
from riesz.syntax.tokens import EXAMPLE, tokens_of, unreadable
from riesz.syntax.treat import find_treatment, find_treats, replace_treats

_RESERVED_NAMES = {"1", ".", "Intercept"}  # columns of these names would be read as something else


@dataclass(frozen=True)
class Formula:
    """A formula that was parsed and checked against the columns.

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
        The treatment's column. For ``treat(log(p))`` it is not in the data but computed, under that name.
    treatment_expression : str or None
        How to compute that column; None if it is in the data.
    reference : object
        From ``treat(a, reference=...)``; None if not given.
    variables : frozenset of str
        Every column of the data that is needed.
    covariates : tuple of str
        The columns on the right-hand side other than the treatment, in the order of the data.
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


def parse_formula(text: str, columns: Sequence[str], reserved: Sequence[str], context: Mapping[str, Any]) -> Formula:
    """Parse a formula and check it against the columns of the data.

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

    Examples
    --------
    >>> from riesz.syntax.formula import parse_formula
    >>> formula = parse_formula("log(y) ~ treat(a) * .", ["y", "a", "x", "w"], ["w"], {})
    >>> formula.treatment, formula.covariates, str(formula.rhs)
    ('a', ('x',), '1 + a + x + a:x')
    """
    names = Names(text, columns, context)
    # 1. Split at ~ and find the outcome's and the treatment's columns.
    left, right = _split(text)
    treat = find_treatment(left, right, text)
    outcome = _outcome_columns(left, names)
    treatment, ingredients = _treatment_column(treat.expression, names)
    # 2. Put the treatment's column where treat() stands, and check what the right-hand side reads.
    side = replace_treats(right, treatment)
    all_columns = columns if treatment in columns else [*columns, treatment]
    read = replace(names, columns=all_columns).read(side)
    _refuse_outcome_as_covariate([*read, *ingredients], outcome, text)
    _refuse_ingredients_as_covariates(read, treatment, ingredients, treat.expression, text)
    # 3. Expand `.`, which stands for every column that has no other role.
    roles = {*outcome, treatment, *ingredients, *reserved}
    available = [column for column in columns if column not in roles]
    if _has_dot(side):
        _refuse_empty_dot(available, text)
        read += available
    _refuse_reserved_names({treatment, *read})
    rhs = _read_terms(side, available, text)
    # 4. Keep the columns that are still read: `- x` removes some.
    read_by_terms = set().union(*(term_columns(term, all_columns) for term in rhs))
    _refuse_dropped_treatment(treatment, read_by_terms, text)
    covariates = tuple(column for column in columns if column in read_by_terms and column != treatment)
    variables = frozenset({*outcome, *(ingredients or [treatment]), *covariates})
    called = functions_called(left) | functions_called(side) | functions_called(f"{{{treat.expression}}}")
    _refuse_columns_called_as_functions(called & variables, text)
    return Formula(
        text=text,
        outcome=left,
        outcome_columns=tuple(outcome),
        rhs=rhs,
        treatment=treatment,
        treatment_expression=treat.expression if ingredients else None,
        reference=treat.reference,
        variables=variables,
        covariates=covariates,
        columns=tuple(columns),
    )


def parse_projection(text: str, columns: Sequence[str], covariates: Sequence[str], context: Mapping[str, Any]) -> Any:
    """Parse a one-sided formula such as ``"~ x1 + x2"``, in which ``.`` stands for the covariates.

    Returns
    -------
    formulaic.SimpleFormula
    """
    side = text.strip().removeprefix("~").strip() if isinstance(text, str) else ""
    if not side or "~" in side or find_treats(side):
        raise FormulaError(
            f"{text!r} is not a one-sided formula; expected the right-hand side of a formula without treat(), for example "
            "'~ x1 + x2'."
        )
    Names(text, columns, context).read(side)
    return _read_terms(side, list(covariates), text)


def _split(text: str) -> tuple[str, str]:
    """The two sides of a formula."""
    if not isinstance(text, str):
        raise FormulaError(f"The formula must be a string, {EXAMPLE}; got {type(text).__name__}.")
    marks = [token for token in tokens_of(text, text) if token.kind is Token.Kind.OPERATOR and str(token) == "~"]
    if len(marks) != 1 or marks[0].source_start is None:
        raise FormulaError(
            f"{text!r} has {len(marks)} ~ signs; expected one, between the outcome and the treatment and covariates, {EXAMPLE}."
        )
    position = marks[0].source_start
    left, right = text[:position].strip(), text[position + 1 :].strip()
    if not left or not right:
        side = "right" if left else "left"
        raise FormulaError(f"{text!r} has nothing on the {side} of ~. Write {EXAMPLE}.")
    return left, right


def _outcome_columns(left: str, names: Names) -> list[str]:
    outcome = names.read(left)
    if not outcome:
        raise FormulaError(
            f"{names.text!r}: the left-hand side {left!r} names no column; expected the outcome, {EXAMPLE}."
        )
    return outcome


def _treatment_column(expression: str, names: Names) -> tuple[str, list[str]]:
    """The treatment's column, and, if it is computed by an expression, the columns that this reads."""
    quoted = QUOTED.fullmatch(expression)
    name = expression.strip("`") if quoted else expression
    if name in names.columns:
        return name, []
    if quoted or name.isidentifier():
        raise FormulaError(f"Treatment `{name}` {names.unknown_column(name)}")
    ingredients = names.read(f"{{{expression}}}")
    if not ingredients:
        raise FormulaError(
            f"treat({expression}) names no column of the data. The columns are {listing(names.columns)}."
        )
    return expression.replace("`", ""), ingredients


def _has_dot(side: str) -> bool:
    return any(str(token) == "." for token in tokens_of(side, side))


def _read_terms(side: str, available: list[str], text: str) -> Any:
    try:
        terms = read_terms(side, available, text)
    except FormulaError:
        raise
    except Exception as error:
        raise unreadable(text, error) from None
    if not isinstance(terms, formulaic.SimpleFormula):
        raise FormulaError(f"{text!r}: the right-hand side has several parts; expected one, without `|`.")
    return terms


def _refuse_outcome_as_covariate(read: Sequence[str], outcome: Sequence[str], text: str) -> None:
    leaked = [column for column in dict.fromkeys(read) if column in outcome]
    if leaked:
        raise FormulaError(
            f"{text!r}: the outcome {listing(leaked)} is also on the right-hand side. Remove it there: a column made from the "
            "outcome cannot be a covariate."
        )


def _refuse_ingredients_as_covariates(
    read: Sequence[str], treatment: str, ingredients: Sequence[str], expression: str, text: str
) -> None:
    fixed = [column for column in read if column in ingredients and column != treatment]
    if fixed:
        raise FormulaError(
            f"{text!r}: {listing(fixed)} is inside treat({expression}) and also a covariate, which would stay fixed while the "
            "treatment changes. Remove it from the covariates."
        )


def _refuse_empty_dot(available: Sequence[str], text: str) -> None:
    if not available:
        raise FormulaError(
            f"{text!r}: `.` stands for no column, because it leaves out the outcome, treatment, weights and clusters. Remove it."
        )


def _refuse_reserved_names(read: set[str]) -> None:
    reserved = sorted(read & _RESERVED_NAMES)
    if reserved:
        raise FormulaError(
            f"A column is called {listing(reserved)}, which has another meaning in a formula. Rename or drop the column."
        )


def _refuse_dropped_treatment(treatment: str, spanned: set[str], text: str) -> None:
    if treatment not in spanned:
        raise FormulaError(
            f"{text!r} removes the treatment `{treatment}` from the right-hand side again, so that nothing there depends on it. "
            "Keep it."
        )


def _refuse_columns_called_as_functions(shadowed: set[str] | frozenset[str], text: str) -> None:
    if shadowed:
        raise FormulaError(
            f"{text!r}: {listing(sorted(shadowed))} is both a column and a function that the formula calls. Rename the column."
        )
