"""Policies as text, such as ``"where(a > 80, a - 15, a)"``: arithmetic on columns, computed without running any code.

Python parses the text into a tree, and this module computes it node by node. It accepts numbers, strings, columns, arithmetic,
comparisons, ``& | ~`` and the functions in ``safe_functions.py``. Attributes, methods, indexing, comprehensions and all other
kinds of node are refused, so that a policy can only compute. The same holds for policies from files.

Of the caller's variables a policy may read numbers, strings, lists, arrays and Series, and it may call functions by name. A fit
that was loaded from a file has no caller, so its policies read only columns.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd

from riesz.errors import EstimandError, nearest
from riesz.syntax.backticks import hide_quotes, unparse
from riesz.syntax.safe_functions import NUMPY_CONSTANTS, NUMPY_FUNCTIONS, SHORT_NAMES, Rowwise

_EXAMPLES = "'age > 40' or 'where(a > 80, a - 15, a)'"
_LONGEST = 20_000  # characters
_LARGEST = 2**63  # whole numbers beyond this are not data
#: Operators that policies, and formulas from files, may use.
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_TRUTH = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Invert)
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
}
_LARGEST_DIGITS = 20  # of round()
_AND_OR = "Write & and | for `and` and `or`, and == False for `not`, with parentheses around each comparison"
_FUNCTION = "or pass a function of the frame, such as lambda data: data['x'] > data['x'].mean()"
_INSTEAD: dict[type[ast.AST], str] = {
    ast.IfExp: "Write where(condition, value, other)",
    ast.Subscript: f"Compute it as a column first, {_FUNCTION}",
    ast.Attribute: f"Compute it beforehand and use its name, {_FUNCTION}",
    ast.Lambda: "Pass the function itself instead of a string",
}
_OTHERWISE = (
    f"Policies may use arithmetic, comparisons, & | ~, columns and {', '.join(SHORT_NAMES)}. Compute anything else as a column "
    f"first, {_FUNCTION}"
)


class _Refused(Exception):
    """A part of a policy that cannot be computed, and what to write instead."""

    def __init__(self, node: ast.AST, advice: str) -> None:
        super().__init__()
        self.node, self.advice = node, advice


def parse_policy(text: str, what: str) -> tuple[ast.expr, dict[str, str]]:
    """The syntax tree of a policy, and its back-ticked names.

    A leading ``~``, as in ``"~ age > 40"``, marks a one-sided formula and is dropped. If it could mean "not", it is refused.
    """
    if len(text) > _LONGEST:
        raise EstimandError(
            f"{what} {_short(text)} has {len(text):,} characters; expected at most {_LONGEST:,}. Compute it as a column first."
        )
    code, quoted = hide_quotes(text.strip())
    try:
        if code.startswith("~") and _could_negate(ast.parse(code, mode="eval").body):
            raise EstimandError(
                f"{what} {_short(text)} starts with ~, which could mean 'not' or mark a formula. Drop it for the rule itself; for "
                f"its opposite write ({text.strip().removeprefix('~').strip()}) == False."
            )
        return ast.parse(code.removeprefix("~").strip(), mode="eval").body, quoted
    except EstimandError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or str(error) or "it is nested too deeply"
        raise EstimandError(
            f"{what} {_short(text)} cannot be read: {reason}. Expected an expression of columns, such as {_EXAMPLES}."
        ) from None


def _could_negate(tree: ast.expr) -> bool:
    """Whether the leading ``~`` of a policy could negate a condition, rather than stand before a number."""
    node, parent = tree, tree
    while not isinstance(node, ast.UnaryOp):
        parent = node
        match node:
            case (
                ast.BinOp(left=inner) | ast.Compare(left=inner) | ast.BoolOp(values=[inner, *_]) | ast.IfExp(body=inner)
            ):
                node = inner
            case _:
                return True
    number = isinstance(parent, ast.Compare) or (isinstance(parent, ast.BinOp) and type(parent.op) not in _TRUTH)
    return not (number and isinstance(node.operand, (ast.Name, ast.Constant)))


def evaluate_policy(
    text: str, data: pd.DataFrame, context: Mapping[str, Any], what: str, columns: Sequence[str]
) -> Any:
    """Compute a policy on the rows of a frame.

    Parameters
    ----------
    text : str
    data : pandas.DataFrame
    context : mapping
        The caller's variables; empty for a fit that was loaded from a file.
    what : str
        The argument's name, for messages.
    columns : sequence of str
        Every column of the user's table, for suggestions.

    Returns
    -------
    ndarray, shape (n,), or a number

    Examples
    --------
    >>> import pandas as pd
    >>> from riesz.syntax.policies import evaluate_policy
    >>> evaluate_policy("where(x > cut, 1, 0)", pd.DataFrame({"x": [1.0, 3.0]}), {"cut": 2}, "policy", []).tolist()
    [0, 1]
    """
    tree, quoted = parse_policy(text, what)
    reader = _Reader(data, context, quoted, [*data.columns, *columns])
    try:
        with np.errstate(all="ignore"):  # the caller checks for values that are not finite
            return reader.value(tree)
    except _Refused as refused:
        part = unparse(refused.node, quoted)
        raise EstimandError(f"{what} {_short(text)}: {_short(part)} cannot be computed. {refused.advice}.") from None
    except EstimandError as error:
        raise EstimandError(f"{what} {_short(text)} {error}") from None
    except RecursionError:
        raise EstimandError(
            f"{what} {_short(text)} is nested too deeply. Compute its parts as columns first."
        ) from None
    except Exception as error:  # from the caller's functions, or from numpy about shapes and types
        raise EstimandError(
            f"{what} {_short(text)} failed: {type(error).__name__}: {str(error).rstrip('.')}."
        ) from error


def _short(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}...")


class _Reader:
    """Computes the nodes of a policy; a kind of node that is not listed here is refused."""

    def __init__(
        self, data: pd.DataFrame, context: Mapping[str, Any], quoted: Mapping[str, str], suggestions: Sequence[str]
    ) -> None:
        self._data, self._context, self._quoted, self._suggestions = data, context, quoted, suggestions

    def value(self, node: ast.AST) -> Any:
        """The value of a node: a number, a string, or one value per row."""
        match node:
            case ast.Constant(value=bool() | float() | str() as constant):
                return constant
            case ast.Constant(value=int() as constant) if abs(constant) <= _LARGEST:
                return constant
            case ast.Name(id=name):
                return self._named(self._quoted.get(name, name), node)
            case ast.Attribute(value=ast.Name(id="np"), attr=name) if (
                name in NUMPY_CONSTANTS and "np" not in self._data.columns
            ):
                return NUMPY_CONSTANTS[name]
            case ast.UnaryOp(op=sign, operand=inner) if type(sign) in _UNARY:
                operand = self._numeric(inner)
                return _UNARY[type(sign)](_truth(operand) if type(sign) in _TRUTH else operand)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
                return self._combine(sign, left, right)
            case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _COMPARISONS:
                return self._compare(_COMPARISONS[type(sign)], left, right, node)
            case ast.Compare(ops=[ast.In() | ast.NotIn()]):
                raise _Refused(node, "Write isin(column, [value, other]), with == False after it for `not in`")
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp():
                raise _Refused(node, f"{_AND_OR}; write a chain as two comparisons: (0 < x) & (x < 1)")
            case ast.Call():
                return self._call(node)
        raise _Refused(node, _INSTEAD.get(type(node), _OTHERWISE))

    def _named(self, name: str, node: ast.AST) -> Any:
        """A column, or one of the caller's variables."""
        if name in self._data.columns:
            return _column(self._data[name])
        if name in SHORT_NAMES or name == "np":
            raise _Refused(node, f"`{name}` is a function; write its arguments in parentheses after it")
        if name not in self._context:
            raise EstimandError(f"uses `{name}`, which is not a column of the data.{nearest(name, self._suggestions)}")
        value = self._context[name]
        if isinstance(value, pd.Series):
            value = _column(value)
        if isinstance(value, (list, tuple)):
            value = np.asarray(value)
        if not isinstance(value, (bool, int, float, str, np.generic, np.ndarray)):
            raise _Refused(
                node, f"`{name}` is a {type(value).__name__} in the caller's scope; expected a number or an array"
            )
        return value

    def _numeric(self, node: ast.AST) -> Any:
        """A value for arithmetic; strings are refused, because ``'a' * 10**9`` repeats them."""
        value = self.value(node)
        if isinstance(value, str) or (isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "biuf"):
            raise _Refused(node, "Arithmetic needs numbers; these are labels")
        return value

    def _combine(self, sign: ast.operator, left: ast.AST, right: ast.AST) -> Any:
        first, second = self._numeric(left), self._numeric(right)
        if isinstance(sign, ast.Pow):  # in floating point, in which no power takes long
            first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
        elif type(sign) in _TRUTH:
            first, second = _truth(first), _truth(second)
        return OPERATORS[type(sign)](first, second)

    def _compare(self, sign: Callable[[Any, Any], Any], left: ast.AST, right: ast.AST, node: ast.AST) -> Any:
        first, second = self.value(left), self.value(right)
        kinds = {_kind(first), _kind(second)}
        if kinds == {"numbers", "labels"}:
            raise _Refused(node, "It compares numbers with strings. Write labels with quotation marks, numbers without")
        if kinds == {"dates", "labels"}:
            first, second = (np.datetime64(part) if isinstance(part, str) else part for part in (first, second))
        return sign(first, second)

    def _call(self, node: ast.Call) -> Any:
        match node.func:
            case ast.Name(id=name) if name in SHORT_NAMES and name not in self._data.columns:
                return self._pure(NUMPY_FUNCTIONS[name], node)
            case ast.Attribute(value=ast.Name(id="np"), attr=name) if "np" not in self._data.columns:
                if name not in NUMPY_FUNCTIONS:
                    raise _Refused(
                        node,
                        f"np.{name} is not computed row by row. Compute it beforehand and use its name, {_FUNCTION}",
                    )
                return self._pure(NUMPY_FUNCTIONS[name], node)
            case ast.Name(id=name) if name not in self._data.columns and name not in self._quoted:
                return self._callers_function(name, node)
            case ast.Attribute():
                raise _Refused(node, _INSTEAD[ast.Attribute])
        raise _Refused(node, _OTHERWISE)

    def _pure(self, function: Rowwise, node: ast.Call) -> Any:
        count = len(node.args)
        if node.keywords or not function.fewest <= count <= function.most:
            fewest, most = function.fewest, function.most
            numbers = fewest if fewest == most else f"{fewest} or {most}"
            raise _Refused(node, f"It takes {numbers} arguments, without keywords")
        if function.call is np.isin:
            return np.isin(self.value(node.args[0]), self._list(node.args[1]))
        if function.call is np.round:
            return np.round(*self._rounding(node))
        argument = self.value if function.call is np.where else self._numeric  # where() also takes labels
        return function.call(*map(argument, node.args))

    def _rounding(self, node: ast.Call) -> tuple[Any, int]:
        digits = self.value(node.args[1]) if len(node.args) > 1 else 0
        if not isinstance(digits, (int, np.integer)) or abs(int(digits)) > _LARGEST_DIGITS:
            raise _Refused(node, f"The digits to round to must be a whole number up to {_LARGEST_DIGITS}")
        return self._numeric(node.args[0]), int(digits)

    def _list(self, node: ast.AST) -> Any:
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.value(item) for item in node.elts]
        return self.value(node)

    def _callers_function(self, name: str, node: ast.Call) -> Any:
        """Call a function of the caller; at least one of its arguments must be a column."""
        if name not in self._context:
            raise EstimandError(f"calls `{name}`, which is not a known function.{nearest(name, SHORT_NAMES)}")
        function = self._context[name]
        if not isinstance(function, (FunctionType, np.ufunc)):
            raise _Refused(node, f"`{name}` is a {type(function).__name__} in the caller's scope; expected a function")
        if any(isinstance(part, ast.Starred) for part in node.args) or any(key.arg is None for key in node.keywords):
            raise _Refused(node, "Write its arguments out, without * and **")
        arguments = [self._list(part) for part in node.args]
        if not any(isinstance(argument, np.ndarray) and argument.ndim for argument in arguments):
            raise _Refused(node, f"`{name}` needs a column as an argument. Compute it beforehand and use its name")
        return function(*arguments, **{str(key.arg): self._list(key.value) for key in node.keywords})


def _column(column: pd.Series) -> Any:
    """A column as an array: numbers if its values or levels are numbers, otherwise labels."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = column.cat.categories
        if pd.api.types.is_numeric_dtype(levels.dtype) or pd.api.types.infer_dtype(levels) in ("integer", "floating"):
            return np.asarray(column.astype(object).where(column.notna(), np.nan), dtype=float)
        return np.asarray(column.astype(object))
    return np.asarray(column)


def _kind(value: Any) -> str:
    """What a value holds: numbers, labels, dates, or a mixture."""
    kind = np.asarray(value).dtype.kind
    if kind == "O":
        return "labels" if pd.api.types.infer_dtype(value, skipna=True) == "string" else "mixed"
    return {"U": "labels", "T": "labels", "M": "dates"}.get(kind, "numbers")


def _truth(value: Any) -> Any:
    """The value as booleans if it is a column of 0 and 1, because the data hold booleans as such columns."""
    array = np.asarray(value)
    return array.astype(bool) if array.dtype.kind == "f" and np.isin(array, (0.0, 1.0)).all() else value
