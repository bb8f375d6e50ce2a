"""TARNet as a learner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.learners.check_settings import check_settings
from riesz.learners.neural.base import PAPER_SETTINGS, PAPER_STAGES
from riesz.learners.neural.covariates_only import ArmByArm, check_arms
from riesz.learners.neural.objectives.outcome import Outcome
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True, kw_only=True)
class TARNet(ArmByArm):
    """TARNet: one network of the covariates with an outcome head for each arm.

    It learns only mu, so only the direct estimator is available, without a standard error. The treatment may have any number of
    arms. Settings are keyword arguments.

    Parameters
    ----------
    head_width, head_depth : int
        Hidden layers of each outcome head.
    width, depth, stages, batch_size, weight_decay, momentum, bias_learning_rate, keep, inputs, networks, most_rows
    validation, redraw, device, side_by_side
        As for :class:`~riesz.RieszNet`.

    Notes
    -----
    This is the network without the penalty on the distance between the arms' representations, which the same article proposes.
    By default one network per training set, with a body of two layers of 128 units and outcome heads of two layers of 64. It is
    trained with a learning rate of 0.001 for at most 300 epochs, until 30 epochs have not improved the validation loss. Nothing was
    tuned.

    References
    ----------
    Shalit, Johansson and Sontag (2017), "Estimating individual treatment effect: generalization bounds and algorithms".

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> quick = riesz.TARNet(width=16, head_width=8, stages=(riesz.Stage(1e-2, 5, 5),))
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=quick, folds=2)
    >>> fit.tidy()[["term", "estimate", "std_error"]].round(1)  # the plug-in, without a standard error
      term  estimate  std_error
    0  ATE       2.3        NaN
    """

    head_width: int = 64
    head_depth: int = 2
    learns_rr: ClassVar[bool] = False

    @classmethod
    def paper(cls, **changes: Any) -> TARNet:
        """The paper's settings for its ATE benchmark; keyword arguments change individual ones.

        Examples
        --------
        >>> import riesz
        >>> riesz.TARNet.paper().head_width
        100
        """
        settings: dict[str, Any] = {**PAPER_SETTINGS, "stages": PAPER_STAGES["ate"]}
        return replace(cls(**settings), **changes)

    def _check_own_settings(self) -> None:
        check_settings(self, {}, ["head_width", "head_depth"], [])

    def check(self, design: Design, rows: int) -> None:
        check_arms(design, rows, self.device, "TARNet")

    def describe(self, family: str) -> str:
        return "TARNet"

    def _known_functions(self, sample: Design) -> Array:
        return np.ones((1, len(sample)))

    def _outcome_layers(self) -> tuple[int, int]:
        return self.head_width, self.head_depth

    def objective(self, family: str) -> Outcome:
        return Outcome(family)
