"""The results of a fit, in the words that statsmodels' users know.

``core`` holds estimates, precision, per-row quantities and tests; ``diagnoses`` what a fit says about itself;
``confounding`` what an unmeasured confounder could do; ``tables`` what is printed. :class:`Results` puts the parts together.
"""

from riesz.results.confounding import Confounding
from riesz.results.tables import Tables


class Results(Tables, Confounding):
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
