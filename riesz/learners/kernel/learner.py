"""The closed form in a reproducing kernel Hilbert space as a learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked
from riesz.errors import LearnerError
from riesz.learners.base import Fit, Learner, Watch, need_covariates
from riesz.learners.check_settings import check_number, check_settings
from riesz.learners.expected_time import MOST_ROWS
from riesz.learners.kernel.sections import Inputs, Sections, draw_sections, measure_inputs
from riesz.learners.kernel.solve import solve
from riesz.learners.linear.learner import Penalty, need_identification, probability
from riesz.predictions import Predictions
from riesz.storage.coding import stored

_LANDMARKS = 500
_MOST_NUMBERS = 40_000_000  # sections times rows and readings that are in memory at once
_LEAST_ROWS = 2000  # used in any case, however many readings there are


@stored
@dataclass(frozen=True)
class Kernel(Learner):
    kernel: Literal["gaussian", "matern", "linear"] = "gaussian"
    scale: float | Literal["median"] = "median"
    penalty: Penalty = "loo"
    rr_penalty: Penalty = "loo"
    rr: Literal["constrained", "riesz"] = "constrained"
    landmarks: int | None = None

    def __post_init__(self) -> None:
        check_settings(self, {"kernel": ("gaussian", "matern", "linear"), "rr": ("constrained", "riesz")}, [], [])
        check_number(self, "scale", "a positive number, in median distances, or 'median'", above=0.0, or_word="median")
        for name in ("penalty", "rr_penalty"):
            check_number(self, name, "a number, 0 or larger, or 'loo'", at_least=0.0, or_word="loo")
            if getattr(self, name) == 0 and self.kernel != "linear":
                raise LearnerError(
                    f"Kernel({name}=0): with the {self.kernel} kernel a function could then pass through every row. Use "
                    f"{name}='loo' or a positive number, or kernel='linear'."
                )
        if self.landmarks is not None:
            check_settings(self, {}, ["landmarks"], [])

    def check(self, design: Design, rows: int) -> None:
        if self.kernel != "linear":
            need_covariates(design, "Kernel")
        need_identification(design, rows)

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        inputs: dict[int, Inputs] = {}
        fits = []
        for design, seed in zip(designs, seeds, strict=True):
            if design.key not in inputs:
                scale = 1.0 if self.scale == "median" else float(self.scale)
                inputs[design.key] = measure_inputs(design.sample, self.kernel, scale)
            fits.append(self._fit(design, inputs[design.key], seed))
            watch.done()
        return fits

    def _fit(self, design: Design, inputs: Inputs, seed: int) -> SectionsFit:
        sections = draw_sections(design, inputs, self.landmarks or _LANDMARKS, seed)
        places = 2 + len(design.is_derivative)
        most = int(np.clip(_MOST_NUMBERS // (len(sections) * places), _LEAST_ROWS, MOST_ROWS))
        part = design.take(draw_part(len(design), most, seed))
        constrained, logistic = self.rr == "constrained", design.family == "binomial"
        solution = solve(part, sections, self.penalty, self.rr_penalty, constrained, seed)
        facts = {**solution.chosen, "landmarks": float(len(sections))}
        return SectionsFit(sections, solution.mu, solution.rr, logistic, constrained, facts)

    def describe(self, family: str) -> str:
        return f"Kernel ({self.kernel}, rr {self.rr})"


@stored
@dataclass(frozen=True)
class SectionsFit(Fit):
    """Coefficients on kernel sections.

    Attributes
    ----------
    sections : Sections
    mu : ndarray, shape (1 + m,)
        The intercept first.
    rr : ndarray, shape (1 + m, K)
    logistic : bool
        Whether mu is the expit of its combination of sections.
    scale_free : bool
    chosen : mapping
        The penalties in use, and the number of landmarks.
    """

    sections: Sections
    mu: Array
    rr: Array
    logistic: bool
    scale_free: bool
    chosen: Mapping[str, float]

    def predict(self, design: Design) -> Predictions:
        n, readings, links = len(design), len(design.is_derivative), design.links
        mu = Evaluation(np.empty(n), np.empty((readings, n)), np.zeros((readings, n)))
        at_links = (len(links.reading), n)
        rr = Linked(np.empty((design.components, n)), np.empty(at_links), np.zeros(at_links), links)
        coefficients = np.column_stack([self.mu, self.rr])
        for place, block in design.blocks(self.sections.rows_at_once):
            values, _ = self._combine(block, None, coefficients)
            mu.observed[place], rr.observed[:, place] = values[0], values[1:]
            for k, reading in enumerate(block.readings()):
                of_reading = np.flatnonzero(links.reading == k)
                functions = np.append(0, 1 + links.component[of_reading])
                values, slopes = self._combine(block, reading, coefficients[:, functions])
                mu.values[k, place], rr.values[of_reading, place] = values[0], values[1:]
                mu.slopes[k, place], rr.slopes[of_reading, place] = slopes[0], slopes[1:]
        return Predictions(probability(mu) if self.logistic else mu, rr, self.scale_free)

    def _combine(self, block: Design, reading: Any, coefficients: Array) -> tuple[Array, Array]:
        """Functions at the rows of a block, or at one of its readings, and their derivatives; shape (functions, b)."""
        values, slopes = self.sections.at(self.sections.inputs.at(block, reading))
        combined = coefficients[0, :, None] + (values @ coefficients[1:]).T
        return combined, np.zeros_like(combined) if slopes is None else (slopes @ coefficients[1:]).T

    def details(self) -> Mapping[str, float]:
        return self.chosen
