"""Estimands: what is asked of mu, each written once as the formula of its moment."""

from riesz.estimands.arms import APE, ATC, ATE, ATT
from riesz.estimands.base import Component, Estimand, Sample
from riesz.estimands.custom import CustomMoment
from riesz.estimands.derivatives import ADE, IPE
from riesz.estimands.named import Named
from riesz.estimands.shifts import Mean, Shift

#: Verb to estimand; tests and the formula verbs loop over it.
ESTIMANDS: dict[str, type[Estimand]] = {
    "ate": ATE,
    "att": ATT,
    "atc": ATC,
    "ape": APE,
    "ade": ADE,
    "ipe": IPE,
    "shift": Shift,
    "mean": Mean,
}

__all__ = [
    "ADE",
    "APE",
    "ATC",
    "ATE",
    "ATT",
    "ESTIMANDS",
    "IPE",
    "Component",
    "CustomMoment",
    "Estimand",
    "Mean",
    "Named",
    "Sample",
    "Shift",
]
