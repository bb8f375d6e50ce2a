"""The caller of the package: warnings point to the user's line, and formulas look up the user's variables."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

from riesz.errors import RieszWarning

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def calling_frame() -> tuple[FrameType, int]:
    """The nearest frame outside this package, and how many frames above the function that calls this one it is."""
    frame, above = sys._getframe(1), 0
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, above = frame.f_back, above + 1
    return frame, above


def warn(message: str) -> None:
    """Issue a :class:`~riesz.errors.RieszWarning` that points to the user's line, however deep in the package it arises.

    Examples
    --------
    >>> import warnings
    >>> from riesz.syntax.caller import warn
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("The treatment is heavily tied.")
    >>> str(caught[0].message)
    'The treatment is heavily tied.'
    """
    _, above = calling_frame()
    warnings.warn(message, RieszWarning, stacklevel=above + 1)
