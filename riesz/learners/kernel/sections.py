r"""Kernel sections: the functions of which mu and rr are combinations.

In: a sample, from which the inputs' scales are measured, and a training set, from which landmarks are drawn. Out: the section of
each landmark at any point. The kernel of treatment a and covariates x is

.. math:: k\{(a, x), (a', x')\} = \{1 + k_a(a, a')\}\{1 + k_x(x, x')\} - 1,

so that a function is a sum of a function of a, one of x and one of both. For arms :math:`k_a = 1\{a = a'\}`: each arm has a
function of its own beside the one that arms share. The linear kernel is the inner product of the formula's standardised columns.

A landmark is a point, with section :math:`k(u, \cdot)`, or the derivative at a point, with section :math:`\partial k(u, \cdot)`.

Shapes: n points, m landmarks, c covariates' inputs, R readings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Points, zero_slopes
from riesz.learners.inputs.units import units
from riesz.learners.kernel.functions import Jet, additive, dot, radial, same
from riesz.learners.linear.standardise import standardise
from riesz.storage.coding import stored

_MOST_PAIRED = 1000  # rows whose pairwise distances the median is taken over
_BLOCK = 2**18  # numbers of a block of sections
_COLLINEAR = (
    1e-11  # directions of the landmarks' kernel matrix with a smaller share of the largest eigenvalue are left out
)


@stored
@dataclass(frozen=True)
class Sites:
    """Points as inputs of the kernel.

    Attributes
    ----------
    treatment : ndarray, shape (n, 1)
        Scaled, or the number of the arm; without columns for the linear kernel.
    covariates : ndarray, shape (n, c)
    treatment_tangents, covariate_tangents : ndarray or None
        Their derivatives along what a derivative reading moves. Values need none, and covariates that do not move have none.
    """

    treatment: Array
    covariates: Array
    treatment_tangents: Array | None
    covariate_tangents: Array | None


@stored
@dataclass(frozen=True)
class Inputs:
    """How the columns of a design become inputs of the kernel; measured on all rows of a sample, without the outcome.

    Attributes
    ----------
    kernel : {"additive", "gaussian", "matern", "linear"}
    columns : ndarray of int, shape (q,)
        The columns of z in use.
    centre : ndarray, shape (q,)
    turn : ndarray, shape (q, c)
        Covariates' inputs are (z - centre) @ turn.
    lengths : ndarray, shape (c,)
        Of the additive kernel's parts.
    arms : bool
        Whether the treatment enters as arms.
    width : float
        What a treatment that is a number is divided by.
    """

    kernel: str
    columns: npt.NDArray[np.intp]
    centre: Array
    turn: Array
    lengths: Array
    arms: bool
    width: float

    def at(self, design: Design, reading: Points | None = None) -> Sites:
        """The rows of a design, or the points of one of its readings."""
        z = design.z[:, self.columns]
        raw, slopes, tangents = design.treatment, None, None
        if reading is not None:
            raw = reading.treatment
            _, here, there = np.intersect1d(self.columns, reading.columns, return_indices=True)
            z[:, here] = reading.values[:, there]
            if reading.tangents is not None:
                slopes = np.full((len(z), self._treatment(raw).shape[1]), reading.treatment_slope / self.width)
                if reading.tangents[:, there].any():
                    moved = np.zeros_like(z)
                    moved[:, here] = reading.tangents[:, there]
                    tangents = moved @ self.turn
        return Sites(self._treatment(raw), (z - self.centre) @ self.turn, slopes, tangents)

    def _treatment(self, raw: Array) -> Array:
        if self.kernel == "linear":  # the treatment is among the columns
            return raw[:, :0]
        if self.arms:
            return raw @ np.arange(1.0, raw.shape[1] + 1)[:, None]
        return raw[:, :1] / self.width

    def of_covariates(self, points: Sites, landmarks: Sites) -> Jet:
        """The kernel of covariates, or the linear kernel of all columns."""
        tangents = points.covariate_tangents, landmarks.covariate_tangents
        if self.kernel == "linear":
            return dot(points.covariates, landmarks.covariates, *tangents)
        if self.kernel == "additive":
            return additive(points.covariates, landmarks.covariates, *tangents, self.lengths)
        return radial(self.kernel, points.covariates, landmarks.covariates, *tangents)

    def with_treatment(self, points: Sites, landmarks: Sites, of_covariates: Jet) -> Jet:
        """The kernel of treatment and covariates, given that of covariates."""
        if self.kernel == "linear":
            return of_covariates
        if self.arms:
            of_treatment = same(points.treatment, landmarks.treatment)
        else:
            profile = "matern" if self.kernel == "matern" else "gaussian"
            tangents = points.treatment_tangents, landmarks.treatment_tangents
            of_treatment = radial(profile, points.treatment, landmarks.treatment, *tangents)
        return of_treatment.plus(1.0).times(of_covariates.plus(1.0)).plus(-1.0)


def measure_inputs(sample: Design, kernel: str, scale: float) -> Inputs:
    """The scales of all rows of a sample: standard deviations or, for two values, ranges; then ``scale`` median distances."""
    shares = sample.weights / sample.weights.sum()
    if kernel == "linear":
        standard = standardise(sample, shares)
        used = np.flatnonzero(np.arange(len(sample.names)) != standard.intercept)
        new = np.ones(len(sample.names), dtype=bool) if standard.repeated is None else ~standard.repeated
        turn = np.diag(1.0 / standard.spread)
        if standard.turn is not None:
            turn = np.asarray(turn @ standard.turn)
        return Inputs(kernel, used, standard.centre[used], turn[np.ix_(used, used[new[used]])], np.ones(0), False, 1.0)
    x = sample.x
    centre, spread = shares @ x, units(x, shares, constant=1.0) if x.shape[1] else np.ones(0)
    scaled = (x - centre) / spread
    length = scale * _median_distance(scaled)
    lengths = np.array([scale * _median_distance(column[:, None]) / length for column in scaled.T])
    arms = _is_read_in_arms(sample)
    width = 1.0 if arms else scale * _median_distance(sample.treatment[:, :1])
    return Inputs(kernel, sample.covariates, centre, np.diag(1.0 / (spread * length)), lengths, arms, width)


def _is_read_in_arms(sample: Design) -> bool:
    """Whether the treatment has arms and each reading is at one of them, not between them or along the treatment."""
    if sample.strata is None:
        return False
    _, first = np.unique(sample.strata, return_index=True)
    arms = sample.treatment[first]
    return all(
        not reading.treatment_slope
        and bool((reading.kept_treatment.distinct()[:, None] == arms).all(axis=2).any(axis=1).all())
        for reading in sample.readings()
    )


def _median_distance(x: Array) -> float:
    """The median distance between distinct rows, at most a thousand of them; 1 if all are the same."""
    distances = pdist(x[draw_part(len(x), _MOST_PAIRED, 0)])
    positive = distances[distances > 0]
    return float(np.median(positive)) if positive.size else 1.0


@stored
@dataclass(frozen=True)
class Sections:
    """The sections of some landmarks.

    Attributes
    ----------
    inputs : Inputs
    landmarks : Sites
    is_slope : ndarray of bool, shape (m,)
        Which landmarks are derivatives at their points.
    """

    inputs: Inputs
    landmarks: Sites
    is_slope: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.is_slope)

    def over(self, block: Design) -> Iterator[tuple[Array, Array | None]]:
        """The sections at the rows of a block, then at each of its readings.

        Yields
        ------
        ndarray, shape (b, m)
        ndarray, shape (b, m), or None
            Derivatives at a derivative reading.
        """
        rows = self.inputs.at(block)
        of_rows = self.inputs.of_covariates(rows, self.landmarks)
        yield self._at(rows, of_rows)
        for reading in block.readings():
            points = self.inputs.at(block, reading)
            moved = points.covariate_tangents is not None or not np.array_equal(points.covariates, rows.covariates)
            yield self._at(points, self.inputs.of_covariates(points, self.landmarks) if moved else of_rows)

    def _at(self, points: Sites, of_covariates: Jet) -> tuple[Array, Array | None]:
        jet = self.inputs.with_treatment(points, self.landmarks, of_covariates)
        values = self._of_landmarks(jet.value, jet.at_landmark)
        if points.treatment_tangents is None:
            return values, None
        return values, self._of_landmarks(np.broadcast_to(jet.at_point, values.shape), jet.both)

    def _of_landmarks(self, value: Array, slope: Array | float) -> Array:
        return np.where(self.is_slope, slope, value) if self.is_slope.any() else value

    def reduction(self) -> Array:
        """W, shape (m, r), for which W'k(landmarks, .) are orthonormal functions of the Hilbert space.

        In a combination of them the squared norm of a function is the sum of its squared coefficients.
        """
        values, slopes = self._at(self.landmarks, self.inputs.of_covariates(self.landmarks, self.landmarks))
        gram = values if slopes is None else np.where(self.is_slope[:, None], slopes, values)
        size, axes = np.linalg.eigh((gram + gram.T) / 2)
        usable = size > _COLLINEAR * size[-1]
        return np.asarray(axes[:, usable] / np.sqrt(size[usable]))

    def evaluate(self, design: Design) -> Evaluation:
        """The sections at the rows of a design and at its readings, shape (m, n)."""
        m, n, readings = len(self), len(design), len(design.is_derivative)
        observed, values = np.empty((m, n)), np.empty((m, readings, n))
        slopes = np.zeros_like(values) if design.is_derivative.any() else zero_slopes(values.shape)
        for place, block in design.blocks(self.rows_at_once):
            (at_rows, _), *at_readings = self.over(block)
            observed[:, place] = at_rows.T
            for k, (value, slope) in enumerate(at_readings):
                values[:, k, place] = value.T
                if slope is not None:
                    slopes[:, k, place] = slope.T
        return Evaluation(observed, values, slopes)

    @property
    def rows_at_once(self) -> int:
        """The number of rows whose sections are computed together."""
        return max(_BLOCK // len(self), 64)


def linear_sections(inputs: Inputs) -> Sections:
    """The sections of the linear kernel that are the standardised columns: at unit vectors, not at rows."""
    columns = inputs.turn.shape[1]
    sites = Sites(np.empty((columns, 0)), np.eye(columns), None, None)
    return Sections(inputs, sites, np.zeros(columns, dtype=bool))


def draw_sections(design: Design, inputs: Inputs, most: int, seed: int) -> Sections:
    """Sections at rows and at readings of a training set, each once; drawn at random if there are more than a limit.

    A reading that no component uses on a row, such as that of an untreated row for the effect on the treated, gives none.
    """
    n, readings = len(design), design.readings()
    total = n * (1 + len(readings))
    drawn = np.random.default_rng(seed).permutation(total)[: max(4 * most, 1000)]
    used = np.ones((1 + len(readings), n), dtype=bool)
    for k in range(len(readings)):
        used[1 + k] = design.link_weights[design.links.reading == k].any(axis=0)
    parts, ranks, slopes = [], [], []
    for k in range(1 + len(readings)):
        rank = np.flatnonzero((drawn // n == k) & used.ravel()[drawn])
        some = design.take(drawn[rank] % n)
        parts.append(inputs.at(some, some.readings()[k - 1] if k else None))
        ranks.append(rank)
        slopes.append(np.full(len(rank), k > 0 and bool(design.is_derivative[k - 1])))
    sites, is_slope = _joined(parts), np.concatenate(slopes)
    order = np.argsort(np.concatenate(ranks))
    chosen = order[_first_of_each(sites, is_slope, order)[:most]]
    return Sections(inputs, _take(sites, chosen), is_slope[chosen])


def _first_of_each(sites: Sites, is_slope: npt.NDArray[np.bool_], order: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """The places in an order at which a site comes for the first time; values at a point do not depend on tangents."""
    columns = [sites.treatment, sites.covariates, is_slope[:, None]]
    for tangents in (sites.treatment_tangents, sites.covariate_tangents):
        if tangents is not None:
            columns.append(tangents * is_slope[:, None])
    return np.sort(np.unique(np.hstack(columns)[order], axis=0, return_index=True)[1])


def _joined(parts: Sequence[Sites]) -> Sites:
    """Several lists of sites as one."""
    return Sites(
        np.concatenate([part.treatment for part in parts]),
        np.concatenate([part.covariates for part in parts]),
        _joined_tangents([(part.treatment, part.treatment_tangents) for part in parts]),
        _joined_tangents([(part.covariates, part.covariate_tangents) for part in parts]),
    )


def _joined_tangents(parts: Sequence[tuple[Array, Array | None]]) -> Array | None:
    """Tangents of several lists of values, zero where a list has none; None if no list has any."""
    if all(tangents is None for _, tangents in parts):
        return None
    return np.concatenate([np.zeros_like(values) if tangents is None else tangents for values, tangents in parts])


def _take(sites: Sites, rows: npt.NDArray[np.intp]) -> Sites:
    a, x = sites.treatment_tangents, sites.covariate_tangents
    return Sites(
        sites.treatment[rows], sites.covariates[rows], None if a is None else a[rows], None if x is None else x[rows]
    )
