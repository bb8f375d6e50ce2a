r"""Effects in groups, from the scores of a fit.

The effects solve :math:`E_n[b (s - n\, b'\theta)] = 0` with the scores s and the normalizer n of the fit; b are indicators of the
groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.design.table import Groups
from riesz.diagnostics.warnings import CLUSTERS
from riesz.errors import DataError, listing
from riesz.inference import Clusters, Projection
from riesz.results.effects import Effects, Words, projected_effects
from riesz.results.parts import FitParts
from riesz.syntax.caller import warn

_FEW = 30  # rows; for a smaller group a note says that its normal interval is too short


def effects_in_groups(parts: FitParts, groups: Any) -> Effects:
    """The parameters within groups; see ``Results.by``."""
    model, names = parts.model, parts.names
    grouped = model.table.groups(groups, model.kept)
    normalizer = model.blueprint.design.normalizer
    usable = [_usable(grouped, n, name, parts.clusters.codes) for n, name in zip(normalizer, names, strict=True)]
    bases = [np.equal.outer(grouped.codes, levels).astype(float) for levels in usable]
    inside = grouped.codes >= 0
    frequency = model.weights.frequency[inside]
    sizes = np.bincount(grouped.codes[inside], weights=frequency, minlength=len(grouped.levels))
    labels = pd.DataFrame(
        [
            (f"{name}_{grouped.levels[level]}", name, grouped.levels[level], round(sizes[level]))
            for name, levels in zip(names, usable, strict=True)
            for level in levels
        ],
        columns=["term", "parameter", "group", "n"],
    )
    words = Words(
        title=f"{', '.join(names)} by {grouped.name}",
        subtitle="each an average within a group: E[score | group] / E[normalizer | group]",
        facts=[("Groups", str(len(grouped.levels)))],
        notes=_notes(grouped, sizes, parts.clusters.codes),
        hypothesis="Same in all groups",
    )
    projection = Projection(bases, np.hstack(bases) > 0)
    return projected_effects(parts, projection, labels, words, _equal_effects(labels["parameter"]), inside)


def _usable(groups: Groups, normalizer: Array, name: str, clusters: Clusters) -> list[int]:
    """The groups in which a parameter has a standard error: at least two rows (or clusters) contribute to it."""
    clusterings = clusters or (np.arange(len(normalizer)),)
    contributing = [(groups.codes == level) & (normalizer != 0) for level in range(len(groups.levels))]
    counts = [min(len(np.unique(units[rows])) for units in clusterings) for rows in contributing]
    dropped = [level for level, count in zip(groups.levels, counts, strict=True) if count < 2]
    if len(dropped) == len(counts):
        raise DataError(f"{name} cannot be estimated in any group of `{groups.name}`: each has fewer than two units.")
    if dropped:
        where = f"{listing(dropped)} of `{groups.name}`"
        warn(f"{name} is not estimated in {where}: fewer than two units there contribute to it.")
    return [level for level, count in enumerate(counts) if count >= 2]


def _equal_effects(parameters: pd.Series) -> dict[str, Array]:
    """For each parameter the matrix of differences between every group and the next."""
    identity, differences = np.eye(len(parameters)), {}
    for name in parameters.unique():
        rows = identity[(parameters == name).to_numpy()]
        if len(rows) > 1:
            differences[str(name)] = rows[1:] - rows[:-1]
    return differences


def _notes(groups: Groups, sizes: npt.NDArray[np.generic], clusters: Clusters) -> list[str]:
    notes = []
    missing = int((groups.codes < 0).sum())
    if missing:
        notes.append(f"{missing:,} rows have no {groups.name} and are in no group.")
    for codes in clusters:
        counts = [len(np.unique(codes[groups.codes == level])) for level in range(len(groups.levels))]
        few = [level for level, count in zip(groups.levels, counts, strict=True) if 0 < count < CLUSTERS]
        if few:
            notes.append(f"Fewer than {CLUSTERS} clusters in {listing(few)}: normal intervals are then too short.")
            return notes
    few = [level for level, size in zip(groups.levels, sizes, strict=True) if 0 < size < _FEW]
    if few:
        notes.append(f"Fewer than {_FEW} rows in {listing(few)}: normal intervals are then too short.")
    return notes
