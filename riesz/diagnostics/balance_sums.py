r"""The sums over rows of the balance table, for products t f of functions of the treatment and of covariates.

A reading that moves the treatment alone leaves f as it is, so that with :math:`g = t f`

.. math:: \alpha g - m(g) = f \{\alpha t - m(t)\},

for derivatives, too. The braces are computed once, and all sums over rows are matrix products with f and its powers: the table of
n rows and one column per function is never stored.

They are computed in blocks, of some components and the rows where the braces are not zero. A component that reads mu only where t
is zero needs only the rows with :math:`t \ne 0`. With J arms that leaves, for all indicators together, about as much work as one
function without zeros, instead of J times as much.

Standard errors of an imbalance are computed in two ways: from its terms, and as they would be for the true representer,
:math:`E[\alpha^2 g^2] = E[m(\alpha g^2)]`. Where a bin holds no treated row by chance, the first is far too small.

Shapes: n rows, K components, T functions t, q functions f; a block has m rows and k components.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse

from riesz.arrays import Array, Rows, ratio
from riesz.design.derived import with_parameters
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.diagnostics.treatment_functions import TreatmentFunction
from riesz.inference import Clusters, Weights
from riesz.predictions import Predictions

Components = npt.NDArray[np.intp]

_BLOCK = 2**17  # numbers of one side of a block, 1 MB
_MOST_NUMBERS = 2**22  # of all blocks, if they are kept


@dataclass(frozen=True)
class Sample:
    """What is compared.

    Attributes
    ----------
    predictions : Predictions
    design : Design
        The full sample.
    v : Evaluation, shape (n,), or None
        For an rr that is learned for the errors of a logit.
    plain : ndarray, shape (K, n)
        The representer that is linear in the treatment and ignores covariates.
    names : sequence of str, length K
        The parameters.
    errors : ndarray, shape (K,)
        Standard errors of their estimates.
    weights : Weights
    clusters : tuple of ndarray of int
    """

    predictions: Predictions
    design: Design
    v: Evaluation | None
    plain: Array
    names: Sequence[str]
    errors: Array
    weights: Weights
    clusters: Clusters

    def only(self, components: Components) -> Sample:
        """The sample with some of its components."""
        part = self.design.links.part(components)
        return replace(
            self,
            predictions=self.predictions.only(part),
            design=with_parameters(self.design, part),
            v=None if self.v is None else self.v.only(part),
            plain=self.plain[components],
            names=[self.names[component] for component in components],
            errors=self.errors[components],
        )


@dataclass(frozen=True)
class Block:
    r"""The factors of every sum over rows, for one function t and some components.

    Attributes
    ----------
    place : int
        The number of the function t.
    components : ndarray of int, shape (k,)
    rows : index of m rows
        The factors are zero at all others.
    sides : ndarray, shape (3, k, m)
        :math:`\alpha t - m(t)`, :math:`m(t)` and the unadjusted gap.
    expected_square : ndarray, shape (k, m)
        The expected square of the first side for the true representer.
    """

    place: int
    components: Components
    rows: Rows
    sides: Array
    expected_square: Array


Blocks = Callable[[], Iterator[Block]]


def blocks_of(sample: Sample, functions: Sequence[TreatmentFunction]) -> Blocks:
    """All blocks of functions of the treatment; kept in memory if there is room, otherwise computed whenever they are used."""

    def compute() -> Iterator[Block]:
        for place, t in enumerate(functions):
            for components in in_groups(t.readers, len(sample.design)):
                yield _block_where_read(sample.only(components), t, place, components)
            others = np.setdiff1d(np.arange(sample.design.components), t.readers)
            for components in in_groups(others, int(np.count_nonzero(t.observed))):
                yield _block_where_not_read(sample, t, place, components)

    n, components = len(sample.design), sample.design.components
    numbers = sum(len(t.readers) * n + (components - len(t.readers)) * np.count_nonzero(t.observed) for t in functions)
    if 4 * numbers > _MOST_NUMBERS:
        return compute
    kept = list(compute())
    return lambda: iter(kept)


def in_groups(components: Components, rows: int) -> Iterator[Components]:
    """Components in groups whose arrays of that many rows are small; none if there are no rows."""
    size = max(_BLOCK // max(rows, 1), 1)
    for start in range(0, len(components) if rows else 0, size):
        yield components[start : start + size]


def _block_where_read(sample: Sample, t: TreatmentFunction, place: int, components: Components) -> Block:
    design, rr = sample.design, sample.predictions.rr
    g = t.at(design) if sample.v is None else t.at(design).times(sample.v)
    moment = design.apply(g)
    weighted = rr.observed * g.observed
    sides = np.stack([weighted - moment, moment, sample.plain * g.observed - moment])
    expected = design.apply(rr.times(g).times(g)) - 2 * weighted * moment + moment**2
    return Block(place, components, slice(None), sides, expected)


def _block_where_not_read(sample: Sample, t: TreatmentFunction, place: int, components: Components) -> Block:
    """For components whose m(t) is zero."""
    rows = np.flatnonzero(t.observed)
    g = t.observed[rows] if sample.v is None else t.observed[rows] * sample.v.observed[rows]
    at = np.ix_(components, rows)
    weighted = sample.predictions.rr.observed[at] * g
    zero = np.zeros_like(weighted)
    return Block(place, components, rows, np.stack([weighted, zero, sample.plain[at] * g]), zero)


@dataclass(frozen=True)
class Sums:
    """Means, variances and counts for q functions f, each times T functions of the treatment.

    Attributes
    ----------
    sides : ndarray, shape (3, T, K, q)
        Means of :attr:`Block.sides` times f.
    variance : ndarray, shape (T, K, q)
        Variance of the mean of the first side times f.
    expected_variance : ndarray, shape (T, K, q)
        The same for the true representer.
    residual, residual_variance, square, effective : ndarray, shape (T, q)
        The mean of (y - mu) t f, its variance, the mean square of t f (times v for an rr that is learned for the errors of a
        logit), and Kish's effective number of rows.
    """

    sides: Array
    variance: Array
    expected_variance: Array
    residual: Array
    residual_variance: Array
    square: Array
    effective: Array


def sums(f: Array, functions: Sequence[TreatmentFunction], blocks: Blocks, sample: Sample) -> Sums:
    """The sums for functions f of covariates, shape (n, q), and functions of the treatment with their blocks."""
    spread, f_square = Spread(sample.weights, sample.clusters), f**2
    shape = (len(functions), sample.design.components, f.shape[1])
    sides, variance, expected = np.zeros((3, *shape)), np.zeros(shape), np.zeros(shape)
    for block in blocks():
        at, (rows, square) = (block.place, block.components), (f[block.rows], f_square[block.rows])
        for side, means in zip(block.sides, sides, strict=True):
            means[at] = (side * spread.share[block.rows]) @ rows
        variance[at] = spread.of_means(block.sides[0], block.rows, rows, square)
        expected[at] = spread.of_terms(block.expected_square, block.rows, square)
    per_row = [_residual_sums(t, f, f_square, spread, sample) for t in functions]
    return Sums(sides, variance, expected, *(np.concatenate(arrays) for arrays in zip(*per_row, strict=True)))


def _residual_sums(
    t: TreatmentFunction, f: Array, f_square: Array, spread: Spread, sample: Sample
) -> tuple[Array, Array, Array, Array]:
    """What does not differ between components, each of shape (1, q); see :class:`Sums`."""
    rows = t.rows
    at, square = t.observed[rows], f_square[rows]
    residual = sample.design.errors(sample.predictions.mu.observed)[rows] * at
    weighted = spread.share[rows] * (at**2 if sample.v is None else at**2 * sample.v.observed[rows])
    size = weighted @ square
    counted = (weighted**2 / sample.weights.frequency[rows]) @ square**2
    return (
        ((residual * spread.share[rows]) @ f[rows])[None],
        spread.of_means(residual[None], rows, f[rows], square),
        size[None],
        ratio(size**2, counted, otherwise=0.0)[None],
    )


@dataclass(frozen=True)
class Spread:
    """Variances of weighted means over rows, by the first clustering variable if there is one."""

    weights: Weights
    clusters: Clusters

    @cached_property
    def share(self) -> Array:
        """The weight of each row in means, shape (n,)."""
        return np.asarray(self.weights.total / self.weights.total.sum())

    @cached_property
    def _pull(self) -> Array:
        return np.asarray(self.weights.sampling**2 * self.weights.frequency / self.weights.total.sum() ** 2)

    @cached_property
    def _cluster_shares(self) -> Array:
        """The sum of the shares of each cluster's rows."""
        return np.bincount(self.clusters[0], weights=self.share).astype(float)

    def of_terms(self, squares: Array, rows: Rows, f_square: Array) -> Array:
        """The variance of a mean of independent terms with given expected squares, shape (k, q)."""
        return np.asarray((squares * self._pull[rows]) @ f_square)

    def of_means(self, terms: Array, rows: Rows, f: Array, f_square: Array) -> Array:
        """The variance of the means of terms times f, shape (k, q), as in :func:`riesz.inference.covariance`.

        Parameters
        ----------
        terms : ndarray, shape (k, m)
        rows : index of m rows
            At all others the terms are zero.
        f, f_square : ndarray, shape (m, q)
        """
        share, pull = self.share, self._pull
        means = (terms * share[rows]) @ f
        if self.clusters:
            codes = self.clusters[0]
            sizes = self._cluster_shares
            inside = codes[rows]
            total = sparse.csr_array(
                (np.ones(len(inside)), (inside, np.arange(len(inside)))), shape=(len(sizes), len(inside))
            )
            pulls = [
                total @ ((row * share[rows])[:, None] * f) - sizes[:, None] * mean
                for row, mean in zip(terms, means, strict=True)
            ]
            return np.stack([len(sizes) / (len(sizes) - 1) * (sums**2).sum(axis=0) for sums in pulls])
        count = float(self.weights.frequency.sum())
        centred = (terms**2 * pull[rows]) @ f_square - 2 * means * ((terms * pull[rows]) @ f) + means**2 * pull.sum()
        return np.asarray(count / (count - 1) * np.maximum(centred, 0.0))
