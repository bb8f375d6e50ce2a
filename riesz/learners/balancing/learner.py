"""Balancing weights as a learner: rr by its dual, mu by ridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.families import MEANS, find_family
from riesz.learners.balancing.weights import PSI, Form, Tolerance, Weights, in_the_ball, in_the_cube, of_known_sign
from riesz.learners.base import Fit, Learner, Watch, need_covariates
from riesz.learners.check_settings import check_number, check_settings
from riesz.learners.expected_time import MANY, closed_form_seconds
from riesz.learners.known_signs import known_signs, with_signs
from riesz.learners.linear.learner import Penalty, fit_glm, mean_at, need_identification, ridge_coefficients
from riesz.learners.linear.ridge import make_basis
from riesz.learners.sparse.dictionary import Dictionary, make_dictionary
from riesz.learners.sparse.learner import need_few_columns
from riesz.learners.sparse.second_moments import held_out, make_columns, sums_of
from riesz.predictions import Predictions
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Balancing(Learner):
    r"""Balancing weights: the smallest weights that give every column of a dictionary the moment that the estimand reads.

    The weights are the Riesz representer at the observed rows. They balance for any linear moment, not only for effects of arms;
    mu is a ridge regression on the same columns. ``estimator="dr"`` with these weights is approximate residual balancing, and
    ``estimator="ipw"`` the weighting estimator. For weights that balance the very rows that they weight, pass ``folds=1``; with
    folds, held-out rows get the weights that the training rows imply for them.

    Parameters
    ----------
    tolerance : float, "aiw" or "cv"
        The imbalance that is allowed, for columns with standard deviation one. ``"aiw"``: the one that minimises
        :math:`E_n[\gamma^2] / n + \delta^2` for weights :math:`\gamma` and tolerance :math:`\delta`, as Athey, Imbens and Wager do.
        ``"cv"``: the one with the smallest Riesz loss on five held-out parts of the rows. 0 is exact balance.
    objective : {"variance", "entropy"}
        What is least: :math:`E_n[\gamma^2]`, or :math:`E_n[w \log w - w]` with :math:`w = |\gamma|`, which needs a
        representer of known sign, as those of ``ate``, ``att``, ``atc`` and ``mean``.
    sign : bool
        Whether weights of least variance must have the known sign of the representer, or be zero.
    ball : {"max", "euclidean"}
        Whether the tolerance limits the largest imbalance or the Euclidean norm of all of them.
    penalty : float or "loo"
        Ridge penalty of mu, as for :class:`~riesz.Linear`.
    dictionary : {"formula", "splines"}
        The columns to balance and to regress on: the formula's, or splines of its covariates and their products with the treatment.

    Notes
    -----
    For standardised columns b and their moments :math:`M = E_n[m(b)]` the weights solve

    .. math:: \min_\gamma E_n[\gamma^2] \quad \text{subject to} \quad \|E_n[\gamma b] - M\| \le \delta,

    with the intercept balanced exactly. The dual problem gives them as a function of the columns, :math:`b'\theta`, which is known
    at readings and held-out rows. With the largest imbalance limited it is the Riesz lasso with penalty :math:`\delta`, and with
    tolerance 0 the linear Riesz regression without penalty. With their norm limited it is a ridge; with penalty
    :math:`\lambda` these are the minimax linear weights for noise of variance :math:`n \lambda`. With a known sign g they are
    :math:`g \max(g\, b'\theta, 0)` and, for entropy, :math:`g \exp(g\, b'\theta)`: entropy balancing if the tolerance is 0. All are
    solved up to rounding.

    With a known sign there may be no weights at the tolerance of least variance. A tolerance that is chosen from the data then
    rises by half until there are some; a number is refused. Under ``family="binomial"`` mu is a logistic ridge regression.

    References
    ----------
    Zubizarreta (2015), "Stable weights that balance covariates for estimation with incomplete outcome data".
    Athey, Imbens and Wager (2018), "Approximate residual balancing".
    Hainmueller (2012), "Entropy balancing for causal effects".
    Hirshberg and Wager (2021), "Augmented minimax linear estimation".

    Examples
    --------
    Entropy balancing: the untreated, weighted, have the covariates of the treated.

    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> learner = riesz.Balancing(tolerance=0, objective="entropy")
    >>> fit = riesz.att("y ~ treat(a) * (x1 + x2)", data, learner=learner, folds=1)
    >>> rr = fit.riesz_representer["ATT"]
    >>> round(float(rr @ data["x1"]), 6) == 0, bool((rr[data["a"] == 0] < 0).all())
    (True, True)
    """

    families: ClassVar[tuple[str, ...]] = MEANS

    tolerance: Tolerance = "aiw"
    objective: Literal["variance", "entropy"] = "variance"
    sign: bool = False
    ball: Literal["max", "euclidean"] = "max"
    penalty: Penalty = "loo"
    dictionary: Literal["formula", "splines"] = "formula"

    def __post_init__(self) -> None:
        if self.tolerance != "aiw":
            check_number(self, "tolerance", "a number, 0 or larger, 'aiw' or 'cv'", at_least=0.0, or_word="cv")
        check_number(self, "penalty", "a number, 0 or larger, or 'loo'", at_least=0.0, or_word="loo")
        choices = {
            "objective": ("variance", "entropy"),
            "sign": (True, False),
            "ball": ("max", "euclidean"),
            "dictionary": ("formula", "splines"),
        }
        check_settings(self, choices, [], [])
        if self.ball == "euclidean" and self.form != "linear":
            raise LearnerError(
                "Balancing(ball='euclidean') is a ridge, whose weights may have either sign. Expected objective='variance' and "
                "sign=False, or ball='max'."
            )

    @property
    def form(self) -> Form:
        """How the weights follow from a linear function of the columns."""
        if self.objective == "entropy":
            return "exponential"
        return "positive" if self.sign else "linear"

    def seconds(self, design: Design, rows: int) -> float:
        columns = len(design.names)
        return 2 * closed_form_seconds(rows, columns) if columns >= MANY else 0.0

    def check(self, design: Design, rows: int) -> None:
        need_few_columns(design, "Balancing")
        if self.dictionary == "splines":
            need_covariates(design, "Balancing(dictionary='splines')")
        columns = len(design.names)
        for name, value in (("tolerance", self.tolerance), ("penalty", self.penalty)):
            if value == 0 and columns >= rows:
                raise LearnerError(
                    f"The design has {columns} columns and a training set only {rows} rows, so that Balancing({name}=0) has no "
                    f"unique solution. Use a positive number, or leave {name} out; or use fewer columns or folds."
                )
        need_identification(design, rows)
        if self.form != "linear":
            self._signs(design.sample)

    def _signs(self, sample: Design) -> Array:
        words = "objective='entropy'" if self.objective == "entropy" else "sign=True"
        return known_signs(sample, f"Balancing({words})", "riesz.Balancing()")

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        prepared: dict[int, tuple[Dictionary, Array]] = {}
        fits = []
        for design, seed in zip(designs, seeds, strict=True):
            if design.key not in prepared:
                prepared[design.key] = self._prepare(design.sample)
            fits.append(self._fit(design, *prepared[design.key], seed))
            watch.done()
        return fits

    def _prepare(self, sample: Design) -> tuple[Dictionary, Array]:
        """What the folds of a sample share: the dictionary, and the signs of each component's rr in each arm."""
        signs = np.empty((sample.components, 0)) if self.form == "linear" else self._signs(sample)
        return make_dictionary(sample, self.dictionary), signs

    def _fit(self, full: Design, dictionary: Dictionary, signs: Array, seed: int) -> BalancingFit:
        design = dictionary.columns(full, seed)
        mu, penalty = _ridge_of_outcome(design, self.penalty, seed)
        columns = make_columns(design)
        sums, parts = sums_of(columns), held_out(columns, seed) if self.tolerance == "cv" else []
        rows = float(1.0 / (columns.shares @ columns.shares))
        rr, chosen = [], {"penalty": penalty}
        solve = in_the_cube if self.ball == "max" else in_the_ball
        for c in range(design.components):
            weights: Weights = solve(sums, c, columns.penalised, self.tolerance, parts, rows)
            if self.form != "linear":
                given = self.tolerance not in ("aiw", "cv")
                weights = of_known_sign(columns, sums, c, self.form, signs[c], weights, given)
            rr.append(columns.coefficients(weights.theta))
            chosen |= {f"tolerance_{c}": weights.tolerance, f"rr_penalty_{c}": weights.penalty}
        return BalancingFit(dictionary, mu, np.column_stack(rr), self.form, signs, full.family, chosen)

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        if design.interacted or design.strata is None or self.dictionary == "splines":
            return []
        return [
            "The formula has no interaction with the treatment, so covariates are balanced over all rows, not within each arm; "
            "treat(a) * (...) balances them within arms."
        ]

    def describe(self, family: str) -> str:
        words = [self.objective, *(["known sign"] if self.sign else []), *([self.ball] if self.ball != "max" else [])]
        return f"Balancing ({', '.join(words)}{', on splines' if self.dictionary == 'splines' else ''})"


