"""Axes, colours and legends of the plots.

matplotlib is imported when the first plot is drawn. Data have the colours of Okabe and Ito, which colour-blind readers can
distinguish; the first is dark blue on a light page and light blue on a dark one. Text, reference lines and everything else have
the colours of the active style.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from riesz.errors import RieszError
from riesz.syntax.check_arguments import is_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _SKY = "#0072B2", "#56B4E9"
_OTHERS = ("#D55E00", "#009E73", "#E69F00", "#CC79A7")  # vermillion, green, orange, purple
MARKERS = ("o", "s", "^", "D", "v", "P")
WIDTH, HEIGHT = 6.0, 4.0  # inches
_MOST_BINS = 10_000
_LEGEND_SHARE = 0.85  # share of the axes' width that a legend may fill: labels on the left make the axes narrower later


def pyplot() -> ModuleType:
    """matplotlib.pyplot, or an error that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise RieszError("Plots are drawn by matplotlib, which is not installed: pip install 'riesz[plots]'.") from None
    return plt


def axes(ax: Axes | None, height: float = HEIGHT, width: float = WIDTH) -> Axes:
    """The given axes, or new ones in a figure of that size in inches."""
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise RieszError(f"ax={ax!r}: expected matplotlib axes, such as plt.subplots() returns, or None.")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def check_bins(bins: object) -> None:
    """Check the number of bars."""
    if not is_count(bins, 1, _MOST_BINS):
        raise RieszError(f"bins={bins!r}: expected a whole number of bars, from 1 to {_MOST_BINS:,}.")


def neutral() -> str:
    """The colour of text in the active style, for marks that are not data."""
    return str(pyplot().rcParams["text.color"])


def colours() -> tuple[str, ...]:
    """The six colours of data, for the background of the active style."""
    from matplotlib.colors import to_rgb

    dark = sum(to_rgb(pyplot().rcParams["axes.facecolor"])) < 1.5
    return (_SKY, *_OTHERS, _BLUE) if dark else (_BLUE, *_OTHERS, _SKY)


def points(size: str) -> float:
    """A font size of the active style, such as ``"ytick.labelsize"``, in points."""
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=pyplot().rcParams[size]).get_size_in_points())


def legend_above(ax: Axes) -> None:
    """A legend above the axes, in as many columns as fit."""
    for columns in (4, 3, 2, 1):
        legend = ax.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=columns,
            frameon=False,
            borderaxespad=0.2,
            handlelength=1.2,
            columnspacing=1.2,
        )
        if legend.get_window_extent().width <= _LEGEND_SHARE * ax.get_window_extent().width:
            return


def title_above(ax: Axes, title: str, **options: Any) -> None:
    """A title above the axes, and above the legend if there is one."""
    legend = ax.get_legend()
    height = 0.0 if legend is None else legend.get_window_extent().height * 72 / ax.figure.dpi
    ax.set_title(title, loc="left", pad=6 + height, **options)
