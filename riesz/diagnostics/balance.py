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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, groupby, islice

import numpy as np
import pandas as pd
from scipy import stats

from riesz.arrays import Array, ratio
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked
from riesz.diagnostics.balance_sums import Blocks, Sample, Sums, blocks_of, in_groups, sums
from riesz.diagnostics.shapes import Shape, shapes
from riesz.diagnostics.treatment_functions import TreatmentFunction, constant, treatment_functions, treatment_only
from riesz.inference import Clusters, Weights, variances
from riesz.predictions import Predictions, tilt

_ALIKE = 1e-12  # functions that differ by less than this share of their size count as the same
_AT_ONCE = 16  # functions of covariates
_CONSTANT = -1  # in place of the number of a column
_TIMES_TREATMENT = {
    "constant": "treatment",
    "covariate": "interaction",
}  # the kind of a product; others keep their kind


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
    sample = _sample(predictions, design, names, errors, weights, clusters)
    functions = treatment_functions(design, treatment, centred=False)
    blocks = blocks_of(sample, functions)
    moved = {int(j) for point in design.readings() for j in point.columns}
    tables = [_compare(sample, "anchor", "anchor", design.anchor)]
    for is_moved, columns in groupby([_CONSTANT, *map(int, design.covariates)], lambda j: j in moved):
        if is_moved:
            tables += [_compare(sample, *product) for product in _moved_columns(design, columns, functions)]
            continue
        for batch, total in _in_batches(_columns(design, columns), sample, functions, blocks):
            tables.append(_rows(sample, functions, batch, total, total.variance, (2, 0, 1)))
    table = pd.concat(tables)
    same = [t.label for t in functions[1:] if all(_alike(t.observed, beta) for beta in design.anchor.observed)]
    repeated = (table["kind"] == "treatment") & table["function"].isin(same)
    return _in_order([table[~repeated]], names)


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
    sample = _sample(predictions, design, names, errors, weights, clusters)
    functions = treatment_functions(design, treatment, centred=True)
    moved = _moved(design)
    fixed = {name: x for name, x in numeric.items() if name not in moved and name not in design.hidden}
    strength = {name: _strength(design, x) for name, x in fixed.items()}
    centred = ((kind, name, f - design.mean(f)) for kind, name, f in shapes(fixed, strength))
    blocks = blocks_of(sample, functions)
    tables = [
        _rows(sample, functions, batch, total, np.maximum(total.variance, total.expected_variance), (0, 1, 2))
        for batch, total in _in_batches(centred, sample, functions, blocks)
    ]
    tables += [_compare(sample, *product) for product in _moved_shapes(design, moved & set(numeric), functions)]
    if not tables:
        return _in_order([_compare(sample, "constant", "1", constant(design))], names).iloc[:0]
    return _in_order(tables, names)


def joint_p_values(table: pd.DataFrame, clusters: float) -> pd.Series:
    """P-value of each row's hypothesis that mu or rr does not miss the function.

    It is the larger of the two p-values, so that it is valid whether mu or rr is right. The z-values are compared with a t
    distribution; its degrees of freedom are the effective rows, or clusters if they are fewer, minus one.
    """
    freedom = np.maximum(np.minimum(table["effective_rows"], clusters) - 1, 1.0)
    least = np.minimum(table["z"].abs(), table["residual_z"].abs())
    return pd.Series(2 * stats.t.sf(least, freedom), index=table.index)


def _sample(
    predictions: Predictions, design: Design, names: Sequence[str], errors: Array, weights: Weights, clusters: Clusters
) -> Sample:
    v = tilt(predictions, design)
    return Sample(predictions, design, v, treatment_only(design, v), names, errors, weights, clusters)


def _in_order(tables: Sequence[pd.DataFrame], names: Sequence[str]) -> pd.DataFrame:
    table = pd.concat(tables)
    order = table["parameter"].map({name: c for c, name in enumerate(names)})
    return table.iloc[np.argsort(order, kind="stable")].set_index(["parameter", "function"])


def _compare(sample: Sample, kind: str, name: str, f: Evaluation | Linked) -> pd.DataFrame:
    """The rows of one function, one per parameter."""
    links, every = sample.design.links, np.arange(sample.design.components)
    groups = in_groups(every, len(sample.design))
    return pd.concat([_compare_some(sample.only(some), kind, name, f.only(links.part(some))) for some in groups])


def _compare_some(sample: Sample, kind: str, name: str, f: Evaluation | Linked) -> pd.DataFrame:
    design, rr = sample.design, sample.predictions.rr.observed
    residual = design.errors(sample.predictions.mu.observed)
    size = design.mean(design.normalizer)
    g = f if sample.v is None else f.times(sample.v)
    moment = design.apply(g)
    gap = rr * g.observed - moment
    imbalance = design.mean(gap)
    error = np.sqrt(variances((gap - imbalance[:, None]).T, sample.weights, sample.clusters)) / size
    imbalance /= size
    product, unexplained = np.atleast_2d(f.observed * g.observed, residual * f.observed)
    square, missed = design.mean(product), design.mean(unexplained)
    noise = np.sqrt(variances((unexplained - missed[:, None]).T, sample.weights, sample.clusters))
    share = design.weights / design.weights.sum()
    effective = ratio(square**2, (product * share) ** 2 @ (1 / design.frequency), otherwise=0.0)
    numbers = {
        "moment": design.mean(moment) / size,
        "weighted": design.mean(rr * g.observed) / size,
        "imbalance": imbalance,
        "std_error": error,
        "z": ratio(imbalance, error, otherwise=0.0),
        "standardized": ratio(imbalance, np.sqrt(square)),
        "unadjusted": ratio(design.mean(sample.plain * g.observed - moment) / size, np.sqrt(square)),
        "implied_bias": ratio(-ratio(missed, square) * imbalance, sample.errors),
        "residual_z": ratio(missed, noise, otherwise=0.0),
        "effective_rows": effective,
    }
    columns = {column: np.broadcast_to(values, len(rr)) for column, values in numbers.items()}
    return pd.DataFrame({"parameter": sample.names, "function": name, "kind": kind, **columns})


