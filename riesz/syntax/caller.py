"""Where a call into the package came from: warnings point there, and formulas look names up there."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

from riesz.errors import RieszWarning

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # the package


def calling_frame() -> tuple[FrameType, int]:
    """The nearest frame outside this package, and how many frames above the function that asks it stands."""
    frame, above = sys._getframe(1), 0
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HOME):
        frame, above = frame.f_back, above + 1
    return frame, above


def warn(message: str) -> None:
    """Give a :class:`~riesz.errors.RieszWarning` that names the user's line, however deep in the package it arises.

    Examples
    --------
    >>> import warnings
    >>> from riesz.syntax.caller import warn
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("Something is odd.")
    >>> str(caught[0].message)
    'Something is odd.'
    """
    _, above = calling_frame()
    warnings.warn(message, RieszWarning, stacklevel=above + 1)
