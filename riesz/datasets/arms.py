r"""Three arms with labels: placebo, a low and a high dose.

Covariates x1 to x4, of which x4 is irrelevant; all uniform on [-2, 2]. With dummies l and h for the two doses,

.. math::
    \mu(a, x) &= 1 + 0.8 x_1 + \sin 2x_2 + 0.4 x_3 + l (0.5 + 0.3 x_1) + h (1 + 0.6 x_1 - 0.4 \sin 2x_2) \\
    P(A = j | x) &= 0.06 + 0.82\, \mathrm{softmax}_j(0,\; 0.6 \sin 2x_2 + 0.4 x_3,\; 0.7 x_1 + 0.3 x_2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from riesz.arrays import Array
from riesz.datasets.assignment import Arms
from riesz.datasets.covariates import Uniform
from riesz.datasets.outcomes import Normal
from riesz.datasets.simulation import Simulation
from riesz.estimands.arms import ATC, ATE, ATT
from riesz.estimands.shifts import Mean

LEVELS = ("placebo", "high", "low")  # the reference, then the others sorted, as in a fit


def _mu(frame: pd.DataFrame) -> Any:
    x1, wave = frame["x1"], np.sin(2 * frame["x2"])
    low, high = (frame["arm"] == "low").astype(float), (frame["arm"] == "high").astype(float)
    return 1 + 0.8 * x1 + wave + 0.4 * frame["x3"] + low * (0.5 + 0.3 * x1) + high * (1 + 0.6 * x1 - 0.4 * wave)


def _probabilities(frame: pd.DataFrame) -> Array:
    low = 0.6 * np.sin(2 * frame["x2"]) + 0.4 * frame["x3"]
    high = 0.7 * frame["x1"] + 0.3 * frame["x2"]
    return np.asarray(0.06 + 0.82 * softmax(np.column_stack([np.zeros(len(frame)), high, low]), axis=1))


ARMS = Simulation(
    name="arms",
    formula='y ~ treat(arm, reference="placebo") * (x1 + np.sin(2 * x2)) + x3',
    covariates=(
        Uniform("x1", nodes=4),
        Uniform("x2", nodes=6),
        Uniform("x3", (-2.0, 0.0, 2.0), nodes=6),
        Uniform("x4", (-2.0, 0.0, 2.0), nodes=4),
    ),
    assignment=Arms("arm", LEVELS, _probabilities),
    mean=_mu,
    outcome=Normal(sd=1.3),
    questions={"ate": ATE(), "att": ATT(), "atc": ATC(), "mean": Mean(["placebo", "low", "high"])},
)
