r"""The Riesz balance table: whether weighting by rr gives the moment, as it does for the true Riesz representer.

For any f, :math:`E[\alpha f] = h(f)`. The table compares the two sides in the sample for f the anchor, 1, the treatment, every
covariate and every treatment-by-covariate product. For the average treatment effect this is covariate balance after
weighting; for the average derivative its analogue. Covariates are centred at their means, so that adding a
constant to them changes nothing; the constant function has its own row, ``1``.

All sides are divided by the mean of the normalizer, which puts them in the units of the estimate: ``moment`` is the estimand
with f in place of the outcome, and ``weighted`` its estimate by weighting with rr.

An rr that is learned for the errors of a logit, :math:`v f` with :math:`v = \mu (1 - \mu)`, has :math:`E[v \alpha f] = h(v f)`
instead. Then every f is first multiplied by v over its mean, and its mean square is :math:`E_n[v f^2] / E_n[v]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from riesz.arrays import Array, ratio
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked
from riesz.diagnostics.shapes import parts_in_groups, shape_table, shapes
from riesz.inference import Clusters, Weights, covariance
from riesz.predictions import Predictions, tilt

_ALIKE = 1e-12  # functions that differ by less than this share of their size count as the same


def balance_table(
    predictions: Predictions,
    design: Design,
    treatment: Sequence[str],
    names: Sequence[str],
    errors: Array,
    weights: Weights,
    clusters: Clusters,
) -> pd.DataFrame:
    r"""Compare :math:`E_n[\alpha f]` with :math:`h_n(f)`.

    Parameters
    ----------
    predictions : Predictions
    design : Design
        The full sample.
    treatment : sequence of str, length t
        Names of the columns of the raw treatment.
    names : sequence of str, length K
        The parameters.
    errors : ndarray, shape (K,)
        Standard errors of the estimates.
    weights : Weights
    clusters : tuple of ndarray of int

    Returns
    -------
    pandas.DataFrame
        One row per parameter and function.

        - ``kind``: anchor, constant, treatment, covariate or interaction.
        - ``moment``, ``weighted``: the two sides; ``imbalance`` is weighted minus moment.
        - ``std_error``: of the imbalance, with rr taken as given; ``z`` their ratio.
        - ``standardized``: imbalance in units of f's root mean square (its standard deviation, for a covariate).
        - ``unadjusted``: the same for the representer that is linear in the treatment and ignores covariates (for the ATE: plain
          means per arm).
        - ``implied_bias``: in units of the estimate's standard error. It is the change in the one-step estimate if mu were
          corrected for what its residuals still show of f, :math:`-\delta_f` times the imbalance with
          :math:`\delta_f = E_n[(y - \mu) f] / E_n[f^2]`. A debiased estimate is biased only if mu *and* rr miss f.
        - ``residual_z``: z-value of :math:`E_n[(y - \mu) f]`, which is zero if mu misses nothing of f; ``effective_rows``: Kish's
          effective number of rows on which f differs from zero.
    """
    v = tilt(predictions, design)
    plain = _treatment_only(design, v)
    functions = _functions(design, treatment)
    sample = Sample(predictions, design, v, plain, names, errors, weights, clusters)
    return _in_order([_compare(sample, *function) for function in functions], names)


def shape_balance(
    predictions: Predictions,
    design: Design,
    treatment: Sequence[str],
    numeric: Mapping[str, Array],
    names: Sequence[str],
    errors: Array,
    weights: Weights,
    clusters: Clusters,
) -> pd.DataFrame:
    """The same for shapes of the covariates that the formula may miss; see :mod:`riesz.diagnostics.shapes`.

    The other parameters are those of :func:`balance_table`.

    Parameters
    ----------
    numeric : mapping of str to ndarray, each of shape (n,)
        Numeric covariates with the values they have in the data. A covariate that a reading moves is tested only by its square
        and its products, and only if the formula has it as a column.

    Returns
    -------
    pandas.DataFrame
        In the columns of :func:`balance_table`, with the kinds square, mass point, bin and product. ``std_error`` is the larger of
        the usual one and that which the true representer would have.
    """
    v = tilt(predictions, design)
    plain = _treatment_only(design, v)
    sample = Sample(predictions, design, v, plain, names, errors, weights, clusters)
    moved = _moved(design)
    fixed = {name: x for name, x in numeric.items() if name not in moved and name not in design.hidden}

    def times() -> Iterator[tuple[str, Evaluation]]:
        yield "", _constant(design)
        for j, name in enumerate(treatment):
            yield name, _centred_treatment(design, j)

    parts = parts_in_groups(predictions, design, times, v, plain)
    strength = {name: _strength(design, x) for name, x in fixed.items()}
    tables = shape_table(shapes(fixed, strength), parts, design, names, errors, weights, clusters)
    tables += [_compare(sample, kind, name, f) for kind, name, f in _moved_shapes(design, moved & set(numeric), times)]
    if not tables:
        return _in_order([_compare(sample, "constant", "1", _constant(design))], names).iloc[:0]
    return _in_order(tables, names)


def joint_p_values(table: pd.DataFrame, clusters: float) -> pd.Series:
    """P-value of each row's hypothesis that mu or rr does not miss the function.

    It is the larger of the two p-values, so that it is valid whether mu or rr is right. The z-values are compared with a t
    distribution; its degrees of freedom are the effective rows, or clusters if they are fewer, minus one.
    """
    freedom = np.maximum(np.minimum(table["effective_rows"], clusters) - 1, 1.0)
    least = np.minimum(table["z"].abs(), table["residual_z"].abs())
    return pd.Series(2 * stats.t.sf(least, freedom), index=table.index)


@dataclass(frozen=True)
class Sample:
    """The inputs of the table; for the attributes see :func:`balance_table`."""

    predictions: Predictions
    design: Design
    v: Evaluation | None
    plain: Array
    names: Sequence[str]
    errors: Array
    weights: Weights
    clusters: Clusters


def _in_order(tables: Sequence[pd.DataFrame], names: Sequence[str]) -> pd.DataFrame:
    table = pd.concat(tables)
    order = table["parameter"].map({name: c for c, name in enumerate(names)})
    return table.iloc[np.argsort(order, kind="stable")].set_index(["parameter", "function"])


def _compare(sample: Sample, kind: str, name: str, f: Evaluation | Linked) -> pd.DataFrame:
    """The rows of one function, one per parameter."""
    design, rr = sample.design, sample.predictions.rr.observed
    residual = design.y - sample.predictions.mu.observed
    size = design.mean(design.normalizer)
    g = f if sample.v is None else f.times(sample.v)
    moment = design.apply(g)
    gap = rr * g.observed - moment
    imbalance = design.mean(gap) / size
    spread = covariance(((gap - design.mean(gap)[:, None]) / size[:, None]).T, sample.weights, sample.clusters)
    product = np.broadcast_to(f.observed * g.observed, rr.shape)
    unexplained = np.broadcast_to(residual * f.observed, rr.shape)
    square, missed = design.mean(product), design.mean(unexplained)
    scale, error = np.sqrt(square), np.sqrt(np.diag(spread))
    noise = np.sqrt(np.diag(covariance((unexplained - missed[:, None]).T, sample.weights, sample.clusters)))
    share = design.weights / design.weights.sum()
    return pd.DataFrame(
        {
            "parameter": sample.names,
            "function": name,
            "kind": kind,
            "moment": design.mean(moment) / size,
            "weighted": design.mean(rr * g.observed) / size,
            "imbalance": imbalance,
            "std_error": error,
            "z": ratio(imbalance, error, otherwise=0.0),
            "standardized": ratio(imbalance, scale),
            "unadjusted": ratio(design.mean(sample.plain * g.observed - moment) / size, scale),
            "implied_bias": ratio(-ratio(missed, square) * imbalance, sample.errors),
            "residual_z": ratio(missed, noise, otherwise=0.0),
            "effective_rows": ratio(square**2, (product * share) ** 2 @ (1 / design.frequency), otherwise=0.0),
        }
    )


def _moved(design: Design) -> set[str]:
    """The variables, other than the treatment, that some reading moves."""
    columns = {int(j) for point in design.readings() for j in point.columns}
    return {name for j in columns & {int(j) for j in design.covariates} for name in design.reads[j]}


def _moved_shapes(
    design: Design, moved: set[str], times: Callable[[], Iterator[tuple[str, Evaluation]]]
) -> Iterator[tuple[str, str, Evaluation]]:
    """Squares of moved covariates and their products, by themselves and times the treatment."""
    columns = {design.names[j]: _covariate(design, int(j)) for j in design.covariates if design.names[j] in moved}
    pairs = [(f"{name}^2", "square", x, x) for name, x in columns.items()]
    pairs += [(f"{a}:{b}", "product", columns[a], columns[b]) for a, b in combinations(columns, 2)]
    for name, kind, left, right in pairs:
        f = left.times(right)
        centre = float(design.mean(f.observed))
        centred = Evaluation(f.observed - centre, f.values - centre, f.slopes)
        for prefix, t in times():
            yield kind, f"{prefix}:{name}" if prefix else name, centred.times(t)


def _centred_treatment(design: Design, column: int) -> Evaluation:
    """The indicator of an arm, or a continuous treatment minus its mean."""
    a = _raw_treatment(design, column)
    centre = float(design.mean(a.observed)) if design.strata is None else 0.0
    return Evaluation(a.observed - centre, a.values - centre, a.slopes)


def _strength(design: Design, x: Array) -> float:
    """The largest absolute correlation of a covariate with the treatment plus that with the outcome."""

    def unit(values: Array) -> Array:
        centred = values - design.mean(values)
        return np.asarray(centred / (np.sqrt(design.mean(centred**2)) or 1.0))

    treatment = max(abs(float(design.mean(unit(x) * unit(a)))) for a in design.treatment.T)
    return treatment + abs(float(design.mean(unit(x) * unit(design.y))))


def _functions(design: Design, treatment: Sequence[str]) -> Iterator[tuple[str, str, Evaluation | Linked]]:
    """The functions to balance, with kind and name. All parameters share a function; only the anchor differs between them."""
    anchor = design.anchor
    yield "anchor", "anchor", anchor
    yield "constant", "1", _constant(design)
    for number, name in enumerate(treatment):
        a = _raw_treatment(design, number)
        if not all(_alike(a.observed, beta) for beta in anchor.observed):
            yield "treatment", name, a
    for j in design.covariates:
        x = _covariate(design, int(j))
        if not np.abs(x.observed).max() > _ALIKE * np.abs(design.z[:, j]).max():
            continue  # a constant column
        yield "covariate", design.names[j], x
        for number, name in enumerate(treatment):
            yield "interaction", f"{name}:{design.names[j]}", _raw_treatment(design, number).times(x)


def _alike(left: Array, right: Array) -> bool:
    return bool(np.abs(left - right).max() <= _ALIKE * np.abs(right).max())


def _constant(design: Design) -> Evaluation:
    shape = (len(design.is_derivative), len(design))
    return Evaluation(np.ones(len(design)), np.ones(shape), np.zeros(shape))


def _raw_treatment(design: Design, column: int) -> Evaluation:
    points = design.readings()
    values = np.stack([point.treatment[:, column] for point in points])
    slopes = np.stack([np.full(len(design), point.treatment_slope) for point in points])
    return Evaluation(design.treatment[:, column], values, slopes)


def _covariate(design: Design, column: int) -> Evaluation:
    """A column of z, centred at its weighted mean."""
    observed, points = design.z[:, column], design.readings()
    values, slopes = np.tile(observed, (len(points), 1)), np.zeros((len(points), len(observed)))
    for k, point in enumerate(points):
        for place in np.flatnonzero(point.columns == column):  # a custom moment may also change covariates
            values[k] = point.values[:, place]
            if point.tangents is not None:
                slopes[k] = point.tangents[:, place]
    centre = float(design.mean(observed))
    return Evaluation(observed - centre, values - centre, slopes)


def _treatment_only(design: Design, v: Evaluation | None) -> Array:
    """The Riesz representer in the span of 1 and the raw treatment, shape (K, n): what an unadjusted comparison uses."""
    plain, tilted, moments = [], [], []
    for j in range(-1, design.treatment.shape[1]):
        f = _constant(design) if j < 0 else _raw_treatment(design, j)
        g = f if v is None else f.times(v)
        plain.append(f.observed)
        tilted.append(g.observed)
        moments.append(design.mean(design.apply(g)))
    observed, weighted = np.stack(plain), np.stack(tilted)
    gram = np.stack([design.mean(row * weighted) for row in observed])
    return np.asarray((np.linalg.pinv(gram, hermitian=True) @ np.stack(moments)).T @ observed)
