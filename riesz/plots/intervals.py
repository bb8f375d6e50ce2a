"""Draws a forest plot: estimates with intervals, one row each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.errors import RieszError
from riesz.plots.canvas import MARKERS, axes, colours, legend_above, neutral
from riesz.plots.labelled_rows import lay_out, wrap
from riesz.syntax.check_arguments import is_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_APART = 0.75  # lines between the estimates of one row


def draw_intervals(
    table: pd.DataFrame, xlabel: str, ax: Axes | None = None, null: float | None = 0.0, numbers: bool = True
) -> Axes:
    """A forest plot.

    Parameters
    ----------
    table : pandas.DataFrame
        ``row`` and ``series`` (labels; a single series is drawn without a legend), ``estimate``, ``low, high`` (NaN where there is
        no interval), and optionally ``joint_low, joint_high`` of wider, thin intervals.
    xlabel : str
    ax : matplotlib.axes.Axes, optional
    null : float or None
        Position of a reference line, drawn if it is near the estimates.
    numbers : bool
        Write the numbers to the right of the rows if there is one series.
    """
    if null is not None and not is_number(null):
        raise RieszError(f"null={null!r}: expected a finite number, the position of a reference line, or None.")
    labels, series = list(table["row"].unique()), list(table["series"].unique())
    rows = lay_out(labels, _APART * len(series))
    ax = axes(ax, rows.inches + (0.3 if len(series) > 1 else 0.0))
    rows.label(ax, _numbers(table) if numbers and len(series) == 1 else ())
    for number, name in enumerate(series):
        part = table[table["series"] == name]
        y = rows.centres[part["row"].map(labels.index)] + _APART * (number - (len(series) - 1) / 2)
        _draw(ax, part, y, number % len(colours()), wrap(str(name)) if len(series) > 1 else "")
    _limits(ax, table, null)
    ax.set_xlabel(xlabel)
    if len(series) > 1:
        legend_above(ax)
    return ax


def _draw(ax: Axes, part: pd.DataFrame, y: Array, number: int, name: str) -> None:
    colour, marker = colours()[number], MARKERS[number]
    if "joint_low" in part:
        ax.hlines(y, part["joint_low"], part["joint_high"], color=colour, linewidth=1.0, alpha=0.8)
    ax.hlines(y, part["low"], part["high"], color=colour, linewidth=2.2)
    has_interval = part["low"].notna().to_numpy()
    estimate = part["estimate"].to_numpy()
    for rows, fill, label in (
        (has_interval, "full", name),
        (~has_interval, "none", "_" if has_interval.any() else name),
    ):
        if rows.any():
            ax.plot(estimate[rows], y[rows], marker, color=colour, markersize=6, fillstyle=fill, label=label or "_")


def _limits(ax: Axes, table: pd.DataFrame, null: float | None) -> None:
    """Room for everything that is drawn, and the reference line if it is not far away."""
    ends = [name for name in ("estimate", "low", "high", "joint_low", "joint_high") if name in table]
    low, high = float(table[ends].min(axis=None)), float(table[ends].max(axis=None))
    span = (high - low) or abs(high) or 1.0
    if null is not None and low - span < null < high + span:
        ax.axvline(null, color=neutral(), linewidth=0.9, linestyle="--", alpha=0.6, zorder=0)
        low, high = min(low, null), max(high, null)
    margin = 0.05 * ((high - low) or span)
    ax.set_xlim(low - margin, high + margin)


def _numbers(table: pd.DataFrame) -> list[str]:
    """Estimates and intervals as text, with two digits of the smallest half-width."""
    half = (table["high"] - table["low"]) / 2
    size = float(half[half > 0].min()) if (half > 0).any() else float(table["estimate"].abs().max()) or 1.0
    digits = int(np.clip(1 - np.floor(np.log10(size)), 0, 6))
    return [
        f"{estimate:.{digits}f}" + (f" [{low:.{digits}f}, {high:.{digits}f}]" if np.isfinite(low) else "")
        for estimate, low, high in table[["estimate", "low", "high"]].itertuples(index=False)
    ]
