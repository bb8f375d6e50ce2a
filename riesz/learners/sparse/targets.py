r"""The functions that the lasso learns, each with its problem, its held-out loss and the noise in its conditions.

- mu: :math:`L = E_n[b (y - \bar y)]`.
- rr by the Riesz loss: :math:`L = M = E_n[m(b)]` (Chernozhukov, Newey and Singh 2022).
- rr by the moment constraint: f approximates the anchor beta, :math:`\min_f E_n[(\beta - f)^2] + 2 \sum_j \lambda_j |\theta_j|`
  subject to :math:`h_n(f) = M'\theta = 0`, and :math:`r = \beta - f`. With the multiplier :math:`\nu` of the constraint it is the
  lasso with :math:`L = E_n[b \beta] + \nu M`. :math:`M'\theta` never falls as :math:`\nu` rises, and is piecewise linear, so that a
  root search finds the multiplier up to rounding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from riesz.arrays import Array
from riesz.learners.sparse.gram_lasso import NoSolution, solve_lasso
from riesz.learners.sparse.second_moments import Columns, Sums, noise

_TRIES = 200  # steps of the root search
_ROOT = 1e-13  # relative size of a moment that counts as zero


class Target(ABC):
    """A function to learn, in terms of standardised columns."""

    columns: Columns

    @abstractmethod
    def linear(self, sums: Sums) -> Array:
        """L, shape (p,); that of the unconstrained problem."""

    @abstractmethod
    def loss(self, theta: Array, part: Sums, others: Sums) -> float:
        """The loss on a part of the rows of what was learned on the others, up to a constant."""

    @abstractmethod
    def rows(self, theta: Array | None, sums: Sums) -> Iterator[tuple[slice, Array]]:
        """The rows u whose mean is the left side of the conditions, block by block; of a simple function if theta is None."""

    def solve(self, sums: Sums, penalty: Array, start: Array | None = None) -> Array:
        """The coefficients of standardised columns, shape (p,)."""
        return solve_lasso(sums.gram, self.linear(sums), penalty, start)


@dataclass(frozen=True)
class Outcome(Target):
    """mu minus the outcome's mean."""

    columns: Columns

    def linear(self, sums: Sums) -> Array:
        return sums.outcome

    def loss(self, theta: Array, part: Sums, others: Sums) -> float:
        return float(theta @ part.gram @ theta - 2 * part.outcome @ theta)

    def rows(self, theta: Array | None, sums: Sums) -> Iterator[tuple[slice, Array]]:
        theta = np.zeros(len(sums.outcome)) if theta is None else theta
        for place, block, _, b in self.columns.blocks():
            yield place, b * (block.y - self.columns.level - b @ theta)[:, None]


@dataclass(frozen=True)
class Representer(Target):
    """The rr of a component by the Riesz loss."""

    columns: Columns
    component: int

    def linear(self, sums: Sums) -> Array:
        return np.asarray(sums.moments[self.component])

    def loss(self, theta: Array, part: Sums, others: Sums) -> float:
        return float(theta @ part.gram @ theta - 2 * part.moments[self.component] @ theta)

    def rows(self, theta: Array | None, sums: Sums) -> Iterator[tuple[slice, Array]]:
        f_at_rows = self._simple() if theta is None else self.columns.index(theta)
        for place, block, z, b in self.columns.blocks():
            f = f_at_rows[place]
            yield place, self.columns.moment_rows(block, z, self.component) - b * f[:, None]

    def _simple(self) -> Array:
        """The Riesz representer among the combinations of a constant and the anchor, at the rows."""
        design, c = self.columns.design, self.component
        functions = np.stack([np.ones(len(design)), design.anchor.observed[c]])
        gram = (functions * self.columns.shares) @ functions.T
        moments = self.columns.shares @ _moments_of_constant_and_anchor(self.columns, c)
        return np.asarray(np.linalg.lstsq(gram, moments, rcond=1e-10)[0] @ functions)


def _moments_of_constant_and_anchor(columns: Columns, component: int) -> Array:
    """Their moments, shape (n, 2)."""
    design = columns.design
    links = design.links.of(component)
    values = ~design.is_derivative[design.links.reading[links]]
    of_constant = design.link_weights[links][values].sum(axis=0)
    return np.column_stack([of_constant, design.apply(design.anchor)[component]])


