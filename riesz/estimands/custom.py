r"""Moments that users write, and the anchor that is chosen for them.

Among linear combinations :math:`\beta = d(z)'\gamma` of a small dictionary of functions of the treatment and the covariates, the
automatic anchor maximises :math:`h_n(\beta)^2 / \|\beta\|_n^2`. The solution :math:`\gamma = E_n[d d']^{-1} h_n(d)` is the
closed-form linear Riesz regression on the dictionary, so the anchor is as close to the Riesz representer as the dictionary allows.
It is chosen once, on the full sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import stats

from riesz.arrays import Array
from riesz.errors import EstimandError
from riesz.estimands.base import Component, Estimand, Sample, ones
from riesz.estimands.expressions import call, per_row
from riesz.estimands.linear_form import LinearForm, Mu
from riesz.estimands.treatment import TreatmentKind

MOST_DICTIONARY_COVARIATES = 10


@dataclass(frozen=True)
class CustomMoment(Estimand):
    """Any moment that is linear in mu, written as a function of the symbol ``mu`` and the data.

    Parameters
    ----------
    moment : callable
        ``(mu, data) -> linear form``. ``mu(frame)`` reads the value of mu at the rows of a frame with as many rows as
        ``data``; ``mu.derivative(frame, wrt="a")`` its derivative. Readings may be added, subtracted and
        multiplied by numbers or columns.
    anchor : callable, optional
        ``frame -> one value per row``: a known function with a non-zero moment. Chosen automatically if not given.
    name : str
        The parameter's name in tables.
    normalizer : callable, optional
        ``data -> one value per row``; the estimand is then E[moment] / E[normalizer].

    Examples
    --------
    The average effect where x1 is positive:

    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> effect = riesz.CustomMoment(
    ...     lambda mu, data: (data["x1"] > 0) * (mu(data.assign(a=1)) - mu(data.assign(a=0))),
    ...     normalizer=lambda data: data["x1"] > 0,
    ...     name="effect_high_x1",
    ... )
    >>> riesz.estimate("y ~ treat(a) * .", data, estimand=effect, learner="linear").params.round(2).to_dict()
    {'effect_high_x1': 2.0}
    """

    moment: Callable[[Mu, pd.DataFrame], LinearForm]
    anchor: Callable[[pd.DataFrame], Any] | None = None
    name: str = "psi"
    normalizer: Callable[[pd.DataFrame], Any] | None = None
    verb: ClassVar[str] = "estimate"

    def treatment_kind(self, column: pd.Series) -> TreatmentKind:
        return "any"

    def specifications(self) -> Sequence[Any]:
        return (self.moment,)

    def components(self, sample: Sample) -> tuple[Component, ...]:
        return (
            Component(
                name=self.name,
                moment=self._checked_moment,
                anchor=self.anchor,
                normalizer=ones if self.normalizer is None else self._checked_normalizer,
                symbol="E[m(mu, W)]" if self.normalizer is None else "E[m(mu, W)] / E[normalizer]",
                words="Custom moment",
            ),
        )

    def _checked_moment(self, mu: Mu, data: pd.DataFrame) -> LinearForm:
        try:
            form = self.moment(mu, data.copy(deep=False))
        except EstimandError:
            raise
        except Exception as error:
            raise EstimandError(
                f"The custom moment failed: {type(error).__name__}: {str(error).rstrip('.')}. It takes (mu, data) and returns a "
                "linear form such as mu(data.assign(a=1)) - mu(data.assign(a=0))."
            ) from error
        if not isinstance(form, LinearForm):
            raise EstimandError(
                f"The custom moment returned a {type(form).__name__}; expected a linear form such as "
                "mu(data.assign(a=1)) - mu(data.assign(a=0)). Return it without calling .mean() or similar."
            )
        return form

    def _checked_normalizer(self, data: pd.DataFrame) -> Array:
        what = f"The normalizer of {self.name}"
        values = call(self.normalizer, data, what)
        return per_row(values, data, np.arange(len(data)), len(data), {}, what)


def automatic_anchor(form: LinearForm, sample: Sample, covariates: Sequence[str]) -> Callable[[pd.DataFrame], Array]:
    """Choose an anchor for a moment, as the text at the top of this module describes.

    Parameters
    ----------
    form : LinearForm
        The moment on the full sample.
    sample : Sample
    covariates : sequence of str
        The formula's covariates; the first few numeric ones enter the dictionary.

    Returns
    -------
    callable
        ``frame -> (n,)``.
    """
    treatment, data = sample.treatment, sample.data
    numeric = [name for name in covariates if data[name].dtype != "category" and data[name].nunique() > 1]
    numeric = numeric[: min(MOST_DICTIONARY_COVARIATES, len(data) // 40)]
    centre, spread = sample.location(data[numeric].to_numpy(dtype=float), ddof=1)
    if not treatment.levels:
        mean, sd = sample.location(treatment.values(data), ddof=0)

    def dictionary(frame: pd.DataFrame) -> Array:
        constant = np.ones((len(frame), 1))
        if treatment.levels:
            arms = np.column_stack([treatment.indicator(frame, level) for level in treatment.levels[1:]])
        else:
            a = (treatment.values(frame) - mean) / sd
            arms = np.column_stack([a, a**2])
        x = (frame[numeric].to_numpy(dtype=float) - centre) / spread
        crossed = (arms[:, :, None] * x[:, None, :]).reshape(len(frame), -1)
        return np.hstack([constant, arms, x, crossed])

    d, moments = dictionary(data), form.apply(dictionary)
    _refuse_zero(moments)
    weighted = d if sample.weights is None else d * (sample.weights / sample.weights.mean())[:, None]
    gram = weighted.T @ d / len(d) + 1e-3 * np.eye(d.shape[1])  # a small ridge, because the dictionary may be collinear
    gamma = np.linalg.solve(gram, sample.mean(moments))
    return lambda frame: dictionary(frame) @ gamma


def _refuse_zero(moments: Array) -> None:
    """Refuse if h_n(dictionary) = 0 is not rejected by a Wald test; h_n of the chosen anchor is positive by construction."""
    mean, size = moments.mean(axis=0), np.abs(moments).max()
    constant = moments.std(axis=0) <= 1e-9 * size  # the same on every row, so known without error
    if constant.all() or (np.abs(mean[constant]) > 1e-9 * size).any():
        return  # if all are zero, the check of the anchor raises the error
    centred = (moments - mean)[:, ~constant] / len(moments)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    positive = values > 1e-9 * values.max(initial=0.0)
    wald = (vectors[:, positive].T @ mean[~constant]) ** 2 / values[positive]
    p = float(stats.chi2.sf(wald.sum(), len(wald)))
    if p > 0.05:
        raise EstimandError(
            "No anchor was found: the moments of the treatment, the covariates and their products do not differ significantly "
            f"from zero (p = {p:.2g}). Pass one, a known function of treatment and covariates whose moment is clearly not zero: "
            "riesz.CustomMoment(..., anchor=...)."
        )
