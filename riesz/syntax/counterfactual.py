"""Frames with some of their columns replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd


def replace_columns(frame: pd.DataFrame, columns: Mapping[str, Any]) -> pd.DataFrame:
    """The frame with some columns replaced or added; the frame itself stays as it is.

    ``frame.assign(**columns)`` does the same, but takes names for keywords, so that a column cannot be called ``self``.

    Examples
    --------
    >>> import pandas as pd
    >>> from riesz.syntax.counterfactual import replace_columns
    >>> replace_columns(pd.DataFrame({"self": [1, 2]}), {"self": 0})["self"].tolist()
    [0, 0]
    """
    made = frame.copy(deep=False)
    for name, values in columns.items():
        made[name] = values
    return made
