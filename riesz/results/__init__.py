"""The results of a fit, in the words that statsmodels' users know.

``parameters`` holds what everything with a covariance matrix has; ``core`` the estimates of a fit; ``diagnoses`` what it says
about itself; ``confounding`` what an unmeasured confounder could do; ``tables`` what is printed; ``heterogeneity`` effects in
groups; ``drawing`` pictures; ``forecast`` new rows; ``storing`` files. :class:`Results` puts the parts together.
"""

from riesz.results.drawing import Drawing
from riesz.results.effects import Effects
from riesz.results.forecast import Forecast
from riesz.results.storing import Storing


class Results(Drawing, Forecast, Storing):
    """Estimates with standard errors, and everything needed to question them.

    Made by :func:`riesz.ate` and the other verbs.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear")
    >>> fit.params.index.tolist(), fit.conf_int().shape
    (['ATE'], (1, 2))
    """


__all__ = ["Effects", "Results"]
