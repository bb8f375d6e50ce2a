"""The fits of boosting: from a training set to boosters, and from boosters to mu and rr.

Rows, their readings and their clusters are held out together. Every function that is learned is the mean of several boosters, one
per held-out part of the training rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit

from riesz.arrays import Array
from riesz.crossfit.folds import draw_labels
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.base import Fit
from riesz.learners.boosting.constrained import Anchored, ConstrainedDescent
from riesz.learners.boosting.engine import Course, Descent, Growth, boost, make_dataset, subset
from riesz.learners.boosting.losses import Logistic, Quadratic, least_hessian
from riesz.learners.boosting.points import Table, make_table
from riesz.learners.boosting.trees import Trees
from riesz.learners.propensity.representer import arm_coefficients, arm_representer, at_arms
from riesz.predictions import Predictions
from riesz.storage.coding import stored

Labels = npt.NDArray[np.intp]


class Forest(Protocol):
    """A booster, or its trees from a file."""

    def at(self, columns: Array) -> Array:
        """The value at points of shape (m, columns)."""

    def stored(self) -> Trees:
        """As plain arrays."""


Bag = Sequence[Forest]  # their mean is the function
Curve = Sequence[Bag]  # one for all points, or one per arm


def mean_of(bag: Bag, columns: Array, logistic: bool) -> Array:
    """The mean of boosters, of probabilities if they are logistic."""
    values = [forest.at(columns) for forest in bag]
    return np.mean([expit(value) for value in values] if logistic else values, axis=0)


def values_of(curve: Curve, columns: Array, arms: Labels, logistic: bool = False) -> Array:
    """A function at points."""
    if len(curve) == 1:
        return mean_of(curve[0], columns, logistic)
    values = np.empty(len(columns))
    for arm, bag in enumerate(curve):
        here = arms == arm
        values[here] = mean_of(bag, columns[here], logistic)
    return values


@dataclass(frozen=True)
class BoostingFit(Fit):
    """Boosters of mu and rr.

    Attributes
    ----------
    mu : sequence of Curve
        mu is their mean.
    rr : sequence of Curve, one a component
        beta_perp if ``constrained``.
    propensity : sequence of Bag, one an arm
        If rr is derived from propensities; then ``rr`` is empty.
    logistic : bool
    constrained : bool
    clip : float
    numbers : mapping of str to float
        For :meth:`details`.
    """

    mu: Sequence[Curve]
    rr: Sequence[Curve]
    propensity: Sequence[Bag]
    logistic: bool
    constrained: bool
    clip: float
    numbers: Mapping[str, float]

    def predict(self, design: Design) -> Predictions:
        table = make_table(design)
        columns, arms = table.columns, table.arms
        mu = table.read(np.mean([values_of(curve, columns, arms, self.logistic) for curve in self.mu], axis=0))
        if self.propensity:
            return Predictions(mu, self._derived(design), scale_free=False)
        rr = table.read(np.stack([values_of(curve, columns, arms) for curve in self.rr]))
        if self.constrained:
            beta = design.anchor
            rr = Evaluation(beta.observed - rr.observed, beta.values - rr.values, rr.slopes)
        return Predictions(mu, rr, scale_free=self.constrained)

    def _derived(self, design: Design) -> Evaluation:
        shares = np.stack([mean_of(bag, design.x, True) for bag in self.propensity], axis=1)
        p = shares / shares.sum(axis=1, keepdims=True)
        coefficients = arm_coefficients(design.sample, "Boosting(rr='propensity')")[..., design.index]
        return at_arms(arm_representer(coefficients, p, self.clip), design)

    def details(self) -> Mapping[str, float]:
        return self.numbers

    def history(self) -> pd.DataFrame:
        return pd.DataFrame()


@stored
@dataclass(frozen=True)
class StoredBoosting:
    """What a file holds of a :class:`BoostingFit`: the same, with trees as arrays.

    Attributes
    ----------
    mu, rr : tuple of curves
    propensity : tuple of bags
    logistic, constrained : bool
    clip : float
    numbers : mapping of str to float
    """

    mu: tuple[tuple[tuple[Trees, ...], ...], ...]
    rr: tuple[tuple[tuple[Trees, ...], ...], ...]
    propensity: tuple[tuple[Trees, ...], ...]
    logistic: bool
    constrained: bool
    clip: float
    numbers: Mapping[str, float]


def store(fit: BoostingFit) -> StoredBoosting:
    """The arrays of a fit."""

    def bags(curve: Curve) -> tuple[tuple[Trees, ...], ...]:
        return tuple(tuple(forest.stored() for forest in bag) for bag in curve)

    mu, rr = (tuple(bags(curve) for curve in curves) for curves in (fit.mu, fit.rr))
    return StoredBoosting(mu, rr, bags(fit.propensity), fit.logistic, fit.constrained, fit.clip, fit.numbers)


def restore(content: StoredBoosting, sample: Design) -> BoostingFit:
    """A fit from its arrays; a ValueError if they do not fit the sample."""
    arms = 0 if sample.strata is None else sample.treatment.shape[1] + 1
    columns = sample.treatment.shape[1] + len(sample.covariates)
    derived = bool(content.propensity)
    right = len(content.mu) > 0 and len(content.rr) == (0 if derived else sample.components)
    right &= not derived or len(content.propensity) == arms
    right &= content.logistic == (sample.family == "binomial") and 0.0 < content.clip < 0.5
    for curve in (*content.mu, *content.rr):
        right &= len(curve) in (1, arms) and _fits(curve, columns)
    if not (right and _fits(content.propensity, len(sample.covariates))):
        raise ValueError("trees of another design")
    return BoostingFit(**{field.name: getattr(content, field.name) for field in fields(content)})


def _fits(bags: Sequence[Sequence[Trees]], columns: int) -> bool:
    """Whether there are trees in each bag, and whether they know only so many columns."""
    return all(len(bag) > 0 and all(trees.width <= columns for trees in bag) for bag in bags)


@dataclass(frozen=True)
class Sample:
    """What the folds of a sample share: its points, in bins.

    Attributes
    ----------
    table : Table
    data : object
        LightGBM's data of the table.
    covariates : object or None
        Those of the covariates alone, if there is a propensity to learn.
    """

    table: Table
    data: Any
    covariates: Any


def make_sample(design: Design, propensity: bool) -> Sample:
    """Points and bins of a whole sample."""
    table = make_table(design)
    return Sample(table, make_dataset(table.columns), make_dataset(design.x) if propensity else None)


@dataclass(frozen=True)
class Parts:
    """How the rows of a training set are held out in turn.

    Attributes
    ----------
    labels : ndarray of int, shape (n,)
        The part of each row.
    turns : int
        How many of the parts are held out, each by one booster.
    """

    labels: Labels
    turns: int

    def split(self, values: Array, rows: Labels) -> list[tuple[Array, Array]]:
        """Values at points as training values and held-out values; ``rows`` are the points' rows."""
        held = [self.labels[rows] == turn for turn in range(self.turns)]
        return [(np.where(out, 0.0, values), np.where(out, values, 0.0)) for out in held]


