r"""Ridge regressions in a basis where everything is diagonal.

For training rows with weight shares :math:`\omega_i` (summing to one) let T be a matrix with

.. math:: T' \Big(\sum_i \omega_i z_i z_i'\Big) T = I, \qquad T' D T = \mathrm{diag}(d),

D penalising the columns, standardised or in other units, and not the intercept. With :math:`q_i = T'z_i` the ridge solution at
penalty :math:`\lambda` is :math:`T\,(b / (1 + \lambda d))`, for the outcome with :math:`b = \sum_i \omega_i q_i y_i` and for the
Riesz loss :math:`E_n[\alpha^2 - 2 m(\alpha)]` with :math:`b = \sum_i \omega_i T' m(z)_i`. One basis serves every penalty, and
leaving one row (or one cluster) out is a rank-one (or small-rank) correction.

Rows are visited block by block; nothing of size n x p is copied. The basis is orthonormalised twice (Cholesky-QR2), which
is as accurate as a QR decomposition unless the design is extremely ill-conditioned. In large samples only a random part of the
rows (or clusters) is left out in turn, which is enough to compare penalties.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.crossfit.threads import go_on
from riesz.design.design import BLOCK, Design
from riesz.design.moment import Evaluation
from riesz.learners.linear.standardise import Standard, directions, standardise

Part = npt.NDArray[np.intp]
Place = slice | Part

_MOST_LEFT_OUT = 20_000  # most rows that are left out in turn
_MOST_CLUSTERS = 200  # the same for clusters, which cost more, ...
_WORK = 2e8  # ... unless leaving more of them out takes no more multiplications than these
_SMALL = 4  # a cluster is small when there are this many directions for each of its rows
_ALONE = 1e-8  # if 1 - leverage is below this, some direction varies in this row or cluster alone
GRID = np.concatenate([[0.0], np.geomspace(1e-6, 1e2, 17)])  # penalties tried, per row and for standardised columns


@dataclass(frozen=True)
class Tilt:
    """An inner product E[k f g] and a moment h(v f), as regressions of an index need them.

    The Riesz loss is then E_n[k alpha^2 - 2 m(v alpha)].

    Attributes
    ----------
    v : Evaluation, shape (n,)
    weights : ndarray, shape (n,)
        k at the rows, on top of their weights; positive.
    """

    v: Evaluation
    weights: Array


@dataclass(frozen=True)
class Basis:
    """The basis T of the module's docstring.

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
    tilt : Tilt or None
        How the inner product and the moment differ from E[f g] and h(f).
    seed : int
        Determines the random part of the rows (or clusters) that is left out in turn, if there are many.
    square : float
        0 for a ridge. Otherwise directions are shrunk by 1 / (1 + lambda d + square (lambda d)^2); leaving rows out then takes the
        last term as given.
    """

    transform: Array
    penalty: Array
    shares: Array
    projections: Array
    tilt: Tilt | None
    seed: int
    square: float = 0.0

    @property
    def rank(self) -> int:
        """The number of directions that the design spans, k."""
        return len(self.penalty)

    @property
    def penalties(self) -> Array:
        """The penalties to choose from; zero is among them only if there are more rows than directions."""
        return GRID if self.rank < len(self.shares) else GRID[1:]

    def shrink(self, lam: float | Array) -> Array:
        """1 / (1 + lambda d), or with the square of the class's docstring, shape (k,) or (k, L)."""
        penalty = np.multiply.outer(self.penalty, lam)
        return 1.0 / (1.0 + penalty * (1.0 + self.square * penalty))

    def solve(self, direction: Array, lam: float) -> Array:
        """The ridge regression whose unpenalised solution is a direction of the basis, as coefficients of the columns."""
        return self.transform @ (direction * self.shrink(lam))


def _blocks(design: Design, transform: Array) -> Iterator[tuple[slice, Design, Array, Array]]:
    """Positions, rows, columns z and q = T'z, block by block."""
    for place, block in design.blocks():
        z = block.z
        yield place, block, z, z @ transform


def draw_left_out(rows: int, seed: int) -> Part:
    """The numbers of the rows that are left out in turn, of a training set of this size; all of them if they are few."""
    return draw_part(rows, _MOST_LEFT_OUT, seed)


