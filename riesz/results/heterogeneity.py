r"""Who gains more: effects in groups, and the best linear projection of the effect, from the same fit.

Both solve :math:`E_n[b (s - n\, b'\theta)] = 0` with the scores s and the normalizer n of the fit (Semenova and
Chernozhukov 2021): b are indicators of groups, or functions of covariates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.design.table import Groups
from riesz.diagnostics.warnings import CLUSTERS
from riesz.errors import DataError, FormulaError, listing
from riesz.estimators import ESTIMATORS
from riesz.inference import Clusters, aggregate, project
from riesz.results.core import Core
from riesz.results.effects import Effects, Words
from riesz.syntax.caller import warn
from riesz.syntax.columns import Columns
from riesz.syntax.counterfactual import replace_columns
from riesz.syntax.formula import parse_projection
from riesz.syntax.terms import term_columns

_FEW = 30  # rows of a group below which its normal interval deserves a word


class Heterogeneity(Core):
    """Effects in groups and along covariates."""

    def by(self, groups: Any) -> Effects:
        """The parameters within groups, with their joint covariance and a test that they are all the same.

        Parameters
        ----------
        groups : str or array_like
            A column of the data (it need not be in the formula) with labels, truth values or a few distinct numbers; or one
            label for each row of the data, such as ``pandas.qcut(data["age"], 4)``.

        Returns
        -------
        Effects
            Parameters are called ``ATE_north``, ``ATE_south``; ``heterogeneity()`` tests that they are equal. Rows whose group
            is missing are in no group.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data.assign(region=lambda d: d.index % 2)
        >>> fit = riesz.ate("y ~ treat(a) * . - region", data, learner="linear")
        >>> fit.by("region").params.index.tolist()
        ['ATE_0', 'ATE_1']
        """
        found = self.model.table.groups(groups, self.model.kept)
        normalizer = self._design.normalizer
        kept = [self._usable(found, n, name) for n, name in zip(normalizer, self.model.exog_names, strict=True)]
        bases = [np.equal.outer(found.codes, levels).astype(float) for levels in kept]
        inside = found.codes >= 0
        frequency = self.model.weights.frequency[inside]
        sizes = np.bincount(found.codes[inside], weights=frequency, minlength=len(found.levels))
        labels = pd.DataFrame(
            [
                (f"{name}_{found.levels[level]}", name, found.levels[level], round(sizes[level]))
                for name, levels in zip(self.model.exog_names, kept, strict=True)
                for level in levels
            ],
            columns=["term", "parameter", "group", "n"],
        )
        words = Words(
            title=f"{', '.join(self.model.exog_names)} by {found.name}",
            subtitle="each an average within a group: E[score | group] / E[normalizer | group]",
            facts=[("Groups", str(len(found.levels)))],
            notes=_group_notes(found, sizes, self._clusters.codes),
            hypothesis="Same in all groups",
        )
        members = np.hstack(bases) > 0
        return self._derived(bases, labels, words, _differences(labels["parameter"]), inside, members)

    def blp(self, formula: str, context: Mapping[str, Any] | None = None) -> Effects:
        r"""Best linear projection of the effect on functions of covariates, with the standard errors of the fit.

        The coefficients solve :math:`E[b (s - n\, b'\theta)] = 0`. Where the normalizer n is 1 (ATE) that is the regression of
        the pseudo-outcome s on b; for ATT it projects the effect among the treated.

        Parameters
        ----------
        formula : str
            Such as ``"~ x1 + bs(x2, df=4)"``; columns need not be in the fit's formula. ``.`` stands for its covariates.
        context : mapping, optional
            Functions and constants of your own that the formula uses.

        Returns
        -------
        Effects
            ``heterogeneity()`` tests that all coefficients but the intercept are zero. Rows with missing values are left out.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
        >>> riesz.ate("y ~ treat(a) * .", data, learner="linear").blp("~ x1").params.index.tolist()
        ['Intercept', 'x1']
        """
        columns, b, complete = self._regressors(formula, context or {})
        lost = int((~complete).sum())
        names = self.model.exog_names
        several = len(names) > 1
        pairs = [(name, column) for name in names for column in columns]
        labels = pd.DataFrame(
            [(f"{name}_{column}" if several else column, name, column) for name, column in pairs],
            columns=["term", "parameter", "column"],
        )
        slopes = {
            name: np.eye(len(labels))[((labels["parameter"] == name) & (labels["column"] != "Intercept")).to_numpy()]
            for name in names
        }
        words = Words(
            title=f"Best linear projection of {', '.join(names)}",
            subtitle="E[b (score - normalizer b'theta)] = 0",
            facts=[("Regressors", str(len(columns)))],
            notes=[f"{lost:,} rows with missing values were left out."] if lost else [],
            hypothesis="All slopes zero",
        )
        hypotheses = {name: rows for name, rows in slopes.items() if len(rows)}
        members = None if complete.all() else np.tile(complete[:, None], len(labels))
        return self._derived([b] * len(names), labels, words, hypotheses, complete, members)

    def _derived(
        self,
        bases: Sequence[Array],
        labels: pd.DataFrame,
        words: Words,
        restrictions: Mapping[str, Array],
        used: npt.NDArray[np.bool_],
        members: npt.NDArray[np.bool_] | None,
    ) -> Effects:
        """Project on bases. ``used`` are the rows in use, shape (n,), ``members`` those of each coefficient, shape (n, P)."""
        model, design = self.model, self._design
        estimates = [
            project(
                ESTIMATORS[model.settings.estimator](p, design),
                design.normalizer,
                bases,
                model.weights,
                model.settings.target,
                members,
            )
            for p in self._crossfit.predictions
        ]
        value, covariance = aggregate(estimates, model.weights, self._clusters.codes)
        if not ESTIMATORS[model.settings.estimator].debiased:
            covariance = np.full_like(covariance, np.nan)
        variation = np.mean([e.variation for e in estimates], axis=0)
        nobs = float(model.weights.frequency[used].sum())
        made = Effects(model, self._clusters, labels, (value, covariance, variation), words, restrictions, nobs)
        if ESTIMATORS[model.settings.estimator].debiased:
            made._tell_two_way(estimates)
        return made

    def _usable(self, groups: Groups, normalizer: Array, name: str) -> list[int]:
        """The groups in which a parameter is defined and has an error: at least two rows (clusters) that count."""
        kinds = self._clusters.codes or (np.arange(len(normalizer)),)
        counting = [(groups.codes == level) & (normalizer != 0) for level in range(len(groups.levels))]
        counts = [min(len(np.unique(units[rows])) for units in kinds) for rows in counting]
        lost = [level for level, count in zip(groups.levels, counts, strict=True) if count < 2]
        if len(lost) == len(counts):
            raise DataError(
                f"{name} cannot be estimated in any group of `{groups.name}`: each has fewer than two units."
            )
        if lost:
            warn(f"{name} is left out in {listing(lost)} of `{groups.name}`: fewer than two units there count for it.")
        return [level for level, count in enumerate(counts) if count >= 2]

    def _regressors(
        self, formula: str, context: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], Array, npt.NDArray[np.bool_]]:
        """Names and values of the projection's columns, zero on rows with missing values, and which rows are complete."""
        table, kept = self.model.table, self.model.kept
        rhs = parse_projection(formula, table.columns, self.model.covariates, context)
        needed = sorted(set().union(*(term_columns(term, table.columns) for term in rhs)))
        frame = table.to_pandas(needed).iloc[kept].reset_index(drop=True)
        complete = frame.notna().all(axis=1).to_numpy()
        if not complete.any():
            raise DataError(
                f"Every row has a missing value among the columns of {formula!r}: {listing(needed)}. Leave the emptiest out."
            )
        used = frame[complete].reset_index(drop=True)
        factors = [name for name in needed if isinstance(used[name].dtype, pd.CategoricalDtype)]
        used = replace_columns(used, {name: used[name].cat.remove_unused_categories() for name in factors})
        made = Columns(rhs, used, context)
        if not made.names:
            raise FormulaError(
                f"{formula!r} has no columns to project on. '~ 1' gives the average effect; add covariates, as in '~ x1 + x2'."
            )
        b = np.zeros((len(frame), len(made.names)))
        b[complete] = made.matrix
        self._check_rank(b, made.names, formula)
        return made.names, b, complete

    def _check_rank(self, b: Array, names: Sequence[str], formula: str) -> None:
        for n, parameter in zip(self._design.normalizer, self.model.exog_names, strict=True):
            gram = (b.T * (n * self.model.weights.total)) @ b
            size = np.sqrt(np.diag(gram))
            if (size == 0).any() or np.linalg.eigvalsh(gram / np.outer(size, size))[0] < 1e-10:
                raise DataError(
                    f"The columns {listing(names)} of {formula!r} are collinear on the rows that count for {parameter}; leave one "
                    "out."
                )


def _differences(parameters: pd.Series) -> dict[str, Array]:
    """For each parameter the matrix that takes the difference of every group and the next."""
    eye, made = np.eye(len(parameters)), {}
    for name in parameters.unique():
        rows = eye[(parameters == name).to_numpy()]
        if len(rows) > 1:
            made[str(name)] = rows[1:] - rows[:-1]
    return made


def _group_notes(groups: Groups, sizes: Any, clusters: Clusters) -> list[str]:
    notes = []
    missing = int((groups.codes < 0).sum())
    if missing:
        notes.append(f"{missing:,} rows have no {groups.name} and are in no group.")
    for kind in clusters:
        held = [len(np.unique(kind[groups.codes == code])) for code in range(len(groups.levels))]
        few = [level for level, count in zip(groups.levels, held, strict=True) if 0 < count < CLUSTERS]
        if few:
            notes.append(f"Fewer than {CLUSTERS} clusters in {listing(few)}: normal intervals are then too short.")
            return notes
    few = [level for level, size in zip(groups.levels, sizes, strict=True) if 0 < size < _FEW]
    if few:
        notes.append(f"Fewer than {_FEW} rows in {listing(few)}: normal intervals are then too short.")
    return notes
