"""From a call's arguments to a problem: rows, weights, clusters, arrays and splits, all checked before any fit.

In: the formula, one table, the estimands and the settings. Out: a :class:`Prepared`, which is ready to be fitted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.api.splits import split_rows
from riesz.crossfit.crossfit import Problem
from riesz.crossfit.untrained_levels import refuse_untrained
from riesz.design.build import build
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
from riesz.errors import DataError
from riesz.estimands import Estimand
from riesz.inference import Weights
from riesz.results.model import Model
from riesz.settings import Settings
from riesz.syntax.counterfactual import replace_columns
from riesz.syntax.formula import parse_formula

_WEIGHTING = {"weights": "sampling", "freq_weights": "frequency"}  # as the summary shows it


@dataclass(frozen=True)
class Prepared:
    """A problem that is ready to be fitted, and what its results keep.

    Attributes
    ----------
    model : Model
    clusters : ClusterLabels
    problem : Problem
    """

    model: Model
    clusters: ClusterLabels
    problem: Problem


@dataclass(frozen=True)
class Arguments:
    """The arguments that give one value per row of the table, as columns.

    Attributes
    ----------
    columns : dict of str to pandas.Series
        ``weights``, ``freq_weights`` and ``folds``, if they were given (``folds`` only if it gives labels).
    clusters : dict of str to pandas.Series
        The cluster labels by name, at most two.
    reserved : tuple of str
        The columns of the table among them, which ``.`` in a formula leaves out.
    """

    columns: dict[str, pd.Series]
    clusters: dict[str, pd.Series]
    reserved: tuple[str, ...]


@dataclass(frozen=True)
class Rows:
    """The rows in use.

    Attributes
    ----------
    frame : pandas.DataFrame, n rows
        The columns that formula and estimands read, with a fresh index.
    kept : ndarray of int, shape (n,)
        Their positions in the table.
    weights : Weights
    """

    frame: pd.DataFrame
    kept: npt.NDArray[np.intp]
    weights: Weights


def prepare(
    formula: str, data: Any, estimands: Sequence[Estimand], settings: Settings, scope: Mapping[str, Any]
) -> Prepared:
    """Read, check and split one table.

    Parameters
    ----------
    formula, data
        As in :func:`riesz.estimate`.
    estimands : sequence of Estimand
    settings : Settings
    scope : mapping
        Where formula and policies look up names that are not columns.
    """
    if isinstance(data, str) and not isinstance(formula, str):
        raise DataError(
            f"data is a str and formula a {type(formula).__name__}; the formula comes first: riesz.ate('y ~ treat(a) + x', data)."
        )
    table = Table(data)

    # 1. read the formula and find the columns that are needed
    arguments = _read_arguments(settings, table)
    parsed = parse_formula(formula, table.columns, arguments.reserved, scope)

    # 2. the rows in use
    _check_arguments(arguments, estimands, table)
    rows = _rows(table, parsed.variables, estimands, arguments, settings.na_action)
    clusters = table.clusters(settings.cluster, rows.kept)

    # 3. the arrays, and every check that needs no fitting
    blueprint = build(
        parsed,
        estimands,
        rows.frame,
        kept=rows.kept,
        total=table.rows,
        weights=rows.weights.total,
        frequency=rows.weights.frequency,
        groups=clusters.codes[0] if clusters.codes else None,
        family=settings.family,
        bounds=settings.bounds,
        context=scope,
    )
    labels = arguments.columns.get("folds")
    splits = split_rows(blueprint, settings, clusters, None if labels is None else labels.iloc[rows.kept])
    refuse_untrained(blueprint.design, splits)

    # 4. what the results keep
    context = _named_variables(scope, formula, estimands)
    model = Model(
        settings=_settings_to_keep(settings, arguments, context),
        recipe=Recipe(formula, table.columns, arguments.reserved, tuple(estimands), context),
        endog_names=parsed.outcome,
        exog_names=[component.name for component in blueprint.components],
        covariates=parsed.covariates,
        column_names=list(blueprint.design.names),
        blueprint=blueprint,
        table=table,
        kept=rows.kept,
        weights=rows.weights,
        weighting=", ".join(word for name, word in _WEIGHTING.items() if name in arguments.columns),
    )
    return Prepared(model, clusters, Problem(blueprint.design, splits, settings.seed))


def _read_arguments(settings: Settings, table: Table) -> Arguments:
    folds = settings.folds if isinstance(settings.folds, str) or not np.isscalar(settings.folds) else None
    given = {"weights": settings.weights, "freq_weights": settings.freq_weights, "folds": folds}
    clusters = table.cluster_columns(settings.cluster)
    named = [name for name in clusters if name in table.columns] if _names_columns(settings.cluster) else []
    return Arguments(
        columns={name: table.per_row(value, name) for name, value in given.items() if value is not None},
        clusters=clusters,
        reserved=(*(value for value in given.values() if isinstance(value, str)), *named),
    )


def _names_columns(cluster: Any) -> bool:
    return isinstance(cluster, (str, list, tuple))


def _check_arguments(arguments: Arguments, estimands: Sequence[Estimand], table: Table) -> None:
    if "folds" in arguments.columns and arguments.columns["folds"].map(is_nested).any():
        raise DataError("folds must be text or numbers, one label per row; got nested values.")
    for estimand in estimands:
        for specification in estimand.specifications():
            if isinstance(specification, pd.Series):
                table.check_index(specification, estimand.verb)


def _settings_to_keep(settings: Settings, arguments: Arguments, context: Mapping[str, Any]) -> Settings:
    """The settings as a fit keeps them: later changes to the user's arrays have no effect."""
    columns = {
        name: column.copy()
        for name, column in arguments.columns.items()
        if not isinstance(getattr(settings, name), str)
    }
    parts = settings.cluster if isinstance(settings.cluster, (list, tuple)) else (settings.cluster,)
    names = {part for part in parts if isinstance(part, str)} & set(arguments.reserved)
    clusters = tuple(name if name in names else labels.rename(name) for name, labels in arguments.clusters.items())
    cluster = (clusters[0] if len(clusters) == 1 else clusters) if clusters else None
    return replace(settings, **columns, cluster=cluster, context=None if settings.context is None else context)


