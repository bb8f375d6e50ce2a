"""The strength of a confounder that resembles covariates, from fits without them on the same rows, folds and settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from riesz.crossfit.crossfit import Problem
from riesz.design.derived import without
from riesz.design.design import Design
from riesz.diagnostics.sensitivity import Elements, benchmark, bounds, sensitivity_elements, strength
from riesz.errors import RieszError, listing, nearest
from riesz.estimators import ESTIMATORS
from riesz.inference import Sampling, infer
from riesz.results.model import Model
from riesz.results.parts import FitParts
from riesz.settings import Settings


def fit_elements(parts: FitParts) -> Elements:
    """The moments that the bounds on the estimates of a fit are computed from."""
    parts.require_rr()
    model, estimator = parts.model, parts.model.settings.estimator
    if not ESTIMATORS[estimator].debiased:
        raise RieszError(
            f"A sensitivity analysis needs a debiased estimate; this fit uses estimator={estimator!r}. Fit with estimator='dr' or "
            "'tmle'."
        )
    return sensitivity_elements(
        parts.crossfit.predictions,
        parts.inference.repeats,
        parts.design,
        parts.names,
        model.weights,
        parts.clusters.codes,
    )


def benchmark_table(
    parts: FitParts, elements: Elements, columns: Sequence[Any], n_jobs: int | None, progress: bool | None
) -> pd.DataFrame:
    """One row per group of columns and parameter; see ``Results.sensitivity_benchmark``."""
    model = parts.model
    settings = replace(
        model.settings,
        n_jobs=model.settings.n_jobs if n_jobs is None else n_jobs,
        progress=model.settings.progress if progress is None else progress,
    )
    groups = _read_columns(model, columns)
    designs = [without(parts.design, set(group)) for group in groups]
    rows = min(len(split.train) for repeat in parts.crossfit.splits for split in repeat)
    for design in designs:  # check all of them before the first fit
        model.learner.check(design, rows)
    lines = {}
    for group, design in zip(groups, designs, strict=True):
        short = _refit(parts, design, settings)
        for c, name in enumerate(parts.names):
            line = benchmark(elements, short, c)
            s = np.atleast_1d(strength(line["cf_y"], line["cf_d"], 1.0))
            limits = bounds(elements, c, s, 0.95).iloc[0][["lower", "upper"]]
            lines[", ".join(group), name] = {**line, **(limits if np.isfinite(line["rho"]) else limits * np.nan)}
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis(["columns", "parameter"])


def _read_columns(model: Model, columns: Sequence[Any]) -> list[tuple[str, ...]]:
    """The groups of covariates to leave out, checked and without repetitions."""
    reads = model.blueprint.design.reads
    covariates = sorted(frozenset().union(*reads) - {model.blueprint.treatment.name})
    if not columns:
        raise RieszError(
            "sensitivity_benchmark() needs at least one covariate, such as fit.sensitivity_benchmark('x1'). The covariates are "
            f"{listing(covariates)}."
        )
    groups = []
    for argument in columns:
        group = (argument,) if isinstance(argument, str) else tuple(argument) if isinstance(argument, Iterable) else ()
        if not group or not all(isinstance(name, str) for name in group):
            raise RieszError(
                f"sensitivity_benchmark() got {argument!r}; expected the name of a covariate, or a list of names to leave out "
                "together."
            )
        for name in group:
            if name not in covariates:
                raise RieszError(
                    f"sensitivity_benchmark({name!r}): not a covariate of the formula.{nearest(name, covariates)} The "
                    f"covariates are {listing(covariates)}."
                )
        groups.append(group)
    return list(dict.fromkeys(groups))


def _refit(parts: FitParts, design: Design, settings: Settings) -> Elements:
    """The elements of a fit to another design of the same rows, with the same folds."""
    weights, clusters = parts.model.weights, parts.clusters.codes
    predictions = settings.cross_fit([Problem(design, parts.crossfit.splits, settings.seed)])[0].predictions
    sampling = Sampling(weights, clusters, settings.target)
    inference = infer(predictions, design, ESTIMATORS[settings.estimator], sampling)
    return sensitivity_elements(predictions, inference.repeats, design, parts.names, weights, clusters)
