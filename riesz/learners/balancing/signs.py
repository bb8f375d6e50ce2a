r"""The known sign of a Riesz representer, from what its moment reads.

With arms, rr in arm j is :math:`\sum_i p_i(x) w_i(j, x) / p_j(x)` for the weight :math:`w_i(j, x)` that a row in arm i gives to
arm j: it has the sign of these weights, and is zero where nothing is read. A moment whose readings are all values, not derivatives,
and have non-negative weights has a non-negative representer for any treatment.

Shapes: n rows, K components, J arms.
"""

from __future__ import annotations

import numpy as np

from riesz.arrays import Array
from riesz.design.arm_numbers import arm_numbers
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.propensity.representer import arm_coefficients


def known_signs(sample: Design, setting: str) -> Array:
    """The sign of each component's rr in each arm, shape (K, J): -1, 0 or 1; shape (K, 1) without arms.

    Refuses a moment whose representer may have either sign; the error names the setting that needs it.
    """
    if sample.strata is not None and sample.covariates.size:
        try:
            coefficients = arm_coefficients(sample, f"Balancing({setting})")
        except LearnerError:  # a covariate is moved, or a derivative is read
            pass
        else:
            signs = np.zeros((sample.components, coefficients.arms))
            for c, by_arm in enumerate(coefficients.weights):
                for arm, parts in by_arm.items():
                    signs[c, arm] = _sign(np.concatenate([part.weight for part in parts]), sample, setting)
            return signs
    if sample.is_derivative.any() or (sample.link_weights < 0).any():
        _refuse(setting)
    return np.ones((sample.components, 1 if sample.strata is None else sample.treatment.shape[1] + 1))


def _sign(weights: Array, sample: Design, setting: str) -> float:
    if (weights < 0).any() and (weights > 0).any():
        _refuse(setting)
    return float(np.sign(weights.sum()))


def _refuse(setting: str) -> None:
    raise LearnerError(
        f"Balancing({setting}) needs a Riesz representer whose sign is known in every arm, as those of ate, att, atc and mean; "
        "this moment reads a derivative, or gives mu positive weights for some rows and negative ones for others. Use "
        "riesz.Balancing(), whose weights may have either sign."
    )


def signs_at(signs: Array, treatment: Array) -> Array:
    """The signs of each component at treatments of shape (n, t), shape (K, n); (K, 1) if they are the same for all."""
    return signs if signs.shape[1] == 1 else signs[:, arm_numbers(treatment)]
