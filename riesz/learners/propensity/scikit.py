"""scikit-learn's models as parts of a learner: imported when needed, cloned, seeded, fitted with weights.

scikit-learn is an optional dependency; nothing here imports it before a model is used.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.errors import LearnerError
from riesz.families import find_family


def need_scikit(who: str) -> None:
    """Raise an error that says what to install if scikit-learn is missing."""
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise LearnerError(
            f"{who} uses scikit-learn, which is not installed. Install it with pip install scikit-learn, or use "
            "learner='linear'."
        ) from error


#: Slow, shallow boosting: scikit-learn's default settings overfit samples of a thousand rows, and 1/p magnifies the errors.
_SMALL = {"learning_rate": 0.05, "max_leaf_nodes": 8, "min_samples_leaf": 10}


def default_regressor(family: str) -> Any:
    """Boosted trees, which need no scaling of the columns and find interactions, with the loss of a family of outcomes."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(loss=family if find_family(family).log_link else "squared_error", **_SMALL)


def default_classifier() -> Any:
    """The same for arms and for a 0/1 outcome."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(**_SMALL)


def is_classifier(model: Any) -> bool:
    """Whether a model is a classifier, according to scikit-learn."""
    import sklearn.base

    return bool(sklearn.base.is_classifier(model))


def takes_weights(model: Any) -> bool:
    """Whether a model's ``fit`` accepts sample weights; for a pipeline, that of its last step."""
    parameters = inspect.signature(_last(model)[1].fit).parameters
    return "sample_weight" in parameters or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def fitted(model: Any, seed: int, x: Array, y: npt.NDArray[Any], weights: Array) -> Any:
    """A fitted copy of a model. Every ``random_state`` of None, also of nested models and splitters, gets the seed."""
    from sklearn.base import clone

    copy = clone(model)
    copy.set_params(**{name: seed for name, value in copy.get_params().items() if _is_seed(name) and value is None})
    for part in copy.get_params().values():  # set_params does not reach splitters
        if hasattr(part, "split") and getattr(part, "shuffle", True) and getattr(part, "random_state", seed) is None:
            part.random_state = seed
    prefix = _last(copy)[0]
    keywords = {} if np.ptp(weights) == 0 else {f"{prefix}sample_weight": weights}
    try:
        return copy.fit(x, y, **keywords)
    except (TypeError, ValueError) as error:
        raise LearnerError(
            f"{type(model).__name__} cannot be fitted on {len(y)} rows and {x.shape[1]} columns: {str(error).rstrip('.')}. "
            "Use another model, fewer folds, or learner='linear'."
        ) from error


def probabilities(model: Any, x: Array, classes: int) -> Array:
    """The probability of each class 0, 1, ..., shape (n, classes); zero for a class the model has not seen."""
    by_class = np.zeros((len(x), classes))
    by_class[:, np.asarray(model.classes_, dtype=np.intp)] = model.predict_proba(x)
    return by_class


_LEAST_MEAN = 1e-3  # share of the outcome's mean that a mean which must be positive is at least


@dataclass(frozen=True)
class Regression:
    """A fitted regression of the outcome.

    Attributes
    ----------
    model : object or None
        None if the outcome has only one value, from which no classifier, and no regression of a logarithm, may learn.
    constant : float
        The outcome's mean.
    family : str
    """

    model: Any
    constant: float
    family: str

    def at(self, x: Array) -> Array:
        """E[Y | x], shape (n,), moved to where the family's mu may be."""
        if self.model is None:
            return np.full(len(x), self.constant)
        if is_classifier(self.model):
            return probabilities(self.model, x, 2)[:, 1]
        predicted = np.asarray(self.model.predict(x), dtype=float).ravel()
        family = find_family(self.family)
        if family.log_link:
            return np.asarray(np.maximum(predicted, _LEAST_MEAN * self.constant))
        return np.clip(predicted, *family.limits) if family.limits else predicted


def regress(model: Any, seed: int, x: Array, y: Array, weights: Array, family: str) -> Regression:
    """Fit a regressor, or a classifier of a 0/1 outcome."""
    one_class = np.ptp(y) == 0 and (is_classifier(model) or find_family(family).log_link)
    regression = None if one_class else fitted(model, seed, x, y, weights)
    return Regression(regression, float(np.average(y, weights=weights)), family)


def _last(model: Any) -> tuple[str, Any]:
    """The prefix of a pipeline's keywords for its last step, and that step; other models are returned with an empty prefix."""
    from sklearn.pipeline import Pipeline

    if isinstance(model, Pipeline):
        name, step = model.steps[-1]
        return f"{name}__", step
    return "", model


def _is_seed(name: str) -> bool:
    return name.split("__")[-1] == "random_state"
