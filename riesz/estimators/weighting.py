"""The weighting estimator: E_n[rr y]."""

from __future__ import annotations

from riesz.design.design import Design
from riesz.estimators.base import Estimator, Scores
from riesz.predictions import Predictions


def _scores(predictions: Predictions, design: Design) -> Scores:
    values = predictions.rr.observed * design.y
    return Scores(values, values)


ipw = Estimator(_scores, "weighting", debiased=False, weighs=True, of_means=True)
