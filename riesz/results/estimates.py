"""Tables of estimates: all estimators of a fit side by side, and what trimming changed."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from riesz.arrays import Array
from riesz.estimators import ESTIMATORS
from riesz.results.parts import FitParts

_TRIMMING = ["cap", "share", "untrimmed", "untrimmed_std_error", "estimate", "std_error", "change"]


def available_estimators(parts: FitParts) -> list[str]:
    """Names of the estimators that the learner allows: only those without rr if it learns only mu."""
    learns_rr = parts.model.learner.learns_rr
    return [name for name, estimator in ESTIMATORS.items() if learns_rr or not estimator.needs_rr]


def estimator_table(parts: FitParts) -> pd.DataFrame:
    """Estimates by every estimator, indexed by parameter and estimator, with standard errors and 95% intervals."""
    names, pieces = available_estimators(parts), []
    for name in names:
        value, error = _estimates_by(name, parts)
        half = stats.norm.isf(0.025) * error
        columns = {"estimate": value, "std_error": error, "conf_low": value - half, "conf_high": value + half}
        index = pd.MultiIndex.from_product([parts.names, [name]], names=["parameter", "estimator"])
        pieces.append(pd.DataFrame(columns, index=index))
    table = pd.concat(pieces)
    return table.reindex(pd.MultiIndex.from_product([parts.names, names], names=table.index.names))


def _estimates_by(estimator: str, parts: FitParts) -> tuple[Array, Array]:
    """Estimates and standard errors by one estimator; its scores are not kept, unless they are those of the fit."""
    is_that_of_fit = estimator == parts.model.settings.estimator
    inference = parts.inference if is_that_of_fit else parts.infer(estimator, parts.crossfit.predictions)
    return inference.value, inference.errors()


def trimming_table(parts: FitParts) -> pd.DataFrame:
    """The caps, the share of rows they change, and the estimates without and with them; empty without trimming."""
    if parts.model.settings.trimming is None:
        return pd.DataFrame(columns=_TRIMMING, dtype=float)
    crossfit, design = parts.crossfit, parts.design
    untrimmed = parts.infer(parts.model.settings.estimator, crossfit.untrimmed)
    capped = [
        design.mean(np.abs(repeat.rr.observed) > cap[:, None])
        for repeat, cap in zip(crossfit.untrimmed, crossfit.caps, strict=True)
    ]
    value, errors = parts.inference.value, parts.inference.errors()
    columns = [crossfit.caps.mean(axis=0), np.mean(capped, axis=0), untrimmed.value, untrimmed.errors()]
    columns += [value, errors, value - untrimmed.value]
    return pd.DataFrame(dict(zip(_TRIMMING, columns, strict=True)), index=parts.names)
