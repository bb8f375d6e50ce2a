r"""Short-stacking: the out-of-fold predictions of several learners, combined over the whole sample.

Every repeat of cross-fitting gives each candidate a prediction of every row, from fits that have not seen the row. Over all
candidates and repeats j, mu is a convex combination of their mu, and each rr a non-negative one of their rr,

.. math::

    \hat w = \arg\min_{w \ge 0,\ \sum_j w_j = 1} E_n[(y - \sum_j w_j \mu_j)^2], \qquad
    \hat v = \arg\min_{v \ge 0,\, c} E_n[\alpha_v^2 - 2 m(\alpha_v)], \quad
    \alpha_v = \sum_j v_j \alpha_j + \sum_k c_k 1\{A = k\}.

The levels c, of any sign, make rr represent the moment of a constant in each arm exactly: an arm's weights have the right mean,
and ``ipw`` does not depend on where the outcome is zero. Without arms there is one level.

Where mu is read in arms alone, each arm with enough rows has its own weights. In another family than ``"gaussian"`` the loss of mu
is the family's, such as the log loss. The weights of rr have no sum constraint, so the scale of a candidate's rr does not matter,
and at the solution :math:`h_n(\alpha_v) = E_n[\alpha_v^2]`: the one-step and the targeted estimate agree.

A candidate whose rr represents the moment for the errors of an index, such as a logit, only (``tilted``) takes part in mu alone, as
does one that learns mu alone. The result is a function of predictions: no learner is fitted again, and learners need no code for
stacks.

References
----------
Ahrens, Hansen, Schaffer and Wiemann, "Model averaging and double machine learning" (2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import linprog, minimize, nnls

from riesz.arrays import Array, ratio
from riesz.crossfit.folds import draw_part
from riesz.design.arm_numbers import reading_arms
from riesz.design.density import at_density
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked, Links
from riesz.families import Family, find_family
from riesz.predictions import Predictions
from riesz.storage.coding import stored

Codes = npt.NDArray[np.intp]

_ROWS_PER_CANDIDATE = 20  # in an arm that has its own weights of mu
_ALIKE = 1e-10  # share of an rr's variance within arms that counts as none
_MOST_PROGRAMMED = 5000  # rows whose pinball losses are compared
_LEAST = 1e-12  # share of the largest weight that counts as zero


@stored
@dataclass(frozen=True)
class Stacking:
    """How the predictions of the candidates in all repeats are combined; J counts every repeat of every candidate.

    Attributes
    ----------
    mu : ndarray, shape (A, J)
        Weights of the J predictions of mu in each of A arms, or in all rows (A = 1); each row sums to one.
    rr : ndarray, shape (K, J)
        Weights of the candidates' rr as learned, for each of K parameters.
    levels : ndarray, shape (K, A)
        What is added to rr in each arm, or in all rows (A = 1).
    mu_loss : ndarray, shape (J + 1,)
        Mean squared error of mu (the family's loss if it is not ``"gaussian"``) of each candidate, then of the stack.
    rr_loss : ndarray, shape (K, J + 1)
        The Riesz loss of each candidate's rr at its best scale, then of the stack; NaN for a candidate without rr.
    scales : ndarray, shape (K, J)
        E_n[m(r)] / E_n[r^2] of each candidate's rr as learned; near 1 if it was learned with its scale and overlap is good.
    claims : ndarray of bool, shape (J,)
        Whether a candidate's rr was learned with its scale.
    apart, gain : float
        From :func:`mu_apart`; NaN in files of former versions.
    """

    mu: Array
    rr: Array
    levels: Array
    mu_loss: Array
    rr_loss: Array
    scales: Array
    claims: npt.NDArray[np.bool_]
    apart: float = np.nan
    gain: float = np.nan


def mu_apart(learners: Sequence[Array], stacked: Array, design: Design) -> tuple[float, float]:
    r"""How far apart the two learners with the smallest squared errors are, and how much better than them the stack is.

    If the learners' mu, :math:`\mu_1` and :math:`\mu_2`, are about as far from each other as the stack's mu is from the outcome,
    then what is left of the outcome is not noise: their own errors have a mean square of at least
    :math:`E_n[(\mu_1 - \mu_2)^2] / 4`. Where one of them has learned mu, the stack is no better than that one.

    Parameters
    ----------
    learners : sequence of ndarray, shape (n,)
        Mu of every learner at the rows, averaged over repeats.
    stacked : ndarray, shape (n,)
    design : Design

    Returns
    -------
    apart : float
        :math:`E_n[(\mu_1 - \mu_2)^2] / E_n[(y - \mu)^2]`.
    gain : float
        :math:`E_n[(y - \mu_1)^2] / E_n[(y - \mu)^2] - 1`; NaN, as the other, where nothing is left, or mu is not a mean.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=riesz.Stack([riesz.Linear(), riesz.Splines()]))
    >>> (stacking,) = fit._crossfit.stacking
    >>> stacking.apart < 0.7, stacking.gain < 0.1
    (True, True)
    """
    left = float(design.mean((design.y - stacked) ** 2))
    if len(learners) < 2 or not left > 0.0 or not find_family(design.family).is_mean:
        return np.nan, np.nan
    losses = np.array([float(design.mean((design.y - mu) ** 2)) for mu in learners])
    first, second = np.argsort(losses, kind="stable")[:2]
    return float(design.mean((learners[first] - learners[second]) ** 2)) / left, float(losses[first]) / left - 1.0


def stack(candidates: Sequence[Predictions], design: Design) -> tuple[Predictions, Stacking]:
    """Weigh the candidates' out-of-fold predictions, and combine them.

    Parameters
    ----------
    candidates : sequence of Predictions
        One per learner and repeat, of the full sample, as learned (not rescaled).
    design : Design
        The full sample.

    Returns
    -------
    Predictions
        The combination. A single candidate is returned as it is.
    Stacking
        The weights and losses.
    """
    mu = _weigh_mu(candidates, design)
    arms = reading_arms(design)
    shares = mu[0 if arms is None or len(mu) == 1 else arms[0]]
    mixed = np.einsum("...j,j...->...", shares, np.stack([c.mu.observed for c in candidates]))
    of_means = find_family(design.family).is_mean
    density = np.ones(len(design)) if of_means else at_density(design, mixed).observed
    rr, levels, rr_loss, own_scales = _weigh_rr(candidates, design, density)
    mu_loss = np.array([_loss_of_mu(values, design) for values in (*(c.mu.observed for c in candidates), mixed)])
    claims = np.array([not c.scale_free and not c.tilted for c in candidates])
    stacking = Stacking(mu, rr, levels, mu_loss, rr_loss, own_scales, claims)
    return combine(candidates, stacking, design), stacking


def combine(candidates: Sequence[Predictions], stacking: Stacking, design: Design) -> Predictions:
    """The combination of predictions for any rows, with known weights; one candidate stays as it is."""
    if len(candidates) == 1:
        return candidates[0]
    arms = reading_arms(design) if len(stacking.mu) > 1 else None
    observed, read = (stacking.mu[0], stacking.mu[0]) if arms is None else (stacking.mu[arms[0]], stacking.mu[arms[1]])

    def mean(parts: Sequence[Array], weights: Array) -> Array:
        return np.asarray(sum(weights[..., j] * part for j, part in enumerate(parts)))

    mu = Evaluation(
        mean([c.mu.observed for c in candidates], observed),
        mean([c.mu.values for c in candidates], read),
        mean([c.mu.slopes for c in candidates], read),
    )
    used = np.flatnonzero(stacking.rr.any(axis=0))

    def total(parts: Sequence[Array], weights: Array) -> Array:
        """A weighted sum; candidates without weight, whose rr may be missing, are left out."""
        summed = np.zeros_like(parts[0])
        for j in used.tolist():
            summed = summed + weights[:, j, None] * parts[j]
        return summed

    first = candidates[0].rr
    if not any(serves(c) for c in candidates):
        return Predictions(mu, first, scale_free=True)
    at_links = stacking.rr[first.links.component]
    arms = reading_arms(design) if stacking.levels.shape[1] > 1 else None
    level, level_at_links = _level(stacking.levels, arms, first.links)
    rr = Linked(
        total([c.rr.observed for c in candidates], stacking.rr) + level,
        total([c.rr.values for c in candidates], at_links) + level_at_links,
        total([c.rr.slopes for c in candidates], at_links),
        first.links,
    )
    return Predictions(mu, rr, scale_free=True)


def _level(levels: Array, arms: tuple[Codes, Codes] | None, links: Links) -> tuple[Array, Array]:
    """The levels of rr at the rows, shape (K, n) or (K, 1), and at the links, shape (L, n) or (L, 1)."""
    if arms is None:
        return levels, levels[links.component]
    return levels[:, arms[0]], levels[links.component[:, None], arms[1][links.reading]]


def serves(candidate: Predictions) -> bool:
    """Whether a candidate's rr can be weighed."""
    return not candidate.tilted and bool(np.isfinite(candidate.rr.observed).all())


