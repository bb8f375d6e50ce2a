r"""Which pairs of covariates have a product that a function without it misses.

A product :math:`x_j x_k`, alone or times a share s of the treatment, belongs in a function if the loss has a slope along it. The
slope is the mean of :math:`c\, x_j x_k`, with

- for mu, :math:`c = s(a)\,(y - \mu)`;
- for rr, :math:`c = m(s) - s(a)\,\alpha`, because the moment of :math:`x_j x_k s` is :math:`x_j x_k` times that of s.

So two matrix products judge all P pairs. A pair is kept if its mean is more than :math:`\sqrt{2 \log P}` standard errors from
zero; among pairs without an effect the largest is so in about one sample in four, and the leave-one-out loss then decides. Neither
covariate needs an effect of its own. With clusters, the standard errors of the largest means are those of sums over clusters.

Shapes: n rows, F features, s shares, q lines.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array, ratio
from riesz.learners.inputs.expansions import Role
from riesz.learners.splines.feature_sets import Pairs, Pool, Sample, level, moment_rows, varying_shares
from riesz.learners.splines.features import joined

_MOST = 10  # pairs that are kept
_MOST_LINES = 300  # with more there are too many pairs
_JUDGED = 100  # pairs whose standard errors are computed from clusters, if there are any


def screen(sample: Sample, pool: Pool, theta: Array, target: int) -> Pairs:
    """The pairs of covariates with the strongest products that a function misses, strongest first.

    Parameters
    ----------
    sample : Sample
    pool : Pool
        The features of the function, with the level.
    theta : ndarray, shape (F,)
        Its coefficients.
    target : int
        0 for mu, or the number of a component, from 1 on, for its rr.
    """
    points = sample.points
    lines = np.flatnonzero((points.roles == Role.LINE) & (points.sources >= 0))
    if points.changed or not 2 <= len(lines) <= _MOST_LINES:  # a reading that changes x changes its products
        return []
    x = sample.at_rows.bounded(lines)
    slopes = _slopes(sample, pool, theta, target)
    first, second = np.triu_indices(len(lines), 1)
    limit = np.sqrt(2.0 * np.log(len(first) * len(slopes) + 1.0))
    errors = np.zeros(len(first))
    for c in slopes:
        sums = ((x * c) @ x.T)[first, second]
        squares = ((x * c) ** 2 @ (x**2).T)[first, second] - sums**2 / len(c)
        errors = np.maximum(errors, ratio(np.abs(sums), np.sqrt(np.maximum(squares, 0.0)), otherwise=0.0))
    order = np.argsort(-errors, kind="stable")[:_JUDGED]
    if sample.design.groups is not None:
        clustered = [_clustered(x[first[place]] * x[second[place]] * slopes, sample.design.groups) for place in order]
        errors[order] = clustered
        order = order[np.argsort(-np.array(clustered), kind="stable")]
    order = order[errors[order] > limit][:_MOST]
    sources = points.sources[lines]
    return [(int(sources[first[place]]), int(sources[second[place]])) for place in order]


def _clustered(values: Array, groups: npt.NDArray[np.intp]) -> float:
    """The largest ratio of a sum over rows, of values of shape (1 + s, n), to its standard error with clusters."""
    labels = np.unique(groups, return_inverse=True)[1]
    sums = np.stack([np.bincount(labels, row) for row in values])
    spread = np.sqrt(np.maximum((sums**2).sum(axis=1) - sums.sum(axis=1) ** 2 / sums.shape[1], 0.0))
    return float(ratio(np.abs(sums.sum(axis=1)), spread, otherwise=0.0).max())


def _slopes(sample: Sample, pool: Pool, theta: Array, target: int) -> Array:
    """Values of c for no share and for each share that varies, times the rows' weights, shape (1 + s, n)."""
    design = sample.design
    phi = sample.pool(joined([level(), *(level(share) for share in range(varying_shares(sample)))])).phi
    values, weights = theta @ pool.phi.observed, design.weights
    if target == 0:
        residuals = design.y - values
        return np.asarray(weights * phi.observed * (residuals - np.average(residuals, weights=weights)))
    return np.asarray(weights * (moment_rows(design, phi, target - 1) - phi.observed * values))
