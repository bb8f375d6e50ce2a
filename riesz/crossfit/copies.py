"""Rows that are copies of one another, which must not be on both sides of a split.

A row with frequency 3 and the same row three times are the same data. A copy reveals the outcome of the other copies, so standard
errors are too small if folds separate copies, if validation rows have copies among the training rows, or if one copy is left out.
Copies are therefore kept in one fold, and learners are fitted on one row in their place, with the sum of their weights.

Rows count as copies only if the outcome is continuous: two people may well have the same 0/1 outcome and the same few covariates.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from riesz.design.design import Design

Labels = npt.NDArray[np.intp]

_FEWEST = 20  # a continuous outcome has at least this many distinct values
_DISTINCT = 0.5  # and at least this many per distinct row


def find_copies(design: Design) -> Labels | None:
    """For each row the number of its distinct row, in order of first appearance, shape (n,); None if there are no copies.

    Rows are copies if they agree in outcome, columns, treatment, cluster and readings of the moment, and no other row has that
    outcome.

    Examples
    --------
    >>> import riesz
    >>> from riesz.crossfit.copies import find_copies
    >>> data = riesz.datasets.get("binary").draw(100, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) + x1", data.loc[data.index.repeat(2)], learner="linear")
    >>> find_copies(fit.model.blueprint.design)[:6]
    array([0, 0, 1, 1, 2, 2])
    """
    y = design.y
    ordered = np.sort(y)
    steps = int((ordered[1:] != ordered[:-1]).sum())
    if steps == len(y) - 1 or steps + 1 < _FEWEST:  # no copies, as in most data
        return None
    values, place, counts = np.unique(y, return_inverse=True, return_counts=True)
    order = np.argsort(place, kind="stable")
    start = np.concatenate([[0], np.cumsum(counts)[:-1]])
    first = order[start][place]  # the first row with the same outcome
    alike = np.logical_and.reduceat(_same(design, first)[order], start)  # whether all rows with an outcome are copies
    distinct = int(alike.sum() + counts[~alike].sum())
    if not (alike & (counts > 1)).any() or len(values) < _DISTINCT * distinct:
        return None
    leader = np.where(alike[place], first, np.arange(len(y)))
    return np.asarray(np.unique(leader, return_inverse=True)[1], dtype=np.intp)


def _same(design: Design, other: Labels) -> npt.NDArray[np.bool_]:
    """Whether each row is a copy of the row that ``other`` gives for it, shape (n,)."""
    z, treatment, weights, groups = design.z, design.treatment, design.link_weights, design.groups
    same = (z == z[other]).all(axis=1) & (treatment == treatment[other]).all(axis=1)
    same &= (weights == weights[:, other]).all(axis=0)
    for reading in design.readings():
        same &= (reading.values == reading.values[other]).all(axis=1)
        same &= (reading.treatment == reading.treatment[other]).all(axis=1)
    if groups is not None:
        same &= groups == groups[other]
    return np.asarray(same)
