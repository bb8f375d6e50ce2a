"""Closed forms of mu and rr on products of splines, and the choice among them by leave-one-out losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.derived import with_columns
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.inputs.evaluation_points import EvaluationPoints, make_evaluation_points
from riesz.learners.inputs.expansions import Role
from riesz.learners.inputs.units import units
from riesz.learners.linear.learner import fit_logistic
from riesz.learners.linear.ridge import choose_outcome_penalty, choose_riesz_penalty, make_span, moments
from riesz.learners.splines.features import (
    NONE,
    Features,
    Numbers,
    Shares,
    evaluate,
    joined,
    pairs,
    penalty_groups,
    singles,
)
from riesz.learners.splines.shrinkage import Penalties, Quadratic, group_penalties
from riesz.storage.coding import stored

_MOST_NUMBERS = 4_000_000  # features times rows that are solved at once
_MOST_ROWS = 20_000
_MOST_FEATURES = 1000
_FEWEST = 30  # rows of an arm that has a regression of its own
_NOISE_ROWS = 2000  # rows that the noise of a moment is measured on
AROUND = np.geomspace(0.1, 10.0, 5)  # multiples of the groups' penalties that are tried
STRONGEST = 5  # covariates whose products are features
OPTIONS = {"groups", "arms", "rr_arms", "interactions"}


@stored
@dataclass(frozen=True)
class Solution:
    """A linear function of features.

    Attributes
    ----------
    features : Features
    coefficients : ndarray, shape (1 + F,)
        The intercept first.
    penalty : float
        NaN if it is made of parts.
    """

    features: Features
    coefficients: Array
    penalty: float


@dataclass(frozen=True)
class Candidate:
    """A solution with its leave-one-out loss, and what is needed to solve again.

    Attributes
    ----------
    loss : float
    solution : Solution
    units : ndarray, shape (1 + F,)
        What features are divided by before they are penalised alike.
    parts : tuple
        The regressions of arms that it is made of: the rows of each, its share, and its own candidate.
    """

    loss: float
    solution: Solution
    units: Array
    parts: tuple[tuple[Sample, int, Candidate], ...] = ()


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
        Of the rows that are left out in turn, when they are many.
    """

    design: Design
    points: EvaluationPoints
    shares: Shares
    seed: int

    def evaluate(self, features: Features) -> Evaluation:
        """Features, shape (F, n)."""
        return evaluate(features, self.shares, self.points, self.design)

    def take(self, rows: Numbers) -> Sample:
        """Some of the rows."""
        part = self.design.take(rows)
        return replace(self, design=part, points=make_evaluation_points(part, self.points.expansions))


@dataclass(frozen=True)
class Pool:
    """Features with their values on a sample."""

    features: Features
    phi: Evaluation

    def take(self, which: Numbers) -> Pool:
        """Some of the features."""
        return Pool(self.features.take(which), self.phi.map(lambda values: values[which]))

    def joined(self, other: Pool) -> Pool:
        """Both."""
        phi = Evaluation(
            *(
                np.concatenate(pair)
                for pair in (
                    (self.phi.observed, other.phi.observed),
                    (self.phi.values, other.phi.values),
                    (self.phi.slopes, other.phi.slopes),
                )
            )
        )
        return Pool(joined([self.features, other.features]), phi)


