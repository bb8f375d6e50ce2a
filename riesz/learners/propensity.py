r"""Classical double machine learning (AIPW): scikit-learn's models for mu and for the treatment, and the rr that follows.

The Riesz representer is not learned but derived from the treatment's distribution given the covariates (see ``derived.py``),
so it comes with its scale. With arms, mu is one regression an arm on the covariates. With a continuous treatment, mu is one
regression on the formula's columns, and the treatment is taken to be normal given the covariates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.design import Base, Design
from riesz.errors import LearnerError
from riesz.folds import draw_labels
from riesz.learners.base import Fit, Learner, need_covariates
from riesz.learners.derived import Normal, Pieces, arm_coefficients, arm_numbers, arm_representer, shift_pieces
from riesz.learners.scikit import (
    Regression,
    default_classifier,
    default_propensity,
    default_regressor,
    fitted,
    is_classifier,
    need_scikit,
    probabilities,
    regress,
    takes_weights,
)
from riesz.moment import Array, Evaluation, Points, Rows
from riesz.predictions import Predictions

_FOLDS = 5  # for residuals of the treatment that its own model has not fitted
_LEAST_VARIANCE = 0.1  # of the overall residual variance, where the variance is modelled


@dataclass(frozen=True)
class Propensity(Learner):
    r"""Double machine learning with any scikit-learn models; the Riesz representer is derived from the propensity.

    Arms (``ate, att, atc, ape, mean``, custom moments of values of mu): one outcome model an arm, a classifier for the arm.
    A continuous treatment (``ade, ipe, shift``, policies that move it by an amount known from the covariates): one outcome
    model on the formula's columns, a regressor for the treatment's mean, and residuals that are taken to be normal. What
    cannot be derived, such as a policy that caps the treatment, is refused before any fitting.

    Parameters
    ----------
    outcome : regressor or classifier, optional
        For mu. A classifier is for ``family="binomial"`` with a 0/1 outcome. By default small boosted trees.
    propensity : classifier or regressor, optional
        For the treatment given the covariates: a classifier with ``predict_proba`` for arms, by default logistic regression
        with a ridge penalty (``C=1``) on standardised columns; a regressor for a continuous treatment, by default small boosted
        trees.
    clip : float
        Propensities are kept in [clip, 1 - clip], density ratios below 1 / clip. The share of rows this touched is in
        ``details()`` (``clipped``) and, from one row in a hundred, in the summary.
    spread : {"constant", "modelled"}
        The residual variance of a continuous treatment: one number, or a regression of squared residuals on the covariates
        with a copy of the treatment's model, at least a tenth of that number. Residuals are from inner folds.

    Notes
    -----
    The rr is never rescaled, and with the same models, folds and clipping the one-step estimates of the ATE and the ATT are
    those of DoubleML's IRM. The covariates that models see are the formula's columns without the treatment.

    The defaults are cautious rather than tuned. A weight 1/p punishes a propensity that is too sure of itself, which boosted
    trees are in samples of a few hundred, and a logistic regression on few columns is not; the trees stand in for mu, where
    missing a curve or an interaction costs more. Put splines into the formula, or a model of your own here, when the
    propensity bends.

    Derivatives of mu are central differences over a small share (n to the power -1/5) of the treatment's standard deviation:
    exact for models that are linear in the formula's columns, and a smoothed slope for trees, whose own is zero.

    A policy given as an array is taken to depend on the covariates alone; write it as an expression or a function when it
    looks at the treatment.

    References
    ----------
    Chernozhukov et al. (2018), "Double/debiased machine learning for treatment and structural parameters".

    Examples
    --------
    >>> import riesz
    >>> from sklearn.linear_model import LassoCV, LogisticRegression
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> learner = riesz.Propensity(outcome=LassoCV(), propensity=LogisticRegression())
    >>> riesz.ate("y ~ treat(a) + .", data, learner=learner).nobs
    500
    """

    outcome: Any = None
    propensity: Any = None
    clip: float = 0.01
    spread: Literal["constant", "modelled"] = "constant"

    def __post_init__(self) -> None:
        for name, model in (("outcome", self.outcome), ("propensity", self.propensity)):
            usable = callable(getattr(model, "fit", None)) and hasattr(model, "get_params")
            if model is not None and (isinstance(model, type) or not usable):
                raise LearnerError(
                    f"Propensity({name}={model!r}): wanted a scikit-learn model, such as LogisticRegression() (with parentheses)."
                )
        if not (isinstance(self.clip, (int, float)) and 0 < self.clip < 0.5):
            raise LearnerError(f"Propensity(clip={self.clip!r}): wanted a number between 0 and 0.5, such as 0.01.")
        if self.spread not in ("constant", "modelled"):
            raise LearnerError(f"Propensity(spread={self.spread!r}): wanted 'constant' or 'modelled'.")

    def check(self, design: Design, rows: int) -> None:
        need_scikit("riesz.Propensity")
        base = design.base
        arms = base.strata is not None
        outcome, propensity = self._models(base)
        _check_models(outcome, propensity, base)
        need_covariates(base, "riesz.Propensity")
        if not arms and rows < 4 * _FOLDS:
            raise LearnerError(
                f"A training set has {rows} rows; riesz.Propensity wants at least {4 * _FOLDS} to learn how a continuous "
                "treatment scatters. Use fewer folds, or learner='linear'."
            )
        _ = arm_coefficients(base) if arms else shift_pieces(base)  # refuses what it cannot derive

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        share = float(details["clipped"].mean())
        if share < 0.01:
            return []
        what = "propensities" if design.base.strata is not None else "density ratios"
        return [
            f"The {what} of {share:.0%} of the rows were clipped (clip={self.clip:g}): overlap is weak there, and the estimate "
            "leans on the clipping."
        ]

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], done: Callable[[], object]) -> Sequence[Fit]:
        bases = {id(design.base): design.base for design in designs}
        arms = {key: arm_coefficients(base) for key, base in bases.items() if base.strata is not None}
        moves = {key: shift_pieces(base) for key, base in bases.items() if base.strata is None}
        fits: list[Fit] = []
        for design, seed in zip(designs, seeds, strict=True):
            key, models = id(design.base), self._models(design.base)
            if key in arms:
                fits.append(fit_arms(design, seed, *models, arms[key], self.clip))
            else:
                fits.append(fit_dose(design, seed, *models, moves[key], self.clip, self.spread == "modelled"))
            done()
        return fits

    def describe(self, family: str) -> str:
        names = ["default" if one is None else type(one).__name__ for one in (self.outcome, self.propensity)]
        return f"Propensity ({', '.join(names)})"

    def _models(self, base: Base) -> tuple[Any, Any]:
        """The models for mu and for the treatment, defaults filled in."""
        outcome, propensity = self.outcome, self.propensity
        if outcome is None:
            outcome = default_classifier() if base.family == "binomial" and _is_binary(base.y) else default_regressor()
        if propensity is None:
            propensity = default_regressor() if base.strata is None else default_propensity()
        return outcome, propensity


def _check_models(outcome: Any, propensity: Any, base: Base) -> None:
    name = type(outcome).__name__
    if is_classifier(outcome) and base.family != "binomial":
        raise LearnerError(
            f"Propensity(outcome={name}()) is a classifier, but family='gaussian' wants a regressor. Use family='binomial' for a "
            "0/1 outcome."
        )
    if is_classifier(outcome) and not _is_binary(base.y):
        raise LearnerError(
            f"Propensity(outcome={name}()) is a classifier, but the outcome takes values between 0 and 1; wanted a regressor."
        )
    name, arms = type(propensity).__name__, base.strata is not None
    if arms and not (is_classifier(propensity) and hasattr(propensity, "predict_proba")):
        raise LearnerError(
            f"Propensity(propensity={name}()) gives no probabilities, but the treatment has arms; wanted a classifier with "
            "predict_proba, such as LogisticRegression()."
        )
    if not arms and is_classifier(propensity):
        raise LearnerError(
            f"Propensity(propensity={name}()) is a classifier, but the treatment is continuous; wanted a regressor for its mean."
        )
    if np.ptp(base.weights) > 0:
        for model in (outcome, propensity):
            if not takes_weights(model):
                raise LearnerError(
                    f"{type(model).__name__} takes no sample weights, but the rows are weighted. Use another model, or fit "
                    "without weights."
                )


def _is_binary(y: Array) -> bool:
    return bool(np.isin(y, (0.0, 1.0)).all())


@dataclass(frozen=True)
class ArmsFit(Fit):
    """Models of a treatment with arms.

    Attributes
    ----------
    outcomes : tuple of Regression, one an arm
    propensity : object
        A fitted classifier of the arms 0, 1, ...
    coefficients : ndarray, shape (K, arms, arms, n of the base)
    clip : float
    clipped : float
        Share of clipped rows among those left out of the training set, if any.
    """

    outcomes: tuple[Regression, ...]
    propensity: Any
    coefficients: Array
    clip: float
    clipped: float

    def predict(self, design: Design) -> Predictions:
        base, rows = design.base, np.arange(len(design.base.y))[design.rows]
        x = _covariates(base, rows)
        p = np.clip(probabilities(self.propensity, x, len(self.outcomes)), self.clip, 1.0 - self.clip)
        mu = np.stack([outcome.at(x) for outcome in self.outcomes])
        rr = arm_representer(self.coefficients[..., rows], p)
        return Predictions(_at_arms(mu, base, rows), _at_arms(rr, base, rows), scale_free=False)

    def details(self) -> Mapping[str, float]:
        return {"clipped": self.clipped}

    def history(self) -> pd.DataFrame:
        return pd.DataFrame()


def _at_arms(values: Array, base: Base, rows: npt.NDArray[np.intp]) -> Evaluation:
    """Functions known at every arm, shape (..., arms, n), where the rows are and where readings look."""
    where = np.arange(len(rows))
    read = [values[..., arm_numbers(point.treatment[rows]), where] for point in base.moment.points]
    observed = values[..., arm_numbers(base.treatment[rows]), where]
    return Evaluation(observed, np.stack(read, axis=-2), np.zeros((*values.shape[:-2], len(read), len(rows))))


def fit_arms(design: Design, seed: int, outcome: Any, propensity: Any, coefficients: Array, clip: float) -> ArmsFit:
    """One outcome model an arm, and a classifier of the arms."""
    base, arms = design.base, coefficients.shape[1]
    rows = np.arange(len(base.y))[design.rows]
    codes, x, weights = arm_numbers(base.treatment[rows]), _covariates(base, rows), design.weights
    own, *seeds = _seeds(seed, arms + 1)
    classifier = fitted(propensity, own, x, codes, weights)
    outcomes = []
    for arm in range(arms):
        here = codes == arm
        outcomes.append(regress(outcome, seeds[arm], x[here], design.y[here], weights[here], base.family))
    p = probabilities(classifier, _covariates(base, _left_out(base, rows)), arms)
    clipped = float(np.mean(((p < clip) | (p > 1.0 - clip)).any(axis=1)))
    return ArmsFit(tuple(outcomes), classifier, coefficients, clip, clipped)


@dataclass(frozen=True)
class DoseFit(Fit):
    """Models of a continuous treatment.

    Attributes
    ----------
    outcome : Regression
        On the formula's columns.
    location : object
        A fitted regressor of the treatment on the covariates.
    variance : float
        Of the treatment around it.
    scatter : object or None
        A fitted regressor of its square, where the variance is modelled.
    pieces : Pieces
    cap : float
        Largest density ratio.
    step : float
        Half the distance over which mu's derivative is taken.
    clipped : float
    """

    outcome: Regression
    location: Any
    variance: float
    scatter: Any
    pieces: Pieces
    cap: float
    step: float
    clipped: float

    def predict(self, design: Design) -> Predictions:
        base, rows = design.base, np.arange(len(design.base.y))[design.rows]
        normal = _normal(self.location, self.variance, self.scatter, _covariates(base, rows), self.cap)
        observed, _ = normal.representer(self.pieces, rows, base.treatment[rows, 0])
        read = [normal.representer(self.pieces, rows, point.treatment[rows, 0]) for point in base.moment.points]
        values, slopes = (np.stack(part, axis=1) for part in zip(*read, strict=True))
        slopes = np.where(base.moment.is_derivative[:, None], slopes, 0.0)
        return Predictions(self._mu(design), Evaluation(observed, values, slopes), scale_free=False)

    def _mu(self, design: Design) -> Evaluation:
        points = design.base.moment.points
        observed, values, slopes = np.empty(len(design)), *np.zeros((2, len(points), len(design)))
        for own, rows in design.blocks():
            z = design.base.z[rows]
            observed[own] = self.outcome.at(z)
            for k, point in enumerate(points):
                there = z.copy()
                there[:, point.columns] = point.values[rows]
                values[k, own] = self.outcome.at(there)
                if point.tangents is not None:
                    slopes[k, own] = self._slope(there, point, rows)
        return Evaluation(observed, values, slopes)

    def _slope(self, z: Array, point: Points, rows: Rows) -> Array:
        assert point.tangents is not None
        move = np.zeros_like(z)
        move[:, point.columns] = self.step * point.tangents[rows]
        return (self.outcome.at(z + move) - self.outcome.at(z - move)) / (2 * self.step)

    def details(self) -> Mapping[str, float]:
        return {"clipped": self.clipped, "residual_sd": float(np.sqrt(self.variance))}

    def history(self) -> pd.DataFrame:
        return pd.DataFrame()


def fit_dose(
    design: Design, seed: int, outcome: Any, propensity: Any, pieces: Pieces, clip: float, modelled: bool
) -> DoseFit:
    """An outcome model on the formula's columns; mean and variance of the treatment given the covariates."""
    base, n, weights = design.base, len(design), design.weights
    rows = np.arange(len(base.y))[design.rows]
    a, x = base.treatment[rows, 0], _covariates(base, rows)
    seeds = _seeds(seed, 4)
    regression = regress(outcome, seeds[0], base.z[rows], design.y, weights, base.family)
    location = fitted(propensity, seeds[1], x, a, weights)
    square = _inner_residuals(design, propensity, seeds[2], x, a) ** 2
    variance = float(np.average(square, weights=weights))
    scatter = fitted(propensity, seeds[3], x, square, weights) if modelled else None
    step = float(np.sqrt(np.cov(a, aweights=weights))) * n**-0.2
    left = _left_out(base, rows)
    normal = _normal(location, variance, scatter, _covariates(base, left), 1 / clip)
    ratios = [normal.ratio(piece.delta[left], base.treatment[left, 0])[1] for one in pieces for piece in one]
    return DoseFit(
        regression, location, variance, scatter, pieces, 1 / clip, step, float(np.mean(np.any(ratios, axis=0)))
    )


