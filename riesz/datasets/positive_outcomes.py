r"""Outcomes that are counts or costs, with a mean whose logarithm is a formula.

Covariates x1 to x4, of which x4 is irrelevant; all uniform on [-2, 2]. ``counts`` has a binary treatment and a Poisson outcome,
``costs`` a continuous treatment and an outcome with a gamma distribution, whose standard deviation is 0.7 times its mean.

.. math::
    \log \mu(a, x) &= 0.4 + 0.3 x_1 + 0.3 \sin 2x_2 + 0.2 x_3 + a (0.4 + 0.2 x_1), &
    P(A = 1 | x) &= 0.1 + 0.8\, \mathrm{expit}(0.6 x_1 + \sin 2x_2 + 0.4 x_3) \\
    \log \mu(a, x) &= 0.5 + 0.3 x_1 + 0.3 \sin 2x_2 + 0.2 x_3 + a (0.3 + 0.1 x_1), &
    A | x &\sim N\{0.4 x_1 + 0.3 \sin 2x_2,\; s(x)^2\}, \qquad s(x) = 0.6 + 0.4\, \mathrm{expit}(x_1 + x_2)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from riesz.arrays import Array
from riesz.datasets.assignment import Arms, Gaussian
from riesz.datasets.binary import two_arms
from riesz.datasets.covariates import Covariate, Uniform
from riesz.datasets.outcomes import Gamma, Poisson
from riesz.datasets.simulation import Simulation
from riesz.estimands.arms import APE, ATE, ATT
from riesz.estimands.derivatives import ADE, IPE
from riesz.estimands.shifts import Mean, Shift

COVARIATES: tuple[Covariate, ...] = (
    Uniform("x1", nodes=4),
    Uniform("x2", nodes=5),
    Uniform("x3", (-2.0, 0.0, 2.0), nodes=3),
    Uniform("x4", (-2.0, 0.0, 2.0), nodes=3),
)


def _baseline(frame: pd.DataFrame) -> Any:
    return 0.3 * frame["x1"] + 0.3 * np.sin(2 * frame["x2"]) + 0.2 * frame["x3"]


def _count(frame: pd.DataFrame) -> Any:
    return np.exp(0.4 + _baseline(frame) + frame["a"] * (0.4 + 0.2 * frame["x1"]))


def _cost(frame: pd.DataFrame) -> Any:
    return np.exp(0.5 + _baseline(frame) + frame["a"] * (0.3 + 0.1 * frame["x1"]))


def _probabilities(frame: pd.DataFrame) -> Array:
    return two_arms(0.1 + 0.8 * expit(0.6 * frame["x1"] + np.sin(2 * frame["x2"]) + 0.4 * frame["x3"]))


def _mean(frame: pd.DataFrame) -> Any:
    return 0.4 * frame["x1"] + 0.3 * np.sin(2 * frame["x2"])


def _sd(frame: pd.DataFrame) -> Any:
    return 0.6 + 0.4 * expit(frame["x1"] + frame["x2"])


COUNTS = Simulation(
    name="counts",
    formula="y ~ treat(a) * x1 + np.sin(2 * x2) + x3",
    covariates=COVARIATES,
    assignment=Arms("a", (0.0, 1.0), _probabilities),
    mean=_count,
    outcome=Poisson(),
    questions={"ate": ATE(), "att": ATT(), "ape": APE("x1 > 0"), "mean": Mean([0, 1])},
    keywords={"family": "poisson"},
)

COSTS = Simulation(
    name="costs",
    formula="y ~ treat(a) * x1 + np.sin(2 * x2) + x3",
    covariates=COVARIATES,
    assignment=Gaussian("a", _mean, _sd),
    mean=_cost,
    outcome=Gamma(0.7),
    questions={"ade": ADE(), "ipe": IPE("x1 > 0"), "shift": Shift([0.25, 0.5])},
    keywords={"family": "gamma"},
)