def solve(sample: Sample) -> tuple[Solution, tuple[Solution, ...]]:
    """Mu (its logit under ``family="binomial"``) and each component's r, chosen by their leave-one-out losses."""
    design, points = sample.design, sample.points
    pool = _pool(sample, joined([_level(), _singles(points), _products(sample)]))
    best: list[list[Candidate]] = [[] for _ in range(1 + design.components)]
    for which in _plain_sets(pool.features, points.roles[pool.features.first]):
        for target, candidate in enumerate(_plain(sample, pool.take(which))):
            best[target].append(candidate)
    if "groups" in OPTIONS:
        for target, problem in enumerate(_problems(sample, pool)):
            best[target] += _adapted(sample, pool, problem, target)
    arms = arms_rows(sample) if "arms" in OPTIONS else None
    if arms is not None:
        best[0].append(_outcome_by_arms(sample, arms))
        if "rr_arms" in OPTIONS:
            mains = singles(np.flatnonzero(points.sources >= 0))
            pools = [_pool(sample, joined([_level(share), mains.times(share)])) for share in map(sample.shares.of_arm, range(len(arms)))]
            for c in range(design.components):
                best[1 + c] += _riesz_by_arms(sample, pools, 1 + c)
    chosen = [min(candidates, key=lambda candidate: candidate.loss) for candidates in best]
    mu = chosen[0].solution if design.family != "binomial" else _logistic(sample, chosen[0])
    return mu, tuple(candidate.solution for candidate in chosen[1:])


def _logistic(sample: Sample, chosen: Candidate) -> Solution:
    """A logistic regression on the same features, with the same relative penalties; of each arm if there are parts."""
    if chosen.parts:
        return _of_arms([(share, _logistic(own, part)) for own, share, part in chosen.parts])
    features = chosen.solution.features
    made = with_columns(sample.design, sample.evaluate(features))
    theta, penalty = fit_logistic(made, "loo", chosen.units, sample.seed)
    return Solution(features, theta, penalty)


def _level(share: int = NONE) -> Features:
    """A constant, or the indicator of an arm."""
    return Features(*(np.array([number]) for number in (NONE, NONE, share)))


def _singles(points: EvaluationPoints) -> Features:
    return singles(np.arange(len(points.roles)))


def _products(sample: Sample) -> Features:
    """Products of inputs with the treatment's columns; of the treatment itself only where it is a number."""
    points = sample.points
    inputs = np.arange(len(points.roles))
    if points.expansions.treatment is None:
        inputs = inputs[points.sources >= 0]
    return joined([singles(inputs).times(share) for share in range(len(sample.shares.centre))])


def _pool(sample: Sample, features: Features) -> Pool:
    return Pool(features, sample.evaluate(features))


def _plain_sets(features: Features, roles: Numbers) -> Iterator[Numbers]:
    """Lines, lines with products; and with splines."""
    there = features.first != NONE
    line, alone = there & (roles == Role.LINE), there & (features.share == NONE)
    yield np.flatnonzero(line & alone)
    yield np.flatnonzero(line)
    if "old" in OPTIONS and not line[there].all():
        yield np.flatnonzero(alone)
        yield np.flatnonzero(alone | line)
        yield np.flatnonzero(there)


def _plain(sample: Sample, pool: Pool) -> list[Candidate]:
    """One penalty for all features."""
    made = with_columns(sample.design, pool.phi)
    span = make_span(made, made.weights, made.y[None])
    sizes = units(made.z, made.weights / made.weights.sum(), constant=1.0)
    basis = span.basis(sizes, sample.seed)
    b = basis.projections[:, 0]
    penalty, loss = choose_outcome_penalty(made, basis, made.y, b, basis.penalties)
    candidates = [Candidate(loss, Solution(pool.features, basis.solve(b, penalty), penalty), sizes)]
    basis = span.basis(seed=sample.seed)
    spread = span.standard.spread
    for c, m in enumerate(moments(made, basis)):
        penalty, loss = choose_riesz_penalty(made, basis, c, m, basis.penalties)
        candidates.append(Candidate(loss, Solution(pool.features, basis.solve(m, penalty), penalty), spread))
    return candidates


def _moment_rows(design: Design, phi: Evaluation, component: int) -> Array:
    """The moment of each feature, shape (F, n)."""
    weights = design.reading_weights[component]
    read = np.where(design.is_derivative[:, None], phi.slopes, phi.values)
    return np.asarray(np.einsum("frn,rn->fn", read, weights))


