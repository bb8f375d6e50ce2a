"""A composition: mu from one learner, the Riesz representer from another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from riesz.design.derived import with_family
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.families import find_family
from riesz.learners.base import Fit, Learner, Watch, need_family
from riesz.learners.scikit_outcome import ScikitOutcome, is_model
from riesz.predictions import Predictions
from riesz.storage.coding import stored

_OUTCOME = "outcome_"  # begins the names of the outcome's details


@stored
@dataclass(frozen=True)
class Compose(Learner):
    r"""Mu from one learner, the Riesz representer from another.

    Methods in the literature often are such a pair: trees for mu with a linear representer, a network with propensities, a lasso
    with balancing weights. For the best of several learners, rather than a given pair, use :class:`~riesz.Stack`.

    Parameters
    ----------
    outcome : Learner, str or scikit-learn model
        Learns mu; what it learns of rr is not used. It may be a learner of mu alone. A scikit-learn regressor (or, for a 0/1
        outcome with ``family="binomial"``, a classifier) is cloned and trained on the formula's columns, the treatment's among
        them. It cannot be used for derivatives.
    rr : Learner or str
        Learns the Riesz representer; what it learns of mu is not used.

    Notes
    -----
    Both learners get the same training sets and seeds, so ``Compose(learner, learner)`` is that learner. The representer keeps its
    scale: of a learner that reads it out up to scale, the scale comes from the estimation sample; one that claims a scale, such as
    :class:`~riesz.Propensity`, is not rescaled.

    Under another family than ``"gaussian"`` the representer of :class:`~riesz.Linear` is for the errors of its own logit or
    logarithm. Here it is learned as with ``family="gaussian"``, for all functions, because mu is another learner's.

    With mu and rr from different learners the one-step estimator is still doubly robust, and its error is the product of both
    errors. Identities that hold within one linear class, such as direct == dr without penalty, do not hold.

    References
    ----------
    Chernozhukov, Newey and Singh (2022), "Automatic debiased machine learning of causal and structural effects".

    Examples
    --------
    >>> import riesz
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> learner = riesz.Compose(outcome=RandomForestRegressor(min_samples_leaf=10), rr=riesz.Splines())
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=learner)
    >>> print(fit.model.learner.describe("gaussian"))
    Compose (mu: RandomForestRegressor, rr: Splines)
    """

    outcome: Any = "boosting"
    rr: Any = "splines"

    def __post_init__(self) -> None:
        outcome = self.outcome
        if not is_model(outcome):
            object.__setattr__(self, "outcome", self._find("outcome", outcome, "a learner or a scikit-learn regressor"))
        object.__setattr__(self, "rr", self._find("rr", self.rr, "a learner"))
        if not self.rr.learns_rr:
            raise LearnerError(
                f"Compose(rr={self.rr!r}): this learner learns mu alone. Expected one that learns the Riesz representer, such as "
                "riesz.Splines() or riesz.Linear()."
            )

    def _find(self, name: str, given: Any, expected: str) -> Learner:
        """A learner from its name, or the learner itself; stacks are refused."""
        from riesz.learners import find_learner

        of_riesz = isinstance(given, (str, Learner)) or (isinstance(given, type) and issubclass(given, Learner))
        if not of_riesz:
            hint = " Write the class with parentheses." if isinstance(given, type) else ""
            raise LearnerError(f"Compose({name}={given!r}): expected {expected}, such as riesz.Splines().{hint}")
        learner = find_learner(given)
        if learner.candidates() != (learner,):
            raise LearnerError(
                f"Compose({name}={given!r}): a stack combines predictions of the whole sample, so it cannot be a part of a "
                "composition. Put compositions into the stack instead: riesz.Stack([riesz.Compose(...), riesz.Compose(...)])."
            )
        return learner

    @classmethod
    def example(cls) -> Learner:
        return cls("linear", "splines")

    @property
    def one_thread(self) -> bool:  # type: ignore[override]  # of a class elsewhere, of the learners here
        """Whether one of the learners wants a single thread."""
        return self._for_mu.one_thread or self._for_rr.one_thread

    @property
    def _for_mu(self) -> Learner:
        return self.outcome if isinstance(self.outcome, Learner) else ScikitOutcome(self.outcome)

    @property
    def _for_rr(self) -> Learner:
        learner: Learner = self.rr
        return learner

    def usual_repeats(self, units: int) -> int:
        return max(self._for_mu.usual_repeats(units), self._for_rr.usual_repeats(units))

    def seconds(self, design: Design, rows: int) -> float:
        return self._for_mu.seconds(design, rows) + self._for_rr.seconds(design, rows)

    @property
    def families(self) -> tuple[str, ...]:  # type: ignore[override]  # likewise
        """The families of means that the outcome's learner learns: rr does not depend on them, but it does for a quantile."""
        return tuple(kind for kind in self._for_mu.families if kind != "quantile")

    def check(self, design: Design, rows: int) -> None:
        need_family(self._for_mu, design.family)
        self._for_mu.check(design, rows)
        self._for_rr.check(
            design if _learns_rr_in(self._for_rr, design.family) else with_family(design, "gaussian"), rows
        )

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        outcomes = self._for_mu.fit(designs, seeds, _OnTheWay(watch))
        if self.rr == self.outcome:
            representers = outcomes
            for _ in designs:
                watch.done()
        else:
            representers = self._for_rr.fit(self._designs_for_rr(designs), seeds, watch)
        return [ComposedFit(mu, rr) for mu, rr in zip(outcomes, representers, strict=True)]

    def _designs_for_rr(self, designs: Sequence[Design]) -> Sequence[Design]:
        """The designs that rr is learned on: ``family="gaussian"`` if rr would be learned for the errors of an index only."""
        if all(_learns_rr_in(self._for_rr, design.family) for design in designs):
            return designs
        samples = {design.key: with_family(design.sample, "gaussian") for design in designs}
        return [samples[design.key].take(design.index) for design in designs]

    def weighs(self, family: str) -> bool:
        return bool(self.rr != self.outcome) or self._for_rr.weighs(family)

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        of_outcome = details.filter(regex=f"^{_OUTCOME}")
        notes_of_mu = self._for_mu.remarks(design, of_outcome.rename(columns=lambda name: name.removeprefix(_OUTCOME)))
        notes_of_rr = self._for_rr.remarks(design, details.drop(columns=of_outcome.columns))
        return list(dict.fromkeys([*notes_of_mu, *notes_of_rr]))

    def store(self, fit: Any) -> StoredComposition:
        return StoredComposition(self._for_mu.store(fit.outcome), self._for_rr.store(fit.rr))

    def restore(self, content: Sequence[Any], sample: Design) -> Sequence[Fit]:
        if not all(isinstance(part, StoredComposition) for part in content):
            raise ValueError("fits of a composition of the wrong type")
        outcomes = self._for_mu.restore([part.outcome for part in content], sample)
        representers = self._for_rr.restore([part.rr for part in content], sample)
        return [ComposedFit(mu, rr) for mu, rr in zip(outcomes, representers, strict=True)]

    def describe(self, family: str) -> str:
        return f"Compose (mu: {self._for_mu.describe(family)}, rr: {self._for_rr.describe(family)})"


