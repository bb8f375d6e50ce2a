"""DragonNet as a learner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.design.arm_numbers import arm_numbers
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.check_settings import check_number, check_settings
from riesz.learners.neural.base import PAPER_SETTINGS, PAPER_STAGES
from riesz.learners.neural.covariates_only import ArmByArm, check_arms
from riesz.learners.neural.objectives.propensity_loss import PropensityLoss
from riesz.learners.propensity.representer import NOTABLE, arm_coefficients
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True, kw_only=True)
class DragonNet(ArmByArm):
    """DragonNet: one network of the covariates learns the propensity and one outcome regression per arm.

    For a treatment with two arms. The propensity's logit is linear in the shared representation; rr follows from the
    propensity, as for :class:`~riesz.Propensity`, and is never rescaled. So it can be used for ``ate, att, atc, ape, mean`` and
    for custom moments that read values of mu and change only the treatment; others are refused before training. A targeted term
    adds epsilon, one number per parameter, trained such that mu + epsilon rr also fits the outcome (on the scale of the index,
    such as the logit, under other families than ``"gaussian"``). Settings are keyword arguments.

    Parameters
    ----------
    head_width, head_depth : int
        Hidden layers of each outcome head.
    propensity_weight : float
        Weight of the propensity's log-loss.
    targeted_weight : float
        Weight of the targeted term.
    squeeze : float
        Propensities p are moved away from 0 and 1, to (p + squeeze) / (1 + 2 squeeze), in their log-loss and in rr, as in the
        paper's code. DragonNet's authors squeeze less in the log-loss (0.001) and not at all in their estimators, which leave
        out rows with extreme propensities instead.
    srr : bool
        Whether mu + epsilon rr is reported in place of mu. Training is the same.
    width, depth, stages, batch_size, weight_decay, momentum, bias_learning_rate, keep, inputs, networks, most_rows
    validation, redraw, device, side_by_side
        As for :class:`~riesz.RieszNet`.

    Notes
    -----
    By default one network per training set, with a body of two layers of 128 units and outcome heads of two layers of 64. It is
    trained with a learning rate of 0.001 for at most 300 epochs, until 30 epochs have not improved the validation loss. The weights
    of the loss are those of the authors; nothing was tuned. Where the network's propensity is below ``squeeze`` or above
    1 - ``squeeze``, squeezing at least halves its inverse. The history has the share of such validation rows (``squeezed``), and
    the summary mentions it from 1% on.

    References
    ----------
    Shi, Blei and Veitch (2019), "Adapting neural networks for the estimation of treatment effects".

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> quick = riesz.DragonNet(width=16, head_width=8, stages=(riesz.Stage(1e-2, 5, 5),))
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=quick, folds=2)
    >>> fit.tidy()[["term", "estimate", "std_error"]].round(1)
      term  estimate  std_error
    0  ATE       1.4        0.2
    """

    head_width: int = 64
    head_depth: int = 2
    propensity_weight: float = 1.0
    targeted_weight: float = 1.0
    squeeze: float = 0.01
    srr: bool = False

    @classmethod
    def paper(cls, **changes: Any) -> DragonNet:
        """As the paper trains DragonNet for its ATE benchmark; keyword arguments change individual settings.

        Examples
        --------
        >>> import riesz
        >>> riesz.DragonNet.paper().width
        200
        """
        settings: dict[str, Any] = {**PAPER_SETTINGS, "stages": PAPER_STAGES["ate"]}
        return replace(cls(**settings, propensity_weight=1.0, targeted_weight=1.0), **changes)

    def _check_own_settings(self) -> None:
        numbers = ["propensity_weight", "targeted_weight"]
        check_settings(self, {"srr": (True, False)}, ["head_width", "head_depth"], numbers)
        check_number(self, "squeeze", "a number between 0 and 0.5, such as 0.01", above=0.0, below=0.5)
        if self.propensity_weight == 0:
            raise LearnerError(
                "DragonNet(propensity_weight=0): expected a positive number; without its loss the propensity is not learned."
            )

    def check(self, design: Design, rows: int) -> None:
        check_arms(design, rows, self.device, "DragonNet")
        arms = design.treatment.shape[1] + 1
        if arms != 2:
            raise LearnerError(
                f"DragonNet learns the propensity of one arm against another, but the treatment has {arms} arms. Use "
                "learner='riesznet', learner='madnet' or learner='propensity'."
            )
        arm_coefficients(design.sample, "DragonNet")  # refuses what it cannot derive

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        share = float(details["squeezed"].mean())
        if share < NOTABLE:
            return []
        return [
            f"The propensities of {share:.0%} of the validation rows were below {self.squeeze:g} or above {1 - self.squeeze:g}: "
            f"overlap is weak there, and the estimate depends on the squeezing (squeeze={self.squeeze:g})."
        ]

    def describe(self, family: str) -> str:
        return f"DragonNet{' (SRR)' if self.srr else ''}"

    def _known_functions(self, sample: Design) -> Array:
        coefficients = arm_coefficients(sample, "DragonNet").dense()
        at_observed_arm = coefficients[:, :, arm_numbers(sample.treatment), sample.index]
        return np.concatenate([at_observed_arm[:, 0], at_observed_arm[:, 1]])

    def _outcome_layers(self) -> tuple[int, int]:
        return self.head_width, self.head_depth

    def objective(self, family: str) -> PropensityLoss:
        return PropensityLoss(family, self.propensity_weight, self.targeted_weight, self.squeeze, self.srr)
