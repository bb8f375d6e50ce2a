"""Estimands of a treatment with arms: ATE, ATT, ATC and the average policy effect.

Notation: arm j, reference arm 0, policy pi. Each class is the formula of its moment and its anchor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from riesz.errors import EstimandError
from riesz.estimands.base import Component, Estimand, Sample, arm_name, copied, need_binary, ones
from riesz.estimands.treatment import TreatmentKind
from riesz.storage.coding import stored
from riesz.syntax.labels import label


@stored
@dataclass(frozen=True)
class ATE(Estimand):
    r"""Average treatment effect; with several arms, one contrast per arm against the reference.

    .. math:: \psi_j = E[\mu(j, X) - \mu(0, X)], \qquad \beta = 1\{A = j\}, \quad h(\beta) = 1.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear")
    >>> fit.tidy()[["term", "estimate", "std_error"]].round(2)
      term  estimate  std_error
    0  ATE      1.46       0.18
    """

    verb: ClassVar[str] = "ate"

    def treatment_kind(self, column: pd.Series) -> TreatmentKind:
        return "arms"

    def components(self, sample: Sample) -> tuple[Component, ...]:
        return _contrasts(sample, "ATE", "all", "Average treatment effect")


@stored
@dataclass(frozen=True)
class ATT(Estimand):
    r"""Average treatment effect on the treated; with several arms, on those in arm j.

    .. math:: \psi_j = E[1\{A=j\}\{\mu(j, X) - \mu(0, X)\}] / P(A = j), \qquad \beta = 1\{A = j\}.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> riesz.att("y ~ treat(a) * .", data, learner="linear").params.round(2).to_dict()
    {'ATT': 1.67}
    >>> fit = riesz.estimate("y ~ treat(a) * .", data, estimand=[riesz.ATE(), riesz.ATT()], learner="linear")
    >>> fit.params.round(2).to_dict()
    {'ATE': 1.46, 'ATT': 1.67}
    """

    verb: ClassVar[str] = "att"

    def treatment_kind(self, column: pd.Series) -> TreatmentKind:
        return "arms"

    def components(self, sample: Sample) -> tuple[Component, ...]:
        return _contrasts(sample, "ATT", "treated", "Average treatment effect on the treated")


@stored
@dataclass(frozen=True)
class ATC(Estimand):
    r"""Average treatment effect on the controls, those in the reference arm.

    .. math:: \psi_j = E[1\{A=0\}\{\mu(j, X) - \mu(0, X)\}] / P(A = 0), \qquad \beta = 1\{A = j\}.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> riesz.atc("y ~ treat(a) * .", data, learner="linear").params.round(2).to_dict()
    {'ATC': 1.24}
    """

    verb: ClassVar[str] = "atc"

    def treatment_kind(self, column: pd.Series) -> TreatmentKind:
        return "arms"

    def components(self, sample: Sample) -> tuple[Component, ...]:
        return _contrasts(sample, "ATC", "controls", "Average treatment effect on the controls")


def _contrasts(sample: Sample, stem: str, among: str, words: str) -> tuple[Component, ...]:
    """mu(j, X) - mu(0, X), averaged over all rows, over arm j, or over the reference arm."""
    treatment = sample.treatment
    reference = treatment.reference
    # 0 and 1 show which arm is the reference, labels do not
    labelled = treatment.is_binary and isinstance(reference, str)
    marked = f"{treatment.label(reference)} (reference)" if labelled else treatment.label(reference)

    def contrast(level: Any) -> Component:
        averaged_over = {"all": None, "treated": level, "controls": reference}[among]

        def share(data: pd.DataFrame) -> Any:
            return ones(data) if averaged_over is None else treatment.indicator(data, averaged_over)

        condition = "" if averaged_over is None else f" | {treatment.name}={treatment.label(averaged_over)}"
        return Component(
            name=arm_name(stem, level, treatment),
            moment=lambda mu, data: share(data) * (mu(treatment.set(data, level)) - mu(treatment.set(data, reference))),
            anchor=lambda data: treatment.indicator(data, level),
            normalizer=share,
            symbol=f"E[mu({treatment.label(level)}, X) - mu({treatment.label(reference)}, X){condition}]",
            words=f"{words}: {treatment.name}={treatment.label(level)} against {marked}",
        )

    return tuple(contrast(level) for level in treatment.levels[1:])


@stored
@dataclass(frozen=True)
class APE(Estimand):
    r"""Average policy effect: the mean outcome when the arm is assigned by a known policy.

    .. math:: \psi = E[\pi(X)\{\mu(1, X) - \mu(0, X)\} + \mu(0, X)], \qquad \beta = a + 1 - \pi(x), \quad h(\beta) = 1.

    Parameters
    ----------
    policy : str, callable or array_like
        The probability of treatment per row, in [0, 1], such as ``"age > 40"``; True and False count as 1 and 0. The treated arm
        is the one that is not the reference; if arms have labels, name the reference: ``treat(arm, reference="placebo")``.

    References
    ----------
    Hines and Hines, "Automatic debiasing of neural networks via moment-constrained learning", example 2.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> riesz.ape("y ~ treat(a) * .", data, policy="x1 > 0", learner="linear").params.round(2).to_dict()
    {'APE': 1.27}
    """

    policy: Any
    verb: ClassVar[str] = "ape"

    @classmethod
    def example(cls) -> APE:
        return cls("0.2 + 0.6 * (x1 > 0)")

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", copied(self.policy))

    def treatment_kind(self, column: pd.Series) -> TreatmentKind:
        return "arms"

    def specifications(self) -> Sequence[Any]:
        return (self.policy,)

    def components(self, sample: Sample) -> tuple[Component, ...]:
        treatment = sample.treatment
        need_binary(treatment, self.verb)
        pi = sample.per_row(self.policy, "policy")
        if pi.min() < 0 or pi.max() > 1:
            raise EstimandError(
                f"policy ranges from {label(pi.min())} to {label(pi.max())}; `ape` needs the probability of treatment, in [0, 1]. "
                "To move a continuous treatment up or down, use `riesz.ipe`."
            )
        reference, treated = treatment.levels
        treated_label = treatment.label(treated)
        rule = self.policy if isinstance(self.policy, str) else "pi(X)"
        return (
            Component(
                name="APE",
                moment=lambda mu, data: (
                    pi * mu(treatment.set(data, treated)) + (1.0 - pi) * mu(treatment.set(data, reference))
                ),
                anchor=lambda data: treatment.indicator(data, treated) + 1.0 - pi,
                symbol=f"E[pi mu({treated_label}, X) + (1 - pi) mu({treatment.label(reference)}, X)]",
                words=f"Mean outcome under the policy {rule} ({np.mean(pi):.0%} assigned {treatment.name}={treated_label})",
            ),
        )
