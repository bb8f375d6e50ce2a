r"""Networks and their closed-form companion, blended by how well each predicts rows it has not seen.

Each network of a training set keeps a part of the rows for validation; the closed form is refitted without that part. On those rows
rr is blended by the Riesz loss and mu by the squared error,

.. math:: w_\alpha = \arg\min_{0 \le w \le 1} E_n[\alpha_w^2 - 2 m(\alpha_w)], \quad \alpha_w = w \alpha_c + (1 - w) \alpha_n,
    \qquad w_\mu = \arg\min_{0 \le w \le 1} E_n[(y - w \mu_c - (1 - w) \mu_n)^2],

the latter in each arm by itself where mu is read in arms alone: the closed form may suit one and the networks another. Each r is
first brought to its own best scale. Each row was kept by one network, but the mean of all J will predict: by how much its squared
error is smaller is :math:`E_n[J^{-1} \sum_j (\mu_j - \bar\mu)^2]`, which :math:`w_\mu` allows for. :math:`w_\alpha` does not, in
favour of the closed form: a network's errors in mu and in rr go together, and it is their product that biases an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.base import Fit
from riesz.learners.companion.splines import ClosedForm, Rows, arms_of, refit
from riesz.learners.linear.learner import probability
from riesz.learners.neural.engine.ensemble import Ensemble
from riesz.learners.inputs.evaluation_points import EvaluationPoints
from riesz.predictions import Predictions, join
from riesz.storage.coding import stored

_FEWEST = 20  # unseen rows of an arm whose mu is weighed by itself


@stored
@dataclass(frozen=True)
class Blend:
    """A closed form and its weights beside the networks.

    Attributes
    ----------
    closed : ClosedForm
    mu : ndarray, shape (arms,)
        Weight of the closed form's mu, in each arm; of length one without arms.
    arms : ndarray, shape (arms, t), or None
        Their treatments.
    rr : ndarray, shape (K,)
        Weight of the closed form's rr.
    scales : ndarray, shape (2, K)
        What the closed form's r and the networks' r are multiplied by: each comes to its best scale, and their blend is r = beta -
        beta_perp with h(beta_perp) = 0 on the rows it was weighed on.
    """

    closed: ClosedForm
    mu: Array
    arms: Array | None
    rr: Array
    scales: Array

    def mu_weights(self, stations: EvaluationPoints, rows: Rows) -> tuple[Array, Array]:
        """The weights of the closed form's mu at some rows, shape (n,), and at their readings, shape (R, n); or one for all."""
        if self.arms is None:
            return self.mu, self.mu
        raw = stations.raw[rows]
        at = sum(weight * (raw == arm).all(axis=2) for weight, arm in zip(self.mu, self.arms, strict=True))
        return at[np.arange(len(rows)), stations.observed[rows]], at[:, stations.of_reading].T


@dataclass(frozen=True)
class Blended(Fit):
    """Networks of one training set, blended with a closed form."""

    networks: Ensemble
    blend: Blend

    def predict(self, design: Design) -> Predictions:
        stations = self.blend.closed.stations(design.sample)
        one, two, blend = _closed(self.blend.closed, stations, design), self.networks.predict(design), self.blend
        observed, read = blend.mu_weights(stations, design.index)
        mu = Evaluation(
            two.mu.observed + observed * (one.mu.observed - two.mu.observed),
            two.mu.values + read * (one.mu.values - two.mu.values),
            two.mu.slopes + read * (one.mu.slopes - two.mu.slopes),
        )
        weights = blend.rr * blend.scales[0], (1.0 - blend.rr) * blend.scales[1]
        return Predictions(mu, _sum(one.rr, weights[0], two.rr, weights[1]), scale_free=True)

    def details(self) -> Mapping[str, float]:
        blend = self.blend
        arms = ["closed_form_mu"] if blend.arms is None else [f"closed_form_mu_{arm}" for arm in range(len(blend.arms))]
        mu = dict(zip(arms, map(float, blend.mu), strict=True))
        rr = {f"closed_form_rr_{c}": float(weight) for c, weight in enumerate(blend.rr)}
        return {**self.networks.details(), **mu, **rr}

    def history(self) -> pd.DataFrame:
        return self.networks.history()


