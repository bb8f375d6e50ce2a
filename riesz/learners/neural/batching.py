r"""Rows as networks eat them: each row with every point at which its moment reads mu.

The points of a row are its *stations*. Where the observed row is one of them (binary ATE: it equals the a=1 or the a=0
point) it is not evaluated again. The covariates are kept once; a batch is put together when asked for.

Shapes: M members, B rows, S stations, d inputs (t treatment columns, then c covariates), K components, R readings, H
outcome heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from riesz.design import Base
from riesz.learners.neural.expansion import Expansions
from riesz.learners.neural.scaling import Scale
from riesz.moment import Array, Points

Changed = tuple[npt.NDArray[np.intp], Array, Array | None]


@dataclass(frozen=True)
class Stations:
    """The points of every row of a base, as inputs of a network.

    Attributes
    ----------
    covariates : ndarray, shape (n, c)
    treatment : ndarray, shape (n, S, t)
    tangent : ndarray, shape (n, S, t)
        Derivative of the treatment's inputs along the treatment, where some reading wants one; else zero.
    raw : ndarray, shape (n, S, arms)
        The treatment itself.
    slope : ndarray, shape (S,)
        1 where some reading wants the derivative along the treatment.
    changed : dict
        Station to (columns of the covariate block, values, tangents or None), where a reading changes covariates.
    observed : ndarray of int, shape (n,)
        The station of the observed row.
    of_reading : ndarray of int, shape (R,)
    """

    covariates: Array
    treatment: Array
    tangent: Array
    raw: Array
    slope: Array
    changed: dict[int, Changed]
    observed: npt.NDArray[np.intp]
    of_reading: npt.NDArray[np.intp]

    def inputs(self, rows: npt.NDArray[np.intp]) -> Array:
        """The inputs of some observed rows, shape (b, t + c)."""
        return np.hstack([self.treatment[rows, self.observed[rows]], self.covariates[rows]])


def make_stations(base: Base, expansions: Expansions) -> Stations:
    """Find the distinct points of a base.

    Parameters
    ----------
    base : Base
    expansions : Expansions
        How inputs are made (see ``expansion.py``).
    """
    covariates = _Covariates(base, expansions)
    raws: list[Array] = []
    slopes: list[float] = []
    changed: dict[int, Changed] = {}
    of_reading = []
    for point in base.moment.points:
        change = covariates.changed(point)
        index = None
        if change is None:
            same = (s for s, one in enumerate(raws) if s not in changed and np.array_equal(one, point.treatment))
            index = next(same, None)
        if index is None:
            index = len(raws)
            raws.append(point.treatment)
            slopes.append(0.0)
            if change is not None:
                changed[index] = change
        slopes[index] = max(slopes[index], point.treatment_slope)
        of_reading.append(index)
    observed = np.full(len(base.y), -1, dtype=np.intp)
    for s, one in enumerate(raws):
        if s not in changed:
            observed[(observed < 0) & (one == base.treatment).all(axis=1)] = s
    if (observed < 0).any():
        observed[:] = len(raws)
        raws.append(base.treatment)
        slopes.append(0.0)
    raw, slope = np.stack(raws, axis=1), np.array(slopes)
    made = expansions.treatment
    if made is None:
        treatment, tangent = raw, np.broadcast_to(slope[:, None], raw.shape)
    else:
        treatment, tangent = made.features(raw[..., 0]), made.slopes(raw[..., 0]) * slope[:, None]
    return Stations(
        covariates.block, treatment, tangent, raw, slope, changed, observed, np.array(of_reading, dtype=np.intp)
    )


class _Covariates:
    """The covariate block of a base, and how a reading changes it."""

    def __init__(self, base: Base, expansions: Expansions) -> None:
        self._base = base
        self._columns = base.z[:, base.covariates]
        self._expansions = expansions.covariates
        ends = np.cumsum([one.size for one in self._expansions], dtype=np.intp)
        self._places = [np.arange(end - one.size, end) for end, one in zip(ends, self._expansions, strict=True)]
        pieces = [one.features(column) for one, column in zip(self._expansions, self._columns.T, strict=True)]
        self.block: Array = np.hstack(pieces) if pieces else self._columns

    def changed(self, point: Points) -> Changed | None:
        """Which columns of the block a reading changes, to what, and with which tangents; None when it changes none."""
        place = {int(column): j for j, column in enumerate(self._base.covariates)}
        own = [k for k, column in enumerate(point.columns) if int(column) in place]
        before = self._base.z[:, point.columns[own]]
        bends = point.tangents is not None and bool(point.tangents[:, own].any())
        if not own or (np.array_equal(point.values[:, own], before) and not bends):
            return None
        columns, values, tangents = [], [], []
        for k in own:
            j = place[int(point.columns[k])]
            columns.append(self._places[j])
            values.append(self._expansions[j].features(point.values[:, k]))
            if point.tangents is not None:
                tangents.append(self._expansions[j].slopes(point.values[:, k]) * point.tangents[:, k, None])
        return np.concatenate(columns), np.hstack(values), np.hstack(tangents) if tangents else None


@dataclass(frozen=True)
class Batch:
    """Rows of every member of a stack, ready for the network.

    Attributes
    ----------
    rows : Tensor, shape (M, B S, d) or (M, 2 B S, d)
        Inputs, and below them their tangents.
    shares, share_slopes : Tensor, shape (M, B, S, H)
        How the outcome heads mix at each station, and its derivative along the treatment.
    observed : Tensor of int, shape (M, B)
        The station of the observed row.
    y, weights : Tensor, shape (M, B)
        Weights sum to one for each member; rows that fill a batch up have weight zero.
    anchor : Tensor, shape (M, B, K)
    moment : Tensor, shape (M, B, K, R)
        Weights of the readings.
    """

    rows: Tensor
    shares: Tensor
    share_slopes: Tensor
    observed: Tensor
    y: Tensor
    weights: Tensor
    anchor: Tensor
    moment: Tensor


@dataclass(frozen=True)
class Units:
    """The units in which a feed keeps one base: float32 wants numbers near one, so they are centred and scaled in float64 first.

    Attributes
    ----------
    centre, spread : ndarray, shape (d,)
        Of the inputs.
    y_centre, y_spread, raw_centre, raw_spread : float
        Of the outcome and of the treatment itself; arms are kept as 0 and 1.
    """

    centre: Array
    spread: Array
    y_centre: float
    y_spread: float
    raw_centre: float
    raw_spread: float


def make_units(base: Base, stations: Stations) -> Units:
    """Means and standard deviations of one base."""
    x = stations.inputs(np.arange(len(base.y)))
    spread = x.std(axis=0)
    raw = (
        (0.0, 1.0)
        if base.treatment.shape[1] > 1
        else (float(base.treatment.mean()), float(base.treatment.std()) or 1.0)
    )
    scale = np.where(spread > 0, spread, 1.0)
    return Units(x.mean(axis=0), scale, float(base.y.mean()), float(base.y.std()) or 1.0, *raw)


class Scales:
    """The scales of a stack's members as tensors, from the units that the feed keeps their bases in."""

    def __init__(self, members: Sequence[tuple[Scale, int]], feed: Feed) -> None:
        def tensor(make: Callable[[Scale, Units], Any]) -> Tensor:
            rows = [make(scale, feed.units[origin]) for scale, origin in members]
            return torch.as_tensor(np.array(rows, dtype=np.float32), device=feed.device)

        # the feed holds (x - u) / v, the network wants (x - c) / s = ((x - u) / v - (c - u) / v) * (v / s)
        self.centre = tensor(lambda s, u: (s.centre - u.centre) / u.spread)[:, None, None]
        self.factor = tensor(lambda s, u: u.spread / s.spread)[:, None, None]
        self.slope = tensor(lambda s, u: 1.0 / s.spread)[:, None, None]
        self.y_centre = tensor(lambda s, u: (s.y_centre - u.y_centre) / u.y_spread)[:, None]
        self.y_factor = tensor(lambda s, u: u.y_spread / s.y_spread)[:, None]
        self.low = tensor(lambda s, u: (s.low - u.raw_centre) / u.raw_spread)[:, None, None, None]
        self.span = tensor(lambda s, u: s.span / u.raw_spread)[:, None, None, None]
        self.span_natural = tensor(lambda s, u: s.span)[:, None, None, None]
        self.anchor = tensor(lambda s, u: s.anchor)[:, None]
        self.constraint = tensor(lambda s, u: s.constraint)


