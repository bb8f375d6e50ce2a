r"""A binary treatment with nonlinear confounding and a heterogeneous effect, with good and with weak overlap.

Covariates x1 to x5, of which x4 and x5 are irrelevant; :math:`x_1, \dots, x_4` uniform on [-2, 2], x5 a coin.

.. math::
    \mu(a, x) &= 0.8 x_1 + \sin 2x_2 + 0.4 x_3^2 + a (1 + 0.5 x_1 + 0.5 \sin 2x_2) \\
    P(A = 1 | x) &= c + (1 - 2c)\, \mathrm{expit}\{s (0.7 x_1 + \sin 2x_2 + 0.4 x_3^2 - 0.5)\}

with c = 0.1, s = 1 for good overlap and c = 0.02, s = 2.5 for weak overlap.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from riesz.arrays import Array
from riesz.datasets.assignment import Arms
from riesz.datasets.covariates import Choice, Covariate, Uniform
from riesz.datasets.outcomes import Normal
from riesz.datasets.simulation import Simulation
from riesz.estimands import Estimand
from riesz.estimands.arms import APE, ATC, ATE, ATT
from riesz.estimands.shifts import Mean

COVARIATES: tuple[Covariate, ...] = (
    Uniform("x1", nodes=4),
    Uniform("x2", nodes=6),
    Uniform("x3", (-2.0, 0.0, 2.0), nodes=6),
    Uniform("x4", (-2.0, 0.0, 2.0), nodes=4),
    Choice("x5", (0, 1), (0.5, 0.5)),
)


def _mu(frame: pd.DataFrame) -> Any:
    a, wave = frame["a"], np.sin(2 * frame["x2"])
    return 0.8 * frame["x1"] + wave + 0.4 * frame["x3"] ** 2 + a * (1 + 0.5 * frame["x1"] + 0.5 * wave)


def _index(frame: pd.DataFrame) -> Any:
    return 0.7 * frame["x1"] + np.sin(2 * frame["x2"]) + 0.4 * frame["x3"] ** 2 - 0.5


def _good(frame: pd.DataFrame) -> Array:
    return two_arms(0.1 + 0.8 * expit(_index(frame)))


def _weak(frame: pd.DataFrame) -> Array:
    return two_arms(0.02 + 0.96 * expit(2.5 * _index(frame)))


def two_arms(p: Any) -> Array:
    """The probabilities of the arms 0 and 1, shape (n, 2)."""
    return np.column_stack([1 - p, p])


def questions() -> dict[str, Estimand]:
    """One estimand per verb for a binary treatment."""
    return {"ate": ATE(), "att": ATT(), "atc": ATC(), "ape": APE("x1 > 0"), "mean": Mean([0, 1])}


FORMULA = "y ~ treat(a) * (x1 + np.sin(2 * x2)) + {x3 ** 2}"

BINARY = Simulation(
    name="binary",
    formula=FORMULA,
    covariates=COVARIATES,
    assignment=Arms("a", (0.0, 1.0), _good),
    mean=_mu,
    outcome=Normal(sd=1.5),
    questions=questions(),
)

WEAK_OVERLAP = replace(BINARY, name="weak_overlap", assignment=Arms("a", (0.0, 1.0), _weak))
