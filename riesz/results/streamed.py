"""The results of a fit to a source: estimates, standard errors and tests, which need only sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, final

import numpy as np
import pandas as pd
from scipy import stats

from riesz.arrays import Array
from riesz.design.table import ClusterLabels
from riesz.errors import RieszError
from riesz.estimators import ESTIMATORS, describe
from riesz.results.notes import about_splitting, health_lines, health_table
from riesz.results.parameters import Parameters
from riesz.results.summary_table import Fact, Summary, number
from riesz.settings import Settings
from riesz.streaming.estimates import StreamedEstimate, estimate_from_sums, health_from_sums, scales_from_sums
from riesz.streaming.fit import StreamedFit
from riesz.syntax.check_arguments import checked_methods


@dataclass(frozen=True)
class StreamedModel:
    """The model of a fit to a source.

    Attributes
    ----------
    formula : str
    settings : Settings
    endog_names : str
        Name of the outcome.
    exog_names : list of str
        Names of the parameters.
    covariates, column_names : sequence of str
        Columns of the data, and of the design.
    weighting : str
    """

    formula: str
    settings: Settings
    endog_names: str
    exog_names: list[str]
    covariates: Sequence[str]
    column_names: Sequence[str]
    weighting: str

    @property
    def learner(self) -> Any:
        """The learner of the settings."""
        return self.settings.learner

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise _needs_rows(f"model.{name}")


@final
@checked_methods("fit.")
class StreamedResults(Parameters):
    """Estimates with standard errors from data that were read in chunks.

    :func:`riesz.ate` and the other verbs return it if ``data`` is a source. ``params``, ``bse``, ``conf_int()``, ``t_test()``,
    ``summary()`` and the like are those of :class:`~riesz.results.fit.Results`. Methods that need rows, such as ``by()`` or
    ``predict()``, raise an error that says what to do.

    Examples
    --------
    >>> import pathlib, tempfile, riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data.to_parquet(pathlib.Path(folder) / "part.parquet")
    ...     fit = riesz.ate("y ~ treat(a) * (x1 + x2)", folder, learner="linear")
    >>> fit.nobs, fit.params.round(1).to_dict()
    (500, {'ATE': 1.4})
    """

    def __init__(self, model: StreamedModel, fit: StreamedFit) -> None:
        self._fit = fit
        self._scale = scales_from_sums(fit.sums, fit.fits[0].scale_free)
        estimate = self._estimate(model.settings.estimator, model.settings.target)
        without_rows: Any = model  # has the attributes that parameters use
        no_clusters = ClusterLabels((), (), ())
        super().__init__(without_rows, no_clusters, estimate.value, estimate.covariance, nobs=fit.sums.frequency)

    def _estimate(self, estimator: str, target: str) -> StreamedEstimate:
        return estimate_from_sums(self._fit.sums, estimator, self._scale, target)

    @cached_property
    def estimates(self) -> pd.DataFrame:
        """Estimates by all estimators; the standard error is NaN if the estimator has no valid one."""
        pieces = []
        for name in ESTIMATORS:
            found = self._estimate(name, self.model.settings.target)
            error = np.sqrt(np.diag(found.covariance))
            half = stats.norm.isf(0.025) * error
            columns = {"estimate": found.value, "std_error": error}
            columns |= {"conf_low": found.value - half, "conf_high": found.value + half}
            index = pd.MultiIndex.from_product([self._names, [name]], names=["parameter", "estimator"])
            pieces.append(pd.DataFrame(columns, index=index))
        table = pd.concat(pieces)
        return table.reindex(pd.MultiIndex.from_product([self._names, [*ESTIMATORS]], names=table.index.names))

    def details(self) -> pd.DataFrame:
        """What the learner reports about each of its fits, one row per fold."""
        return pd.DataFrame([fit.details() for fit in self._fit.fits])

    def diagnostics(self) -> pd.DataFrame:
        """What sums tell about the Riesz representer: its largest value, effective sample size and known means."""
        return health_from_sums(self._fit.sums, self._scale, self._names)

    def tidy(self, alpha: float = 0.05, joint: bool = False) -> pd.DataFrame:
        """One row per parameter: estimate, standard error, statistic, p-value and interval."""
        return self._tidy(alpha, joint)

    def glance(self) -> pd.DataFrame:
        """One row about the fit as a whole."""
        health, settings = self.diagnostics(), self.model.settings
        return pd.DataFrame(
            {
                "nobs": [self.nobs],
                "rows_dropped": [self._fit.plan.facts.rows - self._fit.plan.facts.used],
                "folds": [len(self._fit.fits)],
                "repeats": [1],
                "estimator": [settings.estimator],
                "learner": [settings.learner.describe("gaussian")],
                "cov_type": [self.cov_type],
                "target": [settings.target],
                "largest_rr": [health["largest_rr"].max()],
                "effective_n": [health["effective_n"].min()],
            }
        )

    def summary(self, alpha: float = 0.05) -> Summary:
        """The summary: text if printed, a table in notebooks, ``as_latex()``, ``as_html()``, ``as_csv()``."""
        components = self._fit.plan.components
        several = len(components) > 1
        values = self.estimates["estimate"].unstack("estimator").loc[self._names, [*ESTIMATORS]]
        tables = [self._parameter_table(alpha), values.map(number).rename_axis("all estimators", axis=1)]
        notes = [f"{c.name}: {c.words}, {c.symbol}" for c in components] if several else []
        if several:
            tables.append(health_table(self.diagnostics(), False, self.model.settings.family))
        else:
            notes += health_lines(self.diagnostics(), self.nobs, False, self.model.settings.family)
        if not ESTIMATORS[self.model.settings.estimator].debiased:
            notes.append("This estimator has no valid standard error; use estimator='dr' or 'tmle'.")
        notes += self.model.learner.remarks(self._fit.plan.reference_design(), self.details())
        notes += about_splitting(len(self._fit.fits))
        notes.append(
            "The data were read in chunks, so checks that need rows were not made: overlap, balance, heavy rows."
        )
        return Summary(
            title=f"{len(components)} parameters, fitted together" if several else components[0].words,
            subtitle="each an average moment of mu" if several else f"psi = {components[0].symbol}",
            left=self._left(),
            right=self._right(),
            tables=tables,
            notes=notes,
        )

    def _left(self) -> list[Fact]:
        settings = self.model.settings
        return [
            ("Outcome", self.model.endog_names),
            ("Treatment", self._fit.plan.treatment.describe()),
            ("Learner", settings.learner.describe("gaussian")),
            ("Estimator", describe(settings.estimator)),
            ("Covariance", self._covariance_words()),
        ]

    def _right(self) -> list[Fact]:
        facts, model = self._fit.plan.facts, self.model
        dropped = f"Rows dropped (missing{', weight 0' if model.weighting else ''})"
        right = [
            ("Observations", f"{self.nobs:,}"),
            (dropped, f"{facts.rows - facts.used:,}"),
            ("Folds x repeats", f"{len(self._fit.fits)} x 1"),
            ("Target", model.settings.target),
        ]
        return [*right, ("Weights", model.weighting)] if model.weighting else right

    def variation(self) -> Array:
        """Not available: the influence function has one value per row."""
        raise _needs_rows("variation")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise _needs_rows(name)


class _NeedsRows(RieszError, AttributeError):
    """Raised for what a fit to a source does not have, so that ``getattr`` with a default works, too."""


def _needs_rows(name: str) -> RieszError:
    return _NeedsRows(
        f"`{name}` needs rows, or does not exist; a fit to a source keeps sums alone. Fit the columns that the formula reads in "
        "memory: data = pandas.read_parquet(path, columns=[...])."
    )
