"""The results of a fit, in the words that statsmodels' users know.

``core`` holds estimates, precision, per-row quantities and tests; ``tables`` what is printed. :class:`Results` puts the parts
together.
"""

from riesz.results.tables import Tables


class Results(Tables):
    """Estimates with standard errors, and everything needed to question them.

    Made by :func:`riesz.ate` and the other verbs.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) + .", data)
    >>> fit.params.index.tolist(), fit.conf_int().shape
    (['ATE'], (1, 2))
    """


__all__ = ["Results"]
