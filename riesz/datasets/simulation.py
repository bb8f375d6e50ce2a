"""A simulation: data to draw, and the truth about them.

A :class:`Simulation` is put together from covariates, a treatment assignment, a mean mu and an outcome distribution. From
those parts follow samples (:class:`Draw`), the population value of any estimand, and the Riesz representer of most. Not here:
the simulations themselves (one file each) and anything that is fitted.
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
from riesz.datasets.grid import Grid, product_grid
from riesz.datasets.outcomes import Outcome
from riesz.datasets.villages import Villages, shared_normal
from riesz.errors import DataError, EstimandError, RieszWarning
from riesz.estimands import Component, Estimand, Sample
from riesz.estimands.linear_form import LinearForm, Mu
from riesz.syntax.caller import warn

INEXACT = 1e-4  # two grids whose answers differ by more than this share of E|m| leave the truth in doubt


@dataclass(frozen=True)
class Draw:
    """A sample from a simulation.

    Attributes
    ----------
    data : pandas.DataFrame
        Outcome, treatment, covariates and, where there are villages, their column.
    mu : ndarray, shape (n,)
        The true mean of the outcome given treatment and covariates, at each row.

    Examples
    --------
    >>> import riesz
    >>> drawn = riesz.datasets.get("binary").draw(100, seed=1)
    >>> drawn.data.shape[0], drawn.mu.shape
    (100, (100,))
    """

    data: pd.DataFrame
    mu: Array


@dataclass(frozen=True, eq=False)
class Simulation:
    """Data with a known truth.

    Parameters
    ----------
    name : str
        Its name in the registry.
    formula : str
        A formula whose columns have the true mu (with a Bernoulli outcome: its logit) in their span.
    covariates : tuple of Covariate
        Independent of each other.
    assignment : Assignment
        The treatment given the covariates.
    mean : callable
        ``frame -> (n,)``: the true mu.
    outcome : Outcome
        How the outcome scatters around mu.
    questions : mapping of str to Estimand
        An estimand for each verb that makes sense here.
    keywords : mapping
        What else to pass to a verb, such as ``{"cluster": "village"}``.
    villages : Villages, optional
        Groups of rows with random effects.

    Examples
    --------
    >>> from riesz import datasets
    >>> simulation = datasets.get("binary")
    >>> simulation.draw(n=3, seed=1).data.columns.tolist()
    ['y', 'a', 'x1', 'x2', 'x3', 'x4', 'x5']
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
        >>> draw = datasets.get("clustered").draw(n=200, seed=3)
        >>> draw.data.shape, draw.mu.shape
        ((200, 6), (200,))
        """
        if n < 1:
            raise DataError(f"n={n}: wanted at least one row to draw.")
        generator = np.random.default_rng(seed)
        x = pd.DataFrame({covariate.name: covariate.draw(n, generator) for covariate in self.covariates})
        if self.villages is None:
            groups = {}
            before, after = generator.standard_normal(n), generator.standard_normal(n)
        else:
            village = self.villages.draw(n, generator)
            groups = {self.villages.name: village}
            before = shared_normal(village, self.villages.in_treatment, generator)
            after = shared_normal(village, self.villages.in_outcome, generator)
        data = x.assign(**{self.assignment.treatment.name: self.assignment.draw(x, before), **groups})
        mu = self.mu(data)
        data = data.assign(**{self.outcome.name: self.outcome.draw(mu, after)})
        return Draw(data[[self.outcome.name, self.assignment.treatment.name, *x.columns, *groups]], mu)

    def mu(self, frame: pd.DataFrame) -> Array:
        """The true E[Y | A, X] at the rows of a frame, observed or counterfactual.

        Examples
        --------
        >>> from riesz import datasets
        >>> simulation = datasets.get("binary")
        >>> data = simulation.draw(n=4, seed=1).data
        >>> (simulation.mu(data.assign(a=1)) - simulation.mu(data.assign(a=0))).shape
        (4,)
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
        r"""The population value of an estimand, shape (K,): one number for each of its components.

        .. math:: \psi = E[m(\mu, W)] / E[\text{normalizer}(W)]

        by quadrature, to about six digits for moments that are smooth between the edges of the covariates. A moment that jumps
        elsewhere is told by comparing two grids, and gives a warning.

        Examples
        --------
        >>> from riesz import datasets
        >>> from riesz.estimands.shifts import Mean
        >>> datasets.get("binary").truth(Mean([0, 1])).round(3)
        array([0.533, 1.533])
        """
        psi, size = self._expectation(estimand, self.grid)
        coarser, _ = self._expectation(estimand, self._coarser_grid)
        doubt = float(np.max(np.abs(psi - coarser) / np.maximum(size, 1e-300)))
        if doubt > INEXACT:
            warn(
                f"The truth of {self.name} for this estimand is good to a relative {doubt:.1g} or so: the moment jumps or "
                "bends between the points of the quadrature. Let policies switch at 0 (log_income at 10.5, age at 50), or "
                "average over a large draw instead."
            )
        return psi

    def riesz_representer(self, estimand: Estimand, frame: pd.DataFrame) -> Array:
        """The true Riesz representer at the rows of a frame, shape (K, n).

        Known for moments that move the treatment and nothing else; of a continuous treatment, by an amount that does not
        depend on the treatment. For ATT and ATC it is the representer of the numerator, the normalizer left aside.

        Examples
        --------
        >>> from riesz import datasets
        >>> simulation = datasets.get("continuous")
        >>> data = simulation.draw(n=5, seed=1).data
        >>> simulation.riesz_representer(simulation.questions["shift"], data).shape
        (2, 5)
        """
        name = self.assignment.treatment.name
        observed = frame.assign(**{name: self.assignment.column(frame[name])})

        def forms(frame: pd.DataFrame) -> list[LinearForm]:
            return [component.moment(Mu(), frame) for component in self._bind(estimand, frame)]

        return self.assignment.representer(forms, observed)

    @property
    def plain_formula(self) -> str:
        """The treatment and every covariate as it is: nothing about the shape of mu is given away."""
        treatment = self.assignment.treatment
        reference = f", reference={treatment.reference!r}" if treatment.categorical else ""
        return f"{self.outcome.name} ~ treat({treatment.name}{reference}) + ."

    def oracle(self, estimand: Estimand, draw: Draw) -> Array:
        r"""The one-step estimate from the true mu and the true Riesz representer, shape (K,): what no learner is asked to beat.

        .. math:: E_n[m(\mu, W) + \alpha(Z) \{Y - \mu(Z)\}] / E_n[\text{normalizer}(W)]

        NaN where the Riesz representer is not known.

        Examples
        --------
        >>> from riesz import datasets
        >>> simulation = datasets.get("binary")
        >>> bool(abs(simulation.oracle(simulation.questions["ate"], simulation.draw(n=4000, seed=1)) - 1) < 0.2)
        True
        """
        name = self.assignment.treatment.name
        data = draw.data.assign(**{name: self.assignment.column(draw.data[name])})
        components = self._bind(estimand, data)
        try:
            representer = self.riesz_representer(estimand, data)
        except EstimandError:
            return np.full(len(components), np.nan)
        residual = data[self.outcome.name].to_numpy(dtype=float) - draw.mu
        found = []
        for component, alpha in zip(components, representer, strict=True):
            scores = component.moment(Mu(), data).apply(self.mu) + alpha * residual
            found.append(np.mean(scores) / np.mean(np.asarray(component.normalizer(data), dtype=float)))
        return np.array(found)

    def _expectation(self, estimand: Estimand, grid: Grid) -> tuple[Array, Array]:
        """psi, and E|m| on the same scale, both of shape (K,)."""
        components = self._bind(estimand, grid.frame)
        m = np.stack([component.moment(Mu(), grid.frame).apply(self.mu) for component in components])
        normalizer = np.stack([np.asarray(component.normalizer(grid.frame), dtype=float) for component in components])
        share = grid.mean(normalizer)
        return grid.mean(m) / share, grid.mean(np.abs(m)) / np.abs(share)

    def _bind(self, estimand: Estimand, frame: pd.DataFrame) -> tuple[Component, ...]:
        treatment = self.assignment.treatment
        wanted = estimand.wanted(frame[treatment.name])
        has = "arms" if treatment.levels else "number"
        if wanted not in (has, "any"):
            kind = "has arms" if treatment.levels else "is continuous"
            raise EstimandError(
                f"`{estimand.verb}` cannot be asked of the simulation {self.name}, whose treatment `{treatment.name}` {kind}. "
                f"It answers {', '.join(self.questions)}, and custom moments."
            )
        sample = Sample(frame, treatment, np.arange(len(frame)), len(frame))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RieszWarning)  # advice on estimation; the truth is what it is
            return estimand.components(sample)
