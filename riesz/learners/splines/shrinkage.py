r"""Group-wise ridge penalties from second moments alone: automatic relevance determination.

With many covariates of which few matter, a single penalty shrinks all of them too much. Here each group g of features has a prior
variance :math:`\tau_g`. Both problems are quadratic, :math:`\theta'S\theta - 2 b'\theta` with :math:`S = E_n[\phi\phi']`, and
:math:`b = E_n[\phi y]` for mu or :math:`b = E_n[m(\phi)]` for rr. Given the variances,

.. math:: A = \{S + \mathrm{diag}(\lambda)\}^{-1}, \quad \theta = A b, \quad \lambda_g = \frac{\sigma^2}{N \tau_g}, \quad
    \gamma_g = \sum_{j \in g} (1 - \lambda_g A_{jj}), \quad \tau_g \leftarrow \frac{\|\theta_g\|^2}{\gamma_g + \kappa},

MacKay's fixed point of the marginal likelihood under a prior proportional to :math:`\tau_g^{-\kappa / 2}`. With kappa = 0 about
a third of the groups that do not matter would stay, each with a little noise, and there are many of them. A group that explains
less than noise is shrunk to zero and dropped, so that later steps are fast. :math:`\sigma^2` is the size of the noise in
b: the errors' variance for mu; for rr the mean over features of :math:`E_n[(m(\phi_j) - \phi_j \alpha)^2] / S_{jj}`.

References
----------
MacKay (1992), "Bayesian interpolation"; Tipping (2001), "Sparse Bayesian learning and the relevance vector machine".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from riesz.arrays import Array
from riesz.crossfit.threads import go_on

Numbers = npt.NDArray[np.intp]

_STEPS = 12
_GONE = 0.02  # a group whose features together determine less than this share of a parameter each is dropped
_VANISHES = 1e-12  # mean square, relative to the largest, of a feature that is zero at the observed rows
_LARGEST = 1e8  # penalty, in units of a feature's mean square


@dataclass(frozen=True)
class Quadratic:
    """The problem of one target on some rows.

    Attributes
    ----------
    gram : ndarray, shape (F, F)
        S.
    linear : ndarray, shape (F,)
        b.
    rows : float
        N, the effective number of rows.
    noise : callable
        ``(theta, effective number of parameters) -> sigma^2``.
    """

    gram: Array
    linear: Array
    rows: float
    noise: Callable[[Array, float], float]


@dataclass(frozen=True)
class Penalties:
    """The groups that stay, and their penalties.

    Attributes
    ----------
    kept : ndarray of int, shape (k,)
        Features that stay, by number.
    penalty : ndarray, shape (k,)
        lambda; zero for features without penalty.
    theta : ndarray, shape (k,)
    """

    kept: Numbers
    penalty: Array
    theta: Array


def outcome_problem(gram: Array, linear: Array, total: float, rows: float) -> Quadratic:
    """The problem of mu, from second moments of features and of the centred outcome, whose mean square is ``total``."""

    def noise(theta: Array, used: float) -> float:
        residual_square = total - 2 * linear @ theta + theta @ gram @ theta
        return float(max(float(residual_square), 1e-10 * total, 1e-200) / max(1.0 - used / rows, 0.1))

    return Quadratic(gram, linear, rows, noise)


def group_penalties(problem: Quadratic, groups: Numbers, sparsity: float, start: Penalties | None = None) -> Penalties:
    """Find the penalties of groups of features.

    Parameters
    ----------
    problem : Quadratic
    groups : ndarray of int, shape (F,)
        A number for each feature; negative for those without penalty.
    sparsity : float
        kappa.
    start : Penalties, optional
        Of fewer features, whose penalties the search starts from.
    """
    size = np.maximum(problem.gram.diagonal(), 1e-300)
    free = groups < 0
    penalty = np.where(free, 0.0, max(len(size) / problem.rows, 0.02) * size)
    if start is not None:
        penalty[start.kept] = start.penalty
    kept = np.flatnonzero(free | identified(problem.gram))
    penalty = penalty[kept]
    theta = np.zeros(len(size))
    for _ in range(_STEPS):
        go_on()
        gram = problem.gram[np.ix_(kept, kept)]
        theta, diagonal = _solved(gram, penalty, size[kept], problem.linear[kept])
        determined = 1.0 - penalty * diagonal
        theta_of_all = np.zeros(len(size))
        theta_of_all[kept] = theta
        sigma = problem.noise(theta_of_all, float(determined.sum()))
        _, place, counts = np.unique(groups[kept], return_inverse=True, return_counts=True)
        gamma = np.bincount(place, determined)
        square = np.bincount(place, theta**2)
        variance = square / (gamma + sparsity)
        updated = sigma / (problem.rows * np.maximum(variance, 1e-300))[place]
        updated = np.minimum(updated, _LARGEST * size[kept])
        stays = free[kept] | (gamma > _GONE * counts)[place]
        moved = float(np.abs(np.log(updated[stays & ~free[kept]] / penalty[stays & ~free[kept]])).max(initial=0.0))
        penalty = np.where(free[kept], 0.0, updated)[stays]
        settled = stays.all() and moved < 0.1
        kept, theta = kept[stays], theta[stays]
        if settled:
            break
    return Penalties(kept, penalty, theta)


def identified(gram: Array) -> npt.NDArray[np.bool_]:
    """Which features are not zero at all observed rows, unlike features that differ from zero only at readings."""
    size = gram.diagonal()
    return np.asarray(size > _VANISHES * size.max())


def _solved(gram: Array, penalty: Array, size: Array, linear: Array) -> tuple[Array, Array]:
    r"""A b and the diagonal of A = (S + diag(lambda))^-1; a little more penalty where rounding leaves it without an inverse.

    With :math:`S + \mathrm{diag}(\lambda) = LL'`, both follow from :math:`L^{-1}`, which takes half the time of A.
    """
    scale = 1.0 / np.sqrt(size)
    system, right = gram * scale[:, None] * scale, linear * scale
    for jitter in (1e-12, 1e-9, 1e-6):
        lower, info = lapack.dpotrf(system + np.diag(penalty * scale**2 + jitter), lower=1, clean=1)
        if info == 0:
            inverse, _ = lapack.dtrtri(lower, lower=1)
            return inverse.T @ (inverse @ right) * scale, np.einsum("ij,ij->j", inverse, inverse) * scale**2
    whole = np.linalg.pinv(system + np.diag(penalty * scale**2))
    return whole @ right * scale, whole.diagonal() * scale**2
