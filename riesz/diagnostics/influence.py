r"""How much single rows, clusters, folds and repeats change the estimate.

The estimate is a ratio of weighted means, :math:`\hat\psi = \sum w s / \sum w n`, of scores s and normalizer n. With mu and rr
taken as given, leaving out the rows of a set g changes it by exactly

.. math:: \hat\psi_{-g} - \hat\psi = - \frac{\sum_{i \in g} w_i \phi_i}{W (1 - \sum_{i \in g} w_i n_i / W \bar n)},
   \qquad W = \textstyle\sum_i w_i,

with influence function :math:`\phi = (s - \hat\psi n) / \bar n`. Learning mu and rr again without g adds a
smaller change; for a debiased estimator it is of smaller order, times the leverage of g.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from riesz.arrays import Array, Rows, ratio
from riesz.inference import Estimate, Weights, variances

Codes = npt.NDArray[np.intp]


def leave_one_out(
    estimate: Estimate, normalizer: Array, weights: Weights, codes: Codes | None, component: int
) -> pd.DataFrame:
    """The change in one estimate when a row, or a cluster, is left out.

    Parameters
    ----------
    estimate : Estimate
        With influence function and variation of shape (n, K).
    normalizer : ndarray, shape (K, n)
    weights : Weights
    codes : ndarray of int, shape (n,), or None
        Cluster of each row; None leaves out rows one by one.
    component : int
        Which estimate.

    Returns
    -------
    pandas.DataFrame
        One row per row or cluster: ``change`` the estimate without it minus the estimate; ``share_of_variance`` its share of
        the estimate's variance.
    """
    share = weights.total / weights.total.sum()
    n = normalizer[component]
    pull = total(share * estimate.influence[:, component], codes)
    part = total(share * n, codes) / (share @ n)
    spread = variance_parts(estimate.variation[:, component], weights, codes)
    change = ratio(-pull, np.where(part < 1, 1 - part, 0.0))  # an estimate is not defined without its only row
    return pd.DataFrame({"change": change, "share_of_variance": ratio(spread, float(spread.sum()))})


def total(values: Array, codes: Codes | None) -> Array:
    """Sums per cluster; the values themselves without clusters."""
    return values if codes is None else np.asarray(np.bincount(codes, weights=values), dtype=float)


def variance_parts(variation: Array, weights: Weights, codes: Codes | None) -> Array:
    """What each row, or cluster, adds to the variance, up to a factor; a row of frequency f counts f times."""
    if codes is None:
        return np.asarray(weights.frequency * (weights.sampling * variation) ** 2)
    return np.asarray(total(weights.total * variation, codes) ** 2)


def normal_quantiles(variation: Array, weights: Weights, codes: Codes | None) -> pd.DataFrame:
    """The influence function against the normal distribution.

    Parameters
    ----------
    variation : ndarray, shape (n,)
    weights : Weights
    codes : ndarray of int, shape (n,), or None

    Returns
    -------
    pandas.DataFrame
        In increasing order: ``theoretical`` quantile of the standard normal, ``sample`` the contribution of a row (or cluster) in
        units of their standard deviation. The index is the position of the row or cluster.
    """
    pull = total((weights.sampling if codes is None else weights.total) * variation, codes)
    count = weights.frequency if codes is None else np.ones(len(pull))
    order = np.argsort(pull, kind="stable")
    middle = (np.cumsum(count[order]) - count[order] / 2) / count.sum()
    centre = pull @ count / count.sum()
    scale = np.sqrt((pull - centre) ** 2 @ count / count.sum())
    sample = ratio(pull[order] - centre, float(scale), otherwise=0.0)  # if all are equal, none differs from the centre
    return pd.DataFrame({"theoretical": stats.norm.ppf(middle), "sample": sample}, index=order)


def by_fold(
    estimates: Sequence[Estimate],
    normalizer: Array,
    folds: npt.NDArray[np.intp],
    weights: Weights,
    codes: Codes | None,
    names: Sequence[str],
) -> pd.DataFrame:
    """The estimate of every repeat, and of every fold in it.

    Parameters
    ----------
    estimates : sequence of Estimate
        One per repeat.
    normalizer : ndarray, shape (K, n)
    folds : ndarray of int, shape (repeats, n)
    weights : Weights
    codes : ndarray of int, shape (n,), or None
        Cluster of each row.
    names : sequence of str, length K

    Returns
    -------
    pandas.DataFrame
        ``parameter, repeat, fold, rows, estimate, std_error``; fold ``"all"`` is the repeat's estimate.
    """
    lines = []
    for repeat, (estimate, labels) in enumerate(zip(estimates, folds, strict=True), start=1):
        in_folds = [(int(fold) + 1, np.flatnonzero(labels == fold)) for fold in np.unique(labels)]
        parts: list[tuple[str | int, Rows, int]] = [("all", slice(None), len(labels))]
        parts += [(fold, rows, len(rows)) for fold, rows in in_folds]
        for fold, rows, count in parts:
            value, error = _part(estimate, normalizer, rows, weights, codes)
            lines += [(name, repeat, fold, count, value[c], error[c]) for c, name in enumerate(names)]
    return pd.DataFrame(lines, columns=["parameter", "repeat", "fold", "rows", "estimate", "std_error"])


def _part(
    estimate: Estimate, normalizer: Array, rows: Rows, weights: Weights, codes: Codes | None
) -> tuple[Array, Array]:
    """Estimate and standard error from some of the rows, with the same scores."""
    inside = Weights(weights.sampling[rows], weights.frequency[rows])
    share, whole = inside.total / inside.total.sum(), weights.total / weights.total.sum()
    scale = (normalizer[:, rows] @ share) / (
        normalizer @ whole
    )  # mean of the normalizer in these rows, relative to all rows
    scale = np.where(scale == 0, np.nan, scale)
    value = estimate.value + (share @ estimate.influence[rows]) / scale
    clusters = () if codes is None else (np.unique(codes[rows], return_inverse=True)[1],)
    if len(share) < 2 or any(labels.max() == 0 for labels in clusters):
        return value, np.full_like(value, np.nan)
    return value, np.sqrt(variances(estimate.variation[rows], inside, clusters)) / np.abs(scale)


def heterogeneity(table: pd.DataFrame) -> float:
    """P-value of Cochran's test that all folds estimate the same number: the smallest over parameters and repeats, Bonferroni.

    Parameters
    ----------
    table : pandas.DataFrame
        From :func:`by_fold`.
    """
    p_values = []
    for _, part in table[table["fold"] != "all"].groupby(["parameter", "repeat"]):
        usable = part[part["std_error"] > 0]
        if len(usable) < 2:
            continue
        weight = usable["std_error"] ** -2.0
        centre = (weight * usable["estimate"]).sum() / weight.sum()
        statistic = float((weight * (usable["estimate"] - centre) ** 2).sum())
        p_values.append(float(stats.chi2.sf(statistic, len(usable) - 1)))
    return min(1.0, min(p_values) * len(p_values)) if p_values else 1.0
