"""The content of a fit's summary: title, facts, tables and notes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from riesz.crossfit.candidates import Candidate
from riesz.diagnostics.weights import weighting_origin
from riesz.estimators import describe
from riesz.families import find_family
from riesz.results.candidates import about_candidates, about_left_out, candidate_names
from riesz.results.checks import concerns
from riesz.results.notes import (
    about_estimator,
    about_quantile,
    about_splitting,
    about_tilt,
    about_trimming,
    about_weighting,
    health_lines,
    health_table,
)
from riesz.results.parts import FitParts
from riesz.results.summary_table import Fact, Summary, number


def summarize(
    parts: FitParts,
    parameters: pd.DataFrame,
    estimates: pd.DataFrame,
    trimming: pd.DataFrame,
    candidates: pd.DataFrame,
    covariance: str,
    covariance_notes: Sequence[str],
) -> Summary:
    """The summary of a fit.

    Parameters
    ----------
    parts : FitParts
    parameters : pandas.DataFrame
        The table of parameters, as text.
    estimates : pandas.DataFrame
        The estimates by all estimators, as in ``Results.estimates``.
    trimming : pandas.DataFrame
        As in ``Results.trimming``.
    candidates : pandas.DataFrame
        As in ``Results.candidates``.
    covariance : str
        The kind of covariance, as text.
    covariance_notes : sequence of str
    """
    components = parts.model.blueprint.components
    several = len(components) > 1
    tables, notes = [parameters], []
    if several:
        notes = [f"{c.name}: {c.words}, {c.symbol}" for c in components]
    if parts.model.learner.learns_rr:
        values = estimates["estimate"].unstack("estimator")
        order = estimates.index.get_level_values("estimator").unique()
        tables.append(values.loc[parts.names, order].map(number).rename_axis("all estimators", axis=1))
        if several:
            tables.append(health_table(parts.health, parts.predictions.tilted, parts.design.family))
        else:
            notes += health_lines(parts.health, observations(parts), parts.predictions.tilted, parts.design.family)
        notes += about_candidates(candidates, parts.names)
    texts = concerns(parts)
    remarks = [
        *about_quantile(parts.design.family),
        *about_estimator(parts.model),
        *covariance_notes,
        *_weighting_notes(parts, estimates),
        *about_trimming(trimming),
        *texts[texts.urgent :],
        *about_left_out(parts),
        *_remarks(parts),
        *about_splitting(parts.folds),
    ]
    return Summary(
        title=f"{len(components)} parameters, fitted together" if several else components[0].words,
        subtitle="each an average moment of mu" if several else f"psi = {components[0].symbol}",
        left=_left(parts, covariance),
        right=_right(parts),
        tables=tables,
        notes=[*texts[: texts.urgent], *notes, *remarks],
    )


def observations(parts: FitParts) -> int:
    """Number of rows that the frequency weights represent."""
    return round(float(parts.model.weights.frequency.sum()))


def fit_details(parts: FitParts) -> pd.DataFrame:
    """What the learners report about each of their fits; those of a stack are indexed by the learner's name."""
    tables = [_details(candidate) for candidate in parts.crossfit.candidates]
    if len(tables) == 1:
        return tables[0]
    named = zip(candidate_names(parts), tables, strict=True)
    return pd.concat([table.assign(learner=name) for name, table in named], ignore_index=True).set_index("learner")


def _details(candidate: Candidate) -> pd.DataFrame:
    return pd.DataFrame([fit.details() for fit in candidate.fits])


def _remarks(parts: FitParts) -> list[str]:
    """The learners' notes on this design; those of a stack start with the learner's name."""
    notes = {
        name: candidate.learner.remarks(parts.design, _details(candidate))
        for name, candidate in zip(candidate_names(parts), parts.crossfit.candidates, strict=True)
    }
    if len(notes) == 1:
        return next(iter(notes.values()))
    return [f"{name}: {note}" for name, texts in notes.items() for note in texts]


def glance_table(parts: FitParts, cov_type: str) -> pd.DataFrame:
    """One row about the fit as a whole."""
    model = parts.model
    health = parts.health if model.learner.learns_rr else None
    return pd.DataFrame(
        {
            "nobs": [observations(parts)],
            "rows_dropped": [model.table.rows - len(model.kept)],
            "folds": [parts.folds],
            "repeats": [len(parts.crossfit.folds)],
            "estimator": [model.settings.estimator],
            "learner": [parts.learner],
            "cov_type": [cov_type],
            "target": [model.settings.target],
            "largest_rr": [np.nan if health is None else health["largest_rr"].max()],
            "effective_n": [np.nan if health is None else health["effective_n"].min()],
        }
    )


def _left(parts: FitParts, covariance: str) -> list[Fact]:
    model = parts.model
    return [
        ("Outcome", model.endog_names),
        ("Treatment", model.blueprint.treatment.describe()),
        ("Learner", parts.learner),
        ("Estimator", describe(model.settings.estimator)),
        ("Covariance", covariance),
    ]


def _right(parts: FitParts) -> list[Fact]:
    model = parts.model
    facts = [
        ("Observations", f"{observations(parts):,}"),
        (
            f"Rows dropped (missing{', weight 0' if model.weighting else ''})",
            f"{model.table.rows - len(model.kept):,}",
        ),
        ("Folds x repeats", f"{parts.folds} x {len(parts.crossfit.folds)}"),
        ("Target", model.settings.target),
    ]
    if model.weighting:
        facts.append(("Weights", model.weighting))
    if parts.crossfit.calibration:
        facts.append(("Calibrated", "mu and rr" if parts.crossfit.calibration[0].rr else "mu"))
    if model.settings.trimming is not None:
        facts.append(("Trimmed", str(model.settings.trimming)))
    return facts


def _weighting_notes(parts: FitParts, estimates: pd.DataFrame) -> list[str]:
    if not parts.model.learner.learns_rr or not find_family(parts.design.family).is_mean:
        return []
    if parts.predictions.tilted:
        return about_tilt(parts.design.family)
    origin = weighting_origin(parts.crossfit.predictions, parts.design).set_axis(parts.names, axis=0)
    errors = pd.Series(parts.inference.errors(), index=parts.names)
    debiased = estimates["std_error"].xs("dr", level="estimator")  # direct and ipw have no standard errors
    return about_weighting(origin, errors.fillna(debiased))
