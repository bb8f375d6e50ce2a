"""The results of a fit, in the words that statsmodels' users know.

``params, bse, tvalues, pvalues, conf_int(), cov_params(), t_test(), wald_test(), summary()`` mean what they mean there;
the reference distribution is the normal. What is new: ``estimates`` (all four estimators), ``influence``,
``riesz_representer``, ``with_cov``.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from formulaic.utils.constraints import LinearConstraints
from scipy import stats
from statsmodels.stats.contrast import ContrastResults
from tabulate import tabulate

from riesz.crossfitting import CrossFit, warn_of_cut_clusters
from riesz.design import Design
from riesz.diagnostics import representer_health
from riesz.errors import RieszError
from riesz.estimators import DEBIASED, ESTIMATORS, WITHOUT_RR
from riesz.frame import ClusterLabels
from riesz.inference import Estimate, aggregate, estimate
from riesz.model import Model
from riesz.moment import Array
from riesz.predictions import Predictions, average
from riesz.remarks import health_lines, health_table, remarks
from riesz.summary import Summary, number

ESTIMATOR_WORDS = {
    "direct": "direct (plug-in)",
    "ipw": "ipw (weighting)",
    "dr": "dr (one-step)",
    "tmle": "tmle (targeted)",
}


class Results:
    """Estimates with standard errors, and everything needed to question them.

    Made by :func:`riesz.ate` and the other verbs.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) + .", data)
    >>> fit.params.index.tolist(), fit.conf_int().shape
    (['ATE'], (1, 2))
    """

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
        """All estimators that the learner serves; those without a valid standard error show none."""
        pieces = []
        for name in self._served:
            value, covariance = self._aggregate(name)
            error = np.sqrt(np.diag(covariance))
            half = stats.norm.isf(0.025) * error
            columns = {"estimate": value, "std_error": error, "conf_low": value - half, "conf_high": value + half}
            index = pd.MultiIndex.from_product([self._names, [name]], names=["parameter", "estimator"])
            pieces.append(pd.DataFrame(columns, index=index))
        table = pd.concat(pieces)
        return table.reindex(pd.MultiIndex.from_product([self._names, self._served], names=table.index.names))

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
        self._need_rr()
        return pd.DataFrame(self.predictions.rr.observed.T, index=self._index, columns=self._names)

    @cached_property
    def influence(self) -> pd.DataFrame:
        """Influence function of each row (n x k), averaged over repeats."""
        self._need_rr()
        mean = np.mean([e.influence for e in self._estimates(self.model.estimator)], axis=0)
        return pd.DataFrame(mean, index=self._index, columns=self._names)

    def diagnostics(self) -> pd.DataFrame:
        """Health of the Riesz representer, one row a parameter."""
        self._need_rr()
        return representer_health(self.predictions, self._design).set_axis(self._names, axis=0)

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

    def with_cov(self, cluster: Any = None) -> Results:
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
        return Results(self.model, self._crossfit, clusters)

    # tables

    def summary(self, alpha: float = 0.05) -> Summary:
        """The summary: text when printed, a table in notebooks, ``as_latex()``, ``as_html()``, ``as_csv()``."""
        components = self.model.blueprint.components
        interval = self.conf_int(alpha)
        parameters = pd.DataFrame(
            {
                "coef": [number(v) for v in self.params],
                "std err": [number(v) for v in self.bse],
                "z": [number(v, 3) for v in self.tvalues],
                "P>|z|": [_p_value(v) for v in self.pvalues],
                f"[{alpha / 2:g}": [number(v) for v in interval[0]],
                f"{1 - alpha / 2:g}]": [number(v) for v in interval[1]],
            },
            index=self._names,
        )
        several = len(components) > 1
        tables, notes = [parameters], [f"{c.name}: {c.words}, {c.symbol}" for c in components] if several else []
        if self.model.learner.learns_rr:
            values = self.estimates["estimate"].unstack("estimator").loc[self._names, self._served]
            tables.append(values.map(number).rename_axis("all estimators", axis=1))
            if several:
                tables.append(health_table(self.diagnostics()))
            else:
                notes += health_lines(self.diagnostics(), len(self.model.kept))
        return Summary(
            title=f"{len(components)} parameters, fitted together" if several else components[0].words,
            subtitle="each an average moment of mu" if several else f"psi = {components[0].symbol}",
            left=self._left(),
            right=self._right(),
            tables=tables,
            notes=[*notes, *self._remarks()],
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        return str(self.summary())

    def tidy(self, alpha: float = 0.05) -> pd.DataFrame:
        """One row a parameter: estimate, standard error, statistic, p-value and interval."""
        interval = self.conf_int(alpha)
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

    def glance(self) -> pd.DataFrame:
        """One row about the fit as a whole."""
        health = representer_health(self.predictions, self._design)  # not numbers where rr is not learned
        return pd.DataFrame(
            {
                "nobs": [self.nobs],
                "rows_dropped": [self.model.table.rows - len(self.model.kept)],
                "folds": [self._folds],
                "repeats": [len(self._crossfit.folds)],
                "estimator": [self.model.estimator],
                "learner": [self._learner],
                "cov_type": [self.cov_type],
                "target": [self.model.target],
                "largest_rr": [health["largest_rr"].max()],
                "effective_n": [health["effective_n"].min()],
            }
        )

    def augment(self) -> pd.DataFrame:
        """The rows used, with fitted value, residual, fold, Riesz representer and influence (if learned) beside them."""
        data = self.model.blueprint.data.set_axis(self._index, axis=0)
        data = data.assign(**{".fitted": self.fittedvalues, ".resid": self.resid, ".fold": self._crossfit.folds[0]})
        if not self.model.learner.learns_rr:
            return data
        return data.assign(
            **{f".rr_{name}": self.riesz_representer[name] for name in self._names},
            **{f".influence_{name}": self.influence[name] for name in self._names},
        )

    def to_markdown(self) -> str:
        """The estimate table as Markdown."""
        return str(tabulate(self.tidy(), headers="keys", tablefmt="github", showindex=False, floatfmt=".4g"))

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

    @property
    def _served(self) -> list[str]:
        return [name for name in ESTIMATORS if self.model.learner.learns_rr or name in WITHOUT_RR]

    def _need_rr(self) -> None:
        if not self.model.learner.learns_rr:
            raise RieszError(
                f"{self._learner} learns mu alone, so there is no Riesz representer and no influence function. Use another "
                "learner, such as learner='linear' or learner='madnet'."
            )

    @property
    def _learner(self) -> str:
        return self.model.learner.describe(self._design.base.family)

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

    def _left(self) -> list[tuple[str, str]]:
        model = self.model
        return [
            ("Outcome", model.endog_names),
            ("Treatment", model.blueprint.treatment.describe()),
            ("Learner", self._learner),
            ("Estimator", ESTIMATOR_WORDS[model.estimator]),
            ("Covariance", self._clusters.describe() if self._clusters.codes else "robust"),
        ]

    def _right(self) -> list[tuple[str, str]]:
        folds, repeats = self._folds, len(self._crossfit.folds)
        dropped = self.model.table.rows - len(self.model.kept)
        facts = [
            ("Observations", f"{self.nobs:,}"),
            ("Rows dropped (missing)", f"{dropped:,}"),
            ("Folds x repeats", f"{folds} x {repeats}"),
            ("Target", self.model.target),
        ]
        return [*facts, ("Weights", self.model.weighting)] if self.model.weighting else facts

    def _remarks(self) -> list[str]:
        health = self.diagnostics() if self.model.learner.learns_rr else None
        return remarks(self.model, self._clusters, self._folds, health, self.details())


def _p_value(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"
