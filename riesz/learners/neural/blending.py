r"""Networks and their closed-form companion, blended by how well each predicts rows it has not seen.

Each network of a training set keeps a part of the rows for validation; the closed form is refitted without that part. On those rows
mu is blended by squared error and rr by the Riesz loss,

.. math:: w_\mu = \arg\min_{0 \le w \le 1} E_n[(y - w \mu_c - (1 - w) \mu_n)^2], \qquad
    w_\alpha = \arg\min_{0 \le w \le 1} E_n[\alpha_w^2 - 2 m(\alpha_w)], \quad
    \alpha_w = w \alpha_c + (1 - w) \alpha_n,

where each r is first brought to its own best scale. Where the truth is smooth and nearly additive the closed form carries the
weight, where it is not the networks do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from riesz.design import Design
from riesz.learners.base import Fit
from riesz.learners.linear import probability
from riesz.learners.neural.closed import ClosedForm, Rows, refit
from riesz.learners.neural.fit import Ensemble
from riesz.moment import Array, Evaluation
from riesz.predictions import Predictions, join


@dataclass(frozen=True)
class Blend:
    """A closed form and its weights beside the networks.

    Attributes
    ----------
    closed : ClosedForm
    mu : float
        Weight of the closed form's mu.
    rr : ndarray, shape (K,)
        Weight of the closed form's rr.
    scales : ndarray, shape (2, K)
        What makes an rr of the closed form's r and of the networks' r.
    """

    closed: ClosedForm
    mu: float
    rr: Array
    scales: Array


@dataclass(frozen=True)
class Blended(Fit):
    """Networks of one training set, blended with a closed form."""

    networks: Ensemble
    blend: Blend

    def predict(self, design: Design) -> Predictions:
        one, two, blend = _closed(self.blend.closed, design), self.networks.predict(design), self.blend
        weights = blend.rr * blend.scales[0], (1.0 - blend.rr) * blend.scales[1]
        mu = _sum(one.mu, np.array(blend.mu), two.mu, np.array(1.0 - blend.mu))
        return Predictions(mu, _sum(one.rr, weights[0], two.rr, weights[1]), scale_free=True)

    def details(self) -> Mapping[str, float]:
        shares = {f"closed_form_rr_{c}": float(weight) for c, weight in enumerate(self.blend.rr)}
        return {**self.networks.details(), "closed_form_mu": self.blend.mu, **shares}

    def history(self) -> pd.DataFrame:
        return self.networks.history()


def blend(networks: Ensemble, closed: ClosedForm, design: Design, parts: Sequence[Rows]) -> Blended:
    """Weigh networks against a closed form on rows that neither has seen.

    Parameters
    ----------
    networks : Ensemble
    closed : ClosedForm
        Of the whole design.
    design : Design
        What they were fitted on.
    parts : sequence of ndarray of int
        For each network the rows of the base that it kept for validation.
    """
    rows = np.arange(len(design.base.y))[design.rows]
    one, two = [], []
    for network, part in zip(networks.fits, parts, strict=True):
        kept = design.take(part)
        one.append(_closed(refit(closed, design.take(np.setdiff1d(rows, part))), kept))
        two.append(network.predict(kept))
    seen = np.concatenate(parts)
    place = np.split(np.arange(len(seen)), np.cumsum([len(part) for part in parts])[:-1])
    held = design.take(seen)
    a, b = join(one, place), join(two, place)
    gap = a.mu.observed - b.mu.observed
    mu = _share(held.mean(gap * (held.y - b.mu.observed)), held.mean(gap**2))
    moment = held.base.moment
    scales, alphas, readings = [], [], []
    for r in (a.rr, b.rr):
        m = moment.apply(r, seen)
        scales.append(held.mean(m) / held.mean(r.observed**2))
        alphas.append(scales[-1][:, None] * r.observed)
        readings.append(scales[-1] * held.mean(m))
    gap = alphas[0] - alphas[1]
    rr = _share(readings[0] - readings[1] - held.mean(gap * alphas[1]), held.mean(gap**2))
    return Blended(networks, Blend(closed, float(mu), rr, np.stack(scales)))


def _closed(closed: ClosedForm, design: Design) -> Predictions:
    rows = np.arange(len(design.base.y))[design.rows]
    mu, rr = closed.evaluate(design.base, rows)
    return Predictions(probability(mu) if design.base.family == "binomial" else mu, rr, scale_free=True)


def _share(gain: Array, cost: Array) -> Array:
    """The minimiser of cost w^2 - 2 gain w between 0 and 1; a half when all are as good."""
    return np.where(cost > 0, np.clip(gain / np.where(cost > 0, cost, 1.0), 0.0, 1.0), 0.5)


def _sum(one: Evaluation, first: Array, other: Evaluation, second: Array) -> Evaluation:
    """A weighted sum, with a weight for each function."""

    def add(a: Array, b: Array) -> Array:
        shape = (*first.shape, *[1] * (a.ndim - first.ndim))
        return np.asarray(first.reshape(shape) * a + second.reshape(shape) * b)

    return Evaluation(add(one.observed, other.observed), add(one.values, other.values), add(one.slopes, other.slopes))
