"""Ways to learn mu and the Riesz representer."""

from riesz.errors import LearnerError, nearest
from riesz.learners.base import Fit, Learner
from riesz.registry import Registry

#: Name to learner, as in ``learner="linear"``. ``riesz.<Class>``, the tests and the reference pages follow from these lines.
LEARNERS: Registry[type[Learner]] = Registry(
    {
        "auto": "riesz.learners.stack:Stack",
        "linear": "riesz.learners.linear.learner:Linear",
        "lasso": "riesz.learners.sparse.learner:Lasso",
        "balancing": "riesz.learners.balancing.learner:Balancing",
        "splines": "riesz.learners.splines.learner:Splines",
        "madnet": "riesz.learners.neural.madnet:MADNet",
        "boosting": "riesz.learners.boosting.learner:Boosting",
        "propensity": "riesz.learners.propensity.learner:Propensity",
        "kernel": "riesz.learners.kernel.learner:Kernel",
        "adversarial": "riesz.learners.adversarial.learner:Adversarial",
        "forest": "riesz.learners.forest.learner:Forest",
        "compose": "riesz.learners.compose:Compose",
        "kernel_embedding": "riesz.learners.kernel_embedding:KernelEmbedding",
        "riesznet": "riesz.learners.neural.riesznet:RieszNet",
        "adversarial_net": "riesz.learners.neural.adversarial_net:AdversarialNet",
        "dragonnet": "riesz.learners.neural.dragonnet:DragonNet",
        "tarnet": "riesz.learners.neural.tarnet:TARNet",
        "neural_embedding": "riesz.learners.neural.neural_embedding:NeuralEmbedding",
    }
)


def find_learner(learner: object) -> Learner:
    """A learner from its name, or the learner itself."""
    if isinstance(learner, Learner):
        return learner
    if isinstance(learner, str) and learner.lower() in LEARNERS:
        return LEARNERS[learner.lower()]()
    hint = nearest(learner, LEARNERS) if isinstance(learner, str) else ""
    if isinstance(learner, type) and issubclass(learner, Learner):
        raise LearnerError(
            f"learner={learner.__name__} is a class; expected a learner: write riesz.{learner.__name__}()."
        )
    known = ", ".join(repr(name) for name in LEARNERS)
    raise LearnerError(
        f"learner={learner!r} is not known.{hint} Expected one of {known}, or a learner such as riesz.Linear(...)."
    )


__all__ = ["LEARNERS", "Fit", "Learner", "find_learner"]
