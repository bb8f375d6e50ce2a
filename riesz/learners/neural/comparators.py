"""What learners of networks other than MADNet share: mu and rr are read from each network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from riesz.design import Design
from riesz.learners.base import Fit
from riesz.learners.neural.fit import Ensemble, NetworkFit
from riesz.learners.neural.learner import NetworkLearner, TrainedNetwork
from riesz.learners.neural.reading import Networks, Reading


@dataclass(frozen=True, kw_only=True)
class Comparator(NetworkLearner):
    """A learner that adds settings of its own, an objective and a reading."""

    @abstractmethod
    def _reading(self, network: NetworkFit, design: Design) -> Reading:
        """How mu and rr are read from a network that was trained on a design."""

    def _fits(self, designs: Sequence[Design], trained: Sequence[Sequence[TrainedNetwork]]) -> list[Fit]:
        made: list[Fit] = []
        for design, nets in zip(designs, trained, strict=True):
            own = tuple(net.fit for net in nets)
            made.append(Networks(Ensemble(own), tuple(self._reading(net, design) for net in own)))
        return made
