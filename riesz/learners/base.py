"""The contract between a learner and the rest.

A :class:`Learner` is frozen settings. ``fit`` takes all designs of a problem at once (folds x repeats), so that a learner may
train them together; closed forms loop. Each design has a seed of its own, and its fit must not depend on its company.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import pandas as pd

from riesz.design.design import Design
from riesz.errors import LearnerError, listing
from riesz.predictions import Predictions


class Watch(Protocol):
    """Somebody who is told how fitting goes on."""

    def done(self) -> object:
        """One more design is fitted."""

    def tell(self, **facts: object) -> object:
        """How training stands, such as the epoch."""


class Fit(ABC):
    """What a learner has learned from one design."""

    @abstractmethod
    def predict(self, design: Design) -> Predictions:
        """Mu and rr at the rows of a design, and at each of their readings."""

    @abstractmethod
    def details(self) -> Mapping[str, float]:
        """Numbers worth reporting about this fit, such as the penalty that was chosen."""

    @abstractmethod
    def history(self) -> pd.DataFrame:
        """The course of training, one row an epoch; empty for closed forms."""


def need_covariates(design: Design, who: str) -> None:
    """Refuse a formula that hides covariates from a learner that sees only columns without the treatment."""
    if design.hidden:
        raise LearnerError(
            f"{listing(design.hidden)} enters the formula only together with the treatment, so {who} would not see it. Let it "
            "enter by itself, too: treat(a) * x instead of treat(a) + treat(a):x. Or use learner='linear'."
        )


class Learner(ABC):
    """Settings of a way to learn mu and rr; holds no state.

    Attributes
    ----------
    learns_rr : bool
        False for a learner of mu alone. Its predictions hold :func:`~riesz.predictions.no_representer`, the direct estimator is
        all it serves, and results say that there is no standard error and why.
    one_thread : bool
        True when a fit is many small products, for which several threads would mostly wait for each other: libraries then get one
        while fits run, and ``n_jobs`` is for further cores.
    """

    learns_rr: ClassVar[bool] = True
    one_thread: ClassVar[bool] = False

    def weighs(self, family: str) -> bool:
        """Whether E_n[rr y] estimates the parameter; False where rr was learned for the errors of a logit alone."""
        return True

    def usual_repeats(self, units: int) -> int:
        """How often cross-fitting is repeated when nobody says, with so many rows (clusters, if there are any).

        More than once for a learner whose fits depend much on chance.
        """
        return 1

    def seconds(self, design: Design, rows: int) -> float:
        """About how long one fit on ``rows`` rows takes on one core, where many columns make it long; 0 when that need not be said.

        Above a minute for all fits, a warning says so before the first one.
        """
        return 0.0

    @abstractmethod
    def check(self, design: Design, rows: int) -> None:
        """Raise :class:`~riesz.errors.LearnerError` when the full design, or training sets as small as ``rows``, cannot do."""

    @abstractmethod
    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        """Fit every design; the i-th fit depends on the i-th design and seed only. Tell ``watch`` after each."""

    @abstractmethod
    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        """What a reader of the summary should know about this learner on this design; often nothing.

        Parameters
        ----------
        design : Design
            The full sample.
        details : pandas.DataFrame
            The details of every fit, one row each.
        """

    def store(self, fit: Fit) -> object:
        """What a file holds in place of a fit: a dataclass with the decorator :func:`~riesz.storage.coding.stored`.

        By default the fit itself. A fit that is not such a dataclass leaves its details and history in the file, and a fit that is
        read from it cannot predict new rows.
        """
        return fit

    def restore(self, content: Sequence[Any], sample: Design) -> Sequence[Fit]:
        """The fits of one cross-fit to a sample, from what :meth:`store` returned for each; a ValueError if they make no sense."""
        return content

    @abstractmethod
    def describe(self, family: str) -> str:
        """A short text for the summary."""
