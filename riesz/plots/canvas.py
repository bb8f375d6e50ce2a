"""Where plots are drawn and in which colours.

matplotlib is loaded when the first plot is asked for. Colours of data are Okabe and Ito's, which colour-blind readers can tell
apart and which are neither too dark for a black page nor too light for a white one; text, lines of reference and everything else
take the colours of the active style.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from riesz.errors import RieszError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Blue, vermillion, green, orange, purple, sky blue.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
WIDTH, HEIGHT = 6.0, 4.0  # inches


def pyplot() -> ModuleType:
    """matplotlib.pyplot, or what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise RieszError("Plots are drawn by matplotlib, which is not installed: pip install 'riesz[plots]'.") from None
    return plt


def axes(ax: Axes | None, height: float = HEIGHT, width: float = WIDTH) -> Axes:
    """The axes to draw in: those given, or new ones in a figure of that size in inches."""
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    assert ax is not None
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def neutral() -> str:
    """The colour of text in the active style, for marks that are no data."""
    return str(pyplot().rcParams["text.color"])


def page() -> str:
    """The colour behind the data in the active style."""
    return str(pyplot().rcParams["axes.facecolor"])


def points(size: str) -> float:
    """A font size of the active style, such as ``"ytick.labelsize"``, in points."""
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=pyplot().rcParams[size]).get_size_in_points())


def legend_above(ax: Axes, longest: int) -> None:
    """A legend above the axes, in as many columns as names of this length allow."""
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=max(1, min(4, 64 // (longest + 6))),
        frameon=False,
        borderaxespad=0.2,
        handlelength=1.2,
        columnspacing=1.2,
    )
