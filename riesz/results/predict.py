"""Predictions of a fit on new rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from riesz.crossfit.candidates import CrossFit
from riesz.crossfit.stacking import combine
from riesz.design.design import Design
from riesz.design.new_rows import extend
from riesz.predictions import Predictions, average, cap, times
from riesz.results.model import Model


def predict_rows(model: Model, crossfit: CrossFit, newdata: Any) -> pd.DataFrame:
    """Mu, m(mu), rr and the pseudo-outcome on new rows, averaged over folds and repeats; see ``Results.predict``."""
    rows = extend(model.recipe, model.blueprint, newdata)
    predictions = average([_one_repeat(crossfit, repeat, rows.design) for repeat in range(len(crossfit.folds))])
    mu, rr = predictions.mu.observed, predictions.rr.observed
    moment = rows.design.apply(predictions.mu)
    columns = {"mu": mu}
    for c, name in enumerate(model.exog_names):
        columns[f"moment_{name}"] = moment[c]
        if model.learner.learns_rr:
            columns |= {f"rr_{name}": rr[c], f"pseudo_{name}": moment[c] + rr[c] * (rows.y - mu)}
    table = pd.DataFrame(columns, index=np.flatnonzero(rows.complete))
    return table.reindex(np.arange(len(rows.complete))).set_axis(rows.index, axis=0)


def _one_repeat(crossfit: CrossFit, repeat: int, design: Design) -> Predictions:
    """The mean over the fits of one repeat, rescaled and trimmed as in the fit."""
    counts = [int(labels.max()) + 1 for labels in crossfit.folds]
    first = sum(counts[:repeat])
    means = [
        average([fit.predict(design) for fit in candidate.fits[first : first + counts[repeat]]])
        for candidate in crossfit.candidates
    ]
    mean = combine(means, crossfit.stacking[repeat], design) if crossfit.stacking else means[0]
    return cap(times(mean, crossfit.scales[repeat]), crossfit.caps[repeat])
