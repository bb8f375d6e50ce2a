"""Boosting as a learner: gradient-boosted trees for mu and rr."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.families import MEANS, find_family
from riesz.learners.base import Fit, Learner, Watch, need_covariates
from riesz.learners.boosting.engine import Growth, make_dataset, need_lightgbm
from riesz.learners.boosting.fits import DERIVES, BoostingFit
from riesz.learners.boosting.on_splines import OnSplinesFit, fit_on_splines, suits
from riesz.learners.boosting.training import PARTS, Sample, Trainer, make_sample
from riesz.learners.check_settings import check_number, check_settings
from riesz.learners.known_signs import known_signs, largest, levels
from riesz.learners.linear.learner import need_identification
from riesz.learners.propensity.representer import need_arms
from riesz.learners.splines.learner import Prepared, Splines
from riesz.storage.coding import stored

_FEWEST_ROWS = 20
_MOST_LEAVES = 1024
_MANY_ROWS = 10_000
#: Learning rates with more than a number of training rows. With 0.1 from 5,000 to 10,000 rows trees took twice the time, and the
#: distance of the stack's estimate from the oracle's was the same, 0.60 (n = 10,000, 16 draws of four hard cases, even numbers).
#: With 0.2 from 20,000 rows on they took 1.5 to 1.8 times the time, and the distance was 0.47 and 0.88 with either (n = 40,000,
#: 6 draws, and n = 30,000, 9 draws, of three hard cases each, even numbers).
_RATES = ((20_000, 0.3), (5_000, 0.2), (0, 0.1))
_PATIENCE = 1.5  # sum of learning rates without an improvement on held-out rows

#: The number of trees that is best on held-out rows is multiplied by this: boosters are averaged, so bias matters more.
_MORE = {"mu": 1.5, "riesz": 1.25, "entropy": 1.0, "constrained": 2.0, "propensity": 1.5}


@stored
@dataclass(frozen=True)
class Boosting(Learner):
    r"""Gradient-boosted trees for mu and for the Riesz representer, on LightGBM.

    Trees find jumps, mass points and interactions by themselves, and ignore columns that do not matter. They need more rows than
    other learners for smooth or linear functions. For derivatives (``ade``, ``ipe``) trees of the covariates are added to
    :class:`~riesz.Splines`, which carry the slope, and rr of ``ade`` is the treatment's residual from boosted trees.

    Parameters
    ----------
    rr : {"constrained", "riesz", "propensity", "entropy"}
        How the Riesz representer is learned, if no derivative is asked for. ``"riesz"`` boosts the Riesz loss
        :math:`E_n[rr^2 - 2 m(rr)]`. ``"constrained"`` boosts the paper's constrained problem, in which every tree satisfies the
        constraint; its scale comes from the estimation sample. ``"propensity"``, for a treatment with arms, derives rr from
        boosted propensities. ``"entropy"``, for an rr of known sign g (those of ``ate``, ``att``, ``atc``, ``mean`` and ``ape``),
        boosts the Kullback-Leibler loss :math:`E_n[|rr|] - E_n[m(g \log |rr|)]` of :math:`g \log |rr|`.
    leaves : int, optional
        Largest number of leaves per tree; by default 8, or 16 with more than 10,000 training rows.
    rows_per_leaf : float, optional
        Least number of observed rows in a leaf, or sum of their weights, which have mean one. Where the moment reads mu, there need
        not be an observed row nearby; without this bound rr would grow without limit there. By default 12 or, if
        larger, 0.45 times the root of the number of training rows; three times that for a continuous treatment, whose rr is smaller
        and smoother.
    learning_rate : float, optional
        Share of each tree that is added; by default 0.1, 0.2 with more than 5,000 training rows and 0.3
        with more than 20,000.
    trees : int
        Largest number of trees. Held-out rows decide how many are used.
    boosters : int
        Boosters per function, at most 10. Each holds out another tenth of the training rows; they stop together, and their mean is
        used.
    clip : float
        Propensities are kept in [clip, 1 - clip], if ``rr="propensity"``.

    Notes
    -----
    The trees use the raw treatment (a number, or an indicator per arm) and the formula's columns without the treatment. Mu is
    boosted by squared error, by the cross-entropy of a logit if ``family="binomial"``, and of the logarithm of mu by the loss of a
    Poisson or a gamma regression if ``family`` is ``"poisson"`` or ``"gamma"``. With :class:`~riesz.Quantile` it is the pinball
    loss, and rr is ``"constrained"`` or ``"riesz"``.

    rr is boosted on a table with every row at every point where its moment reads mu. The gradient of the Riesz loss is
    :math:`2 w rr` at the observed rows and :math:`-2 w` times the moment's weight at the readings, and only observed rows have a
    second derivative, so that the bound on a leaf's second derivatives is one on its observed rows. A row is held out together
    with its readings and its cluster.

    The default ``rr`` was chosen on 37 random worlds (``riesz.datasets.random_world``, binary treatment, even seeds, one repeat).
    Root mean square distance of the estimate from the oracle's in oracle standard errors, median width relative to the
    oracle's, and mean squared error of rr relative to its square: ``"constrained"`` 0.73, 1.00, 0.15; ``"riesz"`` 0.77, 1.08,
    0.16; ``"propensity"`` 0.68, 1.05, 0.15. Differences of 0.1 in the first number are within its error.

    With ``rr="entropy"`` trees sum up to f, and :math:`rr = g\, b \exp(g f)` with the best constant g b in each arm. Their
    leaves get the values that are best for the Kullback-Leibler loss, at most 1 in size; the same bound on observed rows holds.
    \|rr\| is at most the moment's largest weight over the smallest propensity that :class:`~riesz.Splines` divide by. On 25
    random worlds (even seeds 24 to 72, as above) the three numbers were 0.71, 1.03 and 0.14; those of ``"constrained"`` 0.70,
    0.99, 0.15, of ``"riesz"`` 0.76, 1.08, 0.17 and of ``"propensity"`` 0.71, 1.04, 0.17.

    LightGBM runs with one thread, in deterministic mode: the same seed gives the same bits in every thread and process.

    References
    ----------
    Friedman (2001), "Greedy function approximation: a gradient boosting machine".
    Lee and Schuler (2025), "RieszBoost: gradient boosting for Riesz regression".
    Kato (2025), "Direct debiased machine learning via Bregman divergence minimization".
    Hines and Miles (2025), "Learning density ratios in causal inference using Bregman-Riesz regression".
    Ke et al. (2017), "LightGBM: a highly efficient gradient boosting decision tree".

    Examples
    --------
    A confounder with a jump, which a line cannot follow; the effect is 1:

    >>> import numpy as np, pandas as pd, riesz
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=2000)
    >>> a = (rng.uniform(size=2000) < np.where(abs(x) < 0.5, 0.8, 0.3)).astype(float)
    >>> data = pd.DataFrame({"y": a + 3 * (abs(x) < 0.5) + rng.normal(size=2000), "a": a, "x": x})
    >>> fits = [riesz.ate("y ~ treat(a) + x", data, learner=learner) for learner in (riesz.Boosting(), riesz.Linear())]
    >>> [round(float(fit.params.iloc[0]), 1) for fit in fits]
    [1.0, 2.3]
    """

    one_thread: ClassVar[bool] = True
    families: ClassVar[tuple[str, ...]] = (*MEANS, "quantile")

    rr: Literal["riesz", "constrained", "propensity", "entropy"] = "constrained"
    leaves: int | None = None
    rows_per_leaf: float | None = None
    learning_rate: float | None = None
    trees: int = 500
    boosters: int = 2
    clip: float = 0.01

    @classmethod
    def example(cls) -> Learner:
        return cls(trees=10, boosters=1)

    def __post_init__(self) -> None:
        check_settings(self, {"rr": ("riesz", "constrained", "propensity", "entropy")}, ["trees", "boosters"], [])
        if self.leaves is not None:
            check_settings(self, {}, ["leaves"], [])
            if not 2 <= self.leaves <= _MOST_LEAVES:
                raise LearnerError(
                    f"Boosting(leaves={self.leaves}): expected None or a whole number from 2 to {_MOST_LEAVES}."
                )
        if self.boosters > PARTS:
            raise LearnerError(f"Boosting(boosters={self.boosters}): expected a whole number from 1 to {PARTS}.")
        if self.rows_per_leaf is not None:
            check_number(self, "rows_per_leaf", "None or a number, 1 or larger", at_least=1.0)
        if self.learning_rate is not None:
            check_number(self, "learning_rate", "None or a number above 0 and up to 1", above=0.0, below=1.0 + 1e-9)
        check_number(self, "clip", "a number between 0 and 0.5, such as 0.01", above=0.0, below=0.5)

    def check(self, design: Design, rows: int) -> None:
        need_lightgbm("riesz.Boosting")
        need_covariates(design, "riesz.Boosting")
        if rows < _FEWEST_ROWS:
            raise LearnerError(
                f"A training set has {rows} rows; riesz.Boosting needs at least {_FEWEST_ROWS}, of which some decide when to stop. "
                "Use fewer folds, or learner='linear'."
            )
        if design.is_derivative.any() and not design.covariates.size:
            raise LearnerError(
                "For a derivative riesz.Boosting adds trees of the covariates to splines, but the formula has none besides the "
                "treatment. Add some, as in 'y ~ treat(a) + x', or use riesz.Splines()."
            )
        if design.is_derivative.any() and not suits(design):
            raise LearnerError(
                "The estimand reads a derivative of mu along a covariate, or at changed covariates. riesz.Boosting learns mu as a "
                "step function of the covariates, whose slope is zero. Use the default learner, riesz.MADNet() or riesz.Splines()."
            )
        need_identification(design, rows)
        if self.rr == "propensity":
            need_arms(design.sample, DERIVES)
        self._signs(design.sample)
        if not find_family(design.family).is_mean:
            self._need_values(design)

    def _signs(self, sample: Design) -> Array | None:
        """The known signs that ``rr="entropy"`` needs."""
        return known_signs(sample, "Boosting(rr='entropy')", "riesz.Boosting()") if self.rr == "entropy" else None

    def _need_values(self, design: Design) -> None:
        """Refuse what cannot be learned for a quantile."""
        if self.rr == "propensity":
            raise LearnerError(
                f"Boosting(rr='propensity') cannot be used with family={design.family!r}: the Riesz representer of a quantile is "
                "weighted by a density, which propensities do not give. Use rr='constrained' or rr='riesz'."
            )
        if design.is_derivative.any():
            raise LearnerError(
                f"The estimand reads a derivative of mu, and with family={design.family!r} riesz.Boosting learns step functions, "
                "whose slope is zero. Use riesz.Linear() or riesz.MADNet()."
            )

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        samples: dict[int, Any] = {}
        fits: list[Fit] = []
        for design, seed in zip(designs, seeds, strict=True):
            on_splines = bool(design.is_derivative.any())
            prepare: Any = self._prepare_splines if on_splines else self._prepare
            fit: Any = self._fit_on_splines if on_splines else self._fit
            if design.key not in samples:
                samples[design.key] = prepare(design.sample)
            fits.append(fit(design.take(np.argsort(design.index)), samples[design.key], _signed(seed)))
            watch.done()
        return fits

    def _prepare_splines(self, sample: Design) -> tuple[Prepared, Any]:
        return Splines().prepare(sample), make_dataset(sample.x)

    def _fit_on_splines(self, design: Design, sample: tuple[Prepared, Any], seed: int) -> OnSplinesFit:
        prepared, data = sample
        growth = self._growth(len(design), design.strata is not None)
        return fit_on_splines(design, prepared, data, seed, self.boosters, growth)

    def _prepare(self, sample: Design) -> tuple[Sample, Array | None]:
        return make_sample(sample, self.rr == "propensity"), self._signs(sample)

    def _fit(self, design: Design, prepared: tuple[Sample, Array | None], seed: int) -> BoostingFit:
        sample, signs = prepared
        trainer = Trainer(design, sample, seed, self.boosters)
        growth = self._growth(len(design), design.strata is not None)
        mu = trainer.outcome(growth)
        if not find_family(design.family).is_mean:
            trainer = trainer.weighted_by_density(mu)
        growth = replace(growth, more=_MORE[self.rr])
        rr, propensity, most, constants = [], [], None, None
        if self.rr == "propensity":
            propensity = trainer.propensities(growth)
        elif signs is not None:
            constants = levels(signs, design)
            rr = [trainer.logarithm(component, of_arms, growth) for component, of_arms in enumerate(constants)]
            most = largest(design)
        else:
            learn = trainer.perpendicular if self.rr == "constrained" else trainer.representer
            rr = [learn(component, growth) for component in range(design.components)]
        name = "propensity" if propensity else "rr"
        numbers = {f"{name}_trees_{c}": bag[0].trees for c, bag in enumerate(propensity or rr)}
        trees = {name: float(number) for name, number in {"mu_trees": mu[0].trees, **numbers}.items()}
        constrained = self.rr == "constrained"
        return BoostingFit(mu, rr, propensity, design.family, constrained, self.clip, trees, constants, most)

    def _growth(self, n: int, arms: bool) -> Growth:
        """How trees of mu grow on a training set of n rows: what is not set depends on n."""
        rate = self.learning_rate or next(rate for rows, rate in _RATES if n > rows)
        leaves = self.leaves or (16 if n > _MANY_ROWS else 8)
        least = self.rows_per_leaf or max(12.0, 0.45 * np.sqrt(n)) * (1.0 if arms else 3.0)
        return Growth(rate, leaves, float(least), self.trees, round(_PATIENCE / rate), _MORE["mu"])

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        if not design.is_derivative.any():
            return []
        return [
            "Boosting: trees of the covariates are added to splines, which carry the slope; that of a tree is zero."
        ]

    def store(self, fit: Any) -> object:
        return fit.store()

    def restore(self, content: Sequence[Any], sample: Design) -> Sequence[Fit]:
        return [fit.restore(sample, self.rr, self.clip) for fit in content]

    def describe(self, family: str) -> str:
        return "Boosting" if self.rr == Boosting.rr else f"Boosting (rr {self.rr})"


def _signed(seed: int) -> int:
    """A seed that LightGBM can hold, with room for one more per booster."""
    return int(np.random.SeedSequence(seed).generate_state(1)[0] % 2**30)
