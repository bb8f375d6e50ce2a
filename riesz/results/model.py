"""What was asked of the data: kept beside the results, so that they can be read, re-tested and reported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.crossfit.trimming import Trimming
from riesz.design.design import Blueprint
from riesz.design.new_rows import Recipe
from riesz.design.table import Table
from riesz.inference import Weights
from riesz.learners import Learner


@dataclass(frozen=True)
class Model:
    """What was asked: the formula, the data and the settings of a fit.

    Attributes
    ----------
    recipe : Recipe
        Formula, estimands and what else new rows need.
    endog_names : str
        The outcome.
    exog_names : list of str
        The parameters, as tools that print tables of statsmodels results expect.
    covariates : tuple of str
        The columns of the data on the formula's right-hand side, the treatment left out.
    column_names : list of str
        The design's columns.
    blueprint : Blueprint
    table : Table
        The user's data.
    kept : ndarray of int
        The rows in use.
    learner : Learner
    estimator : str
    target : {"population", "sample"}
    weights : Weights
    weighting : str
        How rows are weighted, in words.
    seed : int
        What folds and fits were drawn from.
    trimming : Trimming or None
    n_jobs : int
        Threads that fits are spread over; 1 for a fit from a file.
    progress : bool or None
        Whether a progress bar is shown.
    """

    recipe: Recipe
    endog_names: str
    exog_names: list[str]
    covariates: tuple[str, ...]
    column_names: list[str]
    blueprint: Blueprint
    table: Table
    kept: npt.NDArray[np.intp]
    learner: Learner
    estimator: str
    target: str
    weights: Weights
    weighting: str
    seed: int
    trimming: Trimming | None
    n_jobs: int = 1
    progress: bool | None = None

    @property
    def formula(self) -> str:
        """The formula as the user wrote it."""
        return self.recipe.formula
