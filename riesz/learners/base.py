"""The contract between a learner and the rest.

A :class:`Learner` is frozen settings. ``fit`` takes all designs of a problem at once (folds x repeats), so that a learner may
train them together; closed forms loop. Each design has a seed of its own, and its fit must not depend on its company.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from riesz.design import Design
from riesz.predictions import Predictions


class Fit(ABC):
    """What a learner has learned from one design."""

    @abstractmethod
    def predict(self, design: Design) -> Predictions:
        """Mu and rr at the rows of a design on the same base, and at each of their readings."""

    @abstractmethod
    def details(self) -> Mapping[str, float]:
        """Numbers worth reporting about this fit, such as the penalty that was chosen."""

    @abstractmethod
    def history(self) -> pd.DataFrame:
        """The course of training, one row an epoch; empty for closed forms."""


class Learner(ABC):
    """Settings of a way to learn mu and rr; holds no state."""

    @abstractmethod
    def check(self, design: Design, rows: int) -> None:
        """Raise :class:`~riesz.errors.LearnerError` when the full design, or training sets as small as ``rows``, cannot do."""

    @abstractmethod
    def fit(self, designs: Sequence[Design], seeds: Sequence[int], done: Callable[[], object]) -> Sequence[Fit]:
        """Fit every design; the i-th fit depends on the i-th design and seed only. Call ``done`` after each."""

    @abstractmethod
    def remarks(self, design: Design) -> list[str]:
        """What a reader of the summary should know about this learner on this design; often nothing."""

    @abstractmethod
    def describe(self, family: str) -> str:
        """A short text for the summary."""
