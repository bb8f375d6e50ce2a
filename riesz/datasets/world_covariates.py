r"""Covariates of random worlds: correlated and of mixed kinds (numbers, counts, dummies, labels, many zeros, long tails).

Each covariate is a function of one latent normal number; the latent numbers share a common factor, so that covariates are
correlated. A covariate affects treatment and outcome through its *score*, a number with mean about zero and variance about one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import ndtr

from riesz.arrays import Array

LABELS = ("amber", "blue", "coral", "dune", "elm")
_COUNTS = stats.norm.ppf(stats.poisson.cdf(np.arange(12), 2.0))  # thresholds of the latent number between counts
_ZERO = 0.4  # share of zeros in the kind "zeros"


def _count(z: Array) -> Array:
    """Poisson numbers with mean two."""
    return np.digitize(z, _COUNTS).astype(float)


def _zeros(z: Array) -> Array:
    """40% zeros, and a long tail above."""
    p = ndtr(z)
    above = np.clip((p - _ZERO) / (1 - _ZERO), 1e-9, 1 - 1e-9)
    return np.where(p < _ZERO, 0.0, -np.log1p(-above))


#: Kind of covariate to the function of its latent number, and the kind's relative frequency.
KINDS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "normal": (lambda z: z, 0.34),
    "uniform": (lambda z: np.asarray(2 * np.sqrt(3) * (ndtr(z) - 0.5)), 0.14),
    "dummy": (lambda z: (z > 0.3).astype(float), 0.16),
    "count": (_count, 0.1),
    "zeros": (_zeros, 0.08),
    "skewed": (lambda z: np.exp(0.6 * z), 0.08),
    "labels": (lambda z: np.digitize(z, [-0.8, 0.2, 0.9]).astype(float), 0.1),
}


@dataclass(frozen=True)
class Mixed:
    """One covariate of a random world.

    Attributes
    ----------
    name, kind : str
    loading : float
        Loading on the common factor.
    effects : tuple of float
        The labels' effects; empty for numbers.
    centre, spread : float
        Mean and standard deviation of the values, or of the labels' effects.
    """

    name: str
    kind: str
    loading: float
    effects: tuple[float, ...]
    centre: float
    spread: float

    def draw(self, factor: Array, rng: np.random.Generator) -> Any:
        """Values given the common factor, shape (n,); labels are strings."""
        specific = rng.standard_normal(len(factor))
        values = KINDS[self.kind][0](self.loading * factor + np.sqrt(1 - self.loading**2) * specific)
        return np.asarray(LABELS)[values.astype(int)] if self.kind == "labels" else values

    def score(self, column: pd.Series) -> Array:
        """The number through which the covariate acts, shape (n,)."""
        if self.kind == "labels":
            values = column.map(dict(zip(LABELS, self.effects, strict=False))).to_numpy(dtype=float)
        else:
            values = column.to_numpy(dtype=float)
        return np.asarray((values - self.centre) / self.spread)


def draw_mixed(name: str, rng: np.random.Generator) -> Mixed:
    """A random covariate, with mean and standard deviation from its quantiles."""
    shares = np.array([share for _, share in KINDS.values()])
    kind = str(rng.choice(list(KINDS), p=shares / shares.sum()))
    loading = float(rng.uniform(0.0, 0.6))
    effects = tuple(float(effect) for effect in rng.normal(size=len(LABELS))) if kind == "labels" else ()
    quantiles = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    values = KINDS[kind][0](quantiles)
    if effects:
        values = np.asarray(effects)[values.astype(int)]
    return Mixed(name, kind, loading, effects, float(values.mean()), float(values.std()) or 1.0)
