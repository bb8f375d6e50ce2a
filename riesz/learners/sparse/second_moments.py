r"""Second moments of the standardised columns of a design: all that the lasso needs.

With standardised columns b (the intercept as it is) and shares :math:`\omega_i` of the weights,

.. math:: G = \sum_i \omega_i b_i b_i', \qquad L = \sum_i \omega_i b_i (y_i - \bar y), \quad M_c = \sum_i \omega_i m_c(b)_i, \quad
    B_c = \sum_i \omega_i b_i \beta_{ci},

the latter with the anchor :math:`\beta_c`. They are kept for parts of the rows, so that each part can be held out: the sums of the
others are the totals minus its own.

Shapes: n rows, p columns, K components, J parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from riesz.arrays import Array
from riesz.crossfit.folds import draw_labels
from riesz.design.design import Design
from riesz.learners.linear.standardise import Standard, standardise

PARTS = 5  # the parts of a training set that are held out in turn


@dataclass(frozen=True)
class Columns:
    """The standardised columns of some rows.

    Attributes
    ----------
    design : Design
    standard : Standard
    shares : ndarray, shape (n,)
    level : float
        What is subtracted from the outcome: its mean, or 0 without an intercept.
    """

    design: Design
    standard: Standard
    shares: Array
    level: float

    @property
    def penalised(self) -> Array:
        """1, and 0 for the intercept, shape (p,)."""
        return self.standard.penalised

    def blocks(self) -> Iterator[tuple[slice, Design, Array, Array]]:
        """Positions, rows, columns z and standardised columns b, block by block."""
        for place, block in self.design.blocks():
            z = block.z
            yield place, block, z, self.standard.apply(z)

    def moment_rows(self, block: Design, z: Array, component: int) -> Array:
        """The moment of the standardised columns, row by row, shape (n, p)."""
        standard = self.standard
        rows = block.moment_rows(component, z)
        scaled = rows / standard.spread
        if standard.intercept is not None:
            scaled -= np.outer(rows[:, standard.intercept], standard.centre / standard.spread)
        return scaled if standard.turn is None else np.asarray(scaled @ standard.turn)

    def coefficients(self, theta: Array, level: float = 0.0) -> Array:
        """Coefficients of the columns z from those of b, shape (p,); the level is added to the intercept."""
        of_z = self.standard.coefficients(theta[:, None])[:, 0]
        if self.standard.intercept is not None:
            of_z[self.standard.intercept] += level
        return of_z

    def index(self, theta: Array) -> Array:
        """The functions b'theta at the rows, shape (n,)."""
        return np.concatenate([b @ theta for _, _, _, b in self.blocks()])


def make_columns(design: Design) -> Columns:
    """Standardise the columns of a design."""
    shares = design.weights / design.weights.sum()
    standard = standardise(design, shares)
    level = 0.0 if standard.intercept is None else float(shares @ design.y)
    return Columns(design, standard, shares, level)


@dataclass(frozen=True)
class Sums:
    """The sums of the module's docstring over some rows, whose shares sum to one.

    Attributes
    ----------
    gram : ndarray, shape (p, p)
    outcome : ndarray, shape (p,)
        L.
    moments : ndarray, shape (K, p)
        M.
    anchors : ndarray, shape (K, p)
        B.
    anchor_squares, anchor_moments : ndarray, shape (K,)
        Means of the squared anchor, and of its moment.
    """

    gram: Array
    outcome: Array
    moments: Array
    anchors: Array
    anchor_squares: Array
    anchor_moments: Array


@dataclass(frozen=True)
class HeldOut:
    """Sums over a part of the rows, and over all others.

    Attributes
    ----------
    weight : float
        The part's share of the weights.
    part, others : Sums
    """

    weight: float
    part: Sums
    others: Sums


def sums_of(columns: Columns) -> Sums:
    """The sums over all rows."""
    return _scaled(_parts(columns, np.zeros(len(columns.design), dtype=np.intp), 1), np.ones(1))[0]


def held_out(columns: Columns, seed: int) -> list[HeldOut]:
    """The sums for each part of the rows that is held out; clusters are kept whole, and arms are spread evenly."""
    design = columns.design
    groups = None if design.groups is None else np.unique(design.groups, return_inverse=True)[1]
    units = len(design) if groups is None else int(groups.max()) + 1
    parts = min(PARTS, units)
    labels = draw_labels(len(design), parts, design.strata, groups, np.random.default_rng(seed))
    weight = np.bincount(labels, columns.shares, minlength=parts).astype(np.float64)
    sums = _parts(columns, labels, parts)
    inside, outside = _scaled(sums, weight), _scaled([part.sum(axis=0) - part for part in sums], 1.0 - weight)
    return [HeldOut(float(w), part, rest) for w, part, rest in zip(weight, inside, outside, strict=True)]


def _parts(columns: Columns, labels: npt.NDArray[np.intp], parts: int) -> list[Array]:
    """The sums of :class:`Sums`, in its order, each with one more axis for the parts in front."""
    design, p, k = columns.design, len(columns.penalised), columns.design.components
    gram, outcome, moments, anchors = (np.zeros((parts, *shape)) for shape in ((p, p), (p,), (k, p), (k, p)))
    of_anchor = design.anchor
    squares, anchor_moments = (
        np.stack([np.bincount(labels, columns.shares * row, minlength=parts) for row in rows], axis=1)
        for rows in (of_anchor.observed**2, design.apply(of_anchor))
    )
    for place, block, z, b in columns.blocks():
        here, shares, y = labels[place], columns.shares[place], design.y[place] - columns.level
        weighted = b * shares[:, None]
        chosen = [here == part for part in range(parts)]
        for part, rows in enumerate(chosen):
            root = b[rows] * np.sqrt(shares[rows, None])
            gram[part] += root.T @ root  # takes half the time of a product of two different matrices
            outcome[part] += y[rows] @ weighted[rows]
            anchors[part] += of_anchor.observed[:, place][:, rows] @ weighted[rows]
        for c in range(k):
            m = columns.moment_rows(block, z, c)
            for part, rows in enumerate(chosen):
                moments[part, c] += shares[rows] @ m[rows]
    return [gram, outcome, moments, anchors, squares, anchor_moments]


def _scaled(sums: list[Array], weight: Array) -> list[Sums]:
    return [Sums(*(array[part] / w for array in sums)) for part, w in enumerate(weight)]


def noise(columns: Columns, rows: Iterator[tuple[slice, Array]]) -> Array:
    r"""The standard deviation of each column of :math:`\sum_i \omega_i u_i`, shape (p,): of sums over clusters, if there are any.

    Parameters
    ----------
    columns : Columns
    rows : iterator of (slice, ndarray)
        Positions of a block of rows, and u there, shape (n, p).
    """
    groups = columns.design.groups
    p = len(columns.penalised)
    if groups is None:
        return np.sqrt(sum((columns.shares[place] ** 2 @ u**2 for place, u in rows), np.zeros(p)))
    codes = np.unique(groups, return_inverse=True)[1]
    total = np.zeros((int(codes.max()) + 1, p))
    for place, u in rows:
        count = len(u)
        total += (
            sparse.csr_array((columns.shares[place], (codes[place], np.arange(count))), shape=(len(total), count)) @ u
        )
    return np.asarray(np.sqrt((total**2).sum(axis=0)))
