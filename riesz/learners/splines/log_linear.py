r"""The logarithm of a representer of known sign on the features that were chosen for the constrained one.

Where :math:`\phi'\theta` is small, :math:`\ell \exp(g\, \phi'\theta)` is about :math:`\ell + |\ell| \phi'\theta`, so that the
features that lower the squared Riesz loss of the latter serve the former. They stay, with their relative penalties, and the
leave-one-out Kullback-Leibler loss chooses the size of all penalties.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riesz.arrays import Array
from riesz.design.derived import with_columns
from riesz.learners.linear.entropy import fit_log_linear
from riesz.learners.linear.learner import Penalty
from riesz.learners.linear.ridge import GRID, make_basis
from riesz.learners.splines.feature_sets import Sample
from riesz.learners.splines.features import SplineSolution

_LEAST = 1e-6  # relative penalty, in units of a feature's mean square: without overlap there is no solution with less


def log_linear(
    sample: Sample, chosen: Sequence[SplineSolution], units: Sequence[Array], levels: Array, penalty: Penalty
) -> tuple[tuple[SplineSolution, ...], Array]:
    """The logarithm of each component's representer.

    Parameters
    ----------
    sample : Sample
    chosen : sequence of SplineSolution
        Solutions of the squared loss, whose features are used.
    units : sequence of ndarray, shape (1 + F,)
        Square roots of their relative penalties.
    levels : ndarray, shape (K, J)
        As in :func:`~riesz.learners.known_signs.levels`.
    penalty : float or "loo"

    Returns
    -------
    tuple of SplineSolution
    ndarray, shape (K,)
        The largest size of each representer at the rows.
    """
    solutions, most = [], []
    for c, (solution, scale) in enumerate(zip(chosen, units, strict=True)):
        columns = with_columns(sample.design, sample.pool(solution.features).phi)
        size = np.average(columns.z**2, axis=0, weights=columns.weights)
        scale = np.sqrt(np.maximum(scale**2, _LEAST * size))
        basis = make_basis(columns, columns.weights, columns.y[None], units=scale, seed=sample.seed)
        learned = fit_log_linear(columns, basis, c, levels[c], penalty, GRID[1:], "Splines")
        solutions.append(SplineSolution(solution.features, learned.theta, learned.penalty))
        most.append(learned.most)
    return tuple(solutions), np.array(most)
