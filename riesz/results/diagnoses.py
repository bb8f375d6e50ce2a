"""What a fit says about itself: influential rows, balance, overlap, stability, and warnings in plain words."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.diagnostics import DIAGNOSTICS
from riesz.diagnostics import warnings as concerns
from riesz.diagnostics.balance import balance_table
from riesz.diagnostics.influence import Codes, by_fold, leave_one_out, normal_quantiles
from riesz.diagnostics.overlap import Overlap, overlap, share_outside
from riesz.diagnostics.weights import anchor_errors, representer_by_fold, representer_health
from riesz.errors import RieszError, pick
from riesz.inference import Estimate
from riesz.results.core import Core
from riesz.syntax.calls import is_count


class Diagnoses(Core):
    """Questions to ask of a fit. They need predictions, the moment and the influence function, so every fit answers them."""

    # rows and clusters

    def leave_one_out(self, parameter: str | None = None) -> pd.DataFrame:
        """What each row, or each cluster, does to an estimate.

        Parameters
        ----------
        parameter : str, optional
            Which one; needed when there are several.

        Returns
        -------
        pandas.DataFrame
            One row a row of the data, or a cluster (of the first kind) when standard errors are clustered. ``change``: the estimate
            without it minus the estimate, exact for mu and rr as they are; ``change_in_se``: the same in standard errors;
            ``share_of_variance``.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.leave_one_out().columns.tolist()
        ['change', 'change_in_se', 'share_of_variance']
        """
        name = pick(parameter, self._names)
        component = self._names.index(name)
        normalizer = self._design.normalizer
        table = leave_one_out(self._averaged, normalizer, self.model.weights, self._codes, component)
        table.insert(1, "change_in_se", table["change"] / self.bse[name])
        return table.set_axis(self._units, axis=0)

    def influential(self, k: int = 10, parameter: str | None = None) -> pd.DataFrame:
        """The k rows, or clusters, that matter most for an estimate, with their data.

        Parameters
        ----------
        k : int
        parameter : str, optional
            Which one; needed when there are several.

        Returns
        -------
        pandas.DataFrame
            The columns of :meth:`leave_one_out`, the largest change first; then the row's data with fitted value, residual and
            Riesz representer, or the number of rows of a cluster.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> len(riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear").influential(3))
        3
        """
        name = pick(parameter, self._names)
        if not is_count(k, 1):
            raise RieszError(f"k={k!r}: expected a whole number of rows, 1 or larger.")
        table = self.leave_one_out(name)
        first = np.argsort(-table["change"].abs().to_numpy(), kind="stable")[:k]
        if self._codes is not None:
            return table.assign(rows=np.bincount(self._codes)).iloc[first]
        data = self.model.blueprint.data.set_axis(self._index, axis=0)
        data = data.assign(
            **{
                ".fitted": self.fittedvalues,
                ".resid": self.resid,
                ".rr": self.predictions.rr.observed[self._names.index(name)],
            }
        )
        return pd.concat([table.iloc[first], data.iloc[first]], axis=1)

    def influence_quantiles(self, parameter: str | None = None) -> pd.DataFrame:
        """The influence function against the normal distribution: the numbers of a QQ plot.

        Returns
        -------
        pandas.DataFrame
            In increasing order, ``theoretical`` normal quantile and ``sample`` contribution of a row (or cluster) in standard
            deviations; the index tells which one.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear").influence_quantiles().shape
        (500, 2)
        """
        component = self._names.index(pick(parameter, self._names))
        table = normal_quantiles(self._averaged.variation[:, component], self.model.weights, self._codes)
        return table.set_axis(self._units[table.index], axis=0)

    def stability(self) -> pd.DataFrame:
        """The estimates of every repeat and of every fold by itself, with the representer's loss on the rows it held out.

        Returns
        -------
        pandas.DataFrame
            ``parameter, repeat, fold, rows, estimate, std_error, riesz_loss, violation``; fold ``"all"`` is the whole repeat. The
            violation is h(beta_perp) on held-out rows, which the constraint holds at zero in training, as a share of h(beta).

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> len(riesz.ate("y ~ treat(a) * (x1 + x2)", data, folds=4, repeats=2, learner="linear").stability())
        10
        """
        self._need_rr()
        folds, design = self._crossfit.folds, self._design
        normalizer = design.normalizer
        estimates = self._estimates(self.model.settings.estimator)
        table = by_fold(estimates, normalizer, folds, self.model.weights, self._codes, self._names)
        held = representer_by_fold(self._crossfit.untrimmed, self._crossfit.scales, design, folds, self._names)
        return table.merge(held, on=["parameter", "repeat", "fold"])

    # the Riesz representer

    def diagnostics(self) -> pd.DataFrame:
        """Health of the Riesz representer, one row a parameter.

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
        >>> riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear").diagnostics().loc["ATE", "anchor_moment"]
        np.float64(1.0)
        """
        self._need_rr()
        tables = [self._diagnosed(name) for name in DIAGNOSTICS]
        table = pd.concat(tables, axis=1).set_axis(self._names, axis=0)
        return self._with_anchor_errors(table) if "anchor_moment" in table else table

    def balance(self) -> pd.DataFrame:
        r"""The Riesz balance table: E_n[rr f] against h_n(f), which the true representer makes equal for every f.

        For the average treatment effect this is covariate balance after weighting; for a derivative its analogue.

        Returns
        -------
        pandas.DataFrame
            A row for each parameter and function: the anchor, 1, the treatment, each covariate (centred) and its product with
            the treatment (``kind`` tells which).

            - ``moment``, ``weighted``: the two sides, in the estimate's units; ``imbalance`` their difference.
            - ``std_error``: of the imbalance with rr held as it is; ``z`` their ratio.
            - ``standardized``: imbalance over f's root mean square; ``unadjusted``: the same without any adjustment.
            - ``implied_bias``: how far the one-step estimate would move, in its standard errors, if mu were corrected for what its
              residuals still show of f.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * x1", data, learner=riesz.Linear(0, 0), folds=1)
        >>> bool(fit.balance()["imbalance"].abs().max() < 1e-10)
        True
        """
        return self._balance.copy()

    def overlap(self) -> Overlap:
        """The propensity that the Riesz representer implies, for a treatment with two arms.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
        >>> riesz.att("y ~ treat(a) * (x1 + x2)", data, learner="linear").overlap().summary.index.tolist()
        [('ATT', '0')]
        """
        self._need_rr()
        treatment = self.model.blueprint.treatment
        if not treatment.is_binary:
            raise RieszError(
                f"overlap() wants a treatment with two arms; got {treatment.describe()}. diagnostics() and balance() work for any."
            )
        arms = [treatment.label(level) for level in treatment.levels]
        found = overlap(self.predictions, self._design, self._index, self._names, arms)
        if found.rows.empty:
            raise RieszError(
                f"The Riesz representer of {', '.join(self._names)} does not tell a propensity: the moment does more than set the "
                "treatment to an arm. diagnostics() and balance() work for any."
            )
        return found

    def warnings(self) -> concerns.Concerns:
        """What a careful reader would worry about, in plain words; empty when nothing is off.

        The thresholds are in ``riesz.diagnostics.warnings``.

        Returns
        -------
        Concerns
            A list of str, which prints with a bullet for each.

        Examples
        --------
        >>> import riesz
        >>> simulation = riesz.datasets.get("binary")
        >>> fit = riesz.ate(simulation.formula, simulation.draw(1000, seed=1).data, learner="linear")
        >>> fit.warnings()
        These checks found no problems.
        >>> len(fit.warnings())
        0
        """
        if not self.model.learner.learns_rr:
            return concerns.Concerns(
                [], f"Nothing was checked: {self._learner} learns mu alone, so there is no rr to judge."
            )
        return concerns.Concerns(self._concerns())

    # below: how it is put together

    def _concerns(self) -> list[str]:
        return [
            *self._treatment_concerns(),
            *concerns.about_representer(self._health, float(self.model.weights.frequency.sum())),
            *concerns.about_outcome(self._design.y, self.predictions.mu.observed, self._design.weights),
            *self._overlap_concerns(),
            *concerns.about_balance(self._balance),
            *concerns.about_influence(self._averaged.variation, self.model.weights, self._codes, self._names),
            *concerns.about_stability(self.stability(), self.bse),
            *self._cluster_concerns(),
        ]

    @property
    def _codes(self) -> Codes | None:
        """Cluster of each row, of the first kind when there are two."""
        return self._clusters.codes[0] if self._clusters.codes else None

    @property
    def _units(self) -> pd.Index:
        """Labels of what may be left out: clusters or rows."""
        return self._clusters.labels[0] if self._clusters.labels else self._index

    @cached_property
    def _averaged(self) -> Estimate:
        """Influence and variation, averaged over repeats."""
        return Estimate(self._value, self.influence.to_numpy(), self.variation())

    @cached_property
    def _health(self) -> pd.DataFrame:
        """What summary and warnings are made of: it does not depend on diagnostics that others added."""
        self._need_rr()
        table = representer_health(self.predictions, self._design).set_axis(self._names, axis=0)
        return self._with_anchor_errors(table)

    def _with_anchor_errors(self, health: pd.DataFrame) -> pd.DataFrame:
        """The table with the standard error of E_n[rr beta] - h_n(beta), clustered like the estimates."""
        errors = anchor_errors(self.predictions, self._design, self.model.weights, self._clusters.codes[:1])
        health.insert(health.columns.get_loc("anchor_moment") + 1, "anchor_std_error", errors)
        return health

    def _diagnosed(self, name: str) -> pd.DataFrame:
        table = DIAGNOSTICS[name](self.predictions, self._design)
        if not isinstance(table, pd.DataFrame) or len(table) != len(self._names):
            got = f"{len(table)} rows" if isinstance(table, pd.DataFrame) else f"a {type(table).__name__}"
            raise RieszError(
                f"The diagnostic {name!r} returned {got}; wanted a data frame with one row for each of "
                f"{', '.join(self._names)}, in that order."
            )
        return table.reset_index(drop=True)

    @cached_property
    def _balance(self) -> pd.DataFrame:
        self._need_rr()
        treatment = self.model.blueprint.treatment
        labels = [f"{treatment.name}[{treatment.label(level)}]" for level in treatment.levels[1:]]
        return balance_table(
            self.predictions,
            self._design,
            labels if treatment.categorical else [treatment.name],
            self._names,
            self.bse.to_numpy(),
            self.model.weights,
            self._clusters.codes[:1],
        )

    def _treatment_concerns(self) -> list[str]:
        """Covariates are looked at as they are and as the formula makes them, but never where the treatment is in it."""
        design, data, treatment = self._design, self.model.blueprint.data, self.model.blueprint.treatment
        made: dict[str, list[Array]] = {
            name: [data[name].to_numpy()] if data[name].dtype == np.float64 else [] for name in self.model.covariates
        }
        for j in design.covariates:
            if len(design.reads[j]) == 1:
                made[next(iter(design.reads[j]))].append(design.z[:, j])
        arms = [treatment.label(level) for level in treatment.levels]
        return concerns.about_treatment(made, design.strata, arms, treatment.name)

    def _cluster_concerns(self) -> list[str]:
        treatment, arm = self.model.blueprint.treatment, self._design.strata
        arms = [treatment.label(level) for level in treatment.levels]
        return concerns.about_clusters(self._clusters.codes, self._clusters.names, arm, arms, treatment.name)

    def _overlap_concerns(self) -> list[str]:
        treatment = self.model.blueprint.treatment
        if not treatment.is_binary:
            return []
        shares = share_outside(self.predictions, self._design, self._names)
        weights = self._design.reading_weights
        same = [np.array_equal(w.sum(axis=0), np.zeros(w.shape[1])) for w in weights]  # a constant has no effect
        effects = {
            name
            for name, n, effect in zip(self._names, self._design.normalizer, same, strict=True)
            if effect and (n == 1).all()
        }
        return concerns.about_overlap(shares, effects)
