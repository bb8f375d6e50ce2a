"""The settings of a fit, as its file holds them.

Every field of :class:`~riesz.settings.Settings` is stored except ``context``, which may hold functions, and ``learner``, which is
stored beside them. A value that a file cannot hold is left out; when the file is loaded, the field has its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from riesz.crossfit.trimming import Trimming
from riesz.design.design import Base
from riesz.errors import RieszError
from riesz.estimators import ESTIMATORS
from riesz.learners import Learner
from riesz.settings import Settings
from riesz.storage.coding import Reader, UnstorableError, Writer
from riesz.storage.frames import read_frame, write_frame

#: The fields that a file holds.
STORED = tuple(keyword.name for keyword in fields(Settings) if keyword.name not in ("learner", "context"))


class UnknownEstimatorError(RieszError):
    """A file names an estimator that is not registered here."""


def write_settings(settings: Settings, writer: Writer) -> dict[str, Any]:
    """The fields that a file holds, by name."""
    stored = {}
    for name in STORED:
        try:
            stored[name] = _write(getattr(settings, name), writer)
        except UnstorableError:
            continue
    return stored


def read_settings(stored: Any, learner: Any, reader: Reader) -> Settings:
    """Settings from their stored fields; they are checked as those of a call are."""
    values = {name: _read(stored[name], reader) for name in STORED if name in stored}
    return _settings({"calibrate": None, **values}, learner)  # files of format 3 and before were not calibrated


def old_settings(parts: Mapping[str, Any], learner: Any) -> Settings:
    """Settings from a file that was written before files held all of them."""
    base: Base = parts["base"]
    values = {"estimator": parts["estimator"], "target": parts["target"], "seed": parts["seed"]}
    return _settings(
        {**values, "calibrate": None, "trim": _trim(parts["trimming"]), "family": base.family, "bounds": base.bounds},
        learner,
    )


def _settings(values: dict[str, Any], learner: Any) -> Settings:
    if not isinstance(learner, Learner):
        raise ValueError("the learner is of the wrong type")
    if values["estimator"] not in ESTIMATORS:
        raise UnknownEstimatorError(
            f"uses estimator={values['estimator']!r}, which is not registered here. Put it in riesz.estimators.ESTIMATORS first, "
            "as was done where the fit was made."
        )
    return Settings(learner=learner, **values)


def _write(value: Any, writer: Writer) -> Any:
    """A value as JSON; a Series is a frame with one column."""
    if isinstance(value, pd.Series):
        column = write_frame(value.to_frame(str(value.name)), writer)
        if column["lost"]:
            raise UnstorableError(f"A column of {value.dtype} cannot be stored in a file.")
        return {"column": column}
    if isinstance(value, tuple):
        return {"several": [_write(part, writer) for part in value]}
    return writer.write(value)


def _read(stored: Any, reader: Reader) -> Any:
    match stored:
        case {"column": column}:
            return read_frame(column, reader).iloc[:, 0]
        case {"several": list(parts)}:
            return tuple(_read(part, reader) for part in parts)
    return reader.read(stored)


def _trim(trimming: Trimming | None) -> float | str | None:
    """The ``trim`` argument that gives a trimming."""
    if trimming is None or trimming.share is None:
        return None if trimming is None else trimming.value
    for digits in range(1, 18):  # the shortest percentage that gives exactly this share
        percent = np.format_float_positional(100 * trimming.share, digits, unique=False, fractional=False, trim="-")
        if float(percent) / 100 == trimming.share:
            break
    return f"{percent}%"
