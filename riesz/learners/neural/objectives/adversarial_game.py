r"""The objective of adversarial networks: rr and mu in one network, rr's adversary f in another.

.. math::
    \min_{\alpha, \mu} \max_f\; \mathrm{REGLoss}_n(y, \mu) + w_\alpha \sum_c E_n[m_c(f_c) - \alpha_c f_c - f_c^2]

Each network's norm is that of its weights, and enters by its weight decay. For a given :math:`\alpha` the best f is half of
:math:`\alpha_0 - \alpha`, with the true representer :math:`\alpha_0`, so that the value of the game is a quarter of
:math:`E[(\alpha_0 - \alpha)^2]`. Networks only ever see it through f. On held-out rows the Riesz loss
:math:`E_n[\alpha^2 - 2 m(\alpha)]` estimates the same distance without f, up to a constant, so it decides when to stop.

Heads learn :math:`c_h \alpha`, which represents :math:`c_h m`, with the unit :math:`c_h` of ``scaling.py``, so that a change of the
treatment's units changes nothing. Networks and adversaries come in turn on the first axis of outputs and batches.

References
----------
Chernozhukov, Newey, Singh and Syrgkanis (2020), "Adversarial estimation of Riesz representers".
Daskalakis, Ilyas, Syrgkanis and Zeng (2018), "Training GANs with optimism".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from riesz.design.design import Design
from riesz.learners.neural.engine.batching import Batch, Scales
from riesz.learners.neural.engine.fit import NetworkFit
from riesz.learners.neural.objectives.base import Heads, Objective, Outputs, Terms
from riesz.learners.neural.objectives.outcome import gaps, losses
from riesz.predictions import Predictions


@dataclass(frozen=True)
class AdversarialGame(Objective):
    """Settings of the objective.

    Attributes
    ----------
    family : str
    rr_weight : float
        w_alpha.
    """

    family: str
    rr_weight: float
    reported: ClassVar[tuple[str, ...]] = ("rr_loss", "game", "outcome_loss", "rr_anchor", "ipw")

    def heads(self, components: int) -> Heads:
        return Heads(linear=components)

    def loss(self, outputs: Outputs, batch: Batch, scales: Scales) -> Terms:
        """The loss of each network; its adversary's is minus the game."""
        outcome, game = self._outcome_loss(outputs, batch), _game(outputs, batch, scales)
        return Terms(outcome + self.rr_weight * game, {"game": game, "outcome_loss": outcome})

    def slopes(self, outputs: Outputs, batch: Batch, scales: Scales) -> tuple[Terms, Outputs]:
        """The loss and each player's own gradient: a network's of the loss, its adversary's of minus the game."""
        terms = self.loss(outputs, batch, scales)
        w, unit = batch.weights.unsqueeze(2), scales.constraint.unsqueeze(1)
        rr, f = _players(outputs.heads)
        heads, moments = torch.zeros_like(outputs.heads), torch.zeros_like(outputs.moments)
        heads[0::2] = -self.rr_weight * w[0::2] * f
        heads[1::2] = w[1::2] * (rr + 2.0 * f)
        moments[1::2] = -w[1::2] * unit[1::2]
        outcome = torch.zeros_like(outputs.outcome)
        outcome[0::2] = batch.weights[0::2] * gaps(outputs.outcome[0::2], batch.y[0::2], self.family)
        return terms, Outputs(heads, moments, outcome, torch.zeros_like(outputs.extras))

    def validation(self, outputs: Outputs, batch: Batch, scales: Scales) -> Terms:
        """The outcome's loss and the Riesz loss, which needs no adversary."""
        terms = self.loss(outputs, batch, scales)
        (rr, _), (moments, _) = _players(outputs.heads), _players(outputs.moments)
        per_row = (rr.square() - 2.0 * scales.constraint[0::2].unsqueeze(1) * moments).sum(dim=2)
        riesz = (batch.weights[0::2] * per_row).sum(dim=1)
        return Terms(terms.parts["outcome_loss"] + self.rr_weight * riesz, terms.parts | {"rr_loss": riesz})

    def report(self, outputs: Outputs, batch: Batch, scales: Scales, terms: Terms) -> dict[str, Tensor]:
        """The parts, and two checks of the first component's rr, as in ``riesz_loss.py``."""
        weighted = batch.weights[0::2] * outputs.heads[0::2, :, 0]
        rr_anchor = (weighted * batch.anchor[0::2, :, 0]).sum(dim=1)
        ipw = (weighted * batch.y[0::2]).sum(dim=1) / scales.constraint[0::2, 0]
        more = {"rr_anchor": rr_anchor, "ipw": ipw}
        return {name: (terms.parts | more)[name] for name in self.reported}

    def _outcome_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        return (batch.weights[0::2] * losses(outputs.outcome[0::2], batch.y[0::2], self.family)).sum(dim=1)

    def outcome_share(self, outcome_loss: float) -> float:
        return outcome_loss

    def readout(self, network: NetworkFit, design: Design) -> Predictions:
        """Mu from the outcome heads; rr from its heads, in natural units."""
        index, heads = network.functions(design)
        if network.trained.rr is not network.trained.mu:
            _, heads = network.functions(design, "rr")
        rr = heads.linked(design.links).scaled(1.0 / network.scale.constraint)
        return Predictions(network.mu(index, design.family), rr, scale_free=False)


def _players(both: Tensor) -> tuple[Tensor, Tensor]:
    """What belongs to the networks, and what belongs to their adversaries."""
    return both[0::2], both[1::2]


def _game(outputs: Outputs, batch: Batch, scales: Scales) -> Tensor:
    """The game's value for each network, shape (M,): E_n[c_h m(f) - rr f - f^2], summed over components."""
    (rr, f), (_, moments) = _players(outputs.heads), _players(outputs.moments)
    per_row = (scales.constraint[1::2].unsqueeze(1) * moments - rr * f - f.square()).sum(dim=2)
    return (batch.weights[1::2] * per_row).sum(dim=1)
