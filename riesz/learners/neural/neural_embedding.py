r"""A learned representation whose mean embedding is the plug-in (Xu and Gretton 2022).

mu is bilinear in features of the treatment and learned features of the covariates,

.. math:: \mu(a, x) = \theta'\, (\phi(a) \otimes (1, \psi(x))),

so that :math:`E_n[\mu(a, X)] = \theta' (\phi(a) \otimes E_n[(1, \psi(X))])`: the covariates' distribution enters by the mean of
:math:`\psi` alone, its embedding. With arms :math:`\phi` are the arms' indicators. :math:`\psi` is the body of a network that is
trained with one linear outcome head an arm; then :math:`\theta` is solved on all training rows as a ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.design import Base, Design
from riesz.design.moment import Evaluation
from riesz.errors import LearnerError
from riesz.learners.checks import check_number
from riesz.learners.companion.splines import MOST_ROWS
from riesz.learners.linear.ridge import choose_outcome_penalty, make_basis
from riesz.learners.neural.comparators import ArmByArm
from riesz.learners.neural.covariates_only import check_arms
from riesz.learners.neural.engine.batching import Feed
from riesz.learners.neural.engine.fit import NetworkFit
from riesz.learners.neural.engine.network import Shape
from riesz.learners.neural.engine.reading import Reading
from riesz.learners.neural.engine.representation import as_columns
from riesz.learners.neural.objectives.outcome import Outcome
from riesz.learners.propensity.representer import arm_numbers
from riesz.predictions import Predictions, no_representer


@dataclass(frozen=True, kw_only=True)
class NeuralEmbedding(ArmByArm):
    """NN embedding: features of the covariates are learned, and their mean embedding gives the plug-in.

    It learns mu alone: the direct estimator is all it serves, without a standard error. The treatment may have any number of
    arms. Settings are keywords.

    Parameters
    ----------
    penalty : float or "loo"
        Ridge penalty of the last layer, per row and for standardised features; ``"loo"`` picks the one with the smallest
        leave-one-out error, leave-one-cluster-out when there are clusters.
    width, depth, stages, batch_size, weight_decay, momentum, bias_learning_rate, keep, inputs, networks
    validation, redraw, device, side_by_side
        As for :class:`~riesz.RieszNet`; ``width`` is the number of features.

    Notes
    -----
    The authors train features through the closed form of the last layer, on all rows at once; here the last layer is trained
    along with them, batch by batch, and then replaced by the closed form on all training rows. By default one network a training
    set, with two layers of 128 units; a learning rate of 0.001 for at most 300 epochs, until 30 have brought no better validation
    loss. Nothing was tuned.

    References
    ----------
    Xu and Gretton (2022), "A neural mean embedding approach for back-door and front-door adjustment".

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> quick = riesz.NeuralEmbedding(width=16, stages=(riesz.Stage(1e-2, 5, 5),))
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=quick, folds=2)
    >>> fit.model.settings.estimator, bool(fit.bse.isna().all())
    ('direct', True)
    """

    penalty: float | str = "loo"
    learns_rr: ClassVar[bool] = False

    def _check_own_settings(self) -> None:
        check_number(self, "penalty", "a positive number or 'loo'", above=0.0, or_word="loo")

    def check(self, design: Design, rows: int) -> None:
        check_arms(design, rows, self.device, "NeuralEmbedding")
        if design.base.family == "binomial":
            raise LearnerError(
                "NeuralEmbedding is a least-squares method and its mu may leave [0, 1]; family='binomial' wants probabilities. "
                "Leave family='gaussian': the effect on a 0/1 outcome means the same."
            )

    def describe(self, family: str) -> str:
        return "NeuralEmbedding"

    def _given(self, base: Base) -> Array:
        return np.ones((1, len(base.y)))

    def _shape(self, feed: Feed, components: int) -> Shape:
        return Shape(feed.inputs, 0, feed.heads, self.width, self.depth, 0, 0)

    def _objective(self, family: str) -> Outcome:
        return Outcome(family)

    def _reading(self, network: NetworkFit, design: Design, seed: int) -> EmbeddingReading:
        rows = np.arange(len(design.base.y))[design.rows]
        rows = rows[draw_part(len(rows), MOST_ROWS, seed)]
        made = as_columns(design.base, rows, _features(network, design.take(rows)))
        basis = make_basis(made, made.weights, made.y[None], seed=seed)
        b = basis.projections[:, 0]
        penalty = self.penalty
        if penalty == "loo":
            penalty, _ = choose_outcome_penalty(made, basis, made.y, b, basis.penalties)
        return EmbeddingReading(basis.solve(b, float(penalty)))


@dataclass(frozen=True)
class EmbeddingReading(Reading):
    """Mu as a linear function of the product features.

    Attributes
    ----------
    coefficients : ndarray, shape (1 + F,)
        theta: the intercept, then the features.
    """

    coefficients: Array

    def read(self, network: NetworkFit, design: Design) -> Predictions:
        first, theta = self.coefficients[0], self.coefficients[1:]
        found = _features(network, design).map(lambda values: np.tensordot(theta, values, 1))
        mu = Evaluation(first + found.observed, first + found.values, found.slopes)
        return Predictions(mu, no_representer(design), scale_free=False)


def _features(network: NetworkFit, design: Design) -> Evaluation:
    """Indicators of the arms but the first, and the products of all indicators with psi, shape (F, n)."""
    base, rows = design.base, np.arange(len(design.base.y))[design.rows]
    _, psi = network.functions(design, representation=True)
    arms = base.treatment.shape[1] + 1

    def product(values: Array, treatment: Array, level: float) -> Array:
        here = _indicators(treatment[rows], arms)
        return np.concatenate([level * here[1:], *(own * values for own in here)])

    readings = list(enumerate(base.moment.points))
    return Evaluation(
        product(psi.observed, base.treatment, 1.0),
        np.stack([product(psi.values[:, k], point.treatment, 1.0) for k, point in readings], axis=1),
        np.stack([product(psi.slopes[:, k], point.treatment, 0.0) for k, point in readings], axis=1),
    )


def _indicators(treatment: Array, arms: int) -> Array:
    return np.asarray(arm_numbers(treatment) == np.arange(arms)[:, None], dtype=float)
