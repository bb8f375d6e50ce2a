"""The plug-in estimator: h_n(mu)."""

from __future__ import annotations

import numpy as np

from riesz.design.design import Design
from riesz.estimators.base import Estimator, Scores
from riesz.predictions import Predictions


def _scores(predictions: Predictions, design: Design) -> Scores:
    values = design.apply(predictions.mu)
    return Scores(values, np.zeros_like(values))


direct = Estimator(_scores, "plug-in", debiased=False, needs_rr=False)
