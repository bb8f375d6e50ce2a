"""A trained network as plain arrays, for files, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from riesz.design import Base
from riesz.learners.neural.batching import Feed
from riesz.learners.neural.expansion import Expansions
from riesz.learners.neural.fit import Ensemble, NetworkFit
from riesz.learners.neural.network import Shape
from riesz.learners.neural.reading import Networks, Reading
from riesz.learners.neural.scaling import Scale
from riesz.learners.neural.start import Start
from riesz.learners.neural.training import Trained
from riesz.moment import Array


@dataclass(frozen=True)
class StoredNetwork:
    """What a trained network is made of.

    Attributes
    ----------
    mu : ndarray of float32, shape (P,)
        Weights of the network that mu is read from.
    rr : ndarray of float32, shape (P,), or None
        Those of rr, where they are others.
    history : ndarray
    columns : tuple of str
        Of the history.
    shape : Shape
    scale : Scale
    expansions : Expansions
    start : Start or None
    exact : ndarray or None
    """

    mu: npt.NDArray[Any]
    rr: npt.NDArray[Any] | None
    history: Array
    columns: tuple[str, ...]
    shape: Shape
    scale: Scale
    expansions: Expansions
    start: Start | None
    exact: Array | None

    def __post_init__(self) -> None:
        for weights in (self.mu, self.rr):
            if weights is not None and (weights.dtype != np.float32 or weights.shape != (self.shape.size,)):
                raise ValueError("weights of the wrong size")


@dataclass(frozen=True)
class StoredEnsemble:
    """The networks of one training set."""

    networks: tuple[StoredNetwork, ...]


@dataclass(frozen=True)
class StoredNetworks:
    """The networks of one training set that are read in another way than MADNet's."""

    ensemble: StoredEnsemble
    readings: tuple[Reading, ...]


def store_networks(fit: Networks) -> StoredNetworks:
    """The arrays of networks, and their readings."""
    return StoredNetworks(store(fit.ensemble), fit.readings)


def restore_networks(stored: Sequence[StoredNetworks], base: Base) -> list[Networks]:
    """Networks from their arrays, as :func:`restore` does it."""
    ensembles = restore([one.ensemble for one in stored], base)
    return [Networks(ensemble, one.readings) for ensemble, one in zip(ensembles, stored, strict=True)]


def store(fit: Ensemble) -> StoredEnsemble:
    """The arrays of an ensemble."""
    return StoredEnsemble(tuple(_store(one) for one in fit.fits))


def _store(fit: NetworkFit) -> StoredNetwork:
    same = fit.trained.rr is fit.trained.mu
    return StoredNetwork(
        mu=fit.trained.mu.cpu().numpy(),
        rr=None if same else fit.trained.rr.cpu().numpy(),
        history=fit.trained.history,
        columns=fit.trained.columns,
        shape=fit.shape,
        scale=fit.scale,
        expansions=fit.feed.expansions[fit.origin],
        start=fit.start,
        exact=fit.exact,
    )


def restore(ensembles: Sequence[StoredEnsemble], base: Base) -> list[Ensemble]:
    """Ensembles from their arrays, on the processor; they were all fitted on one base."""
    feed = Feed([base], torch.device("cpu"), [ensembles[0].networks[0].expansions])
    return [Ensemble(tuple(_restore(one, feed) for one in ensemble.networks)) for ensemble in ensembles]


def _restore(stored: StoredNetwork, feed: Feed) -> NetworkFit:
    mu = torch.from_numpy(stored.mu)
    trained = Trained(mu, mu if stored.rr is None else torch.from_numpy(stored.rr), stored.history, stored.columns)
    return NetworkFit(trained, stored.shape, stored.scale, feed, 0, stored.start, stored.exact)
