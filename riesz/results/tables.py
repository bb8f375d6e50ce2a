"""The tables of a fit: what a reader sees."""

from __future__ import annotations

import numpy as np
import pandas as pd

from riesz.diagnostics.weights import weighting_origin
from riesz.estimators import describe
from riesz.results.diagnoses import Diagnoses
from riesz.results.notes import (
    about_estimator,
    about_splitting,
    about_tilt,
    about_trimming,
    about_weighting,
    health_lines,
    health_table,
)
from riesz.results.summary import Summary, number


class Tables(Diagnoses):
    """The summary, and the fit as data frames."""

    def summary(self, alpha: float = 0.05) -> Summary:
        """The summary: text when printed, a table in notebooks, ``as_latex()``, ``as_html()``, ``as_csv()``.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.summary().title)
        Average treatment effect: a=1 against 0
        """
        components = self.model.blueprint.components
        several = len(components) > 1
        tables, notes = [self._parameter_table(alpha)], []
        if several:
            notes = [f"{c.name}: {c.words}, {c.symbol}" for c in components]
        if self.model.learner.learns_rr:
            values = self.estimates["estimate"].unstack("estimator").loc[self._names, self._served]
            tables.append(values.map(number).rename_axis("all estimators", axis=1))
            if several:
                tables.append(health_table(self._health, self.predictions.tilted))
            else:
                notes += health_lines(self._health, self.nobs, self.predictions.tilted)
        return Summary(
            title=f"{len(components)} parameters, fitted together" if several else components[0].words,
            subtitle="each an average moment of mu" if several else f"psi = {components[0].symbol}",
            left=self._left(),
            right=self._right(),
            tables=tables,
            notes=[*notes, *self._remarks()],
        )

    def tidy(self, alpha: float = 0.05, joint: bool = False) -> pd.DataFrame:
        """One row a parameter: estimate, standard error, statistic, p-value and interval.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.tidy().columns.tolist()
        ['term', 'estimate', 'std_error', 'statistic', 'p_value', 'conf_low', 'conf_high']
        """
        return self._tidy(alpha, joint)

    def glance(self) -> pd.DataFrame:
        """One row about the fit as a whole.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> fit.glance()[["nobs", "rows_dropped", "folds"]].iloc[0].tolist()
        [300, 0, 5]
        """
        health = self._health if self.model.learner.learns_rr else None
        return pd.DataFrame(
            {
                "nobs": [self.nobs],
                "rows_dropped": [self.model.table.rows - len(self.model.kept)],
                "folds": [self._folds],
                "repeats": [len(self._crossfit.folds)],
                "estimator": [self.model.settings.estimator],
                "learner": [self._learner],
                "cov_type": [self.cov_type],
                "target": [self.model.settings.target],
                "largest_rr": [np.nan if health is None else health["largest_rr"].max()],
                "effective_n": [np.nan if health is None else health["effective_n"].min()],
            }
        )

    def augment(self) -> pd.DataFrame:
        """The rows used, with what the fit says of each beside them, out of fold and averaged over repeats.

        Returns
        -------
        pandas.DataFrame
            The data, then ``.fitted``, ``.resid``, ``.fold`` (of the first repeat), and for each parameter ``.moment_ATE``, which
            is m(mu), ``.rr_ATE`` and ``.influence_ATE``; the last two where the learner learns rr.

        Examples
        --------
        The scores of a fit are m(mu) + rr (y - mu), and the one-step estimate of an effect on all is their mean:

        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear")
        >>> rows = fit.augment()
        >>> score = rows[".moment_ATE"] + rows[".rr_ATE"] * rows[".resid"]
        >>> bool(abs(score.mean() - fit.params["ATE"]) < 1e-12)
        True
        """
        data = self.model.blueprint.data.set_axis(self._index, axis=0)
        moment = self._design.apply(self.predictions.mu)
        data = data.assign(
            **{".fitted": self.fittedvalues, ".resid": self.resid, ".fold": self._crossfit.folds[0]},
            **{f".moment_{name}": own for name, own in zip(self._names, moment, strict=True)},
        )
        if not self.model.learner.learns_rr:
            return data
        return data.assign(
            **{f".rr_{name}": self.riesz_representer[name] for name in self._names},
            **{f".influence_{name}": self.influence[name] for name in self._names},
        )

    def _left(self) -> list[tuple[str, str]]:
        model = self.model
        return [
            ("Outcome", model.endog_names),
            ("Treatment", model.blueprint.treatment.describe()),
            ("Learner", self._learner),
            ("Estimator", describe(model.settings.estimator)),
            ("Covariance", self._covariance_words()),
        ]

    def _right(self) -> list[tuple[str, str]]:
        folds, repeats = self._folds, len(self._crossfit.folds)
        dropped = self.model.table.rows - len(self.model.kept)
        facts = [
            ("Observations", f"{self.nobs:,}"),
            (f"Rows dropped (missing{', weight 0' if self.model.weighting else ''})", f"{dropped:,}"),
            ("Folds x repeats", f"{folds} x {repeats}"),
            ("Target", self.model.settings.target),
        ]
        if self.model.weighting:
            facts.append(("Weights", self.model.weighting))
        if self.model.settings.trimming is not None:
            facts.append(("Trimmed", str(self.model.settings.trimming)))
        return facts

    def _remarks(self) -> list[str]:
        return [
            *about_estimator(self.model),
            *self._covariance_notes,
            *self._weighting_remarks(),
            *about_trimming(self.trimming),
            *self.warnings(),
            *self.model.learner.remarks(self._design, self.details()),
            *about_splitting(self._folds),
        ]

    def _weighting_remarks(self) -> list[str]:
        if not self.model.learner.learns_rr:
            return []
        if self.predictions.tilted:
            return about_tilt()
        origin = weighting_origin(self._crossfit.predictions, self._design).set_axis(self._names, axis=0)
        debiased = self.estimates["std_error"].xs("dr", level="estimator")  # direct and ipw have none of their own
        return about_weighting(origin, self.bse.fillna(debiased))
