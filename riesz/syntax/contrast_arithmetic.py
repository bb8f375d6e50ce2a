"""Arithmetic of parameters in contrasts, such as ``"mean_1 / mean_0 - 1"``: turned into a function without running any code.

Python parses the text into a tree. Only numbers, names, ``+ - * / **``, parentheses and a few functions are allowed; any other
kind of node is refused.
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
    """The function of named numbers that an expression stands for.

    Parameters
    ----------
    text : str
        Names with dots or blanks are in back-ticks; ``fit.parameter`` is a parameter of one of several fits.
    names : sequence of str
        The names that the expression may use.

    Returns
    -------
    callable
        ``{name: value} -> value``.

    Examples
    --------
    >>> from riesz.syntax.contrast_arithmetic import read_expression
    >>> relative_effect = read_expression("mean_1 / mean_0 - 1", ["mean_1", "mean_0"])
    >>> relative_effect({"mean_1": 6.0, "mean_0": 4.0})
    0.5
    """
    hidden, quoted = hide_quotes(text)
    try:
        tree = ast.parse(hidden.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RieszError(
            f"{text!r} cannot be read: {error}. Write an expression such as 'mean_1 / mean_0 - 1'."
        ) from None
    return _Reader(text, names, quoted).read(tree)


class _Reader:
    """Turns nodes into functions; a kind of node that is not listed here is refused."""

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
            case ast.BinOp(op=sign) if type(sign) in _BINARY:
                combine, left, right = _BINARY[type(sign)], self.read(node.left), self.read(node.right)
                return lambda values: combine(left(values), right(values))
            case ast.UnaryOp(op=mark) if type(mark) in _UNARY:
                change, inner = _UNARY[type(mark)], self.read(node.operand)
                return lambda values: change(inner(values))
            case ast.Call(func=ast.Name(id=called), args=[operand], keywords=[]) if called in FUNCTIONS:
                function, argument = FUNCTIONS[called], self.read(operand)
                return lambda values: function(argument(values))
        raise RieszError(
            f"{self._text!r} has a part that is not arithmetic of parameters. Expected numbers, the parameters "
            f"{listing(self._names)}, + - * / **, parentheses and {', '.join(FUNCTIONS)}. For anything else pass a function."
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
                f"`{name}` in {self._text!r} is not a parameter.{nearest(name, self._names)} The parameters are "
                f"{listing(self._names)}. Write back-ticks around names with dots or blanks."
            )
        return name
