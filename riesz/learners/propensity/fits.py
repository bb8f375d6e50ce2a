r"""The fits of classical double machine learning: mu, the treatment's distribution, and the rr that follows from it.

In: a design, scikit-learn's models, and the weights of the moment in each arm or its shifts of the treatment
(``representer.py``). Out: fits whose rr comes with its scale. With arms, mu is one regression per arm on the covariates, and a
classifier gives the propensities. With a continuous treatment, mu is one regression on the formula's columns, and the treatment
is assumed to be normal given the covariates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.crossfit.folds import draw_labels
from riesz.design.arm_numbers import arm_numbers
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Points
from riesz.learners.base import Fit
from riesz.learners.propensity.representer import (
    ArmCoefficients,
    Normal,
    Pieces,
    arm_coefficients,
    arm_representer,
    at_arms,
    linked_at_arms,
    shift_pieces,
)
from riesz.learners.propensity.scikit import Regression, fitted, probabilities, regress
from riesz.predictions import Predictions

INNER_FOLDS = 5  # for predictions by models that were not trained on the row
_STEP = -1 / 3  # exponent of n; the bias of a central difference, of order step^2, is then below n^(-1/2)
_SOFTEN = (
    0.1  # share of the overall variance added to squared residuals before taking logarithms, against tiny residuals
)


@dataclass(frozen=True)
class ArmsFit(Fit):
    """Models of a treatment with arms.

    Attributes
    ----------
    outcomes : tuple of Regression, one per arm
    propensity : object
        A fitted classifier of the arms 0, 1, ...
    sample : Design
        The sample that the training rows belong to.
    coefficients : ArmCoefficients
        The weights of its moment in the arms.
    clip : float
    clipped : float
        Share of clipped rows among those outside the training set; of the training rows if there are no others.
    """

    outcomes: tuple[Regression, ...]
    propensity: Any
    sample: Design
    coefficients: ArmCoefficients
    clip: float
    clipped: float

    def predict(self, design: Design) -> Predictions:
        x = _covariates(design)
        p = probabilities(self.propensity, x, len(self.outcomes))
        mu = np.stack([outcome.at(x) for outcome in self.outcomes])
        same_sample = design.key == self.sample.key
        coefficients = self.coefficients if same_sample else arm_coefficients(design.sample)
        rr = arm_representer(coefficients[..., design.index], p, self.clip)
        return Predictions(at_arms(mu, design), linked_at_arms(rr, design), scale_free=False)

    def details(self) -> Mapping[str, float]:
        return {"clipped": self.clipped}

    def history(self) -> pd.DataFrame:
        return pd.DataFrame()


def fit_arms(
    design: Design, seed: int, outcome: Any, propensity: Any, coefficients: ArmCoefficients, clip: float
) -> ArmsFit:
    """Fit one outcome model per arm, and a classifier of the arms."""
    arms = coefficients.arms
    codes, x, weights = arm_numbers(design.treatment), _covariates(design), design.weights
    first, *seeds = _seeds(seed, arms + 1)
    classifier = fitted(propensity, first, x, codes, weights)
    outcomes = []
    for arm in range(arms):
        in_arm = codes == arm
        outcomes.append(regress(outcome, seeds[arm], x[in_arm], design.y[in_arm], weights[in_arm], design.family))
    p = probabilities(classifier, _covariates(_held_out(design)), arms)
    clipped = float(np.mean(((p < clip) | (p > 1.0 - clip)).any(axis=1)))
    return ArmsFit(tuple(outcomes), classifier, design.sample, coefficients, clip, clipped)


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
        Of the treatment around its mean; if the variance is modelled, the factor of exp(scatter).
    scatter : object or None
        A fitted regressor of the log squared residual, if the variance is modelled.
    sample : Design
        The sample that the training rows belong to.
    pieces : Pieces
        How its moment moves the treatment.
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
    sample: Design
    pieces: Pieces
    cap: float
    step: float
    clipped: float

    def predict(self, design: Design) -> Predictions:
        normal = _normal(self.location, self.variance, self.scatter, _covariates(design), self.cap)
        pieces, rows = self.pieces if design.key == self.sample.key else shift_pieces(design.sample), design.index
        observed, _ = normal.representer(pieces, rows, design.treatment[:, 0])
        read = [normal.representer(pieces, rows, reading.treatment[:, 0]) for reading in design.readings()]
        values, slopes = (np.stack(part, axis=1) for part in zip(*read, strict=True))
        slopes = np.where(design.is_derivative[:, None], slopes, 0.0)
        rr = Evaluation(observed, values, slopes).linked(design.links)
        return Predictions(self._mu(design), rr, scale_free=False)

    def _mu(self, design: Design) -> Evaluation:
        observed, values, slopes = np.empty(len(design)), *np.zeros((2, len(design.is_derivative), len(design)))
        for place, block in design.blocks():
            z = block.z
            observed[place] = self.outcome.at(z)
            for k, reading in enumerate(block.readings()):
                read_at = z.copy()
                read_at[:, reading.columns] = reading.values
                values[k, place] = self.outcome.at(read_at)
                if reading.tangents is not None:
                    slopes[k, place] = self._slope(read_at, reading)
        return Evaluation(observed, values, slopes)

    def _slope(self, z: Array, reading: Points) -> Array:
        assert reading.tangents is not None
        move = np.zeros_like(z)
        move[:, reading.columns] = self.step * reading.tangents
        return (self.outcome.at(z + move) - self.outcome.at(z - move)) / (2 * self.step)

    def details(self) -> Mapping[str, float]:
        return {"clipped": self.clipped, "residual_scale": float(np.sqrt(self.variance))}

    def history(self) -> pd.DataFrame:
        return pd.DataFrame()


def fit_dose(
    design: Design, seed: int, outcome: Any, propensity: Any, pieces: Pieces, clip: float, modelled: bool
) -> DoseFit:
    """Fit an outcome model on the formula's columns, and mean and variance of the treatment given the covariates."""
    n, weights = len(design), design.weights
    a, x = design.treatment[:, 0], _covariates(design)
    seeds = _seeds(seed, 4)
    regression = regress(outcome, seeds[0], design.z, design.y, weights, design.family)
    location = fitted(propensity, seeds[1], x, a, weights)
    square = (a - _cross_fitted(design, propensity, seeds[2], x, a)) ** 2
    variance = float(np.average(square, weights=weights))
    scatter = None
    if modelled:
        softened = np.log(square + _SOFTEN * variance)
        scatter = fitted(propensity, seeds[3], x, softened, weights)
        log_square = _cross_fitted(design, propensity, seeds[3], x, softened)
        variance = float(np.average(square / np.exp(log_square), weights=weights))
    step = float(np.sqrt(np.cov(a, aweights=weights))) * n**_STEP
    held_out = _held_out(design)
    normal = _normal(location, variance, scatter, _covariates(held_out), 1 / clip)
    treatment = held_out.treatment[:, 0]
    ratios = [normal.ratio(piece.delta[held_out.index], treatment)[1] for component in pieces for piece in component]
    clipped = float(np.mean(np.any(ratios, axis=0)))
    return DoseFit(regression, location, variance, scatter, design.sample, pieces, 1 / clip, step, clipped)


