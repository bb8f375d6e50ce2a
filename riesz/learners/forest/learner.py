"""Local Riesz regression with the weights of random forests as a learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from riesz.crossfit.folds import draw_part
from riesz.design.derived import with_family
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.base import Fit, Learner, Watch, need_covariates
from riesz.learners.check_settings import check_number, check_settings
from riesz.learners.expected_time import MANY, closed_form_seconds
from riesz.learners.forest.dictionary import make_dictionary
from riesz.learners.forest.fit import ForestFit
from riesz.learners.forest.grow import Growth
from riesz.learners.forest.local import OutOfBag
from riesz.learners.forest.regress import learn_mu, learn_rr, make_training
from riesz.learners.forest.sites import find_sites, slopes_along_covariates
from riesz.learners.linear.learner import fit_linear, need_identification
from riesz.learners.propensity.scikit import need_scikit
from riesz.storage.coding import stored

_MOST_ROWS = 50_000
_FEWEST_ROWS = 20
_PER_TREE, _PER_ROW, _PER_COLUMN = 5e-4, 2e-7, 7e-8  # seconds per tree; per row of it; and per covariate that is tried
_TRIED = 20  # covariates tried at each split, or a third of them if that is more


@stored
@dataclass(frozen=True)
class Forest(Learner):
    r"""Local regressions of mu and local Riesz regressions, with the weights of honest random forests (ForestRiesz).

    At each x both functions are linear in functions b of the treatment, the indicators of its arms or the powers of a number, with
    coefficients from the rows that are near x according to a forest. Derivatives along the treatment are exact. Trees are
    scikit-learn's, which is an optional dependency.

    Parameters
    ----------
    rr : {"constrained", "riesz"}
        ``"riesz"`` minimises the Riesz loss, which also learns the scale. ``"constrained"`` solves the paper's moment-constrained
        problem. As the constraint is one for all x, its solution is the former up to scale; its scale comes from the
        estimation sample.
    start : {"linear", "constant"}
        ``"linear"`` first fits linear regressions of mu and rr on the formula's columns, as :class:`~riesz.Linear` does; forests
        learn what they leave. ``"constant"`` is ForestRiesz as published.
    trees : int
        Number of trees for mu, and for rr.
    rows_per_leaf : float
        Least number of rows in a leaf, or sum of their weights, which have mean one, where its structure is learned.
    share : float
        Share of the training rows, or clusters, that each tree uses.
    honest : bool
        Whether one half of a tree's rows decides on its structure and the other half on the means in its leaves. Otherwise all its
        rows do both.
    degree : int
        Highest power of a continuous treatment.
    penalty, rr_penalty : float or "oob"
        Of mu and of the Riesz representer: how much the coefficients at x are drawn to those of the whole sample; with 1 both count
        alike. ``"oob"`` picks the one with the smallest out-of-bag loss: each row, with its cluster, is predicted by the trees that
        do not use it. Eigenvalues of the local problem below 1e-6 are replaced by it, so that 0 is possible.

    Notes
    -----
    With the forest's weights :math:`\alpha_i(x)`, b scaled so that :math:`E_n[b b'] = I`, and :math:`r_i = b_i y_i` for mu,
    :math:`r_i = m_i(b)` for rr,

    .. math:: \theta(x) = \Big\{\sum_i \alpha_i(x) b_i b_i' + \lambda I\Big\}^{-1}
        \Big\{\sum_i \alpha_i(x) r_i + \lambda E_n[r]\Big\}

    and mu or rr is :math:`b(a)'\theta(x)`. The weight :math:`\alpha_i(x)` is the average over trees of the share of row i in the
    leaf of x. Trees split on the gradient of the local problem at the root; thresholds are drawn at random (extremely randomised
    trees). Readings that change covariates are evaluated, and enter the leaves, at the changed ones. Parameters share
    the trees of rr.

    Under ``family="binomial"`` mu is kept between 0 and 1. With more than 50,000 rows in a training set a random part of
    them is used. Trees grow one after the other from the seed, whatever the number of threads.

    Step functions of many covariates are a coarse approximation of smooth ones. On the first ten even random worlds the root mean
    square distance from the oracle's estimate was 1.5 oracle standard errors with a binary treatment (2.3 with
    ``start="constant"``), and 1.7 with a continuous one; with :class:`~riesz.Boosting` it was 0.8 and 0.5. The medians were 0.7,
    0.9 and 0.5, and 0.4 and 0.4.

    References
    ----------
    Chernozhukov, Newey, Quintas-Martinez and Syrgkanis (2022), "RieszNet and ForestRiesz: automatic debiased machine learning with
    neural nets and random forests".
    Athey, Tibshirani and Wager (2019), "Generalized random forests".
    Geurts, Ernst and Wehenkel (2006), "Extremely randomized trees".

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=riesz.Forest(trees=100))
    >>> fit.tidy()[["term", "estimate", "std_error"]].round(1)
      term  estimate  std_error
    0  ATE       1.2        0.2
    """

    one_thread: ClassVar[bool] = True

    rr: Literal["constrained", "riesz"] = "constrained"
    start: Literal["linear", "constant"] = "linear"
    trees: int = 200
    rows_per_leaf: float = 5.0
    share: float = 0.5
    honest: bool = True
    degree: int = 2
    penalty: OutOfBag = "oob"
    rr_penalty: OutOfBag = "oob"

    def __post_init__(self) -> None:
        check_settings(
            self,
            {"rr": ("constrained", "riesz"), "start": ("linear", "constant"), "honest": (True, False)},
            ["trees", "degree"],
            [],
        )
        check_number(self, "rows_per_leaf", "a number, 1 or larger", at_least=1.0)
        check_number(self, "share", "a number above 0 and up to 1", above=0.0, below=1.0 + 1e-9)
        for name in ("penalty", "rr_penalty"):
            check_number(self, name, "a number, 0 or larger, or 'oob'", at_least=0.0, or_word="oob")

    @classmethod
    def example(cls) -> Learner:
        return cls(trees=20)

    def seconds(self, design: Design, rows: int) -> float:
        rows, columns = min(rows, _MOST_ROWS), len(design.names)
        tried = min(columns, max(_TRIED, columns // 3))
        growing = 2 * self.trees * (_PER_TREE + rows * (_PER_ROW + _PER_COLUMN * self.share * tried))
        return growing + (closed_form_seconds(rows, columns) if self.start == "linear" and columns >= MANY else 0.0)

    def check(self, design: Design, rows: int) -> None:
        need_scikit("riesz.Forest")
        need_covariates(design, "riesz.Forest")
        if rows < _FEWEST_ROWS:
            raise LearnerError(
                f"A training set has {rows} rows; riesz.Forest needs at least {_FEWEST_ROWS}. Use fewer folds, or learner='linear'."
            )
        if slopes_along_covariates(design):
            raise LearnerError(
                "The estimand reads a derivative of mu along a covariate. riesz.Forest learns step functions of the covariates, "
                "whose slope is zero. Use the default learner, riesz.MADNet() or riesz.Splines()."
            )
        need_identification(design, rows)

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        fits = []
        for design, seed in zip(designs, seeds, strict=True):
            fits.append(self._fit(design.take(np.argsort(design.index)), seed))
            watch.done()
        return fits

    def _fit(self, design: Design, seed: int) -> ForestFit:
        design = design.take(draw_part(len(design), _MOST_ROWS, seed))
        dictionary = make_dictionary(design, self.degree)
        start = (
            fit_linear(with_family(design, "gaussian"), "loo", "loo", False, seed) if self.start == "linear" else None
        )
        predicted = None if start is None else start.predict(design)
        training = make_training(design, dictionary, find_sites(design), predicted)
        columns = training.rows.shape[1]
        growth = Growth(
            self.trees, self.share, self.rows_per_leaf, self.honest, min(columns, max(_TRIED, columns // 3))
        )
        for_mu, for_rr = np.random.SeedSequence(seed).generate_state(2).tolist()
        mu = learn_mu(training, growth, self.penalty, for_mu)
        rr = learn_rr(training, growth, self.rr_penalty, for_rr)
        mean = float(training.mean(training.outcome))
        return ForestFit(dictionary, mu, rr, mean, start, design.family, self.rr == "constrained")

    def describe(self, family: str) -> str:
        return f"Forest (rr {self.rr})"
