"""The results of a fit: one class, whose methods call functions of this folder and of ``riesz.diagnostics``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal, Self, final

import pandas as pd

from riesz.arrays import Array
from riesz.crossfit.candidates import CrossFit
from riesz.crossfit.splits import warn_of_cut_clusters
from riesz.design.design import Design
from riesz.design.table import ClusterLabels
from riesz.diagnostics.concerns import Concerns
from riesz.diagnostics.overlap import Overlap
from riesz.diagnostics.sensitivity import Elements
from riesz.errors import RieszError, nearest
from riesz.estimators import Scores
from riesz.inference import Alternatives
from riesz.plots import PLOTS
from riesz.predictions import Predictions
from riesz.results.augment import augmented
from riesz.results.benchmarks import benchmark_table, fit_elements
from riesz.results.bootstrap import bootstrap_table
from riesz.results.candidates import candidate_table, stacking_table
from riesz.results.checks import (
    concerns,
    diagnostics_table,
    full_balance,
    implied_overlap,
    leave_out,
    most_influential,
    overlap_mask,
    quantiles,
    stability_table,
)
from riesz.results.cov_types import refuse_cov_type
from riesz.results.effects import Effects, two_way_notes
from riesz.results.estimates import estimator_table, trimming_table
from riesz.results.file import Contents, write_fit
from riesz.results.groups import effects_in_groups
from riesz.results.model import Model
from riesz.results.parameters import Parameters
from riesz.results.parts import fit_parts
from riesz.results.predict import predict_rows
from riesz.results.projection import best_linear_projection
from riesz.results.sensitivity import Sensitivity, read_null
from riesz.results.summary_of_fit import fit_details, glance_table, summarize
from riesz.results.summary_table import Summary
from riesz.syntax.check_arguments import check_call, checked_methods


@final
@checked_methods("fit.")
class Results(Parameters):
    """Estimates with standard errors, and everything needed to check them.

    :func:`riesz.ate` and the other verbs return it. Its methods return new objects and never change the fit.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
    >>> print(fit)
                        Average treatment effect: a=1 against 0
    ================================================================================
    Outcome:                               y   Observations:                     300
    Treatment:                    a (1 vs 0)   Rows dropped (missing):             0
    Learner:  Linear (ridge, rr constrained)   Folds x repeats:                5 x 1
    Estimator:                 dr (one-step)   Target:                    population
    Covariance:                       robust
    ================================================================================
                coef       std err           z       P>|z|       [0.025       0.975]
    --------------------------------------------------------------------------------
    ATE       1.3076        0.2003       6.527       0.000       0.9149       1.7002
    ================================================================================
    all estimators            direct             ipw              dr            tmle
    --------------------------------------------------------------------------------
    ATE                       1.2226          1.3070          1.3076          1.3076
    ================================================================================
    psi = E[mu(1, X) - mu(0, X)]
    Largest |rr| 3.32, effective sample size 277 of 300 rows.
    E_n[rr * anchor] = 0.9935 (std err 0.061), known value 1 (they should agree).
    """

    def __init__(
        self,
        model: Model,
        crossfit: CrossFit,
        clusters: ClusterLabels,
        scores: Sequence[Scores] | None = None,
        alternatives: Sequence[Alternatives] | None = None,
    ) -> None:
        """Estimate from a cross-fit.

        Parameters
        ----------
        model : Model
        crossfit : CrossFit
        clusters : ClusterLabels
        scores : sequence of Scores, optional
            Scores of the same cross-fit, one per repeat, if they have been computed already.
        alternatives : sequence of Alternatives, optional
            Scores of a stack's candidates, one per repeat, if they have been computed already.
        """
        self._crossfit = crossfit
        self._parts = fit_parts(model, crossfit, clusters, scores, alternatives)
        inference = self._parts.inference
        notes = two_way_notes(inference, model.exog_names)
        super().__init__(model, clusters, inference.value, inference.covariance, notes)

    # estimates

    @cached_property
    def estimates(self) -> pd.DataFrame:
        """Estimates by all estimators that the learner allows; the standard error is NaN if the estimator has no valid one.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.estimates.loc["ATE"].round(3))
                   estimate  std_error  conf_low  conf_high
        estimator
        direct        1.223        NaN       NaN        NaN
        ipw           1.307        NaN       NaN        NaN
        dr            1.308      0.200     0.915      1.700
        tmle          1.308      0.201     0.915      1.701
        """
        return estimator_table(self._parts)

    @cached_property
    def trimming(self) -> pd.DataFrame:
        """What trimming did, one row per parameter: the cap, the share of rows above it, the estimate without and with it.

        Empty without ``trim=``. With repeats, cap and share are means over them.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear", trim="95%")
        >>> print(fit.trimming[["cap", "share", "untrimmed", "estimate"]].round(3))
               cap  share  untrimmed  estimate
        ATE  2.979   0.05      1.308     1.309
        """
        return trimming_table(self._parts)

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """What each learner of the stack alone would have estimated, and its weights; the last row is the stack.

        The table needs no further fits: every learner uses the same rows, folds and estimator. If learners with positive weights
        disagree, the answer depends on how mu and rr are learned. The standard error of the stack is then larger, because it
        includes how far the estimate would move with the mu, or the rr, of one learner in place of the stack's. If that distance is
        more than half a standard error, the summary reports it first. A fit of a single learner has one row.
        ``fit.plot("candidates")`` draws the table.

        Returns
        -------
        pandas.DataFrame
            ``estimate, std_error, conf_low, conf_high`` and the shares ``weight_mu`` and ``weight_rr``, sums over repeats, by
            parameter and learner.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=riesz.Stack(["linear", "splines"]))
        >>> print(fit.candidates.loc["ATE", ["estimate", "std_error", "weight_mu", "weight_rr"]].round(2).to_string())
                                        estimate  std_error  weight_mu  weight_rr
        learner
        Linear (ridge, rr constrained)      1.43       0.18       0.13       0.47
        Splines                             0.86       0.16       0.87       0.53
        stack                               0.81       0.21       1.00       1.00
        """
        return candidate_table(self._parts)

    @cached_property
    def stacking(self) -> pd.DataFrame:
        """The weights of the learners in a stack, sums over repeats, and their losses on held-out rows, means over repeats.

        Returns
        -------
        pandas.DataFrame
            ``weight`` and ``loss`` of every learner and of the stack, by function: mu (in each arm, if weights differ by arm) and
            the rr of each parameter. The loss of mu is the mean squared error (or that of the ``family``, such as the log loss),
            that of
            rr the Riesz loss at the best scale. ``scale`` is E_n[m(rr)] / E_n[rr^2] for a learner that learns rr with its scale;
            a value far from 1 is a sign of poor overlap. Empty for a single learner.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=riesz.Stack(["linear", "splines"]))
        >>> print(fit.stacking.loc["rr of ATE", ["weight", "loss"]].round(2))
                                        weight  loss
        learner
        Linear (ridge, rr constrained)    0.47 -4.58
        Splines                           0.53 -4.66
        stack                             1.00 -4.96
        """
        return stacking_table(self._parts)

    def with_cov(self, cluster: Any = None) -> Self:
        """The same fit with another covariance: clustered, or robust if ``cluster`` is None. Nothing is refitted.

        The folds stay as they were drawn; if they split clusters, fit again with ``cluster=``.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> data["school"] = data.index % 30
        >>> fit = riesz.ate("y ~ treat(a) * x1", data, learner="linear", cluster="school")
        >>> for same in (fit, fit.with_cov()):
        ...     print(f"{same.cov_type:8} {same.bse['ATE']:.3f}")
        cluster  0.211
        robust   0.201
        """
        if isinstance(cluster, str) and cluster not in self.model.table.columns:
            refuse_cov_type(cluster)
        clusters = self.model.table.clusters(cluster, self.model.kept)
        if self._parts.folds > 1:
            warn_of_cut_clusters(self._crossfit.splits[0], clusters)
        scores, alternatives = self._parts.inference.scores, self._parts.alternatives
        return type(self)(self.model, self._crossfit, clusters, scores, alternatives)

    # tables

    def summary(self, alpha: float = 0.05) -> Summary:
        """The summary: text if printed, a table in notebooks, ``as_latex()``, ``as_html()``, ``as_csv()``.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.estimate("y ~ treat(a) * (x1 + x2)", data, [riesz.ATE(), riesz.ATT()], learner="linear")
        >>> print(fit.summary())
                                 2 parameters, fitted together
        ================================================================================
        Outcome:                               y   Observations:                     300
        Treatment:                    a (1 vs 0)   Rows dropped (missing):             0
        Learner:  Linear (ridge, rr constrained)   Folds x repeats:                5 x 1
        Estimator:                 dr (one-step)   Target:                    population
        Covariance:                       robust
        ================================================================================
                    coef       std err           z       P>|z|       [0.025       0.975]
        --------------------------------------------------------------------------------
        ATE       1.3076        0.2003       6.527       0.000       0.9149       1.7002
        ATT       1.4642        0.2062       7.101       0.000       1.0601       1.8684
        ================================================================================
        all estimators            direct             ipw              dr            tmle
        --------------------------------------------------------------------------------
        ATE                       1.2226          1.3070          1.3076          1.3076
        ATT                       1.3907          1.4710          1.4642          1.4642
        ================================================================================
        Riesz representer  largest |rr|  effective n  E_n[rr * anchor]   std err  known value
        --------------------------------------------------------------------------------
        ATE                        3.32          277            0.9935    0.0613       1.0000
        ATT                        2.27          258            0.5018  0.000896       0.5067
        ================================================================================
        each an average moment of mu
        ATE: Average treatment effect: a=1 against 0, E[mu(1, X) - mu(0, X)]
        ATT: Average treatment effect on the treated: a=1 against 0, E[mu(1, X) - mu(0,
          X) | a=1]
        """
        return summarize(
            self._parts,
            self._parameter_table(alpha),
            self.estimates,
            self.trimming,
            self.candidates,
            self._covariance_words(),
            self._covariance_notes,
        )

    def tidy(self, alpha: float = 0.05, joint: bool = False) -> pd.DataFrame:
        """One row per parameter: estimate, standard error, statistic, p-value and interval.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.tidy().round(3).to_string(index=False))
        term  estimate  std_error  statistic  p_value  conf_low  conf_high
         ATE     1.308        0.2      6.527      0.0     0.915        1.7
        """
        return self._tidy(alpha, joint)

    def glance(self) -> pd.DataFrame:
        """One row about the fit as a whole.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.glance()[["nobs", "folds", "estimator", "largest_rr", "effective_n"]].round(1))
           nobs  folds estimator  largest_rr  effective_n
        0   300      5        dr         3.3        276.7
        """
        return glance_table(self._parts, self.cov_type)

    def augment(self) -> pd.DataFrame:
        """The data of the rows used, and what was learned about each row, out of fold and averaged over repeats.

        Returns
        -------
        pandas.DataFrame
            The data, then ``.fitted``, ``.resid``, ``.fold`` (of the first repeat), and for each parameter ``.moment_ATE``, which
            is m(mu), ``.rr_ATE`` and ``.influence_ATE``. The last two are there only if the learner learns rr.

        Examples
        --------
        The one-step estimate of an effect on all rows is the mean of the scores m(mu) + rr (y - mu):

        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear")
        >>> rows = fit.augment()
        >>> score = rows[".moment_ATE"] + rows[".rr_ATE"] * rows[".resid"]
        >>> print(f"{score.mean():.4f} {fit.params['ATE']:.4f}")
        1.4553 1.4553
        """
        return augmented(self._parts)

    # per row

    @property
    def predictions(self) -> Predictions:
        """Mu and rr per row, averaged over repeats.

        Examples
        --------
        The mean of mu at the rows as they are, if all rows are treated, and if none is:

        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> mu = fit.predictions.mu
        >>> print(f"{mu.observed.mean():.2f}, treated {mu.values[0].mean():.2f}, untreated {mu.values[1].mean():.2f}")
        1.28, treated 1.80, untreated 0.57
        """
        return self._parts.predictions

    @property
    def fittedvalues(self) -> pd.Series:
        """Out-of-fold predictions of the outcome.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(f"R squared out of fold: {1 - fit.resid.var() / data['y'].var():.2f}")
        R squared out of fold: 0.42
        """
        return pd.Series(self.predictions.mu.observed, index=self._parts.index, name="fitted")

    @property
    def resid(self) -> pd.Series:
        """Outcome minus fitted value.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.resid.describe()[["std", "min", "max"]].round(2).to_string())
        std    1.73
        min   -4.86
        max    4.77
        """
        return pd.Series(self._design.y - self.predictions.mu.observed, index=self._parts.index, name="resid")

    @property
    def riesz_representer(self) -> pd.DataFrame:
        """The Riesz representer of each row, one column per parameter.

        Examples
        --------
        The weighting estimate is the mean of rr times the outcome:

        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> weighted = (fit.riesz_representer["ATE"] * data["y"]).mean()
        >>> print(f"{weighted:.4f} {fit.estimates.loc[('ATE', 'ipw'), 'estimate']:.4f}")
        1.3070 1.3070
        """
        self._parts.require_rr()
        return pd.DataFrame(self.predictions.rr.observed.T, index=self._parts.index, columns=self._names)

    @property
    def anchor(self) -> pd.DataFrame:
        """The anchor of each row, one column per parameter: the known function that rr is learned from.

        Examples
        --------
        For the ATE it is the treatment:

        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear")
        >>> print(fit.anchor.assign(a=data["a"]).head(3))
           ATE  a
        0  0.0  0
        1  1.0  1
        2  0.0  0
        """
        return pd.DataFrame(self._design.anchor.observed.T, index=self._parts.index, columns=self._names)

    @property
    def influence(self) -> pd.DataFrame:
        """Influence function of each row, one column per parameter, averaged over repeats.

        Examples
        --------
        Its standard deviation over the square root of n is the standard error:

        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(f"{fit.influence['ATE'].std() / 300**0.5:.4f} {fit.bse['ATE']:.4f}")
        0.2003 0.2003
        """
        return pd.DataFrame(self._parts.influence().influence.copy(), index=self._parts.index, columns=self._names)

    def variation(self) -> Array:
        """What the covariance is computed from, shape (n, K), averaged over repeats.

        This is the influence function, or its residual part if ``target="sample"``.

        Examples
        --------
        Standard errors for this sample and for the population it is drawn from:

        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear", target="sample")
        >>> print(f"{fit.variation()[:, 0].std() / 300**0.5:.3f} {fit.influence['ATE'].std() / 300**0.5:.3f}")
        0.198 0.200
        """
        return self._parts.averaged.variation.copy()

    def predict(self, newdata: Any) -> pd.DataFrame:
        """Mu, the moment of mu, the Riesz representer and the pseudo-outcome on new rows, averaged over folds and repeats.

        Splines, factors and standardised columns keep the knots, levels and centres of the fit. Levels that are not in the
        data of the fit are an error; rows with missing values get missing predictions.

        Parameters
        ----------
        newdata : DataFrame
            pandas, polars or pyarrow, with the columns that the formula needs. The outcome may be absent; then there is no
            pseudo-outcome.

        Returns
        -------
        pandas.DataFrame
            ``mu``, and for each parameter ``moment_ATE`` (m(mu): for the ATE the predicted effect), ``rr_ATE`` and ``pseudo_ATE``,
            which is m(mu) + rr (y - mu). The last two are there only if the learner learns rr. On the rows of the fit these differ
            from ``fit.predictions``, which come from fits that were not trained on the row.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.predict(data.head(3)).round(2))
             mu  moment_ATE  rr_ATE  pseudo_ATE
        0  1.62        1.13    2.28       -5.46
        1  3.99        2.22    1.27        5.19
        2 -0.28        0.53   -1.52        1.14
        """
        return predict_rows(self.model, self._crossfit, newdata)

    # the learner

    def details(self) -> pd.DataFrame:
        """What the learner reports about each fit, such as penalties; one row per repeat and split (and learner of a stack).

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear", folds=2)
        >>> print(fit.details().round(4))
           penalty  rr_penalty_0
        0      0.1        0.0316
        1      0.1        0.0316
        """
        return fit_details(self._parts)

    @cached_property
    def history(self) -> pd.DataFrame:
        """The course of training, one row per split (``member``), network and epoch; empty for closed-form learners.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> quick = riesz.MADNet(width=8, head_width=4, networks=1, repeats=1, stages=(riesz.Stage(1e-2, 2, 2),))
        >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=quick, folds=2)
        >>> print(fit.history.groupby("member")["epoch"].max().to_string())
        member
        0    2.0
        1    2.0
        """
        courses = [
            fit.history().assign(member=member)
            for candidate in self._crossfit.candidates
            for member, fit in enumerate(candidate.fits)
        ]
        return pd.concat([course for course in courses if len(course)] or courses[:1], ignore_index=True)

    # checks

    def warnings(self) -> Concerns:
        """Problems of the fit that the checks found, in plain words; empty if there are none.

        The rules and their thresholds are in ``riesz.diagnostics.warnings``.

        Returns
        -------
        Concerns
            A list of str, printed as bullet points.

        Examples
        --------
        >>> import riesz
        >>> simulation = riesz.datasets.get("binary")
        >>> data = simulation.draw(1000, seed=1).data
        >>> riesz.ate(simulation.formula, data, learner="linear").warnings()
        These checks found no problems.
        >>> data["school"] = data.index % 8
        >>> riesz.ate("y ~ treat(a) * x1", data, learner="linear", cluster="school").warnings()
        - Only 8 clusters of `school`: normal intervals are then too short.
        """
        return concerns(self._parts)

    def diagnostics(self) -> pd.DataFrame:
        """Health of the Riesz representer, one row per parameter.

        Returns
        -------
        pandas.DataFrame
            ``largest_rr``; ``effective_n`` effective sample size; ``heavy_rows`` carry ``heavy_share`` of the weight;
            ``tail_index`` of the largest weights (Hill); ``rr_anchor`` should equal ``anchor_moment``, up to the standard error
            ``anchor_std_error`` of their difference, and ``rr_length`` ``rr_moment``; ``riesz_loss`` out of fold. Then the columns
            of further functions in ``riesz.diagnostics.DIAGNOSTICS``.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.diagnostics().loc["ATE"].round(2).to_string())
        largest_rr            3.90
        effective_n         435.34
        heavy_rows           10.00
        heavy_share           0.04
        tail_index           12.85
        rr_anchor             1.00
        anchor_moment         1.00
        anchor_std_error      0.05
        rr_length             4.60
        rr_moment             4.60
        riesz_loss           -4.60
        """
        return diagnostics_table(self._parts)

    def bootstrap(self, draws: int = 500, alpha: float = 0.05, seed: int = 0) -> pd.DataFrame:
        """Standard errors and percentile intervals from drawing rows, or clusters, with replacement.

        Calibration (``calibrate=``) and the estimate are computed again for every draw. The learned mu and rr stay as they are, so
        nothing is fitted again, and the bootstrap shows no more of the learners' own errors than ``bse`` does.

        Parameters
        ----------
        draws : int
        alpha : float
            One minus the coverage.
        seed : int

        Returns
        -------
        pandas.DataFrame
            ``estimate, std_error, conf_low, conf_high``, one row per parameter.

        References
        ----------
        van der Laan, Luedtke and Carone, "Doubly robust inference via calibration" (2024).

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear", calibrate="isotonic")
        >>> fit.bootstrap(200).round(1).loc["ATE"].tolist(), fit.bse.round(1).tolist()
        ([1.4, 0.2, 1.1, 1.8], [0.2])
        """
        return bootstrap_table(self._parts, draws, alpha, seed)

    def balance(self, functions: Literal["formula", "all"] = "formula") -> pd.DataFrame:
        r"""The Riesz balance table: E_n[rr f] against h_n(f), which the true representer makes equal for every f.

        For the average treatment effect this is covariate balance after weighting; for a derivative its analogue.

        Parameters
        ----------
        functions : {"formula", "all"}
            ``"all"`` adds shapes that the formula may miss, each by itself and times the treatment: squares of numeric covariates,
            indicators of their mass points (5% of the rows or more) and of up to eight quantile bins, and products of the six that
            are most correlated with treatment and outcome. ``fit.warnings()`` tests all of them and reports a function that mu and
            rr both miss; the probability of any false report is at most 1%.

        Returns
        -------
        pandas.DataFrame
            One row per parameter and function: the anchor, 1, the treatment, each covariate (centred) and its product with
            the treatment (column ``kind``).

            - ``moment``, ``weighted``: the two sides, in the estimate's units; ``imbalance`` their difference.
            - ``std_error``: of the imbalance with rr taken as given; ``z`` their ratio.
            - ``standardized``: imbalance over f's root mean square; ``unadjusted``: the same without any adjustment.
            - ``implied_bias``: how far the one-step estimate would move, in standard errors, if mu were corrected for what its
              residuals still show of f.
            - ``residual_z``: z-value of E_n[(y - mu) f], zero if mu misses nothing of f; ``effective_rows``: the effective number
              of rows on which f differs from zero.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.balance().loc["ATE", ["unadjusted", "standardized"]].abs().round(2))
                  unadjusted  standardized
        function
        anchor          0.00          0.00
        1               0.00          0.00
        x1              0.71          0.02
        a:x1            0.49          0.01
        x2              0.19          0.01
        a:x2            0.13          0.00
        """
        return full_balance(self._parts, functions)

    def overlap(self) -> Overlap:
        """The propensity that the Riesz representer implies, for a treatment with two arms.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.overlap().summary.round(2))
                       rows    1%   50%   99%  share_outside  share_extreme
        parameter arm
        ATE       1     510  0.33  0.53  1.02           0.01           0.01
                  0     490  0.07  0.48  0.70           0.00           0.00
        """
        return implied_overlap(self._parts)

    def overlap_rows(self) -> pd.Series:
        r"""Which rows of the data have overlap, for fitting again on them: ``riesz.ate(formula, data[fit.overlap_rows()])``.

        The propensity of each arm is learned separately, out of fold, by a ridge-penalised logistic regression on the covariates,
        hinges at their quartiles and indicators of their mass points; rr is not used. The rows kept are those on which the effect
        can be estimated most precisely (Crump et al. 2009): with two arms, those with a propensity between :math:`\alpha` and
        :math:`1 - \alpha`, where :math:`\alpha` follows from the data and is about 0.1 if overlap fails. A fit on these rows
        estimates the effect on these rows, not on all.

        Returns
        -------
        pandas.Series of bool
            With the index of the data; False for rows that the fit does not use.

        References
        ----------
        Crump, Hotz, Imbens and Mitnik (2009), "Dealing with limited overlap in estimation of average treatment effects".

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("weak_overlap").draw(1000, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) + .", data, learner="linear")
        >>> kept = fit.overlap_rows()
        >>> print(f"{kept.mean():.0%} of the rows")
        65% of the rows
        >>> inside = riesz.ate("y ~ treat(a) + .", data[kept], learner="linear")
        >>> print(f"effect on these rows {inside.params['ATE']:.2f}, standard error {inside.bse['ATE']:.2f}")
        effect on these rows 1.69, standard error 0.12
        """
        return overlap_mask(self._parts)

    def stability(self) -> pd.DataFrame:
        """The estimates of every repeat and of every single fold, with the Riesz loss on the held-out rows.

        Returns
        -------
        pandas.DataFrame
            ``parameter, repeat, fold, rows, estimate, std_error, riesz_loss, violation``; fold ``"all"`` is the whole repeat. The
            violation is h(beta_perp) on held-out rows as a share of h(beta); training holds it at zero. A stack combines all
            repeats, so it has one, shown in the folds of the first.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, folds=3, learner="linear")
        >>> print(fit.stability()[["fold", "rows", "estimate", "std_error", "riesz_loss"]].round(2))
          fold  rows  estimate  std_error  riesz_loss
        0  all   500      1.43       0.18       -4.61
        1    1   166      1.34       0.31       -4.62
        2    2   167      1.21       0.30       -4.70
        3    3   167      1.76       0.31       -4.51
        """
        return stability_table(self._parts)

    def leave_one_out(self, parameter: str | None = None) -> pd.DataFrame:
        """The change in an estimate without each row, or without each cluster.

        Parameters
        ----------
        parameter : str, optional
            Which parameter; needed if there are several.

        Returns
        -------
        pandas.DataFrame
            One row per row of the data, or per cluster (of the first variable) if standard errors are clustered. ``change``: the
            estimate without it minus the estimate, exact with mu and rr taken as given; ``change_in_se``: the same in standard
            errors; ``share_of_variance``.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.leave_one_out().head(3).round(4))
           change  change_in_se  share_of_variance
        0 -0.0064       -0.0361             0.0013
        1 -0.0105       -0.0594             0.0035
        2 -0.0006       -0.0035             0.0000
        """
        return leave_out(self._parts, parameter)

    def influential(self, k: int = 10, parameter: str | None = None) -> pd.DataFrame:
        """The k rows, or clusters, without which an estimate changes most, with their data.

        Parameters
        ----------
        k : int
        parameter : str, optional
            Which parameter; needed if there are several.

        Returns
        -------
        pandas.DataFrame
            The columns of :meth:`leave_one_out`, the largest change first; then the row's data with fitted value, residual and
            Riesz representer, or the number of rows of a cluster.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.influential(3)[["change_in_se", "share_of_variance", "y", "a", ".fitted", ".rr"]].round(2))
             change_in_se  share_of_variance     y    a  .fitted   .rr
        154          0.16               0.02 -3.97  1.0    -0.09  3.34
        454          0.15               0.02 -3.81  1.0     0.71  2.95
        22          -0.15               0.02  6.82  1.0     1.53  2.52
        """
        return most_influential(self._parts, k, parameter)

    def influence_quantiles(self, parameter: str | None = None) -> pd.DataFrame:
        """The influence function against the normal distribution: the numbers of a QQ plot.

        Returns
        -------
        pandas.DataFrame
            In increasing order, ``theoretical`` normal quantile and ``sample`` contribution of a row (or cluster) in standard
            deviations, indexed by row or cluster.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.influence_quantiles().tail(3).round(2))
             theoretical  sample
        368         2.58    2.91
        331         2.75    3.06
        22          3.09    3.38
        """
        return quantiles(self._parts, parameter)

    # unobserved confounding

    def sensitivity(
        self,
        cf_y: float = 0.03,
        cf_d: float = 0.03,
        rho: float = 1.0,
        level: float = 0.95,
        null: float | Mapping[str, float] = 0.0,
    ) -> Sensitivity:
        r"""Bounds on the estimates if a confounder was left out, for any estimand.

        Parameters
        ----------
        cf_y : float
            Share of the outcome's residual variance that the confounder explains.
        cf_d : float
            One minus the ratio of the representer's variance without the confounder to that with it; for the ATE, the share of
            the average precision 1 / (p (1 - p)) that it adds.
        rho : float
            Correlation between what the confounder adds to mu and what it adds to rr; by default 1, the worst case.
        level : float
            Level of each confidence bound, one-sided.
        null : float or mapping
            The hypothesis that the robustness values refer to: one number for all parameters, or one per parameter by name.

        Returns
        -------
        Sensitivity
            With ``table``, ``summary()``, ``contour()`` and ``plot(benchmarks=)``, which draws the contours and marks the strengths
            that :meth:`sensitivity_benchmark` returns.

        References
        ----------
        Chernozhukov, Cinelli, Newey, Sharma and Syrgkanis, "Long story short: omitted variable bias in causal machine learning".

        Examples
        --------
        A confounder that explains 5% of both residual variances leaves the estimate between ``lower`` and ``upper``; one that
        explains the share ``rv`` of both could bring it to zero:

        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.sensitivity(cf_y=0.05, cf_d=0.05).table.round(2))
             estimate  lower  upper  conf_low  conf_high    rv   rva
        ATE      1.39   1.21   1.58      1.03       1.76  0.32  0.29
        """
        return Sensitivity(self._names, self._elements, cf_y, cf_d, rho, level, read_null(null, self._names))

    def sensitivity_benchmark(
        self, *columns: str | Sequence[str], n_jobs: int | None = None, progress: bool | None = None
    ) -> pd.DataFrame:
        """The strength of a confounder that resembles given columns, from fits without them on the same rows and folds.

        Each argument costs one more fit with the same settings: ``("x1", "x2")`` fits twice, ``["x1", "x2"]`` once.

        Parameters
        ----------
        *columns : str or list of str
            Covariates; those of a list are left out together.
        n_jobs : int, optional
            Number of threads for the fits; by default that of the fit.
        progress : bool, optional
            Show a progress bar; by default as in the fit.

        Returns
        -------
        pandas.DataFrame
            One row per argument and parameter: the strengths ``cf_y, cf_d, rho`` to pass to :meth:`sensitivity`; ``change``, the
            estimate without the columns minus the estimate; and the bounds ``lower, upper`` for a confounder of that strength.
            A strength estimated below 0 is set to 0, and rho and the bounds are then NaN; this happens for columns that matter
            little, and for learners that predict better without them. Read ``change`` in that case.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.sensitivity_benchmark("x1", ["x1", "x2"]).round(2))
                           cf_y  cf_d   rho  change  lower  upper
        columns parameter
        x1      ATE        0.49  0.06  0.99    0.60   0.77   2.02
        x1, x2  ATE        0.49  0.06  1.00    0.63   0.76   2.03
        """
        return benchmark_table(self._parts, self._elements, columns, n_jobs, progress)

    # heterogeneity

    def by(self, groups: Any) -> Effects:
        """The parameters within groups, with their joint covariance and a test that they are all equal.

        Parameters
        ----------
        groups : str or array_like
            A column of the data (it need not be in the formula) with labels, booleans or a few distinct numbers; or one
            label per row of the data, such as ``pandas.qcut(data["age"], 4)``.

        Returns
        -------
        Effects
            Parameters are called ``ATE_north``, ``ATE_south``; ``heterogeneity()`` tests that they are equal. Rows whose group
            is missing belong to no group.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data.assign(region=lambda d: d.index % 2)
        >>> fit = riesz.ate("y ~ treat(a) * . - region", data, learner="linear")
        >>> print(fit.by("region").tidy()[["term", "n", "estimate", "std_error"]].round(2))
            term    n  estimate  std_error
        0  ATE_0  500      1.35       0.17
        1  ATE_1  500      1.44       0.16
        """
        return effects_in_groups(self._parts, groups)

    def blp(self, formula: str, context: Mapping[str, Any] | None = None) -> Effects:
        r"""Best linear projection of the effect on functions of covariates, with standard errors that account for the fit.

        The coefficients solve :math:`E[b (s - n\, b'\theta)] = 0`. If the normalizer n is 1 (ATE), this is the regression of
        the pseudo-outcome s on b; for ATT it projects the effect among the treated.

        Parameters
        ----------
        formula : str
            Such as ``"~ x1 + bs(x2, df=4)"``; columns need not be in the fit's formula. ``.`` stands for its covariates.
        context : mapping, optional
            Functions and constants that the formula uses.

        Returns
        -------
        Effects
            ``heterogeneity()`` tests that all coefficients but the intercept are zero. Rows with missing values are left out.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
        >>> effects = riesz.ate("y ~ treat(a) * .", data, learner="linear").blp("~ x1")
        >>> print(effects.tidy()[["term", "estimate", "std_error", "p_value"]].round(3))
                term  estimate  std_error  p_value
        0  Intercept     1.386      0.113      0.0
        1         x1     0.523      0.096      0.0
        """
        return best_linear_projection(self._parts, formula, context or {})

    # plots and files

    def plot(self, kind: str = "panels", *arguments: Any, **options: Any) -> Any:
        """Draw the fit with matplotlib: four panels, or one plot by name.

        Parameters
        ----------
        kind : str
            ``"panels"``, ``"estimators"``, ``"candidates"``, ``"forest"``, ``"groups"``, ``"representer"``, ``"overlap"``,
            ``"balance"``, ``"influence"``, ``"qq"``, ``"sensitivity"`` or ``"history"``: a function of :mod:`riesz.plots`.
        *arguments, **options
            The other arguments of that function: ``fit.plot("groups", "region")``, ``fit.plot("balance", most=10, ax=ax)``.

        Returns
        -------
        matplotlib.axes.Axes
            An array of four for ``"panels"``.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear")
        >>> [ax.get_title(loc="left") for ax in fit.plot().flat]
        ['Estimators', 'Overlap', 'Balance', 'Influence']
        >>> fit.plot("overlap").get_xlabel()
        'Implied propensity of a = 1'
        """
        if not isinstance(kind, str) or kind not in PLOTS:
            raise RieszError(
                f"plot({kind!r}): there is no such plot.{nearest(str(kind), PLOTS)} Expected one of {', '.join(map(repr, PLOTS))}."
            )
        check_call(f"fit.plot({kind!r})", partial(PLOTS[kind], self), arguments, options)
        return PLOTS[kind](self, *arguments, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file that :func:`riesz.load` reads, on any machine.

        The file is a zip archive of arrays and JSON, without pickle: loading it cannot run code. It holds **all columns of the
        data**, so take care who can read it; it also holds the design, folds, predictions, settings and fitted learners. Columns of
        nested values or with time zones are left out. It holds no functions: after loading, ``predict`` raises an error that says
        so if the estimand is a custom moment or a policy given as a function, if the formula calls functions that you defined, or
        if the learner cannot be stored. ``pickle.dumps(fit)``, and with it joblib and multiprocessing, sends the same content.

        Parameters
        ----------
        path : path
            Such as ``"fit.riesz"``; an existing file is replaced once the new one is complete. If writing fails (a full disk, a
            folder without permission), this is a :class:`~riesz.errors.DataError`, and an existing file stays as it was.

        Examples
        --------
        >>> import tempfile, pathlib, riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.save(pathlib.Path(folder) / "fit.riesz")
        ...     loaded = riesz.load(pathlib.Path(folder) / "fit.riesz")
        >>> str(loaded) == str(fit)
        True
        """
        write_fit(path, self._contents())

    def _contents(self) -> Contents:
        return Contents(
            self.model, self._crossfit, self._clusters, self._value, self._covariance, self._parts.alternatives
        )

    def __copy__(self) -> Self:
        return self  # immutable

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @property
    def _design(self) -> Design:
        return self._parts.design

    @cached_property
    def _elements(self) -> Elements:
        """The moments that the sensitivity analysis is computed from."""
        return fit_elements(self._parts)
