"""The contour plot of a sensitivity analysis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from riesz.errors import pick
from riesz.plots.asked import Analysis, Fitted
from riesz.plots.canvas import COLOURS, axes, neutral, page
from riesz.plots.rows import wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

_POINTS = 60  # of the grid, on each axis


def sensitivity(
    fit: Fitted,
    parameter: str | None = None,
    *,
    cf_y: float = 0.03,
    cf_d: float = 0.03,
    rho: float = 1.0,
    level: float = 0.95,
    null: float = 0.0,
    benchmarks: Sequence[str | Sequence[str]] = (),
    confidence: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """How far a confounder of any strength could move the estimate towards the null.

    Parameters
    ----------
    fit : Results
    parameter : str, optional
        Which one; needed when there are several.
    cf_y, cf_d, rho, level, null : float
        As in ``fit.sensitivity()``; the first two are marked.
    benchmarks : sequence of str or list of str
        Covariates whose strength is marked, too. For each the fit is made again without it.
    confidence : bool
        Draw the confidence bound instead of the bound itself.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
        Contours of the bound that is nearer to the null: the lower one for an estimate above it. It is reached on the thick line.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
    >>> ax = riesz.plots.sensitivity(riesz.ate("y ~ treat(a) * (x1 + x2)", data), benchmarks=["x1"])
    >>> [text.get_text() for text in ax.texts if text.get_text() == "x1"]
    ['x1']
    """
    analysis = fit.sensitivity(cf_y=cf_y, cf_d=cf_d, rho=rho, level=level, null=null)
    found = fit.sensitivity_benchmark(*benchmarks) if benchmarks else None
    return draw_contour(analysis, parameter, found, confidence, ax)


def draw_contour(
    analysis: Analysis, parameter: str | None, benchmarks: pd.DataFrame | None, confidence: bool, ax: Axes | None
) -> Axes:
    """The contours of one analysis, with benchmarks from ``fit.sensitivity_benchmark()``."""
    name = pick(parameter, list(analysis.names))
    marks = {"scenario": (analysis.cf_d, analysis.cf_y)}
    if benchmarks is not None:
        own = benchmarks.xs(name, level="parameter")
        marks |= {str(label): (row["cf_d"], row["cf_y"]) for label, row in own.iterrows()}
    grid = analysis.contour(name, points=_POINTS)
    furthest = 1.15 * max(max(pair) for pair in marks.values())
    if furthest > grid["cf_d"].max():
        grid = analysis.contour(name, min(furthest, 0.99), _POINTS)
    null, above = float(analysis.null[name]), analysis.table.loc[name, "estimate"] >= analysis.null[name]
    bound = {(True, False): "lower", (True, True): "conf_low", (False, False): "upper", (False, True): "conf_high"}
    ax = axes(ax, 4.4)
    _draw_contours(ax, grid, bound[bool(above), confidence], null)
    _mark(ax, marks)
    side = ("Lower" if above else "Upper") + (" confidence bound" if confidence else " bound")
    ax.set_title(f"{side} on {wrap(name, 44)}", loc="left", fontsize="medium")
    ax.set_xlabel("cf_d: share of the representer's variance")
    ax.set_ylabel("cf_y: share of the residual variance")
    return ax


def _draw_contours(ax: Axes, grid: pd.DataFrame, column: str, null: float) -> None:
    from matplotlib.ticker import MaxNLocator

    x, y = np.unique(grid["cf_d"]), np.unique(grid["cf_y"])
    z = grid[column].to_numpy().reshape(len(y), len(x))
    levels = [one for one in MaxNLocator(9).tick_values(z.min(), z.max()) if not np.isclose(one, null, atol=1e-12)]
    lines = ax.contour(x, y, z, levels=levels, colors=COLOURS[0], linewidths=1.1, linestyles="solid")
    ax.clabel(lines, fmt="%g", fontsize="small")
    if z.min() < null < z.max():
        reached = ax.contour(x, y, z, levels=[null], colors=COLOURS[1], linewidths=2.2, linestyles="solid")
        ax.clabel(reached, fmt="%g", fontsize="small")
    ax.set_xlim(0.0, x[-1])
    ax.set_ylim(0.0, y[-1])


def _mark(ax: Axes, marks: dict[str, tuple[float, float]]) -> None:
    from matplotlib.patheffects import withStroke

    end, texts = ax.get_xlim()[1], []
    for number, (label, (x, y)) in enumerate(marks.items()):
        colour = neutral() if number == 0 else COLOURS[2]
        ax.plot(x, y, "D" if number == 0 else "o", color=colour, markersize=6, zorder=4, clip_on=False)
        left = x > 0.6 * end
        texts.append(
            ax.annotate(
                wrap(label),
                (x, y),
                (-8 if left else 8, 0),
                textcoords="offset points",
                ha="right" if left else "left",
                va="center",
                fontsize="small",
                path_effects=[withStroke(linewidth=3, foreground=page())],
                zorder=5,
            )
        )
    _move_apart(ax, texts)


def _move_apart(ax: Axes, texts: list[Annotation]) -> None:
    """Push labels up until none covers another or leaves the axes at the bottom."""
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    taken: list[Bbox] = []
    bottom, scale = ax.get_window_extent().y0, 72 / ax.figure.dpi
    for text in sorted(texts, key=lambda one: one.get_window_extent().y0):
        box = text.get_window_extent()
        lowest = max([bottom + 3, *(other.y1 + 3 for other in taken if other.x0 < box.x1 and box.x0 < other.x1)])
        rise = max(0.0, lowest - box.y0)
        across, up = text.xyann
        text.xyann = (across, up + rise * scale)
        taken.append(box.translated(0.0, rise))
