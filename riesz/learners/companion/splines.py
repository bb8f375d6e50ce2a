r"""The networks' companion: closed forms of mu and rr on smooth features.

The features of a row are splines of its inputs x (see ``expansion.py``) and their products with the treatment shares
:math:`\tilde a` that mix the outcome heads. On a set of features mu and rr have closed forms with penalties by leave-one-out, as in
``riesz.Linear``. Of the sets in :func:`_sets`, from lines to splines with products, mu and each rr take the one with the smallest
leave-one-out loss. For mu a column with two values is penalised by its range, since the deviation of a dummy says only how rare
it is. When the treatment has arms, mu may also be a regression for each arm, with features and a penalty of its own:
one arm may be simple and well observed while another is neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.derived import with_columns
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.linear.learner import fit_logistic
from riesz.learners.linear.ridge import Basis, Span, choose_outcome_penalty, choose_riesz_penalty, make_span, moments
from riesz.learners.inputs.expansions import Expansions
from riesz.learners.inputs.evaluation_points import EvaluationPoints, make_evaluation_points
from riesz.learners.inputs.units import units
from riesz.storage.coding import stored

Rows = npt.NDArray[np.intp]

MOST_ROWS = 20_000  # rows that a closed form on learned or made features is solved on, at most
_MOST_NUMBERS = 4_000_000  # features times rows
_MOST_EVALUATED = 5 * _MOST_NUMBERS  # the same where nothing is solved
_MOST_FEATURES = 1000  # larger sets are passed over, but for the first
_FEWEST = 30  # rows of an arm that has a regression of its own


@stored
@dataclass(frozen=True)
class FeatureSet:
    """What the features are.

    Attributes
    ----------
    main, product : ndarray of bool, shape (t + c,)
        Which inputs are features, and of which the products with the treatment are, too.
    centre, spread : float
        Of a continuous treatment, in those products.
    arms : ndarray, shape (K, t), or None
        The treatments of K arms; then the features are indicators of all but the first, and the products with every indicator.
    """

    main: npt.NDArray[np.bool_]
    product: npt.NDArray[np.bool_]
    centre: float = 0.0
    spread: float = 1.0
    arms: Array | None = None


@stored
@dataclass(frozen=True)
class Solution:
    """A linear function of (1, features).

    Attributes
    ----------
    features : FeatureSet
    coefficients : ndarray, shape (1 + F,)
    penalty : float
        NaN when it is made of parts.
    parts : tuple of Solution
        The regression of each arm on its own rows, when each has one.
    """

    features: FeatureSet
    coefficients: Array
    penalty: float
    parts: tuple[Solution, ...] = ()


@stored
@dataclass(frozen=True)
class ClosedForm:
    """Closed-form mu and rr of one training set.

    Attributes
    ----------
    expansions : Expansions
    mu : Solution
        Of the logit under ``family="binomial"``.
    rr : tuple of Solution
        One for each component, up to scale.
    """

    expansions: Expansions
    mu: Solution
    rr: tuple[Solution, ...]

    def stations(self, sample: Design) -> EvaluationPoints:
        """The points of every row of a sample, with this form's inputs."""
        return make_evaluation_points(sample, self.expansions)

    def evaluate(self, stations: EvaluationPoints, design: Design) -> tuple[Evaluation, Evaluation]:
        """Mu (or its logit), shape (n,), and r, shape (K, n), at a design's rows and readings, given its sample's stations."""
        targets = (self.mu, *self.rr)
        shape = len(targets), len(stations.of_reading), len(design)
        whole = Evaluation(np.empty((len(targets), len(design))), np.empty(shape), np.zeros(shape))
        derivative = design.is_derivative.any()
        for features in {id(one.features): one.features for one in targets}.values():
            own = [target for target, one in enumerate(targets) if one.features is features]
            theta = np.stack([targets[target].coefficients for target in own])
            at_once = int(np.clip(_MOST_EVALUATED // (1 + theta.shape[1]), 256, MOST_ROWS))
            for place, block in design.blocks(at_once):
                part = _features(features, stations, block)
                whole.observed[own, place] = theta[:, :1] + theta[:, 1:] @ part.observed
                whole.values[own, :, place] = theta[:, :1, None] + np.tensordot(theta[:, 1:], part.values, 1)
                if derivative:
                    whole.slopes[own, :, place] = np.tensordot(theta[:, 1:], part.slopes, 1)
        return whole.map(lambda values: values[0]), whole.map(lambda values: values[1:])


def make_closed_form(design: Design, stations: EvaluationPoints, seed: int = 0) -> ClosedForm:
    """Solve on the rows of a design, a random part if they are many, and choose; the stations are those of its sample."""
    best: list[tuple[float, Solution] | None] = [None] * (1 + design.components)
    for features in _sets(stations, design.sample):
        made = _columns(features, stations, design, seed)
        span = _span(made)  # the same for mu and rr, whose penalties differ
        basis = span.basis(seed=seed)
        m = moments(made, basis)
        found = [_ridge_by_leaving_out(features, made, span, seed)]
        for c in range(design.components):
            penalty, loss = choose_riesz_penalty(made, basis, c, m[c], basis.penalties)
            found.append((loss, Solution(features, basis.solve(m[c], penalty), penalty)))
        best = [one if old is None or one[0] < old[0] else old for one, old in zip(found, best, strict=True)]
    mu, *rr = [leader[1] for leader in best if leader is not None]
    apart = _arm_by_arm(stations, design, seed)
    if apart is not None and best[0] is not None and apart[0] < best[0][0]:
        mu = apart[1]
    if design.family == "binomial":
        mu = _again(mu, stations, design, seed, lambda made, one: fit_logistic(made, "loo", _sizes(made), seed))
    return ClosedForm(stations.expansions, mu, tuple(rr))


def refit(closed: ClosedForm, design: Design, stations: EvaluationPoints, seed: int = 0) -> ClosedForm:
    """The same features and penalties on another design's rows; the stations are those of its sample."""
    found: dict[int, tuple[Span, Basis, Array]] = {}
    rr = []
    for component, one in enumerate(closed.rr):
        if id(one.features) not in found:
            made = _columns(one.features, stations, design, seed)
            span = _span(made)
            basis = span.basis(seed=seed)
            found[id(one.features)] = span, basis, moments(made, basis)
        _, basis, m = found[id(one.features)]
        rr.append(Solution(one.features, basis.solve(m[component], one.penalty), one.penalty))
    if design.family == "binomial":
        mu = _again(closed.mu, stations, design, seed, lambda made, one: fit_logistic(made, one.penalty, _sizes(made)))
    else:
        spans = {key: span for key, (span, _, _) in found.items()}
        mu = _again(closed.mu, stations, design, seed, lambda made, one: _ridge(made, one, spans.get(id(one.features))))
    return ClosedForm(closed.expansions, mu, tuple(rr))


def _again(
    one: Solution, stations: EvaluationPoints, design: Design, seed: int, solve: Callable[..., tuple[Array, float]]
) -> Solution:
    """The same features, solved in another way or on other rows: ``solve(made, one)`` gives coefficients and a penalty."""
    if not one.parts:
        return Solution(one.features, *solve(_columns(one.features, stations, design, seed), one))
    assert one.features.arms is not None
    own = _rows_of_arms(design, len(one.parts))
    parts = [
        Solution(part.features, *solve(_columns(part.features, stations, design.take(rows), seed), part))
        if len(rows)
        else part
        for part, rows in zip(one.parts, own, strict=True)
    ]
    return _joined(parts, one.features.arms)


def _ridge(made: Design, one: Solution, span: Span | None) -> tuple[Array, float]:
    """A ridge regression of the outcome; the span is given if it is known already."""
    basis = (span or _span(made)).basis(_sizes(made))
    return basis.solve(basis.projections[:, 0], one.penalty), one.penalty


def _arm_by_arm(stations: EvaluationPoints, design: Design, seed: int) -> tuple[float, Solution] | None:
    """A regression for each arm, with the leave-one-out loss of all; None without arms, or when an arm has few rows."""
    arms = arms_of(stations, design.sample)
    if arms is None:
        return None
    covariate = np.arange(len((stations.roles == 1))) >= arms.shape[1]
    masks = [covariate & ~(stations.roles == 1), covariate] if (stations.roles == 1).any() else [covariate]
    masks = [mask for mask in masks if mask.sum() * len(arms) <= _MOST_FEATURES]
    parts: list[Solution] = []
    total = 0.0
    for rows in _rows_of_arms(design, len(arms)):
        if len(rows) < _FEWEST or not masks:
            return None
        own = design.take(rows)
        sets = [FeatureSet(mask, np.zeros_like(mask)) for mask in masks]
        each = [(features, _columns(features, stations, own, seed)) for features in sets]
        tried = [_ridge_by_leaving_out(features, made, _span(made), seed) for features, made in each]
        loss, part = min(tried, key=lambda found: found[0])
        parts.append(part)
        total += loss * float(own.weights.sum() / design.weights.sum())
    return total, _joined(parts, arms)


def _ridge_by_leaving_out(features: FeatureSet, made: Design, span: Span, seed: int) -> tuple[float, Solution]:
    """A ridge regression of the outcome on features, with its leave-one-out loss."""
    basis = span.basis(_sizes(made), seed)
    direction = basis.projections[:, 0]
    penalty, loss = choose_outcome_penalty(made, basis, made.y, direction, basis.penalties)
    return loss, Solution(features, basis.solve(direction, penalty), penalty)


def _joined(parts: Sequence[Solution], arms: Array) -> Solution:
    """Regressions of each arm as one function of all features."""
    product = np.logical_or.reduce([part.features.main for part in parts])
    slopes = np.zeros((len(parts), len(product)))
    for slope, part in zip(slopes, parts, strict=True):
        slope[part.features.main] = part.coefficients[1:]
    level = np.array([part.coefficients[0] for part in parts])
    coefficients = np.concatenate([level[:1], level[1:] - level[0], slopes[:, product].ravel()])
    return Solution(FeatureSet(np.zeros_like(product), product, arms=arms), coefficients, np.nan, tuple(parts))


def arms_of(stations: EvaluationPoints, sample: Design) -> Array | None:
    """The treatments of the arms, when all points are at one of them."""
    if sample.strata is None or stations.slope.any():
        return None
    _, first = np.unique(sample.strata, return_index=True)
    arms = sample.treatment[first]
    known = np.zeros(stations.raw.shape[:2], dtype=bool)
    for arm in arms:
        known |= (stations.raw == arm).all(axis=2)
    return arms if known.all() else None


def _rows_of_arms(design: Design, count: int) -> list[Rows]:
    """The positions of each arm's rows."""
    strata = design.sample.strata
    assert strata is not None
    codes = np.unique(strata, return_inverse=True)[1][design.index]
    return [np.flatnonzero(codes == arm) for arm in range(count)]


def _sets(stations: EvaluationPoints, sample: Design) -> Iterator[FeatureSet]:
    """Lines, lines with products, splines, splines with products of lines, splines with products."""
    bent, arms = (stations.roles == 1), stations.raw.shape[2]
    every, none = np.ones_like(bent), np.zeros_like(bent)
    treatment = sample.treatment[:, 0]
    unit = (float(treatment.mean()), float(treatment.std()) or 1.0) if arms == 1 else (0.0, 1.0)
    yield FeatureSet(~bent, none, *unit)
    for main, product in ((~bent, ~bent), (every, none), (every, ~bent), (every, every)):
        if main.sum() + arms * product.sum() <= _MOST_FEATURES and (bent.any() or main is not every):
            yield FeatureSet(main, product, *unit)


def most_rows(rows: int, features: int) -> int:
    """On how many of some rows a closed form with so many features is solved."""
    return min(rows, int(np.clip(_MOST_NUMBERS // max(features, 1), 2000, MOST_ROWS)))


def _columns(features: FeatureSet, stations: EvaluationPoints, design: Design, seed: int) -> Design:
    """A design whose columns are the features, on a random part of the rows if they are many."""
    blocks = stations.raw.shape[2] if features.arms is None else len(features.arms)
    size = features.main.sum() + blocks * features.product.sum()
    part = design.take(draw_part(len(design), most_rows(len(design), int(size)), seed))
    return with_columns(part, _features(features, stations, part))


def _sizes(made: Design) -> Array:
    """What mu's columns are divided by."""
    return units(made.z, made.weights / made.weights.sum(), constant=1.0)


def _span(made: Design) -> Span:
    """What the features span on the rows, with the outcome projected on it."""
    return make_span(made, made.weights, made.y[None])


def _features(features: FeatureSet, stations: EvaluationPoints, design: Design) -> Evaluation:
    """Features at a design's rows and readings, shape (F, n)."""
    rows = design.index
    n, count, t = len(rows), stations.treatment.shape[1], stations.treatment.shape[2]
    covariates = np.broadcast_to(stations.covariates[rows][:, None], (n, count, stations.covariates.shape[1]))
    x = np.concatenate([stations.treatment[rows], covariates], axis=2)
    for station, (columns, values, _) in stations.changed.items():
        x[:, station, columns + t] = values[rows]
    raw = stations.raw[rows]
    if features.arms is None:
        shares = np.moveaxis((raw - features.centre) / features.spread, 2, 0)[..., None]
        levels: list[Array] = []
    else:
        shares = np.stack([(raw == arm).all(axis=2) for arm in features.arms]).astype(float)[..., None]
        levels = list(shares[1:])
    own = x[..., features.product]
    made = np.concatenate([*levels, x[..., features.main], *(share * own for share in shares)], axis=2)
    read = made[:, stations.of_reading].transpose(2, 1, 0)
    derivative = design.is_derivative
    slopes = np.zeros(read.shape)
    if derivative.any():
        bent = _slopes(features, stations, rows, own, shares, len(levels))[:, stations.of_reading].transpose(2, 1, 0)
        slopes[:, derivative] = bent[:, derivative]
    return Evaluation(made[np.arange(n), stations.observed[rows]].T, read, slopes)


def _slopes(features: FeatureSet, stations: EvaluationPoints, rows: Rows, own: Array, shares: Array, levels: int) -> Array:
    """Derivatives of the features at the stations, shape (n, S, F): products of inputs ``own`` and ``shares``, and the rest."""
    n, count, t = stations.tangent[rows].shape
    bend = np.zeros((n, count, t + stations.covariates.shape[1]))
    bend[..., :t] = stations.tangent[rows]
    for station, (columns, _, slopes) in stations.changed.items():
        if slopes is not None:
            bend[:, station, columns + t] = slopes[rows]
    steepness = np.zeros((count, 1)) if features.arms is not None else stations.slope[:, None] / features.spread
    own_bend = bend[..., features.product]
    products = [share * own_bend + steepness * own for share in shares]
    return np.concatenate([np.zeros((n, count, levels)), bend[..., features.main], *products], axis=2)
