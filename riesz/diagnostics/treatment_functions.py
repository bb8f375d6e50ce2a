r"""Functions t of the treatment, where the moment reads them: the constant, the indicators of arms, a continuous treatment.

With many arms almost every parameter reads mu only where the indicator of a given arm is zero. For a function f of covariates
that no reading moves, :math:`m(t f)` is then zero; so each function keeps the parameters for which it is not, its ``readers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array, Rows
from riesz.design.derived import with_parameters
from riesz.design.design import Design
from riesz.design.moment import Evaluation, zero_slopes


@dataclass(frozen=True)
class TreatmentFunction:
    """A function t of the treatment.

    Attributes
    ----------
    label : str
        Its name; empty for the constant.
    column : int or None
        The column of the raw treatment; None for the constant.
    centre : float
        What is subtracted from the column.
    observed : ndarray, shape (n,)
        t at the observed rows.
    readers : ndarray of int
        The components that read mu where t, or its slope, is not zero, in ascending order.
    """

    label: str
    column: int | None
    centre: float
    observed: Array
    readers: npt.NDArray[np.intp]

    @property
    def rows(self) -> Rows:
        """The rows where t is not zero."""
        rows = np.flatnonzero(self.observed)
        return slice(None) if len(rows) == len(self.observed) else rows

    def at(self, design: Design) -> Evaluation:
        """Its values at the rows and readings of a design, which may have fewer components, in arrays that must not be changed."""
        if self.column is None:
            return constant(design)
        points = design.readings()
        values = np.stack([point.treatment[:, self.column] for point in points])
        slopes = np.stack([np.full(len(design), point.treatment_slope) for point in points])
        return Evaluation(self.observed, values - self.centre, slopes)


def treatment_functions(design: Design, labels: Sequence[str], *, centred: bool) -> list[TreatmentFunction]:
    """The constant and the columns of the raw treatment.

    Parameters
    ----------
    design : Design
        The full sample.
    labels : sequence of str
        Names of the columns.
    centred : bool
        Whether to subtract its mean from a continuous treatment.
    """
    every = np.arange(design.components)
    functions = [TreatmentFunction("", None, 0.0, np.ones(len(design)), every)]
    for column, label in enumerate(labels):
        observed = design.treatment[:, column]
        centre = float(design.mean(observed)) if centred and design.strata is None else 0.0
        readers = every if design.strata is None else design.readers(column)
        functions.append(TreatmentFunction(label, column, centre, observed - centre if centre else observed, readers))
    return functions


def constant(design: Design) -> Evaluation:
    """The function 1, as arrays that must not be changed."""
    shape = (len(design.is_derivative), len(design))
    return Evaluation(np.ones(len(design)), np.broadcast_to(1.0, shape), zero_slopes(shape))


def treatment_only(design: Design, v: Evaluation | None) -> Array:
    """The Riesz representer in the span of 1 and the raw treatment, shape (K, n): what an unadjusted comparison uses.

    Parameters
    ----------
    design : Design
    v : Evaluation, shape (n,), or None
        For an rr that is learned for the errors of a logit.
    """
    functions = treatment_functions(design, [""] * design.treatment.shape[1], centred=True)
    moments = np.zeros((len(functions), design.components))
    for t, moment in zip(functions, moments, strict=True):
        if t.readers.size:
            part = design.links.part(t.readers)
            readers = with_parameters(design, part)
            g = t.at(readers) if v is None else t.at(readers).times(v.only(part))
            moment[t.readers] = design.mean(readers.apply(g))
    observed = np.stack([t.observed for t in functions])
    weights = design.weights if v is None else design.weights * v.observed
    gram = (observed * (weights / design.weights.sum())) @ observed.T
    return np.asarray((np.linalg.pinv(gram, hermitian=True) @ moments).T @ observed)
