"""The data as learners and estimators use them: a design.

A :class:`Design` is a set of rows with everything that is needed to learn from them: ``y`` outcome, ``z`` the formula's columns,
``weights``, the moment m with its ``readings()``, and the ``anchor``, the paper's beta. Every array of a design holds the design's
rows and no others, in the order of its ``index``. A fold is a set of row numbers into arrays that all folds share;
``take`` copies nothing. Rows are those without missing values, in the user's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array, Rows
from riesz.crossfit.threads import go_on
from riesz.design.moment import Evaluation, Linked, Links, Look, Moment, Points
from riesz.estimands import Component
from riesz.estimands.treatment import Treatment
from riesz.families import find_family
from riesz.storage.coding import stored

BLOCK = 2**20  # numbers in a block: 8 MB


@stored
@dataclass(frozen=True)
class Base:
    """The arrays of the full sample, shared by every fold; for the modules of ``riesz.design`` and for files.

    Attributes
    ----------
    y : ndarray, shape (n,)
    z : ndarray, shape (n, p)
    names : tuple of str, length p
    moment : Moment
    anchor : Linked
        beta of each component, at the observed rows and at the component's readings.
    treatment : ndarray, shape (n, t)
        The raw treatment: a number, or indicators of the arms other than the reference.
    covariates : ndarray of int
        The columns of z that the treatment does not enter, without the intercept.
    weights : ndarray, shape (n,)
        Sampling weight times frequency weight.
    frequency : ndarray, shape (n,)
        How many identical rows a row stands for.
    groups : ndarray of int, shape (n,), or None
        Rows that a leave-one-out must leave out together.
    strata : ndarray of int, shape (n,), or None
        Arms, to be spread evenly when rows are split.
    family : str
        The name of one in :mod:`riesz.families`.
    bounds : tuple of float or None
        Known limits of the outcome.
    interacted : bool
        Whether the formula lets the treatment's effect vary with a covariate.
    reads : tuple of frozenset of str, length p
        The variables that each column of z is made from.
    hidden : tuple of str
        Covariates that enter the formula only in interactions with the treatment, so that ``covariates`` lacks them.
    looks : callable or None
        ``treatment (n,) -> K tuples of Look``: what each component would read if the rows had this treatment (arms by their
        number, as in ``strata``). None for a fit from a file, which cannot hold functions.
    """

    y: Array
    z: Array
    names: tuple[str, ...]
    moment: Moment
    anchor: Linked
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
    """Rows that a learner is fitted on, or predicts for.

    Its arrays hold these rows alone: a learner has no access to those of another fold. ``z`` and the readings of a fold are
    copies, so use :meth:`blocks` where memory matters.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> design = riesz.ate("y ~ treat(a) + x1", data, learner="linear").model.blueprint.design
    >>> fold = design.take(range(0, 500, 2))
    >>> fold.z.shape, fold.names
    ((250, 3), ('Intercept', 'a', 'x1'))
    """

    _base: Base
    _rows: Rows

    def __len__(self) -> int:
        return len(range(len(self._base.y))[self._rows]) if isinstance(self._rows, slice) else len(self._rows)

    # which rows

    @property
    def index(self) -> npt.NDArray[np.intp]:
        """Row numbers in the sample that the folds share, shape (n,)."""
        return np.arange(len(self._base.y))[self._rows] if isinstance(self._rows, slice) else self._rows

    @property
    def key(self) -> int:
        """Identity of the shared sample: equal for two designs when they are rows of the same arrays."""
        return id(self._base)

    @property
    def sample(self) -> Design:
        """All rows of the shared sample, for what must be the same in every fold: knots and units. Do not fit on it."""
        return Design(self._base, slice(None))

    def take(self, rows: npt.ArrayLike) -> Design:
        """Some of this design's rows, by their positions in it."""
        rows = np.asarray(rows, dtype=np.intp)
        return replace(self, _rows=self.index[rows])

    def blocks(self, size: int | None = None) -> Iterator[tuple[slice, Design]]:
        """Iterate over the rows in blocks.

        Parameters
        ----------
        size : int, optional
            Rows per block; by default as many as make 8 MB of z.

        Yields
        ------
        slice
            Positions of the block in this design's arrays.
        Design
            The block.
        """
        size = size or max(BLOCK // self._base.z.shape[1], 256)
        for start in range(0, len(self), size):
            go_on()
            part = slice(start, min(start + size, len(self)))
            all_rows = isinstance(self._rows, slice) and self._rows == slice(None)
            yield part, replace(self, _rows=part if all_rows else self.index[part])

    def errors(self, mu: Array) -> Array:
        """What scores multiply rr by, shape (n,): y - mu, or tau - 1{y <= q} if mu is a quantile q."""
        return find_family(self.family).errors(self.y, mu)

    # the arrays of these rows

    @property
    def y(self) -> Array:
        """Outcome, shape (n,)."""
        return self._base.y[self._rows]

    @property
    def z(self) -> Array:
        """The formula's columns, shape (n, p)."""
        return self._base.z[self._rows]

    @property
    def x(self) -> Array:
        """The columns of z that the treatment does not enter, without the intercept, shape (n, c)."""
        return self._base.z[np.ix_(self.index, self.covariates)]

    @property
    def treatment(self) -> Array:
        """The raw treatment, shape (n, t): a number, or indicators of the arms other than the reference."""
        return self._base.treatment[self._rows]

    @property
    def strata(self) -> npt.NDArray[np.intp] | None:
        """The arm of each row, shape (n,), the reference 0; None for a continuous treatment."""
        return None if self._base.strata is None else self._base.strata[self._rows]

    @property
    def weights(self) -> Array:
        """Sampling weight times frequency weight, shape (n,)."""
        return self._base.weights[self._rows]

    @property
    def frequency(self) -> Array:
        """How many identical rows each row stands for, shape (n,)."""
        return self._base.frequency[self._rows]

    @property
    def groups(self) -> npt.NDArray[np.intp] | None:
        """Cluster of each row, shape (n,), or None; rows of a cluster are left out together."""
        return None if self._base.groups is None else self._base.groups[self._rows]

    # what holds for every row

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of z, length p."""
        return self._base.names

    @property
    def covariates(self) -> npt.NDArray[np.intp]:
        """The columns of z that the treatment does not enter, without the intercept, by number."""
        return self._base.covariates

    @property
    def reads(self) -> tuple[frozenset[str], ...]:
        """The variables that each column of z is made from, length p."""
        return self._base.reads

    @property
    def hidden(self) -> tuple[str, ...]:
        """Covariates that enter the formula only in interactions with the treatment, so that ``covariates`` lacks them."""
        return self._base.hidden

    @property
    def interacted(self) -> bool:
        """Whether the formula lets the treatment's effect vary with a covariate."""
        return self._base.interacted

    @property
    def family(self) -> str:
        """The name of the outcome's family, such as ``"binomial"``; :func:`riesz.families.find_family` gives the family."""
        return self._base.family

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Known limits of the outcome, if any."""
        return self._base.bounds

    # the moment

    @property
    def components(self) -> int:
        """Number of parameters, K."""
        return len(self._base.moment.normalizer)

    @property
    def normalizer(self) -> Array:
        """What each parameter is divided by, shape (K, n): psi = E[m] / E[normalizer]."""
        return self._base.moment.normalizer[:, self._rows]

    @property
    def anchor(self) -> Linked:
        """The paper's beta of each component at these rows and at its component's readings."""
        anchor, rows = self._base.anchor, self._rows
        return Linked(anchor.observed[:, rows], anchor.values[:, rows], anchor.slopes[:, rows], anchor.links)

    @property
    def is_derivative(self) -> npt.NDArray[np.bool_]:
        """Which readings are derivatives, shape (R,)."""
        return self._base.moment.is_derivative

    @property
    def links(self) -> Links:
        """Which component reads which reading: L pairs."""
        return self._base.moment.links

    @property
    def link_weights(self) -> Array:
        """What the component of each link multiplies its reading by, shape (L, n)."""
        return self._base.moment.weights[:, self._rows]

    def readers(self, column: int) -> npt.NDArray[np.intp]:
        """The components that read mu where a column of the raw treatment is not zero; see :meth:`Moment.readers`."""
        return self._base.moment.readers(column)

    def readings(self) -> tuple[Points, ...]:
        """Where the moment reads mu, for these rows: the R distinct readings of all components."""
        return tuple(point.take(self._rows) for point in self._base.moment.points)

    def apply(self, f: Evaluation | Linked) -> Array:
        """The moment of functions at these rows, m_c(f), shape (K, n); for ``f`` see :meth:`Moment.apply`."""
        return self._base.moment.apply(f, self._rows)

    def moment_rows(self, component: int, z: Array | None = None, tilt: Evaluation | None = None) -> Array:
        """The moment of every column of z, shape (n, p), so that m(z'theta) = ``moment_rows @ theta``.

        Parameters
        ----------
        component : int
        z : ndarray, shape (n, p), optional
            The design's own z, if the caller has it already.
        tilt : Evaluation, shape (n,), optional
            A function v; the result is then the moment of v z.
        """
        return self._base.moment.rows(self.z if z is None else z, self._rows, component, tilt)

    def linear(self, theta: Array) -> Evaluation:
        """The linear function z'theta at these rows and at all readings, of shape (n,); theta has shape (p,)."""
        return self.linear_and_linked(theta, np.empty((len(theta), 0)))[0]

    def linear_and_linked(self, shared: Array, each: Array) -> tuple[Evaluation, Linked]:
        """The same, and one linear function for each component where it is read; ``each`` has shape (p, K)."""
        n, moment = len(self), self._base.moment
        at, links = (len(moment.points), n), (len(moment.links.reading) if each.shape[1] else 0, n)
        evaluation = Evaluation(np.empty(n), np.empty(at), np.empty(at))
        linked = Linked(np.empty((each.shape[1], n)), np.empty(links), np.empty(links), moment.links)
        for place, block in self.blocks():
            shared_part, each_part = moment.linear(block.z, block._rows, shared, each)
            evaluation.observed[place], linked.observed[:, place] = shared_part.observed, each_part.observed
            evaluation.values[:, place], linked.values[:, place] = shared_part.values, each_part.values
            evaluation.slopes[:, place], linked.slopes[:, place] = shared_part.slopes, each_part.slopes
        return evaluation, linked

    def looks(self, treatment: Array) -> tuple[tuple[Look, ...], ...] | None:
        """What each component would read if the rows of the sample had this treatment; None for a fit from a file."""
        return None if self._base.looks is None else self._base.looks(treatment)

    def mean(self, values: Array) -> Array:
        """Weighted mean over the last axis."""
        weights = self.weights
        return np.asarray(values @ weights / weights.sum())


@dataclass(frozen=True)
class Blueprint:
    """A design with the components, the treatment and the data that it was made from.

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
