"""Warnings point to the line of the user's call, and formulas can use the variables there."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.syntax.caller import warn

ROOT = Path(riesz.__file__).parent
FORMULA = "y ~ treat(a) * x1"


def pile_up(frame: pd.DataFrame) -> Any:
    return riesz.mean("y ~ treat(x1) + a", frame, at="minimum(x1, 0.0)")


def tie(frame: pd.DataFrame) -> Any:
    tied = frame.assign(x1=np.where(np.arange(len(frame)) % 3, np.arange(len(frame)) % 2, frame["x1"]))
    return riesz.ade("y ~ treat(x1) + a", tied)


def cut(frame: pd.DataFrame) -> Any:
    return riesz.ate(FORMULA, frame, folds=np.arange(len(frame)) % 4, cluster="village")


def cut_later(frame: pd.DataFrame) -> Any:
    return riesz.ate(FORMULA, frame).with_cov("village")


def cap(frame: pd.DataFrame) -> Any:
    return riesz.ate(FORMULA, frame, trim=0.5)


def group(frame: pd.DataFrame) -> Any:
    return riesz.att(FORMULA, frame).by(np.where(frame["a"] == 1, "ever", np.arange(len(frame)) % 2))


def doubt(frame: pd.DataFrame) -> Any:
    return riesz.datasets.get("binary").truth(riesz.APE("x1 > 0.5"))


@pytest.mark.parametrize("call", [pile_up, tie, cut, cut_later, cap, group, doubt], ids=lambda call: call.__name__)
def test_warnings_point_at_the_call(binary_frame: pd.DataFrame, call: Callable[[pd.DataFrame], Any]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(binary_frame)
    assert caught
    code = call.__code__
    last = max(line for _, _, line in code.co_lines() if line is not None)
    for warning in caught:
        assert warning.category is riesz.RieszWarning
        assert warning.filename == __file__
        assert code.co_firstlineno < warning.lineno <= last


def test_directly_under_the_caller() -> None:
    with pytest.warns(riesz.RieszWarning, match="odd") as caught:
        warn("Something is odd.")
    assert caught[0].filename == __file__


def test_every_warning_goes_that_way() -> None:
    for path in ROOT.rglob("*.py"):
        if path.name != "caller.py":
            assert not re.search(r"\bwarnings\.warn\(|stacklevel", path.read_text()), path


def test_names_are_looked_up_where_the_call_is(binary_frame: pd.DataFrame) -> None:
    def twice(x: Any) -> Any:
        return 2 * x

    fits = [riesz.ate("y ~ treat(a) + twice(x1)", binary_frame) for _ in range(1)]
    plain = riesz.ate("y ~ treat(a) + x1", binary_frame)
    np.testing.assert_allclose(fits[0].params, plain.params, rtol=1e-6)
