"""Closed forms of mu and rr, and the choice among them by leave-one-out losses.

In: the rows of a training set (:class:`~riesz.learners.splines.pool.Sample`). Out: mu, or its logit, and each component's r as
linear functions of features. For each of them these are tried, and the smallest leave-one-out loss decides:

1. one penalty for lines; one for lines and their products with the treatment;
2. a penalty for each group of all features (``shrinkage.py``), times a common factor;
3. the same with products of the covariates that are strongest in (2);
4. for mu, if the treatment has arms: a regression for each arm, which is (1), (2) or (3) on the arm's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.derived import with_columns
from riesz.design.design import Design
from riesz.learners.inputs.units import units
from riesz.learners.linear.learner import Penalty, fit_logistic
from riesz.learners.linear.ridge import choose_outcome_penalty, choose_riesz_penalty, make_span, moments
from riesz.learners.splines.features import NONE, Features, Numbers, joined, penalty_groups
from riesz.learners.splines.pool import (
    MOST_FEATURES,
    Pool,
    Sample,
    arms_of,
    everything,
    interactions,
    level,
    moment_rows,
    plain_sets,
)
from riesz.learners.splines.shrinkage import Penalties, Quadratic, group_penalties, identified
from riesz.storage.coding import stored

_FACTORS = np.geomspace(0.1, 10.0, 5)[1:4]  # of the groups' penalties
_SPARSITY = (2.0, 4.0)  # kappa of the groups, for mu and for rr: see shrinkage.py
_FEWEST = 30  # rows of an arm that has a regression of its own
_NOISE_ROWS = 2000  # rows that the noise of a moment is measured on


@stored
@dataclass(frozen=True)
class SplineSolution:
    """A linear function of features.

    Attributes
    ----------
    features : Features
    coefficients : ndarray, shape (1 + F,)
        The intercept first.
    penalty : float
        A factor of the groups' penalties, if they have their own; NaN if it is made of parts.
    """

    features: Features
    coefficients: Array
    penalty: float


@dataclass(frozen=True)
class Choices:
    """What may be tried.

    Attributes
    ----------
    penalty, rr_penalty : float or "loo"
        A number is the one penalty of all inputs and their products with the treatment.
    interactions : int
        Number of covariates whose products are tried.
    """

    penalty: Penalty
    rr_penalty: Penalty
    interactions: int

    def of(self, target: int) -> Penalty:
        """The penalty of mu, 0, or of the r of a component, 1 and so on."""
        return self.rr_penalty if target else self.penalty


@dataclass(frozen=True)
class Candidate:
    """A solution with its leave-one-out loss, and what is needed to solve again.

    Attributes
    ----------
    loss : float
    solution : SplineSolution
    units : ndarray, shape (1 + F,)
        What features are divided by before they are penalised alike.
    parts : tuple
        The regressions of arms that it is made of: the rows of each, its share, and its candidate.
    """

    loss: float
    solution: SplineSolution
    units: Array
    parts: tuple[tuple[Sample, int, Candidate], ...] = ()


def solve(sample: Sample, choices: Choices) -> tuple[SplineSolution, ...]:
    """Mu (its logit under ``family="binomial"``), then the r of each component, up to scale."""
    pool = sample.pool(joined([level(), everything(sample)]))
    targets = range(1 + sample.design.components)
    candidates: list[list[Candidate]] = [[] for _ in targets]
    chosen_sets = list(plain_sets(pool.features, sample.points))
    fixed = [target for target in targets if choices.of(target) != "loo"]
    free = [target for target in targets if choices.of(target) == "loo"]
    for target, candidate in zip(fixed, _plain(sample, pool.take(_rest(pool)), fixed, choices), strict=True):
        candidates[target].append(candidate)
    for which in chosen_sets:
        for target, candidate in zip(free, _plain(sample, pool.take(which), free, choices), strict=True):
            candidates[target].append(candidate)
    for target, problem in zip(free, _problems(sample, pool, free), strict=True):
        candidates[target] += _by_groups(sample, pool, problem, target, choices)
    if 0 in free:
        candidates[0] += _by_arms(sample, choices)
    chosen = [min(tried, key=lambda candidate: candidate.loss) for tried in candidates]
    solutions = [candidate.solution for candidate in chosen]
    if sample.design.family == "binomial":
        solutions[0] = _logistic(sample, chosen[0], choices.penalty)
    return tuple(solutions)


def _rest(pool: Pool) -> Numbers:
    """All features but the level, which comes first."""
    return np.arange(1, len(pool.features))


def _plain(sample: Sample, pool: Pool, targets: Sequence[int], choices: Choices) -> list[Candidate]:
    """One penalty for all features, for each of the targets."""
    if not targets:
        return []
    linear = with_columns(sample.design, pool.phi)
    span = make_span(linear, linear.weights, linear.y[None])
    candidates = []
    for target in targets:
        scale = (
            units(linear.z, linear.weights / linear.weights.sum(), constant=1.0)
            if target == 0
            else span.standard.spread
        )
        basis = span.basis(scale, sample.seed)
        b = basis.projections[:, 0] if target == 0 else moments(linear, basis)[target - 1]
        penalty, loss = choices.of(target), 0.0
        if penalty == "loo" and target == 0:
            penalty, loss = choose_outcome_penalty(linear, basis, linear.y, b, basis.penalties)
        elif penalty == "loo":
            penalty, loss = choose_riesz_penalty(linear, basis, target - 1, b, basis.penalties)
        solution = SplineSolution(pool.features, basis.solve(b, float(penalty)), float(penalty))
        candidates.append(Candidate(loss, solution, scale))
    return candidates


def _problems(sample: Sample, pool: Pool, targets: Sequence[int]) -> list[Quadratic]:
    """The quadratic problem of each target on the features of a pool."""
    design, phi = sample.design, pool.phi.observed
    omega = design.weights / design.weights.sum()
    rows = float(1.0 / (omega @ omega))
    weighted = phi * omega
    gram = weighted @ phi.T
    part = draw_part(len(design), _NOISE_ROWS, sample.seed)
    problems = []
    for target in targets:
        if target == 0:
            y = design.y - omega @ design.y
            problems.append(_outcome_problem(gram, weighted @ y, float(omega @ y**2), rows))
        else:
            m = moment_rows(design, pool.phi, target - 1)
            problems.append(_riesz_problem(gram, m @ omega, m[:, part], phi[:, part], omega[part], rows))
    return problems


def _outcome_problem(gram: Array, linear: Array, total: float, rows: float) -> Quadratic:
    def noise(theta: Array, used: float) -> float:
        left = total - 2 * linear @ theta + theta @ gram @ theta
        return float(max(float(left), 1e-10 * total) / max(1.0 - used / rows, 0.1))

    return Quadratic(gram, linear, rows, noise)


def _riesz_problem(gram: Array, linear: Array, m: Array, phi: Array, omega: Array, rows: float) -> Quadratic:
    seen = identified(gram)
    seen[0] = False  # the level
    size, share = gram.diagonal()[seen], omega / omega.sum()

    def noise(theta: Array, used: float) -> float:
        error = (m[seen] - phi[seen] * (theta @ phi)) ** 2 @ share
        return float(np.sum(error / size) / max(len(size), 1) / max(1.0 - used / rows, 0.1))

    return Quadratic(gram, linear, rows, noise)


def _by_groups(sample: Sample, pool: Pool, problem: Quadratic, target: int, choices: Choices) -> list[Candidate]:
    """A penalty for each group of features; then the same with products of the strongest covariates."""
    if not 1 < len(pool.features) <= MOST_FEATURES + 1:
        return []
    penalties = _search(sample, pool, problem, target)
    kept = pool.take(penalties.kept)
    candidates = [_solved(sample, kept, penalties.penalty, target)]
    strength = penalties.theta**2 * problem.gram.diagonal()[penalties.kept]
    products = interactions(sample, strength, kept.features, choices.interactions)
    if len(products):
        larger = kept.joined(sample.pool(products))
        (problem,) = _problems(sample, larger, [target])
        start = replace(penalties, kept=np.arange(len(penalties.kept)))
        penalties = _search(sample, larger, problem, target, start)
        candidates.append(_solved(sample, larger.take(penalties.kept), penalties.penalty, target))
    return candidates


def _search(sample: Sample, pool: Pool, problem: Quadratic, target: int, start: Penalties | None = None) -> Penalties:
    """The penalties of the groups of a pool, whose level has none."""
    groups = penalty_groups(pool.features, sample.points)
    groups[0] = NONE
    return group_penalties(problem, groups, _SPARSITY[min(target, 1)], start)


def _solved(sample: Sample, pool: Pool, penalty: Array, target: int) -> Candidate:
    """Solve with the penalties of groups, times the factor with the smallest leave-one-out loss."""
    features = pool.take(_rest(pool))
    linear = with_columns(sample.design, features.phi)
    scale = np.sqrt(penalty)
    basis = make_span(linear, linear.weights, linear.y[None]).basis(scale, sample.seed)
    if target == 0:
        b = basis.projections[:, 0]
        factor, loss = choose_outcome_penalty(linear, basis, linear.y, b, _FACTORS)
    else:
        b = moments(linear, basis)[target - 1]
        factor, loss = choose_riesz_penalty(linear, basis, target - 1, b, _FACTORS)
    return Candidate(loss, SplineSolution(features.features, basis.solve(b, factor), factor), scale)


def _by_arms(sample: Sample, choices: Choices) -> list[Candidate]:
    """A regression of the outcome for each arm; none without arms, or if an arm has few rows."""
    total = float(sample.design.weights.sum())
    features = everything(sample)
    covariates = (features.share == NONE) & (sample.points.sources[features.first] >= 0)
    inputs = joined([level(), features.take(covariates)])
    loss, parts = 0.0, []
    for arm, rows in enumerate(arms_of(sample, _FEWEST) or []):
        of_arm = sample.take(rows)
        pool = of_arm.pool(inputs)
        (problem,) = _problems(of_arm, pool, [0])
        candidates = [
            _plain(of_arm, pool.take(which), [0], choices)[0] for which in plain_sets(pool.features, of_arm.points)
        ]
        candidates += _by_groups(of_arm, pool, problem, 0, choices)
        best = min(candidates, key=lambda candidate: candidate.loss)
        loss += best.loss * float(of_arm.design.weights.sum()) / total
        parts.append((of_arm, sample.shares.of_arm(arm), best))
    if not parts:
        return []
    return [Candidate(loss, _of_arms([(share, part.solution) for _, share, part in parts]), np.empty(0), tuple(parts))]


def _of_arms(parts: Sequence[tuple[int, SplineSolution]]) -> SplineSolution:
    """Regressions of arms, each with its share, as one function."""
    features = [joined([level(share), part.features.times(share)]) for share, part in parts]
    coefficients = [np.zeros(1), *(part.coefficients for _, part in parts)]
    return SplineSolution(joined(features), np.concatenate(coefficients), np.nan)


def _logistic(sample: Sample, chosen: Candidate, penalty: Penalty) -> SplineSolution:
    """A logistic regression on the same features, with the same relative penalties; of each arm if there are parts."""
    if chosen.parts:
        return _of_arms([(share, _logistic(own, part, penalty)) for own, share, part in chosen.parts])
    features = chosen.solution.features
    made: Design = with_columns(sample.design, sample.pool(features).phi)
    theta, found = fit_logistic(made, penalty, chosen.units, sample.seed)
    return SplineSolution(features, theta, found)
