r"""rr as a function of the treatment's residual.

For a treatment that is a number, with :math:`g(x) = E[A|x]` and :math:`e = a - g(x)`, the moment's readings move e as they move a,
so that :math:`rr(a, x) = r(e, x)` solves the same problem with e in the place of the treatment. In a the representer is complicated
even where it is simple in e: for the average derivative and normal errors it is :math:`e / \sigma^2`. So g is a regression of the
treatment on covariates' features, and r is found on features of e and x. What varies with x, as the variance of e, or is not linear
in e, is left to r.

This needs readings that do not move the covariates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from riesz.arrays import Array
from riesz.design.derived import as_outcome
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.inputs.evaluation_points import EvaluationPoints, changes_covariates
from riesz.learners.inputs.expansions import Expansion, make_expansion
from riesz.learners.splines.feature_sets import Sample
from riesz.learners.splines.features import Factors, Shares, SplineSolution
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Residual:
    """The treatment's residual as an input.

    Attributes
    ----------
    mean : SplineSolution
        g.
    how : Expansion
        Of e.
    shares : Shares
        Of e.
    """

    mean: SplineSolution
    how: Expansion
    shares: Shares

    def points(self, points: EvaluationPoints, at_rows: Factors) -> EvaluationPoints:
        """The points of some rows with e in the place of the treatment."""
        return with_treatment(points, points.raw - self.mean.at(at_rows)[:, None, None], self.how)


def residual_suits(sample: Design) -> bool:
    """Whether the treatment is a number, there are covariates, and readings move the treatment alone."""
    if sample.strata is not None or sample.treatment.shape[1] != 1 or not len(sample.covariates):
        return False
    return not any(changes_covariates(sample, reading) for reading in sample.readings())


def need_residual(sample: Design) -> None:
    """Refuse a design whose rr cannot be a function of the treatment's residual."""
    if not residual_suits(sample):
        raise LearnerError(
            "Splines(rr='residual') needs a treatment that is one number, covariates, and a moment that moves the treatment alone. "
            "Use riesz.Splines()."
        )


def treatment_sample(sample: Sample) -> Sample:
    """The rows with the treatment as the outcome."""
    outcome = as_outcome(sample.design, np.ascontiguousarray(sample.design.treatment[:, 0]))
    return replace(sample.without_readings(), design=outcome)


def residual_of(sample: Sample, mean: SplineSolution) -> tuple[Residual, Sample]:
    """The residual, and the rows with it in the place of the treatment."""
    e = sample.design.treatment[:, 0] - mean.at(sample.at_rows)
    weights = sample.design.weights
    centre = float(np.average(e, weights=weights))
    spread = float(np.sqrt(np.average((e - centre) ** 2, weights=weights))) or 1.0
    residual = Residual(mean, make_expansion(e), Shares(np.array([centre]), np.array([spread]), None))
    points = residual.points(sample.points, sample.at_rows)
    return residual, Sample(sample.design, points, residual.shares, sample.seed)


def with_treatment(points: EvaluationPoints, raw: Array, how: Expansion) -> EvaluationPoints:
    """Points with another treatment that moves as the treatment does."""
    before = points.treatment.shape[2]
    return replace(
        points,
        treatment=how.features(raw[..., 0]),
        tangent=how.slopes(raw[..., 0]) * points.slope[:, None],
        raw=raw,
        sources=np.concatenate([np.full(how.size, -1), points.sources[before:]]),
        roles=np.concatenate([how.roles, points.roles[before:]]),
    )
