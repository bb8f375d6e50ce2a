"""Which Python may stand in a formula that came out of a file: a syntax tree is checked node by node.

Names must be columns. Calls, attributes, keywords and the sizes of literals are listed; whatever is not listed is refused.
``9**9**9`` or ``'a' * 10**9`` would never end, so numbers are worked out here, step by step and within limits, and text never
meets arithmetic. Nothing is evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Any, Literal

from riesz.syntax.policies import OPERATORS
from riesz.syntax.safe_functions import NUMBERS, OF_NUMPY

Kind = Literal["column", "labels", "number", "scalar", "text", "coded"]

_LONGEST_TEXT = 200  # characters of a string
_LARGEST = 2**63  # of a number
_LARGEST_SETTING = 1000  # of a spline's degrees of freedom, a polynomial's degree, a lag
_MOST_ITEMS = 10_000  # of a list
_PLAIN = {"log": 1, "log10": 1, "log2": 1, "exp": 1, "exp2": 1, "exp10": 1, "abs": 1, "round": 2}  # arguments at most
_SPLINE = {"df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound", "extrapolation", "constraints"}
_SHAPES: dict[str, set[str]] = {  # their settings, beside the column that comes first
    "bs": _SPLINE,
    "cr": _SPLINE,
    "cs": _SPLINE,
    "cc": _SPLINE,
    "poly": {"degree", "raw"},
    "scale": {"center", "scale", "ddof"},
    "center": set(),
    "standardize": {"center", "rescale", "ddof"},
    "lag": {"k"},
    "I": set(),
}
_CODED = {"bs", "cr", "cs", "cc", "poly"}  # several columns each, with which nothing may be calculated
_WORDS = {"raise", "clip", "na", "zero", "extend", "center"}  # settings of splines that are text
_CONTRASTS = {"treatment", "SAS", "sum", "helmert", "diff", "poly"}  # contr.sum, contr.treatment(base='u')
_PATSY_CONTRASTS = {"Treatment", "Sum", "Helmert", "Diff", "Poly"}
_CONTRAST_SETTINGS = {"base", "reference", "reverse", "scale", "backward", "scores"}
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class UnsafeError(Exception):
    """A part that is not listed."""

    def __init__(self, node: ast.AST) -> None:
        super().__init__()
        self.node = node


class Checker:
    """Checks trees.

    Parameters
    ----------
    columns : collection of str
        The columns there are.
    aliases : mapping
        Identifiers that stand for columns whose names are not identifiers.
    labels : collection of str
        The columns that hold labels, with which nothing may be calculated: text can be repeated without an end.
    treat : bool
        Whether ``treat(column)`` may be called: in the text as it was written, not in what formulaic evaluates.
    """

    def __init__(
        self, columns: Collection[str], aliases: Mapping[str, str], labels: Collection[str], treat: bool
    ) -> None:
        self._columns, self._aliases, self._labels, self._treat = columns, aliases, labels, treat
        self._remembering = (
            0  # depth of calls whose source formulaic writes into code, where quotation marks would end a string
        )

    def check(self, node: ast.expr) -> None:
        """Refuse, by a :class:`UnsafeError`, a tree that is not one column or several made from the columns."""
        if self._kind(node) not in ("column", "labels", "coded"):
            raise UnsafeError(node)

    def _kind(self, node: ast.AST) -> Kind:
        """What a node gives: a column of numbers or labels, Python's number, numpy's number (scalar), text, or coded columns."""
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name(id=name):
                return self._column(name, node)
            case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in NUMBERS and "np" not in self._columns:
                return "number"
            case ast.UnaryOp(operand=inner):
                return self._calculated(node, inner)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
                return self._calculated(node, left, right)
            case ast.Compare(left=left, ops=signs, comparators=rest) if all(isinstance(s, _COMPARISONS) for s in signs):
                return self._truth(node, [left, *rest], ("column", "labels", "number", "scalar", "text"))
            case ast.BoolOp(values=parts):
                return self._truth(node, parts, ("column", "number", "scalar"))
            case ast.Call():
                return self._call(node)
        raise UnsafeError(node)

    def _constant(self, node: ast.Constant) -> Kind:
        match node.value:
            case str() as text:
                marks = "\"\\`'" if self._remembering else '"\\`'
                if len(text) > _LONGEST_TEXT or not text.isprintable() or set(marks) & set(text):
                    raise UnsafeError(node)
                return "text"
            case bool() | float():
                return "number"
            case int() as number if abs(number) <= _LARGEST:
                return "number"
        raise UnsafeError(node)

    def _column(self, identifier: str, node: ast.AST) -> Kind:
        """A column; names of Python's own machinery are refused, whatever a file calls its columns."""
        name = self._aliases.get(identifier, identifier)
        if name not in self._columns or (name.startswith("__") and name.endswith("__")):
            raise UnsafeError(node)
        return "labels" if name in self._labels else "column"

    def _calculated(self, node: ast.AST, *parts: ast.AST) -> Kind:
        kinds = {self._kind(part) for part in parts}
        if not kinds <= {"column", "number", "scalar"}:
            raise UnsafeError(node)
        if kinds == {"number"}:
            _worked_out(node)
            return "number"
        return "column" if "column" in kinds else "scalar"

    def _truth(self, node: ast.AST, parts: list[ast.expr], allowed: Collection[Kind]) -> Kind:
        """Something that is true or false on each row."""
        kinds = {self._kind(part) for part in parts}
        if not kinds <= set(allowed) or not kinds & {"column", "labels"}:
            raise UnsafeError(node)
        return "column"

    def _call(self, node: ast.Call) -> Kind:
        if not all(keyword.arg for keyword in node.keywords) or any(isinstance(a, ast.Starred) for a in node.args):
            raise UnsafeError(node)
        match node.func:
            case ast.Name(id=name) if name in self._columns or name in self._aliases:
                raise UnsafeError(node)
            case ast.Name(id="C"):
                return self._factor(node)
            case ast.Name(id="treat") if self._treat:
                return self._treated(node)
            case ast.Name(id=name) if name in _SHAPES:
                return self._shape(name, node)
            case ast.Name(id=name) if name in _PLAIN and 1 <= len(node.args) <= _PLAIN[name]:
                return self._rowwise(name, node, builtin=name in ("abs", "round"))
            case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in OF_NUMPY and "np" not in self._columns:
                if OF_NUMPY[name].fewest <= len(node.args) <= OF_NUMPY[name].most:
                    return self._rowwise(name, node, builtin=False)
        raise UnsafeError(node)

    def _rowwise(self, name: str, node: ast.Call, builtin: bool) -> Kind:
        if node.keywords:
            raise UnsafeError(node)
        inner: list[ast.expr] = list(node.args)
        if name in ("round", "isin") and len(inner) == 2:
            self._literal(inner.pop(), 20 if name == "round" else _LARGEST)
        kinds = {self._kind(part) for part in inner}
        named = {"text", "labels"} & kinds
        if "coded" in kinds or (named and name not in ("where", "isin", "equal", "not_equal")):
            raise UnsafeError(node)
        if builtin and "column" not in kinds:  # Python's own numbers, which have no end
            raise UnsafeError(node)
        if name == "where" and named:
            return "labels"
        return "column" if {"column", "labels"} & kinds else "scalar"

    def _shape(self, name: str, node: ast.Call) -> Kind:
        """A function whose first argument is a column, and whose others are settings."""
        self._remembering += name not in ("lag", "I")
        kind = self._kind(node.args[0]) if node.args else "text"
        if kind != "column" and not (kind == "labels" and name in ("I", "lag")):
            raise UnsafeError(node)
        settings = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
        if not {keyword.arg for keyword in node.keywords} <= _SHAPES[name]:
            raise UnsafeError(node)
        for setting in settings:
            self._literal(setting, _LARGEST_SETTING, words=_WORDS)
        self._remembering -= name not in ("lag", "I")
        return "coded" if name in _CODED else kind

    def _treated(self, node: ast.Call) -> Kind:
        if len(node.args) != 1 or self._kind(node.args[0]) not in ("column", "labels", "coded"):
            raise UnsafeError(node)
        for keyword in node.keywords:
            if keyword.arg != "reference":
                raise UnsafeError(node)
            self._literal(keyword.value, _LARGEST)
        return "column"

    def _factor(self, node: ast.Call) -> Kind:
        if self._remembering or not 1 <= len(node.args) <= 2 or self._kind(node.args[0]) not in ("column", "labels"):
            raise UnsafeError(node)
        for name, setting in [*(("contrasts", a) for a in node.args[1:]), *((k.arg, k.value) for k in node.keywords)]:
            if name == "contrasts":
                self._contrasts(setting)
            elif name in ("levels", "spans_intercept"):
                self._literal(setting, _LARGEST)
            else:
                raise UnsafeError(node)
        return "coded"

    def _contrasts(self, node: ast.AST) -> None:
        settings: list[ast.expr] = []
        if isinstance(node, ast.Call):
            if not all(keyword.arg in _CONTRAST_SETTINGS for keyword in node.keywords):
                raise UnsafeError(node)
            settings, node = [*node.args, *(keyword.value for keyword in node.keywords)], node.func
        match node:
            case ast.Attribute(value=ast.Name(id="contr"), attr=name) if (
                name in _CONTRASTS and "contr" not in self._columns
            ):
                pass
            case ast.Name(id=name) if name in _PATSY_CONTRASTS and name not in self._columns:
                pass
            case _:
                raise UnsafeError(node)
        for setting in settings:
            self._literal(setting, _LARGEST)

    def _literal(self, node: ast.AST, largest: int, words: Collection[str] | None = None) -> None:
        """A plain value, or a list of them, within limits."""
        match node:
            case ast.List(elts=items) | ast.Tuple(elts=items) if len(items) <= _MOST_ITEMS:
                for item in items:
                    if isinstance(item, (ast.List, ast.Tuple)):
                        raise UnsafeError(node)
                    self._literal(item, largest, words)
            case ast.Constant(value=None):
                pass
            case ast.Constant(value=str() as text):
                if self._constant(node) != "text" or (words is not None and text not in words):
                    raise UnsafeError(node)
            case ast.Constant(value=bool() | int() | float() as number) if (
                abs(number) <= largest or type(number) is float
            ):
                pass
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float())):
                self._literal(node.operand, largest, words)
            case _:
                raise UnsafeError(node)


def _worked_out(node: ast.AST) -> Any:
    """The value of an expression of numbers alone; one that is too large, or would take too long, is refused."""
    match node:
        case ast.Constant(value=bool() | int() | float() as made):
            pass
        case ast.Attribute(attr=name) if name in NUMBERS:
            made = NUMBERS[name]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
            made = -_worked_out(inner)
        case ast.BinOp(left=left, op=sign, right=right):
            one, two = _worked_out(left), _worked_out(right)
            if isinstance(sign, ast.Pow) and abs(two) > 64:
                raise UnsafeError(node)
            try:
                made = OPERATORS[type(sign)](one, two)
            except (ArithmeticError, TypeError):
                raise UnsafeError(node) from None
        case _:
            raise UnsafeError(node)
    if isinstance(made, complex) or (isinstance(made, int) and abs(made) > _LARGEST):
        raise UnsafeError(node)
    return made
