r"""Overlap, judged by a propensity that is learned separately, out of fold and without using rr.

Where overlap fails, the largest weights of a learned rr are too small, so rr alone does not show the problem. Here the
probability :math:`p_j(x)` of each arm is a ridge-penalised logistic regression on the standardised covariates, hinges at their
quartiles and indicators of their mass points, predicted for rows that it was not fitted on. The penalty is the one with
the smallest out-of-fold deviance; a logistic regression of the arm on the index then undoes the shrinkage of the penalty.

A moment that reads mu at arm j with weights W needs rows of arm j that are comparable. They are *scarce* where
:math:`p_j(x) < P(A=j) / 25`: with two arms of equal size, where the propensity is below 0.02. The share of a moment that is
scarce is weighted by W: a share of all rows for the ATE, and of the treated rows for the ATT, which needs controls only.

The rows with overlap minimise the variance bound of the effect on them (Crump, Hotz, Imbens and Mitnik 2009; Yang et al. 2016 for
several arms): those with :math:`g(x) = \sum_j 1/p_j(x)` of at most :math:`\gamma`, the largest value for which
:math:`\gamma \le 2 E[g | g \le \gamma]`. For two arms :math:`g = 1/\{p(1-p)\}`, and the rule keeps
:math:`\alpha \le p \le 1 - \alpha` with :math:`\alpha(1 - \alpha) = 1/\gamma`.

References
----------
Crump, Hotz, Imbens and Mitnik (2009), "Dealing with limited overlap in estimation of average treatment effects", Biometrika.
Yang, Imbens, Cui, Faries and Kadziola (2016), "Propensity score matching and subclassification in observational studies with
multi-level treatments", Biometrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from riesz.arrays import Array, ratio
from riesz.crossfit.folds import draw_labels, draw_part
from riesz.design.arm_numbers import arms_of_readings
from riesz.design.design import Design

SCARCE = (
    0.04  # an arm is scarce where its propensity is below this times its share of rows: 0.02 for two arms of equal size
)

_WORK = 2e7  # rows used for a regression, times the squared number of features,
_FEWEST_ROWS = 1_500  # but at least this number of rows
_MOST_ROWS = 5_000  # and at most this number
_MOST_FEATURES = 60
_FOLDS = 3
_PENALTIES = (0.1, 0.01, 0.001, 0.0001)  # per row, on standardised columns
_STEPS = 12  # of Newton's method
_FAR = 5.0  # standard deviations at which covariates are capped, so that one row does not decide
_MASS = 0.05  # share of rows from which a value is a mass point
_FEW_VALUES = 6  # distinct values from which a covariate gets hinges
_SEED = 20090  # any fixed number: the check must not change from one call to the next
_LEAST = 1e-6  # smaller propensities are set to it


@dataclass(frozen=True)
class Positivity:
    """Whether each arm has comparable rows wherever the moments read it.

    Attributes
    ----------
    propensity : ndarray, shape (n, arms)
        Out of fold; rows sum to one.
    scarce : ndarray, shape (K,)
        The share of each moment that lies where an arm is scarce, the largest over the arms; NaN if the moment does more than set
        the treatment to an arm.
    scarce_in : ndarray, shape (arms,)
        The same for the effect on the rows of each arm, with two arms the ATC and the ATT.
    kept : ndarray of bool, shape (n,)
        The rows with overlap, by Crump's rule.
    cut : float
        Crump's alpha: the propensity, with two arms, below which (or above one minus which) rows are left out.
    share : float
        The weighted share of rows kept.
    """

    propensity: Array
    scarce: Array
    scarce_in: Array
    kept: npt.NDArray[np.bool_]
    cut: float
    share: float


def positivity(design: Design, numeric: Mapping[str, Array]) -> Positivity:
    """Learn the propensity of each arm, and assess overlap.

    Parameters
    ----------
    design : Design
        The full sample, of a treatment with arms.
    numeric : mapping of str to ndarray, each of shape (n,)
        Numeric covariates with the values they have in the data; other variables enter only as the formula transforms them.
    """
    assert design.strata is not None
    p = arm_propensities(design, features(design, numeric))
    kept, gamma = crump(p, design.weights)
    cut = 0.5 - np.sqrt(max(0.25 - 1 / gamma, 0.0)) if np.isfinite(gamma) else 0.0
    return Positivity(
        p,
        scarce_shares(design, p),
        scarce_in_arms(design, p),
        kept,
        float(cut),
        float(design.mean(kept.astype(float))),
    )


def features(design: Design, numeric: Mapping[str, Array]) -> Array:
    """The regressors of propensities, standardised, shape (n, F): columns of the formula, hinges and mass points.

    Covariates that differ most between arms get hinges and mass points first, until there are too many features.
    """
    columns = [design.z[:, j] for j in design.covariates]
    covariates = list(numeric.values())
    new = [x for x in covariates if not any(np.array_equal(x, column) for column in columns)]
    linear = _standardised(design, [*columns, *new])
    treatment = _standardised(design, list(design.treatment.T))
    strength = [_difference(design, treatment, x) for x in covariates]
    bends: list[Array] = []
    for place in np.argsort(-np.asarray(strength), kind="stable"):
        x = covariates[place]
        values, counts = np.unique(x, return_counts=True)
        if len(values) < 3:
            continue
        bends += [(x == value).astype(float) for value in values[counts >= _MASS * len(x)][:3]]
        if len(values) >= _FEW_VALUES:
            bends += [np.maximum(x - knot, 0.0) for knot in np.unique(np.quantile(x, (0.25, 0.5, 0.75)))]
        if linear.shape[1] + len(bends) >= _MOST_FEATURES:
            break
    return np.column_stack([linear, _standardised(design, bends)])


def _difference(design: Design, treatment: Array, x: Array) -> float:
    """The largest correlation of a covariate or its square with the columns of the standardised treatment, shape (n, t)."""
    line = _standardised(design, [x])
    powers = np.column_stack([line, _standardised(design, list((line**2).T))])
    share = design.weights / design.weights.sum()
    return float(np.abs((powers.T * share) @ treatment).max(initial=0.0))


def _standardised(design: Design, columns: Sequence[Array]) -> Array:
    """Columns of mean zero and variance one, capped, without constant ones; shape (n, columns)."""
    table = np.column_stack([np.empty((len(design), 0)), *columns])
    largest = np.abs(table).max(axis=0, initial=0.0)
    table -= design.mean(table.T)
    spread = np.sqrt(design.mean(table.T**2))
    varies = spread > 1e-9 * largest
    if not varies.all():
        table = table[:, varies]
    table /= spread[varies]
    return np.clip(table, -_FAR, _FAR, out=table)


def _arms(design: Design) -> int:
    return int(design.treatment.shape[1]) + 1


def arm_propensities(design: Design, x: Array) -> Array:
    """Out-of-fold probabilities of the arms, shape (n, arms)."""
    strata, arms = design.strata, _arms(design)
    assert strata is not None
    folds = _folds(design)
    part = np.zeros(len(design), dtype=bool)
    most = int(np.clip(_WORK / max(x.shape[1], 1) ** 2, _FEWEST_ROWS, _MOST_ROWS))
    part[draw_part(len(design), most, _SEED)] = True
    splits = [(np.flatnonzero(part & (folds != k)), np.flatnonzero(folds == k)) for k in range(_FOLDS)]
    inputs = [(x[train], design.weights[train], x[test]) for train, test in splits]
    in_arm = np.equal.outer(strata, np.arange(1, 2) if arms == 2 else np.arange(arms)).astype(float)
    p = np.empty_like(in_arm)
    for j, y in enumerate(in_arm.T):
        index = np.zeros((len(_PENALTIES), len(design)))
        for (train, test), (columns, weights, new) in zip(splits, inputs, strict=True):
            index[:, test] = _logistic_path(columns, y[train], weights, new)
        p[:, j] = _recalibrated(design, index, y)
    if arms == 2:
        p = np.column_stack([1 - p[:, 0], p[:, 0]])
    np.clip(p, _LEAST, 1.0, out=p)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _folds(design: Design) -> npt.NDArray[np.intp]:
    """Folds that keep clusters whole, unless there are fewer clusters than folds."""
    groups = design.groups
    if groups is not None and len(np.unique(groups)) < _FOLDS:
        groups = None
    return draw_labels(len(design), _FOLDS, design.strata, groups, np.random.default_rng(_SEED))


def _logistic_path(x: Array, y: Array, weights: Array, new: Array) -> Array:
    """Indices at new rows of ridge-penalised logistic regressions, one per penalty, largest penalty first."""
    columns = np.column_stack([np.ones(len(x)), x])
    shares = weights / weights.sum()
    theta = np.zeros(columns.shape[1])
    mean = float(np.clip(shares @ y, 1e-3, 1 - 1e-3))
    theta[0] = np.log(mean / (1 - mean))
    indices = []
    for penalty in _PENALTIES:
        ridge = np.full(len(theta), penalty)
        ridge[0] = 1e-8
        for _ in range(_STEPS):
            mu = expit(columns @ theta)
            curvature = shares * np.clip(mu * (1 - mu), 1e-5, None)
            gradient = columns.T @ (shares * (y - mu)) - ridge * theta
            step = np.linalg.solve((columns.T * curvature) @ columns + np.diag(ridge), gradient)
            theta = theta + step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
            if np.abs(step).max() < 0.01:
                break
        indices.append(theta[0] + new @ theta[1:])
    return np.stack(indices)


def _recalibrated(design: Design, index: Array, y: Array) -> Array:
    """The probability of an arm, of indicator y, from the index of the best penalty; the index has shape (penalties, n)."""
    deviance = [float(design.mean(np.logaddexp(0.0, eta) - y * eta)) for eta in index]
    eta = index[int(np.argmin(deviance))]
    if np.ptp(eta) < 1e-6:
        return np.asarray(expit(eta))
    spread = float(eta.std())
    slope = _logistic_path(eta[:, None] / spread, y, design.weights, eta[:, None] / spread)
    return np.asarray(expit(slope[-1]))


def scarce_shares(design: Design, p: Array) -> Array:
    """The share of each moment where an arm is scarce, shape (K,); NaN if a moment does more than set the treatment."""
    scarce = scarce_rows(design, p)
    return np.array(
        [np.nan if weights is None else scarce_share(design, scarce, weights) for weights in arm_weights(design)]
    )


def scarce_in_arms(design: Design, p: Array) -> Array:
    """The same for the effect on the rows of each arm, which needs rows of every arm, shape (arms,)."""
    strata, arms, somewhere = design.strata, p.shape[1], scarce_rows(design, p).any(axis=1)
    assert strata is not None
    scarce, every = (np.bincount(strata, w, minlength=arms) for w in (design.weights * somewhere, design.weights))
    return ratio(scarce.astype(float), every.astype(float), otherwise=0.0)


def scarce_rows(design: Design, p: Array) -> npt.NDArray[np.bool_]:
    """Where each arm is scarce, shape (n, arms)."""
    shares = design.weights / design.weights.sum()
    low = np.array([SCARCE * float(shares @ (design.strata == j)) for j in range(p.shape[1])])
    return p < low


def scarce_share(design: Design, scarce: npt.NDArray[np.bool_], weights: Mapping[int, Array]) -> float:
    """The share of one moment where an arm is scarce; ``weights`` of mu at the arms that the moment reads, each of shape (n,)."""
    shares = design.weights / design.weights.sum()
    target, anywhere = np.zeros(len(design)), np.zeros(len(design), dtype=bool)
    for arm, weight in weights.items():
        target = np.maximum(target, np.abs(weight))
        anywhere |= (weight != 0) & scarce[:, arm]
    return float(ratio(shares @ np.where(anywhere, target, 0.0), shares @ target, otherwise=0.0))


def arm_weights(design: Design) -> Iterator[dict[int, Array] | None]:
    """The weights of mu at the arms that a moment reads, each of shape (n,), moment by moment; None if it does more than that."""
    links, weights, readings = design.links, design.link_weights, design.readings()
    moves_more = [
        point.tangents is not None or bool(np.isin(design.covariates, point.columns).any()) for point in readings
    ]
    arms = arms_of_readings(design)
    for component in range(design.components):
        by_arm: dict[int, Array] = {}
        read = [place for place in links.of(component) if weights[place].any()]
        for place in read:
            arm = np.broadcast_to(arms[links.reading[place]], len(design))
            for j in map(int, np.unique(arms[links.reading[place]])):
                by_arm[j] = by_arm.get(j, 0.0) + np.where(arm == j, weights[place], 0.0)
        yield None if any(moves_more[links.reading[place]] for place in read) else by_arm


@dataclass(frozen=True)
class TreatmentVariation:
    """The variation of a continuous treatment that covariates do not explain, and how far the moments move it.

    Attributes
    ----------
    explained : float
        Share of the treatment's variance that covariates predict out of fold.
    moves : ndarray, shape (K,)
        By how many residual standard deviations each moment moves the treatment, in root mean square; 0 for a derivative.
    """

    explained: float
    moves: Array


def treatment_variation(design: Design, numeric: Mapping[str, Array]) -> TreatmentVariation:
    """Predict a continuous treatment out of fold by ridge regression on the features of :func:`features`."""
    x, a = features(design, numeric), design.treatment[:, 0]
    folds = _folds(design)
    fitted = np.zeros((len(_PENALTIES), len(design)))
    for k in range(_FOLDS):
        train, test = folds != k, folds == k
        shares = design.weights[train] / design.weights[train].sum()
        centre, origin = shares @ a[train], shares @ x[train]
        values, vectors = np.linalg.eigh((x[train] - origin).T * shares @ (x[train] - origin))
        slope = vectors.T @ ((x[train] - origin).T @ (shares * (a[train] - centre)))
        for place, penalty in enumerate(_PENALTIES):
            theta = vectors @ (slope / (np.maximum(values, 0.0) + penalty))
            fitted[place, test] = centre + (x[test] - origin) @ theta
    total = float(design.mean((a - design.mean(a)) ** 2))
    rest = min(float(design.mean((a - prediction) ** 2)) for prediction in fitted)
    distances = [
        float(np.sqrt(design.mean((point.treatment[:, 0] - a) ** 2) / max(rest, 1e-12 * total)))
        for point in design.readings()
    ]
    moves = np.zeros(design.components)
    for component, reading, weight in zip(
        design.links.component, design.links.reading, design.link_weights, strict=True
    ):
        if weight.any():
            moves[component] = max(moves[component], distances[reading])
    return TreatmentVariation(1 - rest / total, moves)


def crump(p: Array, weights: Array) -> tuple[npt.NDArray[np.bool_], float]:
    r"""The rows with overlap, and :math:`\gamma`, the largest :math:`\sum_j 1/p_j` among them; infinite if all are kept.

    Parameters
    ----------
    p : ndarray, shape (n, arms)
    weights : ndarray, shape (n,)

    Examples
    --------
    With propensities spread evenly from 0 to 1, rows below about 0.1 are left out:

    >>> import numpy as np
    >>> from riesz.diagnostics.positivity import crump
    >>> p = np.linspace(0.001, 0.999, 999)
    >>> kept, _ = crump(np.column_stack([1 - p, p]), np.ones(999))
    >>> print(p[kept].min().round(2))
    0.1
    """
    g = (1 / p).sum(axis=1)
    order = np.argsort(g, kind="stable")
    mean = np.cumsum((weights * g)[order]) / np.cumsum(weights[order])
    within = np.flatnonzero(g[order] <= 2 * mean)
    gamma = float(g[order][within[-1]])
    if within[-1] == len(g) - 1:
        return np.ones(len(g), dtype=bool), np.inf
    return g <= gamma, gamma
