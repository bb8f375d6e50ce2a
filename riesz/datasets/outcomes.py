"""Distributions of a simulation's outcome around its mean mu."""

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
