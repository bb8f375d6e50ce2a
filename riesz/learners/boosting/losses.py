r"""The losses that trees are grown for, each with the rows it learns from and the rows it holds out.

Squared error and the Riesz loss are one quadratic form in the values s of a function at points,

.. math:: \sum_p q_p s_p^2 - 2 b_p s_p,

with :math:`q = w,\ b = w y` at the observed rows for mu, and for rr with :math:`q = w` at the observed rows, 0 elsewhere, and
:math:`b = w\,m` where the moment reads with weight m. Readings have a gradient and no curvature: LightGBM's least sum of hessians
in a leaf therefore counts observed rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, xlogy

from riesz.arrays import Array
from riesz.families import find_family

DENSITY = 0.4  # of a standard normal number at zero


@dataclass(frozen=True)
class Quadratic:
    """The loss above.

    Attributes
    ----------
    curvature, slope : ndarray, shape (points,)
        q and b of the training rows, 0 at the others.
    held_curvature, held_slope : ndarray, shape (points,)
        q and b of the held-out rows, 0 at the others.
    """

    curvature: Array
    slope: Array
    held_curvature: Array
    held_slope: Array

    def start(self) -> float:
        """The best constant."""
        return float(self.slope.sum() / self.curvature.sum())

    def gradient(self, scores: Array) -> tuple[Array, Array]:
        """Half of the derivatives."""
        return self.curvature * scores - self.slope, self.curvature

    def held_out(self, scores: Array) -> float:
        """The sum over the held-out rows."""
        return float(scores @ (self.held_curvature * scores - 2.0 * self.held_slope))


@dataclass(frozen=True)
class Logistic:
    """Cross-entropy of an outcome in [0, 1]; scores are logits.

    Attributes
    ----------
    outcome, weights, held_weights : ndarray, shape (points,)
        Weights are zero outside of the training rows, or outside of the held-out rows.
    offset : ndarray, shape (points,), optional
        Logits that the scores are added to.
    """

    outcome: Array
    weights: Array
    held_weights: Array
    offset: Array | None = None

    def start(self) -> float:
        """The logit of the mean, which is kept away from 0 and 1; 0 if there is an offset."""
        if self.offset is not None:
            return 0.0
        total = self.weights.sum()
        return float(logit((self.outcome @ self.weights + 0.5) / (total + 1.0)))

    def gradient(self, scores: Array) -> tuple[Array, Array]:
        """The derivatives along the logit."""
        p = self._probabilities(scores)
        return self.weights * (p - self.outcome), self.weights * p * (1.0 - p)

    def held_out(self, scores: Array) -> float:
        """The sum over the held-out rows."""
        p = self._probabilities(scores)
        return float(-self.held_weights @ (xlogy(self.outcome, p) + xlogy(1.0 - self.outcome, 1.0 - p)))

    def _probabilities(self, scores: Array) -> Array:
        return np.asarray(expit(scores if self.offset is None else scores + self.offset))


@dataclass(frozen=True)
class LogLink:
    """The loss of a mean whose logarithm is the score: that of a Poisson or a gamma regression.

    Attributes
    ----------
    family : str
    outcome, weights, held_weights, offset
        As for :class:`Logistic`; the offset is the logarithm of a mean.
    """

    family: str
    outcome: Array
    weights: Array
    held_weights: Array
    offset: Array | None = None

    def start(self) -> float:
        """The logarithm of the mean; 0 if there is an offset."""
        if self.offset is not None:
            return 0.0
        everything = self.weights + self.held_weights  # the outcomes of the training rows may all be zero
        mean = float(self.outcome @ self.weights / self.weights.sum())
        return float(np.log(mean or self.outcome @ everything / everything.sum()))

    def gradient(self, scores: Array) -> tuple[Array, Array]:
        """The derivatives along the logarithm, the second one for the gamma family as expected."""
        mean, family = self._means(scores), find_family(self.family)
        return self.weights * family.loss_slope(self.outcome, mean) * mean, self.weights * family.precision(mean)

    def held_out(self, scores: Array) -> float:
        """The sum over the held-out rows."""
        return float(self.held_weights @ find_family(self.family).loss(self.outcome, self._means(scores)))

    def _means(self, scores: Array) -> Array:
        return np.exp(scores if self.offset is None else scores + self.offset)


@dataclass(frozen=True)
class Pinball:
    """The pinball loss of a quantile of a standardised outcome.

    Its second derivative is that of its mean, the density of the residuals, which is set to that of a standard normal number at
    zero: the loss itself has none.

    Attributes
    ----------
    family : str
    outcome, weights, held_weights : ndarray, shape (points,)
        As for :class:`Logistic`.
    """

    family: str
    outcome: Array
    weights: Array
    held_weights: Array

    def start(self) -> float:
        """The quantile of the training rows."""
        tau = find_family(self.family).quantile
        order = np.argsort(self.outcome, kind="stable")
        share = np.cumsum(self.weights[order])
        return float(self.outcome[order][np.searchsorted(share, (tau or 0.5) * share[-1])])

    def gradient(self, scores: Array) -> tuple[Array, Array]:
        """The derivative, and the density."""
        return self.weights * find_family(self.family).loss_slope(self.outcome, scores), DENSITY * self.weights

    def held_out(self, scores: Array) -> float:
        """The sum over the held-out rows."""
        return float(self.held_weights @ find_family(self.family).loss(self.outcome, scores))


def index_loss(
    family: str, outcome: Array, weights: Array, held_weights: Array, offset: Array | None = None
) -> Logistic | LogLink:
    """The loss of an index in a family other than ``"gaussian"``."""
    if find_family(family).log_link:
        return LogLink(family, outcome, weights, held_weights, offset)
    return Logistic(outcome, weights, held_weights, offset)


def least_hessian(family: str, outcome: Array, weights: Array, rows: float) -> float:
    """The sum of hessians of about this number of rows under an index's loss: half of that at the mean outcome."""
    mean = np.asarray(np.average(outcome, weights=weights))
    precision = float(find_family(family).precision(mean))
    return 0.5 * rows * (precision if find_family(family).log_link else max(precision, 0.01))
