r"""Balancing weights, through their dual problems.

For a component with moments :math:`M = E_n[m(b)]` of standardised columns b, weights :math:`\gamma` of least size balance b up to a
tolerance. Their dual gives a function of the columns, which has values at readings and at held-out rows, too:

=====================================  ===============================================  ==================================
least                                  subject to                                       :math:`\gamma`
=====================================  ===============================================  ==================================
:math:`E_n[\gamma^2]`                  :math:`|E_n[\gamma b] - M|_\infty \le \delta`    :math:`b'\theta`, the Riesz lasso
:math:`E_n[\gamma^2]`                  :math:`\|E_n[\gamma b] - M\|_2 \le \delta`       :math:`b'\theta`, a Riesz ridge
:math:`E_n[\gamma^2]`, sign g          as the first                                     :math:`g \max(g\, b'\theta, 0)`
:math:`E_n[w \log w - w]`, sign g,     as the first                                     :math:`g \exp(g\, b'\theta)`
:math:`w = |\gamma|`
=====================================  ===============================================  ==================================

The last two minimise :math:`E_n[\psi(g\, b'\theta)] - M'\theta + \delta |\theta|_1` with :math:`\psi(t) = \max(t, 0)^2 / 2` and
:math:`\exp(t)`. The intercept is balanced exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import optimize

from riesz.arrays import Array
from riesz.errors import LearnerError
from riesz.learners.known_signs import signs_at
from riesz.learners.linear.ridge import GRID
from riesz.learners.sparse.convex import Exponential, PositiveSquare, Psi, minimise
from riesz.learners.sparse.gram_lasso import NoSolution, least_factor, solve_lasso
from riesz.learners.sparse.penalties import cross_validate, grid_of
from riesz.learners.sparse.second_moments import Columns, HeldOut, Sums

Tolerance = float | Literal["aiw", "cv"]
Form = Literal["linear", "positive", "exponential"]

#: The functions psi of the duals with a known sign.
PSI: dict[str, Psi] = {"positive": PositiveSquare(), "exponential": Exponential()}

_MARGIN = 1.02  # by how much a chosen tolerance exceeds the least one for which there are weights
_RAISE = 1.5  # by how much it rises until there are weights of the known sign
_LEAST_RISE = 1e-3  # of the tolerance at which a constant balances
_RAISES = 40
_PENALTIES = (1e-12, 1e12)  # of the ridge, for standardised columns
_NULL = 1e-12  # directions with a smaller share of the largest eigenvalue do not count
_SMALLEST, _HALVINGS = 1e-7, 40  # of the search for a tolerance


@dataclass(frozen=True)
class Weights:
    """The dual solution of one component.

    Attributes
    ----------
    theta : ndarray, shape (p,)
        Coefficients of standardised columns.
    tolerance : float
        Of the ball.
    penalty : float
        That of the Riesz lasso, which is the tolerance, or that of the ridge.
    """

    theta: Array
    tolerance: float
    penalty: float


def in_the_cube(
    sums: Sums, component: int, penalised: Array, tolerance: Tolerance, parts: Sequence[HeldOut], rows: float
) -> Weights:
    """Weights that balance every column up to the tolerance."""
    moments = sums.moments[component]
    least_size = partial(solve_lasso, sums.gram, moments)
    if tolerance == "aiw":
        delta = _best_tolerance(sums, component, penalised, rows)
    elif tolerance == "cv":
        delta = _validated(sums, component, penalised, parts)
    else:
        delta = float(tolerance)
    try:
        return Weights(least_size(delta * penalised), delta, delta)
    except NoSolution:
        least = _MARGIN * least_factor(sums.gram, moments, penalised)
        if tolerance != "cv":
            raise LearnerError(
                f"No weights balance these columns within tolerance={delta:g}. Use a tolerance of {least:.3g} or more, "
                "tolerance='aiw', or fewer columns."
            ) from None
        return Weights(least_size(least * penalised), least, least)


def _best_tolerance(sums: Sums, component: int, penalised: Array, rows: float) -> float:
    r"""The tolerance that minimises :math:`E_n[\gamma^2] / n + \delta^2`.

    The derivative of the least :math:`E_n[\gamma^2]` along :math:`\delta` is :math:`-2 |\theta|_1`, so that
    :math:`|\theta|_1 / n = \delta` at the minimum. The left side falls as :math:`\delta` rises.
    """
    moments = sums.moments[component]
    high = float(grid_of(sums.gram, moments, penalised)[0])
    low, theta = _SMALLEST * high, None
    for _ in range(_HALVINGS):
        middle = float(np.sqrt(low * high))
        try:
            theta = solve_lasso(sums.gram, moments, middle * penalised, theta)
            larger = bool(penalised @ np.abs(theta) > rows * middle)
        except NoSolution:
            larger = True
        low, high = (middle, high) if larger else (low, middle)
    return high


def _validated(sums: Sums, component: int, penalised: Array, parts: Sequence[HeldOut]) -> float:
    """The tolerance with the smallest held-out Riesz loss."""

    def solve_on(others: Sums, penalty: Array, start: Array | None) -> tuple[Array, Array]:
        return solve_lasso(others.gram, others.moments[component], penalty, start), penalty

    tried = [(part.weight, partial(solve_on, part.others), partial(_loss, part.part, component)) for part in parts]
    return cross_validate(tried, grid_of(sums.gram, sums.moments[component], penalised), penalised)


def _loss(sums: Sums, component: int, theta: Array) -> float:
    return float(theta @ sums.gram @ theta - 2 * sums.moments[component] @ theta)


def in_the_ball(
    sums: Sums, component: int, penalised: Array, tolerance: Tolerance, parts: Sequence[HeldOut], rows: float
) -> Weights:
    r"""Weights whose imbalances have a Euclidean norm up to the tolerance: a ridge.

    The penalty that minimises :math:`E_n[\gamma^2] / n + \delta^2` is :math:`1 / n`.
    """
    ridge = Ridge.of(sums, component, penalised)
    if tolerance == "aiw":
        lam = 1.0 / rows
    elif tolerance == "cv":
        losses = np.zeros(len(GRID) - 1)
        for part in parts:
            others = Ridge.of(part.others, component, penalised)
            losses += [part.weight * _loss(part.part, component, others.at(lam)) for lam in GRID[1:]]
        lam = float(GRID[1:][np.argmin(losses)])
    else:
        lam = ridge.penalty(tolerance)
    return Weights(ridge.at(lam), ridge.imbalance(lam), lam)


@dataclass(frozen=True)
class Ridge:
    """Ridge solutions at every penalty, from one eigenvalue problem.

    Attributes
    ----------
    held, free : ndarray of int
        Columns with and without a penalty.
    values, vectors : ndarray
        Of the second moments of the former, without what the latter explain.
    along : ndarray
        The moments in that basis.
    back, level : ndarray
        The coefficients of the free columns are the level minus ``back`` times those of the others.
    """

    held: npt.NDArray[np.intp]
    free: npt.NDArray[np.intp]
    values: Array
    vectors: Array
    along: Array
    back: Array
    level: Array

    @classmethod
    def of(cls, sums: Sums, component: int, penalised: Array) -> Ridge:
        """The ridge of a component's moments."""
        held, free = np.flatnonzero(penalised), np.flatnonzero(penalised == 0)
        gram, moments = sums.gram, sums.moments[component]
        back, level = (
            np.linalg.lstsq(gram[np.ix_(free, free)], right, rcond=None)[0]
            for right in (gram[np.ix_(free, held)], moments[free])
        )
        values, vectors = np.linalg.eigh(gram[np.ix_(held, held)] - gram[np.ix_(held, free)] @ back)
        along = vectors.T @ (moments[held] - back.T @ moments[free])
        return cls(held, free, np.clip(values, 0.0, None), vectors, along, back, level)

    def at(self, lam: float) -> Array:
        """The coefficients, shape (p,)."""
        theta = np.zeros(len(self.held) + len(self.free))
        seen = self.values + lam > _NULL * self.values.max(initial=0.0)
        theta[self.held] = self.vectors[:, seen] @ (self.along[seen] / (self.values[seen] + lam))
        theta[self.free] = self.level - self.back @ theta[self.held]
        return theta

    def imbalance(self, lam: float) -> float:
        """The Euclidean norm of the imbalances, which rises with the penalty."""
        return lam * float(np.linalg.norm(self.along / (self.values + lam))) if lam > 0 else 0.0

    def penalty(self, tolerance: float) -> float:
        """The penalty at which the imbalances have this norm."""
        if tolerance == 0:
            return 0.0
        least, most = self.imbalance(_PENALTIES[0]), self.imbalance(_PENALTIES[1])
        if tolerance >= most:
            return _PENALTIES[1]
        if tolerance < least:
            raise LearnerError(
                f"No weights balance these columns within tolerance={tolerance:g}. Use a tolerance above {least:.3g}, "
                "tolerance='aiw', or fewer columns."
            )
        log = optimize.brentq(
            lambda log: self.imbalance(float(np.exp(log))) - tolerance, *np.log(_PENALTIES), xtol=1e-13, rtol=1e-13
        )
        return float(np.exp(log))


def of_known_sign(
    columns: Columns, sums: Sums, component: int, form: Form, signs: Array, start: Weights, given: bool
) -> Weights:
    """Weights with known signs, shape (J,), in the place of those that may have either sign.

    A tolerance that was not given by the user rises until there are weights.
    """
    design, moments = columns.design, sums.moments[component]
    g = np.broadcast_to(signs_at(signs[None], design.treatment)[0], len(design))

    def blocks() -> Iterator[tuple[Array, Array]]:
        for place, _, _, b in columns.blocks():
            yield b * g[place, None], columns.shares[place]

    first = start.theta if form == "positive" else np.zeros(len(moments))
    delta = start.tolerance
    least_rise = _LEAST_RISE * float(grid_of(sums.gram, moments, columns.penalised)[0])
    for _ in range(_RAISES):
        try:
            return Weights(minimise(PSI[form], blocks, moments, delta * columns.penalised, first), delta, delta)
        except NoSolution:
            if given:
                break
            delta = max(_RAISE * delta, least_rise)
    raise LearnerError(
        f"No weights of the representer's sign balance these columns within tolerance={delta:g}. Use a larger tolerance or "
        "tolerance='aiw', fewer columns, or riesz.Balancing(), whose weights may have either sign."
    )
