r"""Clusters of a simulation: villages with random effects.

Noise in a simulation starts as standard normal numbers. With villages these are
:math:`\sqrt{\rho}\, u_{village} + \sqrt{1 - \rho}\, e_i`: still standard normal in each row, so that mu, the propensity and
every estimand are the same as without villages, but with correlation :math:`\rho` within a village.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array


@dataclass(frozen=True)
class Villages:
    """Groups of rows with random effects in the treatment and, independently of them, in the outcome.

    Parameters
    ----------
    name : str
        The column of the village's number.
    smallest, largest : int
        Sizes are uniform between these.
    in_treatment, in_outcome : float
        The correlation of the latent numbers within a village. Clustered standard errors of an ATE differ much from plain ones
        only if both are positive.
    """

    name: str
    smallest: int
    largest: int
    in_treatment: float
    in_outcome: float

    def draw(self, n: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
        """The village of each row, shape (n,); the last one may be incomplete."""
        sizes = generator.integers(self.smallest, self.largest + 1, size=n // self.smallest + 1)
        return np.repeat(np.arange(len(sizes)), sizes)[:n]


def shared_normal(villages: npt.NDArray[np.int64], share: float, generator: np.random.Generator) -> Array:
    """Standard normal numbers, shape (n,), with correlation ``share`` within a village."""
    common = generator.standard_normal(int(villages.max()) + 1)[villages]
    return np.asarray(np.sqrt(share) * common + np.sqrt(1 - share) * generator.standard_normal(len(villages)))