def _weigh_mu(candidates: Sequence[Predictions], design: Design) -> Array:
    """Convex weights, shape (arms, J), or (1, J) if mu is not read in arms alone."""
    mu = np.stack([c.mu.observed for c in candidates])
    overall = _convex(mu, design.y, design.weights, design.family)
    arms = reading_arms(design)
    if arms is None or len(candidates) == 1:
        return overall[None]
    weights = []
    for arm in range(design.treatment.shape[1] + 1):
        rows = arms[0] == arm
        enough = rows.sum() >= _ROWS_PER_CANDIDATE * len(candidates)
        weights.append(_convex(mu[:, rows], design.y[rows], design.weights[rows], design.family) if enough else overall)
    return np.stack(weights)


def _convex(mu: Array, y: Array, weights: Array, family: str) -> Array:
    """The convex weights with the smallest loss, shape (J,)."""
    if len(mu) == 1:
        return np.ones(1)
    of = find_family(family)
    if of.quantile is not None:
        return _convex_pinball(mu, y, weights / weights.sum(), of.quantile)
    if not of.identity:
        return _convex_by_loss(of.clip(mu), y, weights / weights.sum(), of)
    errors = (y - mu) * np.sqrt(weights / weights.sum())
    size = np.sqrt(np.mean(errors**2)) or 1.0
    return simplex((errors / size) @ (errors / size).T)


