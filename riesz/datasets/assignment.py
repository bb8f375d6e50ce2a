r"""How the treatment of a simulation comes about given the covariates, and the Riesz representers that follow from it.

A moment is a sum of readings :math:`w(A, X) f(d(A, X), X)`, or of derivatives of f there. When only the treatment is moved,
each reading's share in the representer is a closed form of the distribution of A given X, whatever the estimand is called:

- arms: :math:`\sum_j p_j(x) w(j, x) 1\{d(j, x) = a\} / p_a(x)`, summed over the arms j someone may come from;
- a Gaussian treatment moved by :math:`\delta(x)`: :math:`w(x)\, p(a - \delta | x) / p(a | x)`, for a derivative
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

    Frames come in with the covariates (``draw``, ``nodes``) or with covariates and treatment (``column``, ``representer``).
    """

    @property
    @abstractmethod
    def treatment(self) -> Treatment:
        """The treatment as estimands know it; the order of the arms is that of a fit."""

    @abstractmethod
    def draw(self, frame: pd.DataFrame, latent: Array) -> npt.NDArray[Any]:
        """Treatments from standard normal numbers, shape (n,); correlated numbers give correlated treatments."""

    @abstractmethod
    def nodes(self, frame: pd.DataFrame, more: int) -> tuple[npt.NDArray[Any], Array]:
        """Treatments and their probabilities for each row, both of shape (n, q), ``more`` of them than usual."""

    @abstractmethod
    def column(self, values: Any) -> Any:
        """Treatment values with the type that estimands want: float64 or categorical."""

    @abstractmethod
    def representer(self, forms: Forms, frame: pd.DataFrame) -> Array:
        """The Riesz representer of each moment at the rows of a frame, shape (K, n).

        Parameters
        ----------
        forms : callable
            Binds the estimand to a frame and gives the linear form of each of its components.
        frame : pandas.DataFrame
            Covariates, and the treatment as ``column`` gives it.
        """


@dataclass(frozen=True)
class Arms(Assignment):
    """A treatment with arms.

    Parameters
    ----------
    name : str
        Its column.
    levels : tuple
        The reference first, then the others in sorted order, as a fit has them.
    probabilities : callable
        ``frame -> (n, arms)``.
    """

    name: str
    levels: tuple[Any, ...]
    probabilities: Callable[[pd.DataFrame], Array]

    @property
    def labels(self) -> bool:
        """Whether the arms are text and not numbers."""
        return isinstance(self.levels[0], str)

    @property
    def treatment(self) -> Treatment:
        return Treatment(self.name, self.levels, self.labels)

    def draw(self, frame: pd.DataFrame, latent: Array) -> npt.NDArray[Any]:
        reached = ndtr(latent)[:, None] > self.probabilities(frame).cumsum(axis=1)[:, :-1]
        drawn: npt.NDArray[Any] = np.asarray(self.levels)[reached.sum(axis=1)]
        return drawn if self.labels else np.asarray(drawn, dtype=np.int64)

    def nodes(self, frame: pd.DataFrame, more: int) -> tuple[npt.NDArray[Any], Array]:
        p = self.probabilities(frame)
        return np.broadcast_to(np.asarray(self.levels), p.shape), p

    def column(self, values: Any) -> Any:
        if not self.labels:
            return np.asarray(values, dtype=float)
        return pd.Categorical(np.asarray(values, dtype=object), categories=list(self.levels))

    def representer(self, forms: Forms, frame: pd.DataFrame) -> Array:
        treatment, p = self.treatment, self.probabilities(frame)
        here = np.asarray(frame[self.name])
        p_here = sum(p[:, j] * treatment.indicator(frame, level) for j, level in enumerate(self.levels))

        def share(reading: Reading, source: pd.DataFrame, p_source: Array) -> Array:
            _need_only_treatment_moved(reading, source, self.name)
            if reading.wrt is not None:
                raise EstimandError(
                    f"The moment differentiates along `{self.name}`, which has arms; wanted values of mu."
                )
            lands_here = np.asarray(reading.frame[self.name]) == here
            return np.asarray(p_source * reading.weight * lands_here / p_here)

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
        Gauss-Hermite points for each row.
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
        own = forms(frame)
        for reading in (reading for form in own for reading in form.readings):
            _need_only_treatment_moved(reading, frame, self.name)
        for z in (-6.0, -2.0, 0.0, 2.0, 6.0):
            self._need_shifts(own, frame, forms, frame.assign(**{self.name: m + s * z}))

        def share(reading: Reading) -> Array:
            delta = self.column(reading.frame[self.name]) - a
            z, moved = (a - m) / s, (a - delta - m) / s
            ratio = np.exp((z**2 - moved**2) / 2)
            return np.asarray(reading.weight * ratio * (1.0 if reading.wrt is None else moved / s))

        return np.stack([np.sum([share(reading) for reading in form.readings], axis=0) for form in own])

    def _need_shifts(self, own: Sequence[LinearForm], frame: pd.DataFrame, forms: Forms, probe: pd.DataFrame) -> None:
        """Refuse moments whose weights or displacements change when the treatment does."""
        a, a_probe = self.column(frame[self.name]), self.column(probe[self.name])
        for form, form_probe in zip(own, forms(probe), strict=True):
            for reading, other in zip(form.readings, form_probe.readings, strict=True):
                delta, delta_probe = reading.frame[self.name] - a, other.frame[self.name] - a_probe
                along = reading.wrt in (None, self.name)
                if not (along and np.allclose(delta, delta_probe) and np.allclose(reading.weight, other.weight)):
                    raise EstimandError(
                        f"The Riesz representer is known for moments that shift `{self.name}` by an amount, and weigh rows by a "
                        f"number, that depend on the covariates alone; this one depends on `{self.name}` itself. Its `truth` "
                        "can still be asked for."
                    )


def _need_only_treatment_moved(reading: Reading, frame: pd.DataFrame, treatment: str) -> None:
    moved = [name for name in frame.columns if name != treatment and not reading.frame[name].equals(frame[name])]
    if moved:
        raise EstimandError(
            f"The Riesz representer is known for moments that move the treatment `{treatment}` only; this one also moves "
            f"`{moved[0]}`. Its `truth` can still be asked for."
        )
