"""Adversarial estimation of the Riesz representer as a learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pandas as pd

from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.families import MEANS
from riesz.learners.adversarial.saddle import minimax_linear, saddle_point
from riesz.learners.base import Fit, Learner, Watch, need_covariates
from riesz.learners.check_settings import check_number, check_settings
from riesz.learners.expected_time import MANY, MOST_ROWS, closed_form_seconds
from riesz.learners.kernel.learner import SectionsFit, sections_and_rows
from riesz.learners.kernel.sections import Inputs, measure_inputs
from riesz.learners.kernel.solve import make_problem
from riesz.learners.linear.learner import Penalty, need_identification
from riesz.storage.coding import stored

_PENALTIES = ("penalty", "rr_penalty", "outcome_penalty")
_OF_KERNELS = ("kernel", "scale", "landmarks")


@stored
@dataclass(frozen=True)
class Adversarial(Learner):
    r"""Adversarial estimation: rr is the function whose errors no adversary can detect.

    If r is the Riesz representer, then :math:`E[m(f) - r f] = 0` for every function f. An adversary looks for the f that violates
    this the most, and rr is chosen to leave it nothing to find. In a Hilbert space both have a closed form; with networks they are
    trained against each other. Minimax linear weights are the special case ``noise=``.

    Parameters
    ----------
    adversary : {"kernel", "linear", "network"}
        The class of both rr and its adversary: the space of a kernel, as for :class:`~riesz.Kernel`; linear functions of the
        formula's columns, as for :class:`~riesz.Linear`; or networks, which is :class:`~riesz.AdversarialNet` with its default
        settings (use that class to change sizes and training).
    penalty : float, optional
        :math:`\lambda`, the price of the adversary's norm. By default it equals that of rr: in theory both are of the same order.
    rr_penalty : float or "loo"
        :math:`\kappa`, the price of rr's norm; ``"loo"`` picks the one with the smallest leave-one-out Riesz loss,
        leave-one-cluster-out if there are clusters. Positive, unless the adversary is linear.
    noise : float or "loo", optional
        With a number :math:`\sigma^2` or ``"loo"``, rr may be any weights, not only a function of the adversary's class: the
        minimax linear weights of Hirshberg and Wager. ``penalty`` and ``rr_penalty`` then have no place.
    outcome_penalty : float or "loo"
        Of mu, which is a ridge regression in the same class, of its index in another family than ``"gaussian"`` (such as a logistic
        one under ``family="binomial"``).
    kernel : {"additive", "gaussian", "matern"}
    scale : float or "median"
    landmarks : int, optional
        Of the kernel, as for :class:`~riesz.Kernel`.

    Notes
    -----
    With the norm of the class, a free intercept and standardised columns, rr is the solution of

    .. math::

        \min_r \max_f\; E_n[m(f) - r f] - E_n[f^2] - \lambda \|f\|^2 + \kappa \|r\|^2 .

    The adversary's best answer is linear in r, so that the saddle point solves one linear system. With
    :math:`\lambda = 0` it is the Riesz ridge regression with penalty :math:`4\kappa`, as :class:`~riesz.Kernel` and
    :class:`~riesz.Linear` solve it with ``rr="riesz"``; with :math:`\lambda = \kappa` it is that with penalty :math:`2\kappa`,
    applied twice, which shrinks important directions less and unimportant ones more. rr has a scale and is never rescaled.

    Minimax linear weights are the n numbers that minimise

    .. math:: \sup_{\|f\| \le 1} E_n[m(f) - r f]^2 + \frac{\sigma^2}{n} E_n[r^2],

    the worst squared bias over functions of norm one plus the variance that noise of variance :math:`\sigma^2` causes. They are the
    Riesz ridge regression with penalty :math:`\sigma^2 / n`, so readings and held-out rows have weights, too; ``folds=1`` weights
    the very rows that are balanced. :math:`\sigma^2` is in units of the squared norm of mu. With ``adversary="linear"`` they are
    also those of :class:`~riesz.Balancing` with ``ball="euclidean"``, and ``penalty=0``, ``rr_penalty=noise / (4 n)`` gives
    them as functions of the class. ``estimator="dr"`` with them is augmented minimax linear estimation.

    With more than 20,000 rows in a training set (fewer if there are many readings), a random part of them is used, drawn from the
    seed.

    On the first eight even random worlds with a binary treatment and at most 2,500 rows the root mean square distance from the
    oracle's estimate was 1.2 oracle standard errors, whatever :math:`\lambda` and with ``noise="loo"``, as it was with
    :class:`~riesz.Kernel`; it was 0.8 with :class:`~riesz.Splines`, and 1.5 with :class:`~riesz.AdversarialNet` and
    :class:`~riesz.RieszNet`. Choose it for its theory or for a comparison, not for smaller errors.

    References
    ----------
    Chernozhukov, Newey, Singh and Syrgkanis (2020), "Adversarial estimation of Riesz representers".
    Dikkala, Lewis, Mackey and Syrgkanis (2020), "Minimax estimation of conditional moment models".
    Hirshberg and Wager (2021), "Augmented minimax linear estimation".

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=riesz.Adversarial())
    >>> fit.tidy()[["term", "estimate", "std_error"]].round(2)
      term  estimate  std_error
    0  ATE      1.04       0.19

    The minimax linear weights of the formula's columns:

    >>> learner = riesz.Adversarial("linear", noise=1.0)
    >>> riesz.ate("y ~ treat(a) * .", data, learner=learner, folds=1).params.round(1).to_dict()
    {'ATE': 1.3}
    """

    families: ClassVar[tuple[str, ...]] = MEANS

    adversary: Literal["kernel", "linear", "network"] = "kernel"
    penalty: float | None = None
    rr_penalty: Penalty = "loo"
    noise: Penalty | None = None
    outcome_penalty: Penalty = "loo"
    kernel: Literal["additive", "gaussian", "matern"] = "additive"
    scale: float | Literal["median"] = "median"
    landmarks: int | None = None

    def __post_init__(self) -> None:
        choices = {"adversary": ("kernel", "linear", "network"), "kernel": ("additive", "gaussian", "matern")}
        check_settings(self, choices, ["landmarks"] if self.landmarks is not None else [], [])
        check_number(self, "scale", "a positive number, in median distances, or 'median'", above=0.0, or_word="median")
        for name in ("rr_penalty", "outcome_penalty", *(["noise"] if self.noise is not None else [])):
            check_number(self, name, "a number, 0 or larger, or 'loo'", at_least=0.0, or_word="loo")
            if getattr(self, name) == 0 and self.adversary == "kernel":
                raise LearnerError(
                    f"Adversarial({name}=0): with a kernel a function could then pass through every row. Use {name}='loo' or a "
                    "positive number, or adversary='linear'."
                )
        if self.penalty is not None:
            check_number(self, "penalty", "a number, 0 or larger, or None for that of rr", at_least=0.0)
        if self.noise is not None and self._changed("penalty", "rr_penalty"):
            raise LearnerError(
                f"Adversarial(noise={self.noise!r}) and {self._changed('penalty', 'rr_penalty')[0]}=: minimax linear weights have "
                "one price, noise. Leave penalty and rr_penalty out, or leave noise out."
            )
        self._check_class()

    def _check_class(self) -> None:
        """Refuse settings that the class of functions has no use for."""
        changed = self._changed(*_OF_KERNELS) if self.adversary != "kernel" else []
        if self.adversary == "network":
            changed += self._changed(*_PENALTIES, "noise")
        if changed:
            name, instead = (
                changed[0],
                "adversary='kernel'" if self.adversary == "linear" else "riesz.AdversarialNet(...)",
            )
            raise LearnerError(
                f"Adversarial(adversary={self.adversary!r}, {name}={getattr(self, name)!r}): {name} has no meaning there. Leave it "
                f"out, or use {instead}."
            )

    def _changed(self, *names: str) -> list[str]:
        """Those settings that do not have their default."""
        return [name for name in names if getattr(self, name) != getattr(Adversarial, name)]

    @classmethod
    def example(cls) -> Learner:
        return cls(landmarks=100)

    @property
    def one_thread(self) -> bool:  # type: ignore[override]  # of networks, not of closed forms
        """Whether networks are trained."""
        return self.adversary == "network"

    @property
    def _network(self) -> Learner | None:
        """The learner of networks, if rr and its adversary are networks."""
        if self.adversary != "network":
            return None
        from riesz.learners.neural.adversarial_net import AdversarialNet

        return AdversarialNet()

    def seconds(self, design: Design, rows: int) -> float:
        if self._network is not None:
            return self._network.seconds(design, rows)
        columns = len(design.names)
        many = self.adversary == "linear" and columns >= MANY
        return closed_form_seconds(min(rows, MOST_ROWS), columns) if many else 0.0

    def check(self, design: Design, rows: int) -> None:
        columns = len(design.names)
        if self._network is not None:
            self._network.check(design, rows)
            return
        if self.adversary == "kernel":
            need_covariates(design, "Adversarial")
        elif columns >= rows and 0 in (self.rr_penalty, self.noise, self.outcome_penalty):
            raise LearnerError(
                f"The design has {columns} columns and a training set only {rows} rows, so without a penalty there is no unique "
                "solution. Leave rr_penalty, noise and outcome_penalty out or use positive numbers; or use fewer columns or folds."
            )
        need_identification(design, rows)

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        if self._network is not None:
            return self._network.fit(designs, seeds, watch)
        inputs: dict[int, Inputs] = {}
        fits = []
        kernel, scale = ("linear" if self.adversary == "linear" else self.kernel), self.scale
        for design, seed in zip(designs, seeds, strict=True):
            if design.key not in inputs:
                inputs[design.key] = measure_inputs(design.sample, kernel, 1.0 if scale == "median" else float(scale))
            fits.append(self._fit(design, inputs[design.key], seed))
            watch.done()
        return fits

    def _fit(self, design: Design, inputs: Inputs, seed: int) -> SectionsFit:
        sections, part = sections_and_rows(design, inputs, self.landmarks, seed)
        problem = make_problem(part, sections, seed)
        mu, outcome_penalty = problem.outcome(self.outcome_penalty)
        if self.noise is None:
            rr, chosen = saddle_point(problem, self.penalty, self.rr_penalty)
        else:
            weights = design.weights
            rr, chosen = minimax_linear(problem, self.noise, float(weights.sum() ** 2 / (weights @ weights)))
        facts = {"outcome_penalty": outcome_penalty, **chosen, "landmarks": float(len(sections))}
        return SectionsFit(sections, mu, rr, design.family, False, facts)

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        if self.adversary != "linear" or design.interacted or design.strata is None:
            return []
        return [
            "The formula has no interaction with the treatment, so mu has the same effect for everyone, and rr satisfies its "
            "conditions over all rows, not within each arm; treat(a) * (...) lets both vary."
        ]

    def store(self, fit: Any) -> object:
        return fit if self._network is None else self._network.store(fit)

    def restore(self, content: Sequence[Any], sample: Design) -> Sequence[Fit]:
        return content if self._network is None else self._network.restore(content, sample)

    def describe(self, family: str) -> str:
        if self._network is not None:
            return f"Adversarial ({self._network.describe(family)})"
        words = self.adversary if self.adversary == "linear" else f"{self.kernel} kernel"
        return f"Adversarial ({words}{', minimax linear weights' if self.noise is not None else ''})"