def _normal(location: Any, variance: float, scatter: Any, x: Array, cap: float) -> Normal:
    mean = np.asarray(location.predict(x), dtype=float).ravel()
    if scatter is None:
        return Normal(mean, np.full(len(x), np.sqrt(variance)), cap)
    modelled = np.asarray(scatter.predict(x), dtype=float).ravel()
    return Normal(mean, np.sqrt(np.maximum(modelled, _LEAST_VARIANCE * variance)), cap)


def _inner_residuals(design: Design, model: Any, seed: int, x: Array, a: Array) -> Array:
    """Residuals of the treatment by models that have not seen the row; its own model would make them too small."""
    groups = None if design.groups is None else np.unique(design.groups, return_inverse=True)[1].astype(np.intp)
    if groups is not None and groups.max() == 0:  # a single cluster has to be cut
        groups = None
    labels = draw_labels(len(a), _FOLDS, None, groups, np.random.default_rng(seed))
    residuals = np.empty(len(a))
    for label in np.unique(labels):
        test = labels == label
        residuals[test] = a[test] - fitted(model, seed, x[~test], a[~test], design.weights[~test]).predict(x[test])
    return residuals


def _covariates(base: Base, rows: npt.NDArray[np.intp]) -> Array:
    """The columns that models of the treatment see; a constant when there are none."""
    return base.z[np.ix_(rows, base.covariates)] if base.covariates.size else np.zeros((len(rows), 1))


def _left_out(base: Base, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """The rows that are not trained on, where predictions will be wanted; all rows when there are none."""
    left = np.setdiff1d(np.arange(len(base.y)), rows)
    return left if left.size else rows


def _seeds(seed: int, count: int) -> list[int]:
    return [int(state) for state in np.random.SeedSequence(seed).generate_state(count)]
