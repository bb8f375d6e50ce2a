"""How networks are trained: stages, steps and what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from riesz.errors import LearnerError

USUAL_MOMENTUM = 0.9
Keep = Literal["best", "each", "last"]


@dataclass(frozen=True)
class Stage:
    """One stage of training.

    Attributes
    ----------
    learning_rate : float
    epochs : int
        At most.
    patience : int, optional
        Epochs without a better validation loss before the stage ends. By default 10, and fewer where an epoch has many steps:
        from 800 rows on it falls with the root of their number, to 5 at 3200 and 3 in the end.
    plateau : int, optional
        Epochs without a better validation loss before the learning rate is halved; by default it stays.

    Examples
    --------
    >>> import riesz
    >>> riesz.MADNet(stages=(riesz.Stage(1e-3, 50, 10), riesz.Stage(1e-4, 50, 10))).stages[1].learning_rate
    0.0001
    """

    learning_rate: float
    epochs: int
    patience: int | None = None
    plateau: int | None = None

    def __post_init__(self) -> None:
        if self.plateau is not None and self.plateau < 1:
            raise LearnerError(f"{self}: wanted a plateau of at least one epoch, or None.")
        whole = self.patience is None or (isinstance(self.patience, int) and not isinstance(self.patience, bool))
        if not self.learning_rate > 0 or self.epochs < 1 or not whole or (self.patience or 0) < 0:
            raise LearnerError(
                f"{self}: wanted a positive learning rate, at least one epoch and a patience of 0 or more epochs, or None."
            )

    def waits(self, rows: int) -> int:
        """The patience with a training set of so many rows, those for validation among them."""
        return round(min(10.0, max(3.0, 10.0 * (800 / rows) ** 0.5))) if self.patience is None else self.patience


@dataclass(frozen=True)
class Schedule:
    """How members are trained.

    Attributes
    ----------
    stages : tuple of Stage
    batch_size : int
    weight_decay : float
        Decoupled, as in AdamW.
    momentum : float
        The share of its last average that Adam's average of the gradients keeps at each step.
    bias_learning_rate : float or None
        Of the output biases of the outcome heads but the first, which then have Adam's usual momentum and no weight decay; None
        is that of the stage.
    keep : {"best", "each", "last"}
        Which weights are kept: those with the best validation loss, restored at the end of each stage; for mu those with
        the best outcome loss and for rr those with the best rest, since one often goes on learning when the other has begun
        to overfit; or the last.
    """

    stages: tuple[Stage, ...]
    batch_size: int
    weight_decay: float
    momentum: float
    bias_learning_rate: float | None
    keep: Keep
