"""The closed form on splines as a learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked
from riesz.errors import LearnerError
from riesz.learners.base import Fit, Learner, Watch, need_covariates
from riesz.learners.checks import check_number, check_settings
from riesz.learners.cost import MANY, MOST_ROWS, closed_form_seconds
from riesz.learners.inputs.evaluation_points import make_evaluation_points
from riesz.learners.inputs.expansions import Expansion, Expansions, make_expansions
from riesz.learners.linear.learner import Penalty, need_identification, probability
from riesz.learners.splines.features import Factors, Shares, derivatives_at, factors_at, factors_observed
from riesz.learners.splines.pool import Sample
from riesz.learners.splines.solve import Choices, SplineSolution, solve
from riesz.predictions import Predictions
from riesz.storage.coding import stored

_MOST_NUMBERS = 4_000_000  # features times rows that are in memory at once
_LEAST_ROWS = 2000  # used in any case, however many features there are


@stored
@dataclass(frozen=True)
class Splines(Learner):
    """Closed-form learner on splines of the covariates and their products: smooth, sparse and fast.

    Like the networks it uses the raw treatment (indicators for several arms) and the formula's columns that do not involve the
    treatment, so a formula need not spell interactions out. Derivatives are exact.

    Parameters
    ----------
    penalty, rr_penalty : float or "loo"
        Of mu and of the Riesz representer. ``"loo"`` finds a penalty for each group of features, and chooses features by the
        leave-one-out loss (leave-one-cluster-out if there are clusters). A number is one ridge penalty, per row, of all inputs and
        their products with the treatment; 0 is least squares.
    interactions : int
        Number of covariates whose products are tried; 0 for none.
    indicators : bool
        Whether mass points of covariates get indicators: values that carry 5% of the weight or more, unless there are only two.

    Notes
    -----
    A numeric covariate with 12 distinct values or more enters as a line and a natural cubic spline with six knots, or nine with
    1500 distinct values or more, at quantiles of the values that are not mass points. These inputs and their products with the
    treatment have a ridge penalty per group (a covariate's line, its bends, its indicators, and the products of each with the
    treatment), found from second moments alone; groups that explain no more than noise are dropped. Then products of the lines
    and first bends of the five strongest covariates are tried in the same way, with both held constant beyond the outer knots.
    Lines with a single penalty are tried, too, and, if the treatment has arms, a regression of mu for each arm. The leave-one-out
    loss chooses: the squared error for mu, the Riesz loss for rr. Under ``family="binomial"`` mu is then a logistic regression on
    the features that were chosen.

    The representer is learned up to scale, which comes from the estimation sample. With more than 20,000 rows in a training
    set (fewer if there are many features), a random part of them is used, drawn from the seed.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=riesz.Splines())
    >>> fit.tidy()[["term", "estimate", "std_error"]].round(1)
      term  estimate  std_error
    0  ATE       0.9        0.2
    """

    one_thread: ClassVar[bool] = True

    penalty: Penalty = "loo"
    rr_penalty: Penalty = "loo"
    interactions: int = 5
    indicators: bool = True

    def __post_init__(self) -> None:
        for name in ("penalty", "rr_penalty"):
            check_number(self, name, "a number, 0 or larger, or 'loo'", at_least=0.0, or_word="loo")
        check_number(self, "interactions", "a whole number, 0 or larger", at_least=0)
        if not isinstance(self.interactions, int):
            raise LearnerError(f"Splines(interactions={self.interactions!r}): expected a whole number, 0 or larger.")
        check_settings(self, {"indicators": (True, False)}, [], [])

    def seconds(self, design: Design, rows: int) -> float:
        columns = len(design.covariates)
        return closed_form_seconds(min(rows, MOST_ROWS), columns) if columns >= MANY else 0.0

    def check(self, design: Design, rows: int) -> None:
        need_covariates(design, "Splines")
        need_identification(design, rows)

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        choices = Choices(self.penalty, self.rr_penalty, self.interactions)
        inputs: dict[int, tuple[Expansions, Shares]] = {}
        fits = []
        for design, seed in zip(designs, seeds, strict=True):
            if design.key not in inputs:
                inputs[design.key] = measure(design.sample, self.indicators)
            fits.append(fit_splines(design, *inputs[design.key], choices, seed))
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
    solutions : tuple of SplineSolution
        Mu, or its logit if ``logistic``; then one r per component, up to scale.
    logistic : bool
    """

    expansions: Expansions
    shares: Shares
    solutions: tuple[SplineSolution, ...]
    logistic: bool

    def predict(self, design: Design) -> Predictions:
        n, readings, links = len(design), len(design.is_derivative), design.links
        mu = Evaluation(np.empty(n), np.empty((readings, n)), np.zeros((readings, n)))
        at_links = (len(links.reading), n)
        rr = Linked(np.empty((design.components, n)), np.empty(at_links), np.zeros(at_links), links)
        for place, block in design.blocks(self._rows_at_once(design)):
            points = make_evaluation_points(block, self.expansions)
            at_rows = factors_observed(points, self.shares)
            mu.observed[place] = _value(self.solutions[0], at_rows)
            rr.observed[:, place] = [_value(solution, at_rows) for solution in self.solutions[1:]]
            for reading, point in enumerate(points.of_reading):
                factors = factors_at(points, self.shares, point)
                along = derivatives_at(points, self.shares, point) if design.is_derivative[reading] else None
                read: list[tuple[Evaluation | Linked, int, SplineSolution]] = [(mu, reading, self.solutions[0])]
                read += [
                    (rr, int(link), self.solutions[1 + links.component[link]])
                    for link in np.flatnonzero(links.reading == reading)
                ]
                for function, number, solution in read:
                    function.values[number, place] = _value(solution, factors)
                    if along is not None:
                        function.slopes[number, place] = _slope(solution, factors, along)
        return Predictions(probability(mu) if self.logistic else mu, rr, scale_free=True)

    def _rows_at_once(self, design: Design) -> int:
        """The number of rows whose points and features fit into little memory."""
        features = max(len(solution.features) for solution in self.solutions)
        treatments = len(design.is_derivative) * design.treatment.shape[1]
        return int(np.clip(_MOST_NUMBERS // (features + treatments), 256, MOST_ROWS))

    def details(self) -> Mapping[str, float]:
        mu, *rr = self.solutions
        numbers = {"features": float(len(mu.features)), "penalty": mu.penalty}
        for c, solution in enumerate(rr):
            numbers |= {f"rr_features_{c}": float(len(solution.features)), f"rr_penalty_{c}": solution.penalty}
        return numbers


def _value(solution: SplineSolution, factors: Factors) -> Array:
    return np.asarray(solution.coefficients[0] + solution.coefficients[1:] @ factors.values(solution.features))


def _slope(solution: SplineSolution, factors: Factors, derivatives: tuple[Array, Array]) -> Array:
    return np.asarray(solution.coefficients[1:] @ factors.slopes(solution.features, derivatives))


def measure(sample: Design, indicators: bool) -> tuple[Expansions, Shares]:
    """How inputs and shares are made, from all rows of a sample."""
    expansions = make_expansions(sample, splines=True, indicators=indicators)
    covariates = tuple(
        how if len(how.knots) else _standardised(how, column)
        for how, column in zip(expansions.covariates, sample.x.T, strict=True)
    )
    return Expansions(expansions.treatment, covariates), _measure_shares(sample)


def _standardised(how: Expansion, x: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Expansion:
    """A line with mean zero and deviation one, or range one if there are two values; splines have both already."""
    low, high, mean = float(x.min()), float(x.max()), float(x.mean())
    two = bool(((x == low) | (x == high)).all())
    spread = high - low if two else float(x.std())
    if not spread > 1e-9 * abs(mean):
        spread = 1.0
    return Expansion(how.knots, np.array([mean]), np.array([[1.0 / spread]]), how.atoms)


def _measure_shares(sample: Design) -> Shares:
    """The treatment's shares: arms, if every point that the moment reads is at one of them."""
    treatment = sample.treatment
    if sample.strata is None:
        spread = treatment.std(axis=0)
        return Shares(treatment.mean(axis=0), np.where(spread > 0, spread, 1.0), None)
    _, first = np.unique(sample.strata, return_index=True)
    arms = treatment[first]
    at_arms = not sample.is_derivative.any() and all(
        (reading.kept_treatment.distinct()[:, None] == arms).all(axis=2).any(axis=1).all()
        for reading in sample.readings()
    )
    columns = treatment.shape[1]
    centre = np.full(columns, 0.5 if columns == 1 else 0.0)
    return Shares(centre, np.ones(columns), arms if at_arms else None)


def fit_splines(design: Design, expansions: Expansions, shares: Shares, choices: Choices, seed: int) -> SplinesFit:
    """Solve on the rows of a design, a random part of them if they are many."""
    size = (1 + len(shares.centre)) * sum(how.size for how in expansions.covariates)
    most = int(np.clip(_MOST_NUMBERS // max(size, 1), _LEAST_ROWS, MOST_ROWS))
    part = design.take(draw_part(len(design), most, seed))
    sample = Sample(part, make_evaluation_points(part, expansions), shares, seed)
    return SplinesFit(expansions, shares, solve(sample, choices), design.family == "binomial")
