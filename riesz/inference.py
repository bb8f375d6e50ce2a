r"""From scores to estimates, influence functions and covariance matrices.

.. math::

    \hat\psi_c = \frac{\sum_i w_i s_{ci}}{\sum_i w_i n_{ci}}, \qquad
    \phi_{ci} = \frac{s_{ci} - \hat\psi_c\, n_{ci}}{\bar n_c}, \qquad
    \hat V = \frac{G}{G-1} \sum_g \Big(\sum_{i \in g} \frac{w_i \phi_i}{\sum w}\Big)\Big(\cdot\Big)'

with scores s, normalizer n and weights w; G counts the clusters of the rows that an estimate is made from. Without clusters every
row is a cluster of its own (a row with frequency weight f is f of them). Two-way clusters add the two and subtract the variance
of their intersection (Cameron, Gelbach and Miller 2011); with few clusters that difference may not be positive, and then the
larger of the two one-way variances is used instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from riesz.arrays import Array
from riesz.estimators import Scores
from riesz.storage.coding import stored

Clusters = tuple[npt.NDArray[np.intp], ...]
Used = npt.NDArray[np.bool_]

_ROUNDING = 1e-12  # share of the largest eigenvalue; parameters that depend on one another have eigenvalues of zero
_DRAWS = 40_000  # of the bootstrap: its critical value is then good to 0.02


@stored
@dataclass(frozen=True)
class Weights:
    """How rows count.

    Attributes
    ----------
    sampling : ndarray, shape (n,)
        Inverse probabilities of being sampled; enter variances squared.
    frequency : ndarray, shape (n,)
        How many identical rows a row stands for; enter variances once.
    """

    sampling: Array
    frequency: Array

    @property
    def total(self) -> Array:
        """What enters means, shape (n,)."""
        return self.sampling * self.frequency


@dataclass(frozen=True)
class Estimate:
    """Estimates with their influence functions.

    Attributes
    ----------
    value : ndarray, shape (K,)
    influence : ndarray, shape (n, K)
        Centred influence function of each row.
    variation : ndarray, shape (n, K)
        What the variance is made of: the influence function, or its residual part when the sample is the target.
    used : ndarray of bool, shape (n, K), or None
        The rows that an estimate is made from, which the small-sample factor counts; None when all are.
    """

    value: Array
    influence: Array
    variation: Array
    used: Used | None = None


def estimate(scores: Scores, normalizer: Array, weights: Weights, target: str) -> Estimate:
    """Solve for psi and its influence function.

    Parameters
    ----------
    scores : Scores, shape (K, n)
    normalizer : ndarray, shape (K, n)
    weights : Weights
    target : {"population", "sample"}
    """
    share = weights.total / weights.total.sum()
    mean = normalizer @ share
    value = (scores.values @ share) / mean
    influence = ((scores.values - value[:, None] * normalizer) / mean[:, None]).T
    variation = influence if target == "population" else (scores.residuals / mean[:, None]).T
    return Estimate(value, influence, variation)


def project(
    scores: Scores, normalizer: Array, bases: Sequence[Array], weights: Weights, target: str, used: Used | None = None
) -> Estimate:
    r"""Project each component on functions b of the rows: group effects when b are indicators of groups.

    .. math:: E_w[b (s - n\, b'\theta)] = 0, \qquad A = E_w[n\, b b'], \qquad \phi_i = A^{-1} b_i (s_i - n_i b_i'\theta)

    Parameters
    ----------
    scores : Scores, shape (K, n)
    normalizer : ndarray, shape (K, n)
    bases : sequence of ndarray, each of shape (n, q)
        b for each component.
    weights : Weights
    target : {"population", "sample"}
    used : ndarray of bool, shape (n, coefficients), optional
        The rows that each coefficient is made from: its group. By default all.

    Returns
    -------
    Estimate
        Of all components' coefficients, one component after the other.
    """
    share = weights.total / weights.total.sum()
    values, influences, variations = [], [], []
    for s, residual, n, b in zip(scores.values, scores.residuals, normalizer, bases, strict=True):
        inverse = np.linalg.inv((b.T * (share * n)) @ b)
        theta = inverse @ (b.T @ (share * s))
        influence = (b * (s - n * (b @ theta))[:, None]) @ inverse
        values.append(theta)
        influences.append(influence)
        variations.append(influence if target == "population" else (b * residual[:, None]) @ inverse)
    return Estimate(np.concatenate(values), np.hstack(influences), np.hstack(variations), used)


def covariance(variation: Array, weights: Weights, clusters: Clusters, used: Used | None = None) -> Array:
    """Covariance matrix of the estimates, shape (K, K).

    Parameters
    ----------
    variation : ndarray, shape (n, K)
    weights : Weights
    clusters : tuple of ndarray of int
        None, one or two labellings of the rows, each coded 0, 1, ...
    used : ndarray of bool, shape (n, K), optional
        See :class:`Estimate`.
    """
    pulls = variation * (weights.sampling / weights.total.sum())[:, None]
    if not clusters:
        if used is not None:
            pulls = pulls * _factor(weights.frequency @ used)
            return np.asarray((pulls.T * weights.frequency) @ pulls)
        count = float(weights.frequency.sum())
        return np.asarray(count / (count - 1) * (pulls.T * weights.frequency) @ pulls)
    pulls = pulls * weights.frequency[:, None]
    if len(clusters) == 1:
        return _clustered(pulls, clusters[0], used)
    return _two_way(pulls, clusters, used).matrix


@dataclass(frozen=True)
class TwoWay:
    """A two-way clustered covariance, V1 + V2 - V12.

    Attributes
    ----------
    matrix : ndarray, shape (K, K)
        Positive semi-definite.
    replaced : ndarray of bool, shape (K,)
        The parameters for which V1 + V2 - V12 is not positive: their variance is the larger one-way one.
    indefinite : bool
        Whether some contrast of parameters has no positive variance V1 + V2 - V12.
    """

    matrix: Array
    replaced: npt.NDArray[np.bool_]
    indefinite: bool


def two_way(estimates: Sequence[Estimate], weights: Weights, clusters: Clusters) -> list[TwoWay]:
    """The two-way clustered covariance of every repeat; none when there are not two kinds of clusters."""
    if len(clusters) < 2:
        return []
    share = (weights.sampling / weights.total.sum())[:, None]
    return [_two_way(one.variation * share * weights.frequency[:, None], clusters, one.used) for one in estimates]


def _two_way(pulls: Array, clusters: Clusters, used: Used | None) -> TwoWay:
    """V1 + V2 - V12, repaired where it is not positive.

    A parameter's variance is its two-way one where that is positive, whatever parameters stand beside it, and the larger one-way
    one where it is not. In the same way every direction of the parameters' space that has no positive variance gets the larger
    of its one-way variances, so that no contrast has a variance of zero; correlations are those of that matrix.
    """
    first, second = clusters
    both = np.unique(first * (int(second.max()) + 1) + second, return_inverse=True)[1].ravel()
    one, two = _clustered(pulls, first, used), _clustered(pulls, second, used)
    matrix = one + two - _clustered(pulls, both, used)
    larger = np.maximum(np.diag(one), np.diag(two))
    replaced = (np.diag(matrix) <= _ROUNDING * larger) & (larger > 0)
    scale = np.where(larger > 0, np.sqrt(larger), 1.0)  # so that nothing depends on units
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    if not replaced.any() and values[0] >= 0:
        return TwoWay(matrix, replaced, False)
    inward, outward = vectors / scale[:, None], vectors * scale[:, None]
    spread = np.maximum(*(((part @ inward) * inward).sum(axis=0) for part in (one, two)))
    indefinite = bool(replaced.any() or values[0] < -_ROUNDING * values[-1])  # if not, rounding of dependent parameters
    values = np.where(values > _ROUNDING * spread, values, np.maximum(spread, 0.0))
    variances = np.where(replaced, larger, np.diag(matrix))
    return TwoWay(with_variances((outward * values) @ outward.T, variances), replaced, indefinite)


def _clustered(pulls: Array, codes: npt.NDArray[np.intp], used: Used | None) -> Array:
    sums = np.column_stack([np.bincount(codes, weights=column) for column in pulls.T])
    if used is not None:
        scaled = sums * _factor(np.array([len(np.unique(codes[rows])) for rows in used.T], dtype=float))
        return np.asarray(scaled.T @ scaled)
    count = len(np.unique(codes))
    return np.asarray(count / (count - 1) * sums.T @ sums)


def _factor(count: Array) -> Array:
    """The root of G / (G - 1), for every estimate."""
    return np.asarray(np.sqrt(count / (count - 1)))


def aggregate(estimates: Sequence[Estimate], weights: Weights, clusters: Clusters) -> tuple[Array, Array]:
    r"""Median over repeats.

    The estimate is the median; its variance the median of :math:`V_r + (\hat\psi_r - \mathrm{median})^2`. Correlations
    between parameters are those of the influence functions averaged over the repeats.

    Returns
    -------
    ndarray, shape (K,)
    ndarray, shape (K, K)
    """
    matrices = np.stack([covariance(e.variation, weights, clusters, e.used) for e in estimates])
    if len(estimates) == 1:
        return estimates[0].value, matrices[0]
    values = np.stack([e.value for e in estimates])
    middle = np.median(values, axis=0)
    variances = np.median(np.diagonal(matrices, axis1=1, axis2=2) + (values - middle) ** 2, axis=0)
    averaged = covariance(np.mean([e.variation for e in estimates], axis=0), weights, clusters, estimates[0].used)
    return middle, with_variances(averaged, variances)


def with_variances(matrix: Array, variances: Array) -> Array:
    """The covariance matrix with these variances and the correlations of ``matrix``."""
    spread = np.sqrt(np.diag(matrix))
    size = np.outer(spread, spread)
    correlation = np.divide(matrix, size, out=np.zeros_like(matrix), where=size != 0)
    np.fill_diagonal(correlation, 1.0)
    scale = np.sqrt(variances)
    return np.asarray(correlation * np.outer(scale, scale))


def joint_critical_value(matrix: Array, alpha: float) -> float:
    r"""The c for which the intervals estimate +- c standard errors hold together with probability 1 - alpha.

    .. math:: c = \text{quantile}_{1-\alpha} \max_k |Z_k|, \qquad Z \sim N(0, \mathrm{corr}(\hat V))

    which is the multiplier bootstrap with Gaussian multipliers, one a cluster: given the data, the bootstrapped t statistics
    are normal with this very correlation (Chernozhukov, Chetverikov and Kato 2013). The seed is fixed.
    """
    spread = np.sqrt(np.diag(matrix))
    if np.isnan(spread).any():
        return float("nan")
    used = spread > 0
    values, vectors = np.linalg.eigh(matrix[np.ix_(used, used)] / np.outer(spread[used], spread[used]))
    own = values > 1e-12 * values.max(initial=0.0)
    if own.sum() <= 1:  # one parameter, or all of them the same
        return float(stats.norm.isf(alpha / 2))
    root = vectors[:, own] * np.sqrt(values[own])
    generator = np.random.default_rng(0)
    largest = [
        np.abs(generator.standard_normal((_DRAWS // 10, int(own.sum()))) @ root.T).max(axis=1) for _ in range(10)
    ]
    return float(np.quantile(np.concatenate(largest), 1 - alpha))
