"""Labels of arms, groups and levels: numbers as a user would write them, and different labels for different values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

DIGITS = 6  # significant digits of a number that is not whole, unless more are needed to tell two values apart
_MOST_DIGITS = 17  # enough to tell any two floats apart
_EXACT = 2.0**53  # whole floats below this are exact
_SMALLEST, _LARGEST = 1e-4, 1e15  # numbers outside these limits are written with an exponent


def label(value: Any, digits: int = DIGITS) -> str:
    """A level or number as a user would write it: 1.0 becomes 1, and whole numbers keep all digits.

    Parameters
    ----------
    value : object
    digits : int
        Significant digits of numbers that are not whole.

    Examples
    --------
    >>> from riesz.syntax.labels import label
    >>> label(1.0), label(1000001.0), label(0.1 + 0.2), label("placebo")
    ('1', '1000001', '0.3', 'placebo')
    """
    if not isinstance(value, (float, np.floating)):
        return str(value)
    number = float(value)
    if number.is_integer() and abs(number) < _EXACT:
        return str(int(number))
    text = f"{number:.{digits}g}"
    if "e" in text and _SMALLEST <= abs(number) < _LARGEST:
        whole_digits = len(str(int(abs(number))))
        text = f"{number:.{max(digits, whole_digits + 1)}g}"
    return text


def labels(values: Iterable[Any]) -> tuple[str, ...]:
    """Labels of several values, with as many digits as needed to tell them apart.

    Examples
    --------
    >>> from riesz.syntax.labels import labels
    >>> labels([0.5, 1.0]), labels([0.12345671, 0.12345672])
    (('0.5', '1'), ('0.12345671', '0.12345672'))
    """
    items = list(values)
    for digits in range(DIGITS, _MOST_DIGITS + 1):
        texts = tuple(label(value, digits) for value in items)
        if len(set(texts)) == len(set(items)):
            return texts
    return tuple(map(repr, items))  # the number 1 and the string "1"
