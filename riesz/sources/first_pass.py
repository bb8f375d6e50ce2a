"""The first pass over a source: what an in-memory fit takes from all rows at once.

Levels of factors, means and standard deviations, the arms in every fold, sums of weights, and a few hundred reference rows that
contain every level and the extremes of every number: the formula is fitted on them, and constants such as means replaced.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.errors import DataError
from riesz.estimands.treatment import MOST_NUMERIC_ARMS
from riesz.sources.fold_hash import Labels, fold_of
from riesz.sources.rows import CleanRows, RowReader, with_levels

_REFERENCE = 2000  # rows that are drawn at random, besides those with extremes and new levels
_MOST_LEVELS = 1000  # of a factor


@dataclass(frozen=True)
class Facts:
    """What all rows together say.

    Attributes
    ----------
    rows, used : int
    levels : dict of str to pandas.CategoricalDtype
        Of the columns that hold labels.
    location : dict of str to (float, float)
        Mean and standard deviation (divided by n - 1) of the numbers.
    weighted_mean : dict of str to float
    sampling_mean : float
        The mean sampling weight.
    weight, frequency : float
        Sums of the weights and of the frequencies.
    fold_labels : tuple
        The labels of the folds, in order.
    fold_rows : ndarray, shape (folds,)
        Rows in each fold.
    arms : Counter of (arm, fold), or None
        Rows; None if the treatment has many values.
    reference : pandas.DataFrame
    """

    rows: int
    used: int
    levels: dict[str, pd.CategoricalDtype]
    location: dict[str, tuple[float, float]]
    weighted_mean: dict[str, float]
    sampling_mean: float
    weight: float
    frequency: float
    fold_labels: tuple[Any, ...]
    fold_rows: Array
    arms: Counter[tuple[Any, int]] | None
    reference: pd.DataFrame

    def folds(self, rows: CleanRows) -> Labels:
        """The number of each row's fold."""
        if rows.fold_labels is None:
            return fold_of(rows.hashes, len(self.fold_labels))
        return np.asarray(pd.Index(self.fold_labels).get_indexer(rows.fold_labels.astype(object)), dtype=np.intp)


def first_pass(reader: RowReader, treatment: str, folds: int | None, factors: frozenset[str]) -> Facts:
    """Read all rows once.

    Parameters
    ----------
    reader : RowReader
    treatment : str
        A column.
    folds : int or None
        Their number; None if a column gives labels.
    factors : frozenset of str
        Columns that the formula uses as factors, whatever they hold.
    """
    seen = _Seen(treatment, folds, factors)
    for rows in reader.chunks():
        seen.add(rows)
    return seen.facts()


@dataclass
class _Sums:
    """Sums of a column around its first value."""

    origin: float
    first: float = 0.0
    second: float = 0.0
    weighted: float = 0.0
    lowest: float = np.inf
    highest: float = -np.inf


