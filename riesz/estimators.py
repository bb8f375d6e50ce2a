r"""From predictions to scores, whose weighted mean (over that of the normalizer) estimates psi.

========  ==========================================================================  ==============
name      score                                                                        standard error
========  ==========================================================================  ==============
direct    :math:`m(\mu)`                                                               none
ipw       :math:`\alpha y`                                                             none
dr        :math:`m(\mu) + \alpha (y - \mu)`                                            yes
tmle      :math:`m(\mu^*) + \alpha (y - \mu^*)`, with :math:`E_n[\alpha(y - \mu^*)] = 0`    yes
========  ==========================================================================  ==============

``direct`` and ``ipw`` have no valid standard error: their bias does not vanish at the root-n rate.

A further one is a function of predictions and design; put in :data:`ESTIMATORS` as an :class:`Estimator` it is known by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from riesz.arrays import Array, ratio
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.predictions import Predictions

_EDGE = 1e-3  # a bounded outcome's mu is kept this far inside its limits, as a share of their distance, or nearer


@dataclass(frozen=True)
class Scores:
    r"""What an estimator makes of the predictions.

    Attributes
    ----------
    values : ndarray, shape (K, n)
        The score of each row.
    residuals : ndarray, shape (K, n)
        Its part :math:`\alpha (y - \mu)`, all that varies when the sample itself is the target.
    """

    values: Array
    residuals: Array


@dataclass(frozen=True)
class Estimator:
    """A way to make an estimate of predictions, as tables know it.

    Attributes
    ----------
    scores : callable
        ``(predictions, design) -> Scores``, on the full sample.
    words : str
        What it is, in a word or two.
    debiased : bool
        Whether the scores are those of an influence function, so that their variance gives a valid standard error.
    needs_rr : bool
        Whether it is of no use to a learner of mu alone.
    weighs : bool
        Whether it weighs the outcome by rr, so that rr must represent the moment on all functions.
    """

    scores: Callable[[Predictions, Design], Scores]
    words: str
    debiased: bool
    needs_rr: bool = True
    weighs: bool = False

    def __call__(self, predictions: Predictions, design: Design) -> Scores:
        """The scores."""
        return self.scores(predictions, design)


def direct(predictions: Predictions, design: Design) -> Scores:
    """Plug-in: h_n(mu)."""
    values = design.base.moment.apply(predictions.mu)
    return Scores(values, np.zeros_like(values))


def ipw(predictions: Predictions, design: Design) -> Scores:
    """Weighting: E_n[rr y]."""
    values = predictions.rr.observed * design.y
    return Scores(values, values)


def dr(predictions: Predictions, design: Design) -> Scores:
    """One-step: plug-in plus E_n[rr (y - mu)] (paper, equation 2)."""
    residuals = predictions.rr.observed * (design.y - predictions.mu.observed)
    return Scores(design.base.moment.apply(predictions.mu) + residuals, residuals)


def tmle(predictions: Predictions, design: Design) -> Scores:
    """Targeted: plug-in of mu*, which solves E_n[rr (y - mu*)] = 0 (paper, equations 3 and 4).

    The submodel is linear, mu + t rr, or logistic for an outcome in [lo, hi].
    """
    limits = (0.0, 1.0) if design.base.family == "binomial" else design.base.bounds
    if limits is None:
        return _tmle_linear(predictions, design)
    return _tmle_logistic(predictions, design, *limits)


def _tmle_linear(predictions: Predictions, design: Design) -> Scores:
    mu, rr = predictions.mu, predictions.rr
    t = ratio(design.mean(rr.observed * (design.y - mu.observed)), design.mean(rr.observed**2), otherwise=0.0)
    residuals = rr.observed * (design.y - mu.observed - t[:, None] * rr.observed)
    moment = design.base.moment
    return Scores(moment.apply(mu) + t[:, None] * moment.apply(rr) + residuals, residuals)


def _tmle_logistic(predictions: Predictions, design: Design, low: float, high: float) -> Scores:
    """Logit mu* = logit mu + t rr, on the outcome scaled to [0, 1]."""
    y = (design.y - low) / (high - low)
    middle = float(design.mean(y))
    edge = min(_EDGE, 0.1 * middle, 0.1 * (1 - middle))  # a rare outcome, or limits far away, leave less room
    mu, rr = _inside(predictions.mu, low, high, edge), predictions.rr
    index = logit(mu.observed)
    t = np.array([_solve_logistic(index, r, y, design.weights) for r in rr.observed])
    start = logit(mu.values)
    values = expit(start + t[:, None, None] * rr.values)
    # mu*' = mu*(1 - mu*) [mu' / (mu (1 - mu)) + t r']
    slopes = values * (1 - values) * (mu.slopes / (mu.values * (1 - mu.values)) + t[:, None, None] * rr.slopes)
    observed = expit(index + t[:, None] * rr.observed)
    moment = design.base.moment
    residuals = (high - low) * rr.observed * (y - observed)
    one = Evaluation(np.ones_like(observed), np.ones_like(values), np.zeros_like(values))
    plug_in = (high - low) * moment.apply(Evaluation(observed, values, slopes)) + low * moment.apply(one)
    return Scores(plug_in + residuals, residuals)


def _inside(mu: Evaluation, low: float, high: float, edge: float) -> Evaluation:
    """Mu scaled to [0, 1] and kept off its ends; where it is held there its slope is zero."""

    def squeeze(values: Array) -> Array:
        return np.clip((values - low) / (high - low), edge, 1 - edge)

    at = squeeze(mu.values)
    held = (at == edge) | (at == 1 - edge)
    return Evaluation(squeeze(mu.observed), at, np.where(held, 0.0, mu.slopes / (high - low)))


def _solve_logistic(index: Array, rr: Array, y: Array, weights: Array) -> float:
    """The t with sum w rr (y - expit(index + t rr)) = 0: the score of a concave likelihood, by guarded Newton steps."""
    t, scale = 0.0, float(np.abs(rr).max()) or 1.0
    for _ in range(100):
        fitted = expit(index + t * rr)
        slope = float(weights @ (rr * (y - fitted)))
        curve = float(weights @ (rr**2 * fitted * (1 - fitted)))
        step = float(np.clip(slope / max(curve, 1e-300), -1 / scale, 1 / scale))
        t += step
        if abs(step) * scale < 1e-12:
            break
    return t


#: Name to estimator, in the order that tables show them; ``estimator="..."`` finds yours here, too.
ESTIMATORS: dict[str, Estimator] = {
    "direct": Estimator(direct, "plug-in", debiased=False, needs_rr=False),
    "ipw": Estimator(ipw, "weighting", debiased=False, weighs=True),
    "dr": Estimator(dr, "one-step", debiased=True),
    "tmle": Estimator(tmle, "targeted", debiased=True),
}


def describe(name: str) -> str:
    """An estimator's name with its words: ``dr (one-step)``."""
    return f"{name} ({ESTIMATORS[name].words})"
