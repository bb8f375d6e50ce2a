"""Rows that are copies of one another: what a learner may not have on both sides of a split.

A row with frequency 3 and the same row three times are the same data. But a copy tells what its twin's outcome is: folds that
part them, validation rows whose copies are trained on, and leaving one of them out all promise more than there is. So copies are
kept in one fold and learned from as one row with their weights summed.

Only copies of a continuous outcome count: two people with the same 0/1 outcome and the same few covariates are two people.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.design import Base
from riesz.design.moment import Look, Moment

Labels = npt.NDArray[np.intp]

_FEWEST = 20  # distinct outcomes, at least, of a continuous one
_DISTINCT = 0.5  # and their share in the distinct rows


def find_copies(base: Base) -> Labels | None:
    """Number the distinct rows in the order of their first appearance, shape (n,); None when every row stands alone.

    Rows are copies when outcome, columns, treatment, cluster and what the moment reads are the same, and no other row has that
    outcome.

    Examples
    --------
    >>> import riesz
    >>> from riesz.crossfit.copies import find_copies
    >>> data = riesz.datasets.get("binary").draw(100, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) + x1", data.loc[data.index.repeat(2)], learner="linear")
    >>> find_copies(fit.model.blueprint.design.base)[:6]
    array([0, 0, 1, 1, 2, 2])
    """
    ordered = np.sort(base.y)
    steps = int((ordered[1:] != ordered[:-1]).sum())
    if steps == len(base.y) - 1 or steps + 1 < _FEWEST:  # most data end here
        return None
    values, place, counts = np.unique(base.y, return_inverse=True, return_counts=True)
    order = np.argsort(place, kind="stable")
    start = np.concatenate([[0], np.cumsum(counts)[:-1]])
    first = order[start][place]  # of the rows with one's outcome, the first
    alike = np.logical_and.reduceat(_same(base, first)[order], start)  # whether all rows with an outcome are copies
    distinct = int(alike.sum() + counts[~alike].sum())
    if not (alike & (counts > 1)).any() or len(values) < _DISTINCT * distinct:
        return None
    leader = np.where(alike[place], first, np.arange(len(base.y)))
    return np.asarray(np.unique(leader, return_inverse=True)[1], dtype=np.intp)


def _same(base: Base, other: Labels) -> npt.NDArray[np.bool_]:
    """Whether each row is a copy of another one, given its number, shape (n,)."""
    moment = base.moment
    found = (base.z == base.z[other]).all(axis=1) & (base.treatment == base.treatment[other]).all(axis=1)
    found &= (moment.weights == moment.weights[..., other]).all(axis=(0, 1))
    for point in moment.points:
        found &= (point.values == point.values[other]).all(axis=1)
        found &= (point.treatment == point.treatment[other]).all(axis=1)
    if base.groups is not None:
        found &= base.groups == base.groups[other]
    return np.asarray(found)


def merge(base: Base, copies: Labels) -> Base:
    """The distinct rows alone, each with the weights of its copies summed."""
    _, rows = np.unique(copies, return_index=True)
    groups = None if base.groups is None else base.groups[rows]
    if groups is not None and len(np.unique(groups)) == len(groups):  # no cluster but of copies
        groups = None
    moment = base.moment
    points = tuple(
        replace(
            point,
            values=point.values[rows],
            tangents=None if point.tangents is None else point.tangents[rows],
            treatment=point.treatment[rows],
        )
        for point in moment.points
    )
    return replace(
        base,
        y=base.y[rows],
        z=np.ascontiguousarray(base.z[rows]),
        moment=Moment(points, moment.weights[..., rows], moment.normalizer[:, rows]),
        anchor=base.anchor.map(lambda values: values[..., rows]),
        treatment=base.treatment[rows],
        weights=summed(base.weights, copies, len(rows)),
        frequency=summed(base.frequency, copies, len(rows)),
        groups=groups,
        strata=None if base.strata is None else base.strata[rows],
        looks=None if base.looks is None else _looks_of(base, copies, rows),
    )


def summed(weights: Array, copies: Labels, count: int) -> Array:
    """The weights of each distinct row's copies, shape (count,)."""
    return np.bincount(copies, weights, minlength=count).astype(np.float64)


def _looks_of(base: Base, copies: Labels, rows: Labels) -> Callable[[Array], tuple[tuple[Look, ...], ...]]:
    """What the moment would read at the distinct rows: asked for all rows, since it is a function of the sample."""
    whole = base.looks
    assert whole is not None

    def looks(treatment: Array) -> tuple[tuple[Look, ...], ...]:
        return tuple(
            tuple(replace(look, weight=look.weight[rows], treatment=look.treatment[rows]) for look in component)
            for component in whole(treatment[copies])
        )

    return looks
