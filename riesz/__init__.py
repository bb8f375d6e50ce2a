"""Automatic debiased machine learning from one formula.

>>> import riesz
>>> data = riesz.datasets.get("binary").draw(2000, seed=1).data
>>> fit = riesz.ate("y ~ treat(a) + .", data=data)
>>> fit.params.index.tolist()
['ATE']
"""

from typing import TYPE_CHECKING, Any

from riesz import datasets, montecarlo
from riesz.api import ade, ape, atc, ate, att, ipe, mean, shift
from riesz.errors import DataError, EstimandError, FormulaError, LearnerError, RieszError, RieszWarning
from riesz.estimands import ADE, APE, ATC, ATE, ATT, IPE, CustomMoment, Mean, Shift
from riesz.estimation import estimate, estimate_many
from riesz.learners import KernelEmbedding, Linear, Propensity
from riesz.results import Results

if TYPE_CHECKING:
    from riesz.learners.neural.learner import MADNet
    from riesz.learners.neural.training import Stage

__version__ = "0.1.0"


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
    "CustomMoment",
    "DataError",
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
    "ade",
    "ape",
    "atc",
    "ate",
    "att",
    "datasets",
    "estimate",
    "estimate_many",
    "ipe",
    "mean",
    "montecarlo",
    "shift",
]
