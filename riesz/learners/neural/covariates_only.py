"""Networks whose body takes only the covariates, with one outcome head per arm, and the samples that they are trained on.

Such networks learn from the observed rows only, so the moment of their training sample reads the observed rows and no others.
Predictions are made for the given design.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from riesz.arrays import Array
from riesz.design.derived import observed_only
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.inputs.expansions import Expansion, Expansions, make_expansions
from riesz.learners.neural.base import NetworkLearner
from riesz.learners.neural.engine.scaling import Scale, measure
from riesz.learners.neural.engine.train_together import check_design


@dataclass(frozen=True, kw_only=True)
class ArmByArm(NetworkLearner):
    """A learner whose networks take only covariates, with one outcome head per arm; no anchor is scaled."""

    @abstractmethod
    def _known_functions(self, sample: Design) -> Array:
        """Known functions of the rows that the objective needs besides the outcome, shape (G, n)."""

    def _training_sample(self, sample: Design) -> tuple[Design, Expansions]:
        return observed_only(sample, self._known_functions(sample)), without_treatment(
            sample, self.inputs == "standard"
        )

    def _scale(self, design: Design, inputs: Array) -> Scale:
        return measure(design, inputs, self.inputs)


def without_treatment(sample: Design, indicators: bool) -> Expansions:
    """Inputs without the treatment, which is expanded into no features."""
    expansions = make_expansions(sample, splines=False, indicators=indicators)
    return replace(expansions, treatment=Expansion(np.empty(0), np.zeros(1), np.zeros((1, 0))))


def check_arms(design: Design, rows: int, device: str, who: str) -> None:
    """Refuse designs that no network can learn from, and those without arms or without covariates."""
    check_design(design, rows, device, who)
    if design.strata is None:
        raise LearnerError(
            f"{who} has one outcome head for each arm, but the treatment is a number; expected arms. Use learner='riesznet' or "
            "learner='madnet'."
        )
    if not design.covariates.size:
        raise LearnerError(
            f"{who} learns from covariates, but the formula has none besides the treatment. Add some, as in 'y ~ treat(a) + x', "
            "or use learner='linear'."
        )