def _in_batches(
    functions_of_covariates: Iterable[Shape], sample: Sample, functions: Sequence[TreatmentFunction], blocks: Blocks
) -> Iterator[tuple[list[Shape], Sums]]:
    """Functions of covariates, a few at a time, with the sums for their products with functions of the treatment."""
    remaining = iter(functions_of_covariates)
    while batch := list(islice(remaining, _AT_ONCE)):
        yield batch, sums(np.column_stack([f for _, _, f in batch]), functions, blocks, sample)


def _rows(
    sample: Sample,
    functions: Sequence[TreatmentFunction],
    batch: Sequence[Shape],
    total: Sums,
    variance: Array,
    order: tuple[int, int, int],
) -> pd.DataFrame:
    """One row per function of the treatment (axis 0), parameter (1) and function of covariates (2), in this order of the axes."""
    size = sample.design.mean(sample.design.normalizer)[:, None]
    gap, moment, plain = total.sides / size
    error = np.sqrt(variance) / size
    scale = np.sqrt(total.square)[:, None]
    coefficient = ratio(total.residual, total.square, otherwise=0.0)[:, None]
    labels = [[_label(t, kind, name) for kind, name, _ in batch] for t in functions]
    kinds, products = np.moveaxis(np.array(labels, dtype=object), 2, 0)
    values = {
        "parameter": np.asarray(sample.names, dtype=object)[:, None],
        "function": products[:, None],
        "kind": kinds[:, None],
        "moment": moment,
        "weighted": moment + gap,
        "imbalance": gap,
        "std_error": error,
        "z": ratio(gap, error, otherwise=0.0),
        "standardized": ratio(gap, scale, otherwise=0.0),
        "unadjusted": ratio(plain, scale, otherwise=0.0),
        "implied_bias": ratio(-coefficient * gap, sample.errors[:, None]),
        "residual_z": ratio(total.residual, np.sqrt(total.residual_variance), otherwise=0.0)[:, None],
        "effective_rows": total.effective[:, None],
    }
    return pd.DataFrame(
        {name: np.ravel(np.transpose(np.broadcast_to(value, gap.shape), order)) for name, value in values.items()}
    )


def _label(t: TreatmentFunction, kind: str, name: str) -> tuple[str, str]:
    """Kind and name of the product of t with a function of covariates."""
    if t.column is None:
        return kind, name
    return _TIMES_TREATMENT.get(kind, kind), t.label if kind == "constant" else f"{t.label}:{name}"


def _moved(design: Design) -> set[str]:
    """The variables, other than the treatment, that some reading moves."""
    columns = {int(j) for point in design.readings() for j in point.columns}
    return {name for j in columns & {int(j) for j in design.covariates} for name in design.reads[j]}


def _moved_shapes(
    design: Design, moved: set[str], functions: Sequence[TreatmentFunction]
) -> Iterator[tuple[str, str, Evaluation]]:
    """Squares of moved covariates and their products, by themselves and times the treatment."""
    columns = {design.names[j]: _covariate(design, int(j)) for j in design.covariates if design.names[j] in moved}
    pairs = [(f"{name}^2", "square", x, x) for name, x in columns.items()]
    pairs += [(f"{a}:{b}", "product", columns[a], columns[b]) for a, b in combinations(columns, 2)]
    for name, kind, left, right in pairs:
        f = left.times(right)
        centre = float(design.mean(f.observed))
        centred = Evaluation(f.observed - centre, f.values - centre, f.slopes)
        for t in functions:
            yield *_label(t, kind, name), centred.times(t.at(design))


def _moved_columns(
    design: Design, columns: Iterable[int], functions: Sequence[TreatmentFunction]
) -> Iterator[tuple[str, str, Evaluation]]:
    """Covariates that a reading moves, by themselves and times the treatment."""
    for j in columns:
        x = _covariate(design, j)
        if _varies(x.observed, design.z[:, j]):
            for t in functions:
                yield *_label(t, "covariate", design.names[j]), x if t.column is None else t.at(design).times(x)


def _columns(design: Design, columns: Iterable[int]) -> Iterator[Shape]:
    """The constant, and covariates that no reading moves."""
    for j in columns:
        if j == _CONSTANT:
            yield "constant", "1", np.ones(len(design))
            continue
        z = design.z[:, j]
        x = z - float(design.mean(z))
        if _varies(x, z):
            yield "covariate", design.names[j], x


def _varies(centred: Array, column: Array) -> bool:
    return bool(np.abs(centred).max() > _ALIKE * np.abs(column).max())


def _strength(design: Design, x: Array) -> float:
    """The largest absolute correlation of a covariate with the treatment plus that with the outcome."""

    def unit(values: Array) -> Array:
        centred = values - design.mean(values)
        return np.asarray(centred / (np.sqrt(design.mean(centred**2)) or 1.0))

    treatment = max(abs(float(design.mean(unit(x) * unit(a)))) for a in design.treatment.T)
    return treatment + abs(float(design.mean(unit(x) * unit(design.y))))


def _alike(left: Array, right: Array) -> bool:
    return bool(np.abs(left - right).max() <= _ALIKE * np.abs(right).max())


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
