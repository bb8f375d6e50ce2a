"""Influential rows, and the influence function against the normal distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from riesz.errors import pick
from riesz.plots.arguments import Fitted, plot_of_fit
from riesz.plots.canvas import axes, colours, neutral
from riesz.plots.labelled_rows import lay_out, wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 5000  # drawn as vectors; more points become pixels, so that files stay small


@plot_of_fit
def influence(fit: Fitted, parameter: str | None = None, *, k: int = 12, ax: Axes | None = None) -> Axes:
    """The most influential rows, or clusters: how far the estimate would move without each.

    Parameters
    ----------
    fit : Results
    parameter : str, optional
        Which parameter; needed if there are several.
    k : int
        Number of rows.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
        Shows the column ``change_in_se`` of ``fit.influential()``; the numbers on the right are shares of the variance.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> ax = riesz.plots.influence(riesz.ate("y ~ treat(a) * .", data, learner="linear"), k=3)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['154', '22', '454']
    """
    name = pick(parameter, list(fit.params.index))
    table = fit.influential(k, name)
    rows = lay_out([_label(unit) for unit in table.index])
    ax = axes(ax, rows.inches)
    rows.label(ax, [f"{share:.1%}" for share in table["share_of_variance"]])
    change = table["change_in_se"]
    ax.hlines(rows.centres, 0.0, change, color=colours()[0], linewidth=1.5)
    ax.plot(change, rows.centres, "o", color=colours()[0], markersize=6)
    ax.axvline(0.0, color=neutral(), linewidth=0.8)
    ax.margins(x=0.08)
    ax.set_xlabel(f"Change in {wrap(name, 30)} without it, in standard errors")
    ax.set_ylabel("Row" if ".rr" in table else "Cluster")
    return ax


def _label(unit: object) -> str:
    return ", ".join(map(str, unit)) if isinstance(unit, tuple) else str(unit)


@plot_of_fit
def qq(fit: Fitted, parameter: str | None = None, *, ax: Axes | None = None) -> Axes:
    """The influence function against the normal distribution, quantile by quantile.

    Intervals assume that its sum is normal; a few points far from the line show that the estimate depends on a few rows.

    Parameters
    ----------
    fit : Results
    parameter : str, optional
        Which parameter; needed if there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
        Shows the table ``fit.influence_quantiles()``.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> ax = riesz.plots.qq(riesz.ate("y ~ treat(a) * .", data, learner="linear"))
    >>> ax.get_xlabel()
    'Normal quantile'
    """
    name = pick(parameter, list(fit.params.index))
    table = fit.influence_quantiles(name)
    ax = axes(ax)
    ends = table["theoretical"].iloc[[0, -1]].to_numpy()
    many = len(table) > _MOST_POINTS
    ax.plot(ends, ends, color=neutral(), linewidth=1.0, linestyle="--", alpha=0.7, label="normal")
    (dots,) = ax.plot(table["theoretical"], table["sample"], "o", color=colours()[0], markersize=3.5, alpha=0.6)
    dots.set(markeredgewidth=0.0, rasterized=many)
    ax.set_xlabel("Normal quantile")
    ax.set_ylabel(f"Influence on {wrap(name, 24)} (standardized)")
    return ax
