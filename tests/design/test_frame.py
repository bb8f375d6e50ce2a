"""Tables of every data frame library give the same estimates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import riesz
from riesz.design.table import Table

FORMULA = "y ~ treat(a) * x1 + bs(x2, df=4) + g + flag + count"


@pytest.fixture(scope="module")
def frame(binary_frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers, text, booleans and integers, some missing."""
    rng = np.random.default_rng(0)
    data = binary_frame.assign(flag=rng.uniform(size=400) < 0.5, count=rng.integers(0, 9, 400))
    data["x1"] = data["x1"].where(rng.uniform(size=400) < 0.95)
    data["g"] = data["g"].where(rng.uniform(size=400) < 0.97, None)
    return data


@pytest.fixture(scope="module")
def expected(frame: pd.DataFrame) -> riesz.Results:
    return riesz.ate(FORMULA, frame, weights="w", cluster="village")


def arrow_backed(data: pd.DataFrame) -> pd.DataFrame:
    return data.convert_dtypes(dtype_backend="pyarrow")


CONVERSIONS = {
    "polars": pl.from_pandas,
    "polars lazy": lambda data: pl.from_pandas(data).lazy(),
    "polars, NaN for null": lambda data: pl.from_pandas(data).with_columns(pl.col("x1").fill_null(float("nan"))),
    "pyarrow": lambda data: pa.Table.from_pandas(data),
    "nullable": lambda data: data.convert_dtypes(),
    "arrow-backed pandas": arrow_backed,
    "categories": lambda data: data.assign(g=data["g"].astype("category")),
    "polars categories": lambda data: pl.from_pandas(data).with_columns(pl.col("g").cast(pl.Categorical)),
    "object numbers": lambda data: data.assign(count=data["count"].astype(object), flag=data["flag"].astype(object)),
    "float32 flags": lambda data: data.assign(flag=data["flag"].astype("float32")),
    "duplicate index": lambda data: data.set_index(pd.Index([0] * len(data))),
    "other column order": lambda data: data[data.columns[::-1]],
    "unused level": lambda data: data.assign(g=pd.Categorical(data["g"], categories=["u", "v", "w", "never"])),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_same_numbers_from_every_table(frame: pd.DataFrame, expected: riesz.Results, name: str) -> None:
    fit = riesz.ate(FORMULA, CONVERSIONS[name](frame), weights="w", cluster="village")
    np.testing.assert_allclose(fit.params, expected.params, rtol=1e-12)
    np.testing.assert_allclose(fit.bse, expected.bse, rtol=1e-12)
    assert fit.nobs == expected.nobs < 400


@pytest.mark.parametrize(
    "code",
    [
        lambda a: np.where(a == 1, "yes", "no"),
        lambda a: a + 1,
        lambda a: a.astype(bool),
        lambda a: pd.Categorical(np.where(a == 1, "treated", "control"), categories=["control", "treated"]),
        lambda a: np.where(a == 1, 7, -3),
        lambda a: a.astype(bool).astype("boolean"),
    ],
)
def test_treatment_codes(binary_frame: pd.DataFrame, code: object) -> None:
    """The codes of the two arms do not change the effect or its standard error."""
    plain = riesz.ate("y ~ treat(a) * x1 + g", binary_frame)
    coded = riesz.ate("y ~ treat(a) * x1 + g", binary_frame.assign(a=code(binary_frame["a"])))
    np.testing.assert_allclose(coded.params, plain.params, rtol=1e-8)
    np.testing.assert_allclose(coded.bse, plain.bse, rtol=1e-8)


def test_reference_level_changes_the_sign(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(a=np.where(binary_frame["a"] == 1, "yes", "no"))
    options = {"folds": np.arange(400) % 5, "learner": riesz.Linear(0, 0)}
    plain = riesz.ate("y ~ treat(a) * x1", data, **options)
    turned = riesz.ate("y ~ treat(a, reference='yes') * x1", data, **options)
    np.testing.assert_allclose(turned.params, -plain.params, rtol=1e-8)
    assert "no vs yes" in str(turned.summary())
    assert "yes vs no" in str(plain.summary())


def test_numeric_arms_are_arms(arms_frame: pd.DataFrame) -> None:
    """Three numeric codes are three arms, not a dose."""
    data = arms_frame.assign(arm=arms_frame["arm"].map({"placebo": 0, "low": 1, "high": 2}))
    folds = np.arange(400) % 5
    numeric = riesz.ate("y ~ treat(arm) + x1", data, folds=folds)
    named = riesz.ate("y ~ treat(arm, reference='placebo') + x1", arms_frame, folds=folds)
    assert numeric.params.index.tolist() == ["ATE_1", "ATE_2"]
    assert sorted(named.params.index) == ["ATE_high", "ATE_low"]
    np.testing.assert_allclose(numeric.params[["ATE_1", "ATE_2"]], named.params[["ATE_low", "ATE_high"]], rtol=1e-8)


def test_missing_rows_are_counted_and_located(frame: pd.DataFrame, expected: riesz.Results) -> None:
    complete = frame[["y", "a", "x1", "x2", "g"]].notna().all(axis=1)
    assert expected.nobs == complete.sum()
    assert expected.fittedvalues.index.equals(frame.index[complete])
    assert f"Rows dropped (missing): {' ' * 4}" in str(expected.summary()) or str(400 - complete.sum()) in str(
        expected.summary()
    )
    unrelated = frame.assign(junk=np.nan)
    assert riesz.ate(FORMULA, unrelated).nobs == expected.nobs


def test_missing_weights_and_clusters_drop_rows(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(w=binary_frame["w"].mask(binary_frame.index < 10))
    village = binary_frame["village"].astype(float).mask(binary_frame.index > 395)
    fit = riesz.ate("y ~ treat(a) + x1", data, weights="w", cluster=village)
    assert fit.nobs == 400 - 10 - 4


def test_policies_in_every_form(binary_frame: pd.DataFrame) -> None:
    """String, callable, array and Series agree, also when rows are missing."""
    data = binary_frame.assign(x2=binary_frame["x2"].mask(binary_frame.index < 20))
    formula = "y ~ treat(a) + x1 + x2"
    rule = data["x1"] > 0.3
    cut = 0.3
    forms = [
        "x1 > 0.3",
        "x1 > cut",
        "~ x1 > 0.3",
        lambda frame: frame["x1"] > cut,
        rule,
        rule.to_numpy(),
        rule.tolist(),
    ]
    values = [riesz.ape(formula, data, policy=form).params["APE"] for form in forms]
    np.testing.assert_allclose(values, values[0])
    quoted = data.rename(columns={"x1": "my x"})
    named = riesz.ape("y ~ treat(a) + `my x` + x2", quoted, policy="`my x` > 0.3").params["APE"]
    np.testing.assert_allclose(named, values[0])


def test_only_needed_columns_are_read() -> None:
    data = pd.DataFrame({"y": [1.0, 2.0], "x": [1, 2], "list": [[1], [2]]})
    assert Table(data).to_pandas(["y", "x"]).dtypes.tolist() == [np.float64, np.float64]
