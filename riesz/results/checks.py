"""The checks of ``riesz.diagnostics``, applied to a fit: influential rows, stability, balance, overlap and warnings."""

from __future__ import annotations

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.diagnostics import diagnose
from riesz.diagnostics.concerns import Concerns
from riesz.diagnostics.evidence import Evidence
from riesz.diagnostics.influence import by_fold, leave_one_out, normal_quantiles
from riesz.diagnostics.overlap import Overlap, overlap
from riesz.diagnostics.warnings import ALARMS, RULES
from riesz.diagnostics.weights import learned_scale, representer_by_fold, with_anchor_errors
from riesz.errors import RieszError, pick
from riesz.predictions import average
from riesz.results.parts import FitParts
from riesz.syntax.check_arguments import is_count


def leave_out(parts: FitParts, parameter: str | None) -> pd.DataFrame:
    """The change in one estimate without each row or cluster, in units of the estimate and in standard errors."""
    component = parts.names.index(pick(parameter, parts.names))
    normalizer = parts.design.normalizer
    table = leave_one_out(parts.influence(), normalizer, parts.model.weights, parts.codes, component)
    table.insert(1, "change_in_se", table["change"] / parts.inference.errors()[component])
    return table.set_axis(parts.units, axis=0)


def most_influential(parts: FitParts, k: int, parameter: str | None) -> pd.DataFrame:
    """The k rows or clusters without which one estimate changes most, with their data."""
    name = pick(parameter, parts.names)
    if not is_count(k, 1):
        raise RieszError(f"k={k!r}: expected a whole number of rows, 1 or larger.")
    table = leave_out(parts, name)
    first = np.argsort(-table["change"].abs().to_numpy(), kind="stable")[:k]
    if parts.codes is not None:
        return table.assign(rows=np.bincount(parts.codes)).iloc[first]
    mu = parts.predictions.mu.observed
    learned = {
        ".fitted": mu,
        ".resid": parts.design.y - mu,
        ".rr": parts.predictions.rr.observed[parts.names.index(name)],
    }
    return pd.concat([table.iloc[first], parts.data.assign(**learned).iloc[first]], axis=1)


def quantiles(parts: FitParts, parameter: str | None) -> pd.DataFrame:
    """The quantiles of one estimate's influence function, with those of the normal distribution."""
    component = parts.names.index(pick(parameter, parts.names))
    table = normal_quantiles(parts.influence().variation[:, component], parts.model.weights, parts.codes)
    return table.set_axis(parts.units[table.index], axis=0)


def stability_table(parts: FitParts) -> pd.DataFrame:
    """Estimates and Riesz losses of every repeat and of every fold in it."""
    parts.require_rr()
    crossfit, design = parts.crossfit, parts.design
    normalizer, repeats = design.normalizer, parts.inference.repeats
    estimates = by_fold(repeats, normalizer, crossfit.labels, parts.model.weights, parts.codes, parts.names)
    losses = representer_by_fold(crossfit.untrimmed, crossfit.scales, design, crossfit.labels, parts.names)
    return estimates.merge(losses, on=["parameter", "repeat", "fold"])


def diagnostics_table(parts: FitParts) -> pd.DataFrame:
    """All registered diagnostics, one row per parameter."""
    parts.require_rr()
    table = diagnose(parts.predictions, parts.design, parts.names)
    if "anchor_moment" not in table:
        return table
    return with_anchor_errors(table, parts.predictions, parts.design, parts.model.weights, parts.clusters.codes[:1])


def implied_overlap(parts: FitParts) -> Overlap:
    """The propensity that rr implies, for a treatment with two arms."""
    parts.require_rr()
    treatment = parts.model.blueprint.treatment
    if not treatment.is_binary:
        raise RieszError(
            f"overlap() needs a treatment with two arms; got {treatment.describe()}. diagnostics() and balance() work for any."
        )
    result = overlap(parts.predictions, parts.design, parts.index, parts.names, parts.arms)
    if result.rows.empty:
        raise RieszError(
            f"No propensity can be recovered from the Riesz representer of {', '.join(parts.names)}, because the moment does more "
            "than set the treatment to an arm. diagnostics() and balance() work for any."
        )
    return result


def full_balance(parts: FitParts, functions: str) -> pd.DataFrame:
    """The Riesz balance table, of the formula's functions or of all."""
    if functions == "formula":
        return parts.balance.copy()
    if functions != "all":
        raise RieszError(f"functions={functions!r}: expected 'formula' or 'all'.")
    table = pd.concat([parts.balance, parts.shapes])
    order = pd.Index(parts.names).get_indexer(table.index.get_level_values("parameter"))
    return table.iloc[np.argsort(order, kind="stable")]


def overlap_mask(parts: FitParts) -> pd.Series:
    """Which rows of the user's data have overlap; False for rows that are not in use."""
    positivity = parts.positivity
    if positivity is None:
        raise RieszError(
            f"overlap_rows() needs a treatment with arms; got {parts.model.blueprint.treatment.describe()}. diagnostics() and "
            "balance() work for any."
        )
    table = parts.model.table
    mask = np.zeros(table.rows, dtype=bool)
    mask[parts.model.kept[positivity.kept]] = True
    return pd.Series(mask, index=table.index(np.arange(table.rows)), name="overlap")


def concerns(parts: FitParts) -> Concerns:
    """The texts of all rules that find a problem."""
    if not parts.model.learner.learns_rr:
        return Concerns([], f"Nothing was checked: {parts.learner} learns mu alone, so there is no rr to check.")
    evidence = gather_evidence(parts)
    texts = [(rule in ALARMS, text) for rule in RULES for text in rule(evidence)]
    return Concerns([text for _, text in texts], urgent=sum(is_alarm for is_alarm, _ in texts))


def gather_evidence(parts: FitParts) -> Evidence:
    """Everything that the rules of ``riesz.diagnostics.warnings`` use."""
    clusters = parts.clusters.codes[:1]
    scale = learned_scale(average(parts.crossfit.untrimmed), parts.design, parts.model.weights, clusters)
    return Evidence(
        predictions=parts.predictions,
        design=parts.design,
        names=parts.names,
        errors=pd.Series(parts.inference.errors(), index=parts.names),
        disagreement=parts.inference.disagreement,
        mu_apart=max((stacking.apart for stacking in parts.crossfit.stacking), default=np.nan),
        mu_gain=max((stacking.gain for stacking in parts.crossfit.stacking), default=np.nan),
        treatment=parts.model.blueprint.treatment.name,
        arms=parts.arms,
        covariates=_covariates(parts),
        positivity=parts.positivity,
        treatment_variation=parts.treatment_variation,
        scale=scale.set_axis(parts.names, axis=0),
        health=parts.health,
        balance=parts.balance,
        shapes=parts.shapes,
        stability=stability_table(parts),
        variation=parts.averaged.variation,
        weights=parts.model.weights,
        clusters=parts.clusters.codes,
        cluster_names=parts.clusters.names,
    )


def _covariates(parts: FitParts) -> dict[str, list[Array]]:
    """Every numeric covariate as it is and as the formula transforms it, without columns that involve the treatment."""
    design = parts.design
    versions = {name: [parts.numeric[name]] if name in parts.numeric else [] for name in parts.model.covariates}
    for j in design.covariates:
        if len(design.reads[j]) == 1:
            versions[next(iter(design.reads[j]))].append(design.z[:, j])
    return versions
