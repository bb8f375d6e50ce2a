"""Automatic debiased machine learning from one formula.

>>> import riesz
>>> data = riesz.datasets.get("binary").draw(2000, seed=1).data
>>> fit = riesz.ate("y ~ treat(a) + .", data=data)
>>> fit.params.index.tolist()
['ATE']
"""

from typing import TYPE_CHECKING, Any

from riesz import datasets, montecarlo, plots
from riesz.api import ade, ape, atc, ate, att, ipe, mean, shift
from riesz.comparison import Comparison, compare, register_stargazer
from riesz.contrasts import contrast
from riesz.errors import DataError, EstimandError, FormulaError, LearnerError, RieszError, RieszWarning
from riesz.estimands import ADE, APE, ATC, ATE, ATT, IPE, CustomMoment, Mean, Shift
from riesz.estimation import estimate, estimate_many
from riesz.learners import KernelEmbedding, Linear, Propensity
from riesz.loading import load
from riesz.results import Effects, Results
from riesz.version import __version__

if TYPE_CHECKING:
    from riesz.learners.neural.learner import MADNet
    from riesz.learners.neural.training import Stage


def __getattr__(name: str) -> Any:
    """Load what needs torch when it is first asked for: torch takes a second or two to import."""
    if name == "MADNet":
        from riesz.learners.neural.learner import MADNet

        return MADNet
    if name == "Stage":
        from riesz.learners.neural.training import Stage

        return Stage
    raise AttributeError(f"module 'riesz' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "ADE",
    "APE",
    "ATC",
    "ATE",
    "ATT",
    "IPE",
    "Comparison",
    "CustomMoment",
    "DataError",
    "Effects",
    "EstimandError",
    "FormulaError",
    "KernelEmbedding",
    "LearnerError",
    "Linear",
    "MADNet",
    "Mean",
    "Propensity",
    "Results",
    "RieszError",
    "RieszWarning",
    "Shift",
    "Stage",
    "__version__",
    "ade",
    "ape",
    "atc",
    "ate",
    "att",
    "compare",
    "contrast",
    "datasets",
    "estimate",
    "estimate_many",
    "ipe",
    "load",
    "mean",
    "montecarlo",
    "plots",
    "register_stargazer",
    "shift",
]
