r"""The outcome's loss: squared error, or log-loss of the logit; TARNet minimises it alone.

Objectives that learn rr besides mu use the functions ``losses`` and ``gaps``, too, for mu and for the targeted
:math:`\mu + \varepsilon \alpha` (on the logit scale under ``family="binomial"``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, pad

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.neural.engine.batching import Batch, Scales
from riesz.learners.neural.engine.fit import NetworkFit
from riesz.learners.neural.engine.network import LANES
from riesz.learners.neural.objectives.base import Heads, Objective, Outputs, Terms
from riesz.predictions import Predictions, no_representer


def losses(index: Tensor, y: Tensor, family: str) -> Tensor:
    """The loss of each row, given mu or its logit."""
    if family == "binomial":
        return binary_cross_entropy_with_logits(index, y, reduction="none")
    return (y - index).square()


def gaps(index: Tensor, y: Tensor, family: str) -> Tensor:
    """The derivative of each row's loss with respect to the index."""
    return probabilities(index) - y if family == "binomial" else 2.0 * (index - y)


def probabilities(logit: Tensor) -> Tensor:
    """The sigmoid, with rounding that does not depend on the number of members."""
    return evenly(torch.sigmoid, logit)


def evenly(function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Apply a function to each number so that the rounding does not depend on the number of members.

    Vectorised code may round the last few numbers of an array differently, so the array is padded.
    """
    size = values.numel()
    return function(pad(values.flatten(), (0, -size % LANES)))[:size].view_as(values)


def corrected(index: Evaluation, rr: Evaluation, epsilon: Array) -> Evaluation:
    """Add epsilon, shape (K,), times rr, shape (K, n), to the index of mu, shape (n,)."""

    def add(values: Array, more: Array) -> Array:
        return np.asarray(values + np.tensordot(epsilon, more, 1))

    return Evaluation(add(index.observed, rr.observed), add(index.values, rr.values), add(index.slopes, rr.slopes))


@dataclass(frozen=True)
class OutcomeLoss(Objective):
    """The outcome's loss and nothing else; subclasses add a readout.

    Attributes
    ----------
    family : {"gaussian", "binomial"}
    """

    family: str
    reported: ClassVar[tuple[str, ...]] = ("outcome_loss",)

    def heads(self, components: int) -> Heads:
        return Heads(linear=0)

    def loss(self, outputs: Outputs, batch: Batch, scales: Scales) -> Terms:
        loss = (batch.weights * losses(outputs.outcome, batch.y, self.family)).sum(dim=1)
        return Terms(loss, {"outcome_loss": loss})

    def slopes(self, outputs: Outputs, batch: Batch, scales: Scales) -> tuple[Terms, Outputs]:
        terms = self.loss(outputs, batch, scales)
        gap = batch.weights * gaps(outputs.outcome, batch.y, self.family)
        return terms, Outputs(torch.zeros_like(outputs.heads), torch.zeros_like(outputs.moments), gap)

    def outcome_share(self, outcome_loss: float) -> float:
        return outcome_loss


@dataclass(frozen=True)
class Outcome(OutcomeLoss):
    """TARNet's objective: mu is read from the outcome heads; there is no rr."""

    def readout(self, network: NetworkFit, design: Design) -> Predictions:
        index, _ = network.functions(design)
        return Predictions(network.mu(index, design.family), no_representer(design), scale_free=False)
