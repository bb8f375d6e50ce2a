r"""Functions of the parameters of one or several fits on the same rows, by the delta method.

With influence functions :math:`\phi` stacked over fits and :math:`G = \partial g / \partial \psi`,

.. math:: \widehat{\mathrm{var}}\, g(\hat\psi) = G \hat V G', \qquad \hat V = \widehat{\mathrm{var}}(\phi),

where the variances of the single parameters are those that the fits report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.errors import RieszError, listing
from riesz.inference import covariance, with_variances
from riesz.results.effects import Effects, EffectsParts, Words
from riesz.results.parameters import Parameters
from riesz.syntax.check_arguments import checked
from riesz.syntax.contrast_arithmetic import read_expression

_STEP = float(np.finfo(float).eps ** (1 / 5))  # balances truncation and rounding errors of a five-point difference


@checked("riesz.contrast()")
def contrast(expression: Any, *fit: Parameters, **fits: Parameters) -> Effects:
    """Differences, ratios and any smooth function of parameters, with standard errors by the delta method.

    Parameters
    ----------
    expression : str, callable, list or dict
        A formula of parameters such as ``"mean_1 / mean_0"``; a function of a Series of parameters, ``lambda p: p["mean_1"] /
        p["mean_0"]``, that returns a number or a dict of numbers; a list of formulas; or a dict from names to either.
        Formulas may use ``+ - * / **``, ``exp``, ``expm1``, ``log``, ``log1p`` and ``sqrt``; put names with dots or blanks in
        back-ticks.
    *fit : Results or Effects
        One fit; its parameters keep their names.
    **fits : Results or Effects
        Several fits on the same rows; the parameter ``ATE`` of the fit ``a=...`` is called ``a.ATE``.

    Returns
    -------
    Effects

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
    >>> fit = riesz.mean("y ~ treat(a) * .", data, at=[0, 1], learner="linear")
    >>> print(riesz.contrast({"ratio": "mean_1 / mean_0"}, fit).tidy().round(2).to_string(index=False))
     term  estimate  std_error  statistic  p_value  conf_low  conf_high
    ratio      3.97       0.67       5.89      0.0      2.65        5.3

    The difference between two fits on the same rows, with the standard error of the difference:

    >>> plain = riesz.ate("y ~ treat(a) + .", data, learner="linear")
    >>> rich = riesz.ate("y ~ treat(a) * .", data, learner="linear")
    >>> difference = riesz.contrast("rich.ATE - plain.ATE", rich=rich, plain=plain)
    >>> print(f"{difference.params.iloc[0]:.3f} ({difference.bse.iloc[0]:.3f})")
    -0.004 (0.011)
    """
    parts = _parts(fit, fits)
    first = next(iter(parts.values()))
    for name, other in list(parts.items())[1:]:
        _check_rows(first, other, next(iter(parts)), name)
    names = [f"{name}.{term}" if name else term for name, part in parts.items() for term in part.params.index]
    psi = np.concatenate([part.params.to_numpy() for part in parts.values()])
    matrix = _joint_covariance(list(parts.values()))
    function = _function(expression, names)

    def at(point: Array) -> dict[str, float]:
        try:
            with np.errstate(all="ignore"):  # infinite values are reported below
                return _numbers(function(pd.Series(point, index=names)), expression)
        except (ArithmeticError, KeyError, ValueError) as error:
            raise RieszError(
                f"The contrast {expression!r} failed at the estimates: {type(error).__name__}: {error}. The parameters are "
                f"{listing(names)}."
            ) from None

    contrasts = at(psi)
    if not contrasts:
        raise RieszError(f"The contrast {expression!r} gives no numbers; expected at least one.")
    value = np.array(list(contrasts.values()))
    scale = np.maximum(np.abs(psi), np.nan_to_num(np.sqrt(np.diag(matrix)), nan=0.0))
    jacobian = _jacobian(lambda point: np.array(list(at(point).values())), psi, scale)
    fixed = [name for name, row in zip(contrasts, jacobian, strict=True) if not row.any()]
    if fixed:
        raise RieszError(
            f"The contrast {listing(fixed)} does not change with the parameters, so it has no standard error. The parameters are "
            f"{listing(names)}."
        )
    variation = np.hstack([part.variation() for part in parts.values()]) @ jacobian.T
    words = Words(
        title="Function of parameters" if len(value) == 1 else "Functions of parameters",
        subtitle="standard errors by the delta method",
        facts=[("Fits", str(len(parts)))],
        notes=list(dict.fromkeys(note for part in parts.values() for note in part._covariance_notes)),
    )
    transformed = jacobian @ matrix @ jacobian.T
    # a variance below zero is rounding, where the parameters cancel
    np.fill_diagonal(transformed, np.maximum(np.diag(transformed), 0.0))
    labels = pd.DataFrame({"term": list(contrasts)})
    return Effects(
        EffectsParts(
            model=first.model,
            clusters=first.clusters,
            labels=labels,
            value=value,
            covariance=transformed,
            variation=variation,
            words=words,
            hypotheses={},
            nobs=float(first.model.weights.frequency.sum()),
        )
    )


def _parts(fit: Sequence[Any], fits: Mapping[str, Any]) -> dict[str, Parameters]:
    if len(fit) + len(fits) == 0 or (fit and fits) or len(fit) > 1:
        raise RieszError(
            f"contrast() got {len(fit)} fits without a name and {len(fits)} with a name. Give one fit, contrast('ATE - ATT', fit), "
            "or name them all: contrast('a.ATE - b.ATE', a=fit, b=other)."
        )
    parts = dict(fits) or {"": fit[0]}
    for name, part in parts.items():
        if not isinstance(part, Parameters):
            raise RieszError(
                f"{name or 'The fit'} is a {type(part).__name__}; expected a fit, as riesz.ate() and the other verbs return."
            )
    return parts


def _check_rows(left_fit: Parameters, right_fit: Parameters, first: str, second: str) -> None:
    """Influence functions of different rows cannot be added."""
    a, b = left_fit.model, right_fit.model
    start = f"The fits {first} and {second} cannot be combined: "
    if a.table.rows != b.table.rows or not np.array_equal(a.kept, b.kept):
        raise RieszError(
            f"{start}they use different rows ({len(a.kept):,} of {a.table.rows:,} and {len(b.kept):,} of {b.table.rows:,}). Fit "
            "both on the same data; if there are missing values, first drop the rows that either fit drops."
        )
    left, right = a.blueprint.data, b.blueprint.data
    shared = [name for name in left.columns if name in right.columns and left[name].dtype == right[name].dtype]
    unequal = [name for name in shared if not left[name].equals(right[name])]
    if unequal or not a.table.index(a.kept).equals(b.table.index(b.kept)):
        difference = f"column `{unequal[0]}` differs between them" if unequal else "their rows are labelled differently"
        raise RieszError(
            f"{start}{difference}, so they come from different data. Fit both on the same data, in the same order."
        )
    pairs = ((a.weights.sampling, b.weights.sampling), (a.weights.frequency, b.weights.frequency))
    if not all(np.array_equal(*pair) for pair in pairs):
        raise RieszError(f"{start}their weights differ. Fit both with the same weights.")
    codes = (left_fit.clusters.codes, right_fit.clusters.codes)
    if len(codes[0]) != len(codes[1]) or not all(map(np.array_equal, *codes)):
        raise RieszError(
            f"{start}they are clustered differently. Give both the same clusters: fit.with_cov(cluster=...)."
        )


def _joint_covariance(parts: Sequence[Parameters]) -> Array:
    """The covariance of all parameters; variances are those that the fits report."""
    variances = np.concatenate([np.diag(part.cov_params()) for part in parts])
    stacked = np.hstack([part.variation() for part in parts])
    model, clusters = parts[0].model, parts[0].clusters.codes
    return with_variances(covariance(stacked, model.weights, clusters), variances)


def _function(expression: Any, names: Sequence[str]) -> Callable[[pd.Series], dict[str, float]]:
    """The expression as a function from parameters to named numbers."""
    if isinstance(expression, str):
        pieces: dict[str, Any] = {expression: expression}
    elif isinstance(expression, Mapping):
        pieces = dict(expression)
    elif isinstance(expression, (list, tuple)):
        pieces = {str(text): text for text in expression}
    elif callable(expression):
        return lambda p: _named(expression(p))
    else:
        pieces = {}
    if not pieces or not all(isinstance(key, str) and (isinstance(v, str) or callable(v)) for key, v in pieces.items()):
        raise RieszError(
            f"contrast() got {expression!r}; expected a formula such as 'mean_1 / mean_0', a function of the parameters, a list of "
            "formulas, or a dict from names to them."
        )
    functions = {
        name: read_expression(piece, names) if isinstance(piece, str) else piece for name, piece in pieces.items()
    }
    return lambda p: {name: function(p) for name, function in functions.items()}


def _named(returned: Any) -> dict[str, Any]:
    if isinstance(returned, (Mapping, pd.Series)):
        return {str(name): value for name, value in returned.items()}
    return {"contrast": returned}


def _numbers(returned: Mapping[str, Any], expression: Any) -> dict[str, float]:
    try:
        values = {name: float(value) for name, value in returned.items()}
    except (TypeError, ValueError):
        raise RieszError(f"The contrast {expression!r} does not give numbers; expected one number per name.") from None
    if not np.isfinite(list(values.values())).all():
        raise RieszError(
            f"The contrast {expression!r} is not finite at the estimates. Does it divide by zero, or take the logarithm of a "
            "negative number?"
        )
    return values


def _jacobian(function: Callable[[Array], Array], at: Array, scale: Array) -> Array:
    """Derivatives by five-point central differences, shape (outputs, inputs)."""
    columns = []
    for j, size in enumerate(scale):
        step = np.zeros_like(at)
        step[j] = _STEP * (size or 1.0)
        near, far = (function(at + k * step) - function(at - k * step) for k in (1, 2))
        columns.append((8 * near - far) / (12 * step[j]))
    return np.column_stack(columns)