def _ridge_of_outcome(design: Design, penalty: Penalty, seed: int) -> tuple[Array, float]:
    """Coefficients of mu, or of its index, and the ridge penalty."""
    if not find_family(design.family).identity:
        return fit_glm(design, penalty, seed=seed)
    basis = make_basis(design, design.weights, design.y[None], seed=seed)
    return ridge_coefficients(design, basis, design.y, penalty, basis.penalties)


@stored
@dataclass(frozen=True)
class BalancingFit(Fit):
    """The coefficients of mu and of the dual.

    Attributes
    ----------
    dictionary : Dictionary
    mu : ndarray, shape (p,)
    rr : ndarray, shape (p, K)
    form : {"linear", "positive", "exponential"}
        How weights follow from a linear function.
    signs : ndarray, shape (K, J)
        Known signs of rr in each arm, one column if they are the same everywhere; empty for linear weights.
    family : str
        That of the outcome: ``mu`` gives its index.
    chosen : mapping
        Tolerances and penalties.
    """

    dictionary: Dictionary
    mu: Array
    rr: Array
    form: Form
    signs: Array
    family: str
    chosen: Mapping[str, float]

    def predict(self, design: Design) -> Predictions:
        mu, rr = self.dictionary.evaluate(design, self.mu, self.rr)
        if self.form != "linear":
            rr = with_signs(rr, self.signs, design, PSI[self.form].slope)
        return Predictions(mean_at(mu, self.family), rr, scale_free=False)

    def details(self) -> Mapping[str, float]:
        return self.chosen
