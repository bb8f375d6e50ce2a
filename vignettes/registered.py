"""Lists in the reference pages that follow from the registries.

A line ``.. registered:: learners that debias`` becomes one directive per part, and ``{registered verbs}`` the names in a sentence.
"""

import re
from collections.abc import Callable

from riesz.diagnostics import DIAGNOSTICS
from riesz.estimands import ESTIMANDS
from riesz.estimators import ESTIMATORS
from riesz.learners import LEARNERS, Learner


def expand(page: str) -> str:
    """The text of a page with its lists."""
    page = re.sub(r"^\.\. registered:: (.+)$", lambda mark: BLOCKS[mark[1]](), page, flags=re.MULTILINE)
    return re.sub(r"\{registered verbs\}", ", ".join(f"`{verb}`" for verb in ESTIMANDS), page)


def _verbs() -> str:
    return "\n".join(f".. autofunction:: riesz.{verb}" for verb in ESTIMANDS)


def _estimands() -> str:
    return "\n".join(f".. autoclass:: riesz.{name}" for name in ESTIMANDS.definitions().values())


def _learners(debias: bool) -> str:
    return "\n\n".join(_learner(learner) for learner in LEARNERS.values() if learner.learns_rr is debias)


def _learner(learner: type[Learner]) -> str:
    """A learner with the presets that it has beside its default settings, such as ``MADNet.paper()``."""
    presets = [name for name, value in vars(learner).items() if isinstance(value, classmethod) and value.__doc__]
    members = f"\n   :members: {', '.join(presets)}" if presets else ""
    return f".. autoclass:: riesz.{learner.__name__}{members}"


def _estimators() -> str:
    return "\n".join(f"* ``{name}``: {estimator.words}" for name, estimator in ESTIMATORS.items())


def _diagnostics() -> str:
    parts = [f"{part.__module__}.{part.__name__}" for part in DIAGNOSTICS.values()]
    return "\n".join(f".. autofunction:: {part}" for part in parts)


BLOCKS: dict[str, Callable[[], str]] = {
    "verbs": _verbs,
    "estimands": _estimands,
    "learners that debias": lambda: _learners(True),
    "learners of mu alone": lambda: _learners(False),
    "estimators": _estimators,
    "diagnostics": _diagnostics,
}
