"""The rows of a fit: the data, and what was learned about each row."""

from __future__ import annotations

import pandas as pd

from riesz.arrays import Array
from riesz.results.parts import FitParts


def augmented(parts: FitParts) -> pd.DataFrame:
    """The data with fitted values, residuals, folds, moments, rr and influence function; see ``Results.augment``."""
    predictions, names = parts.predictions, parts.names
    mu = predictions.mu.observed
    data = parts.data.assign(
        **{".fitted": mu, ".resid": parts.design.y - mu, ".fold": parts.crossfit.folds[0]},
        **_columns(".moment_", names, parts.design.apply(predictions.mu)),
    )
    if not parts.model.learner.learns_rr:
        return data
    return data.assign(
        **_columns(".rr_", names, predictions.rr.observed),
        **_columns(".influence_", names, parts.averaged.influence.T),
    )


def _columns(prefix: str, names: list[str], values: Array) -> dict[str, Array]:
    return {f"{prefix}{name}": column for name, column in zip(names, values, strict=True)}
