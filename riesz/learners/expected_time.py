r"""The cost of fits with very many columns, announced before they begin.

A closed form with n rows and p columns takes about :math:`2.2 \cdot 10^{-10}\, n p m + 4.5 \cdot 10^{-10}\, m^3` seconds with
m = min(n, p): products of the columns, and three eigenvalue problems of size m. Checking whether an estimand is identified takes
a quarter of that. Measured with one thread, 1000 to 8000 rows and 1000 to 4000 columns, each within a quarter of the formula;
other processors differ by a factor of two or so.
"""

from __future__ import annotations

MOST_ROWS = 20_000  # most rows used to solve a closed form on learned or generated features
MANY = 1000  # with at least this many columns the time of a fit is announced
LONG = 60.0  # seconds above which the announcement is made


def closed_form_seconds(rows: int, columns: int) -> float:
    """Expected seconds for the closed form of mu and rr.

    Examples
    --------
    >>> from riesz.learners.expected_time import closed_form_seconds
    >>> round(closed_form_seconds(8000, 2000))
    11
    """
    size = min(rows, columns)
    return 2.2e-10 * rows * columns * size + 4.5e-10 * size**3


def identification_seconds(rows: int, columns: int) -> float:
    """Expected seconds for the check of identification, which is made only with more rows than columns."""
    return 0.25 * closed_form_seconds(rows, columns) if columns < rows else 0.0


def network_seconds(rows: int, inputs: int, width: int) -> float:
    """Expected seconds to train one network with many inputs; only the first layer counts."""
    return 2e-9 * rows * inputs * width


def words(seconds: float) -> str:
    """A time in words, rounded.

    Examples
    --------
    >>> from riesz.learners.expected_time import words
    >>> words(290), words(3 * 3600)
    ('about 5 minutes', 'about 3 hours')
    """
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 1.5 * unit:
            return f"about {seconds / unit:,.0f} {name}"
    return "about a minute"
