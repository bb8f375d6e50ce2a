r"""The health of the Riesz representer: its heaviest rows, effective sample size, tail, and values known in advance.

Symbols: rr :math:`\alpha`, anchor :math:`\beta`, moment m with :math:`h(f) = E[m(f)]`. The Riesz representer satisfies
:math:`E[\alpha \beta] = h(\beta)` and :math:`E[\alpha^2] = h(\alpha)`; the sample analogues of both sides are shown. A row's
weight is its sampling weight times :math:`|\alpha|`; a row of frequency f counts as f rows. An rr that is learned for the errors
of a logit satisfies :math:`E[v \alpha \beta] = h(v \beta)` and :math:`E[v \alpha^2] = h(v \alpha)` instead, with
:math:`v = \mu (1 - \mu)` divided by its mean; then these are shown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array, ratio
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked
from riesz.inference import Clusters, Weights, variances
from riesz.predictions import Predictions, tilt

FEW = 10  # heavy rows are at most this many,
FEW_SHARE = 0.02  # and at most this share of all rows
MUCH = 0.2  # share of the weight that is too much for them; a normally distributed rr puts about 6% on 2% of the rows


def representer_health(predictions: Predictions, design: Design) -> pd.DataFrame:
    r"""Health of rr, one row per parameter.

    Returns
    -------
    pandas.DataFrame
        ``largest_rr`` largest absolute value; ``effective_n`` Kish's effective sample size of the weights
        :math:`w |\alpha|`; ``heavy_rows`` carry the share ``heavy_share`` of all weight: the heaviest rows that reach 20%, but
        at most ten (2% of a small sample); ``tail_index`` Hill's index of the largest weights (below 2 the variance is
        infinite); ``rr_anchor`` :math:`E_n[\alpha \beta]`; ``anchor_moment`` :math:`h_n(\beta)`, which it should equal;
        ``rr_length`` :math:`E_n[\alpha^2]`; ``rr_moment`` :math:`h_n(\alpha)`, which it should equal (and does by construction
        if rr was rescaled); ``riesz_loss`` :math:`E_n[\alpha^2 - 2 m(\alpha)]`, on rows that rr was not learned from: smaller
        is better.
    """
    rr, frequency = predictions.rr.observed, design.frequency
    anchor, alpha = _tilted(predictions, design)
    pull = design.weights / frequency * np.abs(rr)
    heavy = [concentration(weight, frequency, MUCH) for weight in pull]
    length, moment = design.mean(rr * alpha.observed), design.mean(design.apply(alpha))
    return pd.DataFrame(
        {
            "largest_rr": np.abs(rr).max(axis=1),
            "effective_n": ratio((pull @ frequency) ** 2, pull**2 @ frequency, otherwise=0.0),
            "heavy_rows": [rows for rows, _ in heavy],
            "heavy_share": [share for _, share in heavy],
            "tail_index": [tail_index(weight, frequency) for weight in pull],
            "rr_anchor": design.mean(rr * anchor.observed),
            "anchor_moment": design.mean(design.apply(anchor)),
            "rr_length": length,
            "rr_moment": moment,
            "riesz_loss": length - 2 * moment,
        }
    )


def with_anchor_errors(
    health: pd.DataFrame, predictions: Predictions, design: Design, weights: Weights, clusters: Clusters
) -> pd.DataFrame:
    """The table with ``anchor_std_error``, the standard error of ``rr_anchor - anchor_moment`` with rr taken as given."""
    anchor, _ = _tilted(predictions, design)
    gap = predictions.rr.observed * anchor.observed - design.apply(anchor)
    gap -= design.mean(gap)[:, None]
    table = health.copy()
    errors = np.sqrt(variances(gap.T, weights, clusters))
    table.insert(table.columns.get_loc("anchor_moment") + 1, "anchor_std_error", errors)
    return table


def learned_scale(predictions: Predictions, design: Design, weights: Weights, clusters: Clusters) -> pd.DataFrame:
    r"""The scale of rr, :math:`s = h_n(\alpha) / E_n[\alpha^2]`, which is one for the true Riesz representer and after rescaling.

    Returns
    -------
    pandas.DataFrame
        One row per parameter: ``scale`` and ``std_error``, with rr taken as given.
    """
    rr = predictions.rr.observed
    _, alpha = _tilted(predictions, design)
    square, moment = rr * alpha.observed, design.apply(alpha)
    length = design.mean(square)
    scale = ratio(design.mean(moment), length, otherwise=1.0)
    gap = ratio(moment - scale[:, None] * square, length[:, None], otherwise=0.0)
    return pd.DataFrame({"scale": scale, "std_error": np.sqrt(variances(gap.T, weights, clusters))})


def _tilted(predictions: Predictions, design: Design) -> tuple[Linked, Linked]:
    """The anchor and rr, both multiplied by v if rr is learned for the errors of a logit."""
    v = tilt(predictions, design)
    if v is None:
        return design.anchor, predictions.rr
    return design.anchor.times(v), predictions.rr.times(v)


def concentration(pull: Array, frequency: Array, much: float) -> tuple[int, float]:
    """The smallest number of heavy rows with the share ``much`` of all weight, at most a few rows, and their share."""
    few = int(min(FEW, np.ceil(FEW_SHARE * frequency.sum())))
    order = np.argsort(-pull, kind="stable")[:few]
    ranked = np.repeat(pull[order], np.minimum(frequency[order], few).astype(int))[:few]
    shares = ratio(np.cumsum(ranked), float(pull @ frequency), otherwise=0.0)
    rows = min(int(np.searchsorted(shares, much)), len(shares) - 1)
    return rows + 1, float(shares[rows])


def tail_index(pull: Array, frequency: Array) -> float:
    r"""Hill's estimate of the tail index, from the largest :math:`\sqrt n` weights; infinite if they are all equal.

    .. math:: \hat a = k \Big/ \sum_{i \le k} \log (x_{(i)} / x_{(k + 1)})

    NaN with fewer than 50 rows.
    """
    count = float(frequency.sum())
    k = int(np.sqrt(count))
    if count < 50:
        return np.nan
    order = np.argsort(-pull, kind="stable")
    reached = np.cumsum(frequency[order])
    threshold = pull[order[np.searchsorted(reached, k + 1)]]
    if threshold <= 0:
        return np.nan
    counted = np.diff(np.minimum(reached, k), prepend=0.0)  # how many of the k largest rows each row represents
    excess = float(counted @ np.log(np.maximum(pull[order], threshold) / threshold))
    return k / excess if excess > 0 else np.inf


def weighting_origin(predictions: Sequence[Predictions], design: Design) -> pd.DataFrame:
    r"""How weighting depends on a constant in y: adding c to the outcome adds :math:`c\, E_n[\alpha]` to :math:`E_n[\alpha y]`.

    The estimand itself changes by :math:`c\, h_n(1)`. If y is centred at its mean and the mean's contribution is added back,
    weighting gives :math:`E_n[\alpha (y - \bar y)] + \bar y\, h_n(1)`.

    Parameters
    ----------
    predictions : sequence of Predictions
        One per repeat.
    design : Design
        The full sample.

    Returns
    -------
    pandas.DataFrame
        One row per parameter, in the estimate's units, medians over repeats: ``rr_mean`` and ``constant_moment``, which the true
        representer makes equal; ``shift``, their difference times the mean outcome; ``centred``, weighting with y centred.
    """
    size = design.mean(design.normalizer)
    shape = (len(design.is_derivative), len(design))
    constant_moment = (
        design.mean(design.apply(Evaluation(np.ones(len(design)), np.ones(shape), np.zeros(shape)))) / size
    )
    centre = float(design.mean(design.y))
    means = np.stack([design.mean(repeat.rr.observed) / size for repeat in predictions])
    centred = np.stack([design.mean(repeat.rr.observed * (design.y - centre)) / size for repeat in predictions])
    mean = np.median(means, axis=0)
    return pd.DataFrame(
        {
            "rr_mean": mean,
            "constant_moment": constant_moment,
            "shift": (mean - constant_moment) * centre,
            "centred": np.median(centred, axis=0) + centre * constant_moment,
        }
    )


def representer_by_fold(
    predictions: Sequence[Predictions],
    scales: Array,
    design: Design,
    folds: npt.NDArray[np.intp],
    names: Sequence[str],
) -> pd.DataFrame:
    r"""The Riesz loss and the constraint on the rows that each fold held out.

    A moment-constrained learner gives :math:`r = \beta - \beta_\perp` with :math:`h(\beta_\perp) = 0` on its training rows, and
    rr is r times a scale. The violation on the rows k is :math:`h_k(\beta_\perp) / h_k(\beta)`; for a closed form it includes the
    part of the anchor that the formula's columns cannot represent. For an rr that is learned with its scale,
    :math:`\beta_\perp = \beta - \alpha\, h_n(\beta) / E_n[\alpha^2]`, the scale that the identities of the true rr imply.

    Parameters
    ----------
    predictions : sequence of Predictions
        One per repeat.
    scales : ndarray, shape (repeats, K)
        Factor of a scale-free r.
    design : Design
        The full sample.
    folds : ndarray of int, shape (repeats, n)
    names : sequence of str, length K

    Returns
    -------
    pandas.DataFrame
        ``parameter, repeat, fold, riesz_loss, violation``; fold ``"all"`` is the whole repeat.
    """
    lines = []
    for number, (repeat, factor, labels) in enumerate(zip(predictions, scales, folds, strict=True), start=1):
        beta, alpha = _tilted(repeat, design)
        numbers = np.unique(labels)
        parts = ["all", *(int(k) + 1 for k in numbers)]
        weights = np.stack([design.weights, *(design.weights * (labels == k) for k in numbers)], axis=1)
        shares = weights / weights.sum(axis=0)
        square = (repeat.rr.observed * alpha.observed) @ shares
        moment, anchor = design.apply(alpha) @ shares, design.apply(beta) @ shares
        scale = factor if repeat.scale_free else square[:, 0] / anchor[:, 0]
        loss, violation = square - 2 * moment, 1 - ratio(ratio(moment, scale[:, None]), anchor)
        lines += [
            (name, number, part, loss[c, place], violation[c, place])
            for place, part in enumerate(parts)
            for c, name in enumerate(names)
        ]
    return pd.DataFrame(lines, columns=["parameter", "repeat", "fold", "riesz_loss", "violation"])
