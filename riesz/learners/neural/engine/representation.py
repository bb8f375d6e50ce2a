"""Functions that were learned or made, as the columns of a design: closed forms then work on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from riesz.design.design import Base, Design
from riesz.design.moment import Evaluation, Moment, Points


def as_columns(base: Base, rows: npt.NDArray[np.intp], phi: Evaluation) -> Design:
    """A design of some rows whose columns are the intercept and given functions, shape (F, n)."""
    width, n = phi.observed.shape
    columns = np.arange(1, width + 1)
    points = tuple(
        Points(
            columns,
            phi.values[:, k].T,
            phi.slopes[:, k].T if derivative else None,
            base.moment.points[k].treatment[rows],
            base.moment.points[k].treatment_slope,
        )
        for k, derivative in enumerate(base.moment.is_derivative)
    )
    made = replace(
        base,
        y=base.y[rows],
        z=np.column_stack([np.ones(n), phi.observed.T]),
        names=("Intercept", *(f"phi{j}" for j in range(width))),
        moment=Moment(points, base.moment.weights[..., rows], base.moment.normalizer[:, rows]),
        anchor=base.anchor.map(lambda values: values[..., rows]),
        treatment=base.treatment[rows],
        covariates=columns,
        weights=base.weights[rows],
        frequency=base.frequency[rows],
        groups=None if base.groups is None else np.unique(base.groups[rows], return_inverse=True)[1],
        strata=None if base.strata is None else base.strata[rows],
    )
    return Design(made, slice(None))