def _normal(location: Any, variance: float, scatter: Any, x: Array, cap: float) -> Normal:
    mean = np.asarray(location.predict(x), dtype=float).ravel()
    shape = np.ones(len(x)) if scatter is None else np.exp(np.asarray(scatter.predict(x), dtype=float).ravel())
    return Normal(mean, np.sqrt(variance * shape), cap)


def _cross_fitted(design: Design, model: Any, seed: int, x: Array, target: Array) -> Array:
    """Predictions by models that were not trained on the row; residuals on training rows would be too small."""
    groups = None if design.groups is None else np.unique(design.groups, return_inverse=True)[1].astype(np.intp)
    if groups is not None and groups.max() == 0:  # a single cluster must be split
        groups = None
    labels = draw_labels(len(x), INNER_FOLDS, None, groups, np.random.default_rng(seed))
    predicted = np.empty(len(x))
    for label in np.unique(labels):
        test = labels == label
        predicted[test] = fitted(model, seed, x[~test], target[~test], design.weights[~test]).predict(x[test]).ravel()
    return predicted


def _covariates(design: Design) -> Array:
    """The columns that models of the treatment are trained on; a constant if there are none."""
    return design.x if design.covariates.size else np.zeros((len(design), 1))


def _held_out(design: Design) -> Design:
    """The rows of the sample outside the training set, where predictions will be made; the training rows if there are no others."""
    sample = design.sample
    rows = np.setdiff1d(sample.index, design.index)
    return sample.take(rows) if rows.size else design


def _seeds(seed: int, count: int) -> list[int]:
    return [int(state) for state in np.random.SeedSequence(seed).generate_state(count)]