@dataclass(frozen=True)
class AnchorShadow(Target):
    """The f of a component, the paper's beta_perp, of which rr is the anchor's distance."""

    columns: Columns
    component: int

    def linear(self, sums: Sums) -> Array:
        return np.asarray(sums.anchors[self.component])

    def solve(self, sums: Sums, penalty: Array, start: Array | None = None) -> Array:
        return _constrained(sums.gram, sums.anchors[self.component], sums.moments[self.component], penalty, start)

    def squares_and_moment(self, theta: Array, sums: Sums) -> tuple[float, float]:
        """E[r^2] and h(r)."""
        c = self.component
        square = sums.anchor_squares[c] - 2 * sums.anchors[c] @ theta + theta @ sums.gram @ theta
        return float(square), float(sums.anchor_moments[c] - sums.moments[c] @ theta)

    def loss(self, theta: Array, part: Sums, others: Sums) -> float:
        """The Riesz loss of r with the scale that fits the other rows."""
        square, moment = self.squares_and_moment(theta, others)
        scale = moment / square if square > 0 else 0.0
        square, moment = self.squares_and_moment(theta, part)
        return scale**2 * square - 2 * scale * moment

    def rows(self, theta: Array | None, sums: Sums) -> Iterator[tuple[slice, Array]]:
        r"""The rows :math:`b r + \nu m(b)`; without penalty :math:`\nu = -E[r^2] / h(r)` is the multiplier."""
        theta = self._constant(sums) if theta is None else theta
        square, moment = self.squares_and_moment(theta, sums)
        nu = -square / moment if moment else 0.0
        anchor = self.columns.design.anchor.observed[self.component]
        for place, block, z, b in self.columns.blocks():
            r = anchor[place] - b @ theta
            yield place, b * r[:, None] + nu * self.columns.moment_rows(block, z, self.component)

    def _constant(self, sums: Sums) -> Array:
        """The anchor's mean if a constant has moment zero, otherwise nothing, as coefficients."""
        theta, at = np.zeros(len(sums.outcome)), self.columns.standard.intercept
        if at is not None and abs(sums.moments[self.component, at]) < 1e-9:
            theta[at] = sums.anchors[self.component, at]
        return theta


def noise_of(target: Target, theta: Array | None, sums: Sums) -> Array:
    """The noise in the conditions of each column, shape (p,)."""
    return noise(target.columns, target.rows(theta, sums))


def _constrained(gram: Array, linear: Array, moments: Array, penalty: Array, start: Array | None) -> Array:
    r"""The lasso subject to :math:`M'\theta = 0`."""

    def at(multiplier: float, near: Array | None) -> tuple[Array, float]:
        theta = solve_lasso(gram, linear + multiplier * moments, penalty, near)
        return theta, float(moments @ theta)

    theta, h = at(0.0, start)
    size = float(np.linalg.norm(moments))
    if abs(h) <= _ROOT * size * np.linalg.norm(theta):
        return theta
    low, h_low = 0.0, h
    step = -np.sign(h) * np.abs(linear).max() / np.abs(moments).max()
    wall = np.inf * step  # beyond it the lasso has no solution, because M leaves the range of G
    high, h_high = low, h_low
    for _ in range(_TRIES):  # until the moment changes its sign
        try:
            theta, h_high = at(low + step, theta)
        except NoSolution:
            wall, step = low + step, step / 2
            continue
        high = low + step
        if h_high * h <= 0:
            break
        low, h_low = high, h_high
        step = step * 2 if not np.isfinite(wall) else (wall - low) / 2
    return _root(at, (low, h_low), (high, h_high), theta, _ROOT * size)


def _root(
    at: Callable[[float, Array], tuple[Array, float]],
    first: tuple[float, float],
    second: tuple[float, float],
    theta: Array,
    zero: float,
) -> Array:
    """The solution where the moment is zero, between two multipliers: by secants that keep it between them (Illinois)."""
    (low, h_low), (high, h_high) = first, second
    f_low, f_high = h_low, h_high
    h = h_high
    for _ in range(_TRIES):
        if abs(h) <= zero * np.linalg.norm(theta) or high == low or f_high == f_low:
            break
        middle = (low * f_high - high * f_low) / (f_high - f_low)
        theta, h = at(middle, theta)
        if h * f_high < 0:
            low, f_low = high, f_high
        else:
            f_low /= 2
        high, f_high = middle, h
    return theta
