r"""rr from the arms' propensities, which are logistic regressions on features of the covariates.

With arms, rr is a known function of the propensities: for the ATE :math:`a / p - (1 - a) / (1 - p)`. A logit that is smooth in x
makes an rr that grows exponentially where overlap is weak, which a sum of a few features follows less well. Each arm's membership
is regressed on the covariates' features, and the probabilities are divided by their sum.

Where rr divides by a smaller propensity than that of :mod:`riesz.learners.propensity.smallest`, it divides by that one instead.
With few rows in an arm its logit is not reliable, and rr is learned without propensities.
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
