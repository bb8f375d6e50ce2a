r"""What single rows, clusters, folds and repeats do to the estimate.

The estimate is a ratio of weighted means, :math:`\hat\psi = \sum w s / \sum w n`, of scores s and normalizer n. With mu and rr
held as they are, leaving out the rows of a set g changes it by exactly

.. math:: \hat\psi_{-g} - \hat\psi = - \frac{\sum_{i \in g} w_i \phi_i}{W (1 - \sum_{i \in g} w_i n_i / W \bar n)},
   \qquad W = \textstyle\sum_i w_i,

with influence function :math:`\phi = (s - \hat\psi n) / \bar n`. Learning mu and rr anew without g changes the estimate a little
more: for a debiased estimator by a smaller order, times the leverage of g.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from riesz.arrays import Array, ratio
from riesz.inference import Estimate, Weights, covariance

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
        A row for each row or cluster: ``change`` the estimate without it minus the estimate; ``share_of_variance`` its part of
        the estimate's variance.
    """
    share = weights.total / weights.total.sum()
    own = normalizer[component]
    pull = total(share * estimate.influence[:, component], codes)
    part = total(share * own, codes) / (share @ own)
    spread = variance_parts(estimate.variation[:, component], weights, codes)
    change = ratio(-pull, np.where(part < 1, 1 - part, 0.0))  # without its only row an estimate does not exist
    return pd.DataFrame({"change": change, "share_of_variance": ratio(spread, float(spread.sum()))})


def total(values: Array, codes: Codes | None) -> Array:
    """Sums by cluster; the values themselves without clusters."""
    return values if codes is None else np.asarray(np.bincount(codes, weights=values), dtype=float)


def variance_parts(variation: Array, weights: Weights, codes: Codes | None) -> Array:
    """What each row, or cluster, adds to the variance, up to a factor; identical rows count as so many."""
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
        units of their standard deviation. The index tells which row or cluster.
    """
    pull = total((weights.sampling if codes is None else weights.total) * variation, codes)
    count = weights.frequency if codes is None else np.ones(len(pull))
    order = np.argsort(pull, kind="stable")
    middle = (np.cumsum(count[order]) - count[order] / 2) / count.sum()
    centre = pull @ count / count.sum()
    scale = np.sqrt((pull - centre) ** 2 @ count / count.sum())
    sample = ratio(pull[order] - centre, float(scale), otherwise=0.0)  # all the same: none is off the centre
    return pd.DataFrame({"theoretical": stats.norm.ppf(middle), "sample": sample}, index=order)


def by_fold(
    estimates: Sequence[Estimate],
    normalizer: Array,
    folds: npt.NDArray[np.intp],
    weights: Weights,
    codes: Codes | None,
    names: Sequence[str],
) -> pd.DataFrame:
    """The estimate of every repeat, and of every fold in it by itself.

    Parameters
    ----------
    estimates : sequence of Estimate, one a repeat
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
    for repeat, (one, labels) in enumerate(zip(estimates, folds, strict=True), start=1):
        everyone = np.ones(len(labels), dtype=bool)
        parts = [("all", everyone), *((int(fold) + 1, labels == fold) for fold in np.unique(labels))]
        for fold, rows in parts:
            value, error = _part(one, normalizer, rows, weights, codes)
            lines += [(name, repeat, fold, int(rows.sum()), value[c], error[c]) for c, name in enumerate(names)]
    return pd.DataFrame(lines, columns=["parameter", "repeat", "fold", "rows", "estimate", "std_error"])


def _part(
    estimate: Estimate, normalizer: Array, rows: npt.NDArray[np.bool_], weights: Weights, codes: Codes | None
) -> tuple[Array, Array]:
    """Estimate and standard error from some rows, with the scores of all."""
    own = Weights(weights.sampling[rows], weights.frequency[rows])
    share, whole = own.total / own.total.sum(), weights.total / weights.total.sum()
    scale = (normalizer[:, rows] @ share) / (normalizer @ whole)  # how common the normalizer's group is here
    scale = np.where(scale == 0, np.nan, scale)
    value = estimate.value + (share @ estimate.influence[rows]) / scale
    clusters = () if codes is None else (np.unique(codes[rows], return_inverse=True)[1],)
    if rows.sum() < 2 or any(one.max() == 0 for one in clusters):
        return value, np.full_like(value, np.nan)
    return value, np.sqrt(np.diag(covariance(estimate.variation[rows] / scale, own, clusters)))


def heterogeneity(table: pd.DataFrame) -> float:
    """P-value of Cochran's test that the folds estimate the same number: the smallest one, times how many were made.

    Parameters
    ----------
    table : pandas.DataFrame
        From :func:`by_fold`.
    """
    found = []
    for _, part in table[table["fold"] != "all"].groupby(["parameter", "repeat"]):
        known = part[part["std_error"] > 0]
        if len(known) < 2:
            continue
        weight = known["std_error"] ** -2.0
        centre = (weight * known["estimate"]).sum() / weight.sum()
        statistic = float((weight * (known["estimate"] - centre) ** 2).sum())
        found.append(float(stats.chi2.sf(statistic, len(known) - 1)))
    return min(1.0, min(found) * len(found)) if found else 1.0
