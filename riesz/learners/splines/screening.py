r"""Which steps of covariates, and which pairs of inputs have a product, that a function without them misses.

A feature :math:`x_j`, alone or times a share s of the treatment, belongs in a function if the loss has a slope along it. The slope
is the mean of :math:`c\, x_j`, with

- for mu, :math:`c = s(a)\,(y - \mu)`;
- for rr, :math:`c = m(s) - s(a)\,\alpha`, because the moment of :math:`x_j s` is :math:`x_j` times that of s.

**Pairs** of lines, or of lines and steps that are in the function: two matrix products judge all products :math:`x_j x_k`. Neither
covariate needs an effect of its own. **Steps**: a spline follows most of a step, so that what counts is the part of the step that
the function's features do not explain: with :math:`\beta_j` the regression of :math:`x_j s` on them, the slope along
:math:`x_j s - \beta_j'\phi` is judged.

A feature is kept if its slope is more than :math:`\sqrt{2 \log P}` standard errors from zero, with P the number of features;
among features without an effect the largest is so in about one sample in four, and the leave-one-out loss then decides. With
clusters, the standard errors of the largest slopes are those of sums over clusters.

Shapes: n rows, F features, s shares, q lines, J steps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array, ratio
from riesz.crossfit.folds import draw_part
from riesz.design.moment import Evaluation
from riesz.learners.inputs.expansions import Role
from riesz.learners.splines.feature_sets import Pairs, Pool, Sample, level, moment_rows, varying_shares
from riesz.learners.splines.features import NONE, Features, Numbers, joined, singles

_MOST = 10  # pairs, or steps, that are kept
_NEAR = 2  # of two steps of a covariate that are at most this many cuts apart, only the clearer is kept
_ROWS_OF_STEPS = 8000  # that steps are judged on, at most
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
    return [
        (int(points.sources[first]), int(points.sources[second]))
        for first, second in _strongest_pairs(sample, pool, theta, target, lines, len(lines))
    ]


def screen_with_steps(sample: Sample, pool: Pool, theta: Array, target: int) -> Pairs:
    """The strongest products, by number of input, of a step that is in the function with another step or with a line."""
    points = sample.points
    known = np.unique(pool.features.first[pool.features.second == NONE])
    steps = known[points.roles[known] == Role.STEP]
    lines = np.flatnonzero((points.roles == Role.LINE) & (points.sources >= 0))
    if not len(steps):
        return []
    return _strongest_pairs(sample, pool, theta, target, np.concatenate([steps, lines]), len(steps))


def _strongest_pairs(
    sample: Sample, pool: Pool, theta: Array, target: int, inputs: Numbers, leading: int
) -> list[tuple[int, int]]:
    """The pairs of one of the first ``leading`` inputs with any later one whose product is missed most, strongest first."""
    if sample.points.changed or not 2 <= len(inputs) <= _MOST_LINES:  # a reading that changes x changes its products
        return []
    x = sample.at_rows.bounded(inputs)
    slopes = _slopes(sample, theta @ pool.phi.observed, target)
    first, second = np.triu_indices(leading, 1, len(inputs))
    limit = np.sqrt(2.0 * np.log(len(first) * len(slopes) + 1.0))
    errors = np.zeros(len(first))
    for c in slopes:
        left = x[:leading] * c
        sums = (left @ x.T)[first, second]
        squares = (left**2 @ (x**2).T)[first, second] - sums**2 / len(c)
        errors = np.maximum(errors, ratio(np.abs(sums), np.sqrt(np.maximum(squares, 0.0)), otherwise=0.0))
    order = np.argsort(-errors, kind="stable")[:_JUDGED]
    if sample.design.groups is not None:
        clustered = [_clustered(x[first[place]] * x[second[place]] * slopes, sample.design.groups) for place in order]
        errors[order] = clustered
        order = order[np.argsort(-np.array(clustered), kind="stable")]
    order = order[errors[order] > limit][:_MOST]
    return [(int(inputs[first[place]]), int(inputs[second[place]])) for place in order]


def screen_steps(sample: Sample, pool: Pool, theta: Array, target: int) -> Features:
    """The steps, alone or times a share, that a function misses most; parameters as in :func:`screen`."""
    points = sample.points
    steps = np.flatnonzero(points.roles == Role.STEP)
    none = singles(steps[:0])
    if points.changed or not len(steps):
        return none
    rows = draw_part(len(sample.design), _ROWS_OF_STEPS, sample.seed)
    phi, omega = pool.phi.observed[:, rows], sample.design.weights[rows]
    shares = [NONE, *range(varying_shares(sample))]
    factors = sample.at_rows.take(rows)
    x, values = factors.inputs(steps), theta @ pool.phi.observed
    slopes = _slopes(sample, values, target)[:, rows]
    of_function = _slopes_along(sample, pool.phi, values, target)[:, rows]
    weighted = phi * omega
    gram = weighted @ phi.T
    gram[np.diag_indices_from(gram)] *= 1.0 + 1e-8
    gram[np.diag_indices_from(gram)] += 1e-10 * gram.diagonal().max()
    errors = np.empty((len(shares), len(steps)))
    for share, c, of_share in zip(shares, slopes, errors, strict=True):
        beta = np.linalg.solve(gram, weighted @ (x * factors.s[share]).T)
        rest = x * c - beta.T @ of_function
        of_share[:] = _errors_of(rest, sample, rows)
    limit = np.sqrt(2.0 * np.log(errors.size + 1.0))
    kept: list[tuple[int, int]] = []
    for place in np.argsort(-errors, axis=None, kind="stable"):
        share, step = divmod(int(place), len(steps))
        if errors[share, step] <= limit or len(kept) == _MOST:
            break
        source = points.sources[steps[step]]
        near = [k for s, k in kept if s == share and abs(k - step) <= _NEAR and points.sources[steps[k]] == source]
        if not near:
            kept.append((share, step))
    return joined([none, *(singles(steps[[step]]).times(shares[share]) for share, step in kept)])


def _errors_of(slopes: Array, sample: Sample, rows: Numbers) -> Array:
    """Ratios of sums of slopes, shape (J, n), to their standard errors; with clusters, those of the largest."""
    sums = slopes.sum(axis=1)
    squares = np.einsum("jn,jn->j", slopes, slopes) - sums**2 / slopes.shape[1]
    errors: Array = ratio(np.abs(sums), np.sqrt(np.maximum(squares, 0.0)), otherwise=0.0)
    if sample.design.groups is not None:
        order = np.argsort(-errors, kind="stable")
        groups = sample.design.groups[rows]
        errors[order[:_JUDGED]] = [_clustered(slopes[[place]], groups) for place in order[:_JUDGED]]
        errors[order[_JUDGED:]] = 0.0
    return errors


def _clustered(values: Array, groups: npt.NDArray[np.intp]) -> float:
    """The largest ratio of a sum over rows, of values of shape (1 + s, n), to its standard error with clusters."""
    labels = np.unique(groups, return_inverse=True)[1]
    sums = np.stack([np.bincount(labels, row) for row in values])
    spread = np.sqrt(np.maximum((sums**2).sum(axis=1) - sums.sum(axis=1) ** 2 / sums.shape[1], 0.0))
    return float(ratio(np.abs(sums.sum(axis=1)), spread, otherwise=0.0).max())


def _slopes_along(sample: Sample, phi: Evaluation, values: Array, target: int) -> Array:
    """What each row contributes to the slope of a function's loss along features, shape (F, n), given the function's values."""
    design, weights = sample.design, sample.design.weights
    if target == 0:
        residuals = design.y - values
        return np.asarray(weights * phi.observed * (residuals - np.average(residuals, weights=weights)))
    return np.asarray(weights * (moment_rows(design, phi, target - 1) - phi.observed * values))


def _slopes(sample: Sample, values: Array, target: int) -> Array:
    """Values of c for no share and for each share that varies, times the rows' weights, shape (1 + s, n)."""
    shares = sample.pool(joined([level(), *(level(share) for share in range(varying_shares(sample)))]))
    return _slopes_along(sample, shares.phi, values, target)
