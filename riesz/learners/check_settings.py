"""Checks of learners' settings; every message states the value and what is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riesz.errors import LearnerError


def check_settings(
    learner: object, choices: Mapping[str, Sequence[object]], whole: Sequence[str], numbers: Sequence[str]
) -> None:
    """Check settings: one of several choices, a whole number of at least 1, or a number of at least 0."""
    name = type(learner).__name__
    for field in (*choices, *whole, *numbers):
        plain(learner, field)
    for field, values in choices.items():
        got = getattr(learner, field)
        if got not in values:
            raise LearnerError(f"{name}({field}={got!r}): expected one of {', '.join(map(repr, values))}.")
    for field in whole:
        got = getattr(learner, field)
        if not isinstance(got, int) or isinstance(got, bool) or got < 1:
            raise LearnerError(f"{name}({field}={got!r}): expected a whole number, 1 or larger.")
    for field in numbers:
        check_number(learner, field, "a number, 0 or larger", at_least=0.0)


def check_number(
    learner: object,
    field: str,
    expected: str,
    *,
    at_least: float = -np.inf,
    above: float = -np.inf,
    below: float = np.inf,
    or_word: str | None = None,
) -> None:
    """Refuse a setting that is neither a number within these bounds nor the word allowed instead."""
    got = plain(learner, field)
    if or_word is not None and isinstance(got, str) and got == or_word:
        return
    number = isinstance(got, (int, float)) and not isinstance(got, bool)
    if not (number and np.isfinite(got) and at_least <= got and above < got < below):
        raise LearnerError(f"{type(learner).__name__}({field}={got!r}): expected {expected}.")


def plain(learner: object, field: str) -> Any:
    """A setting; a numpy number is first replaced by a Python number, because files cannot hold it."""
    got = getattr(learner, field)
    if isinstance(got, (np.number, np.bool_)):
        got = got.item()
        object.__setattr__(learner, field, got)
    return got
