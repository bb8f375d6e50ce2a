"""The neural embedding as a learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.check_settings import check_number
from riesz.learners.neural.covariates_only import ArmByArm, check_arms
from riesz.learners.neural.objectives.embedding import Embedding
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True, kw_only=True)
class NeuralEmbedding(ArmByArm):
    """NN embedding: features of the covariates are learned, and their mean embedding gives the plug-in.

    It learns only mu, so only the direct estimator is available, without a standard error. The treatment may have any number of
    arms. Settings are keyword arguments.

    Parameters
    ----------
    penalty : float or "loo"
        Ridge penalty of the last layer, per row and for standardised features; ``"loo"`` picks the one with the smallest
        leave-one-out error, leave-one-cluster-out when there are clusters.
    width, depth, stages, batch_size, weight_decay, momentum, bias_learning_rate, keep, inputs, networks, most_rows
    validation, redraw, device, side_by_side
        As for :class:`~riesz.RieszNet`; ``width`` is the number of features.

    Notes
    -----
    The authors train features through the closed form of the last layer, on all rows at once; here the last layer is trained
    along with them, batch by batch, and then replaced by the closed form on all training rows. By default one network per training
    set, with two layers of 128 units. It is trained with a learning rate of 0.001 for at most 300 epochs, until 30 epochs have not
    improved the validation loss. Nothing was tuned.

    References
    ----------
    Xu and Gretton (2022), "A neural mean embedding approach for back-door and front-door adjustment".

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> quick = riesz.NeuralEmbedding(width=16, stages=(riesz.Stage(1e-2, 5, 5),))
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=quick, folds=2)
    >>> fit.tidy()[["term", "estimate", "std_error"]].round(1)  # the plug-in, without a standard error
      term  estimate  std_error
    0  ATE       1.2        NaN
    """

    penalty: float | str = "loo"
    learns_rr: ClassVar[bool] = False
    families: ClassVar[tuple[str, ...]] = ("gaussian", "binomial")

    def _check_own_settings(self) -> None:
        check_number(self, "penalty", "a positive number or 'loo'", above=0.0, or_word="loo")

    def check(self, design: Design, rows: int) -> None:
        check_arms(design, rows, self.device, "NeuralEmbedding")
        if design.family == "binomial":
            raise LearnerError(
                "NeuralEmbedding is a least-squares method and its mu may leave [0, 1]; family='binomial' needs probabilities. "
                "Keep family='gaussian'; the effect on a 0/1 outcome has the same meaning."
            )

    def describe(self, family: str) -> str:
        return "NeuralEmbedding"

    def _known_functions(self, sample: Design) -> Array:
        return np.ones((1, len(sample)))

    def _outcome_layers(self) -> tuple[int, int]:
        return 0, 0

    def objective(self, family: str) -> Embedding:
        return Embedding(family, self.penalty)
