"""The candidates of a stack: what each alone would have estimated, and the weights they have.

In: a fit. Out: tables, and notes for the summary. Nothing is fitted again: estimates are computed from each candidate's
out-of-fold predictions in the same way as from those of the stack.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from riesz.arrays import Array
from riesz.estimators import ESTIMATORS
from riesz.inference import Sampling, infer
from riesz.results.parts import FitParts, by_candidate, mu_shares, rr_shares
from riesz.results.summary_table import number

STACK = "stack"  # the last row of the tables


def candidate_estimates(parts: FitParts) -> tuple[Array, Array]:
    """What each candidate alone estimates, with standard errors, shapes (J, K); NaN if it cannot estimate alone."""
    estimator = ESTIMATORS[parts.model.settings.estimator]
    sampling = Sampling(parts.model.weights, parts.clusters.codes, parts.model.settings.target)
    values, errors = [], []
    count = len(parts.crossfit.candidates)
    for place in range(count):
        repeats = len(parts.crossfit.folds) // len(parts.alternatives)
        scores = [alone for others in parts.alternatives for alone in others.alone[place * repeats :][:repeats]]
        inference = infer(parts.crossfit.predictions, parts.design, estimator, sampling, scores=scores)
        values.append(inference.value)
        errors.append(inference.errors())
    return np.stack(values), np.stack(errors)


def candidate_table(parts: FitParts) -> pd.DataFrame:
    """One row per parameter and learner of the stack, then the stack; see ``Results.candidates``."""
    names, lines = candidate_names(parts), []
    if parts.alternatives:
        values, errors = candidate_estimates(parts)
        shares = np.mean([mu_shares(s, len(names), parts.design) for s in parts.crossfit.stacking], axis=0)
        weights = np.mean([rr_shares(s, len(names)) for s in parts.crossfit.stacking], axis=0)
        for place, name in enumerate(names):
            for c, parameter in enumerate(parts.names):
                line = values[place, c], errors[place, c], shares[place], weights[c, place]
                lines.append((parameter, name, *line))
    value, error = parts.inference.value, parts.inference.errors()
    last = STACK if parts.alternatives else names[0]
    lines += [(parameter, last, value[c], error[c], 1.0, 1.0) for c, parameter in enumerate(parts.names)]
    table = pd.DataFrame(lines, columns=["parameter", "learner", "estimate", "std_error", "weight_mu", "weight_rr"])
    half = stats.norm.isf(0.025) * table["std_error"]
    table.insert(4, "conf_low", table["estimate"] - half)
    table.insert(5, "conf_high", table["estimate"] + half)
    order = {parameter: place for place, parameter in enumerate(parts.names)}
    table = table.sort_values("parameter", key=lambda column: column.map(order), kind="stable")
    return table.set_index(["parameter", "learner"])


def stacking_table(parts: FitParts) -> pd.DataFrame:
    """Weights, sums over repeats, and held-out losses, means over repeats; see ``Results.stacking``."""
    names = [*candidate_names(parts), STACK]
    stackings, count = parts.crossfit.stacking, len(parts.crossfit.candidates)
    if not stackings:
        return pd.DataFrame(
            columns=["weight", "loss", "scale"],
            index=pd.MultiIndex.from_tuples([], names=["function", "learner"]),
            dtype=float,
        )
    mu = np.mean([by_candidate(stacking.mu, count).sum(axis=-1) for stacking in stackings], axis=0)
    arms = parts.arms if len(mu) > 1 else []
    mu_loss = np.mean([_losses(stacking.mu_loss, count) for stacking in stackings], axis=0)
    shares = np.mean([rr_shares(stacking, count) for stacking in stackings], axis=0)
    rr_loss = np.mean([_losses(stacking.rr_loss, count) for stacking in stackings], axis=0)
    claimed = [np.where(stacking.claims, stacking.scales, np.nan) for stacking in stackings]
    scales = np.mean([by_candidate(scale, count).mean(axis=-1) for scale in claimed], axis=0)
    lines: dict[tuple[str, str], tuple[float, float, float]] = {}
    labels = [f"mu, {parts.model.blueprint.treatment.name}={arm}" for arm in arms] or ["mu"]
    for label, weights in zip(labels, mu, strict=True):
        for place, name in enumerate(names):
            weight = weights[place] if place < len(weights) else 1.0
            lines[label, name] = (weight, mu_loss[place] if len(labels) == 1 else np.nan, np.nan)
    if len(labels) > 1:
        for place, name in enumerate(names):
            lines["mu, all rows", name] = (np.nan, mu_loss[place], np.nan)
    for c, parameter in enumerate(parts.names):
        for place, name in enumerate(names):
            last = place == len(names) - 1
            lines[f"rr of {parameter}", name] = (
                1.0 if last else shares[c, place],
                rr_loss[c, place],
                np.nan if last else scales[c, place],
            )
    table = pd.DataFrame.from_dict(lines, orient="index", columns=["weight", "loss", "scale"])
    return table.set_axis(pd.MultiIndex.from_tuples(lines, names=["function", "learner"]), axis=0)


def _losses(losses: Array, count: int) -> Array:
    """The loss of each candidate, the mean over repeats, and that of the stack."""
    return np.concatenate([by_candidate(losses[..., :-1], count).mean(axis=-1), losses[..., -1:]], axis=-1)


def candidate_names(parts: FitParts) -> list[str]:
    """One name per candidate; equal names are numbered."""
    names = [candidate.learner.describe(parts.design.family) for candidate in parts.crossfit.candidates]
    return [
        f"{name} ({names[: place + 1].count(name)})" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def about_left_out(parts: FitParts) -> list[str]:
    """Which candidates were not used, and why. The advice to use another learner is left out, because the stack has others."""
    reasons = {name: reason.split(" Use ")[0] for name, reason in parts.crossfit.left_out.items()}
    return [f"{name} is not in the stack here. {reason}" for name, reason in reasons.items()]


def about_candidates(table: pd.DataFrame, parameters: Sequence[str]) -> list[str]:
    """The estimate of each candidate alone, in one line for a single parameter."""
    learners = [name for name in table.index.get_level_values("learner").unique() if name != STACK]
    if len(learners) < 2:
        return []
    if len(parameters) > 1:
        return ["What each learner of the stack alone would have estimated: see fit.candidates."]
    lines = []
    for name in learners:
        row = table.loc[(parameters[0], name)]
        error = f" ({number(row['std_error'])})" if np.isfinite(row["std_error"]) else ""
        lines.append(f"{name} {number(row['estimate'])}{error}")
    return [f"Each learner alone: {', '.join(lines)}."]
