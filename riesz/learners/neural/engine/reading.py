r"""How mu and rr are read from trained networks that are not moment-constrained.

A :class:`Reading` stands beside the objective that a network was trained for, and turns its heads into predictions. The
Scharfstein-Rotnitzky-Robins correction is one of mu's index, :math:`\mu + \sum_c \varepsilon_c \alpha_c`, with
:math:`\varepsilon` learned in training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.base import Fit
from riesz.learners.neural.engine.fit import Ensemble, NetworkFit
from riesz.predictions import Predictions, average


class Reading(ABC):
    """What a trained network says of mu and rr."""

    @abstractmethod
    def read(self, network: NetworkFit, design: Design) -> Predictions:
        """Mu and rr at the rows of a design, in natural units; called once for each network of a training set."""


@dataclass(frozen=True)
class Networks(Fit):
    """The networks of one training set, each with its reading; predictions are averaged."""

    ensemble: Ensemble
    readings: tuple[Reading, ...]

    def predict(self, design: Design) -> Predictions:
        each = zip(self.readings, self.ensemble.fits, strict=True)
        return average([reading.read(network, design) for reading, network in each])

    def details(self) -> Mapping[str, float]:
        return self.ensemble.details()

    def history(self) -> pd.DataFrame:
        return self.ensemble.history()


def corrected(index: Evaluation, rr: Evaluation, epsilon: Array) -> Evaluation:
    """The index of mu, shape (n,), plus epsilon, shape (K,), times rr, shape (K, n)."""

    def add(values: Array, more: Array) -> Array:
        return np.asarray(values + np.tensordot(epsilon, more, 1))

    return Evaluation(add(index.observed, rr.observed), add(index.values, rr.values), add(index.slopes, rr.slopes))
