"""RieszNet as a learner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.check_settings import check_settings
from riesz.learners.neural.base import PAPER_SETTINGS, PAPER_STAGES, NetworkLearner
from riesz.learners.neural.engine.schedule import USUAL_MOMENTUM
from riesz.learners.neural.engine.train_together import check_design, outcome_layers
from riesz.learners.neural.objectives.riesz_loss import RieszLoss
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True, kw_only=True)
class RieszNet(NetworkLearner):
    """RieszNet: one network learns mu and rr jointly, rr by the automatic-debiasing loss E[rr^2 - 2 m(rr)].

    The network has MADNet's shape and inputs, so it works for every moment. Its rr has the right scale and is never rescaled. A
    targeted term adds epsilon, one number per parameter, trained such that mu + epsilon rr also fits the outcome (on the scale of
    the index, such as the logit, under other families than ``"gaussian"``). Settings are keyword arguments.

    Parameters
    ----------
    architecture : {"multihead", "fully_connected"}
        A shared body with separate outcome heads, or outputs that are all linear in the body.
    head_width, head_depth : int
        Hidden layers of each outcome head.
    rr_weight : float
        Weight of rr's loss.
    targeted_weight : float
        Weight of the targeted term.
    srr : bool
        Whether mu + epsilon rr (Scharfstein, Rotnitzky and Robins) is reported in place of mu. Training is the same. With several
        parameters it is mu + sum epsilon_c rr_c.
    width, depth, stages, batch_size, weight_decay, momentum, bias_learning_rate, keep, inputs, networks, most_rows
    validation, redraw, device, side_by_side
        As for :class:`~riesz.MADNet`, but ``keep`` is ``"best"`` or ``"last"``. ``Stage(..., plateau=p)`` halves the learning
        rate after more than p epochs without a better validation loss, as the authors' code does (``RieszNet.original()``).

    Notes
    -----
    By default one network per training set, with a body of two layers of 128 units and outcome heads of two layers of 64. It is
    trained with a learning rate of 0.001 for at most 300 epochs, until 30 epochs have not improved the validation loss. Nothing was
    tuned. The weights of the loss are those of the authors, but rr's loss is divided by the scale of the treatment, so that a
    change of its units changes nothing; with ``inputs="paper"`` and a treatment between 0 and 1 it is the authors' loss.
    Derivatives are exact; the authors use finite differences.

    ``RieszNet.paper()`` has one learning rate for all parameters. The supplement gives a larger one for the outcome heads' biases
    and does not say in which networks; in the paper's published code only MADNet has it.

    References
    ----------
    Chernozhukov, Newey, Quintas-Martínez and Syrgkanis (2022), "RieszNet and ForestRiesz: Automatic debiased machine learning
    with neural nets and random forests".

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> quick = riesz.RieszNet(width=16, head_width=8, stages=(riesz.Stage(1e-2, 5, 5),))
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=quick, folds=2)
    >>> fit.tidy()[["term", "estimate", "std_error"]].round(1)
      term  estimate  std_error
    0  ATE       1.9        0.1
    """

    architecture: Literal["multihead", "fully_connected"] = "multihead"
    head_width: int = 64
    head_depth: int = 2
    rr_weight: float = 0.1
    targeted_weight: float = 1.0
    srr: bool = True

    @classmethod
    def paper(cls, benchmark: Literal["ate", "ade"] = "ate", **changes: Any) -> RieszNet:
        """As the paper trains RieszNet for its ATE or its ADE benchmark; keyword arguments change individual settings.

        Examples
        --------
        >>> import riesz
        >>> riesz.RieszNet.paper("ade").rr_weight
        0.1
        """
        if benchmark not in PAPER_STAGES:
            raise LearnerError(f"RieszNet.paper({benchmark!r}): expected 'ate' or 'ade'.")
        settings: dict[str, Any] = {**PAPER_SETTINGS, "stages": PAPER_STAGES[benchmark]}
        return replace(cls(**settings, rr_weight=0.1, targeted_weight=1.0), **changes)

    @classmethod
    def original(cls, **changes: Any) -> RieszNet:
        """As the notebook of RieszNet's authors trains it on IHDP; keyword arguments change individual settings.

        Sizes and stages are those of ``paper()``, but the learning rate is halved when the validation loss stalls, the best weights
        are kept, validation rows stay the same, and Adam has its usual momentum. Their weight decay is an L2 term in Adam's
        gradient; ours is decoupled from it.

        Examples
        --------
        >>> import riesz
        >>> riesz.RieszNet.original().stages[1].plateau
        5
        """
        stages = tuple(replace(stage, plateau=5, min_delta=1e-4) for stage in PAPER_STAGES["ate"])
        return replace(cls.paper(stages=stages, momentum=USUAL_MOMENTUM, keep="best", redraw=False), **changes)

    def _check_own_settings(self) -> None:
        choices = {"architecture": ("multihead", "fully_connected"), "srr": (True, False)}
        check_settings(self, choices, ["head_width", "head_depth"], ["rr_weight", "targeted_weight"])
        if self.rr_weight == 0:
            raise LearnerError("RieszNet(rr_weight=0): expected a positive number; without its loss rr is not learned.")

    def check(self, design: Design, rows: int) -> None:
        check_design(design, rows, self.device, "RieszNet")

    def describe(self, family: str) -> str:
        return f"RieszNet ({self.architecture.replace('_', ' ')}{', SRR' if self.srr else ''})"

    def _outcome_layers(self) -> tuple[int, int]:
        return outcome_layers(self.architecture, self.head_width, self.head_depth)

    def objective(self, family: str) -> RieszLoss:
        return RieszLoss(family, self.rr_weight, self.targeted_weight, self.srr)
