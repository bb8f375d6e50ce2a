"""Which features there are on a sample: inputs, their products with the treatment, products of the strongest covariates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.inputs.evaluation_points import EvaluationPoints
from riesz.learners.inputs.expansions import Role
from riesz.learners.splines.features import NONE, Features, Numbers, Shares, evaluate, joined, pairs, singles

MOST_FEATURES = 1000  # larger lists are passed over
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
    """

    design: Design
    points: EvaluationPoints
    shares: Shares
    seed: int

    def take(self, rows: Numbers) -> Sample:
        """Some of the rows."""
        return replace(self, design=self.design.take(rows), points=self.points.take(rows))

    def pool(self, features: Features) -> Pool:
        """Features with their values on these rows."""
        return Pool(features, evaluate(features, self.shares, self.points, self.design))


@dataclass(frozen=True)
class Pool:
    """Features with their values, shape (F, n), on the rows of a sample."""

    features: Features
    phi: Evaluation

    def take(self, which: Numbers) -> Pool:
        """Some of the features."""
        return Pool(self.features.take(which), self.phi.map(lambda values: values[which]))

    def joined(self, other: Pool) -> Pool:
        """The features of both."""
        here, there = self.phi, other.phi
        phi = Evaluation(
            np.concatenate([here.observed, there.observed]),
            np.concatenate([here.values, there.values]),
            np.concatenate([here.slopes, there.slopes]),
        )
        return Pool(joined([self.features, other.features]), phi)


def level(share: int = NONE) -> Features:
    """A constant, or a share by itself."""
    nothing = np.array([NONE])
    return Features(nothing, nothing, np.array([share]))


def everything(sample: Sample) -> Features:
    """All inputs and their products with the treatment's columns; fewer if they are too many."""
    points, shares = sample.points, len(sample.shares.centre)
    inputs = np.arange(len(points.roles))
    lines = points.roles == Role.LINE
    factors = np.ones(len(inputs), dtype=bool) if sample.design.strata is None else points.sources >= 0
    for main, product in ((lines | True, factors), (lines | True, factors & lines), (lines, factors & lines)):
        if main.sum() + shares * product.sum() <= MOST_FEATURES:
            break
    else:
        main, product = lines, np.zeros_like(lines)
    return joined([singles(inputs[main]), *(singles(inputs[product]).times(share) for share in range(shares))])


def plain_sets(features: Features, points: EvaluationPoints) -> Iterator[Numbers]:
    """Lines, and lines with their products with the treatment, as numbers of features."""
    line = (features.first != NONE) & (np.append(points.roles, NONE)[features.first] == Role.LINE)
    alone = features.share == NONE
    yield np.flatnonzero(line & alone)
    if not alone[line].all():
        yield np.flatnonzero(line)


def interactions(sample: Sample, strength: Array, features: Features, strongest: int) -> Features:
    """Products of the strongest covariates' inputs, and their products with the treatment's columns.

    Parameters
    ----------
    sample : Sample
    strength : ndarray, shape (F,)
        How much each feature contributes.
    features : Features
    strongest : int
        Number of covariates.
    """
    points = sample.points
    sources = np.append(points.sources, NONE)[features.first]
    by_source = np.bincount(sources + 1, strength, minlength=1)[1:]
    order = [int(j) for j in np.argsort(-by_source, kind="stable")[:strongest] if by_source[j] > 0]
    both = [
        both
        for place, one in enumerate(order)
        for other in order[place + 1 :]
        for both in _products_of(points, min(one, other), max(one, other))
    ]
    products = pairs([left for left, _ in both], [right for _, right in both])
    return joined([products, *(products.times(share) for share in range(_treatments(sample)))])


def _treatments(sample: Sample) -> int:
    """Number of the treatment's columns that vary on the rows."""
    return len(sample.shares.centre) if np.ptp(sample.design.treatment, axis=0).any() else 0


def _products_of(points: EvaluationPoints, one: int, other: int) -> list[tuple[int, int]]:
    """Line by line of two covariates, and the line of each with the first bends of the other."""
    lines, bends = [], []
    for source in (one, other):
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
