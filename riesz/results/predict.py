"""Predictions of a fit on new rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from riesz.crossfit.calibration import apply
from riesz.crossfit.candidates import CrossFit
from riesz.crossfit.stacking import combine
from riesz.design.design import Design
from riesz.design.new_rows import extend
from riesz.families import find_family
from riesz.learners import Fit
from riesz.predictions import Predictions, average, cap, times
from riesz.results.model import Model


def predict_rows(model: Model, crossfit: CrossFit, newdata: Any) -> pd.DataFrame:
    """Mu, m(mu), rr and the pseudo-outcome on new rows, averaged over folds and repeats; see ``Results.predict``."""
    rows = extend(model.recipe, model.blueprint, newdata)
    predictions = average(_predict(crossfit, rows.design))
    mu, rr = predictions.mu.observed, predictions.rr.observed
    moment = rows.design.apply(predictions.mu)
    errors = find_family(rows.design.family).errors(rows.y, mu)
    columns = {"mu": mu}
    for c, name in enumerate(model.exog_names):
        columns[f"moment_{name}"] = moment[c]
        if model.learner.learns_rr:
            columns |= {f"rr_{name}": rr[c], f"pseudo_{name}": moment[c] + rr[c] * errors}
    table = pd.DataFrame(columns, index=np.flatnonzero(rows.complete))
    return table.reindex(np.arange(len(rows.complete))).set_axis(rows.index, axis=0)


def _predict(crossfit: CrossFit, design: Design) -> list[Predictions]:
    """Predictions as in ``crossfit.predictions``: combined, rescaled and trimmed as in the fit."""
    ends = np.cumsum([int(labels.max()) + 1 for labels in crossfit.folds])
    starts = [0, *ends[:-1]]

    def mean(fits: Sequence[Fit], repeat: int) -> Predictions:
        return average([fit.predict(design) for fit in fits[starts[repeat] : ends[repeat]]])

    if crossfit.stacking:
        combined = [
            combine([mean(c.fits, r) for c in crossfit.candidates for r in crossfit.combined(place)], stacking, design)
            for place, stacking in enumerate(crossfit.stacking)
        ]
    else:
        combined = [mean(crossfit.fits, repeat) for repeat in range(len(ends))]
    scaled = [times(predictions, scale) for predictions, scale in zip(combined, crossfit.scales, strict=True)]
    if crossfit.calibration:
        scaled = [apply(p, calibration, design) for p, calibration in zip(scaled, crossfit.calibration, strict=True)]
    return [cap(predictions, most) for predictions, most in zip(scaled, crossfit.caps, strict=True)]
