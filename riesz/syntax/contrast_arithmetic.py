"""Formulas of parameters, such as ``"mean_1 / mean_0 - 1"``: read into functions without running any code.

Only numbers, names, ``+ - * / **``, parentheses and a few functions are understood; everything else is refused by the kind of
the node that Python's parser makes of it.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence

from riesz.errors import RieszError, listing, nearest
from riesz.syntax.backticks import hide_quotes

Function = Callable[[Mapping[str, float]], float]

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "expm1": math.expm1,
    "log": math.log,
    "log1p": math.log1p,
    "sqrt": math.sqrt,
}
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[float], float]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}


def read_expression(text: str, names: Sequence[str]) -> Function:
    """A function of named numbers from its formula.

    Parameters
    ----------
    text : str
        Names with dots or blanks in back-ticks; ``fit.parameter`` for a parameter of one of several fits.
    names : sequence of str
        The names there are.

    Examples
    --------
    >>> from riesz.syntax.contrast_arithmetic import read_expression
    >>> read_expression("log(a / `b c`)", ["a", "b c"])({"a": 1.0, "b c": 1.0})
    0.0
    """
    hidden, quoted = hide_quotes(text)
    try:
        tree = ast.parse(hidden.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RieszError(f"{text!r} cannot be read: {error}. Write a formula such as 'mean_1 / mean_0 - 1'.") from None
    return _Reader(text, names, quoted).read(tree)


class _Reader:
    """From nodes to functions; what is not listed here is refused."""

    def __init__(self, text: str, names: Sequence[str], quoted: Mapping[str, str]) -> None:
        self._text, self._names, self._quoted = text, names, quoted

    def read(self, node: ast.AST) -> Function:
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float() as number):
                return lambda values: float(number)
            case ast.Name() | ast.Attribute():
                name = self._name(node)
                return lambda values: values[name]
            case ast.BinOp(left=one, op=sign, right=two) if type(sign) in _BINARY:
                combine, left, right = _BINARY[type(sign)], self.read(one), self.read(two)
                return lambda values: combine(left(values), right(values))
            case ast.UnaryOp(op=mark, operand=one) if type(mark) in _UNARY:
                change, inner = _UNARY[type(mark)], self.read(one)
                return lambda values: change(inner(values))
            case ast.Call(func=ast.Name(id=called), args=[one], keywords=[]) if called in FUNCTIONS:
                function, argument = FUNCTIONS[called], self.read(one)
                return lambda values: function(argument(values))
        raise RieszError(
            f"{self._text!r} has a part that is not arithmetic of parameters. Wanted numbers, the parameters "
            f"{listing(self._names)}, + - * / **, parentheses and {', '.join(FUNCTIONS)}; for anything else pass a function."
        )

    def _name(self, node: ast.Name | ast.Attribute) -> str:
        if isinstance(node, ast.Name):
            name = self._quoted.get(node.id, node.id)
        elif isinstance(node.value, ast.Name):
            name = f"{self._quoted.get(node.value.id, node.value.id)}.{self._quoted.get(node.attr, node.attr)}"
        else:
            name = ast.unparse(node)
        if name not in self._names:
            raise RieszError(
                f"`{name}` in {self._text!r} is no parameter.{nearest(name, self._names)} There are {listing(self._names)}; write "
                "back-ticks around names with dots or blanks."
            )
        return name
