"""Trimming: |rr| is capped at a number, or at a quantile of |rr| over the rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from riesz.arrays import Array
from riesz.crossfit.candidates import CrossFit
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.predictions import Predictions, cap
from riesz.storage.coding import stored
from riesz.syntax.caller import warn

_MOST_CAPPED = 0.3  # warn if a larger share of rows is capped
_PERCENT = re.compile(r"\s*(\d+(\.\d*)?|\.\d+)\s*%\s*")


@stored
@dataclass(frozen=True)
class Trimming:
    """Where |rr| is capped.

    Attributes
    ----------
    value : float or None
        The cap itself.
    share : float or None
        The share of rows whose |rr| is not above the cap, if the cap is a quantile.
    """

    value: float | None = None
    share: float | None = None

    def __str__(self) -> str:
        return f"|rr| at {self.value:g}" if self.value is not None else f"|rr| at its {self.share:.4g} quantile"


def read_trim(trim: Any) -> Trimming | None:
    """Read a ``trim=`` argument: None, a positive number, or a percentage such as ``"99%"``."""
    if trim is None:
        return None
    if isinstance(trim, str) and (match := _PERCENT.fullmatch(trim)) and 0 < float(match.group(1)) < 100:
        return Trimming(share=float(match.group(1)) / 100)
    if isinstance(trim, Real) and trim is not True and 0 < float(trim) < np.inf:
        return Trimming(value=float(trim))
    raise LearnerError(
        f"trim={trim!r}: expected the largest |rr| as a positive number, such as 20, or a quantile of |rr|, such as '99%'."
    )


def trim(crossfit: CrossFit, trimming: Trimming | None, design: Design) -> CrossFit:
    """Cap |rr| in every repeat; there is one cap per parameter and repeat."""
    if trimming is None:
        return crossfit
    caps = _caps(crossfit.untrimmed, trimming, design)
    capped = float(
        np.mean([np.abs(p.rr.observed) > cap[:, None] for p, cap in zip(crossfit.untrimmed, caps, strict=True)])
    )
    if trimming.value is not None and capped > _MOST_CAPPED:
        hint = f" For a quantile write trim='{100 * trimming.value:g}%'." if trimming.value < 1 else ""
        warn(f"trim={trimming.value:g} caps |rr| on {capped:.0%} of the rows, a large share.{hint}")
    candidates = tuple(
        replace(candidate, predictions=_capped(candidate.predictions, trimming, design))
        for candidate in crossfit.candidates
    )
    return replace(trimmed(crossfit, caps), candidates=candidates)


def _capped(predictions: Sequence[Predictions], trimming: Trimming, design: Design) -> tuple[Predictions, ...]:
    """Predictions of a learner that may learn mu alone, with |rr| capped."""
    if not all(np.isfinite(repeat.rr.observed).all() for repeat in predictions):
        return tuple(predictions)
    caps = _caps(predictions, trimming, design)
    return tuple(cap(repeat, most) for repeat, most in zip(predictions, caps, strict=True))


def _caps(predictions: Sequence[Predictions], trimming: Trimming, design: Design) -> Array:
    if trimming.value is not None:
        return np.full((len(predictions), design.components), trimming.value)
    assert trimming.share is not None
    return np.array(
        [[_quantile(np.abs(r), design.weights, trimming.share) for r in p.rr.observed] for p in predictions]
    )


def _quantile(values: Array, weights: Array, share: float) -> float:
    """The smallest value with at least this share of the weight at or below it."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    at = int(np.searchsorted(below, share * below[-1] * (1 - 1e-12)))
    return float(values[order[min(at, len(values) - 1)]])


def trimmed(crossfit: CrossFit, caps: Array) -> CrossFit:
    """A cross-fit with |rr| capped; ``caps`` has shape (repeats, K)."""
    if np.isinf(caps).all():
        return crossfit
    capped = tuple(cap(predictions, most) for predictions, most in zip(crossfit.untrimmed, caps, strict=True))
    return replace(crossfit, predictions=capped, caps=caps)