def _part(design: Design, basis: Basis) -> Part | None:
    """The rows that are left out in turn; None if all are."""
    return draw_left_out(len(design), basis.seed) if len(design) > _MOST_LEFT_OUT else None


def _left_out(design: Design, basis: Basis, part: Part | None) -> Iterator[tuple[Place, Design, Array, Array]]:
    """Blocks of the rows that are left out in turn."""
    if part is None:
        yield from _blocks(design, basis.transform)
        return
    for place, block, z, q in _blocks(design.take(part), basis.transform):
        yield part[place], block, z, q


@dataclass(frozen=True)
class Span:
    """What the columns span on some rows, before they are penalised.

    Attributes
    ----------
    standard : Standard
    inner : ndarray, shape (p, k)
        Combinations of standardised columns that are orthonormal on the rows.
    shares : ndarray, shape (n,)
    projections : ndarray, shape (k, targets)
    tilt : Tilt or None
    """

    standard: Standard
    inner: Array
    shares: Array
    projections: Array
    tilt: Tilt | None

    def basis(self, units: Array | None = None, seed: int = 0) -> Basis:
        """The basis in which a penalty is diagonal; for the parameters see :func:`make_basis`."""
        standard, inner = self.standard, self.inner
        penalised = standard.penalised if units is None else standard.penalised * (units / standard.spread) ** 2
        penalty, rotation = np.linalg.eigh(inner.T @ (penalised[:, None] * inner))
        wide = len(inner) > len(self.shares)
        transform = standard.coefficients(inner @ rotation) if wide else standard.matrix @ inner @ rotation
        return Basis(
            transform, np.clip(penalty, 0.0, None), self.shares, rotation.T @ self.projections, self.tilt, seed
        )


def make_span(design: Design, weights: Array, targets: Array, tilt: Tilt | None = None) -> Span:
    """Find what the columns span, and project targets on it; for the parameters see :func:`make_basis`."""
    if tilt is not None:
        weights = weights * tilt.weights
    shares = weights / weights.sum()
    standard = standardise(design, shares)
    inner, _ = directions(design, standard, shares)  # the basis in terms of standardised columns
    gram = np.zeros((inner.shape[1], inner.shape[1]))
    projected = np.zeros((inner.shape[1], len(targets)))
    for place, block in design.blocks():
        q = standard.apply(block.z) @ inner
        scaled = q * np.sqrt(shares[place, None])
        gram += scaled.T @ scaled  # takes half the time of a product of two different matrices
        projected += q.T @ (shares[place] * targets[:, place]).T
    values, vectors = np.linalg.eigh(gram)  # close to one: this second pass removes the rounding errors of the first
    turn = vectors / np.sqrt(values)
    return Span(standard, inner @ turn, shares, turn.T @ projected, tilt)


def make_basis(
    design: Design,
    weights: Array,
    targets: Array,
    tilt: Tilt | None = None,
    units: Array | None = None,
    seed: int = 0,
) -> Basis:
    """Build the basis for some rows and weights, and project targets on it.

    Parameters
    ----------
    design : Design
    weights : ndarray, shape (n,)
        Non-negative.
    targets : ndarray, shape (targets, n)
        The variables to regress: the outcome, anchors.
    tilt : Tilt, optional
        See :class:`Basis`; the weights are multiplied by its own.
    units : ndarray, shape (p,), optional
        What columns are divided by before their coefficients get the same penalty; by default their standard deviations.
    seed : int
        See :class:`Basis`.

    Returns
    -------
    Basis
    """
    return make_span(design, weights, targets, tilt).basis(units, seed)


def _moment_rows(basis: Basis, place: Place, block: Design, z: Array, component: int) -> Array:
    """m(v z) / k, row by row: with the shares of the basis, its mean is the Riesz loss's linear term."""
    if basis.tilt is None:
        return block.moment_rows(component, z)
    v = basis.tilt.v.map(lambda values: values[..., place])
    return block.moment_rows(component, z, v) / basis.tilt.weights[place, None]


def moments(design: Design, basis: Basis) -> Array:
    """h_n of every direction of the basis, shape (K, k)."""
    total = np.zeros((design.components, len(design.names)))
    for place, block in design.blocks():
        z = block.z
        for c in range(design.components):
            total[c] += basis.shares[place] @ _moment_rows(basis, place, block, z, c)
    return total @ basis.transform


