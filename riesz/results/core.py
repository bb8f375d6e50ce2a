"""What a fit knows: estimates, their covariance, and the rows they came from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import stats

from riesz.arrays import Array
from riesz.crossfit.crossfit import CrossFit, warn_of_cut_clusters
from riesz.design.design import Design
from riesz.design.table import ClusterLabels
from riesz.errors import RieszError
from riesz.estimators import ESTIMATORS
from riesz.inference import Estimate, aggregate, estimate
from riesz.predictions import Predictions, average
from riesz.results.model import Model
from riesz.results.parameters import Parameters
from riesz.syntax.calls import checked

#: what other packages call covariances, and how to get them here
_COVARIANCES = {
    "robust|hc[0-9]?|white|sandwich|hetero.*": (
        "standard errors are robust by default, to heteroskedasticity; with_cov() without an argument gives them back."
    ),
    "nonrobust|non-robust|classical|unadjusted|homosk.*|iid|ols|standard": (
        "there are robust and clustered standard errors, and no others; with_cov() without an argument gives the robust ones."
    ),
    "(robust[ -_])?clust.*|crv?[0-9]?": (
        "name the column that holds the clusters, as in with_cov(cluster='school'), or give one label for each row."
    ),
    "hac.*|newey.*|kernel|driscoll.*|hac-.*": (
        "errors that are correlated over time are not offered; with_cov(cluster='unit') allows for any correlation within a unit."
    ),
}


class Core(Parameters):
    """Estimates and their covariance, from predictions and scores. The other parts of the results build on it."""

    def __init__(self, model: Model, crossfit: CrossFit, clusters: ClusterLabels) -> None:
        self._crossfit = crossfit
        value, covariance = _aggregate(model, crossfit.predictions, clusters, model.settings.estimator)
        super().__init__(model, clusters, value, covariance)
        if ESTIMATORS[model.settings.estimator].debiased:
            self._tell_two_way(self._estimates(model.settings.estimator))

    @cached_property
    def estimates(self) -> pd.DataFrame:
        """All estimators that the learner serves; those without a valid standard error show none.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.estimates.loc["ATE"].index.tolist()
        ['direct', 'ipw', 'dr', 'tmle']
        """
        pieces = []
        for name in self._served:
            value, covariance = _aggregate(self.model, self._crossfit.predictions, self._clusters, name)
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
        """Mu and rr row by row, averaged over repeats.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.predictions.mu.observed.shape, fit.predictions.mu.values.shape
        ((300,), (2, 300))
        """
        return average(self._crossfit.predictions)

    @property
    def fittedvalues(self) -> pd.Series:
        """Out-of-fold predictions of the outcome.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> bool(abs(data["y"] - fit.fittedvalues - fit.resid).max() < 1e-12)
        True
        """
        return pd.Series(self.predictions.mu.observed, index=self._index, name="fitted")

    @property
    def resid(self) -> pd.Series:
        """Outcome minus fitted value.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.resid.shape
        (300,)
        """
        return pd.Series(self._design.y - self.predictions.mu.observed, index=self._index, name="resid")

    @property
    def riesz_representer(self) -> pd.DataFrame:
        """The Riesz representer at each row, a column for each parameter.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> weighted = (fit.riesz_representer["ATE"] * data["y"]).mean()
        >>> bool(abs(weighted - fit.estimates.loc[("ATE", "ipw"), "estimate"]) < 1e-10)
        True
        """
        self._need_rr()
        return pd.DataFrame(self.predictions.rr.observed.T, index=self._index, columns=self._names)

    @property
    def anchor(self) -> pd.DataFrame:
        """The anchor at each row, a column for each parameter: the known function that the Riesz representer was learned from.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear")
        >>> bool((fit.anchor["ATE"] == data["a"]).all())
        True
        """
        return pd.DataFrame(self._design.anchor.observed.T, index=self._index, columns=self._names)

    @cached_property
    def influence(self) -> pd.DataFrame:
        """Influence function of each row (n x k), averaged over repeats.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> by_hand = fit.influence["ATE"].std() / len(data) ** 0.5
        >>> bool(abs(by_hand - fit.bse["ATE"]) < 1e-10)
        True
        """
        self._need_rr()
        mean = np.mean([e.influence for e in self._estimates(self.model.settings.estimator)], axis=0)
        return pd.DataFrame(mean, index=self._index, columns=self._names)

    def variation(self) -> Array:
        """What the covariance is made of, row by row, shape (n, K), averaged over repeats.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.variation().shape
        (300, 1)
        """
        return np.asarray(np.mean([e.variation for e in self._estimates(self.model.settings.estimator)], axis=0))

    @cached_property
    def trimming(self) -> pd.DataFrame:
        """What trimming did, one row a parameter: the cap, the share of rows it touches, the estimate without and with it.

        Empty when no ``trim=`` was asked for. With repeats, cap and share are means over them.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear", trim="95%")
        >>> bool(fit.trimming.loc["ATE", "share"] < 0.06)
        True
        """
        columns = ["cap", "share", "untrimmed", "untrimmed_std_error", "estimate", "std_error", "change"]
        if self.model.settings.trimming is None:
            return pd.DataFrame(columns=columns, dtype=float)
        value, covariance = _aggregate(
            self.model, self._crossfit.untrimmed, self._clusters, self.model.settings.estimator
        )
        touched = [
            self._design.mean(np.abs(p.rr.observed) > cap[:, None])
            for p, cap in zip(self._crossfit.untrimmed, self._crossfit.caps, strict=True)
        ]
        parts = [self._crossfit.caps.mean(axis=0), np.mean(touched, axis=0), value, np.sqrt(np.diag(covariance))]
        parts += [self._value, self.bse.to_numpy(), self._value - value]
        return pd.DataFrame(dict(zip(columns, parts, strict=True)), index=self._names)

    def details(self) -> pd.DataFrame:
        """What the learner reports of each fit (penalties chosen), one row a repeat and split.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> len(fit.details())
        5
        """
        return pd.DataFrame([fit.details() for fit in self._crossfit.fits])

    @cached_property
    def history(self) -> pd.DataFrame:
        """The course of training, one row a split (``member``), network in it and epoch; empty for closed-form learners.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> quick = riesz.MADNet(width=8, head_width=4, networks=1, repeats=1, stages=(riesz.Stage(1e-2, 2, 2),))
        >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=quick, folds=2)
        >>> sorted(fit.history["member"].unique().tolist())
        [0, 1]
        """
        courses = [fit.history().assign(member=member) for member, fit in enumerate(self._crossfit.fits)]
        return pd.concat(courses, ignore_index=True)

    @checked("fit.with_cov()")
    def with_cov(self, cluster: Any = None) -> Self:
        """The same fit with another covariance: clustered, or robust when ``cluster`` is None. Nothing is refitted.

        The folds stay as they were drawn; clusters that straddle them deserve a fit with ``cluster=`` from the start.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> data["school"] = data.index % 30
        >>> fit = riesz.ate("y ~ treat(a) * x1", data, learner="linear", cluster="school")
        >>> fit.cov_type, fit.with_cov().cov_type
        ('cluster', 'robust')
        """
        if isinstance(cluster, str) and cluster not in self.model.table.columns:
            advice = next(
                (words for pattern, words in _COVARIANCES.items() if re.fullmatch(pattern, cluster, re.I)), ""
            )
            if advice:
                raise RieszError(f"with_cov({cluster!r}): {advice}")
        clusters = self.model.table.clusters(cluster, self.model.kept)
        if self._folds > 1:
            warn_of_cut_clusters(self._crossfit.splits[0], clusters)
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

    @property
    def _learner(self) -> str:
        return self.model.learner.describe(self._design.family)

    @property
    def _served(self) -> list[str]:
        return [name for name, made in ESTIMATORS.items() if self.model.learner.learns_rr or not made.needs_rr]

    def _need_rr(self) -> None:
        if not self.model.learner.learns_rr:
            raise RieszError(
                f"{self._learner} learns mu alone, so there is no Riesz representer and no influence function. Use another "
                "learner, such as learner='linear' or learner='madnet'."
            )

    def _estimates(self, estimator: str) -> list[Estimate]:
        return estimates_of(self.model, self._crossfit.predictions, estimator)


def estimates_of(model: Model, repeats: Sequence[Predictions], estimator: str) -> list[Estimate]:
    """Estimates of every repeat."""
    design = model.blueprint.design
    return [
        estimate(ESTIMATORS[estimator](p, design), design.normalizer, model.weights, model.settings.target)
        for p in repeats
    ]


def _aggregate(
    model: Model, repeats: Sequence[Predictions], clusters: ClusterLabels, estimator: str
) -> tuple[Array, Array]:
    if ESTIMATORS[estimator].weighs and repeats[0].tilted:
        k = len(model.exog_names)
        return np.full(k, np.nan), np.full((k, k), np.nan)
    value, covariance = aggregate(estimates_of(model, repeats, estimator), model.weights, clusters.codes)
    return value, covariance if ESTIMATORS[estimator].debiased else np.full_like(covariance, np.nan)
