"""Parameters derived from a fit: effects in groups, projections, functions of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.design.table import ClusterLabels
from riesz.inference import Inference, Projection
from riesz.plots import forest
from riesz.results.model import Model
from riesz.results.notes import about_estimator, about_two_way
from riesz.results.parameters import Parameters
from riesz.results.parts import FitParts
from riesz.results.summary_table import Summary
from riesz.syntax.caller import warn
from riesz.syntax.check_arguments import checked_methods


@dataclass(frozen=True)
class Words:
    """The texts in the summary of derived parameters.

    Attributes
    ----------
    title, subtitle : str
    facts : sequence of (name, value)
        Shown in addition to outcome, covariance and observations.
    notes : sequence of str
    hypothesis : str
        What the Wald test tests.
    """

    title: str
    subtitle: str
    facts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    hypothesis: str = ""


@dataclass(frozen=True)
class EffectsParts:
    """The parts of :class:`Effects`, which pickle stores.

    Attributes
    ----------
    model : Model
        The model of the fit that the effects come from.
    clusters : ClusterLabels
    labels : pandas.DataFrame
        One row per parameter: ``term`` is its name; tables show the other columns next to it.
    value : ndarray, shape (P,)
    covariance : ndarray, shape (P, P)
    variation : ndarray, shape (n, P)
        What the covariance is computed from, averaged over repeats.
    words : Words
    hypotheses : mapping of str to ndarray, each of shape (restrictions, P)
        For each parameter of the fit, the matrix R of the hypothesis R params = 0 that the effects do not vary.
    nobs : float
        Number of rows used.
    covariance_notes : sequence of str
        Notes on the covariance, for the summary.
    """

    model: Model
    clusters: ClusterLabels
    labels: pd.DataFrame
    value: Array
    covariance: Array
    variation: Array
    words: Words
    hypotheses: Mapping[str, Array]
    nobs: float
    covariance_notes: Sequence[str] = ()


@final
@checked_methods()
class Effects(Parameters):
    """Parameters derived from one or several fits: groups, projections and contrasts.

    Made by ``fit.by``, ``fit.blp`` and :func:`riesz.contrast`. Like a fit it has ``params``, ``bse``, ``conf_int``, ``t_test``,
    ``wald_test``, ``summary``, ``tidy`` and so on, and it can be used in a contrast.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(1000, seed=1).data
    >>> effects = riesz.ate("y ~ treat(a) * .", data, learner="linear").by(data["x1"] > 0)
    >>> print(effects.tidy()[["group", "n", "estimate", "std_error"]].round(2))
       group    n  estimate  std_error
    0  False  507      0.92       0.16
    1   True  493      1.88       0.16
    """

    def __init__(self, parts: EffectsParts) -> None:
        model = replace(parts.model, exog_names=parts.labels["term"].tolist())
        super().__init__(model, parts.clusters, parts.value, parts.covariance, parts.covariance_notes, nobs=parts.nobs)
        self._parts = parts

    @property
    def parts(self) -> EffectsParts:
        """The model, labels, values and covariance of the effects.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.by(data["x1"] > 0).parts.labels)
                term parameter  group    n
        0  ATE_False       ATE  False  153
        1   ATE_True       ATE   True  147
        """
        return self._parts

    def variation(self) -> Array:
        """What the covariance is computed from, shape (n, P).

        Examples
        --------
        The standard error of an effect in a group comes from the rows of the group:

        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> effects = fit.by(data["x1"] > 0)
        >>> (effects.variation() != 0).sum(axis=0).tolist() == effects.tidy()["n"].tolist()
        True
        """
        return self._parts.variation

    def tidy(self, alpha: float = 0.05, joint: bool = False) -> pd.DataFrame:
        """One row per parameter: its labels, estimate, standard error, statistic, p-value and interval.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> effects = fit.by(data["x1"] > 0)
        >>> print(effects.tidy()[["term", "n", "estimate", "conf_low", "conf_high"]].round(2))
                term    n  estimate  conf_low  conf_high
        0  ATE_False  153      0.83      0.24       1.41
        1   ATE_True  147      1.81      1.30       2.32
        """
        table = self._tidy(alpha, joint)
        return pd.concat([self._parts.labels.reset_index(drop=True), table.drop(columns="term")], axis=1)

    def heterogeneity(self) -> pd.DataFrame:
        """Wald test that effects do not vary: that all groups have the same effect, or that all slopes are zero.

        Returns
        -------
        pandas.DataFrame
            One row per parameter of the fit: ``statistic``, ``df``, ``p_value``. Empty for a contrast.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.by(data["x1"] > 0).heterogeneity().round(3))
             statistic   df  p_value
        ATE      6.106  1.0    0.013
        """
        tests = {name: self.wald_test(matrix) for name, matrix in self._parts.hypotheses.items()}
        rows = {name: (float(test.statistic), float(test.df_denom), float(test.pvalue)) for name, test in tests.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=["statistic", "df", "p_value"])

    def summary(self, alpha: float = 0.05) -> Summary:
        """The summary: text if printed, a table in notebooks, ``as_latex()``, ``as_html()``, ``as_csv()``.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(fit.by(data["x1"] > 0).summary())
                                          ATE by x1
        =============================================================================
        Outcome:                            y   Observations:                     300
        Covariance:                    robust   Groups:                             2
        =============================================================================
                           coef     std err         z     P>|z|     [0.025     0.975]
        -----------------------------------------------------------------------------
        ATE_False        0.8279      0.2986     2.773     0.006     0.2427     1.4132
        ATE_True         1.8068      0.2603     6.941     0.000     1.2966     2.3169
        =============================================================================
        each an average within a group: E[score | group] / E[normalizer | group]
        Same in all groups (ATE): chi2(1) = 6.11, p = 0.013.
        """
        words = self._parts.words
        tests = [
            f"{words.hypothesis} ({name}): chi2({row['df']:.0f}) = {row['statistic']:.2f}, p = {row['p_value']:.3f}."
            for name, row in self.heterogeneity().iterrows()
            if np.isfinite(row["p_value"])
        ]
        return Summary(
            title=words.title,
            subtitle=words.subtitle,
            left=[("Outcome", self.model.endog_names), ("Covariance", self._covariance_words())],
            right=[("Observations", f"{self.nobs:,}"), *words.facts],
            tables=[self._parameter_table(alpha)],
            notes=[*tests, *about_estimator(self.model), *self._covariance_notes, *words.notes],
        )

    def plot(self, **options: Any) -> Any:
        """A forest plot of the parameters: :func:`riesz.plots.forest` with its options. Returns the axes.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> ax = riesz.ate("y ~ treat(a) * .", data, learner="linear").blp("~ x1").plot()
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['Intercept', 'x1']
        """
        return forest(self, **options)

    def __copy__(self) -> Self:
        return self  # immutable, like a fit

    def __deepcopy__(self, memo: object) -> Self:
        return self


def projected_effects(
    parts: FitParts,
    projection: Projection,
    labels: pd.DataFrame,
    words: Words,
    hypotheses: Mapping[str, Array],
    rows: npt.NDArray[np.bool_],
) -> Effects:
    """The effects of a fit projected on functions of the rows.

    Parameters
    ----------
    parts : FitParts
        The parts of the fit.
    projection : Projection
    labels, words, hypotheses
        As in :class:`EffectsParts`.
    rows : ndarray of bool, shape (n,)
        The rows in use.
    """
    inference = parts.project(projection)
    return Effects(
        EffectsParts(
            model=parts.model,
            clusters=parts.clusters,
            labels=labels,
            value=inference.value,
            covariance=inference.covariance,
            variation=inference.averaged().variation,
            words=words,
            hypotheses=hypotheses,
            nobs=float(parts.model.weights.frequency[rows].sum()),
            covariance_notes=two_way_notes(inference, labels["term"].tolist()),
        )
    )


def two_way_notes(inference: Inference, names: Sequence[str]) -> list[str]:
    """Warn if a two-way clustered variance is not positive, and return the texts for the summary."""
    notes = about_two_way(inference.replaced, inference.indefinite, names)
    for note in notes:
        warn(note)
    return notes
