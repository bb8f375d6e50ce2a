"""From formula, estimands and data to the arrays of a design.

In: the parsed formula (``syntax/formula.py``), the rows in use (``table.py``) and the estimands. Out: a
:class:`~riesz.design.design.Blueprint`. A problem that cannot be fitted is refused here, before any fitting.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.design.constant_columns import Compact, compact
from riesz.design.design import Base, Blueprint, Design
from riesz.design.moment import Linked, Links, Look, Moment, Points
from riesz.design.table import LARGEST, SMALLEST
from riesz.errors import DataError, EstimandError, RieszWarning
from riesz.estimands import Component, Estimand, Sample
from riesz.estimands.custom import automatic_anchor
from riesz.estimands.expressions import call
from riesz.estimands.linear_form import LinearForm, Mu, Reading, read
from riesz.estimands.treatment import Treatment, TreatmentKind, describe_treatment
from riesz.families import find_family
from riesz.syntax.columns import Columns
from riesz.syntax.counterfactual import replace_columns
from riesz.syntax.evaluation import evaluate_term
from riesz.syntax.formula import Formula


def build(
    formula: Formula,
    estimands: Sequence[Estimand],
    data: pd.DataFrame,
    kept: npt.NDArray[np.intp],
    total: int,
    weights: Array,
    frequency: Array,
    groups: npt.NDArray[np.intp] | None,
    family: str,
    bounds: tuple[float, float] | None,
    context: Mapping[str, Any],
) -> Blueprint:
    """Make the arrays of a problem; one that cannot be fitted is refused here, before any fitting.

    Parameters
    ----------
    formula : Formula
    estimands : sequence of Estimand
        Fitted together; their components stand side by side.
    data : pandas.DataFrame
        The rows in use, normalised by ``table.py``, with a fresh index.
    kept : ndarray of int, shape (n,)
        The positions of those rows in the user's table.
    total : int
        Rows of the user's table.
    weights, frequency : ndarray, shape (n,)
    groups : ndarray of int, shape (n,), or None
    family : str
        The name of one in :mod:`riesz.families`.
    bounds : tuple of float or None
    context : mapping
        The caller's variables.

    Returns
    -------
    Blueprint
    """
    if formula.treatment_expression is not None:
        computed = evaluate_term(formula.treatment_expression, data, context, "treatment")
        data = replace_columns(data, {formula.treatment: computed})
    kind = _treatment_kind(estimands, data[formula.treatment])
    treatment, column = describe_treatment(data[formula.treatment], formula.reference, kind, estimands[0].verb)
    if not treatment.levels:
        _refuse_extremes(treatment.values(data), f"Treatment `{treatment.name}`")
    data = replace_columns(data, {formula.treatment: column})
    y = _outcome(formula, data, family, bounds, context)
    sample = Sample(
        data, treatment, kept, total, context, formula.columns, covariates=formula.covariates, weights=weights
    )
    components = bind(estimands, sample)
    columns = Columns(formula.rhs, data, context)
    forms = [component.moment(Mu(), data) for component in components]
    moment, readings = stack_moment(forms, components, columns, treatment, data)
    anchors = [
        automatic_anchor(form, sample, formula.covariates) if component.anchor is None else component.anchor
        for form, component in zip(forms, components, strict=True)
    ]
    anchor = stack_anchors(anchors, readings, moment.links, components, data)
    for component, share in zip(components, moment.normalizer, strict=True):
        if abs(share.mean()) <= 1e-12 * np.abs(share).mean():
            raise EstimandError(f"The normalizer of {component.name} is zero on average: no row belongs to its group.")
    for component, row in zip(components, moment.apply(anchor), strict=True):
        _check_anchor(row, component.name)
    base = Base(
        y=y,
        z=columns.matrix,
        names=columns.names,
        moment=moment,
        anchor=anchor,
        treatment=treatment.inputs(data),
        covariates=columns.without({treatment.name}),
        weights=weights,
        frequency=frequency,
        groups=groups,
        strata=treatment.codes(data),
        family=family,
        bounds=bounds,
        interacted=columns.interact(treatment.name),
        reads=columns.reads,
        hidden=columns.hidden(treatment.name),
        looks=lambda other: looks(estimands, sample, columns, other),
    )
    return Blueprint(Design(base, slice(None)), components, treatment, data)


def _treatment_kind(estimands: Sequence[Estimand], column: pd.Series) -> TreatmentKind:
    kinds: set[TreatmentKind] = {estimand.treatment_kind(column) for estimand in estimands}
    if {"arms", "number"} <= kinds:
        verbs = ", ".join(estimand.verb for estimand in estimands)
        raise EstimandError(
            f"The estimands {verbs} cannot be fitted together: some need a treatment with arms, others a continuous one. "
            "Fit them separately."
        )
    return next(iter(kinds - {"any"}), "any")


def outcome_values(formula: Formula, data: pd.DataFrame, family: str, context: Mapping[str, Any]) -> Array:
    """The left-hand side as numbers, shape (n,)."""
    column = evaluate_term(formula.outcome, data, context, "outcome")
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = list(column.cat.categories)
        if family != "binomial" or len(levels) != 2:
            raise DataError(
                f"The outcome `{formula.outcome}` holds labels ({len(levels)} of them); it must be numeric. Two labels work with "
                "family='binomial', the second counting as 1."
            )
        column = (column == levels[1]).astype(float)
    return np.asarray(column, dtype=float)


def _outcome(
    formula: Formula,
    data: pd.DataFrame,
    family: str,
    bounds: tuple[float, float] | None,
    context: Mapping[str, Any],
) -> Array:
    y = outcome_values(formula, data, family, context)
    _refuse_extremes(y, f"The outcome `{formula.outcome}`")
    if np.ptp(y) == 0:
        raise DataError(
            f"The outcome `{formula.outcome}` is constant ({y[0]:g} on every row used); no effect can be estimated."
        )
    limits = None
    if not (of := find_family(family)).has(y).all():
        limits = f"family={family!r} expects {of.expected}"
    elif bounds is not None and (y.min() < bounds[0] or y.max() > bounds[1]):
        limits = f"bounds={bounds} were given"
    if limits is not None:
        raise DataError(f"The outcome `{formula.outcome}` ranges from {y.min():g} to {y.max():g}, but {limits}.")
    return y


def _refuse_extremes(values: Array, what: str) -> None:
    """Squares of such numbers overflow or become zero, so that standard errors cannot be computed."""
    size = float(np.abs(values).max())
    if size > LARGEST or 0 < size < SMALLEST:
        raise DataError(
            f"{what} reaches {size:.3g} in absolute value; expected numbers between {SMALLEST:g} and {LARGEST:g}. Rescale it."
        )


def bind(estimands: Sequence[Estimand], sample: Sample) -> tuple[Component, ...]:
    """The components of all estimands on one sample."""
    components = tuple(component for estimand in estimands for component in estimand.components(sample))
    names = [component.name for component in components]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise EstimandError(
            f"Two estimands are called {twice[0]!r}. Leave one out, or name them: a mapping from names to estimands, such as "
            "riesz.estimate(formula, data, {'high': riesz.APE('x1 > 0'), 'low': riesz.APE('x1 <= 0')})."
        )
    return components


def bind_quietly(estimands: Sequence[Estimand], sample: Sample) -> tuple[Component, ...]:
    """The same without warnings, which were issued when the estimands were bound first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RieszWarning)
        return bind(estimands, sample)


