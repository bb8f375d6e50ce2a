r"""The outcome's loss, squared error or that of another family; TARNet minimises it alone.

Objectives that learn rr besides mu use the functions ``losses`` and ``gaps``, too, for mu and for the targeted
:math:`\mu + \varepsilon \alpha` (on the scale of the index, such as the logit, under other families than ``"gaussian"``).
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
from riesz.families import find_family
from riesz.learners.neural.engine.batching import Batch, Scales
from riesz.learners.neural.engine.fit import NetworkFit
from riesz.learners.neural.engine.network import LANES
from riesz.learners.neural.objectives.base import Heads, Objective, Outputs, Terms
from riesz.predictions import Predictions, no_representer

_LARGEST = 30.0  # a logarithm of mu beyond it would overflow in single precision


def losses(index: Tensor, y: Tensor, family: str) -> Tensor:
    """The loss of each row, given mu or its index."""
    of = find_family(family)
    if of.quantile is not None:
        return (y - index) * (of.quantile - (y < index).to(y.dtype))
    return _LOSSES[of.kind][0](index, y)


def gaps(index: Tensor, y: Tensor, family: str) -> Tensor:
    """The derivative of each row's loss with respect to the index."""
    of = find_family(family)
    if of.quantile is not None:
        return (y < index).to(y.dtype) - of.quantile
    return _LOSSES[of.kind][1](index, y)


def _log_loss(index: Tensor, y: Tensor) -> Tensor:
    return binary_cross_entropy_with_logits(index, y, reduction="none")


def _exponential(index: Tensor) -> Tensor:
    return evenly(torch.exp, index.clamp(-_LARGEST, _LARGEST))


#: By family: the loss of each row, given the index, and its derivative with respect to the index.
_LOSSES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "gaussian": (lambda index, y: (y - index).square(), lambda index, y: 2.0 * (index - y)),
    "binomial": (_log_loss, lambda index, y: probabilities(index) - y),
    "poisson": (lambda index, y: _exponential(index) - y * index, lambda index, y: _exponential(index) - y),
    "gamma": (lambda index, y: y * _exponential(-index) + index, lambda index, y: 1.0 - y * _exponential(-index)),
}


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
    family : str
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