def _problems(sample: Sample, pool: Pool, only: int | None = None) -> list[Quadratic]:
    """The quadratic problems of mu and of each component's r; or of one target alone."""
    design = sample.design
    omega = design.weights / design.weights.sum()
    rows = float(1.0 / (omega @ omega))
    phi = pool.phi.observed
    weighted = phi * omega
    gram = weighted @ phi.T
    problems = []
    if only in (None, 0):
        y = design.y - omega @ design.y
        problems.append(_outcome_problem(gram, weighted @ y, float(omega @ y**2), rows))
    part = draw_part(len(design), _NOISE_ROWS, sample.seed)
    for c in range(design.components):
        if only in (None, 1 + c):
            m = _moment_rows(design, pool.phi, c)
            problems.append(_riesz_problem(gram, m @ omega, m[:, part], phi[:, part], omega[part], rows))
    return problems


def _outcome_problem(gram: Array, linear: Array, total: float, rows: float) -> Quadratic:
    def noise(theta: Array, used: float) -> float:
        left = total - 2 * linear @ theta + theta @ gram @ theta
        return float(max(left, 1e-10 * total) / max(1.0 - used / rows, 0.1))

    return Quadratic(gram, linear, rows, noise)


def _riesz_problem(gram: Array, linear: Array, m: Array, phi: Array, omega: Array, rows: float) -> Quadratic:
    size = np.maximum(gram.diagonal(), 1e-300)[1:]
    share = omega / omega.sum()

    def noise(theta: Array, used: float) -> float:
        error = (m[1:] - phi[1:] * (theta @ phi)) ** 2 @ share
        return float(np.mean(error / size) / max(1.0 - used / rows, 0.1))

    return Quadratic(gram, linear, rows, noise)


def _adapted(sample: Sample, pool: Pool, problem: Quadratic, target: int) -> list[Candidate]:
    """A penalty for each group of features; then the same with products of the strongest covariates."""
    return [_solved(sample, kept, penalties.penalty, target) for kept, penalties in _searched(sample, pool, problem, target)]


def _searched(sample: Sample, pool: Pool, problem: Quadratic, target: int) -> list[tuple[Pool, Penalties]]:
    """The features that stay, and the penalties of their groups: without and with products of the strongest covariates.

    The first feature of the pool is a level without penalty.
    """
    groups = _groups(sample, pool)
    penalties = group_penalties(problem, groups)
    kept = pool.take(penalties.kept)
    found = [(kept, penalties)]
    if "interactions" in OPTIONS:
        more = _interactions(sample, kept.features, penalties, problem.gram.diagonal()[penalties.kept])
        if len(more):
            pool = kept.joined(_pool(sample, more))
            (problem,) = _problems(sample, pool, only=target)
            start = replace(penalties, kept=np.arange(len(penalties.kept)))
            penalties = group_penalties(problem, _groups(sample, pool), start)
            found.append((pool.take(penalties.kept), penalties))
    return found


def _groups(sample: Sample, pool: Pool) -> Numbers:
    groups = penalty_groups(pool.features, sample.points)
    groups[0] = NONE
    return groups


def _solved(sample: Sample, pool: Pool, penalty: Array, target: int) -> Candidate:
    """Solve with penalties of features, times what leaving rows out finds best."""
    made = with_columns(sample.design, pool.take(np.arange(1, len(penalty))).phi)
    scale = np.sqrt(penalty)
    span = make_span(made, made.weights, made.y[None])
    basis = span.basis(scale, sample.seed)
    if target == 0:
        b = basis.projections[:, 0]
        factor, loss = choose_outcome_penalty(made, basis, made.y, b, AROUND)
    else:
        b = moments(made, basis)[target - 1]
        factor, loss = choose_riesz_penalty(made, basis, target - 1, b, AROUND)
    return Candidate(loss, Solution(pool.features.take(np.arange(1, len(penalty))), basis.solve(b, factor), factor), scale)


