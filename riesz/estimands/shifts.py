"""Estimands that move the treatment: shifts, and the mean outcome at a level or under a modified policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.errors import EstimandError, listing
from riesz.estimands.base import Component, Estimand, Sample, copied, ones
from riesz.estimands.treatment import MOST_NUMERIC_ARMS, Treatment, TreatmentKind
from riesz.storage.coding import stored
from riesz.syntax.backticks import quote
from riesz.syntax.caller import warn
from riesz.syntax.labels import label, labels

_FEWER_THAN_ROWS = 0.5  # of the rows; an array shorter than this was not meant to have one value per row


@stored
@dataclass(frozen=True)
class Shift(Estimand):
    r"""The effect of moving everyone's continuous treatment by delta.

    .. math:: \psi = E[\mu(A + \delta, X) - \mu(A, X)], \qquad \beta = a - \bar a, \quad h(\beta) = E[\delta].

    If delta is an expression in covariates of the formula alone, the anchor is :math:`\beta = \delta(x)(a - \bar a)`, with
    :math:`h(\beta) = E[\delta(X)^2]`, so delta may have mean zero. For any other delta with a mean close to zero, the anchor is the
    automatic one of :class:`CustomMoment`.

    Parameters
    ----------
    delta : float, list of float, str, callable or array_like
        How far to move: a number; a list of numbers, one parameter each; or one value per row.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("continuous").draw(500, seed=1).data
    >>> riesz.shift("y ~ treat(a) * .", data, delta=[0.1, 0.2], learner="linear").params.round(2).to_dict()
    {'shift_0.1': 0.13, 'shift_0.2': 0.26}
    """

    delta: Any
    verb: ClassVar[str] = "shift"

    @classmethod
    def example(cls) -> Shift:
        return cls([0.1, 0.3])

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", copied(self.delta))

    def treatment_kind(self, column: pd.Series) -> TreatmentKind:
        return "number"

    def specifications(self) -> Sequence[Any]:
        return _several(self.delta)

    def components(self, sample: Sample) -> tuple[Component, ...]:
        deltas = _several(self.delta)
        if not deltas:
            raise EstimandError("delta is an empty list; expected at least one number.")
        names = _labels(deltas)
        return tuple(self._component(sample, *pair, len(deltas) > 1) for pair in zip(deltas, names, strict=True))

    def _component(self, sample: Sample, spec: Any, amount: str, one_of_many: bool) -> Component:
        treatment = sample.treatment
        _refuse_short(spec, sample.total, "delta", "shift")
        delta = sample.per_row(spec, "delta")
        if not delta.any() and sample.fitted is None:
            raise EstimandError("delta=0 moves no row, so the effect is zero by definition; expected a non-zero shift.")
        return Component(
            name=f"shift_{amount}" if one_of_many else "shift",
            moment=lambda mu, data: mu(treatment.set(data, treatment.values(data) + delta)) - mu(data),
            anchor=self._anchor(sample, spec, delta),
            symbol=f"E[mu({treatment.name} + {amount}, X) - mu({treatment.name}, X)]",
            words=f"Effect of moving {treatment.name} by {amount}",
        )

    @staticmethod
    def _anchor(sample: Sample, spec: Any, delta: Array) -> Callable[[pd.DataFrame], Array] | None:
        """delta(x)(a - mean a) if delta reads covariates alone; otherwise a - mean a, or None if delta has mean zero."""
        centred = sample.centred()
        if sample.reads_covariates_alone(spec, "delta"):
            return lambda data: sample.of(spec, data, "delta") * centred(data)
        if sample.fitted is not None:  # decided on the rows of the fit, like all constants
            delta = sample.of(spec, sample.fitted, "delta")
        error = float(delta.std(ddof=1)) / np.sqrt(len(delta))
        return centred if abs(float(delta.mean())) > 2 * error else None


@stored
@dataclass(frozen=True)
class Mean(Estimand):
    r"""The mean outcome when the treatment is set to a level, or moved by a modified treatment policy.

    .. math:: \psi = E[\mu(d(A, X), X)], \qquad \beta = 1\{A = \text{level}\} \text{ or } 1, \quad h(\beta) = 1.

    Parameters
    ----------
    at : object
        A level; a list of levels, one parameter each; or the new treatment of each row, as an expression such as
        ``"where(a > 80, a - 15, a)"``, a function of the frame or an array.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> riesz.mean("y ~ treat(a) * .", data, at=[0, 1], learner="linear").params.round(2).to_dict()
    {'mean_0': 0.3, 'mean_1': 1.76}
    """

    at: Any
    verb: ClassVar[str] = "mean"

    @classmethod
    def example(cls) -> Mean:
        return cls([0, 1])

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", copied(self.at))

    def treatment_kind(self, column: pd.Series) -> TreatmentKind:
        levels = [spec for spec in _several(self.at) if self._is_level(spec, column)]
        constant = [spec for spec in levels if not isinstance(spec, str)]
        if constant and column.dtype != "category" and column.nunique() > MOST_NUMERIC_ARMS:
            raise _fixed_level_error(constant[0], column)
        return "arms" if levels else "any"

    def specifications(self) -> Sequence[Any]:
        return _several(self.at)

    def components(self, sample: Sample) -> tuple[Component, ...]:
        specs = _several(self.at)
        if not specs:
            raise EstimandError("at is an empty list; expected at least one level or policy.")
        names = _labels(specs)
        return tuple(self._component(sample, *pair, len(specs) > 1) for pair in zip(specs, names, strict=True))

    @staticmethod
    def _is_level(spec: Any, column: pd.Series) -> bool:
        if isinstance(spec, str):
            return column.dtype == "category" and (
                spec in set(map(str, column.cat.categories)) or not _is_expression(spec, str(column.name))
            )
        return isinstance(spec, (bool, int, float, np.number, np.bool_))

    def _component(self, sample: Sample, spec: Any, name: str, one_of_many: bool) -> Component:
        treatment, data = sample.treatment, sample.data
        if self._is_level(spec, data[treatment.name]):
            level = treatment.find(spec, "at")
            return Component(
                name=f"mean_{treatment.label(level)}" if one_of_many else "mean",
                moment=lambda mu, data: mu(treatment.set(data, level)),
                anchor=lambda data: treatment.indicator(data, level),
                symbol=f"E[mu({treatment.label(level)}, X)]",
                words=f"Mean outcome with {treatment.name} set to {treatment.label(level)}",
            )
        if treatment.categorical and not all(isinstance(level, float) for level in treatment.levels):
            raise EstimandError(
                f"at={name!r}: a policy that computes the treatment needs a number, but `{treatment.name}` holds "
                f"labels ({listing(treatment.levels, 4)}). Give a level or a list of levels."
            )
        _refuse_short(spec, sample.total, "at", "level")
        moved = sample.per_row(spec, "at")
        if sample.fitted is None:
            _check_moved(moved, treatment, data)
        return Component(
            name=f"mean_{name}" if one_of_many else "mean",
            moment=lambda mu, data: mu(treatment.set(data, moved)),
            anchor=ones,
            symbol=f"E[mu({name}, X)]",
            words=f"Mean outcome with {treatment.name} moved to {name}",
        )


def _several(spec: Any) -> tuple[Any, ...]:
    """Lists and tuples stand for several components; arrays hold one value per row."""
    return tuple(spec) if isinstance(spec, (list, tuple)) else (spec,)


def _is_expression(text: str, treatment: str) -> bool:
    return treatment in text or any(mark in text for mark in "()+-*/<>=")


def _labels(specs: Sequence[Any]) -> list[str]:
    """Names of several amounts or policies: a number, the user's text, or ``policy``."""
    plain = [spec.item() if isinstance(spec, (np.generic, np.ndarray)) and spec.ndim == 0 else spec for spec in specs]
    plain = [int(spec) if isinstance(spec, bool) else spec for spec in plain]
    names = iter(labels(spec for spec in plain if isinstance(spec, Real)))
    other = {True: "None", False: "policy"}
    return [next(names) if isinstance(s, Real) else s if isinstance(s, str) else other[s is None] for s in plain]


