"""Questions about a confounder that nobody measured: bounds, robustness values, and benchmarks from the covariates at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from riesz.crossfit.crossfit import Problem
from riesz.design.derived import without
from riesz.design.design import Design
from riesz.diagnostics.sensitivity import Elements, benchmark, bounds, sensitivity_elements, strength
from riesz.errors import RieszError, listing, nearest
from riesz.estimators import ESTIMATORS
from riesz.results.core import Core, estimates_of
from riesz.results.sensitivity import Sensitivity
from riesz.settings import Settings
from riesz.syntax.calls import is_number


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
        given = dict(null) if isinstance(null, Mapping) else dict.fromkeys(self._names, null)
        lost = [name for name in self._names if name not in given]
        if lost:
            raise RieszError(
                f"null names no value for {listing(lost)}; expected a number for each parameter, or one for all."
            )
        strange = [name for name in given if name not in self._names]
        if strange:
            raise RieszError(f"null names {listing(strange)}; the parameters are {listing(self._names)}.")
        for name, value in given.items():
            if not is_number(value):
                where = f"null[{name!r}]" if isinstance(null, Mapping) else "null"
                raise RieszError(f"{where}={value!r}: expected a finite number, the hypothesis, such as 0.")
        hypothesis = {name: float(value) for name, value in given.items()}
        return Sensitivity(self._names, self._elements, cf_y, cf_d, rho, level, hypothesis)

    def sensitivity_benchmark(
        self, *columns: str | Sequence[str], n_jobs: int | None = None, progress: bool | None = None
    ) -> pd.DataFrame:
        """How strong would a confounder be that resembles these columns? Fits again without them: same rows, folds and settings.

        Each argument costs one fit, as long as the first: ``("x1", "x2")`` fits twice, ``["x1", "x2"]`` once.

        Parameters
        ----------
        *columns : str or list of str
            Covariates; a list is left out together.
        n_jobs : int, optional
            Threads to spread the fits over; by default as many as the fit was made with.
        progress : bool, optional
            Show a progress bar; by default as the fit did.

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
        before = self.model.settings
        settings = replace(
            before,
            n_jobs=before.n_jobs if n_jobs is None else n_jobs,
            progress=before.progress if progress is None else progress,
        )
        groups, long = self._left_out(columns), self._elements
        designs = [without(self._design, set(group)) for group in groups]
        rows = min(len(split.train) for repeat in self._crossfit.splits for split in repeat)
        for design in designs:  # before the first of them is fitted
            self.model.learner.check(design, rows)
        lines = {}
        for group, design in zip(groups, designs, strict=True):
            short = self._elements_of(design, settings)
            for c, name in enumerate(self._names):
                line = benchmark(long, short, c)
                s = np.atleast_1d(strength(line["cf_y"], line["cf_d"], 1.0))
                found = bounds(long, c, s, 0.95).iloc[0][["lower", "upper"]]
                lines[", ".join(group), name] = {**line, **(found if np.isfinite(line["rho"]) else found * np.nan)}
        return pd.DataFrame.from_dict(lines, orient="index").rename_axis(["columns", "parameter"])

    # below: how it is put together

    @cached_property
    def _elements(self) -> Elements:
        self._need_rr()
        if not ESTIMATORS[self.model.settings.estimator].debiased:
            raise RieszError(
                "A sensitivity analysis needs a debiased estimate; this fit uses "
                f"estimator={self.model.settings.estimator!r}. Fit with estimator='dr' or 'tmle'."
            )
        return sensitivity_elements(
            self._crossfit.predictions,
            self._estimates(self.model.settings.estimator),
            self._design,
            self._names,
            self.model.weights,
            self._clusters.codes,
        )

    def _left_out(self, columns: Sequence[Any]) -> list[tuple[str, ...]]:
        """The groups of covariates to leave out, each once, checked."""
        reads = self._design.reads
        known = sorted(frozenset().union(*reads) - {self.model.blueprint.treatment.name})
        if not columns:
            raise RieszError(
                "sensitivity_benchmark() needs at least one covariate, such as fit.sensitivity_benchmark('x1'). There are "
                f"{listing(known)}."
            )
        groups = []
        for given in columns:
            group = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else ()
            if not group or not all(isinstance(name, str) for name in group):
                raise RieszError(
                    f"sensitivity_benchmark() got {given!r}; expected a covariate's name, or a list of names that are left out "
                    "together."
                )
            for name in group:
                if name not in known:
                    raise RieszError(
                        f"sensitivity_benchmark({name!r}): not a covariate of the formula.{nearest(name, known)} Expected some of "
                        f"{listing(known)}."
                    )
            groups.append(group)
        return list(dict.fromkeys(groups))

    def _elements_of(self, design: Design, settings: Settings) -> Elements:
        """The elements of a refit to another design of the same rows, with the same folds."""
        problem = Problem(design, self._crossfit.splits, settings.seed)
        predictions = settings.cross_fit([problem])[0].predictions
        blueprint = replace(self.model.blueprint, design=design)
        model = replace(self.model, settings=settings, blueprint=blueprint)
        return sensitivity_elements(
            predictions,
            estimates_of(model, predictions, settings.estimator),
            design,
            self._names,
            model.weights,
            self._clusters.codes,
        )
