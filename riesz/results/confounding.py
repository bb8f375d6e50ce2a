"""Questions about a confounder that nobody measured: bounds, robustness values, and benchmarks from the covariates at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import pandas as pd

from riesz.crossfitting import Problem, cross_fit
from riesz.diagnostics.sensitivity import Elements, benchmark, bounds, sensitivity_elements, strength
from riesz.errors import RieszError, listing, nearest
from riesz.estimators import ESTIMATORS
from riesz.inference import estimate
from riesz.results.core import Core
from riesz.results.sensitivity import Sensitivity
from riesz.trimming import trim


class Confounding(Core):
    """Sensitivity to unobserved confounding, for any estimand."""

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
            the average precision 1 / (p (1 - p)) that it brings.
        rho : float
            Correlation of what it adds to the two; 1, the worst case, by default.
        level : float
            Of each confidence bound, one-sided.
        null : float or mapping
            The hypothesis that the robustness values refer to; one for all parameters or one for each by name.

        Returns
        -------
        Sensitivity
            With ``table``, ``summary()``, ``contour()`` and ``plot(benchmarks=)``, which draws the contours and marks on them what
            :meth:`sensitivity_benchmark` found.

        References
        ----------
        Chernozhukov, Cinelli, Newey, Sharma and Syrgkanis, "Long story short: omitted variable bias in causal machine learning".

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
        >>> found = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear").sensitivity(cf_y=0.05, cf_d=0.05)
        >>> bool(found.table.loc["ATE", "rva"] < found.table.loc["ATE", "rv"])
        True
        """
        given = null if isinstance(null, Mapping) else dict.fromkeys(self._names, float(null))
        lost = [name for name in self._names if name not in given]
        if lost:
            raise RieszError(
                f"null names no value for {listing(lost)}; wanted a number for each parameter, or one for all."
            )
        return Sensitivity(self._names, self._elements, cf_y, cf_d, rho, level, given)

    def sensitivity_benchmark(self, *columns: str | Sequence[str]) -> pd.DataFrame:
        """How strong would a confounder be that resembles these columns? Fits again without them: same rows, folds and settings.

        Each argument costs one fit, as long as the first: ``("x1", "x2")`` fits twice, ``["x1", "x2"]`` once.

        Parameters
        ----------
        *columns : str or list of str
            Covariates; a list is left out together.

        Returns
        -------
        pandas.DataFrame
            A row for each argument and parameter: the strengths ``cf_y, cf_d, rho`` to hand to :meth:`sensitivity`; ``change``, the
            estimate without the columns minus the estimate; and the bounds ``lower, upper`` that a confounder so strong allows.
            A strength that is estimated below 0, as happens to columns that matter little and to learners that do better without
            them, is set to 0, and then rho and the bounds are NaN: read ``change``, which is what leaving the columns out does.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.sensitivity_benchmark("x1", ["x1", "x2"]).index.tolist()
        [('x1', 'ATE'), ('x1, x2', 'ATE')]
        """
        if not columns:
            raise RieszError(
                "sensitivity_benchmark() wants at least one covariate, such as fit.sensitivity_benchmark('x1')."
            )
        lines = {}
        for group in columns:
            together = [group] if isinstance(group, str) else list(group)
            short = self._elements_without(together)
            for c, name in enumerate(self._names):
                line = benchmark(self._elements, short, c)
                s = np.atleast_1d(strength(line["cf_y"], line["cf_d"], 1.0))
                found = bounds(self._elements, c, s, 0.95).iloc[0][["lower", "upper"]]
                lines[", ".join(together), name] = {**line, **(found if np.isfinite(line["rho"]) else found * np.nan)}
        return pd.DataFrame.from_dict(lines, orient="index").rename_axis(["columns", "parameter"])

    # below: how it is put together

    @cached_property
    def _elements(self) -> Elements:
        self._need_rr()
        if not ESTIMATORS[self.model.estimator].debiased:
            raise RieszError(
                f"A sensitivity analysis wants a debiased estimate; this fit uses estimator={self.model.estimator!r}. Fit with "
                "estimator='dr' or 'tmle'."
            )
        return sensitivity_elements(
            self._crossfit.predictions,
            self._estimates(self.model.estimator),
            self._design,
            self._names,
            self.model.weights,
            self._clusters.codes,
        )

    def _elements_without(self, columns: Sequence[str]) -> Elements:
        """The elements of a fit that does not see some columns."""
        model, base = self.model, self._design.base
        known = sorted(frozenset().union(*base.reads) - {model.blueprint.treatment.name})
        for name in columns:
            if name not in known:
                raise RieszError(
                    f"sensitivity_benchmark({name!r}): not a covariate of the formula.{nearest(name, known)} Wanted some of "
                    f"{listing(known)}."
                )
        design = self._design.without(set(columns))
        again = cross_fit([Problem(design, self._crossfit.splits, model.seed)], model.learner, 1, None)[0]
        again = trim(again, model.trimming, design)
        normalizer = base.moment.normalizer
        estimates = [
            estimate(ESTIMATORS[model.estimator](one, design), normalizer, model.weights, model.target)
            for one in again.predictions
        ]
        return sensitivity_elements(
            again.predictions, estimates, design, self._names, model.weights, self._clusters.codes
        )
