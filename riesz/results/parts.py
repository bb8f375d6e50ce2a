"""The parts of a fit: the model, the cross-fit, the clusters and the estimates. The functions of this folder take them.

Results that several functions need are computed on first use and kept, so that a summary computes no score twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from riesz.arrays import Array, ratio
from riesz.crossfit.candidates import CrossFit
from riesz.crossfit.stacking import Stacking
from riesz.design.arm_numbers import arm_numbers
from riesz.design.design import Design
from riesz.design.table import ClusterLabels
from riesz.diagnostics.balance import balance_table, shape_balance
from riesz.diagnostics.influence import Codes
from riesz.diagnostics.positivity import Positivity, TreatmentVariation, positivity, treatment_variation
from riesz.diagnostics.weights import representer_health, with_anchor_errors
from riesz.errors import RieszError
from riesz.estimators import ESTIMATORS, Estimator, Scores
from riesz.inference import Alternatives, Estimate, Inference, Projection, Sampling, infer
from riesz.learners.stack import describe_all
from riesz.predictions import Predictions, average
from riesz.results.model import Model


@dataclass(frozen=True)
class FitParts:
    """The parts of a fit: the model, the predictions and the estimates.

    Attributes
    ----------
    model : Model
    crossfit : CrossFit
    clusters : ClusterLabels
    inference : Inference
        The estimates by ``model.settings.estimator``, with the scores they come from.
    alternatives : tuple of Alternatives, one per repeat
        The scores of a stack's candidates; empty for a single learner.
    """

    model: Model
    crossfit: CrossFit
    clusters: ClusterLabels
    inference: Inference
    alternatives: tuple[Alternatives, ...]

    @property
    def design(self) -> Design:
        """The full sample."""
        return self.model.blueprint.design

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return self.model.exog_names

    @property
    def index(self) -> pd.Index:
        """Labels of the rows in use."""
        return self.model.table.index(self.model.kept)

    @property
    def data(self) -> pd.DataFrame:
        """The rows in use, with their labels."""
        return self.model.blueprint.data.set_axis(self.index, axis=0)

    @property
    def codes(self) -> Codes | None:
        """Cluster of each row, by the first clustering variable; None without clusters."""
        return self.clusters.codes[0] if self.clusters.codes else None

    @property
    def units(self) -> pd.Index:
        """Labels of the clusters, or of the rows if there are no clusters."""
        return self.clusters.labels[0] if self.clusters.labels else self.index

    @property
    def folds(self) -> int:
        """Number of folds."""
        return int(self.crossfit.folds[0].max()) + 1

    @property
    def learner(self) -> str:
        """The learner, as text; of a stack, the learners that could be used."""
        return describe_all([candidate.learner for candidate in self.crossfit.candidates], self.design.family)

    @property
    def arms(self) -> list[str]:
        """Labels of the treatment's arms; empty for a continuous treatment."""
        treatment = self.model.blueprint.treatment
        return [treatment.label(level) for level in treatment.levels]

    @cached_property
    def predictions(self) -> Predictions:
        """Mu and rr per row, averaged over repeats."""
        return average(self.crossfit.predictions)

    @cached_property
    def averaged(self) -> Estimate:
        """The estimate, with influence function and variation averaged over repeats."""
        return self.inference.averaged()

    def influence(self) -> Estimate:
        """The averaged estimate; an error if the learner learns only mu, because there is then no influence function."""
        self.require_rr()
        return self.averaged

    @cached_property
    def health(self) -> pd.DataFrame:
        """The health of rr, one row per parameter; diagnostics that users register are not in it."""
        self.require_rr()
        table = representer_health(self.predictions, self.design).set_axis(self.names, axis=0)
        return with_anchor_errors(table, self.predictions, self.design, self.model.weights, self.clusters.codes[:1])

    @cached_property
    def balance(self) -> pd.DataFrame:
        """The Riesz balance table."""
        self.require_rr()
        return balance_table(
            self.predictions,
            self.design,
            self._treatment_columns,
            self.names,
            self.inference.errors(),
            self.model.weights,
            self.clusters.codes[:1],
        )

    @cached_property
    def shapes(self) -> pd.DataFrame:
        """The rows of the Riesz balance table for shapes that the formula may miss."""
        self.require_rr()
        return shape_balance(
            self.predictions,
            self.design,
            self._treatment_columns,
            self.numeric,
            self.names,
            self.inference.errors(),
            self.model.weights,
            self.clusters.codes[:1],
        )

    @property
    def _treatment_columns(self) -> list[str]:
        """Names of the columns of the raw treatment."""
        treatment = self.model.blueprint.treatment
        return [f"{treatment.name}[{label}]" for label in self.arms[1:]] if treatment.categorical else [treatment.name]

    @cached_property
    def numeric(self) -> dict[str, Array]:
        """The numeric covariates by name, with the values they have in the data."""
        data = self.model.blueprint.data
        return {name: data[name].to_numpy() for name in self.model.covariates if data[name].dtype == np.float64}

    @cached_property
    def positivity(self) -> Positivity | None:
        """Overlap, judged by a separately learned propensity; None for a continuous treatment."""
        return None if self.design.strata is None else positivity(self.design, self.numeric)

    @cached_property
    def treatment_variation(self) -> TreatmentVariation | None:
        """The variation of a continuous treatment that covariates do not explain; None for a treatment with arms."""
        return treatment_variation(self.design, self.numeric) if self.design.strata is None else None

    def require_rr(self) -> None:
        """Raise an error if the learner learns only mu, so that there is no Riesz representer."""
        if not self.model.learner.learns_rr:
            raise RieszError(
                f"{self.learner} learns mu alone, so there is no Riesz representer and no influence function. Use another "
                "learner, such as learner='linear' or learner='madnet'."
            )

    def infer(self, estimator: str, predictions: Sequence[Predictions]) -> Inference:
        """The estimates by an estimator from predictions of all repeats."""
        return infer(predictions, self.design, ESTIMATORS[estimator], self._sampling, alternatives=self.alternatives)

    def project(self, projection: Projection) -> Inference:
        """The estimates projected on functions of the rows, from the scores of the fit."""
        return infer(
            self.crossfit.predictions,
            self.design,
            ESTIMATORS[self.model.settings.estimator],
            self._sampling,
            scores=self.inference.scores,
            alternatives=self.alternatives,
            projection=projection,
        )

    @property
    def _sampling(self) -> Sampling:
        return Sampling(self.model.weights, self.clusters.codes, self.model.settings.target)


