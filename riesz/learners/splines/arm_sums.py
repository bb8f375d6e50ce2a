r"""Second moments of features from those of the covariates' inputs in each arm.

With arms, a feature without a second factor is an input x of the covariates (or 1) times a number that depends on the arm alone:
:math:`\phi_f = c_{fk}\, x_{i(f)}` in arm k. So with :math:`G_k` the sum of :math:`\omega x x'` over the rows of arm k,

.. math:: E_n[\phi_f \phi_g] = \sum_k c_{fk} c_{gk} (G_k)_{i(f) i(g)},

and the same few matrices serve mu on all rows, the regression of each arm, and those of membership in an arm. Outcomes are centred
in each arm before they are summed, so that nothing is lost to rounding.

Shapes: K arms, B inputs of the covariates with the level, F features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riesz.arrays import Array
from riesz.learners.splines.feature_sets import Sample, arms_of, covariate_features
from riesz.learners.splines.features import NONE, Features, Numbers
from riesz.learners.splines.shrinkage import Quadratic, outcome_problem


@dataclass(frozen=True)
class ArmSums:
    """Sums over the rows of each arm; all weights sum to one.

    Attributes
    ----------
    place : ndarray of int, shape (d + 1,)
        Of each input of the covariates among the B; 0, the level, for the treatment's and, at the end, for none.
    factors : ndarray, shape (d + 1, K)
        The treatment's inputs in each arm; 1 for those of the covariates and for none.
    shares : ndarray, shape (s + 1, K)
        The shares in each arm, and 1 for none.
    gram : ndarray, shape (K, B, B)
    linear : ndarray, shape (K, B)
        Sums of inputs times the outcome minus its mean in the arm.
    weight, mean, square, weight_square : ndarray, shape (K,)
        Sum of weights; mean and sum of squares around it of the outcome; sum of squared weights.
    """

    place: Numbers
    factors: Array
    shares: Array
    gram: Array
    linear: Array
    weight: Array
    mean: Array
    square: Array
    weight_square: Array

    @property
    def _rows(self) -> float:
        return float(1.0 / self.weight_square.sum())

    def of_all(self, features: Features) -> Quadratic:
        """The problem of mu on all rows, for features without second factors."""
        at, c = self.place[features.first], self.factors[features.first] * self.shares[features.share]
        apart = self.mean - self.weight @ self.mean
        linear = self.linear + apart[:, None] * self.gram[:, 0]
        gram = sum(np.outer(c[:, k], c[:, k]) * inputs[np.ix_(at, at)] for k, inputs in enumerate(self.gram))
        total = float(self.square.sum() + self.weight @ apart**2)
        return outcome_problem(np.asarray(gram), (c * linear[:, at].T).sum(axis=1), total, self._rows)

    def of_arm(self, arm: int) -> Quadratic:
        """The problem of mu on the rows of an arm, for the inputs of the covariates."""
        weight = self.weight[arm]
        rows = float(weight**2 / self.weight_square[arm])
        return outcome_problem(
            self.gram[arm] / weight, self.linear[arm] / weight, float(self.square[arm] / weight), rows
        )

    def of_membership(self, arm: int) -> Quadratic:
        """The problem of membership in an arm, on all rows, for the inputs of the covariates."""
        share = self.weight[arm]
        linear = self.gram[arm, 0] - share * self.gram[:, 0].sum(axis=0)
        return outcome_problem(self.gram.sum(axis=0), linear, float(share * (1.0 - share)), self._rows)


def arm_sums(sample: Sample) -> ArmSums | None:
    """Sums over the rows of each arm; None without arms, or if an arm has no row."""
    rows_of_arms, arms = arms_of(sample, 1), sample.shares.arms
    if rows_of_arms is None or arms is None:
        return None
    design, points, base = sample.design, sample.points, covariate_features(sample)
    omega, y, treatments = design.weights / design.weights.sum(), design.y, arms.shape[1]
    place = np.zeros(len(points.roles) + 1, dtype=np.intp)
    place[base.first[1:]] = np.arange(1, len(base))
    factors = np.ones((len(place), len(arms)))
    factors[:treatments] = arms.T
    sums = [_of_rows(sample.at_rows.take(rows).values(base), omega[rows], y[rows]) for rows in rows_of_arms]
    gram, linear, *numbers = (np.stack(parts) for parts in zip(*sums, strict=True))
    shares = np.concatenate([sample.shares.values(arms), np.ones((1, len(arms)))])
    assert NONE == -1  # so that it is the last row of the tables above
    return ArmSums(place, factors, shares, gram, linear, *numbers)


def _of_rows(x: Array, omega: Array, y: Array) -> tuple[Array, Array, float, float, float, float]:
    """The sums of one arm, from inputs of shape (B, n); the product of a matrix with itself takes half the time of another."""
    weight = float(omega.sum())
    mean = float(omega @ y) / weight
    scaled, gap = x * np.sqrt(omega), y - mean
    return scaled @ scaled.T, x @ (omega * gap), weight, mean, float(omega @ gap**2), float(omega @ omega)
