r"""The networks' companion: closed forms of mu and rr on smooth features.

The features of a row are splines of its inputs x (see ``expansion.py``) and their products with the treatment shares
:math:`\tilde a` that mix the outcome heads. On a set of features mu and rr have closed forms with penalties by leave-one-out, as in
``riesz.Linear``. Of the sets in :func:`_sets`, from lines to splines with products, mu and each rr take the one with the smallest
leave-one-out loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.design import Base, Design
from riesz.learners.linear import fit_logistic
from riesz.learners.neural.expansion import Expansions
from riesz.learners.neural.representation import as_columns
from riesz.learners.neural.stations import Stations, make_stations
from riesz.learners.ridge import GRID, Basis, choose_outcome_penalty, choose_riesz_penalty, make_basis, moments
from riesz.moment import Array, Evaluation

Rows = npt.NDArray[np.intp]

MOST_ROWS = 20_000  # rows that a closed form on learned or made features is solved on, at most
_MOST_NUMBERS = 4_000_000  # features times rows
_MOST_FEATURES = 1000  # larger sets are passed over, but for the first


@dataclass(frozen=True)
class FeatureSet:
    """What the features are.

    Attributes
    ----------
    main, product : ndarray of bool, shape (t + c,)
        Which inputs are features, and of which the products with the treatment are, too.
    centre, spread : float
        Of a continuous treatment, in those products.
    """

    main: npt.NDArray[np.bool_]
    product: npt.NDArray[np.bool_]
    centre: float
    spread: float


@dataclass(frozen=True)
class Solution:
    """A linear function of (1, features).

    Attributes
    ----------
    features : FeatureSet
    coefficients : ndarray, shape (1 + F,)
    penalty : float
    """

    features: FeatureSet
    coefficients: Array
    penalty: float


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

    def evaluate(self, base: Base, rows: Rows) -> tuple[Evaluation, Evaluation]:
        """Mu (or its logit), shape (n,), and r, shape (K, n), at some rows and their readings."""
        stations, targets = make_stations(base, self.expansions), (self.mu, *self.rr)
        shape = len(targets), len(stations.of_reading), len(rows)
        whole = Evaluation(np.empty((len(targets), len(rows))), np.empty(shape), np.empty(shape))
        for features in {id(one.features): one.features for one in targets}.values():
            own = [target for target, one in enumerate(targets) if one.features is features]
            theta = np.stack([targets[target].coefficients for target in own])
            for first in range(0, len(rows), MOST_ROWS):
                place = slice(first, first + MOST_ROWS)
                part = _features(features, stations, base, rows[place])
                whole.observed[own, place] = theta[:, :1] + theta[:, 1:] @ part.observed
                whole.values[own, :, place] = theta[:, :1, None] + np.tensordot(theta[:, 1:], part.values, 1)
                whole.slopes[own, :, place] = np.tensordot(theta[:, 1:], part.slopes, 1)
        return whole.map(lambda values: values[0]), whole.map(lambda values: values[1:])


def make_closed_form(design: Design, expansions: Expansions) -> ClosedForm:
    """Solve on the rows of a design, and choose."""
    stations = make_stations(design.base, expansions)
    best: list[tuple[float, Solution] | None] = [None] * (1 + design.components)
    for features in _sets(stations, design.base):
        made = _columns(features, stations, design)
        basis, grid = _basis(made)
        chosen = [choose_outcome_penalty(made, basis, made.y, basis.projections[:, 0], grid)]
        m = moments(made, basis)
        chosen += [choose_riesz_penalty(made, basis, c, m[c], grid) for c in range(design.components)]
        for target, (penalty, loss) in enumerate(chosen):
            leader = best[target]
            if leader is None or loss < leader[0]:
                best[target] = loss, _solve(target, made, basis, m, features, penalty)
    mu, *rr = [leader[1] for leader in best if leader is not None]
    if design.base.family == "binomial":
        coefficients, penalty = fit_logistic(_columns(mu.features, stations, design), "loo")
        mu = Solution(mu.features, coefficients, penalty)
    return ClosedForm(expansions, mu, tuple(rr))


def refit(closed: ClosedForm, design: Design) -> ClosedForm:
    """The same features and penalties on another design's rows."""
    stations, targets = make_stations(design.base, closed.expansions), [closed.mu, *closed.rr]
    found: dict[int, Solution] = {}
    for features in {id(one.features): one.features for one in targets}.values():
        made = _columns(features, stations, design)
        basis, _ = _basis(made)
        m = moments(made, basis)
        for target, one in enumerate(targets):
            if one.features is features:
                logistic = target == 0 and design.base.family == "binomial"
                found[target] = (
                    Solution(features, fit_logistic(made, one.penalty)[0], one.penalty)
                    if logistic
                    else _solve(target, made, basis, m, features, one.penalty)
                )
    mu, *rr = [found[target] for target in range(len(targets))]
    return ClosedForm(closed.expansions, mu, tuple(rr))


