"""Progress bars as text: in a terminal on the standard error, in a notebook in an output of its own that is emptied in the end.

Bars made of widgets warn when widgets are not installed, and leave a broken one behind in a notebook that is saved.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from tqdm.std import tqdm


def progress_bar(**options: Any) -> Any:
    """A bar of tqdm's, with its options; ``disable=None`` hides it where nobody watches (no terminal and no notebook).

    Examples
    --------
    >>> from riesz.crossfit.progress import progress_bar
    >>> with progress_bar(total=2, disable=True) as bar:
    ...     bar.update()
    """
    return tqdm(**{**options, "file": Cell(), "leave": False}) if _in_notebook() else tqdm(**options)


def _in_notebook() -> bool:
    """Whether this runs in a kernel whose output a notebook shows, and not a console, which cannot replace an output."""
    if any(name == "QT_API" or name.startswith("SPYDER") for name in os.environ):
        return False
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


class Cell:
    """What a bar writes to in a notebook: one line, which replaces the line before."""

    def __init__(self) -> None:
        self._handle: Any = None

    def isatty(self) -> bool:
        """Someone watches."""
        return True

    def flush(self) -> None:
        """Nothing is kept back."""

    def write(self, text: str) -> None:
        """Show the last line; blanks, with which a bar wipes itself out, leave an empty output."""
        display: Any = import_module("IPython.display").display  # there is one where this is used
        line = text.strip("\r\n").strip()
        shown: dict[str, str] = {"text/plain": line} if line else {}
        if self._handle is not None:
            self._handle.update(shown, raw=True)
        elif line:
            self._handle = display(shown, raw=True, display_id=True)
