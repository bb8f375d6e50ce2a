"""Distributions of a simulation's outcome around its mean mu."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
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
