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
from riesz.learners.neural.scaling import Scale
from riesz.moment import Array


@dataclass(frozen=True)
class Stations:
    """The points of every row of a base.

    Attributes
    ----------
    covariates : ndarray, shape (n, c)
    treatment : ndarray, shape (n, S, t)
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
    slope: Array
    changed: dict[int, tuple[npt.NDArray[np.intp], Array, Array | None]]
    observed: npt.NDArray[np.intp]
    of_reading: npt.NDArray[np.intp]


def make_stations(base: Base) -> Stations:
    """Find the distinct points of a base."""
    place = {int(column): j for j, column in enumerate(base.covariates)}
    treatments: list[Array] = []
    slopes: list[float] = []
    changed: dict[int, tuple[npt.NDArray[np.intp], Array, Array | None]] = {}
    of_reading = []
    for point in base.moment.points:
        own = [j for j, column in enumerate(point.columns) if int(column) in place]
        moves = bool(own) and not np.array_equal(point.values[:, own], base.z[:, point.columns[own]])
        bends = bool(own) and point.tangents is not None and bool(point.tangents[:, own].any())
        index = None
        if not moves and not bends:
            index = next(
                (s for s, one in enumerate(treatments) if s not in changed and np.array_equal(one, point.treatment)),
                None,
            )
        if index is None:
            index = len(treatments)
            treatments.append(point.treatment)
            slopes.append(0.0)
            if moves or bends:
                columns = np.array([place[int(point.columns[j])] for j in own], dtype=np.intp)
                changed[index] = (
                    columns,
                    point.values[:, own],
                    None if point.tangents is None else point.tangents[:, own],
                )
        slopes[index] = max(slopes[index], point.treatment_slope)
        of_reading.append(index)
    observed = np.full(len(base.y), -1, dtype=np.intp)
    for s, one in enumerate(treatments):
        if s not in changed:
            observed[(observed < 0) & (one == base.treatment).all(axis=1)] = s
    if (observed < 0).any():
        observed[:] = len(treatments)
        treatments.append(base.treatment)
        slopes.append(0.0)
    return Stations(
        base.z[:, base.covariates],
        np.stack(treatments, axis=1),
        np.array(slopes),
        changed,
        observed,
        np.array(of_reading, dtype=np.intp),
    )


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
        Of treatment and covariates.
    y_centre, y_spread : float
    """

    centre: Array
    spread: Array
    y_centre: float
    y_spread: float


def make_units(base: Base, stations: Stations) -> Units:
    """Means and standard deviations of one base."""
    x = np.hstack([base.treatment, stations.covariates])
    spread = x.std(axis=0)
    return Units(x.mean(axis=0), np.where(spread > 0, spread, 1.0), float(base.y.mean()), float(base.y.std()) or 1.0)


class Scales:
    """The scales of a stack's members as tensors, from the units that the feed keeps their bases in."""

    def __init__(self, members: Sequence[tuple[Scale, int]], feed: Feed) -> None:
        def tensor(make: Callable[[Scale, Units], Any]) -> Tensor:
            rows = [make(scale, feed.units[origin]) for scale, origin in members]
            return torch.as_tensor(np.array(rows, dtype=np.float32), device=feed.device)

        t = feed.treatments
        # the feed holds (x - u) / v, the network wants (x - c) / s = ((x - u) / v - (c - u) / v) * (v / s)
        self.centre = tensor(lambda s, u: (s.centre - u.centre) / u.spread)[:, None, None]
        self.factor = tensor(lambda s, u: u.spread / s.spread)[:, None, None]
        self.slope = tensor(lambda s, u: 1.0 / s.spread)[:, None, None]
        self.y_centre = tensor(lambda s, u: (s.y_centre - u.y_centre) / u.y_spread)[:, None]
        self.y_factor = tensor(lambda s, u: u.y_spread / s.y_spread)[:, None]
        self.low = tensor(lambda s, u: (s.low - u.centre[0]) / u.spread[0])[:, None, None, None]
        self.span = tensor(lambda s, u: s.span / u.spread[0])[:, None, None, None]
        self.span_natural = tensor(lambda s, u: s.span)[:, None, None, None]
        self.arm_centre = tensor(lambda s, u: u.centre[:t])[:, None, None]
        self.arm_spread = tensor(lambda s, u: u.spread[:t])[:, None, None]
        self.anchor = tensor(lambda s, u: s.anchor)[:, None]
        self.constraint = tensor(lambda s, u: s.constraint)


class Feed:
    """The arrays of one or several bases of equal shape as tensors, from which batches are gathered.

    Attributes
    ----------
    offsets, origins : dict
        Where the rows of each base start, and its place in ``units``, by its identity.
    units : list of Units
    inputs, heads : int
        d and H.
    dual : bool
        Whether some reading is a derivative.
    """

    def __init__(self, bases: Sequence[Base], device: torch.device) -> None:
        stations = [make_stations(base) for base in bases]
        first = stations[0]
        self.device = device
        self.dual = bool(bases[0].moment.is_derivative.any())
        self.stations, self.treatments = first.treatment.shape[1:]
        self.heads = self.treatments + 1 if self.treatments > 1 else 2
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
            tangent[..., : self.treatments] = self.slope[:, None]
            for station, (columns, _, slopes) in self._changed.items():
                if slopes is not None:
                    tangent[:, :, station, columns] = slopes[index]
            rows = torch.cat([rows, (tangent * scales.slope).flatten(1, 2)], dim=1)
        shares, share_slopes = self._mix(treatment, scales)
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

    def _mix(self, treatment: Tensor, scales: Scales) -> tuple[Tensor, Tensor]:
        """Shares of the outcome heads at each station, and their derivative along the treatment."""
        if self.heads > 2:
            raw = (treatment * scales.arm_spread + scales.arm_centre).round()
            shares = torch.cat([1.0 - raw.sum(dim=-1, keepdim=True), raw], dim=-1)
            return shares, torch.zeros_like(shares)
        a = (treatment - scales.low) / scales.span
        shares = torch.cat([1.0 - a, a], dim=-1)
        slope = self.slope[:, None] / scales.span_natural
        return shares, torch.cat([-slope, slope], dim=-1).expand_as(shares)
