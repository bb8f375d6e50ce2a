"""The splits of every repeat: drawn from the seed, or from the user's fold labels; checked against arms and clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from riesz.crossfit.copies import find_copies
from riesz.crossfit.folds import Labels, draw_labels
from riesz.crossfit.splits import Split, check_splits, make_splits, warn_of_cut_clusters
from riesz.design.design import Blueprint
from riesz.design.table import ClusterLabels
from riesz.errors import DataError
from riesz.settings import Settings
from riesz.syntax.check_arguments import shown


def split_rows(
    blueprint: Blueprint, settings: Settings, clusters: ClusterLabels, fold_labels: pd.Series | None
) -> list[list[Split]]:
    """Split the rows in use, once per repeat.

    Parameters
    ----------
    blueprint : Blueprint
    settings : Settings
    clusters : ClusterLabels
    fold_labels : pandas.Series or None
        The user's fold labels of the rows in use, if ``folds`` gives labels.

    Returns
    -------
    list of list of Split
        One list per repeat.
    """
    treatment, arms = blueprint.treatment, blueprint.design.strata
    levels = [treatment.label(level) for level in treatment.levels]
    if fold_labels is None:
        labels = _draw_all(blueprint, settings, clusters)
    else:
        labels = [[_given_labels(fold_labels, settings)]]
        warn_of_cut_clusters(make_splits(labels[0]), clusters)
    splits = [make_splits(repeat) for repeat in labels]
    for repeat in splits:
        check_splits(repeat, arms, levels, treatment.name)
    return splits


def _given_labels(fold_labels: pd.Series, settings: Settings) -> Labels:
    if (settings.repeats or 1) > 1:
        raise DataError(
            "folds gives labels and repeats is larger than 1, so each repeat would use the same folds. Use repeats=1."
        )
    labels = np.asarray(pd.factorize(fold_labels, sort=True)[0], dtype=np.intp)
    if labels.max() == 0:
        raise DataError("folds has a single label; expected at least two, or folds=1 for no sample splitting.")
    return labels


def _draw_all(blueprint: Blueprint, settings: Settings, clusters: ClusterLabels) -> list[list[Labels]]:
    """Fold labels per repeat and dimension of the clusters."""
    design, folds = blueprint.design, int(settings.folds)
    n, treatment = len(design), blueprint.treatment
    if folds > n:
        raise DataError(f"folds={shown(settings.folds)}, but only {n} rows are in use. Use fewer folds.")
    _check_arms(folds, design.strata, treatment.name, [treatment.label(level) for level in treatment.levels])
    _check_clusters(folds, clusters)
    copies = None if clusters.codes else find_copies(design)
    units = n if copies is None else int(copies.max()) + 1
    if folds > units:
        raise DataError(
            f"folds={folds}, but only {units} rows are distinct, and copies of a row are kept in one fold. Use fewer folds."
        )
    seeds = np.random.SeedSequence([settings.seed, 0]).spawn(_repeats(settings, folds, units, clusters))
    if folds == 1:
        return [[np.zeros(n, dtype=np.intp)] for _ in seeds]
    return [_draw(folds, n, copies, design.strata, clusters, np.random.default_rng(seed)) for seed in seeds]


def _repeats(settings: Settings, folds: int, n: int, clusters: ClusterLabels) -> int:
    """The number that the user gave, or what the learner recommends; one if there are no folds to draw again."""
    if settings.repeats is not None:
        return settings.repeats
    if folds == 1:
        return 1
    units = min([n, *(len(np.unique(codes)) for codes in clusters.codes)])
    return settings.learner.usual_repeats(units)


def _draw(
    folds: int,
    n: int,
    copies: Labels | None,
    arms: Labels | None,
    clusters: ClusterLabels,
    rng: np.random.Generator,
) -> list[Labels]:
    """Fold labels per dimension of the clusters; copies of a row get the label of the row."""
    if copies is not None:
        _, first = np.unique(copies, return_index=True)
        return [draw_labels(len(first), folds, None if arms is None else arms[first], None, rng)[copies]]
    return [draw_labels(n, folds, arms, groups, rng) for groups in clusters.codes or (None,)]


def _check_arms(folds: int, arms: Labels | None, treatment: str, levels: Sequence[str]) -> None:
    if folds == 1 or arms is None:
        return
    counts = np.bincount(arms, minlength=len(levels))
    if counts.min() < folds:
        rare = int(counts.argmin())
        raise DataError(
            f"Arm {treatment}={levels[rare]} has {counts[rare]} rows, fewer than folds={folds}, so some fold would lack it. Use "
            "fewer folds, merge arms, or drop this one."
        )


def _check_clusters(folds: int, clusters: ClusterLabels) -> None:
    for name, codes in zip(clusters.names, clusters.codes, strict=True):
        count = int(codes.max()) + 1
        if folds > count:
            raise DataError(f"folds={folds}, but cluster `{name}` has only {count} clusters. Use fewer folds.")
