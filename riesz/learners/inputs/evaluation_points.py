"""The points at which learners evaluate functions: each row with every point at which its moment reads mu.

If the observed row is one of them (for a binary ATE it equals the a=1 or the a=0 point), it is not evaluated again. The covariates
are stored once.

Shapes: n rows, S points per row, t treatment columns, c covariates' inputs, R readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.constant_columns import Compact, as_it_is
from riesz.design.design import Design
from riesz.design.moment import Points
from riesz.learners.inputs.expansions import Expansion, Expansions, Role

Changed = tuple[npt.NDArray[np.intp], Array, Array | None]


@dataclass(frozen=True)
class EvaluationPoints:
    """The points of every row of a sample, as inputs of a learner.

    Attributes
    ----------
    expansions : Expansions
        How the inputs are made.
    covariates : ndarray, shape (n, c)
    treatment : ndarray, shape (n, S, t)
    tangent : ndarray, shape (n, S, t)
        Derivative of the treatment's inputs along the treatment, at points of derivative readings; zero elsewhere.
    raw : ndarray, shape (n, S, arms)
        The treatment itself.
    slope : ndarray, shape (S,)
        1 if some reading at this point is the derivative along the treatment.
    changed : dict
        From points to (columns of the covariate block, values, tangents or None), if a reading changes covariates.
    observed : ndarray of int, shape (n,)
        The point of the observed row.
    of_reading : ndarray of int, shape (R,)
        The point of each reading.
    sources : ndarray of int, shape (t + c + steps,)
        The covariate that each input is made from, -1 for the treatment.
    roles : ndarray of int, shape (t + c + steps,)
        The :class:`~riesz.learners.inputs.expansions.Role` of each input. The steps, if there are any, come last.
    x : ndarray, shape (covariates, n)
        The covariates as they are, from which steps are made; empty without steps.
    """

    expansions: Expansions
    covariates: Array
    treatment: Array
    tangent: Array
    raw: Array
    slope: Array
    changed: dict[int, Changed]
    observed: npt.NDArray[np.intp]
    of_reading: npt.NDArray[np.intp]
    sources: npt.NDArray[np.intp]
    roles: npt.NDArray[np.intp]
    x: Array

    @cached_property
    def by_input(self) -> Array:
        """The covariates with the rows of an input side by side, shape (c, n)."""
        return np.ascontiguousarray(self.covariates.T)

    def inputs(self, rows: npt.NDArray[np.intp]) -> Array:
        """The inputs of some observed rows, shape (b, t + c)."""
        return np.hstack([self.treatment[rows, self.observed[rows]], self.covariates[rows]])

    def take(self, rows: npt.NDArray[np.intp]) -> EvaluationPoints:
        """The points of some rows."""
        changed = {
            point: (columns, values[rows], None if tangents is None else tangents[rows])
            for point, (columns, values, tangents) in self.changed.items()
        }
        return replace(
            self,
            covariates=self.covariates[rows],
            treatment=self.treatment[rows],
            tangent=self.tangent[rows],
            raw=self.raw[rows],
            changed=changed,
            observed=self.observed[rows],
            x=self.x[:, rows],
        )


def make_evaluation_points(sample: Design, expansions: Expansions) -> EvaluationPoints:
    """Find the distinct points of a sample."""
    covariates = _Covariates(sample, expansions.covariates)
    observed_treatment = sample.treatment
    raws: list[Compact] = []
    slopes: list[float] = []
    changed: dict[int, Changed] = {}
    of_reading = []
    for reading in sample.readings():
        change = covariates.changed(reading)
        index = None
        if change is None:
            reading_treatment = reading.kept_treatment
            index = next((s for s, raw in enumerate(raws) if s not in changed and _alike(raw, reading_treatment)), None)
        if index is None:
            index = len(raws)
            raws.append(reading.kept_treatment)
            slopes.append(0.0)
            if change is not None:
                changed[index] = change
        slopes[index] = max(slopes[index], reading.treatment_slope)
        of_reading.append(index)
    observed = np.full(len(sample), -1, dtype=np.intp)
    for s, table in enumerate(raws):
        if s not in changed:
            observed[(observed < 0) & (table.dense() == observed_treatment).all(axis=1)] = s
    if (observed < 0).any():
        observed[:] = len(raws)
        raws.append(as_it_is(observed_treatment))
        slopes.append(0.0)
    raw, slope = np.stack([table.dense() for table in raws], axis=1), np.array(slopes)
    how = expansions.treatment
    if how is None:
        treatment, tangent = raw, np.broadcast_to(slope[:, None], raw.shape)
        roles = np.zeros(raw.shape[2], dtype=np.intp)
    else:
        treatment, tangent = how.features(raw[..., 0]), how.slopes(raw[..., 0]) * slope[:, None]
        roles = how.roles
    step_sources, _ = expansions.steps
    return EvaluationPoints(
        expansions=expansions,
        covariates=covariates.block,
        treatment=treatment,
        tangent=tangent,
        raw=raw,
        slope=slope,
        changed=changed,
        observed=observed,
        of_reading=np.array(of_reading, dtype=np.intp),
        sources=np.concatenate([np.full(treatment.shape[2], -1), covariates.sources, step_sources]),
        roles=np.concatenate([roles, covariates.roles, np.full(len(step_sources), Role.STEP)]),
        x=np.ascontiguousarray(sample.x.T) if len(step_sources) else np.empty((0, len(sample))),
    )


def _alike(left: Compact, right: Compact) -> bool:
    """Whether two treatments are the same on every row."""
    if left.is_constant and right.is_constant:
        return np.array_equal(left.constants, right.constants)
    return np.array_equal(left.dense(), right.dense())


def changes_covariates(sample: Design, point: Points) -> bool:
    """Whether a reading is at other covariates than the row's, or a derivative along one."""
    read = np.isin(point.columns, sample.covariates)
    if not read.any():
        return False
    along = point.tangents is not None and bool(point.tangents[:, read].any())
    return along or not np.array_equal(point.values[:, read], sample.z[:, point.columns[read]])


class _Covariates:
    """The covariates of a sample as inputs, and how a reading changes them."""

    def __init__(self, sample: Design, expansions: Sequence[Expansion]) -> None:
        self._sample = sample
        self._columns = sample.x
        self._expansions = expansions
        sizes = [how.size for how in self._expansions]
        ends = np.cumsum(sizes, dtype=np.intp)
        self._places = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        pieces = [how.features(column) for how, column in zip(self._expansions, self._columns.T, strict=True)]
        self.block: Array = np.hstack(pieces) if pieces else self._columns
        self.sources = np.repeat(np.arange(len(sizes)), sizes)
        self.roles = np.concatenate([np.zeros(0, dtype=np.intp), *(how.roles for how in self._expansions)])

    def changed(self, point: Points) -> Changed | None:
        """The columns of the block that a reading changes, their values and tangents; None if it changes none."""
        if not changes_covariates(self._sample, point):
            return None
        place = {int(column): j for j, column in enumerate(self._sample.covariates)}
        read = [k for k, column in enumerate(point.columns) if int(column) in place]
        columns, values, tangents = [], [], []
        for k in read:
            j = place[int(point.columns[k])]
            columns.append(self._places[j])
            values.append(self._expansions[j].features(point.values[:, k]))
            if point.tangents is not None:
                tangents.append(self._expansions[j].slopes(point.values[:, k]) * point.tangents[:, k, None])
        return np.concatenate(columns), np.hstack(values), np.hstack(tangents) if tangents else None
