"""Checks of a fit: functions of predictions, design and influence that return frames, and the words for what they find."""

from collections.abc import Callable

import pandas as pd

from riesz.design.design import Design
from riesz.predictions import Predictions
from riesz.registry import Registry

#: A function of predictions and design, on the full sample; its frame has one row per component.
Diagnostic = Callable[[Predictions, Design], pd.DataFrame]

#: Name to diagnostic; ``fit.diagnostics()`` shows their columns side by side.
DIAGNOSTICS: Registry[Diagnostic] = Registry({"representer_health": "riesz.diagnostics.weights:representer_health"})

__all__ = ["DIAGNOSTICS", "Diagnostic"]
