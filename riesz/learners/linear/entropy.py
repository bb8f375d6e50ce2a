r"""A Riesz representer of known sign whose logarithm is linear in the columns, by the Kullback-Leibler loss.

With the known sign g(a) of rr, which is -1, 0 or 1, and the size b(a) of the best constant in each arm, let
:math:`rr = g\, b \exp(g\, z'\theta)`. Riesz regression with the Bregman divergence of :math:`w \log w - w` minimises

.. math:: E_n[|rr|] - E_n[m(g \log |rr|)] + \tfrac{\lambda}{2} \theta'D\theta
    = E_n[b \exp(g\, z'\theta)] - E_n[m(z)]'\theta + \tfrac{\lambda}{2} \theta'D\theta - E_n[m(g \log b)],

the first mean over rows where g is not 0, and the last a constant. It is convex. At its minimum :math:`E_n[rr\, z] = E_n[m(z)]
- \lambda D\theta`: without penalty every column is balanced exactly, as by entropy balancing. The squared loss :math:`E_n[rr^2
- 2 m(rr)]` weighs errors of rr; this one weighs errors of its logarithm by its size, and rr always has the right sign.

Leaving row i out is about one Newton step away. With weight shares :math:`\omega_i`, :math:`u = g z`,
:math:`r = b \exp(u'\theta)`, the second derivatives H of the objective and :math:`\ell = \omega r\, u'H^{-1}u`,
:math:`c = \omega\, u'H^{-1}m(z)`, :math:`e = \omega\, m(z)'H^{-1}m(z)`, the step moves :math:`u'\theta` by
:math:`\delta = (\ell - c) / (1 - \ell)` and :math:`m(z)'\theta` by :math:`r c (1 + \delta) - e`. With 80 rows and 8 columns the
loss was within 5% of that of solving again.

In: a design, the basis of :mod:`riesz.learners.linear.ridge`, levels g b. Out: coefficients of z.

References
----------
Kato (2025), "Direct debiased machine learning via Bregman divergence minimization".
Hines and Miles (2025), "Learning density ratios in causal inference using Bregman-Riesz regression".
Hainmueller (2012), "Entropy balancing for causal effects".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import linalg

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.crossfit.threads import go_on
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.known_signs import signs_at
from riesz.learners.linear.ridge import Basis, Part, moments
from riesz.learners.sparse.convex import Exponential, expand, value_at
from riesz.learners.sparse.gram_lasso import NoSolution

_STEPS, _HALVINGS = 200, 50
_EXACT, _ENOUGH = (
    1e-11,
    1e-6,
)  # gradients that end the steps, and that count as zero when they end, relative to the moments
_DAMPING = 1e-12  # share of the largest second derivative that is added to each, so that every step has a solution
_KEPT = 2**22  # numbers of the columns that are kept instead of computed in each step
_MOST_LEFT_OUT, _MOST_CLUSTERS = 20_000, 200  # that are left out in turn
_PATIENCE = 4  # smaller penalties that are tried after the best one
_ALONE = 1e-8  # if 1 - leverage is below this, some direction varies in this row or cluster alone


@dataclass(frozen=True)
class LogLinear:
    """A representer of known sign.

    Attributes
    ----------
    theta : ndarray, shape (p,)
        Coefficients of the columns, which the sign multiplies.
    penalty : float
    most : float
        Its largest size at the rows.
    """

    theta: Array
    penalty: float
    most: float


def fit_log_linear(
    design: Design,
    basis: Basis,
    component: int,
    levels: Array,
    penalty: float | Literal["loo"],
    grid: Array,
    who: str,
) -> LogLinear:
    """Learn the representer of a component.

    Parameters
    ----------
    design : Design
    basis : Basis
        Of these rows, without tilt.
    component : int
    levels : ndarray, shape (J,)
        The best constant rr in each arm, or one for all treatments, with its sign.
    penalty : float or "loo"
        ``"loo"`` chooses from the grid by the leave-one-out (leave-one-cluster-out) loss.
    grid : ndarray
    who : str
        The learner, for the error if there is no solution.
    """
    problem = Problem.of(design, basis, component, levels)
    try:
        if penalty == "loo":
            chosen, coefficients = _choose(problem, grid)
        else:
            chosen, coefficients = float(penalty), problem.solve(float(penalty), np.zeros(basis.rank))
    except NoSolution:
        raise LearnerError(
            f"{who}(rr='entropy', rr_penalty={penalty!r}) has no solution on a training set: no weights of the representer's sign "
            "balance these columns, because some treated or untreated rows have no counterparts. Use rr_penalty='loo' or a larger "
            f"number, fewer columns, or riesz.{who}(), whose representer may have either sign."
        ) from None
    most = float((np.abs(problem.level) * np.exp(problem.index(coefficients))).max())
    return LogLinear(basis.transform @ coefficients, chosen, most)


@dataclass(frozen=True)
class Problem:
    """The loss of a component in a basis.

    Attributes
    ----------
    design : Design
    basis : Basis
    component : int
    level : ndarray, shape (n,)
        g b at the rows.
    linear : ndarray, shape (k,)
        E_n[m] of the directions of the basis.
    kept : sequence of (ndarray, ndarray), or None
        Directions times signs, and shares times b, of the rows where the sign is not 0, if they need little memory.
    """

    design: Design
    basis: Basis
    component: int
    level: Array
    linear: Array
    kept: Sequence[tuple[Array, Array]] | None = None

    @classmethod
    def of(cls, design: Design, basis: Basis, component: int, levels: Array) -> Problem:
        """The problem of a component with levels of shape (J,)."""
        level = np.broadcast_to(signs_at(levels[None], design.treatment)[0], len(design))
        problem = cls(design, basis, component, level, moments(design, basis)[component])
        if len(design) * basis.rank > _KEPT:
            return problem
        return cls(design, basis, component, level, problem.linear, list(problem.blocks()))

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Directions times signs, and shares times b, of the rows where the sign is not 0."""
        if self.kept is not None:
            yield from self.kept
            return
        for place, block in self.design.blocks():
            read = np.flatnonzero(self.level[place])
            q = block.z[read] @ self.basis.transform
            level = self.level[place][read]
            yield q * np.sign(level)[:, None], self.basis.shares[place][read] * np.abs(level)

    def index(self, theta: Array) -> Array:
        """The exponents g z'theta of the rows, shape (n,)."""
        of_z = self.basis.transform @ theta
        return np.asarray(np.sign(self.level) * np.concatenate([block.z @ of_z for _, block in self.design.blocks()]))

    def solve(self, lam: float, start: Array) -> Array:
        """The minimum in the basis, shape (k,), by Newton's method; raises NoSolution if there is none."""
        theta, size, ridge = start, float(np.abs(self.linear).max(initial=1e-300)), lam * self.basis.penalty
        for _ in range(_STEPS):
            go_on()
            value, gradient, hessian = self.expand(theta, lam)
            if np.abs(gradient).max(initial=0.0) <= _EXACT * size:
                return theta
            step = -_inverse(hessian) @ gradient
            for halving in range(_HALVINGS):
                moved = theta + 0.5**halving * step
                after = value_at(Exponential(), self.blocks, self.linear, moved) + 0.5 * float(ridge @ moved**2)
                if after <= value + 1e-4 * 0.5**halving * float(gradient @ step) + 1e-14 * abs(value):
                    break
            else:
                break
            theta = moved
        if np.abs(self.expand(theta, lam)[1]).max(initial=0.0) > _ENOUGH * size:
            raise NoSolution
        return theta

    def expand(self, theta: Array, lam: float) -> tuple[float, Array, Array]:
        """The loss with its penalty, its gradient and its second derivatives."""
        value, gradient, hessian = expand(Exponential(), self.blocks, self.linear, theta)
        ridge = lam * self.basis.penalty
        np.einsum("kk->k", hessian)[...] += ridge
        return value + 0.5 * float(ridge @ theta**2), gradient + ridge * theta, hessian

    def left_out(self, theta: Array, lam: float) -> float:
        """The leave-one-out (leave-one-cluster-out) loss, of a random part of the rows or clusters if they are many."""
        inverse, seed = _inverse(self.expand(theta, lam)[2]), self.basis.seed
        if self.design.groups is not None:
            return self._left_out_clusters(theta, inverse)
        rows = draw_part(len(self.design), _MOST_LEFT_OUT, seed)
        total = 0.0
        for place, block in self.design.take(rows).blocks():
            u, m, share = self._rows(block, rows[place])
            r, along, moment_along = np.exp(u @ theta) * np.abs(self.level[rows[place]]), u @ inverse, m @ inverse
            one_minus_leverage = 1.0 - share * r * (along * u).sum(axis=1)
            cross, own = share * (along * m).sum(axis=1), share * (moment_along * m).sum(axis=1)
            if (one_minus_leverage < _ALONE).any():
                return np.inf
            moved = (1.0 - cross) / one_minus_leverage  # 1 + delta
            total += float(share @ (r * _exp(moved - 1.0) - m @ theta - r * cross * moved + own))
        return total / float(self.basis.shares[rows].sum())

    def _left_out_clusters(self, theta: Array, inverse: Array) -> float:
        assert self.design.groups is not None
        order = np.argsort(self.design.groups, kind="stable")
        clusters = np.split(order, np.flatnonzero(np.diff(self.design.groups[order])) + 1)
        values, vectors = np.linalg.eigh(inverse)
        half = vectors * np.sqrt(np.clip(values, 0.0, None))
        total = weight = 0.0
        for number in draw_part(len(clusters), _MOST_CLUSTERS, self.basis.seed):
            rows = clusters[number]
            u, m, share = self._rows(self.design.take(rows), rows)
            r = np.exp(u @ theta) * np.abs(self.level[rows])
            step = _step_without(u, share * r, half, (share * r) @ u - share @ m)
            if step is None:
                return np.inf
            total += float(share @ (r * _exp(u @ step) - m @ (theta + step)))
            weight += float(share.sum())
        return total / weight

    def _rows(self, block: Design, rows: Part) -> tuple[Array, Array, Array]:
        """Directions times signs, moments of directions, and shares of some rows."""
        z, transform = block.z, self.basis.transform
        m = block.moment_rows(self.component, z) @ transform
        return (z @ transform) * np.sign(self.level[rows])[:, None], m, self.basis.shares[rows]


