"""The lasso as a learner: approximately sparse mu and rr on a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import pandas as pd

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Linked
from riesz.errors import LearnerError
from riesz.families import find_family
from riesz.learners.base import Fit, Learner, Watch, need_covariates
from riesz.learners.check_settings import check_number, check_settings
from riesz.learners.expected_time import MANY, closed_form_seconds
from riesz.learners.linear.learner import mean_at, need_identification
from riesz.learners.sparse.dictionary import Dictionary, make_dictionary
from riesz.learners.sparse.solve import Choices, Penalty, solve
from riesz.predictions import Predictions
from riesz.storage.coding import stored

MOST_COLUMNS = 8000  # their second moments take half a gigabyte, and a multiple of it while penalties are chosen


@stored
@dataclass(frozen=True)
class Lasso(Learner):
    r"""Approximately sparse mu and Riesz representer: few of many columns matter, and there may be more columns than rows.

    Parameters
    ----------
    penalty : float, "plugin" or "cv"
        Of mu. ``"plugin"`` exceeds the noise in each column's condition; ``"cv"`` is the penalty with the smallest squared error on
        five held-out parts of the rows (whole clusters, if there are any); a number is the penalty of every standardised column.
    rr_penalty : float, "plugin" or "cv"
        The same for the Riesz representer, with the Riesz loss.
    rr : {"riesz", "constrained"}
        ``"riesz"`` minimises the Riesz loss, which also learns the scale. ``"constrained"`` solves the paper's moment-constrained
        problem: the lasso of the anchor on the dictionary, subject to a zero moment.
    dictionary : {"formula", "splines"}
        ``"formula"``: the formula's columns. ``"splines"``: lines, splines and mass points of the formula's covariates, and
        their products with the treatment.
    c1, c2 : float
        Constants of the plug-in penalties.

    Notes
    -----
    With standardised columns b of the dictionary, :math:`G = E_n[bb']` and :math:`M = E_n[m(b)]`, rr is
    :math:`b'\rho` with

    .. math:: \min_\rho \rho'G\rho - 2M'\rho + 2\lambda \sum_j D_j |\rho_j|.

    The intercept has no penalty. The plug-in penalty follows Chernozhukov, Newey and Singh (2022):
    :math:`\lambda = c_1 \Phi^{-1}(1 - c_2 / (2p)) / \sqrt n` and :math:`D_j^2 = E_n[(m(b_j) - b_j\, b'\rho)^2]`, with
    :math:`\rho` from the step before, until D does not change. The first :math:`\rho` is that of a constant and the anchor, which
    does not depend on the order of the columns. No :math:`D_j` is below a tenth of their root mean square. With clusters or weights
    :math:`D_j/\sqrt n` is the standard error of the mean that they imply. A product with a continuous treatment, or a power of it,
    is penalised only for what it adds to its parts.

    Problems are solved exactly, from second moments. With more columns than rows a small penalty has no solution, since no
    combination of the columns then has the moments M; such a number is refused, and a penalty that is chosen from the
    data is raised to the least one with a solution.

    The constrained form is :math:`r = \beta - f` for the anchor :math:`\beta`, with f a lasso on the dictionary and
    :math:`h_n(f) = 0`. If the effect is the same for everyone, f is a lasso of the treatment on the covariates. It has a solution
    at every penalty, and its scale comes from the estimation sample.

    Under ``family="binomial"`` mu is a logistic lasso; rr is the same as for other outcomes. With ``dictionary="splines"`` and many
    rows, a random part of a training set is used.

    References
    ----------
    Chernozhukov, Newey and Singh (2022), "Automatic debiased machine learning of causal and structural effects", Econometrica.
    Belloni, Chen, Chernozhukov and Hansen (2012), "Sparse models and methods for optimal instruments", Econometrica.

    Examples
    --------
    More columns than rows; the effect is 1, and two covariates confound it:

    >>> import numpy as np, pandas as pd, riesz
    >>> rng = np.random.default_rng(2)
    >>> x = rng.normal(size=(300, 400))
    >>> a = (rng.uniform(size=300) < 1 / (1 + np.exp(-x[:, 0] - x[:, 1]))).astype(float)
    >>> data = pd.DataFrame(x).add_prefix("x").assign(a=a, y=a + 2 * x[:, 0] + x[:, 1] + rng.normal(size=300))
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=riesz.Lasso())
    >>> naive = data.query("a == 1")["y"].mean() - data.query("a == 0")["y"].mean()
    >>> round(float(fit.params["ATE"]), 1), round(float(naive), 1)
    (0.9, 2.9)
    """

    families: ClassVar[tuple[str, ...]] = ("gaussian", "binomial", "poisson")

    penalty: Penalty = "cv"
    rr_penalty: Penalty = "plugin"
    rr: Literal["riesz", "constrained"] = "riesz"
    dictionary: Literal["formula", "splines"] = "formula"
    c1: float = 1.0
    c2: float = 0.1

    def __post_init__(self) -> None:
        choices = {"rr": ("riesz", "constrained"), "dictionary": ("formula", "splines")}
        check_settings(self, choices, [], [])
        for name in ("penalty", "rr_penalty"):
            if getattr(self, name) != "plugin":
                check_number(self, name, "a number, 0 or larger, 'plugin' or 'cv'", at_least=0.0, or_word="cv")
        check_number(self, "c1", "a positive number, such as 1", above=0.0)
        check_number(self, "c2", "a number between 0 and 1, such as 0.1", above=0.0, below=1.0)

    def seconds(self, design: Design, rows: int) -> float:
        columns = len(design.names)
        return 2 * closed_form_seconds(rows, columns) if columns >= MANY else 0.0

    def check(self, design: Design, rows: int) -> None:
        need_few_columns(design, "Lasso")
        columns = len(design.names)
        if self.dictionary == "splines":
            need_covariates(design, "Lasso(dictionary='splines')")
        for name in ("penalty", "rr_penalty"):
            if getattr(self, name) == 0 and columns >= rows:
                raise LearnerError(
                    f"The design has {columns} columns and a training set only {rows} rows, so that Lasso({name}=0) has no unique "
                    f"solution. Use {name}='plugin', 'cv' or a positive number, or fewer columns or folds."
                )
        need_identification(design, rows)

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        if design.interacted or design.strata is None or self.dictionary == "splines":
            return []
        return [
            "The formula has no interaction with the treatment, so this learner assumes that the effect is the same for everyone; "
            "treat(a) * (...) lets it vary."
        ]

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        choices = Choices(self.penalty, self.rr_penalty, self.rr == "constrained", self.c1, self.c2)
        dictionaries: dict[int, Dictionary] = {}
        fits = []
        for design, seed in zip(designs, seeds, strict=True):
            if design.key not in dictionaries:
                dictionaries[design.key] = make_dictionary(design.sample, self.dictionary)
            dictionary = dictionaries[design.key]
            solved = solve(dictionary.columns(design, seed), choices, seed)
            fits.append(LassoFit(dictionary, solved.mu, solved.rr, design.family, choices.constrained, solved.details))
            watch.done()
        return fits

    def describe(self, family: str) -> str:
        words = [find_family(family).word, "on splines" if self.dictionary == "splines" else ""]
        return f"Lasso ({', '.join([word for word in words if word] + [f'rr {self.rr}'])})"


def need_few_columns(design: Design, who: str) -> None:
    """Refuse more columns than a matrix of second moments can have."""
    columns = len(design.names)
    if columns > MOST_COLUMNS:
        raise LearnerError(
            f"The design has {columns:,} columns; {who} needs their second moments, a matrix of that size, and takes at most "
            f"{MOST_COLUMNS:,}. Use fewer columns, or learner='linear', which works with the rows if these are fewer."
        )


@stored
@dataclass(frozen=True)
class LassoFit(Fit):
    """Sparse coefficients of a dictionary.

    Attributes
    ----------
    dictionary : Dictionary
    mu : ndarray, shape (p,)
    rr : ndarray, shape (p, K)
        Of rr or, if it is constrained, of what is subtracted from the anchor.
    family : str
        That of the outcome: ``mu`` gives its index.
    constrained : bool
    chosen : mapping
        Penalties, and numbers of columns.
    """

    dictionary: Dictionary
    mu: Array
    rr: Array
    family: str
    constrained: bool
    chosen: Mapping[str, float]

    def predict(self, design: Design) -> Predictions:
        mu, rr = self.dictionary.evaluate(design, self.mu, self.rr)
        if self.constrained:
            anchor = design.anchor
            rr = Linked(anchor.observed - rr.observed, anchor.values - rr.values, anchor.slopes - rr.slopes, rr.links)
        return Predictions(mean_at(mu, self.family), rr, scale_free=self.constrained)

    def details(self) -> Mapping[str, float]:
        return self.chosen
