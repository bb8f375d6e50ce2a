r"""Rows of the balance table for shapes that a formula may miss: squares, bins, mass points and products of covariates.

Each numeric covariate x with three values or more gives its square, indicators of its quantile bins and of its mass points (values
on 5% of the rows or more), and the strongest covariates give their products. Every such f, centred, is tested by itself and times
the treatment (the indicator of an arm, a continuous treatment centred), because mu may miss f in only one arm.

A reading that moves the treatment alone leaves f as it is, so that with :math:`g = t f` and t a function of the treatment

.. math:: \alpha g - m(g) = f \{\alpha t - m(t)\},

for derivatives, too. The braces are computed once, and all sums over rows are matrix products with f and its powers: the table of
n rows and one column per function is never stored. A covariate that a reading moves is evaluated at the reading.

Standard errors of an imbalance are the larger of two: that of its terms, and that which the true representer would have,
:math:`E[\alpha^2 g^2] = E[m(\alpha g^2)]`. Where a bin holds no treated row by chance, the first is far too small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np
import pandas as pd
from scipy import sparse

from riesz.arrays import Array, ratio
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.inference import Clusters, Weights
from riesz.predictions import Predictions

MASS = 0.05  # share of rows from which a value is a mass point
BINS = 8  # quantile bins per covariate at most; fewer in samples below 800 rows
STRONGEST = 6  # covariates whose products are tested
_ROWS_PER_BIN = 100
_FEWEST_ROWS = 20  # of a bin
_MOST_MASS_POINTS = 5  # per covariate
_AT_ONCE = 16  # functions
_MOST_NUMBERS = 2**24  # of parts that are in memory at once

Shape = tuple[str, str, Array]  # kind, name, values


def shapes(numeric: Mapping[str, Array], strength: Mapping[str, float]) -> Iterator[Shape]:
    """The functions of covariates to balance, not centred.

    Parameters
    ----------
    numeric : mapping of str to ndarray, each of shape (n,)
    strength : mapping of str to float
        How strongly each covariate is correlated with treatment and outcome.
    """
    nonbinary = {name: x for name, x in numeric.items() if len(np.unique(x[: 10 * BINS])) > 2 or len(np.unique(x)) > 2}
    for name, x in nonbinary.items():
        yield from _shapes_of(name, x)
    strongest = sorted(numeric, key=lambda name: -strength[name])[:STRONGEST]
    for left, right in combinations(strongest, 2):
        yield "product", f"{left}:{right}", _standard(numeric[left]) * _standard(numeric[right])


def _standard(x: Array) -> Array:
    return np.asarray((x - x.mean()) / (x.std() or 1.0))


def _shapes_of(name: str, x: Array) -> Iterator[Shape]:
    yield "square", f"{name}^2", _standard(x) ** 2
    ordered = np.sort(x)
    starts = np.flatnonzero(np.diff(ordered, prepend=-np.inf) > 0)
    counts = np.diff(starts, append=len(x))
    heavy = np.flatnonzero(counts >= max(MASS * len(x), _FEWEST_ROWS))
    heavy = heavy[np.argsort(-counts[heavy], kind="stable")][:_MOST_MASS_POINTS]
    points = ordered[starts[heavy]]
    for value in points:
        yield "mass point", f"{name}={value:.4g}", (x == value).astype(float)
    bins = int(np.clip(len(x) // _ROWS_PER_BIN, 3, BINS))
    edges = np.unique(ordered[(np.arange(1, bins) * len(x)) // bins])
    codes = np.searchsorted(edges, x, side="right")
    limits = [-np.inf, *edges, np.inf]
    for code, count in enumerate(np.bincount(codes, minlength=len(edges) + 1)):
        low, high = limits[code], limits[code + 1]
        is_mass_point = any(low <= value < high and np.sum(x == value) > count - _FEWEST_ROWS for value in points)
        if count >= _FEWEST_ROWS and not is_mass_point:
            yield "bin", _interval(name, low, high), (codes == code).astype(float)


def _interval(name: str, low: float, high: float) -> str:
    if np.isinf(low):
        return f"{name}<{high:.4g}"
    return f"{name}>={low:.4g}" if np.isinf(high) else f"{low:.4g}<={name}<{high:.4g}"


@dataclass(frozen=True)
class Parts:
    r"""The factors of every sum over rows, for each function t of the treatment.

    Attributes
    ----------
    labels : tuple of str
        The prefix of the name of f.
    sides : ndarray, shape (T, 3, K, n)
        :math:`\alpha t - m(t)`, :math:`m(t)` and the unadjusted gap.
    expected_square : ndarray, shape (T, K, n)
        The expected square of the first side for the true representer.
    residual : ndarray, shape (T, n)
        :math:`(y - \mu) t`.
    square : ndarray, shape (T, n)
        :math:`t^2`, times v for an rr that is learned for the errors of a logit.
    """

    labels: tuple[str, ...]
    sides: Array
    expected_square: Array
    residual: Array
    square: Array


def make_parts(
    predictions: Predictions,
    design: Design,
    functions: Sequence[tuple[str, Evaluation]],
    v: Evaluation | None,
    plain: Array,
) -> Parts:
    """The parts for given functions of the treatment, each with a label."""
    rr, residual = predictions.rr, design.y - predictions.mu.observed
    sides, squares = [], []
    for _, t in functions:
        g = t if v is None else t.times(v)
        moment = design.apply(g)
        sides.append(np.stack([rr.observed * g.observed - moment, moment, plain * g.observed - moment]))
        expected = design.apply(rr.times(g).times(g))
        squares.append(expected - 2 * rr.observed * g.observed * moment + moment**2)
    observed = np.stack([np.broadcast_to(t.observed, residual.shape) for _, t in functions])
    square = observed**2 if v is None else observed**2 * v.observed
    return Parts(
        tuple(label for label, _ in functions), np.stack(sides), np.stack(squares), residual * observed, square
    )


def parts_in_groups(
    predictions: Predictions,
    design: Design,
    functions: Callable[[], Iterator[tuple[str, Evaluation]]],
    v: Evaluation | None,
    plain: Array,
) -> Callable[[], Iterator[Parts]]:
    """The parts of functions of the treatment (the constant and its columns), in groups: many arms need much memory."""
    size = max(_MOST_NUMBERS // (4 * predictions.rr.observed.size), 1)

    def groups() -> Iterator[Parts]:
        remaining = functions()
        while group := list(islice(remaining, size)):
            yield make_parts(predictions, design, group, v, plain)

    if 1 + design.treatment.shape[1] > size:
        return groups
    parts = list(groups())
    return lambda: iter(parts)


@dataclass(frozen=True)
class Sums:
    """Means, variances and counts for q functions f, each times T functions of the treatment.

    Attributes
    ----------
    sides : ndarray, shape (T, 3, K, q)
        Means of :attr:`Parts.sides` times f.
    variance : ndarray, shape (T, K, q)
        Variance of the mean of the first side times f.
    residual, residual_variance, square, effective : ndarray, shape (T, q)
        The mean of (y - mu) t f, its variance, the mean square of t f, and Kish's effective number of rows.
    """

    sides: Array
    variance: Array
    residual: Array
    residual_variance: Array
    square: Array
    effective: Array


def sums(f: Array, parts: Parts, weights: Weights, clusters: Clusters) -> Sums:
    """The sums for functions f, shape (n, q)."""
    share = weights.total / weights.total.sum()
    spread = Spread(weights, clusters)
    width = f.shape[1]
    square = f**2
    size = (parts.square * share) @ square
    counted = (parts.square * share) ** 2 / weights.frequency @ square**2
    shape = (*parts.sides.shape[:3], width)
    sides = (parts.sides.reshape(-1, len(f)) * share) @ f
    sides = sides.reshape(shape)
    rows, components = len(parts.labels), parts.sides.shape[2]
    gaps = parts.sides[:, 0].reshape(-1, len(f))
    null = spread.of_terms(parts.expected_square.reshape(-1, len(f)), square)
    variance = np.maximum(spread.of_means(gaps, f, square), null).reshape(rows, components, width)
    return Sums(
        sides,
        variance,
        (parts.residual * share) @ f,
        spread.of_means(parts.residual, f, square),
        size,
        ratio(size**2, counted, otherwise=0.0),
    )


@dataclass(frozen=True)
class Spread:
    """Variances of weighted means over rows, by the first clustering variable if there is one."""

    weights: Weights
    clusters: Clusters

    def of_terms(self, squares: Array, f_square: Array) -> Array:
        """The variance of a mean of independent terms with given expected squares, shape (rows, q)."""
        pull = self.weights.sampling**2 * self.weights.frequency / self.weights.total.sum() ** 2
        return np.asarray((squares * pull) @ f_square)

    def of_means(self, terms: Array, f: Array, f_square: Array) -> Array:
        """The variance of the means of terms times f, shape (rows, q), as in :func:`riesz.inference.covariance`."""
        share = self.weights.total / self.weights.total.sum()
        means = (terms * share) @ f
        if self.clusters:
            codes = self.clusters[0]
            total = sparse.csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))))
            sizes = total @ share
            pulls = [
                total @ ((row * share)[:, None] * f) - sizes[:, None] * mean
                for row, mean in zip(terms, means, strict=True)
            ]
            return np.stack([len(sizes) / (len(sizes) - 1) * (pull**2).sum(axis=0) for pull in pulls])
        pull = self.weights.sampling**2 * self.weights.frequency / self.weights.total.sum() ** 2
        count = float(self.weights.frequency.sum())
        centred = (terms**2 * pull) @ f_square - 2 * means * ((terms * pull) @ f) + means**2 * pull.sum()
        return np.asarray(count / (count - 1) * np.maximum(centred, 0.0))


def shape_table(
    functions: Iterator[Shape],
    groups: Callable[[], Iterator[Parts]],
    design: Design,
    names: Sequence[str],
    errors: Array,
    weights: Weights,
    clusters: Clusters,
) -> list[pd.DataFrame]:
    """The rows of the balance table for functions that no reading moves, in the columns of ``balance_table``."""
    tables: list[pd.DataFrame] = []
    kinds: list[str] = []
    labels: list[str] = []
    columns: list[Array] = []

    def flush() -> None:
        if columns:
            f = np.column_stack(columns)
            f -= design.mean(f.T)
            for parts in groups():
                tables.append(_rows(kinds, labels, sums(f, parts, weights, clusters), parts, design, names, errors))
        kinds.clear()
        labels.clear()
        columns.clear()

    for kind, label, f in functions:
        kinds.append(kind)
        labels.append(label)
        columns.append(f)
        if len(columns) == _AT_ONCE:
            flush()
    flush()
    return tables


def _rows(
    kinds: Sequence[str],
    labels: Sequence[str],
    total: Sums,
    parts: Parts,
    design: Design,
    names: Sequence[str],
    errors: Array,
) -> pd.DataFrame:
    """One row per function of the treatment, parameter and f."""
    size = design.mean(design.normalizer)[:, None]
    gap, moment, plain = (total.sides[:, k] / size for k in range(3))
    error = np.sqrt(total.variance) / size
    scale = np.sqrt(total.square)[:, None]
    shape = gap.shape
    coefficient = ratio(total.residual, total.square, otherwise=0.0)[:, None]
    residual_z = ratio(total.residual, np.sqrt(total.residual_variance), otherwise=0.0)
    function = [[f"{prefix}:{label}" if prefix else label for label in labels] for prefix in parts.labels]
    values = {
        "parameter": np.broadcast_to(np.asarray(names, dtype=object)[:, None], shape),
        "function": np.broadcast_to(np.asarray(function, dtype=object)[:, None], shape),
        "kind": np.broadcast_to(np.asarray(kinds, dtype=object), shape),
        "moment": moment,
        "weighted": moment + gap,
        "imbalance": gap,
        "std_error": error,
        "z": ratio(gap, error, otherwise=0.0),
        "standardized": ratio(gap, scale, otherwise=0.0),
        "unadjusted": ratio(plain, scale, otherwise=0.0),
        "implied_bias": ratio(-coefficient * gap, errors[:, None]),
        "residual_z": np.broadcast_to(residual_z[:, None], shape),
        "effective_rows": np.broadcast_to(total.effective[:, None], shape),
    }
    return pd.DataFrame({name: np.ravel(value) for name, value in values.items()})
