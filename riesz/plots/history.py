"""The plot of training and validation losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from riesz.errors import RieszError, listing
from riesz.plots.arguments import Fitted, plot_of_fit
from riesz.plots.canvas import axes, colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = {"loss": "training loss", "valid_loss": "validation loss"}
_STYLES = ("-", "--", ":", "-.")


@plot_of_fit
def history(fit: Fitted, *, columns: Sequence[str] = ("loss", "valid_loss"), ax: Axes | None = None) -> Axes:
    """The course of training, one thin line per network.

    Parameters
    ----------
    fit : Results
        A fit of a learner that trains networks.
    columns : sequence of str
        Columns of ``fit.history``.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
        If the validation loss is drawn, a dot marks its minimum for each network.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> quick = riesz.MADNet(width=16, head_width=8, repeats=1, stages=(riesz.Stage(1e-2, 5, 5),))
    >>> ax = riesz.plots.history(riesz.ate("y ~ treat(a) + .", data, learner=quick, folds=2))
    >>> ax.get_xlabel()
    'Epoch'
    """
    course = fit.history
    if course.empty or "epoch" not in course:
        words = fit.model.learner.describe(fit.model.blueprint.design.family)
        raise RieszError(
            f"{words} has no training history to draw. Learners of networks have one, such as learner='madnet'."
        )
    columns = (columns,) if isinstance(columns, str) else columns
    if not isinstance(columns, Sequence) or not columns:
        raise RieszError(f"columns={columns!r}: expected a list of columns of fit.history, such as ['loss'].")
    unknown = [name for name in columns if name not in course]
    if unknown:
        raise RieszError(f"fit.history has no column {listing(unknown)}. Its columns are {listing(course.columns)}.")
    ax = axes(ax)
    keys = [name for name in ("member", "network") if name in course]
    for number, column in enumerate(columns):
        colour, style = colours()[number % len(colours())], _STYLES[number % len(_STYLES)]
        for place, (_, network) in enumerate(course.groupby(keys)):
            name = _LABELS.get(column, column.replace("_", " ")) if place == 0 else "_"
            ax.plot(
                network["epoch"], network[column], color=colour, linestyle=style, linewidth=1.3, alpha=0.75, label=name
            )
            if column == "valid_loss":
                best = network.loc[network[column].idxmin()]
                ax.plot(best["epoch"], best[column], "o", color=colour, markersize=4.5)
    values = course[list(columns)].to_numpy()
    if (values > 0).all() and np.nanmax(values) > 20 * np.nanmin(values):
        ax.set_yscale("log")
    ax.set_xlabel("Epoch")
    ax.set_ylabel("Loss" if set(columns) <= set(_LABELS) else "Value")
    ax.legend(frameon=False)
    return ax
