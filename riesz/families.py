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

References
----------
McCullagh and Nelder (1989), "Generalized linear models".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from riesz.arrays import Array
from riesz.errors import LearnerError, nearest

EDGE = 1e-6  # probabilities stay this far from 0 and 1 in the log loss
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
    def name(self) -> str:
        """The name, with parameters if there are any."""
        return self.kind

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


class Gaussian(Family):
    """Any outcome; mu is its mean."""

    kind = "gaussian"
    word = ""
    expected = "numbers"
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

    def loss(self, y: Array, mu: Array) -> Array:
        return (y - mu) ** 2

    def loss_slope(self, y: Array, mu: Array) -> Array:
        return 2.0 * (mu - y)


class Binomial(Family):
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


class _LogLink(Family):
    """An outcome that is not negative; mu is its mean, whose logarithm is learned."""

    index = "logarithm"
    slope_words = "mu"
    log_link = True

    def start(self, y: Array) -> Array:
        return np.asarray(np.log((y + y.mean()) / 2))

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


#: The kinds of families in which mu is a mean.
MEANS = ("gaussian", "binomial", "poisson", "gamma")

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
    hint = nearest(name, FAMILIES) if isinstance(name, str) else ""
    raise LearnerError(f"family={name!r} is not known.{hint} Expected one of {', '.join(map(repr, FAMILIES))}.")
