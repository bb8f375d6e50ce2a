r"""The paper's objective: learn :math:`\beta_\perp` under a moment constraint, and mu, in one network.

.. math::
    \frac{E_n[(\beta - f_1)^2]}{c_\beta^2} + \kappa \frac{|h_n(f_1)|}{|h_n(\beta)|}
    + \rho\, \mathrm{REGLoss}_n(y, \tilde a f_2 + (1 - \tilde a) f_3)

with :math:`h_n` the mean over the rows of the batch at hand, so that it also punishes the spread of :math:`m(f_1)` a little.
The absolute value makes the penalty exact: once :math:`\kappa` exceeds 2 the minimiser satisfies the constraint.
``multiplier`` is the basic differential multiplier method,
:math:`E_n[(\beta - f)^2] + \lambda h_n(f) + \delta h_n(f)^2` with ascent in :math:`\lambda`.

References
----------
Hines and Hines, "Automatic debiasing of neural networks via moment-constrained learning", sections 2.3 and 3, supplement A.
Platt and Barr (1987), "Constrained differential optimization".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from riesz.learners.neural.batching import Batch, Feed, Scales
from riesz.learners.neural.objectives.base import Objective, Readout, Terms, at_observed, moment_of


@dataclass(frozen=True)
class MomentConstrained(Objective):
    """Settings of the objective.

    Attributes
    ----------
    family : {"gaussian", "binomial"}
    constraint : {"absolute", "multiplier"}
    penalty : float
        kappa.
    growth : float
        The penalty is multiplied by this after each epoch.
    rho : float
        Weight of the outcome's loss.
    damping, ascent : float
        delta, and the step of the multiplier.
    """

    family: str
    constraint: Literal["absolute", "multiplier"]
    penalty: float
    growth: float
    rho: float
    damping: float
    ascent: float

    def loss(self, out: Readout, batch: Batch, feed: Feed, scales: Scales, epoch: Tensor, dual_state: Tensor) -> Terms:
        f = at_observed(out.heads, batch)
        w = batch.weights[..., None]
        anchor_loss = (w * (batch.anchor - f) ** 2).sum(dim=1)
        violation = (w * moment_of(out.heads, out.head_slopes, batch, feed)).sum(dim=1) * scales.constraint
        if self.constraint == "absolute":
            rate = self.penalty * self.growth**epoch if self.growth != 1.0 else self.penalty
            penalty = rate * violation.abs().sum(dim=1)
        else:
            penalty = (dual_state * violation + self.damping * violation**2).sum(dim=1)
        index = at_observed(out.index, batch)
        if self.family == "binomial":
            each = binary_cross_entropy_with_logits(index, batch.y, reduction="none")
        else:
            each = (batch.y - index) ** 2
        outcome = (batch.weights * each).sum(dim=1)
        loss = anchor_loss.sum(dim=1) + penalty + self.rho * outcome
        parts = {
            "anchor_loss": anchor_loss.sum(dim=1),
            "violation": violation.abs().amax(dim=1),
            "outcome_loss": outcome,
        }
        return Terms(loss, parts | {"signed_violation": violation})

    def outcome_share(self, outcome_loss: float) -> float:
        return self.rho * outcome_loss

    def ascend(self, violation: Tensor, dual_state: Tensor) -> Tensor:
        if self.constraint == "absolute":
            return dual_state
        return torch.add(dual_state, violation, alpha=self.ascent)
