"""The trained networks of one training set as a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from riesz.design.design import Design
from riesz.learners.base import Fit
from riesz.learners.neural.engine.fit import ROWS, NetworkFit
from riesz.learners.neural.objectives.base import Objective
from riesz.predictions import Predictions, average, join

_MOST_NUMBERS = 2**25  # that a network puts out at once


@dataclass(frozen=True)
class Ensemble(Fit):
    """The networks of one training set, whose predictions are averaged.

    Attributes
    ----------
    networks : tuple of NetworkFit
    objective : Objective
        What they were trained to minimise; it reads mu and rr from them.
    """

    networks: tuple[NetworkFit, ...]
    objective: Objective

    def predict_each(self, design: Design) -> list[Predictions]:
        """Predictions of each network, computed in blocks of rows, because every function is evaluated at every reading."""
        shape = self.networks[0].shape
        numbers = (1 + len(design.is_derivative)) * max(shape.components + shape.outcomes, shape.width)
        size = max(_MOST_NUMBERS // numbers, 256)
        blocks = list(design.blocks(size - size % ROWS if size > ROWS else size))
        rows = [np.arange(len(design))[place] for place, _ in blocks]
        return [
            join([self.objective.readout(network, block) for _, block in blocks], rows) for network in self.networks
        ]

    def predict(self, design: Design) -> Predictions:
        return average(self.predict_each(design))

    def details(self) -> Mapping[str, float]:
        means = pd.DataFrame([network.details() for network in self.networks]).mean()
        return {str(name): float(value) for name, value in means.items()}

    def history(self) -> pd.DataFrame:
        histories = [network.history().assign(network=number) for number, network in enumerate(self.networks)]
        return pd.concat(histories, ignore_index=True)
