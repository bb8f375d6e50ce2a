"""Writes a fit as JSON and arrays, and builds it again from them.

Stored: the data (every column), the design's arrays, the settings, the folds, the predictions of every repeat, and the fitted
learners. Not stored: functions (custom moments, policies, functions that a formula calls), the variables around the call, and
models of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.crossfit.candidates import Candidate, CrossFit, with_calibration
from riesz.crossfit.splits import Split
from riesz.crossfit.stacking import Stacking
from riesz.crossfit.trimming import trimmed
from riesz.design.design import Blueprint, Design
from riesz.design.new_rows import Recipe
from riesz.design.stored import from_stored, to_stored
from riesz.design.table import ClusterLabels, Table
from riesz.errors import DataError, EstimandError, RieszError
from riesz.estimands import ESTIMANDS, Component
from riesz.inference import Alternatives
from riesz.learners import LEARNERS, Fit, Learner
from riesz.predictions import Predictions
from riesz.results.file_checks import check_calibration, check_fitted, check_model, check_stacking
from riesz.results.file_settings import UnknownEstimatorError, old_settings, read_settings, write_settings
from riesz.results.model import Model
from riesz.results.placeholders import RememberedFit, RememberedLearner
from riesz.storage.annotations import conforms
from riesz.storage.archive import Archive, damaged, from_bytes, read_archive, to_bytes, write_archive
from riesz.storage.coding import AnyArray, Reader, UnstorableError, Writer
from riesz.storage.frames import read_frame, read_index, write_frame, write_index

T = TypeVar("T")
_COPIES = 4  # bytes that reading may create, per byte of a file: frames copy arrays, and several parts may share one
CONTENT_ERRORS = (  # errors that reading or using invalid content may raise
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    RuntimeError,  # raised by torch for wrong shapes
    RieszError,
)


@dataclass(frozen=True)
class Contents:
    """The parts of a fit, and the estimates that must follow from them.

    Attributes
    ----------
    model : Model
    crossfit : CrossFit
    clusters : ClusterLabels
    params : ndarray, shape (K,)
    covariance : ndarray, shape (K, K)
    alternatives : tuple of Alternatives
        One per element of ``crossfit.stacking``: the scores of a stack's candidates; empty for a single learner.
    """

    model: Model
    crossfit: CrossFit
    clusters: ClusterLabels
    params: Array
    covariance: Array
    alternatives: tuple[Alternatives, ...]


def write_fit(path: Any, contents: Contents) -> None:
    """Write a fit to a file."""
    write_archive(path, *_write_contents(contents))


def read_fit(path: Any, largest: float | None = None) -> Contents:
    """Read a fit from a file, without evaluating any of its content as code."""
    return _read_untrusted(read_archive(path, largest), path, _read_contents)


def fit_to_bytes(contents: Contents) -> bytes:
    """The content of a fit's file, for pickle."""
    return to_bytes(*_write_contents(contents))


def fit_from_bytes(content: bytes) -> Contents:
    """A fit from the content of its file."""
    return _read_untrusted(from_bytes(content), "The pickled fit", _read_contents)


def derived_to_bytes(model: Model, clusters: ClusterLabels, labels: pd.DataFrame, rest: Mapping[str, Any]) -> bytes:
    """Parameters derived from a fit, for pickle: the model, the clusters, the labels, and further texts and arrays."""
    writer = Writer()
    document = {
        **_write_model(model, (), writer),
        "clusters": _write_clusters(clusters, writer),
        "labels": write_frame(labels, writer),
        "rest": writer.write(rest),
    }
    return to_bytes(document, writer.arrays)


def derived_from_bytes(content: bytes) -> tuple[Model, ClusterLabels, pd.DataFrame, dict[str, Any]]:
    """What :func:`derived_to_bytes` wrote, read again."""

    def build(document: Any, reader: Reader) -> tuple[Model, ClusterLabels, pd.DataFrame, dict[str, Any]]:
        return (
            _read_model(document, reader),
            _read_clusters(document["clusters"], reader),
            read_frame(document["labels"], reader),
            reader.read(document["rest"]),
        )

    return _read_untrusted(from_bytes(content), "The pickled object", build)


