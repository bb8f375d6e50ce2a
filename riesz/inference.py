r"""From predictions to estimates and their covariance; every estimate is computed by :func:`infer`.

Predictions become scores s, one per row and parameter (:mod:`riesz.estimators`); the scores of each repeat become an estimate
with its influence function; the repeats are then combined. With normalizer n and weights w,

.. math::

    \hat\psi_c = \frac{\sum_i w_i s_{ci}}{\sum_i w_i n_{ci}}, \qquad
    \phi_{ci} = \frac{s_{ci} - \hat\psi_c\, n_{ci}}{\bar n_c}, \qquad
    \hat V = \frac{G}{G-1} \sum_g \Big(\sum_{i \in g} \frac{w_i \phi_i}{\sum w}\Big)\Big(\cdot\Big)'.

G is the number of clusters among the rows that an estimate uses. Without clusters every row is a cluster (a row with frequency
weight f counts as f clusters). Two-way clustering adds the two variances and subtracts the variance of their intersection
(Cameron, Gelbach and Miller 2011). With few clusters that difference may not be positive; then the larger of the two one-way
variances is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from riesz.arrays import Array, mean_of
from riesz.design.design import Design
from riesz.estimators import Estimator, Scores
from riesz.families import find_family
from riesz.predictions import Predictions
from riesz.storage.coding import stored

Clusters = tuple[npt.NDArray[np.intp], ...]
Used = npt.NDArray[np.bool_]

_ROUNDING = 1e-12  # share of the largest eigenvalue; linearly dependent parameters have eigenvalues of zero
_DRAWS = 40_000  # of the bootstrap; its critical value then has an error of about 0.02


@stored
@dataclass(frozen=True)
class Weights:
    """The weights of the rows.

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
        """Sampling weight times frequency weight, the weight of a row in means, shape (n,)."""
        return self.sampling * self.frequency


@dataclass(frozen=True)
class Sampling:
    """How the rows were sampled, and what the estimates refer to.

    Attributes
    ----------
    weights : Weights
    clusters : tuple of ndarray of int, each of shape (n,)
        Zero, one or two labellings of the rows, each coded 0, 1, ...
    target : {"population", "sample"}
    """

    weights: Weights
    clusters: Clusters
    target: str


@dataclass(frozen=True)
class Projection:
    """Functions of the rows that effects are projected on.

    Attributes
    ----------
    bases : sequence of ndarray, each of shape (n, q)
        One per parameter: indicators of groups, or functions of covariates.
    used : ndarray of bool, shape (n, P), or None
        The rows that each of the P coefficients uses: its group. None if all use every row.
    """

    bases: Sequence[Array]
    used: Used | None = None


@stored
@dataclass(frozen=True)
class Alternatives:
    """What a stack's estimate would have been with other learners.

    Attributes
    ----------
    alone : tuple of Scores
        The scores of each candidate alone, one per repeat and candidate, candidate by candidate.
    swapped : tuple of Scores
        The scores with the mu of each candidate in turn and the rr of the stack, then with the mu of the stack and the rr of
        each candidate in turn; a candidate's mu and rr are means over repeats, and are not calibrated.
    shares : ndarray, shape (K, 2J)
        The share of each candidate in the stack's mu, and then in its rr.
    """

    alone: tuple[Scores, ...]
    swapped: tuple[Scores, ...]
    shares: Array


@dataclass(frozen=True)
class Estimate:
    """The estimates of one repeat, with their influence functions.

    Attributes
    ----------
    value : ndarray, shape (K,)
    influence : ndarray, shape (n, K)
        Centred influence function of each row.
    variation : ndarray, shape (n, K)
        What the variance is computed from: the influence function, or its residual part if the sample is the target.
    used : ndarray of bool, shape (n, K), or None
        The rows that each estimate uses, which the small-sample factor counts; None if all use every row.
    """

    value: Array
    influence: Array
    variation: Array
    used: Used | None = None