def _step_without(u: Array, curvature: Array, half: Array, gradient: Array) -> Array | None:
    """The Newton step without a cluster, of which it is the gradient; None if some direction varies in the cluster alone.

    With all second derivatives H, whose inverse is half half', and R the cluster's rows of u times the roots of their curvatures,
    it is half (I - half'R'R half)^-1 half'gradient. Eigenvalues are those of the smaller of two products.
    """
    root, along = (u * np.sqrt(curvature)[:, None]) @ half, half.T @ gradient
    small = len(root) < root.shape[1]
    values, vectors = np.linalg.eigh(root @ root.T if small else root.T @ root)
    if values.size and values[-1] > 1.0 - _ALONE:
        return None
    if small:
        return np.asarray(half @ (along + root.T @ (vectors @ ((vectors.T @ (root @ along)) / (1.0 - values)))))
    return np.asarray(half @ (vectors @ ((vectors.T @ along) / (1.0 - values))))


def _exp(t: Array) -> Array:
    """The exponential, of numbers up to 50: a loss that is larger chooses nothing."""
    return np.exp(np.minimum(t, 50.0))


def _inverse(hessian: Array) -> Array:
    damped = hessian + _DAMPING * float(hessian.diagonal().max(initial=0.0) or 1.0) * np.eye(len(hessian))
    try:
        return np.asarray(linalg.cho_solve(linalg.cho_factor(damped), np.eye(len(damped))))
    except linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(damped, hermitian=True), dtype=np.float64)


def _choose(problem: Problem, grid: Array) -> tuple[float, Array]:
    """The penalty with the smallest leave-one-out loss, and the solution; large penalties first, each a start for the next."""
    largest, *others = np.sort(grid)[::-1].tolist()
    theta = problem.solve(largest, np.zeros(problem.basis.rank))
    best, chosen, worse = problem.left_out(theta, largest), (largest, theta), 0
    for lam in others:
        try:
            theta = problem.solve(lam, theta)
        except NoSolution:
            break
        loss = problem.left_out(theta, lam)
        if loss < best:
            best, chosen, worse = loss, (lam, theta), 0
        elif (worse := worse + 1) == _PATIENCE:
            break
    return chosen
