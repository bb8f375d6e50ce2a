r"""One trained network: predictions in natural units, with beta_perp's last layer as trained or solved exactly.

beta_perp is linear in the shared representation :math:`\varphi(z)`, so given the body its last layer has a closed form.
``exact`` solves the paper's constrained problem on :math:`(1, \varphi)` with the ridge penalty that minimises the
leave-one-out Riesz loss, as ``riesz.Linear`` does on the formula's columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.special import expit
from torch import Tensor

from riesz.design import Base, Design
from riesz.learners.base import Fit
from riesz.learners.linear import riesz_coefficients
from riesz.learners.neural.batching import Batch, Feed, Scales
from riesz.learners.neural.network import Shape, Stack
from riesz.learners.neural.objectives.base import read_out
from riesz.learners.neural.scaling import Scale
from riesz.learners.neural.training import HISTORY, Trained
from riesz.learners.ridge import GRID, make_basis
from riesz.moment import Array, Evaluation, Moment, Points
from riesz.predictions import Predictions

_ROWS = 8192  # predicted at a time
_MOST_EXACT = 20_000  # rows that the exact readout is solved on, at most


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
class NetworkFit(Fit):
    """A trained network.

    Attributes
    ----------
    trained : Trained
    shape : Shape
    scale : Scale
    feed : Feed
        Of the bases that were fitted together.
    origin : int
        Place of its own base among them.
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
        feed = (
            self.feed
            if id(design.base) in self.feed.offsets
            else Feed([design.base], self.feed.device, [self.feed.expansions[self.origin]])
        )
        rows = np.arange(len(design.base.y))[design.rows]
        at = self._walk(self.trained.mu, rows, design.base, feed, representation=False)
        readings = _Readings(feed, design.base, rows)
        mu = self._mu(readings.evaluate(at.index[..., None], at.index_slopes[..., None]), design.base.family)
        if self.exact is None:
            if self.trained.rr is not self.trained.mu:
                at = self._walk(self.trained.rr, rows, design.base, feed, representation=False)
            rr = self._difference(readings.evaluate(at.heads, at.head_slopes), design.base, rows)
        else:
            shared = self._walk(self.trained.rr, rows, design.base, feed, representation=True)
            rr = readings.evaluate(shared.heads @ self.exact[1:] + self.exact[0], shared.head_slopes @ self.exact[1:])
        return Predictions(mu, rr, scale_free=True)

    def details(self) -> Mapping[str, float]:
        last = self.trained.history[-1]
        return {"epochs": float(last[0]), "valid_loss": float(self.trained.history[:, 3].min())}

    def history(self) -> pd.DataFrame:
        return pd.DataFrame(self.trained.history, columns=list(HISTORY))

    def solved_exactly(self, design: Design) -> NetworkFit:
        """The same network with beta_perp's last layer solved in closed form on the rows of a design."""
        rows = np.arange(len(design.base.y))[design.rows]
        rows = rows[:: -(-len(rows) // _MOST_EXACT)]
        at = self._walk(self.trained.rr, rows, design.base, self.feed, representation=True)
        phi = _Readings(self.feed, design.base, rows).evaluate(at.heads, at.head_slopes)
        made = _representation_design(design.base, rows, phi)
        basis = make_basis(made, made.weights, np.vstack([made.y, made.base.anchor.observed]))
        grid = GRID if basis.rank < len(made) else GRID[1:]
        coefficients, _ = riesz_coefficients(made, basis, "loo", grid, constrained=True)
        return replace(self, exact=coefficients)

    def _mu(self, index: Evaluation, family: str) -> Evaluation:
        one = index.map(lambda values: values[0])
        if family == "binomial":
            at = expit(one.values)
            return Evaluation(expit(one.observed), at, at * (1.0 - at) * one.slopes)
        centre, spread = self.scale.y_centre, self.scale.y_spread
        return Evaluation(centre + spread * one.observed, centre + spread * one.values, spread * one.slopes)

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
        stack, scales = (
            Stack(self.shape, weights[None]),
            Scales([(self.scale, feed.origins[id(base)])], feed),
        )
        parts = []
        for start in range(0, len(rows), _ROWS):
            index = torch.as_tensor(rows[None, start : start + _ROWS] + feed.offsets[id(base)], device=feed.device)
            batch = feed.batch(index, torch.ones(index.shape, device=feed.device), scales)
            with torch.no_grad():
                parts.append(_represent(stack, batch, feed) if representation else _heads(stack, batch, feed))
        return Stationed(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True)))


