"""The contour plot of a sensitivity analysis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.errors import RieszError, pick
from riesz.plots.arguments import Analysis, Fitted, plot_of_fit
from riesz.plots.canvas import MARKERS, axes, colours, legend_above, neutral, title_above
from riesz.plots.labelled_rows import wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 60  # points of the grid per axis


@plot_of_fit
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
    """Contours of how far confounders of different strengths could move the estimate towards the null.

    Parameters
    ----------
    fit : Results
    parameter : str, optional
        Which parameter; needed if there are several.
    cf_y, cf_d, rho, level, null : float
        As in ``fit.sensitivity()``; the first two are marked.
    benchmarks : sequence of str or list of str
        Covariates whose strength is marked, too. Each costs one more fit, without the covariate.
    confidence : bool
        Draw the confidence bound instead of the bound itself.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
        Contours of the bound on the side of the null: the lower bound for an estimate above it. On the thick line the bound
        equals the null.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
    >>> ax = riesz.plots.sensitivity(riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear"), benchmarks=["x1"])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['cf_d = 0.03, cf_y = 0.03', 'x1']
    """
    columns = (benchmarks,) if isinstance(benchmarks, str) else benchmarks
    if not isinstance(columns, Iterable):
        raise RieszError(f"benchmarks={benchmarks!r}: expected a list of covariates, such as ['x1'].")
    analysis = fit.sensitivity(cf_y=cf_y, cf_d=cf_d, rho=rho, level=level, null=null)
    table = fit.sensitivity_benchmark(*columns) if columns else None
    return draw_contour(analysis, parameter, table, confidence, ax)


def draw_contour(
    analysis: Analysis, parameter: str | None, benchmarks: pd.DataFrame | None, confidence: bool, ax: Axes | None
) -> Axes:
    """The contours of one analysis, with benchmarks from ``fit.sensitivity_benchmark()``."""
    name = pick(parameter, list(analysis.names))
    marks = {f"cf_d = {analysis.cf_d:g}, cf_y = {analysis.cf_y:g}": (analysis.cf_d, analysis.cf_y)}
    if benchmarks is not None:
        _check_benchmarks(benchmarks, name)
        strengths = benchmarks.xs(name, level="parameter")
        marks |= {wrap(str(label)): (row["cf_d"], row["cf_y"]) for label, row in strengths.iterrows()}
    grid = analysis.contour(name, points=_POINTS)
    least = float(grid["cf_d"].max())
    far_d, far_y = (max(least, 1.15 * max(axis)) for axis in zip(*marks.values(), strict=True))
    if max(far_d, far_y) > least:  # a column may explain much of the outcome and little of the treatment
        grid = analysis.contour(name, (min(far_d, 0.99), min(far_y, 1.0)), _POINTS)
    null, above = float(analysis.null[name]), analysis.table.loc[name, "estimate"] >= analysis.null[name]
    bound = {(True, False): "lower", (True, True): "conf_low", (False, False): "upper", (False, True): "conf_high"}
    lines = sum(label.count("\n") + 1 for label in marks)
    ax = axes(ax, 4.0 + 0.16 * lines)
    _draw_contours(ax, grid, bound[bool(above), confidence], null)
    _mark(ax, marks)
    side = ("Lower" if above else "Upper") + (" confidence bound" if confidence else " bound")
    title_above(ax, f"{side} on {wrap(name, 44)}", fontsize="medium")
    ax.set_xlabel("cf_d: share of the representer's variance")
    ax.set_ylabel("cf_y: share of the residual variance")
    return ax


def _check_benchmarks(benchmarks: object, name: str) -> None:
    """Check that the table comes from ``fit.sensitivity_benchmark()`` of this fit."""
    has_columns = isinstance(benchmarks, pd.DataFrame) and {"cf_d", "cf_y"} <= set(benchmarks.columns)
    if not has_columns or "parameter" not in benchmarks.index.names:  # type: ignore[attr-defined]
        raise RieszError("benchmarks must be the table that fit.sensitivity_benchmark() returns.")
    if name not in benchmarks.index.get_level_values("parameter"):  # type: ignore[attr-defined]
        raise RieszError(f"benchmarks has no rows for {name!r}; use sensitivity_benchmark() of the same fit.")


def _draw_contours(ax: Axes, grid: pd.DataFrame, column: str, null: float) -> None:
    from matplotlib.ticker import MaxNLocator

    x, y = np.unique(grid["cf_d"]), np.unique(grid["cf_y"])
    z = grid[column].to_numpy().reshape(len(y), len(x))
    ticks = MaxNLocator(9).tick_values(z.min(), z.max())
    levels = [level for level in ticks if not np.isclose(level, null, atol=1e-12)]
    ax.set_xlim(0.0, x[-1])
    ax.set_ylim(0.0, y[-1] if y[-1] < 1 else 1.04)  # room for a mark at 1
    for chosen, colour, width in ((levels, colours()[0], 1.1), ([null], colours()[1], 2.4)):
        inside = [level for level in chosen if z.min() < level < z.max()]
        if inside:
            lines = ax.contour(x, y, z, levels=inside, colors=colour, linewidths=width, linestyles="solid")
            ax.clabel(lines, fmt="%g", fontsize="small", manual=_on_diagonal(x, y, np.diag(z), inside))


def _on_diagonal(x: Array, y: Array, z: Array, levels: Sequence[float]) -> list[tuple[float, float]]:
    """Where contours cross the diagonal; those near its ends get no label, because it would be cut."""
    order = np.argsort(z)
    crossed = np.interp(levels, z[order], np.linspace(0.0, 1.0, len(z))[order])
    return [(place * x[-1], place * y[-1]) for place in crossed if 0.05 < place < 0.94]


def _mark(ax: Axes, marks: dict[str, tuple[float, float]]) -> None:
    for number, (label, (x, y)) in enumerate(marks.items()):
        colour = neutral() if number == 0 else colours()[(number + 1) % len(colours())]
        marker = MARKERS[(number + 3) % len(MARKERS)]
        ax.plot(x, y, marker, color=colour, markersize=7, zorder=4, clip_on=False, linestyle="none", label=label)
    legend_above(ax)
