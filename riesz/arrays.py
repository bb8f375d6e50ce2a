"""Types of arrays, and a division that allows for zeros."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp] | slice


def ratio(top: Array, bottom: Array | float, otherwise: float = np.nan) -> Array:
    """Top over bottom, element by element; ``otherwise`` where the bottom is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.arrays import ratio
    >>> ratio(np.array([1.0, 2.0]), np.array([2.0, 0.0]), otherwise=0.0).tolist()
    [0.5, 0.0]
    """
    shape = np.broadcast_shapes(np.shape(top), np.shape(bottom))
    return np.asarray(np.divide(top, bottom, out=np.full(shape, otherwise), where=np.not_equal(bottom, 0)))
