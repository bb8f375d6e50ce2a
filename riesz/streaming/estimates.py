"""Estimates and covariances from the sums of the last pass: the same as :func:`riesz.inference.infer` computes from rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from riesz.arrays import Array, ratio
from riesz.estimators import ESTIMATORS
from riesz.streaming.score_pass import PARTS, ScoreSums


@dataclass(frozen=True)
class StreamedEstimate:
    """The estimates by one estimator.

    Attributes
    ----------
    value : ndarray, shape (K,)
    covariance : ndarray, shape (K, K)
        NaN if the estimator has no valid standard error.
    """

    value: Array
    covariance: Array


@dataclass(frozen=True)
class Combination:
    """One number per row and parameter: coefficients of the parts, each of shape (K,)."""

    parts: Mapping[str, Array]


def scales_from_sums(sums: ScoreSums, scale_free: bool) -> Array:
    """The factor of a scale-free rr, shape (K,), as in :func:`riesz.predictions.scales`."""
    mean = _means(sums)
    if not scale_free:
        return np.ones(len(mean["square"]))
    return ratio(mean["rr_moment"], mean["square"], otherwise=1.0)


def estimate_from_sums(sums: ScoreSums, estimator: str, scale: Array, target: str) -> StreamedEstimate:
    """The estimates by one estimator and their covariance.

    Parameters
    ----------
    sums : ScoreSums
    estimator : {"dr", "tmle", "direct", "ipw"}
    scale : ndarray, shape (K,)
    target : {"population", "sample"}
    """
    mean = _means(sums)
    score, residual = _score(estimator, mean, scale)
    normalizer = mean["normalizer"]
    value = sum(c * mean[part] for part, c in score.parts.items()) / normalizer
    if not ESTIMATORS[estimator].debiased:
        return StreamedEstimate(value, np.full((len(value), len(value)), np.nan))
    varying = residual
    if target == "population":
        varying = Combination({**score.parts, "normalizer": -value})
    divided = Combination({part: c / normalizer for part, c in varying.parts.items()})
    return StreamedEstimate(value, covariance_from_sums(sums, divided))


def covariance_from_sums(sums: ScoreSums, varying: Combination, centred: bool = False) -> Array:
    """The covariance matrix of the means of combinations, shape (K, K); ``centred`` subtracts their means first."""
    mean = _means(sums)
    components = len(mean["square"])
    coefficients = np.zeros((1 + len(sums.origin), components))
    for part, c in varying.parts.items():
        start = PARTS.index(part) * components
        for component in range(components):
            coefficients[1 + start + component, component] = c[component]
    average = sum(c * mean[part] for part, c in varying.parts.items())
    coefficients[0] = sums.origin @ coefficients[1:] - (average if centred else 0.0)
    count = sums.frequency
    return np.asarray(count / (count - 1) * (coefficients.T @ sums.products @ coefficients) / sums.weight**2)


def health_from_sums(sums: ScoreSums, scale: Array, names: list[str]) -> pd.DataFrame:
    """What sums tell about the health of rr, as in ``Results.diagnostics()``, one row per parameter."""
    mean = _means(sums)
    gap = Combination({"anchor": scale, "anchor_moment": -np.ones(len(scale))})
    squares = scale**2 * sums.squares
    return pd.DataFrame(
        {
            "largest_rr": np.abs(scale) * sums.largest,
            "effective_n": ratio((scale * sums.size) ** 2, squares, otherwise=0.0),
            "rr_anchor": scale * mean["anchor"],
            "anchor_moment": mean["anchor_moment"],
            "anchor_std_error": np.sqrt(np.diag(covariance_from_sums(sums, gap, centred=True))),
            "rr_length": scale**2 * mean["square"],
            "rr_moment": scale * mean["rr_moment"],
        },
        index=names,
    )


def _means(sums: ScoreSums) -> dict[str, Array]:
    """The weighted mean of every part, each of shape (K,)."""
    means = (sums.origin + sums.first / sums.weight).reshape(len(PARTS), -1)
    return dict(zip(PARTS, means, strict=True))


def _score(estimator: str, mean: Mapping[str, Array], s: Array) -> tuple[Combination, Combination]:
    """The scores of an estimator and their residual part."""
    one = np.ones(len(s))
    if estimator == "direct":
        return Combination({"plug_in": one}), Combination({})
    if estimator == "ipw":
        return Combination({"weighted": s}), Combination({"weighted": s})
    if estimator == "dr":
        return Combination({"plug_in": one, "residual": s}), Combination({"residual": s})
    t = ratio(s * mean["residual"], s**2 * mean["square"], otherwise=0.0)
    residual = {"residual": s, "square": -t * s**2}
    return Combination({"plug_in": one, "rr_moment": t * s, **residual}), Combination(residual)
