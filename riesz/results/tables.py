"""The tables of a fit: what a reader sees."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from riesz.estimators import DEBIASED, ESTIMATORS
from riesz.results.diagnoses import Diagnoses
from riesz.summary import Summary, number

ESTIMATOR_WORDS = {
    "direct": "direct (plug-in)",
    "ipw": "ipw (weighting)",
    "dr": "dr (one-step)",
    "tmle": "tmle (targeted)",
}


class Tables(Diagnoses):
    """The summary, and the fit as data frames."""

    def summary(self, alpha: float = 0.05) -> Summary:
        """The summary: text when printed, a table in notebooks, ``as_latex()``, ``as_html()``, ``as_csv()``."""
        components = self.model.blueprint.components
        several = len(components) > 1
        values = self.estimates["estimate"].unstack("estimator").loc[self._names, list(ESTIMATORS)]
        tables = [self._parameter_table(alpha), values.map(number).rename_axis("all estimators", axis=1)]
        return Summary(
            title=f"{len(components)} parameters, fitted together" if several else components[0].words,
            subtitle="each an average moment of mu" if several else f"psi = {components[0].symbol}",
            left=self._left(),
            right=self._right(),
            tables=[*tables, self._health_table()] if several else tables,
            notes=[
                *([f"{c.name}: {c.words}, {c.symbol}" for c in components] if several else self._health()),
                *self._remarks(),
            ],
        )

    def tidy(self, alpha: float = 0.05, joint: bool = False) -> pd.DataFrame:
        """One row a parameter: estimate, standard error, statistic, p-value and interval."""
        return self._tidy(alpha, joint)

    def glance(self) -> pd.DataFrame:
        """One row about the fit as a whole."""
        health = self.diagnostics()
        return pd.DataFrame(
            {
                "nobs": [self.nobs],
                "rows_dropped": [self.model.table.rows - len(self.model.kept)],
                "folds": [self._folds],
                "repeats": [len(self._crossfit.folds)],
                "estimator": [self.model.estimator],
                "learner": [self.model.learner.describe(self._design.base.family)],
                "cov_type": [self.cov_type],
                "target": [self.model.target],
                "largest_rr": [health["largest_rr"].max()],
                "effective_n": [health["effective_n"].min()],
            }
        )

    def augment(self) -> pd.DataFrame:
        """The rows used, with fitted value, residual, Riesz representer, influence and fold beside them."""
        data = self.model.blueprint.data.set_axis(self._index, axis=0)
        return data.assign(
            **{".fitted": self.fittedvalues, ".resid": self.resid, ".fold": self._crossfit.folds[0]},
            **{f".rr_{name}": self.riesz_representer[name] for name in self._names},
            **{f".influence_{name}": self.influence[name] for name in self._names},
        )

    def _left(self) -> list[tuple[str, str]]:
        model = self.model
        return [
            ("Outcome", model.endog_names),
            ("Treatment", model.blueprint.treatment.describe()),
            ("Learner", model.learner.describe(self._design.base.family)),
            ("Estimator", ESTIMATOR_WORDS[model.estimator]),
            ("Covariance", self._covariance_words()),
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
        if self.model.weighting:
            facts.append(("Weights", self.model.weighting))
        if self.model.trimming is not None:
            facts.append(("Trimmed", str(self.model.trimming)))
        return facts

    def _health(self) -> list[str]:
        row = self.diagnostics().iloc[0]
        return [
            f"Largest |rr| {row['largest_rr']:.3g}, effective sample size {row['effective_n']:,.0f} of "
            f"{len(self.model.kept):,} rows.",
            f"E_n[rr * anchor] = {row['rr_anchor']:.4g}, known value {row['anchor_moment']:.4g} (they should agree).",
        ]

    def _health_table(self) -> pd.DataFrame:
        health = self.diagnostics()
        table = pd.DataFrame(
            {
                "largest |rr|": [number(v, 2) for v in health["largest_rr"]],
                "effective n": [f"{v:,.0f}" for v in health["effective_n"]],
                "E_n[rr * anchor]": [number(v) for v in health["rr_anchor"]],
                "known value": [number(v) for v in health["anchor_moment"]],
            },
            index=health.index,
        )
        return table.rename_axis("Riesz representer", axis=1)

    def _remarks(self) -> Sequence[str]:
        remarks = []
        if self.model.estimator not in DEBIASED:
            remarks.append(
                f"The {self.model.estimator} estimator has no valid standard error; use estimator='dr' or 'tmle'."
            )
        remarks += [
            f"Trimming caps |rr| of {name} at {row['cap']:.3g} on {row['share']:.2%} of the rows and moves the estimate from "
            f"{number(row['untrimmed'])} to {number(row['estimate'])}."
            for name, row in self.trimming.iterrows()
        ]
        remarks += self.warnings()
        remarks += self.model.learner.remarks(self._design)
        if self._folds == 1:
            remarks.append("No sample splitting (folds=1): standard errors assume that the learner does not overfit.")
        return remarks