@dataclass(frozen=True)
class ComposedFit(Fit):
    """A fit from which mu is taken, and one from which rr is taken.

    Attributes
    ----------
    outcome, rr : Fit
    """

    outcome: Fit
    rr: Fit

    def predict(self, design: Design) -> Predictions:
        representer = self.rr.predict(design)
        return replace(representer, mu=self.outcome.predict(design).mu) if self.rr is not self.outcome else representer

    def details(self) -> Mapping[str, float]:
        of_outcome = {f"{_OUTCOME}{name}": value for name, value in self.outcome.details().items()}
        return {**of_outcome, **self.rr.details()}

    def history(self) -> pd.DataFrame:
        """The history of the representer's training or, if that has none, of the outcome's."""
        history = self.rr.history()
        return self.outcome.history() if history.empty else history


@stored
@dataclass(frozen=True)
class StoredComposition:
    """What a file holds of a fit: what the two learners store."""

    outcome: Any
    rr: Any


def _learns_rr_in(learner: Learner, family: str) -> bool:
    """Whether a learner takes outcomes in this family and learns rr for all functions."""
    return find_family(family).kind in learner.families and learner.weighs(family)


@dataclass(frozen=True)
class _OnTheWay:
    """Passes on what the first of two learners reports, but not that a design is done."""

    watch: Watch

    def done(self) -> None:
        self.watch.tell()

    def tell(self, **facts: object) -> None:
        self.watch.tell(**facts)
