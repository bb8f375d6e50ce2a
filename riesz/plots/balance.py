"""The love plot of the Riesz balance table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from riesz.diagnostics.warnings import IMBALANCE
from riesz.errors import RieszError, pick
from riesz.plots.arguments import Fitted, plot_of_fit
from riesz.plots.canvas import axes, colours, legend_above, neutral
from riesz.plots.labelled_rows import lay_out
from riesz.syntax.check_arguments import is_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@plot_of_fit
def balance(
    fit: Fitted,
    parameter: str | None = None,
    *,
    most: int = 25,
    interactions: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Imbalance of the covariates before and after weighting with the Riesz representer, in standard deviations.

    Parameters
    ----------
    fit : Results
    parameter : str, optional
        Which parameter; needed if there are several.
    most : int
        Number of covariates to show: those with the largest imbalance, before or after.
    interactions : bool
        Show products of covariates and treatment, too.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
        Shows the columns ``unadjusted`` and ``standardized`` of ``fit.balance()``, as absolute values. Beyond the dotted line,
        ``fit.warnings()`` reports an imbalance that chance does not explain.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
    >>> ax = riesz.plots.balance(riesz.ate("y ~ treat(a) * .", data, learner="linear"))
    >>> ax.get_xlabel()
    'Absolute standardized imbalance'
    """
    if not is_count(most, 1):
        raise RieszError(f"most={most!r}: expected a whole number of covariates, 1 or larger.")
    table = _chosen(fit.balance().loc[pick(parameter, list(fit.params.index))], interactions)
    shown = table.loc[table.max(axis=1).nlargest(most).index].sort_values("unadjusted", ascending=False)
    rows = lay_out([str(name) for name in shown.index])
    ax = axes(ax, rows.inches + 0.3)
    rows.label(ax)
    ax.hlines(rows.centres, shown["standardized"], shown["unadjusted"], color=neutral(), linewidth=0.8, alpha=0.4)
    ax.plot(
        shown["unadjusted"], rows.centres, "s", color=colours()[1], markersize=6.5, fillstyle="none", label="unadjusted"
    )
    ax.plot(shown["standardized"], rows.centres, "o", color=colours()[0], markersize=6, label="weighted by rr")
    ax.axvline(0.0, color=neutral(), linewidth=0.8)
    end = float(shown.max(axis=None))
    if end > 0.6 * IMBALANCE:
        ax.axvline(IMBALANCE, color=neutral(), linewidth=0.9, linestyle=":", alpha=0.7)
    ax.set_xlim(left=-0.03 * max(end, 0.01), right=1.06 * max(end, 0.01, IMBALANCE if end > 0.6 * IMBALANCE else 0.0))
    ax.set_xlabel("Absolute standardized imbalance")
    if len(shown) < len(table):
        ax.set_ylabel(f"Worst {len(shown)} of {len(table)}")
    legend_above(ax)
    return ax


def _chosen(table: pd.DataFrame, interactions: bool) -> pd.DataFrame:
    """The rows to show; without covariates, everything but the constant."""
    kinds = ["covariate", "interaction"] if interactions else ["covariate"]
    chosen = table[table["kind"].isin(kinds)]
    if chosen.empty:
        chosen = table[table["kind"] != "constant"]
    return chosen[["unadjusted", "standardized"]].abs()
