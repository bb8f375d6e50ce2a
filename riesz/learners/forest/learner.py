"""Local Riesz regression with the weights of random forests as a learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from riesz.crossfit.folds import draw_part
from riesz.design.derived import with_family
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.base import Fit, Learner, Watch, need_covariates
from riesz.learners.check_settings import check_number, check_settings
from riesz.learners.forest.dictionary import make_dictionary
from riesz.learners.forest.fit import ForestFit
from riesz.learners.forest.grow import Growth
from riesz.learners.forest.regress import learn_mu, learn_rr, make_training
from riesz.learners.forest.sites import find_sites, slopes_along_covariates
from riesz.learners.linear.learner import fit_linear, need_identification
from riesz.learners.propensity.scikit import need_scikit
from riesz.storage.coding import stored

_MOST_ROWS = 50_000
_FEWEST_ROWS = 20
_TRIED = 20  # covariates tried at each split, or a third of them if that is more


@stored
@dataclass(frozen=True)
class Forest(Learner):
    one_thread: ClassVar[bool] = True

    rr: Literal["constrained", "riesz"] = "constrained"
    start: Literal["linear", "constant"] = "linear"
    trees: int = 200
    rows_per_leaf: float = 5.0
    share: float = 0.5
    honest: bool = True
    degree: int = 2
    penalty: float | Literal["oob"] = "oob"
    rr_penalty: float | Literal["oob"] = "oob"

    def __post_init__(self) -> None:
        check_settings(self, {"rr": ("constrained", "riesz"), "start": ("linear", "constant"), "honest": (True, False)}, ["trees", "degree"], [])
        check_number(self, "rows_per_leaf", "a number, 1 or larger", at_least=1.0)
        check_number(self, "share", "a number above 0 and up to 1", above=0.0, below=1.0 + 1e-9)
        for name in ("penalty", "rr_penalty"):
            check_number(self, name, "a number, 0 or larger, or 'oob'", at_least=0.0, or_word="oob")

    @classmethod
    def example(cls) -> Learner:
        return cls(trees=20)

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
        start = fit_linear(with_family(design, "gaussian"), "loo", "loo", False, seed) if self.start == "linear" else None
        predicted = None if start is None else start.predict(design)
        training = make_training(design, dictionary, find_sites(design), predicted)
        columns = training.rows.shape[1]
        growth = Growth(self.trees, self.share, self.rows_per_leaf, self.honest, min(columns, max(_TRIED, columns // 3)))
        for_mu, for_rr = np.random.SeedSequence(seed).generate_state(2).tolist()
        mu = learn_mu(training, growth, self.penalty, for_mu)
        rr = learn_rr(training, growth, self.rr_penalty, for_rr)
        mean = float(training.mean(training.outcome))
        return ForestFit(dictionary, mu, rr, mean, start, design.family == "binomial", self.rr == "constrained")

    def describe(self, family: str) -> str:
        return f"Forest (rr {self.rr})"
