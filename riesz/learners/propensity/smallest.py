r"""The smallest propensity that a Riesz representer divides by.

Where rr divides by a propensity below :math:`5 / (\sqrt{n} \log n)`, with n training rows, it divides by that number instead
(Gruber, Phillips, Lee and van der Laan 2022), or by half of the rarest arm's share if that is smaller: smaller propensities make rr
noisier than they make it accurate.

References
----------
Gruber, Phillips, Lee and van der Laan (2022), "Data-adaptive selection of the propensity score truncation level for
inverse-probability-weighted and targeted maximum likelihood estimators of marginal point treatment effects".
"""

from __future__ import annotations

import numpy as np

from riesz.design.design import Design


def smallest(rows: int, rarest: float) -> float:
    """The smallest propensity that rr divides by.

    Parameters
    ----------
    rows : int
        Number of training rows.
    rarest : float
        Share of the rarest arm.

    Examples
    --------
    >>> from riesz.learners.propensity.smallest import smallest
    >>> round(smallest(1000, 0.3), 3), round(smallest(100_000, 0.3), 4), smallest(1000, 0.02)
    (0.023, 0.0014, 0.01)
    """
    return float(min(5.0 / (np.sqrt(rows) * np.log(rows)), 0.1, rarest / 2))


def rarest_share(design: Design) -> float:
    """The share of the rarest arm in the weights of the rows; 1 without arms."""
    if design.strata is None:
        return 1.0
    weights = np.bincount(design.strata, design.weights, minlength=design.treatment.shape[1] + 1)
    return float(weights.min() / weights.sum())
