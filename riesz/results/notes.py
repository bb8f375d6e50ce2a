"""The notes of a summary: the health of the Riesz representer, and what a reader should be careful about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.errors import listing
from riesz.estimators import ESTIMATORS
from riesz.families import find_family
from riesz.results.model import Model
from riesz.results.summary_table import number


def _weighted(tilted: bool, family: str) -> str:
    """What is averaged to find the anchor's moment."""
    if not find_family(family).is_mean:
        return "K_b(y - q) * rr * anchor"
    return "v * rr * anchor" if tilted else "rr * anchor"


def health_lines(health: pd.DataFrame, rows: int, tilted: bool, family: str) -> list[str]:
    """The health of one Riesz representer in words; ``tilted`` if it is learned for the errors of an index in this family."""
    row = health.iloc[0]
    error = f" (std err {row['anchor_std_error']:.2g})" if np.isfinite(row["anchor_std_error"]) else ""
    slope = find_family(family).slope_words
    condition = f" for v = {slope} / E_n[{slope}]" if tilted else ""
    product = f"E_n[{_weighted(tilted, family)}]"
    return [
        f"Largest |rr| {row['largest_rr']:.3g}, effective sample size {row['effective_n']:,.0f} of {rows:,} rows.",
        f"{product} = {row['rr_anchor']:.4g}{error}, known value {row['anchor_moment']:.4g}{condition} (they should "
        "agree).",
    ]


def health_table(health: pd.DataFrame, tilted: bool, family: str) -> pd.DataFrame:
    """The health of several Riesz representers, as a table of text."""
    table = pd.DataFrame(
        {
            "largest |rr|": [number(v, 2) for v in health["largest_rr"]],
            "effective n": [f"{v:,.0f}" for v in health["effective_n"]],
            f"E_n[{_weighted(tilted, family)}]": [number(v) for v in health["rr_anchor"]],
            "std err": [number(v) for v in health["anchor_std_error"]],
            "known value": [number(v) for v in health["anchor_moment"]],
        },
        index=health.index,
    )
    return table.rename_axis("Riesz representer", axis=1)


def about_estimator(model: Model) -> list[str]:
    """The reason why there is no standard error, if there is none."""
    if not model.learner.learns_rr:
        return [
            f"No standard error: {model.learner.describe(model.blueprint.design.family)} learns mu alone. Without a Riesz "
            "representer the bias of the plug-in is neither corrected nor known to be small relative to its sampling error. For an "
            "interval use another learner, such as learner='linear' or learner='madnet'."
        ]
    if not ESTIMATORS[model.settings.estimator].debiased:
        return [f"The {model.settings.estimator} estimator has no valid standard error; use estimator='dr' or 'tmle'."]
    return []


def about_two_way(replaced: npt.NDArray[np.bool_], indefinite: bool, names: Sequence[str]) -> list[str]:
    """The note on a two-way clustered variance that is not positive in some repeat: what is used instead.

    Parameters
    ----------
    replaced : ndarray of bool, shape (K,)
        The parameters whose variance was replaced.
    indefinite : bool
        Whether the variance of any contrast of the parameters was replaced.
    names : sequence of str, length K
    """
    if not indefinite:
        return []
    affected = [name for name, is_replaced in zip(names, replaced, strict=True) if is_replaced]
    affected_names = listing(affected) if affected else f"some contrasts of {listing(names)}"
    return [
        f"The two-way clustered variance V1 + V2 - V12 is not positive for {affected_names}, as happens with few clusters; the "
        "larger one-way clustered variance is used instead. Read these standard errors with care."
    ]


def about_quantile(family: str) -> list[str]:
    """What the parameter is if mu is a quantile, and what the estimate rests on; nothing if it is a mean."""
    tau = find_family(family).quantile
    if tau is None:
        return []
    return [
        f"mu is the conditional {tau:g} quantile of the outcome. The parameter averages conditional quantiles; it is not "
        "the quantile treatment effect, which compares quantiles of two marginal distributions.",
        "The estimate is not doubly robust: the quantile must be learned well (its error must fall faster than n^-1/4), however "
        "good rr is. There is no tmle and no ipw.",
    ]


def about_tilt(family: str) -> list[str]:
    """The reason why there is no ipw if rr is learned for the errors of an index, such as a logit."""
    of = find_family(family)
    return [
        f"No ipw: with family={family!r} this learner learns rr to correct the errors of its {of.index}, v f with "
        f"v = {of.slope_words}. E_n[v rr f] equals h_n(v f), but E_n[rr y] does not estimate the parameter."
    ]


def about_weighting(origin: pd.DataFrame, errors: pd.Series) -> list[str]:
    """The note on an ipw that adding a constant to y would change by more than a standard error.

    Parameters
    ----------
    origin : pandas.DataFrame
        From :func:`~riesz.diagnostics.weights.weighting_origin`, one row per parameter.
    errors : pandas.Series
        Standard errors of the estimates.
    """
    large = origin[origin["shift"].abs() > errors]
    if large.empty:
        return []
    first = large.loc[large["shift"].abs().div(errors[large.index]).idxmax()]
    several = len(origin) > 1
    centred = [(f"{name} " if several else "") + number(row["centred"]) for name, row in large.iterrows()]
    of_parameter = f" of {first.name}" if several else ""
    return [
        f"ipw, E_n[rr y], changes if a constant is added to y: E_n[rr]{of_parameter} is {number(first['rr_mean'])}, expected "
        f"{round(first['constant_moment'], 6):g}. With y centred at its mean, ipw is {', '.join(centred)}."
    ]


def about_trimming(trimming: pd.DataFrame) -> list[str]:
    """What trimming did to each parameter."""
    return [
        f"Trimming caps |rr| of {name} at {row['cap']:.3g} on {row['share']:.2%} of the rows and moves the estimate from "
        f"{number(row['untrimmed'])} to {number(row['estimate'])}."
        for name, row in trimming.iterrows()
    ]


def about_splitting(folds: int) -> list[str]:
    """The note on a fit without sample splitting."""
    return (
        ["No sample splitting (folds=1): standard errors assume that the learner does not overfit."]
        if folds == 1
        else []
    )
