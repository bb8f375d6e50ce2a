r"""The neural embedding's objective: the outcome's loss, then a last layer that is solved in closed form.

mu is bilinear in features of the treatment and learned features of the covariates,

.. math:: \mu(a, x) = \theta'\, (\phi(a) \otimes (1, \psi(x))),

so that :math:`E_n[\mu(a, X)] = \theta' (\phi(a) \otimes E_n[(1, \psi(X))])`: the covariates' distribution enters only through the
mean of :math:`\psi`, its embedding. With arms, :math:`\phi` are the indicators of the arms. :math:`\psi` is the body of a network
that is trained with one linear outcome head per arm; then :math:`\theta` is solved on all training rows as a ridge regression.

References
----------
Xu and Gretton (2022), "A neural mean embedding approach for back-door and front-door adjustment".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riesz.arrays import Array
from riesz.crossfit.folds import draw_part
from riesz.design.arm_numbers import arm_numbers
from riesz.design.derived import with_columns
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.expected_time import MOST_ROWS
from riesz.learners.linear.ridge import choose_outcome_penalty, make_basis
from riesz.learners.neural.engine.fit import NetworkFit
from riesz.learners.neural.objectives.outcome import OutcomeLoss
from riesz.predictions import Predictions, no_representer


@dataclass(frozen=True)
class Embedding(OutcomeLoss):
    """Settings of the objective.

    Attributes
    ----------
    family : {"gaussian"}
    penalty : float or "loo"
        Ridge penalty of theta.
    """

    penalty: float | str

    def solve(self, network: NetworkFit, design: Design, seed: int) -> Array:
        """Theta: the intercept, then the product features, shape (1 + F,)."""
        part = design.take(draw_part(len(design), MOST_ROWS, seed))
        columns = with_columns(part, _features(network, part))
        basis = make_basis(columns, columns.weights, columns.y[None], seed=seed)
        b = basis.projections[:, 0]
        penalty = self.penalty
        if penalty == "loo":
            penalty, _ = choose_outcome_penalty(columns, basis, columns.y, b, basis.penalties)
        return basis.solve(b, float(penalty))

    def readout(self, network: NetworkFit, design: Design) -> Predictions:
        """Mu as a linear function of the product features; there is no rr."""
        assert network.solved is not None
        intercept, theta = network.solved[0], network.solved[1:]
        index = _features(network, design).map(lambda values: np.tensordot(theta, values, 1))
        mu = Evaluation(intercept + index.observed, intercept + index.values, index.slopes)
        return Predictions(mu, no_representer(design), scale_free=False)


def _features(network: NetworkFit, design: Design) -> Evaluation:
    """Indicators of all arms but the first, and the products of all indicators with psi, shape (F, n)."""
    _, psi = network.functions(design, representation=True)
    arms = design.treatment.shape[1] + 1

    def product(values: Array, treatment: Array, level: float) -> Array:
        indicators = _indicators(treatment, arms)
        return np.concatenate([level * indicators[1:], *(indicator * values for indicator in indicators)])

    readings = list(enumerate(design.readings()))
    return Evaluation(
        product(psi.observed, design.treatment, 1.0),
        np.stack([product(psi.values[:, k], reading.treatment, 1.0) for k, reading in readings], axis=1),
        np.stack([product(psi.slopes[:, k], reading.treatment, 0.0) for k, reading in readings], axis=1),
    )


def _indicators(treatment: Array, arms: int) -> Array:
    return np.asarray(arm_numbers(treatment) == np.arange(arms)[:, None], dtype=float)
