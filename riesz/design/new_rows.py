"""Designs of new rows, from the formula, the treatment and the estimands of a fit.

In: the recipe of a fit, the rows it was fitted on, and a new table. Out: a :class:`~riesz.design.design.Base` of the new rows
with the knots, levels, centres and anchors of the fit. Levels that do not occur in the fit are errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.design.build import bind, bind_quietly, looks, outcome_values, stack_anchors, stack_moment
from riesz.design.design import Base, Blueprint, Design
from riesz.design.table import Table
from riesz.errors import DataError, EstimandError, listing
from riesz.estimands import Estimand, Sample
from riesz.estimands.custom import automatic_anchor
from riesz.estimands.linear_form import Mu
from riesz.syntax.columns import Columns
from riesz.syntax.counterfactual import replace_columns
from riesz.syntax.evaluation import evaluate_term
from riesz.syntax.formula import Formula, parse_formula
from riesz.syntax.labels import labels
from riesz.syntax.safe_formula import parse_safe_formula


@dataclass(frozen=True)
class Recipe:
    """How the arrays of a fit were made, so that those of new rows can be.

    Attributes
    ----------
    formula : str
    columns : tuple of str
        The columns of the user's table.
    reserved : tuple of str
        Those that ``.`` leaves out.
    estimands : tuple of Estimand
    context : mapping
        The caller's variables that formula and policies name.
    trusted : bool
        Whether formula and policies come from the caller, not from a file.
    """

    formula: str
    columns: tuple[str, ...]
    reserved: tuple[str, ...]
    estimands: tuple[Estimand, ...]
    context: Mapping[str, Any]
    trusted: bool = True


@dataclass(frozen=True)
class NewRows:
    """New rows, ready for a learner.

    Attributes
    ----------
    design : Design
        The complete rows; ``y`` is zero where the outcome is not known.
    complete : ndarray of bool, shape (rows,)
        Which rows of the new table those are.
    y : ndarray, shape (n,)
        The outcome; NaN where it is not known.
    index : pandas.Index
        The new table's row labels.
    """

    design: Design
    complete: npt.NDArray[np.bool_]
    y: Array
    index: pd.Index


def extend(recipe: Recipe, blueprint: Blueprint, data: Any) -> NewRows:
    """Make the arrays of new rows.

    Parameters
    ----------
    recipe : Recipe
    blueprint : Blueprint
        Of the fit.
    data : DataFrame
        The new rows; the outcome may be absent.
    """
    table = Table(data)
    formula = _formula(recipe, blueprint)
    _refuse_arrays(recipe.estimands)
    frame, complete, has_outcome = _frame(table, formula, recipe, blueprint)
    fitted, treatment, design = blueprint.data, blueprint.treatment, blueprint.design
    trained = Columns(formula.rhs, fitted, recipe.context)
    _check_names(trained.names, design.names, "columns")
    columns = trained.on(frame)
    n = len(frame)
    sample = Sample(
        frame,
        treatment,
        np.arange(n),
        n,
        recipe.context,
        formula.columns,
        fitted,
        formula.covariates,
        design.weights,
    )
    components = bind(recipe.estimands, sample)
    _check_names(
        [component.name for component in components],
        [component.name for component in blueprint.components],
        "parameters",
    )
    moment, readings = stack_moment(
        [component.moment(Mu(), frame) for component in components], components, columns, treatment, frame
    )
    original = replace(sample, data=fitted, kept=np.arange(len(fitted)), total=len(fitted), fitted=None)
    anchors = [
        automatic_anchor(old.moment(Mu(), fitted), original, formula.covariates) if new.anchor is None else new.anchor
        for old, new in zip(bind_quietly(recipe.estimands, original), components, strict=True)
    ]
    y = np.full(n, np.nan)
    if has_outcome.any():
        y[has_outcome] = outcome_values(formula, frame[has_outcome], design.family, recipe.context)
    base = Base(
        y=np.nan_to_num(y),
        z=columns.matrix,
        names=columns.names,
        moment=moment,
        anchor=stack_anchors(anchors, readings, moment.links, components, frame),
        treatment=treatment.inputs(frame),
        covariates=design.covariates,
        weights=np.ones(n),
        frequency=np.ones(n),
        groups=None,
        strata=treatment.codes(frame),
        family=design.family,
        bounds=design.bounds,
        interacted=design.interacted,
        reads=design.reads,
        hidden=design.hidden,
        looks=lambda other: looks(recipe.estimands, sample, columns, other),
    )
    return NewRows(Design(base, slice(None)), complete, y, table.index(np.arange(table.rows)))


def _formula(recipe: Recipe, blueprint: Blueprint) -> Formula:
    """The formula of a fit; a formula from a file is read only if it is known to be safe."""
    if recipe.trusted:
        return parse_formula(recipe.formula, recipe.columns, recipe.reserved, recipe.context)
    if not recipe.estimands:
        raise EstimandError(
            "This fit was loaded from a file, and predict() would have to evaluate a moment or policy that is a function, which a "
            "file does not hold. Use the fit that was saved, or fit again."
        )
    formula = parse_safe_formula(
        recipe.formula,
        recipe.columns,
        recipe.reserved,
        blueprint.data,
        len(blueprint.design) * len(blueprint.design.names),
    )
    absent = sorted({*formula.variables, formula.treatment} - set(blueprint.data.columns))
    if absent or formula.treatment != blueprint.treatment.name:
        raise DataError(
            f"The file was altered: its formula {recipe.formula!r} does not fit its data. Use the fit that was saved, or fit again."
        )
    return formula


def _check_names(new: Sequence[str], fitted: Sequence[str], what: str) -> None:
    """Refuse a file whose formula and estimands differ from what was fitted, because it was altered."""
    if list(new) != list(fitted):
        raise DataError(
            f"Formula and estimands give other {what} than those of the fit ({listing(new, 3)}; expected {listing(fitted, 3)}), "
            "so it cannot predict. Was the file altered? Use the fit that was saved, or fit again."
        )


def _refuse_arrays(estimands: Sequence[Estimand]) -> None:
    for estimand in estimands:
        for spec in estimand.specifications():
            if np.ndim(spec) > 0 and not isinstance(spec, str):
                raise EstimandError(
                    f"`{estimand.verb}` got an array with one value per row of the fit, which has no values for new rows. "
                    "Fit again with an expression of the columns or a function of the frame."
                )


def _frame(
    table: Table, formula: Formula, recipe: Recipe, blueprint: Blueprint
) -> tuple[pd.DataFrame, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """The complete rows, with the types of the fit; which rows they are; and which of them have an outcome."""
    fitted, outcome = blueprint.data, set(formula.outcome_columns)
    in_policies = set().union(*(estimand.columns(recipe.columns) for estimand in recipe.estimands))
    needed = (set(formula.variables) | in_policies) - (outcome - in_policies)
    absent = sorted(needed - set(table.columns))
    if absent:
        raise DataError(f"The new data lack the column {listing(absent)}, which the fit needs.")
    treatment = blueprint.treatment.name
    frame = table.to_pandas([name for name in fitted.columns if name in table.columns])
    present = frame.notna()
    complete = present[sorted(needed)].all(axis=1).to_numpy()
    if not complete.any():
        raise DataError("Every row of the new data has a missing value among the columns that the fit needs.")
    frame = frame[complete].reset_index(drop=True)
    named = [name for name in frame.columns if name != treatment]
    frame = replace_columns(frame, {name: _conform(frame[name], fitted[name]) for name in named})
    if formula.treatment_expression is not None:
        column = evaluate_term(formula.treatment_expression, frame, recipe.context, "treatment", fitted)
        frame = replace_columns(frame, {treatment: column})
    arms = blueprint.treatment.levels
    frame = replace_columns(frame, {treatment: _conform(frame[treatment], fitted[treatment])})
    unseen = sorted(set(frame[treatment].unique()) - set(arms)) if arms else []
    if unseen:
        raise _never_seen(treatment, labels(unseen), labels(arms))
    has_outcome = np.zeros(len(frame), dtype=bool)
    if outcome <= set(table.columns):
        has_outcome = present[sorted(outcome)].all(axis=1).to_numpy()[complete]
    return frame, complete, has_outcome


def _conform(column: pd.Series, like: pd.Series) -> pd.Series:
    """A new column with the levels of the fit's column, or as numbers like it; missing values stay missing."""
    if isinstance(like.dtype, pd.CategoricalDtype):
        values = column.astype(object)
        levels = list(like.cat.categories)
        unseen = values[column.notna() & ~values.isin(levels)].unique()
        if len(unseen):
            raise _never_seen(str(like.name), sorted(labels(unseen)), labels(levels))
        return pd.Series(pd.Categorical(values, dtype=like.dtype), index=column.index, name=like.name)
    if like.dtype == np.float64 and column.dtype != np.float64:
        raise DataError(
            f"Column `{like.name}` of the new data is {column.dtype}; it was numeric in the fit. Convert it to numbers."
        )
    return column


def _never_seen(name: str, unseen: Any, levels: Any) -> DataError:
    return DataError(
        f"Column `{name}` of the new data has the level {listing(unseen)}, which does not occur in the fit. The fit's levels are "
        f"{listing(levels)}; drop those rows or map them to one of these levels."
    )