@dataclass
class _Seen:
    """What the chunks so far say."""

    treatment: str
    folds: int | None
    factors: frozenset[str]
    rows: int = 0
    used: int = 0
    sampling: float = 0.0
    weight: float = 0.0
    frequency: float = 0.0
    levels: dict[str, dict[Any, None]] = field(default_factory=dict)
    numeric: dict[str, set[float]] = field(default_factory=dict)
    sums: dict[str, _Sums] = field(default_factory=dict)
    fold_rows: Counter[Any] = field(default_factory=Counter)
    arms: Counter[tuple[Any, Any]] | None = field(default_factory=Counter)
    random: pd.DataFrame | None = None
    hashes: Any = None
    special: list[pd.DataFrame] = field(default_factory=list)
    extremes: dict[tuple[str, str], pd.DataFrame] = field(default_factory=dict)

    def add(self, rows: CleanRows) -> None:
        self.rows += rows.total
        if rows.frame.empty:
            return
        self.used += len(rows.frame)
        self.sampling += float(rows.sampling.sum())
        self.weight += float(rows.weights.sum())
        self.frequency += float(rows.frequency.sum())
        for name in rows.frame.columns:
            if isinstance(rows.frame[name].dtype, pd.CategoricalDtype):
                self._add_labels(name, rows.frame)
            else:
                self._add_numbers(name, rows)
                if name in self.factors and name != self.treatment:
                    self._add_levels(name, rows.frame, _MOST_LEVELS)
        labels = fold_of(rows.hashes, self.folds) if self.folds else rows.fold_labels
        self._add_folds(pd.Series(labels), rows.frame)
        self._add_random(rows)

    def _add_labels(self, name: str, frame: pd.DataFrame) -> None:
        known, column = self.levels.setdefault(name, {}), frame[name]
        codes, first = np.unique(column.cat.codes.to_numpy(), return_index=True)
        for code, place in zip(codes, first, strict=True):
            level = column.cat.categories[code]
            if level not in known:
                known[level] = None
                self.special.append(frame.iloc[[place]])
        if len(known) > _MOST_LEVELS:
            raise DataError(
                f"Column `{name}` has more than {_MOST_LEVELS:,} distinct labels; as a factor it would add a column for each. "
                "Leave it out of the formula, or merge levels."
            )

    def _add_numbers(self, name: str, rows: CleanRows) -> None:
        values = rows.frame[name].to_numpy()
        sums = self.sums.setdefault(name, _Sums(float(values[0])))
        gap = values - sums.origin
        sums.first += float(gap.sum())
        sums.second += float(gap @ gap)
        sums.weighted += float(rows.weights @ gap)
        low, high = int(values.argmin()), int(values.argmax())
        if values[low] < sums.lowest:
            sums.lowest, self.extremes[name, "low"] = float(values[low]), rows.frame.iloc[[low]]
        if values[high] > sums.highest:
            sums.highest, self.extremes[name, "high"] = float(values[high]), rows.frame.iloc[[high]]

    def _add_folds(self, labels: pd.Series, frame: pd.DataFrame) -> None:
        self.fold_rows.update(labels.value_counts().to_dict())
        if self.arms is None:
            return
        treatment = frame[self.treatment]
        if treatment.dtype == np.float64:
            self._add_levels(self.treatment, frame, MOST_NUMERIC_ARMS)
            if len(self.numeric[self.treatment]) > MOST_NUMERIC_ARMS:
                self.arms = None
                return
        counts = pd.DataFrame({"arm": treatment.astype(object), "fold": labels.astype(object)}).value_counts()
        self.arms.update(counts.to_dict())

    def _add_levels(self, name: str, frame: pd.DataFrame, most: int) -> None:
        """Keep a row with each new value of a number, until there are more than ``most``."""
        known = self.numeric.setdefault(name, set())
        if len(known) > most:
            return
        values, first = np.unique(frame[name].to_numpy(), return_index=True)
        for value, place in zip(values[: most + 1], first, strict=False):
            if value not in known:
                known.add(value)
                self.special.append(frame.iloc[[place]])

    def _add_random(self, rows: CleanRows) -> None:
        """Keep the rows with the smallest hashes."""
        worst = np.inf if self.hashes is None or len(self.hashes) < _REFERENCE else self.hashes.max()
        chosen = np.flatnonzero(rows.hashes < worst)
        if not chosen.size:
            return
        chosen = chosen[np.argsort(rows.hashes[chosen], kind="stable")[:_REFERENCE]]
        frames, hashes = [rows.frame.iloc[chosen]], [rows.hashes[chosen]]
        if self.random is not None:
            frames, hashes = [self.random, *frames], [self.hashes, *hashes]
        both = np.concatenate(hashes)
        order = np.argsort(both, kind="stable")[:_REFERENCE]
        self.random = _stack(frames).iloc[order].reset_index(drop=True)
        self.hashes = both[order]

    def facts(self) -> Facts:
        if not self.rows:
            raise DataError("The data are empty (0 rows). Check the files.")
        if self.random is None:
            raise DataError("Every row has a missing value or a weight of zero. Leave the emptiest columns out.")
        levels = {
            name: pd.CategoricalDtype(pd.Index(sorted(known), dtype=object)) for name, known in self.levels.items()
        }
        labels = tuple(range(self.folds)) if self.folds else tuple(sorted(self.fold_rows))
        place = {label: number for number, label in enumerate(labels)}
        arms = None
        if self.arms is not None:
            arms = Counter({(arm, place[label]): count for (arm, label), count in self.arms.items()})
        n = self.used
        location = {name: _location(sums, n) for name, sums in self.sums.items()}
        return Facts(
            rows=self.rows,
            used=n,
            levels=levels,
            location=location,
            weighted_mean={name: sums.origin + sums.weighted / self.weight for name, sums in self.sums.items()},
            sampling_mean=self.sampling / n,
            weight=self.weight,
            frequency=self.frequency,
            fold_labels=labels,
            fold_rows=np.array([self.fold_rows[label] for label in labels]),
            arms=arms,
            reference=with_levels(_stack([self.random, *self.special, *self.extremes.values()]), levels),
        )


def _location(sums: _Sums, n: int) -> tuple[float, float]:
    shift = sums.first / n
    variance = max(sums.second - n * shift**2, 0.0) / max(n - 1, 1)
    return sums.origin + shift, float(np.sqrt(variance))


def _stack(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Frames one below the other; labels as objects, because every chunk has its own levels."""
    labels = [name for name, dtype in frames[0].dtypes.items() if dtype != np.float64]
    plain = [frame.astype(dict.fromkeys(labels, object)) for frame in frames] if labels else frames
    return pd.concat(plain, ignore_index=True)