@dataclass(frozen=True)
class Inference:
    """Estimates over all repeats, with the scores and estimates of each repeat.

    Attributes
    ----------
    scores : tuple of Scores
        One per repeat.
    repeats : tuple of Estimate
        One per repeat.
    value : ndarray, shape (K,)
        NaN if the estimator is not defined for these predictions.
    covariance : ndarray, shape (K, K)
        NaN if the estimator has no valid standard error.
    disagreement : ndarray, shape (K,)
        How much the estimates of a stack's learners differ: the square root of what their differences add to the variance, the
        median over repeats.
    replaced : ndarray of bool, shape (K,)
        The parameters whose two-way clustered variance is not positive in some repeat, and was replaced.
    indefinite : bool
        Whether, in some repeat, some contrast of the parameters has a two-way clustered variance that is not positive.
    """

    scores: tuple[Scores, ...]
    repeats: tuple[Estimate, ...]
    value: Array
    covariance: Array
    disagreement: Array
    replaced: npt.NDArray[np.bool_]
    indefinite: bool

    def errors(self) -> Array:
        """Standard errors, shape (K,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def averaged(self) -> Estimate:
        """The estimate, with influence function and variation averaged over repeats."""
        influence = mean_of([estimate.influence for estimate in self.repeats])
        variation = mean_of([estimate.variation for estimate in self.repeats])
        return Estimate(self.value, influence, variation, self.repeats[0].used)


def infer(
    predictions: Sequence[Predictions],
    design: Design,
    estimator: Estimator,
    sampling: Sampling,
    *,
    scores: Sequence[Scores] | None = None,
    alternatives: Sequence[Alternatives] = (),
    projection: Projection | None = None,
) -> Inference:
    r"""Estimates and their covariance from predictions.

    Over repeats, the estimate is the median, and its variance the median of

    .. math::

        V_r + (\hat\psi_r - \mathrm{median})^2 + \textstyle\sum_j w_{rj} \{\hat\psi_r(\mu_j, \alpha) - \hat\psi_r\}^2
        + \sum_j v_{rj} \{\hat\psi_r(\mu, \alpha_j) - \hat\psi_r\}^2,

    where the sums are for stacks alone. They compare the estimate with the one from the mu, or the rr, of candidate j, which has
    the share :math:`w_{rj}` in the stack's mu and :math:`v_{rj}` in its rr. So the choice of a learner adds to the variance as the
    choice of folds does. If mu or rr is correct, the estimate hardly depends on the other, and these terms are small.
    Correlations between parameters are those of the influence functions averaged over repeats.

    Parameters
    ----------
    predictions : sequence of Predictions
        One per repeat, on the full sample; of a stack one, which combines all repeats.
    design : Design
        The full sample.
    estimator : Estimator
    sampling : Sampling
    scores : sequence of Scores, optional
        The estimator's scores for these predictions, if they are known already.
    alternatives : sequence of Alternatives, optional
        One per element of ``predictions``, for a stack.
    projection : Projection, optional
        Project the effects on functions of the rows instead of averaging them over all rows.

    Returns
    -------
    Inference
    """
    if scores is None:
        scores = [estimator(repeat, design) for repeat in predictions]
    normalizer, weights = design.normalizer, sampling.weights

    def solve(repeat: Scores) -> Estimate:
        if projection is None:
            return estimate(repeat, normalizer, weights, sampling.target)
        return project(repeat, normalizer, projection, weights, sampling.target)

    repeats = [solve(repeat) for repeat in scores]
    spreads = [_spread(e.variation, weights, sampling.clusters, e.used) for e in repeats]
    widths = [1] * len(normalizer) if projection is None else [basis.shape[1] for basis in projection.bases]
    between = [
        _between(
            repeat.value, [solve(candidate).value for candidate in others.swapped], np.repeat(others.shares, widths, 0)
        )
        for repeat, others in zip(repeats, alternatives, strict=bool(alternatives))
    ]
    value, matrix = _median(repeats, spreads, between, weights, sampling.clusters)
    replaced = np.any([spread.replaced for spread in spreads], axis=0)
    indefinite = any(spread.indefinite for spread in spreads)
    undefined = estimator.weighs and predictions[0].tilted  # weighting needs an rr for all functions, not only for v f
    undefined |= estimator.of_means and not find_family(design.family).is_mean
    if undefined:
        value = np.full_like(value, np.nan)
    if undefined or not estimator.debiased:
        matrix, replaced, indefinite = np.full_like(matrix, np.nan), np.zeros_like(replaced), False
    disagreement = np.sqrt(np.median(between, axis=0)) if between else np.zeros(len(value))
    return Inference(tuple(scores), tuple(repeats), value, matrix, disagreement, replaced, indefinite)


def _between(value: Array, others: Sequence[Array], shares: Array) -> Array:
    """The mean squared distance of other estimates from the stack's, shape (P,); the shares have shape (P, 2J)."""
    distances = (np.stack(others, axis=1) - value[:, None]) ** 2
    return np.asarray(np.where(shares > 0, shares * distances, 0.0).sum(axis=1))


