"""What the summary says besides numbers: the Riesz representer's health, and what a reader should be careful about."""

from __future__ import annotations

import pandas as pd

from riesz.estimators import DEBIASED
from riesz.frame import ClusterLabels
from riesz.model import Model
from riesz.summary import number


def health_lines(health: pd.DataFrame, rows: int) -> list[str]:
    """The health of one Riesz representer in words."""
    row = health.iloc[0]
    return [
        f"Largest |rr| {row['largest_rr']:.3g}, effective sample size {row['effective_n']:,.0f} of {rows:,} rows.",
        f"E_n[rr * anchor] = {row['rr_anchor']:.4g}, known value {row['anchor_moment']:.4g} (they should agree).",
    ]


def health_table(health: pd.DataFrame) -> pd.DataFrame:
    """The health of several as a table of text."""
    table = pd.DataFrame(
        {
            "largest |rr|": [number(v, 2) for v in health["largest_rr"]],
            "effective n": [f"{v:,.0f}" for v in health["effective_n"]],
            "E_n[rr * anchor]": [number(v) for v in health["rr_anchor"]],
            "known value": [number(v) for v in health["anchor_moment"]],
        },
        index=health.index,
    )
    return table.rename_axis("Riesz representer", axis=1)


def remarks(
    model: Model, clusters: ClusterLabels, folds: int, health: pd.DataFrame | None, details: pd.DataFrame
) -> list[str]:
    """What a reader should be careful about.

    Parameters
    ----------
    model : Model
    clusters : ClusterLabels
    folds : int
    health : pandas.DataFrame or None
        Of the Riesz representers, one row a parameter; None when the learner learns none.
    details : pandas.DataFrame
        What the learner reports of each fit.
    """
    design = model.blueprint.design
    found = []
    if not model.learner.learns_rr:
        found.append(
            f"No standard error: {model.learner.describe(design.base.family)} learns mu alone. Without a Riesz representer the "
            "plug-in's bias is neither corrected nor known to be small against its sampling error. For an interval use another "
            "learner, such as learner='linear' or learner='madnet'."
        )
    elif model.estimator not in DEBIASED:
        found.append(f"The {model.estimator} estimator has no valid standard error; use estimator='dr' or 'tmle'.")
    if health is not None:
        gap = (health["rr_anchor"] / health["anchor_moment"] - 1).abs()
        if gap.max() > 0.1:
            found.append(
                f"The Riesz representer of {gap.idxmax()} misses a value it should have by {gap.max():.0%}: overlap is weak or the "
                "formula too rich for these rows. Distrust estimate and error."
            )
    few = [int(codes.max()) + 1 for codes in clusters.codes if codes.max() + 1 < 20]
    if few:
        found.append(f"Only {min(few)} clusters: normal intervals are then too short.")
    found += model.learner.remarks(design, details)
    if folds == 1:
        found.append("No sample splitting (folds=1): standard errors assume that the learner does not overfit.")
    return found
