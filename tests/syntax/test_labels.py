"""Labels of numbers: whole numbers keep all digits, and different values have different labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.results.summary_table import number
from riesz.syntax.labels import label, labels


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-3.0, "-3"),
        (-0.0, "0"),
        (0.1 + 0.2, "0.3"),
        (1 / 3, "0.333333"),
        (123456.0, "123456"),
        (1000001.0, "1000001"),
        (1234567.0, "1234567"),
        (np.float32(2.5), "2.5"),
        (np.float64(1e7), "10000000"),
        (1234567.5, "1234567.5"),
        (1e-5, "1e-05"),
        (1e20, "1e+20"),
        (9007199254740993, "9007199254740993"),
        (np.int64(7), "7"),
        (True, "True"),
        ("high", "high"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_labels_of_one_value(value: object, text: str) -> None:
    assert label(value) == text


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0.0, 0.5, 1.0], ("0", "0.5", "1")),
        ([0.1234567, 0.1234568], ("0.1234567", "0.1234568")),
        ([1234567.123, 1234567.124], ("1234567.123", "1234567.124")),
        ([1000001.0, 1000002.0], ("1000001", "1000002")),
        ([1e16, 1e16 + 2], ("10000000000000000", "10000000000000002")),
        ([1, "1"], ("1", "'1'")),
        ([0.5, 0.5], ("0.5", "0.5")),
        ([], ()),
    ],
)
def test_labels_of_several_values(values: list[object], texts: tuple[str, ...]) -> None:
    assert labels(values) == texts


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    n = 400
    x, k = rng.normal(size=n), rng.integers(0, 3, n)
    return pd.DataFrame({"y": k + x + rng.normal(size=n), "arm": 1000001.0 + k, "x": x, "k": k})


def test_arms_of_seven_digits(frame: pd.DataFrame) -> None:
    fit = riesz.ate("y ~ treat(arm) + x", frame)
    assert fit.params.index.tolist() == ["ATE_1000002", "ATE_1000003"]
    plain = riesz.ate("y ~ treat(k) + x", frame)
    np.testing.assert_allclose(fit.params, plain.params, rtol=1e-10)
    means = riesz.mean("y ~ treat(arm) + x", frame, at=[1000001, 1000003])
    assert means.params.index.tolist() == ["mean_1000001", "mean_1000003"]
    text = str(fit.summary()) + str(means.summary())
    assert "e+06" not in text
    assert "1000002 against 1000001" in text.replace("\n", " ")
    two = riesz.ate("y ~ treat(arm) + x", frame[frame["k"] > 0])
    assert set(two.overlap().rows["arm"]) <= {"1000002", "1000003"}


def test_arms_that_differ_in_the_seventh_digit(frame: pd.DataFrame) -> None:
    close = frame.assign(arm=0.1234567 + 1e-7 * frame["k"])
    assert riesz.ate("y ~ treat(arm) + x", close).params.index.tolist() == ["ATE_0.1234568", "ATE_0.1234569"]
    shifts = riesz.shift("y ~ treat(x) + k", frame, delta=[0.1234567, 0.1234568])
    assert shifts.params.index.tolist() == ["shift_0.1234567", "shift_0.1234568"]


@pytest.mark.parametrize("kind", [float, "Int64", "category", str])
def test_groups_of_seven_digits(frame: pd.DataFrame, kind: object) -> None:
    data = frame.assign(a=(frame["x"] > 0).astype(float), zip=(frame["k"] + 2345671).astype(kind))
    effects = riesz.ate("y ~ treat(a) + k", data).by("zip")
    assert effects.params.index.tolist() == ["ATE_2345671", "ATE_2345672", "ATE_2345673"]
    plain = riesz.ate("y ~ treat(a) + k", data).by("k")
    np.testing.assert_allclose(effects.params, plain.params, rtol=1e-12)
    assert "e+06" not in str(effects.summary())


def test_new_rows_with_an_unknown_arm(frame: pd.DataFrame) -> None:
    fit = riesz.ate("y ~ treat(arm) + x", frame)
    with pytest.raises(riesz.DataError, match=r"`1000009`.*The fit.s levels are `1000001`, `1000002`, `1000003`"):
        fit.predict(frame.assign(arm=1000009.0))
    with pytest.raises(riesz.EstimandError, match="`1000001`, `1000002`, `1000003`"):
        riesz.mean("y ~ treat(arm) + x", frame, at=1000009)


def test_names_of_ordinary_fits(frame: pd.DataFrame) -> None:
    assert riesz.ate("y ~ treat(k) + x", frame).params.index.tolist() == ["ATE_1", "ATE_2"]
    half = frame.assign(k=frame["k"] / 2)
    assert riesz.ate("y ~ treat(k) + x", half).params.index.tolist() == ["ATE_0.5", "ATE_1"]
    fit = riesz.shift("y ~ treat(x) + k", frame, delta=[0.1, 1 / 3, 2])
    assert fit.params.index.tolist() == ["shift_0.1", "shift_0.333333", "shift_2"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0000"),
        (0.12345, "0.1235"),
        (12.3456, "12.3456"),
        (1234.567, "1234.57"),
        (999999.0, "999999.00"),
        (1234567.0, "1234567"),
        (-1234567.8, "-1234568"),
        (1.5e12, "1.5e+12"),
        (0.00012, "0.00012"),
        (float("nan"), "-"),
    ],
)
def test_numbers_in_tables(value: float, text: str) -> None:
    assert number(value) == text


def test_intervals_of_millions_can_be_read(frame: pd.DataFrame) -> None:
    """Both ends used to be printed as 1e+06."""
    data = frame.assign(a=(frame["x"] > 0).astype(float), y=1e6 + 1e3 * frame["y"])
    fit = riesz.mean("y ~ treat(a) + k", data, at=1)
    low, high = fit.conf_int().loc["mean"]
    text = str(fit.summary())
    assert f"{low:.0f}" in text
    assert f"{high:.0f}" in text
    text = str(fit.sensitivity(null=1234567.0).summary())
    assert "e+06" not in text
    assert text.count("1234567") >= 2
