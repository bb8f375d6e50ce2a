"""What is tried for one function, and the choice by leave-one-out losses.

In: the rows of a training set and a target: mu, 0, or the r of a component, 1 and so on. Out: a :class:`Candidate`, a linear
function of features with its leave-one-out loss. These are tried, and the smallest loss decides:

1. one penalty for lines; one for lines and their products with the treatment;
2. a penalty for each group of all features (``shrinkage.py``), times a common factor;
3. the same with steps of covariates that (2) misses and products of covariates: of the strongest in (2), and of pairs that (2)
   misses (``screening.py``); then with products of these steps;
4. for mu, if the treatment has arms: a regression for each arm, which is (1), (2) or (3) on the arm's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.derived import with_columns
from riesz.learners.inputs.units import units
from riesz.learners.linear.learner import Penalty, fit_glm
from riesz.learners.linear.ridge import choose_outcome_penalty, choose_riesz_penalty, make_span, moments
from riesz.learners.splines.arm_sums import ArmSums
from riesz.learners.splines.feature_sets import (
    MOST_FEATURES,
    FeaturesOf,
    Pool,
    Sample,
    all_features,
    arms_of,
    covariate_features,
    interactions,
    level,
    moment_rows,
    plain_sets,
    varying_shares,
)
from riesz.learners.splines.features import (
    NONE,
    Features,
    SplineSolution,
    covariate_parts,
    joined,
    pairs,
    penalty_groups,
    without,
)
from riesz.learners.splines.screening import screen, screen_steps, screen_with_steps
from riesz.learners.splines.shrinkage import Penalties, Quadratic, group_penalties, identified, outcome_problem

_FACTORS = np.geomspace(0.1, 10.0, 5)[1:4]  # of the groups' penalties
_SPARSITY = (2.0, 4.0)  # kappa of the groups, for mu and for rr: see shrinkage.py
_REST = slice(1, None)  # all features but the level, which comes first
_FEWEST = 30  # rows that an arm needs for its own regression
_NOISE_ROWS = 2000  # rows that the noise of a moment is measured on
# Penalty of features that join, in units of their mean square; the leave-one-out loss then scales it together with the penalties of
# the other features. Keeping it fixed instead changed nothing on even random worlds: the distance from the oracle was 0.48 either
# way (100 binary worlds), and 0.64 and 0.65 (60 continuous ones).
_JOINING = 0.25


@dataclass(frozen=True)
class Choices:
    """What may be tried.

    Attributes
    ----------
    penalty, rr_penalty : float or "loo"
        A number is the one penalty of all inputs and their products with the treatment.
    interactions : int
        Number of covariates whose products are tried; with 0 there are no products of covariates.
    double_selection : bool
        Whether features chosen for rr join mu, and the other way around.
    propensities : bool
        Whether rr follows from the propensities of arms.
    residuals : bool
        Whether rr is a function of the treatment's residual.
    outcome_alone : bool
        Whether mu is all that is learned.
    """

    penalty: Penalty
    rr_penalty: Penalty
    interactions: int
    double_selection: bool
    propensities: bool
    residuals: bool
    outcome_alone: bool = False

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


def choose(sample: Sample, targets: Sequence[int], choices: Choices, sums: ArmSums | None) -> list[Candidate]:
    """The best candidate for each target: mu, 0, or the r of a component, 1 and so on; mu alone if there are sums of arms."""
    features = joined([level(), all_features(sample)])
    fixed = [target for target in targets if choices.of(target) != "loo"]
    free = [target for target in targets if choices.of(target) == "loo"]
    pool, problems = _all(sample, features, free, sums)
    candidates: dict[int, list[Candidate]] = {target: [] for target in targets}
    if fixed:
        for target, candidate in zip(fixed, with_one_penalty(sample, pool.take(_REST), fixed, choices), strict=True):
            candidates[target].append(candidate)
    for which in plain_sets(pool.features, sample.points) if free else ():
        for target, candidate in zip(free, with_one_penalty(sample, pool.take(which), free, choices), strict=True):
            candidates[target].append(candidate)
    for target, problem in zip(free, problems, strict=True):
        candidates[target] += _by_groups(sample, pool, problem, target, choices)
    if 0 in free:
        candidates[0] += _by_arms(sample, choices, sums)
    return [min(candidates[target], key=lambda candidate: candidate.loss) for target in targets]


def _all(
    sample: Sample, features: Features, targets: Sequence[int], sums: ArmSums | None
) -> tuple[Pool | FeaturesOf, list[Quadratic]]:
    """All features, and the quadratic problem of each target on them."""
    if sums is not None:
        return FeaturesOf(features, sample), [sums.of_all(features) for _ in targets]
    pool = sample.pool(features)
    return pool, quadratic_problems(sample, pool, targets)


def with_joining(
    sample: Sample,
    members: Sequence[Sample],
    chosen: tuple[Candidate, list[Candidate], list[Candidate]],
    choices: Choices,
) -> tuple[Candidate, list[Candidate], list[Candidate]]:
    r"""Double selection: mu with the features of rr (or of the arms' logits), and these with the features of mu.

    The bias of a debiased estimate is the mean product of the errors of mu and rr. A covariate whose effect on one of them is too
    small to be chosen, but which matters for the other, costs a bias that no loss of a single function shows (Belloni, Chernozhukov
    and Hansen 2014). Functions with a penalty that the user gave stay as they are.
    """
    mu, rr, arms = chosen
    points, shares = sample.points, len(sample.shares.centre)
    of_mu = covariate_parts(mu.solution.features, points)
    of_rr = covariate_parts(joined([candidate.solution.features for candidate in (*rr, *arms)]), points)
    if choices.rr_penalty == "loo":
        with_shares = joined([of_mu, *(of_mu.times(share) for share in range(shares))])
        rr = [_join(sample, candidate, with_shares, target) for target, candidate in enumerate(rr, start=1)]
        arms = [_join(member, candidate, of_mu, 0) for member, candidate in zip(members, arms, strict=True)]
    if choices.penalty == "loo":
        mu = _join(sample, mu, of_rr, 0)
    return mu, rr, arms


def _join(sample: Sample, candidate: Candidate, joining: Features, target: int) -> Candidate:
    """Solve again with further features, as many as there may be."""
    if candidate.parts:
        parts = tuple((rows, share, _join(rows, part, joining, target)) for rows, share, part in candidate.parts)
        return _candidate_of_arms(candidate.loss, parts)
    known = candidate.solution.features
    added = without(joining, known)
    added = added.take(np.arange(min(len(added), max(MOST_FEATURES - len(known), 0))))
    if not len(added):
        return candidate
    pool = sample.pool(joined([level(), known, added]))
    size = np.average(pool.phi.observed**2, axis=1, weights=sample.design.weights)
    penalty = np.concatenate(
        [[0.0], candidate.units[1:] ** 2 * candidate.solution.penalty, _JOINING * size[1 + len(known) :]]
    )
    usable = np.flatnonzero(size > 1e-12 * size.max())
    return _solved(sample, pool.take(usable), penalty[usable], target)


def with_one_penalty(sample: Sample, pool: Pool, targets: Sequence[int], choices: Choices) -> list[Candidate]:
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


def quadratic_problems(sample: Sample, pool: Pool, targets: Sequence[int]) -> list[Quadratic]:
    """The quadratic problem of each target on the features of a pool."""
    design, phi = sample.design, pool.phi.observed
    omega = design.weights / design.weights.sum()
    rows = float(1.0 / (omega @ omega))
    scaled = phi * np.sqrt(omega)
    gram = scaled @ scaled.T  # takes half the time of a product of two different matrices
    part = draw_part(len(design), _NOISE_ROWS, sample.seed)
    problems = []
    for target in targets:
        if target == 0:
            y = design.y - omega @ design.y
            problems.append(outcome_problem(gram, phi @ (omega * y), float(omega @ y**2), rows))
        else:
            m = moment_rows(design, pool.phi, target - 1)
            problems.append(_riesz_problem(gram, m @ omega, m[:, part], phi[:, part], omega[part], rows))
    return problems


def _riesz_problem(gram: Array, linear: Array, m: Array, phi: Array, omega: Array, rows: float) -> Quadratic:
    usable = identified(gram)
    usable[0] = False  # the level
    size, share = gram.diagonal()[usable], omega / omega.sum()

    def noise(theta: Array, used: float) -> float:
        error = (m[usable] - phi[usable] * (theta @ phi)) ** 2 @ share
        return float(np.sum(error / size) / max(len(size), 1) / max(1.0 - used / rows, 0.1))

    return Quadratic(gram, linear, rows, noise)


def _by_groups(
    sample: Sample, pool: Pool | FeaturesOf, problem: Quadratic, target: int, choices: Choices
) -> list[Candidate]:
    """A penalty for each group of features; then the same with steps and products that these miss, in rounds."""
    if not 1 < len(pool.features) <= MOST_FEATURES + 1:
        return []
    penalties = _search(sample, pool.features, problem, target)
    kept = pool.take(penalties.kept)
    candidates = [_solved(sample, kept, penalties.penalty, target)]
    for joining in (_products_and_steps, _products_of_steps):
        added = joining(sample, kept, penalties.theta, target, choices)
        if not len(added):
            continue
        larger = kept.joined(sample.pool(added))
        (problem,) = quadratic_problems(sample, larger, [target])
        start = replace(penalties, kept=np.arange(len(penalties.kept)))
        penalties = _search(sample, larger.features, problem, target, start)
        kept = larger.take(penalties.kept)
        candidates.append(_solved(sample, kept, penalties.penalty, target))
    return candidates


def _products_and_steps(sample: Sample, kept: Pool, theta: Array, target: int, choices: Choices) -> Features:
    """Products of the strongest covariates and of screened pairs, and screened steps."""
    steps = screen_steps(sample, kept, theta, target)
    if not choices.interactions:
        return steps
    weights = sample.design.weights
    strength = theta**2 * np.average(kept.phi.observed**2, axis=1, weights=weights)
    screened = screen(sample, kept, theta, target)
    return joined([steps, interactions(sample, strength, kept.features, choices.interactions, screened)])


def _products_of_steps(sample: Sample, kept: Pool, theta: Array, target: int, choices: Choices) -> Features:
    """Screened products of steps that were kept, with each other and with lines."""
    found = screen_with_steps(sample, kept, theta, target) if choices.interactions else []
    products = pairs([left for left, _ in found], [right for _, right in found])
    shares = range(varying_shares(sample))
    return without(joined([products, *(products.times(share) for share in shares)]), kept.features)


def _search(
    sample: Sample, features: Features, problem: Quadratic, target: int, start: Penalties | None = None
) -> Penalties:
    """The penalties of groups of features, of which the first, the level, has none."""
    groups = penalty_groups(features, sample.points)
    groups[0] = NONE
    return group_penalties(problem, groups, _SPARSITY[min(target, 1)], start)


def _solved(sample: Sample, pool: Pool, penalty: Array, target: int) -> Candidate:
    """Solve with the penalties of groups, times the factor with the smallest leave-one-out loss."""
    features = pool.take(_REST)
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


def regression(sample: Sample, choices: Choices, problem: Quadratic | None) -> Candidate:
    """The best regression of the outcome on covariates; ``problem`` is that of all their inputs, if it is known."""
    features = covariate_features(sample)
    pool: Pool | FeaturesOf = FeaturesOf(features, sample)
    if choices.penalty != "loo":
        return with_one_penalty(sample, pool.take(_REST), [0], choices)[0]
    if problem is None:
        pool = sample.pool(features)
        (problem,) = quadratic_problems(sample, pool, [0])
    candidates = [
        with_one_penalty(sample, pool.take(which), [0], choices)[0]
        for which in plain_sets(pool.features, sample.points)
    ]
    candidates += _by_groups(sample, pool, problem, 0, choices)
    return min(candidates, key=lambda candidate: candidate.loss)


def _by_arms(sample: Sample, choices: Choices, sums: ArmSums | None) -> list[Candidate]:
    """A regression of the outcome for each arm; none without arms, or if an arm has few rows."""
    arms = [sample.take(rows) for rows in arms_of(sample, _FEWEST) or []]
    if not arms:
        return []
    parts = tuple(
        (rows, sample.shares.of_arm(arm), regression(rows, choices, None if sums is None else sums.of_arm(arm)))
        for arm, rows in enumerate(arms)
    )
    weights = [float(rows.design.weights.sum()) for rows in arms]
    loss = sum(part.loss * weight for (_, _, part), weight in zip(parts, weights, strict=True))
    return [_candidate_of_arms(loss / float(sample.design.weights.sum()), parts)]


def _candidate_of_arms(loss: float, parts: tuple[tuple[Sample, int, Candidate], ...]) -> Candidate:
    """The candidate that is made of regressions of arms."""
    return Candidate(loss, _of_arms([(share, part.solution) for _, share, part in parts]), np.empty(0), parts)


def _of_arms(parts: Sequence[tuple[int, SplineSolution]]) -> SplineSolution:
    """Regressions of arms, each with its share, as one function."""
    features = [joined([level(share), part.features.times(share)]) for share, part in parts]
    coefficients = [np.zeros(1), *(part.coefficients for _, part in parts)]
    return SplineSolution(joined(features), np.concatenate(coefficients), np.nan)


def glm(sample: Sample, chosen: Candidate, penalty: Penalty) -> SplineSolution:
    """A regression of the index on the same features, with the same relative penalties; of each arm if there are parts."""
    if chosen.parts:
        return _of_arms([(share, glm(rows, part, penalty)) for rows, share, part in chosen.parts])
    features = chosen.solution.features
    columns = with_columns(sample.design, sample.without_readings().pool(features).phi)
    theta, chosen_penalty = fit_glm(columns, penalty, chosen.units, sample.seed)
    return SplineSolution(features, theta, chosen_penalty)
