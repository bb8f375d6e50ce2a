"""The contract of an objective: what a network minimises, and how mu and rr are read from it.

Training calls ``loss`` on the :class:`Outputs` of a batch of rows, differentiates it, and passes the gradient back through the
networks. Predictions call ``readout``. An objective must implement ``heads``, ``loss``, ``outcome_share`` and ``readout``.

If every network has an adversary (:class:`~riesz.learners.neural.engine.schedule.Game`), outputs and batches hold networks and
adversaries in turn, so that their first axis has length 2M; ``slopes`` then is the gradient of each player's own loss.

Shapes: M members (networks trained side by side), B rows, S evaluation points, K linear heads, H outcome heads, E extras.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.learners.neural.engine.batching import Batch, Scales
from riesz.learners.neural.engine.fit import NetworkFit
from riesz.predictions import Predictions

_NOTHING = torch.zeros(0, dtype=torch.float32)


class Outputs(NamedTuple):
    """The networks' outputs on a batch, as a loss uses them; or a gradient with respect to them.

    Attributes
    ----------
    heads : Tensor, shape (M, B, K)
        The linear heads at the observed rows.
    moments : Tensor, shape (M, B, K)
        m(f) of each linear head f, by the moment of its component.
    outcome : Tensor, shape (M, B)
        The mixed outcome heads at the observed rows: mu, or its index, such as the logit.
    extras : Tensor, shape (M, E)
        Parameters besides the network's weights.
    """

    heads: Tensor
    moments: Tensor
    outcome: Tensor
    extras: Tensor = _NOTHING


def make_outputs(components: Tensor, outcomes: Tensor, batch: Batch, extras: Tensor = _NOTHING) -> Outputs:
    """Reduce the networks' outputs at all points to those that a loss uses.

    Parameters
    ----------
    components : Tensor, shape (M, B S or 2 B S, K)
        As :meth:`NetworkBatch.forward_to_train` returns them.
    outcomes : Tensor, shape (M, B, H)
    batch : Batch
    extras : Tensor, shape (M, E)
    """
    members, size, points, _ = batch.shares.shape
    halves, k = components.shape[1] // (size * points), components.shape[2]
    values, *slopes = components.view(members, halves, size, points, k).unbind(1)
    moments = (batch.value_weights * values).sum(dim=2)
    for below in slopes:
        moments += (batch.slope_weights * below).sum(dim=2)
    outcome = (batch.observed_shares * outcomes).sum(dim=2)
    return Outputs((batch.observed * values).sum(dim=2), moments, outcome, extras)


def pull_back(slopes: Outputs, batch: Batch, dual: bool) -> tuple[Tensor, Tensor]:
    """Turn the gradient of a loss at :class:`Outputs` into its gradient at the networks' components and outcomes."""
    heads, moments = slopes.heads.unsqueeze(2), slopes.moments.unsqueeze(2)
    components = torch.addcmul(batch.observed * heads, batch.value_weights, moments).flatten(1, 2)
    if dual:
        components = torch.cat([components, (batch.slope_weights * moments).flatten(1, 2)], dim=1)
    return components, batch.observed_shares * slopes.outcome.unsqueeze(2)


@dataclass(frozen=True)
class Terms:
    """A loss per member, and its parts for the history.

    Attributes
    ----------
    loss : Tensor, shape (M,)
    parts : dict of Tensor, each of shape (M,)
    """

    loss: Tensor
    parts: dict[str, Tensor]


class Heads(NamedTuple):
    """What a network needs besides its outcome heads.

    Attributes
    ----------
    linear : int
        K, heads that are linear in the shared representation.
    extras : int
        E, parameters that enter only the loss; they start at zero.
    """

    linear: int
    extras: int = 0


class Objective(ABC):
    """What is minimised, and how mu and rr are read from a trained network; holds settings only.

    Attributes
    ----------
    reported : tuple of str
        The names of the numbers that :meth:`report` returns; ``outcome_loss`` must be among them.
    """

    reported: ClassVar[tuple[str, ...]]

    @abstractmethod
    def heads(self, components: int) -> Heads:
        """The heads of a network for a moment with this number of components."""

    def at(self, epoch: Tensor, multipliers: Tensor) -> Objective:
        """The objective at a point of training; by default it is the same throughout.

        Parameters
        ----------
        epoch : Tensor, shape (M,)
            Epochs that each member has been trained.
        multipliers : Tensor, shape (M, K)
            Lagrange multipliers, which :meth:`ascend` moves.
        """
        return self

    @abstractmethod
    def loss(self, outputs: Outputs, batch: Batch, scales: Scales) -> Terms:
        """Compute the loss of each member on a batch."""

    def slopes(self, outputs: Outputs, batch: Batch, scales: Scales) -> tuple[Terms, Outputs]:
        """The loss and its gradient at the outputs, by automatic differentiation.

        The objectives in this folder replace it by a formula, which tests compare with this one. With automatic differentiation,
        fits took 8 to 20% more processor time (1,000 rows, default settings: MADNet 17 and 19%, RieszNet 15%,
        DragonNet 20%, TARNet 8%).
        """
        with torch.enable_grad():
            free = Outputs(*(part.detach().requires_grad_() for part in outputs))
            terms = self.loss(free, batch, scales)
        return terms, Outputs(*torch.autograd.grad(terms.loss.sum(), free, materialize_grads=True))

    def validation(self, outputs: Outputs, batch: Batch, scales: Scales) -> Terms:
        """The loss on validation rows, which decides when to stop and which weights are kept; by default the same loss."""
        return self.loss(outputs, batch, scales)

    def report(self, outputs: Outputs, batch: Batch, scales: Scales, terms: Terms) -> dict[str, Tensor]:
        """Compute the numbers that the history shows of a validation batch, each of shape (M,); by default the loss's parts."""
        return {name: terms.parts[name] for name in self.reported}

    @abstractmethod
    def outcome_share(self, outcome_loss: float) -> float:
        """The part of the loss that is the outcome's, given ``outcome_loss`` as reported."""

    def ascend(self, terms: Terms, multipliers: Tensor) -> Tensor:
        """New multipliers after a step, shape (M, K); by default they stay as they are."""
        return multipliers

    def solve(self, network: NetworkFit, design: Design, seed: int) -> Array | None:
        """Solve a last layer in closed form after training; by default none is.

        Parameters
        ----------
        network : NetworkFit
            The trained network.
        design : Design
            Its training set.
        seed : int
            For a random part of the design, if it has too many rows.

        Returns
        -------
        ndarray or None
            Kept in files and given to :meth:`readout` as ``network.solved``.
        """
        return None

    @abstractmethod
    def readout(self, network: NetworkFit, design: Design) -> Predictions:
        """Read mu and rr in natural units at the rows of a design and at each of their readings."""
