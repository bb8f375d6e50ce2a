r"""The density of a quantile's residuals, as kernel weights: what the Riesz loss of a quantile regression is weighted by.

A quantile q is where :math:`E[\tau - 1\{y \le q\} \mid z] = 0`. If q moves by f, this changes by -f(q|z) f, with f(q|z) the
density of the outcome at its quantile. So rr represents the moment in the inner product weighted by it,

.. math:: E[f(q|z)\, \alpha f] = h(f), \qquad E[f(q|z)\, \alpha f] = \lim_{b \to 0} E[K_b(y - q)\, \alpha f],

and weights :math:`K_b(y - q)`, with a normal kernel K, stand for the density, which is not learned. The bandwidth is Silverman's,

.. math:: b = 0.9\, \min(\mathrm{sd}, \mathrm{IQR} / 1.34)\, n^{-1/5}

of the residuals y - q, with Kish's effective number of rows for n.

References
----------
Koenker (2005), "Quantile regression", section 3.4. Silverman (1986), "Density estimation for statistics and data analysis".
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation

_LEAST = 1e-8  # share of the largest weight; not zero, because moments are divided by the weights


def bandwidth(residuals: Array, weights: Array) -> float:
    """Silverman's bandwidth b.

    Parameters
    ----------
    residuals, weights : ndarray, shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.design.density import bandwidth
    >>> round(bandwidth(np.random.default_rng(1).standard_normal(1000), np.ones(1000)), 2)
    0.22
    """
    share = weights / weights.sum()
    order = np.argsort(residuals, kind="stable")
    low, high = np.interp([0.25, 0.75], np.cumsum(share[order]), residuals[order])
    centre = float(share @ residuals)
    spread = float(np.sqrt(share @ (residuals - centre) ** 2))
    size = min(spread, float(high - low) / 1.34) or spread or 1.0  # more than half of the residuals may be equal
    return float(0.9 * size * (share @ share) ** 0.2)


def kernel_weights(residuals: Array, weights: Array) -> Array:
    """The weights K_b(y - q), shape (n,), at least a tiny share of the largest."""
    b = bandwidth(residuals, weights)
    kernel = norm.pdf(residuals / b) / b
    return np.asarray(np.maximum(kernel, _LEAST * kernel.max()))


def at_density(design: Design, q: Array) -> Evaluation:
    """The kernel weights at the rows, where quantiles q of shape (n,) were learned; one at the readings, which are not weighted."""
    readings = len(design.is_derivative), len(design)
    return Evaluation(kernel_weights(design.y - q, design.weights), np.ones(readings), np.zeros(readings))
