"""What all learners of networks share: settings, and training from designs to networks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import pandas as pd

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.families import MEANS
from riesz.learners.base import Fit, Learner, Watch
from riesz.learners.check_settings import check_settings
from riesz.learners.inputs.expansions import Expansions, make_expansions
from riesz.learners.neural.engine.batching import Feed, Scales
from riesz.learners.neural.engine.ensemble import Ensemble
from riesz.learners.neural.engine.fit import NetworkFit
from riesz.learners.neural.engine.network import Shape
from riesz.learners.neural.engine.scaling import Inputs, Scale, make_scale
from riesz.learners.neural.engine.schedule import USUAL_MOMENTUM, Game, Keep, Schedule, Stage
from riesz.learners.neural.engine.storage import StoredNetworks, restore, store
from riesz.learners.neural.engine.train_together import (
    Countdown,
    draw_members,
    find_device,
    fit_by_signature,
    train_members,
)
from riesz.learners.neural.engine.training import Member
from riesz.learners.neural.objectives.base import Objective

_MOST_SIDE_BY_SIDE = 10**6  # accepted from a file; more would fill the memory in a refit

#: The stages of the paper's supplement, for its ATE and its ADE benchmark.
PAPER_STAGES = {
    "ate": (Stage(1e-4, 100, 2), Stage(1e-5, 600, 40)),
    "ade": (Stage(1e-3, 100, 2), Stage(1e-4, 300, 20)),
}

#: The paper's other settings that MADNet and the comparators share: sizes, units, optimiser, rows. The larger learning rate of the
#: treatment's main effect is not among them; only MADNet has it.
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
    "most_rows": None,
    "validation": 0.2,
    "redraw": True,
}


@dataclass(frozen=True, kw_only=True)
class NetworkLearner(Learner):
    """Settings of networks and of their training; a learner adds further settings and an objective.

    Parameters
    ----------
    width, depth, stages, batch_size, weight_decay, momentum, bias_learning_rate, inputs, networks, most_rows
    validation, redraw, device, side_by_side
        As :class:`~riesz.MADNet` documents them.
    keep : str
        Weights kept after training: one of ``keeps``.
    """

    one_thread: ClassVar[bool] = True
    families: ClassVar[tuple[str, ...]] = MEANS
    keeps: ClassVar[tuple[Keep, ...]] = ("best", "last")

    width: int = 128
    depth: int = 2
    stages: tuple[Stage, ...] = (Stage(1e-3, 300, 30),)
    batch_size: int = 64
    weight_decay: float = 1e-2
    momentum: float = USUAL_MOMENTUM
    bias_learning_rate: float | None = None
    keep: Keep = "best"
    inputs: Inputs = "standard"
    networks: int = 1
    most_rows: int | None = None
    validation: float = 0.2
    redraw: bool = False
    device: str = "auto"
    side_by_side: int | None = None

    @classmethod
    def example(cls) -> Learner:
        small: dict[str, Any] = {
            "width": 16,
            "depth": 1,
            "head_width": 8,
            "head_depth": 1,
            "batch_size": 32,
            "repeats": 1,
        }
        settings = {field.name for field in fields(cls)}
        return cls(stages=(Stage(1e-2, 6, 6),), **{name: value for name, value in small.items() if name in settings})

    def __post_init__(self) -> None:
        choices = {"keep": self.keeps, "inputs": ("standard", "paper"), "redraw": (True, False)}
        whole_numbers = [
            "width",
            "depth",
            "batch_size",
            "networks",
            *(name for name in ("side_by_side", "most_rows") if getattr(self, name) is not None),
        ]
        numbers = [
            "weight_decay",
            "momentum",
            "validation",
            *(["bias_learning_rate"] if self.bias_learning_rate is not None else []),
        ]
        check_settings(self, choices, whole_numbers, numbers)
        name = type(self).__name__
        if not self.momentum < 1:
            raise LearnerError(f"{name}(momentum={self.momentum!r}): expected a share below 1.")
        if not 0 < self.validation <= 0.5:
            raise LearnerError(f"{name}(validation={self.validation!r}): expected a share between 0 and a half.")
        stages: object = self.stages
        if not isinstance(stages, (tuple, list)) or not stages or not all(isinstance(stage, Stage) for stage in stages):
            raise LearnerError(
                f"{name}(stages={stages!r}): expected one or more stages, such as (riesz.Stage(learning_rate=1e-3, epochs=300),)."
            )
        self._check_own_settings()

    @abstractmethod
    def _check_own_settings(self) -> None:
        """Refuse settings of the subclass."""

    def _training_sample(self, sample: Design) -> tuple[Design, Expansions]:
        """The sample that networks are trained on, and how their inputs, treatment and covariates, are made from it."""
        return sample, make_expansions(sample, splines=False, indicators=self.inputs == "standard")

    @abstractmethod
    def _outcome_layers(self) -> tuple[int, int]:
        """Width and number of the hidden layers of each outcome head."""

    def _game(self) -> Game | None:
        """How adversaries are trained; by default networks have none."""
        return None

    def _shape(self, feed: Feed, components: int, objective: Objective) -> Shape:
        """Sizes of a network for a moment with this number of components."""
        linear, extras = objective.heads(components)
        return Shape(feed.inputs, linear, feed.heads, self.width, self.depth, *self._outcome_layers(), extras=extras)

    def _scale(self, design: Design, inputs: Array) -> Scale:
        """The scales of a training set and of its anchor."""
        return make_scale(design, inputs, self.inputs)

    @abstractmethod
    def objective(self, family: str) -> Objective:
        """What the networks minimise, and how mu and rr are read from them."""

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        return []

    def store(self, fit: Any) -> StoredNetworks:
        return store(fit)

    def restore(self, content: Sequence[Any], sample: Design) -> Sequence[Fit]:
        for fit in content:
            self._check_sizes(fit)
        return restore(content, sample, self.objective(sample.family))

    def _check_sizes(self, fit: StoredNetworks) -> None:
        """Refuse networks from a file whose sizes differ from the settings, which a refit uses: a file may claim any size."""
        sizes = (self.width, self.depth, *self._outcome_layers())
        shapes = [network.shape for network in fit.networks]
        same_sizes = all((shape.width, shape.depth, shape.head_width, shape.head_depth) == sizes for shape in shapes)
        if not same_sizes or len(shapes) != self.networks or (self.side_by_side or 0) > _MOST_SIDE_BY_SIDE:
            raise ValueError("the networks' sizes differ from the settings")

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        return fit_by_signature(designs, seeds, lambda group, group_seeds: self._train(group, group_seeds, watch))

    def _train(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> list[Fit]:
        """Train the networks of designs that can share a feed."""
        samples = {design.key: design.sample for design in designs}
        training = {key: self._training_sample(sample) for key, sample in samples.items()}
        inputs = [expansions for _, expansions in training.values()]
        feed = Feed([sample for sample, _ in training.values()], find_device(self.device), inputs)
        objective = self.objective(designs[0].family)
        shape = self._shape(feed, designs[0].components, objective)
        members: list[Member] = []
        for design, seed in zip(designs, seeds, strict=True):
            rows = design.index
            if self.most_rows is not None:
                rows = rows[draw_part(len(rows), self.most_rows, seed)]
            trained_on = training[design.key][0].take(rows)
            scale = self._scale(trained_on, feed.inputs_of(trained_on))
            draws = len(self.stages) if self.redraw else 1
            members += draw_members(trained_on, seed, feed, scale, self.networks, self.validation, draws)
        schedule = Schedule(
            self.stages,
            self.batch_size,
            self.weight_decay,
            self.momentum,
            self.bias_learning_rate,
            self.keep,
            self._game(),
        )
        Scales([(member.scale, member.origin) for member in members], feed)  # refuses what single precision cannot hold
        countdown = Countdown(watch, self.networks, len(members))
        trained = train_members(feed, members, shape, objective, schedule, self.side_by_side, countdown)
        networks = [
            NetworkFit(weights, shape, member.scale, feed, member.origin)
            for weights, member in zip(trained, members, strict=True)
        ]
        results: list[Fit] = []
        for number, (design, seed) in enumerate(zip(designs, seeds, strict=True)):
            part = slice(number * self.networks, (number + 1) * self.networks)
            solved = [replace(net, solved=objective.solve(net, design, seed)) for net in networks[part]]
            results.append(Ensemble(tuple(solved), objective))
        return results
