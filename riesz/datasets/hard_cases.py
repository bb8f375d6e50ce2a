r"""Fixed simulations that are hard for learners not tuned on them, each with its truth, true mu and true rr.

The estimand is the average effect of a binary treatment; the analyst sees y, a and the covariates, and writes
``y ~ treat(a) + .``. With e standard normal:

- ``zero_inflated_1000``, ``zero_inflated_4000``: z is zero with probability 0.4 and exponential with mean one elsewhere;
  :math:`P(A=1|z) = 0.75` where z = 0 and 0.25 elsewhere; :math:`y = a + 3\, 1\{z = 0\} + \log(1 + z) + e`. Four further
  covariates are irrelevant.
- ``wave_20`` (n = 2000), ``wave_50`` (n = 5000): 20 or 50 normal covariates,
  :math:`\mathrm{logit} P(A=1|x) = \sin 2x_1`, :math:`y = a + \sin 2x_1 + e / 2`.
- ``kang_schafer`` (n = 1000): z1 to z4 normal, :math:`\mathrm{logit} P(A=1|z) = -z_1 + 0.5 z_2 - 0.25 z_3 - 0.1 z_4`,
  :math:`y = 210 + 10 a + 27.4 z_1 + 13.7 (z_2 + z_3 + z_4) + e`. The analyst sees :math:`\exp(z_1 / 2)`,
  :math:`z_2 / (1 + \exp z_1) + 10`, :math:`(z_1 z_3 / 25 + 0.6)^3` and :math:`(z_2 + z_4 + 20)^2` (Kang and Schafer 2007).
- ``strong_confounding`` (n = 2000): ten normal covariates, :math:`u = (x_1 + x_2 + x_3 + x_4) / 2`,
  :math:`\mathrm{logit} P(A=1|x) = 4u`; mu is nonlinear where one arm has hardly any rows,
  :math:`y = u + a + 2a (-u - 1)_+ - 2 (1 - a) (u - 1)_+ + e`, and both nonlinear terms raise the effect.
- ``smooth``, ``interacting`` (n = 1000): twenty normal covariates, for studies of time and error at any n. The logit is
  :math:`g = 0.6 x_1 + 0.6 \sin 1.5 x_2 + 0.3 (x_3^2 - 1)` or :math:`g = 0.5 x_1 + 0.7 x_1 x_2 - 0.5 x_3 x_4`, and
  :math:`y = 1.5 g + 0.5 x_5 + a (1 + 0.5 x_6) + e`.

All truths are exact.

References
----------
Kang, J. D. Y. and Schafer, J. L. (2007). Demystifying double robustness. Statistical Science 22(4).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm

from riesz.arrays import Array
from riesz.datasets.worlds import Oracle
from riesz.errors import DataError

Columns = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class HardDraw:
    """A sample with the truth about each row.

    Attributes
    ----------
    data : pandas.DataFrame
        Columns y, a and the covariates that the analyst sees.
    propensity : ndarray, shape (n,)
        P(A = 1 | x).
    mu : ndarray, shape (n,)
        The true mean of the outcome at the row's treatment.
    effect : ndarray, shape (n,)
        mu(1, x) - mu(0, x).
    """

    data: pd.DataFrame
    propensity: Array
    mu: Array
    effect: Array

    @property
    def rr(self) -> Array:
        """The true Riesz representer of the average treatment effect, shape (n,)."""
        return np.where(self.data["a"] == 1, 1 / self.propensity, -1 / (1 - self.propensity))

    @property
    def oracle(self) -> Oracle:
        """The one-step estimate from the true mu and the true Riesz representer, with its standard error.

        Examples
        --------
        >>> from riesz.datasets.hard_cases import HARD_CASES
        >>> oracle = HARD_CASES["wave_20"].draw(0).oracle
        >>> oracle.estimate.round(2), oracle.std_error.round(3)
        (array([0.99]), array([0.024]))
        """
        score = self.effect + self.rr * (self.data["y"].to_numpy() - self.mu)
        return Oracle(np.array([score.mean()]), np.array([score.std(ddof=1) / np.sqrt(len(score))]))


@dataclass(frozen=True, eq=False)
class HardCase:
    """A fixed simulation; :data:`HARD_CASES` holds them by name.

    Attributes
    ----------
    name : str
    n : int
        Rows of a draw, unless ``draw()`` gets another number.
    truth : float
        The average treatment effect.
    covariates : callable
        ``(n, generator) -> columns``.
    logit : callable
        ``columns -> (n,)``: of the propensity.
    mean : callable
        ``(columns, a) -> (n,)``: mu.
    noise : float
        Standard deviation of the noise.
    seen : callable
        ``columns -> columns``: what the analyst sees of the covariates.
    """

    name: str
    n: int
    truth: float
    covariates: Callable[[int, np.random.Generator], Columns]
    logit: Callable[[Columns], Array]
    mean: Callable[[Columns, Array], Array]
    noise: float = 1.0
    seen: Callable[[Columns], Columns] = dict

    formula = "y ~ treat(a) + ."

    def draw(self, number: int, n: int | None = None) -> HardDraw:
        """A sample; each number gives a different one.

        Examples
        --------
        >>> from riesz.datasets.hard_cases import HARD_CASES
        >>> data = HARD_CASES["zero_inflated_1000"].draw(0).data
        >>> data.groupby(data["z"] == 0)["a"].mean().round(2).to_dict()
        {False: 0.24, True: 0.73}
        """
        rows = self.n if n is None else n
        if number < 0 or rows < 1:
            raise DataError(f"number={number} and n={rows}: expected a number of 0 or larger and at least one row.")
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), number])
        x = self.covariates(rows, rng)
        p = expit(self.logit(x))
        a = (rng.uniform(size=rows) < p).astype(float)
        mu = self.mean(x, a)
        y = mu + self.noise * rng.standard_normal(rows)
        effect = self.mean(x, np.ones(rows)) - self.mean(x, np.zeros(rows))
        return HardDraw(pd.DataFrame({"y": y, "a": a, **self.seen(x)}), p, mu, effect)


def _normal(p: int) -> Callable[[int, np.random.Generator], Columns]:
    """Independent standard normal covariates x1, x2, ..."""

    def draw(n: int, rng: np.random.Generator) -> Columns:
        return {f"x{j}": column for j, column in enumerate(rng.standard_normal((p, n)), start=1)}

    return draw


def _with_zeros(n: int, rng: np.random.Generator) -> Columns:
    z = np.where(rng.uniform(size=n) < 0.4, 0.0, rng.exponential(size=n))
    return {"z": z, **_normal(4)(n, rng)}


def _zero_inflated(n: int) -> HardCase:
    return HardCase(
        f"zero_inflated_{n}",
        n,
        1.0,
        _with_zeros,
        lambda x: np.log(3) * np.where(x["z"] == 0, 1.0, -1.0),
        lambda x, a: a + 3 * (x["z"] == 0) + np.log1p(x["z"]),
    )


def _wave(p: int, n: int) -> HardCase:
    return HardCase(
        f"wave_{p}",
        n,
        1.0,
        _normal(p),
        lambda x: np.sin(2 * x["x1"]),
        lambda x, a: a + np.sin(2 * x["x1"]),
        noise=0.5,
    )


def _transformed(z: Columns) -> Columns:
    """What Kang and Schafer's analyst sees."""
    z1, z2, z3, z4 = (z[f"x{j}"] for j in range(1, 5))
    return {
        "x1": np.exp(z1 / 2),
        "x2": z2 / (1 + np.exp(z1)) + 10,
        "x3": (z1 * z3 / 25 + 0.6) ** 3,
        "x4": (z2 + z4 + 20) ** 2,
    }


