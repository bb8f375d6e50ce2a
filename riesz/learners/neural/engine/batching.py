r"""Rows as networks use them: batches, gathered on demand.

Shapes: M members, B rows, S evaluation points, d inputs (t treatment columns, then c covariates), K components, R readings, H
outcome heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.inputs.evaluation_points import EvaluationPoints, make_evaluation_points
from riesz.learners.inputs.expansions import Expansions
from riesz.learners.neural.engine.scaling import Scale


@dataclass(frozen=True)
class Batch:
    """Rows of every member, ready for the network; or several batches, with one more axis in front.

    Attributes
    ----------
    rows : Tensor, shape (M, B S, d) or (M, 2 B S, d)
        Inputs, and below them their tangents.
    shares, share_slopes : Tensor, shape (M, B, S, H)
        How the outcome heads mix at each point, and its derivative along the treatment.
    observed : Tensor, shape (M, B, S, 1)
        1 at the point of the observed row, else 0.
    observed_rows : Tensor of int, shape (M, B)
        Positions of the observed rows, counted over the members' ``rows`` one after the other.
    observed_shares : Tensor, shape (M, B, H)
        The shares at the observed row.
    y, weights : Tensor, shape (M, B)
        Weights sum to one for each member; rows that only fill up a batch have weight zero.
    anchor : Tensor, shape (M, B, K)
    value_weights, slope_weights : Tensor, shape (M, B, S, K)
        How the moment weighs a function's values and its derivatives at the points.
    """

    rows: Tensor
    shares: Tensor
    share_slopes: Tensor
    observed: Tensor
    observed_rows: Tensor
    observed_shares: Tensor
    y: Tensor
    weights: Tensor
    anchor: Tensor
    value_weights: Tensor
    slope_weights: Tensor

    def split(self) -> Iterator[Batch]:
        """The batches one by one, if there is a leading axis of several batches."""
        parts = [getattr(self, field.name).unbind(0) for field in fields(self)]
        return (Batch(*tensors) for tensors in zip(*parts, strict=True))


@dataclass(frozen=True)
class Units:
    """The units of one sample in a feed: float32 is most precise near one, so numbers are first centred and scaled in float64.

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


def make_units(sample: Design, points: EvaluationPoints) -> Units:
    """Means and standard deviations of one sample."""
    x, treatment, y = points.inputs(sample.index), sample.treatment, sample.y
    spread = x.std(axis=0)
    raw = (0.0, 1.0) if treatment.shape[1] > 1 else (float(treatment.mean()), float(treatment.std()) or 1.0)
    scale = np.where(spread > 0, spread, 1.0)
    return Units(x.mean(axis=0), scale, float(y.mean()), float(y.std()) or 1.0, *raw)


class Scales:
    """The scales of several members as tensors, relative to the units in which the feed holds their samples."""

    def __init__(self, members: Sequence[tuple[Scale, int]], feed: Feed) -> None:
        def tensor(make: Callable[[Scale, Units], Any], what: str = "the treatment") -> Tensor:
            rows = [make(scale, feed.units[origin]) for scale, origin in members]
            return torch.as_tensor(_single(np.array(rows), what), device=feed.device)

        # the feed holds (x - u) / v, the network gets (x - c) / s = ((x - u) / v - (c - u) / v) * (v / s)
        covariate = "the treatment or a covariate"
        self.centre = tensor(lambda s, u: (s.centre - u.centre) / u.spread, covariate)[:, None, None]
        self.factor = tensor(lambda s, u: u.spread / s.spread, covariate)[:, None, None]
        # only where a tangent is not zero: elsewhere a tiny unit does no harm
        self.slope = tensor(lambda s, u: feed.bends / np.where(feed.bends, s.spread, 1.0), covariate)[:, None, None]
        self.y_centre = tensor(lambda s, u: (s.y_centre - u.y_centre) / u.y_spread, "the outcome")[:, None]
        self.y_factor = tensor(lambda s, u: u.y_spread / s.y_spread, "the outcome")[:, None]
        self.low = tensor(lambda s, u: (s.low - u.raw_centre) / u.raw_spread)[:, None, None, None]
        self.span = tensor(lambda s, u: s.span / u.raw_spread)[:, None, None, None]
        self.span_natural = tensor(lambda s, u: s.span)[:, None, None, None]
        self.anchor = tensor(lambda s, u: s.anchor)[:, None]
        self.constraint = tensor(lambda s, u: s.constraint)


