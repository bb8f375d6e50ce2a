"""From a training set to boosters of mu, rr, beta_perp or propensities.

Each function is learned by several boosters, each without one part of the training rows, which it holds out to decide on the number
of trees. A row is held out together with its readings and its cluster. All rows of a training set share one set of bins; held-out
rows have no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.density import at_density
from riesz.design.design import Design
from riesz.families import find_family
from riesz.learners.boosting.constrained import Anchored, ConstrainedDescent
from riesz.learners.boosting.engine import Course, Descent, Grown, Growth, boost, make_dataset, subset
from riesz.learners.boosting.entropy import Entropy, EntropyDescent
from riesz.learners.boosting.fits import Bag, mean_of
from riesz.learners.boosting.losses import DENSITY, Logistic, LogLink, Pinball, Quadratic, index_loss, least_hessian
from riesz.learners.boosting.points import Table, make_table
from riesz.learners.parts import parts_of_rows

Labels = npt.NDArray[np.intp]
AnyLoss = Quadratic | Logistic | LogLink | Pinball

PARTS = 10  # a booster holds out one of them


@dataclass(frozen=True)
class Sample:
    """What the folds of a sample share: its points, in bins.

    Attributes
    ----------
    table : Table
    points : object
        LightGBM's data of the table.
    covariates : object or None
        Those of the covariates alone, if there is a propensity to learn.
    """

    table: Table
    points: Any
    covariates: Any


def make_sample(design: Design, propensity: bool) -> Sample:
    """Points and bins of a whole sample."""
    table = make_table(design)
    return Sample(table, make_dataset(table.columns), make_dataset(design.x) if propensity else None)


def draw_parts(design: Design, seed: int) -> Labels:
    """The part of each row, shape (n,): arms are spread evenly, and clusters are kept whole if there are two or more."""
    return parts_of_rows(design, PARTS, seed, fewest_clusters=2)


def split(values: Array, parts: Labels, boosters: int) -> list[tuple[Array, Array]]:
    """Values for each booster: those it learns from, and those it holds out, the rows of its part; zero at the others."""
    held = [parts == part for part in range(boosters)]
    return [(np.where(out, 0.0, values), np.where(out, values, 0.0)) for out in held]


def quadratics(curvature: Array, slope: Array, parts: Labels, boosters: int) -> list[Quadratic]:
    """The quadratic loss of each booster."""
    halves = zip(split(curvature, parts, boosters), split(slope, parts, boosters), strict=True)
    return [Quadratic(q, b, held_q, held_b) for (q, held_q), (b, held_b) in halves]


def descend(data: Any, losses: Sequence[AnyLoss], growth: Growth, seed: int) -> list[Grown]:
    """Boost one loss per booster, side by side."""
    courses: list[Course] = [Descent(data, loss, growth, seed + part) for part, loss in enumerate(losses)]
    return boost(courses, growth)


class Trainer:
    """Learns functions from one training set.

    Parameters
    ----------
    design : Design
        Its rows in ascending order.
    sample : Sample
    seed : int
    boosters : int
        Boosters per function, at most :data:`PARTS`.

    density : ndarray, shape (n,), optional
        What the Riesz loss weighs squares by; by default one.
    """

    def __init__(self, design: Design, sample: Sample, seed: int, boosters: int, density: Array | None = None) -> None:
        self._design, self._sample, self._seed = design, sample, seed
        self._parts, self._boosters = draw_parts(design, seed), boosters
        self._weights = design.weights / design.weights.mean()
        self._level = 1.0 if density is None else float(np.average(density, weights=design.weights))
        self._density = 1.0 if density is None else density / self._level
        self._place = np.zeros(
            len(sample.table.observed), dtype=np.intp
        )  # of each row of the sample in the training set
        self._place[design.index] = np.arange(len(design))

    def outcome(self, growth: Growth) -> list[Grown]:
        """Boosters of mu, or of its index."""
        lines = np.sort(self._sample.table.observed_lines(self._design.index))
        rows, data = self._rows_of(lines), subset(self._sample.points, lines)
        y, w = self._design.y[rows], self._weights[rows]
        if not find_family(family := self._design.family).identity:
            return self._indices(family, data, rows, y, growth)
        mean = float(np.average(y, weights=w))  # LightGBM counts in single precision
        spread = float(np.sqrt(np.average((y - mean) ** 2, weights=w))) or 1.0
        losses: Sequence[AnyLoss] = self._quadratics(rows, w, w * (y - mean) / spread)
        if not find_family(family).is_mean:
            losses = [Pinball(family, (y - mean) / spread, kept, held) for kept, held in self._split(w, rows)]
            growth = growth.with_least(DENSITY * growth.least)
        return [booster.scaled(mean, spread) for booster in self._descend(data, losses, growth)]

    def weighted_by_density(self, quantile: Bag) -> Trainer:
        """A trainer for the representer of a quantile, given its boosters."""
        table, design = self._sample.table, self._design
        q = mean_of(quantile, table.columns[table.observed_lines(design.index)])
        density = at_density(design, q).observed
        return Trainer(design, self._sample, self._seed, self._boosters, density)

    def representer(self, component: int, growth: Growth) -> list[Grown]:
        """Boosters of rr by the Riesz loss."""
        lines, curvature, slope = self._moment(component)
        losses = self._quadratics(self._rows_of(lines), curvature, slope)
        grown = self._descend(subset(self._sample.points, lines), losses, growth)
        return grown if self._level == 1.0 else [booster.scaled(0.0, 1.0 / self._level) for booster in grown]

    def logarithm(self, component: int, levels: Array, growth: Growth) -> list[Grown]:
        """Boosters of rr by the Kullback-Leibler loss, from its best constants in each arm, shape (J,)."""
        lines, curvature, slope = self._moment(component)
        level = np.broadcast_to(levels if len(levels) == 1 else levels[self._sample.table.arms[lines]], len(lines))
        sums = self._quadratics(self._rows_of(lines), np.abs(np.sign(level)) * curvature, slope)
        data = subset(self._sample.points, lines)
        courses = [EntropyDescent(data, Entropy(level, part), growth, self._seed + j) for j, part in enumerate(sums)]
        return boost(courses, growth)

    def perpendicular(self, component: int, growth: Growth) -> list[Grown]:
        """Boosters of beta_perp."""
        lines, curvature, slope = self._moment(component)
        anchor, beta = np.zeros(len(self._sample.table.columns)), self._design.anchor
        anchor[self._sample.table.observed_lines(self._design.index)] = beta.observed[component]
        moments = self._weights * self._design.apply(beta)[component]
        data = subset(self._sample.points, lines)
        courses = []
        for part, loss in enumerate(self._quadratics(self._rows_of(lines), curvature, slope)):
            held = float(moments[self._parts == part].sum())
            problem = Anchored(loss, anchor[lines], float(moments.sum()) - held, held)
            courses.append(ConstrainedDescent(data, problem, growth, self._seed + part))
        return boost(courses, growth)

    def propensities(self, growth: Growth) -> list[list[Grown]]:
        """Boosters of the logit of each arm against all others, given the covariates."""
        rows, strata = np.arange(len(self._design)), self._design.strata
        assert strata is not None
        data, arms = subset(self._sample.covariates, self._design.index), self._design.treatment.shape[1] + 1
        return [self._indices("binomial", data, rows, (strata == arm).astype(float), growth) for arm in range(arms)]

    def _descend(self, data: Any, losses: Sequence[AnyLoss], growth: Growth) -> list[Grown]:
        return descend(data, losses, growth, self._seed)

    def _indices(self, family: str, data: Any, rows: Labels, outcome: Array, growth: Growth) -> list[Grown]:
        """Boosters of an index, such as a logit."""
        weights = self._weights[rows]
        losses = [index_loss(family, outcome, kept, held) for kept, held in self._split(weights, rows)]
        return self._descend(data, losses, growth.with_least(least_hessian(family, outcome, weights, growth.least)))

    def _moment(self, component: int) -> tuple[Labels, Array, Array]:
        """The lines of all points of the training rows, and the curvature and the slope of the Riesz loss there."""
        table, rows = self._sample.table, self._design.index
        lines = table.lines(rows)
        curvature = np.where(lines == table.observed_lines(rows), self._weights * self._density, 0.0)
        links = self._design.links
        places = links.of(component)
        slope = self._weights * table.slopes(links.reading[places], self._design.link_weights[places])
        return lines.ravel(), curvature.ravel(), slope.ravel()

    def _quadratics(self, rows: Labels, curvature: Array, slope: Array) -> list[Quadratic]:
        return quadratics(curvature, slope, self._parts[rows], self._boosters)

    def _split(self, values: Array, rows: Labels) -> list[tuple[Array, Array]]:
        return split(values, self._parts[rows], self._boosters)

    def _rows_of(self, lines: Labels) -> Labels:
        """The positions in the training set of the rows at some lines."""
        return np.asarray(self._place[lines % len(self._sample.table.observed)])