class Feed:
    """The arrays of one or several bases of equal shape as tensors, from which batches are gathered.

    Attributes
    ----------
    offsets, origins : dict
        Where the rows of each base start, and its place in ``units``, by its identity.
    units : list of Units
    expansions : list of Expansions
        How the inputs of each base are made.
    inputs, heads : int
        d and H.
    dual : bool
        Whether some reading is a derivative.
    """

    def __init__(self, bases: Sequence[Base], device: torch.device, expansions: Sequence[Expansions]) -> None:
        stations = [make_stations(base, one) for base, one in zip(bases, expansions, strict=True)]
        first = stations[0]
        self.device, self.expansions = device, expansions
        self._bases = tuple(bases)  # kept, so that no other base can come by their identities
        self._stations = dict(zip(map(id, bases), stations, strict=True))
        self.dual = bool(bases[0].moment.is_derivative.any())
        self.stations, self.treatments = first.treatment.shape[1:]
        arms = first.raw.shape[2]
        self.heads = arms + 1 if arms > 1 else 2
        self.inputs = self.treatments + first.covariates.shape[1]
        self.readings, self.components = len(first.of_reading), bases[0].moment.weights.shape[0]
        self.of_reading = torch.as_tensor(first.of_reading, device=device)
        self.is_derivative = torch.as_tensor(bases[0].moment.is_derivative, device=device)
        self.slope = torch.as_tensor(first.slope, dtype=torch.float32, device=device)
        self.offsets, start = {}, 0
        for base in bases:
            self.offsets[id(base)] = start
            start += len(base.y)
        self.origins = {id(base): place for place, base in enumerate(bases)}
        self.units = [make_units(base, one) for base, one in zip(bases, stations, strict=True)]
        t, each = self.treatments, list(zip(bases, stations, self.units, strict=True))
        self._covariates = self._tensor([(one.covariates - u.centre[t:]) / u.spread[t:] for _, one, u in each])
        self._treatment = self._tensor([(one.treatment - u.centre[:t]) / u.spread[:t] for _, one, u in each])
        self._tangent = self._tensor([one.tangent for one in stations]) if self.dual else None
        self._raw = self._tensor([(one.raw - u.raw_centre) / u.raw_spread for _, one, u in each])
        self._observed = torch.as_tensor(np.concatenate([one.observed for one in stations]), device=device)
        self._y = self._tensor([(base.y - u.y_centre) / u.y_spread for base, _, u in each])
        self._weights = self._tensor([base.weights for base in bases])
        self._anchor = self._tensor([base.anchor.observed.T for base in bases])
        self._moment = self._tensor([np.moveaxis(base.moment.weights, -1, 0) for base in bases])
        self._changed = {
            station: (
                torch.as_tensor(columns + t, device=device),
                self._tensor(
                    [(o.changed[station][1] - u.centre[columns + t]) / u.spread[columns + t] for _, o, u in each]
                ),
                None if slopes is None else self._tensor([one.changed[station][2] for one in stations]),
            )
            for station, (columns, _, slopes) in first.changed.items()
        }

    def _tensor(self, pieces: Sequence[Any]) -> Tensor:
        return torch.as_tensor(np.concatenate(pieces).astype(np.float32), device=self.device)

    def inputs_of(self, base: Base, rows: npt.NDArray[np.intp]) -> Array:
        """The network's inputs at some observed rows of a base, in float64 and before any scaling, shape (b, d)."""
        return self._stations[id(base)].inputs(rows)

    def observed_station(self, base: Base, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """The station of the observed row, for some rows of a base."""
        return np.asarray(
            self._observed[torch.as_tensor(rows + self.offsets[id(base)], device=self.device)].cpu().numpy()
        )

    def batch(self, index: Tensor, filled: Tensor, scales: Scales) -> Batch:
        """Gather rows.

        Parameters
        ----------
        index : Tensor of int, shape (M, B)
            Row numbers, counted over all bases.
        filled : Tensor, shape (M, B)
            1 for a row, 0 for one that fills the batch up.
        scales : Scales
        """
        treatment = self._treatment[index]
        covariates = self._covariates[index].unsqueeze(2).expand(-1, -1, self.stations, -1)
        x = torch.cat([treatment, covariates], dim=-1)
        for station, (columns, values, _) in self._changed.items():
            x[:, :, station, columns] = values[index]
        x = (x - scales.centre) * scales.factor
        rows = x.flatten(1, 2)
        if self.dual:
            tangent = torch.zeros_like(x)
            assert self._tangent is not None
            tangent[..., : self.treatments] = self._tangent[index]
            for station, (columns, _, slopes) in self._changed.items():
                if slopes is not None:
                    tangent[:, :, station, columns] = slopes[index]
            rows = torch.cat([rows, (tangent * scales.slope).flatten(1, 2)], dim=1)
        shares, share_slopes = self._mix(self._raw[index], scales)
        weights = self._weights[index] * filled
        return Batch(
            rows=rows,
            shares=shares,
            share_slopes=share_slopes,
            observed=self._observed[index],
            y=(self._y[index] - scales.y_centre) * scales.y_factor,
            weights=weights / weights.sum(dim=1, keepdim=True),
            anchor=self._anchor[index] / scales.anchor,
            moment=self._moment[index],
        )

    def _mix(self, raw: Tensor, scales: Scales) -> tuple[Tensor, Tensor]:
        """Shares of the outcome heads at each station, and their derivative along the treatment."""
        if self.heads > 2:
            shares = torch.cat([1.0 - raw.sum(dim=-1, keepdim=True), raw], dim=-1)
            return shares, torch.zeros_like(shares)
        a = (raw - scales.low) / scales.span
        shares = torch.cat([1.0 - a, a], dim=-1)
        slope = self.slope[:, None] / scales.span_natural
        return shares, torch.cat([-slope, slope], dim=-1).expand_as(shares)
