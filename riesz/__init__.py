"""Automatic debiased machine learning from one formula.

>>> import riesz
>>> data = riesz.datasets.get("binary").draw(500, seed=1).data
>>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear")
>>> fit.params.round(2).to_dict()
{'ATE': 1.46}
"""

from typing import TYPE_CHECKING, Any

from riesz import datasets, montecarlo, plots
from riesz.api import verbs as _verbs
from riesz.api.estimate import estimate, estimate_many
from riesz.api.load import load
from riesz.api.verbs import ade, ape, atc, ate, att, ipe, mean, shift
from riesz.errors import DataError, EstimandError, FormulaError, LearnerError, RieszError, RieszWarning
from riesz.estimands import ESTIMANDS as _ESTIMANDS
from riesz.estimands.arms import APE, ATC, ATE, ATT
from riesz.estimands.custom import CustomMoment
from riesz.estimands.derivatives import ADE, IPE
from riesz.estimands.shifts import Mean, Shift
from riesz.families import Quantile
from riesz.learners import LEARNERS as _LEARNERS
from riesz.results.compare import Comparison, compare, register_stargazer
from riesz.results.contrast import contrast
from riesz.results.effects import Effects
from riesz.results.fit import Results
from riesz.settings import defaults
from riesz.version import __version__

if TYPE_CHECKING:  # imported when first used, by __getattr__
    from riesz.learners.adversarial.learner import Adversarial
    from riesz.learners.balancing.learner import Balancing
    from riesz.learners.boosting.learner import Boosting
    from riesz.learners.compose import Compose
    from riesz.learners.forest.learner import Forest
    from riesz.learners.kernel.learner import Kernel
    from riesz.learners.kernel_embedding import KernelEmbedding
    from riesz.learners.linear.learner import Linear
    from riesz.learners.neural.adversarial_net import AdversarialNet
    from riesz.learners.neural.dragonnet import DragonNet
    from riesz.learners.neural.engine.schedule import Stage
    from riesz.learners.neural.madnet import MADNet
    from riesz.learners.neural.neural_embedding import NeuralEmbedding
    from riesz.learners.neural.riesznet import RieszNet
    from riesz.learners.neural.tarnet import TARNet
    from riesz.learners.propensity.learner import Propensity
    from riesz.learners.sparse.learner import Lasso
    from riesz.learners.splines.learner import Splines
    from riesz.learners.stack import Stack


def __getattr__(name: str) -> Any:
    """A registered verb, estimand or learner; learners are imported when first used, because torch takes a second or two."""
    if name in _ESTIMANDS:
        return _verbs.make_verb(_ESTIMANDS[name])
    if name == "Stage":
        from riesz.learners.neural.engine.schedule import Stage

        return Stage
    for registry in (_ESTIMANDS, _LEARNERS):
        if name in registry.definitions().values():
            return registry.named(name)
    raise AttributeError(f"module 'riesz' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_registered()})


def _registered() -> list[str]:
    """Verbs, and the classes of estimands and learners."""
    return [*_ESTIMANDS, *_ESTIMANDS.definitions().values(), *_LEARNERS.definitions().values()]


__all__ = [
    "ADE",
    "APE",
    "ATC",
    "ATE",
    "ATT",
    "IPE",
    "Adversarial",
    "AdversarialNet",
    "Balancing",
    "Boosting",
    "Comparison",
    "Compose",
    "CustomMoment",
    "DataError",
    "DragonNet",
    "Effects",
    "EstimandError",
    "Forest",
    "FormulaError",
    "Kernel",
    "KernelEmbedding",
    "Lasso",
    "LearnerError",
    "Linear",
    "MADNet",
    "Mean",
    "NeuralEmbedding",
    "Propensity",
    "Quantile",
    "Results",
    "RieszError",
    "RieszNet",
    "RieszWarning",
    "Shift",
    "Splines",
    "Stack",
    "Stage",
    "TARNet",
    "__version__",
    "ade",
    "ape",
    "atc",
    "ate",
    "att",
    "compare",
    "contrast",
    "datasets",
    "defaults",
    "estimate",
    "estimate_many",
    "ipe",
    "load",
    "mean",
    "montecarlo",
    "plots",
    "register_stargazer",
    "shift",
]
__all__ += [name for name in _registered() if name not in __all__]  # registered parts that the list above lacks
