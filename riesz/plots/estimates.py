"""Forest plots: several fits, the estimators or the learners of one fit, and effects in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from riesz.errors import RieszError, pick
from riesz.estimators import describe
from riesz.plots.arguments import Estimated, Fitted, plot_of_fit
from riesz.plots.canvas import colours, neutral
from riesz.plots.intervals import draw_intervals
from riesz.plots.labelled_rows import wrap
from riesz.plots.selection import check_names, select
from riesz.syntax.check_arguments import checked

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@checked("riesz.plots.forest()")
def forest(
    *fits: Estimated,
    names: Sequence[str] | None = None,
    alpha: float = 0.05,
    null: float | None = 0.0,
    keep: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Estimates and intervals of one or several fits.

    Parameters
    ----------
    *fits : Results, Effects, or results of statsmodels
        Anything with ``params`` and ``conf_int()``.
    names : sequence of str, optional
        Names of the fits; by default numbers.
    alpha : float
        Intervals have level 1 - alpha.
    null : float or None
        Position of a reference line; it is left out if it is far from all estimates.
    keep : sequence of str, optional
        The parameters to show, by their names in the fits or by new names; by default all.
    rename : mapping, optional
        New names, which put parameters with different names in one row: ``{"a": "ATE"}``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        One row per parameter, or one row per fit if they all have the same single parameter. Marks without a line are
        estimates without a valid standard error.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> plain, rich = (riesz.ate(f"y ~ treat(a) {sign} .", data, learner="linear") for sign in "+*")
    >>> ax = riesz.plots.forest(plain, rich, names=["plain", "rich"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['plain', 'rich']
    """
    if not fits:
        raise RieszError("forest() got no fits; expected at least one, as in riesz.plots.forest(fit, other).")
    for fit in fits:
        if not all(hasattr(fit, name) for name in ("params", "conf_int")):
            raise RieszError(
                f"forest() got an object of type {type(fit).__name__}; expected fits, with params and conf_int()."
            )
    check_names(names, len(fits))
    labels = [str(name) for name in (names or [f"({number})" for number in range(1, len(fits) + 1)])]
    chosen = select([_table(fit, alpha) for fit in fits], keep, rename)
    parts = [table.assign(fit=name) for table, name in zip(chosen, labels, strict=True)]
    table = pd.concat(parts).rename_axis("parameter").reset_index()
    table, what = _rows_and_series(table, "fit", single=table["parameter"].nunique() == 1 and len(fits) > 1)
    return draw_intervals(table, f"{what} {_interval(table, 1 - alpha)}", ax, null)


def _table(fit: Estimated, alpha: float) -> pd.DataFrame:
    params, interval = pd.Series(fit.params), np.asarray(fit.conf_int(alpha), dtype=float)
    return pd.DataFrame(
        {
            "estimate": params.to_numpy(),
            "low": interval[:, 0],
            "high": interval[:, 1],
        },
        index=params.index.map(str),
    )


def _rows_and_series(table: pd.DataFrame, other: str, *, single: bool) -> tuple[pd.DataFrame, str]:
    """The columns ``row`` and ``series`` of :func:`draw_intervals`, and what the plot shows.

    There is one row per parameter, with a series for each value of the column ``other``; for a single parameter, one row per value.
    """
    rows, series = (other, "parameter") if single else ("parameter", other)
    what = str(table["parameter"].iloc[0]) if single else "Estimate"
    return table.rename(columns={rows: "row", series: "series"}), what


def _interval(table: pd.DataFrame, level: float) -> str:
    return f"with {level:.0%} interval" if table["low"].notna().any() else "(no standard error)"


