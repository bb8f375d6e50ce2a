"""How networks are trained: stages, steps and what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from riesz.errors import LearnerError
from riesz.learners.check_settings import plain
from riesz.storage.coding import stored
from riesz.syntax.check_arguments import CheckedSettings

USUAL_MOMENTUM = 0.9
Keep = Literal["best", "each", "last"]


@stored
@dataclass(frozen=True)
class Stage(CheckedSettings):
    """One stage of training.

    Attributes
    ----------
    learning_rate : float
    epochs : int
        At most.
    patience : int, optional
        Epochs without a better validation loss before the stage ends. By default 10 with up to 800 rows and fewer with more rows,
        since an epoch then has more steps: it falls with the square root of their number, to 5 at 3200 rows, and is at least 3.
    plateau : int, optional
        The learning rate is halved after more than this number of epochs without a better validation loss, as torch's
        ``ReduceLROnPlateau`` does with that patience. By default the rate does not change.
    min_delta : float
        By how much a validation loss must be smaller to count as better, for ``patience`` and for the weights that are kept.

    Examples
    --------
    Two stages, and the last epoch of each:

    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> stages = (riesz.Stage(1e-2, epochs=4), riesz.Stage(1e-3, epochs=2))
    >>> quick = riesz.MADNet(width=8, head_width=4, networks=1, repeats=1, stages=stages)
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=quick, folds=2)
    >>> print(fit.history.groupby("stage")["epoch"].max().to_string())
    stage
    1.0    4.0
    2.0    6.0
    """

    learning_rate: float
    epochs: int
    patience: int | None = None
    plateau: int | None = None
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "epochs", "patience", "plateau", "min_delta"):
            plain(self, name)
        rate: object = self.learning_rate
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate < np.inf:
            raise LearnerError(f"{self}: learning_rate must be a positive number.")
        least_gain: object = self.min_delta
        if isinstance(least_gain, bool) or not isinstance(least_gain, (int, float)) or not 0 <= least_gain < np.inf:
            raise LearnerError(f"{self}: min_delta must be a number, 0 or larger.")
        for name, least in (("epochs", 1), ("patience", 0), ("plateau", 1)):
            got = getattr(self, name)
            if got is None and name != "epochs":
                continue
            if isinstance(got, bool) or not isinstance(got, int) or got < least:
                instead = "" if name == "epochs" else ", or None"
                raise LearnerError(f"{self}: {name} must be a whole number, {least} or larger{instead}.")

    def waits(self, rows: int) -> int:
        """The patience for a training set of ``rows`` rows, including validation rows."""
        return round(min(10.0, max(3.0, 10.0 * (800 / rows) ** 0.5))) if self.patience is None else self.patience


@dataclass(frozen=True)
class Game:
    """How the adversary of each network is trained beside it: both make a step at the same time, and both steps are optimistic.

    An optimistic step is the usual one plus its difference from the one before, which damps the circling of two players around
    their saddle point (Daskalakis, Ilyas, Syrgkanis and Zeng 2018, "Training GANs with optimism").

    Attributes
    ----------
    pace : float
        The adversary's learning rate, as a multiple of the network's.
    weight_decay : float
        The adversary's, as in AdamW.
    """

    pace: float
    weight_decay: float


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
        Adam's beta_1: the share that the running average of the gradients keeps at each step.
    bias_learning_rate : float or None
        Learning rate of the output biases of all outcome heads but the first, which then have Adam's usual momentum and no weight
        decay; with None it is that of the stage.
    keep : {"best", "each", "last"}
        Which weights are kept: those with the best validation loss, restored at the end of each stage; for mu those with
        the best outcome loss and for rr those with the best remaining loss, since one often still improves when the other
        has begun to overfit; or the last.
    game : Game or None
        None if networks have no adversaries.
    """

    stages: tuple[Stage, ...]
    batch_size: int
    weight_decay: float
    momentum: float
    bias_learning_rate: float | None
    keep: Keep
    game: Game | None = None
