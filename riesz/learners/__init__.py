"""Ways to learn mu and the Riesz representer."""

from collections.abc import Callable
from functools import partial
from importlib import import_module

from riesz.errors import LearnerError, nearest
from riesz.learners.base import Fit, Learner
from riesz.learners.kernel_embedding import KernelEmbedding
from riesz.learners.linear.learner import Linear
from riesz.learners.propensity.learner import Propensity

#: Learners that train networks, and their modules: torch takes a second or two to import, so they are imported when asked for.
NEURAL = {
    "MADNet": "riesz.learners.neural.madnet",
    "RieszNet": "riesz.learners.neural.riesznet",
    "DragonNet": "riesz.learners.neural.dragonnet",
    "TARNet": "riesz.learners.neural.tarnet",
    "NeuralEmbedding": "riesz.learners.neural.neural_embedding",
}


def _network(name: str) -> Learner:
    made: Learner = getattr(import_module(NEURAL[name]), name)()
    return made


#: Name to learner, as ``learner="..."`` finds it; conformance tests loop over it.
LEARNERS: dict[str, Callable[[], Learner]] = {
    "linear": Linear,
    "madnet": partial(_network, "MADNet"),
    "propensity": Propensity,
    "kernel_embedding": KernelEmbedding,
    "riesznet": partial(_network, "RieszNet"),
    "dragonnet": partial(_network, "DragonNet"),
    "tarnet": partial(_network, "TARNet"),
    "neural_embedding": partial(_network, "NeuralEmbedding"),
}


def find_learner(learner: object) -> Learner:
    """A learner from its name, or the learner itself."""
    if isinstance(learner, Learner):
        return learner
    if isinstance(learner, str) and learner.lower() in LEARNERS:
        return LEARNERS[learner.lower()]()
    hint = nearest(learner, LEARNERS) if isinstance(learner, str) else ""
    if isinstance(learner, type) and issubclass(learner, Learner):
        raise LearnerError(
            f"learner={learner.__name__} is a class. Wanted a learner: write riesz.{learner.__name__}()."
        )
    known = ", ".join(repr(name) for name in LEARNERS)
    raise LearnerError(
        f"learner={learner!r} is not known.{hint} Wanted one of {known}, or a learner such as riesz.Linear(...)."
    )


__all__ = ["LEARNERS", "NEURAL", "Fit", "KernelEmbedding", "Learner", "Linear", "Propensity", "find_learner"]
