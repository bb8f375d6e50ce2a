"""One trained network, and its values at the rows of a design.

In: trained weights and a design. Out: the network's functions at the observed rows and at every reading, in the
network's units. The objective's readout (``objectives/``) makes mu and rr from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.families import find_family
from riesz.learners.linear.learner import mean_at
from riesz.learners.neural.engine.batching import Batch, Feed, Scales
from riesz.learners.neural.engine.network import NetworkBatch, Shape
from riesz.learners.neural.engine.scaling import Scale

ROWS = 8192  # predicted at a time, at most


@dataclass(frozen=True)
class Trained:
    """The result of training a network.

    Attributes
    ----------
    mu, rr : Tensor, shape (P,)
        Weights that mu and rr are computed from; the same tensor unless the best of each are kept.
    history : ndarray, shape (epochs, columns)
    columns : tuple of str
        Names of the columns of ``history``.
    kept : int
        The row of ``history`` whose weights were kept; if mu and rr have different weights, the row with the best loss.
    """

    mu: Tensor
    rr: Tensor
    history: npt.NDArray[np.float64]
    columns: tuple[str, ...]
    kept: int


@dataclass(frozen=True)
class AtPoints:
    """Functions at the evaluation points of some rows, in the network's units.

    Attributes
    ----------
    index, index_slopes : ndarray, shape (n, S)
        The mixed outcome heads, and their derivatives.
    heads, head_slopes : ndarray, shape (n, S, F)
        The linear heads or the shared representation, and their derivatives.
    """

    index: Array
    index_slopes: Array
    heads: Array
    head_slopes: Array


@dataclass(frozen=True)
class NetworkFit:
    """A trained network.

    Attributes
    ----------
    trained : Trained
    shape : Shape
    scale : Scale
    feed : Feed
    origin : int
        The position of its sample in the feed.
    solved : ndarray or None
        Coefficients of a last layer that its objective solved in closed form after training.
    """

    trained: Trained
    shape: Shape
    scale: Scale
    feed: Feed
    origin: int
    solved: Array | None = None

    def functions(
        self, design: Design, weights: Literal["mu", "rr"] = "mu", representation: bool = False
    ) -> tuple[Evaluation, Evaluation]:
        """Compute the network at the rows of a design and at each of their readings, in the network's units.

        Parameters
        ----------
        design : Design
        weights : {"mu", "rr"}
            Which of the weights are used, if training kept different ones.
        representation : bool
            Whether to return the shared representation instead of the heads.

        Returns
        -------
        index : Evaluation, shape (n,)
            The mixed outcome heads; zero with ``representation``.
        heads : Evaluation, shape (F, n)
            The linear heads, or the shared representation.
        """
        feed = self.feed if design.key in self.feed.offsets else self.feed.like(design.sample, self.origin)
        flat = self.trained.mu if weights == "mu" else self.trained.rr
        at_points = self._at_points(flat, design, feed, representation)
        readings = _Readings(feed, design)
        index = readings.evaluate(at_points.index[..., None], at_points.index_slopes[..., None])
        return index.map(lambda values: values[0]), readings.evaluate(at_points.heads, at_points.head_slopes)

    @property
    def extras(self) -> Array:
        """The parameters besides the network's weights, shape (E,)."""
        return _array(self.trained.mu[: self.shape.extras])

    def mu(self, index: Evaluation, family: str) -> Evaluation:
        """Compute mu in the outcome's units from the mixed outcome heads in the network's units."""
        centre, spread, mean = self.scale.y_centre, self.scale.y_spread, mean_at(index, family)
        if find_family(family).limits:
            return mean
        return Evaluation(centre + spread * mean.observed, centre + spread * mean.values, spread * mean.slopes)

    def details(self) -> dict[str, float]:
        """Epochs trained, validation loss of the weights kept and, if propensities are squeezed, the share of rows this changes."""
        history = self.history()
        kept = history.iloc[self.trained.kept]
        return {"epochs": float(len(history))} | {
            name: float(kept[name]) for name in ("valid_loss", "squeezed") if name in history
        }

    def history(self) -> pd.DataFrame:
        """The course of training, one row per epoch."""
        return pd.DataFrame(self.trained.history, columns=list(self.trained.columns))

    def _at_points(self, weights: Tensor, design: Design, feed: Feed, representation: bool) -> AtPoints:
        network = NetworkBatch(self.shape, weights[None])
        scales = Scales([(self.scale, feed.origins[design.key])], feed)
        rows, parts = feed.rows_of(design), []
        for start in range(0, len(rows), ROWS):
            index = torch.as_tensor(rows[None, start : start + ROWS], device=feed.device)
            batch = feed.batch(index, torch.ones(index.shape, dtype=torch.float32, device=feed.device), scales)
            with torch.no_grad():
                compute = _representation if representation else _heads
                parts.append(compute(network, batch, feed.dual))
        return AtPoints(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True)))


def _heads(network: NetworkBatch, batch: Batch, dual: bool) -> tuple[Array, Array, Array, Array]:
    """The fields of :class:`AtPoints` with the linear heads, on one batch of one network."""
    k = network.shape.components
    outputs = network.forward(batch.rows, dual).view(-1, *batch.shares.shape[1:3], k + network.shape.outcomes)
    values, slopes = outputs[0], outputs[1] if dual else torch.zeros_like(outputs[0])
    shares, share_slopes = batch.shares[0], batch.share_slopes[0]
    index = (shares * values[..., k:]).sum(dim=-1)
    index_slopes = (share_slopes * values[..., k:] + shares * slopes[..., k:]).sum(dim=-1)
    return _array(index), _array(index_slopes), _array(values[..., :k]), _array(slopes[..., :k])


def _representation(network: NetworkBatch, batch: Batch, dual: bool) -> tuple[Array, Array, Array, Array]:
    """The fields of :class:`AtPoints` with the shared representation, on one batch of one network."""
    size, points = batch.shares.shape[1:3]
    phi = network.represent(batch.rows, dual).reshape(-1, size, points, network.shape.width)
    values = _array(phi[0])
    empty = np.zeros((size, points))
    return empty, empty, values, _array(phi[1]) if dual else np.zeros_like(values)


def _array(tensor: Tensor) -> Array:
    return np.asarray(tensor.cpu().double().numpy())  # not every device has float64


class _Readings:
    """From evaluation points to observed rows and readings."""

    def __init__(self, feed: Feed, design: Design) -> None:
        self.of_reading = feed.of_reading
        self.observed = feed.observed_point(design)
        self.derivative = design.is_derivative

    def evaluate(self, values: Array, slopes: Array) -> Evaluation:
        """Functions of shape (n, S, F) as an evaluation of shape (F, n)."""
        at = np.arange(len(values))
        read_values, read_slopes = values[:, self.of_reading], slopes[:, self.of_reading]
        read_slopes = np.where(self.derivative[:, None], read_slopes, 0.0)
        return Evaluation(values[at, self.observed].T, read_values.transpose(2, 1, 0), read_slopes.transpose(2, 1, 0))
