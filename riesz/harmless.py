"""Whether a formula or a policy that came out of a file may be evaluated: only if it names columns and known pure functions.

Formulas are Python in part, so evaluating one that a stranger wrote would run the stranger's code. What is checked here is the
tree that Python's parser makes of it; whatever is not listed is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from riesz.formula import python_parts
from riesz.quoting import hide_quotes

_MATHS = {
    "log",
    "log10",
    "log2",
    "log1p",
    "exp",
    "expm1",
    "sqrt",
    "abs",
    "where",
    "minimum",
    "maximum",
    "clip",
    "round",
    "isin",
}
_SHAPES = {"treat", "C", "I", "bs", "cr", "cc", "cs", "poly", "scale", "center", "standardize", "lag", "exp10", "exp2"}
_PURE = _MATHS | _SHAPES
_MODULES = {
    "np": _MATHS | {"square", "power", "sin", "cos", "tan", "tanh", "sign", "floor", "ceil"},
    "contr": {"treatment", "SAS", "sum", "helmert", "diff", "poly"},
}
_NODES = (
    ast.Expression,
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.BoolOp,
    ast.List,
    ast.Tuple,
    ast.keyword,
)
_SIGNS = (ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context)


def strange_part(text: str, columns: Collection[str], formula: bool) -> str | None:
    """The first part of a formula, or of an expression over the columns, that is not known to be harmless; None if there is none.

    Examples
    --------
    >>> from riesz.harmless import strange_part
    >>> strange_part("y ~ treat(a) + bs(x, df=4)", ["y", "a", "x"], formula=True)
    >>> strange_part("x.__class__", ["x"], formula=False)
    'x.__class__'
    """
    for part in python_parts(text) if formula else [text.strip().removeprefix("~")]:
        hidden, names = hide_quotes(part)
        try:
            found = _strange(ast.parse(hidden.strip(), mode="eval"), {*columns, *names})
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return part
        if found is not None:
            return ast.unparse(found)
    return None


def _strange(node: ast.AST, columns: Collection[str]) -> ast.AST | None:
    match node:
        case ast.Name(id=name):
            return None if name in columns else node
        case ast.Call(func=ast.Name(id=name)) if name in _PURE and name not in columns:
            inner: list[ast.AST] = [*node.args, *node.keywords]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if name in _MODULES.get(module, ()):
            inner = [*node.args, *node.keywords]
        case _ if isinstance(node, _NODES):
            inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, _SIGNS)]
        case _:
            return node
    return next((found for child in inner if (found := _strange(child, columns)) is not None), None)
