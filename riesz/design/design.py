r"""The arrays that learners and estimators see.

Symbols: ``y`` outcome, ``z`` the formula's columns, ``moment`` m, ``anchor`` the paper's beta with its moment m(beta),
``weights`` sampling times frequency weights. Rows are those without missing values, in the user's order. A fold is a set of
row numbers into one shared base; ``take`` copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array, Rows
from riesz.crossfit.threads import go_on
from riesz.design.moment import Evaluation, Look, Moment
from riesz.estimands import Component
from riesz.estimands.treatment import Treatment
from riesz.storage.coding import stored

BLOCK = 2**20  # numbers at a time: 8 MB of the design


@stored
@dataclass(frozen=True)
class Base:
    """The arrays of the full sample, shared by every fold.

    Attributes
    ----------
    y : ndarray, shape (n,)
    z : ndarray, shape (n, p)
    names : tuple of str, length p
    moment : Moment
    anchor : Evaluation, shape (K, n)
        beta at the observed rows and at each reading.
    treatment : ndarray, shape (n, t)
        The raw treatment: a number, or indicators of the arms other than the reference.
    covariates : ndarray of int
        The columns of z that the treatment does not reach, the intercept left out.
    weights : ndarray, shape (n,)
        Sampling weight times frequency weight.
    frequency : ndarray, shape (n,)
        How many identical rows a row stands for.
    groups : ndarray of int, shape (n,), or None
        Rows that a leave-one-out must leave out together.
    strata : ndarray of int, shape (n,), or None
        Arms, to be spread evenly when rows are split.
    family : {"gaussian", "binomial"}
    bounds : tuple of float or None
        Known limits of the outcome.
    interacted : bool
        Whether the formula lets the treatment's effect vary with a covariate.
    reads : tuple of frozenset of str, length p
        The variables that each column of z is made from.
    hidden : tuple of str
        Covariates that enter the formula only in interactions with the treatment, so that ``covariates`` lacks them.
    looks : callable or None
        ``treatment (n,) -> K tuples of Look``: what each component would read, had the rows been treated like that (arms by
        their number, as in ``strata``). An rr that is derived from the treatment's distribution is made from this.
        None for a fit from a file, which cannot hold functions.
    """

    y: Array
    z: Array
    names: tuple[str, ...]
    moment: Moment
    anchor: Evaluation
    treatment: Array
    covariates: npt.NDArray[np.intp]
    weights: Array
    frequency: Array
    groups: npt.NDArray[np.intp] | None
    strata: npt.NDArray[np.intp] | None
    family: str
    bounds: tuple[float, float] | None
    interacted: bool
    reads: tuple[frozenset[str], ...]
    hidden: tuple[str, ...]
    looks: Callable[[Array], tuple[tuple[Look, ...], ...]] | None


@dataclass(frozen=True)
class Design:
    """Some rows of a base: what a learner is fitted on, or predicts for."""

    base: Base
    rows: Rows

    def __len__(self) -> int:
        return len(self.base.y) if isinstance(self.rows, slice) else len(self.rows)

    def take(self, rows: npt.NDArray[np.intp]) -> Design:
        """The design of some of the full sample's rows."""
        return replace(self, rows=rows)

    def without(self, variables: Set[str]) -> Design:
        """The same rows and moment, without the columns of z that are made from some variables."""
        base = self.base
        kept = np.array([j for j, reads in enumerate(base.reads) if not reads & variables], dtype=np.intp)
        place = np.full(len(base.reads), -1)
        place[kept] = np.arange(len(kept))
        points = []
        for point in base.moment.points:
            own = place[point.columns] >= 0
            points.append(
                replace(
                    point,
                    columns=place[point.columns[own]],
                    values=point.values[:, own],
                    tangents=None if point.tangents is None else point.tangents[:, own],
                )
            )
        covariates = place[base.covariates]
        covariates = covariates[covariates >= 0]
        reads = tuple(base.reads[j] for j in kept)
        shown = frozenset().union(*(reads[j] for j in covariates))
        before = frozenset(base.hidden).union(*(base.reads[j] for j in base.covariates))
        smaller = replace(
            base,
            z=np.ascontiguousarray(base.z[:, kept]),
            names=tuple(base.names[j] for j in kept),
            moment=replace(base.moment, points=tuple(points)),
            covariates=covariates,
            reads=reads,
            hidden=tuple(sorted((before & frozenset().union(*reads)) - shown)),
        )
        return replace(self, base=smaller)

    @property
    def y(self) -> Array:
        """Outcome, shape (n,)."""
        return self.base.y[self.rows]

    @property
    def weights(self) -> Array:
        """Weights, shape (n,)."""
        return self.base.weights[self.rows]

    @property
    def groups(self) -> npt.NDArray[np.intp] | None:
        """Cluster of each row, shape (n,), or None."""
        return None if self.base.groups is None else self.base.groups[self.rows]

    @property
    def components(self) -> int:
        """How many numbers are asked for, K."""
        return len(self.base.moment.weights)

    def blocks(self) -> Iterator[tuple[slice, Rows]]:
        """Walk over the rows a block at a time.

        Yields
        ------
        slice
            Where the block stands in this design's own arrays.
        slice or ndarray of int
            Where it stands in the base.
        """
        size = max(BLOCK // self.base.z.shape[1], 256)
        for start in range(0, len(self), size):
            go_on()
            own = slice(start, min(start + size, len(self)))
            yield own, own if isinstance(self.rows, slice) else self.rows[own]

    def mean(self, values: Array) -> Array:
        """Weighted mean over the last axis."""
        weights = self.weights
        return np.asarray(values @ weights / weights.sum())


@dataclass(frozen=True)
class Blueprint:
    """A design with what is needed to talk about it.

    Attributes
    ----------
    design : Design
        The full sample.
    components : tuple of Component
    treatment : Treatment
    data : pandas.DataFrame
        The rows in use.
    """

    design: Design
    components: tuple[Component, ...]
    treatment: Treatment
    data: pd.DataFrame
