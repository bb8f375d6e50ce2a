"""Hypotheses about parameters, as text or numbers, turned into the R and q of R params = q.

Text is read as in statsmodels and patsy: ``"A = B"``, ``"A + B = 1, C = 0"``; an expression without ``=`` is set to zero, and a
chain ``"A = B = C"`` is the two restrictions A = B and B = C.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.errors import RieszError, nearest
from riesz.syntax.backticks import hide_quotes

_LARGEST = 1e100  # absolute value of a number in a hypothesis, so that products stay finite


def read_restrictions(hypothesis: Any, names: Sequence[str]) -> tuple[Array, Array]:
    """R and q of the hypothesis R params = q.

    Parameters
    ----------
    hypothesis : str, list or tuple of str, mapping, array_like, or (array_like, array_like)
        Text; a mapping from expressions to their values; R, with q = 0; or R and q.
    names : sequence of str, length P
        The parameters.

    Returns
    -------
    ndarray, shape (restrictions, P)
    ndarray, shape (restrictions,)

    Examples
    --------
    >>> from riesz.results.restrictions import read_restrictions
    >>> r, q = read_restrictions("a = `b c` = 1", ["a", "b c"])
    >>> r.tolist(), q.tolist()
    ([[1.0, -1.0], [0.0, 1.0]], [0.0, 1.0])
    """
    if isinstance(hypothesis, str):
        return _Text(hypothesis, names).read()
    if isinstance(hypothesis, Mapping):
        return _join([_Text(str(left), names).equal_to(right) for left, right in hypothesis.items()], hypothesis)
    if isinstance(hypothesis, (list, tuple)) and any(isinstance(part, str) for part in hypothesis):
        return _join([_Text(str(part), names).read() for part in hypothesis], hypothesis)
    pair = isinstance(hypothesis, tuple) and len(hypothesis) == 2
    matrix, values = hypothesis if pair else (hypothesis, 0.0)
    return _numbers(matrix, values, hypothesis, names)


def _join(parts: Sequence[tuple[Array, Array]], hypothesis: Any) -> tuple[Array, Array]:
    if not parts:
        raise RieszError(
            f"The hypothesis {hypothesis!r} is empty; expected at least one restriction, such as 'ATE = 0'."
        )
    return np.vstack([r for r, _ in parts]), np.concatenate([q for _, q in parts])


def _numbers(matrix: Any, values: Any, hypothesis: Any, names: Sequence[str]) -> tuple[Array, Array]:
    try:
        r = np.atleast_2d(np.asarray(matrix, dtype=float))
        q = np.asarray(values.squeeze() if isinstance(values, pd.DataFrame) else values, dtype=float)
        q = np.broadcast_to(q.ravel() if q.size > 1 else q.reshape(()), len(r)).astype(float)
    except (TypeError, ValueError) as error:
        raise _unreadable(hypothesis, names, str(error)) from None
    if r.ndim != 2 or r.shape[1] != len(names):
        raise _unreadable(
            hypothesis, names, f"a matrix of shape {r.shape}; expected one column per parameter, {len(names)} in all"
        )
    if not (np.isfinite(r).all() and np.isfinite(q).all()):
        raise _unreadable(hypothesis, names, "it has missing or infinite numbers")
    if not r.any(axis=1).all():
        raise _unreadable(hypothesis, names, "one of its rows is all zeros, so it restricts no parameter")
    return r, q


def _unreadable(hypothesis: Any, names: Sequence[str], why: str) -> RieszError:
    return RieszError(
        f"The hypothesis {hypothesis!r} cannot be read: {why}. Write the parameters' names, {', '.join(names)} (in back-ticks "
        "if a name has dots, blanks or signs in it), as in 'ATE = 1', or give a matrix with one column per parameter."
    )


class _Text:
    """Reads one text. A linear function of the parameters is a vector of P coefficients and a constant."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self._text, self._names = text, names

    def read(self) -> tuple[Array, Array]:
        hidden, self._quoted = hide_quotes(self._text)
        if re.search(r"[=<>!:]=|[<>]", hidden):
            raise self._error("restrictions are equalities, written with a single =")
        try:
            tree = ast.parse(f"({hidden.replace('=', '==')}\n)", mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise self._error(str(error).split(" (<")[0]) from None
        parts = tree.elts if isinstance(tree, ast.Tuple) else [tree]
        rows = [row for part in parts for row in self._chain(part)]
        if not rows:
            raise self._error("it is empty")
        stacked = np.stack(rows)
        return stacked[:, :-1], 0.0 - stacked[:, -1]

    def equal_to(self, value: Any) -> tuple[Array, Array]:
        """The restrictions that set every expression of the text to this value."""
        if "=" in hide_quotes(self._text)[0]:
            raise self._error("a mapping gives each expression its value, so the expression itself must not have a =")
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise self._error(f"its value is {value!r}; expected a number") from None
        r, q = self.read()
        return r, q + number

    def _chain(self, node: ast.expr) -> list[Array]:
        """The differences A - B and B - C of a chain A = B = C, each restricted to zero; A alone is itself restricted to zero."""
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node]
        values = [self._linear(side) for side in sides]
        rows = [a - b for a, b in pairwise(values)] or values
        if not all(row[:-1].any() for row in rows):
            raise self._error("one of its restrictions has no parameter, or the same ones on both sides")
        return rows

    def _linear(self, node: ast.AST) -> Array:
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float() as number):
                if abs(number) > _LARGEST:
                    raise self._error("it has a number that is too large")
                return self._unit(-1, float(number))
            case ast.Name() | ast.Attribute():
                return self._unit(self._names.index(self._name(node)), 1.0)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self._linear(inner)
            case ast.UnaryOp(op=ast.UAdd(), operand=inner):
                return self._linear(inner)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._linear(left) + self._linear(right)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return self._linear(left) - self._linear(right)
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as sign, right=right):
                return self._scaled(self._linear(left), self._linear(right), isinstance(sign, ast.Div))
        raise self._error(
            "it has a part that is not linear arithmetic of parameters (numbers, names, + - * / and parentheses)"
        )

    def _scaled(self, left: Array, right: Array, divide: bool) -> Array:
        if right[:-1].any() and not divide:
            left, right = right, left
        if right[:-1].any():
            raise self._error("it is not linear: parameters are multiplied by, or divided by, parameters")
        if divide and right[-1] == 0:
            raise self._error("it divides by zero")
        return np.asarray(left / right[-1] if divide else left * right[-1])

    def _unit(self, place: int, number: float) -> Array:
        vector = np.zeros(len(self._names) + 1)
        vector[place] = number
        return vector

    def _name(self, node: ast.Name | ast.Attribute) -> str:
        parts = [self._quoted.get(part, part) for part in ast.unparse(node).split(".")]
        name = ".".join(parts)
        if name not in self._names:
            raise self._error(f"there is no parameter `{name}`.{nearest(name, self._names)}".rstrip("."))
        return name

    def _error(self, why: str) -> RieszError:
        return _unreadable(self._text, self._names, why)