def _smallest(grid: Array, loss: Array, basis: Basis, part: Part | None) -> tuple[float, float]:
    """The best penalty and its loss; the loss of a part of the rows is scaled up to that of all rows."""
    if part is not None:
        loss = loss / basis.shares[part].sum()
    best = np.nanargmin(loss)
    return float(grid[best]), float(loss[best])


def choose_outcome_penalty(design: Design, basis: Basis, response: Array, b: Array, grid: Array) -> tuple[float, float]:
    """The penalty with the smallest leave-one-out (leave-one-cluster-out) squared error, and that error."""
    if design.groups is not None:
        return _choose_by_groups(design, basis, response, b, None, grid)
    part = _part(design, basis)
    shrink = basis.shrink(grid)
    loss = np.zeros(len(grid))
    for place, _, _, q in _left_out(design, basis, part):
        share = basis.shares[place, None]
        one_minus_leverage = 1.0 - share * (q**2 @ shrink)
        alone = (
            one_minus_leverage < _ALONE
        )  # some direction varies in this row alone, so the other rows cannot predict it
        error = (response[place, None] - q @ (b[:, None] * shrink)) / np.where(alone, 1.0, one_minus_leverage)
        loss += (share * np.where(alone, np.inf, error**2)).sum(axis=0)
    return _smallest(grid, loss, basis, part)


def choose_riesz_penalty(design: Design, basis: Basis, component: int, b: Array, grid: Array) -> tuple[float, float]:
    r"""The penalty with the smallest leave-one-out (leave-one-cluster-out) Riesz loss, and that loss.

    The loss is :math:`\alpha_{-i}^2 - 2 m(\alpha_{-i})`.

    With S = diag(1 + lambda d), leverage l = omega q'q/S, c = omega q'm/S and e = omega m'm/S, leaving row i out gives
    alpha_{-i}(z_i) = (alpha_i - c) / (1 - l) and m(alpha_{-i})_i = m(alpha)_i - e + c (alpha_i - c) / (1 - l).
    """
    if design.groups is not None:
        return _choose_by_groups(design, basis, None, b, component, grid)
    part = _part(design, basis)
    shrink = basis.shrink(grid)
    rho = b[:, None] * shrink
    loss = np.zeros(len(grid))
    for place, block, z, q in _left_out(design, basis, part):
        m = _moment_rows(basis, place, block, z, component) @ basis.transform
        share = basis.shares[place, None]
        one_minus_leverage = 1.0 - share * (q**2 @ shrink)
        cross = share * ((q * m) @ shrink)
        alone = one_minus_leverage < _ALONE
        alpha = (q @ rho - cross) / np.where(alone, 1.0, one_minus_leverage)
        moment = m @ rho - share * (m**2 @ shrink) + cross * alpha
        loss += (share * np.where(alone, np.inf, alpha**2 - 2 * moment)).sum(axis=0)
    return _smallest(grid, loss, basis, part)


