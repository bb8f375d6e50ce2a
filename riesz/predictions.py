"""What a learner returns: arrays with one value per row.

``Predictions`` holds mu and the Riesz representer at the observed rows and at each reading of the moment. It carries no
scalars of a fold, so the pieces of several folds join into the full sample by row number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array, mean_of, ratio
from riesz.design.density import at_density
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked, Part
from riesz.families import find_family
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Predictions:
    """mu and rr, row by row.

    Attributes
    ----------
    mu : Evaluation, shape (n,)
        In the outcome's own units, not its index: a probability under ``family="binomial"``.
    rr : Linked
        One Riesz representer per component; NaN throughout if the learner learns mu alone.
    scale_free : bool
        Whether rr is known up to scale only, as a moment-constrained learner reads it out (r = beta - beta_perp).
    tilted : bool
        Whether rr represents the moment on functions v f, which the errors of an index are, instead of on all functions f:
        E[v rr f] = h(v f), with v the slope of mu along its index, such as mu (1 - mu). Then E[rr y] is not an estimate of psi.
    """

    mu: Evaluation
    rr: Linked
    scale_free: bool
    tilted: bool = False

    def only(self, part: Part) -> Predictions:
        """The same for some of the components."""
        return replace(self, mu=self.mu.only(part), rr=self.rr.only(part))


def no_representer(design: Design) -> Linked:
    """The rr of a learner that learns mu alone: NaN throughout, so that it cannot be used by mistake."""
    links = design.links
    values = np.full((len(links.reading), len(design)), np.nan)
    return Linked(np.full((design.components, len(design)), np.nan), values, values.copy(), links)


def join(parts: Sequence[Predictions], rows: Sequence[npt.NDArray[np.intp]]) -> Predictions:
    """Put the predictions of several folds back in the order of the full sample."""
    n = sum(len(index) for index in rows)

    def scatter(pieces: Sequence[Array]) -> Array:
        whole = np.empty((*pieces[0].shape[:-1], n))
        for piece, index in zip(pieces, rows, strict=True):
            whole[..., index] = piece
        return whole

    return _combined(parts, scatter)


def _combined(parts: Sequence[Predictions], combine: Callable[[Sequence[Array]], Array]) -> Predictions:
    """The first predictions, each array replaced by a combination of all parts' arrays."""
    first = parts[0]
    mu = Evaluation(
        combine([part.mu.observed for part in parts]),
        combine([part.mu.values for part in parts]),
        combine([part.mu.slopes for part in parts]),
    )
    rr = replace(
        first.rr,
        observed=combine([part.rr.observed for part in parts]),
        values=combine([part.rr.values for part in parts]),
        slopes=combine([part.rr.slopes for part in parts]),
    )
    return replace(first, mu=mu, rr=rr)


def scales(predictions: Predictions, design: Design) -> Array:
    r"""The scale of a scale-free rr, computed on the estimation sample as in the paper, shape (K,).

    .. math:: \hat\alpha = s\, r, \qquad s = E_w[m(r)] / E_w[r^2]

    once per component, over all folds together. Then :math:`h_n(\hat\alpha) = E_n[\hat\alpha^2]`, and the one-step and the
    linear-submodel TMLE estimators agree. An rr that is not scale-free has scale one. For a quantile the square is weighted by the
    density (:mod:`riesz.design.density`).
    """
    r = predictions.rr
    if not predictions.scale_free:
        return np.ones(len(r.observed))
    square = r.observed**2
    if not find_family(design.family).is_mean:
        square = square * at_density(design, predictions.mu.observed).observed
    return ratio(design.mean(design.apply(r)), design.mean(square), otherwise=1.0)


def tilt(predictions: Predictions, design: Design) -> Evaluation | None:
    """The function v over its mean, shape (n,), for which E[v rr f] = h(v f); None if rr is not tilted.

    For a quantile it is the kernel weight of the row at the rows, not over its mean, and one at the readings.
    """
    mu, family = predictions.mu, find_family(design.family)
    if not family.is_mean:
        return at_density(design, mu.observed)
    if not predictions.tilted:
        return None
    v = Evaluation(family.slope(mu.observed), family.slope(mu.values), family.bend(mu.values) * mu.slopes)
    mean = float(design.mean(v.observed)) or 1.0  # 0 where a logit separates the outcomes completely
    return v.map(lambda values: values / mean)


def times(predictions: Predictions, scale: Array) -> Predictions:
    """Multiply each component's rr by a number."""
    return replace(predictions, rr=predictions.rr.scaled(scale))


def cap(predictions: Predictions, most: Array) -> Predictions:
    """Cap |rr| of each component, at the observed rows and at the readings; where it is capped its slope is zero."""
    rr = predictions.rr
    high = most[rr.links.component, None]
    beyond = np.abs(rr.values) > high
    capped = Linked(
        np.clip(rr.observed, -most[:, None], most[:, None]),
        np.clip(rr.values, -high, high),
        np.where(beyond, 0.0, rr.slopes),
        rr.links,
    )
    return replace(predictions, rr=capped)


def average(predictions: Sequence[Predictions]) -> Predictions:
    """The mean over repeats, row by row."""
    return _combined(predictions, mean_of)
