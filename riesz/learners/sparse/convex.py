r"""The lasso with another loss than the squared one, as a sequence of lassos.

.. math:: \min_\theta E_n[\psi(\phi'\theta)] - L'\theta + \sum_j \lambda_j |\theta_j|

for a smooth convex :math:`\psi`: a logit's, or the dual of balancing weights. Each step solves the lasso of the second-order
expansion exactly (Lee, Sun and Saunders 2014), and is halved until the objective falls.

References
----------
Lee, Sun and Saunders (2014), "Proximal Newton-type methods for minimizing composite functions".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import numpy as np
from scipy.special import expit

from riesz.arrays import Array
from riesz.learners.sparse.gram_lasso import NoSolution, solve_lasso, violation

_STEPS = 200
_HALVINGS = 50
_EXACT = 1e-10  # violations of the conditions that end the steps, relative to L
_DAMPING = 1e-10  # share of the largest curvature that is added to each, so that every step has a solution

#: Features and shares, of shape (b, p) and (b,), block by block.
Blocks = Callable[[], Iterable[tuple[Array, Array]]]


class Psi(ABC):
    """A convex function of a number, with its first two derivatives; each takes and returns an array."""

    @abstractmethod
    def value(self, t: Array) -> Array: ...

    @abstractmethod
    def slope(self, t: Array) -> Array: ...

    @abstractmethod
    def curvature(self, t: Array) -> Array: ...


class Logit(Psi):
    """log(1 + exp(t))."""

    def value(self, t: Array) -> Array:
        return np.logaddexp(0.0, t)

    def slope(self, t: Array) -> Array:
        return np.asarray(expit(t))

    def curvature(self, t: Array) -> Array:
        return np.asarray(expit(t) * expit(-t))


class Exponential(Psi):
    """exp(t), the conjugate of the entropy w log w - w; infinite from t = 500 on, where nothing can be computed any more."""

    def value(self, t: Array) -> Array:
        return np.where(t < 500.0, np.exp(np.minimum(t, 500.0)), np.inf)

    def slope(self, t: Array) -> Array:
        return np.exp(np.minimum(t, 500.0))

    def curvature(self, t: Array) -> Array:
        return self.slope(t)


class PositiveSquare(Psi):
    """Half of max(t, 0)^2, the conjugate of w^2 / 2 for w >= 0."""

    def value(self, t: Array) -> Array:
        return 0.5 * np.maximum(t, 0.0) ** 2

    def slope(self, t: Array) -> Array:
        return np.maximum(t, 0.0)

    def curvature(self, t: Array) -> Array:
        return (t > 0.0).astype(float)


def minimise(psi: Psi, blocks: Blocks, linear: Array, penalty: Array, start: Array) -> Array:
    """The solution, shape (p,).

    Parameters
    ----------
    psi : Psi
    blocks : callable
        Features and shares, whenever it is called.
    linear, penalty, start : ndarray, shape (p,)
        As for :func:`~riesz.learners.sparse.gram_lasso.solve_lasso`.

    Raises
    ------
    NoSolution
        If the conditions cannot be met: there is no minimum.
    """
    theta, size = start.copy(), float(np.abs(linear).max(initial=0.0))
    value, gradient, hessian = expand(psi, blocks, linear, theta)
    for _ in range(_STEPS):
        if violation(np.zeros_like(hessian), -gradient, penalty, theta) <= _EXACT * size:
            return theta
        damping = _DAMPING * hessian.diagonal().max()
        curved = hessian + damping * np.eye(len(theta))
        target = solve_lasso(curved, curved @ theta - gradient, penalty, theta)
        step = target - theta
        before = value + float(penalty @ np.abs(theta))
        expected = float(gradient @ step + penalty @ (np.abs(target) - np.abs(theta)))
        for halving in range(_HALVINGS):
            length = 0.5**halving
            moved = theta + length * step if halving else target
            after = value_at(psi, blocks, linear, moved) + float(penalty @ np.abs(moved))
            if after <= before + 1e-4 * length * expected + 1e-14 * abs(before):
                break
        else:
            break
        theta = moved
        value, gradient, hessian = expand(psi, blocks, linear, theta)
    if violation(np.zeros_like(hessian), -gradient, penalty, theta) > 1e-6 * size:
        raise NoSolution
    return theta


def value_at(psi: Psi, blocks: Blocks, linear: Array, theta: Array) -> float:
    """The smooth part of the objective."""
    return float(sum(shares @ psi.value(phi @ theta) for phi, shares in blocks()) - linear @ theta)


def expand(psi: Psi, blocks: Blocks, linear: Array, theta: Array) -> tuple[float, Array, Array]:
    """The smooth part of the objective, its gradient and its second derivatives."""
    value, gradient, hessian = -float(linear @ theta), -linear, np.zeros((len(theta), len(theta)))
    for phi, shares in blocks():
        t = phi @ theta
        value += float(shares @ psi.value(t))
        gradient = gradient + (shares * psi.slope(t)) @ phi
        root = phi * np.sqrt(shares * psi.curvature(t))[:, None]
        hessian += root.T @ root
    return value, gradient, hessian
