r"""Units: how inputs are scaled for a network, and outputs scaled back.

Inputs are centred and divided by their :func:`units` (or left as they are, except the treatment, as the paper's code does); the
outcome is centred and scaled (a probability is kept, other positive means are divided by the outcome's mean); the anchor is divided
by :math:`c_\beta`. With :math:`\tilde f = f / c_\beta` the moment constraint is weighed by :math:`c_h = c_\beta / h_n(\beta)`, so
that a change of units changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.families import find_family
from riesz.learners.inputs.units import units
from riesz.storage.coding import stored

Inputs = Literal["standard", "paper"]


@stored
@dataclass(frozen=True)
class Scale:
    """Constants of one training set.

    Attributes
    ----------
    centre, spread : ndarray, shape (d,)
        Of the inputs: treatment first, then covariates. An input that does not vary has an infinite spread, so that the
        network gets a constant zero.
    low, span : float
        The treatment's minimum and range, for mixing the outcome heads.
    y_centre, y_spread : float
    anchor : ndarray, shape (K,)
        c_beta.
    constraint : ndarray, shape (K,)
        c_h, negative where the anchor's moment is.
    """

    centre: Array
    spread: Array
    low: float
    span: float
    y_centre: float
    y_spread: float
    anchor: Array
    constraint: Array


def make_scale(design: Design, inputs: Array, kind: Inputs) -> Scale:
    """Measure a training set and its anchor; for the parameters see :func:`measure`."""
    share, beta = design.weights / design.weights.sum(), design.anchor
    h = share @ design.apply(beta).T
    scale = measure(design, inputs, kind)
    size = np.full(len(h), scale.span) if kind == "paper" else np.sqrt(share @ (beta.observed**2).T)
    return replace(scale, anchor=size, constraint=size / h)


def measure(design: Design, inputs: Array, kind: Inputs) -> Scale:
    """Measure a training set without its anchor, whose constants, of shape (1,), are one.

    Parameters
    ----------
    design : Design
    inputs : ndarray, shape (n, d)
        The network's inputs for these rows, before scaling.
    kind : {"standard", "paper"}
        ``"paper"``: the outcome is standardised, the treatment min-max scaled, and nothing else changed.
    """
    share = design.weights / design.weights.sum()
    treatment = design.treatment
    low, span = float(treatment.min()), float(np.ptp(treatment)) or 1.0
    y = design.y
    y_mean = float(share @ y)
    y_spread = float(np.sqrt(share @ (y - y_mean) ** 2)) or 1.0
    family = find_family(design.family)
    if not family.identity:
        y_mean, y_spread = 0.0, 1.0 if family.limits else y_mean  # a logarithm is then near zero
    unit = np.ones(1)
    if kind == "paper":
        rest = len(design.covariates)
        t = inputs.shape[1] - rest
        centre, spread = (
            np.concatenate([np.full(t, low), np.zeros(rest)]),
            np.concatenate([np.full(t, span), np.ones(rest)]),
        )
        return Scale(centre, spread, low, span, y_mean, y_spread, unit, unit)
    spread = units(inputs, share, constant=np.inf)
    return Scale(share @ inputs, spread, low, span, y_mean, y_spread, unit, unit)
