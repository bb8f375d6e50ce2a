"""Distributions of a simulation's covariates: how to draw from them and how to average over them.

A :class:`Covariate` gives random draws and a quadrature :class:`Rule`, points with probabilities that sum to one. Averages over
a rule are exact for polynomials of a fairly high degree between the covariate's edges, so that a policy that jumps at an edge
(``x1 > 0``) is averaged as exactly as a smooth one. The treatment is in ``assignment.py``, products of rules in ``quadrature.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

from riesz.arrays import Array


@dataclass(frozen=True)
class Rule:
    """Points and their probabilities.

    Attributes
    ----------
    values : ndarray or pandas.Categorical, shape (q,)
    probabilities : ndarray, shape (q,)
        They sum to one.
    """

    values: Any
    probabilities: Array


class Covariate(ABC):
    """One covariate, independent of the others.

    ``draw`` gives samples and ``rule`` gives the truth; both describe the same distribution.
    """

    name: str

    @abstractmethod
    def draw(self, n: int, generator: np.random.Generator) -> npt.NDArray[Any]:
        """Random values, shape (n,)."""

    @abstractmethod
    def rule(self, more: int) -> Rule:
        """A quadrature rule with ``more`` additional points per panel; that of a discrete covariate always has all its values."""


@dataclass(frozen=True)
class Uniform(Covariate):
    """Uniform between the first and the last edge.

    Parameters
    ----------
    name : str
    edges : tuple of float
        In ascending order; averages are exact for functions that are smooth between them.
    nodes : int
        Gauss-Legendre points per panel.
    """

    name: str
    edges: tuple[float, ...] = (-2.0, -1.0, 0.0, 1.0, 2.0)
    nodes: int = 5

    def draw(self, n: int, generator: np.random.Generator) -> Array:
        return generator.uniform(self.edges[0], self.edges[-1], n)

    def rule(self, more: int) -> Rule:
        x, width = panels(self.edges, self.nodes + more)
        return Rule(x, width / width.sum())


@dataclass(frozen=True)
class TruncatedNormal(Covariate):
    """Normal within three standard deviations of its mean; the edges are whole standard deviations.

    Parameters
    ----------
    name : str
    mean, sd : float
        Of the normal distribution before truncation.
    nodes : int
        Gauss-Legendre points per panel.
    """

    name: str
    mean: float
    sd: float
    nodes: int = 5

    def draw(self, n: int, generator: np.random.Generator) -> Array:
        return np.asarray(self.mean + self.sd * ndtri(generator.uniform(ndtr(-3.0), ndtr(3.0), n)))

    def rule(self, more: int) -> Rule:
        z, width = panels((-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0), self.nodes + more)
        mass = width * np.exp(-0.5 * z**2)
        return Rule(self.mean + self.sd * z, mass / mass.sum())


@dataclass(frozen=True)
class Choice(Covariate):
    """A few values, numbers or labels, with given probabilities.

    Parameters
    ----------
    name : str
    values : tuple
        All numbers or all labels.
    probabilities : tuple of float
    """

    name: str
    values: tuple[Any, ...]
    probabilities: tuple[float, ...]

    def draw(self, n: int, generator: np.random.Generator) -> npt.NDArray[Any]:
        return generator.choice(np.asarray(self.values), size=n, p=self.probabilities)

    def rule(self, more: int) -> Rule:
        labels = isinstance(self.values[0], str)
        values = pd.Categorical(self.values) if labels else np.asarray(self.values, dtype=float)
        return Rule(values, np.asarray(self.probabilities))


def panels(edges: tuple[float, ...], nodes: int) -> tuple[Array, Array]:
    """Gauss-Legendre points and their weights, ``nodes`` per pair of neighbouring edges."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    low, high = np.asarray(edges[:-1])[:, None], np.asarray(edges[1:])[:, None]
    half = (high - low) / 2
    return ((low + high) / 2 + half * t).ravel(), (half * w).ravel()