def fit_parts(
    model: Model,
    crossfit: CrossFit,
    clusters: ClusterLabels,
    scores: Sequence[Scores] | None = None,
    alternatives: Sequence[Alternatives] | None = None,
) -> FitParts:
    """Estimate from a cross-fit; ``scores`` and ``alternatives`` of the same cross-fit are used if given, not computed again."""
    sampling = Sampling(model.weights, clusters.codes, model.settings.target)
    estimator, design = ESTIMATORS[model.settings.estimator], model.blueprint.design
    if alternatives is None:
        alternatives = _alternatives(crossfit, design, estimator)
    inference = infer(crossfit.predictions, design, estimator, sampling, scores=scores, alternatives=alternatives)
    return FitParts(model, crossfit, clusters, inference, tuple(alternatives))


def _alternatives(crossfit: CrossFit, design: Design, estimator: Estimator) -> list[Alternatives]:
    """The scores of each candidate alone, and of the stack with the mu, or the rr, of one candidate in place of the stack's."""
    result = []
    for stacked, stacking in zip(crossfit.predictions, crossfit.stacking, strict=bool(crossfit.stacking)):
        alone = [estimator(repeat, design) for candidate in crossfit.candidates for repeat in candidate.predictions]
        candidates = [average(candidate.predictions) for candidate in crossfit.candidates]
        mu = [estimator(replace(stacked, mu=candidate.mu), design) for candidate in candidates]
        rr = [estimator(replace(stacked, rr=candidate.rr), design) for candidate in candidates]
        count = len(candidates)
        shares = rr_shares(stacking, count)
        shares = np.hstack([np.broadcast_to(mu_shares(stacking, count, design), shares.shape), shares])
        result.append(Alternatives(tuple(alone), (*mu, *rr), shares))
    return result


def by_candidate(columns: Array, count: int) -> Array:
    """Columns of a :class:`Stacking`, one per repeat of each of ``count`` candidates: shape (..., candidates, repeats)."""
    return columns.reshape(*columns.shape[:-1], count, -1)


def mu_shares(stacking: Stacking, count: int, design: Design) -> Array:
    """The share of each of ``count`` candidates in mu, shape (J,); the mean over arms, weighted by their numbers of rows."""
    shares = by_candidate(stacking.mu, count).sum(axis=-1)
    if len(shares) == 1:
        return np.asarray(shares[0])
    sums = np.bincount(arm_numbers(design.treatment), weights=design.weights, minlength=len(shares))
    return np.asarray(sums @ shares / sums.sum())


def rr_shares(stacking: Stacking, count: int) -> Array:
    """The share of each of ``count`` candidates in rr, shape (K, J): its weight after every rr is rescaled to its best scale."""
    rescaled = np.where(stacking.rr > 0, ratio(stacking.rr, stacking.scales, otherwise=0.0), 0.0)
    rescaled = by_candidate(rescaled, count).sum(axis=-1)
    return ratio(rescaled, rescaled.sum(axis=1, keepdims=True), otherwise=0.0)
