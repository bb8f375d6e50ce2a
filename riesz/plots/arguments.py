"""Protocols of what plots read from a fit, and the check of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

import pandas as pd

from riesz.design.design import Blueprint
from riesz.diagnostics.overlap import Overlap
from riesz.errors import RieszError
from riesz.learners.base import Learner
from riesz.syntax.check_arguments import check_call

P = ParamSpec("P")
R = TypeVar("R")


class Estimated(Protocol):
    """Parameters with intervals: fits, group effects, contrasts, and results of statsmodels."""

    @property
    def params(self) -> pd.Series: ...

    def conf_int(self, alpha: float = ...) -> pd.DataFrame: ...


class Grouped(Protocol):
    """Effects in groups."""

    def tidy(self, alpha: float = ..., joint: bool = ...) -> pd.DataFrame: ...


class Analysis(Protocol):
    """A sensitivity analysis."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def cf_y(self) -> float: ...

    @property
    def cf_d(self) -> float: ...

    @property
    def null(self) -> Any: ...

    @property
    def table(self) -> pd.DataFrame: ...

    def contour(
        self, parameter: str | None = ..., upto: float | tuple[float, float] | None = ..., points: int = ...
    ) -> pd.DataFrame: ...


class Modelled(Protocol):
    """The part of a model that plots read."""

    @property
    def blueprint(self) -> Blueprint: ...

    @property
    def learner(self) -> Learner: ...


class Fitted(Protocol):
    """A fit."""

    @property
    def model(self) -> Modelled: ...

    @property
    def params(self) -> pd.Series: ...

    def conf_int(self, alpha: float = ...) -> pd.DataFrame: ...

    @property
    def estimates(self) -> pd.DataFrame: ...

    @property
    def candidates(self) -> pd.DataFrame: ...

    @property
    def history(self) -> pd.DataFrame: ...

    @property
    def riesz_representer(self) -> pd.DataFrame: ...

    def diagnostics(self) -> pd.DataFrame: ...

    def overlap(self) -> Overlap: ...

    def balance(self) -> pd.DataFrame: ...

    def influential(self, k: int = ..., parameter: str | None = ...) -> pd.DataFrame: ...

    def influence_quantiles(self, parameter: str | None = ...) -> pd.DataFrame: ...

    def by(self, groups: Any) -> Grouped: ...

    def sensitivity(
        self, cf_y: float = ..., cf_d: float = ..., rho: float = ..., level: float = ..., null: Any = ...
    ) -> Analysis: ...

    def sensitivity_benchmark(self, *columns: str | Sequence[str]) -> pd.DataFrame: ...


def plot_of_fit(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a plot so that wrong arguments, or an object that is not a fit, raise an error that says what is expected."""
    name = f"riesz.plots.{function.__name__}()"

    @wraps(function)
    def draw(*arguments: P.args, **keywords: P.kwargs) -> R:
        check_call(name, function, arguments, keywords)
        fit = arguments[0] if arguments else keywords["fit"]
        if not callable(getattr(type(fit), "influence_quantiles", None)):
            raise RieszError(
                f"{name} got an object of type {type(fit).__name__}; expected a fit, as riesz.ate() and the other verbs return."
            )
        return function(*arguments, **keywords)

    return draw
