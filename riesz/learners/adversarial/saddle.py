r"""The saddle point of rr and its adversary in a Hilbert space, in closed form.

In: the regressions on the features of kernel sections, or on standardised columns. Out: the coefficients of rr. With features
:math:`\phi`, :math:`G = E_n[\phi\phi']`, :math:`M = E_n[m(\phi)]`, :math:`f = \phi'\theta`, :math:`r = \phi'\rho` and norms
:math:`\theta'D\theta`, the game is

.. math:: \min_\rho \max_\theta\; (M - G\rho)'\theta - \theta'(G + \lambda D)\theta + \kappa\, \rho'D\rho.

The adversary's best answer is :math:`\theta = (G + \lambda D)^{-1}(M - G\rho) / 2`, and rr then satisfies
:math:`G\theta = 2\kappa D\rho`. In the basis T of ``linear/ridge.py``, where :math:`T'GT = I` and :math:`T'DT = \mathrm{diag}(d)`,

.. math:: T^{-1}\rho = \frac{T'M}{1 + 4\kappa d\,(1 + \lambda d)}.

=====================================  =======================================================================================
setting                                rr
=====================================  =======================================================================================
:math:`\lambda = 0`                    the Riesz ridge regression with penalty :math:`4\kappa`
:math:`\lambda = \kappa`               that with penalty :math:`2\kappa`, applied twice: :math:`(1 + 2\kappa d)^{-2}`
:math:`\kappa = 0`                     the Riesz regression without penalty, whatever the adversary's norm costs
any weights r, :math:`\|f\| \le 1`     the Riesz ridge regression with penalty :math:`\sigma^2 / n`: minimax linear weights
=====================================  =======================================================================================

The last line minimises :math:`\sup_f E_n[m(f) - r f]^2 + (\sigma^2 / n) E_n[r^2]` over r in :math:`R^n`. Its solution is
:math:`r_i = \phi_i'\rho`, so that it has values at readings and at rows that were held out.

Penalties are chosen by the leave-one-out Riesz loss of ``linear/ridge.py``. For it rr is a ridge regression with the penalty matrix
:math:`4\kappa (D + \lambda D G^{-1} D)`, which is kept when a row is left out.
"""

from __future__ import annotations

from dataclasses import replace

from riesz.arrays import Array
from riesz.learners.kernel.solve import Problem
from riesz.learners.linear.learner import Penalty, riesz_coefficients

_EQUAL = 0.25  # 1 + x + x^2 / 4 = (1 + x / 2)^2 with x = 4 kappa d


def saddle_point(problem: Problem, penalty: float | None, rr_penalty: Penalty) -> tuple[Array, dict[str, float]]:
    """Coefficients of each component's rr, shape (1 + m, K), and the penalties in use.

    Parameters
    ----------
    problem : Problem
    penalty : float or None
        lambda; None for that of rr.
    rr_penalty : float or "loo"
        kappa.
    """
    basis = problem.basis
    if penalty is None:
        shrunk = replace(basis, square=_EQUAL)
    else:
        shrunk = replace(basis, penalty=basis.penalty * (1.0 + penalty * basis.penalty))
    given: Penalty = "loo" if rr_penalty == "loo" else 4.0 * float(rr_penalty)
    rr, chosen = riesz_coefficients(problem.columns, shrunk, given, constrained=False, grid=problem.grid)
    facts = {}
    for c, ridge in enumerate(chosen.values()):
        facts[f"rr_penalty_{c}"] = ridge / 4.0
        facts[f"adversary_penalty_{c}"] = ridge / 4.0 if penalty is None else penalty
    return rr, facts


def minimax_linear(problem: Problem, noise: Penalty, rows: float) -> tuple[Array, dict[str, float]]:
    """Coefficients whose values at the rows are the minimax linear weights, and the variance of the noise in use.

    Parameters
    ----------
    problem : Problem
    noise : float or "loo"
        sigma^2.
    rows : float
        n; with weights, Kish's effective number of rows.
    """
    given: Penalty = "loo" if noise == "loo" else float(noise) / rows
    rr, chosen = riesz_coefficients(problem.columns, problem.basis, given, constrained=False, grid=problem.grid)
    return rr, {f"noise_{c}": ridge * rows for c, ridge in enumerate(chosen.values())}
