r"""One trained network: predictions in natural units, with beta_perp's last layer as trained or solved exactly.

beta_perp is linear in the shared representation :math:`\varphi(z)`, so given the body its last layer has a closed form.
``exact`` solves the paper's constrained problem on :math:`(1, \varphi)` with the ridge penalty that minimises the
leave-one-out Riesz loss, as ``riesz.Linear`` does on the formula's columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.design import Base, Design
from riesz.design.moment import Evaluation
from riesz.learners.base import Fit
from riesz.learners.companion.splines import MOST_ROWS
from riesz.learners.linear.learner import probability, riesz_coefficients
from riesz.learners.linear.ridge import make_basis
from riesz.learners.neural.engine.batching import Batch, Feed, Scales
from riesz.learners.neural.engine.network import NetworkBatch, Shape
from riesz.learners.neural.engine.representation import as_columns
from riesz.learners.neural.engine.scaling import Scale
from riesz.learners.neural.engine.training import Trained
from riesz.learners.neural.objectives.base import Readout
from riesz.predictions import Predictions, average

_ROWS = 8192  # predicted at a time


@dataclass(frozen=True)
class Stationed:
    """Functions at the stations of some rows, in the network's units.

    Attributes
    ----------
    index, index_slopes : ndarray, shape (n, S)
        The mixed outcome heads.
    heads, head_slopes : ndarray, shape (n, S, F)
        The moment-constrained heads, or the shared representation.
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
        The place of its base in the feed.
    exact : ndarray, shape (1 + width, K), or None
        Coefficients of r on the representation, when the constraint is solved exactly.
    """

    trained: Trained
    shape: Shape
    scale: Scale
    feed: Feed
    origin: int
    exact: Array | None

    def predict(self, design: Design) -> Predictions:
        """Mu and rr at the rows of a design, and at each of their readings."""
        index, heads = self.functions(design)
        mu = self.mu(index, design.base.family)
        if self.exact is None:
            if self.trained.rr is not self.trained.mu:
                _, heads = self._functions(self.trained.rr, design, representation=False)
            rr = self._difference(heads, design.base, np.arange(len(design.base.y))[design.rows])
        else:
            _, phi = self._functions(self.trained.rr, design, representation=True)
            level, slopes = self.exact[0], self.exact[1:].T
            shared = phi.map(lambda values: np.tensordot(slopes, values, 1))
            rr = Evaluation(shared.observed + level[:, None], shared.values + level[:, None, None], shared.slopes)
        return Predictions(mu, rr, scale_free=True)

    def details(self) -> dict[str, float]:
        """Epochs trained, the validation loss of the weights kept and, where an objective squeezes, how many rows that moved."""
        course = self.history()
        found = {"epochs": float(len(course)), "valid_loss": float(course["valid_loss"].iloc[self.trained.kept])}
        return (
            found | {"squeezed": float(course["squeezed"].iloc[self.trained.kept])} if "squeezed" in course else found
        )

    def history(self) -> pd.DataFrame:
        """The course of training, one row an epoch."""
        return pd.DataFrame(self.trained.history, columns=list(self.trained.columns))

    def solved_exactly(self, design: Design, seed: int) -> NetworkFit:
        """The same network with beta_perp's last layer solved in closed form on the rows of a design, or a random part of them."""
        rows = np.arange(len(design.base.y))[design.rows]
        rows = rows[draw_part(len(rows), MOST_ROWS, seed)]
        at = self._walk(self.trained.rr, rows, design.base, self.feed, representation=True)
        phi = _Readings(self.feed, design.base, rows).evaluate(at.heads, at.head_slopes)
        made = as_columns(design.base, rows, phi)
        basis = make_basis(made, made.weights, np.vstack([made.y, made.base.anchor.observed]), seed=seed)
        coefficients, _ = riesz_coefficients(made, basis, "loo", constrained=True)
        return replace(self, exact=coefficients)

    def functions(self, design: Design, representation: bool = False) -> tuple[Evaluation, Evaluation]:
        """The mixed outcome heads, shape (n,), and the others or the representation, shape (F, n), in the network's units."""
        return self._functions(self.trained.mu, design, representation)

    def _functions(self, weights: Tensor, design: Design, representation: bool) -> tuple[Evaluation, Evaluation]:
        base, rows = design.base, np.arange(len(design.base.y))[design.rows]
        feed = self.feed if id(base) in self.feed.offsets else self.feed.like(base, self.origin)
        at = self._walk(weights, rows, base, feed, representation)
        readings = _Readings(feed, base, rows)
        index = readings.evaluate(at.index[..., None], at.index_slopes[..., None]).map(lambda values: values[0])
        return index, readings.evaluate(at.heads, at.head_slopes)

    @property
    def extras(self) -> Array:
        """The parameters beside the network's own, shape (E,)."""
        return _array(self.trained.mu[: self.shape.extras])

    def mu(self, index: Evaluation, family: str) -> Evaluation:
        """Mu in the outcome's units, from the mixed outcome heads in the network's."""
        if family == "binomial":
            return probability(index)
        centre, spread = self.scale.y_centre, self.scale.y_spread
        return Evaluation(centre + spread * index.observed, centre + spread * index.values, spread * index.slopes)

    def _difference(self, heads: Evaluation, base: Base, rows: npt.NDArray[np.intp]) -> Evaluation:
        """R = beta - beta_perp in the anchor's own units."""
        c = self.scale.anchor
        anchor = base.anchor.map(lambda values: values[..., rows])
        return Evaluation(
            anchor.observed - c[:, None] * heads.observed,
            anchor.values - c[:, None, None] * heads.values,
            anchor.slopes - c[:, None, None] * heads.slopes,
        )

    def _walk(
        self, weights: Tensor, rows: npt.NDArray[np.intp], base: Base, feed: Feed, representation: bool
    ) -> Stationed:
        networks, scales = (
            NetworkBatch(self.shape, weights[None]),
            Scales([(self.scale, feed.origins[id(base)])], feed),
        )
        parts = []
        for start in range(0, len(rows), _ROWS):
            index = torch.as_tensor(rows[None, start : start + _ROWS] + feed.offsets[id(base)], device=feed.device)
            batch = feed.batch(index, torch.ones(index.shape, dtype=torch.float32, device=feed.device), scales)
            with torch.no_grad():
                parts.append(_represent(networks, batch, feed) if representation else _heads(networks, batch, feed))
        return Stationed(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True)))


