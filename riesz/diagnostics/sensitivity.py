r"""How much an unmeasured confounder could change the estimate.

For any average moment the bias from omitting latent variables is at most (Chernozhukov, Cinelli, Newey, Sharma and Syrgkanis,
"Long story short: omitted variable bias in causal machine learning")

.. math:: |\theta_{long} - \theta| \le |\rho|\, \sqrt{c_Y \frac{c_D}{1 - c_D}}\, B, \qquad B^2 = \sigma^2 \nu^2, \quad
   \sigma^2 = E[(Y - \mu)^2], \quad \nu^2 = 2 E[m(\alpha)] - E[\alpha^2],

with :math:`c_Y` (``cf_y``) the share of the outcome's residual variance that the latent variables explain, :math:`c_D`
(``cf_d``) one minus the ratio of the short to the long representer's variance, and :math:`\rho` the
correlation between what they add to mu and what they add to the representer. For a ratio estimand :math:`\alpha` is divided by
:math:`\bar n = E[n]`, the mean of the normalizer. B is estimated with influence function

.. math:: \phi_B = \frac{\sigma^2 \phi_{\nu^2} + \nu^2 \phi_{\sigma^2}}{2 B} - B \frac{n - \bar n}{\bar n},
   \qquad \phi_{\nu^2} = \frac{2 m(\alpha) - \alpha^2}{\bar n^2} - \nu^2, \quad \phi_{\sigma^2} = (Y - \mu)^2 - \sigma^2,

so the bounds :math:`\theta \mp s B` at strength s have influence functions :math:`\phi_\theta \mp s \phi_B`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import optimize, stats

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.errors import RieszError
from riesz.families import find_family
from riesz.inference import Clusters, Estimate, Weights, covariance
from riesz.predictions import Predictions

_ROUNDING = 1e-13  # rounding error of an outcome, relative to its size
_ALL = 1e9  # only a confounder that explains everything is stronger: 1 - c is below rounding error


@dataclass(frozen=True)
class Elements:
    """The moments of a fit that a sensitivity analysis needs; R repeats, K parameters.

    Attributes
    ----------
    value : ndarray, shape (R, K)
        Estimates.
    bias : ndarray, shape (R, K)
        B, the bias at strength one.
    sigma2 : ndarray, shape (R,)
    nu2 : ndarray, shape (R, K)
    spread : ndarray, shape (R, K, 3)
        Variance of the estimate, its covariance with B, variance of B.
    """

    value: Array
    bias: Array
    sigma2: Array
    nu2: Array
    spread: Array


def sensitivity_elements(
    predictions: Sequence[Predictions],
    estimates: Sequence[Estimate],
    design: Design,
    names: Sequence[str],
    weights: Weights,
    clusters: Clusters,
) -> Elements:
    """Residual variance, variance of the representer and their covariance with the estimate, per repeat."""
    if not find_family(design.family).is_mean:
        raise RieszError(
            f"Sensitivity to unobserved confounders is known for means, and with family={design.family!r} mu is a quantile. "
            "Use another family, such as family='gaussian'."
        )
    normalizer = design.normalizer
    size = design.mean(normalizer)[:, None]
    repeats = []
    for repeat, estimate in zip(predictions, estimates, strict=True):
        square = (design.y - repeat.mu.observed) ** 2
        length = (2 * design.apply(repeat.rr) - repeat.rr.observed**2) / size**2
        sigma2, nu2 = design.mean(square), design.mean(length)
        _check_length(nu2, names)
        if sigma2 <= _ROUNDING**2 * design.mean(design.y**2):
            raise RieszError(
                "mu fits the outcome without error, so there is no residual variance that a confounder could explain. Check "
                "whether a covariate is the outcome itself."
            )
        bias = np.sqrt(sigma2 * nu2)
        pull = (sigma2 * (length - nu2[:, None]) + nu2[:, None] * (square - sigma2)) / (2 * bias[:, None])
        pull -= bias[:, None] * (normalizer / size - 1)
        joint = covariance(np.column_stack([estimate.variation, pull.T]), weights, clusters)
        k = len(nu2)
        spread = np.stack([np.diag(joint[:k, :k]), np.diag(joint[:k, k:]), np.diag(joint[k:, k:])], axis=-1)
        repeats.append((estimate.value, bias, sigma2, nu2, spread))
    return Elements(*(np.stack(parts) for parts in zip(*repeats, strict=True)))


def _check_length(nu2: Array, names: Sequence[str]) -> None:
    not_positive = [f"{name} ({value:.3g})" for name, value in zip(names, nu2, strict=True) if value <= 0]
    if not_positive:
        raise RieszError(
            f"The variance of the Riesz representer, 2 E_n[m(rr)] - E_n[rr^2], is not positive for {', '.join(not_positive)}. "
            "The representer is too noisy for a sensitivity analysis: use a simpler formula, a larger rr penalty, or more rows."
        )


def strength(cf_y: Array | float, cf_d: Array | float, rho: float) -> Array:
    """The strength of confounding: the bias is this times B."""
    return np.asarray(abs(rho) * np.sqrt(cf_y * (cf_d / (1.0 - np.asarray(cf_d)))))


def bounds(elements: Elements, component: int, s: Array, level: float) -> pd.DataFrame:
    """Bounds of one parameter at strengths s, with one-sided confidence bounds, each of the given level.

    Over repeats, a bound is the median and its variance the median of :math:`V_r + (bound_r - median)^2`, as for estimates.

    Parameters
    ----------
    elements : Elements
    component : int
    s : ndarray, shape (S,)
    level : float

    Returns
    -------
    pandas.DataFrame
        ``lower, upper, conf_low, conf_high``, one row per strength.
    """
    lower, low_error = _side(elements, component, s, -1.0)
    upper, up_error = _side(elements, component, s, 1.0)
    z = stats.norm.ppf(level)
    return pd.DataFrame(
        {"lower": lower, "upper": upper, "conf_low": lower - z * low_error, "conf_high": upper + z * up_error}
    )


def _side(elements: Elements, component: int, s: Array, sign: float) -> tuple[Array, Array]:
    """The bound on one side and its standard error, both of shape (S,)."""
    value, bias = elements.value[:, component, None], elements.bias[:, component, None]
    variance_value, cross, variance_bias = (elements.spread[:, component, j, None] for j in range(3))
    by_repeat = value + sign * s * bias
    variance = variance_value + 2 * sign * s * cross + s**2 * variance_bias
    middle = np.median(by_repeat, axis=0)
    return middle, np.sqrt(np.median(variance + (by_repeat - middle) ** 2, axis=0))


def robustness_values(elements: Elements, component: int, rho: float, level: float, null: float) -> tuple[float, float]:
    r"""RV and RVa: the common ``cf_y = cf_d`` at which the bound, or the confidence bound, just reaches the null.

    Both are increasing in the strength s, so s is found first; then :math:`s = |\rho| c / \sqrt{1 - c}` is solved for c.
    """
    toward = -1.0 if np.median(elements.value[:, component]) >= null else 1.0
    z = stats.norm.ppf(level)

    def distance(s: float, confidence: float) -> float:
        """The distance of the bound from the null."""
        bound, error = _side(elements, component, np.array([s]), toward)
        return float(-toward * (bound[0] - null) - confidence * error[0])

    return _common_share(_first_zero(distance, 0.0), rho), _common_share(_first_zero(distance, z), rho)


def _first_zero(distance: Callable[[float, float], float], confidence: float) -> float:
    """The strength at which the distance is zero; infinite if it is larger than ``_ALL``."""
    if distance(0.0, confidence) <= 0:
        return 0.0
    high = 1e-3
    while distance(high, confidence) > 0:
        if high > _ALL:
            return np.inf
        high *= 2
    return float(optimize.brentq(distance, 0.0, high, args=(confidence,), xtol=1e-14, rtol=1e-12))


def _common_share(s: float, rho: float) -> float:
    """The c with s = |rho| c / sqrt(1 - c); 1 if no confounder is strong enough."""
    if s == 0:
        return 0.0
    if rho == 0:
        return 1.0
    return float(2 / (1 + np.hypot(1.0, 2 * rho / s)))


def benchmark(long: Elements, short: Elements, component: int) -> dict[str, float]:
    r"""The strength of a confounder that resembles observed columns, from a fit with and a fit without them.

    .. math:: c_Y = (\sigma_s^2 - \sigma^2) / \sigma^2, \qquad c_D = 1 - \nu_s^2 / \nu^2, \qquad
       \rho = \frac{\theta_s - \theta}{\sqrt{(\sigma_s^2 - \sigma^2)(\nu^2 - \nu_s^2)}},

    where the subscript s marks the fit without them. The latent variable explains as much more of the outcome as the columns do,
    and increases the variance of the representer by the same factor. Negative gains are sampling error and are set to zero; rho,
    which is limited to [-1, 1], is then NaN, because a strength of zero does not determine it. Over repeats, the median.

    Returns
    -------
    dict
        ``cf_y, cf_d, rho, change``; ``change`` is the estimate without the columns minus the estimate with them.
    """
    gain = short.sigma2 - long.sigma2
    growth = long.nu2[:, component] - short.nu2[:, component]
    change = short.value[:, component] - long.value[:, component]
    positive = min(np.median(gain), np.median(growth)) > 0
    gain, growth = np.maximum(gain, 0.0), np.maximum(growth, 0.0)
    largest = np.sqrt(gain * growth)
    rho = np.divide(change, largest, out=np.sign(change), where=largest > np.abs(change))
    return {
        "cf_y": float(np.median(np.minimum(gain / long.sigma2, 1.0))),
        "cf_d": float(np.median(growth / long.nu2[:, component])),
        "rho": float(np.median(rho)) if positive else np.nan,
        "change": float(np.median(change)),
    }
