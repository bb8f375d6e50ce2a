"""From a formula to results: :func:`estimate` for one table, :func:`estimate_many` for several that are fitted together.

Wrong input is refused before the first fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack, cast

from riesz.api.prepare import prepare
from riesz.api.signature import takes_settings
from riesz.api.stream import stream
from riesz.errors import DataError, EstimandError, LearnerError
from riesz.estimands import Estimand
from riesz.estimands.named import Named
from riesz.results.fit import Results
from riesz.settings import Options, Settings
from riesz.sources.parquet import open_source
from riesz.syntax.caller import calling_frame

Question = Estimand | Sequence[Estimand] | Mapping[str, Estimand]


@takes_settings("riesz.estimate()")
def estimate(formula: str, data: Any, estimand: Question, **options: Unpack[Options]) -> Results:
    """Estimate any average moment: one estimand, or several fitted together with their joint covariance.

    Parameters
    ----------
    formula
    data
    estimand : Estimand, list of Estimand or mapping from names to Estimand
        Such as ``riesz.ATE()``, ``[riesz.ATE(), riesz.ATT()]`` or ``riesz.CustomMoment(...)``. A mapping names the parameters:
        ``{"x1 low": riesz.APE("x1 <= 0"), "x1 high": riesz.APE("x1 > 0")}``; an estimand with several components gives
        ``"name: component"`` for each. Policies and shifts given as text are arithmetic over the columns, such as
        ``"where(x1 > 0, 1, 0)"``, with ``& | ~``, numpy's row-by-row functions, your numbers and arrays, and your functions by
        their names. They are not Python: attributes, methods and indexing are refused.
    **options

    Returns
    -------
    Results
        If ``data`` is a source, :class:`~riesz.results.streamed.StreamedResults`, without methods that need rows.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> fit = riesz.estimate("y ~ treat(a) * .", data, estimand=[riesz.ATE(), riesz.ATT()], learner="linear")
    >>> fit.params.round(2).to_dict()
    {'ATE': 1.46, 'ATT': 1.67}
    >>> policies = {"low": riesz.APE("x1 <= 0"), "high": riesz.APE("x1 > 0")}
    >>> fit = riesz.estimate("y ~ treat(a) * .", data, estimand=policies, learner="linear")
    >>> riesz.contrast("high - low", fit).params.round(2).to_dict()
    {'high - low': 0.48}
    """
    source = open_source(data)
    if source is not None:
        given: dict[str, Any] = {**options}
        settings = Settings(**given)
        scope = _calling_scope() if settings.context is None else settings.context
        fit = stream(formula, source, _estimands(estimand), settings, scope)
        return cast(Results, fit)  # has the same methods; those that need rows raise an error
    return _estimate_all(formula, [data], estimand, None, {**options})[0]


@takes_settings("riesz.estimate_many()")
def estimate_many(
    formula: str,
    tables: Sequence[Any],
    estimand: Question,
    *,
    seeds: Sequence[int] | None = None,
    **options: Unpack[Options],
) -> list[Results]:
    """Estimate the same moments on many tables, fitted together.

    A learner that trains networks trains those of all tables side by side, which is faster than one table after the other. The
    results are the same as table by table.

    Parameters
    ----------
    formula
    tables : sequence of DataFrame
        Arguments with one value per row (weights, clusters, folds) must be names of columns.
    estimand : Estimand, list of Estimand or mapping from names to Estimand
        See :func:`estimate`.
    seeds : sequence of int, optional
        One seed per table. By default all tables have ``seed``. If their treatments and covariates are the same as well, chance
        then affects all of their estimates alike, and a mean over tables does not average it out.
    **options

    Returns
    -------
    list of Results
        One per table.

    Examples
    --------
    >>> import riesz
    >>> draws = [riesz.datasets.get("binary").draw(300, seed=seed).data for seed in range(3)]
    >>> fits = riesz.estimate_many("y ~ treat(a) * .", draws, riesz.ATE(), learner="linear")
    >>> [f"{fit.params['ATE']:.1f}" for fit in fits]
    ['1.6', '1.3', '1.2']
    """
    return _estimate_all(formula, tables, estimand, seeds, {**options})


def _estimate_all(
    formula: str, tables: Sequence[Any], estimand: Question, seeds: Sequence[int] | None, options: dict[str, Any]
) -> list[Results]:
    settings = Settings(**options)
    estimands = _estimands(estimand)
    tables = list(tables)
    if any(open_source(table) is not None for table in tables):
        raise DataError(
            "estimate_many() takes tables in memory, not files or datasets. Call riesz.estimate() once for each source."
        )
    scope = _calling_scope() if settings.context is None else settings.context
    table_seeds = [settings.seed] * len(tables) if seeds is None else list(seeds)
    if len(table_seeds) != len(tables):
        raise LearnerError(f"seeds has {len(table_seeds)} numbers for {len(tables)} tables; expected one per table.")
    prepared = [
        prepare(formula, table, estimands, replace(settings, seed=seed), scope)
        for table, seed in zip(tables, table_seeds, strict=True)
    ]
    fitted = settings.cross_fit([item.problem for item in prepared])
    return [Results(item.model, crossfit, item.clusters) for item, crossfit in zip(prepared, fitted, strict=True)]


def _estimands(estimand: Any) -> tuple[Estimand, ...]:
    """The estimands; those of a mapping get the names that it gives."""
    estimands = tuple(estimand.values()) if isinstance(estimand, Mapping) else estimand
    estimands = tuple(estimands) if isinstance(estimands, (list, tuple)) else (estimands,)
    wrong = [item for item in estimands if not isinstance(item, Estimand)]
    if wrong or not estimands:
        got = repr(wrong[0]) if wrong else f"an empty {type(estimand).__name__}"
        raise EstimandError(
            f"estimand is {got}; expected an estimand such as riesz.ATE(), a list of them, or a mapping from names to them."
        )
    if not isinstance(estimand, Mapping):
        return estimands
    for name in estimand:
        if not isinstance(name, str) or not name.strip():
            raise EstimandError(
                f"estimand is a mapping with the key {name!r}; expected names of parameters, such as "
                "{'x1 low': riesz.APE('x1 <= 0')}."
            )
    return tuple(Named(name, question) for name, question in zip(estimand, estimands, strict=True))


def _calling_scope() -> dict[str, Any]:
    """The variables of the nearest frame outside this package; for a comprehension or lambda, also those around it."""
    frame, _ = calling_frame()
    scope = dict(frame.f_locals)
    while frame.f_code.co_name in ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>") and frame.f_back:
        frame = frame.f_back
        scope = {**frame.f_locals, **scope}
    return {**frame.f_globals, **scope}
