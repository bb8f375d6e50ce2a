r"""A head start: closed forms on smooth features, which the networks then correct.

The features of a row are splines of its inputs x (see ``expansion.py``) and their products with the treatment shares that mix the
outcome heads, :math:`\tilde a x`. On a set of features mu and rr have closed forms, with penalties by leave-one-out
(``riesz.Linear``). Of the five sets in :func:`_sets`, from lines to splines with products, mu and each rr take the one with the
smallest leave-one-out loss.

The networks learn what this leaves over: the outcome heads the residual of mu, and the :math:`\beta_\perp` heads the difference
between the closed-form :math:`r_0` and rr, for any function with :math:`h(r_0) \ne 0` can be the anchor and a near one leaves
little to learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.design import Base, Design
from riesz.learners.linear import fit_logistic, riesz_coefficients
from riesz.learners.neural.expansion import Expansions
from riesz.learners.neural.representation import as_columns
from riesz.learners.neural.stations import Stations, make_stations
from riesz.learners.ridge import GRID, choose_outcome_penalty, choose_riesz_penalty, make_basis, moments
from riesz.moment import Array, Evaluation

MOST_ROWS = 20_000  # rows that a closed form on learned or made features is solved on, at most
_MOST_FEATURES = 1000  # sets with more features are passed over

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Start:
    """Closed-form mu and rr of one training set.

    Attributes
    ----------
    expansions : Expansions
    mu : ndarray, shape (1 + F,)
        Coefficients on the intercept and all features; of the logit under ``family="binomial"``.
    rr : ndarray, shape (1 + F, K)
    """

    expansions: Expansions
    mu: Array
    rr: Array

    def evaluate(self, base: Base, rows: Rows) -> tuple[Evaluation, Evaluation]:
        """Mu (or its logit), shape (n,), and r_0, shape (K, n), at some rows and their readings."""
        theta, stations = np.column_stack([self.mu, self.rr]), make_stations(base, self.expansions)
        parts = []
        for start in range(0, len(rows), MOST_ROWS):
            part = features(stations, base, rows[start : start + MOST_ROWS])
            parts.append(
                Evaluation(
                    theta[0][:, None] + theta[1:].T @ part.observed,
                    theta[0][:, None, None] + np.tensordot(theta[1:].T, part.values, 1),
                    np.tensordot(theta[1:].T, part.slopes, 1),
                )
            )
        pieces = zip(*((part.observed, part.values, part.slopes) for part in parts), strict=True)
        whole = Evaluation(*(np.concatenate(own, axis=-1) for own in pieces))
        return whole.map(lambda values: values[0]), whole.map(lambda values: values[1:])


def make_start(design: Design, expansions: Expansions) -> Start:
    """Solve the closed forms on the rows of a design, and choose."""
    stations = make_stations(design.base, expansions)
    rows = np.arange(len(design.base.y))[design.rows]
    rows = rows[:: -(-len(rows) // MOST_ROWS)]
    whole = features(stations, design.base, rows)
    k, size = design.components, len(whole.observed)
    best = np.full(1 + k, np.inf)
    mu, rr = np.zeros(1 + size), np.zeros((1 + size, k))
    for chosen in _sets(stations):
        part = Evaluation(whole.observed[chosen], whole.values[chosen], whole.slopes[chosen])
        made = as_columns(design.base, rows, part)
        basis = make_basis(made, made.weights, np.vstack([made.y, made.base.anchor.observed]))
        grid = GRID if basis.rank < len(made) else GRID[1:]
        own = np.flatnonzero(np.concatenate([[True], chosen]))
        b = basis.projections[:, 0]
        penalty, loss = choose_outcome_penalty(made, basis, made.y, b, grid)
        if loss < best[0]:
            logistic = design.base.family == "binomial"
            best[0], mu[:] = loss, 0.0
            mu[own] = fit_logistic(made, "loo")[0] if logistic else basis.transform @ (b * basis.shrink(penalty))
        m = moments(made, basis)
        losses = np.array([choose_riesz_penalty(made, basis, c, m[c], grid)[1] for c in range(k)])
        better = losses < best[1:]
        if better.any():
            found, _ = riesz_coefficients(made, basis, "loo", grid, constrained=True)
            best[1:][better] = losses[better]
            rr[:, better] = 0.0
            rr[np.ix_(own, better)] = found[:, better]
    return Start(expansions, mu, rr)


def _sets(stations: Stations) -> Iterator[npt.NDArray[np.bool_]]:
    """Sets of features: lines, lines with products, splines, splines with products of lines, splines with products."""
    bent, arms = stations.bent, stations.raw.shape[2]
    all_, none = np.ones_like(bent), np.zeros_like(bent)
    for main, product in ((~bent, none), (~bent, ~bent), (all_, none), (all_, ~bent), (all_, all_)):
        chosen = np.concatenate([main, np.tile(product, arms)])
        if chosen.sum() <= _MOST_FEATURES or main is not all_:
            yield chosen


def features(stations: Stations, base: Base, rows: Rows) -> Evaluation:
    """All features at some rows and at their readings, shape (F, n)."""
    n, count, t = len(rows), stations.treatment.shape[1], stations.treatment.shape[2]
    covariates = np.broadcast_to(stations.covariates[rows][:, None], (n, count, stations.covariates.shape[1]))
    x = np.concatenate([stations.treatment[rows], covariates], axis=2)
    bend = np.zeros_like(x)
    bend[..., :t] = stations.tangent[rows]
    for station, (columns, values, slopes) in stations.changed.items():
        x[:, station, columns + t] = values[rows]
        if slopes is not None:
            bend[:, station, columns + t] = slopes[rows]
    one = stations.raw.shape[2] == 1
    centre, spread = (float(base.treatment.mean()), float(base.treatment.std()) or 1.0) if one else (0.0, 1.0)
    shares = np.moveaxis((stations.raw[rows] - centre) / spread, 2, 0)[..., None]
    steepness = stations.slope[:, None] / spread if one else 0.0
    products = [share * x for share in shares]
    bends = [share * bend + steepness * x for share in shares]
    x, bend = np.concatenate([x, *products], axis=2), np.concatenate([bend, *bends], axis=2)
    read, slope = x[:, stations.of_reading], bend[:, stations.of_reading]
    slope = np.where(base.moment.is_derivative[:, None], slope, 0.0)
    return Evaluation(x[np.arange(n), stations.observed[rows]].T, read.transpose(2, 1, 0), slope.transpose(2, 1, 0))
