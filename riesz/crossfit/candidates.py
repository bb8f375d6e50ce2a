"""The candidates of a stack: which of them can be used, and the cross-fit that combines their predictions.

In: the learners, and the predictions of each of them for the full sample. Out: a :class:`CrossFit`, whose predictions are weighted
by ``stacking.py``; those of a single learner stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from riesz.arrays import Array
from riesz.crossfit.calibration import Calibration, Kind, apply, find_calibration
from riesz.crossfit.folds import Labels
from riesz.crossfit.splits import Split
from riesz.crossfit.stacking import Stacking, mu_apart, stack
from riesz.design.arm_numbers import reading_arms
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.families import find_family
from riesz.learners import Fit, Learner
from riesz.learners.base import need_family
from riesz.predictions import Predictions, scales, times


@dataclass(frozen=True)
class Candidate:
    """One learner of a stack, cross-fitted; without a stack the only one.

    Attributes
    ----------
    learner : Learner
    fits : tuple of Fit
        One per split, repeat by repeat.
    predictions : tuple of Predictions, one per repeat
        Rescaled if rr is scale-free and, if ``trim`` was given, trimmed. Empty for a stack from a file, which holds the
        candidates' scores instead.
    """

    learner: Learner
    fits: tuple[Fit, ...]
    predictions: tuple[Predictions, ...]


@dataclass(frozen=True)
class CrossFit:
    """The result of cross-fitting.

    Attributes
    ----------
    predictions : tuple of Predictions
        One per repeat; of a stack one, which combines those of all repeats. Rescaled and, if ``trim`` was given, trimmed.
    untrimmed, uncalibrated : tuple of Predictions
        The same before trimming, and before calibration, too.
    scales : ndarray, shape (predictions, K)
        The factors by which a scale-free rr was multiplied.
    caps : ndarray, shape (predictions, K)
        Where |rr| was capped; infinite without trimming.
    folds : ndarray of int, shape (repeats, n)
        Which split predicted each row.
    candidates : tuple of Candidate
        The learners that were fitted.
    stacking : tuple of Stacking
        How they were combined: one, with a weight for every repeat of every candidate. One per repeat in files
        of format 3. Empty if there is one candidate.
    left_out : mapping of str to str
        Candidates that cannot be used for this estimand, with the reason.
    splits : tuple of sequence of Split, one per repeat
    calibration : tuple of Calibration
        How ``predictions`` were calibrated, one per element; empty if they were not.
    """

    predictions: tuple[Predictions, ...]
    untrimmed: tuple[Predictions, ...]
    uncalibrated: tuple[Predictions, ...]
    scales: Array
    caps: Array
    folds: Labels
    candidates: tuple[Candidate, ...]
    stacking: tuple[Stacking, ...]
    left_out: Mapping[str, str]
    splits: tuple[Sequence[Split], ...]
    calibration: tuple[Calibration, ...] = ()

    @property
    def labels(self) -> Labels:
        """The fold of each row, one row of labels per element of ``predictions``; of a stack, the folds of the first repeat."""
        return self.folds[: len(self.predictions)]

    def combined(self, place: int) -> range:
        """The repeats that an element of ``stacking`` combines."""
        return range(len(self.folds)) if len(self.stacking) == 1 else range(place, place + 1)

    @property
    def fits(self) -> tuple[Fit, ...]:
        """All fits, candidate by candidate."""
        return tuple(fit for candidate in self.candidates for fit in candidate.fits)


def usable_candidates(learner: Learner, design: Design, rows: int) -> tuple[list[Learner], dict[str, str]]:
    """The candidates of a learner that can be used for a design, and why the others cannot.

    Parameters
    ----------
    learner : Learner
    design : Design
        The full sample.
    rows : int
        Size of the smallest training set.

    Returns
    -------
    list of Learner
        At least one; if no candidate can be used, the error of the first is raised.
    dict of str to str
        Description of each other candidate, and the reason.
    """
    candidates = learner.candidates()
    usable, errors = [], {}
    for candidate in candidates:
        try:
            need_family(candidate, design.family)
            candidate.check(design, rows)
        except LearnerError as error:
            if len(candidates) == 1:
                raise
            errors[candidate.describe(design.family)] = error
            continue
        usable.append(candidate)
    if not any(candidate.learns_rr for candidate in usable) and any(candidate.learns_rr for candidate in candidates):
        raise next(iter(errors.values()))
    return usable, {words: str(error) for words, error in errors.items()}


def calibrated(crossfit: CrossFit, calibrate: Kind | Literal["auto"] | None, design: Design) -> CrossFit:
    """A cross-fit with calibrated predictions; those of a stack's candidates stay as they are.

    ``"auto"`` calibrates the mu of a stack where it is read in arms.
    """
    if calibrate == "auto":
        possible = find_family(design.family).is_mean and reading_arms(design) is not None
        calibrate = "levels" if crossfit.stacking and possible else None
    if calibrate is None:
        return crossfit
    found = tuple(find_calibration(predictions, design, calibrate) for predictions in crossfit.uncalibrated)
    return with_calibration(crossfit, found, design)


def with_calibration(crossfit: CrossFit, calibration: tuple[Calibration, ...], design: Design) -> CrossFit:
    """A cross-fit whose predictions are calibrated by known steps, one set per element; by none if there are none."""
    if not calibration:
        return crossfit
    pairs = zip(crossfit.uncalibrated, calibration, strict=True)
    predictions = tuple(apply(uncalibrated, steps, design) for uncalibrated, steps in pairs)
    return replace(crossfit, predictions=predictions, untrimmed=predictions, calibration=calibration)


def combine_candidates(
    design: Design,
    splits: Sequence[Sequence[Split]],
    candidates: Sequence[Candidate],
    learned: Sequence[Sequence[Predictions]],
    left_out: Mapping[str, str],
) -> CrossFit:
    """Stack the candidates' predictions of all repeats, and rescale the result.

    In each repeat the fits that predict a row have not seen it, so the predictions of all repeats may be combined row by row.
    That takes out more noise than a stack for each repeat, because the errors of one learner differ between repeats.

    Parameters
    ----------
    design : Design
        The full sample.
    splits : sequence of sequence of Split
        One sequence per repeat.
    candidates : sequence of Candidate
    learned : sequence of sequence of Predictions
        Of each candidate, one per repeat, as learned.
    left_out : mapping of str to str
        As in :class:`CrossFit`.
    """
    if len(candidates) == 1:
        combined, stackings = learned[0], []
    else:
        stacked, stacking = stack([repeat for of_candidate in learned for repeat in of_candidate], design)
        learners = [np.mean([repeat.mu.observed for repeat in of_candidate], axis=0) for of_candidate in learned]
        apart, gain = mu_apart(learners, stacked.mu.observed, design)
        combined, stackings = [stacked], [replace(stacking, apart=apart, gain=gain)]
    factors = [scales(predictions, design) for predictions in combined]
    rescaled = tuple(times(predictions, factor) for predictions, factor in zip(combined, factors, strict=True))
    folds = np.empty((len(splits), len(design)), dtype=np.intp)
    for labels, of_repeat in zip(folds, splits, strict=True):
        for number, split in enumerate(of_repeat):
            labels[split.test] = number
    return CrossFit(
        predictions=rescaled,
        untrimmed=rescaled,
        uncalibrated=rescaled,
        scales=np.stack(factors),
        caps=np.full((len(rescaled), design.components), np.inf),
        folds=folds,
        candidates=tuple(candidates),
        stacking=tuple(stackings),
        left_out=left_out,
        splits=tuple(splits),
    )
