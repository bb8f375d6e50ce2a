"""Checks of a fit: tables computed from predictions, design and influence function, and the rules that turn them into warnings."""

from collections.abc import Callable, Sequence

import pandas as pd

from riesz.design.design import Design
from riesz.errors import RieszError
from riesz.predictions import Predictions
from riesz.registry import Registry

#: A function of predictions and design, on the full sample; its frame has one row per parameter.
Diagnostic = Callable[[Predictions, Design], pd.DataFrame]

#: Diagnostics by name; ``fit.diagnostics()`` shows their columns side by side.
DIAGNOSTICS: Registry[Diagnostic] = Registry(
    {
        "representer_health": "riesz.diagnostics.weights:representer_health",
    }
)

__all__ = ["DIAGNOSTICS", "Diagnostic", "diagnose"]


def diagnose(predictions: Predictions, design: Design, names: Sequence[str]) -> pd.DataFrame:
    """The columns of all diagnostics side by side, one row per parameter."""
    tables = []
    for name, diagnostic in DIAGNOSTICS.items():
        table = diagnostic(predictions, design)
        if not isinstance(table, pd.DataFrame) or len(table) != len(names):
            got = f"{len(table)} rows" if isinstance(table, pd.DataFrame) else f"a {type(table).__name__}"
            raise RieszError(
                f"The diagnostic {name!r} returned {got}; expected a data frame with one row for each of {', '.join(names)}, in "
                "that order."
            )
        tables.append(table.reset_index(drop=True))
    return pd.concat(tables, axis=1).set_axis(list(names), axis=0)
