"""Placeholders for learners and fits that a file cannot hold: their description and numbers, without the ability to predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
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
    """A learner of which only the description was stored.

    Attributes
    ----------
    words : str
        The description that the summary shows.
    notes : tuple of str
        The learner's remarks on the fit.
    learns_rr : bool
        Whether the learner learns a Riesz representer.
    """

    words: str
    notes: tuple[str, ...]
    learns_rr: bool  # type: ignore[misc]  # a class attribute of other learners, here one per fit

    def check(self, design: Design, rows: int) -> None:
        raise LearnerError(f"{self.words} was not stored with its settings, so it cannot be fitted again.")

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        raise LearnerError(f"{self.words} was not stored with its settings, so it cannot be fitted again.")

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        return list(self.notes)

    def restore(self, content: Sequence[Any], sample: Design) -> Sequence[Fit]:
        return [_remember(fit) for fit in content]

    def describe(self, family: str) -> str:
        return self.words


@stored
@dataclass(frozen=True)
class RememberedFit(Fit):
    """A fit of which only the numbers were stored.

    Attributes
    ----------
    numbers : mapping
        The details of the fit.
    course : ndarray, shape (epochs, columns)
        The history of training.
    columns : tuple of str
        Names of the columns of the history.
    """

    numbers: Mapping[str, float]
    course: Array
    columns: tuple[str, ...]

    def predict(self, design: Design) -> Predictions:
        raise LearnerError(
            "This fit was loaded from a file that holds its estimates and predictions, but not the fitted learner, so it "
            "cannot predict new rows. Use the fit that was saved, or fit again."
        )

    def details(self) -> Mapping[str, float]:
        return self.numbers

    def history(self) -> pd.DataFrame:
        return pd.DataFrame(self.course, columns=list(self.columns))


@stored
@dataclass(frozen=True)
class BlendedNetworks:
    """Networks blended with a closed form on splines, as older files hold them (format 2).

    Attributes
    ----------
    networks : tuple
        Each has ``history``, the names of its ``columns``, and ``kept``, the row of the history at which its weights were kept.
    mu : ndarray, shape (arms,) or (1,)
        Weights of the closed form's mu.
    by_arm : bool
        Whether mu has a weight for each arm.
    rr : ndarray, shape (K,)
        Weights of the closed form's rr.
    """

    networks: tuple[Any, ...]
    mu: Array
    by_arm: bool
    rr: Array

    def weights(self) -> dict[str, float]:
        """The weights by the names that ``fit.details()`` used for them."""
        names = [f"closed_form_mu_{arm}" for arm in range(len(self.mu))] if self.by_arm else ["closed_form_mu"]
        mu = dict(zip(names, self.mu.tolist(), strict=True))
        return mu | {f"closed_form_rr_{c}": weight for c, weight in enumerate(self.rr.tolist())}


def _remember(content: Any) -> RememberedFit:
    """Keep the details and the history of networks whose learner this version no longer has."""
    details, histories = [], []
    for number, network in enumerate(content.networks):
        history = pd.DataFrame(network.history, columns=list(network.columns))
        kept = history.iloc[network.kept]
        numbers = {name: float(kept[name]) for name in ("valid_loss", "squeezed") if name in history}
        details.append({"epochs": float(len(history)), **numbers})
        histories.append(history.assign(network=number))
    means = {str(name): float(value) for name, value in pd.DataFrame(details).mean().items()}
    course = pd.concat(histories, ignore_index=True)
    return RememberedFit(means | content.weights(), course.to_numpy(dtype=np.float64), tuple(course.columns))
