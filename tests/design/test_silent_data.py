"""Data that once gave wrong numbers silently: Arrow dictionaries, changed frames, odd weights and extreme sizes."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import riesz
from riesz.design.table import Table

FORMULA = "y ~ treat(a) + x + g"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """A treatment, a number, labels, clusters, weights and a column that no formula names."""
    rng = np.random.default_rng(17)
    n = 200
    x, g = rng.normal(size=n), rng.choice(["u", "v", "w"], n)
    a = (rng.uniform(size=n) < 1 / (1 + np.exp(-x))).astype(float)
    y = a + x + (g == "v") + rng.normal(size=n)
    other = rng.choice(["p", "q"], n)
    return pd.DataFrame(
        {"y": y, "a": a, "x": x, "g": g, "c": rng.integers(0, 25, n), "w": rng.uniform(0.5, 2, n), "other": other}
    )


def gaps(n: int) -> np.ndarray:
    """The same 60 of 200 rows each time."""
    return np.random.default_rng(3).permutation(n) < 60


# Arrow dictionaries


def encoded(values: list[Any], kind: str) -> Any:
    """The values as an Arrow dictionary, missing ones as missing indices or as a missing value in the dictionary."""
    array = pa.array(values)
    if kind == "missing indices":
        return array.dictionary_encode()
    if kind == "missing value":
        return array.dictionary_encode(null_encoding="encode")
    half = len(values) // 2
    return pa.chunked_array([pa.array(values[:half]).dictionary_encode(), pa.array(values[half:]).dictionary_encode()])


@pytest.mark.parametrize("kind", ["missing indices", "missing value", "chunks"])
@pytest.mark.parametrize("column", ["a", "g", "c"])
def test_missing_values_of_an_arrow_dictionary_stay_missing(frame: pd.DataFrame, kind: str, column: str) -> None:
    labelled = frame.assign(a=np.where(frame["a"] == 1, "yes", "no"), c=frame["c"].map("c{:02d}".format))
    values = labelled[column].astype(object).where(~gaps(200), None)
    arrow = pa.Table.from_pandas(labelled, preserve_index=False)
    arrow = arrow.set_column(arrow.column_names.index(column), column, encoded(values.tolist(), kind))
    fit = riesz.ate(FORMULA, arrow, cluster="c")
    expected = riesz.ate(FORMULA, labelled.assign(**{column: pd.Categorical(values)}), cluster="c")
    assert fit.nobs == expected.nobs == 140
    np.testing.assert_allclose(fit.params, expected.params, rtol=1e-12)
    np.testing.assert_allclose(fit.bse, expected.bse, rtol=1e-12)


def test_groups_and_weights_of_an_arrow_dictionary(frame: pd.DataFrame) -> None:
    values = frame["other"].astype(object).where(~gaps(200), None).tolist()
    arrow = pa.table(
        {"y": frame["y"], "a": frame["a"], "x": frame["x"], "g": frame["g"], "other": encoded(values, "chunks")}
    )
    expected = riesz.ate(FORMULA, frame).by(pd.Series(values))
    for groups in ("other", arrow["other"], arrow["other"].combine_chunks()):
        effects = riesz.ate(FORMULA, arrow).by(groups)
        np.testing.assert_allclose(effects.params, expected.params, rtol=1e-12)
        assert effects.nobs == expected.nobs == 140
    with pytest.raises(riesz.DataError, match=r"weights must be numbers, one per row; got category"):
        riesz.ate(FORMULA, arrow, weights="other")


@pytest.mark.parametrize("kind", ["missing indices", "missing value", "chunks"])
def test_whole_numbers_of_an_arrow_dictionary_stay_labels(frame: pd.DataFrame, kind: str) -> None:
    codes = frame["g"].map({"u": 30, "v": 10, "w": 20})
    arrow = pa.table({"y": frame["y"], "a": frame["a"], "x": frame["x"], "g": encoded(codes.tolist(), kind)})
    fit = riesz.ate(FORMULA, arrow)
    assert {"g[T.20]", "g[T.30]"} <= set(fit.model.column_names)
    expected = riesz.ate(FORMULA, frame.assign(g=pd.Categorical(codes)))
    np.testing.assert_allclose(fit.params, expected.params, rtol=1e-12)
    arms = riesz.ate("y ~ treat(g) + x", arrow)
    assert arms.params.index.tolist() == ["ATE_20", "ATE_30"]


def test_the_order_of_categories_survives_arrow(frame: pd.DataFrame) -> None:
    """Categories of pandas keep their order in an Arrow table, and so do dictionaries that Arrow says are ordered."""
    for ordered in (False, True):
        data = frame.assign(g=pd.Categorical(frame["g"], categories=["w", "u", "v"], ordered=ordered))
        for table in (pa.Table.from_pandas(data), pa.Table.from_pandas(data).to_pandas(types_mapper=pd.ArrowDtype)):
            if isinstance(table, pd.DataFrame) and not ordered:
                continue  # pandas drops the note that the order is its own
            assert riesz.ate("y ~ treat(g) + x", table).params.index.tolist() == ["ATE_u", "ATE_v"]
            assert Table(table).to_pandas(["g"])["g"].dtype == data["g"].dtype
    plain = pa.table({"g": pa.array(["v", "u", "w", "v"]).dictionary_encode()})  # the order in which they appear
    assert Table(plain).to_pandas(["g"])["g"].cat.categories.tolist() == ["u", "v", "w"]


def test_polars_categories_stay_labels(frame: pd.DataFrame) -> None:
    codes = frame["g"].map({"u": "3", "v": "1", "w": "2"}).astype(object).where(~gaps(200), None)
    expected = riesz.ate(FORMULA, frame.assign(g=pd.Categorical(codes)))
    for kind in (pl.Categorical, pl.Enum(["1", "2", "3"])):
        table = pl.from_pandas(frame).with_columns(pl.Series("g", codes.tolist(), dtype=kind))
        fit = riesz.ate(FORMULA, table)
        assert fit.nobs == 140
        np.testing.assert_allclose(fit.params, expected.params, rtol=1e-12)


def test_row_labels_of_pandas_are_not_a_covariate_in_arrow(frame: pd.DataFrame) -> None:
    some = frame[frame["x"] > -1].drop(columns=["w", "other", "c"])
    table = pa.Table.from_pandas(some)
    assert "__index_level_0__" in table.column_names
    np.testing.assert_allclose(
        riesz.ate("y ~ treat(a) + .", table).params, riesz.ate("y ~ treat(a) + .", some).params, rtol=1e-12
    )


def test_numbers_of_128_bits(frame: pd.DataFrame) -> None:
    """Clusters keep all digits; covariates are numbers like others."""
    expected = riesz.ate("y ~ treat(a) + c", frame, cluster="c")
    wide = pl.from_pandas(frame).with_columns(pl.col("c").cast(pl.Int128))
    fit = riesz.ate("y ~ treat(a) + c", wide, cluster="c")
    np.testing.assert_allclose(fit.bse, expected.bse, rtol=1e-12)
    far = wide.with_columns(pl.col("c") + 2**90)
    np.testing.assert_allclose(
        riesz.ate("y ~ treat(a)", far, cluster="c").bse, riesz.ate("y ~ treat(a)", frame, cluster="c").bse
    )


# A fit owns its data


def sort(data: pd.DataFrame) -> None:
    data.sort_values("x", inplace=True)


def overwrite(data: pd.DataFrame) -> None:
    data["other"], data["x"], data["c"] = data["other"].to_numpy()[::-1].copy(), 0.0, 1


def write_cells(data: pd.DataFrame) -> None:
    data.loc[data.index[:150], ["x", "w"]] = 9.0
    data.iloc[:150, data.columns.get_loc("c")] = 3


def write_below(data: pd.DataFrame) -> None:
    for name in ("x", "c", "w"):
        data[name].array[:150] = 1


def drop(data: pd.DataFrame) -> None:
    data.drop(columns=["other", "x", "c"], inplace=True)


def relabel(data: pd.DataFrame) -> None:
    data.index = data.index[::-1]


def everything(fit: Any, path: Path) -> list[Any]:
    """Everything that reads the table after the fit."""
    fit.save(path)
    loaded = riesz.load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", riesz.RieszWarning)  # clusters that the folds cut
        clustered = fit.with_cov("c")
    return [
        fit.params,
        fit.by("other").params,
        fit.blp("~ x + other").params,
        clustered.bse,
        fit.fittedvalues,
        fit.resid,
        fit.predict(fit.model.table.export()),
        loaded.by("other").params,
        loaded.blp("~ x").params,
    ]


def same(left: list[Any], right: list[Any]) -> None:
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        assert one.index.equals(other.index)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # pandas wants to be rid of it
@pytest.mark.parametrize("change", [sort, overwrite, write_cells, write_below, drop, relabel])
def test_a_changed_frame_does_not_reach_the_fit(
    frame: pd.DataFrame, tmp_path: Path, change: Callable[..., None]
) -> None:
    data = frame.copy().set_axis(np.arange(200)[::-1] + 7)
    expected = everything(riesz.ate(FORMULA, data.copy(), weights="w"), tmp_path / "expected")
    fit = riesz.ate(FORMULA, data, weights="w")
    change(data)
    same(everything(fit, tmp_path / "fit"), expected)


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table, lambda columns: pd.DataFrame(columns, copy=False)])
def test_changed_arrays_below_a_table_do_not_reach_the_fit(frame: pd.DataFrame, tmp_path: Path, make: Any) -> None:
    numbers = {name: frame[name].to_numpy(copy=True) for name in ("y", "a", "x", "c", "w")}
    columns = {**numbers, "g": frame["g"].tolist(), "other": frame["other"].tolist()}
    fit = riesz.ate(FORMULA, make(columns), weights="w")
    for array in numbers.values():
        array[:] = array[::-1].copy()
    same(
        everything(fit, tmp_path / "fit"),
        everything(riesz.ate(FORMULA, frame, weights="w"), tmp_path / "expected"),
    )


def test_polars_frames_that_are_changed_in_place(frame: pd.DataFrame) -> None:
    table = pl.from_pandas(frame)
    fit = riesz.ate(FORMULA, table)
    expected = fit.by("other").params
    table.drop_in_place("other")
    table.replace_column(table.columns.index("x"), pl.Series("x", np.zeros(200)))
    pd.testing.assert_series_equal(fit.by("other").params, expected)
    assert fit.blp("~ x").params["x"] != 0


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_large_tables_are_not_copied(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """They share their columns until either is changed, which is as safe."""
    monkeypatch.setattr("riesz.design.table._SMALL", 0)
    data = frame.copy()
    fit = riesz.ate(FORMULA, data)
    expected = fit.by("other").params
    assert np.shares_memory(fit.model.table.export()["w"].to_numpy(), data["w"].to_numpy())
    sort(data)
    overwrite(data)
    pd.testing.assert_series_equal(fit.by("other").params, expected)


def test_changed_arguments_do_not_reach_the_fit(frame: pd.DataFrame, tmp_path: Path) -> None:
    weights, clusters = frame["w"].to_numpy(copy=True), frame["c"].to_numpy(copy=True)
    folds, policy = np.arange(200) % 4, (frame["x"] > 0).to_numpy(dtype=float)
    knots = [-0.5, 0.5]

    def fitted(freeze: bool) -> Any:
        given = [np.array(part) if freeze else part for part in (policy, weights, clusters, folds)]
        context = {"knots": list(knots) if freeze else knots}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", riesz.RieszWarning)  # the folds cut clusters
            return riesz.ape(
                "y ~ treat(a) + bs(x, knots=knots) + g",
                frame,
                policy=given[0],
                weights=given[1],
                cluster=given[2],
                folds=given[3],
                context=context,
            )

    fit, expected = fitted(freeze=False), fitted(freeze=True)
    for array in (policy, weights, clusters, folds):
        array[:] = 0
    knots[:] = [0.0]
    pd.testing.assert_series_equal(fit.bse, expected.bse)
    np.testing.assert_array_equal(fit.model.recipe.estimands[0].policy, expected.model.recipe.estimands[0].policy)
    assert fit.model.recipe.context["knots"] == [-0.5, 0.5]
    pd.testing.assert_series_equal(fit.by("other").params, expected.by("other").params)


def test_nested_values_are_not_labels(frame: pd.DataFrame) -> None:
    """Tuples used to be labels, and failed when the treatment was set to one."""
    nested = frame.assign(t=[(int(k),) for k in frame["a"]], f=[[k % 4] for k in range(200)])
    with pytest.raises(riesz.DataError, match="Column `t` is object"):
        riesz.ate("y ~ treat(t) + x", nested)
    with pytest.raises(riesz.DataError, match=r"folds must be text or numbers.*got nested values"):
        riesz.ate("y ~ treat(a) + x", nested, folds="f")


def test_intervals_and_booleans_in_arrow(frame: pd.DataFrame) -> None:
    data = frame.assign(cut=pd.cut(frame["x"], 3), flag=(frame["x"] > 0).astype(object).where(~gaps(200), None))
    expected, fit = riesz.ate(FORMULA, data), riesz.ate(FORMULA, pa.Table.from_pandas(data))
    for groups in ("cut", "flag"):
        pd.testing.assert_series_equal(fit.by(groups).params, expected.by(groups).params)
    assert fit.by("flag").params.index.tolist() == ["ATE_False", "ATE_True"]


def test_durations_are_not_labels(frame: pd.DataFrame) -> None:
    """Those of Arrow used to be labels, those of pandas not."""
    lasted = pd.Series(pd.to_timedelta(frame["c"], unit="D"))
    for column in (lasted, lasted.astype("duration[us][pyarrow]")):
        with pytest.raises(riesz.DataError, match="Column `t` is "):
            riesz.ate("y ~ treat(a) + t", frame.assign(t=column))


@pytest.mark.parametrize("name", ["weights", "freq_weights"])
@pytest.mark.parametrize(
    "values",
    [
        lambda n: pd.date_range("2020-01-01", periods=n),
        lambda n: pd.to_timedelta(np.arange(n) + 1, unit="D"),
        lambda n: (np.arange(n) + 1).astype("timedelta64[D]"),
        lambda n: np.arange(n) + 1.0 + 1j,
        lambda n: np.arange(n) + 1.0 + 0j,
        lambda n: (np.arange(n) + 1).astype(str),
        lambda n: [datetime.date(2020, 1, 1)] * n,
        lambda n: pd.Series(pd.period_range("2020-01", periods=n, freq="M")),
    ],
)
def test_weights_must_be_numbers(frame: pd.DataFrame, name: str, values: Callable[[int], Any]) -> None:
    given = values(len(frame))
    for spec, data in ((given, frame), ("weight", frame.assign(weight=np.asarray(given)))):
        with pytest.raises(riesz.DataError, match=rf"{name} must be numbers, one per row; got "):
            riesz.ate(FORMULA, data, **{name: spec})


def test_numbers_of_every_kind_are_weights(frame: pd.DataFrame) -> None:
    whole = (frame["w"] * 3).round()
    expected = riesz.ate(FORMULA, frame, weights=whole)
    for given in (
        whole.astype("Int64"),
        whole.astype("float32"),
        pl.Series(whole.tolist()),
        pa.array(whole),
        whole.tolist(),
    ):
        np.testing.assert_allclose(riesz.ate(FORMULA, frame, weights=given).params, expected.params, rtol=1e-12)
    some = frame["x"] > -1
    np.testing.assert_allclose(
        riesz.ate(FORMULA, frame, weights=some).params, riesz.ate(FORMULA, frame[some]).params, rtol=0.2
    )
    assert riesz.ate(FORMULA, frame, weights=some).nobs == some.sum()


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_weights_beyond_what_can_be_computed(frame: pd.DataFrame, factor: float) -> None:
    with pytest.raises(riesz.DataError, match=r"weights reach .* Rescale them"):
        riesz.ate(FORMULA, frame, weights=frame["w"] * factor)
    plain, scaled = (riesz.ate(FORMULA, frame, weights=frame["w"] * size) for size in (1.0, factor**0.4))
    np.testing.assert_allclose(scaled.bse, plain.bse, rtol=1e-12)


# sizes


@pytest.mark.parametrize("verb", ["ate", "ade"])
@pytest.mark.parametrize("factor", [2.0**-20, 2.0**20, 2.0**-120, 2.0**120])
def test_results_scale_with_the_outcome(frame: pd.DataFrame, verb: str, factor: float) -> None:
    formula = FORMULA if verb == "ate" else "y ~ treat(x) * a + g"
    plain = getattr(riesz, verb)(formula, frame)
    scaled = getattr(riesz, verb)(formula, frame.assign(y=frame["y"] * factor))
    np.testing.assert_allclose(scaled.params / factor, plain.params, rtol=1e-10)
    np.testing.assert_allclose(scaled.bse / factor, plain.bse, rtol=1e-10)


@pytest.mark.parametrize("name", ["y", "x"])
def test_numbers_too_small_to_square(frame: pd.DataFrame, name: str) -> None:
    """They used to give a standard error of zero, or a covariate without any effect."""
    with pytest.raises(riesz.DataError, match=rf"Column `{name}` holds only numbers below 1e-100.*Rescale it"):
        riesz.ate(FORMULA, frame.assign(**{name: frame[name] * 1e-200}))


def test_expressions_too_small_or_too_large_to_square(frame: pd.DataFrame) -> None:
    for outcome in ("{y * 1e-200}", "{y * 1e200}"):
        with pytest.raises(riesz.DataError, match=r"The outcome .* Rescale it"):
            riesz.ate(f"{outcome} ~ treat(a) + x", frame)
    with pytest.raises(riesz.DataError, match=r"Treatment .* Rescale it"):
        riesz.ade("y ~ treat(x * 1e-200) + a", frame)


def test_products_too_large_to_square(frame: pd.DataFrame) -> None:
    data = frame.assign(u=frame["x"] * 1e90, v=(frame["w"] - 1) * 1e90)
    with pytest.raises(riesz.DataError, match=r"`u`, `v`, `u:v` in the design reaches .*Rescale the columns"):
        riesz.ate("y ~ treat(a) + u * v", data)
    with pytest.raises(riesz.EstimandError, match=r"columns reach .* at counterfactual rows"):
        riesz.shift("y ~ treat(x) + {treat(x) ** 2}", frame, delta=1e80)
    for factor in (1e-40, 1e40):
        sized = frame.assign(u=frame["x"] * factor, v=(frame["w"] - 1) * factor)
        with pytest.raises(riesz.DataError, match=r"^`u:v` in the design reaches"):
            riesz.ate("y ~ treat(a) + u * v", sized)
        riesz.ate("y ~ treat(a) + u + v", sized)


@pytest.mark.parametrize("factor", [2.0**-150, 2.0**150])
def test_covariates_of_unusual_size_count_like_others(frame: pd.DataFrame, factor: float) -> None:
    plain = riesz.ate(FORMULA, frame)
    scaled = riesz.ate(FORMULA, frame.assign(x=frame["x"] * factor))
    np.testing.assert_allclose(scaled.params, plain.params, rtol=1e-8)
    np.testing.assert_allclose(scaled.bse, plain.bse, rtol=1e-8)


def test_a_treatment_whose_spread_is_tiny_against_its_level() -> None:
    rng = np.random.default_rng(5)
    d, x = rng.normal(size=(2, 300))
    data = pd.DataFrame({"d": 1e6 + 1e-6 * d, "x": x, "y": d + x + rng.normal(size=300)})
    with pytest.raises(riesz.EstimandError, match=r"`d` varies little around a large number.*Subtract a constant"):
        riesz.ade("y ~ treat(d) + x", data)
    moved = data.assign(d=data["d"] - 1e6)
    assert abs(riesz.ade("y ~ treat(d) + x", moved).params["ADE"] * 1e-6 - 1) < 0.2


# columns called self


@pytest.mark.parametrize("role", ["treatment", "covariate", "factor", "outcome"])
def test_columns_called_self(frame: pd.DataFrame, tmp_path: Path, role: str) -> None:
    old = {"treatment": "a", "covariate": "x", "factor": "g", "outcome": "y"}[role]
    data = frame.assign(w=frame["w"].mask(gaps(200))).rename(columns={old: "self"})
    formula = FORMULA.replace("treat(a)", "treat(self)") if role == "treatment" else FORMULA.replace(old, "self", 1)
    if role == "factor":
        formula = "y ~ treat(a) + x + self"
    fit = riesz.ate(formula, data, weights="w")
    expected = riesz.ate(FORMULA, frame.assign(w=frame["w"].mask(gaps(200))), weights="w")
    np.testing.assert_allclose(fit.params, expected.params, rtol=1e-12)
    assert len(fit.predict(data)) == 200
    if role != "outcome":
        fit.blp("~ self")
    if role in ("treatment", "factor"):
        fit.by("self")
    fit.save(tmp_path / "fit")
    riesz.load(tmp_path / "fit").predict(data)


def test_derivatives_along_a_column_called_self(frame: pd.DataFrame) -> None:
    data = frame.rename(columns={"x": "self"})
    for verb, options in (("ade", {}), ("ipe", {"policy": "self > 0"}), ("shift", {"delta": 0.1})):
        fit = getattr(riesz, verb)("y ~ treat(self) + a", data, **options)
        plain = {key: value.replace("self", "x") if isinstance(value, str) else value for key, value in options.items()}
        expected = getattr(riesz, verb)("y ~ treat(x) + a", frame, **plain)
        np.testing.assert_allclose(fit.params, expected.params, rtol=1e-12)


# advice that can be followed


def test_advice_quotes_names_that_need_it(frame: pd.DataFrame) -> None:
    dated = frame.assign(**{"start date": pd.Timestamp("2020-01-01"), "an id": [f"k{i}" for i in range(200)]})
    for name in ("start date", "an id"):
        data = dated[["y", "a", "x", name]]
        with pytest.raises(riesz.DataError) as caught:
            riesz.ate("y ~ treat(a) + .", data)
        assert f"'. - `{name}`'" in str(caught.value)
        riesz.ate(f"y ~ treat(a) + . - `{name}`", data)
    wide = frame.rename(columns={"x": "my x"})
    with pytest.raises(riesz.DataError) as caught:
        riesz.ate("y ~ treat(a) + `my x`", wide).by("my x")
    assert "fit.blp('~ `my x`')" in str(caught.value)
    riesz.ate("y ~ treat(a) + `my x`", wide).blp("~ `my x`")
    with pytest.raises(riesz.EstimandError) as caught:
        riesz.mean("y ~ treat(`my x`) + a", wide, at=1)
    assert 'at="where(`my x` > c, `my x` - 1, `my x`)"' in str(caught.value)
