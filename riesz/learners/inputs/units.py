"""What inputs are divided by before they are penalised or learned from."""

from __future__ import annotations

import numpy as np

from riesz.arrays import Array


def units(columns: Array, share: Array, constant: float) -> Array:
    """What columns are divided by: standard deviations, but the range where there are two values.

    The deviation of a dummy says how rare it is. Divided by it, a rare one would tower over the other inputs in its few rows.

    Parameters
    ----------
    columns : ndarray, shape (n, d)
    share : ndarray, shape (n,)
        Weights of the rows, with sum one.
    constant : float
        What columns are divided by that do not vary.
    """
    least, most = columns.min(axis=0), columns.max(axis=0)
    centre = share @ columns
    spread = np.sqrt(share @ (columns - centre) ** 2)
    two = ((columns == least) | (columns == most)).all(axis=0)
    return np.where(spread > 1e-9 * np.abs(centre), np.where(two, most - least, spread), constant)