def _median(
    estimates: Sequence[Estimate],
    spreads: Sequence[_Spread],
    between: Sequence[Array],
    weights: Weights,
    clusters: Clusters,
) -> tuple[Array, Array]:
    """Combine repeats; shapes (K,) and (K, K)."""
    if len(estimates) == 1 and not between:
        return estimates[0].value, spreads[0].matrix
    values = np.stack([e.value for e in estimates])
    middle = np.median(values, axis=0)
    matrices = np.stack([spread.matrix for spread in spreads])
    per_repeat = np.diagonal(matrices, axis1=1, axis2=2) + (values - middle) ** 2
    variances = np.median(per_repeat + np.stack(between) if between else per_repeat, axis=0)
    averaged = covariance(mean_of([e.variation for e in estimates]), weights, clusters, estimates[0].used)
    return middle, with_variances(averaged, variances)


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
    influence = scores.values - value[:, None] * normalizer
    influence /= mean[:, None]
    influence = influence.T
    variation = influence if target == "population" else (scores.residuals / mean[:, None]).T
    return Estimate(value, influence, variation)


def project(scores: Scores, normalizer: Array, projection: Projection, weights: Weights, target: str) -> Estimate:
    r"""Project each component on functions b of the rows: group effects if b are indicators of groups.

    .. math:: E_w[b (s - n\, b'\theta)] = 0, \qquad A = E_w[n\, b b'], \qquad \phi_i = A^{-1} b_i (s_i - n_i b_i'\theta)

    Parameters
    ----------
    scores : Scores, shape (K, n)
    normalizer : ndarray, shape (K, n)
    projection : Projection
        b for each component.
    weights : Weights
    target : {"population", "sample"}

    Returns
    -------
    Estimate
        The coefficients of all components, one component after the other.
    """
    share = weights.total / weights.total.sum()
    values, influences, variations = [], [], []
    for s, residual, n, b in zip(scores.values, scores.residuals, normalizer, projection.bases, strict=True):
        inverse = np.linalg.inv((b.T * (share * n)) @ b)
        theta = inverse @ (b.T @ (share * s))
        influence = (b * (s - n * (b @ theta))[:, None]) @ inverse
        values.append(theta)
        influences.append(influence)
        variations.append(influence if target == "population" else (b * residual[:, None]) @ inverse)
    return Estimate(np.concatenate(values), np.hstack(influences), np.hstack(variations), projection.used)


def covariance(variation: Array, weights: Weights, clusters: Clusters, used: Used | None = None) -> Array:
    """Covariance matrix of the estimates, shape (K, K).

    Parameters
    ----------
    variation : ndarray, shape (n, K)
    weights : Weights
    clusters : tuple of ndarray of int
        Zero, one or two labellings of the rows, each coded 0, 1, ...
    used : ndarray of bool, shape (n, K), optional
        See :class:`Estimate`.
    """
    return _spread(variation, weights, clusters, used).matrix


def variances(variation: Array, weights: Weights, clusters: Clusters) -> Array:
    """The diagonal of :func:`covariance` alone, shape (K,); with many columns, faster."""
    if len(clusters) > 1:
        return np.asarray(np.diag(covariance(variation, weights, clusters)))
    share = weights.sampling / weights.total.sum()
    if not clusters:
        count = float(weights.frequency.sum())
        return np.asarray(count / (count - 1) * ((weights.frequency * share**2) @ variation**2))
    sums = _cluster_sums(variation * (weights.frequency * share)[:, None], clusters[0])
    count = len(np.unique(clusters[0]))
    return np.asarray(count / (count - 1) * (sums**2).sum(axis=0))


@dataclass(frozen=True)
class _Spread:
    """A covariance matrix, and where a two-way clustered one had to be repaired.

    Attributes
    ----------
    matrix : ndarray, shape (K, K)
        Positive semi-definite.
    replaced : ndarray of bool, shape (K,)
        The parameters for which V1 + V2 - V12 is not positive: their variance is the larger one-way variance.
    indefinite : bool
        Whether V1 + V2 - V12 gives some contrast of the parameters a variance that is not positive.
    """

    matrix: Array
    replaced: npt.NDArray[np.bool_]
    indefinite: bool


def _spread(variation: Array, weights: Weights, clusters: Clusters, used: Used | None) -> _Spread:
    contributions = variation * (weights.sampling / weights.total.sum())[:, None]
    none_replaced = np.zeros(variation.shape[1], dtype=bool)
    if not clusters:
        if used is not None:
            contributions = contributions * _factor(weights.frequency @ used)
            return _Spread(np.asarray((contributions.T * weights.frequency) @ contributions), none_replaced, False)
        count = float(weights.frequency.sum())
        return _Spread(
            np.asarray(count / (count - 1) * (contributions.T * weights.frequency) @ contributions),
            none_replaced,
            False,
        )
    contributions = contributions * weights.frequency[:, None]
    if len(clusters) == 1:
        return _Spread(_clustered(contributions, clusters[0], used), none_replaced, False)
    return _two_way(contributions, clusters, used)


