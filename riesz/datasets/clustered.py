r"""A binary treatment in villages, with village effects in treatment and outcome.

Covariates x1 to x3, of which x3 is irrelevant; all uniform on [-2, 2]. About ten people live in a village.

.. math::
    \mu(a, x) &= x_1 + \sin 2x_2 + a (1 + 0.5 x_1) \\
    P(A = 1 | x) &= 0.1 + 0.8\, \mathrm{expit}(0.6 x_1 + \sin 2x_2)

Given the covariates, a village's random effects in treatment and outcome are independent of each other, so that mu is the mean
of the outcome given treatment and covariates alone. Rows of one village are not independent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from riesz.arrays import Array
from riesz.datasets.assignment import Arms
from riesz.datasets.binary import two_arms
from riesz.datasets.covariates import Uniform
from riesz.datasets.outcomes import Normal
from riesz.datasets.simulation import Simulation
from riesz.datasets.villages import Villages
from riesz.estimands.arms import ATE, ATT


def _mu(frame: pd.DataFrame) -> Any:
    return frame["x1"] + np.sin(2 * frame["x2"]) + frame["a"] * (1 + 0.5 * frame["x1"])


def _probabilities(frame: pd.DataFrame) -> Array:
    return two_arms(0.1 + 0.8 * expit(0.6 * frame["x1"] + np.sin(2 * frame["x2"])))


CLUSTERED = Simulation(
    name="clustered",
    formula="y ~ treat(a) * x1 + np.sin(2 * x2)",
    covariates=(Uniform("x1", nodes=4), Uniform("x2", nodes=6), Uniform("x3", (-2.0, 0.0, 2.0), nodes=4)),
    assignment=Arms("a", (0.0, 1.0), _probabilities),
    mean=_mu,
    outcome=Normal(sd=1.7),
    questions={"ate": ATE(), "att": ATT()},
    keywords={"cluster": "village"},
    villages=Villages("village", smallest=5, largest=15, in_treatment=0.5, in_outcome=0.4),
)
