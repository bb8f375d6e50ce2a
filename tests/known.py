"""A learner with given mu and propensity, so that results do not depend on learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.base import Fit, Learner, Watch
from riesz.predictions import Predictions

Array = np.ndarray


@dataclass(frozen=True)
class Known(Learner, Fit):
    """mu(0), mu(1) and p of every row, for a binary treatment coded 0 and 1; rr of the ATE or of the ATT."""

    mu: tuple[Array, Array]
    p: Array
    estimand: Literal["ATE", "ATT"] = "ATE"

    def predict(self, design: Design) -> Predictions:
        p = self.p[design.index]
        arms = (-1 / (1 - p), 1 / p) if self.estimand == "ATE" else (-p / (1 - p), np.ones_like(p))

        def at(pair: Sequence[Array]) -> Evaluation:
            def read(treatment: Array) -> Array:
                return np.where(treatment[:, 0] == 1, pair[1], pair[0])

            values = np.stack([read(reading.treatment) for reading in design.readings()])
            return Evaluation(read(design.treatment), values, np.zeros_like(values))

        mu = [values[design.index] for values in self.mu]
        rr = at(arms).map(lambda values: values[None]).linked(design.links)
        return Predictions(at(mu), rr, False)

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        return [self for _ in designs]

    def check(self, design: Design, rows: int) -> None:
        pass

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        return []

    def describe(self, family: str) -> str:
        return "known"

    def details(self) -> Mapping[str, float]:
        return {}

    def history(self) -> pd.DataFrame:
        return pd.DataFrame()
