"""Distributions of a simulation's outcome around mu, its mean or a quantile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import ndtr

from riesz.arrays import Array


class Outcome(ABC):
    """The distribution of the outcome given its mean."""

    name: str

    @abstractmethod
    def draw(self, mu: Array, latent: Array) -> Array:
        """Outcomes with mean ``mu`` from standard normal numbers, shape (n,)."""

    @abstractmethod
    def variance(self, mu: Array) -> Array:
        """The variance of the outcome given its mean, shape (n,)."""

    def errors(self, y: Array, mu: Array) -> Array:
        """What scores multiply rr by; by default y - mu. A hook for outcomes whose mu is not the mean."""
        return y - mu

    def curvature(self, mu: Array) -> Array:
        """How much the mean of the errors falls as mu rises, which rr is divided by, shape (n,); by default one."""
        return np.ones_like(mu)


@dataclass(frozen=True)
class Normal(Outcome):
    """mu plus normal noise with constant standard deviation."""

    sd: float
    name: str = "y"

    def draw(self, mu: Array, latent: Array) -> Array:
        return mu + self.sd * latent

    def variance(self, mu: Array) -> Array:
        return np.full(len(mu), self.sd**2)


@dataclass(frozen=True)
class Bernoulli(Outcome):
    """1 with probability mu, else 0."""

    name: str = "y"

    def draw(self, mu: Array, latent: Array) -> Array:
        return np.asarray(ndtr(latent) < mu, dtype=float)

    def variance(self, mu: Array) -> Array:
        return mu * (1 - mu)


@dataclass(frozen=True)
class Poisson(Outcome):
    """A count with mean mu."""

    name: str = "y"

    def draw(self, mu: Array, latent: Array) -> Array:
        return np.asarray(stats.poisson.ppf(ndtr(latent), mu), dtype=float)

    def variance(self, mu: Array) -> Array:
        return mu


@dataclass(frozen=True)
class Gamma(Outcome):
    """A positive number with mean mu and standard deviation ``spread`` times mu."""

    spread: float
    name: str = "y"

    def draw(self, mu: Array, latent: Array) -> Array:
        shape = self.spread**-2
        return np.asarray(stats.gamma.ppf(ndtr(latent), shape, scale=mu / shape))

    def variance(self, mu: Array) -> Array:
        return (self.spread * mu) ** 2


@dataclass(frozen=True)
class Skewed(Outcome):
    """mu, the ``tau`` quantile, plus skewed noise whose scale is ``scale`` exp(mu / 8)."""

    tau: float
    scale: float
    name: str = "y"

    def draw(self, mu: Array, latent: Array) -> Array:
        noise = -np.log(ndtr(-latent)) + np.log(1 - self.tau)  # exponential, less its quantile
        return np.asarray(mu + self._spread(mu) * noise)

    def variance(self, mu: Array) -> Array:
        return self._spread(mu) ** 2

    def errors(self, y: Array, mu: Array) -> Array:
        return np.asarray(self.tau - (y <= mu))

    def curvature(self, mu: Array) -> Array:
        return (1 - self.tau) / self._spread(mu)

    def _spread(self, mu: Array) -> Array:
        return self.scale * np.exp(mu / 8)
