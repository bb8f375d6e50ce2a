r"""The known sign of a Riesz representer, from what its moment reads.

With arms, rr in arm j is :math:`\sum_i p_i(x) w_i(j, x) / p_j(x)` for the weight :math:`w_i(j, x)` that a row in arm i gives to
arm j: it has the sign of these weights, and is zero where nothing is read. A moment whose readings are all values, not derivatives,
and have non-negative weights has a non-negative representer for any treatment.

Such a representer is :math:`g\, s(g f)` for a linear function f and a positive function s. For ``rr="entropy"`` s is the
exponential, and the sign is multiplied by the best constant in each arm, so that a penalty shrinks rr towards it.

Shapes: n rows, K components, J arms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from riesz.arrays import Array, ratio
from riesz.design.arm_numbers import arm_numbers
from riesz.design.design import Design
from riesz.design.moment import Linked
from riesz.errors import LearnerError
from riesz.families import find_family
from riesz.learners.propensity.representer import arm_coefficients
from riesz.learners.propensity.smallest import rarest_share, smallest

_LARGEST = 500.0  # exponent


def known_signs(sample: Design, who: str, instead: str) -> Array:
    """The sign of each component's rr in each arm, shape (K, J): -1, 0 or 1; shape (K, 1) without arms.

    Refuses a moment whose representer may have either sign, and a quantile, whose representer is weighted by a density that losses
    of its logarithm do not know; the error names the learner that needs the sign, and what to use instead.
    """
    if not find_family(sample.family).is_mean:
        raise LearnerError(
            f"{who} cannot be used with family={sample.family!r}: the Riesz representer of a quantile is weighted by a density, "
            f"which its loss leaves out. Use {instead}."
        )
    if sample.strata is not None:
        try:
            coefficients = arm_coefficients(sample, who)
        except LearnerError:  # a covariate is moved, or a derivative is read
            pass
        else:
            signs = np.zeros((sample.components, coefficients.arms))
            for c, by_arm in enumerate(coefficients.weights):
                for arm, parts in by_arm.items():
                    weights = np.concatenate([part.weight for part in parts])
                    if (weights < 0).any() and (weights > 0).any():
                        _refuse(who, instead)
                    signs[c, arm] = np.sign(weights.sum())
            return signs
    if sample.is_derivative.any() or (sample.link_weights < 0).any():
        _refuse(who, instead)
    return np.ones((sample.components, 1 if sample.strata is None else sample.treatment.shape[1] + 1))


def _refuse(who: str, instead: str) -> None:
    raise LearnerError(
        f"{who} needs a Riesz representer whose sign is known in every arm, as those of ate, att, atc and mean; "
        "this moment reads a derivative, or gives mu positive weights for some rows and negative ones for others. Use "
        f"{instead}, whose representer may have either sign."
    )


def signs_at(signs: Array, treatment: Array) -> Array:
    """The signs (or levels) of each component at treatments of shape (n, t), shape (K, n); (K, 1) if they are the same for all."""
    return signs if signs.shape[1] == 1 else signs[:, arm_numbers(treatment)]


def with_signs(linear: Linked, signs: Array, design: Design, size: Callable[[Array], Array]) -> Linked:
    r"""Representers :math:`\ell\, s(g f)` from functions f and levels of sign g; moments of known sign read no derivatives.

    Parameters
    ----------
    linear : Linked
        f of each component.
    signs : ndarray, shape (K, J)
        From :func:`known_signs` or :func:`levels`.
    design : Design
    size : callable
        s, for arrays of any shape.
    """
    links, g = linear.links, signs_at(signs, design.treatment)
    readings = design.readings()
    values = np.empty_like(linear.values)
    for link, (component, reading) in enumerate(zip(links.component, links.reading, strict=True)):
        sign = signs_at(signs[component][None], readings[reading].treatment)[0]
        values[link] = sign * size(np.sign(sign) * linear.values[link])
    return Linked(g * size(np.sign(g) * linear.observed), values, np.zeros_like(values), links)


def largest(design: Design, clip: float | None = None) -> Array:
    """The largest |rr| of each component that is used where there was no training row, shape (K,).

    The moment's largest weight over the smallest propensity that an rr from propensities would divide by.

    Parameters
    ----------
    design : Design
        The training rows.
    clip : float, optional
        That propensity; by default the one of :mod:`riesz.learners.propensity.smallest`.
    """
    least = max(smallest(len(design), rarest_share(design)) if clip is None else clip, 1.0 / len(design))
    weights = np.zeros(design.components)
    np.maximum.at(weights, design.links.component, np.abs(design.link_weights).max(axis=1, initial=0.0))
    return weights / least


def levels(signs: Array, design: Design) -> Array:
    r"""The best constant rr in each arm, shape (K, J), with the known signs: :math:`E_n[m(1\{A = j\})] / P(A = j)`.

    Zero where the sign is; the sign itself where there is no such constant of that sign.
    """
    shares, links = design.weights / design.weights.sum(), design.links
    sizes, arms = np.zeros(signs.shape), signs.shape[1]
    for component, reading, weight in zip(links.component, links.reading, design.link_weights, strict=True):
        treatment = design.readings()[reading].treatment
        at = np.zeros(len(design), dtype=np.intp) if arms == 1 else arm_numbers(treatment)
        sizes[component] += np.bincount(at, weight * shares, minlength=arms)
    rows = np.ones(1) if arms == 1 else np.bincount(arm_numbers(design.treatment), shares, minlength=arms)
    sizes = ratio(np.abs(signs) * sizes, np.broadcast_to(rows, sizes.shape), otherwise=0.0)
    return np.where(sizes * signs > 0.0, sizes, signs)


def exponential(index: Linked, levels: Array, most: Array, design: Design) -> Linked:
    r"""Representers :math:`\ell \exp(g f)` from functions f and levels, whose signs are g, of size up to ``most``, shape (K,)."""
    rr, high = with_signs(index, levels, design, lambda t: np.exp(np.minimum(t, _LARGEST))), most[:, None]
    at_links = high[rr.links.component]
    return Linked(np.clip(rr.observed, -high, high), np.clip(rr.values, -at_links, at_links), rr.slopes, rr.links)
