r"""The closed-form learner: ridge for mu, and a Riesz representer that is linear in the formula's columns.

The paper's constrained problem, :math:`\min_f \|\beta - f\|^2` subject to :math:`h_n(f) = 0`, is solved exactly. beta is
first replaced by its projection :math:`z'b` on the span of the columns; writing :math:`\beta - f = z'c` and penalising c,
the solution is

.. math:: c = S^{-1} M \, \frac{M'b}{M'S^{-1}M}, \qquad S = E_n[z z'] + \lambda D, \quad M = h_n(z),

which is proportional to the minimiser :math:`S^{-1}M` of the Riesz loss :math:`E_n[\alpha^2 - 2 m(\alpha)]` at every penalty.

Under another family than ``"gaussian"`` the index of mu is linear (:mod:`riesz.families`), and the errors of mu are, to first
order, :math:`v\, z'\delta` with v the slope of mu along its index: :math:`\mu(1 - \mu)` for a logit, :math:`\mu` for a logarithm.
For the bias correction to remove them, rr must represent the moment on functions of that form. It is :math:`(v / V)\, z'c` with the
variance function V (:math:`v / V` is one, but for the gamma family :math:`1 / \mu`), both problems use the inner product
:math:`E_n[(v^2 / V) f g]` and :math:`M = h_n(v z)`, and rr comes with its scale. Without penalty and splitting this is the
influence function of the plug-in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.design.density import at_density
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.errors import LearnerError, listing
from riesz.families import MEANS, Family, find_family
from riesz.learners.base import Fit, Learner, Watch
from riesz.learners.check_settings import check_number, check_settings
from riesz.learners.expected_time import MANY, closed_form_seconds
from riesz.learners.known_signs import exponential, known_signs, largest, levels
from riesz.learners.linear.entropy import fit_log_linear
from riesz.learners.linear.quantile import fit_quantile
from riesz.learners.linear.ridge import (
    GRID,
    Basis,
    Tilt,
    choose_outcome_penalty,
    choose_riesz_penalty,
    make_basis,
    moments,
)
from riesz.learners.linear.standardise import unidentified
from riesz.predictions import Predictions
from riesz.storage.coding import stored

Penalty = float | Literal["loo"]

_LEAST_CURVATURE = 1e-8  # share of the largest curvature; not zero, because moments are divided by the curvature
_ROWS_PER_COLUMN = 10
_ENTROPY_TIMES = 6.0  # the time that rr="entropy" takes, relative to the other forms
_FURTHEST = 30.0  # an index stays this far from zero, or from the logarithm of the mean
_LONGEST_STEP = 2.0  # of the logarithm of a mean: beyond, its quadratic expansion is of no use


@stored
@dataclass(frozen=True)
class Linear(Learner):
    r"""Closed-form learner: linear in the formula's columns, float64, deterministic.

    Fast, where networks train for seconds or minutes, but mu has only the curves and interactions that the formula names: let the
    treatment interact (``treat(a) * (...)``) unless the effect is the same for everyone.

    Under ``family="gaussian"`` mu is a ridge regression; under ``"binomial"``, ``"poisson"`` and ``"gamma"`` it is a
    ridge-penalised logistic, Poisson or gamma regression, the last two of the logarithm of mu. Moments act on mu itself. The Riesz
    representer is linear in the columns (divided by mu under ``"gamma"``). Under other families than ``"gaussian"`` it is learned
    in the inner product that the errors of the index call for, with weights mu (1 - mu), mu, and 1, except with ``rr="entropy"``,
    which does not depend on the family. With :class:`~riesz.Quantile` mu is a quantile regression, and the inner product is
    weighted by the density at the quantile; then there is no ``rr="entropy"``.

    Parameters
    ----------
    penalty : float or "loo"
        Ridge penalty of mu, per row and on standardised columns (the intercept is free); ``"loo"`` picks the one with the
        smallest leave-one-out error, leave-one-cluster-out when there are clusters. 0 is least squares. A product with a
        continuous treatment, or a power of it, is penalised only for what it adds to its parts, so that the treatment's zero does
        not matter. With more than 20,000 rows only a random part of them, drawn from the seed, is left out in turn.
    rr_penalty : float or "loo"
        The same for the Riesz representer, with the leave-one-out Riesz loss.
    rr : {"constrained", "riesz", "entropy"}
        ``"constrained"`` solves the paper's moment-constrained problem; its scale comes from the estimation sample.
        ``"riesz"`` minimises the automatic-debiasing loss, which also learns the scale. ``"entropy"`` makes the logarithm of
        :math:`|rr|` linear in the columns, so that rr has its known sign g (as those of ``ate``, ``att``, ``atc``, ``mean`` and
        ``ape`` have), and minimises the Kullback-Leibler loss :math:`E_n[|rr|] - E_n[m(g \log |rr|)]`, which also learns the scale.

    Notes
    -----
    With ``rr="entropy"`` it is :math:`rr = g\, b \exp(g\, z'\theta)` with the best constant g b in each arm, which is zero in
    arms that the moment does not read. With ``rr_penalty=0`` and ``folds=1`` these are the weights of entropy balancing,
    :math:`E_n[rr\, z] = E_n[m(z)]`; there may be none if overlap is weak. Penalties are compared by an approximate
    leave-one-out loss: one Newton step without the row or cluster. At other rows \|rr\| is limited to its largest value at the
    training rows or, if that is larger, to the moment's largest weight over the smallest propensity that
    :class:`~riesz.Splines` divide by.

    References
    ----------
    Kato (2025), "Direct debiased machine learning via Bregman divergence minimization".
    Hines and Miles (2025), "Learning density ratios in causal inference using Bregman-Riesz regression".

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) * .", data, learner=riesz.Linear(penalty=0, rr_penalty=0))
    >>> fit.tidy()[["term", "estimate", "std_error"]].round(2)
      term  estimate  std_error
    0  ATE      1.45       0.18
    """

    families: ClassVar[tuple[str, ...]] = (*MEANS, "quantile")

    penalty: Penalty = "loo"
    rr_penalty: Penalty = "loo"
    rr: Literal["constrained", "riesz", "entropy"] = "constrained"

    def __post_init__(self) -> None:
        for name in ("penalty", "rr_penalty"):
            check_number(self, name, "a number, 0 or larger, or 'loo'", at_least=0.0, or_word="loo")
        check_settings(self, {"rr": ("constrained", "riesz", "entropy")}, [], [])

    def seconds(self, design: Design, rows: int) -> float:
        columns = len(design.names)
        times = _ENTROPY_TIMES if self.rr == "entropy" else 1.0
        return times * closed_form_seconds(rows, columns) if columns >= MANY else 0.0

    def check(self, design: Design, rows: int) -> None:
        columns = len(design.names)
        for name, value in (("penalty", self.penalty), ("rr_penalty", self.rr_penalty)):
            if value == 0 and columns >= rows:
                raise LearnerError(
                    f"The design has {columns} columns and a training set only {rows} rows, and Linear({name}=0) sets "
                    f"no penalty: there is no unique solution. Use {name}='loo' or a positive penalty, fewer columns, or "
                    "fewer folds."
                )
        need_identification(design, rows)
        if self.rr == "entropy":
            self._signs(design.sample)

    def _signs(self, sample: Design) -> Array:
        return known_signs(sample, "Linear(rr='entropy')", "riesz.Linear()")

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        if design.interacted or design.strata is None:
            return []
        return [
            "The formula has no interaction with the treatment, so this learner assumes that the effect is the same for everyone; "
            "treat(a) * (...) lets it vary."
        ]

    def weighs(self, family: str) -> bool:
        return (
            find_family(family).identity or self.rr == "entropy"
        )  # a quantile has no weighting estimate, whatever the learner

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        fits: list[Fit] = []
        signs: dict[int, Array] = {}
        for design, seed in zip(designs, seeds, strict=True):
            if self.rr == "entropy":
                if design.key not in signs:
                    signs[design.key] = self._signs(design.sample)
                fits.append(fit_with_signs(design, self.penalty, self.rr_penalty, signs[design.key], seed))
            else:
                fits.append(fit_linear(design, self.penalty, self.rr_penalty, self.rr == "constrained", seed))
            watch.done()
        return fits

    def describe(self, family: str) -> str:
        outcome = f"{find_family(family).word} ridge".strip()
        if self.penalty == 0:
            outcome = {"gaussian": "OLS", "binomial": "logit"}.get(family, f"{find_family(family).word} regression")
        return f"Linear ({outcome}, rr {self.rr})"


@stored
@dataclass(frozen=True)
class LinearFit(Fit):
    """Coefficients on the formula's columns.

    Attributes
    ----------
    mu : ndarray, shape (p,)
    rr : ndarray, shape (p, K)
    family : str
        That of the outcome: ``mu`` gives its index.
    scale_free : bool
    chosen : mapping
        The penalties in use.
    """

    mu: Array
    rr: Array
    family: str
    scale_free: bool
    chosen: Mapping[str, float]

    def predict(self, design: Design) -> Predictions:
        mu, rr = design.linear_and_linked(self.mu, self.rr)
        family, mu = find_family(self.family), mean_at(mu, self.family)
        if not family.canonical:
            rr = rr.times(_inverse(mu))
        return Predictions(mu, rr, self.scale_free, tilted=not family.identity)

    def details(self) -> Mapping[str, float]:
        return self.chosen

    def history(self) -> pd.DataFrame:
        return pd.DataFrame()


@stored
@dataclass(frozen=True)
class LogLinearFit(Fit):
    """Coefficients of mu, and of the logarithm of a representer of known sign.

    Attributes
    ----------
    mu : ndarray, shape (p,)
    rr : ndarray, shape (p, K)
        Coefficients, which the sign multiplies.
    levels : ndarray, shape (K, J)
        As in :func:`~riesz.learners.known_signs.levels`.
    most : ndarray, shape (K,)
        Largest size of rr: that at the training rows or, if that is larger, :func:`~riesz.learners.known_signs.largest`.
    family : str
        That of the outcome: ``mu`` gives its index.
    chosen : mapping
    """

    mu: Array
    rr: Array
    levels: Array
    most: Array
    family: str
    chosen: Mapping[str, float]

    def predict(self, design: Design) -> Predictions:
        mu, index = design.linear_and_linked(self.mu, self.rr)
        rr = exponential(index, self.levels, self.most, design)
        return Predictions(mean_at(mu, self.family), rr, scale_free=False)

    def details(self) -> Mapping[str, float]:
        return self.chosen


def mean_at(index: Evaluation, family: str) -> Evaluation:
    """Mu from its index, with slopes by the chain rule."""
    of = find_family(family)
    if of.identity:
        return index
    at = of.inverse(index.values)
    return Evaluation(of.inverse(index.observed), at, of.slope(at) * index.slopes)


def _inverse(function: Evaluation) -> Evaluation:
    """One over a function."""
    return Evaluation(1 / function.observed, 1 / function.values, -function.slopes / function.values**2)


def fit_linear(design: Design, penalty: Penalty, rr_penalty: Penalty, constrained: bool, seed: int = 0) -> LinearFit:
    """Fit mu and rr on one design; for the seed see :class:`~riesz.learners.linear.ridge.Basis`."""
    family = find_family(design.family)
    identity, tilt = family.identity, None
    if family.quantile is not None:
        mu, chosen = fit_quantile(design, penalty, family.quantile, seed)
        at = at_density(design, design.linear(mu).observed)
        tilt = Tilt(at, at.observed)
    elif not identity:
        mu, chosen = fit_glm(design, penalty, seed=seed)
        tilt = _tilt(design, mu)
    targets = np.vstack([design.y, design.anchor.observed])
    basis = make_basis(design, design.weights, targets, tilt, seed=seed)
    if tilt is None:
        mu, chosen = ridge_coefficients(design, basis, design.y, penalty, basis.penalties)  # the basis' first target
    rr, rr_chosen = riesz_coefficients(design, basis, rr_penalty, constrained)
    return LinearFit(mu, rr, design.family, constrained and identity, {"penalty": chosen, **rr_chosen})


def fit_with_signs(design: Design, penalty: Penalty, rr_penalty: Penalty, signs: Array, seed: int) -> LogLinearFit:
    """Fit mu, and the logarithm of a representer with known signs, shape (K, J)."""
    basis, constants = make_basis(design, design.weights, design.y[None], seed=seed), levels(signs, design)
    if find_family(design.family).identity:
        mu, chosen = ridge_coefficients(design, basis, design.y, penalty, basis.penalties)
    else:
        mu, chosen = fit_glm(design, penalty, seed=seed)
    parts = [
        fit_log_linear(design, basis, c, of_component, rr_penalty, basis.penalties, "Linear")
        for c, of_component in enumerate(constants)
    ]
    penalties = {"penalty": chosen, **{f"rr_penalty_{c}": part.penalty for c, part in enumerate(parts)}}
    theta = np.column_stack([part.theta for part in parts])
    most = np.maximum(largest(design), [part.most for part in parts])
    return LogLinearFit(mu, theta, constants, most, design.family, penalties)


def ridge_coefficients(
    design: Design | None, basis: Basis, y: Array, penalty: Penalty, grid: Array
) -> tuple[Array, float]:
    """Coefficients of mu, shape (p,), and the penalty; y is the first target of the basis. A number needs no design."""
    b = basis.projections[:, 0]
    if penalty == "loo":
        assert design is not None
        lam = choose_outcome_penalty(design, basis, y, b, grid)[0]
    else:
        lam = float(penalty)
    return basis.solve(b, lam), lam


def riesz_coefficients(
    design: Design | None,
    basis: Basis,
    penalty: Penalty,
    constrained: bool,
    grid: Array | None = None,
    m: Array | None = None,
) -> tuple[Array, dict[str, float]]:
    """Coefficients of rr, shape (p, K); up to scale when constrained. ``"loo"`` chooses from a grid, by default the basis' own.

    The moments m of the basis, shape (K, k), are computed from the design unless they are given.
    """
    if m is None:
        assert design is not None
        m = moments(design, basis)
    grid = basis.penalties if grid is None else grid
    directions, chosen = [], {}
    for c in range(len(m)):
        if penalty == "loo":
            assert design is not None
            lam = choose_riesz_penalty(design, basis, c, m[c], grid)[0]
        else:
            lam = float(penalty)
        direction = m[c] * basis.shrink(lam)
        if constrained:
            b = basis.projections[:, 1 + c]  # the anchor's
            h = m[c] @ b  # h_n of the projected anchor
            if abs(h) <= 1e-10 * np.linalg.norm(m[c]) * np.linalg.norm(b) or not m[c].any():
                raise LearnerError(
                    "The anchor's projection on the formula's columns has a zero moment, so the columns cannot carry the Riesz "
                    "representer. Let the treatment enter the formula by itself (treat(a) + ...), or pass another anchor."
                )
            if basis.tilt is None:
                direction = direction * h / (m[c] @ direction)  # up to scale
            else:
                direction = direction * (m[c] @ direction) / (direction @ direction)
        directions.append(basis.transform @ direction)
        chosen[f"rr_penalty_{c}"] = lam
    return np.column_stack(directions), chosen


def need_identification(design: Design, rows: int) -> None:
    """Refuse an estimand that reads a combination of columns that is zero in every training set of this size."""
    combination = unidentified(design) if len(design.names) < rows else None
    if combination is not None:
        raise LearnerError(
            f"The estimand is not identified: a combination of the columns {listing(combination[1])} is zero on every row, but not "
            "at the counterfactual rows that the estimand reads. Either a covariate repeats the treatment (leave it out), or "
            "some cell of a factor has no rows in one of the arms (merge levels, drop the interaction, or drop those rows), or a "
            "variable is so far from zero that rounding hides what its power adds (centre it: write center(x) for x)."
        )


def fit_glm(design: Design, penalty: Penalty, units: Array | None = None, seed: int = 0) -> tuple[Array, float]:
    """Ridge-penalised regression of the index of mu in the design's family, by iteratively reweighted least squares.

    In each of the first steps the penalty is chosen by the leave-one-out error of the working regression (performance iteration);
    then it is kept. For ``units`` and ``seed`` see :func:`~riesz.learners.linear.ridge.make_basis`.
    """
    y, weights, family = design.y, design.weights, find_family(design.family)
    eta = family.start(y)
    middle, longest, least = _limits_of_steps(family, eta)
    lam = np.nan
    for step in range(25 if family.limits else 100):  # more steps matter only where the index grows without bound
        mu = family.inverse(eta)
        precision = np.clip(family.precision(mu), least, None)
        working = eta + (y - mu) / np.clip(family.slope(mu), least, None)
        basis = make_basis(design, weights * precision, working[None], units=units, seed=seed)
        if penalty != "loo":
            lam = float(penalty) * weights.sum() / (weights @ precision)
        theta, lam = ridge_coefficients(
            design, basis, working, "loo" if penalty == "loo" and step < 6 else lam, GRID[1:]
        )
        new = np.clip(_index(design, theta), middle - _FURTHEST, middle + _FURTHEST)
        new = np.clip(new, eta - longest, eta + longest)
        moved = float(np.abs(new - eta).max())
        eta = new
        if moved < 1e-9:
            break
    return theta, lam * float(weights @ precision) / float(weights.sum())


def _limits_of_steps(family: Family, start: Array) -> tuple[float, float, float]:
    """What an index stays near, how far it moves in one step, and the least curvature."""
    if family.limits:  # a logit
        return 0.0, np.inf, 1e-6
    return float(np.log(np.exp(start).mean())), _LONGEST_STEP, 0.0


def _tilt(design: Design, theta: Array) -> Tilt:
    """The slope v at the training rows and their readings, shape (n,), and the weights v^2 / V; at least :func:`_least`."""
    index, family = design.linear(theta), find_family(design.family)
    mu, observed = family.inverse(index.values), family.inverse(index.observed)
    v = family.slope(mu)
    slopes = family.bend(mu) * v * index.slopes
    if not family.canonical:
        return Tilt(Evaluation(family.slope(observed), v, slopes), family.precision(observed))
    curvature = family.precision(observed)
    least = _least(curvature, design.weights, len(design.names))
    curvature = np.maximum(curvature, least)
    return Tilt(Evaluation(curvature, np.maximum(v, least), np.where(v > least, slopes, 0.0)), curvature)


def _least(curvature: Array, weights: Array, columns: int) -> float:
    """The least curvature used: tiny, unless mu is extreme on almost all rows, as where a logit separates the outcomes.

    Then rr would depend on the few remaining rows. The other rows get a common curvature, such that Kish's effective number of
    rows is at least ten per column (or half of its largest possible value).
    """

    def effective(least: float) -> float:
        counted = weights * np.maximum(curvature, least)
        return float(counted.sum() ** 2 / (counted**2).sum())

    most = float(curvature.max())
    low = max(_LEAST_CURVATURE * most, float(np.finfo(float).tiny))
    needed = min(_ROWS_PER_COLUMN * columns, effective(most) / 2)
    if effective(low) >= needed:
        return low
    high = most
    while high > 1.001 * low:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if effective(middle) >= needed else (middle, high)
    return high


def _index(design: Design, theta: Array) -> Array:
    return np.concatenate([block.z @ theta for _, block in design.blocks()])
