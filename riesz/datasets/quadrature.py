"""Quadrature over a simulation's population: the product of the covariates' rules and the treatment's.

Averages over a :class:`Grid` are expectations; :class:`riesz.datasets.simulation.Simulation` computes its truth from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.datasets.assignment import Assignment
from riesz.datasets.covariates import Covariate


@dataclass(frozen=True)
class Grid:
    """Rows with probabilities.

    Attributes
    ----------
    frame : pandas.DataFrame
        Covariates and treatment, n rows.
    probability : ndarray, shape (n,)
        Sums to one.
    """

    frame: pd.DataFrame
    probability: Array

    def mean(self, values: Any) -> Array:
        """Expectations of functions, given their values at the rows, shape (..., n) -> (...)."""
        return np.asarray(np.asarray(values, dtype=float) @ self.probability)


def product_grid(covariates: Sequence[Covariate], assignment: Assignment, more: int) -> Grid:
    """Every combination of the covariates' points, with the treatment's points given each combination.

    Parameters
    ----------
    covariates : sequence of Covariate
    assignment : Assignment
    more : int
        Additional points per panel; negative for a coarser grid.

    Returns
    -------
    Grid
    """
    rules = [covariate.rule(more) for covariate in covariates]
    index = np.indices([len(rule.probabilities) for rule in rules]).reshape(len(rules), -1)
    probability = np.prod([rule.probabilities[i] for rule, i in zip(rules, index, strict=True)], axis=0)
    x = pd.DataFrame({c.name: rule.values[i] for c, rule, i in zip(covariates, rules, index, strict=True)})
    values, given_x = assignment.nodes(x, more)
    frame = x.iloc[np.repeat(np.arange(len(x)), values.shape[1])].reset_index(drop=True)
    frame.insert(0, assignment.treatment.name, assignment.column(values.ravel()))
    return Grid(frame, (probability[:, None] * given_x).ravel())
