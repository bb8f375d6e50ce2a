"""The points at which trees are evaluated: every row at each point that its moment reads, as rows of one table.

A table has the points one after the other: row i at point s is line ``s * n + i``. Its columns are the raw treatment, then the
covariates without the treatment.

Shapes: n rows, S points per row, t treatment columns, c covariates, R readings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.inputs.evaluation_points import make_evaluation_points
from riesz.learners.inputs.expansions import make_expansions


@dataclass(frozen=True)
class Table:
    """The points of a design's rows.

    Attributes
    ----------
    columns : ndarray, shape (S * n, t + c)
    arms : ndarray of int, shape (S * n,)
        The arm at each point, the reference 0; 0 throughout for a continuous treatment.
    observed : ndarray of int, shape (n,)
        The point of the observed row.
    of_reading : ndarray of int, shape (R,)
        The point of each reading.
    """

    columns: Array
    arms: npt.NDArray[np.intp]
    observed: npt.NDArray[np.intp]
    of_reading: npt.NDArray[np.intp]

    def lines(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """The lines of some rows at every point, shape (S, rows)."""
        n = len(self.observed)
        return np.arange(0, len(self.columns), n)[:, None] + rows

    def observed_lines(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """The lines of some rows where they were observed, shape (rows,)."""
        return np.asarray(self.observed[rows] * len(self.observed) + rows)

    def slopes(self, readings: npt.NDArray[np.intp], weights: Array) -> Array:
        """What a component multiplies a function by at each point, shape (S, rows), from its weights of some readings."""
        total = np.zeros((len(self.columns) // len(self.observed), weights.shape[1]))
        for point, weight in zip(self.of_reading[readings], weights, strict=True):
            total[point] += weight
        return total

    def read(self, values: Array) -> Evaluation:
        """A function known at every point, shape (..., S * n), at the rows and at their readings."""
        n = len(self.observed)
        at = values.reshape(*values.shape[:-1], -1, n)
        read = at[..., self.of_reading, :]
        return Evaluation(at[..., self.observed, np.arange(n)], read, np.zeros_like(read))


def make_table(design: Design) -> Table:
    """The points of a design without derivative readings."""
    points = make_evaluation_points(design, make_expansions(design, splines=False, indicators=False))
    blocks = []
    for place in range(points.raw.shape[1]):
        covariates = points.covariates
        if place in points.changed:
            changed, values, _ = points.changed[place]
            covariates = covariates.copy()
            covariates[:, changed] = values
        blocks.append(np.hstack([points.raw[:, place], covariates]))
    columns = np.vstack(blocks)
    treatments = design.treatment.shape[1]
    arms = np.zeros(len(columns))
    if design.strata is not None:
        arms = columns[:, :treatments] @ np.arange(1, treatments + 1)
    return Table(columns, arms.astype(np.intp), points.observed, points.of_reading)
