"""The model of a fit: formula, data, settings, and the arrays made from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.design.design import Blueprint
from riesz.design.new_rows import Recipe
from riesz.design.table import Table
from riesz.inference import Weights
from riesz.learners import Learner
from riesz.settings import Settings


@dataclass(frozen=True)
class Model:
    """The settings of a fit, and what was prepared from them and the data.

    Attributes
    ----------
    settings : Settings
        The keywords of the call.
    recipe : Recipe
        The formula, the estimands and whatever else new rows need.
    endog_names : str
        Name of the outcome.
    exog_names : list of str
        Names of the parameters. The attribute has the name that tools for tables of statsmodels results expect.
    covariates : tuple of str
        Columns of the data on the right-hand side of the formula, without the treatment.
    column_names : list of str
        Names of the design's columns.
    blueprint : Blueprint
    table : Table
        The user's data.
    kept : ndarray of int, shape (n,)
        Positions of the rows in use.
    weights : Weights
        The weights of the rows in use; ``settings.weights`` and ``settings.freq_weights`` are the arguments.
    weighting : str
        How rows are weighted, as the summary shows it.
    """

    settings: Settings
    recipe: Recipe
    endog_names: str
    exog_names: list[str]
    covariates: tuple[str, ...]
    column_names: list[str]
    blueprint: Blueprint
    table: Table
    kept: npt.NDArray[np.intp]
    weights: Weights
    weighting: str

    @property
    def formula(self) -> str:
        """The formula as the user wrote it."""
        return self.recipe.formula

    @property
    def learner(self) -> Learner:
        """The learner of the settings."""
        return self.settings.learner
