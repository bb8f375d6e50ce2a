"""What kind of variable the treatment is, and how to set it.

In: the treatment's column, and whether the estimand needs arms or a number. Out: a :class:`Treatment`, which
estimands use to write counterfactual frames (``treatment.set(data, level)``) and anchors
(``treatment.indicator(data, level)``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.errors import EstimandError, listing
from riesz.storage.coding import stored
from riesz.syntax.caller import warn
from riesz.syntax.counterfactual import replace_columns
from riesz.syntax.labels import label, labels

TreatmentKind = Literal["arms", "number", "any"]

MOST_NUMERIC_ARMS = 10  # a numeric column with more distinct values is not a treatment with arms
FEWEST_DISTINCT = 10  # a derivative or shift needs at least this many distinct treatment values
ATOM = 0.05  # share of the rows at one value from which a treatment is not continuous there
FEWEST_TIED = 5  # rows; fewer equal values are not an atom, whatever the sample size


@stored
@dataclass(frozen=True)
class Treatment:
    """The treatment variable.

    Attributes
    ----------
    name : str
        Its column in the frame.
    levels : tuple
        Its arms, the reference first; empty if the treatment is a continuous number.
    categorical : bool
        Whether the frame's column is categorical (and not a number).
    """

    name: str
    levels: tuple[Any, ...]
    categorical: bool

    @property
    def reference(self) -> Any:
        """The arm that the others are compared with."""
        return self.levels[0]

    @property
    def is_binary(self) -> bool:
        """Whether there are exactly two arms."""
        return len(self.levels) == 2

    def values(self, data: pd.DataFrame) -> Array:
        """The treatment as numbers (continuous treatments and numeric arms)."""
        return np.asarray(data[self.name], dtype=float)

    def indicator(self, data: pd.DataFrame, level: Any) -> Array:
        """1{A = level}, shape (n,)."""
        return np.asarray(data[self.name] == level, dtype=float)

    def set(self, data: pd.DataFrame, level: Any) -> pd.DataFrame:
        """The frame with every row's treatment set to a level, or to one value per row."""
        if not self.categorical:
            return replace_columns(data, {self.name: np.broadcast_to(np.asarray(level, dtype=float), len(data))})
        dtype = data[self.name].dtype
        if np.ndim(level) == 0:
            values = pd.Categorical.from_codes(np.full(len(data), dtype.categories.get_loc(level)), dtype=dtype)
        else:
            values = pd.Categorical(level, dtype=dtype)
        return replace_columns(data, {self.name: values})

    def inputs(self, data: pd.DataFrame) -> Array:
        """The raw treatment as numbers: itself, or indicators of the arms other than the reference, shape (n, t)."""
        if self.categorical:
            return self.indicators(self.numbers(data))
        return self.values(data)[:, None]

    def indicators(self, numbers: npt.NDArray[np.intp]) -> Array:
        """Indicators of the arms other than the reference, shape (n, t), given the numbers of arms."""
        return np.asarray(numbers[:, None] == np.arange(1, len(self.levels)), dtype=float)

    def numbers(self, data: pd.DataFrame) -> npt.NDArray[np.intp]:
        """The arm of each row by its place among the levels, for arms with labels; -1 for another label."""
        return np.asarray(self._index.get_indexer(data[self.name]), dtype=np.intp)

    def codes(self, data: pd.DataFrame) -> npt.NDArray[np.intp] | None:
        """The arm of each row, the reference 0, shape (n,); None for a continuous treatment."""
        if not self.levels:
            return None
        return np.select([data[self.name] == level for level in self.levels], range(len(self.levels))).astype(np.intp)

    def find(self, level: Any, argument: str) -> Any:
        """The arm that a user's ``level`` names, or an error that lists the arms."""
        for arm in self.levels:
            if arm == level or str(arm) == str(level):
                return arm
        raise EstimandError(
            f"{argument}={level!r}: treatment `{self.name}` does not have this level. "
            f"Its levels are {listing(map(self.label, self.levels))}."
        )

    def label(self, level: Any) -> str:
        """The label of an arm in names and tables; different arms have different labels."""
        return self._labels[level] if level in self._labels else label(level)

    @cached_property
    def _index(self) -> pd.Index:
        return pd.Index(self.levels)

    @cached_property
    def _labels(self) -> dict[Any, str]:
        return dict(zip(self.levels, labels(self.levels), strict=True))

    def describe(self) -> str:
        """A short text for the summary."""
        if not self.levels:
            return f"{self.name} (continuous)"
        if self.is_binary:
            return f"{self.name} ({self.label(self.levels[1])} vs {self.label(self.reference)})"
        return f"{self.name} ({len(self.levels)} arms, reference {self.label(self.reference)})"


