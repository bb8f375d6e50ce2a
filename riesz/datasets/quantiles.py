r"""Skewed outcomes with a known conditional quantile q, whose spread grows with q.

Covariates x1 to x4, of which x4 is irrelevant; all uniform on [-2, 2]. The outcome is :math:`y = q(a, x) + s(q)\, (e - e_\tau)`
with e exponential, :math:`e_\tau = -\log(1 - \tau)` its quantile, and :math:`s(q) = \exp(q / 8)`, so that its density at q is
:math:`(1 - \tau) / s(q)`. ``skewed`` has a binary treatment and :math:`\tau = 0.75`, ``skewed_dose`` a continuous treatment and
:math:`\tau = 0.5`.

.. math::
    q(a, x) &= 0.5 + 0.6 x_1 + 0.6 \sin 2x_2 + 0.3 x_3 + a (0.8 + 0.4 x_1), &
    P(A = 1 | x) &= 0.1 + 0.8\, \mathrm{expit}(0.6 x_1 + \sin 2x_2 + 0.4 x_3) \\
    q(a, x) &= 0.4 x_1 + 0.4 \sin 2x_2 + 0.2 x_3 + a (0.5 + 0.3 x_1), &
    A | x &\sim N\{0.4 x_1 + 0.3 \sin 2x_2,\; s(x)^2\}, \qquad s(x) = 0.6 + 0.4\, \mathrm{expit}(x_1 + x_2)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from riesz.datasets.outcomes import Skewed
from riesz.datasets.positive_outcomes import COSTS, COUNTS
from riesz.datasets.simulation import Simulation
from riesz.families import Quantile


def _arms(frame: pd.DataFrame) -> Any:
    baseline = 0.5 + 0.6 * frame["x1"] + 0.6 * np.sin(2 * frame["x2"]) + 0.3 * frame["x3"]
    return baseline + frame["a"] * (0.8 + 0.4 * frame["x1"])


def _dose(frame: pd.DataFrame) -> Any:
    baseline = 0.4 * frame["x1"] + 0.4 * np.sin(2 * frame["x2"]) + 0.2 * frame["x3"]
    return baseline + frame["a"] * (0.5 + 0.3 * frame["x1"])


SKEWED = Simulation(
    name="skewed",
    formula=COUNTS.formula,
    covariates=COUNTS.covariates,
    assignment=COUNTS.assignment,
    mean=_arms,
    outcome=Skewed(0.75, 1.0),
    questions=COUNTS.questions,
    keywords={"family": Quantile(0.75)},
)

SKEWED_DOSE = Simulation(
    name="skewed_dose",
    formula=COSTS.formula,
    covariates=COSTS.covariates,
    assignment=COSTS.assignment,
    mean=_dose,
    outcome=Skewed(0.5, 1.0),
    questions=COSTS.questions,
    keywords={"family": Quantile(0.5)},
)
