"""From a formula to results: :func:`estimate` reads, checks, splits, fits and hands over.

Everything that can be wrong with the input is raised before the first fit.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.assembly import build
from riesz.crossfitting import Split, check_splits, cross_fit, make_splits
from riesz.design import Blueprint
from riesz.errors import DataError, EstimandError, FormulaError, LearnerError, RieszWarning, nearest
from riesz.estimands import Estimand
from riesz.estimands.base import show
from riesz.estimators import ESTIMATORS
from riesz.folds import draw_labels
from riesz.formula import parse
from riesz.frame import ClusterLabels, Table, drop_missing, refuse_unusable
from riesz.inference import Weights
from riesz.learners import Learner, find_learner
from riesz.model import Model
from riesz.results import Results


@dataclass(frozen=True)
class Settings:
    """The keywords of :func:`estimate`, checked."""

    learner: Learner
    estimator: str
    folds: Any
    repeats: int
    family: str
    bounds: tuple[float, float] | None
    target: str
    na_action: str
    seed: int
    n_jobs: int
    progress: bool | None

    def __post_init__(self) -> None:
        _one_of("estimator", self.estimator, ESTIMATORS)
        _one_of("family", self.family, ("gaussian", "binomial"))
        _one_of("target", self.target, ("population", "sample"))
        _one_of("na_action", self.na_action, ("drop", "raise"))
        for name, value, least in (("repeats", self.repeats, 1), ("n_jobs", self.n_jobs, 1), ("seed", self.seed, 0)):
            if not isinstance(value, (int, np.integer)) or value < least:
                raise LearnerError(f"{name}={value!r}: wanted a whole number, {least} or larger.")
        number = isinstance(self.folds, (int, np.integer, float)) and not isinstance(self.folds, bool)
        if (
            self.folds is None
            or (np.isscalar(self.folds) and not isinstance(self.folds, str) and not number)
            or (number and not (self.folds >= 1 and np.isfinite(self.folds) and self.folds == int(self.folds)))
        ):
            raise LearnerError(
                f"folds={self.folds!r}: wanted a whole number (1 means no sample splitting) or fold labels."
            )
        if self.bounds is not None:
            numbers = isinstance(self.bounds, (tuple, list)) and all(isinstance(limit, Real) for limit in self.bounds)
            if not (numbers and len(self.bounds) == 2 and -np.inf < self.bounds[0] < self.bounds[1] < np.inf):
                raise DataError(f"bounds={self.bounds!r}: wanted two finite numbers, the smaller first.")


def _one_of(name: str, value: object, known: Sequence[str] | Mapping[str, object]) -> None:
    if not isinstance(value, str) or value not in known:
        hint = nearest(value, known) if isinstance(value, str) else ""
        raise LearnerError(f"{name}={value!r} is not known.{hint} Wanted one of {', '.join(map(repr, known))}.")


def estimate(
    formula: str,
    data: Any,
    estimand: Estimand | Sequence[Estimand],
    *,
    learner: str | Learner = "linear",
    estimator: Literal["direct", "ipw", "dr", "tmle"] = "dr",
    folds: Any = 5,
    repeats: int = 1,
    family: Literal["gaussian", "binomial"] = "gaussian",
    bounds: tuple[float, float] | None = None,
    target: Literal["population", "sample"] = "population",
    weights: Any = None,
    freq_weights: Any = None,
    cluster: Any = None,
    na_action: Literal["drop", "raise"] = "drop",
    seed: int = 0,
    n_jobs: int = 1,
    progress: bool | None = None,
    context: Mapping[str, Any] | None = None,
) -> Results:
    """Estimate any average moment: one estimand, or several fitted together with their joint covariance.

    Parameters
    ----------
    formula : str
        Outcome, treatment and covariates: ``"y ~ treat(a) + ."``. ``treat()`` marks the treatment; ``.`` is every column that is
        not outcome, treatment, weights or cluster. Interactions, splines, factors and transformations work as in formulaic.
    data : DataFrame
        pandas, polars (eager or lazy) or pyarrow.
    estimand : Estimand or list of Estimand
        Such as ``riesz.ATE()``, ``[riesz.ATE(), riesz.ATT()]`` or ``riesz.CustomMoment(...)``.
    learner : str or Learner
        How mu and the Riesz representer are learned.
    estimator : {"dr", "tmle", "direct", "ipw"}
        One-step, targeted, plug-in or weighting; the last two carry no standard error.
    folds : int or array_like or str
        Number of cross-fitting folds; 1 means no sample splitting. An array, or a column's name, gives fold labels of your own.
        With two-way clusters there are ``folds`` x ``folds`` splits.
    repeats : int
        Cross-fitting is repeated with new folds, and the median reported.
    family : {"gaussian", "binomial"}
        ``"binomial"`` for an outcome in [0, 1]: the learner's mu is a probability, and ``tmle`` uses a logistic submodel.
    bounds : (low, high), optional
        Known limits of the outcome, for a logistic ``tmle``.
    target : {"population", "sample"}
        ``"sample"`` asks for the effect in this very sample, whose standard error is smaller.
    weights : str or array_like, optional
        Sampling weights.
    freq_weights : str or array_like, optional
        How many identical rows each row stands for.
    cluster : str, two str, or array_like, optional
        Clusters: folds keep them whole and standard errors allow for them. Two names cluster two ways.
    na_action : {"drop", "raise"}
        What to do with rows that have missing values.
    seed : int
        Determines folds and fits fully.
    n_jobs : int
        Threads to spread the fits over.
    progress : bool, optional
        Show a progress bar; by default only when it takes long.
    context : mapping, optional
        Where formulas and policies look up names that are not columns; by default where the call was made.

    Returns
    -------
    Results

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> fit = riesz.estimate("y ~ treat(a) + .", data, estimand=[riesz.ATE(), riesz.ATT()])
    >>> fit.cov_params().shape
    (2, 2)
    """
    settings = Settings(
        find_learner(learner), estimator, folds, repeats, family, bounds, target, na_action, seed, n_jobs, progress
    )
    estimands = _estimands(estimand)
    scope = _calling_scope() if context is None else context
    if not isinstance(scope, Mapping):
        raise FormulaError(
            f"context is a {type(scope).__name__}; wanted a mapping from names to values, such as a dict."
        )
    table = Table(data)

    # 1. read the formula and find the columns that are needed
    labels = {"weights": weights, "freq_weights": freq_weights, "folds": folds if not np.isscalar(folds) else None}
    labels["folds"] = folds if isinstance(folds, str) else labels["folds"]
    clustering = table.cluster_columns(cluster)
    reserved = [spec for spec in labels.values() if isinstance(spec, str)]
    named_clusters = [name for name in clustering if name in table.columns and not _is_array(cluster)]
    parsed = parse(formula, table.columns, [*reserved, *named_clusters], scope)

    # 2. the rows in use
    extras = {name: table.per_row(spec, name) for name, spec in labels.items() if spec is not None}
    frame, kept = _rows(table, parsed.variables, estimands, {**extras, **clustering}, na_action)
    weighting = _weights(extras, kept)
    clusters = table.clusters(cluster, kept)

    # 3. the arrays, and every check that needs no fitting
    blueprint = build(
        parsed,
        estimands,
        frame,
        kept,
        table.rows,
        weighting.total,
        clusters.codes[0] if clusters.codes else None,
        family,
        bounds,
        scope,
    )
    splits = _splits(blueprint, settings, extras.get("folds"), kept, clusters)

    # 4. fit, predict, and hand over
    crossfit = cross_fit(
        blueprint.design, settings.learner, splits, np.random.SeedSequence([seed, 1]), n_jobs, progress
    )
    words = [name for name in ("weights", "freq_weights") if name in extras]
    model = Model(
        formula=formula,
        endog_names=parsed.outcome,
        exog_names=[component.name for component in blueprint.components],
        column_names=list(blueprint.design.base.names),
        blueprint=blueprint,
        table=table,
        kept=kept,
        learner=settings.learner,
        estimator=estimator,
        target=target,
        weights=weighting,
        weighting={"weights": "sampling", "freq_weights": "frequency"}[words[0]]
        if len(words) == 1
        else ", ".join(words),
    )
    return Results(model, crossfit, clusters)


def _estimands(estimand: Any) -> tuple[Estimand, ...]:
    several = tuple(estimand) if isinstance(estimand, (list, tuple)) else (estimand,)
    wrong = [item for item in several if not isinstance(item, Estimand)]
    if wrong or not several:
        got = repr(wrong[0]) if wrong else "an empty list"
        raise EstimandError(f"estimand is {got}; wanted an estimand such as riesz.ATE(), or a list of them.")
    return several


def _calling_scope() -> dict[str, Any]:
    """The variables of the nearest frame outside this package, and around it if it is a comprehension or a lambda."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "riesz":
        frame = frame.f_back
    scope = dict(frame.f_locals)
    while frame.f_code.co_name in ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>") and frame.f_back:
        frame = frame.f_back
        scope = {**frame.f_locals, **scope}
    return {**frame.f_globals, **scope}


