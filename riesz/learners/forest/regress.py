r"""From a training set to the forests of mu and rr.

Both may start from a linear regression, :math:`\mu_0` and :math:`\alpha_0`. Then the forest learns what it leaves: y becomes
:math:`y - \mu_0`, and the moment of b becomes :math:`m(b) - b \alpha_0`, because :math:`\alpha_0 + b'\theta` minimises the local
Riesz loss at :math:`\theta = E[b b']^{-1} E[m(b) - b \alpha_0]`.

Trees split on the scores of the global solution, :math:`g_i = r_i - b_i b_i' R_0`. In the scale of :math:`J_0 = I`,
:math:`n |\bar g|^2` is, to first order, what a leaf of n rows gains if it has its own solution: the gradient step of generalised
random forests. Parameters share the trees of rr, for which the scores of each are divided by their standard deviation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.learners.forest.dictionary import Dictionary
from riesz.learners.forest.grow import Grown, Growth, Problem, grow
from riesz.learners.forest.local import GRID, Local, OutOfBag, best, filled, make_local
from riesz.learners.forest.sites import Moments, Sites, find_moments
from riesz.learners.forest.trees import LeafMeans
from riesz.predictions import Predictions
from riesz.storage.coding import stored

Numbers = npt.NDArray[np.intp]
_MOST_SCORES = 6  # directions of the scores that trees split on


@stored
@dataclass(frozen=True)
class LocalSolutions:
    r"""Functions :math:`b(a)' \theta_c(x)`.

    Attributes
    ----------
    trees : LeafMeans
        Of the products of b, then of r.
    component, function : ndarray of int, shape (P,)
        The pairs of a component c and a function of b for which r is not zero throughout, sorted by component.
    level : ndarray, shape (P,)
        :math:`R_0`.
    penalties : ndarray, shape (K,)
    """

    trees: LeafMeans
    component: Numbers
    function: Numbers
    level: Array
    penalties: Array

    def at(self, dictionary: Dictionary, points: npt.NDArray[np.float32]) -> Iterator[tuple[Numbers, Array]]:
        """For each component the functions of b that it uses, shape (f,), and their coefficients at points, shape (m, f)."""
        averages, count = self.trees.average(points)
        width = averages.shape[1] - len(self.level)
        local = make_local(dictionary, averages[:, :width], count)
        for c, penalty in enumerate(self.penalties.tolist()):
            pairs = np.flatnonzero(self.component == c)
            right = filled(averages[:, width + pairs], self.level[pairs], count)
            functions = self.function[pairs]
            yield local.columns(functions), local.solve(right, self.level[pairs], functions, penalty)


@dataclass(frozen=True)
class Training:
    """What both regressions use.

    Attributes
    ----------
    design : Design
    dictionary : Dictionary
    sites : Sites
    units : ndarray of int, shape (n,)
    weights : ndarray, shape (n,)
        With mean one.
    b, products : ndarray, shape (n, d) and (n, q)
    start : Predictions or None
        Of the linear regression, at the training rows.
    """

    design: Design
    dictionary: Dictionary
    sites: Sites
    units: Numbers
    weights: Array
    b: Array
    products: Array
    start: Predictions | None

    @property
    def outcome(self) -> Array:
        """The outcome, or what the linear regression leaves of it."""
        return self.design.y if self.start is None else self.design.y - self.start.mu.observed

    @property
    def rows(self) -> npt.NDArray[np.float32]:
        """Covariates of the rows."""
        return self.sites.covariates[0]

    def mean(self, values: Array) -> Array:
        """Weighted means of columns."""
        return np.asarray(self.weights @ values / len(values))


def make_training(design: Design, dictionary: Dictionary, sites: Sites, start: Predictions | None) -> Training:
    """Prepare a training set."""
    groups, n = design.groups, len(design)
    units = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1].astype(np.intp)
    b = dictionary.values(design.treatment)
    one, two = dictionary.products
    return Training(
        design, dictionary, sites, units, design.weights / design.weights.mean(), b, b[:, one] * b[:, two], start
    )


def learn_mu(training: Training, growth: Growth, penalty: OutOfBag, seed: int) -> LocalSolutions:
    """The forest of mu, or of what the linear regression leaves of the outcome, without its mean."""
    b, centred = training.b, training.outcome - training.mean(training.outcome)
    right = b * centred[:, None]
    level = training.mean(right)
    scores = right - b * (b @ level)[:, None]
    problem = Problem(
        training.units,
        training.weights,
        [training.rows],
        [_principal(_unit(scores, training.weights), training.weights)],
        [np.hstack([training.products, right])],
    )
    grown = grow(problem, growth, seed)
    functions = np.arange(b.shape[1])
    if penalty == "oob":
        width, inside = training.products.shape[1], grown.count[0] > 0
        local, averages = _out_of_bag(training, grown)
        theta_of = _Solver(local, averages[:, width:], level, functions)
        w = training.weights * inside
        penalty = best([float(w @ (centred - theta_of.values(b, lam)) ** 2) for lam in GRID])
    component = np.zeros(len(level), dtype=np.intp)
    return LocalSolutions(grown.forest, component, functions, level, np.array([float(penalty)]))


def learn_rr(training: Training, growth: Growth, penalty: OutOfBag, seed: int) -> LocalSolutions:
    """The forest of the Riesz representer of every component."""
    moments = _less_start(training, find_moments(training.design, training.dictionary, training.sites))
    level = training.mean(np.sum(moments.at_sites, axis=0))
    first, *others = moments.at_sites
    empty = np.zeros_like(training.products)
    numbers = [np.hstack([training.products, first]), *(np.hstack([empty, moved]) for moved in others)]
    problem = Problem(
        training.units, training.weights, training.sites.covariates, _scores_of_rr(training, moments, level), numbers
    )
    grown = grow(problem, growth, seed)
    components = training.design.components
    chosen = np.full(components, np.nan if penalty == "oob" else float(penalty))
    if penalty == "oob":
        for c in range(components):
            chosen[c] = _choose_for_rr(training, moments, level, grown, np.flatnonzero(moments.component == c))
    return LocalSolutions(grown.forest, moments.component, moments.function, level, chosen)


def _less_start(training: Training, moments: Moments) -> Moments:
    """The moments of b, less b times the linear regression's rr."""
    if training.start is None:
        return moments
    first, *others = moments.at_sites
    part = training.start.rr.observed[moments.component].T * training.b[:, moments.function]
    return Moments(moments.component, moments.function, (first - part, *others))


