r"""Families of outcomes: on which scale mu is learned, and which loss says how far it is from an outcome.

A family has a name, as in ``family="poisson"``; designs, settings and files hold the name, and :func:`find_family` gives the
family. Symbols: outcome y, its mean :math:`\mu`, index :math:`\eta = g(\mu)` with link g, inverse link :math:`g^{-1}`, slope
:math:`v = d\mu / d\eta`, variance function V with :math:`\mathrm{var}(y) \propto V(\mu)`.

========  ==============================  =====================  ==================  ======================================
name      outcome                         index                  slope v             loss of mu, up to a function of y
========  ==============================  =====================  ==================  ======================================
gaussian  any number                      :math:`\mu`            1                   :math:`(y - \mu)^2`
binomial  in [0, 1]                       logit                  :math:`\mu(1-\mu)`  :math:`-y \log \mu - (1-y) \log(1-\mu)`
poisson   0 or larger                     :math:`\log \mu`       :math:`\mu`         :math:`\mu - y \log \mu`
gamma     larger than 0                   :math:`\log \mu`       :math:`\mu`         :math:`y / \mu + \log \mu`
========  ==============================  =====================  ==================  ======================================

:class:`Quantile` is a family, too: mu then stands for q, a conditional quantile of any outcome. Its name is ``"quantile(0.5)"``,
and its loss the pinball loss, :math:`(y - q)(\tau - 1\{y < q\})`.

References
----------
McCullagh and Nelder (1989), "Generalized linear models".
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from riesz.arrays import Array
from riesz.errors import LearnerError, nearest

EDGE = 1e-6  # probabilities stay this far from 0 and 1 in the log loss
_NO_EVENTS = 1e-12  # stands for a mean of zero where a regression begins
_LEAST_MEAN = 1e-300  # means of outcomes that are not negative stay above this, so that they have a logarithm


class Family(ABC):
    """What mu is for one kind of outcome. Functions are row by row: arrays of one shape in, an array of that shape out.

    Attributes
    ----------
    kind : str
        The family's name without parameters; learners list the kinds that they can learn.
    word : str
        An adjective of regressions in this family, for descriptions such as ``"logistic ridge"``.
    expected : str
        The outcomes that the family has, in words.
    identity : bool
        Whether the index is mu itself.
    log_link : bool
        Whether the index is the logarithm of mu.
    canonical : bool
        Whether the slope v is the variance function V.
    index, slope_words : str
        The names of the index and of the slope v, for messages.
    limits : tuple of float or None
        Limits that mu lies between, if both are finite.
    """

    kind: ClassVar[str]
    word: ClassVar[str]
    expected: ClassVar[str]
    index: ClassVar[str] = "mu"
    slope_words: ClassVar[str] = "1"
    identity: ClassVar[bool] = False
    log_link: ClassVar[bool] = False
    canonical: ClassVar[bool] = True
    limits: ClassVar[tuple[float, float] | None] = None

    @property
    @abstractmethod
    def name(self) -> str:
        """The name, with parameters if there are any."""

    @property
    def is_mean(self) -> bool:
        """Whether mu is a mean of the outcome."""
        return self.quantile is None

    @property
    @abstractmethod
    def quantile(self) -> float | None:
        """Which quantile of the outcome mu is; None if it is the mean."""

    @abstractmethod
    def errors(self, y: Array, mu: Array) -> Array:
        """What scores multiply rr by, whose mean given the covariates is zero at the true mu; NaN where y is missing."""

    @abstractmethod
    def has(self, y: Array) -> npt.NDArray[np.bool_]:
        """Whether these can be outcomes."""

    @abstractmethod
    def start(self, y: Array) -> Array:
        """An index near the outcomes, for the first step of a regression."""

    @abstractmethod
    def inverse(self, index: Array) -> Array:
        """Mu from its index."""

    @abstractmethod
    def link(self, mu: Array) -> Array:
        """The index of mu."""

    @abstractmethod
    def slope(self, mu: Array) -> Array:
        """The derivative v of mu along its index, as a function of mu."""

    @abstractmethod
    def bend(self, mu: Array) -> Array:
        """The derivative of v along mu."""

    @abstractmethod
    def precision(self, mu: Array) -> Array:
        """v^2 / V, the weight of a row in the regression of the index."""

    @abstractmethod
    def clip(self, mu: Array) -> Array:
        """Mu moved to where its loss is finite."""

    @abstractmethod
    def loss(self, y: Array, mu: Array) -> Array:
        """How far mu is from the outcomes."""

    @abstractmethod
    def loss_slope(self, y: Array, mu: Array) -> Array:
        """The derivative of the loss along mu."""


class _Mean(Family):
    """Mu is the mean of the outcome."""

    @property
    def name(self) -> str:
        return self.kind

    @property
    def quantile(self) -> float | None:
        return None

    def errors(self, y: Array, mu: Array) -> Array:
        return y - mu


class _Identity(Family):
    """Mu itself is learned."""

    identity = True

    def has(self, y: Array) -> npt.NDArray[np.bool_]:
        return np.ones(y.shape, dtype=bool)

    def start(self, y: Array) -> Array:
        return y

    def inverse(self, index: Array) -> Array:
        return index

    def link(self, mu: Array) -> Array:
        return mu

    def slope(self, mu: Array) -> Array:
        return np.ones_like(mu)

    def bend(self, mu: Array) -> Array:
        return np.zeros_like(mu)

    def precision(self, mu: Array) -> Array:
        return np.ones_like(mu)

    def clip(self, mu: Array) -> Array:
        return mu


class Gaussian(_Mean, _Identity):
    """Any outcome; mu is its mean."""

    kind = "gaussian"
    word = ""
    expected = "numbers"

    def loss(self, y: Array, mu: Array) -> Array:
        return (y - mu) ** 2

    def loss_slope(self, y: Array, mu: Array) -> Array:
        return 2.0 * (mu - y)


class Binomial(_Mean):
    """An outcome in [0, 1], such as 0 or 1; mu is a probability."""

    kind = "binomial"
    word = "logistic"
    expected = "values in [0, 1]"
    index = "logit"
    slope_words = "mu (1 - mu)"
    limits = (0.0, 1.0)

    def has(self, y: Array) -> npt.NDArray[np.bool_]:
        return np.asarray((y >= 0.0) & (y <= 1.0))

    def start(self, y: Array) -> Array:
        return np.log((y + 0.5) / (1.5 - y))

    def inverse(self, index: Array) -> Array:
        return np.asarray(expit(index))

    def link(self, mu: Array) -> Array:
        return np.asarray(logit(mu))

    def slope(self, mu: Array) -> Array:
        return mu * (1.0 - mu)

    def bend(self, mu: Array) -> Array:
        return 1 - 2 * mu

    def precision(self, mu: Array) -> Array:
        return mu * (1.0 - mu)

    def clip(self, mu: Array) -> Array:
        return np.clip(mu, EDGE, 1 - EDGE)

    def loss(self, y: Array, mu: Array) -> Array:
        return -(y * np.log(mu) + (1 - y) * np.log(1 - mu))

    def loss_slope(self, y: Array, mu: Array) -> Array:
        return -(y / mu - (1 - y) / (1 - mu))


class _LogLink(_Mean):
    """An outcome that is not negative; mu is its mean, whose logarithm is learned."""

    index = "logarithm"
    slope_words = "mu"
    log_link = True

    def start(self, y: Array) -> Array:
        return np.asarray(np.log((y + (y.mean() or _NO_EVENTS)) / 2))

    def inverse(self, index: Array) -> Array:
        return np.exp(index)

    def link(self, mu: Array) -> Array:
        return np.log(mu)

    def slope(self, mu: Array) -> Array:
        return mu

    def bend(self, mu: Array) -> Array:
        return np.ones_like(mu)

    def clip(self, mu: Array) -> Array:
        return np.asarray(np.maximum(mu, _LEAST_MEAN))


class Poisson(_LogLink):
    """Counts, or other outcomes of 0 or larger with a variance in proportion to the mean."""

    kind = "poisson"
    word = "Poisson"
    expected = "values of 0 or larger, such as counts"

    def has(self, y: Array) -> npt.NDArray[np.bool_]:
        return np.asarray(y >= 0.0)

    def precision(self, mu: Array) -> Array:
        return mu

    def loss(self, y: Array, mu: Array) -> Array:
        return mu - y * np.log(mu)

    def loss_slope(self, y: Array, mu: Array) -> Array:
        return 1.0 - y / mu


class Gamma(_LogLink):
    """Outcomes larger than 0 with a standard deviation in proportion to the mean, such as costs."""

    kind = "gamma"
    word = "gamma"
    canonical = False
    expected = "values larger than 0"

    def has(self, y: Array) -> npt.NDArray[np.bool_]:
        return np.asarray(y > 0.0)

    def precision(self, mu: Array) -> Array:
        return np.ones_like(mu)

    def loss(self, y: Array, mu: Array) -> Array:
        return y / mu + np.log(mu)

    def loss_slope(self, y: Array, mu: Array) -> Array:
        return (1.0 - y / mu) / mu


@dataclass(frozen=True)
class Quantile(_Identity):
    r"""A conditional quantile of the outcome in place of its mean: ``family=riesz.Quantile(0.5)``.

    mu then stands for q, the quantile of the outcome given treatment and covariates, and parameters are averages of q: ``ate``
    averages the difference of the conditional quantiles in the two arms, ``ade`` the derivative of the conditional quantile.

    Parameters
    ----------
    tau : float
        Between 0 and 1; 0.5 is the median.

    Notes
    -----
    An average of conditional quantiles is not a quantile of the whole population: this is not the quantile treatment effect, which
    compares the quantiles of two marginal distributions.

    The one-step estimate is the mean of :math:`m(q) + \alpha (\tau - 1\{y \le q\})` with the Riesz representer of the inner
    product :math:`E[f(q|z) f g]`, weighted by the density of the outcome at q. Kernel weights :math:`K_b(y - q)` stand for that
    density, with Silverman's bandwidth on the residuals. Each training set first learns q, and then rr with weights from its own
    q. The estimate is not doubly robust, because the bias is of second order in the error of q: q must converge faster than
    :math:`n^{-1/4}`. There is no targeted and no weighting estimate.

    Learners: :class:`~riesz.Linear` (exact quantile regression without penalty), :class:`~riesz.Boosting` and
    :class:`~riesz.MADNet`; others are refused.

    References
    ----------
    Koenker and Bassett (1978), "Regression quantiles".
    van der Laan, Bibaut, Kallus and Luedtke (2025), "Automatic debiased machine learning for smooth functionals of nonparametric
    M-estimands".

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear", family=riesz.Quantile(0.5))
    >>> fit.model.settings.family
    'quantile(0.5)'
    """

    kind = "quantile"
    word = "quantile"
    expected = "numbers"
    tau: float

    def __post_init__(self) -> None:
        tau: object = self.tau
        if isinstance(tau, bool) or not isinstance(tau, (int, float, np.floating)) or not 0 < tau < 1:
            raise LearnerError(f"Quantile({tau!r}): expected a number between 0 and 1, such as 0.5 for the median.")
        object.__setattr__(self, "tau", float(tau))

    @property
    def name(self) -> str:
        return f"quantile({self.tau!r})"

    @property
    def quantile(self) -> float | None:
        return self.tau

    def errors(self, y: Array, mu: Array) -> Array:
        return np.where(np.isnan(y), np.nan, self.tau - (y <= mu))

    def loss(self, y: Array, mu: Array) -> Array:
        return (y - mu) * (self.tau - (y < mu))

    def loss_slope(self, y: Array, mu: Array) -> Array:
        return np.asarray((y < mu) - self.tau, dtype=float)


#: The kinds of families in which mu is a mean.
MEANS = ("gaussian", "binomial", "poisson", "gamma")

_QUANTILE = re.compile(r"quantile\((0?\.\d+|\d(?:\.\d+)?e-\d+)\)")

#: Families without parameters, by name.
FAMILIES: dict[str, Family] = {family.kind: family for family in (Gaussian(), Binomial(), Poisson(), Gamma())}


def find_family(name: str) -> Family:
    """The family of this name.

    Examples
    --------
    >>> from riesz.families import find_family
    >>> find_family("poisson").expected
    'values of 0 or larger, such as counts'
    """
    if isinstance(name, str) and name in FAMILIES:
        return FAMILIES[name]
    if isinstance(name, str) and (found := _QUANTILE.fullmatch(name)):
        return Quantile(float(found[1]))
    hint = nearest(name, FAMILIES) if isinstance(name, str) else ""
    known = ", ".join(map(repr, FAMILIES))
    raise LearnerError(f"family={name!r} is not known.{hint} Expected one of {known}, or riesz.Quantile(0.5).")
