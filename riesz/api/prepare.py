"""From the user's arguments to a problem: rows, weights, clusters, arrays and splits, all checked before any fit.

In: the formula, one table and the settings. Out: a :class:`Prepared`, which only lacks its fits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.crossfit.copies import find_copies
from riesz.crossfit.crossfit import Problem, Split, check_splits, make_splits, warn_of_cut_clusters
from riesz.crossfit.folds import draw_labels
from riesz.crossfit.trimming import Trimming
from riesz.crossfit.untrained import refuse_untrained
from riesz.design.build import build
from riesz.design.design import Blueprint
from riesz.design.new_rows import Recipe
from riesz.design.table import (
    LARGEST,
    SMALLEST,
    ClusterLabels,
    Table,
    drop_missing,
    is_nested,
    normalise,
    refuse_unusable,
)
from riesz.errors import DataError, LearnerError, nearest
from riesz.estimands import Estimand
from riesz.estimators import ESTIMATORS
from riesz.inference import Weights
from riesz.learners import Learner
from riesz.results.model import Model
from riesz.syntax.counterfactual import replace_columns
from riesz.syntax.formula import parse_formula

_MOST_REPEATS = 10_000


@dataclass(frozen=True)
class Settings:
    """The keywords of :func:`estimate`, checked."""

    learner: Learner
    estimator: str
    folds: Any
    repeats: int | None
    family: str
    bounds: tuple[float, float] | None
    target: str
    na_action: str
    seed: int
    n_jobs: int
    progress: bool | None
    trimming: Trimming | None

    def __post_init__(self) -> None:
        _one_of("estimator", self.estimator, ESTIMATORS)
        if not self.learner.learns_rr and ESTIMATORS[self.estimator].needs_rr:
            raise LearnerError(
                f"estimator={self.estimator!r} needs a Riesz representer, and {self.learner.describe(self.family)} learns mu "
                "alone. Leave estimator='direct', which has no standard error, or use another learner, such as learner='linear'."
            )
        if ESTIMATORS[self.estimator].weighs and not self.learner.weighs(self.family):
            raise LearnerError(
                f"estimator={self.estimator!r} weighs the outcome by rr, and with family={self.family!r} the rr of "
                f"{self.learner.describe(self.family)} corrects the errors of its logit and is no such weight. Use estimator='dr' "
                "or 'tmle', or another learner."
            )
        if not self.learner.learns_rr and self.trimming is not None:
            raise LearnerError(
                f"trim= caps the Riesz representer, and {self.learner.describe(self.family)} learns mu alone. Leave trim=None."
            )
        _one_of("family", self.family, ("gaussian", "binomial"))
        _one_of("target", self.target, ("population", "sample"))
        _one_of("na_action", self.na_action, ("drop", "raise"))
        for name, value, least in (("repeats", self.repeats, 1), ("n_jobs", self.n_jobs, 1), ("seed", self.seed, 0)):
            if value is None and name == "repeats":
                continue
            if value is None or not _is_whole(value) or value < least:
                raise LearnerError(f"{name}={_shown(value)}: wanted a whole number, {least} or larger.")
        if self.repeats is not None and self.repeats > _MOST_REPEATS:
            raise LearnerError(
                f"repeats={_shown(self.repeats)}: must be at most {_MOST_REPEATS:,}. Cross-fitting is repeated so that the answer "
                "does not depend on one split, and a few repeats do that."
            )
        folds: Any = self.folds
        number = folds is None or (np.isscalar(folds) and not isinstance(folds, str))
        if number and not (_is_whole(folds, floats=True) and folds >= 1):
            raise LearnerError(
                f"folds={_shown(folds)}: wanted a whole number (1 means no sample splitting) or fold labels."
            )
        if self.bounds is not None:
            numbers = isinstance(self.bounds, (tuple, list)) and all(isinstance(limit, Real) for limit in self.bounds)
            if not (numbers and len(self.bounds) == 2 and -np.inf < self.bounds[0] < self.bounds[1] < np.inf):
                raise DataError(f"bounds={self.bounds!r}: wanted two finite numbers, the smaller first.")


def _is_whole(value: Any, floats: bool = False) -> bool:
    """Whether a value is a whole number, of any size; True and False are not, and 5.0 is if floats may be."""
    if isinstance(value, float):  # numpy's, too
        return floats and value.is_integer()
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    """A value as it was given; of a number with hundreds of digits only how many they are."""
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"{'-' if value < 0 else ''}10**{int(value.bit_length() * np.log10(2))} or so"
    return repr(value) if not isinstance(value, np.generic) else str(value)


def _one_of(name: str, value: object, known: Sequence[str] | Mapping[str, object]) -> None:
    if not isinstance(value, str) or value not in known:
        hint = nearest(value, known) if isinstance(value, str) else ""
        raise LearnerError(f"{name}={value!r} is not known.{hint} Wanted one of {', '.join(map(repr, known))}.")


@dataclass(frozen=True)
class Prepared:
    """A problem that only lacks its fits.

    Attributes
    ----------
    model : Model
    clusters : ClusterLabels
    problem : Problem
    """

    model: Model
    clusters: ClusterLabels
    problem: Problem


def prepare(
    formula: str,
    data: Any,
    estimands: Sequence[Estimand],
    settings: Settings,
    weights: Any,
    freq_weights: Any,
    cluster: Any,
    scope: Mapping[str, Any],
) -> Prepared:
    """Read, check and split one table; the arguments are those of :func:`riesz.estimate`."""
    if isinstance(data, str) and not isinstance(formula, str):
        raise DataError(
            f"data is a str and formula a {type(formula).__name__}; the formula comes first: riesz.ate('y ~ treat(a) + x', data)."
        )
    table = Table(data)

    # 1. read the formula and find the columns that are needed
    folds = settings.folds
    own_folds = folds if isinstance(folds, str) or not np.isscalar(folds) else None
    labels = {"weights": weights, "freq_weights": freq_weights, "folds": own_folds}
    clustering = table.cluster_columns(cluster)
    reserved = [spec for spec in labels.values() if isinstance(spec, str)]
    named_clusters = [name for name in clustering if name in table.columns and not _is_array(cluster)]
    parsed = parse_formula(formula, table.columns, [*reserved, *named_clusters], scope)

    # 2. the rows in use
    extras = {name: table.per_row(spec, name) for name, spec in labels.items() if spec is not None}
    if "folds" in extras and extras["folds"].map(is_nested).any():
        raise DataError("folds must be text or numbers, one label for each row; got nested values.")
    _check_policy_index(estimands, table)
    frame, kept = _rows(table, parsed.variables, estimands, {**extras, **clustering}, settings.na_action)
    weighting = _weights(extras, kept)
    counting = weighting.total > 0
    if not counting.all():  # rows of weight zero are not in the sample
        frame, kept = _only(frame, counting), kept[counting]
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
        weighting.frequency,
        clusters.codes[0] if clusters.codes else None,
        settings.family,
        settings.bounds,
        scope,
    )
    splits = _splits(blueprint, settings, extras.get("folds"), kept, clusters)
    refuse_untrained(blueprint.design.base, splits)
    words = {"weights": "sampling", "freq_weights": "frequency"}
    model = Model(
        recipe=Recipe(
            formula, table.columns, (*reserved, *named_clusters), tuple(estimands), _named(scope, formula, estimands)
        ),
        endog_names=parsed.outcome,
        exog_names=[component.name for component in blueprint.components],
        covariates=parsed.covariates,
        column_names=list(blueprint.design.base.names),
        blueprint=blueprint,
        table=table,
        kept=kept,
        learner=settings.learner,
        estimator=settings.estimator,
        target=settings.target,
        weights=weighting,
        weighting=", ".join(word for name, word in words.items() if name in extras),
        seed=settings.seed,
        trimming=settings.trimming,
        n_jobs=settings.n_jobs,
        progress=settings.progress,
    )
    return Prepared(model, clusters, Problem(blueprint.design, splits, settings.seed))


def _named(scope: Mapping[str, Any], formula: str, estimands: Sequence[Estimand]) -> dict[str, Any]:
    """The variables that the formula or a policy may name: keeping the caller's whole scope would keep all of its data alive."""
    texts = [formula, *(spec for estimand in estimands for spec in estimand.specifications() if isinstance(spec, str))]
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    return {name: _owned(scope[name]) for name in sorted(words) if name in scope}


