"""The targeted estimator: the plug-in of mu*, which solves E_n[rr (y - mu*)] = 0 (paper, equations 3 and 4).

The submodel is linear, mu + t rr, logistic for an outcome in [low, high], or log-linear, mu exp(t rr), where the logarithm of mu is
learned.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from riesz.arrays import Array, ratio
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked
from riesz.estimators.base import Estimator, Scores
from riesz.families import find_family
from riesz.predictions import Predictions

_FURTHEST = 50.0  # the logarithm of mu moves no further, so that mu stays finite
_EDGE = 1e-3  # mu of a bounded outcome stays this far inside its limits, as a share of their distance


def _scores(predictions: Predictions, design: Design) -> Scores:
    family = find_family(design.family)
    if family.log_link:
        return _tmle_log(predictions, design)
    limits = family.limits or design.bounds
    if limits is None:
        return _tmle_linear(predictions, design)
    return _tmle_logistic(predictions, design, *limits)


def _tmle_linear(predictions: Predictions, design: Design) -> Scores:
    mu, rr = predictions.mu, predictions.rr
    t = ratio(design.mean(rr.observed * (design.y - mu.observed)), design.mean(rr.observed**2), otherwise=0.0)
    residuals = rr.observed * (design.y - mu.observed - t[:, None] * rr.observed)
    return Scores(design.apply(mu) + t[:, None] * design.apply(rr) + residuals, residuals)


def _tmle_logistic(predictions: Predictions, design: Design, low: float, high: float) -> Scores:
    """Logit mu* = logit mu + t rr, on the outcome scaled to [0, 1]."""
    y = (design.y - low) / (high - low)
    middle = float(design.mean(y))
    edge = min(_EDGE, 0.1 * middle, 0.1 * (1 - middle))  # smaller for a rare outcome, or if the limits are far away
    mu, rr = _inside(predictions.mu, low, high, edge), predictions.rr
    index = logit(mu.observed)
    t = np.array([_solve_logistic(index, r, y, design.weights) for r in rr.observed])
    step, start = rr.scaled(t), mu.linked(rr.links)
    values = expit(logit(start.values) + step.values)
    # mu*' = mu*(1 - mu*) [mu' / (mu (1 - mu)) + t r']
    slopes = values * (1 - values) * (start.slopes / (start.values * (1 - start.values)) + step.slopes)
    observed = expit(index + step.observed)
    residuals = (high - low) * rr.observed * (y - observed)
    constant = Linked(np.ones_like(observed), np.ones_like(values), np.zeros_like(values), rr.links)
    updated = Linked(observed, values, slopes, rr.links)
    plug_in = (high - low) * design.apply(updated) + low * design.apply(constant)
    return Scores(plug_in + residuals, residuals)


def _tmle_log(predictions: Predictions, design: Design) -> Scores:
    """Log mu* = log mu + t rr."""
    y, rr, start = design.y, predictions.rr, predictions.mu.linked(predictions.rr.links)
    t = np.array([_solve_log(predictions.mu.observed, r, y, design.weights) for r in rr.observed])
    step = rr.scaled(t)
    observed, factor = predictions.mu.observed * _exp(step.observed), _exp(step.values)
    values = start.values * factor
    residuals = rr.observed * (y - observed)
    updated = Linked(observed, values, start.slopes * factor + values * step.slopes, rr.links)
    return Scores(design.apply(updated) + residuals, residuals)


def _exp(step: Array) -> Array:
    return np.exp(np.clip(step, -_FURTHEST, _FURTHEST))


def _inside(mu: Evaluation, low: float, high: float, edge: float) -> Evaluation:
    """Mu scaled to [0, 1] and kept away from 0 and 1; where it is clipped, its slope is zero."""

    def squeeze(values: Array) -> Array:
        return np.clip((values - low) / (high - low), edge, 1 - edge)

    values = squeeze(mu.values)
    clipped = (values == edge) | (values == 1 - edge)
    return Evaluation(squeeze(mu.observed), values, np.where(clipped, 0.0, mu.slopes / (high - low)))


def _solve_logistic(index: Array, rr: Array, y: Array, weights: Array) -> float:
    """The t with sum w rr (y - expit(index + t rr)) = 0: the score of a concave likelihood, by Newton steps of limited length."""
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


def _solve_log(mu: Array, rr: Array, y: Array, weights: Array) -> float:
    """The t with sum w rr (y - mu exp(t rr)) = 0, likewise."""
    t, scale = 0.0, float(np.abs(rr).max()) or 1.0
    for _ in range(200):
        fitted = mu * _exp(t * rr)
        slope = float(weights @ (rr * (y - fitted)))
        step = float(np.clip(slope / max(float(weights @ (rr**2 * fitted)), 1e-300), -1 / scale, 1 / scale))
        t += step
        if abs(step) * scale < 1e-12:
            break
    return t


tmle = Estimator(_scores, "targeted", debiased=True, of_means=True)
