"""The contract of an estimand: psi = E[m(mu, W)] / E[normalizer(W)].

An :class:`Estimand` holds settings only (a policy, a shift). Bound to a :class:`Sample` it gives one :class:`Component` per
parameter: the formula of the moment, the anchor (the paper's beta, a known function with h(beta) != 0) and the normalizer.
Modules to the right of ``design`` use nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.errors import EstimandError
from riesz.estimands.expressions import names_in, per_row
from riesz.estimands.linear_form import LinearForm, Mu
from riesz.estimands.treatment import Treatment, TreatmentKind
from riesz.syntax.check_arguments import CheckedSettings


@dataclass(frozen=True)
class Sample:
    """The rows an estimand is bound to.

    Attributes
    ----------
    data : pandas.DataFrame
        The rows in use.
    treatment : Treatment
    kept : ndarray of int, shape (n,)
        The positions of these rows in the user's table.
    total : int
        Rows of the user's table.
    context : mapping
        The caller's variables, for policies written as strings.
    columns : tuple of str
        Every column of the user's table, for suggestions.
    fitted : pandas.DataFrame or None
        The rows of the fit if the data are new rows: constants, such as means, are computed on the rows of the fit.
    covariates : tuple of str
        The formula's covariates.
    weights : ndarray, shape (rows of the fit,), or None
        Weights of the rows of the fit; None if all are equal.
    centre : float or None
        The weighted mean of the treatment over the rows of the fit, if these are not in memory.
    """

    data: pd.DataFrame
    treatment: Treatment
    kept: npt.NDArray[np.intp]
    total: int
    context: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    fitted: pd.DataFrame | None = None
    covariates: tuple[str, ...] = ()
    weights: Array | None = None
    centre: float | None = None

    def per_row(self, spec: Any, what: str) -> Array:
        """One number per row from a string, function, array or number that the user gave."""
        return per_row(spec, self.data, self.kept, self.total, self.context, what, self.columns)

    def of(self, spec: Any, data: pd.DataFrame, what: str) -> Array:
        """The same on any frame with the columns of the data, for values that are functions of the frame."""
        return per_row(spec, data, np.arange(len(data)), len(data), self.context, what, self.columns)

    def reads_covariates_alone(self, spec: Any, what: str) -> bool:
        """Whether the user gave an expression over covariates of the formula and over no other column."""
        read = names_in(spec, what) & {*self.data.columns, *self.columns} if isinstance(spec, str) else set()
        return bool(read) and read <= set(self.covariates)

    def centred(self) -> Callable[[pd.DataFrame], Array]:
        """The treatment of any rows minus its mean over the rows of the fit: an anchor that does not depend on the origin."""
        centre = self.centre
        if centre is None:
            centre = self.mean(self.treatment.values(self.data if self.fitted is None else self.fitted))
        return lambda data: np.asarray(self.treatment.values(data) - centre)

    def mean(self, values: Array) -> Any:
        """The weighted mean over the rows of the fit, on the first axis."""
        if self.weights is None or np.ptp(self.weights) == 0:
            return values.mean(axis=0)
        return self.weights @ values / self.weights.sum()

    def location(self, values: Array, ddof: int) -> tuple[Any, Any]:
        """Means and standard deviations over the rows of the fit, on the first axis."""
        centre = self.mean(values)
        return centre, np.sqrt(self.mean((values - centre) ** 2) * len(values) / (len(values) - ddof))


def ones(data: pd.DataFrame) -> Array:
    """The normalizer of a plain mean."""
    return np.ones(len(data))


@dataclass(frozen=True)
class Component:
    """One parameter to estimate.

    Attributes
    ----------
    name : str
        The parameter's name in tables.
    moment : callable
        ``(mu, data) -> LinearForm``: the formula of m.
    anchor : callable or None
        ``frame -> (n,)``: the paper's beta; None if it is to be chosen automatically.
    symbol, words : str
        The estimand in symbols and in words, for the summary.
    normalizer : callable
        ``data -> (n,)``; psi = E[m] / E[normalizer].
    """

    name: str
    moment: Callable[[Mu, pd.DataFrame], LinearForm]
    anchor: Callable[[pd.DataFrame], Any] | None
    symbol: str
    words: str
    normalizer: Callable[[pd.DataFrame], Array] = ones


class Estimand(CheckedSettings, ABC):
    """A question about mu: settings only, no data.

    Subclasses are frozen dataclasses. ``components`` is called once per fit, on the full sample, before any training; it raises
    :class:`~riesz.errors.EstimandError` if the question cannot be answered.

    A subclass in ``riesz.estimands.ESTIMANDS`` has a verb, ``riesz.<verb>()``, with its settings as arguments and its
    docstring as documentation. Files of fits hold it if it has the decorator :func:`~riesz.storage.coding.stored`.

    Attributes
    ----------
    verb : str
        Its name in the registry and in messages.
    """

    verb: ClassVar[str]

    @classmethod
    def example(cls) -> Estimand:
        """An instance for tests, whose data have a treatment and the covariates ``x1`` and ``x2``; by default without settings."""
        return cls()

    @abstractmethod
    def treatment_kind(self, column: pd.Series) -> TreatmentKind:
        """What the estimand needs, given the treatment's column: arms, a continuous number, or either of them."""

    @abstractmethod
    def components(self, sample: Sample) -> tuple[Component, ...]:
        """Bind the estimand to the rows in use."""

    def specifications(self) -> Sequence[Any]:
        """The settings that refer to the data: strings, callables, arrays, numbers; by default none."""
        return ()

    def columns(self, available: Sequence[str]) -> set[str]:
        """The columns that the user's strings read. A string that is a level, not an expression, reads none."""
        names: set[str] = set()
        for text in filter(lambda spec: isinstance(spec, str), self.specifications()):
            try:
                names |= names_in(text, self.verb)
            except EstimandError:
                continue  # `components` raises it with the reason
        return names & set(available)

    @property
    def reads_everything(self) -> bool:
        """Whether a function of the user may read any column."""
        return any(callable(spec) for spec in self.specifications())


def copied(spec: Any) -> Any:
    """A copy of a setting, so that later changes to the user's arrays have no effect."""
    if isinstance(spec, (list, tuple)):
        parts = [copied(part) for part in spec]
        return parts if isinstance(spec, list) else tuple(parts)
    return spec.copy() if isinstance(spec, (np.ndarray, pd.Series, pd.Index)) else spec


def arm_name(stem: str, level: Any, treatment: Treatment) -> str:
    """``ATE`` for two arms, ``ATE_high`` for the arm `high` of several."""
    if treatment.is_binary:
        return stem
    return f"{stem}_{treatment.label(level)}"


def need_binary(treatment: Treatment, verb: str) -> None:
    """Refuse more than two arms."""
    if not treatment.is_binary:
        raise EstimandError(
            f"Treatment `{treatment.name}` has {len(treatment.levels)} arms; `{verb}` needs two. Use `riesz.mean` with "
            "`at=` for the mean outcome in each arm, or keep two arms."
        )
