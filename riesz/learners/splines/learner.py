"""The closed form on splines as a learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked
from riesz.errors import LearnerError
from riesz.families import MEANS
from riesz.learners.base import Fit, Learner, Watch, need_covariates
from riesz.learners.check_settings import check_number, check_settings
from riesz.learners.expected_time import MANY, MOST_ROWS, closed_form_seconds
from riesz.learners.inputs.evaluation_points import EvaluationPoints, make_evaluation_points
from riesz.learners.inputs.expansions import Expansion, Expansions, make_cuts, make_expansions
from riesz.learners.known_signs import exponential, known_signs, largest, levels
from riesz.learners.linear.learner import Penalty, mean_at, need_identification
from riesz.learners.propensity.representer import (
    arm_coefficients,
    arm_representer,
    clipping,
    linked_at_arms,
    need_arms,
)
from riesz.learners.propensity.smallest import rarest_share, smallest
from riesz.learners.splines.candidates import Choices
from riesz.learners.splines.feature_sets import Sample
from riesz.learners.splines.features import (
    Factors,
    Shares,
    SplineSolution,
    derivatives_at,
    factors_at,
    factors_observed,
)
from riesz.learners.splines.log_linear import log_linear
from riesz.learners.splines.propensities import WHO, derivable, probabilities
from riesz.learners.splines.residuals import Residual, need_residual, residual_suits
from riesz.learners.splines.solve import solve
from riesz.predictions import Predictions
from riesz.storage.coding import stored

_MOST_NUMBERS = 4_000_000  # features times rows that are in memory at once
_LEAST_ROWS = 2000  # used in any case, however many features there are


@stored
@dataclass(frozen=True)
class Splines(Learner):
    r"""Closed-form learner on splines of the covariates and their products: smooth, sparse and fast.

    Like the networks it uses the raw treatment (indicators for several arms) and the formula's columns that do not involve the
    treatment, so a formula need not spell interactions out. Derivatives are exact.

    Parameters
    ----------
    penalty, rr_penalty : float or "loo"
        Of mu and of the Riesz representer. ``"loo"`` finds a penalty for each group of features, and chooses features by the
        leave-one-out loss (leave-one-cluster-out if there are clusters). A number is one ridge penalty, per row, of all inputs and
        their products with the treatment; 0 is least squares.
    rr : {"auto", "constrained", "propensity", "residual", "entropy"}
        How the Riesz representer is learned. ``"constrained"``: by the paper's constrained problem. ``"propensity"``, for a
        treatment with arms: derived from the arms' propensities, which are logistic regressions on splines. ``"residual"``, for a
        treatment that is a number: as a function of the treatment's residual from a regression on splines. ``"entropy"``, for
        an rr of known sign g (those of ``ate``, ``att``, ``atc``, ``mean`` and ``ape``): :math:`g \exp(g f)` with f on splines, by
        the Kullback-Leibler loss :math:`E_n[|rr|] - E_n[m(g \log |rr|)]`. ``"auto"``: from propensities if the treatment has at
        most six arms, each with 50 rows or more, from the residual if it is a number, provided that the moment moves nothing else
        and ``rr_penalty="loo"``; otherwise constrained.
    interactions : int
        Number of covariates, the strongest ones, whose products with each other are tried, beside pairs whose product is found to
        matter; with 0 there are no products of covariates.
    indicators : bool
        Whether mass points of covariates get indicators: values that carry 5% of the weight or more, unless there are only two.
    steps : bool
        Whether steps of covariates, with cuts at quantiles, are tried where they would matter.
    double_selection : bool
        Whether covariates' features that were chosen for rr join mu, and those of mu join rr.
    clip : float, optional
        The smallest propensity that rr divides by; by default :math:`5 / (\sqrt{n} \log n)` with n distinct training rows (Gruber,
        Phillips, Lee and van der Laan 2022), at most 0.1 and at most half of the rarest arm's share. With ``rr="entropy"``, 1 over
        this number times the moment's largest weight limits \|rr\| where it exceeds that of all training rows.

    Notes
    -----
    A numeric covariate with 12 distinct values or more enters as a line and a natural cubic spline with six knots, or 13 with
    1500 distinct values or more, at quantiles of the values that are not mass points. These inputs and their products with the
    treatment have a ridge penalty per group (a covariate's line, its bends, its indicators, and the products of each with the
    treatment), found from second moments alone; groups that explain no more than noise are dropped. Then products of the lines
    and first bends of pairs of covariates are tried in the same way, with both held constant beyond the outer knots: the five
    strongest covariates with each other, and up to ten pairs whose product the function misses by more than chance would. So are up
    to ten steps :math:`1\{x > c\}`, with 15 cuts per covariate, that the function misses, and then products of these steps with
    lines and with each other.
    Lines with a single penalty are tried, too, and, if the treatment has arms, a regression of mu for each arm. The leave-one-out
    loss chooses: the squared error for mu, the Riesz loss for rr. Under ``family="binomial"`` mu is then a logistic regression on
    the features that were chosen.

    A covariate that matters for rr, but too little for mu to be chosen there, would still bias the estimate, by the product of both
    effects. So the covariates' features that were chosen for rr then join mu, and those of mu join rr (``double_selection``).

    A constrained representer is learned up to scale, which comes from the estimation sample. Propensities give it with its scale;
    on 150 random worlds (binary treatment, even seeds, one repeat) the root mean square distance of the stack's estimate from the
    oracle's was 0.59 oracle standard errors with constrained splines and 0.47 with propensities.

    With ``rr="residual"`` the treatment is regressed on the covariates' features, and rr is found by the constrained problem on
    features of the residual e and the covariates. If the moment moves the treatment by the same amount in all rows, rr is a
    multiple of e, as it is for normal errors of constant variance, unless another function lowers the Riesz loss by 5%, also on
    held-out rows. On 40 random worlds (continuous treatment, even seeds) the mean squared error of rr
    relative to its square was 0.07, against 0.12 with constrained splines, and the distance of the estimate of splines alone from
    the oracle's was 0.88 oracle standard errors, against 1.00.

    With ``rr="entropy"`` the features are those that were chosen for the constrained representer, with their relative penalties,
    and the leave-one-out Kullback-Leibler loss chooses the size of all penalties. The scale of rr is learned, too. On 25 random
    worlds (binary treatment, even seeds 24 to 72, one repeat) the distance of the estimate of splines alone from the oracle's was
    0.74, against 0.64 with constrained splines and 0.58 with propensities; the mean squared error of rr relative to its square was
    0.17, 0.17 and 0.13.

    With more than 20,000 rows in a training set (fewer if there are many features), a random part of them is used, drawn from the
    seed.

    References
    ----------
    Belloni, Chernozhukov and Hansen (2014), "Inference on treatment effects after selection among high-dimensional controls".
    Gruber, Phillips, Lee and van der Laan (2022), "Data-adaptive selection of the propensity score truncation level for
    inverse-probability-weighted and targeted maximum likelihood estimators of marginal point treatment effects".
    Kato (2025), "Direct debiased machine learning via Bregman divergence minimization".
    Hines and Miles (2025), "Learning density ratios in causal inference using Bregman-Riesz regression".

    Examples
    --------
    The product of two of twenty covariates confounds, and neither matters by itself; the effect is 1:

    >>> import numpy as np, pandas as pd, riesz
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=(2000, 20))
    >>> a = (rng.uniform(size=2000) < 1 / (1 + np.exp(-x[:, 3] * x[:, 4]))).astype(float)
    >>> data = pd.DataFrame(x).add_prefix("x").assign(a=a, y=a + 2 * x[:, 3] * x[:, 4] + rng.normal(size=2000))
    >>> fits = [riesz.ate("y ~ treat(a) + .", data, learner=learner) for learner in (riesz.Splines(), riesz.Linear())]
    >>> [round(float(fit.params.iloc[0]), 1) for fit in fits]
    [1.0, 2.4]
    """

    one_thread: ClassVar[bool] = True
    families: ClassVar[tuple[str, ...]] = MEANS

    penalty: Penalty = "loo"
    rr_penalty: Penalty = "loo"
    rr: Literal["auto", "constrained", "propensity", "residual", "entropy"] = "auto"
    interactions: int = 5
    indicators: bool = True
    steps: bool = True
    double_selection: bool = True
    clip: float | None = None

    def __post_init__(self) -> None:
        for name in ("penalty", "rr_penalty"):
            check_number(self, name, "a number, 0 or larger, or 'loo'", at_least=0.0, or_word="loo")
        check_number(self, "interactions", "a whole number, 0 or larger", at_least=0)
        if not isinstance(self.interactions, int):
            raise LearnerError(f"Splines(interactions={self.interactions!r}): expected a whole number, 0 or larger.")
        choices = {"indicators": (True, False), "steps": (True, False), "double_selection": (True, False)}
        check_settings(self, {**choices, "rr": ("auto", "constrained", "propensity", "residual", "entropy")}, [], [])
        if self.clip is not None:
            check_number(self, "clip", "None or a number between 0 and 0.5, such as 0.01", above=0.0, below=0.5)

    def seconds(self, design: Design, rows: int) -> float:
        columns = len(design.covariates)
        return closed_form_seconds(min(rows, MOST_ROWS), columns) if columns >= MANY else 0.0

    def check(self, design: Design, rows: int) -> None:
        need_covariates(design, "Splines")
        need_identification(design, rows)
        if self.rr == "propensity":
            need_arms(design.sample, WHO)
        if self.rr == "residual":
            need_residual(design.sample)
        self._signs(design.sample)

    def _signs(self, sample: Design) -> Array | None:
        """The known signs that ``rr="entropy"`` needs."""
        return known_signs(sample, "Splines(rr='entropy')", "riesz.Splines()") if self.rr == "entropy" else None

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        prepared: dict[int, Prepared] = {}
        fits = []
        for design, seed in zip(designs, seeds, strict=True):
            if design.key not in prepared:
                prepared[design.key] = self.prepare(design.sample)
            fits.append(prepared[design.key].fit(design, seed))
            watch.done()
        return fits

    def prepare(self, sample: Design) -> Prepared:
        """What the folds of a sample share."""
        expansions, shares = measure(sample, self.indicators, self.steps)
        size = (1 + len(shares.centre)) * sum(how.size for how in expansions.covariates)
        most = int(np.clip(_MOST_NUMBERS // max(size, 1), _LEAST_ROWS, MOST_ROWS))
        automatic = self.rr == "auto" and self.rr_penalty == "loo" and derivable(sample, min(1.0, most / len(sample)))
        derived = self.rr == "propensity" or automatic
        residual = self.rr == "residual" or (self.rr == "auto" and self.rr_penalty == "loo" and residual_suits(sample))
        choices = Choices(self.penalty, self.rr_penalty, self.interactions, self.double_selection, derived, residual)
        return Prepared(expansions, shares, choices, self.clip, most, self._signs(sample))

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        if "clipped" not in details or not details["clipped"].notna().any():
            return []
        return clipping(float(details["clipped"].mean()), float(details["clip"].mean()), "propensities")

    def describe(self, family: str) -> str:
        return "Splines" if self.rr == Splines.rr else f"Splines (rr {self.rr})"


@stored
@dataclass(frozen=True)
class SplinesFit(Fit):
    r"""Coefficients on features.

    Attributes
    ----------
    expansions : Expansions
    shares : Shares
    solutions : tuple of SplineSolution
        Mu, or its index in the family of the outcome; then one r per component, up to scale, unless rr follows from propensities or
        was not learned, in which case it is zero.
    family : str
    logits : tuple of SplineSolution
        Of the arms whose membership is modelled, if rr follows from propensities; otherwise empty.
    clip : float
        The smallest propensity that rr divides by.
    clipped : float
        Share of the rows closed forms were solved on that have a smaller propensity.
    residual : Residual or None
        The treatment's residual, if the r are functions of it instead of the treatment.
    levels : ndarray, shape (K, J), or None
        The best constant rr in each arm, if the r are logarithms of \|rr\| over its size, times its sign.
    most : ndarray, shape (K,), or None
        Largest size of rr, if its signs are known.
    """

    expansions: Expansions
    shares: Shares
    solutions: tuple[SplineSolution, ...]
    family: str
    logits: tuple[SplineSolution, ...] = ()
    clip: float = 0.0
    clipped: float = 0.0
    residual: Residual | None = None
    levels: Array | None = None
    most: Array | None = None

    def predict(self, design: Design) -> Predictions:
        n, readings, links = len(design), len(design.is_derivative), design.links
        mu = Evaluation(np.empty(n), np.empty((readings, n)), np.zeros((readings, n)))
        at_links = (len(links.reading), n)
        rr = Linked(np.zeros((design.components, n)), np.zeros(at_links), np.zeros(at_links), links)
        logits = np.empty((len(self.logits), n))
        for place, block in design.blocks(self._rows_at_once(design)):
            points = make_evaluation_points(block, self.expansions)
            at_rows = factors_observed(points, self.shares)
            mu.observed[place] = self.solutions[0].at(at_rows)
            self._read_mu(points, design, place, mu)
            if self.logits:
                for function, solution in zip(logits, self.logits, strict=True):
                    function[place] = solution.at(at_rows)
            if len(self.solutions) == 1:
                continue
            shares = self.shares
            if self.residual is not None:
                points, shares = self.residual.points(points, at_rows), self.residual.shares
                at_rows = factors_observed(points, shares)
            for function, solution in zip(rr.observed, self.solutions[1:], strict=True):
                function[place] = solution.at(at_rows)
            self._read_rr(points, shares, design, place, rr)
        if self.logits:
            rr = self._derived(design, probabilities(logits))
        if self.levels is not None and self.most is not None:
            rr = exponential(rr, self.levels, self.most, design)
        scale_free = not self.logits and self.levels is None
        return Predictions(mean_at(mu, self.family), rr, scale_free)

    def _read_mu(self, points: EvaluationPoints, design: Design, place: slice, mu: Evaluation) -> None:
        """Write mu at the readings of a block of rows."""
        solution = self.solutions[0]
        for reading, point in enumerate(points.of_reading):
            factors = factors_at(points, self.shares, point)
            mu.values[reading, place] = solution.at(factors)
            if design.is_derivative[reading]:
                mu.slopes[reading, place] = _slope(solution, factors, derivatives_at(points, self.shares, point))

    def _read_rr(self, points: EvaluationPoints, shares: Shares, design: Design, place: slice, rr: Linked) -> None:
        """Write rr at the readings of a block of rows."""
        links = design.links
        for reading, point in enumerate(points.of_reading):
            factors = factors_at(points, shares, point)
            along = derivatives_at(points, shares, point) if design.is_derivative[reading] else None
            for link in np.flatnonzero(links.reading == reading):
                solution = self.solutions[1 + links.component[link]]
                rr.values[link, place] = solution.at(factors)
                if along is not None:
                    rr.slopes[link, place] = _slope(solution, factors, along)

    def _derived(self, design: Design, p: Array) -> Linked:
        """The representer from the propensities of the rows, shape (n, arms)."""
        coefficients = arm_coefficients(design.sample, WHO)[..., design.index]
        return linked_at_arms(arm_representer(coefficients, p, self.clip, highest=1.0), design)

    def _rows_at_once(self, design: Design) -> int:
        """The number of rows whose points and features fit into little memory."""
        features = max(len(solution.features) for solution in (*self.solutions, *self.logits))
        treatments = len(design.is_derivative) * design.treatment.shape[1]
        return int(np.clip(_MOST_NUMBERS // (features + treatments), 256, MOST_ROWS))

    def details(self) -> Mapping[str, float]:
        mu, *rr = self.solutions
        numbers = {"features": float(len(mu.features)), "penalty": mu.penalty}
        for name, solutions in (("rr", rr), ("propensity", self.logits)):
            for c, solution in enumerate(solutions):
                numbers |= {
                    f"{name}_features_{c}": float(len(solution.features)),
                    f"{name}_penalty_{c}": solution.penalty,
                }
        return numbers | ({"clip": self.clip, "clipped": self.clipped} if self.logits else {})


@dataclass(frozen=True)
class Prepared:
    """What the folds of a sample share.

    Attributes
    ----------
    expansions : Expansions
    shares : Shares
    choices : Choices
    clip : float or None
        As in :class:`Splines`.
    most : int
        Closed forms are solved on at most this many rows.
    signs : ndarray, shape (K, J), or None
        The known signs of rr, if its logarithm is learned.
    """

    expansions: Expansions
    shares: Shares
    choices: Choices
    clip: float | None
    most: int
    signs: Array | None

    def outcome_alone(self) -> Prepared:
        """The same, for fits that learn mu alone."""
        return replace(self, choices=replace(self.choices, outcome_alone=True))

    def fit(self, design: Design, seed: int) -> SplinesFit:
        """Solve on the rows of a design, a random part of them if they are many."""
        part = design.take(draw_part(len(design), self.most, seed))
        sample = Sample(part, make_evaluation_points(part, self.expansions), self.shares, seed)
        solved = solve(sample, self.choices)
        clip, clipped = 0.0, 0.0
        if solved.logits:
            clip = smallest(len(design), rarest_share(design)) if self.clip is None else self.clip
            p = probabilities(np.stack([logit.at(sample.at_rows) for logit in solved.logits]))
            clipped = float(np.average((p < clip).any(axis=1), weights=part.weights))
        rr, most, constants = solved.rr, None, None
        if self.signs is not None:
            constants = levels(self.signs, part)
            rr, most = log_linear(sample, rr, solved.rr_units, constants, self.choices.rr_penalty)
            most = np.maximum(most, largest(design, self.clip))
        functions = (solved.mu, *rr)
        fit = SplinesFit(
            self.expansions, self.shares, functions, design.family, solved.logits, clip, clipped, solved.residual
        )
        return replace(fit, levels=constants, most=most)


def _slope(solution: SplineSolution, factors: Factors, derivatives: tuple[Array, Array]) -> Array:
    return np.asarray(solution.coefficients[1:] @ factors.slopes(solution.features, derivatives))


def measure(sample: Design, indicators: bool, steps: bool = False) -> tuple[Expansions, Shares]:
    """How inputs and shares are made, from all rows of a sample."""
    expansions = make_expansions(sample, splines=True, indicators=indicators)
    covariates = tuple(
        how if len(how.knots) else _standardised(how, column)
        for how, column in zip(expansions.covariates, sample.x.T, strict=True)
    )
    cuts = make_cuts(sample.x) if steps else ()
    return Expansions(expansions.treatment, covariates, cuts), _measure_shares(sample)


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
