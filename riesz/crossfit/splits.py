"""Splits: the rows that a fit is trained on, and those that it predicts.

In: fold labels of every row, one or two of each. Out: splits, checked against the arms and the clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from riesz.crossfit.folds import Labels
from riesz.design.table import ClusterLabels
from riesz.errors import DataError
from riesz.syntax.caller import warn


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to predict.

    Attributes
    ----------
    train, test : ndarray of int
    """

    train: Labels
    test: Labels


def make_splits(labels: Sequence[Labels]) -> list[Split]:
    """Splits from fold labels: one per label, or with labels in two dimensions (two-way clusters) one per pair of labels.

    The split of a pair trains on the rows that have neither label, so that no cluster of either dimension is on both sides
    (Chiang, Kato, Ma and Sasaki 2022).
    """
    first = labels[0]
    if len(labels) == 1:
        values = np.unique(first)
        if len(values) == 1:
            everyone = np.arange(len(first))
            return [Split(everyone, everyone)]
        return [Split(np.flatnonzero(first != v), np.flatnonzero(first == v)) for v in values]
    second = labels[1]
    pairs = [
        Split(np.flatnonzero((first != u) & (second != v)), np.flatnonzero((first == u) & (second == v)))
        for u in np.unique(first)
        for v in np.unique(second)
    ]
    return [split for split in pairs if len(split.test)]


def warn_of_cut_clusters(splits: Sequence[Split], clusters: ClusterLabels) -> None:
    """Warn if a split trains on some rows of a cluster and predicts others."""
    for name, codes in zip(clusters.names, clusters.codes, strict=True):
        both = [np.intersect1d(codes[split.train], codes[split.test]) for split in splits]
        cut, count = len(np.unique(np.concatenate(both))), int(codes.max()) + 1
        if cut:
            warn(
                f"The folds split {cut} of {count} clusters of `{name}`: some rows of a cluster are trained on and others "
                "predicted, so standard errors may be too small. Fit with cluster=, or give all rows of a cluster the same fold."
            )


def check_splits(splits: Sequence[Split], arms: Labels | None, levels: Sequence[str], name: str) -> None:
    """Refuse splits whose training rows lack an arm."""
    for number, split in enumerate(splits):
        if not len(split.train):
            raise DataError(f"Split {number + 1} has no training rows. Use other folds or fewer of them.")
        if arms is None:
            continue
        seen = np.unique(arms[split.train])
        missing = [str(level) for code, level in enumerate(levels) if code not in seen]
        if missing:
            raise DataError(
                f"The training rows of split {number + 1} have no row with {name}={missing[0]}. Use fewer folds, or fold labels "
                "with every arm in at least two folds."
            )
