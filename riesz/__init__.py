"""Automatic debiased machine learning from one formula.

>>> import riesz
>>> data = riesz.datasets.get("binary").draw(500, seed=1).data
>>> fit = riesz.ate("y ~ treat(a) + .", data=data)
>>> fit.params.index.tolist()
['ATE']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from riesz import datasets, montecarlo, plots
from riesz.api.estimate import estimate, estimate_many
from riesz.api.load import load
from riesz.api.verbs import ade, ape, atc, ate, att, ipe, mean, shift
from riesz.errors import DataError, EstimandError, FormulaError, LearnerError, RieszError, RieszWarning
from riesz.estimands import ADE, APE, ATC, ATE, ATT, IPE, CustomMoment, Mean, Shift
from riesz.learners import NEURAL as _NEURAL
from riesz.learners import KernelEmbedding, Linear, Propensity
from riesz.results.compare import Comparison, compare, register_stargazer
from riesz.results.contrast import contrast
from riesz.results.effects import Effects
from riesz.results.fit import Results
from riesz.settings import defaults
from riesz.version import __version__

if TYPE_CHECKING:
    from riesz.learners.neural.dragonnet import DragonNet
    from riesz.learners.neural.engine.schedule import Stage
    from riesz.learners.neural.madnet import MADNet
    from riesz.learners.neural.neural_embedding import NeuralEmbedding
    from riesz.learners.neural.riesznet import RieszNet
    from riesz.learners.neural.tarnet import TARNet


_LATE = {**_NEURAL, "Stage": "riesz.learners.neural.engine.schedule"}


def __getattr__(name: str) -> Any:
    """Load what needs torch when it is first asked for: torch takes a second or two to import."""
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
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
    "DragonNet",
    "Effects",
    "EstimandError",
    "FormulaError",
    "KernelEmbedding",
    "LearnerError",
    "Linear",
    "MADNet",
    "Mean",
    "NeuralEmbedding",
    "Propensity",
    "Results",
    "RieszError",
    "RieszNet",
    "RieszWarning",
    "Shift",
    "Stage",
    "TARNet",
    "__version__",
    "ade",
    "ape",
    "atc",
    "ate",
    "att",
    "compare",
    "contrast",
    "datasets",
    "defaults",
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
