"""The contract of an objective, and what it sees of a network.

:class:`Readout` turns the raw outputs of a stack into the functions an objective talks about: the moment-constrained (or
representer) heads and mu, at each station, with their slopes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from riesz.learners.neural.batching import Batch, Feed, Scales


@dataclass(frozen=True)
class Readout:
    """Functions at the stations of a batch.

    Attributes
    ----------
    heads, head_slopes : Tensor, shape (M, B, S, K)
    index, index_slopes : Tensor, shape (M, B, S)
        The mixed outcome heads: mu, or its logit under ``family="binomial"``. Slopes are zero without derivatives.
    """

    heads: Tensor
    head_slopes: Tensor
    index: Tensor
    index_slopes: Tensor


def read_out(outputs: Tensor, batch: Batch, feed: Feed) -> Readout:
    """Split a stack's outputs, shape (M, B S or 2 B S, K + H), into functions."""
    members, size, stations = batch.shares.shape[:3]
    split = outputs.reshape(members, -1, size, stations, outputs.shape[-1])
    values, k = split[:, 0], feed.components
    index = (batch.shares * values[..., k:]).sum(dim=-1)
    if not feed.dual:
        zero = torch.zeros((), device=outputs.device)
        return Readout(values[..., :k], zero, index, zero)
    slopes = split[:, 1]
    index_slopes = (batch.share_slopes * values[..., k:] + batch.shares * slopes[..., k:]).sum(dim=-1)
    return Readout(values[..., :k], slopes[..., :k], index, index_slopes)


def at_observed(values: Tensor, batch: Batch) -> Tensor:
    """What stands at the observed row's station, shape (M, B) or (M, B, K)."""
    at = batch.observed[:, :, None]
    if values.ndim == 4:
        return values.gather(2, at[..., None].expand(-1, -1, 1, values.shape[-1])).squeeze(2)
    return values.gather(2, at).squeeze(2)


def moment_of(values: Tensor, slopes: Tensor, batch: Batch, feed: Feed) -> Tensor:
    """m(f) for each component's own function f, shape (M, B, K)."""
    read = values[:, :, feed.of_reading]
    if feed.dual:
        read = torch.where(feed.is_derivative[:, None], slopes[:, :, feed.of_reading], read)
    return (batch.moment * read.transpose(2, 3)).sum(dim=-1)


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
    """What is minimised; holds settings only."""

    @abstractmethod
    def loss(self, out: Readout, batch: Batch, feed: Feed, scales: Scales, epoch: Tensor, dual_state: Tensor) -> Terms:
        """The loss of each member on a batch.

        Parameters
        ----------
        out : Readout
        batch : Batch
        feed : Feed
        scales : Scales
        epoch : Tensor, shape (M,)
            Epochs each member has been trained.
        dual_state : Tensor, shape (M, K)
            Lagrange multipliers, for objectives that ascend in them.
        """

    @abstractmethod
    def outcome_share(self, outcome_loss: float) -> float:
        """What the outcome's loss adds to the whole."""

    @abstractmethod
    def ascend(self, violation: Tensor, dual_state: Tensor) -> Tensor:
        """New multipliers after a step with the constraint violations h_n(f), both of shape (M, K)."""
