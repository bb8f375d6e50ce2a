"""Closed forms of mu and of what rr follows from.

In: the rows of a training set (:class:`~riesz.learners.splines.feature_sets.Sample`). Out: mu, or its index, and each component's
r (or the logits of the arms, from which rr follows) as linear functions of features, each of which is the best of several
candidates (``candidates.py``).

Then the covariates' features that were chosen for rr join mu, and those of mu join rr (double selection). If the treatment is a
number, it is regressed on the covariates' features in the same way, and rr is a function of its residual (``residuals.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from riesz.arrays import Array
from riesz.families import find_family
from riesz.learners.inputs.expansions import Role
from riesz.learners.parts import parts_of_rows
from riesz.learners.splines.arm_sums import arm_sums
from riesz.learners.splines.candidates import (
    Candidate,
    Choices,
    choose,
    glm,
    regression,
    with_joining,
    with_one_penalty,
)
from riesz.learners.splines.feature_sets import (
    Sample,
    level,
    moment_rows,
)
from riesz.learners.splines.features import (
    Features,
    SplineSolution,
    joined,
    singles,
)
from riesz.learners.splines.propensities import MOST_ARMS, modelled_arms
from riesz.learners.splines.residuals import Residual, residual_of, treatment_sample

# A function of the treatment's residual takes the place of its line if that lowers the Riesz loss by this share.
_CLEARLY = 0.05


@dataclass(frozen=True)
class Solutions:
    """What is learned from a training set.

    Attributes
    ----------
    mu : SplineSolution
        Mu, or its index in another family than ``"gaussian"``.
    rr : tuple of SplineSolution
        The r of each component, up to scale; empty if rr follows from propensities or was not to be learned.
    logits : tuple of SplineSolution
        The logit of each arm whose membership is modelled, if rr follows from propensities.
    residual : Residual or None
        The treatment's residual, if rr is a function of it.
    rr_units : tuple of ndarray, shape (1 + F,)
        What the features of each r were divided by before they were penalised alike.
    """

    mu: SplineSolution
    rr: tuple[SplineSolution, ...]
    logits: tuple[SplineSolution, ...]
    residual: Residual | None = None
    rr_units: tuple[Array, ...] = ()


def solve(sample: Sample, choices: Choices) -> Solutions:
    """Mu, and what rr follows from."""
    if choices.propensities or choices.outcome_alone:
        sample = sample.without_readings()
    if choices.outcome_alone:
        (mu,) = choose(sample, [0], choices, None)
        return Solutions(_of_outcome(sample, mu, choices), (), ())
    members = _members(sample, choices)
    targets = [0] if members else list(range(1 + sample.design.components))
    sums = arm_sums(sample) if choices.propensities and len(sample.shares.centre) < MOST_ARMS else None
    mu, *rr = choose(sample, targets, choices, sums)
    of_treatment = replace(choices, penalty=choices.rr_penalty)
    means = [
        regression(member, of_treatment, None if sums is None else sums.of_membership(arm))
        for arm, member in members.items()
    ]
    if choices.double_selection:
        mu, rr, means = with_joining(sample, list(members.values()), (mu, rr, means), choices)
    chosen = _of_outcome(sample, mu, choices)
    if choices.residuals:
        residual, of_residual = residual_of(sample, means[0].solution)
        return Solutions(chosen, tuple(_of_residual(of_residual, choices)), (), residual)
    logits = [glm(member, mean, choices.rr_penalty) for member, mean in zip(members.values(), means, strict=True)]
    units_of_rr = tuple(candidate.units for candidate in rr)
    return Solutions(chosen, tuple(candidate.solution for candidate in rr), tuple(logits), rr_units=units_of_rr)


def _of_outcome(sample: Sample, mu: Candidate, choices: Choices) -> SplineSolution:
    """Mu, or its index in the family of the outcome."""
    return mu.solution if find_family(sample.design.family).identity else glm(sample, mu, choices.penalty)


def _of_residual(sample: Sample, choices: Choices) -> list[SplineSolution]:
    """The r of each component, as a function of the treatment's residual: a line, unless another is clearly better.

    Leave-one-out losses are too low for features that were chosen on the same rows: sometimes by a fifth. So they are confirmed by
    the loss on one half of the rows of what is found on the other half.
    """
    targets = range(1, 1 + sample.design.components)
    pool, solutions = sample.pool(_line_of_treatment(sample)), []
    simple = with_one_penalty(sample, pool, targets, choices)
    for target, plain, best in zip(targets, simple, choose(sample, targets, choices, None), strict=True):
        least = _CLEARLY * abs(plain.loss)
        better = plain.loss - best.loss > least
        if better and np.ptp(moment_rows(sample.design, pool.phi, target - 1)) == 0.0:
            losses = _losses_in_halves(sample, target, choices)
            better = losses[0] - losses[1] > least
        solutions.append((best if better else plain).solution)
    return solutions


def _line_of_treatment(sample: Sample) -> Features:
    return singles(np.flatnonzero((sample.points.sources < 0) & (sample.points.roles == Role.LINE)))


def _losses_in_halves(sample: Sample, target: int, choices: Choices) -> tuple[float, float]:
    """The Riesz loss of the treatment's line and of the best candidate, each at its best scale, on rows that they have not seen."""
    design = sample.design
    labels = parts_of_rows(design, 2, [sample.seed, 2])
    halves = []
    for half in range(2):
        rows = np.flatnonzero(labels == half)
        halves.append(Sample(design.take(rows), sample.points.take(rows), sample.shares, sample.seed))
    losses = np.zeros(2)
    for learning, held in (halves, reversed(halves)):
        plain = with_one_penalty(learning, learning.pool(_line_of_treatment(learning)), [target], choices)[0]
        (best,) = choose(learning, [target], choices, None)
        losses += [_held_out_loss(candidate.solution, held, target) / 2 for candidate in (plain, best)]
    return float(losses[0]), float(losses[1])


def _held_out_loss(solution: SplineSolution, sample: Sample, target: int) -> float:
    """The Riesz loss of r on other rows, at its best scale."""
    phi, weights = sample.pool(joined([level(), solution.features])).phi, sample.design.weights
    moment = np.average(solution.coefficients @ moment_rows(sample.design, phi, target - 1), weights=weights)
    square = np.average((solution.coefficients @ phi.observed) ** 2, weights=weights)
    return float(-(max(moment, 0.0) ** 2) / square) if square > 0 else 0.0


def _members(sample: Sample, choices: Choices) -> dict[int, Sample]:
    """What the treatment is regressed in, if rr follows from it: membership in arms, by arm, or the treatment itself."""
    if choices.propensities:
        return {arm: sample.membership(arm) for arm in modelled_arms(sample)}
    return {0: treatment_sample(sample)} if choices.residuals else {}
