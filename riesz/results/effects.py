"""Parameters derived from a fit: effects in groups, projections, functions of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.design.table import ClusterLabels
from riesz.plots import forest
from riesz.results.model import Model
from riesz.results.notes import about_estimator
from riesz.results.parameters import Parameters
from riesz.results.summary import Summary
from riesz.syntax.calls import checked


@dataclass(frozen=True)
class Words:
    """What the summary of derived parameters says.

    Attributes
    ----------
    title, subtitle : str
    facts : sequence of (name, value)
        Beside outcome, covariance and observations.
    notes : sequence of str
    hypothesis : str
        What the Wald test tests.
    """

    title: str
    subtitle: str
    facts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    hypothesis: str = ""


class Effects(Parameters):
    """Parameters derived from one or several fits, with everything that a fit says of its own.

    Made by ``fit.by``, ``fit.blp`` and :func:`riesz.contrast`; it has ``params``, ``bse``, ``conf_int``, ``t_test``,
    ``wald_test``, ``summary``, ``tidy`` and so on, and can enter a contrast itself.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
    >>> effects = riesz.ate("y ~ treat(a) * .", data, learner="linear").by(data["x1"] > 0)
    >>> effects.conf_int(joint=True).shape
    (2, 2)
    """

    def __init__(
        self,
        model: Model,
        clusters: ClusterLabels,
        labels: pd.DataFrame,
        estimated: tuple[Array, Array, Array],
        words: Words,
        restrictions: Mapping[str, Array],
        nobs: float | None = None,
    ) -> None:
        """Put together what was derived.

        Parameters
        ----------
        model : Model
            Of the fit it comes from.
        clusters : ClusterLabels
        labels : pandas.DataFrame
            One row a parameter: ``term``, its name, and what else tables should say of it.
        estimated : tuple of ndarray, shapes (P,), (P, P), (n, P)
            Values, covariance matrix and variation.
        words : Words
        restrictions : mapping
            For each hypothesis, the matrix R of R params = 0.
        nobs : float, optional
            Rows that entered; all rows of the fit by default.
        """
        value, covariance, self._variation = estimated
        super().__init__(replace(model, exog_names=labels["term"].tolist()), clusters, value, covariance, nobs)
        self._labels, self._words, self._hypotheses = labels, words, restrictions

    def variation(self) -> Array:
        """What the covariance is made of, row by row, shape (n, P).

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> effects = fit.by(data["x1"] > 0)
        >>> effects.variation().shape
        (300, 2)
        """
        return self._variation

    def tidy(self, alpha: float = 0.05, joint: bool = False) -> pd.DataFrame:
        """One row a parameter: its labels, estimate, standard error, statistic, p-value and interval.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> effects = fit.by(data["x1"] > 0)
        >>> effects.tidy()[["group", "n"]].shape
        (2, 2)
        """
        table = self._tidy(alpha, joint)
        return pd.concat([self._labels.reset_index(drop=True), table.drop(columns="term")], axis=1)

    def heterogeneity(self) -> pd.DataFrame:
        """Wald test that effects do not vary: that all groups have the same, or that no slope differs from zero.

        Returns
        -------
        pandas.DataFrame
            One row a parameter of the fit: ``statistic``, ``df``, ``p_value``. Empty for a contrast.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> effects = fit.by(data["x1"] > 0)
        >>> effects.heterogeneity().columns.tolist()
        ['statistic', 'df', 'p_value']
        """
        rows = {name: self._wald_row(matrix) for name, matrix in self._hypotheses.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=["statistic", "df", "p_value"])

    def summary(self, alpha: float = 0.05) -> Summary:
        """The summary: text when printed, a table in notebooks, ``as_latex()``, ``as_html()``, ``as_csv()``.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> effects = fit.by(data["x1"] > 0)
        >>> effects.summary().title
        'ATE by x1'
        """
        tests = [
            f"{self._words.hypothesis} ({name}): chi2({row['df']:.0f}) = {row['statistic']:.2f}, p = {row['p_value']:.3f}."
            for name, row in self.heterogeneity().iterrows()
            if np.isfinite(row["p_value"])
        ]
        return Summary(
            title=self._words.title,
            subtitle=self._words.subtitle,
            left=[("Outcome", self.model.endog_names), ("Covariance", self._covariance_words())],
            right=[("Observations", f"{self.nobs:,}"), *self._words.facts],
            tables=[self._parameter_table(alpha)],
            notes=[*tests, *about_estimator(self.model), *self._covariance_notes, *self._words.notes],
        )

    @checked("plot()")
    def plot(self, **options: Any) -> Any:
        """A forest plot of the parameters: :func:`riesz.plots.forest` with its options. Returns the axes.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
        >>> ax = riesz.ate("y ~ treat(a) * .", data, learner="linear").blp("~ x1").plot()
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['Intercept', 'x1']
        """
        return forest(self, **options)

    def __copy__(self) -> Self:
        return self  # like a fit, it does not change

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def _wald_row(self, matrix: Array) -> tuple[float, float, float]:
        test = self.wald_test(matrix)
        return float(test.statistic), float(test.df_denom), float(test.pvalue)
