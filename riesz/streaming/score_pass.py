r"""The last pass: sums of the parts of all scores, from which estimates and covariances of every estimator follow.

Every score is a combination of a few parts, with coefficients that are known only after all rows have been seen (the scale s of rr
and the fluctuation t of TMLE):

.. math:: m(\mu), \quad r (y - \mu), \quad r^2, \quad m(r), \quad r y, \quad n, \quad r \beta, \quad m(\beta).

Their sums and their sums of products, around the means of the first chunk, are all that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.learners.base import Fit
from riesz.sources.designs import Plan
from riesz.sources.rows import RowReader

#: The parts, in the order of the module's docstring.
PARTS = ("plug_in", "residual", "square", "rr_moment", "weighted", "normalizer", "anchor", "anchor_moment")


@dataclass
class ScoreSums:
    """Sums over all rows; part p of component c has the place ``p * K + c``.

    Attributes
    ----------
    origin : ndarray, shape (8K,)
        What is subtracted from the parts.
    weight : float
        Sum of the weights.
    frequency : float
        Sum of the frequencies.
    first : ndarray, shape (8K,)
        Weighted sums of the parts.
    products : ndarray, shape (1 + 8K, 1 + 8K)
        Sums of products of 1 and the parts, weighted by frequency times the square of the sampling weight.
    size : ndarray, shape (K,)
        Weighted sums of |rr|.
    squares : ndarray, shape (K,)
        Sums of rr squared, weighted as the products.
    largest : ndarray, shape (K,)
        Largest |rr|.
    """

    origin: Array
    weight: float
    frequency: float
    first: Array
    products: Array
    size: Array
    squares: Array
    largest: Array

    @classmethod
    def zero(cls, origin: Array, components: int) -> ScoreSums:
        """The sums of no rows."""
        k = len(origin)
        each = np.zeros(components)
        return cls(origin, 0.0, 0.0, np.zeros(k), np.zeros((k + 1, k + 1)), each.copy(), each.copy(), each.copy())

    def add(self, parts: Array, rr: Array, design: Design) -> None:
        """Add rows: parts of shape (8K, n) and rr of shape (K, n)."""
        weights, frequency = design.weights, design.frequency
        squared = weights**2 / frequency
        gap = parts - self.origin[:, None]
        self.weight += float(weights.sum())
        self.frequency += float(frequency.sum())
        self.first += gap @ weights
        with_one = np.vstack([np.ones(gap.shape[1]), gap]) * np.sqrt(squared)
        self.products += with_one @ with_one.T
        self.size += np.abs(rr) @ weights
        self.squares += rr**2 @ squared
        self.largest = np.maximum(self.largest, np.abs(rr).max(axis=1))


def score_pass(reader: RowReader, plan: Plan, fits: Sequence[Fit]) -> ScoreSums:
    """Predict every row by the fit that was not trained on it, and add up the parts of its scores."""
    sums: ScoreSums | None = None
    for rows in reader.chunks():
        if rows.frame.empty:
            continue
        labels = plan.facts.folds(rows)
        design = plan.design(rows)
        for fold, fit in enumerate(fits):
            place = np.flatnonzero(labels == fold)
            if not place.size:
                continue
            held_out = design.take(place)
            parts, rr = _parts(fit, held_out)
            if sums is None:
                sums = ScoreSums.zero(parts.mean(axis=1), held_out.components)
            sums.add(parts, rr, held_out)
    assert sums is not None  # the first pass found rows
    return sums


def _parts(fit: Fit, design: Design) -> tuple[Array, Array]:
    """The parts of the scores, shape (8K, n), and rr, shape (K, n)."""
    predictions = fit.predict(design)
    mu, rr, y = predictions.mu, predictions.rr.observed, design.y
    parts = (
        design.apply(mu),
        rr * (y - mu.observed),
        rr**2,
        design.apply(predictions.rr),
        rr * y,
        design.normalizer,
        rr * design.anchor.observed,
        design.apply(design.anchor),
    )
    return np.concatenate(parts), rr
