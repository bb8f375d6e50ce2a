"""Which features there are on a sample: inputs, their products with the treatment, products of covariates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from riesz.arrays import Array
from riesz.design.derived import as_outcome
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.inputs.evaluation_points import EvaluationPoints
from riesz.learners.inputs.expansions import Role
from riesz.learners.splines.features import (
    NONE,
    Factors,
    Features,
    Numbers,
    Shares,
    evaluate,
    evaluate_observed,
    factors_observed,
    joined,
    pairs,
    singles,
)

MOST_FEATURES = 1000  # larger sets are not tried
Pairs = list[tuple[int, int]]  # of covariates, by number

_BENDS = 2  # of a covariate, whose products with another's line are features


@dataclass(frozen=True)
class Sample:
    """Rows that closed forms are solved on.

    Attributes
    ----------
    design : Design
    points : EvaluationPoints
        Of the design's rows.
    shares : Shares
    seed : int
        Of the rows that are left out in turn, if there are many.
    observed_only : bool
        Whether features are needed at the rows alone, not at their readings: in regressions on covariates.
    known_factors : Factors, optional
        :attr:`at_rows`, if they were computed before.
    """

    design: Design
    points: EvaluationPoints
    shares: Shares
    seed: int
    observed_only: bool = False
    known_factors: Factors | None = None

    @cached_property
    def at_rows(self) -> Factors:
        """Inputs and shares at the rows, from which features are made many times."""
        return self.known_factors or factors_observed(self.points, self.shares)

    def without_readings(self) -> Sample:
        """The same rows without their readings."""
        return replace(self, observed_only=True, known_factors=self.at_rows)

    def take(self, rows: Numbers) -> Sample:
        """Some of the rows, for a regression on covariates."""
        design, points, factors = self.design.take(rows), self.points.take(rows), self.at_rows.take(rows)
        return replace(self, design=design, points=points, observed_only=True, known_factors=factors)

    def membership(self, arm: int) -> Sample:
        """The rows with membership in an arm as the outcome."""
        assert self.design.strata is not None
        member = (self.design.strata == arm).astype(float)
        return replace(self.without_readings(), design=as_outcome(self.design, member))

    def pool(self, features: Features) -> Pool:
        """Features with their values on these rows."""
        if self.observed_only:
            return Pool(features, evaluate_observed(features, self.at_rows, len(self.points.of_reading)))
        return Pool(features, evaluate(features, self.shares, self.points, self.design))


@dataclass(frozen=True)
class Pool:
    """Features with their values, shape (F, n), on the rows of a sample."""

    features: Features
    phi: Evaluation

    def take(self, which: Numbers | slice) -> Pool:
        """Some of the features."""
        return Pool(self.features.take(which), self.phi.map(lambda values: _take(values, which)))

    def joined(self, other: Pool) -> Pool:
        """The features of both."""
        left, right = self.phi, other.phi
        phi = Evaluation(
            np.concatenate([left.observed, right.observed]),
            _joined(left.values, right.values),
            _joined(left.slopes, right.slopes),
        )
        return Pool(joined([self.features, other.features]), phi)


@dataclass(frozen=True)
class FeaturesOf:
    """Features of a sample's rows, in the place of a pool where the values of all of them are not needed."""

    features: Features
    sample: Sample

    def take(self, which: Numbers | slice) -> Pool:
        """Some of the features, with their values."""
        return self.sample.pool(self.features.take(which))


def _take(values: Array, which: Numbers | slice) -> Array:
    """Some rows of an array. One that has the same value everywhere, and takes no memory, stays so."""
    if any(values.strides) or not values.size:
        return np.asarray(values[which])
    count = np.arange(len(values))[which].size
    return np.broadcast_to(values[(0,) * values.ndim], (count, *values.shape[1:]))


def _joined(first: Array, second: Array) -> Array:
    """Two arrays as one. Two that have the same value everywhere, and take no memory, become one of that kind."""
    if first.size and second.size and not any(first.strides) and not any(second.strides):
        return np.broadcast_to(first[(0,) * first.ndim], (len(first) + len(second), *first.shape[1:]))
    return np.concatenate([first, second])


def level(share: int = NONE) -> Features:
    """A constant, or a share by itself."""
    no_input = np.array([NONE])
    return Features(no_input, no_input, np.array([share]))


