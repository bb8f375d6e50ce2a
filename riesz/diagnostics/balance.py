r"""The Riesz balance table: whether weighting by rr gives the moment, as it does for the true Riesz representer.

For any f, :math:`E[\alpha f] = h(f)`. The table compares the two sides in the sample for f the anchor, 1, the treatment, every
covariate and every treatment-by-covariate product. For the average treatment effect this is covariate balance after
weighting; for the average derivative its analogue. Covariates are centred at their means, so that nothing depends on
their origin; the constant has its own row, ``1``.

All sides are divided by the mean of the normalizer, which puts them in the units of the estimate: ``moment`` is the estimand
with f in place of the outcome, and ``weighted`` its estimate by weighting with rr.

An rr that is learned for the errors of a logit, :math:`v f` with :math:`v = \mu (1 - \mu)`, has :math:`E[v \alpha f] = h(v f)`
instead. Then every f is first multiplied by v over its mean, and its mean square is :math:`E_n[v f^2] / E_n[v]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from riesz.arrays import Array, ratio
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.inference import Clusters, Weights, covariance
from riesz.predictions import Predictions, tilt

_ALIKE = 1e-12  # functions that differ by less than this share of their size are shown once


def balance_table(
    predictions: Predictions,
    design: Design,
    treatment: Sequence[str],
    names: Sequence[str],
    errors: Array,
    weights: Weights,
    clusters: Clusters,
) -> pd.DataFrame:
    r"""Compare :math:`E_n[\alpha f]` with :math:`h_n(f)`.

    Parameters
    ----------
    predictions : Predictions
    design : Design
        The full sample.
    treatment : sequence of str, length t
        Names of the columns of the raw treatment.
    names : sequence of str, length K
        The parameters.
    errors : ndarray, shape (K,)
        Standard errors of the estimates.
    weights : Weights
    clusters : tuple of ndarray of int

    Returns
    -------
    pandas.DataFrame
        One row per parameter and function.

        - ``kind``: anchor, constant, treatment, covariate or interaction.
        - ``moment``, ``weighted``: the two sides; ``imbalance`` is weighted minus moment.
        - ``std_error``: of the imbalance, with rr taken as given; ``z`` their ratio.
        - ``standardized``: imbalance in units of f's root mean square (its standard deviation, for a covariate).
        - ``unadjusted``: the same for the representer that is linear in the treatment alone (for the ATE: plain means per arm).
        - ``implied_bias``: in units of the estimate's standard error. It is the change in the one-step estimate if mu were
          corrected for what its residuals still show of f, :math:`-\delta_f` times the imbalance with
          :math:`\delta_f = E_n[(y - \mu) f] / E_n[f^2]`. A debiased estimate is biased only if mu *and* rr miss f.
    """
    rr = predictions.rr.observed
    v = tilt(predictions, design)
    plain = _treatment_only(design, v)
    residual = design.y - predictions.mu.observed
    size = design.mean(design.normalizer)
    tables = []
    for kind, name, f in _functions(design, treatment):
        g = f if v is None else f.times(v)
        moment = design.apply(g)
        gap = rr * g.observed - moment
        imbalance = design.mean(gap) / size
        spread = covariance(((gap - design.mean(gap)[:, None]) / size[:, None]).T, weights, clusters)
        square = design.mean(np.broadcast_to(f.observed * g.observed, rr.shape))
        scale = np.sqrt(square)
        error = np.sqrt(np.diag(spread))
        coefficient = ratio(design.mean(np.broadcast_to(residual * f.observed, rr.shape)), square)
        tables.append(
            pd.DataFrame(
                {
                    "parameter": names,
                    "function": name,
                    "kind": kind,
                    "moment": design.mean(moment) / size,
                    "weighted": design.mean(rr * g.observed) / size,
                    "imbalance": imbalance,
                    "std_error": error,
                    "z": ratio(imbalance, error, otherwise=0.0),
                    "standardized": ratio(imbalance, scale),
                    "unadjusted": ratio(design.mean(plain * g.observed - moment) / size, scale),
                    "implied_bias": ratio(-coefficient * imbalance, errors),
                }
            )
        )
    table = pd.concat(tables)
    order = table["parameter"].map({name: c for c, name in enumerate(names)})
    return table.iloc[np.argsort(order, kind="stable")].set_index(["parameter", "function"])


def _functions(design: Design, treatment: Sequence[str]) -> Iterator[tuple[str, str, Evaluation]]:
    """The functions to balance, with kind and name; of shape (n,), or (K, n) for the anchors."""
    anchor = design.anchor
    yield "anchor", "anchor", anchor
    yield "constant", "1", _constant(design)
    raw = [(name, _raw_treatment(design, j)) for j, name in enumerate(treatment)]
    for name, a in raw:
        if not all(_alike(a.observed, beta) for beta in anchor.observed):
            yield "treatment", name, a
    for j in design.covariates:
        x = _covariate(design, int(j))
        if not np.abs(x.observed).max() > _ALIKE * np.abs(design.z[:, j]).max():
            continue  # a constant column
        yield "covariate", design.names[j], x
        for name, a in raw:
            yield "interaction", f"{name}:{design.names[j]}", a.times(x)


def _alike(left: Array, right: Array) -> bool:
    return bool(np.abs(left - right).max() <= _ALIKE * np.abs(right).max())


def _constant(design: Design) -> Evaluation:
    shape = (len(design.is_derivative), len(design))
    return Evaluation(np.ones(len(design)), np.ones(shape), np.zeros(shape))


def _raw_treatment(design: Design, column: int) -> Evaluation:
    points = design.readings()
    values = np.stack([point.treatment[:, column] for point in points])
    slopes = np.stack([np.full(len(design), point.treatment_slope) for point in points])
    return Evaluation(design.treatment[:, column], values, slopes)


def _covariate(design: Design, column: int) -> Evaluation:
    """A column of z, centred at its weighted mean."""
    observed, points = design.z[:, column], design.readings()
    values, slopes = np.tile(observed, (len(points), 1)), np.zeros((len(points), len(observed)))
    for k, point in enumerate(points):
        for place in np.flatnonzero(point.columns == column):  # a custom moment may change covariates, too
            values[k] = point.values[:, place]
            if point.tangents is not None:
                slopes[k] = point.tangents[:, place]
    centre = float(design.mean(observed))
    return Evaluation(observed - centre, values - centre, slopes)


def _treatment_only(design: Design, v: Evaluation | None) -> Array:
    """The Riesz representer in the span of 1 and the raw treatment, shape (K, n): what an unadjusted comparison uses."""
    functions = [_constant(design), *(_raw_treatment(design, j) for j in range(design.treatment.shape[1]))]
    tilted = functions if v is None else [f.times(v) for f in functions]
    observed = np.stack([f.observed for f in functions])
    gram = design.mean(observed[:, None] * np.stack([f.observed for f in tilted]))
    moments = np.stack([design.mean(design.apply(f)) for f in tilted])
    return np.asarray((np.linalg.pinv(gram, hermitian=True) @ moments).T @ observed)