def _choose_by_groups(
    design: Design, basis: Basis, response: Array | None, b: Array, component: int | None, grid: Array
) -> tuple[float, float]:
    """Leave one cluster out: {diag(1 + lambda d) - C_g} theta = b - b_g for each cluster g and penalty.

    With many clusters a random part of them is left out in turn: at least two hundred, more if they are small. For small clusters
    this is a small-rank correction. Clusters of the same size are handled together.
    """
    assert design.groups is not None
    order = np.argsort(design.groups, kind="stable")
    clusters = np.split(order, np.flatnonzero(np.diff(design.groups[order])) + 1)
    limit = _cluster_limit(len(design) / len(clusters), basis.rank, len(grid))
    many = len(clusters) > limit
    clusters = [clusters[at] for at in draw_part(len(clusters), limit, basis.seed)]
    shrink = basis.shrink(grid)
    loss = np.zeros(len(grid))
    for size in sorted({len(members) for members in clusters}):
        same_size = np.stack([members for members in clusters if len(members) == size])
        small = _SMALL * size <= basis.rank
        most = max(BLOCK // (len(grid) * (size if small else basis.rank) * basis.rank), 1)
        for first in range(0, len(same_size), most):
            go_on()
            place = same_size[first : first + most].ravel()
            block = design.take(place)
            z, share = block.z, basis.shares[place]
            q = z @ basis.transform
            if component is None:
                assert response is not None
                y, m = response[place], q * response[place, None]
            else:
                y, m = None, _moment_rows(basis, place, block, z, component) @ basis.transform
            loss += (_without_small if small else _without_large)(q, m, y, share, size, b, shrink)
    return _smallest(grid, loss, basis, np.concatenate(clusters) if many else None)


def _cluster_limit(size: float, rank: int, penalties: int) -> int:
    """How many clusters of a size are left out in turn: two hundred, or as many as the work allows."""
    cost = 30 * size**3 + size**2 * rank if _SMALL * size <= rank else rank**3 + size * rank**2
    return max(_MOST_CLUSTERS, int(_WORK / (penalties * cost)))


def _without_small(q: Array, m: Array, y: Array | None, share: Array, size: int, b: Array, shrink: Array) -> Array:
    r"""The losses of clusters of one size, each left out, summed for every penalty, shape (L,).

    With S = diag(1 / (1 + lambda d)), R the cluster's rows of :math:`\sqrt\omega q` and H = R S R', the Woodbury identity gives
    :math:`R \theta = (I - H)^{-1} R S (b - b_g)` and :math:`b_g'\theta = b_g' S (b - b_g) + (R S b_g)' R \theta`; for an outcome
    the errors are :math:`(I - H)^{-1}` times the residuals.
    """
    root = np.sqrt(share).reshape(-1, size)
    r = root[..., None] * q.reshape(*root.shape, -1)
    shrunk = r * shrink.T[:, None, None, :]  # R S, shape (L, clusters, size, k)
    values, vectors = np.linalg.eigh(shrunk @ r.swapaxes(1, 2))
    one_minus_leverage = 1.0 - values
    alone = one_minus_leverage.min(axis=2) < _ALONE

    def freed(x: Array) -> Array:
        turned = (vectors.swapaxes(2, 3) @ x[..., None])[..., 0] / np.where(alone[..., None], 1.0, one_minus_leverage)
        return np.asarray((vectors @ turned[..., None])[..., 0])

    if y is not None:
        losses = (freed(root * y.reshape(-1, size) - shrunk @ b) ** 2).sum(axis=2)
    else:
        moment_part = (root[..., None] ** 2 * m.reshape(r.shape)).sum(axis=1)  # b_g
        back = (shrunk @ moment_part[..., None])[..., 0]
        fitted = freed(shrunk @ b - back)
        losses = (fitted**2 - 2 * back * fitted).sum(axis=2) - 2 * ((moment_part * (b - moment_part)) @ shrink).T
    return np.asarray(np.where(alone, np.inf, losses).sum(axis=1))


def _without_large(q: Array, m: Array, y: Array | None, share: Array, size: int, b: Array, shrink: Array) -> Array:
    """The same for clusters with about as many rows as there are directions, or more: solve the full system."""
    share = share.reshape(-1, size)
    q, m = q.reshape(*share.shape, -1), m.reshape(*share.shape, -1)
    left = np.repeat(-(q.swapaxes(1, 2) @ (share[..., None] * q))[:, None], shrink.shape[1], axis=1)
    np.einsum("glkk->glk", left)[...] += 1.0 / shrink.T
    theta = _solve(left, (b - (share[:, None] @ m)[:, 0])[:, None]).swapaxes(1, 2)  # (clusters, k, L)
    fitted = q @ theta
    loss = fitted**2 - 2 * (m @ theta) if y is None else (y.reshape(share.shape)[..., None] - fitted) ** 2
    return np.asarray((share[:, None] @ loss).sum(axis=(0, 1)))


def _solve(left: Array, right: Array) -> Array:
    """Solve for every penalty; NaN where there is no solution, because some direction varies in this cluster alone."""
    right = np.broadcast_to(right, left.shape[:-1])
    try:
        return np.asarray(np.linalg.solve(left, right[..., None])[..., 0])
    except np.linalg.LinAlgError:
        solutions = np.full(right.shape, np.nan)
        for at in np.ndindex(right.shape[:-1]):
            with contextlib.suppress(np.linalg.LinAlgError):
                solutions[at] = np.linalg.solve(left[at], right[at])
        return solutions
