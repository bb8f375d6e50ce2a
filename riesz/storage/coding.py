"""Our dataclasses as JSON and arrays, and back.

Only the types listed here are written, and only they are made when a file is read: a file names a type, never code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from riesz.errors import RieszError

AnyArray = npt.NDArray[Any]

#: Type to the module that defines it, imported when a file needs it.
TYPES = {
    "Base": "riesz.design",
    "Evaluation": "riesz.moment",
    "Moment": "riesz.moment",
    "Points": "riesz.moment",
    "Predictions": "riesz.predictions",
    "Weights": "riesz.inference",
    "Treatment": "riesz.estimands.treatment",
    "Trimming": "riesz.trimming",
    "ATE": "riesz.estimands.contrasts",
    "ATT": "riesz.estimands.contrasts",
    "ATC": "riesz.estimands.contrasts",
    "APE": "riesz.estimands.contrasts",
    "ADE": "riesz.estimands.derivatives",
    "IPE": "riesz.estimands.derivatives",
    "Mean": "riesz.estimands.shifts",
    "Shift": "riesz.estimands.shifts",
    "Named": "riesz.estimands.naming",
    "Linear": "riesz.learners.linear",
    "LinearFit": "riesz.learners.linear",
    "KernelEmbedding": "riesz.learners.kernel",
    "Kernel": "riesz.learners.kernel",
    "KernelFit": "riesz.learners.kernel",
    "Propensity": "riesz.learners.propensity",
    "MADNet": "riesz.learners.neural.madnet",
    "RieszNet": "riesz.learners.neural.riesznet",
    "RieszReading": "riesz.learners.neural.objectives.riesz_loss",
    "DragonNet": "riesz.learners.neural.dragonnet",
    "PropensityReading": "riesz.learners.neural.objectives.propensity_loss",
    "TARNet": "riesz.learners.neural.tarnet",
    "OutcomeReading": "riesz.learners.neural.objectives.outcome",
    "NeuralEmbedding": "riesz.learners.neural.embedding",
    "EmbeddingReading": "riesz.learners.neural.embedding",
    "Stage": "riesz.learners.neural.schedule",
    "StoredNetworks": "riesz.learners.neural.stored",
    "StoredNetwork": "riesz.learners.neural.stored",
    "Blend": "riesz.learners.neural.blending",
    "ClosedForm": "riesz.learners.neural.closed",
    "Solution": "riesz.learners.neural.closed",
    "FeatureSet": "riesz.learners.neural.closed",
    "Shape": "riesz.learners.neural.network",
    "Scale": "riesz.learners.neural.scaling",
    "Expansion": "riesz.learners.neural.expansion",
    "Expansions": "riesz.learners.neural.expansion",
    "RememberedFit": "riesz.storage.remembered",
    "RememberedLearner": "riesz.storage.remembered",
}


class UnstorableError(RieszError):
    """Something that a file cannot hold, such as a function."""


class Writer:
    """Turns values into JSON, and sets arrays aside.

    Attributes
    ----------
    arrays : dict
    """

    def __init__(self) -> None:
        self.arrays: dict[str, AnyArray] = {}
        self._known: dict[int, str] = {}

    def array(self, values: AnyArray) -> str:
        """Set an array aside; the same array is kept once."""
        if id(values) not in self._known:
            self._known[id(values)] = name = f"a{len(self.arrays)}"
            self.arrays[name] = values
        return self._known[id(values)]

    def write(self, value: Any) -> Any:
        """A value as JSON."""
        if value is None or isinstance(value, (bool, str, int)):
            return value
        if isinstance(value, np.generic):
            return self.write(value.item())
        if isinstance(value, float):
            return value if np.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            return {"array": self.array(value)}
        if isinstance(value, (tuple, list)):
            return {type(value).__name__: [self.write(item) for item in value]}
        if isinstance(value, frozenset) and all(isinstance(item, str) for item in value):
            return {"set": sorted(value)}
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.write(item) for key, item in value.items()}}
        name = type(value).__name__
        if is_dataclass(value) and TYPES.get(name) == type(value).__module__:
            return {"type": name, "fields": {f.name: self.write(getattr(value, f.name)) for f in fields(value)}}
        raise UnstorableError(f"A {name} cannot be stored in a file.")


class Reader:
    """Turns JSON and arrays back into values."""

    def __init__(self, arrays: Mapping[str, AnyArray]) -> None:
        self._arrays = arrays

    def read(self, value: Any) -> Any:
        """A value from its JSON."""
        match value:
            case None | bool() | str() | int() | float():
                return value
            case {"float": ("nan" | "inf" | "-inf") as text}:
                return float(text)
            case {"array": str(name)}:
                return self._arrays[name]
            case {"tuple": list(items)}:
                return tuple(self.read(item) for item in items)
            case {"list": list(items)}:
                return [self.read(item) for item in items]
            case {"set": list(items)} if all(isinstance(item, str) for item in items):
                return frozenset(items)
            case {"dict": dict(items)}:
                return {key: self.read(item) for key, item in items.items()}
            case {"type": str(name), "fields": dict(items)} if name in TYPES:
                made = getattr(import_module(TYPES[name]), name)
                return made(**{key: self.read(item) for key, item in items.items()})
        raise ValueError(f"unknown content {str(value)[:60]}")