def _sets(stations: Stations, base: Base) -> Iterator[FeatureSet]:
    """Lines, lines with products, splines, splines with products of lines, splines with products."""
    bent, arms = stations.bent, stations.raw.shape[2]
    every, none = np.ones_like(bent), np.zeros_like(bent)
    treatment = base.treatment[:, 0]
    unit = (float(treatment.mean()), float(treatment.std()) or 1.0) if arms == 1 else (0.0, 1.0)
    yield FeatureSet(~bent, none, *unit)
    for main, product in ((~bent, ~bent), (every, none), (every, ~bent), (every, every)):
        if main.sum() + arms * product.sum() <= _MOST_FEATURES and (bent.any() or main is not every):
            yield FeatureSet(main, product, *unit)


def _columns(features: FeatureSet, stations: Stations, design: Design) -> Design:
    """A design whose columns are the features, on an evenly spaced part of the rows if they are many."""
    rows = np.arange(len(design.base.y))[design.rows]
    size = features.main.sum() + stations.raw.shape[2] * features.product.sum()
    most = int(np.clip(_MOST_NUMBERS // max(size, 1), 2000, MOST_ROWS))
    rows = rows[:: -(-len(rows) // most)]
    return as_columns(design.base, rows, _features(features, stations, design.base, rows))


def _basis(made: Design) -> tuple[Basis, Array]:
    basis = make_basis(made, made.weights, made.y[None])
    return basis, GRID if basis.rank < len(made) else GRID[1:]


def _solve(target: int, made: Design, basis: Basis, m: Array, features: FeatureSet, penalty: float) -> Solution:
    """Outcome (target 0) or Riesz (target 1 + component) regression on given features."""
    direction = basis.projections[:, 0] if target == 0 else m[target - 1]
    return Solution(features, basis.transform @ (direction * basis.shrink(penalty)), penalty)


def _features(features: FeatureSet, stations: Stations, base: Base, rows: Rows) -> Evaluation:
    """Features at some rows and at their readings, shape (F, n)."""
    n, count, t = len(rows), stations.treatment.shape[1], stations.treatment.shape[2]
    covariates = np.broadcast_to(stations.covariates[rows][:, None], (n, count, stations.covariates.shape[1]))
    x = np.concatenate([stations.treatment[rows], covariates], axis=2)
    bend = np.zeros_like(x)
    bend[..., :t] = stations.tangent[rows]
    for station, (columns, values, slopes) in stations.changed.items():
        x[:, station, columns + t] = values[rows]
        if slopes is not None:
            bend[:, station, columns + t] = slopes[rows]
    shares = np.moveaxis((stations.raw[rows] - features.centre) / features.spread, 2, 0)[..., None]
    steepness = stations.slope[:, None] / features.spread
    own, own_bend = x[..., features.product], bend[..., features.product]
    x = np.concatenate([x[..., features.main], *(share * own for share in shares)], axis=2)
    bends = [share * own_bend + steepness * own for share in shares]
    bend = np.concatenate([bend[..., features.main], *bends], axis=2)
    read, slope = x[:, stations.of_reading], bend[:, stations.of_reading]
    slope = np.where(base.moment.is_derivative[:, None], slope, 0.0)
    return Evaluation(x[np.arange(n), stations.observed[rows]].T, read.transpose(2, 1, 0), slope.transpose(2, 1, 0))
