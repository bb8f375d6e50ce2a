r"""Distributions of a simulation's treatment given the covariates, and the Riesz representers that follow from them.

A moment is a sum of readings :math:`w(A, X) f(d(A, X), X)`, or of derivatives of f there. If only the treatment is changed, each
reading's share in the representer is a closed form of the distribution of A given X, whatever the estimand:

- arms: :math:`\sum_j p_j(x) w(j, x) 1\{d(j, x) = a\} / p_a(x)`, summed over the arms j from which d may lead to a;
- a Gaussian treatment shifted by :math:`\delta(x)`: :math:`w(x)\, p(a - \delta | x) / p(a | x)`, for a derivative
  :math:`-w(x)\, p'(a - \delta | x) / p(a | x)`.

For example the ATE gives :math:`a/p - (1-a)/(1-p)` and the ADE :math:`(a - E[A|x]) / Var(A|x)`. Ratio estimands (ATT, ATC)
give the representer of their numerator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr

from riesz.arrays import Array
from riesz.errors import EstimandError
from riesz.estimands.linear_form import LinearForm, Reading
from riesz.estimands.treatment import Treatment

Forms = Callable[[pd.DataFrame], Sequence[LinearForm]]


class Assignment(ABC):
    """The distribution of the treatment given the covariates.

    ``draw`` and ``nodes`` take frames of covariates, ``representer`` takes frames of covariates and treatment.
    """

    @property
    @abstractmethod
    def treatment(self) -> Treatment:
        """The treatment as estimands use it, with the arms in the order of a fit."""

    @abstractmethod
    def draw(self, frame: pd.DataFrame, latent: Array) -> npt.NDArray[Any]:
        """Treatments computed from standard normal numbers, shape (n,); correlated numbers give correlated treatments."""

    @abstractmethod
    def nodes(self, frame: pd.DataFrame, more: int) -> tuple[npt.NDArray[Any], Array]:
        """Treatments and their probabilities in each row, both of shape (n, q), with ``more`` additional points."""

    @abstractmethod
    def column(self, values: Any) -> Any:
        """Treatment values with the type that estimands expect: float64 or categorical."""

    @abstractmethod
    def representer(self, forms: Forms, frame: pd.DataFrame) -> Array:
        """The Riesz representer of each moment at the rows of a frame, shape (K, n).

        Parameters
        ----------
        forms : callable
            ``frame -> linear forms``, one per component of the estimand.
        frame : pandas.DataFrame
            Covariates, and the treatment as ``column`` returns it.
        """


@dataclass(frozen=True)
class Arms(Assignment):
    """A treatment with arms.

    Parameters
    ----------
    name : str
        Its column.
    levels : tuple
        The reference, then the others in sorted order, as in a fit.
    probabilities : callable
        ``frame -> (n, arms)``.
    """

    name: str
    levels: tuple[Any, ...]
    probabilities: Callable[[pd.DataFrame], Array]

    @property
    def labels(self) -> bool:
        """Whether the arms are strings, not numbers."""
        return isinstance(self.levels[0], str)

    @property
    def treatment(self) -> Treatment:
        return Treatment(self.name, self.levels, self.labels)

    def draw(self, frame: pd.DataFrame, latent: Array) -> npt.NDArray[Any]:
        above = ndtr(latent)[:, None] > self.probabilities(frame).cumsum(axis=1)[:, :-1]
        arms: npt.NDArray[Any] = np.asarray(self.levels)[above.sum(axis=1)]
        return arms if self.labels else np.asarray(arms, dtype=np.int64)

    def nodes(self, frame: pd.DataFrame, more: int) -> tuple[npt.NDArray[Any], Array]:
        p = self.probabilities(frame)
        return np.broadcast_to(np.asarray(self.levels), p.shape), p

    def column(self, values: Any) -> Any:
        if not self.labels:
            return np.asarray(values, dtype=float)
        return pd.Categorical(np.asarray(values, dtype=object), categories=list(self.levels))

    def representer(self, forms: Forms, frame: pd.DataFrame) -> Array:
        treatment, p = self.treatment, self.probabilities(frame)
        observed = np.asarray(frame[self.name])
        p_observed = sum(p[:, j] * treatment.indicator(frame, level) for j, level in enumerate(self.levels))

        def share(reading: Reading, source: pd.DataFrame, p_source: Array) -> Array:
            _check_only_treatment_changed(reading, source, self.name)
            if reading.wrt is not None:
                raise EstimandError(
                    f"The moment differentiates along `{self.name}`, which has arms; expected values of mu."
                )
            reaches_observed = np.asarray(reading.frame[self.name]) == observed
            return np.asarray(p_source * reading.weight * reaches_observed / p_observed)

        total: Any = 0.0
        for j, level in enumerate(self.levels):
            source = treatment.set(frame, level)
            total = total + np.stack([sum(share(r, source, p[:, j]) for r in form.readings) for form in forms(source)])
        return np.asarray(total, dtype=float)


@dataclass(frozen=True)
class Gaussian(Assignment):
    """A continuous treatment, normal given the covariates.

    Parameters
    ----------
    name : str
        Its column.
    mean, sd : callable
        ``frame -> (n,)``.
    size : int
        Gauss-Hermite points per row.
    """

    name: str
    mean: Callable[[pd.DataFrame], Any]
    sd: Callable[[pd.DataFrame], Any]
    size: int = 24

    @property
    def treatment(self) -> Treatment:
        return Treatment(self.name, (), False)

    def draw(self, frame: pd.DataFrame, latent: Array) -> npt.NDArray[Any]:
        return np.asarray(self.mean(frame) + self.sd(frame) * latent)

    def nodes(self, frame: pd.DataFrame, more: int) -> tuple[npt.NDArray[Any], Array]:
        z, w = np.polynomial.hermite_e.hermegauss(self.size + more)
        a = np.asarray(self.mean(frame))[:, None] + np.asarray(self.sd(frame))[:, None] * z
        return a, np.broadcast_to(w / w.sum(), a.shape)

    def column(self, values: Any) -> Array:
        return np.asarray(values, dtype=float)

    def representer(self, forms: Forms, frame: pd.DataFrame) -> Array:
        a, m, s = self.column(frame[self.name]), np.asarray(self.mean(frame)), np.asarray(self.sd(frame))
        observed = forms(frame)
        for reading in (reading for form in observed for reading in form.readings):
            _check_only_treatment_changed(reading, frame, self.name)
        for z in (-6.0, -2.0, 0.0, 2.0, 6.0):
            self._check_shifts(observed, frame, forms, frame.assign(**{self.name: m + s * z}))

        def share(reading: Reading) -> Array:
            delta = self.column(reading.frame[self.name]) - a
            z, moved = (a - m) / s, (a - delta - m) / s
            ratio = np.exp((z**2 - moved**2) / 2)
            return np.asarray(reading.weight * ratio * (1.0 if reading.wrt is None else moved / s))

        return np.stack([np.sum([share(reading) for reading in form.readings], axis=0) for form in observed])

    def _check_shifts(
        self, observed: Sequence[LinearForm], frame: pd.DataFrame, forms: Forms, probe: pd.DataFrame
    ) -> None:
        """Refuse moments whose weights or shifts depend on the treatment."""
        a, a_probe = self.column(frame[self.name]), self.column(probe[self.name])
        for form, form_probe in zip(observed, forms(probe), strict=True):
            for reading, other in zip(form.readings, form_probe.readings, strict=True):
                delta, delta_probe = reading.frame[self.name] - a, other.frame[self.name] - a_probe
                along = reading.wrt in (None, self.name)
                if not (along and np.allclose(delta, delta_probe) and np.allclose(reading.weight, other.weight)):
                    raise EstimandError(
                        f"The Riesz representer is known only for moments whose shifts of `{self.name}` and weights of rows depend "
                        f"on the covariates alone; this one depends on `{self.name}` itself. Its `truth` can still be computed."
                    )


def _check_only_treatment_changed(reading: Reading, frame: pd.DataFrame, treatment: str) -> None:
    changed = [name for name in frame.columns if name != treatment and not reading.frame[name].equals(frame[name])]
    if changed:
        raise EstimandError(
            f"The Riesz representer is known only for moments that change the treatment `{treatment}` alone; this one also changes "
            f"`{changed[0]}`. Its `truth` can still be computed."
        )
