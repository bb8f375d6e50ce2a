"""Progress bars as text: on standard error in a terminal, in a separate output that is cleared at the end in a notebook.

Bars made of widgets warn if widgets are not installed, and leave a broken widget behind in a saved notebook.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from tqdm.std import tqdm


def progress_bar(**options: Any) -> Any:
    """A progress bar of tqdm, with its options; ``disable=None`` hides it outside of terminals and notebooks.

    Examples
    --------
    >>> from riesz.crossfit.progress import progress_bar
    >>> with progress_bar(total=2, disable=True) as bar:
    ...     bar.update()
    """
    return tqdm(**{**options, "file": Cell(), "leave": False}) if _in_notebook() else tqdm(**options)


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook; a console, which cannot replace an output, does not count."""
    if any(name == "QT_API" or name.startswith("SPYDER") for name in os.environ):
        return False
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


class Cell:
    """The file that a bar writes to in a notebook: one line, which replaces the line before."""

    def __init__(self) -> None:
        self._handle: Any = None

    def isatty(self) -> bool:
        """True, so that tqdm shows the bar."""
        return True

    def flush(self) -> None:
        """Does nothing: nothing is buffered."""

    def write(self, text: str) -> None:
        """Show the last line; blanks, with which a bar clears itself, leave an empty output."""
        display: Any = import_module("IPython.display").display  # installed wherever this is used
        line = text.strip("\r\n").strip()
        shown: dict[str, str] = {"text/plain": line} if line else {}
        if self._handle is not None:
            self._handle.update(shown, raw=True)
        elif line:
            self._handle = display(shown, raw=True, display_id=True)
