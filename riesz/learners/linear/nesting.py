r"""Which columns of a design are part of others: a and x of their product a:x, a of its square.

Adding a constant c to a turns a:x into a:x + c x. The span of the columns stays the same, but a penalty on the coefficients of
standardised columns changes, unless a product (or power) is penalised only for what it adds to its parts. Columns are compared by
their names: factors separated by colons, each a power of a variable or a term that is not taken apart (a dummy, a column of a
spline, a logarithm).
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import lru_cache

Exponents = Counter[str]


@lru_cache(maxsize=64)
def parts(names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """For each column the positions of the columns that are part of it, without the intercept.

    Examples
    --------
    >>> from riesz.learners.linear.nesting import parts
    >>> parts(("Intercept", "a", "x", "a:x", "I(a ** 2)", "log(x)", "a:log(x)"))
    ((), (), (), (1, 2), (1,), (), (1, 5))
    """
    exponents = [Counter[str]() if name == "Intercept" else _exponents(name) for name in names]
    by_factor: dict[str, list[int]] = {}
    for place, powers in enumerate(exponents):
        for factor in powers:
            by_factor.setdefault(factor, []).append(place)
    nested: list[tuple[int, ...]] = []
    for powers in exponents:
        if powers.total() < 2:  # the parts of a single factor are constants
            nested.append(())
            continue
        sharing = {place for factor in powers for place in by_factor[factor]}  # columns with a factor in common
        nested.append(tuple(sorted(place for place in sharing if exponents[place] < powers)))
    return tuple(nested)


def _exponents(name: str) -> Exponents:
    """The factors of a column, each with its power."""
    powers: Exponents = Counter()
    for factor in _factors(name):
        powers.update(_powers(factor) or {factor: 1})
    return powers


def _factors(name: str) -> list[str]:
    """Split a name at the colons that are not inside brackets or quotes."""
    factors, depth, quote, start = [], 0, "", 0
    for place, letter in enumerate(name):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "`'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == ":" and depth == 0:
            factors.append(name[start:place])
            start = place + 1
    return [*factors, name[start:]]


def _powers(factor: str) -> Exponents | None:
    """The powers of a factor such as ``x``, ``I(x ** 2)``, ``(x - 10) ** 2`` or ``I(x * w)``; None for any other."""
    inner = factor[2:-1] if factor.startswith("I(") and factor.endswith(")") else factor
    try:
        return _powers_in(ast.parse(inner.replace("`", "").strip(), mode="eval").body)
    except (SyntaxError, ValueError):  # not a Python expression
        return None


def _powers_in(node: ast.expr) -> Exponents | None:
    match node:
        case ast.Name(id=name):
            return Counter({name: 1})
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
            return _powers_in(inner)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), left=inner, right=ast.Constant()):
            return _powers_in(inner)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult(), left=ast.Constant(), right=inner):
            return _powers_in(inner)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            first, second = _powers_in(left), _powers_in(right)
            return None if first is None or second is None else first + second
        case ast.BinOp(op=ast.Pow(), left=inner, right=ast.Constant(value=int(power))) if 1 <= power <= 9:
            powers = _powers_in(inner)
            return None if powers is None else Counter({name: power * count for name, count in powers.items()})
    return None