def _heads(networks: NetworkBatch, batch: Batch, feed: Feed) -> tuple[Array, ...]:
    out = Readout(networks.forward(batch.rows, feed.dual), batch, feed.dual)
    heads, index = _array(out.heads[0]), _array(out.index[0])
    return index, _array(out.index_slopes[0]), heads, _array(out.head_slopes[0])


def _represent(networks: NetworkBatch, batch: Batch, feed: Feed) -> tuple[Array, ...]:
    size, stations = batch.shares.shape[1:3]
    phi = networks.represent(batch.rows, feed.dual).reshape(-1, size, stations, networks.shape.width)
    values = _array(phi[0])
    empty = np.zeros((size, stations))
    return empty, empty, values, _array(phi[1]) if feed.dual else np.zeros_like(values)


def _array(tensor: Tensor) -> Array:
    return np.asarray(tensor.cpu().double().numpy())  # not every device has float64


class _Readings:
    """From stations to observed rows and readings."""

    def __init__(self, feed: Feed, base: Base, rows: npt.NDArray[np.intp]) -> None:
        self.of_reading = feed.of_reading
        self.observed = feed.observed_station(base, rows)
        self.derivative = base.moment.is_derivative

    def evaluate(self, values: Array, slopes: Array) -> Evaluation:
        """Functions of shape (n, S, F) as an evaluation of shape (F, n)."""
        at = np.arange(len(values))
        read, bend = values[:, self.of_reading], slopes[:, self.of_reading]
        bend = np.where(self.derivative[:, None], bend, 0.0)
        return Evaluation(values[at, self.observed].T, read.transpose(2, 1, 0), bend.transpose(2, 1, 0))


@dataclass(frozen=True)
class Ensemble(Fit):
    """The networks of one training set, whose predictions are averaged."""

    fits: tuple[NetworkFit, ...]

    def predict(self, design: Design) -> Predictions:
        return average([fit.predict(design) for fit in self.fits])

    def details(self) -> Mapping[str, float]:
        means = pd.DataFrame([fit.details() for fit in self.fits]).mean()
        return {str(name): float(value) for name, value in means.items()}

    def history(self) -> pd.DataFrame:
        return pd.concat([fit.history().assign(network=at) for at, fit in enumerate(self.fits)], ignore_index=True)
