"""The distribution of the Riesz representer, and the propensity it implies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.errors import RieszError, pick
from riesz.estimands.treatment import Treatment
from riesz.plots.arguments import Fitted, plot_of_fit
from riesz.plots.canvas import axes, check_bins, colours, legend_above, neutral
from riesz.plots.labelled_rows import wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 40
_SHORT = 26  # characters
_MARGIN = 0.05  # width of the two bins for values below 0 and above 1


@plot_of_fit
def representer(fit: Fitted, parameter: str | None = None, *, bins: int = _BINS, ax: Axes | None = None) -> Axes:
    """The distribution of the Riesz representer over the rows, by arm if the treatment has arms.

    Parameters
    ----------
    fit : Results
    parameter : str, optional
        Which parameter; needed if there are several.
    bins : int
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
        Ticks at the bottom mark the ten rows with the largest ``|rr|``.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> ax = riesz.plots.representer(riesz.ate("y ~ treat(a) * .", data, learner="linear"))
    >>> ax.get_xlabel()
    'Riesz representer of ATE'
    """
    check_bins(bins)
    name = pick(parameter, list(fit.params.index))
    rr, design = fit.riesz_representer[name].to_numpy(), fit.model.blueprint.design
    ax = axes(ax)
    treatment, edges = fit.model.blueprint.treatment, np.histogram_bin_edges(rr, bins)
    codes = np.zeros(len(rr), dtype=np.intp) if design.strata is None else design.strata
    labels = ["_"] if design.strata is None else [_arm(treatment, treatment.label(level)) for level in treatment.levels]
    for arm, label in enumerate(labels):
        inside = codes == arm
        colour, bars = colours()[arm % len(colours())], list(edges)
        ax.hist(
            rr[inside], bars, weights=design.frequency[inside], color=colour, alpha=0.6, edgecolor=colour, label=label
        )
    largest = rr[np.argsort(-np.abs(rr), kind="stable")[:10]]
    ax.vlines(largest, 0.0, 0.035, color=neutral(), linewidth=1.2, transform=ax.get_xaxis_transform(), label="_")
    ax.set_xlabel(f"Riesz representer of {wrap(name, 30)}")
    ax.set_ylabel("Rows")
    if len(labels) > 1:
        legend_above(ax)
    return ax


def _arm(treatment: Treatment, arm: str) -> str:
    """Label of an arm: with the treatment's name, if that is short."""
    text = f"{treatment.name} = {arm}"
    return text if len(text) <= _SHORT else wrap(arm, 30)


@plot_of_fit
def overlap(fit: Fitted, parameter: str | None = None, *, bins: int = _BINS, ax: Axes | None = None) -> Axes:
    """The propensity that the Riesz representer implies, one arm above the line and the other below it.

    Parameters
    ----------
    fit : Results
        With a treatment of two arms.
    parameter : str, optional
        Which parameter; needed if there are several.
    bins : int
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
        Bars are shares of the arm's rows; hatched bars hold all rows whose implied propensity is below 0 or above 1. The
        representer of the effect on the treated gives the propensity of the controls only, that of the effect on the controls the
        propensity of the treated only.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
    >>> ax = riesz.plots.overlap(riesz.ate("y ~ treat(a) * .", data, learner="linear"))
    >>> ax.get_xlabel()
    'Implied propensity of a = 1'
    """
    check_bins(bins)
    name = pick(parameter, list(fit.params.index))
    rows, treatment = fit.overlap().rows, fit.model.blueprint.treatment
    rows = rows[rows["parameter"] == name]
    arms = [treatment.label(level) for level in treatment.levels]
    shown = [arm for arm in reversed(arms) if (rows["arm"] == arm).any()]
    if not shown:
        raise RieszError(
            f"No propensity can be recovered from the Riesz representer of {name}. Use plot('representer') instead."
        )
    ax = axes(ax)
    for arm in shown:
        p = rows.loc[rows["arm"] == arm, "propensity"].to_numpy()
        outside = float(np.mean((p < 0) | (p > 1)))
        label = _arm(treatment, arm) + (f" ({outside:.1%} outside)" if outside else "")
        sign = -1.0 if len(shown) > 1 and arm == shown[1] else 1.0
        _draw_arm(ax, p, bins, sign, colours()[arms.index(arm)], label)
    ax.axhline(0.0, color=neutral(), linewidth=0.8)
    for edge in (0.0, 1.0):
        ax.axvline(edge, color=neutral(), linewidth=0.8, linestyle=":", alpha=0.7)
    ax.yaxis.set_major_formatter(lambda value, _: f"{abs(value):.3g}")
    ax.set_xlim(-1.4 * _MARGIN, 1 + 1.4 * _MARGIN)
    ax.set_xlabel(f"Implied propensity of {_arm(treatment, arms[1])}")
    ax.set_ylabel("Share of the arm")
    legend_above(ax)
    return ax


def _draw_arm(ax: Axes, p: Array, bins: int, sign: float, colour: str, label: str) -> None:
    edges = np.concatenate([[-_MARGIN], np.linspace(0.0, 1.0, bins + 1), [1.0 + _MARGIN]])
    share = _shares(p, edges) * sign
    middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    inner: npt.NDArray[np.bool_] = (middle > 0) & (middle < 1)
    ax.bar(middle[inner], share[inner], width[inner], color=colour, alpha=0.6, edgecolor=colour, label=label)
    ax.bar(middle[~inner], share[~inner], width[~inner], hatch="////", fill=False, edgecolor=colour, label="_")


def _shares(p: Array, edges: Array) -> Array:
    """The share of rows in every bin; the first and the last hold all values outside [0, 1]."""
    inside = np.histogram(p[(p >= 0) & (p <= 1)], edges[1:-1])[0]
    return np.concatenate([[(p < 0).sum()], inside, [(p > 1).sum()]]) / len(p)
