r"""Ridge regressions in a basis where everything is diagonal.

For training rows with weight shares :math:`\omega_i` (summing to one) let T be a matrix with

.. math:: T' \Big(\sum_i \omega_i z_i z_i'\Big) T = I, \qquad T' D T = \mathrm{diag}(d),

D penalising the standardised columns and not the intercept. With :math:`q_i = T'z_i` the ridge solution at penalty
:math:`\lambda` is :math:`T\,(b / (1 + \lambda d))`, for the outcome with :math:`b = \sum_i \omega_i q_i y_i` and for the Riesz loss
:math:`E_n[\alpha^2 - 2 m(\alpha)]` with :math:`b = \sum_i \omega_i T' m(z)_i`. One basis serves every penalty, and leaving
one row (or one cluster) out is a rank-one (or small-rank) correction.

Rows are visited a block at a time; nothing of size n x p is copied. The basis is orthonormalised twice (Cholesky-QR2), which
is as accurate as a QR decomposition for all but hopeless designs. In large samples an evenly spaced part of the rows (or
clusters) is left out in turn, which is plenty to tell penalties apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.design import Design
from riesz.moment import Array, Rows

_MOST_LEFT_OUT = 20_000  # rows that are left out in turn, at most
_MOST_CLUSTERS = 1000  # the same for clusters
_RANK = 1e-12  # directions with a smaller share of the largest eigenvalue are taken for collinear
GRID = np.concatenate([[0.0], np.geomspace(1e-6, 1e2, 17)])  # penalties tried, per row and for standardised columns


@dataclass(frozen=True)
class Basis:
    """The basis of the module's text.

    Attributes
    ----------
    transform : ndarray, shape (p, k)
        T.
    penalty : ndarray, shape (k,)
        d.
    shares : ndarray, shape (n,)
        omega.
    projections : ndarray, shape (k, targets)
        sum_i omega_i q_i t_i for each target t given to :func:`make_basis`.
    """

    transform: Array
    penalty: Array
    shares: Array
    projections: Array

    @property
    def rank(self) -> int:
        """How many directions the design spans, k."""
        return len(self.penalty)

    def shrink(self, lam: float | Array) -> Array:
        """1 / (1 + lambda d), shape (k,) or (k, L)."""
        return 1.0 / (1.0 + np.multiply.outer(self.penalty, lam))


def _blocks(design: Design, transform: Array) -> Iterator[tuple[slice, Rows, Array, Array]]:
    for own, rows in design.blocks():
        z = design.base.z[rows]
        yield own, rows, z, z @ transform


def _left_out(design: Design, transform: Array) -> Iterator[tuple[npt.NDArray[np.intp], Rows, Array, Array]]:
    """Blocks of the rows that are left out in turn."""
    chosen = np.arange(0, len(design), -(-len(design) // _MOST_LEFT_OUT))
    rows = chosen if isinstance(design.rows, slice) else design.rows[chosen]
    for own, base, z, q in _blocks(design.take(rows), transform):
        yield chosen[own], base, z, q


def make_basis(design: Design, weights: Array, targets: Array) -> Basis:
    """Build the basis for some rows and weights, and project targets on it.

    Parameters
    ----------
    design : Design
    weights : ndarray, shape (n,)
        Non-negative.
    targets : ndarray, shape (targets, n)
        What is to be regressed: the outcome, anchors.

    Returns
    -------
    Basis
    """
    shares = weights / weights.sum()
    standard, penalised = _standardise(design, shares)
    inner = np.eye(standard.shape[1])  # the basis in terms of standardised columns
    for _ in range(2):
        gram = np.zeros((inner.shape[1], inner.shape[1]))
        projected = np.zeros((inner.shape[1], len(targets)))
        for own, _, _, q in _blocks(design, standard @ inner):
            weighted = q * shares[own, None]
            gram += weighted.T @ q
            projected += weighted.T @ targets[:, own].T
        values, vectors = np.linalg.eigh(gram)
        keep = values > _RANK * values[-1]
        turn = vectors[:, keep] / np.sqrt(values[keep])
        inner, projected = inner @ turn, turn.T @ projected
    penalty, rotation = np.linalg.eigh(inner.T @ (penalised[:, None] * inner))
    return Basis(standard @ inner @ rotation, np.clip(penalty, 0.0, None), shares, rotation.T @ projected)


def _standardise(design: Design, shares: Array) -> tuple[Array, Array]:
    """The map from raw to standardised columns, shape (p, p), and which of them are penalised, shape (p,).

    Without an intercept columns are scaled but not centred: centring would add one.
    """
    names, z = design.base.names, design.base.z
    intercept = names.index("Intercept") if "Intercept" in names else None
    start = z[0]  # sums of squares around a row of the data lose nothing to large means
    first, second = np.zeros(len(names)), np.zeros(len(names))
    for own, rows in design.blocks():
        gap = z[rows] - start
        first += shares[own] @ gap
        second += shares[own] @ gap**2
    mean = start + first
    variance = np.clip(second - first**2, 0.0, None)
    if intercept is None:
        centre, spread = np.zeros(len(names)), np.sqrt(variance + mean**2)
    else:
        centre, spread = mean.copy(), np.sqrt(variance)
        centre[intercept] = 0.0
    constant = spread <= 1e-7 * np.abs(mean)  # rounding leaves a constant a spread of its own
    spread = np.where(constant, 1.0, spread)
    penalised = np.ones(len(names))
    transform = np.diag(1.0 / spread)
    if intercept is not None:
        penalised[intercept] = 0.0
        transform[intercept] = -centre / spread
        transform[intercept, intercept] = 1.0
    return transform, penalised


def moments(design: Design, basis: Basis) -> Array:
    """h_n of every direction of the basis, shape (K, k)."""
    total = np.zeros((design.components, design.base.z.shape[1]))
    for own, rows in design.blocks():
        z = design.base.z[rows]
        for c in range(design.components):
            total[c] += basis.shares[own] @ design.base.moment.rows(z, rows, c)
    return total @ basis.transform


def choose_outcome_penalty(design: Design, basis: Basis, response: Array, b: Array, grid: Array) -> float:
    """The penalty with the smallest leave-one-out (leave-one-cluster-out) squared error."""
    if design.groups is not None:
        return _choose_by_groups(design, basis, response, b, None, grid)
    shrink = basis.shrink(grid)
    loss = np.zeros(len(grid))
    for own, _, _, q in _left_out(design, basis.transform):
        share = basis.shares[own, None]
        room = 1.0 - share * (q**2 @ shrink)
        alone = room < 1e-8  # a direction that this row alone shows: without it there is nothing to predict from
        error = (response[own, None] - q @ (b[:, None] * shrink)) / np.where(alone, 1.0, room)
        loss += (share * np.where(alone, np.inf, error**2)).sum(axis=0)
    return float(grid[np.argmin(loss)])


def choose_riesz_penalty(design: Design, basis: Basis, component: int, b: Array, grid: Array) -> float:
    r"""The penalty with the smallest leave-one-out (leave-one-cluster-out) Riesz loss :math:`\alpha_{-i}^2 - 2 m(\alpha_{-i})`.

    With S = diag(1 + lambda d), leverage l = omega q'q/S, c = omega q'm/S and e = omega m'm/S, leaving row i out gives
    alpha_{-i}(z_i) = (alpha_i - c) / (1 - l) and m(alpha_{-i})_i = m(alpha)_i - e + c (alpha_i - c) / (1 - l).
    """
    if design.groups is not None:
        return _choose_by_groups(design, basis, None, b, component, grid)
    shrink = basis.shrink(grid)
    rho = b[:, None] * shrink
    loss = np.zeros(len(grid))
    for own, rows, z, q in _left_out(design, basis.transform):
        m = design.base.moment.rows(z, rows, component) @ basis.transform
        share = basis.shares[own, None]
        room = 1.0 - share * (q**2 @ shrink)
        cross = share * ((q * m) @ shrink)
        alone = room < 1e-8
        alpha = (q @ rho - cross) / np.where(alone, 1.0, room)
        moment = m @ rho - share * (m**2 @ shrink) + cross * alpha
        loss += (share * np.where(alone, np.inf, alpha**2 - 2 * moment)).sum(axis=0)
    return float(grid[np.argmin(loss)])


def _choose_by_groups(
    design: Design, basis: Basis, response: Array | None, b: Array, component: int | None, grid: Array
) -> float:
    """Leave one cluster out: solve {diag(1 + lambda d) - C_g} theta = b - b_g for each cluster g and penalty.

    With more than a thousand clusters an evenly spaced thousand of them is left out in turn.
    """
    assert design.groups is not None
    order = np.argsort(design.groups, kind="stable")
    clusters = np.split(order, np.flatnonzero(np.diff(design.groups[order])) + 1)
    loss = np.zeros(len(grid))
    diagonal = np.eye(basis.rank) * (1.0 + np.multiply.outer(grid, basis.penalty))[:, None, :]
    for members in clusters[:: -(-len(clusters) // _MOST_CLUSTERS)]:
        rows: npt.NDArray[np.intp] = members if isinstance(design.rows, slice) else design.rows[members]
        z, share = design.base.z[rows], basis.shares[members]
        q = z @ basis.transform
        if component is None:
            assert response is not None
            m = q * response[members, None]
        else:
            m = design.base.moment.rows(z, rows, component) @ basis.transform
        # pinv, for a direction that only this cluster shows
        theta = np.linalg.pinv(diagonal - q.T @ (share[:, None] * q), hermitian=True) @ (b - share @ m)
        fitted = q @ theta.T
        if response is not None:
            loss += share @ (response[members, None] - fitted) ** 2
        else:
            loss += share @ (fitted**2 - 2 * (m @ theta.T))
    return float(grid[np.argmin(loss)])