def _scores_of_rr(training: Training, moments: Moments, level: Array) -> list[Array]:
    """The scores of all components at every site, shape (n, s) each."""
    b, sites = training.b, len(moments.at_sites)
    weights = np.tile(training.weights, sites)
    scores = []
    for c in range(training.design.components):
        pairs = np.flatnonzero(moments.component == c)
        b_read = b[:, moments.function[pairs]]
        at_sites = [table[:, pairs] for table in moments.at_sites]
        at_sites[0] = at_sites[0] - b_read * (b_read @ level[pairs])[:, None]
        scores.append(_unit(np.vstack(at_sites), weights))
    return np.split(_principal(np.hstack(scores), weights), sites)


def _choose_for_rr(training: Training, moments: Moments, level: Array, grown: Grown, pairs: Numbers) -> float:
    """The penalty of one component with the smallest out-of-bag Riesz loss."""
    width, functions = training.products.shape[1], moments.function[pairs]
    inside = np.all([count > 0 for count in grown.count], axis=0)
    w = training.weights * inside
    solvers = []
    for site in range(len(moments.at_sites)):
        local, averages = _out_of_bag(training, grown, site)
        solvers.append(_Solver(local, averages[:, width + pairs], level[pairs], functions))
    losses = []
    for lam in GRID:
        loss = float(w @ solvers[0].values(training.b, lam) ** 2)
        for solver, table in zip(solvers, moments.at_sites, strict=True):
            whole = np.zeros_like(training.b)
            whole[:, functions] = table[:, pairs]
            loss -= 2.0 * float(w @ solver.values(whole, lam))
        losses.append(loss)
    return best(losses)


@dataclass(frozen=True)
class _Solver:
    """Solutions at the training rows for any penalty."""

    local: Local
    right: Array
    level: Array
    functions: Numbers

    def values(self, b: Array, penalty: float) -> Array:
        r""":math:`b' \theta` for b of shape (n, d)."""
        theta = self.local.solve(self.right, self.level, self.functions, penalty)
        return np.asarray(np.einsum("nf,nf->n", b[:, self.local.columns(self.functions)], theta))


def _out_of_bag(training: Training, grown: Grown, site: int = 0) -> tuple[Local, Array]:
    """J(x) at a site of the training rows, and all averages there."""
    averages = grown.out_of_bag[site]
    return make_local(training.dictionary, averages[:, : training.products.shape[1]], grown.count[site]), averages


def _unit(scores: Array, weights: Array) -> Array:
    """Scores divided by the root of their mean square norm."""
    size = float(np.sqrt(weights @ (scores**2).sum(axis=1) / weights.sum()))
    return scores / size if size > 0 else scores


def _principal(scores: Array, weights: Array) -> Array:
    """Scores in their principal directions, the largest few if there are many."""
    if scores.shape[1] <= _MOST_SCORES:
        return scores
    _, axes = np.linalg.eigh(scores.T @ (weights[:, None] * scores))
    return np.asarray(scores @ axes[:, ::-1][:, :_MOST_SCORES])
