"""A call whose ``data`` are a source: the arguments are checked before anything is read, then the passes begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riesz.errors import DataError, FormulaError, LearnerError
from riesz.estimands import Estimand
from riesz.learners.linear.learner import Linear
from riesz.results.streamed import StreamedModel, StreamedResults
from riesz.settings import Settings
from riesz.sources.designs import check_estimands
from riesz.sources.parquet import Source, chunk_rows
from riesz.sources.rows import RowReader
from riesz.streaming.fit import fit_source
from riesz.syntax.formula import parse_formula

_IN_MEMORY = "or read the columns that the formula needs into memory: data = pandas.read_parquet(path, columns=[...])."
_WEIGHTING = {"weights": "sampling", "freq_weights": "frequency"}


def stream(
    formula: str,
    source: Source,
    estimands: Sequence[Estimand],
    settings: Settings,
    scope: Mapping[str, Any],
    size: int | None = None,
) -> StreamedResults:
    """Fit to a source.

    Parameters
    ----------
    formula : str
    source : Source
    estimands : sequence of Estimand
    settings : Settings
    scope : mapping
        Where the formula looks up names that are not columns.
    size : int, optional
        Rows per chunk; by default as many as make a chunk of about 23 MB.
    """
    learner = _linear(settings)
    _check_settings(settings)
    check_estimands(estimands)
    columns = {"weights": settings.weights, "freq_weights": settings.freq_weights}
    folds = settings.folds if isinstance(settings.folds, str) else None
    reserved = [name for name in (*columns.values(), folds) if name is not None]
    parsed = parse_formula(formula, source.columns, reserved, scope)
    if parsed.treatment_expression is not None:
        raise FormulaError(
            f"treat({parsed.treatment_expression}) computes the treatment, which a source cannot do yet. Add the column to "
            "the files."
        )
    needed = tuple(name for name in source.columns if name in parsed.variables)
    reader = RowReader(
        source,
        needed,
        **columns,
        folds=folds,
        na_action=settings.na_action,
        seed=settings.seed,
        size=size or chunk_rows(len(needed)),
    )
    reader.check()
    fit = fit_source(reader, parsed, estimands, settings, learner, scope)
    weighting = ", ".join(word for name, word in _WEIGHTING.items() if columns[name] is not None)
    model = StreamedModel(
        formula=formula,
        settings=settings,
        endog_names=parsed.outcome,
        exog_names=[component.name for component in fit.plan.components],
        covariates=parsed.covariates,
        column_names=fit.plan.columns.names,
        weighting=weighting,
    )
    return StreamedResults(model, fit)


def _linear(settings: Settings) -> Linear:
    """The learner, if it is one that can be fitted from sums."""
    match settings.learner:
        case Linear(rr="constrained" | "riesz") as learner:
            return learner
    raise LearnerError(
        f"{settings.learner.describe(settings.family)} cannot be fitted to a source yet. Use learner='linear', {_IN_MEMORY}"
    )


def _check_settings(settings: Settings) -> None:
    """Refuse keywords that a source does not support yet."""
    refused = {
        "family": (settings.family != "gaussian", "family='gaussian'"),
        "bounds": (settings.bounds is not None, "bounds=None"),
        "cluster": (settings.cluster is not None, "cluster=None"),
        "repeats": (settings.repeats not in (None, 1), "repeats=1"),
        "trim": (settings.trim is not None, "trim=None"),
        "calibrate": (settings.calibrate not in (None, "auto"), "calibrate=None"),
        "n_jobs": (settings.n_jobs != 1, "n_jobs=1"),
        "progress": (settings.progress is True, "progress=None"),
    }
    for name, (given, instead) in refused.items():
        if given:
            raise LearnerError(
                f"{name}={getattr(settings, name)!r} is not possible with a source yet. Use {instead}, {_IN_MEMORY}"
            )
    for name in ("weights", "freq_weights", "folds"):
        value = getattr(settings, name)
        allowed = (str, int, float) if name == "folds" else (str, type(None))
        if not isinstance(value, allowed):
            raise DataError(
                f"{name} is a {type(value).__name__}; with a source it must be the name of a column, because rows are read "
                "in chunks."
            )
