"""Parameters with a covariance matrix: what fits, group effects, projections and contrasts have in common.

``params, bse, tvalues, pvalues, conf_int(), cov_params(), t_test(), wald_test()`` have the same meaning as in statsmodels. The
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
from riesz.inference import joint_critical_value
from riesz.results.hypotheses import all_restrictions, contradict, each_restriction
from riesz.results.model import Model
from riesz.results.restrictions import read_restrictions
from riesz.results.summary_table import Summary, number
from riesz.syntax.check_arguments import check_alpha, checked_methods


@checked_methods()
class Parameters(ABC):
    """Named estimates, their joint covariance, and the rows they come from.

    Attributes
    ----------
    model : Model
        The formula, the data and the settings; ``model.exog_names`` are the names of the parameters.
    """

    use_t = False

    def __init__(
        self,
        model: Model,
        clusters: ClusterLabels,
        value: Array,
        covariance: Array,
        covariance_notes: Sequence[str] = (),
        nobs: float | None = None,
    ) -> None:
        self.model = model
        self._nobs = round(float(model.weights.frequency.sum() if nobs is None else nobs))
        self._clusters = clusters
        self._names = model.exog_names
        self._value, self._covariance = value, covariance
        self._covariance_notes = list(covariance_notes)

    @abstractmethod
    def summary(self, alpha: float = 0.05) -> Summary:
        """The summary: text if printed, a table in notebooks, ``as_latex()``, ``as_html()``, ``as_csv()``."""

    @abstractmethod
    def tidy(self, alpha: float = 0.05, joint: bool = False) -> pd.DataFrame:
        """One row per parameter: estimate, standard error, statistic, p-value and interval."""

    @abstractmethod
    def variation(self) -> Array:
        """What the covariance is computed from, shape (n, K): the influence function, averaged over repeats."""

    @property
    def params(self) -> pd.Series:
        """Point estimates.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.params.round(2).to_string())
        ATE    1.31
        """
        return self._series(self._value, "estimate")

    @property
    def bse(self) -> pd.Series:
        """Standard errors; NaN if the estimator has no valid one.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.bse.round(3).to_string())
        ATE    0.2
        """
        return self._series(np.sqrt(np.diag(self._covariance)), "std err")

    @property
    def tvalues(self) -> pd.Series:
        """Z statistics of the hypothesis that a parameter is zero: estimates over standard errors.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.tvalues.round(1).to_string())
        ATE    6.5
        """
        return self._series((self.params / self.bse).to_numpy(), "z")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of the hypothesis that a parameter is zero, from the normal distribution.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.pvalues.round(3).to_string())
        ATE    0.0
        """
        return self._series(2 * stats.norm.sf(np.abs(self.tvalues)), "P>|z|")

    def conf_int(self, alpha: float = 0.05, joint: bool = False) -> pd.DataFrame:
        """Confidence intervals of level 1 - alpha, in columns 0 and 1.

        Parameters
        ----------
        alpha : float
        joint : bool
            Intervals that cover all parameters at once (a sup-t band by the Gaussian multiplier bootstrap, with a fixed seed),
            instead of each parameter by itself. Clusters, weights and repeats count as in the standard errors.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.estimate("y ~ treat(a) * (x1 + x2)", data, [riesz.ATE(), riesz.ATT()], learner="linear")
        >>> print(fit.conf_int().round(2))
                0     1
        ATE  0.91  1.70
        ATT  1.06  1.87
        >>> print(fit.conf_int(joint=True).round(2))
                0     1
        ATE  0.90  1.72
        ATT  1.04  1.89
        """
        check_alpha(alpha)
        critical = joint_critical_value(self._covariance, alpha) if joint else stats.norm.isf(alpha / 2)
        return pd.DataFrame({0: self.params - critical * self.bse, 1: self.params + critical * self.bse})

    def cov_params(self) -> pd.DataFrame:
        """Covariance matrix of the estimates.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.estimate("y ~ treat(a) * x1", data, [riesz.ATE(), riesz.ATT()], learner="linear")
        >>> print(fit.cov_params().round(4))
                ATE     ATT
        ATE  0.0407  0.0400
        ATT  0.0400  0.0428
        """
        return pd.DataFrame(self._covariance, index=self._names, columns=self._names)

    @property
    def nobs(self) -> int:
        """Number of rows used; with frequency weights, the number of rows they represent.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data.assign(copies=2)
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.nobs
        300
        >>> riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear", freq_weights="copies").nobs
        600
        """
        return self._nobs

    @property
    def cov_type(self) -> str:
        """``"robust"`` or ``"cluster"``.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> data["school"] = data.index % 30
        >>> fit = riesz.ate("y ~ treat(a) * x1", data, learner="linear", cluster="school")
        >>> fit.cov_type, fit.with_cov().cov_type
        ('cluster', 'robust')
        """
        return "cluster" if self._clusters.codes else "robust"

    @property
    def clusters(self) -> ClusterLabels:
        """The clusters: their variables, the cluster of each row, and the labels.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> data["school"] = data.index % 30
        >>> riesz.ate("y ~ treat(a) * x1", data, learner="linear", cluster="school").clusters.describe()
        'cluster: school (30)'
        """
        return self._clusters

    def t_test(self, r_matrix: Any) -> ContrastResults:
        """Test linear combinations one by one: ``"ATE = 1"``, ``"ATE - ATT = 0"``, or a matrix as in statsmodels.

        A chain such as ``"ATE = ATT = 1"`` is two restrictions, as in statsmodels: ATE = ATT and ATT = 1.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.estimate("y ~ treat(a) * (x1 + x2)", data, [riesz.ATE(), riesz.ATT()], learner="linear")
        >>> test = fit.t_test("ATE - ATT = 0")
        >>> print(f"difference {test.effect.item():.2f}, std err {test.sd.item():.2f}, p-value {test.pvalue.item():.2f}")
        difference -0.16, std err 0.07, p-value 0.02
        """
        r, q = read_restrictions(r_matrix, self._names)
        return each_restriction(r, q, self._value, self._covariance)

    def wald_test(self, r_matrix: Any) -> ContrastResults:
        """Test linear restrictions jointly, chi-squared: ``"ATE = 0, ATT = 0"``, ``"ATE = ATT = 0"``, or a matrix.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.estimate("y ~ treat(a) * x1", data, [riesz.ATE(), riesz.ATT()], learner="linear")
        >>> test = fit.wald_test("ATE = 0, ATT = 0")
        >>> print(f"chi2({test.df_denom}) = {test.statistic:.1f}, p-value {test.pvalue:.3f}")
        chi2(2) = 53.5, p-value 0.000
        """
        r, q = read_restrictions(r_matrix, self._names)
        if contradict(r, q):
            raise RieszError(
                f"The restrictions of {r_matrix!r} contradict each other: no parameters can satisfy them all."
            )
        return all_restrictions(r, q, self._value, self._covariance)

    def to_markdown(self) -> str:
        """The table of :meth:`tidy` as Markdown.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.to_markdown())
        | term   |   estimate |   std_error |   statistic |   p_value |   conf_low |   conf_high |
        |--------|------------|-------------|-------------|-----------|------------|-------------|
        | ATE    |      1.308 |      0.2003 |       6.527 | 6.692e-11 |     0.9149 |         1.7 |
        """
        return str(tabulate(self.tidy(), headers="keys", tablefmt="github", showindex=False, floatfmt=".4g"))

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        return str(self.summary())

    def _series(self, values: Array, name: str) -> pd.Series:
        return pd.Series(np.asarray(values, dtype=float), index=self._names, name=name)

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
