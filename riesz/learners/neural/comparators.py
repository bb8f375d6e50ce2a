"""What learners of networks other than MADNet share: settings, and training from designs to fits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from riesz.design import Base, Design
from riesz.learners.base import Fit, Learner, Watch
from riesz.learners.neural.batching import Feed
from riesz.learners.neural.expansion import Expansions
from riesz.learners.neural.fit import Ensemble, NetworkFit
from riesz.learners.neural.network import Shape
from riesz.learners.neural.networks import (
    Countdown,
    check_settings,
    check_training,
    draw_members,
    find_device,
    fit_by_signature,
    train_members,
)
from riesz.learners.neural.objectives.base import Objective
from riesz.learners.neural.reading import Networks, Reading
from riesz.learners.neural.scaling import Inputs, Scale
from riesz.learners.neural.training import USUAL_MOMENTUM, Schedule, Stage
from riesz.moment import Array

#: The stages of the paper's supplement, for its ATE and its ADE benchmark.
PAPER_STAGES = {
    "ate": (Stage(1e-4, 100, 2), Stage(1e-5, 600, 40)),
    "ade": (Stage(1e-3, 100, 2), Stage(1e-4, 300, 20)),
}

#: Its other settings that the comparators share with MADNet: sizes, units, optimiser. Not the larger learning rate of the
#: treatment's main effect, which is MADNet's alone.
PAPER_SETTINGS = {
    "width": 200,
    "depth": 3,
    "head_width": 100,
    "head_depth": 2,
    "batch_size": 64,
    "weight_decay": 1e-3,
    "momentum": 1e-3,
    "keep": "last",
    "inputs": "paper",
    "networks": 1,
    "validation": 0.2,
}


@dataclass(frozen=True, kw_only=True)
class NetworkLearner(Learner):
    """Settings of networks and of their training; a comparator adds its own, an objective and a reading.

    Parameters
    ----------
    width, depth : int
        Hidden layers of the shared body.
    stages : tuple of Stage
        Learning rates, epochs and patience, one stage after the other; a stage may halve its learning rate on a plateau.
    batch_size : int
    weight_decay : float
        Decoupled (AdamW).
    momentum : float
        The share of its last average that Adam's average of the gradients keeps at each step.
    bias_learning_rate : float, optional
        Of the output biases of the outcome heads but the first, so of the treatment's main effect on mu; by default that of the
        stage.
    keep : {"best", "last"}
        Weights kept: those with the best validation loss, or the last.
    inputs : {"standard", "splines", "paper"}
        Standardise everything; give numeric inputs as features of a natural cubic spline, too; or change only what the paper
        does.
    networks : int
        Networks for each training set, whose predictions are averaged; each keeps other rows for validation.
    validation : float
        Share of a training set that decides when to stop.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
    stack : int, optional
        Networks trained side by side at the most. Affects speed only.
    """

    one_thread: ClassVar[bool] = True

    width: int = 128
    depth: int = 2
    stages: tuple[Stage, ...] = (Stage(1e-3, 300, 30),)
    batch_size: int = 64
    weight_decay: float = 1e-2
    momentum: float = USUAL_MOMENTUM
    bias_learning_rate: float | None = None
    keep: Literal["best", "last"] = "best"
    inputs: Inputs = "standard"
    networks: int = 1
    validation: float = 0.2
    device: str = "auto"
    stack: int | None = None

    def __post_init__(self) -> None:
        choices = {"keep": ("best", "last"), "inputs": ("standard", "splines", "paper")}
        whole = ["width", "depth", "batch_size", "networks", *(["stack"] if self.stack is not None else [])]
        numbers = ["weight_decay", "momentum", *(["bias_learning_rate"] if self.bias_learning_rate is not None else [])]
        check_settings(self, choices, whole, numbers)
        check_training(self)
        self._check_own_settings()

    @abstractmethod
    def _check_own_settings(self) -> None:
        """Refuse settings of the subclass."""

    @abstractmethod
    def _seen(self, base: Base) -> tuple[Base, Expansions]:
        """The base that networks are trained on, and how their inputs are made from it."""

    @abstractmethod
    def _shape(self, feed: Feed, components: int) -> Shape:
        """Sizes of a network, for so many components of the moment."""

    @abstractmethod
    def _scale(self, design: Design, inputs: Array) -> Scale:
        """Units of a training set."""

    @abstractmethod
    def _objective(self, family: str) -> Objective:
        """What is minimised."""

    @abstractmethod
    def _reading(self, network: NetworkFit, design: Design) -> Reading:
        """How mu and rr are read from a network that was trained on a design."""

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        return []

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        return fit_by_signature(designs, seeds, lambda some, own: self._train(some, own, watch))

    def _train(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> list[Fit]:
        """Train the networks of designs that can share a feed."""
        bases = {id(design.base): design.base for design in designs}
        seen = {key: self._seen(base) for key, base in bases.items()}
        feed = Feed([base for base, _ in seen.values()], find_device(self.device), [how for _, how in seen.values()])
        shape = self._shape(feed, designs[0].components)
        members = []
        for design, seed in zip(designs, seeds, strict=True):
            own = replace(design, base=seen[id(design.base)][0])
            rows = np.arange(len(own.base.y))[own.rows]
            scale = self._scale(own, feed.inputs_of(own.base, rows))
            members += draw_members(own, seed, feed, scale, self.networks, self.validation)
        schedule = Schedule(
            self.stages, self.batch_size, self.weight_decay, self.momentum, self.bias_learning_rate, self.keep
        )
        objective = self._objective(designs[0].base.family)
        trained = train_members(feed, members, shape, objective, schedule, self.stack, Countdown(watch, self.networks))
        nets = [
            NetworkFit(one, shape, member.scale, feed, member.origin, None)
            for one, member in zip(trained, members, strict=True)
        ]
        made: list[Fit] = []
        for number, design in enumerate(designs):
            own_nets = tuple(nets[number * self.networks : (number + 1) * self.networks])
            made.append(Networks(Ensemble(own_nets), tuple(self._reading(net, design) for net in own_nets)))
        return made
