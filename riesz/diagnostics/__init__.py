"""Checks of a fit: functions of predictions, design and influence that return frames, and the words for what they find."""

from collections.abc import Callable

import pandas as pd

from riesz.design.design import Design
from riesz.diagnostics.weights import representer_health
from riesz.predictions import Predictions

#: A function of predictions and design, on the full sample; its frame has one row a component.
Diagnostic = Callable[[Predictions, Design], pd.DataFrame]

#: Name to diagnostic; ``fit.diagnostics()`` puts their columns side by side, those of yours too.
DIAGNOSTICS: dict[str, Diagnostic] = {"representer_health": representer_health}

__all__ = ["DIAGNOSTICS", "Diagnostic", "representer_health"]