def _with_estimate(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that have an estimate, with the names of columns that :func:`draw_intervals` expects."""
    return table[table["estimate"].notna()].rename(columns={"conf_low": "low", "conf_high": "high"})


@plot_of_fit
def estimators(fit: Fitted, *, null: float | None = 0.0, ax: Axes | None = None) -> Axes:
    """Estimates by all estimators that the learner allows: plug-in, weighting, one-step and targeted.

    Estimates without a valid standard error are hollow marks without an interval. If mu and rr are both accurate, all four agree.

    Parameters
    ----------
    fit : Results
    null : float or None
        Position of a reference line; it is left out if it is far from all estimates.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> ax = riesz.plots.estimators(riesz.ate("y ~ treat(a) * .", data, learner="linear"))
    >>> ax.get_yticklabels()[0].get_text()
    'direct (plug-in)'
    """
    table = _with_estimate(fit.estimates).reset_index()  # there is no ipw if rr is learned for the errors of a logit
    table["estimator"] = table["estimator"].map(describe)
    table, what = _rows_and_series(table, "estimator", single=table["parameter"].nunique() == 1)
    return draw_intervals(table, f"{what} {_interval(table, 0.95)}", ax, null)


@plot_of_fit
def candidates(fit: Fitted, parameter: str | None = None, *, null: float | None = 0.0, ax: Axes | None = None) -> Axes:
    """What each learner of a stack alone would have estimated, with its weights, and the stack in the last, shaded row.

    If learners with positive weights disagree, the answer depends on how mu and rr are learned.

    Parameters
    ----------
    fit : Results
    parameter : str, optional
        Which parameter; needed if there are several.
    null : float or None
        Position of a reference line; it is left out if it is far from all estimates.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
        The numbers of ``fit.candidates``; the dotted line is the stack's estimate. A learner that cannot estimate alone, because it
        learns mu only, has no row. A fit of a single learner has one row.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=riesz.Stack(["linear", "splines"]))
    >>> ax = riesz.plots.candidates(fit)
    >>> ax.get_yticklabels()[-1].get_text()
    'stack'
    """
    name = pick(parameter, list(fit.params.index))
    table = _with_estimate(fit.candidates.loc[name])
    several = len(table) > 1
    weights = [f"\nmu {mu:.0%}, rr {rr:.0%}" for mu, rr in zip(table["weight_mu"], table["weight_rr"], strict=True)]
    rows = [
        label + weight if several and number < len(table) - 1 else label
        for number, (label, weight) in enumerate(zip(table.index, weights, strict=True))
    ]
    ax = draw_intervals(table.assign(row=rows, series=name), f"{wrap(name, 30)} {_interval(table, 0.95)}", ax, null)
    if several:
        _mark_last(ax, float(table["estimate"].iloc[-1]))
    return ax


def _mark_last(ax: Axes, estimate: float) -> None:
    """Shade the last row, and draw its estimate through all rows."""
    centre, bottom = ax.get_yticks()[-1], ax.get_ylim()[0]
    ax.axhspan(2 * centre - bottom, bottom, color=neutral(), alpha=0.1, linewidth=0, zorder=0)
    ax.axvline(estimate, color=colours()[0], linewidth=1.2, linestyle=":", zorder=0)
    ax.get_yticklabels()[-1].set_fontweight("bold")


@plot_of_fit
def groups(
    fit: Fitted, by: Any, *, alpha: float = 0.05, joint: bool = True, null: float | None = 0.0, ax: Axes | None = None
) -> Axes:
    """Effects in groups, each with its interval.

    Parameters
    ----------
    fit : Results
    by : str or array_like
        The groups, as in ``fit.by()``.
    alpha : float
    joint : bool
        Also draw, as thin lines, the wider intervals that cover all groups at once.
    null : float or None
        Position of a reference line; it is left out if it is far from all estimates.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
        The dotted line is the estimate for all rows, if there is one parameter.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data.assign(region=lambda d: d.index % 3)
    >>> ax = riesz.plots.groups(riesz.ate("y ~ treat(a) * . - region", data, learner="linear"), "region")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['0', '1', '2']
    """
    effects = fit.by(by)
    table = effects.tidy(alpha).rename(
        columns={"group": "row", "parameter": "series", "conf_low": "low", "conf_high": "high"}
    )
    if joint:
        wide = effects.tidy(alpha, joint=True)
        table = table.assign(joint_low=wide["conf_low"], joint_high=wide["conf_high"])
    names = table["series"].unique()
    label = f"{names[0] if len(names) == 1 else 'Estimate'} with {1 - alpha:.0%} interval"
    ax = draw_intervals(table, label + (" (thin: joint)" if joint else ""), ax, null)
    if len(names) == 1:
        ax.axvline(float(fit.params.iloc[0]), color=colours()[0], linewidth=1.2, linestyle=":", zorder=0)
    return ax