def simplex(matrix: Array) -> Array:
    r"""The w that minimises w'Gw with :math:`w \ge 0` and sum one; equal weights where all are as good.

    With :math:`u = t w`, :math:`u'Gu + (1'u - 1)^2` is smallest over t at :math:`g / (1 + g)`, :math:`g = w'Gw`, which rises in g:
    the non-negative u with the smallest sum of squares gives w.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.crossfit.stacking import simplex
    >>> simplex(np.diag([1.0, 3.0])).round(6).tolist()
    [0.75, 0.25]
    """
    count = len(matrix)
    values, vectors = np.linalg.eigh(matrix + 1e-10 * np.trace(matrix) / count * np.eye(count))
    root = np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T
    solution, _ = nnls(np.vstack([root, np.ones(count)]), np.concatenate([np.zeros(count), [1.0]]))
    total = solution.sum()
    return np.asarray(solution / total) if total > 0 else np.full(count, 1.0 / count)


def _convex_by_loss(mu: Array, y: Array, share: Array, family: Family) -> Array:
    """The convex weights with the smallest loss of a family, shape (J,)."""
    count = len(mu)
    if family.log_link:  # so that units do not matter
        unit = float(share @ y) or 1.0
        mu, y = mu / unit, y / unit

    def loss(w: Array) -> tuple[float, Array]:
        mixed = family.clip(w @ mu)
        return float(share @ family.loss(y, mixed)), mu @ (share * family.loss_slope(y, mixed))

    solution = minimize(
        loss,
        np.full(count, 1.0 / count),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * count,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": lambda w: np.ones(count)},
        options={"ftol": 1e-12, "maxiter": 200},
    )
    w = np.clip(solution.x, 0.0, None)
    w = np.where(w < _LEAST * w.max(), 0.0, w)
    return np.asarray(w / w.sum())


def _convex_pinball(mu: Array, y: Array, share: Array, tau: float) -> Array:
    """The convex weights with the smallest pinball loss, a linear program: y - mu'w is the difference of two positive parts."""
    part = draw_part(len(y), _MOST_PROGRAMMED, 0)
    mu, y, share = mu[:, part], y[part], share[part]
    count, n = mu.shape
    unit = float(np.abs(y - mu.mean(axis=0)).mean()) or 1.0
    rows = sparse.hstack([sparse.csr_array(mu.T / unit), sparse.eye_array(n), -sparse.eye_array(n)])
    sums = sparse.csr_array(np.concatenate([np.ones(count), np.zeros(2 * n)])[None])
    solution = linprog(
        np.concatenate([np.zeros(count), tau * share, (1 - tau) * share]) / share.max(),
        A_eq=sparse.vstack([rows, sums]),
        b_eq=np.append(y / unit, 1.0),
    )
    w = np.clip(solution.x[:count], 0.0, None)
    return np.asarray(w / w.sum())


