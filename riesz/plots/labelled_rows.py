"""Positions and labels of the rows of a plot: labels of any length are wrapped and have enough room."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from riesz.arrays import Array
from riesz.plots.canvas import points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDEST = 26  # characters per line
_MOST_LINES = 3
_GAP = 0.6  # lines between rows
_SPACING = 1.25  # distance of lines, in font sizes
_SMALLEST = 5.0  # points


@dataclass(frozen=True)
class Rows:
    """Positions of rows, measured in lines of text from the top.

    Attributes
    ----------
    labels : tuple of str
        Wrapped labels.
    centres : ndarray
    total : float
    """

    labels: tuple[str, ...]
    centres: Array
    total: float

    @property
    def inches(self) -> float:
        """Height of the rows and of an axis below them."""
        return max(1.9, self.total * points("ytick.labelsize") * _SPACING / 72 + 0.8)

    def label(self, ax: Axes, beside: Sequence[str] = ()) -> None:
        """Put the labels to the left of the axes and other texts to the right, in smaller type if there is little room."""
        room = ax.get_window_extent().height / ax.figure.dpi * 72 / (self.total * _SPACING)
        size = max(_SMALLEST, min(points("ytick.labelsize"), 1.15 * room))
        ax.set_yticks(self.centres, self.labels, fontsize=size)
        ax.set_ylim(self.total, 0.0)
        ax.tick_params(axis="y", length=0)
        for y, text in zip(self.centres, beside, strict=False):
            ax.text(1.02, y, text, transform=ax.get_yaxis_transform(), va="center", ha="left", fontsize=0.9 * size)


def lay_out(labels: Sequence[str], least: float = 1.0) -> Rows:
    """Rows for labels; each is at least ``least`` lines high."""
    wrapped = tuple("\n".join(map(wrap, label.split("\n"))) for label in labels)
    heights = np.array([max(least, label.count("\n") + 1) + _GAP for label in wrapped])
    return Rows(wrapped, np.cumsum(heights) - heights / 2, float(heights.sum()))


def wrap(text: str, widest: int = _WIDEST) -> str:
    """A name in a few short lines, broken after blanks and signs; an ellipsis replaces the middle of a very long name."""
    most = widest * _MOST_LINES - 1
    if len(text) > most:
        text = f"{text[: most // 2]}…{text[-(most // 2) + 1 :]}"
    lines = [""]
    for piece in re.findall(r"[^\s_:.\-/,]*[\s_:.\-/,]?", text):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > widest:
            lines.append("")
        lines[-1] += piece
        while len(lines[-1].rstrip()) > widest:
            lines[-1:] = [lines[-1][:widest], lines[-1][widest:]]
    return "\n".join(line.rstrip() for line in lines)
