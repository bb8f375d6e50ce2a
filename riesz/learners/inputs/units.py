"""The units of inputs, by which they are divided before they are penalised or used by a network."""

from __future__ import annotations

import numpy as np

from riesz.arrays import Array


def units(columns: Array, share: Array, constant: float) -> Array:
    """The numbers by which columns are divided: standard deviations, or the range of columns with two values.

    The standard deviation of a rare dummy is small. Divided by it, the dummy would be far larger than the other inputs in its few
    rows.

    Parameters
    ----------
    columns : ndarray, shape (n, d)
    share : ndarray, shape (n,)
        Weights of the rows, with sum one.
    constant : float
        The number by which columns that do not vary are divided.
    """
    least, most = columns.min(axis=0), columns.max(axis=0)
    centre = share @ columns
    spread = np.sqrt(share @ (columns - centre) ** 2)
    two = ((columns == least) | (columns == most)).all(axis=0)
    return np.where(spread > 1e-9 * np.abs(centre), np.where(two, most - least, spread), constant)
