"""What a fit knows: estimates, their precision, the rows they came from, and tests.

``params, bse, tvalues, pvalues, conf_int(), cov_params(), t_test(), wald_test()`` mean what they mean in statsmodels; the
reference distribution is the normal.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from formulaic.utils.constraints import LinearConstraints
from scipy import stats
from statsmodels.stats.contrast import ContrastResults

from riesz.crossfitting import CrossFit, warn_of_cut_clusters
from riesz.design import Design
from riesz.errors import RieszError
from riesz.estimators import DEBIASED, ESTIMATORS
from riesz.frame import ClusterLabels
from riesz.inference import Estimate, aggregate, estimate
from riesz.model import Model
from riesz.moment import Array
from riesz.predictions import Predictions, average


class Core:
    """Estimates and their covariance, from predictions and scores. The other parts of the results build on it."""

    use_t = False

    def __init__(self, model: Model, crossfit: CrossFit, clusters: ClusterLabels) -> None:
        self.model = model
        self._crossfit = crossfit
        self._clusters = clusters
        self._names = [component.name for component in model.blueprint.components]
        self._value, self._covariance = self._aggregate(model.estimator)

    # estimates and their precision

    @property
    def params(self) -> pd.Series:
        """Point estimates."""
        return self._series(self._value, "estimate")

    @property
    def bse(self) -> pd.Series:
        """Standard errors."""
        return self._series(np.sqrt(np.diag(self._covariance)), "std err")

    @property
    def tvalues(self) -> pd.Series:
        """Z statistics of the hypothesis that a parameter is zero."""
        return self._series((self.params / self.bse).to_numpy(), "z")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values from the normal distribution."""
        return self._series(2 * stats.norm.sf(np.abs(self.tvalues)), "P>|z|")

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Confidence intervals of level 1 - alpha, columns 0 and 1."""
        if not 0 < alpha < 1:
            raise RieszError(f"alpha={alpha}: wanted a number between 0 and 1, such as 0.05 for a 95% interval.")
        half = stats.norm.isf(alpha / 2) * self.bse
        return pd.DataFrame({0: self.params - half, 1: self.params + half})

    def cov_params(self) -> pd.DataFrame:
        """Covariance matrix of the estimates."""
        return pd.DataFrame(self._covariance, index=self._names, columns=self._names)

    @property
    def nobs(self) -> int:
        """Rows used; with frequency weights, the rows they stand for."""
        return round(float(self.model.weights.frequency.sum()))

    @property
    def cov_type(self) -> str:
        """``"robust"`` or ``"cluster"``."""
        return "cluster" if self._clusters.codes else "robust"

    @cached_property
    def estimates(self) -> pd.DataFrame:
        """All four estimators; those without a valid standard error show none."""
        pieces = []
        for name in ESTIMATORS:
            value, covariance = self._aggregate(name)
            error = np.sqrt(np.diag(covariance))
            half = stats.norm.isf(0.025) * error
            columns = {"estimate": value, "std_error": error, "conf_low": value - half, "conf_high": value + half}
            index = pd.MultiIndex.from_product([self._names, [name]], names=["parameter", "estimator"])
            pieces.append(pd.DataFrame(columns, index=index))
        table = pd.concat(pieces)
        return table.reindex(pd.MultiIndex.from_product([self._names, ESTIMATORS], names=table.index.names))

    # per row

    @cached_property
    def predictions(self) -> Predictions:
        """Mu and rr row by row, averaged over repeats."""
        return average(self._crossfit.predictions)

    @property
    def fittedvalues(self) -> pd.Series:
        """Out-of-fold predictions of the outcome."""
        return pd.Series(self.predictions.mu.observed, index=self._index, name="fitted")

    @property
    def resid(self) -> pd.Series:
        """Outcome minus fitted value."""
        return pd.Series(self._design.y - self.predictions.mu.observed, index=self._index, name="resid")

    @property
    def riesz_representer(self) -> pd.DataFrame:
        """The Riesz representer at each row, a column for each parameter."""
        return pd.DataFrame(self.predictions.rr.observed.T, index=self._index, columns=self._names)

    @cached_property
    def influence(self) -> pd.DataFrame:
        """Influence function of each row (n x k), averaged over repeats."""
        mean = np.mean([e.influence for e in self._estimates(self.model.estimator)], axis=0)
        return pd.DataFrame(mean, index=self._index, columns=self._names)

    def details(self) -> pd.DataFrame:
        """What the learner reports of each fit (penalties chosen), one row a repeat and split."""
        return pd.DataFrame([fit.details() for fit in self._crossfit.fits])

    @cached_property
    def history(self) -> pd.DataFrame:
        """The course of training, one row a network (``member``) and epoch; empty for closed-form learners."""
        courses = [fit.history().assign(member=member) for member, fit in enumerate(self._crossfit.fits)]
        return pd.concat(courses, ignore_index=True)

    # tests

    def t_test(self, r_matrix: Any) -> ContrastResults:
        """Test linear combinations one by one: ``"ATE = 1"``, ``"ATE - ATT = 0"``, or a matrix as in statsmodels."""
        r, q = self._restrictions(r_matrix)
        effect = r @ self._value
        sd = np.sqrt(np.diag(r @ self._covariance @ r.T))
        return ContrastResults(effect=effect, statistic=(effect - q) / sd, sd=sd, distribution="norm")

    def wald_test(self, r_matrix: Any) -> ContrastResults:
        """Test linear restrictions jointly, chi-squared: ``"ATE = 0, ATT = 0"``, or a matrix."""
        r, q = self._restrictions(r_matrix)
        gap = r @ self._value - q
        covariance = r @ self._covariance @ r.T
        rank = int(np.linalg.matrix_rank(covariance))
        statistic = float(gap @ np.linalg.pinv(covariance) @ gap)
        return ContrastResults(
            chi2=statistic, df_denom=rank, statistic=statistic, distribution="chi2", distargs=(rank,)
        )

    def with_cov(self, cluster: Any = None) -> Self:
        """The same fit with another covariance: clustered, or robust when ``cluster`` is None. Nothing is refitted.

        The folds stay as they were drawn; clusters that straddle them deserve a fit with ``cluster=`` from the start.
        """
        if isinstance(cluster, str) and cluster.upper().startswith("HC"):
            raise RieszError(
                f"with_cov({cluster!r}): standard errors are robust by default; with_cov() gives them back."
            )
        clusters = self.model.table.clusters(cluster, self.model.kept)
        if self._folds > 1:
            warn_of_cut_clusters(self._crossfit.folds[0], clusters)
        return type(self)(self.model, self._crossfit, clusters)

    # below: how it is put together

    @property
    def _design(self) -> Design:
        return self.model.blueprint.design

    @property
    def _index(self) -> pd.Index:
        return self.model.table.index(self.model.kept)

    @property
    def _folds(self) -> int:
        return int(self._crossfit.folds[0].max()) + 1

    def _series(self, values: Array, name: str) -> pd.Series:
        return pd.Series(np.asarray(values, dtype=float), index=self._names, name=name)

    def _estimates(self, estimator: str) -> list[Estimate]:
        model, design = self.model, self._design
        return [
            estimate(ESTIMATORS[estimator](p, design), design.base.moment.normalizer, model.weights, model.target)
            for p in self._crossfit.predictions
        ]

    def _aggregate(self, estimator: str) -> tuple[Array, Array]:
        value, covariance = aggregate(self._estimates(estimator), self.model.weights, self._clusters.codes)
        return value, covariance if estimator in DEBIASED else np.full_like(covariance, np.nan)

    def _restrictions(self, r_matrix: Any) -> tuple[Array, Array]:
        if isinstance(r_matrix, (tuple, str)) or not isinstance(r_matrix, (list, np.ndarray, pd.DataFrame)):
            spec = r_matrix
        else:
            spec = np.atleast_2d(np.asarray(r_matrix, dtype=float))
        try:
            made = LinearConstraints.from_spec(spec, variable_names=self._names)
        except Exception as error:
            raise RieszError(
                f"The hypothesis {r_matrix!r} cannot be read ({error}). Write the parameters' names, {', '.join(self._names)} "
                "(back-ticks around a name with dots or blanks), as in 'ATE = 1', or give a matrix with one column for each."
            ) from None
        return np.asarray(made.constraint_matrix, dtype=float), np.asarray(made.constraint_values, dtype=float)
