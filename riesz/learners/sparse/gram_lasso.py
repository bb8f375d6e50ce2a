r"""The lasso from second moments.

.. math:: \min_\theta \tfrac12 \theta'G\theta - L'\theta + \sum_j \lambda_j |\theta_j|

has a solution if some v satisfies :math:`|L - G v|_j \le \lambda_j` for every j, and :math:`\theta` solves it if and only if

.. math:: |L - G\theta|_j \le \lambda_j, \qquad (L - G\theta)_j = \lambda_j\, \mathrm{sign}(\theta_j) \text{ where } \theta_j \ne 0

(the conditions of Karush, Kuhn and Tucker). For a regression L lies in the range of G and a solution exists at every penalty. For a
Riesz representer with more columns than rows L may lie outside, and a small penalty has no solution.

Solved exactly by an active set (Lee, Battle, Raina and Ng 2006): on the columns in use, with given signs, the problem is a
linear system. The step to its solution stops where a coefficient changes its sign, and that column leaves. Then the column that
violates the conditions most joins: it starts with the right sign. The objective falls in every step, so that no set of columns and
signs occurs twice. Along a direction that G does not see the objective is linear: the step ends at a change of sign, or there is
no solution.

Shapes: p columns.

References
----------
Lee, Battle, Raina and Ng (2006), "Efficient sparse coding algorithms".
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from riesz.arrays import Array
from riesz.crossfit.threads import go_on

_EXACT = 1e-11  # violations of the conditions that count as rounding, relative to L
_NULL = 1e-11  # directions with a smaller share of the largest eigenvalue are not seen by G
_STEPS = 30  # steps per column before giving up


class NoSolution(Exception):
    """The objective has no minimum: the penalty is too small for L outside of the range of G."""


def solve_lasso(gram: Array, linear: Array, penalty: Array, start: Array | None = None) -> Array:
    """The solution, shape (p,).

    Parameters
    ----------
    gram : ndarray, shape (p, p)
        G, positive semidefinite. Columns that it does not see at all, with zeros on the diagonal, get coefficient zero.
    linear : ndarray, shape (p,)
        L.
    penalty : ndarray, shape (p,)
        Non-negative; columns with penalty zero always join.
    start : ndarray, shape (p,), optional
        A solution of a similar problem.

    Raises
    ------
    NoSolution
        If the objective has no minimum.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.learners.sparse.gram_lasso import solve_lasso
    >>> solve_lasso(np.eye(3), np.array([3.0, -2.0, 0.5]), np.ones(3)).tolist()
    [2.0, -1.0, 0.0]
    """
    diagonal = gram.diagonal()
    usable = diagonal > _NULL * diagonal.max(initial=0.0)
    free = usable & (penalty == 0)
    theta = np.zeros(len(linear)) if start is None else np.where(usable, start, 0.0)
    active = free | (theta != 0)
    sign = np.where(free, 0.0, np.sign(theta))
    exact = _EXACT * max(float(np.abs(linear).max(initial=0.0)), float(np.finfo(float).tiny))
    for _ in range(_STEPS * (len(linear) + 1)):
        go_on()
        _to_the_minimum(gram, linear, penalty, theta, active, sign, exact)
        slope = linear - gram[:, active] @ theta[active]
        excess = np.where(usable & ~active, np.abs(slope) - penalty, -np.inf)
        joins = int(np.argmax(excess))
        if excess[joins] <= exact:
            break
        active[joins], sign[joins] = True, np.sign(slope[joins])
    return theta


def _to_the_minimum(
    gram: Array, linear: Array, penalty: Array, theta: Array, active: np.ndarray, sign: Array, exact: float
) -> None:
    """Move to the minimum on the active columns with these signs; columns whose sign would change leave. Changes its arguments."""
    while active.any():
        at = np.flatnonzero(active)
        held = penalty[at] > 0
        inner = gram[np.ix_(at, at)]
        slope = linear[at] - penalty[at] * sign[at] - inner @ theta[at]
        direction, bounded = _direction(inner, slope, exact)
        away = held & (direction * sign[at] < 0)  # columns that this direction brings nearer to zero
        steps = np.full(len(at), np.inf)
        steps[away] = np.abs(theta[at][away] / direction[away])
        first = int(np.argmin(steps))
        if bounded and steps[first] >= 1.0:
            theta[at] += direction
            return
        if not np.isfinite(steps[first]):
            raise NoSolution
        theta[at] += steps[first] * direction
        leaves = at[away & (steps <= steps[first])]
        theta[leaves], active[leaves], sign[leaves] = 0.0, False, 0.0


def _direction(inner: Array, slope: Array, exact: float) -> tuple[Array, bool]:
    """The step to the minimum; or, if there is none, a direction of descent that G does not see, and False."""
    scale = np.sqrt(inner.diagonal())
    scaled = inner / scale / scale[:, None]
    factor, failed = linalg.lapack.dpotrf(scaled, lower=1)
    if not failed and factor.diagonal().min() ** 2 > 1e-9:  # so that rounding does not matter
        step = linalg.cho_solve((factor, True), slope / scale, check_finite=False)
        return np.asarray(step / scale), True
    values, vectors = np.linalg.eigh(scaled)
    seen = values > _NULL * values[-1]
    along = vectors.T @ (slope / scale)
    unseen = vectors[:, ~seen] @ along[~seen]
    if np.abs(unseen).max(initial=0.0) > 1e3 * exact / scale.min():
        return unseen / scale, False
    return np.asarray(vectors[:, seen] @ (along[seen] / values[seen]) / scale), True


def violation(gram: Array, linear: Array, penalty: Array, theta: Array) -> float:
    """The largest violation of the conditions of Karush, Kuhn and Tucker; zero at a solution, up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.learners.sparse.gram_lasso import violation
    >>> violation(np.eye(2), np.array([3.0, 0.5]), np.ones(2), np.array([2.0, 0.0]))
    0.0
    """
    slope = linear - gram @ theta
    of_used = np.abs(slope - penalty * np.sign(theta))
    of_unused = np.clip(np.abs(slope) - penalty, 0.0, None)
    return float(np.where(theta != 0, of_used, of_unused).max(initial=0.0))


def least_factor(gram: Array, linear: Array, penalty: Array) -> float:
    r"""The smallest c for which the penalties :math:`c \lambda_j` have a solution, to about 1%; it is found by bisection.

    It is :math:`\min_v \max_j |L - G v|_j / \lambda_j`, which is zero if L lies in the range of G.
    """
    held = penalty > 0
    high = 1.01 * float(np.max(np.abs(linear[held]) / penalty[held], initial=0.0))
    while high > 0 and not has_solution(gram, linear, high * penalty):  # columns without penalty may move others
        high *= 2.0
    low = 1e-6 * high
    if high == 0 or has_solution(gram, linear, low * penalty):
        return 0.0
    while high > 1.01 * low:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if has_solution(gram, linear, middle * penalty) else (middle, high)
    return high


def has_solution(gram: Array, linear: Array, penalty: Array) -> bool:
    """Whether the objective has a minimum."""
    try:
        solve_lasso(gram, linear, penalty)
    except NoSolution:
        return False
    return True
