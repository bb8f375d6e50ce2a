"""A list of texts about the problems of a fit, as ``fit.warnings()`` shows them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from html import escape

_WIDTH = 90


class Concerns(list[str]):
    """Texts, one per concern: a list of str that is wrapped when printed and short HTML in notebooks.

    Parameters
    ----------
    texts : iterable of str
    if_none : str
        What is printed if there are no texts.
    urgent : int
        How many of the first texts a summary reports before anything else.

    Examples
    --------
    >>> from riesz.diagnostics.concerns import Concerns
    >>> Concerns(["Only 3 clusters: normal intervals are then too short."])
    - Only 3 clusters: normal intervals are then too short.
    >>> Concerns([])
    These checks found no problems.
    """

    def __init__(
        self, texts: Iterable[str] = (), if_none: str = "These checks found no problems.", urgent: int = 0
    ) -> None:
        super().__init__(texts)
        self.urgent = urgent
        self._if_none = if_none

    def __repr__(self) -> str:
        lines = [textwrap.fill(text, _WIDTH, initial_indent="- ", subsequent_indent="  ") for text in self]
        return "\n".join(lines) or self._if_none

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(text)}</li>" for text in self)
        style = "max-width:56em;margin:0"
        content = (
            f'<ul style="{style}">{items}</ul>' if items else f'<div style="{style}">{escape(self._if_none)}</div>'
        )
        return f'<div class="riesz-warnings">{content}</div>'
