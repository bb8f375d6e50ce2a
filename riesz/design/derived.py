"""Designs made from designs: with other columns, fewer parameters, another moment, other weights, or copies of rows merged.

In: a design. Out: another design; the first one is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.constant_columns import as_it_is
from riesz.design.design import Base, Design
from riesz.design.moment import Evaluation, Linked, Links, Look, Moment, Part, Points

Labels = npt.NDArray[np.intp]


def without(design: Design, variables: Set[str]) -> Design:
    """The same rows and moment, without the columns of z that are made from some variables."""
    base = design._base
    kept = np.array([j for j, reads in enumerate(base.reads) if not reads & variables], dtype=np.intp)
    place = np.full(len(base.reads), -1)
    place[kept] = np.arange(len(kept))
    points = []
    for point in base.moment.points:
        stays = place[point.columns] >= 0
        points.append(
            replace(
                point,
                columns=place[point.columns[stays]],
                kept_values=point.kept_values.columns(stays),
                tangents=None if point.tangents is None else point.tangents[:, stays],
            )
        )
    covariates = place[base.covariates]
    covariates = covariates[covariates >= 0]
    reads = tuple(base.reads[j] for j in kept)
    in_covariates = frozenset().union(*(reads[j] for j in covariates))
    before = frozenset(base.hidden).union(*(base.reads[j] for j in base.covariates))
    smaller = replace(
        base,
        z=np.ascontiguousarray(base.z[:, kept]),
        names=tuple(base.names[j] for j in kept),
        moment=replace(base.moment, points=tuple(points)),
        covariates=covariates,
        reads=reads,
        hidden=tuple(sorted((before & frozenset().union(*reads)) - in_covariates)),
    )
    return replace(design, _base=smaller)


def with_columns(design: Design, phi: Evaluation) -> Design:
    """The same rows and moment, with the intercept and given functions, shape (F, n), as columns of z.

    Closed forms can then use functions that were learned or constructed.
    """
    width, n = phi.observed.shape
    columns = np.arange(1, width + 1)
    points = tuple(
        Points(
            columns,
            as_it_is(phi.values[:, k].T),
            phi.slopes[:, k].T if point.tangents is not None else None,
            point.kept_treatment,
            point.treatment_slope,
        )
        for k, point in enumerate(design.readings())
    )
    groups = design.groups
    base = replace(
        _rows_of(design, np.column_stack([np.ones(n), phi.observed.T])),
        names=("Intercept", *(f"phi{j}" for j in range(width))),
        moment=Moment(points, design.links, design.link_weights, design.normalizer),
        covariates=columns,
        groups=None if groups is None else np.unique(groups, return_inverse=True)[1],
    )
    return Design(base, slice(None))


def with_parameters(design: Design, part: Part) -> Design:
    """The same rows with some of the parameters, to apply their moments; it copies the moment's weights of these alone.

    It has no ``looks``. The design itself if these are all of its parameters.
    """
    base = design._base
    if len(part.components) == design.components:
        return design
    return replace(
        design, _base=replace(base, moment=base.moment.only(part), anchor=base.anchor.only(part), looks=None)
    )


def as_outcome(design: Design, outcome: Array) -> Design:
    """The same rows with a binary outcome, shape (n,), in place of theirs, and with a treatment that does not vary."""
    base = _rows_of(design, design.z)
    treatment = np.zeros_like(base.treatment)
    return Design(replace(base, y=outcome, family="binomial", treatment=treatment), slice(None))


def observed_only(design: Design, functions: Array) -> Design:
    """The same rows with a moment that reads mu at the observed rows, and given functions, shape (G, n), as anchors.

    ``design`` must be a whole sample.
    """
    base, n = design._base, len(design)
    point = Points(np.empty(0, dtype=np.intp), as_it_is(np.empty((n, 0))), None, as_it_is(base.treatment), 0.0)
    moment = Moment((point,), _to_one_reading(1), np.ones((1, n)), np.ones((1, n)))
    anchor = Linked(functions, functions, np.zeros_like(functions), _to_one_reading(len(functions)))
    return Design(replace(base, moment=moment, anchor=anchor), slice(None))


def _to_one_reading(components: int) -> Links:
    return Links(np.arange(components), np.zeros(components, dtype=np.intp))


def merged(design: Design, copies: Labels) -> Design:
    """The distinct rows of a sample, each with the weights of its copies summed.

    Parameters
    ----------
    design : Design
        A whole sample.
    copies : ndarray of int, shape (n,)
        The number of each row's distinct row, in the order of first appearance.
    """
    _, rows = np.unique(copies, return_index=True)
    groups = None if design.groups is None else design.groups[rows]
    if groups is not None and len(np.unique(groups)) == len(groups):  # every cluster is a row and its copies
        groups = None
    distinct = design.take(rows)
    base = replace(
        _rows_of(distinct, np.ascontiguousarray(distinct.z)),
        weights=summed(design.weights, copies, len(rows)),
        frequency=summed(design.frequency, copies, len(rows)),
        groups=groups,
        looks=None if design._base.looks is None else _looks_of(design._base.looks, copies, rows),
    )
    return Design(base, slice(None))


def reweighted(design: Design, weights: Array) -> Design:
    """The same rows of a whole sample with other weights, shape (n,)."""
    return Design(replace(design._base, weights=weights), slice(None))


def with_family(design: Design, family: str) -> Design:
    """The same rows with another family of the outcome."""
    return replace(design, _base=replace(design._base, family=family))


def summed(weights: Array, copies: Labels, count: int) -> Array:
    """The weights of each distinct row's copies, shape (count,)."""
    return np.bincount(copies, weights, minlength=count).astype(np.float64)


def _rows_of(design: Design, z: Array) -> Base:
    """A base of a design's rows alone, with columns z; ``looks`` stays that of all rows."""
    moment = Moment(design.readings(), design.links, design.link_weights, design.normalizer)
    return replace(
        design._base,
        y=design.y,
        z=z,
        moment=moment,
        anchor=design.anchor,
        treatment=design.treatment,
        weights=design.weights,
        frequency=design.frequency,
        groups=design.groups,
        strata=design.strata,
    )


def _looks_of(
    looks_of_all: Callable[[Array], tuple[tuple[Look, ...], ...]], copies: Labels, rows: Labels
) -> Callable[[Array], tuple[tuple[Look, ...], ...]]:
    """The moment's readings at the distinct rows: computed for all rows, since the moment is a function of the sample."""

    def looks(treatment: Array) -> tuple[tuple[Look, ...], ...]:
        return tuple(
            tuple(
                replace(look, weight=look.weight[rows], kept_treatment=look.kept_treatment.take(rows))
                for look in component
            )
            for component in looks_of_all(treatment[copies])
        )

    return looks
