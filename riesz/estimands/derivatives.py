"""Estimands of the derivative along a continuous treatment: average derivative and incremental policy effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from riesz.errors import EstimandError
from riesz.estimands.base import Component, Estimand, Sample, copied
from riesz.estimands.treatment import TreatmentKind
from riesz.storage.coding import stored
from riesz.syntax.labels import label


@stored
@dataclass(frozen=True)
class ADE(Estimand):
    r"""Average derivative effect of a continuous treatment.

    .. math:: \psi = E[\partial_a \mu(A, X)], \qquad \beta = a - \bar a, \quad h(\beta) = 1.

    References
    ----------
    Hines and Hines, "Automatic debiasing of neural networks via moment-constrained learning", example 3.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("continuous").draw(500, seed=1).data
    >>> riesz.ade("y ~ treat(a) * .", data, learner="linear").params.round(2).to_dict()
    {'ADE': 1.28}
    """

    verb: ClassVar[str] = "ade"

    def treatment_kind(self, column: pd.Series) -> TreatmentKind:
        return "number"

    def components(self, sample: Sample) -> tuple[Component, ...]:
        a = sample.treatment.name
        return (
            Component(
                name="ADE",
                moment=lambda mu, data: mu.derivative(data, wrt=a),
                anchor=sample.centred(),
                symbol=f"E[d mu / d {a} ({a}, X)]",
                words=f"Average derivative of the outcome with respect to {a}",
            ),
        )


@stored
@dataclass(frozen=True)
class IPE(Estimand):
    r"""Incremental policy effect: the average derivative weighted by a policy in [-1, 1].

    .. math:: \psi = E[\pi(X)\, \partial_a \mu(A, X)], \qquad \beta = \pi(x)(a - \bar a), \quad h(\beta) = E[\pi^2].

    Parameters
    ----------
    policy : str, callable or array_like
        The direction and relative size of the change in each row's treatment, in [-1, 1].
    anchor : {"product", "ratio"}
        ``"ratio"`` is the paper's beta = a / pi(x), with a centred at its mean, and zero where pi is zero; then
        h(beta) = P(pi != 0). Unlike the default, it is unbounded where pi is close to zero.

    References
    ----------
    Hines and Hines, "Automatic debiasing of neural networks via moment-constrained learning", example 4.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("continuous").draw(500, seed=1).data
    >>> riesz.ipe("y ~ treat(a) * .", data, policy="x1 > 0", learner="linear").params.round(2).to_dict()
    {'IPE': 0.69}
    """

    policy: Any
    anchor: Literal["product", "ratio"] = "product"
    verb: ClassVar[str] = "ipe"

    @classmethod
    def example(cls) -> IPE:
        return cls("where(x1 > 0, 1, -0.5)")

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", copied(self.policy))
        if self.anchor not in ("product", "ratio"):
            raise EstimandError(f"IPE(anchor={self.anchor!r}): expected 'product' or 'ratio'.")

    def treatment_kind(self, column: pd.Series) -> TreatmentKind:
        return "number"

    def specifications(self) -> Sequence[Any]:
        return (self.policy,)

    def components(self, sample: Sample) -> tuple[Component, ...]:
        treatment = sample.treatment
        pi = sample.per_row(self.policy, "policy")
        if pi.min() < -1 or pi.max() > 1:
            raise EstimandError(
                f"policy ranges from {label(pi.min())} to {label(pi.max())}; `ipe` needs values in [-1, 1]. Divide it by its "
                "largest absolute value, which divides the estimate by the same number."
            )
        if not pi.any() and sample.fitted is None:
            raise EstimandError(
                "policy is zero on every row, so the effect is zero by definition; expected a policy that is not zero on some rows."
            )
        centred = sample.centred()
        inverse = np.divide(1.0, pi, out=np.zeros_like(pi), where=pi != 0)

        def anchor(data: pd.DataFrame) -> Any:
            return (pi if self.anchor == "product" else inverse) * centred(data)

        rule = self.policy if isinstance(self.policy, str) else "pi(X)"
        return (
            Component(
                name="IPE",
                moment=lambda mu, data: pi * mu.derivative(data, wrt=treatment.name),
                anchor=anchor,
                symbol=f"E[pi d mu / d {treatment.name} ({treatment.name}, X)]",
                words=f"Incremental effect of moving {treatment.name} along the policy {rule}",
            ),
        )
