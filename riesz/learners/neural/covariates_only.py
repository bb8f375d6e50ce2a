"""Networks whose body sees the covariates alone, with one outcome head an arm: what they are trained on.

Such networks learn from the observed rows only, so that they are trained on a base whose moment reads those and nothing else;
predictions are made for the design's own base.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from riesz.arrays import Array
from riesz.design.design import Base, Design
from riesz.design.moment import Evaluation, Moment, Points
from riesz.errors import LearnerError
from riesz.learners.neural.base import NetworkLearner
from riesz.learners.neural.engine.features import Expansion, Expansions, make_expansions
from riesz.learners.neural.engine.groups import check_design
from riesz.learners.neural.engine.scaling import Scale, measure


@dataclass(frozen=True, kw_only=True)
class ArmByArm(NetworkLearner):
    """A learner whose networks see covariates alone, with one outcome head per arm; there is no anchor to scale."""

    @abstractmethod
    def _given(self, base: Base) -> Array:
        """Functions of the rows that the objective needs beside the outcome, shape (G, n)."""

    def _seen(self, base: Base) -> tuple[Base, Expansions]:
        return observed_only(base, self._given(base)), without_treatment(base, self.inputs == "splines")

    def _scale(self, design: Design, inputs: Array) -> Scale:
        return measure(design, inputs, self.inputs)


def observed_only(base: Base, given: Array) -> Base:
    """A base whose moment reads the observed rows, with given functions, shape (G, n), in place of an anchor."""
    n = len(base.y)
    point = Points(np.empty(0, dtype=np.intp), np.empty((n, 0)), None, base.treatment, 0.0)
    return replace(
        base,
        moment=Moment((point,), np.ones((1, 1, n)), np.ones((1, n))),
        anchor=Evaluation(given, given[:, None], np.zeros_like(given[:, None])),
    )


def without_treatment(base: Base, expand: bool) -> Expansions:
    """Inputs that leave the treatment out: an expansion into no feature at all."""
    return replace(make_expansions(base, expand), treatment=Expansion(np.empty(0), np.zeros(1), np.zeros((1, 0))))


def check_arms(design: Design, rows: int, device: str, who: str) -> None:
    """Refuse what no network can do with, designs without arms, or with nothing for the body to see."""
    check_design(design, rows, device, who)
    base = design.base
    if base.strata is None:
        raise LearnerError(
            f"{who} has one outcome head for each arm, but the treatment is a number; wanted arms. Use learner='riesznet' or "
            "learner='madnet'."
        )
    if not base.covariates.size:
        raise LearnerError(
            f"{who} learns from covariates, but the formula has none beside the treatment. Add some, as in 'y ~ treat(a) + x', "
            "or use learner='linear'."
        )
