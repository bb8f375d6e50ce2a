r"""A binary treatment and a binary outcome.

Covariates x1 to x4, of which x4 is irrelevant; all uniform on [-2, 2].

.. math::
    \mathrm{logit}\, \mu(a, x) &= -0.6 + 0.7 x_1 + 0.6 \sin 2x_2 + 0.4 x_3 + a (0.7 + 0.4 x_1) \\
    P(A = 1 | x) &= 0.1 + 0.8\, \mathrm{expit}(0.6 x_1 + \sin 2x_2 + 0.4 x_3)
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
from riesz.datasets.outcomes import Bernoulli
from riesz.datasets.simulation import Simulation
from riesz.estimands.arms import APE, ATE, ATT
from riesz.estimands.shifts import Mean


def _mu(frame: pd.DataFrame) -> Any:
    baseline = -0.6 + 0.7 * frame["x1"] + 0.6 * np.sin(2 * frame["x2"]) + 0.4 * frame["x3"]
    return expit(baseline + frame["a"] * (0.7 + 0.4 * frame["x1"]))


def _probabilities(frame: pd.DataFrame) -> Array:
    return two_arms(0.1 + 0.8 * expit(0.6 * frame["x1"] + np.sin(2 * frame["x2"]) + 0.4 * frame["x3"]))


BINARY_OUTCOME = Simulation(
    name="binary_outcome",
    formula="y ~ treat(a) * x1 + np.sin(2 * x2) + x3",
    covariates=(
        Uniform("x1", nodes=4),
        Uniform("x2", nodes=6),
        Uniform("x3", (-2.0, 0.0, 2.0), nodes=6),
        Uniform("x4", (-2.0, 0.0, 2.0), nodes=4),
    ),
    assignment=Arms("a", (0.0, 1.0), _probabilities),
    mean=_mu,
    outcome=Bernoulli(),
    questions={"ate": ATE(), "att": ATT(), "ape": APE("x1 > 0"), "mean": Mean([0, 1])},
    keywords={"family": "binomial"},
)
