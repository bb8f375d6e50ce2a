"""The results of a fit."""

from riesz.results.drawing import Drawing
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