def draw_parts(design: Design, parts: int, turns: int, seed: int) -> Parts:
    """Parts of a training set: arms spread evenly, clusters kept whole."""
    groups = None if design.groups is None else np.unique(design.groups, return_inverse=True)[1].astype(np.intp)
    labels = draw_labels(len(design), parts, design.strata, groups, np.random.default_rng(seed))
    return Parts(labels, turns)


class Trainer:
    """Learns functions from one training set.

    Parameters
    ----------
    design : Design
        Its rows in ascending order.
    sample : Sample
    parts : Parts
    seed : int
    """

    def __init__(self, design: Design, sample: Sample, parts: Parts, seed: int) -> None:
        self._design, self._sample, self._parts, self._seed = design, sample, parts, seed
        self._weights = design.weights / design.weights.mean()
        self._rows = design.index
        self._place = np.zeros(len(sample.table.observed), dtype=np.intp)
        self._place[self._rows] = np.arange(len(design))

    def outcome(self, growth: Growth, apart: bool) -> list[list[Any]]:
        """Mu: one bag, or one per arm."""
        lines = np.sort(self._sample.table.observed_lines(self._rows))
        arms = self._sample.table.arms[lines]
        logistic = self._design.family == "binomial"
        y = self._design.y
        cells = [lines[arms == arm] for arm in range(int(arms.max()) + 1)] if apart else [lines]
        curve = []
        for cell in cells:
            rows = self._rows_of(cell)
            if logistic:
                courses = self._logistic(subset(self._sample.data, cell), rows, y[rows], growth)
                curve.append(boost(courses, growth))
                continue
            curve.append(self._least_squares(cell, rows, growth))
        return curve

    def _least_squares(self, cell: Labels, rows: Labels, growth: Growth) -> list[Any]:
        """Boosters of y, which is brought to mean 0 and spread 1 for single precision."""
        y, w = self._design.y[rows], self._weights[rows]
        mean = float(np.average(y, weights=w))
        spread = float(np.sqrt(np.average((y - mean) ** 2, weights=w))) or 1.0
        slopes = w * (y - mean) / spread
        losses = [
            Quadratic(q, b, held_q, held_b)
            for (q, held_q), (b, held_b) in zip(
                self._parts.split(w, rows), self._parts.split(slopes, rows), strict=True
            )
        ]
        data = subset(self._sample.data, cell)
        courses = [Descent(data, loss, growth, self._seed + turn) for turn, loss in enumerate(losses)]
        return [grown.scaled(mean, spread) for grown in boost(courses, growth)]

    def _logistic(self, data: Any, rows: Labels, outcome: Array, growth: Growth) -> list[Course]:
        w = self._weights[rows]
        fitting = growth.with_least(least_hessian(outcome, w, growth.least))
        losses = [Logistic(outcome, kept, held) for kept, held in self._parts.split(w, rows)]
        return [Descent(data, loss, fitting, self._seed + turn) for turn, loss in enumerate(losses)]

    def propensities(self, growth: Growth) -> list[list[Any]]:
        """The probability of each arm given the covariates, one bag an arm."""
        rows, strata = np.arange(len(self._design)), self._design.strata
        assert strata is not None
        data = subset(self._sample.covariates, self._rows)
        arms = self._design.treatment.shape[1] + 1
        return [
            boost(self._logistic(data, rows, (strata == arm).astype(float), growth), growth) for arm in range(arms)
        ]

    def representer(self, component: int, growth: Growth, apart: bool) -> list[list[Any]]:
        """Rr by the Riesz loss: one bag, or one per arm."""
        lines, curvature, slope = self._moment(component)
        arms = self._sample.table.arms[lines]
        cells = [arms == arm for arm in range(int(arms.max()) + 1)] if apart else [np.full(len(lines), True)]
        curve = []
        for cell in cells:
            losses = self._quadratics(lines[cell], curvature[cell], slope[cell])
            data = subset(self._sample.data, lines[cell])
            courses = [Descent(data, loss, growth, self._seed + turn) for turn, loss in enumerate(losses)]
            curve.append(boost(courses, growth))
        return curve

    def perpendicular(self, component: int, growth: Growth) -> list[list[Any]]:
        """beta_perp: one bag."""
        lines, curvature, slope = self._moment(component)
        anchor = np.zeros(len(self._sample.table.columns))
        observed = self._sample.table.observed_lines(self._rows)
        beta = self._design.anchor
        anchor[observed] = beta.observed[component]
        moments = self._weights * self._design.apply(beta)[component]
        sums = [kept.sum() for kept, _ in self._parts.split(moments, np.arange(len(moments)))]
        data = subset(self._sample.data, lines)
        courses: list[Course] = []
        for turn, loss in enumerate(self._quadratics(lines, curvature, slope)):
            problem = Anchored(loss, anchor[lines], float(sums[turn]), float(moments.sum() - sums[turn]))
            courses.append(ConstrainedDescent(data, problem, growth, self._seed + turn))
        return [boost(courses, growth)]

    def _moment(self, component: int) -> tuple[Labels, Array, Array]:
        """Lines of all points, with the curvature and the slope of the Riesz loss there."""
        table = self._sample.table
        lines = table.lines(self._rows).ravel()
        slope = (table.slopes(self._design.reading_weights[[component]])[0] * self._weights).ravel()
        curvature = np.where(lines == np.tile(table.observed_lines(self._rows), len(lines) // len(self._rows)), 1.0, 0.0)
        return lines, curvature * np.tile(self._weights, len(lines) // len(self._rows)), slope

    def _quadratics(self, lines: Labels, curvature: Array, slope: Array) -> list[Quadratic]:
        rows = self._rows_of(lines)
        halves = zip(self._parts.split(curvature, rows), self._parts.split(slope, rows), strict=True)
        return [Quadratic(q, b, held_q, held_b) for (q, held_q), (b, held_b) in halves]

    def _rows_of(self, lines: Labels) -> Labels:
        """The positions in the training set of the rows at some lines."""
        return self._place[lines % len(self._sample.table.observed)]