def describe_treatment(column: pd.Series, reference: Any, kind: TreatmentKind, who: str) -> tuple[Treatment, pd.Series]:
    """Classify the treatment and give its column the dtype that the formula needs.

    Parameters
    ----------
    column : pandas.Series
        The treatment on the rows that are used; float64 or categorical.
    reference : object
        The arm to compare with, from ``treat(a, reference=...)``; None for the first.
    kind : {"arms", "number", "any"}
        What the estimand needs.
    who : str
        The verb, for messages.

    Returns
    -------
    Treatment
    pandas.Series
        Numeric for a number or for arms coded 0 and 1, categorical with the reference first otherwise, so that results do
        not depend on what two arms are called.
    """
    name = str(column.name)
    categorical = isinstance(column.dtype, pd.CategoricalDtype)
    distinct = list(column.cat.categories) if categorical else sorted(column.unique().tolist())
    if len(distinct) < 2:
        only = label(distinct[0]) if distinct else "missing"
        raise EstimandError(
            f"Treatment `{name}` is constant: every row used has the value {only}. An effect needs at least two "
            "values; check the filter, and the rows dropped for missing values."
        )
    numeric_arms = not categorical and len(distinct) <= MOST_NUMERIC_ARMS
    if kind == "number":
        _check_number(column, categorical, distinct, who)
        if reference is not None:
            raise EstimandError(
                f"treat(..., reference={reference!r}) names an arm, but `{who}` needs `{name}` to be a number."
            )
        return Treatment(name, (), False), column
    if kind == "arms" and not categorical and not numeric_arms:
        raise EstimandError(
            f"Treatment `{name}` has {len(distinct)} distinct values; `{who}` needs two, or a few arms. For a "
            "continuous treatment use `riesz.ade` (average derivative) or `riesz.shift`; if the values are labels, "
            "make the column categorical."
        )
    if not categorical and (kind == "any" and len(distinct) > 2 and not numeric_arms):
        return Treatment(name, (), False), column
    levels = _order(name, distinct, reference)
    if not categorical and levels == (0.0, 1.0):
        return Treatment(name, levels, False), column
    ordered = pd.Categorical(column, categories=list(levels))
    return Treatment(name, levels, True), pd.Series(ordered, index=column.index, name=name)


def _order(name: str, distinct: list[Any], reference: Any) -> tuple[Any, ...]:
    if reference is None:
        return tuple(distinct)
    first = Treatment(name, tuple(distinct), True).find(reference, "reference")
    return (first, *(level for level in distinct if level != first))


def _check_number(column: pd.Series, categorical: bool, distinct: list[Any], who: str) -> None:
    name = column.name
    if categorical:
        raise EstimandError(
            f"Treatment `{name}` holds labels ({listing(distinct, 4)}); `{who}` needs a continuous number. For arms use "
            "`riesz.ate`."
        )
    if len(distinct) == 2:
        raise EstimandError(
            f"Treatment `{name}` is binary ({label(distinct[0])}, {label(distinct[1])}); `{who}` needs a continuous "
            "treatment. Use `riesz.ate`."
        )
    if len(distinct) < FEWEST_DISTINCT:
        raise EstimandError(
            f"Treatment `{name}` has only {len(distinct)} distinct values; `{who}` needs a continuous treatment with at "
            f"least {FEWEST_DISTINCT}. A few values are arms: use `riesz.ate`, with one contrast per arm."
        )
    shares = column.value_counts() / len(column)
    if shares.iloc[0] >= max(ATOM, FEWEST_TIED / len(column)):
        commonest = shares.iloc[:5]
        warn(
            f"Treatment `{name}` is heavily tied: its {len(commonest)} commonest values account for {commonest.sum():.0%} of the "
            f"rows, {label(shares.index[0])} alone {shares.iloc[0]:.0%}. It has no density at such values, so `{who}` relies on "
            "the formula's smoothness there. For a treatment with few values use `riesz.ate` on grouped values; for a mass at one "
            "value, such as zero, leave those rows out and study them separately."
        )