def _read_untrusted(archive: Archive, name: object, build: Callable[[Any, Reader], T]) -> T:
    """Build an object from an archive's content; invalid content raises a DataError."""
    try:
        return build(archive.content, Reader(archive.arrays, _COPIES * archive.allowed, _import_type))
    except UnknownEstimatorError as error:
        raise DataError(f"The fit in {str(name)!r} {error}") from None
    except DataError as error:
        raise damaged(name, error) from None
    except MemoryError:
        raise DataError(f"{str(name)!r} does not fit into the memory of this machine; nothing was loaded.") from None
    except CONTENT_ERRORS as error:
        raise damaged(name, f"{type(error).__name__}: {str(error)[:200]}") from None


def _write_contents(contents: Contents) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    model, crossfit, writer = contents.model, contents.crossfit, Writer()
    document = {
        **_write_model(model, crossfit.fits, writer),
        **_write_candidates(contents, writer),
        "clusters": _write_clusters(contents.clusters, writer),
        "fitted": writer.write(
            {
                "predictions": crossfit.uncalibrated,
                "scales": crossfit.scales,
                "caps": crossfit.caps,
                "folds": crossfit.folds,
                "trained": _trained(crossfit),
                "calibration": crossfit.calibration,
                "params": contents.params,
                "covariance": contents.covariance,
            }
        ),
    }
    return document, writer.arrays


def _write_model(model: Model, fits: Sequence[Fit], writer: Writer) -> dict[str, Any]:
    return {
        "table": write_frame(model.table.export(), writer),
        "rows": model.table.rows,
        "data": write_frame(model.blueprint.data, writer),
        "recipe": _write_recipe(model.recipe, writer),
        "components": [[c.name, c.symbol, c.words] for c in model.blueprint.components],
        "learner": _write_learner(model.learner, model.blueprint.design, fits, writer),
        "parts": writer.write(
            {
                "base": to_stored(model.blueprint.design),
                "treatment": model.blueprint.treatment,
                "exog_names": model.exog_names,
                "endog_names": model.endog_names,
                "covariates": model.covariates,
                "kept": model.kept,
                "weights": model.weights,
                "weighting": model.weighting,
            }
        ),
        "settings": write_settings(model.settings, writer),
    }


def _read_model(document: Any, reader: Reader) -> Model:
    parts = reader.read(document["parts"])
    base, names = parts["base"], [name for name, _, _ in document["components"]]
    components = tuple(
        Component(name, _moment_not_stored, None, symbol, words) for name, symbol, words in document["components"]
    )
    data = read_frame(document["data"], reader)
    learner = reader.read(document["learner"])
    model = Model(
        settings=read_settings(document["settings"], learner, reader)
        if "settings" in document
        else old_settings(parts, learner),
        recipe=_read_recipe(document["recipe"], reader),
        endog_names=parts["endog_names"],
        exog_names=parts.get("exog_names", names),  # format 1 has none
        covariates=parts["covariates"],
        column_names=list(base.names),
        blueprint=Blueprint(from_stored(base), components, parts["treatment"], data),
        table=Table(read_frame(document["table"], reader)),
        kept=parts["kept"],
        weights=parts["weights"],
        weighting=parts["weighting"],
    )
    check_model(model)
    return model


