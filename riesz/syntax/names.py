"""The names in a formula: which are columns of the data, which the caller's variables, and which are unknown."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import formulaic.transforms
import numpy as np
import pandas as pd
from formulaic.parser.types import Token

from riesz.errors import FormulaError, listing, nearest
from riesz.syntax.tokens import functions_in, names_in, parse_python, python_tokens, tokens_of

_FEW = 50  # values; the caller's arrays up to this length may be knots, longer ones look like columns


@dataclass(frozen=True)
class Names:
    """What the names in a formula may refer to.

    Attributes
    ----------
    text : str
        The whole formula, for messages.
    columns : sequence of str
        The columns of the data.
    context : mapping
        The caller's variables; only names inside calls may come from it.
    """

    text: str
    columns: Sequence[str]
    context: Mapping[str, Any]

    def read(self, side: str) -> list[str]:
        """The columns that one side reads, each once, in order; an unknown name is an error.

        Examples
        --------
        >>> from riesz.syntax.names import Names
        >>> Names("y ~ treat(a) + log(x) + x", ["y", "a", "x"], {}).read("a + log(x) + x")
        ['a', 'x']
        """
        read: list[str] = []
        for token in tokens_of(side, self.text):
            if token.kind is Token.Kind.NAME:
                read.append(self._column(str(token)))
            elif token.kind is Token.Kind.PYTHON:
                read += self._columns_in_python(str(token))
        return list(dict.fromkeys(read))

    def unknown_column(self, name: str) -> str:
        """The part of a message that says that a name is not a column."""
        return f"is not a column of the data.{nearest(name, self.columns)} The columns are {listing(self.columns)}."

    def _column(self, name: str) -> str:
        if name not in self.columns:
            raise FormulaError(f"`{name}` in {self.text!r} {self.unknown_column(name)}")
        return name

    def _columns_in_python(self, code: str) -> list[str]:
        tree, quoted = parse_python(code, self.text)
        for function in functions_in(tree):
            self._check_function(quoted.get(function, function), code)
        read = []
        for node in names_in(tree):
            name = quoted.get(node.id, node.id)
            if name in self.columns:
                read.append(name)
            else:
                self._check_variable(name, node, quoted)
        return read

    def _check_function(self, name: str, code: str) -> None:
        transforms = formulaic.transforms.TRANSFORMS
        if name in transforms or name in self.context or hasattr(builtins, name):
            return
        hint = nearest(name, [*transforms, "treat"])
        if name == "factor":  # as in R
            hint = f" Write {code.replace('factor(', 'C(')}."
        raise FormulaError(f"{name}() in {self.text!r} is not a known function.{hint}")

    def _check_variable(self, name: str, node: ast.Name, quoted: Mapping[str, str]) -> None:
        if name not in formulaic.transforms.TRANSFORMS and name not in self.context:
            raise FormulaError(
                f"`{name}` in {self.text!r} is neither a column of the data nor a variable in the caller's scope."
                f"{nearest(name, self.columns)}"
            )
        if name in self.context and node.id not in quoted and _looks_like_a_column(self.context[name]):
            raise FormulaError(
                f"`{name}` in {self.text!r} is not a column of the data, but an array in the caller's scope."
                f"{nearest(name, self.columns)} Add it to the data, so that dropped rows and folds apply to it, too."
            )


def functions_called(side: str) -> set[str]:
    """The functions that one side of a formula calls by name.

    Examples
    --------
    >>> from riesz.syntax.names import functions_called
    >>> sorted(functions_called("log(x) + np.exp(x) + C(g)"))
    ['C', 'log']
    """
    trees = [parse_python(str(token), side)[0] for token in python_tokens(side)]
    return {function for tree in trees for function in functions_in(tree)}


def _looks_like_a_column(value: object) -> bool:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return False
    return isinstance(value, (np.ndarray, pd.Series, pd.DataFrame, list, tuple)) and len(value) > _FEW
