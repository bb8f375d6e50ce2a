"""The arms of rows and of readings as numbers: 0 for the reference, j for the arm of the treatment's j-th indicator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.design import Design

Codes = npt.NDArray[np.intp]


def arm_numbers(treatment: Array) -> Codes:
    """The arms, shape (n,), from the raw treatment, shape (n, t).

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.design.arm_numbers import arm_numbers
    >>> arm_numbers(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])).tolist()
    [0, 2, 1]
    """
    return np.asarray(treatment @ np.arange(1, treatment.shape[1] + 1), dtype=np.intp)


def arms_of_readings(design: Design) -> list[Codes]:
    """The arm that each reading sets its rows to, shape (n,); of shape (1,) if it is the same for all rows."""
    return [arm_numbers(point.kept_treatment.distinct()) for point in design.readings()]


def reading_arms(design: Design) -> tuple[Codes, Codes] | None:
    """The arm of each row, shape (n,), and of each reading, shape (R, n); None if mu is not read in arms alone.

    Arms are numbered by the treatment's indicators, the reference 0, so that new rows need not have every arm.
    """
    if design.strata is None or design.is_derivative.any():
        return None
    treatments = [design.treatment, *(point.kept_treatment.distinct() for point in design.readings())]
    if not all(np.isin(there, (0.0, 1.0)).all() and (there.sum(axis=1) <= 1).all() for there in treatments):
        return None
    read = [np.broadcast_to(arms, len(design)) for arms in arms_of_readings(design)]
    return arm_numbers(design.treatment), np.stack(read)
