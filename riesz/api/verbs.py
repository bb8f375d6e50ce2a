"""The verbs: one call from a formula to a debiased estimate and its standard error.

Every estimand in :data:`~riesz.estimands.ESTIMANDS` has a verb, which is made here: its arguments are the settings of the estimand
and the keywords of :func:`~riesz.api.estimate.estimate`, and its documentation is that of the estimand's class.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from riesz.api.estimate import estimate
from riesz.api.signature import DATA, FORMULA, entry, keyword_entries, keyword_parameters
from riesz.estimands import ESTIMANDS, Estimand
from riesz.results.fit import Results
from riesz.settings import Options
from riesz.syntax.check_arguments import check_call

_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", flags=re.MULTILINE)


class Verb(Protocol):
    """A function from a formula, data and the settings of an estimand to results."""

    def __call__(self, formula: str, data: Any, *arguments: Any, **options: Any) -> Results:
        """Estimate."""


def make_verb(estimand: type[Estimand]) -> Verb:
    """The verb of an estimand.

    Parameters
    ----------
    estimand : type
        A subclass of :class:`~riesz.estimands.Estimand`, a dataclass with a docstring in numpydoc form.

    Examples
    --------
    >>> import riesz
    >>> from riesz.api.verbs import make_verb
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> policy_effect = make_verb(riesz.APE)
    >>> policy_effect("y ~ treat(a) * .", data, policy="x1 > 0", learner="linear").params.round(1).to_dict()
    {'APE': 1.3}
    """
    settings = [
        name
        for name, parameter in inspect.signature(estimand).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]

    def verb(*arguments: Any, **keywords: Any) -> Results:
        check_call(f"riesz.{estimand.verb}()", verb, arguments, keywords)
        given = dict(zip(["formula", "data", *settings], arguments, strict=False)) | keywords
        question = estimand(**{name: given.pop(name) for name in settings if name in given})
        return estimate(given.pop("formula"), given.pop("data"), question, **given)

    verb.__name__ = verb.__qualname__ = estimand.verb
    verb.__doc__ = _document(estimand)
    verb.__signature__ = _signature(estimand)  # type: ignore[attr-defined]
    return verb


def _signature(estimand: type[Estimand]) -> inspect.Signature:
    """Formula and data, the settings of the estimand, and the keywords of the verbs."""
    formula, data, *_ = inspect.signature(estimate).parameters.values()
    settings = inspect.signature(estimand, eval_str=True).parameters.values()
    return inspect.Signature([formula, data, *settings, *keyword_parameters()], return_annotation=Results)


def _document(estimand: type[Estimand]) -> str:
    """The docstring of the class, with the arguments of the verb."""
    head, *parts = _SECTION.split(inspect.getdoc(estimand) or "")
    sections = {name: text.strip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}
    parameters = [entry(*FORMULA), entry(*DATA), sections.pop("Parameters", ""), keyword_entries()]
    sections = {"Parameters": "\n".join(filter(None, parameters)), "Returns": "Results", **sections}
    body = "\n\n".join(f"{name}\n{'-' * len(name)}\n{text}" for name, text in sections.items())
    return f"{head.strip()}\n\n{body}\n"


if TYPE_CHECKING:  # for type checkers and editors: the verbs that riesz ships with

    def ate(formula: str, data: Any, **options: Unpack[Options]) -> Results:
        """Average treatment effect."""

    def att(formula: str, data: Any, **options: Unpack[Options]) -> Results:
        """Average treatment effect on the treated."""

    def atc(formula: str, data: Any, **options: Unpack[Options]) -> Results:
        """Average treatment effect on the controls."""

    def ape(formula: str, data: Any, policy: Any, **options: Unpack[Options]) -> Results:
        """Mean outcome when a known policy assigns the arm."""

    def ade(formula: str, data: Any, **options: Unpack[Options]) -> Results:
        """Average derivative effect of a continuous treatment."""

    def ipe(formula: str, data: Any, policy: Any, anchor: str = ..., **options: Unpack[Options]) -> Results:
        """Average derivative weighted by a policy in [-1, 1]."""

    def shift(formula: str, data: Any, delta: Any, **options: Unpack[Options]) -> Results:
        """Effect of moving everyone's continuous treatment by delta."""

    def mean(formula: str, data: Any, at: Any, **options: Unpack[Options]) -> Results:
        """Mean outcome at a level of the treatment, or under a policy that moves it."""


else:
    globals().update({name: make_verb(estimand) for name, estimand in ESTIMANDS.items()})