def all_features(sample: Sample) -> Features:
    """All inputs and their products with the treatment's columns; fewer if they are too many."""
    points, shares = sample.points, len(sample.shares.centre)
    inputs = np.flatnonzero(points.roles != Role.STEP)
    lines = points.roles[inputs] == Role.LINE
    factors = np.ones(len(inputs), dtype=bool) if sample.design.strata is None else points.sources[inputs] >= 0
    for main, product in (
        (np.ones_like(lines), factors),
        (np.ones_like(lines), factors & lines),
        (lines, factors & lines),
    ):
        if main.sum() + shares * product.sum() <= MOST_FEATURES:
            break
    else:
        main, product = lines, np.zeros_like(lines)
    return joined([singles(inputs[main]), *(singles(inputs[product]).times(share) for share in range(shares))])


def covariate_features(sample: Sample) -> Features:
    """The level and all inputs made from covariates but steps."""
    points = sample.points
    of_covariates = (points.sources >= 0) & (points.roles != Role.STEP)
    if of_covariates.sum() > MOST_FEATURES:
        of_covariates &= points.roles == Role.LINE
    return joined([level(), singles(np.flatnonzero(of_covariates))])


def plain_sets(features: Features, points: EvaluationPoints) -> Iterator[Numbers]:
    """Lines, and lines with their products with the treatment, as numbers of features."""
    line = (features.first != NONE) & (np.append(points.roles, NONE)[features.first] == Role.LINE)
    alone = features.share == NONE
    yield np.flatnonzero(line & alone)
    if not alone[line].all():
        yield np.flatnonzero(line)


def interactions(sample: Sample, strength: Array, features: Features, strongest: int, screened: Pairs) -> Features:
    """Products of covariates' inputs, and their products with the treatment's columns.

    Parameters
    ----------
    sample : Sample
    strength : ndarray, shape (F,)
        How much each feature contributes.
    features : Features
    strongest : int
        Number of covariates, the strongest ones, whose products with each other are among them.
    screened : list of pairs of int
        Further pairs of covariates.
    """
    points, shares = sample.points, varying_shares(sample)
    sources = np.append(points.sources, NONE)[features.first]
    by_source = np.bincount(sources + 1, strength, minlength=1)[1:]
    order = [int(j) for j in np.argsort(-by_source, kind="stable")[:strongest] if by_source[j] > 0]
    of_strongest = [(min(j, k), max(j, k)) for place, j in enumerate(order) for k in order[place + 1 :]]
    inputs = [pair for j, k in dict.fromkeys([*screened, *of_strongest]) for pair in _products_of(points, j, k)]
    inputs = inputs[: max(MOST_FEATURES - len(features), 0) // (1 + shares)]
    products = pairs([left for left, _ in inputs], [right for _, right in inputs])
    return joined([products, *(products.times(share) for share in range(shares))])


def varying_shares(sample: Sample) -> int:
    """Number of the treatment's columns if the treatment varies on the rows, otherwise zero."""
    return len(sample.shares.centre) if np.ptp(sample.design.treatment, axis=0).any() else 0


def _products_of(points: EvaluationPoints, first: int, second: int) -> list[tuple[int, int]]:
    """Line by line of two covariates, and the line of each with the first bends of the other."""
    lines, bends = [], []
    for source in (first, second):
        inputs = np.flatnonzero(points.sources == source)
        roles = points.roles[inputs]
        lines.append(int(inputs[roles == Role.LINE][0]))
        bends.append(inputs[roles == Role.BEND][:_BENDS].tolist())
    left, right = lines
    return [(left, right), *((left, bend) for bend in bends[1]), *((bend, right) for bend in bends[0])]


def arms_of(sample: Sample, fewest: int) -> list[Numbers] | None:
    """The positions of each arm's rows; None without arms, or if an arm has fewer rows."""
    if sample.shares.arms is None:
        return None
    treatment = sample.design.treatment
    rows = [np.flatnonzero((treatment == arm).all(axis=1)) for arm in sample.shares.arms]
    return rows if min(map(len, rows)) >= fewest else None


def moment_rows(design: Design, phi: Evaluation, component: int) -> Array:
    """The moment of each feature, shape (F, n)."""
    places = design.links.of(component)
    readings = design.links.reading[places]
    read = np.where(design.is_derivative[readings, None], phi.slopes[:, readings], phi.values[:, readings])
    return np.asarray(np.einsum("frn,rn->fn", read, design.link_weights[places]))
