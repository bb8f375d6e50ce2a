r"""The paper's objective: learn :math:`\beta_\perp` under a moment constraint, and mu, in one network.

.. math::
    \frac{E_n[(\beta - f_1)^2]}{c_\beta^2} + \kappa \frac{|h_n(f_1)|}{|h_n(\beta)|}
    + \rho\, \mathrm{REGLoss}_n(y, \tilde a f_2 + (1 - \tilde a) f_3)

with :math:`h_n` the mean over the rows of a batch, so that it also penalises the spread of :math:`m(f_1)` a little.
The absolute value makes the penalty exact: once :math:`\kappa` exceeds 2 the minimiser satisfies the constraint.
``multiplier`` is the basic differential multiplier method,
:math:`E_n[(\beta - f)^2] + \lambda h_n(f) + \delta h_n(f)^2` with ascent in :math:`\lambda`.

References
----------
Hines and Hines, "Automatic debiasing of neural networks via moment-constrained learning", sections 2.3 and 3, supplement A.
Platt and Barr (1987), "Constrained differential optimization".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.density import at_density
from riesz.design.derived import with_columns
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked
from riesz.families import find_family
from riesz.learners.expected_time import MOST_ROWS
from riesz.learners.linear.learner import riesz_coefficients
from riesz.learners.linear.ridge import Tilt, make_basis
from riesz.learners.neural.engine.batching import Batch, Scales
from riesz.learners.neural.engine.fit import NetworkFit
from riesz.learners.neural.objectives.base import Heads, Objective, Outputs, Terms
from riesz.learners.neural.objectives.outcome import gaps, losses
from riesz.predictions import Predictions

MOST_GROWTH = 1e6


@dataclass(frozen=True)
class MomentConstrained(Objective):
    """Settings of the objective.

    Attributes
    ----------
    family : str
    constraint : {"absolute", "multiplier"}
    penalty : float or Tensor, shape (M, 1)
        kappa; during training, its current value.
    growth : float
        The penalty is multiplied by this after each epoch, until it is a million times as large.
    rho : float
        Weight of the outcome's loss.
    damping, ascent : float
        delta, and the step of the multiplier.
    exact : bool
        Whether beta_perp's last layer is solved in closed form after training.
    multipliers : Tensor, shape (M, K), or None
        lambda, during training with ``constraint="multiplier"``.
    """

    family: str
    constraint: Literal["absolute", "multiplier"]
    penalty: float | Tensor
    growth: float
    rho: float
    damping: float
    ascent: float
    exact: bool
    multipliers: Tensor | None = None
    reported: ClassVar[tuple[str, ...]] = (
        "anchor_loss",
        "violation",
        "outcome_loss",
        "rr_anchor",
        "signed_violation",
        "ipw",
    )

    def heads(self, components: int) -> Heads:
        return Heads(linear=components)

    def at(self, epoch: Tensor, multipliers: Tensor) -> MomentConstrained:
        """The objective with the penalty after ``epoch`` epochs, or with these multipliers."""
        if self.constraint == "multiplier":
            return replace(self, multipliers=multipliers)
        if self.growth == 1.0:
            return self
        return replace(self, penalty=self.penalty * (self.growth**epoch).clamp_max(MOST_GROWTH).unsqueeze(1))

    def loss(self, outputs: Outputs, batch: Batch, scales: Scales) -> Terms:
        w = batch.weights.unsqueeze(1)
        anchor = torch.bmm(w, (batch.anchor - outputs.heads).square()).sum(dim=(1, 2))
        violation = torch.bmm(w, outputs.moments).squeeze(1) * scales.constraint
        size = violation.abs()
        if self.constraint == "absolute":
            penalty = (self.penalty * size).sum(dim=1)
        else:
            penalty = (self._multipliers() * violation + self.damping * violation.square()).sum(dim=1)
        outcome = (batch.weights * losses(outputs.outcome, batch.y, self.family)).sum(dim=1)
        parts = {"anchor_loss": anchor, "violation": size.amax(dim=1), "outcome_loss": outcome}
        return Terms(anchor + penalty + self.rho * outcome, parts | {"signed_violation": violation})

    def slopes(self, outputs: Outputs, batch: Batch, scales: Scales) -> tuple[Terms, Outputs]:
        terms = self.loss(outputs, batch, scales)
        violation = terms.parts["signed_violation"]
        if self.constraint == "absolute":
            moment_slope = self.penalty * violation.sign()
        else:
            moment_slope = torch.add(self._multipliers(), violation, alpha=2 * self.damping)
        w = batch.weights.unsqueeze(2)
        return terms, Outputs(
            (outputs.heads - batch.anchor).mul_(2.0 * w),
            w * (moment_slope * scales.constraint).unsqueeze(1),
            gaps(outputs.outcome, batch.y, self.family).mul_(batch.weights).mul_(self.rho),
        )

    def _multipliers(self) -> Tensor:
        assert self.multipliers is not None, "the loss with multipliers is that of at(epoch, multipliers)"
        return self.multipliers

    def report(self, outputs: Outputs, batch: Batch, scales: Scales, terms: Terms) -> dict[str, Tensor]:
        """The parts, and two checks of the first component's rr, rescaled on these rows.

        They are E_n[anchor rr] / h_n(anchor), which is 1 for the true rr, and E_n[y rr] in the network's units of y.
        """
        w = batch.weights
        r = (batch.anchor - outputs.heads)[..., 0]
        signed = terms.parts["signed_violation"][:, 0]
        scale = (1.0 - signed) / (w * r**2).sum(dim=1).clamp_min(1e-12)
        more = {
            "rr_anchor": (w * r * batch.anchor[..., 0]).sum(dim=1) * scale,
            "signed_violation": signed,
            "ipw": (w * r * batch.y).sum(dim=1) * scale / scales.constraint[:, 0],
        }
        return {name: (terms.parts | more)[name] for name in self.reported}

    def outcome_share(self, outcome_loss: float) -> float:
        return self.rho * outcome_loss

    def ascend(self, terms: Terms, multipliers: Tensor) -> Tensor:
        if self.constraint == "absolute":
            return multipliers
        return torch.add(multipliers, terms.parts["signed_violation"].detach(), alpha=self.ascent)

    def solve(self, network: NetworkFit, design: Design, seed: int) -> Array | None:
        """Coefficients of r on the intercept and the representation, shape (1 + width, K), if they are solved exactly.

        beta_perp is linear in the shared representation phi, so given the body its last layer has a closed form: the constrained
        problem on (1, phi), with the ridge penalty that minimises the leave-one-out Riesz loss, as ``riesz.Linear`` solves it on
        the formula's columns. It is always solved for a quantile, with squares weighted by the density: training cannot know the
        weights before it knows the quantile.
        """
        quantile = not find_family(self.family).is_mean
        if not (self.exact or quantile):
            return None
        part = design.take(draw_part(len(design), MOST_ROWS, seed))
        _, phi = network.functions(part, "rr", representation=True)
        tilt = None
        if quantile:
            index, _ = network.functions(part)
            at = at_density(part, network.mu(index, self.family).observed)
            tilt = Tilt(at, at.observed)
        columns = with_columns(part, phi)
        targets = np.vstack([columns.y, columns.anchor.observed])
        basis = make_basis(columns, columns.weights, targets, tilt, seed=seed)
        coefficients, _ = riesz_coefficients(columns, basis, "loo", constrained=True)
        return coefficients

    def readout(self, network: NetworkFit, design: Design) -> Predictions:
        """Mu from the outcome heads; r = beta - beta_perp in the anchor's units, from the heads or the solved layer."""
        index, heads = network.functions(design)
        mu = network.mu(index, design.family)
        if network.solved is not None:
            _, phi = network.functions(design, "rr", representation=True)
            level, slopes = network.solved[0], network.solved[1:].T
            shared = phi.map(lambda values: np.tensordot(slopes, values, 1))
            rr = Evaluation(shared.observed + level[:, None], shared.values + level[:, None, None], shared.slopes)
            return Predictions(mu, rr.linked(design.links), scale_free=True)
        if network.trained.rr is not network.trained.mu:
            _, heads = network.functions(design, "rr")
        beta, perpendicular = design.anchor, heads.linked(design.links).scaled(network.scale.anchor)
        r = Linked(
            beta.observed - perpendicular.observed,
            beta.values - perpendicular.values,
            beta.slopes - perpendicular.slopes,
            design.links,
        )
        return Predictions(mu, r, scale_free=True)