def _is_array(spec: Any) -> bool:
    return not isinstance(spec, (str, list, tuple))


def _rows(
    table: Table,
    variables: frozenset[str],
    estimands: Sequence[Estimand],
    extras: Mapping[str, pd.Series],
    na_action: str,
) -> tuple[pd.DataFrame, npt.NDArray[np.intp]]:
    """The frame of complete rows, with a fresh index, and where they stand in the table."""
    needed = set(variables).union(*(estimand.columns(table.columns) for estimand in estimands))
    everything = any(estimand.reads_everything for estimand in estimands)
    frame = table.to_pandas([name for name in table.columns if everything or name in needed])
    marks = {f"{name} (argument)": column.isna().map({True: np.nan, False: 0.0}) for name, column in extras.items()}
    marked = frame.assign(**marks) if any(mark.isna().any() for mark in marks.values()) else frame
    used = [name for name in marked.columns if name in needed or name in marks]
    complete = drop_missing(marked, used, na_action)
    kept = complete.index.to_numpy(dtype=np.intp)
    complete = complete[list(frame.columns)].reset_index(drop=True)
    refuse_unusable(complete, sorted(variables))
    return complete, kept


def _weights(extras: Mapping[str, pd.Series], kept: npt.NDArray[np.intp]) -> Weights:
    made = []
    for name in ("weights", "freq_weights"):
        if name not in extras:
            made.append(np.ones(len(kept)))
            continue
        try:
            values = extras[name].iloc[kept].to_numpy(dtype=float)
        except (TypeError, ValueError):
            raise DataError(f"{name} are not numbers ({extras[name].dtype}); wanted one number for each row.") from None
        if not np.isfinite(values).all():
            raise DataError(f"{name} have infinite values; wanted finite numbers, 0 or larger.")
        if (values < 0).any():
            raise DataError(f"{name} are negative on {int((values < 0).sum())} rows; wanted numbers, 0 or larger.")
        if (values > 0).sum() < 2:
            raise DataError(
                f"{name} are zero on every row, or on all but one; wanted positive numbers on the rows that count."
            )
        if name == "freq_weights" and (values != np.round(values)).any():
            raise DataError("freq_weights count rows, so wanted whole numbers. For survey weights use weights=.")
        made.append(values / values.mean() if name == "weights" else values)  # only relative sampling weights matter
    return Weights(*made)


