"""Types of arrays, a division that allows for zeros, and a mean of several arrays."""

from __future__ import annotations

from collections.abc import Sequence

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


def mean_of(arrays: Sequence[Array]) -> Array:
    """The mean of arrays of the same shape, element by element; the array itself if there is one.

    ``np.mean`` would first copy all of them into one array.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.arrays import mean_of
    >>> mean_of([np.array([1.0, 2.0]), np.array([3.0, 6.0])]).tolist()
    [2.0, 4.0]
    """
    if len(arrays) == 1:
        return arrays[0]
    total = arrays[0] + arrays[1]
    for array in arrays[2:]:
        total += array
    total /= len(arrays)
    return total
