"""Ways to learn mu and the Riesz representer."""

from collections.abc import Callable

from riesz.errors import LearnerError, nearest
from riesz.learners.base import Fit, Learner
from riesz.learners.kernel import KernelEmbedding
from riesz.learners.linear import Linear
from riesz.learners.propensity import Propensity


def _madnet() -> Learner:
    """Torch takes a second or two to import; only those who train networks wait for it."""
    from riesz.learners.neural.learner import MADNet

    return MADNet()


#: Name to learner, as ``learner="..."`` finds it; conformance tests loop over it.
LEARNERS: dict[str, Callable[[], Learner]] = {
    "linear": Linear,
    "madnet": _madnet,
    "propensity": Propensity,
    "kernel_embedding": KernelEmbedding,
}


def find_learner(learner: object) -> Learner:
    """A learner from its name, or the learner itself."""
    if isinstance(learner, Learner):
        return learner
    if isinstance(learner, str) and learner.lower() in LEARNERS:
        return LEARNERS[learner.lower()]()
    hint = nearest(learner, LEARNERS) if isinstance(learner, str) else ""
    known = ", ".join(repr(name) for name in LEARNERS)
    raise LearnerError(
        f"learner={learner!r} is not known.{hint} Wanted one of {known}, or a learner such as riesz.Linear(...)."
    )


__all__ = ["LEARNERS", "Fit", "KernelEmbedding", "Learner", "Linear", "Propensity", "find_learner"]
