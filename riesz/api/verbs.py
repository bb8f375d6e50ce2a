"""The verbs: one call from a formula to a debiased estimate with an honest standard error.

Each is a thin front on :func:`~riesz.api.estimate.estimate`, which does the work.
"""

from __future__ import annotations

from typing import Any, Unpack

from riesz.api.estimate import Options, estimate
from riesz.estimands import ADE, APE, ATC, ATE, ATT, IPE, Estimand, Mean, Shift
from riesz.results.fit import Results
from riesz.syntax.calls import refuse_unknown


def _ask(estimand: Estimand, formula: str, data: Any, options: Options) -> Results:
    refuse_unknown(f"riesz.{estimand.verb}()", options, Options.__annotations__)
    return estimate(formula, data, estimand, **options)


def ate(formula: str, data: Any, **options: Unpack[Options]) -> Results:
    """Average treatment effect; with several arms, one contrast for each against the reference.

    Parameters
    ----------
    formula : str
        ``"y ~ treat(a) * x"``; ``treat(arm, reference="placebo")`` picks the reference arm, which is otherwise the smallest
        number or the first label in alphabetical order.
    data : DataFrame
        pandas, polars or pyarrow.
    **options
        ``learner, estimator, folds, repeats, family, bounds, target, weights, freq_weights, cluster, trim, na_action, seed,
        n_jobs, progress, context``: see :func:`estimate`.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> riesz.ate("y ~ treat(a) + .", data=data).params.index.tolist()
    ['ATE']
    """
    return _ask(ATE(), formula, data, options)


def att(formula: str, data: Any, **options: Unpack[Options]) -> Results:
    """Average treatment effect on the treated. See :func:`ate` for the arguments.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> riesz.att("y ~ treat(a) * .", data=data, learner="linear").nobs
    500
    """
    return _ask(ATT(), formula, data, options)


def atc(formula: str, data: Any, **options: Unpack[Options]) -> Results:
    """Average treatment effect on the controls. See :func:`ate` for the arguments.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> riesz.atc("y ~ treat(a) * .", data=data, learner="linear").nobs
    500
    """
    return _ask(ATC(), formula, data, options)


def ape(formula: str, data: Any, policy: Any, **options: Unpack[Options]) -> Results:
    """Average policy effect: the mean outcome when a known policy assigns a binary treatment.

    Parameters
    ----------
    formula, data, **options
        See :func:`ate`.
    policy : str, callable or array_like
        Probability of treatment for each row, in [0, 1]: ``"age > 40"``, a function of the frame, or an array.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> riesz.ape("y ~ treat(a) * .", data=data, policy="x1 > 0", learner="linear").params.index.tolist()
    ['APE']
    """
    return _ask(APE(policy), formula, data, options)


def ade(formula: str, data: Any, **options: Unpack[Options]) -> Results:
    """Average derivative effect of a continuous treatment. See :func:`ate` for the arguments.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("continuous").draw(500, seed=1).data
    >>> riesz.ade("y ~ treat(a) * .", data=data, learner="linear").params.index.tolist()
    ['ADE']
    """
    return _ask(ADE(), formula, data, options)


def ipe(formula: str, data: Any, policy: Any, **options: Unpack[Options]) -> Results:
    """Incremental policy effect: the average derivative weighted by a policy in [-1, 1].

    Parameters
    ----------
    formula, data, **options
        See :func:`ate`.
    policy : str, callable or array_like
        Direction and size of each row's nudge.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("continuous").draw(500, seed=1).data
    >>> riesz.ipe("y ~ treat(a) * .", data=data, policy="x1 > 0", learner="linear").params.index.tolist()
    ['IPE']
    """
    return _ask(IPE(policy), formula, data, options)


def shift(formula: str, data: Any, delta: Any, **options: Unpack[Options]) -> Results:
    """Effect of moving everyone's continuous treatment by delta.

    Parameters
    ----------
    formula, data, **options
        See :func:`ate`.
    delta : float, list of float, str, callable or array_like
        How far; a list gives several parameters.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("continuous").draw(500, seed=1).data
    >>> riesz.shift("y ~ treat(a) * .", data=data, delta=[0.1, 0.2], learner="linear").params.index.tolist()
    ['shift_0.1', 'shift_0.2']
    """
    return _ask(Shift(delta), formula, data, options)


def mean(formula: str, data: Any, at: Any, **options: Unpack[Options]) -> Results:
    """Mean outcome with the treatment set to a level, or moved by a modified treatment policy.

    Parameters
    ----------
    formula, data, **options
        See :func:`ate`.
    at : object
        A level, several levels, or an expression such as ``"where(a > 80, a - 15, a)"``.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> riesz.mean("y ~ treat(a) * .", data=data, at=[0, 1], learner="linear").params.index.tolist()
    ['mean_0', 'mean_1']
    """
    return _ask(Mean(at), formula, data, options)
