"""A question under a name of the user's choice, so that one fit can hold two of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from riesz.estimands.base import Component, Estimand, Sample
from riesz.estimands.treatment import Wanted
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Named(Estimand):
    """An estimand whose parameter goes by another name; of several components, each keeps its own after it.

    Made from a mapping that is given to :func:`riesz.estimate`.

    Attributes
    ----------
    name : str
        ``"name"`` for one component, ``"name: component"`` for each of several.
    question : Estimand

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> policies = {"the needy": riesz.APE("x1 <= 0"), "the gifted": riesz.APE("x1 > 0")}
    >>> riesz.estimate("y ~ treat(a) * .", data, policies, learner="linear").params.round(2).to_dict()
    {'the needy': 0.8, 'the gifted': 1.27}
    """

    name: str
    question: Estimand

    @property
    def verb(self) -> str:  # type: ignore[override]  # of a class elsewhere, of the question here
        """The question's."""
        return self.question.verb

    def wanted(self, column: pd.Series) -> Wanted:
        return self.question.wanted(column)

    def specifications(self) -> Sequence[Any]:
        return self.question.specifications()

    def components(self, sample: Sample) -> tuple[Component, ...]:
        own = self.question.components(sample)
        if len(own) == 1:
            return (replace(own[0], name=self.name),)
        return tuple(replace(component, name=f"{self.name}: {component.name}") for component in own)
