"""What the rules of ``warnings.py`` are given: the tables, predictions and data of one fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.diagnostics.influence import Codes
from riesz.diagnostics.positivity import Positivity, TreatmentVariation
from riesz.inference import Clusters, Weights
from riesz.predictions import Predictions


@dataclass(frozen=True)
class Evidence:
    """The tables, predictions and data that the rules use.

    Attributes
    ----------
    predictions : Predictions
        Averaged over repeats.
    design : Design
        The full sample.
    names : sequence of str, length K
        The parameters.
    errors : pandas.Series
        Their standard errors.
    disagreement : ndarray, shape (K,)
        How far apart the learners of a stack are, in units of the estimates; 0 for a single learner.
    mu_apart, mu_gain : float
        From :func:`~riesz.crossfit.stacking.mu_apart`; NaN for a single learner.
    treatment : str
        Name of the treatment.
    arms : sequence of str
        Labels of its arms, in the order of ``design.strata``; empty for a continuous treatment.
    covariates : mapping of str to sequence of ndarray, each of shape (n,)
        Each covariate as it is in the data, and as the formula transforms it.
    positivity : Positivity or None
        Overlap, judged by a separately learned propensity; None for a continuous treatment.
    treatment_variation : TreatmentVariation or None
        The variation of a continuous treatment that covariates do not explain; None for arms.
    scale : pandas.DataFrame
        From :func:`~riesz.diagnostics.weights.learned_scale`, of rr before trimming.
    health : pandas.DataFrame
        From :func:`~riesz.diagnostics.weights.representer_health`, with anchor errors.
    balance : pandas.DataFrame
        From :func:`~riesz.diagnostics.balance.balance_table`.
    shapes : pandas.DataFrame
        From :func:`~riesz.diagnostics.balance.shape_balance`.
    stability : pandas.DataFrame
        From :func:`~riesz.diagnostics.influence.by_fold`.
    variation : ndarray, shape (n, K)
        What the covariance is computed from, averaged over repeats.
    weights : Weights
    clusters : tuple of ndarray of int, each of shape (n,)
    cluster_names : sequence of str
    """

    predictions: Predictions
    design: Design
    names: Sequence[str]
    errors: pd.Series
    disagreement: Array
    mu_apart: float
    mu_gain: float
    treatment: str
    arms: Sequence[str]
    covariates: Mapping[str, Sequence[Array]]
    positivity: Positivity | None
    treatment_variation: TreatmentVariation | None
    scale: pd.DataFrame
    health: pd.DataFrame
    balance: pd.DataFrame
    shapes: pd.DataFrame
    stability: pd.DataFrame
    variation: Array
    weights: Weights
    clusters: Clusters
    cluster_names: Sequence[str]

    @property
    def rows(self) -> float:
        """Number of rows that the frequency weights represent."""
        return float(self.weights.frequency.sum())

    @property
    def codes(self) -> Codes | None:
        """Cluster of each row, by the first clustering variable; None without clusters."""
        return self.clusters[0] if self.clusters else None
