r"""Simulated household gasoline demand: log price, log quantity, and a price elasticity of about -0.6.

Per household: log_income, normal around 10.5 (about 36,000 dollars) with standard deviation 0.6, truncated at three of them;
household_size, 1 to 5; region, one of four; urban, a dummy, and age of the head, which do not enter mu. With I = log_income
- 10.5, price p = log_price and quantity q = log_quantity,

.. math::
    E[q | p, x] &= 5.8 - 0.45 p - 0.25 p^2 + 0.25 p I + 0.35 I - 0.1 I^2 + 0.35 \log(\text{household size}) + \gamma_{region} \\
    p | x &\sim N\{0.25 + \delta_{region} + 0.06 I + 0.04\, \text{urban},\; s(x)^2\}, \quad
    s(x) = 0.14 + 0.08\, \mathrm{expit}(2 I)

Demand of the poor is more price-elastic than demand of the rich. All numbers are invented; their pattern follows the surveys that
the demand literature uses (for example Blundell, Horowitz and Parey 2012, *Quantitative Economics* 3, 29-51).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from riesz.arrays import Array
from riesz.datasets.assignment import Gaussian
from riesz.datasets.covariates import Choice, TruncatedNormal, Uniform
from riesz.datasets.outcomes import Normal
from riesz.datasets.simulation import Simulation
from riesz.estimands.derivatives import ADE, IPE
from riesz.estimands.shifts import Shift

DEMAND = {"midwest": 0.15, "northeast": -0.2, "south": 0.2, "west": 0.0}
PRICE = {"midwest": -0.02, "northeast": 0.06, "south": -0.06, "west": 0.1}


def _by_region(frame: pd.DataFrame, values: dict[str, float]) -> Array:
    region = pd.Categorical(frame["region"])
    return np.asarray(np.take([values[name] for name in region.categories], region.codes))


def _mu(frame: pd.DataFrame) -> Any:
    p, income = frame["log_price"], frame["log_income"] - 10.5
    household = 0.35 * income - 0.1 * income**2 + 0.35 * np.log(frame["household_size"]) + _by_region(frame, DEMAND)
    return 5.8 + household - 0.45 * p - 0.25 * p**2 + 0.25 * p * income


def _mean(frame: pd.DataFrame) -> Any:
    return 0.25 + _by_region(frame, PRICE) + 0.06 * (frame["log_income"] - 10.5) + 0.04 * frame["urban"]


def _sd(frame: pd.DataFrame) -> Any:
    return 0.14 + 0.08 * expit(2 * (frame["log_income"] - 10.5))


GASOLINE = Simulation(
    name="gasoline",
    formula=(
        "log_quantity ~ treat(log_price) * log_income + {treat(log_price) ** 2} + {(log_income - 10.5) ** 2} "
        "+ log(household_size) + region"
    ),
    covariates=(
        TruncatedNormal("log_income", mean=10.5, sd=0.6),
        Choice("household_size", (1, 2, 3, 4, 5), (0.2, 0.35, 0.2, 0.15, 0.1)),
        Choice("region", ("midwest", "northeast", "south", "west"), (0.25, 0.2, 0.35, 0.2)),
        Choice("urban", (0, 1), (0.3, 0.7)),
        Uniform("age", (20.0, 50.0, 80.0), nodes=3),
    ),
    assignment=Gaussian("log_price", _mean, _sd, size=16),
    mean=_mu,
    outcome=Normal(sd=0.35, name="log_quantity"),
    questions={"ade": ADE(), "ipe": IPE("log_income < 10.5"), "shift": Shift([0.05, 0.1])},
)
