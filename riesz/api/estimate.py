"""From a formula to results: :func:`estimate` for one table, :func:`estimate_many` for many that are fitted together.

Everything that can be wrong with the input is raised before the first fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

from riesz.api.prepare import prepare
from riesz.errors import EstimandError, LearnerError
from riesz.estimands import Estimand
from riesz.estimands.named import Named
from riesz.learners import Learner
from riesz.results.fit import Results
from riesz.settings import Options, Settings
from riesz.syntax.caller import calling_frame
from riesz.syntax.calls import checked, refuse_unknown

Question = Estimand | Sequence[Estimand] | Mapping[str, Estimand]


@checked("riesz.estimate()")
def estimate(
    formula: str,
    data: Any,
    estimand: Question,
    *,
    learner: str | Learner | None = None,
    estimator: str | None = None,
    folds: Any = 5,
    repeats: int | None = None,
    family: Literal["gaussian", "binomial"] = "gaussian",
    bounds: tuple[float, float] | None = None,
    target: Literal["population", "sample"] = "population",
    weights: Any = None,
    freq_weights: Any = None,
    cluster: Any = None,
    trim: float | str | None = None,
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
        Calls in it are Python, as in R and patsy, and run what you wrote: read a stranger's formula before you fit it.
    data : DataFrame
        pandas, polars (eager or lazy) or pyarrow.
    estimand : Estimand, list of Estimand or mapping from names to Estimand
        Such as ``riesz.ATE()``, ``[riesz.ATE(), riesz.ATT()]`` or ``riesz.CustomMoment(...)``. A mapping names the parameters:
        ``{"the needy": riesz.APE("x1 <= 0"), "the gifted": riesz.APE("x1 > 0")}``; an estimand that asks for several numbers gives
        ``"name: component"`` for each. Policies and shifts that are text are arithmetic over the columns, such as
        ``"where(x1 > 0, 1, 0)"``, with ``& | ~``, numpy's row-by-row functions, your own numbers and arrays, and your own
        functions by their names; they are not Python, and attributes, methods and indexing are refused.
    learner : str or Learner, optional
        How mu and the Riesz representer are learned: ``"madnet"``, ``"linear"`` or another name, or a learner with its settings
        such as ``riesz.MADNet(networks=10)``. By default ``riesz.defaults.learner``, which is ``"madnet"``.
    estimator : {"dr", "tmle", "direct", "ipw"}, optional
        One-step, targeted, plug-in or weighting; the last two carry no standard error. By default one-step, or the plug-in for
        a learner of mu alone, such as ``riesz.KernelEmbedding``.
    folds : int or array_like or str
        Number of cross-fitting folds; 1 means no sample splitting. An array, or a column's name, gives fold labels of your own.
        With two-way clusters there are ``folds`` x ``folds`` splits. Rows that are copies of one another, with a continuous
        outcome, stay in one fold and are learned from as one row, as ``freq_weights`` would have it.
    repeats : int, optional
        Cross-fitting is repeated with new folds, and the median reported. By default what the learner asks for: MADNet three
        times with up to 2000 rows (or clusters), others once; once when folds are given or there is one.
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
    trim : float or str, optional
        Cap the absolute Riesz representer at a number (``20``) or at a quantile over the rows (``"99%"``). The summary and
        ``fit.trimming`` say how many rows it touches and how far it moves the estimate.
    na_action : {"drop", "raise"}
        What to do with rows that have missing values.
    seed : int
        Determines folds and fits fully.
    n_jobs : int
        Threads to spread the fits over.
    progress : bool, optional
        Show a progress bar. By default one appears in a terminal or notebook once the fits have taken longer than
        ``riesz.crossfit.crossfit.PATIENCE``, one and a half seconds, and it goes when they are done.
    context : mapping, optional
        Where formulas and policies look up names that are not columns; by default where the call was made.

    Returns
    -------
    Results

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> fit = riesz.estimate("y ~ treat(a) * .", data, estimand=[riesz.ATE(), riesz.ATT()], learner="linear")
    >>> fit.cov_params().shape
    (2, 2)
    >>> rules = {"needy": riesz.APE("x1 <= 0"), "gifted": riesz.APE("x1 > 0")}
    >>> fit = riesz.estimate("y ~ treat(a) * .", data, estimand=rules, learner="linear")
    >>> riesz.contrast("gifted - needy", fit).params.index.tolist()
    ['gifted - needy']
    """
    return estimate_many(
        formula,
        [data],
        estimand,
        learner=learner,
        estimator=estimator,
        folds=folds,
        repeats=repeats,
        family=family,
        bounds=bounds,
        target=target,
        weights=weights,
        freq_weights=freq_weights,
        cluster=cluster,
        trim=trim,
        na_action=na_action,
        seed=seed,
        n_jobs=n_jobs,
        progress=progress,
        context=context,
    )[0]


