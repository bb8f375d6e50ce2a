"""Plots of a fit, drawn by matplotlib (``pip install 'riesz[plots]'``), one function per plot.

Every function takes a fit, draws in the given axes or in new ones, and returns the axes. ``fit.plot()`` and
``fit.plot("balance")`` call them. Colours of text and background are those of the active style.

Examples
--------
>>> import riesz
>>> data = riesz.datasets.get("binary").draw(300, seed=1).data
>>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
>>> riesz.plots.balance(fit).get_xlabel()
'Absolute standardized imbalance'
"""

from collections.abc import Callable
from typing import Any

from riesz.plots.balance import balance
from riesz.plots.estimates import candidates, estimators, forest, groups
from riesz.plots.history import history
from riesz.plots.influence import influence, qq
from riesz.plots.panels import panels
from riesz.plots.sensitivity import sensitivity
from riesz.plots.weights import overlap, representer

#: Name to plot, as in ``fit.plot("balance")``; tests loop over it.
PLOTS: dict[str, Callable[..., Any]] = {
    "panels": panels,
    "forest": forest,
    "estimators": estimators,
    "candidates": candidates,
    "groups": groups,
    "representer": representer,
    "overlap": overlap,
    "balance": balance,
    "influence": influence,
    "qq": qq,
    "sensitivity": sensitivity,
    "history": history,
}

__all__ = [
    "PLOTS",
    "balance",
    "candidates",
    "estimators",
    "forest",
    "groups",
    "history",
    "influence",
    "overlap",
    "panels",
    "qq",
    "representer",
    "sensitivity",
]
