"""Parameters with a covariance matrix: what fits, group effects, projections and contrasts have in common.

``params, bse, tvalues, pvalues, conf_int(), cov_params(), t_test(), wald_test()`` mean what they mean in statsmodels; the
reference distribution is the normal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.contrast import ContrastResults
from tabulate import tabulate

from riesz.arrays import Array
from riesz.design.table import ClusterLabels
from riesz.errors import RieszError
from riesz.inference import Estimate, joint_critical_value, two_way
from riesz.results.model import Model
from riesz.results.notes import about_two_way
from riesz.results.restrictions import read_restrictions
from riesz.results.summary import Summary, number
from riesz.syntax.caller import warn
from riesz.syntax.calls import is_number

_DEPENDENT = 1e-12  # eigenvalues of a correlation matrix below this are rounding: the restrictions repeat one another


class Parameters(ABC):
    """Named estimates, their joint covariance, and the rows they were made from.

    Attributes
    ----------
    model : Model
        What was asked; ``model.exog_names`` are the parameters.
    """

    use_t = False

    def __init__(
        self, model: Model, clusters: ClusterLabels, value: Array, covariance: Array, nobs: float | None = None
    ) -> None:
        self.model = model
        self._nobs = round(float(model.weights.frequency.sum() if nobs is None else nobs))
        self._clusters = clusters
        self._names = model.exog_names
        self._value, self._covariance = value, covariance
        self._covariance_notes: list[str] = []

    @abstractmethod
    def summary(self, alpha: float = 0.05) -> Summary:
        """The summary: text when printed, a table in notebooks, ``as_latex()``, ``as_html()``, ``as_csv()``."""

    @abstractmethod
    def variation(self) -> Array:
        """What the covariance is made of, row by row, shape (n, K): the influence function, averaged over repeats."""

    @property
    def params(self) -> pd.Series:
        """Point estimates.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.params.index.tolist()
        ['ATE']
        """
        return self._series(self._value, "estimate")

    @property
    def bse(self) -> pd.Series:
        """Standard errors.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> bool(fit.bse["ATE"] > 0)
        True
        """
        return self._series(np.sqrt(np.diag(self._covariance)), "std err")

    @property
    def tvalues(self) -> pd.Series:
        """Z statistics of the hypothesis that a parameter is zero.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> bool(fit.tvalues["ATE"] == fit.params["ATE"] / fit.bse["ATE"])
        True
        """
        return self._series((self.params / self.bse).to_numpy(), "z")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values from the normal distribution.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> bool(fit.pvalues["ATE"] < 0.05)
        True
        """
        return self._series(2 * stats.norm.sf(np.abs(self.tvalues)), "P>|z|")

    def conf_int(self, alpha: float = 0.05, joint: bool = False) -> pd.DataFrame:
        """Confidence intervals of level 1 - alpha, columns 0 and 1.

        Parameters
        ----------
        alpha : float
        joint : bool
            Intervals that hold for all parameters at once (a sup-t band by the Gaussian multiplier bootstrap, with a fixed
            seed), instead of for each by itself. Clusters, weights and repeats count as in the standard errors.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> low, high = fit.conf_int(alpha=0.10).loc["ATE"]
        >>> bool(low < fit.params["ATE"] < high)
        True
        """
        if not (is_number(alpha) and 0 < alpha < 1):
            raise RieszError(f"alpha={alpha!r}: expected a number between 0 and 1, such as 0.05 for a 95% interval.")
        critical = joint_critical_value(self._covariance, alpha) if joint else stats.norm.isf(alpha / 2)
        return pd.DataFrame({0: self.params - critical * self.bse, 1: self.params + critical * self.bse})

    def cov_params(self) -> pd.DataFrame:
        """Covariance matrix of the estimates.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> both = riesz.estimate("y ~ treat(a) * x1", data, [riesz.ATE(), riesz.ATT()], learner="linear")
        >>> both.cov_params().columns.tolist()
        ['ATE', 'ATT']
        """
        return pd.DataFrame(self._covariance, index=self._names, columns=self._names)

    @property
    def nobs(self) -> int:
        """Rows used; with frequency weights, the rows they stand for.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.nobs
        300
        """
        return self._nobs

    @property
    def cov_type(self) -> str:
        """``"robust"`` or ``"cluster"``.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.cov_type
        'robust'
        """
        return "cluster" if self._clusters.codes else "robust"

    @property
    def clusters(self) -> ClusterLabels:
        """How rows are clustered.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> data["school"] = data.index % 30
        >>> fit = riesz.ate("y ~ treat(a) * x1", data, learner="linear", cluster="school")
        >>> fit.clusters.names, len(fit.clusters.labels[0])
        (('school',), 30)
        """
        return self._clusters

    def t_test(self, r_matrix: Any) -> ContrastResults:
        """Test linear combinations one by one: ``"ATE = 1"``, ``"ATE - ATT = 0"``, or a matrix as in statsmodels.

        A chain such as ``"ATE = ATT = 1"`` is two restrictions, as it is there: ATE = ATT and ATT = 1.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> test = fit.t_test("ATE = 1")
        >>> bool(abs(test.effect[0] - fit.params["ATE"]) < 1e-12)
        True
        """
        r, q = read_restrictions(r_matrix, self._names)
        effect = r @ self._value
        variance = np.diag(r @ self._covariance @ r.T)
        sd = np.sqrt(np.maximum(variance, 0.0))  # rounding, where the parameters cancel
        statistic = np.divide(effect - q, sd, out=np.full_like(sd, np.nan), where=sd > 0)
        return ContrastResults(effect=effect, statistic=statistic, sd=sd, distribution="norm")

    def wald_test(self, r_matrix: Any) -> ContrastResults:
        """Test linear restrictions jointly, chi-squared: ``"ATE = 0, ATT = 0"``, ``"ATE = ATT = 0"``, or a matrix.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> both = riesz.estimate("y ~ treat(a) * x1", data, [riesz.ATE(), riesz.ATT()], learner="linear")
        >>> test = both.wald_test("ATE = 0, ATT = 0")
        >>> int(test.df_denom), bool(test.pvalue < 0.05)
        (2, True)
        """
        r, q = read_restrictions(r_matrix, self._names)
        if np.linalg.matrix_rank(np.column_stack([r, q])) > np.linalg.matrix_rank(r):
            raise RieszError(
                f"The restrictions of {r_matrix!r} contradict each other: no parameters can satisfy them all."
            )
        gap = r @ self._value - q
        covariance = r @ self._covariance @ r.T
        if np.isnan(covariance).any():  # an estimate without a standard error
            return ContrastResults(
                chi2=np.nan, df_denom=len(r), statistic=np.nan, distribution="chi2", distargs=(len(r),)
            )
        spread = np.sqrt(np.diag(covariance))
        spread = np.where(spread > 0, spread, 1.0)  # correlations: what counts as zero must not depend on units
        correlation = covariance / np.outer(spread, spread)
        rank = int(np.linalg.matrix_rank(correlation, hermitian=True, rtol=_DEPENDENT))
        statistic = float(gap / spread @ np.linalg.pinv(correlation, hermitian=True, rtol=_DEPENDENT) @ (gap / spread))
        return ContrastResults(
            chi2=statistic, df_denom=rank, statistic=statistic, distribution="chi2", distargs=(rank,)
        )

    @abstractmethod
    def tidy(self, alpha: float = 0.05, joint: bool = False) -> pd.DataFrame:
        """One row a parameter: estimate, standard error, statistic, p-value and interval."""

    def _tidy(self, alpha: float, joint: bool) -> pd.DataFrame:
        interval = self.conf_int(alpha, joint)
        return pd.DataFrame(
            {
                "term": self._names,
                "estimate": self.params.to_numpy(),
                "std_error": self.bse.to_numpy(),
                "statistic": self.tvalues.to_numpy(),
                "p_value": self.pvalues.to_numpy(),
                "conf_low": interval[0].to_numpy(),
                "conf_high": interval[1].to_numpy(),
            }
        )

    def to_markdown(self) -> str:
        """The estimate table as Markdown.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.to_markdown().splitlines()[0].split()[1:4]
        ['term', '|', 'estimate']
        """
        return str(tabulate(self.tidy(), headers="keys", tablefmt="github", showindex=False, floatfmt=".4g"))

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        return str(self.summary())

    # below: how it is put together

    def _series(self, values: Array, name: str) -> pd.Series:
        return pd.Series(np.asarray(values, dtype=float), index=self._names, name=name)

    def _tell_two_way(self, estimates: Sequence[Estimate]) -> None:
        """Warn where a two-way clustered variance is not positive, and keep the words for the summary."""
        found = two_way(estimates, self.model.weights, self._clusters.codes)
        self._covariance_notes = about_two_way(found, self._names)
        for note in self._covariance_notes:
            warn(note)

    def _covariance_words(self) -> str:
        if np.isnan(self._covariance).all():
            return "none"
        return self._clusters.describe() if self._clusters.codes else "robust"

    def _parameter_table(self, alpha: float) -> pd.DataFrame:
        interval = self.conf_int(alpha)
        return pd.DataFrame(
            {
                "coef": [number(v) for v in self.params],
                "std err": [number(v) for v in self.bse],
                "z": [number(v, 3) for v in self.tvalues],
                "P>|z|": ["-" if np.isnan(v) else f"{v:.3f}" for v in self.pvalues],
                f"[{alpha / 2:g}": [number(v) for v in interval[0]],
                f"{1 - alpha / 2:g}]": [number(v) for v in interval[1]],
            },
            index=self._names,
        )
