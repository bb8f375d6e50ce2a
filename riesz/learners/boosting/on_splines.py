r"""Boosting for slopes: splines carry the slope, and trees of the covariates learn what the splines leave.

A tree is a step function, whose slope is zero or does not exist. So for a moment that reads derivatives along the treatment,

.. math:: \mu(a, x) = s(a, x) + t(x), \qquad rr(a, x) \propto a - g(x),

with s from :class:`~riesz.Splines`. The trees t are boosted by the squared error of y - s (or the loss of an index, such as the
cross-entropy of a logit, that starts from that of s), with s from splines that have not seen the row: what is left of rows that
they have seen is too small. The trees g are boosted by the squared error of the treatment. With normal errors of constant variance
rr is a multiple of the treatment's residual; otherwise the residual still removes every error of mu in the covariates, and a stack
can weigh it with an rr that follows the errors' distribution.

Where the moment moves the treatment by different amounts in different rows, as in an incremental policy effect, rr is that of the
splines plus trees of the covariates h, boosted by the Riesz loss :math:`E_n[(r + h)^2 - 2 m(h)]`. A derivative along the treatment
is zero for h, so only values that the moment reads count in m(h).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.crossfit.folds import Labels
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked
from riesz.families import find_family
from riesz.learners.base import Fit
from riesz.learners.boosting.engine import Grown, Growth, subset
from riesz.learners.boosting.fits import Bag, mean_of
from riesz.learners.boosting.losses import index_loss, least_hessian
from riesz.learners.boosting.training import descend, draw_parts, quadratics, split
from riesz.learners.boosting.trees import Trees
from riesz.learners.inputs.evaluation_points import changes_covariates
from riesz.learners.parts import parts_of_rows
from riesz.learners.splines.learner import Prepared, SplinesFit
from riesz.predictions import Predictions, join, scales, times
from riesz.storage.coding import stored

_MORE_RR = 1.25  # trees of rr relative to the number that is best on held-out rows, as for the Riesz loss alone
_PARTS = 3  # of the training rows; splines are fitted without each in turn, and trees learn what these leave of it
_FEWEST = 150  # training rows; with fewer, trees learn what is left of rows that the splines have seen


@dataclass(frozen=True)
class OnSplinesFit(Fit):
    """Splines, and trees of the covariates.

    Attributes
    ----------
    splines : SplinesFit
    scales : ndarray, shape (K,)
        What the r of the splines are multiplied by.
    mu : Bag
        Trees that are added to mu, or to its index.
    rr : sequence of Bag, one per component
        Trees that are added to rr; none for a component whose rr is the treatment's residual.
    mean : Bag
        Trees of the treatment's mean g; empty if no rr is the treatment's residual.
    family : str
        That of the outcome.
    trees : mapping of str to float
        Their numbers, for :meth:`details`.
    """

    splines: SplinesFit
    scales: Array
    mu: Bag
    rr: Sequence[Bag]
    mean: Bag
    family: str
    trees: Mapping[str, float]

    def predict(self, design: Design) -> Predictions:
        start, x = times(self.splines.predict(design), self.scales), design.x
        mu = _add(start.mu, mean_of(self.mu, x), self.family)
        rr, links = start.rr, start.rr.links
        h = np.stack([mean_of(bag, x) if bag else np.zeros(len(x)) for bag in self.rr])
        observed, values, slopes = rr.observed + h, rr.values + h[links.component], rr.slopes
        if self.mean:
            e, slopes = _residual(design, mean_of(self.mean, x)), slopes.copy()
            for component, bag in enumerate(self.rr):
                if not bag:
                    places = links.of(component)
                    observed[component], read = e.observed, links.reading[places]
                    values[places], slopes[places] = e.values[read], e.slopes[read]
        return Predictions(mu, Linked(observed, values, slopes, links), scale_free=True)

    def details(self) -> Mapping[str, float]:
        return {**self.splines.details(), **self.trees}

    def store(self) -> StoredOnSplines:
        """The same fields, with trees as arrays."""
        mu, mean, *rr = (tuple(forest.stored() for forest in bag) for bag in (self.mu, self.mean, *self.rr))
        return StoredOnSplines(self.splines, self.scales, mu, tuple(rr), self.family, self.trees, mean)


@stored
@dataclass(frozen=True)
class StoredOnSplines:
    """What a file holds of an :class:`OnSplinesFit`."""

    splines: SplinesFit
    scales: Array
    mu: tuple[Trees, ...]
    rr: tuple[tuple[Trees, ...], ...]
    family: str
    trees: Mapping[str, float]
    mean: tuple[Trees, ...] = ()

    def restore(self, sample: Design, form: str, clip: float) -> OnSplinesFit:
        """The fit; a ValueError if the content does not belong to the sample."""
        if len(self.rr) != sample.components or self.scales.shape != (sample.components,):
            raise ValueError("trees for another representer")
        if self.family != sample.family:
            raise ValueError("trees of other settings")
        if len(self.splines.expansions.covariates) != len(sample.covariates):
            raise ValueError("splines of another design")
        if not self.mu or not all(bag or self.mean for bag in self.rr):
            raise ValueError("a function without trees")
        if not all(trees.width <= len(sample.covariates) for bag in (self.mu, self.mean, *self.rr) for trees in bag):
            raise ValueError("trees of another design")
        return OnSplinesFit(self.splines, self.scales, self.mu, self.rr, self.mean, self.family, self.trees)


def suits(design: Design) -> bool:
    """Whether a moment with derivatives moves nothing but the treatment."""
    return not any(changes_covariates(design, reading) for reading in design.readings())


def fit_on_splines(
    design: Design, prepared: Prepared, data: Any, seed: int, boosters: int, growth: Growth
) -> OnSplinesFit:
    """Boost what splines leave.

    Parameters
    ----------
    design : Design
        Its rows in ascending order.
    prepared : Prepared
        Splines of the whole sample.
    data : object
        LightGBM's data of the whole sample's covariates.
    seed : int
    boosters : int
    growth : Growth
        Of trees of mu.
    """
    of_residual = _moves_alike(design)
    if of_residual.all():
        prepared = prepared.outcome_alone()
    splines, rows = prepared.fit(design, seed), subset(data, design.index)
    start = splines.predict(design)
    factors = scales(start, design)
    start = times(_left_out(design, prepared, seed) or start, factors)
    trainer = _Trainer(design, rows, draw_parts(design, seed), seed, boosters, growth)
    mu = trainer.outcome(start.mu.observed)
    mean = trainer.gaussian(design.treatment[:, 0]) if of_residual.any() else []
    values = np.where(design.is_derivative[design.links.reading, None], 0.0, design.link_weights)
    rr: list[list[Grown]] = []
    for component, r in enumerate(start.rr.observed):
        moment = values[design.links.of(component)].sum(axis=0)
        rr.append([] if of_residual[component] else trainer.representer(moment, r))
    bags: list[tuple[str, Sequence[Grown]]] = [
        ("mu_trees", mu),
        ("mean_trees", mean),
        *((f"rr_trees_{c}", bag) for c, bag in enumerate(rr)),
    ]
    trees = {name: float(bag[0].trees) for name, bag in bags if bag}
    return OnSplinesFit(splines, factors, mu, rr, mean, design.family, trees)


def _left_out(design: Design, prepared: Prepared, seed: int) -> Predictions | None:
    """Predictions of splines that have not seen the row; None with few rows."""
    if len(design) < _FEWEST:
        return None
    labels = parts_of_rows(design, _PARTS, [seed, 1])
    places = [np.flatnonzero(labels == part) for part in range(_PARTS)]
    fits = [prepared.fit(design.take(np.flatnonzero(labels != part)), seed) for part in range(_PARTS)]
    return join([fit.predict(design.take(place)) for fit, place in zip(fits, places, strict=True)], places)


def _moves_alike(design: Design) -> npt.NDArray[np.bool_]:
    """Whether each component's moment moves the treatment, a number, by the same amount in all rows, shape (K,)."""
    if design.strata is not None or design.treatment.shape[1] != 1:
        return np.zeros(design.components, dtype=bool)
    moved = design.apply(_residual(design, np.zeros(len(design))))
    return np.asarray(np.ptp(moved, axis=1) <= 1e-9 * np.abs(moved).max(axis=1), dtype=bool)


