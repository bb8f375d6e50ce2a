"""Any scikit-learn regressor, or classifier of a 0/1 outcome, as a learner of mu alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.errors import LearnerError
from riesz.families import MEANS
from riesz.learners.base import Fit, Learner, Watch
from riesz.learners.propensity.scikit import Regression, is_classifier, need_scikit, regress, takes_weights
from riesz.predictions import Predictions, no_representer


def is_model(given: Any) -> bool:
    """Whether something is a scikit-learn model: not a class, a learner of riesz, or the name of one."""
    usable = callable(getattr(given, "fit", None)) and hasattr(given, "get_params")
    return usable and not isinstance(given, (type, Learner))


@dataclass(frozen=True)
class ScikitOutcome(Learner):
    """A model, cloned for each training set and trained on the formula's columns; part of :class:`~riesz.Compose`.

    Parameters
    ----------
    model : regressor or classifier
        With a classifier mu is the probability of 1.
    """

    model: Any
    learns_rr: ClassVar[bool] = False
    families: ClassVar[tuple[str, ...]] = MEANS

    def check(self, design: Design, rows: int) -> None:
        need_scikit("riesz.Compose(outcome=...)")
        name = type(self.model).__name__
        if design.is_derivative.any():
            raise LearnerError(
                f"The estimand reads derivatives of mu, which {name} does not give. Let a learner of riesz learn mu, such as "
                "Compose(outcome=riesz.Splines(), ...), or use riesz.Propensity, which takes differences."
            )
        if is_classifier(self.model):
            if design.family != "binomial":
                raise LearnerError(
                    f"Compose(outcome={name}()) is a classifier, but family={design.family!r} needs a regressor. Use "
                    "family='binomial' for a 0/1 outcome."
                )
            if not np.isin(design.y, (0.0, 1.0)).all() or not hasattr(self.model, "predict_proba"):
                raise LearnerError(
                    f"Compose(outcome={name}()) is a classifier; it needs an outcome of zeros and ones, and predict_proba for "
                    "their probabilities. Expected a regressor, or a classifier such as LogisticRegression()."
                )
        if np.ptp(design.weights) > 0 and not takes_weights(self.model):
            raise LearnerError(
                f"{name} accepts no sample weights, but the rows are weighted. Use another model, or fit without weights."
            )

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        fits = []
        for design, seed in zip(designs, seeds, strict=True):
            fits.append(ScikitOutcomeFit(regress(self.model, seed, design.z, design.y, design.weights, design.family)))
            watch.done()
        return fits

    def describe(self, family: str) -> str:
        return type(self.model).__name__


@dataclass(frozen=True)
class ScikitOutcomeFit(Fit):
    """A fitted regression of the outcome on the formula's columns."""

    regression: Regression

    def predict(self, design: Design) -> Predictions:
        n, readings = len(design), len(design.is_derivative)
        observed, values = np.empty(n), np.empty((readings, n))
        for place, block in design.blocks():
            z: Array = block.z
            observed[place] = self.regression.at(z)
            for k, reading in enumerate(block.readings()):
                read_at = z.copy()
                read_at[:, reading.columns] = reading.values
                values[k, place] = self.regression.at(read_at)
        mu = Evaluation(observed, values, np.zeros_like(values))
        return Predictions(mu, no_representer(design), scale_free=False)
