"""The functions that policies may call, and that formulas from files may call as ``np.name``: pure and row by row.

Nothing here writes, reads a file or looks at more than a row's own values; whatever is not listed is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rowwise:
    """A function of one row's values.

    Attributes
    ----------
    call : callable
    fewest, most : int
        How many arguments it takes; all go by position.
    """

    call: Callable[..., Any]
    fewest: int
    most: int


def _plain(*names: str) -> dict[str, Rowwise]:
    """Functions of numpy that take as many arguments as the mathematics has."""
    found = {name: getattr(np, name) for name in names}
    return {name: Rowwise(made, made.nin, made.nin) for name, made in found.items()}


#: As ``np.name`` in policies, and in formulas that come from a file.
OF_NUMPY: dict[str, Rowwise] = {
    **_plain("abs", "absolute", "fabs", "sign", "negative", "positive", "reciprocal"),
    **_plain("sqrt", "cbrt", "square", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
    **_plain("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "hypot", "deg2rad", "rad2deg"),
    **_plain("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
    **_plain("floor", "ceil", "trunc", "rint", "power", "float_power"),
    **_plain("add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "mod", "remainder", "fmod"),
    **_plain("maximum", "minimum", "fmax", "fmin", "heaviside"),
    **_plain("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    **_plain("logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isfinite", "isinf"),
    "clip": Rowwise(np.clip, 3, 3),
    "isin": Rowwise(np.isin, 2, 2),
    "round": Rowwise(np.round, 1, 2),
    "where": Rowwise(np.where, 3, 3),
}

#: Numbers that go by a name.
NUMBERS = {"pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan}

#: The commonest go without ``np.`` in policies.
SHORT = ("where", "minimum", "maximum", "clip", "exp", "log", "sqrt", "abs", "round", "isin")
