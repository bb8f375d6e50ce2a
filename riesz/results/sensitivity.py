"""The sensitivity analysis of a fit: table, summary and contour plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from riesz.diagnostics.sensitivity import Elements, bounds, robustness_values, strength
from riesz.errors import RieszError, listing, pick
from riesz.plots.sensitivity import draw_contour
from riesz.results.summary_table import Summary, number
from riesz.syntax.check_arguments import checked_methods, is_count, is_number
from riesz.syntax.labels import label

_ROUNDING = 1e-12  # by which a correlation that was computed may exceed 1


@checked_methods()
@dataclass(frozen=True)
class Sensitivity:
    """Bounds on the estimates if a confounder of a given strength was left out.

    Made by ``fit.sensitivity()``.

    Attributes
    ----------
    names : sequence of str
        The parameters.
    elements : Elements
        The moments that the bounds are computed from.
    cf_y : float
        Share of the outcome's residual variance that the confounder explains.
    cf_d : float
        Share of the variance of the Riesz representer, with the confounder known, that the confounder adds.
    rho : float
        Correlation between what the confounder adds to mu and what it adds to rr; 1 is the worst case.
    level : float
        Level of each confidence bound, one-sided.
    null : mapping
        The hypothesis of each parameter that the robustness values refer to.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
    >>> riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear").sensitivity(cf_y=0.05, cf_d=0.05)
                       Sensitivity to an unobserved confounder
    =============================================================================
    cf_y:                            0.05   Level (each side):               0.95
    cf_d:                            0.05   Null:                               0
    rho:                                1
    =============================================================================
               estimate    lower    upper   CI lower   CI upper       RV      RVa
    -----------------------------------------------------------------------------
    ATE          1.3946   1.2136   1.5755     1.0250     1.7631   32.48%   28.67%
    =============================================================================
    |bias| <= |rho| sqrt(cf_y cf_d / (1 - cf_d)) sqrt(E[(y - mu)^2] E[rr^2])
    ATE: a confounder that explains 32.5% of the residual variance of the outcome
      and as much of the representer's could bring the estimate to 0; 28.7% is
      enough for the 95% confidence bound.
    """

    names: Sequence[str]
    elements: Elements
    cf_y: float
    cf_d: float
    rho: float
    level: float
    null: Mapping[str, float]

    def __post_init__(self) -> None:
        if not (is_number(self.cf_y) and 0 <= self.cf_y <= 1):
            raise RieszError(f"cf_y={self.cf_y!r}: expected a share, from 0 to 1, such as 0.03.")
        if not (is_number(self.cf_d) and 0 <= self.cf_d < 1):
            raise RieszError(f"cf_d={self.cf_d!r}: expected a share, from 0 to below 1, such as 0.03.")
        if not (is_number(self.rho) and abs(self.rho) <= 1 + _ROUNDING):
            raise RieszError(f"rho={self.rho!r}: expected a correlation, between -1 and 1; 1 is the worst case.")
        if not (is_number(self.level) and 0 < self.level < 1):
            raise RieszError(f"level={self.level!r}: expected a number between 0 and 1, such as 0.95.")

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per parameter: the estimate, its bounds with confidence bounds, and the robustness values RV and RVa."""
        s = np.atleast_1d(strength(self.cf_y, self.cf_d, self.rho))
        lines = []
        for c, name in enumerate(self.names):
            rv, rva = robustness_values(self.elements, c, self.rho, self.level, self.null[name])
            limits = bounds(self.elements, c, s, self.level).iloc[0]
            lines.append({"estimate": np.median(self.elements.value[:, c]), **limits, "rv": rv, "rva": rva})
        return pd.DataFrame(lines, index=list(self.names))

    def at(self, cf_y: float, cf_d: float) -> Sensitivity:
        """The same analysis for a confounder of another strength."""
        return replace(self, cf_y=cf_y, cf_d=cf_d)

    def contour(
        self, parameter: str | None = None, upto: float | tuple[float, float] | None = None, points: int = 40
    ) -> pd.DataFrame:
        """The bounds on a grid of strengths, for a contour plot.

        Parameters
        ----------
        parameter : str, optional
            Which parameter; needed if there are several.
        upto : float or (float, float), optional
            Where the axes end: one number for both, or one for cf_d and one for cf_y. By default a little beyond the robustness
            value and the strengths of this analysis.
        points : int
            Number of points per axis.

        Returns
        -------
        pandas.DataFrame
            ``cf_d, cf_y, lower, upper, conf_low, conf_high``, one row per point of the grid.
        """
        name = pick(parameter, self.names)
        if upto is None:
            upto = min(0.99, 1.25 * max(0.12, self.cf_y, self.cf_d, min(self.table.loc[name, "rv"], 0.6)))
        ends = tuple(upto) if isinstance(upto, (tuple, list)) else (upto, upto)
        if len(ends) != 2 or not all(map(is_number, ends)) or not (0 < ends[0] < 1 and 0 < ends[1] <= 1):
            raise RieszError(
                f"upto={upto!r}: expected a share between 0 and 1, such as 0.15, or one for cf_d and one for cf_y."
            )
        if not is_count(points, 2):
            raise RieszError(f"points={points!r}: expected a whole number, 2 or larger.")
        end_d, end_y = ends
        axes = np.linspace(0.0, end_d, points), np.linspace(0.0, end_y, points)
        cf_d, cf_y = (grid.ravel() for grid in np.meshgrid(*axes))
        limits = bounds(self.elements, list(self.names).index(name), strength(cf_y, cf_d, self.rho), self.level)
        return pd.concat([pd.DataFrame({"cf_d": cf_d, "cf_y": cf_y}), limits], axis=1)

    def plot(
        self,
        parameter: str | None = None,
        *,
        benchmarks: pd.DataFrame | None = None,
        confidence: bool = False,
        ax: Any = None,
    ) -> Any:
        """The contour plot, as in :func:`riesz.plots.sensitivity`; returns the axes.

        Parameters
        ----------
        parameter : str, optional
            Which parameter; needed if there are several.
        benchmarks : pandas.DataFrame, optional
            The table of ``fit.sensitivity_benchmark()``, whose strengths are marked.
        confidence : bool
            Draw the confidence bound instead of the bound itself.
        ax : matplotlib.axes.Axes, optional

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
        >>> ax = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear").sensitivity().plot()
        >>> ax.get_title(loc="left")
        'Lower bound on ATE'
        """
        return draw_contour(self, parameter, benchmarks, confidence, ax)

    def summary(self) -> Summary:
        """The analysis in words and numbers: text if printed, a table in notebooks, ``as_latex()``, ``as_html()``."""
        shares = {"rv", "rva"}
        shown = {
            column: [f"{v:.2%}" if column in shares else number(v) for v in values]
            for column, values in self.table.rename(columns={"conf_low": "CI lower", "conf_high": "CI upper"}).items()
        }
        return Summary(
            title="Sensitivity to an unobserved confounder",
            subtitle="|bias| <= |rho| sqrt(cf_y cf_d / (1 - cf_d)) sqrt(E[(y - mu)^2] E[rr^2])",
            left=[("cf_y", f"{self.cf_y:g}"), ("cf_d", f"{self.cf_d:g}"), ("rho", f"{self.rho:g}")],
            right=[("Level (each side)", f"{self.level:g}"), ("Null", self._nulls())],
            tables=[pd.DataFrame(shown, index=list(self.names)).rename(columns={"rv": "RV", "rva": "RVa"})],
            notes=[self._words(name) for name in self.names],
        )

    def _nulls(self) -> str:
        values = sorted(set(self.null.values()))
        return label(values[0]) if len(values) == 1 else ", ".join(f"{k}={label(v)}" for k, v in self.null.items())

    def _words(self, name: str) -> str:
        row, null = self.table.loc[name], self.null[name]
        if row["rva"] == 0:
            return f"{name}: the {self.level:.0%} confidence bound reaches {label(null)} without any confounder."
        return (
            f"{name}: a confounder that explains {row['rv']:.1%} of the residual variance of the outcome and as much of the "
            f"representer's could bring the estimate to {label(null)}; {row['rva']:.1%} is enough for the {self.level:.0%} "
            "confidence bound."
        )

    def __repr__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def read_null(null: float | Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """The hypothesis of each parameter: one number for all, or one per parameter by name."""
    nulls = dict(null) if isinstance(null, Mapping) else dict.fromkeys(names, null)
    missing = [name for name in names if name not in nulls]
    if missing:
        raise RieszError(
            f"null has no value for {listing(missing)}; expected one number for all parameters, or one per parameter."
        )
    unknown = [name for name in nulls if name not in names]
    if unknown:
        raise RieszError(f"null has a value for {listing(unknown)}; the parameters are {listing(names)}.")
    for name, value in nulls.items():
        if not is_number(value):
            where = f"null[{name!r}]" if isinstance(null, Mapping) else "null"
            raise RieszError(f"{where}={value!r}: expected a finite number, the hypothesis, such as 0.")
    return {name: float(value) for name, value in nulls.items()}
