"""Checks that the parts of a fit read from a file fit together: shapes, ranges, and numbers that must be finite.

The checksum detects damage, not manipulation. A file with a valid checksum may still hold anything, so everything that later code
relies on is checked here, once, when the file is read. A failed check raises a ValueError that names the part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.crossfit.calibration import Calibration
from riesz.crossfit.candidates import Candidate
from riesz.crossfit.stacking import Stacking
from riesz.design.arm_numbers import reading_arms
from riesz.design.constant_columns import Compact
from riesz.design.design import Base, Design
from riesz.design.moment import Evaluation, Linked, Links, Moment
from riesz.design.stored import to_stored
from riesz.design.table import ClusterLabels
from riesz.errors import LearnerError
from riesz.estimands.treatment import Treatment
from riesz.families import Family, find_family
from riesz.inference import Alternatives
from riesz.learners import Fit, Learner
from riesz.predictions import Predictions
from riesz.results.model import Model
from riesz.results.placeholders import RememberedFit
from riesz.storage.annotations import check_fields, conforms

AnyArray = npt.NDArray[Any]
_HUGE = 1e150  # the square of anything larger is infinite


def _need(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def _finite(values: AnyArray, shape: tuple[int, ...], what: str) -> None:
    _need(values.shape == shape, f"{what} has the wrong shape")
    _need(bool((np.abs(values) < _HUGE).all()), f"{what} is missing or infinite somewhere")


def _numbered(codes: AnyArray, n: int, count: int, what: str) -> None:
    _need(codes.shape == (n,), f"{what} has the wrong shape")
    _need(not n or 0 <= int(codes.min()) <= int(codes.max()) < count, f"{what} has numbers out of range")


def check_model(model: Model) -> None:
    """Check the model: data, design, treatment, weights, settings."""
    check_fields(model)
    check_fields(model.recipe)
    blueprint, base = model.blueprint, to_stored(model.blueprint.design)
    n, components = len(base.y), blueprint.components
    names = [component.name for component in components]
    _need(n >= 2, "too few rows")
    _need(all(conforms([c.name, c.symbol, c.words], list[str]) for c in components), "components are not text")
    _need(0 < len(names) == len(set(names)), "the names of the parameters")
    _check_base(base, n, len(names))
    _check_rows(model, n)
    _check_treatment(blueprint.treatment, base, blueprint.data)
    for name, values in (("sampling", model.weights.sampling), ("frequency", model.weights.frequency)):
        _finite(values, (n,), f"{name} weights")
        _need(bool((values > 0).all()), f"{name} weights are not positive")
    _need(np.array_equal(base.frequency, model.weights.frequency), "the frequencies differ")
    _need(np.allclose(base.weights, model.weights.total, rtol=1e-9, atol=0), "the weights differ")
    _check_settings(model)
    specifications = [spec for estimand in model.recipe.estimands for spec in estimand.specifications()]
    _need(max(len(specifications), len(model.recipe.estimands)) <= len(names), "more estimands than parameters")
    kinds = {estimand.treatment_kind(blueprint.data[blueprint.treatment.name]) for estimand in model.recipe.estimands}
    _need(
        ("number" if blueprint.treatment.levels else "arms") not in kinds, "an estimand for another kind of treatment"
    )
    model.learner.describe(base.family)


def _check_base(base: Base, n: int, components: int) -> None:
    _need(base.z.ndim == 2 and base.z.shape[1] > 0, "the design has no columns")
    columns, moment = base.z.shape[1], base.moment
    _finite(base.y, (n,), "the outcome")
    _finite(base.z, (n, columns), "the design")
    _need(len(base.names) == len(base.reads) == columns, "the names of the columns")
    _check_moment(moment, n, columns, components)
    _check_linked(base.anchor, moment.links, components, n, "the anchor")
    _need(base.treatment.ndim == 2 and base.treatment.shape[1] > 0, "the treatment has no columns")
    _finite(base.treatment, (n, base.treatment.shape[1]), "the treatment")
    for point in moment.points:
        _check_table(point.kept_treatment, base.treatment.shape, "a reading's treatment")
    _need(base.covariates.ndim == 1, "the covariates have the wrong shape")
    _numbered(base.covariates, len(base.covariates), columns, "the covariates")
    _need(len(np.unique(base.covariates)) == len(base.covariates), "a covariate appears twice")
    _finite(base.weights, (n,), "the weights")
    if base.groups is not None:
        _numbered(base.groups, n, n, "the groups")
    _need(bool(_family(base.family).has(base.y).all()), f"an outcome outside of family={base.family!r}")
    if base.bounds is not None:
        low, high = base.bounds
        _need(-np.inf < low < high < np.inf and low <= base.y.min() and base.y.max() <= high, "the outcome's bounds")


def _family(name: str) -> Family:
    try:
        return find_family(name)
    except LearnerError:
        raise ValueError("the family") from None


def _check_moment(moment: Moment, n: int, columns: int, components: int) -> None:
    readings = len(moment.points)
    _need(readings > 0, "no readings")
    _check_links(moment.links, components, readings)
    _finite(moment.weights, (len(moment.links.reading), n), "the moment's weights")
    _finite(moment.normalizer, (components, n), "the normalizer")
    _need(bool((np.abs(moment.normalizer.mean(axis=1)) > 0).all()), "a normalizer of zero")
    for point in moment.points:
        _need(point.columns.ndim == 1, "a reading's columns have the wrong shape")
        q = len(point.columns)
        _numbered(point.columns, q, columns, "a reading's columns")
        _check_table(point.kept_values, (n, q), "a reading's values")
        if point.tangents is not None:
            _finite(point.tangents, (n, q), "a reading's tangents")
        _need(bool(np.isfinite(point.treatment_slope)), "a reading's slope")


def _check_table(table: Compact, shape: tuple[int, ...], what: str) -> None:
    rows, columns = shape
    _finite(table.constants, (columns,), what)
    _numbered(table.places, len(table.places), columns, what)
    _need(bool((np.diff(table.places) > 0).all()), f"{what} has columns that are not in order")
    _finite(table.varying, (rows, len(table.places)), what)


def _check_links(links: Links, components: int, readings: int) -> None:
    count = len(links.component)
    _numbered(links.component, count, components, "the components of the links")
    _numbered(links.reading, count, readings, "the readings of the links")
    places = links.component * readings + links.reading
    _need(bool((np.diff(places) > 0).all()), "the links are not in order")
    _need(len(np.unique(links.component)) == components, "a component without readings")


def _check_evaluation(evaluation: Evaluation, readings: int, n: int, what: str) -> None:
    _finite(evaluation.observed, (n,), what)
    _finite(evaluation.values, (readings, n), what)
    _finite(evaluation.slopes, (readings, n), what)


def _check_linked(linked: Linked, links: Links, components: int, n: int, what: str, missing: bool = False) -> None:
    same = np.array_equal(linked.links.component, links.component) and np.array_equal(
        linked.links.reading, links.reading
    )
    _need(same, f"{what} is not known where the components read it")
    at_links = (len(links.reading), n)
    for values, shape in ((linked.observed, (components, n)), (linked.values, at_links), (linked.slopes, at_links)):
        if missing:
            _need(values.shape == shape, f"{what} has the wrong shape")
        else:
            _finite(values, shape, what)


def _check_rows(model: Model, n: int) -> None:
    table, kept, data = model.table, model.kept, model.blueprint.data
    _numbered(kept, n, table.rows, "the rows in use")
    _need(bool((np.diff(kept) > 0).all()), "the rows in use are not in order")
    _need(data.index.equals(pd.RangeIndex(n)), "the data have other rows than the design")
    design = model.blueprint.design
    read = {*model.covariates, *design.hidden}.union(*design.reads)
    _need(read <= set(data.columns), "a column of the formula is not in the data")
    _need(read <= {*model.covariates, model.blueprint.treatment.name}, "a column of the formula is not a covariate")
    usable = [data[name].dtype == np.float64 or isinstance(data[name].dtype, pd.CategoricalDtype) for name in read]
    _need(all(usable), "a column of the formula holds neither numbers nor labels")
    _need(set(table.columns) <= set(model.recipe.columns), "the columns of the table")


def _check_treatment(treatment: Treatment, base: Base, data: pd.DataFrame) -> None:
    levels = list(treatment.levels)
    column = data[treatment.name]
    if treatment.categorical:
        _need(isinstance(column.dtype, pd.CategoricalDtype), "the treatment's column has no levels")
        _need(len(levels) >= 2 and list(column.cat.categories) == levels, "the treatment's levels")
        _need(not column.isna().any(), "the treatment is missing somewhere")
    else:
        _need(column.dtype == np.float64 and bool(np.isfinite(column).all()), "the treatment's column has no numbers")
        _need(levels in ([], [0.0, 1.0]), "the treatment's levels")
        _need(not levels or bool(column.isin(levels).all()), "the treatment is not 0 or 1")
    _need(base.treatment.shape[1] == (len(levels) - 1 if treatment.categorical else 1), "the treatment's columns")
    _need((base.strata is None) == (not levels), "the treatment's strata")
    _need(np.array_equal(base.treatment, treatment.inputs(data)), "the treatment is not that of the data")
    _need(base.strata is None or np.array_equal(base.strata, _codes(treatment, data)), "the treatment's strata")
    _need(
        not any(treatment.name in base.reads[column] for column in base.covariates), "a covariate that is the treatment"
    )


def _codes(treatment: Treatment, data: pd.DataFrame) -> AnyArray:
    codes = treatment.codes(data)
    return np.empty(0, dtype=np.intp) if codes is None else codes


def _check_settings(model: Model) -> None:
    """Check types, and that design and settings agree; settings check their own values when they are built."""
    settings, design = model.settings, model.blueprint.design
    check_fields(settings)
    _need(
        settings.family == design.family and settings.bounds == design.bounds,
        "the settings are not those of the design",
    )
    for name in ("folds", "weights", "freq_weights", "cluster"):
        value = getattr(settings, name)
        for part in value if isinstance(value, tuple) else (value,):
            _need(part is None or isinstance(part, (int, float, str, pd.Series)), f"the setting {name}")
            _need(not isinstance(part, pd.Series) or len(part) == model.table.rows, f"the setting {name}")


def check_fitted(
    model: Model,
    fitted: Mapping[str, Any],
    clusters: ClusterLabels,
    candidates: Sequence[Candidate],
) -> None:
    """Check the estimates: predictions, folds, clusters, and fits that can predict."""
    design = model.blueprint.design
    n, components, readings = len(design), design.components, len(design.is_derivative)
    predictions, folds, trained = fitted["predictions"], fitted["folds"], fitted["trained"]
    _need(conforms(predictions, tuple[Predictions, ...]) and len(predictions) > 0, "the predictions")
    _need(conforms(trained, tuple[npt.NDArray[np.bool_], ...]), "the training rows")
    _need(conforms(folds, npt.NDArray[np.intp]), "the folds")
    repeats, combined, learner = len(folds), len(predictions), model.learner
    _need(folds.shape == (repeats, n) and len(trained) == repeats, "the folds have the wrong shape")
    _need(
        combined == (1 if len(candidates) > 1 and combined == 1 else repeats), "not one set of predictions per repeat"
    )
    for labels, masks in zip(folds, trained, strict=True):
        _need(masks.ndim == 2 and masks.shape[1] == n, "the training rows have the wrong shape")
        _numbered(labels, n, len(masks), "the folds")
        _need(len(np.unique(labels)) == len(masks) and bool(masks.any(axis=1).all()), "a fold is empty")
    for prediction in predictions:
        _check_evaluation(prediction.mu, readings, n, "mu")
        _check_linked(prediction.rr, design.links, components, n, "rr", missing=not learner.learns_rr)
    numbers = npt.NDArray[np.float64]
    for name, shape in (
        ("scales", (combined, components)),
        ("caps", (combined, components)),
        ("params", (components,)),
    ):
        _need(conforms(fitted[name], numbers) and fitted[name].shape == shape, f"{name} have the wrong shape")
    _need(bool(np.isfinite(fitted["scales"]).all()), "scales are missing or infinite")
    _need(bool((fitted["caps"] > 0).all()), "caps are not positive")
    _need(conforms(fitted["covariance"], numbers) and fitted["covariance"].shape == (components,) * 2, "the covariance")
    check_clusters(clusters, n)
    _need(len(candidates) > 0, "no learner")
    for candidate in candidates:
        _need(isinstance(candidate.learner, Learner), "the learner is of the wrong type")
        _need(len(candidate.fits) == sum(len(masks) for masks in trained), "not one fit for each fold")
        for fit in candidate.fits:
            _check_fit(fit, design, candidate.learner)


def check_calibration(calibration: Any, predictions: int, design: Design) -> None:
    """Check the steps by which predictions were calibrated."""
    _need(conforms(calibration, tuple[Calibration, ...]), "the calibration")
    _need(len(calibration) in (0, predictions), "not one calibration for each set of predictions")
    if not calibration:
        return
    _need(reading_arms(design) is not None, "a calibration without arms")
    arms = design.treatment.shape[1] + 1
    for steps in calibration:
        _need(len(steps.rr) in (0, design.components), "the calibration of rr has the wrong shape")
        for of_arms in (steps.mu, *steps.rr):
            _need(len(of_arms) == arms, "not one calibration for each arm")
            for step in of_arms:
                if step is not None:
                    _finite(step.values, (len(step.starts) + 1,), "calibrated values")
                    _finite(step.starts, (len(step.values) - 1,), "the blocks of a calibration")
                    _need(bool((np.diff(step.starts) > 0).all()), "the blocks of a calibration are not in order")


def check_stacking(
    count: int,
    stacking: Sequence[Stacking],
    alternatives: Sequence[Alternatives],
    predictions: int,
    repeats: int,
    design: Design,
) -> None:
    """Check the weights and losses of a stack of ``count`` candidates, and the candidates' scores.

    A stack combines all repeats; one of an older file combines the candidates in each repeat.
    """
    components, n = design.components, len(design)
    arms = 1 if reading_arms(design) is None else design.treatment.shape[1] + 1
    _need(conforms(stacking, tuple[Stacking, ...]), "the weights of the stack")
    _need(len(stacking) == (predictions if count > 1 else 0), "not one set of weights for each set of predictions")
    columns = count * repeats // max(len(stacking), 1)
    for weights in stacking:
        _need(len(weights.mu) in (1, arms), "the weights of mu have the wrong shape")
        _finite(weights.mu, (len(weights.mu), columns), "the weights of mu")
        _finite(weights.rr, (components, columns), "the weights of rr")
        _need(
            weights.levels.ndim == 2 and weights.levels.shape[1] in (1, arms), "the levels of rr have the wrong shape"
        )
        _finite(weights.levels, (components, weights.levels.shape[1]), "the levels of rr")
        _need(weights.mu_loss.shape == (columns + 1,), "the losses of mu have the wrong shape")
        _need(weights.rr_loss.shape == (components, columns + 1), "the losses of rr have the wrong shape")
        _need(weights.scales.shape == (components, columns), "the scales have the wrong shape")
        _need(weights.claims.shape == (columns,), "the claims have the wrong shape")
    _need(conforms(alternatives, tuple[Alternatives, ...]), "the scores of the learners")
    _need(len(alternatives) == len(stacking), "not one set of scores for each set of weights")
    for others in alternatives:
        _finite(others.shares, (components, 2 * count), "the shares of the learners")
        _need(len(others.alone) == columns and len(others.swapped) == 2 * count, "not one set of scores per learner")
        for scores in (*others.alone, *others.swapped):
            _need(scores.values.shape == scores.residuals.shape == (components, n), "the scores have the wrong shape")


def check_clusters(clusters: ClusterLabels, n: int) -> None:
    """Check the clusters: every label has rows, and every row a label."""
    _need(len(clusters.names) <= 2 and conforms(clusters.names, tuple[str, ...]), "the names of the clusters")
    for codes, labels in zip(clusters.codes, clusters.labels, strict=True):
        _need(conforms(codes, npt.NDArray[np.intp]), "the clusters")
        _numbered(codes, n, len(labels), "the clusters")
        _need(len(np.unique(codes)) == len(labels) >= 2, "clusters without rows")


def _check_fit(fit: Fit, design: Design, learner: Learner) -> None:
    """Check that a fit can predict rows and has details and a history."""
    _need(isinstance(fit, Fit), "a fit of an unknown kind")
    _need(conforms(dict(fit.details()), Mapping[str, float]), "the details of a fit")
    _need(fit.history().columns.is_unique, "the history of a fit")
    if isinstance(fit, RememberedFit):
        return
    sample, readings = design.take(np.arange(min(2, len(design)))), len(design.is_derivative)
    try:
        predicted = fit.predict(sample)
    except LearnerError:  # the fit needs the moment's function, which files do not hold
        return
    _check_evaluation(predicted.mu, readings, len(sample), "a fit's mu")
    _check_linked(
        predicted.rr, design.links, design.components, len(sample), "a fit's rr", missing=not learner.learns_rr
    )
