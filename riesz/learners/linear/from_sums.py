r"""The linear learner from sums over rows: Gram matrices and moments of each fold, whose rows are never all in memory.

With columns :math:`u = (z - c) / s` that are centred and scaled by constants, and coordinates :math:`v = u W`, the sums of a fold
are :math:`\sum w\, v v'`, :math:`\sum w\, v t'` for the targets t (outcome and anchors) and :math:`\sum w\, m(z)`. Those of a
training set are the totals minus the fold's own. W is the identity at first; if the columns are nearly collinear, it makes them
orthonormal on all rows and the sums are taken again, which removes the rounding errors of the first sums.

In: the sums, and the rows that are left out in turn to choose penalties. Out: the same coefficients as from
:mod:`riesz.learners.linear.ridge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.errors import LearnerError, listing
from riesz.learners.linear.learner import Linear, LinearFit, ridge_coefficients, riesz_coefficients
from riesz.learners.linear.ridge import Basis, Span
from riesz.learners.linear.standardise import Standard, standard_from_moments

_PRECISE = 1e4  # largest ratio of eigenvalues from which the first sums are precise enough
_SINGULAR = 1e-12  # eigenvalues below this share of the largest count as zero


@dataclass(frozen=True)
class Coordinates:
    """How columns become coordinates: v = (z - centre) / spread @ turn.

    Attributes
    ----------
    names : tuple of str, length p
    intercept : int or None
    centre, spread : ndarray, shape (p,)
    turn : ndarray, shape (p, p), or None
        W; None for the identity.
    """

    names: tuple[str, ...]
    intercept: int | None
    centre: Array
    spread: Array
    turn: Array | None = None

    @classmethod
    def around(cls, design: Design) -> Coordinates:
        """Coordinates around the means of some rows."""
        names, z = design.names, design.z
        intercept = names.index("Intercept") if "Intercept" in names else None
        centre = np.zeros(len(names)) if intercept is None else z.mean(axis=0)
        spread = np.sqrt(((z - centre) ** 2).mean(axis=0))
        if intercept is not None:
            centre[intercept], spread[intercept] = 0.0, 1.0
        return cls(names, intercept, centre, np.where(spread > 1e-9 * np.abs(centre), spread, 1.0))

    def apply(self, z: Array) -> Array:
        """The coordinates of some rows."""
        u = (z - self.centre) / self.spread
        return u if self.turn is None else u @ self.turn


@dataclass
class FoldSums:
    """Sums over the rows of one fold, or of several.

    Attributes
    ----------
    rows : int
    weight : float
    gram : ndarray, shape (p, p)
    targets : ndarray, shape (p, 1 + K)
        Of the outcome and of the anchors.
    moments : ndarray, shape (K, p)
        Of the columns z themselves.
    """

    rows: int
    weight: float
    gram: Array
    targets: Array
    moments: Array

    @classmethod
    def zero(cls, columns: int, components: int) -> FoldSums:
        """The sums of no rows."""
        return cls(
            0,
            0.0,
            np.zeros((columns, columns)),
            np.zeros((columns, 1 + components)),
            np.zeros((components, columns)),
        )

    def add(self, v: Array, targets: Array, moments: Array, weights: Array) -> None:
        """Add rows, with coordinates (n, p), targets (1 + K, n), the sums of their moments (K, p) and weights (n,)."""
        self.rows += len(v)
        self.weight += float(weights.sum())
        scaled = v * np.sqrt(weights)[:, None]
        self.gram += scaled.T @ scaled
        self.targets += v.T @ (targets * weights).T
        self.moments += moments

    def without(self, fold: FoldSums) -> FoldSums:
        """The sums over the rows that are not in a fold."""
        return FoldSums(
            self.rows - fold.rows,
            self.weight - fold.weight,
            self.gram - fold.gram,
            self.targets - fold.targets,
            self.moments - fold.moments,
        )


def total(sums: Sequence[FoldSums]) -> FoldSums:
    """The sums over all folds."""
    everything = FoldSums.zero(len(sums[0].gram), len(sums[0].moments))
    for fold in sums:
        everything = FoldSums(
            everything.rows + fold.rows,
            everything.weight + fold.weight,
            everything.gram + fold.gram,
            everything.targets + fold.targets,
            everything.moments + fold.moments,
        )
    return everything


def refined(coordinates: Coordinates, sums: FoldSums) -> Coordinates | None:
    """Coordinates that are orthonormal on all rows; None if the first ones are precise enough."""
    values, axes = np.linalg.eigh(sums.gram / sums.weight)
    if values[0] > values[-1] / _PRECISE:
        return None
    if values[0] <= _SINGULAR * values[-1]:
        raise _collinear(coordinates.names, axes[:, 0], "all rows")
    return replace(coordinates, turn=axes / np.sqrt(values))


@dataclass(frozen=True)
class TrainingSums:
    """What a fit needs to know about its training rows.

    Attributes
    ----------
    first : FoldSums
        In the first coordinates.
    last : FoldSums
        In the coordinates that are used: the same object if the first ones are.
    coordinates : Coordinates
        Those that are used.
    parts : tuple of tuple of int
        For each column the columns that are part of it; see :mod:`riesz.learners.linear.nesting`.
    words : str
        Which rows these are, for messages.
    """

    first: FoldSums
    last: FoldSums
    coordinates: Coordinates
    parts: tuple[tuple[int, ...], ...]
    words: str


def make_basis_from_sums(training: TrainingSums, shares: Array, seed: int) -> Basis:
    """The basis of :func:`~riesz.learners.linear.ridge.make_basis`, with the shares of the rows that are left out in turn."""
    coordinates, sums = training.coordinates, training.last
    gram = training.first.gram / training.first.weight
    standard = standard_from_moments(
        gram, coordinates.centre, coordinates.spread, coordinates.intercept, training.parts
    )
    to_standard = _to_standard(coordinates, standard)
    if standard.repeated is not None and standard.repeated.any():
        raise _collinear(coordinates.names, standard.repeated.astype(float), training.words)
    standardised: Array
    back: Array
    if coordinates.turn is None:
        standardised = to_standard.T @ gram @ to_standard
        back = np.eye(len(gram))
    else:
        standardised = sums.gram / sums.weight
        back = np.asarray(np.linalg.solve(to_standard, coordinates.turn))
    values, axes = np.linalg.eigh(standardised)
    if values[0] <= _SINGULAR * values[-1]:
        raise _collinear(coordinates.names, back @ axes[:, 0], training.words)
    whitened = axes / np.sqrt(values)
    to_basis = to_standard @ whitened if coordinates.turn is None else whitened
    projections = to_basis.T @ (sums.targets / sums.weight)
    return Span(standard, back @ whitened, shares, projections, None).basis(seed=seed)


def _to_standard(coordinates: Coordinates, standard: Standard) -> Array:
    """The matrix that turns the first coordinates u into standardised columns."""
    matrix = np.diag(coordinates.spread / standard.spread)
    if coordinates.intercept is not None:
        matrix[coordinates.intercept] += (coordinates.centre - standard.centre) / standard.spread
        matrix[coordinates.intercept, coordinates.intercept] = 1.0
    return matrix if standard.turn is None else np.asarray(matrix @ standard.turn)


def fit_from_sums(learner: Linear, training: TrainingSums, left_out: Design | None, rows: int, seed: int) -> LinearFit:
    """Fit mu and rr on training rows that are known by their sums.

    Parameters
    ----------
    learner : Linear
    training : TrainingSums
    left_out : Design or None
        The rows that are left out in turn; None if penalties are numbers.
    rows : int
        The number of training rows.
    seed : int
    """
    weight = training.last.weight
    shares: Array = np.broadcast_to(1.0 / rows, (rows,)) if left_out is None else left_out.weights / weight
    basis = make_basis_from_sums(training, shares, seed)
    m = (training.last.moments / weight) @ basis.transform
    grid = basis.penalties
    y = np.empty(0) if left_out is None else left_out.y
    mu, chosen = ridge_coefficients(left_out, basis, y, learner.penalty, grid)
    constrained = learner.rr == "constrained"
    rr, rr_chosen = riesz_coefficients(left_out, basis, learner.rr_penalty, constrained, grid, m)
    return LinearFit(mu, rr, "gaussian", constrained, {"penalty": chosen, **rr_chosen})


def _collinear(names: tuple[str, ...], combination: Array, words: str) -> LearnerError:
    size = np.abs(combination)
    involved = [names[j] for j in np.argsort(-size) if size[j] > 0.1 * size.max()][:4]
    return LearnerError(
        f"The columns {listing(involved)} are collinear on {words}: a combination of them is zero, or cannot be told from zero. "
        "Leave one of them out, merge rare levels, or centre a variable that is far from zero: center(x) for x."
    )