def stack_moment(
    forms: Sequence[LinearForm],
    components: Sequence[Component],
    columns: Columns,
    treatment: Treatment,
    data: pd.DataFrame,
) -> tuple[Moment, list[Reading]]:
    """Stack the readings of all components, each distinct one once; return the moment and these readings."""
    points: list[Points] = []
    readings: list[Reading] = []
    keys: list[tuple[str | None, Mapping[str, pd.Series]]] = []
    weights: list[dict[int, Array]] = []
    for form in forms:
        by_index: dict[int, Array] = {}
        for reading in form.readings:
            changes = columns.changed(reading.frame)
            index = _find_reading(keys, reading.wrt, changes)
            if index is None:
                index = len(keys)
                keys.append((reading.wrt, changes))
                points.append(_points(columns, treatment, changes, reading.wrt, data))
                readings.append(reading)
            by_index[index] = by_index.get(index, 0.0) + reading.weight
        weights.append(by_index)
    links = [(component, reading) for component, by_index in enumerate(weights) for reading in sorted(by_index)]
    stacked = np.stack([np.asarray(weights[component][reading], dtype=float) for component, reading in links])
    if not np.isfinite(stacked).all():
        raise EstimandError(
            "The moment multiplies a reading of mu by a missing or infinite value; weights must be finite."
        )
    normalizer = np.stack([np.asarray(component.normalizer(data), dtype=float) for component in components])
    pairs = np.array(links, dtype=np.intp)
    return Moment(tuple(points), Links(pairs[:, 0].copy(), pairs[:, 1].copy()), stacked, normalizer), readings


def _find_reading(
    keys: Sequence[tuple[str | None, Mapping[str, pd.Series]]], wrt: str | None, changes: Mapping[str, pd.Series]
) -> int | None:
    """The place of a reading among those that are stacked already; None if it is new."""
    for index, (other_wrt, other) in enumerate(keys):
        if other_wrt == wrt and other.keys() == changes.keys() and all(other[k].equals(changes[k]) for k in other):
            return index
    return None