def estimate_many(
    formula: str,
    tables: Sequence[Any],
    estimand: Question,
    *,
    seeds: Sequence[int] | None = None,
    **options: Unpack[Options],
) -> list[Results]:
    """The same question of many tables, fitted together.

    A learner that trains networks trains those of all tables side by side, which is faster than one table after the other. The
    results are the same as table by table.

    Parameters
    ----------
    formula, estimand, **options
        See :func:`estimate`. Arrays (weights, clusters, folds) do not make sense for several tables; give columns' names.
    tables : sequence of DataFrame
    seeds : sequence of int, optional
        A seed for each table. By default all have ``seed``; if their treatments and covariates are the same, too, so is most of
        what chance does to their estimates, and a mean over tables does not average it out.

    Returns
    -------
    list of Results

    Examples
    --------
    >>> import riesz
    >>> draws = [riesz.datasets.get("binary").draw(300, seed=seed).data for seed in range(3)]
    >>> len(riesz.estimate_many("y ~ treat(a) * .", draws, riesz.ATE(), learner="linear"))
    3
    """
    refuse_unknown("riesz.estimate_many()", options, ("seeds", *Options.__annotations__))
    given: dict[str, Any] = {**options}
    settings = Settings(**given)
    estimands = _estimands(estimand)
    scope = _calling_scope() if settings.context is None else settings.context
    tables = list(tables)
    each = [settings.seed] * len(tables) if seeds is None else list(seeds)
    if len(each) != len(tables):
        raise LearnerError(f"seeds has {len(each)} numbers for {len(tables)} tables; expected one per table.")
    prepared = [
        prepare(formula, table, estimands, replace(settings, seed=seed), scope)
        for table, seed in zip(tables, each, strict=True)
    ]
    fitted = settings.cross_fit([item.problem for item in prepared])
    return [Results(item.model, crossfit, item.clusters) for item, crossfit in zip(prepared, fitted, strict=True)]


def _estimands(estimand: Any) -> tuple[Estimand, ...]:
    """One estimand or several, those of a mapping under the names it gives."""
    several = tuple(estimand.values()) if isinstance(estimand, Mapping) else estimand
    several = tuple(several) if isinstance(several, (list, tuple)) else (several,)
    wrong = [item for item in several if not isinstance(item, Estimand)]
    if wrong or not several:
        got = repr(wrong[0]) if wrong else f"an empty {type(estimand).__name__}"
        raise EstimandError(
            f"estimand is {got}; expected an estimand such as riesz.ATE(), a list of them, or a mapping from names to them."
        )
    if not isinstance(estimand, Mapping):
        return several
    for name in estimand:
        if not isinstance(name, str) or not name.strip():
            raise EstimandError(
                f"estimand is a mapping with the key {name!r}; expected names of parameters, such as "
                "{'the needy': riesz.APE('x1 <= 0')}."
            )
    return tuple(Named(name, question) for name, question in zip(estimand, several, strict=True))


def _calling_scope() -> dict[str, Any]:
    """The variables of the nearest frame outside this package, and around it if it is a comprehension or a lambda."""
    frame, _ = calling_frame()
    scope = dict(frame.f_locals)
    while frame.f_code.co_name in ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>") and frame.f_back:
        frame = frame.f_back
        scope = {**frame.f_locals, **scope}
    return {**frame.f_globals, **scope}
