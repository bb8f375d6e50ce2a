r"""DragonNet's objective: the outcome's loss, the propensity's log-loss and a targeted term, in one network.

.. math::
    \mathrm{REGLoss}_n(y, \mu) + w_p\, \mathrm{LogLoss}_n(a, p)
    + w_\varepsilon\, \mathrm{REGLoss}_n\Big(y, \mu + \sum_c \varepsilon_c \alpha_c\Big)

with p the squeezed propensity: the network's own, :math:`\tilde p`, is moved away from 0 and 1 to
:math:`p = (\tilde p + s) / (1 + 2 s)`, in the log-loss and in rr alike. At the observed arm a component's rr is
:math:`\alpha_c = (k_{c0} (1 - p) + k_{c1} p) / p_a`, with :math:`p_1 = p, p_0 = 1 - p` and the weights :math:`k` of the moment
on this arm for a row from arm 0 or 1 (``propensity/representer.py``). The batch holds these coefficients in place of an anchor:
first all :math:`k_{c0}`, then all :math:`k_{c1}`.

References
----------
Shi, Blei and Veitch (2019), "Adapting neural networks for the estimation of treatment effects".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.neural.engine.batching import Batch, Scales
from riesz.learners.neural.engine.fit import NetworkFit
from riesz.learners.neural.objectives.base import Heads, Objective, Outputs, Terms
from riesz.learners.neural.objectives.outcome import evenly, gaps, losses, probabilities
from riesz.learners.propensity.representer import arm_coefficients, arm_representer, at_arms, linked_at_arms
from riesz.predictions import Predictions

Numbers = TypeVar("Numbers", Tensor, Array)


@dataclass(frozen=True)
class PropensityLoss(Objective):
    """Settings of the objective.

    Attributes
    ----------
    family : str
    propensity_weight, targeted_weight : float
        w_p and w_epsilon.
    squeeze : float
        s.
    srr : bool
        Whether mu + epsilon rr is read out in place of mu.
    """

    family: str
    propensity_weight: float
    targeted_weight: float
    squeeze: float
    srr: bool
    reported: ClassVar[tuple[str, ...]] = ("propensity_loss", "targeted_loss", "outcome_loss", "squeezed")

    def heads(self, components: int) -> Heads:
        return Heads(linear=1, extras=components)

    def loss(self, outputs: Outputs, batch: Batch, scales: Scales) -> Terms:
        w, logit = batch.weights, outputs.heads[..., 0]
        rr, _ = self._representer(logit, batch)
        sign = torch.where(_treated(batch), 1.0, -1.0)
        probability = sign * (self._squeezed(logit) - 0.5) + 0.5  # that of the observed arm
        targeted = outputs.outcome + (rr * outputs.extras.unsqueeze(1)).sum(dim=2)
        parts = {
            "propensity_loss": -(w * evenly(torch.log, probability)).sum(dim=1),
            "targeted_loss": (w * losses(targeted, batch.y, self.family)).sum(dim=1),
            "outcome_loss": (w * losses(outputs.outcome, batch.y, self.family)).sum(dim=1),
        }
        whole = parts["outcome_loss"] + self.propensity_weight * parts["propensity_loss"]
        return Terms(whole + self.targeted_weight * parts["targeted_loss"], parts)

    def slopes(self, outputs: Outputs, batch: Batch, scales: Scales) -> tuple[Terms, Outputs]:
        terms = self.loss(outputs, batch, scales)
        w, logit = batch.weights, outputs.heads[..., 0]
        rr, rr_slope = self._representer(logit, batch)
        epsilon = outputs.extras.unsqueeze(1)
        targeted_slope = (
            self.targeted_weight * w * gaps(outputs.outcome + (rr * epsilon).sum(dim=2), batch.y, self.family)
        )
        p = self._squeezed(logit)
        propensity_slope = torch.where(_treated(batch), -1.0 / p, 1.0 / (1.0 - p)) * self._squeezed_slope(logit)
        head = self.propensity_weight * w * propensity_slope + targeted_slope * (rr_slope * epsilon).sum(dim=2)
        return terms, Outputs(
            head.unsqueeze(2),
            torch.zeros_like(outputs.moments),
            w * gaps(outputs.outcome, batch.y, self.family) + targeted_slope,
            (targeted_slope.unsqueeze(2) * rr).sum(dim=1),
        )

    def report(self, outputs: Outputs, batch: Batch, scales: Scales, terms: Terms) -> dict[str, Tensor]:
        """The parts, and the weighted share of rows where squeezing at least halves an inverse propensity."""
        p = outputs.heads[..., 0].sigmoid()
        outside = ((p < self.squeeze) | (p > 1.0 - self.squeeze)).to(p.dtype)
        return {**terms.parts, "squeezed": (batch.weights * outside).sum(dim=1)}

    def _squeezed(self, logit: Tensor) -> Tensor:
        return squeezed(probabilities(logit), self.squeeze)

    def _squeezed_slope(self, logit: Tensor) -> Tensor:
        p = probabilities(logit)
        return p * (1.0 - p) / (1.0 + 2.0 * self.squeeze)

    def _representer(self, logit: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Rr at the observed rows and its derivative in the logit, both of shape (M, B, K)."""
        p = self._squeezed(logit).unsqueeze(2)
        from_0, from_1 = batch.anchor.chunk(2, dim=2)
        treated = _treated(batch).unsqueeze(2)
        rr = torch.where(treated, from_1 + from_0 * (1.0 - p) / p, from_0 + from_1 * p / (1.0 - p))
        slope = torch.where(treated, -from_0 / p.square(), from_1 / (1.0 - p).square())
        return rr, slope * self._squeezed_slope(logit).unsqueeze(2)

    def outcome_share(self, outcome_loss: float) -> float:
        return outcome_loss

    def readout(self, network: NetworkFit, design: Design) -> Predictions:
        """Mu from the outcome heads, corrected by epsilon times rr with ``srr``; rr from the squeezed propensity."""
        index, heads = network.functions(design)
        p = squeezed(expit(heads.observed[0]), self.squeeze)
        coefficients = arm_coefficients(design.sample, "DragonNet")[..., design.index]
        arms = arm_representer(coefficients, np.column_stack([1.0 - p, p]))
        rr = linked_at_arms(arms, design)
        if self.srr:
            shift = at_arms(np.tensordot(network.extras, arms.dense(), 1), design)  # epsilon rr
            index = Evaluation(
                index.observed + shift.observed, index.values + shift.values, index.slopes + shift.slopes
            )
        return Predictions(network.mu(index, design.family), rr, scale_free=False)


def squeezed(p: Numbers, s: float) -> Numbers:
    """Move propensities away from 0 and 1."""
    return (p + s) / (1.0 + 2.0 * s)


def _treated(batch: Batch) -> Tensor:
    """Which rows are in arm 1, shape (M, B): there the second outcome head has the whole share."""
    return batch.observed_shares[..., 1] > 0.5
