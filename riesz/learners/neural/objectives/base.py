"""The contract of an objective, and what it sees of a network.

:func:`see` turns what networks put out in training into what an objective talks about. :class:`Readout` reads the functions that
were learned: the moment-constrained (or representer) heads and mu, at each station, with their slopes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from riesz.learners.neural.engine.batching import Batch, Scales

_NOTHING = torch.zeros(0, dtype=torch.float32)


class Seen(NamedTuple):
    """What a loss sees of a batch, or its gradient in that.

    Attributes
    ----------
    heads : Tensor, shape (M, B, K)
        The moment-constrained (or representer) heads at the observed rows.
    moments : Tensor, shape (M, B, K)
        m(f) for each component's own head f.
    outcome : Tensor, shape (M, B)
        The mixed outcome heads at the observed rows: mu, or its logit under ``family="binomial"``.
    extras : Tensor, shape (M, E)
        Parameters beside the network's own.
    """

    heads: Tensor
    moments: Tensor
    outcome: Tensor
    extras: Tensor = _NOTHING


class Readout:
    """What networks' outputs on a batch say of the functions that are learned.

    Parameters
    ----------
    outputs : Tensor, shape (M, B S or 2 B S, K + H)
        As :meth:`NetworkBatch.forward` gives them.
    batch : Batch
    dual : bool
        Whether tangents stand below the values.
    """

    def __init__(self, outputs: Tensor, batch: Batch, dual: bool) -> None:
        self._batch = batch
        members, size, stations, mixed = batch.shares.shape
        split = outputs.view(members, -1, size, stations, outputs.shape[-1])
        self._values, self._k = split[:, 0], outputs.shape[-1] - mixed
        self._slopes = split[:, 1] if dual else torch.zeros_like(self._values)

    @property
    def heads(self) -> Tensor:
        """The moment-constrained (or representer) heads at each station, shape (M, B, S, K)."""
        return self._values[..., : self._k]

    @property
    def head_slopes(self) -> Tensor:
        """Their derivatives; zero without tangents."""
        return self._slopes[..., : self._k]

    @property
    def index(self) -> Tensor:
        """The mixed outcome heads at each station, shape (M, B, S): mu, or its logit under ``family="binomial"``."""
        return (self._batch.shares * self._values[..., self._k :]).sum(dim=-1)

    @property
    def index_slopes(self) -> Tensor:
        """Its derivative."""
        values, slopes, batch = self._values[..., self._k :], self._slopes[..., self._k :], self._batch
        return (batch.share_slopes * values + batch.shares * slopes).sum(dim=-1)


def see(components: Tensor, outcomes: Tensor, batch: Batch, extras: Tensor = _NOTHING) -> Seen:
    """What a loss sees of a batch.

    Parameters
    ----------
    components : Tensor, shape (M, B S or 2 B S, K)
        As :meth:`NetworkBatch.forward_to_train` gives them.
    outcomes : Tensor, shape (M, B, H)
    batch : Batch
    extras : Tensor, shape (M, E)
    """
    members, size, stations, _ = batch.shares.shape
    halves, k = components.shape[1] // (size * stations), components.shape[2]
    values, *slopes = components.view(members, halves, size, stations, k).unbind(1)
    moments = (batch.value_weights * values).sum(dim=2)
    for below in slopes:
        moments += (batch.slope_weights * below).sum(dim=2)
    return Seen((batch.observed * values).sum(dim=2), moments, (batch.observed_shares * outcomes).sum(dim=2), extras)


def pull_back(slopes: Seen, batch: Batch, dual: bool) -> tuple[Tensor, Tensor]:
    """The gradient of a loss in components and outcomes, from its gradient in what it sees."""
    heads, moments = slopes.heads.unsqueeze(2), slopes.moments.unsqueeze(2)
    components = torch.addcmul(batch.observed * heads, batch.value_weights, moments).flatten(1, 2)
    if dual:
        components = torch.cat([components, (batch.slope_weights * moments).flatten(1, 2)], dim=1)
    return components, batch.observed_shares * slopes.outcome.unsqueeze(2)


@dataclass(frozen=True)
class Terms:
    """A loss for each member, and the parts that a history shows.

    Attributes
    ----------
    loss : Tensor, shape (M,)
    parts : dict of Tensor, each of shape (M,)
    """

    loss: Tensor
    parts: dict[str, Tensor]


class Objective(ABC):
    """What is minimised; holds settings only.

    Attributes
    ----------
    reported : tuple of str
        What :meth:`report` gives, ``outcome_loss`` among it.
    """

    reported: ClassVar[tuple[str, ...]]

    @abstractmethod
    def loss(self, seen: Seen, batch: Batch, scales: Scales, epoch: Tensor, dual_state: Tensor) -> Terms:
        """The loss of each member on a batch.

        Parameters
        ----------
        seen : Seen
        batch : Batch
        scales : Scales
        epoch : Tensor, shape (M,)
            Epochs each member has been trained.
        dual_state : Tensor, shape (M, K)
            Lagrange multipliers, for objectives that ascend in them.
        """

    def slopes(self, seen: Seen, batch: Batch, scales: Scales, epoch: Tensor, dual_state: Tensor) -> tuple[Terms, Seen]:
        """The loss and its gradient in what it sees, by automatic differentiation; a formula is faster."""
        with torch.enable_grad():
            free = Seen(*(part.detach().requires_grad_() for part in seen))
            terms = self.loss(free, batch, scales, epoch, dual_state)
        return terms, Seen(*torch.autograd.grad(terms.loss.sum(), free, materialize_grads=True))

    def report(self, seen: Seen, batch: Batch, scales: Scales, terms: Terms) -> dict[str, Tensor]:
        """What a history shows of a validation batch, each of shape (M,): by default the parts of the loss."""
        return {name: terms.parts[name] for name in self.reported}

    @abstractmethod
    def outcome_share(self, outcome_loss: float) -> float:
        """What the outcome's loss adds to the whole."""

    def ascend(self, terms: Terms, dual_state: Tensor) -> Tensor:
        """New multipliers after a step, shape (M, K); by default there are none to move."""
        return dual_state
