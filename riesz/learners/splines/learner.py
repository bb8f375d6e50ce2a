"""The closed form on splines as a learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.base import Fit, Learner, Watch, need_covariates
from riesz.learners.inputs.evaluation_points import make_evaluation_points
from riesz.learners.inputs.expansions import Expansion, Expansions, make_expansions
from riesz.learners.linear.learner import probability
from riesz.learners.splines.features import Shares, evaluate, joined
from riesz.learners.splines.solve import _MOST_NUMBERS, _MOST_ROWS, Sample, Solution, solve
from riesz.predictions import Predictions
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Splines(Learner):
    """Closed-form learner on smooth features.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> riesz.ate("y ~ treat(a) + .", data, learner=riesz.Splines()).nobs
    500
    """

    one_thread: ClassVar[bool] = True

    def check(self, design: Design, rows: int) -> None:
        need_covariates(design, "Splines")

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        inputs: dict[int, tuple[Expansions, Shares]] = {}
        fits = []
        for design, seed in zip(designs, seeds, strict=True):
            if design.key not in inputs:
                inputs[design.key] = measure(design.sample)
            fits.append(fit_splines(design, *inputs[design.key], seed))
            watch.done()
        return fits


@stored
@dataclass(frozen=True)
class SplinesFit(Fit):
    """Coefficients on features.

    Attributes
    ----------
    expansions : Expansions
    shares : Shares
    mu : Solution
        Of the logit if ``logistic``.
    rr : tuple of Solution
        One for each component, up to scale.
    logistic : bool
    """

    expansions: Expansions
    shares: Shares
    mu: Solution
    rr: tuple[Solution, ...]
    logistic: bool

    def predict(self, design: Design) -> Predictions:
        solutions = (self.mu, *self.rr)
        features = joined([solution.features for solution in solutions])
        shape = len(solutions), len(design.is_derivative), len(design)
        whole = Evaluation(np.empty((len(solutions), len(design))), np.empty(shape), np.zeros(shape))
        ends = np.cumsum([len(solution.features) for solution in solutions])
        for place, block in design.blocks(int(np.clip(_MOST_NUMBERS // max(len(features), 1), 256, _MOST_ROWS))):
            points = make_evaluation_points(block, self.expansions)
            phi = evaluate(features, self.shares, points, block)
            for target, (solution, end) in enumerate(zip(solutions, ends, strict=True)):
                own = slice(end - len(solution.features), end)
                level, theta = solution.coefficients[0], solution.coefficients[1:]
                whole.observed[target, place] = level + theta @ phi.observed[own]
                whole.values[target, :, place] = level + np.tensordot(theta, phi.values[own], 1)
                whole.slopes[target, :, place] = np.tensordot(theta, phi.slopes[own], 1)
        mu = whole.map(lambda values: values[0])
        rr = whole.map(lambda values: values[1:])
        return Predictions(probability(mu) if self.logistic else mu, rr, scale_free=True)

    def details(self) -> Mapping[str, float]:
        chosen = {"penalty": self.mu.penalty, "features": float(len(self.mu.features))}
        for c, solution in enumerate(self.rr):
            chosen |= {f"rr_penalty_{c}": solution.penalty, f"rr_features_{c}": float(len(solution.features))}
        return chosen


def measure(sample: Design) -> tuple[Expansions, Shares]:
    """How inputs and shares are made, from all rows of a sample."""
    expansions = make_expansions(sample, splines=True, indicators=True)
    covariates = tuple(_standardised(how, column) for how, column in zip(expansions.covariates, sample.x.T, strict=True))
    return Expansions(expansions.treatment, covariates), _measure_shares(sample)


def _standardised(how: Expansion, column: Array) -> Expansion:
    """A line with mean zero and deviation one, or range one if there are two values; splines are so already."""
    if len(how.knots):
        return how
    low, high = column.min(), column.max()
    two = bool(((column == low) | (column == high)).all())
    spread = float(high - low) if two else float(column.std())
    if not spread > 1e-9 * abs(float(column.mean())):
        spread = 1.0
    return Expansion(how.knots, np.array([column.mean()]), np.array([[1.0 / spread]]), how.atoms)


def _measure_shares(sample: Design) -> Shares:
    treatment = sample.treatment
    if sample.strata is None:
        spread = treatment.std(axis=0)
        return Shares(treatment.mean(axis=0), np.where(spread > 0, spread, 1.0), None)
    _, first = np.unique(sample.strata, return_index=True)
    arms = treatment[first]
    at_arms = not sample.is_derivative.any() and all(
        (reading.treatment[:, None] == arms).all(axis=2).any(axis=1).all() for reading in sample.readings()
    )
    t = treatment.shape[1]
    return Shares(np.full(t, 0.5 if t == 1 else 0.0), np.ones(t), arms if at_arms else None)


def fit_splines(design: Design, expansions: Expansions, shares: Shares, seed: int) -> SplinesFit:
    """Solve on the rows of a design, a random part of them if they are many."""
    size = (1 + len(shares.centre)) * sum(how.size for how in expansions.covariates)
    most = int(np.clip(_MOST_NUMBERS // max(size, 1), 2000, _MOST_ROWS))
    part = design.take(draw_part(len(design), most, seed))
    sample = Sample(part, make_evaluation_points(part, expansions), shares, seed)
    mu, rr = solve(sample)
    return SplinesFit(expansions, shares, mu, rr, logistic=design.family == "binomial")