def _splits(
    blueprint: Blueprint, settings: Settings, own: pd.Series | None, kept: npt.NDArray[np.intp], clusters: ClusterLabels
) -> list[list[Split]]:
    """Splits of every repeat, checked."""
    treatment, n = blueprint.treatment, len(kept)
    arms = blueprint.design.base.strata
    levels = [show(level) for level in treatment.levels]
    counting = blueprint.design.weights > 0
    if own is not None:
        if settings.repeats > 1:
            raise DataError(
                "folds are labels of your own and repeats > 1: the same folds would be used each time. Use repeats=1."
            )
        labels = np.asarray(pd.factorize(own.iloc[kept], sort=True)[0], dtype=np.intp)
        if labels.max() == 0:
            raise DataError("folds has a single label; wanted at least two, or folds=1 for no sample splitting.")
        _warn_of_cut_clusters(labels, clusters)
        drawn = [[labels]]
    else:
        folds = int(settings.folds)
        _check_fold_count(folds, n, None if arms is None else arms[counting], treatment.name, levels, clusters)
        children = np.random.SeedSequence([settings.seed, 0]).spawn(settings.repeats)
        drawn = [_draw(n, folds, arms, clusters, np.random.default_rng(child)) for child in children]
    splits = [make_splits(labels) for labels in drawn]
    for repeat in splits:
        check_splits(repeat, arms, levels, treatment.name, counting)
    return splits


def _warn_of_cut_clusters(labels: npt.NDArray[np.intp], clusters: ClusterLabels) -> None:
    for name, codes in zip(clusters.names, clusters.codes, strict=True):
        lowest, highest = np.full(codes.max() + 1, labels.max()), np.zeros(codes.max() + 1, dtype=np.intp)
        np.minimum.at(lowest, codes, labels)
        np.maximum.at(highest, codes, labels)
        cut = int((lowest < highest).sum())
        if cut:
            warnings.warn(
                f"Your folds cut {cut} of {len(lowest)} clusters of `{name}`: rows of one cluster are trained on and predicted, so "
                "errors may be too small. Give all rows of a cluster the same fold.",
                RieszWarning,
                stacklevel=2,
            )


def _draw(
    n: int, folds: int, arms: npt.NDArray[np.intp] | None, clusters: ClusterLabels, rng: np.random.Generator
) -> list[npt.NDArray[np.intp]]:
    if folds == 1:
        return [np.zeros(n, dtype=np.intp)]
    return [draw_labels(n, folds, arms, groups, rng) for groups in clusters.codes or (None,)]


def _check_fold_count(
    folds: int,
    n: int,
    arms: npt.NDArray[np.intp] | None,
    name: str,
    levels: Sequence[str],
    clusters: ClusterLabels,
) -> None:
    if folds > n:
        raise DataError(f"folds={folds}, but only {n} rows are in use. Use fewer folds.")
    if folds > 1 and arms is not None:
        counts = np.bincount(arms, minlength=len(levels))
        if counts.min() < folds:
            rare = int(counts.argmin())
            which = " with a positive weight" if len(arms) < n else ""
            raise DataError(
                f"Arm {name}={levels[rare]} has {counts[rare]} rows{which}, fewer than folds={folds}, so some fold would lack it. "
                "Use fewer folds, merge arms, or drop this one."
            )
    for label, codes in zip(clusters.names, clusters.codes, strict=True):
        if folds > codes.max() + 1:
            raise DataError(
                f"folds={folds}, but cluster `{label}` has only {codes.max() + 1} clusters. Use fewer folds."
            )
