r"""Villages whose members share part of their luck.

Noise in a simulation starts as standard normal numbers. With villages these are
:math:`\sqrt{\rho}\, u_{village} + \sqrt{1 - \rho}\, e_i`: still standard normal for each row, so mu, the propensity and every
estimand stay what they are without villages, but correlated :math:`\rho` within a village.
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
        The column with the village's number.
    smallest, largest : int
        Sizes are uniform between the two.
    in_treatment, in_outcome : float
        Share of the latent variance that a village's members have in common. Only when both are positive do clustered
        standard errors of an ATE differ much from plain ones.
    """

    name: str
    smallest: int
    largest: int
    in_treatment: float
    in_outcome: float

    def draw(self, n: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
        """The village of each row, shape (n,); the last one may be cut short."""
        sizes = generator.integers(self.smallest, self.largest + 1, size=n // self.smallest + 1)
        return np.repeat(np.arange(len(sizes)), sizes)[:n]


def shared_normal(villages: npt.NDArray[np.int64], share: float, generator: np.random.Generator) -> Array:
    """Standard normal numbers, shape (n,), correlated ``share`` within a village."""
    common = generator.standard_normal(int(villages.max()) + 1)[villages]
    return np.asarray(np.sqrt(share) * common + np.sqrt(1 - share) * generator.standard_normal(len(villages)))
