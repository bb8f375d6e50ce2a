"""The trained networks of one training set as a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from riesz.design.design import Design
from riesz.learners.base import Fit
from riesz.learners.neural.engine.fit import NetworkFit
from riesz.learners.neural.objectives.base import Objective
from riesz.predictions import Predictions, average


@dataclass(frozen=True)
class Ensemble(Fit):
    """The networks of one training set, whose predictions are averaged.

    Attributes
    ----------
    networks : tuple of NetworkFit
    objective : Objective
        What they were trained for; it reads mu and rr from them.
    """

    networks: tuple[NetworkFit, ...]
    objective: Objective

    def predict_each(self, design: Design) -> list[Predictions]:
        """Predictions of each network."""
        return [self.objective.readout(network, design) for network in self.networks]

    def predict(self, design: Design) -> Predictions:
        return average(self.predict_each(design))

    def details(self) -> Mapping[str, float]:
        means = pd.DataFrame([network.details() for network in self.networks]).mean()
        return {str(name): float(value) for name, value in means.items()}

    def history(self) -> pd.DataFrame:
        histories = [network.history().assign(network=number) for number, network in enumerate(self.networks)]
        return pd.concat(histories, ignore_index=True)