def _residual(design: Design, mean: Array) -> Evaluation:
    """The treatment minus a function of the covariates."""
    readings = design.readings()
    values = np.stack([reading.treatment[:, 0] for reading in readings])
    slopes = np.stack([np.full(len(design), reading.treatment_slope) for reading in readings])
    return Evaluation(design.treatment[:, 0] - mean, values - mean, slopes * design.is_derivative[:, None])


@dataclass(frozen=True)
class _Trainer:
    """Boosts functions of the covariates on one training set; ``data`` are LightGBM's of its rows."""

    design: Design
    data: Any
    parts: Labels
    seed: int
    boosters: int
    growth: Growth

    @property
    def _weights(self) -> Array:
        return np.asarray(self.design.weights / self.design.weights.mean())

    def outcome(self, start: Array) -> list[Grown]:
        """What is added to mu, or to its index."""
        y, name = self.design.y, self.design.family
        family = find_family(name)
        if family.identity:
            return self.gaussian(y - start, centred=False)
        offset = family.link(family.clip(start))
        least = self.growth.with_least(least_hessian(name, y, self._weights, self.growth.least))
        halves = split(self._weights, self.parts, self.boosters)
        return descend(self.data, [index_loss(name, y, kept, held, offset) for kept, held in halves], least, self.seed)

    def gaussian(self, target: Array, centred: bool = True) -> list[Grown]:
        """A regression by squared error, from the target's mean or from zero."""
        w = self._weights
        mean = float(np.average(target, weights=w)) if centred else 0.0
        spread = float(np.sqrt(np.average((target - mean) ** 2, weights=w))) or 1.0
        losses = quadratics(w, w * (target - mean) / spread, self.parts, self.boosters)
        return [grown.scaled(mean, spread) for grown in descend(self.data, losses, self.growth, self.seed)]

    def representer(self, moment: Array, start: Array) -> list[Grown]:
        """What is added to rr."""
        losses = quadratics(self._weights, self._weights * (moment - start), self.parts, self.boosters)
        return descend(self.data, losses, replace(self.growth, more=_MORE_RR), self.seed)


def _add(start: Evaluation, trees: Array, name: str) -> Evaluation:
    """A function plus trees of the covariates: mu, or its index."""
    family = find_family(name)
    if family.identity:
        return Evaluation(start.observed + trees, start.values + trees, start.slopes)
    observed, values = family.clip(start.observed), family.clip(start.values)
    moved = family.inverse(family.link(values) + trees)
    slopes = start.slopes / family.slope(values) * family.slope(moved)
    return Evaluation(family.inverse(family.link(observed) + trees), moved, slopes)
