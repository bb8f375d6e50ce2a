r"""Boosting for slopes: splines carry the slope, and trees of the covariates learn what the splines leave.

A tree is a step function, whose slope is zero or does not exist. So for a moment that reads derivatives along the treatment,

.. math:: \mu(a, x) = s(a, x) + g(x), \qquad \alpha(a, x) = r(a, x) + h(x),

with s and r from :class:`~riesz.Splines`, and g and h boosted: g by the squared error of y - s (or the cross-entropy of a logit or
logarithm that starts from that of s), h by the Riesz loss :math:`E_n[(r + h)^2 - 2 m(h)]`. A derivative along the treatment is zero
for h, so only values that the moment reads count in m(h). The trees find jumps and interactions of the covariates; how the slope
varies with them is left to the splines. The splines are fitted to all training rows, also to those that trees hold out, so that the
number of trees is decided on what is left of rows that the splines have seen; they have few parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked
from riesz.families import find_family
from riesz.learners.base import Fit
from riesz.learners.boosting.engine import Growth, subset
from riesz.learners.boosting.fits import Bag, mean_of
from riesz.learners.boosting.losses import index_loss, least_hessian
from riesz.learners.boosting.training import descend, draw_parts, quadratics, split
from riesz.learners.boosting.trees import Trees
from riesz.learners.inputs.evaluation_points import changes_covariates
from riesz.learners.splines.learner import SplinesFit
from riesz.predictions import Predictions, scales, times
from riesz.storage.coding import stored

_MORE_RR = 1.25  # trees of rr relative to the number that is best on held-out rows, as for the Riesz loss alone


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
    family : str
    trees : mapping of str to float
        Their numbers, for :meth:`details`.
    """

    splines: SplinesFit
    scales: Array
    mu: Bag
    rr: Sequence[Bag]
    family: str
    trees: Mapping[str, float]

    def predict(self, design: Design) -> Predictions:
        start, x = times(self.splines.predict(design), self.scales), design.x
        mu = _add(start.mu, mean_of(self.mu, x), self.family)
        h = np.stack([mean_of(bag, x) for bag in self.rr])
        rr = start.rr
        both = Linked(rr.observed + h, rr.values + h[rr.links.component], rr.slopes, rr.links)
        return Predictions(mu, both, scale_free=True)

    def details(self) -> Mapping[str, float]:
        return {**self.splines.details(), **self.trees}

    def store(self) -> StoredOnSplines:
        """The same fields, with trees as arrays."""
        mu, *rr = (tuple(forest.stored() for forest in bag) for bag in (self.mu, *self.rr))
        return StoredOnSplines(self.splines, self.scales, mu, tuple(rr), self.family, self.trees)


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

    def restore(self, sample: Design, form: str, clip: float) -> OnSplinesFit:
        """The fit; a ValueError if the content does not belong to the sample."""
        if len(self.rr) != sample.components or self.scales.shape != (sample.components,):
            raise ValueError("trees for another representer")
        if self.family != sample.family:
            raise ValueError("trees of other settings")
        if len(self.splines.expansions.covariates) != len(sample.covariates):
            raise ValueError("splines of another design")
        if not all(bag and all(trees.width <= len(sample.covariates) for trees in bag) for bag in (self.mu, *self.rr)):
            raise ValueError("trees of another design")
        return OnSplinesFit(self.splines, self.scales, self.mu, self.rr, self.family, self.trees)


def suits(design: Design) -> bool:
    """Whether a moment with derivatives moves nothing but the treatment."""
    return not any(changes_covariates(design, reading) for reading in design.readings())


def fit_on_splines(
    design: Design, splines: SplinesFit, data: Any, seed: int, boosters: int, growth: Growth
) -> OnSplinesFit:
    """Boost what splines leave.

    Parameters
    ----------
    design : Design
        Its rows in ascending order.
    splines : SplinesFit
        Fitted to these rows.
    data : object
        LightGBM's data of the whole sample's covariates.
    seed : int
    boosters : int
    growth : Growth
        Of trees of mu.
    """
    parts, weights = draw_parts(design, seed), design.weights / design.weights.mean()
    rows = subset(data, design.index)
    start = splines.predict(design)
    factors = scales(start, design)
    start = times(start, factors)
    if not (family := find_family(design.family)).identity:
        offset = family.link(family.clip(start.mu.observed))
        least = growth.with_least(least_hessian(design.family, design.y, weights, growth.least))
        halves = split(weights, parts, boosters)
        mu = descend(rows, [index_loss(design.family, design.y, *half, offset) for half in halves], least, seed)
    else:
        residuals = design.y - start.mu.observed
        spread = float(np.sqrt(np.average(residuals**2, weights=weights))) or 1.0
        losses = quadratics(weights, weights * residuals / spread, parts, boosters)
        mu = [grown.scaled(0.0, spread) for grown in descend(rows, losses, growth, seed)]
    values = np.where(design.is_derivative[design.links.reading, None], 0.0, design.link_weights)
    rr = []
    for component, r in enumerate(start.rr.observed):
        moment = values[design.links.of(component)].sum(axis=0)
        losses = quadratics(weights, weights * (moment - r), parts, boosters)
        rr.append(descend(rows, losses, replace(growth, more=_MORE_RR), seed))
    numbers = {"mu_trees": mu[0].trees, **{f"rr_trees_{c}": bag[0].trees for c, bag in enumerate(rr)}}
    trees = {name: float(number) for name, number in numbers.items()}
    return OnSplinesFit(splines, factors, mu, rr, design.family, trees)


def _add(start: Evaluation, trees: Array, name: str) -> Evaluation:
    """A function plus trees of the covariates: mu, or its index."""
    family = find_family(name)
    if family.identity:
        return Evaluation(start.observed + trees, start.values + trees, start.slopes)
    observed, values = family.clip(start.observed), family.clip(start.values)
    moved = family.inverse(family.link(values) + trees)
    slopes = start.slopes / family.slope(values) * family.slope(moved)
    return Evaluation(family.inverse(family.link(observed) + trees), moved, slopes)
