"""Boosting as a learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.base import Fit, Learner, Watch, need_covariates
from riesz.learners.boosting.engine import Growth, need_lightgbm
from riesz.learners.boosting.fits import (
    BoostingFit,
    Sample,
    StoredBoosting,
    Trainer,
    draw_parts,
    make_sample,
    restore,
    store,
)
from riesz.learners.linear.learner import need_identification
from riesz.learners.propensity.representer import arm_coefficients
from riesz.storage.coding import stored

_FEWEST_ROWS = 20
_DERIVES = "Boosting(rr='propensity')"


@stored
@dataclass(frozen=True)
class Boosting(Learner):
    """Boosting."""

    one_thread: ClassVar[bool] = True

    rr: Literal["riesz", "constrained", "propensity"] = "riesz"
    outcome: Literal["together", "apart", "both"] = "together"
    rr_apart: bool = False
    learning_rate: float = 0.1
    leaves: int = 8
    rows: float = 30
    rr_learning_rate: float = 0.1
    rr_leaves: int = 8
    rr_rows: float = 30
    most: int = 300
    patience: int = 15
    parts: int = 5
    turns: int = 2
    share: float = 1.0
    rr_share: float = 1.0
    clip: float = 0.01

    def check(self, design: Design, rows: int) -> None:
        need_lightgbm("riesz.Boosting")
        need_covariates(design, "riesz.Boosting")
        need_rows(rows)
        if design.is_derivative.any():
            raise LearnerError(
                "The estimand reads a derivative of mu, and riesz.Boosting learns mu as a sum of trees, which are steps: their "
                "slope is zero. Use the default learner, riesz.MADNet() or learner='linear' with splines, or ask for the effect of "
                "moving the treatment by an amount: riesz.shift."
            )
        need_identification(design, rows)
        if self.rr == "propensity":
            self._check_arms(design)

    def _check_arms(self, design: Design) -> None:
        if design.strata is None:
            raise LearnerError(
                "Boosting(rr='propensity') derives the Riesz representer from the arms' propensities, but the treatment is a "
                "number. Use rr='riesz' or rr='constrained'."
            )
        if not design.covariates.size:
            raise LearnerError(
                "Boosting(rr='propensity') learns propensities from covariates, but the formula has none beside the treatment. Add "
                "them, as in 'y ~ treat(a) + x', or use rr='riesz'."
            )
        arm_coefficients(design.sample, _DERIVES)  # refuses what cannot be derived

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        samples: dict[int, Sample] = {}
        fits: list[Fit] = []
        for design, seed in zip(designs, seeds, strict=True):
            if design.key not in samples:
                samples[design.key] = make_sample(design.sample, self.rr == "propensity")
            fits.append(self._fit(design, samples[design.key], seed))
            watch.done()
        return fits

    def store(self, fit: Any) -> StoredBoosting:
        return store(fit)

    def restore(self, content: Sequence[Any], sample: Design) -> Sequence[Fit]:
        return [restore(fit, sample) for fit in content]

    def _fit(self, design: Design, sample: Sample, seed: int) -> BoostingFit:
        design = design.take(np.argsort(design.index))
        seed = int(np.random.SeedSequence(seed).generate_state(1)[0] % 2**30)
        trainer = Trainer(design, sample, draw_parts(design, self.parts, self.turns, seed), seed)
        growth = Growth(self.learning_rate, self.leaves, self.rows, self.most, self.patience, self.share)
        kinds = {"together": [False], "apart": [True], "both": [False, True]}[self.outcome]
        mu = [trainer.outcome(growth, apart and design.strata is not None) for apart in kinds]
        growth = Growth(self.rr_learning_rate, self.rr_leaves, self.rr_rows, self.most, self.patience, self.rr_share)
        rr: list[Any] = []
        propensity: list[Any] = []
        if self.rr == "propensity":
            propensity = trainer.propensities(growth)
        elif self.rr == "riesz":
            apart = self.rr_apart and design.strata is not None
            rr = [trainer.representer(c, growth, apart) for c in range(design.components)]
        else:
            rr = [trainer.perpendicular(c, growth) for c in range(design.components)]
        numbers = {"mu_trees": float(mu[0][0][0].trees)}
        if rr:
            numbers["rr_trees"] = float(rr[0][0][0].trees)
        return BoostingFit(mu, rr, propensity, design.family == "binomial", self.rr == "constrained", self.clip, numbers)


def need_rows(rows: int) -> None:
    """Refuse training sets that are too small to hold rows out."""
    if rows < _FEWEST_ROWS:
        raise LearnerError(
            f"A training set has {rows} rows; riesz.Boosting needs at least {_FEWEST_ROWS}, of which some decide when to stop. Use "
            "fewer folds, or learner='linear'."
        )