def _interactions(sample: Sample, kept: Features, penalties: Penalties, size: Array) -> Features:
    """Products of the strongest covariates' inputs, and their products with the treatment's columns."""
    points = sample.points
    source = np.where(kept.first == NONE, NONE, points.sources[kept.first])
    strength = np.bincount(source + 1, penalties.theta**2 * size, minlength=1)[1:]
    strongest = [j for j in np.argsort(-strength)[:STRONGEST] if strength[j] > 0]
    first, second = [], []
    for place, one in enumerate(strongest):
        for other in strongest[place + 1 :]:
            for left, right in _combinations(points, int(one), int(other)):
                first.append(left)
                second.append(right)
    products = pairs(first, second)
    if not len(products):
        return products
    shares = kept.share.max(initial=NONE)
    if shares >= len(sample.shares.centre):  # features of an arm
        return products.times(int(shares))
    return joined([products, *(products.times(share) for share in range(len(sample.shares.centre)))])


def _combinations(points: EvaluationPoints, one: int, other: int) -> list[tuple[int, int]]:
    """Line by line, and the line of each with the first bends of the other."""
    lines, bends = [], []
    for source in (one, other):
        inputs = np.flatnonzero(points.sources == source)
        roles = points.roles[inputs]
        lines.append(int(inputs[roles == Role.LINE][0]))
        bends.append([int(place) for place in inputs[roles == Role.BEND][:2]])
    return [
        (lines[0], lines[1]),
        *((lines[0], bend) for bend in bends[1]),
        *((bend, lines[1]) for bend in bends[0]),
    ]


def arms_rows(sample: Sample) -> list[Numbers] | None:
    """The positions of each arm's rows; None without arms, or if an arm has few rows."""
    arms = sample.shares.arms
    if arms is None:
        return None
    treatment = sample.design.treatment
    rows = [np.flatnonzero((treatment == arm).all(axis=1)) for arm in arms]
    return rows if min(map(len, rows)) >= _FEWEST else None


def _outcome_by_arms(sample: Sample, arms: Sequence[Numbers]) -> Candidate:
    """A regression for each arm."""
    total = float(sample.design.weights.sum())
    loss, parts = 0.0, []
    for arm, rows in enumerate(arms):
        own = sample.take(rows)
        pool = _pool(own, joined([_level(), singles(np.flatnonzero(own.points.sources >= 0))]))
        candidates = [_plain(own, pool.take(which))[0] for which in _plain_sets(pool.features, own.points.roles[pool.features.first])]
        if "groups" in OPTIONS:
            (problem,) = _problems(own, pool, only=0)
            candidates += _adapted(own, pool, problem, 0)
        candidate = min(candidates, key=lambda one: one.loss)
        loss += candidate.loss * float(own.design.weights.sum()) / total
        parts.append((own, sample.shares.of_arm(arm), candidate))
    return Candidate(loss, _of_arms([(share, part.solution) for _, share, part in parts]), np.empty(0), tuple(parts))


def _of_arms(parts: Sequence[tuple[int, Solution]]) -> Solution:
    """Regressions of arms, each with its share, as one function."""
    features = [joined([_level(share), part.features.times(share)]) for share, part in parts]
    coefficients = [np.zeros(1), *(part.coefficients for _, part in parts)]
    return Solution(joined(features), np.concatenate(coefficients), np.nan)


def _riesz_by_arms(sample: Sample, pools: Sequence[Pool], target: int) -> list[Candidate]:
    """The representer of one component, with features of each arm by itself."""
    each = [_searched(sample, pool, _problems(sample, pool, only=target)[0], target) for pool in pools]
    candidates = []
    for parts in ([found[0] for found in each], [found[-1] for found in each]):
        pool, penalty = parts[0][0], parts[0][1].penalty
        for other, penalties in parts[1:]:
            pool, penalty = pool.joined(other), np.concatenate([penalty, penalties.penalty])
        candidates.append(_solved(sample, pool, penalty, target))
    return candidates
