"""What is left of a learner or a fit that a file cannot hold: its words and numbers, without the ability to predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners import Fit, Learner
from riesz.learners.base import Watch
from riesz.predictions import Predictions
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class RememberedLearner(Learner):
    """A learner of which only its description was stored.

    Attributes
    ----------
    words : str
    notes : tuple of str
        Its remarks on the fit.
    learns_rr : bool
    """

    words: str
    notes: tuple[str, ...]
    learns_rr: bool  # type: ignore[misc]  # of a class elsewhere, of one fit here

    def check(self, design: Design, rows: int) -> None:
        raise LearnerError(f"{self.words} was not stored with its settings, so it cannot be fitted again.")

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        raise LearnerError(f"{self.words} was not stored with its settings, so it cannot be fitted again.")

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        return list(self.notes)

    def describe(self, family: str) -> str:
        return self.words


@stored
@dataclass(frozen=True)
class RememberedFit(Fit):
    """A fit of which only its numbers were stored.

    Attributes
    ----------
    numbers : mapping
        Its details.
    course : ndarray, shape (epochs, columns)
        Its history.
    columns : tuple of str
    """

    numbers: Mapping[str, float]
    course: Array
    columns: tuple[str, ...]

    def predict(self, design: Design) -> Predictions:
        raise LearnerError(
            "This fit was loaded from a file that holds its estimates and predictions, but not what its learner learned, so it "
            "cannot predict new rows. Use the fit that was saved, or fit again."
        )

    def details(self) -> Mapping[str, float]:
        return self.numbers

    def history(self) -> pd.DataFrame:
        return pd.DataFrame(self.course, columns=list(self.columns))
