"""Stacks: several learners, cross-fitted on the same splits, whose predictions are combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.base import Fit, Learner, Watch
from riesz.storage.coding import stored

#: Largest number of rows or clusters, and the repeats of cross-fitting then, if fits of some learner depend much on the seed.
_REPEATS = ((800, 6), (2000, 3), (5000, 2))


def default_learners() -> tuple[Learner, ...]:
    """The learners of ``riesz.Stack()``. One network per training set is enough next to splines and trees.

    Examples
    --------
    >>> from riesz.learners.stack import default_learners
    >>> [learner.describe("gaussian") for learner in default_learners()]
    ['MADNet', 'Splines', 'Boosting']
    """
    from riesz.learners.boosting.learner import Boosting
    from riesz.learners.neural.madnet import MADNet
    from riesz.learners.splines.learner import Splines

    return MADNet(networks=1, most_rows=4000), Splines(), Boosting()


def describe_all(learners: Sequence[Learner], family: str) -> str:
    """The learners of a stack in words; a single one by itself.

    Examples
    --------
    >>> import riesz
    >>> from riesz.learners.stack import describe_all
    >>> describe_all([riesz.Splines(), riesz.Boosting()], "gaussian")
    'stack of Splines, Boosting'
    """
    names = [learner.describe(family) for learner in learners]
    return names[0] if len(names) == 1 else f"stack of {', '.join(names)}"


@stored
@dataclass(frozen=True)
class Stack(Learner):
    r"""Several learners, combined by how well they predict rows that they have not seen.

    Every learner of the stack is cross-fitted on the same folds. The out-of-fold predictions of all learners and repeats are
    then combined over the whole sample (short-stacking): mu by convex weights with the smallest squared error, for each arm if
    the treatment has arms; each Riesz representer by non-negative weights with the smallest Riesz loss. A learner that suits the
    data gets weight, and one that does not gets none. Without arguments it is the default of all verbs, ``learner="auto"``: the
    network, splines and boosted trees.

    ``fit.stacking`` shows the weights and losses, and ``fit.candidates`` what each learner alone would have estimated.

    Parameters
    ----------
    learners : sequence of Learner or str, optional
        By default :class:`~riesz.MADNet` with one network, which learns from at most 4,000 rows of a training set,
        :class:`~riesz.Splines` and :class:`~riesz.Boosting`. A learner that cannot be used for an estimand, such as trees for a
        derivative along a covariate, is left out, and the summary says so.
    repeats : int, optional
        How often cross-fitting is repeated, with new folds, if a verb is not given ``repeats``. By default six times with up to 800
        rows (clusters, if there are any), three times with up to 2000, twice with up to 5000, and otherwise once; once, too, if no
        learner's fits depend much on the seed.

    Notes
    -----
    With out-of-fold predictions :math:`\mu_j` and :math:`\alpha_j`, one for every repeat of every learner,

    .. math::

        \hat w = \arg\min_{w \ge 0,\ \sum_j w_j = 1} E_n[(y - \sum_j w_j \mu_j)^2], \qquad
        \hat v = \arg\min_{v \ge 0,\, c} E_n[\alpha_v^2 - 2 m(\alpha_v)], \quad
        \alpha_v = \sum_j v_j \alpha_j + \sum_k c_k 1\{A = k\}.

    The levels :math:`c_k` give the weights of each arm the right mean; without arms there is one level. In another ``family`` the
    weights of mu minimise its loss, such as the log loss. The weights of a representer have no sum constraint, so its scale is
    learned from the sample, as the paper does for one learner, and the one-step and the targeted estimate agree. There is one
    estimate: it needs no median over repeats, because the repeats are combined before it. A stack of one learner is that learner,
    and the order does not matter. Nothing is fitted twice.

    References
    ----------
    Ahrens, Hansen, Schaffer and Wiemann, "Model averaging and double machine learning" (2024).

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> stack = riesz.Stack([riesz.Linear(), riesz.Splines()])
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=stack)
    >>> list(fit.candidates.index.get_level_values("learner"))
    ['Linear (ridge, rr constrained)', 'Splines', 'stack']
    """

    learners: tuple[Learner, ...] = ()
    repeats: int | None = None

    def __post_init__(self) -> None:
        given: Any = self.learners
        if isinstance(given, (str, Learner)) or not isinstance(given, Sequence):
            raise LearnerError(
                f"Stack(learners={given!r}): expected a list of learners, such as riesz.Stack([riesz.Splines(), riesz.Boosting()])."
            )
        from riesz.learners import find_learner

        flat = tuple(
            candidate for learner in given or default_learners() for candidate in find_learner(learner).candidates()
        )
        doubles = [learner for place, learner in enumerate(flat) if learner in flat[:place]]
        if doubles:
            raise LearnerError(f"Stack: {doubles[0]!r} is in the stack twice. List every learner once.")
        object.__setattr__(self, "learners", flat)
        repeats: Any = self.repeats
        if repeats is not None and (not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1):
            raise LearnerError(f"Stack(repeats={repeats!r}): expected a whole number, 1 or larger, or None.")

    @classmethod
    def example(cls) -> Learner:
        from riesz.learners import LEARNERS

        return cls((LEARNERS["linear"](), LEARNERS["madnet"].example()))

    @property
    def learns_rr(self) -> bool:  # type: ignore[override]  # of a class elsewhere, of the learners here
        """Whether some learner of the stack learns rr."""
        return any(learner.learns_rr for learner in self.learners)

    @property
    def families(self) -> tuple[str, ...]:  # type: ignore[override]  # likewise
        """The families that some learner of the stack learns."""
        return tuple(dict.fromkeys(kind for learner in self.learners for kind in learner.families))

    def candidates(self) -> tuple[Learner, ...]:
        return self.learners

    def weighs(self, family: str) -> bool:
        return any(learner.learns_rr and learner.weighs(family) for learner in self.learners)

    def usual_repeats(self, units: int) -> int:
        if self.repeats or all(learner.usual_repeats(1) == 1 for learner in self.learners):
            return self.repeats or 1
        return next((repeats for most, repeats in _REPEATS if units <= most), 1)

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        raise LearnerError("A stack is fitted learner by learner: call riesz.crossfit.crossfit.cross_fit, or a verb.")

    def describe(self, family: str) -> str:
        return describe_all(self.learners, family)
