"""A simulation: data to draw, with known truth.

A :class:`Simulation` has covariates, a treatment assignment, a mean mu and an outcome distribution. From these follow samples
(:class:`Draw`), the population value of any estimand, and the Riesz representer of most. Each simulation has its own file.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.datasets.assignment import Assignment
from riesz.datasets.covariates import Covariate
from riesz.datasets.outcomes import Outcome
from riesz.datasets.quadrature import Grid, product_grid
from riesz.datasets.villages import Villages, shared_normal
from riesz.errors import DataError, EstimandError, RieszWarning
from riesz.estimands import Component, Estimand, Sample
from riesz.estimands.linear_form import LinearForm, Mu
from riesz.syntax.caller import warn

INEXACT = 1e-4  # if two grids differ by more than this share of E|m|, the truth is inexact


@dataclass(frozen=True)
class Draw:
    """A sample from a simulation.

    Attributes
    ----------
    data : pandas.DataFrame
        Outcome, treatment, covariates and, if there are villages, their column.
    mu : ndarray, shape (n,)
        The true mean of the outcome given treatment and covariates, at each row.

    Examples
    --------
    >>> import riesz
    >>> draw = riesz.datasets.get("binary").draw(4000, seed=1)
    >>> float((draw.data["y"] - draw.mu).std().round(1))  # standard deviation of the noise
    1.5
    """

    data: pd.DataFrame
    mu: Array


@dataclass(frozen=True, eq=False)
class Simulation:
    """A distribution to draw data from, with a known truth.

    Parameters
    ----------
    name : str
        Its name in the registry.
    formula : str
        A formula whose columns span the true mu, or its index in the family that ``keywords`` name.
    covariates : tuple of Covariate
        Independent of each other.
    assignment : Assignment
        The treatment given the covariates.
    mean : callable
        ``frame -> (n,)``: the true mu, or the true quantile if ``keywords`` name one.
    outcome : Outcome
        The distribution of the outcome given its mean mu.
    questions : mapping of str to Estimand
        One estimand per verb that applies to the treatment.
    keywords : mapping
        Keywords to pass to a verb, such as ``{"cluster": "village"}``.
    villages : Villages, optional
        Groups of rows with random effects.

    Examples
    --------
    >>> from riesz import datasets
    >>> simulation = datasets.get("binary")
    >>> simulation.draw(n=3, seed=1).data.round(1)
         y  a   x1   x2   x3   x4  x5
    0 -0.1  1  0.0  1.8  1.3 -1.9   0
    1  0.1  0  1.8 -0.8 -0.4  1.0   1
    2 -1.7  0 -1.4 -0.3  0.2  0.2   0
    >>> simulation.truth(simulation.questions["ate"]).round(6)
    array([1.])
    """

    name: str
    formula: str
    covariates: tuple[Covariate, ...]
    assignment: Assignment
    mean: Callable[[pd.DataFrame], Any]
    outcome: Outcome
    questions: Mapping[str, Estimand]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    villages: Villages | None = None

    def draw(self, n: int, seed: int) -> Draw:
        """A sample of n rows; the same seed gives the same sample.

        Examples
        --------
        >>> from riesz import datasets
        >>> datasets.get("clustered").draw(n=3, seed=3).data.round(1)
             y  a   x1   x2   x3  village
        0 -2.7  0 -1.7  0.3 -0.1        0
        1 -1.4  0 -1.1 -1.6 -1.4        0
        2 -0.8  0  1.2 -0.3  0.9        0
        """
        if n < 1:
            raise DataError(f"n={n}: n must be at least 1.")
        generator = np.random.default_rng(seed)
        x = pd.DataFrame({covariate.name: covariate.draw(n, generator) for covariate in self.covariates})
        if self.villages is None:
            groups = {}
            latent_treatment, latent_outcome = generator.standard_normal(n), generator.standard_normal(n)
        else:
            village = self.villages.draw(n, generator)
            groups = {self.villages.name: village}
            latent_treatment = shared_normal(village, self.villages.in_treatment, generator)
            latent_outcome = shared_normal(village, self.villages.in_outcome, generator)
        data = x.assign(**{self.assignment.treatment.name: self.assignment.draw(x, latent_treatment), **groups})
        mu = self.mu(data)
        data = data.assign(**{self.outcome.name: self.outcome.draw(mu, latent_outcome)})
        return Draw(data[[self.outcome.name, self.assignment.treatment.name, *x.columns, *groups]], mu)

    def mu(self, frame: pd.DataFrame) -> Array:
        """The true E[Y | A, X], or the true quantile, at the rows of a frame, observed or counterfactual.

        Examples
        --------
        >>> from riesz import datasets
        >>> simulation = datasets.get("binary")
        >>> data = simulation.draw(n=4, seed=1).data
        >>> effect = simulation.mu(data.assign(a=1)) - simulation.mu(data.assign(a=0))
        >>> data[["x1", "x2"]].assign(effect=effect).round(2)
             x1    x2  effect
        0  0.05 -0.75    0.52
        1  1.80 -0.31    1.61
        2 -1.42  1.31    0.54
        3  1.79 -0.36    1.57
        """
        return np.asarray(self.mean(frame), dtype=float)

    @cached_property
    def grid(self) -> Grid:
        """The population as rows with probabilities; averages over it are expectations."""
        return product_grid(self.covariates, self.assignment, more=0)

    @cached_property
    def _coarser_grid(self) -> Grid:
        return product_grid(self.covariates, self.assignment, more=-1)

    def truth(self, estimand: Estimand) -> Array:
        r"""The population value of an estimand, shape (K,): one number per component.

        .. math:: \psi = E[m(\mu, W)] / E[\text{normalizer}(W)]

        by quadrature, to about six digits for moments that are smooth between the edges of the covariates. A moment that jumps
        elsewhere gives a warning, because two grids then give different values.

        Examples
        --------
        >>> from riesz import datasets
        >>> from riesz.estimands.shifts import Mean
        >>> datasets.get("binary").truth(Mean([0, 1])).round(3)
        array([0.533, 1.533])
        """
        psi, size = self._expectation(estimand, self.grid)
        coarser, _ = self._expectation(estimand, self._coarser_grid)
        error = float(np.max(np.abs(psi - coarser) / np.maximum(size, 1e-300)))
        if error > INEXACT:
            warn(
                f"The truth of {self.name} for this estimand has a relative error of about {error:.1g}, because the moment jumps "
                "or bends between the points of the quadrature. Let policies switch at 0 (log_income at 10.5, age at 50), or "
                "average over a large draw instead."
            )
        return psi

    def riesz_representer(self, estimand: Estimand, frame: pd.DataFrame) -> Array:
        """The true Riesz representer at the rows of a frame, shape (K, n).

        Known for moments that change only the treatment; for a continuous treatment, by an amount that does not depend on the
        treatment. For ATT and ATC it is the representer of the numerator, without the normalizer.

        Examples
        --------
        >>> from riesz import datasets
        >>> simulation = datasets.get("continuous")
        >>> data = simulation.draw(n=4, seed=1).data
        >>> rr = simulation.riesz_representer(simulation.questions["ade"], data)
        >>> data[["a"]].assign(rr=rr[0]).round(2)
              a    rr
        0 -0.40  0.04
        1 -0.11 -0.25
        2 -1.03 -0.80
        3  0.29 -0.22
        """
        name = self.assignment.treatment.name
        observed = frame.assign(**{name: self.assignment.column(frame[name])})

        def forms(frame: pd.DataFrame) -> list[LinearForm]:
            return [component.moment(Mu(), frame) for component in self._bind(estimand, frame)]

        return self.assignment.representer(forms, observed)

    @property
    def plain_formula(self) -> str:
        """The treatment and every covariate, untransformed, so that it contains no information about the shape of mu."""
        treatment = self.assignment.treatment
        reference = f", reference={treatment.reference!r}" if treatment.categorical else ""
        return f"{self.outcome.name} ~ treat({treatment.name}{reference}) + ."

    def oracle(self, estimand: Estimand, draw: Draw) -> Array:
        r"""The one-step estimate from the true mu and the true Riesz representer, shape (K,): a benchmark for learners.

        .. math:: E_n[m(\mu, W) + \alpha(Z) \{Y - \mu(Z)\}] / E_n[\text{normalizer}(W)]

        NaN if the Riesz representer is not known. For a quantile q the residual is :math:`\{\tau - 1(Y \le q)\} / f(q|Z)` with the
        outcome's density.

        Examples
        --------
        >>> from riesz import datasets
        >>> simulation = datasets.get("binary")
        >>> simulation.oracle(simulation.questions["ate"], simulation.draw(n=4000, seed=1)).round(2)  # the truth is 1
        array([1.06])
        """
        name = self.assignment.treatment.name
        data = draw.data.assign(**{name: self.assignment.column(draw.data[name])})
        components = self._bind(estimand, data)
        try:
            representer = self.riesz_representer(estimand, data)
        except EstimandError:
            return np.full(len(components), np.nan)
        y = data[self.outcome.name].to_numpy(dtype=float)
        residual = self.outcome.errors(y, draw.mu) / self.outcome.curvature(draw.mu)
        estimates = []
        for component, alpha in zip(components, representer, strict=True):
            scores = component.moment(Mu(), data).apply(self.mu) + alpha * residual
            estimates.append(np.mean(scores) / np.mean(np.asarray(component.normalizer(data), dtype=float)))
        return np.array(estimates)

    def _expectation(self, estimand: Estimand, grid: Grid) -> tuple[Array, Array]:
        """psi, and E|m| on the same scale, both of shape (K,)."""
        components = self._bind(estimand, grid.frame)
        m = np.stack([component.moment(Mu(), grid.frame).apply(self.mu) for component in components])
        normalizer = np.stack([np.asarray(component.normalizer(grid.frame), dtype=float) for component in components])
        mean_normalizer = grid.mean(normalizer)
        return grid.mean(m) / mean_normalizer, grid.mean(np.abs(m)) / np.abs(mean_normalizer)

    def _bind(self, estimand: Estimand, frame: pd.DataFrame) -> tuple[Component, ...]:
        treatment = self.assignment.treatment
        kind = estimand.treatment_kind(frame[treatment.name])
        simulated_kind = "arms" if treatment.levels else "number"
        if kind not in (simulated_kind, "any"):
            description = "has arms" if treatment.levels else "is continuous"
            raise EstimandError(
                f"`{estimand.verb}` does not apply to the simulation {self.name}, whose treatment `{treatment.name}` "
                f"{description}. Use {', '.join(self.questions)} or a custom moment."
            )
        sample = Sample(frame, treatment, np.arange(len(frame)), len(frame))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RieszWarning)  # advice on estimation, which does not matter here
            return estimand.components(sample)