class Feed:
    """The arrays of one or several samples of equal shape as tensors, from which batches are gathered.

    Attributes
    ----------
    offsets, origins : dict
        Where the rows of each sample start, and its position in ``units``, by the sample's ``key``.
    units : list of Units
    expansions : sequence of Expansions
        How the inputs of each sample are made.
    inputs, heads : int
        d and H.
    dual : bool
        Whether some reading is a derivative.
    bends : ndarray of bool, shape (d,)
        Which inputs have tangents.
    """

    def __init__(self, samples: Sequence[Design], device: torch.device, expansions: Sequence[Expansions]) -> None:
        all_points = [make_evaluation_points(sample, how) for sample, how in zip(samples, expansions, strict=True)]
        first = all_points[0]
        self.device, self.expansions = device, expansions
        self._samples = tuple(samples)  # kept, so that no other sample can get their keys
        self._evaluation_points = {sample.key: points for sample, points in zip(samples, all_points, strict=True)}
        self.dual = bool(samples[0].is_derivative.any())
        self.points, self.treatments = first.treatment.shape[1:]
        arms = first.raw.shape[2]
        self.heads = arms + 1 if arms > 1 else 2
        self.inputs = self.treatments + first.covariates.shape[1]
        self.readings, self.components = len(first.of_reading), samples[0].components
        self.of_reading = first.of_reading
        self.slope = torch.as_tensor(first.slope, dtype=torch.float32, device=device)
        self.offsets, start = {}, 0
        for sample in samples:
            self.offsets[sample.key] = start
            start += len(sample)
        self.origins = {sample.key: place for place, sample in enumerate(samples)}
        self.units = [make_units(sample, points) for sample, points in zip(samples, all_points, strict=True)]
        t, triples = self.treatments, list(zip(samples, all_points, self.units, strict=True))
        self._covariates = self._tensor(
            [(points.covariates - u.centre[t:]) / u.spread[t:] for _, points, u in triples], "a covariate"
        )
        self._treatment = self._tensor(
            [(points.treatment - u.centre[:t]) / u.spread[:t] for _, points, u in triples], "the treatment"
        )
        self._tangent = self._tensor([points.tangent for points in all_points]) if self.dual else None
        self._raw = self._tensor(
            [(points.raw - u.raw_centre) / u.raw_spread for _, points, u in triples], "the treatment"
        )
        observed = [points.observed for points in all_points]
        self._observed = self._tensor([at[:, None, None] == np.arange(self.points)[:, None] for at in observed])
        self._observed_point = torch.as_tensor(np.concatenate(observed), device=device)
        self._y = self._tensor([(sample.y - u.y_centre) / u.y_spread for sample, _, u in triples], "the outcome")
        self._weights = self._tensor([sample.weights for sample in samples], "a weight")
        self._anchor = self._tensor([sample.anchor.observed.T for sample in samples])
        is_derivative = samples[0].is_derivative
        self._value_weights, self._slope_weights = (
            self._point_weights([_at_points(sample, points.of_reading, kind) for sample, points, _ in triples])
            for kind in (~is_derivative, is_derivative)
        )
        self._changed = {
            point: (
                torch.as_tensor(columns + t, device=device),
                self._tensor(
                    [
                        (points.changed[point][1] - u.centre[columns + t]) / u.spread[columns + t]
                        for _, points, u in triples
                    ]
                ),
                None if slopes is None else self._tensor([points.changed[point][2] for points in all_points]),
            )
            for point, (columns, _, slopes) in first.changed.items()
        }
        self.bends = np.arange(self.inputs) < (t if self.dual else 0)
        for columns, _, slopes in first.changed.values():
            self.bends[columns + t] |= slopes is not None

    def _tensor(self, pieces: Sequence[Any], what: str = "the moment or its anchor") -> Tensor:
        return torch.as_tensor(_single(np.concatenate(pieces), what), device=self.device)

    def _point_weights(self, pieces: Sequence[dict[tuple[int, int], Array]]) -> _PointWeights:
        places = list(pieces[0])
        rows = len(self._y)
        kept = [np.concatenate([piece[place] for piece in pieces]) for place in places]
        tensor = self._tensor([np.stack(kept, axis=1) if kept else np.empty((rows, 0))])
        flat = torch.tensor([point * self.components + c for point, c in places], dtype=torch.long, device=self.device)
        return _PointWeights(tensor, flat, (self.points, self.components))

    def like(self, sample: Design, origin: int) -> Feed:
        """A feed for another sample, whose inputs are made like those of a sample in this feed."""
        return Feed([sample], self.device, [self.expansions[origin]])

    def rows_of(self, design: Design) -> npt.NDArray[np.intp]:
        """The row numbers of a design, counted over all samples of this feed."""
        return design.index + self.offsets[design.key]

    def inputs_of(self, design: Design) -> Array:
        """The network's inputs at a design's observed rows, in float64 and before any scaling, shape (n, d)."""
        return self._evaluation_points[design.key].inputs(design.index)

    def observed_point(self, design: Design) -> npt.NDArray[np.intp]:
        """The point of each observed row of a design."""
        return self._evaluation_points[design.key].observed[design.index]

    def mean_weights(self, rows: Sequence[npt.NDArray[np.intp]]) -> Tensor:
        """The mean weight of each of several sets of rows, shape (M, 1)."""
        means = [self._weights[torch.as_tensor(member_rows, device=self.device)].mean() for member_rows in rows]
        return torch.stack(means).unsqueeze(1)

    def batch(self, index: Tensor, filled: Tensor, scales: Scales, mean_weights: Tensor | None = None) -> Batch:
        """Gather rows.

        Parameters
        ----------
        index : Tensor of int, shape (..., M, B)
            Row numbers, counted over all samples; a further axis in front gathers several batches at once.
        filled : Tensor, shape (..., M, B)
            1 for a row, 0 for a row that only fills up the batch.
        scales : Scales
        mean_weights : Tensor, shape (M, 1), optional
            Mean weights of the rows that batches are drawn from; a batch then counts in proportion to its weights. By default a
            batch is treated as a sample, and its weights sum to one.
        """
        treatment = self._treatment[index]
        covariates = self._covariates[index].unsqueeze(-2).expand(*index.shape, self.points, -1)
        x = torch.cat([treatment, covariates], dim=-1)
        for point, (columns, values, _) in self._changed.items():
            x[..., point, columns] = values[index]
        x = x.sub_(scales.centre).mul_(scales.factor)
        rows = x.flatten(-3, -2)
        if self.dual:
            tangent = torch.zeros_like(x)
            assert self._tangent is not None
            tangent[..., : self.treatments] = self._tangent[index]
            for point, (columns, _, slopes) in self._changed.items():
                if slopes is not None:
                    tangent[..., point, columns] = slopes[index]
            rows = torch.cat([rows, tangent.mul_(scales.slope).flatten(-3, -2)], dim=-2)
        shares, share_slopes = self._mix(self._raw[index], scales)
        weights, observed = self._weights[index] * filled, self._observed[index]
        sums = (
            weights.sum(dim=-1, keepdim=True)
            if mean_weights is None
            else filled.sum(dim=-1, keepdim=True) * mean_weights
        )
        return Batch(
            rows=rows,
            shares=shares,
            share_slopes=share_slopes,
            observed=observed,
            observed_rows=self._observed_rows(index),
            observed_shares=(observed * shares).sum(dim=-2),
            y=(self._y[index] - scales.y_centre) * scales.y_factor,
            weights=weights / sums,
            anchor=self._anchor[index] / scales.anchor,
            value_weights=self._value_weights.batch(index),
            slope_weights=self._slope_weights.batch(index),
        )

    def _observed_rows(self, index: Tensor) -> Tensor:
        members, size = index.shape[-2:]
        starts = torch.arange(members * size, device=self.device).view(members, size) * self.points
        if self.dual:  # tangents stand below
            starts += torch.arange(members, device=self.device)[:, None] * size * self.points
        places: Tensor = starts + self._observed_point[index]
        return places

    def _mix(self, raw: Tensor, scales: Scales) -> tuple[Tensor, Tensor]:
        """Shares of the outcome heads at each point, and their derivative along the treatment."""
        if self.heads > 2:
            shares = torch.cat([1.0 - raw.sum(dim=-1, keepdim=True), raw], dim=-1)
            return shares, torch.zeros_like(shares)
        a = (raw - scales.low) / scales.span
        shares = torch.cat([1.0 - a, a], dim=-1)
        slope = self.slope[:, None] / scales.span_natural
        return shares, torch.cat([-slope, slope], dim=-1).expand_as(shares)