def _owned(value: Any) -> Any:
    """Lists and arrays, such as knots, in a copy that later changes do not reach."""
    return deepcopy(value) if isinstance(value, (list, dict, set, np.ndarray, pd.Series, pd.Index)) else value


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
    marked = replace_columns(frame, marks) if any(mark.isna().any() for mark in marks.values()) else frame
    used = [name for name in marked.columns if name in needed or name in marks]
    complete = drop_missing(marked, used, na_action)
    kept = complete.index.to_numpy(dtype=np.intp)
    complete = complete[list(frame.columns)].reset_index(drop=True)
    refuse_unusable(complete, sorted(variables))
    return complete, kept


def _only(frame: pd.DataFrame, rows: npt.NDArray[np.bool_]) -> pd.DataFrame:
    part = frame[rows].reset_index(drop=True)
    factors = [name for name in part.columns if isinstance(part[name].dtype, pd.CategoricalDtype)]
    return replace_columns(part, {name: part[name].cat.remove_unused_categories() for name in factors})


def _check_policy_index(estimands: Sequence[Estimand], table: Table) -> None:
    for estimand in estimands:
        for spec in estimand.specifications():
            if isinstance(spec, pd.Series):
                table.check_index(spec, estimand.verb)


def _weights(extras: Mapping[str, pd.Series], kept: npt.NDArray[np.intp]) -> Weights:
    made = []
    for name in ("weights", "freq_weights"):
        if name not in extras:
            made.append(np.ones(len(kept)))
            continue
        column = normalise(extras[name].iloc[kept])
        if column.dtype != np.float64:
            raise DataError(f"{name} are not numbers ({extras[name].dtype}); wanted one number for each row.")
        values = column.to_numpy(copy=True)
        if not np.isfinite(values).all():
            raise DataError(f"{name} have infinite values; wanted finite numbers, 0 or larger.")
        if (values < 0).any():
            raise DataError(f"{name} are negative on {int((values < 0).sum())} rows; wanted numbers, 0 or larger.")
        if (values > 0).sum() < 2:
            raise DataError(
                f"{name} are zero on every row, or on all but one; wanted positive numbers on the rows that count."
            )
        if not SMALLEST <= values.max() <= LARGEST:
            raise DataError(f"{name} reach {values.max():.3g}; expected {SMALLEST:g} to {LARGEST:g}. Rescale them.")
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
    levels = [treatment.label(level) for level in treatment.levels]
    if own is not None:
        if (settings.repeats or 1) > 1:
            raise DataError(
                "folds are labels of your own and repeats > 1: the same folds would be used each time. Use repeats=1."
            )
        labels = np.asarray(pd.factorize(own.iloc[kept], sort=True)[0], dtype=np.intp)
        if labels.max() == 0:
            raise DataError("folds has a single label; wanted at least two, or folds=1 for no sample splitting.")
        warn_of_cut_clusters(make_splits([labels]), clusters)
        drawn = [[labels]]
    else:
        folds = int(settings.folds)
        if folds > n:
            raise DataError(f"folds={_shown(settings.folds)}, but only {n} rows are in use. Use fewer folds.")
        _check_fold_count(folds, arms, treatment.name, levels, clusters)
        copies = None if clusters.codes else find_copies(blueprint.design.base)
        units = n if copies is None else int(copies.max()) + 1
        if folds > units:
            raise DataError(
                f"folds={folds}, but only {units} rows are distinct, and copies of a row are kept in one fold. Use fewer folds."
            )
        children = np.random.SeedSequence([settings.seed, 0]).spawn(_repeats(settings, folds, units, clusters))
        drawn = [_draw(copies, n, folds, arms, clusters, np.random.default_rng(child)) for child in children]
    splits = [make_splits(labels) for labels in drawn]
    for repeat in splits:
        check_splits(repeat, arms, levels, treatment.name)
    return splits


