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

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Points, zero_slopes
from riesz.learners.inputs.units import units
from riesz.learners.kernel.functions import Jet, dot, radial, same
from riesz.learners.linear.standardise import standardise
from riesz.storage.coding import stored

_MOST_PAIRED = 1000  # rows whose pairwise distances the median is taken over
_BLOCK = 2**20  # numbers of a block of sections
_COLLINEAR = 1e-11  # directions of the landmarks' kernel matrix with a smaller share of the largest eigenvalue are left out


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
        Their derivatives along what a derivative reading moves.
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
    kernel : {"gaussian", "matern", "linear"}
    columns : ndarray of int, shape (q,)
        The columns of z in use.
    centre : ndarray, shape (q,)
    turn : ndarray, shape (q, c)
        Covariates' inputs are (z - centre) @ turn.
    arms : bool
        Whether the treatment enters as arms.
    width : float
        What a treatment that is a number is divided by.
    """

    kernel: str
    columns: npt.NDArray[np.intp]
    centre: Array
    turn: Array
    arms: bool
    width: float

    def at(self, design: Design, reading: Points | None = None) -> Sites:
        """The rows of a design, or the points of one of its readings."""
        z = design.z[:, self.columns]
        tangents = None
        if reading is not None:
            _, here, there = np.intersect1d(self.columns, reading.columns, return_indices=True)
            z[:, here] = reading.values[:, there]
            if reading.tangents is not None:
                tangents = np.zeros_like(z)
                tangents[:, here] = reading.tangents[:, there]
                tangents = tangents @ self.turn
        raw = design.treatment if reading is None else reading.treatment
        treatment, slope = self._treatment(raw), None
        if reading is not None and reading.tangents is not None:
            slope = np.full_like(treatment, 0.0 if self.arms else reading.treatment_slope / self.width)
        return Sites(treatment, (z - self.centre) @ self.turn, slope, tangents)

    def _treatment(self, raw: Array) -> Array:
        if self.kernel == "linear":  # the treatment is among the columns
            return raw[:, :0]
        if self.arms:
            return raw @ np.arange(1.0, raw.shape[1] + 1)[:, None]
        return raw[:, :1] / self.width

    def kernel_between(self, points: Sites, landmarks: Sites) -> Jet:
        """The kernel between points and landmarks, with derivatives where they have tangents."""
        tangents = points.covariate_tangents, landmarks.covariate_tangents
        if self.kernel == "linear":
            return dot(points.covariates, landmarks.covariates, *tangents)
        of_covariates = radial(self.kernel, points.covariates, landmarks.covariates, *tangents)
        if self.arms:
            of_treatment = same(points.treatment, landmarks.treatment)
        else:
            along = points.treatment_tangents, landmarks.treatment_tangents
            of_treatment = radial(self.kernel, points.treatment, landmarks.treatment, *along)
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
        return Inputs(kernel, used, standard.centre[used], turn[np.ix_(used, used[new[used]])], False, 1.0)
    x = sample.x
    centre, spread = shares @ x, units(x, shares, constant=1.0) if x.shape[1] else np.ones(0)
    length = scale * _median_distance((x - centre) / spread)
    arms = _is_read_in_arms(sample)
    width = 1.0 if arms else scale * _median_distance(sample.treatment[:, :1])
    return Inputs(kernel, sample.covariates, centre, np.diag(1.0 / (spread * length)), arms, width)


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

    def at(self, points: Sites) -> tuple[Array, Array | None]:
        """The sections at points, shape (n, m), and their derivatives along the points' tangents, if they have any."""
        jet = self.inputs.kernel_between(points, self.landmarks)
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
        values, slopes = self.at(self.landmarks)
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
            observed[:, place] = self.at(self.inputs.at(block))[0].T
            for k, reading in enumerate(block.readings()):
                value, slope = self.at(self.inputs.at(block, reading))
                values[:, k, place] = value.T
                if slope is not None:
                    slopes[:, k, place] = slope.T
        return Evaluation(observed, values, slopes)

    @property
    def rows_at_once(self) -> int:
        """The number of rows whose sections are computed together."""
        return max(_BLOCK // len(self), 64)


def draw_sections(design: Design, inputs: Inputs, most: int, seed: int) -> Sections:
    """Sections at rows and at readings of a training set: at most so many of them, drawn at random, each once.

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


def _joined(parts: list[Sites]) -> Sites:
    """Several lists of sites as one; tangents are zero where a part has none."""
    derivative = any(part.treatment_tangents is not None for part in parts)
    tangents: list[tuple[Array, Array]] = []
    for part in parts if derivative else ():
        a, x = part.treatment_tangents, part.covariate_tangents
        tangents.append(
            (np.zeros_like(part.treatment) if a is None else a, np.zeros_like(part.covariates) if x is None else x)
        )
    return Sites(
        np.concatenate([part.treatment for part in parts]),
        np.concatenate([part.covariates for part in parts]),
        np.concatenate([a for a, _ in tangents]) if derivative else None,
        np.concatenate([x for _, x in tangents]) if derivative else None,
    )


def _take(sites: Sites, rows: npt.NDArray[np.intp]) -> Sites:
    a, x = sites.treatment_tangents, sites.covariate_tangents
    return Sites(
        sites.treatment[rows], sites.covariates[rows], None if a is None else a[rows], None if x is None else x[rows]
    )