def _direction(x: Columns) -> Array:
    return (x["x1"] + x["x2"] + x["x3"] + x["x4"]) / 2


def _bent(x: Columns, a: Array) -> Array:
    u = _direction(x)
    return u + a + 2 * a * np.maximum(-u - 1, 0) - 2 * (1 - a) * np.maximum(u - 1, 0)


def _smooth(x: Columns) -> Array:
    return 0.6 * x["x1"] + 0.6 * np.sin(1.5 * x["x2"]) + 0.3 * (x["x3"] ** 2 - 1)


def _interacting(x: Columns) -> Array:
    return 0.5 * x["x1"] + 0.7 * x["x1"] * x["x2"] - 0.5 * x["x3"] * x["x4"]


def _varying(name: str, logit: Callable[[Columns], Array]) -> HardCase:
    return HardCase(
        name,
        1000,
        1.0,
        _normal(20),
        logit,
        lambda x, a: 1.5 * logit(x) + 0.5 * x["x5"] + a * (1 + 0.5 * x["x6"]),
    )


#: E(u - 1)_+ of a standard normal u, for the truth of ``strong_confounding``
_ABOVE_ONE = float(norm.pdf(1.0) - norm.sf(1.0))

#: Hard cases by name.
HARD_CASES: dict[str, HardCase] = {
    case.name: case
    for case in (
        _zero_inflated(1000),
        _zero_inflated(4000),
        _wave(20, 2000),
        _wave(50, 5000),
        HardCase(
            "kang_schafer",
            1000,
            10.0,
            _normal(4),
            lambda z: -z["x1"] + 0.5 * z["x2"] - 0.25 * z["x3"] - 0.1 * z["x4"],
            lambda z, a: 210 + 10 * a + 27.4 * z["x1"] + 13.7 * (z["x2"] + z["x3"] + z["x4"]),
            seen=_transformed,
        ),
        HardCase("strong_confounding", 2000, 1 + 4 * _ABOVE_ONE, _normal(10), lambda x: 4 * _direction(x), _bent),
        _varying("smooth", _smooth),
        _varying("interacting", _interacting),
    )
}
