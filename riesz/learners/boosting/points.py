"""Where trees look: every row at each point that its moment reads, as rows of one table.

The distinct points of a row are its stations, as for networks. A table has the stations one after the other: row i at station s is
line ``s * n + i``. Its columns are the raw treatment, then the covariates without the treatment.

Shapes: n rows, S stations, t treatment columns, c covariates, R readings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.neural.engine.features import Expansions, plain
from riesz.learners.neural.engine.points import make_stations


@dataclass(frozen=True)
class Table:
    """The points of a design's rows.

    Attributes
    ----------
    columns : ndarray, shape (S * n, t + c)
    arms : ndarray of int, shape (S * n,)
        The arm at each point, the reference 0; 0 throughout for a continuous treatment.
    observed : ndarray of int, shape (n,)
        The station of the observed row.
    of_reading : ndarray of int, shape (R,)
        The station of each reading.
    """

    columns: Array
    arms: npt.NDArray[np.intp]
    observed: npt.NDArray[np.intp]
    of_reading: npt.NDArray[np.intp]

    def lines(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """The lines of some rows at every station, shape (S, rows)."""
        n = len(self.observed)
        return np.arange(0, len(self.columns), n)[:, None] + rows

    def observed_lines(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """The lines of some rows where they were observed, shape (rows,)."""
        return np.asarray(self.observed[rows] * len(self.observed) + rows)

    def slopes(self, weights: Array) -> Array:
        """What components multiply a function by at each station, shape (K, S, rows), from the readings' (K, R, rows)."""
        stations = len(self.columns) // len(self.observed)
        total = np.zeros((weights.shape[0], stations, weights.shape[2]))
        for reading, station in enumerate(self.of_reading):
            total[:, station] += weights[:, reading]
        return total

    def read(self, values: Array) -> Evaluation:
        """A function known at every point, shape (..., S * n), at the rows and at their readings."""
        n = len(self.observed)
        at = values.reshape(*values.shape[:-1], -1, n)
        read = at[..., self.of_reading, :]
        return Evaluation(at[..., self.observed, np.arange(n)], read, np.zeros_like(read))


def make_table(design: Design) -> Table:
    """The points of a design without derivative readings."""
    stations = make_stations(design, Expansions(None, tuple(plain() for _ in design.covariates)))
    blocks = []
    for station in range(stations.raw.shape[1]):
        covariates = stations.covariates
        if station in stations.changed:
            places, values, _ = stations.changed[station]
            covariates = covariates.copy()
            covariates[:, places] = values
        blocks.append(np.hstack([stations.raw[:, station], covariates]))
    columns = np.vstack(blocks)
    treatments = design.treatment.shape[1]
    arms = np.zeros(len(columns))
    if design.strata is not None:
        arms = columns[:, :treatments] @ np.arange(1, treatments + 1)
    return Table(columns, arms.astype(np.intp), stations.observed, stations.of_reading)