def _repeats(settings: Settings, folds: int, n: int, clusters: ClusterLabels) -> int:
    """As often as asked for, or as the learner likes when there is something to draw anew."""
    if settings.repeats is not None:
        return settings.repeats
    if folds == 1:
        return 1
    units = min([n, *(len(np.unique(codes)) for codes in clusters.codes)])
    return settings.learner.usual_repeats(units)


def _draw(
    copies: npt.NDArray[np.intp] | None,
    n: int,
    folds: int,
    arms: npt.NDArray[np.intp] | None,
    clusters: ClusterLabels,
    rng: np.random.Generator,
) -> list[npt.NDArray[np.intp]]:
    """Fold labels in each dimension of the clusters; copies of a row get those of the row."""
    if folds == 1:
        return [np.zeros(n, dtype=np.intp)]
    if copies is not None:
        _, first = np.unique(copies, return_index=True)
        return [draw_labels(len(first), folds, None if arms is None else arms[first], None, rng)[copies]]
    return [draw_labels(n, folds, arms, groups, rng) for groups in clusters.codes or (None,)]


def _check_fold_count(
    folds: int,
    arms: npt.NDArray[np.intp] | None,
    name: str,
    levels: Sequence[str],
    clusters: ClusterLabels,
) -> None:
    if folds > 1 and arms is not None:
        counts = np.bincount(arms, minlength=len(levels))
        if counts.min() < folds:
            rare = int(counts.argmin())
            raise DataError(
                f"Arm {name}={levels[rare]} has {counts[rare]} rows, fewer than folds={folds}, so some fold would lack it. "
                "Use fewer folds, merge arms, or drop this one."
            )
    for label, codes in zip(clusters.names, clusters.codes, strict=True):
        if folds > codes.max() + 1:
            raise DataError(
                f"folds={folds}, but cluster `{label}` has only {codes.max() + 1} clusters. Use fewer folds."
            )