def _heads(stack: Stack, batch: Batch, feed: Feed) -> tuple[Array, ...]:
    out = read_out(stack.forward(batch.rows, feed.dual, keep=False), batch, feed)
    heads, index = _array(out.heads[0]), _array(out.index[0])
    if not feed.dual:
        return index, np.zeros_like(index), heads, np.zeros_like(heads)
    return index, _array(out.index_slopes[0]), heads, _array(out.head_slopes[0])


def _represent(stack: Stack, batch: Batch, feed: Feed) -> tuple[Array, ...]:
    size, stations = batch.shares.shape[1:3]
    phi = stack.represent(batch.rows, feed.dual).reshape(-1, size, stations, stack.shape.width)
    values = _array(phi[0])
    empty = np.zeros((size, stations))
    return empty, empty, values, _array(phi[1]) if feed.dual else np.zeros_like(values)


def _array(tensor: Tensor) -> Array:
    return np.asarray(tensor.double().cpu().numpy())


class _Readings:
    """From stations to observed rows and readings."""

    def __init__(self, feed: Feed, base: Base, rows: npt.NDArray[np.intp]) -> None:
        self.of_reading = feed.of_reading.cpu().numpy()
        self.observed = feed.observed_station(base, rows)
        self.derivative = base.moment.is_derivative

    def evaluate(self, values: Array, slopes: Array) -> Evaluation:
        """Functions of shape (n, S, F) as an evaluation of shape (F, n)."""
        at = np.arange(len(values))
        read, bend = values[:, self.of_reading], slopes[:, self.of_reading]
        bend = np.where(self.derivative[:, None], bend, 0.0)
        return Evaluation(values[at, self.observed].T, read.transpose(2, 1, 0), bend.transpose(2, 1, 0))


def _representation_design(base: Base, rows: npt.NDArray[np.intp], phi: Evaluation) -> Design:
    """A design whose columns are the intercept and the representation."""
    width, n = phi.observed.shape
    columns = np.arange(1, width + 1)
    points = tuple(
        Points(
            columns,
            phi.values[:, k].T,
            phi.slopes[:, k].T if derivative else None,
            base.moment.points[k].treatment[rows],
            base.moment.points[k].treatment_slope,
        )
        for k, derivative in enumerate(base.moment.is_derivative)
    )
    made = replace(
        base,
        y=base.y[rows],
        z=np.column_stack([np.ones(n), phi.observed.T]),
        names=("Intercept", *(f"phi{j}" for j in range(width))),
        moment=Moment(points, base.moment.weights[..., rows], base.moment.normalizer[:, rows]),
        anchor=base.anchor.map(lambda values: values[..., rows]),
        treatment=base.treatment[rows],
        covariates=columns,
        weights=base.weights[rows],
        frequency=base.frequency[rows],
        groups=None if base.groups is None else np.unique(base.groups[rows], return_inverse=True)[1],
        strata=None if base.strata is None else base.strata[rows],
    )
    return Design(made, slice(None))


def attach(
    trained: Sequence[Trained],
    shape: Shape,
    scales: Sequence[Scale],
    feed: Feed,
    designs: Sequence[Design],
    exact: bool,
) -> list[NetworkFit]:
    """Fits from what training left."""
    origins = [feed.origins[id(design.base)] for design in designs]
    fits = [
        NetworkFit(one, shape, scale, feed, origin, None)
        for one, scale, origin in zip(trained, scales, origins, strict=True)
    ]
    return [fit.solved_exactly(design) for fit, design in zip(fits, designs, strict=True)] if exact else fits
