"""Automatic debiased machine learning from one formula.

>>> import riesz
>>> data = riesz.datasets.get("binary").draw(2000, seed=1).data
>>> fit = riesz.ate("y ~ treat(a) + .", data=data)
>>> fit.params.index.tolist()
['ATE']
"""

from riesz import datasets, montecarlo
from riesz.api import ade, ape, atc, ate, att, ipe, mean, shift
from riesz.errors import DataError, EstimandError, FormulaError, LearnerError, RieszError, RieszWarning
from riesz.estimands import ADE, APE, ATC, ATE, ATT, IPE, CustomMoment, Mean, Shift
from riesz.estimation import estimate, estimate_many
from riesz.learners import Linear, MADNet
from riesz.learners.neural.training import Stage
from riesz.results import Results

__version__ = "0.1.0"

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
    "LearnerError",
    "Linear",
    "MADNet",
    "Mean",
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