def blend(
    networks: Ensemble, closed: ClosedForm, stations: EvaluationPoints, design: Design, parts: Sequence[Rows], seed: int = 0
) -> Blended:
    """Weigh networks against a closed form on rows that neither has seen.

    Parameters
    ----------
    networks : Ensemble
    closed : ClosedForm
        Of the whole design.
    stations : EvaluationPoints
        Of the design's sample, with the closed form's inputs.
    design : Design
        What they were fitted on.
    parts : sequence of ndarray of int
        For each network the rows that it kept for validation, by their positions in the design.
    seed : int
        Of the random part of the rows that closed forms are refitted on, when they are many.
    """
    seen = np.concatenate(parts)
    place = np.split(np.arange(len(seen)), np.cumsum([len(part) for part in parts])[:-1])
    held = design.take(seen)
    others = [refit(closed, design.take(np.setdiff1d(np.arange(len(design)), part)), stations, seed) for part in parts]
    a = join([_closed(one, stations, design.take(part)) for one, part in zip(others, parts, strict=True)], place)
    each = networks.predict_each(held)
    b = join([_at(one, own) for one, own in zip(each, place, strict=True)], place)
    readings = np.stack([held.mean(held.apply(r)) for r in (a.rr, b.rr)])
    scales = readings / np.stack([held.mean(r.observed**2) for r in (a.rr, b.rr)])
    alphas = scales[:, :, None] * np.stack([a.rr.observed, b.rr.observed])
    gap = alphas[0] - alphas[1]
    rise = scales[0] * readings[0] - scales[1] * readings[1] - held.mean(gap * alphas[1])
    rr = _share(rise, held.mean(gap**2))
    gap = a.mu.observed - b.mu.observed
    better = np.var(np.stack([one.mu.observed for one in each]), axis=0)
    arms = arms_of(stations, design.sample)
    own = np.ones((1, len(seen)), dtype=bool)
    if arms is not None:
        own = (held.treatment == arms[:, None]).all(axis=2)
        own[own.sum(axis=1) < _FEWEST] = True  # too few to tell: weighed with everyone
    mu = _share(held.mean(own * (gap * (held.y - b.mu.observed) - better)), held.mean(own * (gap**2 - better)))
    h = held.mean(held.apply(held.anchor))
    read = rr * scales[0] * readings[0] + (1.0 - rr) * scales[1] * readings[1]
    scales = scales * np.where(read != 0, h / np.where(read != 0, read, 1.0), 1.0)
    return Blended(networks, Blend(closed, mu, arms, rr, scales))


def _at(predictions: Predictions, own: Rows) -> Predictions:
    """Some rows of predictions."""

    def take(values: Array) -> Array:
        return values[..., own]

    return Predictions(predictions.mu.map(take), predictions.rr.map(take), predictions.scale_free)


def _closed(closed: ClosedForm, stations: EvaluationPoints, design: Design) -> Predictions:
    mu, rr = closed.evaluate(stations, design)
    return Predictions(probability(mu) if design.family == "binomial" else mu, rr, scale_free=True)


def _share(gain: Array, cost: Array) -> Array:
    """The minimiser of cost w^2 - 2 gain w between 0 and 1; a half when all are as good."""
    end = np.select([2 * gain > cost, 2 * gain < cost], [1.0, 0.0], 0.5)
    return np.where(cost > 0, np.clip(gain / np.where(cost > 0, cost, 1.0), 0.0, 1.0), end)


def _sum(one: Evaluation, first: Array, other: Evaluation, second: Array) -> Evaluation:
    """A weighted sum, with a weight for each function."""

    def add(a: Array, b: Array) -> Array:
        shape = (*first.shape, *[1] * (a.ndim - first.ndim))
        return np.asarray(first.reshape(shape) * a + second.reshape(shape) * b)

    return Evaluation(add(one.observed, other.observed), add(one.values, other.values), add(one.slopes, other.slopes))
