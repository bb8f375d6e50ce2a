"""The one-step estimator: the plug-in plus E_n[rr (y - mu)] (paper, equation 2), or E_n[rr (tau - 1{y <= q})] for a quantile q."""

from __future__ import annotations

from riesz.design.design import Design
from riesz.estimators.base import Estimator, Scores
from riesz.predictions import Predictions


def _scores(predictions: Predictions, design: Design) -> Scores:
    residuals = predictions.rr.observed * design.errors(predictions.mu.observed)
    return Scores(design.apply(predictions.mu) + residuals, residuals)


dr = Estimator(_scores, "one-step", debiased=True)
