r"""A continuous treatment with a variance that depends on the covariates, and a nonlinear mean.

Covariates x1 to x4, of which x4 is irrelevant; all uniform on [-2, 2].

.. math::
    \mu(a, x) &= 0.8 x_1 + \sin 2x_2 + 0.3 x_3^2 + a (0.5 + 0.3 x_1) + \sin a \\
    A | x &\sim N\{0.5 x_1 + 0.5 \sin 2x_2 + 0.2 x_3,\; s(x)^2\}, \qquad s(x) = 0.7 + 0.6\, \mathrm{expit}(x_1 + x_2)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from riesz.datasets.assignment import Gaussian
from riesz.datasets.covariates import Uniform
from riesz.datasets.outcomes import Normal
from riesz.datasets.simulation import Simulation
from riesz.estimands.derivatives import ADE, IPE
from riesz.estimands.shifts import Mean, Shift


def _mu(frame: pd.DataFrame) -> Any:
    a, x1 = frame["a"], frame["x1"]
    return 0.8 * x1 + np.sin(2 * frame["x2"]) + 0.3 * frame["x3"] ** 2 + a * (0.5 + 0.3 * x1) + np.sin(a)


def _mean(frame: pd.DataFrame) -> Any:
    return 0.5 * frame["x1"] + 0.5 * np.sin(2 * frame["x2"]) + 0.2 * frame["x3"]


def _sd(frame: pd.DataFrame) -> Any:
    return 0.7 + 0.6 * expit(frame["x1"] + frame["x2"])


CONTINUOUS = Simulation(
    name="continuous",
    formula="y ~ treat(a) * x1 + np.sin(treat(a)) + np.sin(2 * x2) + {x3 ** 2}",
    covariates=(
        Uniform("x1", nodes=3),
        Uniform("x2", nodes=5),
        Uniform("x3", (-2.0, 0.0, 2.0), nodes=3),
        Uniform("x4", (-2.0, 0.0, 2.0), nodes=4),
    ),
    assignment=Gaussian("a", _mean, _sd),
    mean=_mu,
    outcome=Normal(sd=1.6),
    questions={
        "ade": ADE(),
        "ipe": IPE("x1 > 0"),
        "shift": Shift([0.25, 0.5]),
        "mean": Mean("where(x1 > 0, a + 0.3, a)"),
    },
)
