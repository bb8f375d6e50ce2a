r"""From predictions to scores, whose weighted mean (over that of the normalizer) estimates psi.

========  ==========================================================================  ==============
name      score                                                                        standard error
========  ==========================================================================  ==============
direct    :math:`m(\mu)`                                                               none
ipw       :math:`\alpha y`                                                             none
dr        :math:`m(\mu) + \alpha (y - \mu)`                                            yes
tmle      :math:`m(\mu^*) + \alpha (y - \mu^*)`, with :math:`E_n[\alpha(y - \mu^*)] = 0`    yes
========  ==========================================================================  ==============

``direct`` and ``ipw`` have no valid standard error: their bias does not vanish at the root-n rate.
"""

from riesz.estimators.base import Estimator, Scores
from riesz.registry import Registry

#: Name to estimator, as in ``estimator="dr"``, in the order of the tables. Tables, plots and tests follow from these lines.
ESTIMATORS: Registry[Estimator] = Registry(
    {
        "direct": "riesz.estimators.plug_in:direct",
        "ipw": "riesz.estimators.weighting:ipw",
        "dr": "riesz.estimators.one_step:dr",
        "tmle": "riesz.estimators.targeted:tmle",
    }
)


def describe(name: str) -> str:
    """An estimator's name and what it is: ``dr (one-step)``."""
    return f"{name} ({ESTIMATORS[name].words})"


__all__ = ["ESTIMATORS", "Estimator", "Scores", "describe"]
