"""The pass that adds up Gram matrices and moments per fold, and keeps the rows that are left out in turn.

In: the rows of a source and how they become designs. Out: one :class:`~riesz.learners.linear.from_sums.FoldSums` per fold, and for
each training set the rows by which its penalties are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.learners.linear.from_sums import Coordinates, FoldSums
from riesz.learners.linear.ridge import draw_left_out
from riesz.sources.designs import Plan
from riesz.sources.fold_hash import Labels
from riesz.sources.rows import CleanRows, RowReader, with_levels


@dataclass
class LeftOut:
    """Collects the rows that are left out in turn: the same random part of each training set as in memory.

    Attributes
    ----------
    parts : sequence of ndarray of int
        For each training set, positions among its rows, in ascending order.
    """

    parts: Sequence[npt.NDArray[np.intp]]
    _seen: npt.NDArray[np.intp] = field(init=False)
    _rows: list[CleanRows] = field(default_factory=list)
    _members: list[npt.NDArray[np.bool_]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._seen = np.zeros(len(self.parts), dtype=np.intp)

    @classmethod
    def draw(cls, sizes: Sequence[int], seeds: Sequence[int]) -> LeftOut:
        """Draw the rows of training sets of these sizes."""
        return cls([draw_left_out(size, seed) for size, seed in zip(sizes, seeds, strict=True)])

    def add(self, rows: CleanRows, labels: Labels) -> None:
        """Keep those rows of a chunk that are left out of some training set."""
        members = np.zeros((len(labels), len(self.parts)), dtype=bool)
        for fold, part in enumerate(self.parts):
            training = np.arange(len(labels)) if len(self.parts) == 1 else np.flatnonzero(labels != fold)
            start = self._seen[fold]
            first, last = np.searchsorted(part, (start, start + len(training)))
            members[training[part[first:last] - start], fold] = True
            self._seen[fold] += len(training)
        kept = np.flatnonzero(members.any(axis=1))
        if kept.size:
            self._rows.append(rows.take(kept))
            self._members.append(members[kept])

    def designs(self, plan: Plan) -> list[Design]:
        """For each training set, the rows that are left out in turn."""
        frames = [with_levels(rows.frame, plan.facts.levels) for rows in self._rows]
        together = replace(
            self._rows[0],
            frame=pd.concat(frames, ignore_index=True),
            sampling=np.concatenate([rows.sampling for rows in self._rows]),
            frequency=np.concatenate([rows.frequency for rows in self._rows]),
            hashes=np.concatenate([rows.hashes for rows in self._rows]),
            fold_labels=None,
        )
        self._rows.clear()
        members = np.concatenate(self._members)
        design = plan.design(together)
        return [design.take(np.flatnonzero(members[:, fold])) for fold in range(len(self.parts))]


def gram_pass(
    reader: RowReader, plan: Plan, coordinates: Coordinates, left_out: LeftOut | None = None
) -> list[FoldSums]:
    """Add up Gram matrices, targets and moments, one set of sums per fold; ``left_out`` collects rows on the way."""
    components = len(plan.components)
    sums = [FoldSums.zero(len(coordinates.names), components) for _ in plan.facts.fold_labels]
    for rows in reader.chunks():
        if rows.frame.empty:
            continue
        labels = plan.facts.folds(rows)
        if left_out is not None:
            left_out.add(rows, labels)
        order = np.argsort(labels, kind="stable")  # so that the rows of a fold are a slice
        design = plan.design(rows.take(order))
        z, targets, weights = design.z, np.vstack([design.y, design.anchor.observed]), design.weights
        v = coordinates.apply(z)
        edges = np.searchsorted(labels[order], np.arange(len(sums) + 1))
        moments = _moments(design, z, weights, edges)
        for fold, place in enumerate(map(slice, edges[:-1], edges[1:])):
            sums[fold].add(v[place], targets[:, place], moments[fold], weights[place])
    return sums


def _moments(design: Design, z: Array, weights: Array, edges: npt.NDArray[np.intp]) -> Array:
    """Sums of the moments of every column, shape (folds, K, p)."""
    total = np.empty((len(edges) - 1, design.components, z.shape[1]))
    for c in range(design.components):
        m = design.moment_rows(c, z)
        for fold, place in enumerate(map(slice, edges[:-1], edges[1:])):
            total[fold, c] = weights[place] @ m[place]
    return total
