"""A trained network as plain arrays, for files, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.learners.base import Fit
from riesz.learners.inputs.expansions import Expansions
from riesz.learners.neural.engine.batching import Feed
from riesz.learners.neural.engine.ensemble import Ensemble
from riesz.learners.neural.engine.fit import NetworkFit, Trained
from riesz.learners.neural.engine.network import Shape
from riesz.learners.neural.engine.scaling import Scale
from riesz.learners.neural.objectives.base import Objective
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class StoredNetwork:
    """The content of a trained network.

    Attributes
    ----------
    mu : ndarray of float32, shape (P,)
        Weights of the network that mu is read from.
    rr : ndarray of float32, shape (P,), or None
        Weights of the network that rr is read from, if they differ.
    history : ndarray
    columns : tuple of str
        Names of the columns of ``history``.
    kept : int
        The row of ``history`` whose weights were kept.
    shape : Shape
    scale : Scale
    expansions : Expansions
    solved : ndarray or None
        Coefficients of a last layer that was solved after training.
    """

    mu: npt.NDArray[Any]
    rr: npt.NDArray[Any] | None
    history: Array
    columns: tuple[str, ...]
    kept: int
    shape: Shape
    scale: Scale
    expansions: Expansions
    solved: Array | None

    def __post_init__(self) -> None:
        for weights in (self.mu, self.rr):
            if weights is not None and (weights.dtype != np.float32 or weights.shape != (self.shape.size,)):
                raise ValueError("the weights have the wrong size")
        if not 0 <= self.kept < len(self.history):
            raise ValueError("the history has no row of the kept weights")


@stored
@dataclass(frozen=True)
class StoredNetworks:
    """The networks of one training set."""

    networks: tuple[StoredNetwork, ...]

    def weights(self) -> dict[str, float]:
        """Weights of a closed form that is blended with the networks, by name: none. Older files may have some."""
        return {}


def store(fit: Ensemble) -> StoredNetworks:
    """The arrays of a fit."""
    return StoredNetworks(tuple(_store(network) for network in fit.networks))


def _store(fit: NetworkFit) -> StoredNetwork:
    same_weights = fit.trained.rr is fit.trained.mu
    return StoredNetwork(
        mu=fit.trained.mu.cpu().numpy(),
        rr=None if same_weights else fit.trained.rr.cpu().numpy(),
        history=fit.trained.history,
        columns=fit.trained.columns,
        kept=fit.trained.kept,
        shape=fit.shape,
        scale=fit.scale,
        expansions=fit.feed.expansions[fit.origin],
        solved=fit.solved,
    )


def restore(stored: Sequence[StoredNetworks], sample: Design, objective: Objective) -> list[Fit]:
    """Fits from their arrays, on the CPU; all must be fits to one sample for one objective."""
    feed = Feed([sample], torch.device("cpu"), [stored[0].networks[0].expansions])
    return [Ensemble(tuple(_restore(network, feed) for network in parts.networks), objective) for parts in stored]


def _restore(stored: StoredNetwork, feed: Feed) -> NetworkFit:
    mu = torch.from_numpy(stored.mu)
    rr = mu if stored.rr is None else torch.from_numpy(stored.rr)
    trained = Trained(mu, rr, stored.history, stored.columns, stored.kept)
    return NetworkFit(trained, stored.shape, stored.scale, feed, 0, stored.solved)