def _read_contents(document: Any, reader: Reader) -> Contents:
    model = _read_model(document, reader)
    fitted = reader.read(document["fitted"] if "fitted" in document else document["parts"])  # format 1 has one dict
    links = model.blueprint.design.links
    fitted["predictions"] = tuple(replace(repeat, rr=repeat.rr.linked(links)) for repeat in fitted["predictions"])
    clusters = _read_clusters(document["clusters"], reader)
    candidates, stacking, left_out = _read_candidates(document, model, fitted["predictions"], reader)
    alternatives = reader.read(document["alternatives"]) if "alternatives" in document else ()
    check_fitted(model, fitted, clusters, candidates)
    check_calibration(fitted.get("calibration", ()), len(fitted["predictions"]), model.blueprint.design)
    sizes = len(fitted["predictions"]), len(fitted["folds"])
    check_stacking(len(candidates), stacking, alternatives, *sizes, model.blueprint.design)
    predictions, caps, uncapped = fitted["predictions"], fitted["caps"], np.full_like(fitted["caps"], np.inf)
    splits = _splits(fitted["folds"], fitted["trained"])
    crossfit = CrossFit(
        predictions,
        predictions,
        predictions,
        fitted["scales"],
        uncapped,
        fitted["folds"],
        candidates,
        stacking,
        left_out,
        splits,
    )
    crossfit = with_calibration(crossfit, fitted.get("calibration", ()), model.blueprint.design)
    return Contents(model, trimmed(crossfit, caps), clusters, fitted["params"], fitted["covariance"], alternatives)


def _write_candidates(contents: Contents, writer: Writer) -> dict[str, Any]:
    """The fits of a single learner; for a stack, those of every candidate, their scores and the weights that combine them."""
    model, crossfit = contents.model, contents.crossfit
    first = crossfit.candidates[0]
    if len(crossfit.candidates) == 1 and first.learner == model.learner:
        return {"fits": _write_fits(model.learner, first.fits, writer)}
    design = model.blueprint.design
    candidates = [
        {
            "learner": _write_learner(candidate.learner, design, candidate.fits, writer),
            "fits": _write_fits(candidate.learner, candidate.fits, writer),
        }
        for candidate in crossfit.candidates
    ]
    return {
        "members": candidates,
        "stacking": writer.write(crossfit.stacking),
        "alternatives": writer.write(contents.alternatives),
        "left_out": dict(crossfit.left_out),
    }


def _read_candidates(
    document: Any, model: Model, predictions: tuple[Predictions, ...], reader: Reader
) -> tuple[tuple[Candidate, ...], tuple[Stacking, ...], Mapping[str, str]]:
    design = model.blueprint.design
    if "members" not in document:
        fits = _read_fits([reader.read(fit) for fit in document["fits"]], design, model.learner)
        return (Candidate(model.learner, fits, predictions),), (), {}
    candidates = []
    for member in document["members"]:
        learner = reader.read(member["learner"])
        fits = _read_fits([reader.read(fit) for fit in member["fits"]], design, learner)
        candidates.append(Candidate(learner, fits, ()))
    return tuple(candidates), reader.read(document["stacking"]), document["left_out"]


def _trained(crossfit: CrossFit) -> tuple[AnyArray, ...]:
    """For each repeat, the training rows of its splits, shape (splits, n). The rows that a split predicts follow from the folds."""
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
        tuple(clustering["name"] for clustering in stored),
        tuple(reader.read({"array": clustering["codes"]}) for clustering in stored),
        tuple(read_index(clustering["labels"], reader, clustering["count"]) for clustering in stored),
    )


def _moment_not_stored(mu: Any, data: pd.DataFrame) -> Any:
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
        notes = tuple(learner.remarks(design, details)) if fits else ()
        return writer.write(RememberedLearner(learner.describe(design.family), notes, learner.learns_rr))


def _write_fits(learner: Learner, fits: Sequence[Fit], writer: Writer) -> list[Any]:
    """Every fit as its learner stores it; only the numbers of the fits if a file cannot hold the learner or what it stores."""
    try:
        writer.write(learner)
        return [writer.write(learner.store(fit)) for fit in fits]
    except UnstorableError:
        courses = [(dict(fit.details()), fit.history()) for fit in fits]
        return [
            writer.write(RememberedFit(details, course.to_numpy(dtype=float), tuple(course.columns)))
            for details, course in courses
        ]


def _read_fits(content: Sequence[Any], sample: Design, learner: Learner) -> tuple[Fit, ...]:
    if conforms(content, list[RememberedFit]):
        return tuple(content)
    return tuple(learner.restore(content, sample))


def _import_type(name: str) -> None:
    """Import the registered estimand or learner of that name; otherwise all learners, because one of them may define the type."""
    if ESTIMANDS.named(name) is None and LEARNERS.named(name) is None:
        list(LEARNERS.values())
