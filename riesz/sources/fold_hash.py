"""Folds of rows that are never all in memory: a hash of the seed, the number of the file and the number of the row in it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.intp]

_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = 2**64 - 1


def row_hashes(seed: int, file: int, first: int, rows: int) -> npt.NDArray[np.uint64]:
    """One pseudo-random number per row (splitmix64), shape (rows,); it does not depend on how rows are cut into chunks."""
    start = _mix_number(_mix_number(seed & _MASK) + file + 1)
    x = np.arange(first + 1, first + 1 + rows, dtype=np.uint64) * np.uint64(_STEP) + np.uint64(start)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
    return np.asarray(x ^ (x >> np.uint64(31)))


def fold_of(hashes: npt.NDArray[np.uint64], folds: int) -> Labels:
    """The fold of each row.

    Examples
    --------
    >>> from riesz.sources.fold_hash import fold_of, row_hashes
    >>> labels = fold_of(row_hashes(seed=0, file=0, first=0, rows=10_000), 2)
    >>> print(f"{labels.mean():.1f}")
    0.5
    """
    return ((hashes >> np.uint64(11)) % np.uint64(folds)).astype(np.intp)


def _mix_number(x: int) -> int:
    x = (x + _STEP) & _MASK
    x = ((x ^ (x >> 30)) * _FIRST) & _MASK
    x = ((x ^ (x >> 27)) * _SECOND) & _MASK
    return x ^ (x >> 31)
