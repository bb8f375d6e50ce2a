"""The functions that policies may call, and that formulas from files may call as ``np.name``.

Each is pure and computed row by row: it writes nothing, reads no file and uses only the values of its row. Functions that are
not listed are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rowwise:
    """A function that is computed row by row.

    Attributes
    ----------
    call : callable
    fewest, most : int
        The number of arguments that it takes, all positional.
    """

    call: Callable[..., Any]
    fewest: int
    most: int


def _ufuncs(*names: str) -> dict[str, Rowwise]:
    """Universal functions of numpy, with their number of inputs."""
    functions = {name: getattr(np, name) for name in names}
    return {name: Rowwise(function, function.nin, function.nin) for name, function in functions.items()}


#: Functions that policies, and formulas from files, may call as ``np.name``.
NUMPY_FUNCTIONS: dict[str, Rowwise] = {
    **_ufuncs("abs", "absolute", "fabs", "sign", "negative", "positive", "reciprocal"),
    **_ufuncs("sqrt", "cbrt", "square", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
    **_ufuncs("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "hypot", "deg2rad", "rad2deg"),
    **_ufuncs("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
    **_ufuncs("floor", "ceil", "trunc", "rint", "power", "float_power"),
    **_ufuncs("add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "mod", "remainder", "fmod"),
    **_ufuncs("maximum", "minimum", "fmax", "fmin", "heaviside"),
    **_ufuncs("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    **_ufuncs("logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isfinite", "isinf"),
    "clip": Rowwise(np.clip, 3, 3),
    "isin": Rowwise(np.isin, 2, 2),
    "round": Rowwise(np.round, 1, 2),
    "where": Rowwise(np.where, 3, 3),
}

#: Constants that they may read as ``np.name``.
NUMPY_CONSTANTS = {"pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan}

#: The most common functions, which policies may call without ``np.``.
SHORT_NAMES = ("where", "minimum", "maximum", "clip", "exp", "log", "sqrt", "abs", "round", "isin")
