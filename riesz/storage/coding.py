"""Our dataclasses as JSON and arrays, and back.

Only the types listed here are written, and only they are made when a file is read: a file names a type, never code. What is made
must be of the types that its dataclass declares.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.errors import RieszError
from riesz.storage.annotations import check_fields
from riesz.storage.conversion import convert

AnyArray = npt.NDArray[Any]

#: Type to the module that defines it, imported when a file needs it.
TYPES = {
    "Base": "riesz.design.design",
    "Evaluation": "riesz.design.moment",
    "Moment": "riesz.design.moment",
    "Points": "riesz.design.moment",
    "Predictions": "riesz.predictions",
    "Weights": "riesz.inference",
    "Treatment": "riesz.estimands.treatment",
    "Trimming": "riesz.crossfit.trimming",
    "ATE": "riesz.estimands.arms",
    "ATT": "riesz.estimands.arms",
    "ATC": "riesz.estimands.arms",
    "APE": "riesz.estimands.arms",
    "ADE": "riesz.estimands.derivatives",
    "IPE": "riesz.estimands.derivatives",
    "Mean": "riesz.estimands.shifts",
    "Shift": "riesz.estimands.shifts",
    "Named": "riesz.estimands.named",
    "Linear": "riesz.learners.linear.learner",
    "LinearFit": "riesz.learners.linear.learner",
    "KernelEmbedding": "riesz.learners.kernel_embedding",
    "Kernel": "riesz.learners.kernel_embedding",
    "KernelFit": "riesz.learners.kernel_embedding",
    "Propensity": "riesz.learners.propensity.learner",
    "MADNet": "riesz.learners.neural.madnet",
    "RieszNet": "riesz.learners.neural.riesznet",
    "DragonNet": "riesz.learners.neural.dragonnet",
    "TARNet": "riesz.learners.neural.tarnet",
    "NeuralEmbedding": "riesz.learners.neural.neural_embedding",
    "Stage": "riesz.learners.neural.engine.schedule",
    "StoredNetworks": "riesz.learners.neural.engine.storage",
    "StoredNetwork": "riesz.learners.neural.engine.storage",
    "Blend": "riesz.learners.companion.blending",
    "ClosedForm": "riesz.learners.companion.splines",
    "Solution": "riesz.learners.companion.splines",
    "FeatureSet": "riesz.learners.companion.splines",
    "Shape": "riesz.learners.neural.engine.network",
    "Scale": "riesz.learners.neural.engine.scaling",
    "Expansion": "riesz.learners.neural.engine.features",
    "Expansions": "riesz.learners.neural.engine.features",
    "RememberedFit": "riesz.results.remembered",
    "RememberedLearner": "riesz.results.remembered",
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

    def texts(self, texts: Sequence[str]) -> dict[str, str]:
        """Many texts as two arrays, since a million of them would make a document that is slow to read."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        lengths = np.array([len(one) for one in encoded], dtype=np.int64)
        return {"lengths": self.array(lengths), "bytes": self.array(np.frombuffer(b"".join(encoded), dtype=np.uint8))}

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
        if isinstance(value, pd.Interval):
            return {"interval": [self.write(value.left), self.write(value.right), value.closed]}
        if isinstance(value, pd.Timestamp) and value.tz is None:
            return {"timestamp": [int(value.to_datetime64().view("int64")), value.unit]}
        if type(value) is datetime.date:
            return {"date": value.isoformat()}
        name = type(value).__name__
        if is_dataclass(value) and TYPES.get(name) == type(value).__module__:
            return {"type": name, "fields": {f.name: self.write(getattr(value, f.name)) for f in fields(value)}}
        raise UnstorableError(f"A {name} cannot be stored in a file.")


class Reader:
    """Turns JSON and arrays back into values.

    Parameters
    ----------
    arrays : mapping
    most : float
        Bytes that may be made of them, each time that an array is named: a file may name one array many times.
    """

    def __init__(self, arrays: Mapping[str, AnyArray], most: float = np.inf) -> None:
        self._arrays, self._left = arrays, most

    def spend(self, count: int) -> None:
        """Count bytes that are about to be made."""
        self._left -= count
        if self._left < 0:
            raise ValueError("it names the same content too often")

    def array(self, name: Any) -> AnyArray:
        """An array by its name."""
        values = self._arrays[name]
        self.spend(values.nbytes)
        return values

    def texts(self, spec: Any) -> list[str]:
        """Many texts."""
        if "lengths" not in spec:  # format 1
            texts = self.read(spec)
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise ValueError("labels that are not text")
            return texts
        lengths, content = self.array(spec["lengths"]), self.array(spec["bytes"])
        if lengths.dtype != np.int64 or content.dtype != np.uint8 or lengths.ndim != 1 or content.ndim != 1:
            raise ValueError("labels of the wrong kind")
        self.spend(64 * len(lengths))
        ends = np.cumsum(lengths)
        if lengths.size and (lengths.min() < 0 or ends[-1] != len(content) or lengths.max() > len(content)):
            raise ValueError("labels of the wrong length")
        whole = content.tobytes()
        pairs = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
        return [whole[start:end].decode("utf-8", "surrogatepass") for start, end in pairs]

    def read(self, value: Any) -> Any:
        """A value from its JSON."""
        match value:
            case None | bool() | str() | int() | float():
                return value
            case {"float": ("nan" | "inf" | "-inf") as text}:
                return float(text)
            case {"array": str(name)}:
                return self.array(name)
            case {"tuple": list(items)}:
                return tuple(self.read(item) for item in items)
            case {"list": list(items)}:
                return [self.read(item) for item in items]
            case {"set": list(items)} if all(isinstance(item, str) for item in items):
                return frozenset(items)
            case {"dict": dict(items)}:
                return {key: self.read(item) for key, item in items.items()}
            case {"interval": [left, right, ("left" | "right" | "both" | "neither") as closed]}:
                return pd.Interval(self.read(left), self.read(right), closed=closed)
            case {"timestamp": [int(count), ("s" | "ms" | "us" | "ns") as unit]}:
                return pd.Timestamp(np.datetime64(count, unit))
            case {"date": str(text)}:
                return datetime.date.fromisoformat(text)
            case {"type": str(name), "fields": dict(items)} if name in TYPES:
                content = {str(key): self.read(item) for key, item in convert(name, items).items()}
                made = getattr(import_module(TYPES[name]), name)(**content)
                check_fields(made)
                return made
        raise ValueError(f"unknown content {str(value)[:60]}")
