"""Estimands: each is written once, as the formula of its moment of mu."""

from riesz.estimands.base import Component, Estimand, Sample
from riesz.registry import Registry

#: Verb to estimand. ``riesz.<verb>()``, ``riesz.<Class>``, the tests and the reference pages follow from these lines.
ESTIMANDS: Registry[type[Estimand]] = Registry(
    {
        "ate": "riesz.estimands.arms:ATE",
        "att": "riesz.estimands.arms:ATT",
        "atc": "riesz.estimands.arms:ATC",
        "ape": "riesz.estimands.arms:APE",
        "ade": "riesz.estimands.derivatives:ADE",
        "ipe": "riesz.estimands.derivatives:IPE",
        "shift": "riesz.estimands.shifts:Shift",
        "mean": "riesz.estimands.shifts:Mean",
    }
)

__all__ = ["ESTIMANDS", "Component", "Estimand", "Sample"]
