r"""Ridge-penalised linear quantile regression.

.. math:: \min_\theta \sum_i \omega_i\, \rho_{\tau, b}(y_i - q_i'\theta) + \frac{\bar f \lambda}{2} \sum_j d_j \theta_j^2

in the basis of ``ridge.py``, with the pinball loss :math:`\rho_\tau(r) = r (\tau - 1\{r < 0\})` smoothed by a normal kernel with
standard deviation b (convolution smoothing). Its second derivative is about the density :math:`\bar f` of the residuals at zero, so
that a penalty means the same as for a mean. b falls to a hundredth of :math:`n^{-1/2}` residual standard deviations, where the
smoothing no longer matters.

References
----------
Koenker and Bassett (1978), "Regression quantiles".
Fernandes, Guerre and Horta (2021), "Smoothing quantile regressions".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from riesz.arrays import Array
from riesz.crossfit.threads import go_on
from riesz.design.density import kernel_weights
from riesz.design.design import Design
from riesz.learners.linear.ridge import GRID, Basis, choose_outcome_penalty, make_basis

_CHOOSING = 6  # steps in which the penalty is chosen
_SHARPER = 0.5  # factor of b from one round of steps to the next
_LAST = 0.01  # the smallest b, in root-n-ths of a residual standard deviation
_STEPS = 50  # most Newton steps of a round
_DAMPING = 1e-3  # of the second derivatives, in units of the average density
_EXACT = 1e-10


@dataclass(frozen=True)
class _Problem:
    """The objective above.

    Attributes
    ----------
    y, shares : ndarray, shape (n,)
    q : ndarray, shape (n, k)
        The columns in the basis.
    ridge : ndarray, shape (k,)
        The density times lambda d.
    tau, b : float
    """

    y: Array
    shares: Array
    q: Array
    ridge: Array
    tau: float
    b: float

    def value(self, theta: Array) -> float:
        """The objective."""
        r = self.y - self.q @ theta
        smooth = r * (self.tau - norm.cdf(-r / self.b)) + self.b * norm.pdf(r / self.b)
        return float(self.shares @ smooth + 0.5 * self.ridge @ theta**2)

    def expand(self, theta: Array) -> tuple[Array, Array]:
        """Its gradient, shape (k,), and second derivatives, shape (k, k)."""
        r = self.y - self.q @ theta
        gradient = self.q.T @ (self.shares * (norm.cdf(-r / self.b) - self.tau)) + self.ridge * theta
        root = self.q * np.sqrt(self.shares * norm.pdf(r / self.b) / self.b)[:, None]
        return gradient, root.T @ root + np.diag(self.ridge)


def fit_quantile(design: Design, penalty: float | str, tau: float, seed: int = 0) -> tuple[Array, float]:
    r"""Coefficients of the conditional quantile, shape (p,), and the penalty.

    With ``"loo"`` the penalty has the smallest leave-one-out error of a working regression, as in logistic regression: that of
    :math:`q + (\tau - 1\{y \le q\}) / \bar f`, whose errors have the same variance on every row.
    """
    y = design.y
    basis = make_basis(design, design.weights, y[None], seed=seed)
    q = np.concatenate([block.z @ basis.transform for _, block in design.blocks()])
    lam = _chosen(design, basis, y, penalty, GRID if basis.rank < len(y) else GRID[1:])
    theta = basis.projections[:, 0] * basis.shrink(lam)
    fitted = q @ theta
    fitted = fitted + _quantile(y - fitted, basis.shares, tau)
    for _ in range(_CHOOSING):
        r = y - fitted
        density = float(basis.shares @ kernel_weights(r, design.weights))
        working = fitted + (tau - (r <= 0)) / density
        at = replace(basis, projections=(q.T @ (basis.shares * working))[:, None])
        lam = _chosen(design, at, working, penalty, basis.penalties)
        theta = at.projections[:, 0] * basis.shrink(lam)
        fitted = q @ theta
    problem = _Problem(y, basis.shares, q, density * lam * basis.penalty, tau, 0.0)
    return basis.transform @ _sharpened(problem, theta, density), lam


def _chosen(design: Design, basis: Basis, response: Array, penalty: float | str, grid: Array) -> float:
    if penalty != "loo":
        return float(penalty)
    return choose_outcome_penalty(design, basis, response, basis.projections[:, 0], grid)[0]


def _quantile(values: Array, shares: Array, tau: float) -> float:
    order = np.argsort(values, kind="stable")
    return float(np.interp(tau, np.cumsum(shares[order]), values[order]))


def _sharpened(problem: _Problem, theta: Array, density: float) -> Array:
    """The solution as b falls, each from the solution before."""
    spread = 0.4 / density  # the standard deviation of normal residuals
    last = _LAST * spread * float(problem.shares @ problem.shares) ** 0.5
    b = spread
    while True:
        theta = _minimised(replace(problem, b=b), theta, _DAMPING * density)
        if b <= last:
            return theta
        b = max(_SHARPER * b, last)


def _minimised(problem: _Problem, theta: Array, damping: float) -> Array:
    """Damped Newton steps, each halved until the objective falls."""
    value = problem.value(theta)
    for _ in range(_STEPS):
        go_on()
        gradient, hessian = problem.expand(theta)
        step = -np.linalg.solve(hessian + damping * np.eye(len(theta)), gradient)
        expected = float(gradient @ step)
        length = 1.0
        while (after := problem.value(theta + length * step)) > value + 1e-4 * length * expected and length > 1e-9:
            length /= 2
        if after >= value:
            return theta
        theta, gain, value = theta + length * step, value - after, after
        if gain <= _EXACT * abs(value):
            break
    return theta
