r"""Calibration: mu and rr corrected where, among rows with similar predictions, they are wrong on average.

In arm k let :math:`s_i` be a learned function at :math:`(k, x_i)`. Rows are ordered by s, and isotonic regression finds blocks B of
neighbours (van der Laan, Luedtke and Carone 2024):

.. math::

    \mu^*: \quad \min_g \sum_{A_i = k} w_i \{y_i - g(s_i)\}^2, \qquad
    \alpha^*: \quad \min_g \sum_{A_i = k} w_i\, g(s_i)^2 - 2 \sum_i w_i\, m_{ik}\, g(s_i), \qquad g \text{ non-decreasing},

where :math:`m_{ik}` is the weight with which the moment of row i reads arm k. In a block g is the mean of y, or the sum of
:math:`w m` over the sum of w among the rows in the arm. A block without rows of the arm would have an infinite weight, so blocks of
rr have at least :data:`ROWS_OF_RR` rows of the arm, and blocks of mu :data:`ROWS_OF_MU`.

``"isotonic"`` uses g itself, for mu and rr. ``"levels"``, for mu alone, keeps what the learners found within a block and adds the
mean of y - mu to it. Either way the mean error of mu is zero in every block of every arm. Constant blocks suit a mu that is known
up to a monotone transformation. They are too coarse where mu varies much within blocks, as far out in its tails.

All is computed from out-of-fold predictions: no learner is fitted again.

References
----------
van der Laan, Luedtke and Carone, "Doubly robust inference via calibration" (2024).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from riesz.arrays import Array, ratio
from riesz.crossfit.copies import find_copies
from riesz.crossfit.stacking import serves
from riesz.design.arm_numbers import reading_arms
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.errors import LearnerError
from riesz.families import find_family
from riesz.predictions import Predictions
from riesz.storage.coding import stored

Kind = Literal["levels", "isotonic"]
KINDS = ("auto", "levels", "isotonic")  # what calibrate= may be, besides None
Codes = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

ROWS_OF_MU, ROWS_OF_RR = 5, 20  # the fewest rows of an arm in a block
_FEWEST_ROWS = 2 * ROWS_OF_RR  # an arm with fewer stays as it is
_FEWEST_CLUSTERS = 2  # in a block, if there are clusters


@stored
@dataclass(frozen=True)
class Steps:
    """A step function of predictions in one arm.

    Attributes
    ----------
    starts : ndarray, shape (B - 1,)
        The smallest prediction of each block but the first, in ascending order.
    values : ndarray, shape (B,)
    adds : bool
        Whether a value is added to the predictions of its block, instead of replacing them.
    """

    starts: Array
    values: Array
    adds: bool

    def at(self, predictions: Array) -> Array:
        """Calibrated predictions."""
        steps = self.values[np.searchsorted(self.starts, predictions, side="right")]
        return np.asarray(predictions + steps if self.adds else steps)


@stored
@dataclass(frozen=True)
class Calibration:
    """How predictions of one repeat, or of a stack, were calibrated.

    Attributes
    ----------
    kind : {"levels", "isotonic"}
    mu : tuple of (Steps or None), one per arm
        None for an arm that stays as it is.
    rr : tuple of tuple of (Steps or None), one per component and arm
        Empty if rr stays as it is.
    """

    kind: Literal["levels", "isotonic"]
    mu: tuple[Steps | None, ...]
    rr: tuple[tuple[Steps | None, ...], ...]


def check_calibrate(calibrate: Kind | Literal["auto"] | None, design: Design) -> None:
    """Raise an error if calibration was asked for and the moment reads more than the arms of a treatment."""
    if calibrate not in (None, "auto") and not find_family(design.family).is_mean:
        raise LearnerError(
            f"calibrate={calibrate!r} makes mu right on average in blocks of rows, and with family={design.family!r} mu is not a "
            "mean. Use calibrate=None."
        )
    if calibrate not in (None, "auto") and reading_arms(design) is None:
        raise LearnerError(
            f"calibrate={calibrate!r} makes steps of mu and rr within the arms of a treatment, and a step has no slope. This "
            "estimand reads derivatives, or a continuous treatment. Use calibrate=None."
        )


def find_calibration(predictions: Predictions, design: Design, kind: Kind) -> Calibration:
    """The blocks and values for predictions of the full sample.

    Examples
    --------
    Predictions that are half as far from the mean as they should be:

    >>> import numpy as np, riesz
    >>> from dataclasses import replace
    >>> from riesz.crossfit.calibration import apply, find_calibration
    >>> data = riesz.datasets.get("binary").draw(2000, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
    >>> design, good = fit.model.blueprint.design, fit._crossfit.predictions[0]
    >>> poor = replace(good, mu=good.mu.map(lambda values: values / 2))
    >>> mended = apply(poor, find_calibration(poor, design, "isotonic"), design)
    >>> [round(float(np.mean((data["y"] - p.mu.observed) ** 2)), 1) for p in (good, poor, mended)]
    [3.1, 4.1, 3.0]
    """
    arms = reading_arms(design)
    assert arms is not None
    counted = _counted(design)
    mu = tuple(_steps_of_mu(predictions.mu.observed, design, arms[0] == arm, counted, kind) for arm in _arms(design))
    if kind != "isotonic" or not serves(predictions):
        return Calibration(kind, mu, ())
    rr = tuple(
        tuple(_steps_of_rr(predictions, design, arms, component, arm, counted) for arm in _arms(design))
        for component in range(design.components)
    )
    return Calibration(kind, mu, rr)


def apply(predictions: Predictions, calibration: Calibration, design: Design) -> Predictions:
    """Calibrated predictions of any rows."""
    arms = reading_arms(design)
    assert arms is not None
    observed, values = predictions.mu.observed.copy(), predictions.mu.values.copy()
    for arm, steps in enumerate(calibration.mu):
        _step(observed, arms[0] == arm, steps)
        _step(values, arms[1] == arm, steps)
    family = find_family(design.family)
    observed, values = family.clip(observed), family.clip(values)
    result = replace(predictions, mu=Evaluation(observed, values, predictions.mu.slopes))
    if not calibration.rr:
        return result
    rr = predictions.rr
    links, at_rows, at_links = rr.links, rr.observed.copy(), rr.values.copy()
    for component, of_arms in enumerate(calibration.rr):
        places = links.of(component)
        read = at_links[places]
        for arm, steps in enumerate(of_arms):
            _step(at_rows[component], arms[0] == arm, steps)
            _step(read, arms[1][links.reading[places]] == arm, steps)
        at_links[places] = read
    return replace(result, rr=replace(rr, observed=at_rows, values=at_links))


def _arms(design: Design) -> range:
    return range(design.treatment.shape[1] + 1)


def _step(values: Array, where: Mask, steps: Steps | None) -> None:
    """Calibrate some values in place."""
    if steps is not None and where.any():
        values[where] = steps.at(values[where])


def _counted(design: Design) -> Mask:
    """The rows that blocks count: those with weight, and of copies of a row the first, as with frequency weights."""
    counted, copies = design.weights > 0, find_copies(design)
    if copies is not None:
        first = np.zeros(len(design), dtype=bool)
        first[np.unique(copies, return_index=True)[1]] = True
        counted &= first
    return np.asarray(counted)


def _steps_of_mu(mu: Array, design: Design, inside: Mask, counted: Mask, kind: Kind) -> Steps | None:
    """The steps of an arm's mu; None if few rows are in it."""
    if np.count_nonzero(inside & counted) < _FEWEST_ROWS:
        return None
    rows = np.flatnonzero(inside)
    s, y, w = mu[rows], design.y[rows], design.weights[rows]
    groups = None if design.groups is None else design.groups[rows]
    labels = blocks_of(s, counted[rows], ROWS_OF_MU, groups)
    block, values = _isotonic(labels, w, w * y)
    if kind == "isotonic":
        return Steps(_starts(s, block), values, adds=False)
    errors = np.bincount(block, w * (y - s)) / np.bincount(block, w)
    return Steps(_starts(s, block), errors, adds=True)


def _steps_of_rr(
    predictions: Predictions, design: Design, arms: tuple[Codes, Codes], component: int, arm: int, counted: Mask
) -> Steps | None:
    """The steps of an arm's rr; None if the component reads the arm in some rows alone, or few rows are in it."""
    rr = predictions.rr
    places = rr.links.of(component)
    reads = arms[1][rr.links.reading[places]] == arm
    inside = arms[0] == arm
    if not reads.any():
        return Steps(np.empty(0), np.zeros(1), adds=False)  # rr is zero in an arm that is never read
    if not reads.any(axis=0).all() or np.count_nonzero(inside & counted) < _FEWEST_ROWS:
        return None
    first = reads.argmax(axis=0), np.arange(len(design))
    s, w = rr.values[places][first], design.weights
    moments = np.where(reads, design.link_weights[places], 0.0).sum(axis=0)
    labels = blocks_of(s, inside & counted, ROWS_OF_RR, design.groups)
    block, values = _isotonic(labels, w * inside, w * moments)
    return Steps(_starts(s, block), values, adds=False)


def blocks_of(s: Array, counted: Mask, fewest: int, groups: npt.NDArray[np.intp] | None) -> Codes:
    """Neighbours in s as small blocks, which have at least ``fewest`` counted rows and two clusters each; equal s stay together.

    Returns
    -------
    ndarray of int, shape (n,)
        The block of each row, numbered in the order of s.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.crossfit.calibration import blocks_of
    >>> blocks_of(np.array([0.1, 0.2, 0.2, 0.3, 0.4, 0.5]), np.ones(6, dtype=bool), 2, None).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    distinct, place = np.unique(s, return_inverse=True)
    counts = np.bincount(place, counted, len(distinct)).tolist()
    clusters = (
        None
        if groups is None
        else np.split(groups[np.argsort(place, kind="stable")], np.cumsum(np.bincount(place))[:-1])
    )
    label, labels, rows, known = 0, np.empty(len(distinct), dtype=np.intp), 0.0, set[int]()
    for number, count in enumerate(counts):
        labels[number] = label
        rows += count
        if clusters is not None and len(known) < _FEWEST_CLUSTERS:
            known.update(clusters[number].tolist())
        if rows >= fewest and (clusters is None or len(known) >= _FEWEST_CLUSTERS):
            label, rows, known = label + 1, 0.0, set()
    labels[labels == label] = max(label - 1, 0)  # what is left joins the last complete block
    return labels[place]


def _isotonic(labels: Codes, weights: Array, sums: Array) -> tuple[Codes, Array]:
    """Merge small blocks so that sum over weight does not decrease: the block of each row, and the value of each block."""
    weight, total = (np.bincount(labels, values).astype(np.float64) for values in (weights, sums))
    solution = isotonic_regression(ratio(total, weight, otherwise=0.0), weights=np.maximum(weight, 1e-300))
    merged = np.repeat(np.arange(len(solution.blocks) - 1), np.diff(solution.blocks))
    return merged[labels], np.asarray(solution.x[solution.blocks[:-1]])


def _starts(s: Array, block: Codes) -> Array:
    """The smallest s of each block but the first."""
    smallest = np.full(int(block.max()) + 1, np.inf)
    np.minimum.at(smallest, block, s)
    return smallest[1:]