def _weigh_rr(candidates: Sequence[Predictions], design: Design, density: Array) -> tuple[Array, Array, Array, Array]:
    """Weights (K, J), levels (K, A), losses (K, J + 1) and each candidate's scale (K, J); squares are weighted by a density."""
    count, components = len(candidates), design.components
    inside, constant_moments = _constants(design)
    weights, levels = np.zeros((components, count)), np.zeros((components, len(inside)))
    loss, own_scales = np.full((components, count + 1), np.nan), np.full((components, count), np.nan)
    serving = [j for j, candidate in enumerate(candidates) if serves(candidate)]
    if not serving:
        return weights, levels, loss, own_scales
    moments = np.stack([design.mean(design.apply(candidates[j].rr)) for j in serving], axis=1)
    share = density * (design.weights / design.weights.sum())
    sizes_of_arms = inside @ share
    for c in range(components):
        rr = np.stack([candidates[j].rr.observed[c] for j in serving])
        gram, means = (rr * share) @ rr.T, (rr * share) @ inside.T
        own_scales[c, serving] = ratio(moments[c], np.diag(gram), otherwise=np.nan)
        loss[c, serving] = -(np.clip(ratio(moments[c], np.sqrt(np.diag(gram)), otherwise=0.0), 0.0, None) ** 2)
        # the levels are solved for: what is left is the same problem for rr less its mean in each arm
        rest = moments[c] - means @ (constant_moments[c] / sizes_of_arms)
        gram_within_arms = gram - (means / sizes_of_arms) @ means.T
        alike = np.diag(gram_within_arms) <= _ALIKE * np.diag(gram)  # constant in each arm: rounding is left
        gram_within_arms[alike], gram_within_arms[:, alike] = 0.0, 0.0
        w = nonnegative(gram_within_arms, rest)
        weights[c, serving], levels[c] = w, (constant_moments[c] - w @ means) / sizes_of_arms
        loss[c, count] = -(w @ moments[c] + levels[c] @ constant_moments[c])
    return weights, levels, loss, own_scales


def _constants(design: Design) -> tuple[Array, Array]:
    """The indicators of arms, shape (A, n), or a constant (A = 1), and their mean moments, shape (K, A)."""
    arms, shape = reading_arms(design), (len(design.is_derivative), len(design))
    if arms is None:
        constant = Evaluation(np.ones(len(design)), np.ones(shape), np.zeros(shape))
        return constant.observed[None], design.mean(design.apply(constant))[:, None]
    inside, moments = [], []
    for arm in range(design.treatment.shape[1] + 1):
        indicator = Evaluation((arms[0] == arm).astype(float), (arms[1] == arm).astype(float), np.zeros(shape))
        inside.append(indicator.observed)
        moments.append(design.mean(design.apply(indicator)))
    return np.stack(inside), np.stack(moments, axis=1)


def nonnegative(gram: Array, moments: Array) -> Array:
    """The w that minimises w'Gw - 2 m'w with w >= 0, whatever the units of each element.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.crossfit.stacking import nonnegative
    >>> nonnegative(np.diag([1.0, 4.0]), np.array([0.5, -1.0])).round(6).tolist()
    [0.5, 0.0]
    """
    sizes = np.sqrt(np.diag(gram))
    usable = np.flatnonzero(sizes > 0)
    weights = np.zeros(len(gram))
    if not usable.size:
        return weights
    unit = gram[np.ix_(usable, usable)] / np.outer(sizes[usable], sizes[usable])
    values, vectors = np.linalg.eigh(unit + 1e-10 * np.eye(len(usable)))
    root = np.sqrt(np.clip(values, 1e-14, None))
    target = (vectors.T @ (moments[usable] / sizes[usable])) / root
    solution, _ = nnls(root[:, None] * vectors.T, target)
    weights[usable] = solution / sizes[usable]
    return weights


def _loss_of_mu(mu: Array, design: Design) -> float:
    family = find_family(design.family)
    return float(design.mean(family.loss(design.y, family.clip(mu))))
