r"""The bootstrap of calibration: rows are drawn again, and calibration and estimate are computed again for every draw.

The learned functions stay as they are, so a draw takes milliseconds, not fits. What calibration adds to the sampling error is in
the distribution of the estimates over draws; the influence function leaves it out (van der Laan, Luedtke and Carone 2024).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.crossfit.calibration import apply, find_calibration
from riesz.crossfit.threads import go_on
from riesz.design.derived import reweighted
from riesz.design.design import Design
from riesz.errors import RieszError
from riesz.estimators import ESTIMATORS
from riesz.inference import Sampling, Weights, infer
from riesz.predictions import Predictions, cap
from riesz.results.parts import FitParts
from riesz.syntax.check_arguments import check_alpha, is_count


def bootstrap_table(parts: FitParts, draws: int, alpha: float, seed: int) -> pd.DataFrame:
    """Estimates, bootstrap standard errors and percentile intervals; see ``Results.bootstrap``."""
    _refuse(parts)
    if not is_count(draws, 2):
        raise RieszError(f"draws={draws!r}: expected a whole number, 2 or larger.")
    check_alpha(alpha)
    if not is_count(seed, 0):
        raise RieszError(f"seed={seed!r}: expected a whole number, 0 or larger.")
    values = np.stack([_estimates(parts, weights) for weights in _drawn_weights(parts, draws, seed)])
    low, high = np.quantile(values, [alpha / 2, 1 - alpha / 2], axis=0)
    return pd.DataFrame(
        {
            "estimate": parts.inference.value,
            "std_error": values.std(axis=0, ddof=1),
            "conf_low": low,
            "conf_high": high,
        },
        index=pd.Index(parts.names, name="parameter"),
    )


def _refuse(parts: FitParts) -> None:
    parts.require_rr()
    if not ESTIMATORS[parts.model.settings.estimator].debiased:
        raise RieszError(
            f"The {parts.model.settings.estimator} estimator has no valid standard error, because its bias is not small. Use "
            "estimator='dr' or 'tmle'."
        )
    if len(parts.clusters.codes) > 1:
        raise RieszError("bootstrap() draws rows or the clusters of one variable; this fit has two-way clusters.")
    if parts.model.settings.target == "sample":
        raise RieszError(
            "bootstrap() draws rows as from a population, but target='sample' asks for the effect in these rows. Use conf_int()."
        )


def _drawn_weights(parts: FitParts, draws: int, seed: int) -> Iterator[Weights]:
    """Weights in which every row, or cluster, counts as often as it is drawn."""
    rng, weights, codes = np.random.default_rng(seed), parts.model.weights, parts.codes
    for _ in range(draws):
        go_on()
        if codes is None:
            total = weights.frequency.sum()
            counts = rng.multinomial(round(float(total)), weights.frequency / total).astype(float)
        else:
            clusters = int(codes.max()) + 1
            counts = weights.frequency * np.bincount(rng.integers(0, clusters, clusters), minlength=clusters)[codes]
        yield Weights(weights.sampling, counts)


def _estimates(parts: FitParts, weights: Weights) -> Array:
    """The estimates of one draw, shape (K,): the median over repeats."""
    design = reweighted(parts.design, weights.total)
    estimator = ESTIMATORS[parts.model.settings.estimator]
    repeats = zip(parts.crossfit.uncalibrated, parts.crossfit.caps, strict=True)
    predictions = [_calibrated(parts, repeat, most, design) for repeat, most in repeats]
    return infer(predictions, design, estimator, Sampling(weights, (), "population")).value


def _calibrated(parts: FitParts, predictions: Predictions, most: Array, design: Design) -> Predictions:
    """Predictions that are calibrated anew on a draw, in the way of the fit, and capped where those of the fit are."""
    if parts.crossfit.calibration:
        steps = find_calibration(predictions, design, parts.crossfit.calibration[0].kind)
        predictions = apply(predictions, steps, design)
    return cap(predictions, most)
