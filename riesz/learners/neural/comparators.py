"""What learners of networks other than MADNet share: mu and rr are read from each network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from riesz.arrays import Array
from riesz.design.design import Base, Design
from riesz.learners.base import Fit
from riesz.learners.neural.base import NetworkLearner, TrainedNetwork
from riesz.learners.neural.covariates_only import observed_only, without_treatment
from riesz.learners.neural.engine.features import Expansions
from riesz.learners.neural.engine.fit import Ensemble, NetworkFit
from riesz.learners.neural.engine.reading import Networks, Reading
from riesz.learners.neural.engine.scaling import Scale, measure


@dataclass(frozen=True, kw_only=True)
class Comparator(NetworkLearner):
    """A learner that adds settings of its own, an objective and a reading."""

    @abstractmethod
    def _reading(self, network: NetworkFit, design: Design, seed: int) -> Reading:
        """How mu and rr are read from a network that was trained on a design with a seed."""

    def _fits(
        self, designs: Sequence[Design], seeds: Sequence[int], trained: Sequence[Sequence[TrainedNetwork]]
    ) -> list[Fit]:
        made: list[Fit] = []
        for design, seed, nets in zip(designs, seeds, trained, strict=True):
            own = tuple(net.fit for net in nets)
            made.append(Networks(Ensemble(own), tuple(self._reading(net, design, seed) for net in own)))
        return made


@dataclass(frozen=True, kw_only=True)
class ArmByArm(Comparator):
    """A comparator whose networks see covariates alone, with an outcome head for each arm; there is no anchor to scale."""

    @abstractmethod
    def _given(self, base: Base) -> Array:
        """Functions of the rows that the objective needs beside the outcome, shape (G, n)."""

    def _seen(self, base: Base) -> tuple[Base, Expansions]:
        return observed_only(base, self._given(base)), without_treatment(base, self.inputs == "splines")

    def _scale(self, design: Design, inputs: Array) -> Scale:
        return measure(design, inputs, self.inputs)