def _points(
    columns: Columns, treatment: Treatment, changes: Mapping[str, pd.Series], wrt: str | None, data: pd.DataFrame
) -> Points:
    inputs = _treatment_inputs(treatment, replace_columns(data, changes))
    if wrt is None:
        where, values = columns.at(changes)
        return Points(where, compact(values), None, inputs, 0.0)
    where, values, tangents = columns.tangent(changes, wrt)
    return Points(where, compact(values), tangents, inputs, float(wrt == treatment.name))


def _treatment_inputs(treatment: Treatment, data: pd.DataFrame) -> Compact:
    """The raw treatment; of one row if all rows are in the same arm, as they are at the readings of an arm."""
    if treatment.categorical:
        arms = treatment.numbers(data)
        if (arms == arms[0]).all():
            (constants,) = treatment.indicators(arms[:1])
            return Compact(constants, np.empty(0, dtype=np.intp), np.empty((len(data), 0)))
    return compact(treatment.inputs(data))


def looks(
    estimands: Sequence[Estimand], sample: Sample, columns: Columns, other: Array
) -> tuple[tuple[Look, ...], ...]:
    """Bind the estimands again to rows with another treatment: where each component would then read mu."""
    treatment = sample.treatment
    levels = np.asarray(treatment.levels, dtype=object)
    data = treatment.set(sample.data, levels[other.astype(np.intp)] if treatment.levels else other)
    components = bind_quietly(estimands, replace(sample, data=data))

    def look(reading: Reading) -> Look:
        changes = columns.changed(reading.frame)
        along: Literal["value", "treatment", "other"] = "other"
        if reading.wrt in (None, treatment.name):
            along = "value" if reading.wrt is None else "treatment"
        inputs = _treatment_inputs(treatment, replace_columns(sample.data, changes))
        return Look(reading.weight, inputs, along, bool(changes.keys() - {treatment.name}))

    return tuple(tuple(look(reading) for reading in component.moment(Mu(), data).readings) for component in components)


def stack_anchors(
    anchors: Sequence[Callable[[pd.DataFrame], Any]],
    readings: Sequence[Reading],
    links: Links,
    components: Sequence[Component],
    data: pd.DataFrame,
) -> Linked:
    """All anchors at every row and at the readings of their components."""
    parts = [
        _anchor(anchor, [readings[k] for k in links.reading[links.of(c)]], component.name, data)
        for c, (anchor, component) in enumerate(zip(anchors, components, strict=True))
    ]
    observed, values, slopes = zip(*parts, strict=True)
    return Linked(np.stack(observed), np.concatenate(values), np.concatenate(slopes), links)


def _anchor(
    anchor: Callable[[pd.DataFrame], Any], readings: Sequence[Reading], name: str, data: pd.DataFrame
) -> tuple[Array, Array, Array]:
    """Beta at every row, shape (n,), and its values and derivatives at some readings, each of shape (readings, n)."""

    def beta(frame: pd.DataFrame) -> Array:
        try:
            value = np.asarray(call(anchor, frame, f"The anchor of {name}"), dtype=float)
        except (TypeError, ValueError) as error:
            if isinstance(error, EstimandError):
                raise
            raise EstimandError(
                f"The anchor of {name} gave values that are not numbers; expected one number per row."
            ) from None
        if value.ndim > 1 or (value.ndim == 1 and len(value) != len(data)):
            raise EstimandError(
                f"The anchor of {name} has shape {value.shape}; expected one value for each of {len(data)} rows."
            )
        return np.broadcast_to(value, len(data))

    observed = beta(data)
    values = np.stack([beta(reading.frame) for reading in readings])
    slopes = np.stack([np.zeros(len(data)) if reading.wrt is None else read(reading, beta) for reading in readings])
    if not all(np.isfinite(part).all() for part in (observed, values, slopes)):
        raise EstimandError(
            f"The anchor of {name} is missing or infinite on some rows; it must be a known function with finite values."
        )
    return observed, values, slopes


def _check_anchor(moment: Array, name: str) -> None:
    """h_n(beta) must differ significantly from zero; m(beta) may be constant."""
    h, spread = float(moment.mean()), float(moment.std(ddof=1)) / np.sqrt(len(moment))
    scale = float(np.abs(moment).mean())
    if scale == 0 or abs(h) < max(2 * spread, 1e-12 * scale):
        raise EstimandError(
            f"The anchor of {name} has mean moment h_n(beta) = {h:.3g} (standard error {spread:.2g}), which is not significantly "
            "different from zero. Pass another anchor, a known function of treatment and covariates whose moment is clearly not "
            "zero: riesz.CustomMoment(..., anchor=...)."
        )
