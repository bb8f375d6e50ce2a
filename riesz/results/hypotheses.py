"""Tests of linear hypotheses, R params = q, with the normal and the chi-squared distribution as in statsmodels."""

from __future__ import annotations

import numpy as np
from statsmodels.stats.contrast import ContrastResults

from riesz.arrays import Array

# Smaller eigenvalues of a correlation matrix are rounding errors: the restrictions are linearly dependent.
_DEPENDENT = 1e-12


def each_restriction(r: Array, q: Array, value: Array, covariance: Array) -> ContrastResults:
    """Test every row of R params = q by itself.

    Parameters
    ----------
    r : ndarray, shape (restrictions, K)
    q : ndarray, shape (restrictions,)
    value : ndarray, shape (K,)
    covariance : ndarray, shape (K, K)
    """
    effect = r @ value
    variance = np.diag(r @ covariance @ r.T)
    sd = np.sqrt(np.maximum(variance, 0.0))  # below zero by rounding, where the parameters cancel
    statistic = np.divide(effect - q, sd, out=np.full_like(sd, np.nan), where=sd > 0)
    return ContrastResults(effect=effect, statistic=statistic, sd=sd, distribution="norm")


def all_restrictions(r: Array, q: Array, value: Array, covariance: Array) -> ContrastResults:
    """Test all rows of R params = q jointly; shapes as in :func:`each_restriction`."""
    gap = r @ value - q
    matrix = r @ covariance @ r.T
    if np.isnan(matrix).any():  # an estimate without a standard error
        return ContrastResults(chi2=np.nan, df_denom=len(r), statistic=np.nan, distribution="chi2", distargs=(len(r),))
    spread = np.sqrt(np.diag(matrix))
    spread = np.where(spread > 0, spread, 1.0)
    correlation = matrix / np.outer(spread, spread)  # its rank does not depend on the units of the parameters
    rank = int(np.linalg.matrix_rank(correlation, hermitian=True, rtol=_DEPENDENT))
    statistic = float(gap / spread @ np.linalg.pinv(correlation, hermitian=True, rtol=_DEPENDENT) @ (gap / spread))
    return ContrastResults(chi2=statistic, df_denom=rank, statistic=statistic, distribution="chi2", distargs=(rank,))


def contradict(r: Array, q: Array) -> bool:
    """Whether no parameters can satisfy R params = q."""
    return bool(np.linalg.matrix_rank(np.column_stack([r, q])) > np.linalg.matrix_rank(r))
