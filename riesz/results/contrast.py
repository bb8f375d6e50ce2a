r"""Functions of parameters, of one or several fits on the same rows, by the delta method.

With influence functions :math:`\phi` stacked over fits and :math:`G = \partial g / \partial \psi`,

.. math:: \widehat{\mathrm{var}}\, g(\hat\psi) = G \hat V G', \qquad \hat V = \widehat{\mathrm{var}}(\phi),

where variances of single parameters are those that their fits report.
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
from riesz.syntax.calls import checked
from riesz.syntax.contrast_arithmetic import read_expression

_STEP = float(np.finfo(float).eps ** (1 / 5))  # balances truncation and rounding of a five-point difference


@checked("riesz.contrast()")
def contrast(expression: Any, *fit: Parameters, **fits: Parameters) -> Effects:
    """Differences, ratios and any smooth function of parameters, with standard errors by the delta method.

    Parameters
    ----------
    expression : str, callable, list or dict
        A formula of parameters such as ``"mean_1 / mean_0"``; a function of a Series of parameters, ``lambda p: p["mean_1"] /
        p["mean_0"]``, that returns a number or a dict of numbers; a list of formulas; or a dict from names to either.
        Formulas know ``+ - * / **``, ``exp``, ``expm1``, ``log``, ``log1p`` and ``sqrt``; back-ticks surround names with dots or
        blanks.
    *fit : Results or Effects
        One fit, whose parameters go by their own names.
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
    >>> riesz.contrast({"ratio": "mean_1 / mean_0"}, fit).params.index.tolist()
    ['ratio']
    >>> plain = riesz.ate("y ~ treat(a) + .", data, learner="linear")
    >>> rich = riesz.ate("y ~ treat(a) * .", data, learner="linear")
    >>> riesz.contrast("rich.ATE - plain.ATE", rich=rich, plain=plain).params.index.tolist()
    ['rich.ATE - plain.ATE']
    """
    parts = _parts(fit, fits)
    first = next(iter(parts.values()))
    for name, other in list(parts.items())[1:]:
        _check_rows(first, other, next(iter(parts)), name)
    names = [f"{name}.{one}" if name else one for name, part in parts.items() for one in part.params.index]
    psi = np.concatenate([part.params.to_numpy() for part in parts.values()])
    matrix = _joint_covariance(list(parts.values()))
    function = _function(expression, names)

    def at(point: Array) -> dict[str, float]:
        try:
            with np.errstate(all="ignore"):  # what is not finite is told below
                return _numbers(function(pd.Series(point, index=names)), expression)
        except (ArithmeticError, KeyError, ValueError) as error:
            raise RieszError(
                f"The contrast {expression!r} failed at the estimates: {type(error).__name__}: {error}. The parameters are "
                f"{listing(names)}."
            ) from None

    made = at(psi)
    if not made:
        raise RieszError(f"The contrast {expression!r} gives no numbers; expected at least one.")
    value = np.array(list(made.values()))
    scale = np.maximum(np.abs(psi), np.nan_to_num(np.sqrt(np.diag(matrix)), nan=0.0))
    jacobian = _jacobian(lambda point: np.array(list(at(point).values())), psi, scale)
    fixed = [name for name, row in zip(made, jacobian, strict=True) if not row.any()]
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
    covered = jacobian @ matrix @ jacobian.T
    np.fill_diagonal(covered, np.maximum(np.diag(covered), 0.0))  # rounding, where the parameters cancel
    labels = pd.DataFrame({"term": list(made)})
    return Effects(
        EffectsParts(
            model=first.model,
            clusters=first.clusters,
            labels=labels,
            value=value,
            covariance=covered,
            variation=variation,
            words=words,
            hypotheses={},
            nobs=float(first.model.weights.frequency.sum()),
        )
    )


def _parts(fit: Sequence[Any], fits: Mapping[str, Any]) -> dict[str, Parameters]:
    if len(fit) + len(fits) == 0 or (fit and fits) or len(fit) > 1:
        raise RieszError(
            f"contrast() got {len(fit)} fits without a name and {len(fits)} with one. Give one fit, contrast('ATE - ATT', fit), or "
            "name them all: contrast('a.ATE - b.ATE', a=fit, b=other)."
        )
    parts = dict(fits) or {"": fit[0]}
    for name, part in parts.items():
        if not isinstance(part, Parameters):
            raise RieszError(
                f"{name or 'The fit'} is a {type(part).__name__}; wanted what riesz.ate() and the other verbs return."
            )
    return parts


def _check_rows(one: Parameters, two: Parameters, first: str, second: str) -> None:
    """Influence functions of different rows cannot be added."""
    a, b = one.model, two.model
    said = f"The fits {first} and {second} cannot be combined: "
    if a.table.rows != b.table.rows or not np.array_equal(a.kept, b.kept):
        raise RieszError(
            f"{said}they use different rows ({len(a.kept):,} of {a.table.rows:,} and {len(b.kept):,} of {b.table.rows:,}). Fit "
            "both on the same data; with missing values, drop the rows that either one drops first."
        )
    left, right = a.blueprint.data, b.blueprint.data
    shared = [name for name in left.columns if name in right.columns and left[name].dtype == right[name].dtype]
    unequal = [name for name in shared if not left[name].equals(right[name])]
    if unequal or not a.table.index(a.kept).equals(b.table.index(b.kept)):
        what = f"column `{unequal[0]}` differs between them" if unequal else "their rows are labelled differently"
        raise RieszError(
            f"{said}{what}, so they come from different data. Fit both on the same data, in the same order."
        )
    pairs = ((a.weights.sampling, b.weights.sampling), (a.weights.frequency, b.weights.frequency))
    if not all(np.array_equal(*pair) for pair in pairs):
        raise RieszError(f"{said}their weights differ. Fit both with the same weights.")
    codes = (one.clusters.codes, two.clusters.codes)
    if len(codes[0]) != len(codes[1]) or not all(map(np.array_equal, *codes)):
        raise RieszError(
            f"{said}one is clustered otherwise than the other. Give both the same clusters: fit.with_cov(cluster=...)."
        )


def _joint_covariance(parts: Sequence[Parameters]) -> Array:
    """The covariance of all parameters; within a fit it is the fit's own."""
    variances = np.concatenate([np.diag(part.cov_params()) for part in parts])
    stacked = np.hstack([part.variation() for part in parts])
    model, clusters = parts[0].model, parts[0].clusters.codes
    return with_variances(covariance(stacked, model.weights, clusters), variances)


def _function(expression: Any, names: Sequence[str]) -> Callable[[pd.Series], dict[str, float]]:
    """One function from names to numbers, whatever the user wrote."""
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
            f"contrast() got {expression!r}; wanted a formula such as 'mean_1 / mean_0', a function of the parameters, a list of "
            "formulas, or a dict from names to them."
        )
    made = {name: read_expression(piece, names) if isinstance(piece, str) else piece for name, piece in pieces.items()}
    return lambda p: {name: function(p) for name, function in made.items()}


def _named(returned: Any) -> dict[str, Any]:
    if isinstance(returned, (Mapping, pd.Series)):
        return {str(name): value for name, value in returned.items()}
    return {"contrast": returned}


def _numbers(made: Mapping[str, Any], expression: Any) -> dict[str, float]:
    try:
        values = {name: float(value) for name, value in made.items()}
    except (TypeError, ValueError):
        raise RieszError(
            f"The contrast {expression!r} does not give numbers; wanted one number for each name."
        ) from None
    if not np.isfinite(list(values.values())).all():
        raise RieszError(
            f"The contrast {expression!r} is not finite at the estimates (a division by zero, a logarithm?)."
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
