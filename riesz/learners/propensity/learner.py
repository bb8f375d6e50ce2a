"""Classical double machine learning (AIPW) as a learner: any scikit-learn models for mu and for the treatment.

The Riesz representer is not learned but derived from the treatment's distribution given the covariates (see ``representer.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.families import MEANS
from riesz.learners.base import Fit, Learner, Watch, need_covariates
from riesz.learners.check_settings import check_number, check_settings
from riesz.learners.linear.learner import need_identification
from riesz.learners.propensity.fits import INNER_FOLDS, fit_arms, fit_dose
from riesz.learners.propensity.representer import arm_coefficients, clipping, shift_pieces
from riesz.learners.propensity.scikit import (
    default_classifier,
    default_regressor,
    is_classifier,
    need_scikit,
    takes_weights,
)
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Propensity(Learner):
    r"""Double machine learning with any scikit-learn models; the Riesz representer is derived from the propensity.

    Arms (``ate, att, atc, ape, mean``, custom moments of values of mu): one outcome model per arm, and a classifier of the arms.
    A continuous treatment (``ade, ipe, shift``, policies that move it by an amount that depends on the covariates alone): one
    outcome model on the formula's columns, a regressor for the treatment's mean, and residuals that are assumed to be normal.
    Estimands whose representer cannot be derived, such as a policy that caps the treatment, are refused before any fitting.

    Parameters
    ----------
    outcome : regressor or classifier, optional
        For mu. A classifier is for ``family="binomial"`` with a 0/1 outcome. By default boosted trees, with the loss
        of ``family``.
    propensity : classifier or regressor, optional
        For the treatment given the covariates: a classifier with ``predict_proba`` for arms, a regressor of the mean for a
        continuous treatment. By default boosted trees.
    clip : float
        Propensities are kept in [clip, 1 - clip], density ratios below 1 / clip. The share of rows that this changes is in
        ``details()`` (``clipped``) and, from 1% on, in the summary.
    spread : {"constant", "modelled"}
        The residual variance of a continuous treatment: one number, or the exponential of a regression of the log squared
        residuals on the covariates. That regression is a copy of the treatment's model, and the variance is scaled so that
        standardised residuals have variance one. Residuals are from inner folds.

    Notes
    -----
    The rr is never rescaled, and with the same models, folds and clipping the one-step estimates of the ATE and the ATT are
    those of DoubleML's IRM. Models are trained on the formula's columns without the treatment.

    The defaults are histogram boosting, slower and shallower (``learning_rate=0.05, max_leaf_nodes=8, min_samples_leaf=10``)
    than scikit-learn's settings, whose propensities are too extreme in samples of a thousand rows. They were chosen among five
    pairs of models, tried on 15 draws each of two simulations of ``riesz.datasets`` (n = 1000), so they are provisional. Root
    mean squared error of the ATE on ``"binary"`` and ``"weak_overlap"``: these defaults 0.14 and 0.26, scikit-learn's settings
    0.55 and 1.07, the defaults with a logistic propensity 0.16 and 0.49, scikit-learn's settings with a logistic propensity 0.12
    and 0.38. With weak overlap the defaults' 95% intervals covered in 11 of the 15 draws: choose models that suit your data.

    A ``random_state`` of None is set from the fit's seed.

    Derivatives of mu are central differences over a small share (n to the power -1/3) of the treatment's standard deviation:
    exact for models that are linear in the formula's columns, and a smoothed slope for trees, whose exact derivative is zero.

    A policy given as an array is assumed to depend only on the covariates; if it depends on the treatment, write it as an
    expression or a function.

    References
    ----------
    Chernozhukov et al. (2018), "Double/debiased machine learning for treatment and structural parameters".

    Examples
    --------
    >>> import riesz
    >>> from sklearn.linear_model import LassoCV, LogisticRegression
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> learner = riesz.Propensity(outcome=LassoCV(), propensity=LogisticRegression())
    >>> riesz.ate("y ~ treat(a) + .", data, learner=learner).tidy()[["term", "estimate", "std_error"]].round(2)
      term  estimate  std_error
    0  ATE      1.42       0.18
    """

    families: ClassVar[tuple[str, ...]] = MEANS

    outcome: Any = None
    propensity: Any = None
    clip: float = 0.01
    spread: Literal["constant", "modelled"] = "constant"

    def __post_init__(self) -> None:
        for name, model in (("outcome", self.outcome), ("propensity", self.propensity)):
            usable = callable(getattr(model, "fit", None)) and hasattr(model, "get_params")
            if model is not None and (isinstance(model, type) or not usable):
                raise LearnerError(
                    f"Propensity({name}={model!r}): expected a scikit-learn model, such as LogisticRegression() (with parentheses)."
                )
        check_number(self, "clip", "a number between 0 and 0.5, such as 0.01", above=0.0, below=0.5)
        check_settings(self, {"spread": ("constant", "modelled")}, [], [])

    def check(self, design: Design, rows: int) -> None:
        need_scikit("riesz.Propensity")
        arms = design.strata is not None
        outcome, propensity = self._models(design.sample)
        _check_models(outcome, propensity, design)
        need_covariates(design, "riesz.Propensity")
        if not arms and rows < 4 * INNER_FOLDS:
            raise LearnerError(
                f"A training set has {rows} rows; riesz.Propensity needs at least {4 * INNER_FOLDS} to learn the variance of a "
                "continuous treatment. Use fewer folds, or learner='linear'."
            )
        need_identification(design, rows)
        _ = arm_coefficients(design.sample) if arms else shift_pieces(design.sample)  # refuses what it cannot derive

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        what = "propensities" if design.strata is not None else "density ratios"
        return clipping(float(details["clipped"].mean()), self.clip, what)

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        samples = {design.key: design.sample for design in designs}
        arms = {key: arm_coefficients(sample) for key, sample in samples.items() if sample.strata is not None}
        moves = {key: shift_pieces(sample) for key, sample in samples.items() if sample.strata is None}
        fits: list[Fit] = []
        for design, seed in zip(designs, seeds, strict=True):
            key, models = design.key, self._models(design.sample)
            if key in arms:
                fits.append(fit_arms(design, seed, *models, arms[key], self.clip))
            else:
                fits.append(fit_dose(design, seed, *models, moves[key], self.clip, self.spread == "modelled"))
            watch.done()
        return fits

    def describe(self, family: str) -> str:
        names = [
            "boosted trees" if model is None else type(model).__name__ for model in (self.outcome, self.propensity)
        ]
        return f"Propensity ({', '.join(names)})"

    def _models(self, sample: Design) -> tuple[Any, Any]:
        """The models for mu and for the treatment, defaults filled in; the same for every fold of a sample."""
        outcome, propensity = self.outcome, self.propensity
        if outcome is None:
            binary = sample.family == "binomial" and _is_binary(sample.y)
            outcome = default_classifier() if binary else default_regressor(sample.family)
        if propensity is None:
            propensity = default_regressor("gaussian") if sample.strata is None else default_classifier()
        return outcome, propensity


def _check_models(outcome: Any, propensity: Any, design: Design) -> None:
    name = type(outcome).__name__
    if is_classifier(outcome) and design.family != "binomial":
        raise LearnerError(
            f"Propensity(outcome={name}()) is a classifier, but family={design.family!r} needs a regressor. Use family='binomial' "
            f"for a 0/1 outcome, or Propensity(propensity={name}()) if it is the treatment's model."
        )
    if is_classifier(outcome) and not _is_binary(design.y):
        raise LearnerError(
            f"Propensity(outcome={name}()) is a classifier, but the outcome takes values between 0 and 1; expected a regressor."
        )
    name, arms = type(propensity).__name__, design.strata is not None
    if arms and not (is_classifier(propensity) and hasattr(propensity, "predict_proba")):
        raise LearnerError(
            f"Propensity(propensity={name}()) gives no probabilities, but the treatment has arms; expected a classifier with "
            "predict_proba, such as LogisticRegression()."
        )
    if not arms and is_classifier(propensity):
        raise LearnerError(
            f"Propensity(propensity={name}()) is a classifier, but the treatment is continuous; expected a regressor for its mean."
        )
    if np.ptp(design.weights) > 0:
        for model in (outcome, propensity):
            if not takes_weights(model):
                raise LearnerError(
                    f"{type(model).__name__} accepts no sample weights, but the rows are weighted. Use another model, or fit "
                    "without weights."
                )


def _is_binary(y: Array) -> bool:
    return bool(np.isin(y, (0.0, 1.0)).all())
