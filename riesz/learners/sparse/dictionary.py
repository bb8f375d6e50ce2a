"""The dictionary on which sparse functions are learned: the formula's columns, or splines and products with the treatment.

In: a design. Out: a design whose columns are the dictionary, and functions of its coefficients that can be evaluated on new rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.derived import with_columns
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked
from riesz.learners.expected_time import MOST_ROWS
from riesz.learners.inputs.evaluation_points import make_evaluation_points
from riesz.learners.inputs.expansions import Expansions
from riesz.learners.splines.feature_sets import Sample, all_features
from riesz.learners.splines.features import Features, Shares, SplineSolution
from riesz.learners.splines.learner import SplinesFit, measure
from riesz.storage.coding import stored

_MOST_NUMBERS = 8_000_000  # features times rows that are in memory at once
_LEAST_ROWS = 2000


class Dictionary(ABC):
    """Functions that a learner combines linearly."""

    @abstractmethod
    def columns(self, design: Design, seed: int) -> Design:
        """A design whose columns are the dictionary, on the same rows or a random part of them."""

    @abstractmethod
    def evaluate(self, design: Design, mu: Array, rr: Array) -> tuple[Evaluation, Linked]:
        """Linear functions of the dictionary at the rows of a design and where they are read; rr has shape (p, K)."""


@stored
@dataclass(frozen=True)
class FormulaDictionary(Dictionary):
    """The formula's columns."""

    def columns(self, design: Design, seed: int) -> Design:
        return design

    def evaluate(self, design: Design, mu: Array, rr: Array) -> tuple[Evaluation, Linked]:
        return design.linear_and_linked(mu, rr)


@stored
@dataclass(frozen=True)
class SplineDictionary(Dictionary):
    """Splines of the covariates (and of a continuous treatment), indicators of mass points, and their products with the treatment.

    Attributes
    ----------
    expansions : Expansions
    shares : Shares
    features : Features
    """

    expansions: Expansions
    shares: Shares
    features: Features

    def columns(self, design: Design, seed: int) -> Design:
        readings = 1 + len(design.is_derivative) * (2 if design.is_derivative.any() else 1)
        most = int(np.clip(_MOST_NUMBERS // (readings * len(self.features)), _LEAST_ROWS, MOST_ROWS))
        part = design.take(draw_part(len(design), most, seed))
        sample = Sample(part, make_evaluation_points(part, self.expansions), self.shares, seed)
        return with_columns(part, sample.pool(self.features).phi)

    def evaluate(self, design: Design, mu: Array, rr: Array) -> tuple[Evaluation, Linked]:
        functions = tuple(SplineSolution(self.features, theta, np.nan) for theta in (mu, *rr.T))
        predictions = SplinesFit(self.expansions, self.shares, functions, family="gaussian").predict(design)
        return predictions.mu, predictions.rr


def make_dictionary(sample: Design, name: str) -> Dictionary:
    """The dictionary of a whole sample, so that its folds share it: ``"formula"`` or ``"splines"``."""
    if name == "formula":
        return FormulaDictionary()
    expansions, shares = measure(sample, indicators=True)
    first = sample.take(np.arange(min(len(sample), 2)))
    points = make_evaluation_points(first, expansions)
    return SplineDictionary(expansions, shares, all_features(Sample(sample, points, shares, 0)))
