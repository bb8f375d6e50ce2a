"""Which Python a formula from a file may contain: its syntax tree is checked node by node, and nothing is evaluated.

Names must be columns. Functions, attributes, keywords and the sizes of literals are listed; anything else is refused.
``9**9**9`` or ``'a' * 10**9`` would never finish, so numbers are computed here step by step within limits, and strings may not
take part in arithmetic.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Any, Literal

from riesz.syntax.policies import OPERATORS
from riesz.syntax.safe_functions import NUMPY_CONSTANTS, NUMPY_FUNCTIONS

Kind = Literal["column", "labels", "number", "scalar", "text", "coded"]

_LONGEST_TEXT = 200  # characters of a string
_LARGEST = 2**63  # of a number
_LARGEST_EXPONENT = 64
_LARGEST_SETTING = 1000  # of a spline's degrees of freedom, a polynomial's degree, a lag
_LARGEST_DIGITS = 20  # of round()
_MOST_ITEMS = 10_000  # of a list
_PLAIN = {"log": 1, "log10": 1, "log2": 1, "exp": 1, "exp2": 1, "exp10": 1, "abs": 1, "round": 2}  # arguments at most
_BUILTINS = ("abs", "round")
_TAKE_LABELS = ("where", "isin", "equal", "not_equal")
_SPLINE = {"df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound", "extrapolation", "constraints"}
_TRANSFORMS: dict[str, set[str]] = {  # name to settings; the first argument is a column
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
_CODED = {"bs", "cr", "cs", "cc", "poly"}  # these give several columns, which may not take part in arithmetic
_STATELESS = ("lag", "I")  # the other transforms are stateful
_WORDS = {"raise", "clip", "na", "zero", "extend", "center"}  # settings of splines that are strings
_CONTRASTS = {"treatment", "SAS", "sum", "helmert", "diff", "poly"}  # contr.sum, contr.treatment(base='u')
_PATSY_CONTRASTS = {"Treatment", "Sum", "Helmert", "Diff", "Poly"}
_CONTRAST_SETTINGS = {"base", "reference", "reverse", "scale", "backward", "scores"}
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class UnsafeError(Exception):
    """A node that is not on the list of safe ones."""

    def __init__(self, node: ast.AST) -> None:
        super().__init__()
        self.node = node


class Checker:
    """Checks syntax trees.

    Parameters
    ----------
    columns : collection of str
        The columns of the data.
    aliases : mapping
        Identifiers that stand for columns whose names are not identifiers.
    labels : collection of str
        The columns of labels, which may not take part in arithmetic: ``labels * 10**9`` would repeat them.
    treat : bool
        Whether ``treat(column)`` may be called: yes in the text as written, no in what formulaic evaluates.

    Examples
    --------
    >>> import ast
    >>> from riesz.syntax.safe_expressions import Checker, UnsafeError
    >>> checker = Checker(["x"], {}, [], treat=False)
    >>> checker.check(ast.parse("bs(x, df=4)", mode="eval").body)
    >>> try:
    ...     checker.check(ast.parse("x.tofile('copy')", mode="eval").body)
    ... except UnsafeError as error:
    ...     print(ast.unparse(error.node))
    x.tofile('copy')
    """

    def __init__(
        self, columns: Collection[str], aliases: Mapping[str, str], labels: Collection[str], treat: bool
    ) -> None:
        self._columns, self._aliases, self._labels, self._treat = columns, aliases, labels, treat
        # How many stateful calls surround the node. formulaic writes their source into code, between quotation marks, so that
        # a quotation mark in a string would end it.
        self._stateful_depth = 0

    def check(self, node: ast.expr) -> None:
        """Raise :class:`UnsafeError` unless the tree gives one or several columns by listed operations."""
        if self._kind(node) not in ("column", "labels", "coded"):
            raise UnsafeError(node)

    def _kind(self, node: ast.AST) -> Kind:
        """What a node gives: a column of numbers or labels, a Python number, a numpy number (scalar), text, coded columns."""
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name(id=name):
                return self._column(name, node)
            case ast.Attribute() if self._of_numpy(node) in NUMPY_CONSTANTS:
                return "number"
            case ast.UnaryOp(operand=inner):
                return self._arithmetic(node, inner)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
                return self._arithmetic(node, left, right)
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
                marks = "\"\\`'" if self._stateful_depth else '"\\`'
                if len(text) > _LONGEST_TEXT or not text.isprintable() or set(marks) & set(text):
                    raise UnsafeError(node)
                return "text"
            case bool() | float():
                return "number"
            case int() as number if abs(number) <= _LARGEST:
                return "number"
        raise UnsafeError(node)

    def _column(self, identifier: str, node: ast.AST) -> Kind:
        """A column; names such as ``__import__`` are refused even if a file has a column of that name."""
        name = self._aliases.get(identifier, identifier)
        if name not in self._columns or (name.startswith("__") and name.endswith("__")):
            raise UnsafeError(node)
        return "labels" if name in self._labels else "column"

    def _of_numpy(self, node: ast.AST) -> str:
        """The name in ``np.name``, or an empty string; a column called np hides numpy."""
        match node:
            case ast.Attribute(value=ast.Name(id="np"), attr=name) if "np" not in self._columns:
                return name
        return ""

    def _arithmetic(self, node: ast.AST, *parts: ast.AST) -> Kind:
        kinds = {self._kind(part) for part in parts}
        if not kinds <= {"column", "number", "scalar"}:
            raise UnsafeError(node)
        if kinds == {"number"}:
            _compute(node)
            return "number"
        return "column" if "column" in kinds else "scalar"

    def _truth(self, node: ast.AST, parts: list[ast.expr], allowed: Collection[Kind]) -> Kind:
        """A condition: true or false in each row."""
        kinds = {self._kind(part) for part in parts}
        if not kinds <= set(allowed) or not kinds & {"column", "labels"}:
            raise UnsafeError(node)
        return "column"

    def _call(self, node: ast.Call) -> Kind:
        if not all(keyword.arg for keyword in node.keywords) or any(isinstance(a, ast.Starred) for a in node.args):
            raise UnsafeError(node)
        match node.func:
            case ast.Name(id=name) if name not in self._columns and name not in self._aliases:
                return self._call_by_name(name, node)
            case ast.Attribute() if (name := self._of_numpy(node.func)) in NUMPY_FUNCTIONS:
                if NUMPY_FUNCTIONS[name].fewest <= len(node.args) <= NUMPY_FUNCTIONS[name].most:
                    return self._rowwise(name, node)
        raise UnsafeError(node)

    def _call_by_name(self, name: str, node: ast.Call) -> Kind:
        if name == "C":
            return self._factor(node)
        if name == "treat" and self._treat:
            return self._treated(node)
        if name in _TRANSFORMS:
            return self._transform(name, node)
        if name in _PLAIN and 1 <= len(node.args) <= _PLAIN[name]:
            kind = self._rowwise(name, node)
            if name in _BUILTINS and kind != "column":  # of Python's whole numbers, which have no largest
                raise UnsafeError(node)
            return kind
        raise UnsafeError(node)

    def _rowwise(self, name: str, node: ast.Call) -> Kind:
        """A function that is computed row by row, such as ``np.log(x)``."""
        if node.keywords:
            raise UnsafeError(node)
        arguments: list[ast.expr] = list(node.args)
        if name in ("round", "isin") and len(arguments) == 2:
            self._literal(arguments.pop(), _LARGEST_DIGITS if name == "round" else _LARGEST)
        kinds = {self._kind(argument) for argument in arguments}
        labels = {"text", "labels"} & kinds
        if "coded" in kinds or (labels and name not in _TAKE_LABELS):
            raise UnsafeError(node)
        if labels and name == "where":
            return "labels"
        return "column" if {"column", "labels"} & kinds else "scalar"

    def _transform(self, name: str, node: ast.Call) -> Kind:
        """A transform such as ``bs(x, df=4)``: the first argument is a column, the others are settings."""
        self._stateful_depth += name not in _STATELESS
        kind = self._kind(node.args[0]) if node.args else "text"
        if kind != "column" and not (kind == "labels" and name in _STATELESS):
            raise UnsafeError(node)
        if not {keyword.arg for keyword in node.keywords} <= _TRANSFORMS[name]:
            raise UnsafeError(node)
        for setting in [*node.args[1:], *(keyword.value for keyword in node.keywords)]:
            self._literal(setting, _LARGEST_SETTING, words=_WORDS)
        self._stateful_depth -= name not in _STATELESS
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
        """``C(column, contrasts, levels=...)``."""
        if self._stateful_depth or not 1 <= len(node.args) <= 2:
            raise UnsafeError(node)
        if self._kind(node.args[0]) not in ("column", "labels"):
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
        """``contr.sum`` or ``Sum``, with or without settings in parentheses."""
        settings: list[ast.expr] = []
        if isinstance(node, ast.Call):
            if not all(keyword.arg in _CONTRAST_SETTINGS for keyword in node.keywords):
                raise UnsafeError(node)
            settings, node = [*node.args, *(keyword.value for keyword in node.keywords)], node.func
        match node:
            case ast.Attribute(value=ast.Name(id="contr"), attr=name) if "contr" not in self._columns:
                is_listed = name in _CONTRASTS
            case ast.Name(id=name) if name not in self._columns:
                is_listed = name in _PATSY_CONTRASTS
            case _:
                is_listed = False
        if not is_listed:
            raise UnsafeError(node)
        for setting in settings:
            self._literal(setting, _LARGEST)

    def _literal(self, node: ast.AST, largest: int, words: Collection[str] | None = None) -> None:
        """Refuse all but a plain value, or a list of plain values, within limits; strings must be among the words, if given."""
        items = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
        if len(items) > _MOST_ITEMS:
            raise UnsafeError(node)
        for item in items:
            self._plain_value(item, largest, words)

    def _plain_value(self, node: ast.AST, largest: int, words: Collection[str] | None) -> None:
        match node:
            case ast.Constant(value=None):
                return
            case ast.Constant(value=str() as text):
                if self._constant(node) == "text" and (words is None or text in words):
                    return
            case ast.Constant(value=float()):
                return
            case ast.Constant(value=bool() | int() as number):
                if abs(number) <= largest:
                    return
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float())):
                return self._plain_value(node.operand, largest, words)
        raise UnsafeError(node)


def _compute(node: ast.AST) -> Any:
    """The value of an expression of numbers alone; one that is too large, or would take too long, is refused."""
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            pass
        case ast.Attribute(attr=name) if name in NUMPY_CONSTANTS:
            value = NUMPY_CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
            value = -_compute(inner)
        case ast.BinOp(left=left, op=sign, right=right):
            value = _combine(sign, _compute(left), _compute(right), node)
        case _:
            raise UnsafeError(node)
    if isinstance(value, complex) or (isinstance(value, int) and abs(value) > _LARGEST):
        raise UnsafeError(node)
    return value


def _combine(sign: ast.operator, left: Any, right: Any, node: ast.AST) -> Any:
    if isinstance(sign, ast.Pow) and abs(right) > _LARGEST_EXPONENT:
        raise UnsafeError(node)
    try:
        return OPERATORS[type(sign)](left, right)
    except (ArithmeticError, TypeError):
        raise UnsafeError(node) from None
