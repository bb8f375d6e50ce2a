r"""The penalties of the lasso: by the size of the noise in each moment, or by held-out losses.

**Plug-in.** A penalty on column j should exceed the noise in the j-th condition :math:`|L - G\theta|_j \le \lambda_j`, the mean of
:math:`u_{ij} = \ell_{ij} - b_{ij} f(w_i)`, where :math:`\ell_i` are the rows of L and f is the function that is learned. So

.. math:: \lambda_j = \lambda D_j, \qquad \lambda = \frac{c_1}{\sqrt n} \Phi^{-1}\Big(1 - \frac{c_2}{2p}\Big), \qquad
    D_j = E_n[u_{ij}^2]^{1/2},

with f from the step before (Chernozhukov, Newey and Singh 2022; for regressions Belloni, Chen, Chernozhukov and Hansen 2012). With
clusters or weights :math:`D_j / \sqrt n` is the standard error of the mean of :math:`u_{ij}` that they imply.

**Cross-validation.** One penalty for all standardised columns. Both losses, :math:`(y - f)^2` and :math:`f^2 - 2 m(f)`, are
:math:`\theta'G\theta - 2 L'\theta` up to a constant, also on held-out rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import norm

from riesz.arrays import Array
from riesz.learners.sparse.gram_lasso import NoSolution

_GRID = np.geomspace(1.0, 1e-3, 25)  # penalties tried, relative to the smallest one that drops all columns
_PATIENCE = 6  # penalties without a smaller loss that end the search; the smallest penalties take the most time
_UPDATES = 15  # updates of the noise
_SAME = 1e-4  # relative change of the noise at which updates end
_LEAST_NOISE = 0.1  # of the columns' typical noise; see _not_too_small

#: From penalties, shape (p,), and the solution of a similar problem: the solution, and the penalties that it has.
Solve = Callable[[Array, Array | None], tuple[Array, Array]]


def rate(c1: float, c2: float, columns: int) -> float:
    r"""The multiple of the noise, :math:`c_1 \Phi^{-1}(1 - c_2 / (2p))`.

    Examples
    --------
    >>> from riesz.learners.sparse.penalties import rate
    >>> round(rate(1.0, 0.1, 100), 2)
    3.29
    """
    return c1 * float(norm.isf(c2 / (2 * max(columns, 1))))


def plug_in(
    penalised: Array,
    factor: float,
    first: Array,
    noise_of: Callable[[Array], Array],
    solve: Solve,
) -> tuple[Array, Array]:
    """Alternate between the penalties and the function.

    Parameters
    ----------
    penalised : ndarray, shape (p,)
    factor : float
        See :func:`rate`.
    first : ndarray, shape (p,)
        The noise before anything is learned.
    noise_of : callable
        The noise from a solution.
    solve : callable
        The solution at given penalties, or at larger ones if these have none.

    Returns
    -------
    ndarray, shape (p,)
        The solution.
    ndarray, shape (p,)
        Its penalties.
    """
    noise = _not_too_small(first, penalised)
    theta, penalty = solve(penalised * factor * noise, None)
    for _ in range(_UPDATES):
        before, noise = noise, _not_too_small(noise_of(theta), penalised)
        if np.abs(noise - before).max() <= _SAME * before.max():
            break
        theta, penalty = solve(penalised * factor * noise, theta)
    return theta, penalty


def _not_too_small(noise: Array, penalised: Array) -> Array:
    """The noise, at least a tenth of what is typical: a column whose moment has none in the first step would be free."""
    typical = np.sqrt(np.mean(noise[penalised > 0] ** 2)) if (penalised > 0).any() else 0.0
    return np.maximum(noise, _LEAST_NOISE * typical)


def cross_validate(parts: Sequence[tuple[float, Solve, Callable[..., float]]], grid: Array, penalised: Array) -> float:
    """The penalty with the smallest held-out loss.

    Parameters
    ----------
    parts : sequence of (float, callable, callable)
        For each part of the rows its weight, the solution on all other rows, and the loss on the part.
    grid : ndarray
        Penalties in descending order.
    penalised : ndarray, shape (p,)
    """
    losses = np.full(len(grid), np.inf)
    thetas: list[Array | None] = [None] * len(parts)
    for place, lam in enumerate(grid):
        try:
            thetas = [solve(lam * penalised, theta)[0] for (_, solve, _), theta in zip(parts, thetas, strict=True)]
        except NoSolution:  # nor is there one at the smaller penalties
            break
        losses[place] = sum(weight * loss(theta) for (weight, _, loss), theta in zip(parts, thetas, strict=True))
        if place - int(np.argmin(losses)) >= _PATIENCE:
            break
    return float(grid[int(np.argmin(losses))])


def grid_of(gram: Array, linear: Array, penalised: Array) -> Array:
    """Penalties to choose from, the first of which drops all columns that are penalised."""
    free = np.flatnonzero(penalised == 0)
    without = np.linalg.lstsq(gram[np.ix_(free, free)], linear[free], rcond=None)[0]
    most = np.abs((linear - gram[:, free] @ without)[penalised > 0]).max(initial=0.0)
    return np.asarray(_GRID * (float(most) or 1.0))
