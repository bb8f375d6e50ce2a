r"""Functions b(a) of the treatment, in which mu and rr are linear at every x.

For arms they are the arms' indicators, for a number powers of it. They are scaled on a training set so that :math:`E_n[b b'] = I`:
then penalties and splits do not depend on the treatment's units, or on which powers span the functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array, ratio
from riesz.design.design import Design
from riesz.storage.coding import stored

_LEAST = 1e-10  # share of the largest eigenvalue; directions with a smaller one do not vary


@stored
@dataclass(frozen=True)
class Dictionary:
    """The functions b.

    Attributes
    ----------
    arms : bool
        Whether the functions are indicators of arms; then every product of two different ones is zero.
    centre, scale : float
        Of a treatment that is a number, before its powers are taken.
    transform : ndarray, shape (s, d)
        From s arms or powers to b; for arms the s numbers by which indicators are multiplied, shape (s, 1).
    """

    arms: bool
    centre: float
    scale: float
    transform: Array

    @property
    def size(self) -> int:
        """Number of functions, d."""
        return int(self.transform.shape[0 if self.arms else 1])

    @property
    def products(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The pairs of functions whose products are not always zero, each once."""
        every = np.arange(self.size)
        return (every, every) if self.arms else np.triu_indices(self.size)

    def values(self, treatment: Array) -> Array:
        """The functions at raw treatments of shape (m, t), shape (m, d)."""
        if self.arms:
            return np.column_stack([1.0 - treatment.sum(axis=1), treatment]) * self.transform[:, 0]
        return np.asarray(self._powers(treatment) @ self.transform)

    def slopes(self, treatment: Array) -> Array:
        """Derivatives of b along a treatment that is a number, shape (m, d)."""
        powers, numbers = self._powers(treatment), np.arange(len(self.transform))
        raw = np.column_stack([np.zeros(len(powers)), powers[:, :-1]]) * (numbers / self.scale)
        return np.asarray(raw @ self.transform)

    def _powers(self, treatment: Array) -> Array:
        return np.vander((treatment[:, 0] - self.centre) / self.scale, len(self.transform), increasing=True)


def make_dictionary(design: Design, degree: int) -> Dictionary:
    """Indicators of arms, or powers up to a degree, scaled on the rows of a design."""
    treatment, share = design.treatment, design.weights / design.weights.sum()
    if design.strata is not None:
        plain = Dictionary(True, 0.0, 1.0, np.ones((treatment.shape[1] + 1, 1)))
        return Dictionary(True, 0.0, 1.0, ratio(np.ones(1), np.sqrt(share @ plain.values(treatment)), 0.0)[:, None])
    centre = float(share @ treatment[:, 0])
    scale = float(np.sqrt(share @ (treatment[:, 0] - centre) ** 2)) or 1.0
    powers = Dictionary(False, centre, scale, np.eye(degree + 1)).values(treatment)
    size, axes = np.linalg.eigh(powers.T @ (share[:, None] * powers))
    kept = size > _LEAST * size[-1]
    return Dictionary(False, centre, scale, axes[:, kept] / np.sqrt(size[kept]))
