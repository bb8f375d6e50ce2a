"""Fitted forests: from averages over trees to mu and rr at rows and readings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked
from riesz.families import find_family
from riesz.learners.base import Fit
from riesz.learners.forest.dictionary import Dictionary
from riesz.learners.forest.regress import LocalSolutions
from riesz.learners.forest.sites import find_sites, read_functions
from riesz.learners.linear.learner import LinearFit
from riesz.predictions import Predictions
from riesz.storage.coding import stored

_MOST_NUMBERS = 2**22  # of the averages that are in memory at once


@stored
@dataclass(frozen=True)
class ForestFit(Fit):
    """Local solutions of mu and rr.

    Attributes
    ----------
    dictionary : Dictionary
    mu : LocalSolutions
        Without the outcome's mean.
    rr : LocalSolutions
    mean : float
        The outcome's, or that of the residuals of ``start``.
    start : LinearFit or None
        To which the local solutions are added.
    family : str
        That of the outcome, within whose limits mu is kept.
    scale_free : bool
    """

    dictionary: Dictionary
    mu: LocalSolutions
    rr: LocalSolutions
    mean: float
    start: LinearFit | None
    family: str
    scale_free: bool

    def predict(self, design: Design) -> Predictions:
        n, readings, links = len(design), len(design.is_derivative), design.links
        mu = Evaluation(np.empty(n), np.empty((readings, n)), np.zeros((readings, n)))
        at_links = (len(links.reading), n)
        rr = Linked(np.empty((design.components, n)), np.empty(at_links), np.zeros(at_links), links)
        width = self.rr.trees.means.shape[1] + (0 if self.dictionary.arms else self.dictionary.size**2)
        every = np.arange(readings)
        for place, block in design.blocks(max(_MOST_NUMBERS // width, 256)):
            points = _Points(self.dictionary, block)
            for observed, values, slopes in points.of(self.mu, [every]):
                mu.observed[place], mu.values[:, place], mu.slopes[:, place] = observed, values, slopes
            places = [links.of(c) for c in range(design.components)]
            parts = points.of(self.rr, [links.reading[of_component] for of_component in places])
            for c, (observed, values, slopes) in enumerate(parts):
                rr.observed[c, place], rr.values[places[c], place], rr.slopes[places[c], place] = (
                    observed,
                    values,
                    slopes,
                )
        mu = Evaluation(mu.observed + self.mean, mu.values + self.mean, mu.slopes)
        if self.start is not None:
            mu, rr = self._with_start(self.start.predict(design), design, mu, rr)
        limits = find_family(self.family).limits
        return Predictions(mu if limits is None else _between(mu, *limits), rr, self.scale_free)

    def _with_start(self, start: Predictions, design: Design, mu: Evaluation, rr: Linked) -> tuple[Evaluation, Linked]:
        """Add a linear regression; its rr is zero in the arms that a component does not read."""
        b, observed = self.dictionary.values(design.treatment), start.rr.observed.copy()
        for c in range(len(observed)):
            observed[c] *= (b[:, self.rr.function[self.rr.component == c]] != 0).any(axis=1)
        together = Evaluation(mu.observed + start.mu.observed, mu.values + start.mu.values, mu.slopes + start.mu.slopes)
        return together, Linked(
            rr.observed + observed, rr.values + start.rr.values, rr.slopes + start.rr.slopes, rr.links
        )

    def details(self) -> Mapping[str, float]:
        penalties = {f"rr_penalty_{c}": float(penalty) for c, penalty in enumerate(self.rr.penalties)}
        return {"penalty": float(self.mu.penalties[0]), **penalties}


class _Points:
    """The rows of a block and their readings, for any local solutions."""

    def __init__(self, dictionary: Dictionary, block: Design) -> None:
        self._dictionary, self._sites = dictionary, find_sites(block)
        self._observed = dictionary.values(block.treatment)
        self._read = [read_functions(dictionary, reading) for reading in block.readings()]

    def of(
        self, solutions: LocalSolutions, needed: Sequence[npt.NDArray[np.intp]]
    ) -> Iterator[tuple[Array, Array, Array]]:
        """For each component its function at the m rows, and at some readings with its slopes there, shape (r, m)."""
        by_site = zip(*(solutions.at(self._dictionary, points) for points in self._sites.covariates), strict=True)
        for readings, at_sites in zip(needed, by_site, strict=True):
            observed = _combine(self._observed, *at_sites[0])
            values, slopes = np.empty((len(readings), len(observed))), np.zeros((len(readings), len(observed)))
            for k, reading in enumerate(readings.tolist()):
                b, along = self._read[reading]
                solution = at_sites[self._sites.of_reading[reading]]
                values[k] = _combine(b, *solution)
                if along is not None:
                    slopes[k] = _combine(along, *solution)
            yield observed, values, slopes


def _combine(b: Array, functions: npt.NDArray[np.intp], theta: Array) -> Array:
    """Functions of b, shape (m, d) or (1, d), with coefficients of shape (m, f)."""
    return np.asarray((b[:, functions] * theta).sum(axis=1))


def _between(mu: Evaluation, low: float, high: float) -> Evaluation:
    """Mu between two limits; its slope is zero where it was not."""
    outside = (mu.values < low) | (mu.values > high)
    return Evaluation(np.clip(mu.observed, low, high), np.clip(mu.values, low, high), np.where(outside, 0.0, mu.slopes))
