r"""rr from the arms' propensities, which are logistic regressions on features of the covariates.

With arms, rr is a known function of the propensities: for the ATE :math:`a / p - (1 - a) / (1 - p)`. A logit that is smooth in x
makes an rr that grows exponentially where overlap is weak, which a sum of a few features follows less well. Each arm's membership
is regressed on the covariates' features, and the probabilities are divided by their sum.

Where rr divides by a propensity below :math:`5 / (\sqrt{n} \log n)`, with n training rows, it divides by that number instead
(Gruber, Phillips, Lee and van der Laan 2022), or by half of the rarest arm's share if that is smaller: smaller propensities make rr
noisier than they make it accurate. With few rows in an arm its logit is not reliable, and rr is learned without propensities.

References
----------
Gruber, Phillips, Lee and van der Laan (2022), "Data-adaptive selection of the propensity score truncation level for
inverse-probability-weighted and targeted maximum likelihood estimators of marginal point treatment effects".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.propensity.representer import need_arms
from riesz.learners.splines.feature_sets import Sample

WHO = "riesz.Splines(rr='propensity')"
MOST_ARMS = 6  # every arm needs a regression
FEWEST = 50  # rows in the rarest arm, of those that are used


def derivable(sample: Design, used: float) -> bool:
    """Whether rr can follow from propensities: a treatment with few arms, none of them rare, that alone is moved.

    Parameters
    ----------
    sample : Design
    used : float
        The share of the rows that closed forms are solved on.
    """
    if sample.strata is None or sample.treatment.shape[1] >= MOST_ARMS or sample.is_derivative.any():
        return False
    if used * np.bincount(sample.strata).min() < FEWEST:
        return False
    try:
        need_arms(sample, WHO)
    except LearnerError:
        return False
    return True


def smallest(rows: int, rarest: float) -> float:
    """The smallest propensity that rr divides by.

    Parameters
    ----------
    rows : int
        Number of training rows.
    rarest : float
        Share of the rarest arm.

    Examples
    --------
    >>> from riesz.learners.splines.propensities import smallest
    >>> round(smallest(1000, 0.3), 3), round(smallest(100_000, 0.3), 4), smallest(1000, 0.02)
    (0.023, 0.0014, 0.01)
    """
    return float(min(5.0 / (np.sqrt(rows) * np.log(rows)), 0.1, rarest / 2))


def rarest_share(design: Design) -> float:
    """The share of the rarest arm in the weights of the rows."""
    assert design.strata is not None
    weights = np.bincount(design.strata, design.weights, minlength=design.treatment.shape[1] + 1)
    return float(weights.min() / weights.sum())


def modelled_arms(sample: Sample) -> Sequence[int]:
    """The arms whose membership is regressed: the second of two, or all."""
    arms = sample.design.treatment.shape[1] + 1
    return [1] if arms == 2 else range(arms)


def probabilities(logits: Array) -> Array:
    """Propensities of all arms, shape (n, arms), from the logits of the modelled ones, shape (arms or 1, n)."""
    p = expit(logits).T
    if p.shape[1] == 1:
        return np.hstack([1.0 - p, p])
    return np.asarray(p / p.sum(axis=1, keepdims=True))
