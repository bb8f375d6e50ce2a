"""The contract of an estimator: from predictions and design to one score per row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.predictions import Predictions
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Scores:
    r"""What an estimator returns.

    Attributes
    ----------
    values : ndarray, shape (K, n)
        The score of each row.
    residuals : ndarray, shape (K, n)
        Its part :math:`\alpha (y - \mu)`, the only part that varies when the sample itself is the target.
    """

    values: Array
    residuals: Array


@dataclass(frozen=True)
class Estimator:
    """An estimator and what tables and checks need to know about it.

    Attributes
    ----------
    scores : callable
        ``(predictions, design) -> Scores``, on the full sample.
    words : str
        A short description for tables, such as ``"one-step"``.
    debiased : bool
        Whether the scores are those of an influence function, so that their variance gives a valid standard error.
    needs_rr : bool
        Whether it needs a Riesz representer, so that it cannot be used with a learner of mu alone.
    weighs : bool
        Whether it weights the outcome by rr, so that rr must represent the moment on all functions.
    of_means : bool
        Whether mu must be a mean of the outcome, not a quantile.
    """

    scores: Callable[[Predictions, Design], Scores]
    words: str
    debiased: bool
    needs_rr: bool = True
    weighs: bool = False
    of_means: bool = False

    def __call__(self, predictions: Predictions, design: Design) -> Scores:
        """The scores."""
        return self.scores(predictions, design)
