"""Tables that keep a column with one value for all rows only once.

With many arms a reading sets the indicators of all arms, each to one number for all rows. Kept row by row, the readings would take
memory in proportion to the square of the number of arms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array, Rows
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Compact:
    """A table of n rows and q columns, of which v vary.

    Attributes
    ----------
    constants : ndarray, shape (q,)
        The values of columns that do not vary; zero for the others.
    places : ndarray of int, shape (v,)
        The columns that vary, in ascending order.
    varying : ndarray, shape (n, v)
    """

    constants: Array
    places: npt.NDArray[np.intp]
    varying: Array

    @property
    def is_constant(self) -> bool:
        """Whether all rows are the same."""
        return not self.places.size

    def dense(self, rows: Rows = slice(None)) -> Array:
        """The table, or some of its rows, as an array that must not be changed."""
        varying = self.varying[rows]
        if len(self.places) == len(self.constants):
            return varying
        table = np.broadcast_to(self.constants, (len(varying), len(self.constants)))
        if self.is_constant:
            return table
        table = table.copy()
        table[:, self.places] = varying
        return table

    def distinct(self) -> Array:
        """The table as one row if all rows are the same, otherwise :meth:`dense`."""
        return self.constants[None] if self.is_constant else self.dense()

    def take(self, rows: Rows) -> Compact:
        """Some of the rows."""
        return Compact(self.constants, self.places, self.varying[rows])

    def is_nonzero(self, column: int) -> bool:
        """Whether a column is, or may be, different from zero in some row."""
        return bool(self.constants[column] != 0 or (self.places == column).any())

    def columns(self, which: npt.NDArray[np.bool_]) -> Compact:
        """Some of the columns."""
        places = np.cumsum(which) - 1
        stays = which[self.places]
        return Compact(self.constants[which], places[self.places[stays]], self.varying[:, stays])


def compact(table: Array) -> Compact:
    """Keep constant columns once.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.design.constant_columns import compact
    >>> table = compact(np.array([[1.0, 5.0], [1.0, 6.0]]))
    >>> table.varying.ravel().tolist(), table.dense().tolist()
    ([5.0, 6.0], [[1.0, 5.0], [1.0, 6.0]])
    """
    varies = (table != table[0]).any(axis=0)
    if varies.all():
        return as_it_is(table)
    return Compact(np.where(varies, 0.0, table[0]), np.flatnonzero(varies), np.ascontiguousarray(table[:, varies]))


def as_it_is(table: Array) -> Compact:
    """The table without a search for constant columns; nothing is copied."""
    return Compact(np.zeros(table.shape[1]), np.arange(table.shape[1]), table)