def _refuse_short(spec: Any, rows: int, argument: str, what: str) -> None:
    """Refuse an array of a few numbers, which was probably meant as several components; those need a list."""
    if isinstance(spec, str) or callable(spec) or np.ndim(spec) != 1 or len(spec) > _FEWER_THAN_ROWS * rows:
        return
    raise EstimandError(
        f"{argument} is an array of {len(spec)} values, but the data have {rows} rows; expected one value per row. For {len(spec)} "
        f"parameters, one per {what}, pass a list: {argument}=list(...)."
    )


def _fixed_level_error(value: Any, column: pd.Series) -> EstimandError:
    a = quote(str(column.name))
    return EstimandError(
        f"at={label(float(value))} fixes the continuous treatment `{column.name}` ({column.nunique()} distinct values) at a single "
        "value. That mean has no Riesz representer (no row has that exact treatment), so it cannot be estimated at the usual "
        "rate. Use `riesz.shift`, `riesz.ade`, or a policy that moves the treatment, such as "
        f'at="where({a} > c, {a} - 1, {a})".'
    )


def _check_moved(moved: Array, treatment: Treatment, data: pd.DataFrame) -> None:
    """Levels that are not in the data are an error; many rows moved to one value of a continuous treatment are a warning."""
    observed = treatment.values(data)
    if treatment.levels:
        unseen = sorted(set(np.unique(moved)) - set(treatment.levels))
        if unseen:
            raise EstimandError(
                f"at moves `{treatment.name}` to {listing(labels(unseen))}, a level that is not in the data. Its levels are "
                f"{listing(map(treatment.label, treatment.levels))}."
            )
        return
    values, counts = np.unique(moved, return_counts=True)
    if len(values) == 1:
        raise _fixed_level_error(values[0], data[treatment.name])
    top = int(counts.argmax())
    before = float(np.mean(observed == values[top]))
    after = counts[top] / len(moved)
    if counts[top] >= 10 and after > 0.05 and after > 2 * before:
        warn(
            f"The policy moves {after:.0%} of the rows to {treatment.name}={label(values[top])} ({before:.1%} have this value "
            "in the data). There is no Riesz representer for a single value of a continuous treatment, so the estimate "
            "relies on the formula alone. A policy that shifts the treatment instead of capping it avoids this."
        )
