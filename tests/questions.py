"""One question per registered estimand, for tests that loop over the registry, so that a new estimand is tested at once."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from riesz.estimands import ESTIMANDS, Estimand, Sample
from riesz.estimands.linear_form import Mu
from riesz.estimands.treatment import Treatment

#: Verb to a question over the columns of the fixtures in ``conftest.py``.
QUESTIONS: dict[str, Estimand] = {verb: estimand.example() for verb, estimand in ESTIMANDS.items()}


def settings(estimand: Estimand) -> dict[str, Any]:
    """The arguments of an estimand, as its verb takes them."""
    return {field.name: getattr(estimand, field.name) for field in fields(estimand)}  # type: ignore[arg-type]


def is_continuous(estimand: Estimand) -> bool:
    """Whether the test uses a continuous treatment; an estimand that allows both kinds is tested with two arms."""
    return estimand.treatment_kind(pd.Series([0.0, 1.0], name="a")) == "number"


def frame_of(estimand: Estimand) -> str:
    """The name of the fixture with the data for an estimand."""
    return "continuous_frame" if is_continuous(estimand) else "binary_frame"


def is_contrast(estimand: Estimand) -> bool:
    """Whether a constant has moment zero, so that adding a constant to the outcome changes nothing."""
    x = np.linspace(-1.0, 1.0, 20)
    treatment = Treatment("a", () if is_continuous(estimand) else (0.0, 1.0), categorical=False)
    data = pd.DataFrame({"a": x if is_continuous(estimand) else np.arange(20) % 2.0, "x1": x, "x2": x**2})
    components = estimand.components(Sample(data, treatment, np.arange(20), 20))
    moments = [component.moment(Mu(), data).apply(lambda frame: np.ones(len(frame))) for component in components]
    return bool(np.allclose(moments, 0.0))
