r"""Mu and rr in the span of kernel sections, as ridge problems.

With landmarks u and :math:`W'K_{uu}W = I`, the features :math:`\phi = W'k(u, \cdot)` are orthonormal in the Hilbert space, so that
:math:`\|c + \theta'\phi\|^2 = \|\theta\|^2` with a free intercept c. In the eigenvectors V of their covariance
:math:`\sum_i \omega_i (\phi_i - \bar\phi)(\phi_i - \bar\phi)' = V \mathrm{diag}(g) V'`, both problems are diagonal: the basis
:math:`T = W V \mathrm{diag}(g)^{-1/2}` has the penalties d = 1/g of ``linear/ridge.py``, whose leave-one-out losses are used here.

A direction that the rows hardly show, but readings do, has a very small g. It is not left out: the penalty alone bounds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from riesz.arrays import Array
from riesz.design.derived import with_columns
from riesz.design.design import Design
from riesz.design.moment import Evaluation, zero_slopes
from riesz.families import find_family
from riesz.learners.kernel.sections import Sections
from riesz.learners.linear.learner import Penalty, fit_glm, ridge_coefficients, riesz_coefficients
from riesz.learners.linear.ridge import GRID, Basis

_LEAST = 1e-12  # share of the largest g that stands in for smaller ones


@dataclass(frozen=True)
class Solution:
    """Coefficients on the intercept and the sections.

    Attributes
    ----------
    mu : ndarray, shape (1 + m,)
        Of mu, or of its index in another family than ``"gaussian"``.
    rr : ndarray, shape (1 + m, K)
    chosen : mapping
        The penalties in use.
    """

    mu: Array
    rr: Array
    chosen: Mapping[str, float]


@dataclass(frozen=True)
class Problem:
    """The regressions on the features of some sections.

    Attributes
    ----------
    columns : Design
        The rows, with the sections as columns.
    reduction : ndarray, shape (m, r)
        W.
    basis : Basis
        T; its targets are the outcome, then the anchors.
    grid : ndarray
        Penalties to choose from.
    """

    columns: Design
    reduction: Array
    basis: Basis
    grid: Array

    def outcome(self, penalty: Penalty) -> tuple[Array, float]:
        """Coefficients of mu, or of its index, shape (1 + m,), and the penalty."""
        if not find_family(self.columns.family).identity:
            return _glm(self.columns, self.reduction, penalty, self.basis.seed)
        return ridge_coefficients(self.columns, self.basis, self.columns.y, penalty, self.grid)


def make_problem(design: Design, sections: Sections, seed: int) -> Problem:
    """Evaluate the sections at the rows of a design, and find the basis."""
    columns = with_columns(design, sections.evaluate(design))
    reduction = sections.reduction()
    finite = sections.inputs.kernel == "linear"
    basis = _basis(columns, reduction, np.vstack([design.y, design.anchor.observed]), finite, seed)
    return Problem(columns, reduction, basis, basis.penalties if finite else GRID[1:])


def solve(
    design: Design, sections: Sections, penalty: Penalty, rr_penalty: Penalty, constrained: bool, seed: int
) -> Solution:
    """Solve both problems on the rows of a design."""
    problem = make_problem(design, sections, seed)
    mu, chosen = problem.outcome(penalty)
    rr, rr_chosen = riesz_coefficients(problem.columns, problem.basis, rr_penalty, constrained, problem.grid)
    return Solution(mu, rr, {"penalty": chosen, **rr_chosen})


def _basis(columns: Design, reduction: Array, targets: Array, finite: bool, seed: int) -> Basis:
    """The basis T of the module's docstring, with the intercept first; for the other arguments see ``linear/ridge.py``.

    With a finite number of features, directions that are zero on every row are left out, as in a linear regression.
    """
    shares = columns.weights / columns.weights.sum()
    centre = np.zeros(len(columns.names))
    for place, block in columns.blocks():
        centre += shares[place] @ block.z
    width = reduction.shape[1]
    gram, projected = np.zeros((width, width)), np.zeros((width, len(targets)))
    for place, block in columns.blocks():
        phi = (block.z - centre)[:, 1:] @ reduction
        scaled = phi * np.sqrt(shares[place, None])
        gram += scaled.T @ scaled
        projected += phi.T @ (shares[place] * targets[:, place]).T
    size, axes = np.linalg.eigh(gram)
    least = _LEAST * size[-1]
    if finite:
        size, axes = size[size > least], axes[:, size > least]
    size = np.maximum(size, least)
    axes = axes / np.sqrt(size)
    transform = np.zeros((len(centre), 1 + len(size)))
    transform[0, 0] = 1.0
    transform[1:, 1:] = reduction @ axes
    transform[0, 1:] = -centre[1:] @ transform[1:, 1:]
    return Basis(
        transform,
        np.append(0.0, 1.0 / size),
        shares,
        np.vstack([targets @ shares, axes.T @ projected]),
        None,
        seed,
    )


def _glm(columns: Design, reduction: Array, penalty: Penalty, seed: int) -> tuple[Array, float]:
    """A regression of the index of mu on the features, which needs them at the rows alone."""
    features = (columns.z[:, 1:] @ reduction).T
    shape = (len(features), len(columns.is_derivative), len(columns))
    at_rows = with_columns(columns, Evaluation(features, np.broadcast_to(np.nan, shape), zero_slopes(shape)))
    theta, chosen = fit_glm(at_rows, penalty, np.ones(1 + len(features)), seed)
    return np.append(theta[0], reduction @ theta[1:]), chosen
