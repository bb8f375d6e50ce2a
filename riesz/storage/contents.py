"""What a fit is made of, and how it is put together again.

Stored: the data (every column), the design's arrays, the settings, folds, predictions of every repeat, and what Linear,
KernelEmbedding and MADNet learned. Not stored: functions (custom moments, policies, functions that a formula calls), the
variables around the call, and scikit-learn's models.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from riesz.crossfitting import CrossFit, Split, trimmed
from riesz.design import Blueprint, Design
from riesz.errors import DataError, EstimandError, RieszError
from riesz.estimands import Component
from riesz.extension import Recipe
from riesz.frame import ClusterLabels, Table
from riesz.learners import Fit, Learner
from riesz.model import Model
from riesz.moment import Array
from riesz.storage.archive import damaged, read_archive, write_archive
from riesz.storage.coding import AnyArray, Reader, UnstorableError, Writer
from riesz.storage.frames import read_frame, read_index, write_frame, write_index
from riesz.storage.remembered import RememberedFit, RememberedLearner


@dataclass(frozen=True)
class Contents:
    """The parts of a fit, and what they must give.

    Attributes
    ----------
    model : Model
    crossfit : CrossFit
    clusters : ClusterLabels
    params : ndarray, shape (K,)
    covariance : ndarray, shape (K, K)
    """

    model: Model
    crossfit: CrossFit
    clusters: ClusterLabels
    params: Array
    covariance: Array


def write_fit(path: str | os.PathLike[str], contents: Contents) -> None:
    """Write a fit to a file."""
    model, crossfit, writer = contents.model, contents.crossfit, Writer()
    base = model.blueprint.design.base
    document = {
        "table": write_frame(model.table.export(), writer),
        "rows": model.table.rows,
        "data": write_frame(model.blueprint.data, writer),
        "recipe": _write_recipe(model.recipe, writer),
        "components": [[c.name, c.symbol, c.words] for c in model.blueprint.components],
        "learner": _write_learner(model.learner, model.blueprint.design, crossfit.fits, writer),
        "fits": [_write_one(fit, writer) for fit in crossfit.fits],
        "clusters": _write_clusters(contents.clusters, writer),
        "parts": writer.write(
            {
                "base": replace(base, looks=None),
                "treatment": model.blueprint.treatment,
                "endog_names": model.endog_names,
                "covariates": model.covariates,
                "kept": model.kept,
                "estimator": model.estimator,
                "target": model.target,
                "weights": model.weights,
                "weighting": model.weighting,
                "seed": model.seed,
                "trimming": model.trimming,
                "predictions": crossfit.untrimmed,
                "scales": crossfit.scales,
                "caps": crossfit.caps,
                "folds": crossfit.folds,
                "trained": _trained(crossfit),
                "params": contents.params,
                "covariance": contents.covariance,
            }
        ),
    }
    write_archive(path, document, writer.arrays)


def read_fit(path: str | os.PathLike[str]) -> Contents:
    """Read a fit from a file; evaluates nothing that the file says."""
    document, arrays = read_archive(path)
    try:
        return _put_together(document, Reader(arrays))
    except DataError as error:
        raise damaged(path, error) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RieszError, AssertionError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from None


def _put_together(document: Any, reader: Reader) -> Contents:
    parts = reader.read(document["parts"])
    base, treatment, names = parts["base"], parts["treatment"], [name for name, _, _ in document["components"]]
    components = tuple(
        Component(name, _forgotten, None, symbol, words) for name, symbol, words in document["components"]
    )
    clusters = _read_clusters(document["clusters"], reader)
    _check_shapes(parts, clusters, len(names))
    blueprint = Blueprint(Design(base, slice(None)), components, treatment, read_frame(document["data"], reader))
    model = Model(
        recipe=_read_recipe(document["recipe"], reader),
        endog_names=parts["endog_names"],
        exog_names=names,
        covariates=parts["covariates"],
        column_names=list(base.names),
        blueprint=blueprint,
        table=Table(read_frame(document["table"], reader)),
        kept=parts["kept"],
        learner=reader.read(document["learner"]),
        estimator=parts["estimator"],
        target=parts["target"],
        weights=parts["weights"],
        weighting=parts["weighting"],
        seed=parts["seed"],
        trimming=parts["trimming"],
    )
    fits = _read_fits([reader.read(one) for one in document["fits"]], base)
    predictions, caps, uncapped = parts["predictions"], parts["caps"], np.full_like(parts["caps"], np.inf)
    splits = _splits(parts["folds"], parts["trained"])
    whole = CrossFit(predictions, predictions, parts["scales"], uncapped, parts["folds"], fits, splits)
    return Contents(model, trimmed(whole, caps), clusters, parts["params"], parts["covariance"])


def _check_shapes(parts: Any, clusters: ClusterLabels, components: int) -> None:
    n, repeats = len(parts["base"].y), len(parts["predictions"])
    right = (
        parts["kept"].shape == (n,)
        and parts["folds"].shape == (repeats, n)
        and parts["caps"].shape == parts["scales"].shape == (repeats, components)
        and all(p.mu.observed.shape == (n,) for p in parts["predictions"])
        and all(p.rr.observed.shape == (components, n) for p in parts["predictions"])
        and all(codes.shape == (n,) for codes in clusters.codes)
        and len(parts["trained"]) == repeats
        and all(masks.shape[1:] == (n,) and masks.dtype == bool for masks in parts["trained"])
    )
    if not right:
        raise ValueError("arrays of different lengths")


def _trained(crossfit: CrossFit) -> tuple[AnyArray, ...]:
    """For each repeat the rows that its splits were trained on, shape (splits, n); those they predict are the folds."""
    masks = [np.zeros((len(splits), crossfit.folds.shape[1]), dtype=bool) for splits in crossfit.splits]
    for mask, splits in zip(masks, crossfit.splits, strict=True):
        for row, split in zip(mask, splits, strict=True):
            row[split.train] = True
    return tuple(masks)


def _splits(folds: AnyArray, trained: Sequence[AnyArray]) -> tuple[list[Split], ...]:
    return tuple(
        [Split(np.flatnonzero(mask), np.flatnonzero(labels == number)) for number, mask in enumerate(masks)]
        for labels, masks in zip(folds, trained, strict=True)
    )


def _write_clusters(clusters: ClusterLabels, writer: Writer) -> Any:
    return [
        {"name": name, "codes": writer.array(codes), "count": len(labels), "labels": write_index(labels, writer)}
        for name, codes, labels in zip(clusters.names, clusters.codes, clusters.labels, strict=True)
    ]


def _read_clusters(stored: Any, reader: Reader) -> ClusterLabels:
    return ClusterLabels(
        tuple(one["name"] for one in stored),
        tuple(reader.read({"array": one["codes"]}) for one in stored),
        tuple(read_index(one["labels"], reader, one["count"]) for one in stored),
    )


def _forgotten(mu: Any, data: pd.DataFrame) -> Any:
    raise EstimandError("This fit was loaded from a file, which does not hold the moment's function.")


def _write_recipe(recipe: Recipe, writer: Writer) -> Any:
    try:
        estimands = writer.write(recipe.estimands)
    except UnstorableError:
        estimands = None
    return {
        "formula": recipe.formula,
        "columns": list(recipe.columns),
        "reserved": list(recipe.reserved),
        "estimands": estimands,
    }


def _read_recipe(stored: Any, reader: Reader) -> Recipe:
    return Recipe(
        formula=stored["formula"],
        columns=tuple(stored["columns"]),
        reserved=tuple(stored["reserved"]),
        estimands=reader.read(stored["estimands"]) or (),
        context={},
        trusted=False,
    )


def _write_learner(learner: Learner, design: Design, fits: Sequence[Fit], writer: Writer) -> Any:
    try:
        return writer.write(learner)
    except UnstorableError:
        details = pd.DataFrame([fit.details() for fit in fits])
        words, notes = learner.describe(design.base.family), tuple(learner.remarks(design, details))
        return writer.write(RememberedLearner(words, notes, learner.learns_rr))


def _write_networks(fit: Any) -> Any:
    from riesz.learners.neural.stored import store

    return store(fit)


#: Fits that are stored as something else.
STORED: dict[str, Callable[[Any], Any]] = dict.fromkeys(("Ensemble", "Blended", "Networks"), _write_networks)


def _write_one(fit: Fit, writer: Writer) -> Any:
    try:
        return writer.write(STORED.get(type(fit).__name__, lambda same: same)(fit))
    except UnstorableError:
        course = fit.history()
        return writer.write(RememberedFit(dict(fit.details()), course.to_numpy(dtype=float), tuple(course.columns)))


def _read_fits(fits: Sequence[Any], base: Any) -> tuple[Fit, ...]:
    if {type(fit).__name__ for fit in fits} == {"StoredNetworks"}:
        from riesz.learners.neural.stored import restore

        return tuple(restore(fits, base))
    return tuple(fits)
