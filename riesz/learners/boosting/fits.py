"""Fitted boosting: from boosters to mu and rr at rows and readings, in memory and in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Linked
from riesz.families import find_family
from riesz.learners.base import Fit
from riesz.learners.boosting.points import Table, make_table
from riesz.learners.boosting.trees import Trees
from riesz.learners.known_signs import exponential
from riesz.learners.propensity.representer import arm_coefficients, arm_representer, linked_at_arms
from riesz.predictions import Predictions, join
from riesz.storage.coding import stored

_MOST_NUMBERS = 2**24  # of the points that are in memory at once
DERIVES = "riesz.Boosting(rr='propensity')"


class Forest(Protocol):
    """A booster, or its trees from a file."""

    def at(self, columns: Array) -> Array:
        """The value at points of shape (m, columns)."""

    def stored(self) -> Trees:
        """As plain arrays."""


Bag = Sequence[Forest]  # boosters of one function, which is their mean


def mean_of(bag: Bag, columns: Array) -> Array:
    """The mean of boosters at points of shape (m, columns)."""
    return np.asarray(np.mean([forest.at(columns) for forest in bag], axis=0))


def mean_outcome(bag: Bag, columns: Array, family: str) -> Array:
    """The mean of mu, such as a probability, of boosters of its index."""
    inverse = find_family(family).inverse
    return np.asarray(np.mean([inverse(forest.at(columns)) for forest in bag], axis=0))


@dataclass(frozen=True)
class BoostingFit(Fit):
    r"""Boosters of mu and rr.

    Attributes
    ----------
    mu : Bag
    rr : sequence of Bag, one per component
        They give beta_perp if ``constrained``.
    propensity : sequence of Bag, one per arm
        Logits of arms, if rr is derived from propensities; then ``rr`` is empty.
    family : str
        That of the outcome: ``mu`` gives its index.
    constrained : bool
    clip : float
    trees : mapping of str to float
        Their numbers, for :meth:`details`.
    levels : ndarray, shape (K, J), or None
        The best constant rr in each arm, if ``rr`` gives the logarithm of \|rr\| over its size, times its sign.
    most : ndarray, shape (K,), or None
        Largest size of rr, if its signs are known.
    """

    mu: Bag
    rr: Sequence[Bag]
    propensity: Sequence[Bag]
    family: str
    constrained: bool
    clip: float
    trees: Mapping[str, float]
    levels: Array | None = None
    most: Array | None = None

    def predict(self, design: Design) -> Predictions:
        if self.propensity:
            return self._predict(design)
        columns = (1 + len(design.is_derivative)) * (design.treatment.shape[1] + len(design.covariates))
        blocks = list(design.blocks(max(_MOST_NUMBERS // columns, 256)))
        return join(
            [self._predict(block) for _, block in blocks], [np.arange(len(design))[place] for place, _ in blocks]
        )

    def _predict(self, design: Design) -> Predictions:
        table = make_table(design)
        mu = table.read(mean_outcome(self.mu, table.columns, self.family))
        if self.propensity:
            return Predictions(mu, self._derived(design), scale_free=False)
        rr = self._linked(design, table)
        if self.constrained:
            beta = design.anchor
            rr = Linked(beta.observed - rr.observed, beta.values - rr.values, rr.slopes, rr.links)
        if self.levels is not None and self.most is not None:
            rr = exponential(rr, self.levels, self.most, design)
        return Predictions(mu, rr, scale_free=self.constrained)

    def _linked(self, design: Design, table: Table) -> Linked:
        """What the boosters of rr give at the rows and where their components read it."""
        links, rows = design.links, np.arange(len(design))
        observed = np.empty((len(self.rr), len(rows)))
        values = np.empty((len(links.reading), len(rows)))
        for component, bag in enumerate(self.rr):
            places = links.of(component)
            read = table.lines(rows)[table.of_reading[links.reading[places]]]
            # a row is usually at one of the points that are read, so that nothing is evaluated twice
            lines, where = np.unique(np.vstack([table.observed_lines(rows), read]), return_inverse=True)
            at = mean_of(bag, table.columns[lines])[where].reshape(-1, len(rows))
            observed[component], values[places] = at[0], at[1:]
        return Linked(observed, values, np.zeros_like(values), links)

    def _derived(self, design: Design) -> Linked:
        shares = np.stack([mean_outcome(bag, design.x, "binomial") for bag in self.propensity], axis=1)
        p = shares / shares.sum(axis=1, keepdims=True)
        coefficients = arm_coefficients(design.sample, DERIVES)[..., design.index]
        return linked_at_arms(arm_representer(coefficients, p, self.clip), design)

    def details(self) -> Mapping[str, float]:
        return self.trees

    def store(self) -> StoredBoosting:
        """The same fields, with trees as arrays."""
        mu, *others = (tuple(forest.stored() for forest in bag) for bag in (self.mu, *self.rr, *self.propensity))
        rr, propensity = tuple(others[: len(self.rr)]), tuple(others[len(self.rr) :])
        return StoredBoosting(
            mu, rr, propensity, self.family, self.constrained, self.clip, self.trees, self.levels, self.most
        )


@stored
@dataclass(frozen=True)
class StoredBoosting:
    """What a file holds of a :class:`BoostingFit`."""

    mu: tuple[Trees, ...]
    rr: tuple[tuple[Trees, ...], ...]
    propensity: tuple[tuple[Trees, ...], ...]
    family: str
    constrained: bool
    clip: float
    trees: Mapping[str, float]
    levels: Array | None = None
    most: Array | None = None

    def restore(self, sample: Design, form: str, clip: float) -> BoostingFit:
        """The fit; a ValueError if the content does not belong to the sample, or to this form of rr and this clip."""
        treatments, covariates = sample.treatment.shape[1], len(sample.covariates)
        derived = form == "propensity"
        arms = treatments + 1 if derived and sample.strata is not None else 0
        if len(self.rr) != (0 if derived else sample.components) or len(self.propensity) != arms:
            raise ValueError("trees for another representer")
        settings = (self.family, self.constrained, self.clip)
        if settings != (sample.family, form == "constrained", clip):
            raise ValueError("trees of other settings")
        if (self.levels is not None, self.most is not None) != (form == "entropy", form == "entropy"):
            raise ValueError("trees of other settings")
        if self.levels is not None and self.levels.shape not in (
            (sample.components, 1),
            (sample.components, treatments + 1),
        ):
            raise ValueError("trees for another representer")
        widths = {treatments + covariates: (self.mu, *self.rr), covariates: self.propensity}
        for width, bags in widths.items():
            if not all(bag and all(trees.width <= width for trees in bag) for bag in bags):
                raise ValueError("trees of another design")
        return BoostingFit(**{field.name: getattr(self, field.name) for field in fields(self)})
