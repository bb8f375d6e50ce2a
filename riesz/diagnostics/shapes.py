"""Shapes of covariates that a formula may miss: squares, bins, mass points and products of covariates.

Each numeric covariate x with three values or more gives its square, indicators of its quantile bins and of its mass points (values
on 5% of the rows or more), and the strongest covariates give their products. Every such f, centred, is tested by itself and times
the treatment (the indicator of an arm, a continuous treatment centred), because mu may miss f in only one arm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from riesz.arrays import Array

MASS = 0.05  # share of rows from which a value is a mass point
BINS = 8  # quantile bins per covariate at most; fewer in samples below 800 rows
STRONGEST = 6  # covariates whose products are tested
_ROWS_PER_BIN = 100
_FEWEST_ROWS = 20  # of a bin
_MOST_MASS_POINTS = 5  # per covariate

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
