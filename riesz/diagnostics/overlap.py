r"""The propensity that rr implies, for a treatment with two arms.

Where the moment reads mu at both arms with weights that depend on the treatment through the normalizer alone,
:math:`m(f) = \nu(A) \{c_1(X) f(1, X) + c_0(X) f(0, X)\}`, the Riesz representer of arm a is

.. math:: \alpha(a, x) = c_a(x)\, E[\nu \mid x] / P(A = a \mid x),

so that rr at a row implies :math:`p(x) = P(A = 1 \mid x)`: with :math:`\nu = 1` through :math:`P(a|x) = c_a / \alpha`; with
:math:`\nu = A` (effect on the treated) through the odds :math:`\alpha / c_0 = p / (1-p)` of the controls; with :math:`\nu = 1 - A`
through :math:`\alpha / c_1 = (1 - p) / p` of the treated. A learned rr may imply a p outside
[0, 1]; the share of such rows is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.predictions import Predictions, tilt

EXTREME = 0.05  # a propensity this close to 0 or 1 is counted as extreme


@dataclass(frozen=True)
class Overlap:
    """The implied propensity.

    Attributes
    ----------
    rows : pandas.DataFrame
        ``parameter``, ``arm`` and ``propensity`` of being in the second arm, for every row from which it can be recovered; the
        index is that of the data. A representer of the wrong sign, or too small, implies a propensity outside [0, 1], which is
        shown unchanged.
    summary : pandas.DataFrame
        One row per parameter and arm: the number of ``rows`` with a propensity, its 1%, 50% and 99% quantiles,
        ``share_outside`` of [0, 1], and ``share_extreme`` within 0.05 of 0 or 1.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
    >>> riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear").overlap()
    Propensity implied by the Riesz representer
                   rows      1%     50%     99%  share_outside  share_extreme
    parameter arm
    ATE       1     510  0.3256  0.5292  1.0173         0.0118         0.0078
              0     490  0.0660  0.4821  0.7044         0.0041         0.0041
    """

    rows: pd.DataFrame
    summary: pd.DataFrame

    def __repr__(self) -> str:
        return f"Propensity implied by the Riesz representer\n{self.summary.round(4).to_string()}"

    def _repr_html_(self) -> str:
        return f"<div>Propensity implied by the Riesz representer</div>{self.summary.round(4).to_html()}"


def implied_propensity(predictions: Predictions, design: Design) -> Array:
    """The propensity of the second arm that rr implies at each row, shape (K, n); NaN where it cannot be recovered."""
    arm = design.strata
    assert arm is not None
    propensity = np.full(predictions.rr.observed.shape, np.nan)
    for c, rr in enumerate(predictions.rr.observed):
        weight = np.stack([_arm_weight(design, c, j) for j in (0, 1)])
        normalizer = design.normalizer[c]
        with np.errstate(divide="ignore", invalid="ignore"):
            if (normalizer == 1).all():
                at_arm = weight[arm, np.arange(len(arm))]
                share = np.where(at_arm == 0, np.nan, at_arm / rr)
                propensity[c] = np.where(arm == 1, share, 1 - share)
            elif np.array_equal(normalizer, arm == 1):
                odds = rr / _constant(weight[0], arm == 1)
                propensity[c] = np.where(arm == 0, odds / (1 + odds), np.nan)
            elif np.array_equal(normalizer, arm == 0):
                odds = rr / _constant(weight[1], arm == 0)
                propensity[c] = np.where(arm == 1, 1 / (1 + odds), np.nan)
    return propensity


def share_outside(predictions: Predictions, design: Design, names: Sequence[str]) -> pd.Series:
    """The share of rows whose implied propensity is outside [0, 1], for each parameter that has one.

    For an rr that is learned for the errors of a logit, rows are weighted by v = mu (1 - mu), the variance of those errors.
    """
    v = tilt(predictions, design)
    weights = np.ones(len(design)) if v is None else v.observed
    shares = {}
    for name, p in zip(names, implied_propensity(predictions, design), strict=True):
        recovered = ~np.isnan(p)
        if weights[recovered].sum() > 0:
            outside = (p[recovered] < 0) | (p[recovered] > 1)
            shares[name] = float(weights[recovered] @ outside / weights[recovered].sum())
    return pd.Series(shares, dtype=float)


def _arm_weight(design: Design, component: int, arm: int) -> Array:
    """The weight of mu at an arm in the moment, shape (n,); NaN if a reading does more than set the arm."""
    total = np.zeros(len(design))
    target = design.treatment[design.strata == arm][0]
    readings, links, weights = design.readings(), design.links, design.link_weights
    for place in links.of(component):
        weight, point = weights[place], readings[links.reading[place]]
        if not weight.any():
            continue
        moves_more = np.isin(design.covariates, point.columns).any() or point.tangents is not None
        at_target = (point.treatment == target).all(axis=1)
        if moves_more or not (at_target.all() or (point.treatment == point.treatment[0]).all()):
            return np.full(len(design), np.nan)
        total += np.where(at_target, weight, 0.0)
    return total


def _constant(weight: Array, rows: npt.NDArray[np.bool_]) -> float:
    """The weight of these rows if it is the same for all, else NaN."""
    values = weight[rows]
    return float(values[0]) if np.ptp(values) == 0 else np.nan


def overlap(
    predictions: Predictions, design: Design, index: pd.Index, names: Sequence[str], arms: Sequence[str]
) -> Overlap:
    """The implied propensity per row, and its summary.

    Parameters
    ----------
    predictions : Predictions
    design : Design
        The full sample, with two arms.
    index : pandas.Index
        Labels of the rows.
    names : sequence of str, length K
    arms : sequence of str, length 2
    """
    strata = design.strata
    assert strata is not None
    frames = [
        pd.DataFrame({"parameter": name, "arm": np.asarray(arms)[strata], "propensity": p}, index=index)
        for name, p in zip(names, implied_propensity(predictions, design), strict=True)
    ]
    rows = pd.concat(frames)
    rows = rows[rows["propensity"].notna()]
    grouped = rows.groupby(["parameter", "arm"], sort=False)["propensity"]
    p = rows["propensity"]
    shares = rows.assign(outside=(p < 0) | (p > 1), extreme=p.between(0, EXTREME) | p.between(1 - EXTREME, 1))
    share = shares.groupby(["parameter", "arm"], sort=False)[["outside", "extreme"]].mean()
    summary = pd.DataFrame(
        {
            "rows": grouped.size(),
            "1%": grouped.quantile(0.01),
            "50%": grouped.quantile(0.5),
            "99%": grouped.quantile(0.99),
            "share_outside": share["outside"],
            "share_extreme": share["extreme"],
        }
    )
    return Overlap(rows, summary)
