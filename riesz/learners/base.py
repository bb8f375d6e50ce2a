"""The contract between a learner and the rest.

A :class:`Learner` is frozen settings. ``fit`` takes all designs of a problem at once (folds x repeats), so that a learner may
train them together; closed forms loop. Each design has its own seed, and its fit must not depend on the other designs.

A learner implements ``fit``, and its fits ``predict``; all other methods are hooks with a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import pandas as pd

from riesz.design.design import Design
from riesz.errors import LearnerError, listing
from riesz.families import find_family
from riesz.predictions import Predictions
from riesz.syntax.check_arguments import CheckedSettings


class Watch(Protocol):
    """Receives progress updates."""

    def done(self) -> object:
        """Called after each design that is fitted."""

    def tell(self, **facts: object) -> object:
        """Called with the state of training, such as the epoch."""


class Fit(ABC):
    """What a learner has learned from one design: the functions mu and rr."""

    @abstractmethod
    def predict(self, design: Design) -> Predictions:
        """Evaluate mu at the rows of a design and at each of their readings, and each rr where its component reads mu."""

    def details(self) -> Mapping[str, float]:
        """Numbers to report about this fit, such as the penalty that was chosen."""
        return {}

    def history(self) -> pd.DataFrame:
        """The course of training, one row per epoch; empty for closed forms."""
        return pd.DataFrame()


def need_covariates(design: Design, who: str) -> None:
    """Refuse covariates that enter only with the treatment, for learners that use the columns without the treatment."""
    if design.hidden:
        raise LearnerError(
            f"{listing(design.hidden)} enters the formula only together with the treatment, so {who} would not use it. Let it "
            "enter by itself, too: treat(a) * x instead of treat(a) + treat(a):x. Or use learner='linear'."
        )


class Learner(CheckedSettings, ABC):
    """Settings of a way to learn mu and rr; holds no state.

    Subclasses are frozen dataclasses. Those in ``riesz.learners.LEARNERS`` have a name, as in ``learner="linear"``. Files
    of fits hold a learner if it has the decorator :func:`~riesz.storage.coding.stored`.

    Attributes
    ----------
    learns_rr : bool
        False for a learner of mu alone. Its predictions then hold :func:`~riesz.predictions.no_representer`, only the direct
        estimator can be used, and results say why there is no standard error.
    families : tuple of str
        The kinds of :mod:`riesz.families` in which it can learn mu; others are refused before training.
    one_thread : bool
        True if a fit consists of many small products, for which several threads would mostly wait for each other: libraries then
        use one thread while fits run, and ``n_jobs`` uses further cores.
    """

    learns_rr: ClassVar[bool] = True
    families: ClassVar[tuple[str, ...]] = ("gaussian", "binomial")
    one_thread: ClassVar[bool] = False

    @classmethod
    def example(cls) -> Learner:
        """A learner that fits quickly, for tests; by default with the default settings."""
        return cls()

    def candidates(self) -> tuple[Learner, ...]:
        """The learners that are cross-fitted and then combined by stacking; by default this learner alone."""
        return (self,)

    def weighs(self, family: str) -> bool:
        """Whether E_n[rr y] estimates the parameter; False if rr was learned only for the errors of an index."""
        return True

    def usual_repeats(self, units: int) -> int:
        """Default number of repeats of cross-fitting for ``units`` rows or clusters; above 1 if fits depend much on the seed."""
        return 1

    def seconds(self, design: Design, rows: int) -> float:
        """Expected seconds of one fit on ``rows`` rows on one core if the design has many columns; otherwise 0.

        If all fits together take more than a minute, a warning says so before the first one.
        """
        return 0.0

    def check(self, design: Design, rows: int) -> None:  # a hook: by default every design can be used
        """Raise :class:`~riesz.errors.LearnerError` if the full design, or training sets as small as ``rows``, cannot be used."""

    @abstractmethod
    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        """Fit every design; the i-th fit depends only on the i-th design and seed. Call ``watch.done()`` after each."""

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        """Notes for the summary about this learner on this design; often none.

        Parameters
        ----------
        design : Design
            The full sample.
        details : pandas.DataFrame
            The details of every fit, one row each.
        """
        return []

    def store(self, fit: Fit) -> object:
        """What a file holds in place of a fit: a dataclass with the decorator :func:`~riesz.storage.coding.stored`.

        By default the fit itself. Of a fit that is not such a dataclass the file holds only details and history, and the loaded
        fit cannot predict new rows.
        """
        return fit

    def restore(self, content: Sequence[Any], sample: Design) -> Sequence[Fit]:
        """The fits of one cross-fit to a sample, from what :meth:`store` returned for each; raises ValueError if it is invalid."""
        return content

    def describe(self, family: str) -> str:
        """A short text for the summary; by default the name of the class."""
        return type(self).__name__


def need_family(learner: Learner, family: str) -> None:
    """Refuse an outcome in a family that the learner does not learn."""
    if find_family(family).kind not in learner.families:
        known = ", ".join(map(repr, learner.families))
        raise LearnerError(
            f"{learner.describe(family)} does not learn mu with family={family!r}; expected one of {known}. Use another learner, "
            "such as learner='linear', or family='gaussian' for the mean of any outcome."
        )
