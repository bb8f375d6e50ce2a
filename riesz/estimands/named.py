"""An estimand with a name that the user chose, so that one fit can hold two of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from riesz.estimands.base import Component, Estimand, Sample
from riesz.estimands.treatment import TreatmentKind
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Named(Estimand):
    """An estimand whose parameter has the user's name; with several components, the name is a prefix.

    :func:`riesz.estimate` makes them from a mapping.

    Attributes
    ----------
    name : str
        ``"name"`` for one component, ``"name: component"`` for each of several.
    question : Estimand

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> policies = {"low x1": riesz.APE("x1 <= 0"), "high x1": riesz.APE("x1 > 0")}
    >>> riesz.estimate("y ~ treat(a) * .", data, policies, learner="linear").params.round(2).to_dict()
    {'low x1': 0.8, 'high x1': 1.27}
    """

    name: str
    question: Estimand

    @property
    def verb(self) -> str:  # type: ignore[override]  # here it depends on the object, not on the class
        """The verb of the question."""
        return self.question.verb

    def treatment_kind(self, column: pd.Series) -> TreatmentKind:
        return self.question.treatment_kind(column)

    def specifications(self) -> Sequence[Any]:
        return self.question.specifications()

    def components(self, sample: Sample) -> tuple[Component, ...]:
        components = self.question.components(sample)
        if len(components) == 1:
            return (replace(components[0], name=self.name),)
        return tuple(replace(component, name=f"{self.name}: {component.name}") for component in components)