def _two_way(contributions: Array, clusters: Clusters, used: Used | None) -> _Spread:
    """V1 + V2 - V12, repaired where it is not positive.

    A parameter keeps its two-way variance if that is positive, whatever the other parameters are; otherwise it gets the larger
    one-way variance. In the same way every direction of the parameter space without a positive variance gets the larger of its
    one-way variances, so that no contrast has a variance of zero. Correlations are those of the repaired matrix.
    """
    first, second = clusters
    intersection = np.unique(first * (int(second.max()) + 1) + second, return_inverse=True)[1].ravel()
    v1, v2 = _clustered(contributions, first, used), _clustered(contributions, second, used)
    matrix = v1 + v2 - _clustered(contributions, intersection, used)
    larger = np.maximum(np.diag(v1), np.diag(v2))
    replaced = (np.diag(matrix) <= _ROUNDING * larger) & (larger > 0)
    scale = np.where(larger > 0, np.sqrt(larger), 1.0)  # so that nothing depends on units
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    if not replaced.any() and values[0] >= 0:
        return _Spread(matrix, replaced, False)
    inward, outward = vectors / scale[:, None], vectors * scale[:, None]
    one_way = np.maximum(*(((v @ inward) * inward).sum(axis=0) for v in (v1, v2)))
    # a smallest eigenvalue just below zero is rounding error: the parameters are linearly dependent
    indefinite = bool(replaced.any() or values[0] < -_ROUNDING * values[-1])
    values = np.where(values > _ROUNDING * one_way, values, np.maximum(one_way, 0.0))
    variances = np.where(replaced, larger, np.diag(matrix))
    return _Spread(with_variances((outward * values) @ outward.T, variances), replaced, indefinite)


def _clustered(contributions: Array, codes: npt.NDArray[np.intp], used: Used | None) -> Array:
    sums = _cluster_sums(contributions, codes)
    if used is not None:
        scaled = sums * _factor(np.array([len(np.unique(codes[rows])) for rows in used.T], dtype=float))
        return np.asarray(scaled.T @ scaled)
    count = len(np.unique(codes))
    return np.asarray(count / (count - 1) * sums.T @ sums)


def _cluster_sums(contributions: Array, codes: npt.NDArray[np.intp]) -> Array:
    """One row per cluster."""
    return np.column_stack([np.bincount(codes, weights=column) for column in contributions.T])


def _factor(count: Array) -> Array:
    """The square root of G / (G - 1), one per estimate."""
    return np.asarray(np.sqrt(count / (count - 1)))


def with_variances(matrix: Array, variances: Array) -> Array:
    """The covariance matrix with these variances and the correlations of ``matrix``."""
    spread = np.sqrt(np.diag(matrix))
    size = np.outer(spread, spread)
    correlation = np.divide(matrix, size, out=np.zeros_like(matrix), where=size != 0)
    np.fill_diagonal(correlation, 1.0)
    scale = np.sqrt(variances)
    return np.asarray(correlation * np.outer(scale, scale))


def joint_critical_value(matrix: Array, alpha: float) -> float:
    r"""The c for which the intervals estimate +- c standard errors hold jointly with probability 1 - alpha.

    .. math:: c = \text{quantile}_{1-\alpha} \max_k |Z_k|, \qquad Z \sim N(0, \mathrm{corr}(\hat V))

    This is the multiplier bootstrap with Gaussian multipliers, one per cluster: given the data, the bootstrapped t statistics
    are normal with exactly this correlation (Chernozhukov, Chetverikov and Kato 2013). The seed is fixed.
    """
    spread = np.sqrt(np.diag(matrix))
    if np.isnan(spread).any():
        return float("nan")
    used = spread > 0
    values, vectors = np.linalg.eigh(matrix[np.ix_(used, used)] / np.outer(spread[used], spread[used]))
    positive = values > 1e-12 * values.max(initial=0.0)
    if positive.sum() <= 1:  # one parameter, or all of them equal
        return float(stats.norm.isf(alpha / 2))
    root = vectors[:, positive] * np.sqrt(values[positive])
    generator = np.random.default_rng(0)
    largest = [
        np.abs(generator.standard_normal((_DRAWS // 10, int(positive.sum()))) @ root.T).max(axis=1) for _ in range(10)
    ]
    return float(np.quantile(np.concatenate(largest), 1 - alpha))
