r"""RieszNet's objective: the automatic-debiasing loss of rr, the outcome's loss and a targeted term, in one network.

.. math::
    \mathrm{REGLoss}_n(y, \mu) + w_\alpha \sum_c E_n[\alpha_c^2 - 2 m_c(\alpha_c)]
    + w_\varepsilon\, \mathrm{REGLoss}_n\Big(y, \mu + \sum_c \varepsilon_c \alpha_c\Big)

The minimiser of the second term is the Riesz representer with its scale. Heads learn :math:`f = c_h \alpha`, which represents
:math:`c_h m`, with the unit :math:`c_h` of ``scaling.py``, so that a change of the treatment's units changes nothing.

References
----------
Chernozhukov, Newey, Quintas-Martínez and Syrgkanis (2022), "RieszNet and ForestRiesz: Automatic debiased machine learning with
neural nets and random forests".
Scharfstein, Rotnitzky and Robins (1999), "Adjusting for nonignorable drop-out using semiparametric nonresponse models".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from riesz.design.design import Design
from riesz.learners.neural.engine.batching import Batch, Scales
from riesz.learners.neural.engine.fit import NetworkFit
from riesz.learners.neural.objectives.base import Heads, Objective, Outputs, Terms
from riesz.learners.neural.objectives.outcome import corrected, gaps, losses
from riesz.predictions import Predictions


@dataclass(frozen=True)
class RieszLoss(Objective):
    """Settings of the objective.

    Attributes
    ----------
    family : str
    rr_weight, targeted_weight : float
        w_alpha and w_epsilon.
    srr : bool
        Whether mu + epsilon rr (Scharfstein, Rotnitzky and Robins) is read out in place of mu.
    """

    family: str
    rr_weight: float
    targeted_weight: float
    srr: bool
    reported: ClassVar[tuple[str, ...]] = ("rr_loss", "targeted_loss", "outcome_loss", "rr_anchor", "ipw")

    def heads(self, components: int) -> Heads:
        return Heads(linear=components, extras=components)

    def loss(self, outputs: Outputs, batch: Batch, scales: Scales) -> Terms:
        w = batch.weights
        per_row = (outputs.heads.square() - 2.0 * scales.constraint.unsqueeze(1) * outputs.moments).sum(dim=2)
        parts = {
            "rr_loss": (w * per_row).sum(dim=1),
            "targeted_loss": (w * losses(_targeted(outputs), batch.y, self.family)).sum(dim=1),
            "outcome_loss": (w * losses(outputs.outcome, batch.y, self.family)).sum(dim=1),
        }
        whole = parts["outcome_loss"] + self.rr_weight * parts["rr_loss"]
        return Terms(whole + self.targeted_weight * parts["targeted_loss"], parts)

    def slopes(self, outputs: Outputs, batch: Batch, scales: Scales) -> tuple[Terms, Outputs]:
        terms = self.loss(outputs, batch, scales)
        w = batch.weights.unsqueeze(2)
        targeted_slope = self.targeted_weight * batch.weights * gaps(_targeted(outputs), batch.y, self.family)
        return terms, Outputs(
            2.0 * self.rr_weight * w * outputs.heads + targeted_slope.unsqueeze(2) * outputs.extras.unsqueeze(1),
            (-2.0 * self.rr_weight * w * scales.constraint.unsqueeze(1)).expand_as(outputs.moments),
            batch.weights * gaps(outputs.outcome, batch.y, self.family) + targeted_slope,
            (targeted_slope.unsqueeze(2) * outputs.heads).sum(dim=1),
        )

    def report(self, outputs: Outputs, batch: Batch, scales: Scales, terms: Terms) -> dict[str, Tensor]:
        """The parts, and two checks of the first component's rr.

        They are E_n[anchor rr] / h(anchor), which is 1 for the true rr (h is measured on the training rows), and E_n[y rr] in the
        network's units of y.
        """
        weighted = batch.weights * outputs.heads[..., 0]
        rr_anchor, ipw = (weighted * batch.anchor[..., 0]).sum(dim=1), (weighted * batch.y).sum(dim=1)
        return {**terms.parts, "rr_anchor": rr_anchor, "ipw": ipw / scales.constraint[:, 0]}

    def outcome_share(self, outcome_loss: float) -> float:
        return outcome_loss

    def readout(self, network: NetworkFit, design: Design) -> Predictions:
        """Mu from the outcome heads, corrected by epsilon times rr with ``srr``; rr from its heads, in natural units."""
        index, heads = network.functions(design)
        if self.srr:
            index = corrected(index, heads, network.extras)
        unit = network.scale.constraint
        rr = heads.map(lambda values: values / unit.reshape(-1, *[1] * (values.ndim - 1))).linked(design.links)
        return Predictions(network.mu(index, design.family), rr, scale_free=False)


def _targeted(outputs: Outputs) -> Tensor:
    return outputs.outcome + (outputs.heads * outputs.extras.unsqueeze(1)).sum(dim=2)