def _named_variables(scope: Mapping[str, Any], formula: str, estimands: Sequence[Estimand]) -> dict[str, Any]:
    """The variables that the formula or a policy may name; the caller's whole scope would keep all of its data in memory."""
    texts = [formula, *(spec for estimand in estimands for spec in estimand.specifications() if isinstance(spec, str))]
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    return {name: _copied(scope[name]) for name in sorted(words) if name in scope}


def _copied(value: Any) -> Any:
    """A copy of a list or array, such as knots, so that later changes have no effect; other values as they are."""
    return deepcopy(value) if isinstance(value, (list, dict, set, np.ndarray, pd.Series, pd.Index)) else value


def _rows(
    table: Table, variables: frozenset[str], estimands: Sequence[Estimand], arguments: Arguments, na_action: str
) -> Rows:
    """The complete rows with a positive weight."""
    needed = set(variables).union(*(estimand.columns(table.columns) for estimand in estimands))
    any_column = any(estimand.reads_everything for estimand in estimands)
    frame = table.to_pandas([name for name in table.columns if any_column or name in needed])
    marks = {
        f"{name} (argument)": column.isna().map({True: np.nan, False: 0.0})
        for name, column in (arguments.columns | arguments.clusters).items()
    }
    marked = replace_columns(frame, marks) if any(mark.isna().any() for mark in marks.values()) else frame
    used = [name for name in marked.columns if name in needed or name in marks]
    complete = drop_missing(marked, used, na_action)
    kept = complete.index.to_numpy(dtype=np.intp)
    complete = complete[list(frame.columns)].reset_index(drop=True)
    refuse_unusable(complete, sorted(variables))
    weights = _weights(arguments, kept)
    positive = weights.total > 0
    if positive.all():
        return Rows(complete, kept, weights)
    return Rows(_only(complete, positive), kept[positive], _weights(arguments, kept[positive]))


def _only(frame: pd.DataFrame, rows: npt.NDArray[np.bool_]) -> pd.DataFrame:
    part = frame[rows].reset_index(drop=True)
    factors = [name for name in part.columns if isinstance(part[name].dtype, pd.CategoricalDtype)]
    return replace_columns(part, {name: part[name].cat.remove_unused_categories() for name in factors})


def _weights(arguments: Arguments, kept: npt.NDArray[np.intp]) -> Weights:
    """The weights of some rows of the table; ones if they were not given."""
    sampling, frequency = (
        _weight_values(name, arguments.columns[name], kept) if name in arguments.columns else np.ones(len(kept))
        for name in ("weights", "freq_weights")
    )
    if "weights" in arguments.columns:
        sampling = sampling / sampling.mean()  # only relative sampling weights matter
    return Weights(sampling, frequency)


def _weight_values(name: str, column: pd.Series, kept: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    used = normalise(column.iloc[kept])
    if used.dtype != np.float64:
        raise DataError(f"{name} must be numbers, one per row; got {column.dtype}.")
    values: npt.NDArray[np.float64] = used.to_numpy(copy=True)
    if not np.isfinite(values).all():
        raise DataError(f"{name} have infinite values; expected finite numbers, 0 or larger.")
    if (values < 0).any():
        raise DataError(f"{name} are negative on {int((values < 0).sum())} rows; expected numbers, 0 or larger.")
    if (values > 0).sum() < 2:
        raise DataError(f"{name} are zero on every row, or on all but one; expected at least two positive numbers.")
    if not SMALLEST <= values.max() <= LARGEST:
        raise DataError(f"{name} reach {values.max():.3g}; expected {SMALLEST:g} to {LARGEST:g}. Rescale them.")
    if name == "freq_weights" and (values != np.round(values)).any():
        raise DataError("freq_weights count rows, so they must be whole numbers. For survey weights use weights=.")
    return values
