"""Adversarial networks as a learner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.check_settings import check_number, check_settings
from riesz.learners.expected_time import MANY, network_seconds
from riesz.learners.neural.base import PAPER_SETTINGS, PAPER_STAGES, NetworkLearner
from riesz.learners.neural.engine.schedule import Game, Keep
from riesz.learners.neural.engine.train_together import check_design
from riesz.learners.neural.objectives.adversarial_game import AdversarialGame
from riesz.storage.coding import stored

_EPOCHS = 60  # of a training set with thousands of rows
_PER_POINT = 3.5e-6  # seconds of an epoch, per row and value that the moment reads, with the default width


@stored
@dataclass(frozen=True, kw_only=True)
class AdversarialNet(NetworkLearner):
    r"""Adversarial networks: one learns rr and mu, another looks for the function that rr does not represent.

    It is :class:`~riesz.Adversarial` with networks in place of a Hilbert space, and serves every moment. The network has MADNet's
    shape and inputs; its adversary has the same shape. Both are trained at the same time with optimistic Adam steps, which damp the
    circling of the two players. rr has a scale and is never rescaled. Settings are keyword arguments.

    Parameters
    ----------
    head_width, head_depth : int
        Hidden layers of each outcome head.
    rr_weight : float
        Weight of the game in the network's loss, beside the loss of the outcome.
    weight_decay, penalty : float
        :math:`\kappa` and :math:`\lambda`: the norm of a network is that of its weights, so its price is its weight decay.
        ``penalty`` is the adversary's; by default it equals the network's.
    pace : float
        The adversary's learning rate, as a multiple of the network's.
    width, depth, stages, batch_size, momentum, bias_learning_rate, keep, inputs, networks, most_rows
    validation, redraw, device, side_by_side
        As for :class:`~riesz.MADNet`. ``bias_learning_rate`` is that of the network, not of its adversary.

    Notes
    -----
    For networks f and r, the latter with outcome heads for mu, both players descend on mini-batches of

    .. math::

        \min_{r, \mu} \max_f\; \mathrm{REGLoss}_n(y, \mu) + w \big( E_n[m(f) - r f] - E_n[f^2] \big)
        - \lambda \|f\|^2 + \kappa \|r, \mu\|^2 .

    If :math:`\Delta_t` is Adam's step, an optimistic step is :math:`2 \Delta_t - \Delta_{t-1}`. The value of the game says
    little about rr while the adversary learns, so training stops by the loss on held-out rows, where rr enters by the Riesz loss
    :math:`E_n[r^2 - 2 m(r)]`. ``fit.history`` has both.

    By default one network per training set, with a body of two layers of 64 units and outcome heads of two layers of 32. Settings
    were chosen by hand on three draws of two simulations of ``riesz.datasets`` (n = 1000, three folds). Relative errors of rr, in
    per cent, for the ATE and the ADE: 37 and 45 with Adam's usual momentum of 0.9, 35 and 42 without momentum, 34 and 42 with an
    adversary that also is three times as fast, 32 and 42 with these settings; plain steps instead of optimistic ones made no
    difference. :class:`~riesz.RieszNet` had 32 and 39 in three quarters of the time, and a kernel 24 and 36
    (:class:`~riesz.Adversarial`): where a loss can be minimised directly, an adversary is a detour.

    References
    ----------
    Chernozhukov, Newey, Singh and Syrgkanis (2020), "Adversarial estimation of Riesz representers".
    Dikkala, Lewis, Mackey and Syrgkanis (2020), "Minimax estimation of conditional moment models".
    Daskalakis, Ilyas, Syrgkanis and Zeng (2018), "Training GANs with optimism".

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> quick = riesz.AdversarialNet(width=16, head_width=8, stages=(riesz.Stage(1e-2, 20, 20),))
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=quick, folds=2)
    >>> fit.tidy()[["term", "estimate", "std_error"]].round(1)
      term  estimate  std_error
    0  ATE       1.3        0.2
    """

    keeps: ClassVar[tuple[Keep, ...]] = ("best", "each", "last")

    width: int = 64
    head_width: int = 32
    head_depth: int = 2
    rr_weight: float = 0.1
    penalty: float | None = None
    pace: float = 3.0
    weight_decay: float = 0.1
    momentum: float = 0.5
    keep: Keep = "each"
    most_rows: int | None = 20_000

    @classmethod
    def paper(cls, benchmark: Literal["ate", "ade"] = "ate", **changes: Any) -> AdversarialNet:
        """Sizes and stages of the paper's networks, so that training can be compared; keyword arguments change individual settings.

        The paper has no adversarial networks. The adversary learns as fast as the network, and as in all the paper's networks Adam
        has almost no momentum.

        Examples
        --------
        >>> import riesz
        >>> riesz.AdversarialNet.paper().width
        200
        """
        if benchmark not in PAPER_STAGES:
            raise LearnerError(f"AdversarialNet.paper({benchmark!r}): expected 'ate' or 'ade'.")
        settings: dict[str, Any] = {**PAPER_SETTINGS, "stages": PAPER_STAGES[benchmark]}
        return replace(cls(**settings, pace=1.0), **changes)

    def _check_own_settings(self) -> None:
        check_settings(self, {}, ["head_width", "head_depth"], [])
        for name in ("rr_weight", "pace"):
            check_number(self, name, "a positive number", above=0.0)
        if self.penalty is not None:
            check_number(self, "penalty", "a number, 0 or larger, or None for weight_decay", at_least=0.0)

    def seconds(self, design: Design, rows: int) -> float:
        inputs, rows = len(design.covariates), min(rows, self.most_rows or rows)
        epochs = min(sum(stage.epochs for stage in self.stages), _EPOCHS)
        points = len(design.is_derivative) + int(design.is_derivative.sum())  # a derivative costs as much as two values
        of_rows = _PER_POINT * points * rows * epochs * (self.width / 64)
        of_inputs = 2 * network_seconds(rows, inputs, self.width) if inputs >= MANY else 0.0
        return self.networks * (of_rows + of_inputs)

    def check(self, design: Design, rows: int) -> None:
        check_design(design, rows, self.device, "AdversarialNet")

    def describe(self, family: str) -> str:
        return "AdversarialNet"

    def _outcome_layers(self) -> tuple[int, int]:
        return self.head_width, self.head_depth

    def _game(self) -> Game:
        return Game(self.pace, self.weight_decay if self.penalty is None else self.penalty)

    def objective(self, family: str) -> AdversarialGame:
        return AdversarialGame(family, self.rr_weight)