def _single(values: npt.NDArray[Any], what: str) -> npt.NDArray[np.float32]:
    """Numbers in single precision, whose largest is about 3e38."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    if not (np.isfinite(single) | ~np.isfinite(values)).all():
        raise LearnerError(
            f"Networks compute in single precision, which holds numbers up to 3e38, and {what} exceeds that after scaling: its "
            "unit is very large or small, or there is an outlier. Measure it in another unit, drop the outlier, or use "
            "learner='linear'."
        )
    return single


def _at_points(
    sample: Design, points: npt.NDArray[np.intp], kind: npt.NDArray[np.bool_]
) -> dict[tuple[int, int], Array]:
    """Weights of readings of one kind, summed over those that share a point, by point and component."""
    sums: dict[tuple[int, int], Array] = {}
    for component, reading, weight in zip(
        sample.links.component, sample.links.reading, sample.link_weights, strict=True
    ):
        if kind[reading]:
            place = int(points[reading]), int(component)
            sums[place] = sums[place] + weight if place in sums else weight
    return sums


class _PointWeights:
    """How the moment weighs a function at the points, shape (n, S, K): kept where a component reads a point."""

    def __init__(self, kept: Tensor, places: Tensor, shape: tuple[int, int]) -> None:
        self._kept, self._places, self._shape = kept, places, shape

    def batch(self, index: Tensor) -> Tensor:
        """The weights of some rows, shape (..., S, K); zero where a component does not read a point."""
        whole = self._kept.new_zeros(*index.shape, prod(self._shape))
        whole[..., self._places] = self._kept[index]
        return whole.view(*index.shape, *self._shape)
