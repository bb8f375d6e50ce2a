"""Changes to the input that must not change the answer, or change it in a known way, for every verb.

Each test fits the same question twice: on a table, and on the same table in another form (rows shuffled, columns renamed, arms
relabelled, units changed, weights split, another kind of data frame). No reference numbers are needed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from questions import QUESTIONS, is_continuous, is_contrast, settings

import riesz

EXACT = 1e-9
NETWORK = riesz.MADNet(width=8, depth=1, head_width=4, networks=1, repeats=1, stages=(riesz.Stage(1e-2, 3, 3),))
OLS = riesz.Linear(penalty=0, rr_penalty=0)
LEARNERS = {"linear": riesz.Linear(), "ols": OLS, "network": NETWORK}

#: verb to its treatment's kind and its arguments, of every registered estimand
VERBS: dict[str, tuple[str, dict[str, Any]]] = {
    verb: ("continuous" if is_continuous(question) else "binary", settings(question))
    for verb, question in QUESTIONS.items()
}
CONTRASTS = [verb for verb in VERBS if is_contrast(QUESTIONS[verb])]
CONTINUOUS = [verb for verb in CONTRASTS if VERBS[verb][0] == "continuous"]


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    """180 rows with fold labels, weights and frequencies, for a treatment with two arms and for a continuous one."""
    rng = np.random.default_rng(11)
    n = 180
    x1, x2 = rng.normal(size=(2, n))
    g = rng.choice(["u", "v", "w"], n)
    shared = {
        "x1": x1,
        "x2": x2,
        "g": g,
        "w": rng.uniform(0.5, 2, n),
        "f": rng.integers(1, 4, n),
        "k": np.arange(n) % 3,
    }
    a = (rng.uniform(size=n) < 1 / (1 + np.exp(-0.7 * x1))).astype(float)
    d = 0.5 * x1 + rng.normal(size=n)
    noise = rng.normal(size=n)
    return {
        "binary": pd.DataFrame({"y": a * (1 + x1) + np.sin(x2) + (g == "v") + noise, "a": a, **shared}),
        "continuous": pd.DataFrame({"y": d + 0.2 * d**2 + np.sin(x2) + (g == "v") + noise, "a": d, **shared}),
    }


def ask(
    verb: str, data: Any, learner: str = "linear", formula: str = "y ~ treat(a) + x1 + x2 + g", **options: Any
) -> Any:
    settings = {"folds": "k", **VERBS[verb][1], **options}
    return getattr(riesz, verb)(formula, data, learner=LEARNERS[learner], **settings)


def same(first: Any, second: Any, tolerance: float = EXACT, sign: float = 1.0, unit: float = 1.0) -> None:
    """Estimates and errors agree within a share of the standard error."""
    errors = unit * first.bse.to_numpy()
    assert np.abs(sign * unit * first.params.to_numpy() - second.params.to_numpy()).max() <= tolerance * errors.min()
    assert np.abs(errors - second.bse.to_numpy()).max() <= tolerance * errors.min()


def for_table(tables: dict[str, pd.DataFrame], verb: str) -> pd.DataFrame:
    return tables[VERBS[verb][0]]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("learner", ["linear", "ols"])
def test_row_order(tables: dict[str, pd.DataFrame], verb: str, learner: str) -> None:
    data = for_table(tables, verb)
    shuffled = data.iloc[np.random.default_rng(1).permutation(len(data))]
    same(ask(verb, data, learner), ask(verb, shuffled, learner))


@pytest.mark.parametrize("verb", VERBS)
def test_column_order(tables: dict[str, pd.DataFrame], verb: str) -> None:
    data = for_table(tables, verb)
    formula = "y ~ treat(a) * . - w - f"
    same(ask(verb, data, formula=formula), ask(verb, data[data.columns[::-1]], formula=formula))


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("verb", VERBS)
def test_names(tables: dict[str, pd.DataFrame], verb: str, learner: str) -> None:
    """Unusual names that keep the columns' order change nothing; for networks the results are identical."""
    data = for_table(tables, verb)
    renamed = data.rename(columns={"y": "the outcome", "x2": "self", "g": "größe"})
    formula = "`the outcome` ~ treat(a) + x1 + self + größe"
    first, second = ask(verb, data, learner), ask(verb, renamed, learner, formula)
    assert first.params.equals(second.params)
    assert first.bse.equals(second.bse)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    "labels", [(False, True), ("control", "treated"), (3, 7), (1_000_001, 1_000_002), (-1.5, 0.25)], ids=str
)
def test_labels_of_arms(tables: dict[str, pd.DataFrame], labels: tuple[Any, Any], learner: str) -> None:
    """The labels of the arms do not matter, and swapping the arms changes the sign of the effect."""
    data = tables["binary"]
    named = data.assign(a=np.where(data["a"] == 1, labels[1], labels[0]))
    if (
        learner != "network"
    ):  # its treatment is a number for 0 and 1, and an indicator for labels: the same, but for rounding
        same(ask("ate", data, learner), ask("ate", named, learner))
    quoted = repr(labels[1])
    turned = ask("ate", named, learner, f"y ~ treat(a, reference={quoted}) + x1 + x2 + g")
    if learner == "ols":
        same(ask("ate", data, learner), turned, sign=-1.0)


def test_labels_of_factors(tables: dict[str, pd.DataFrame]) -> None:
    data = tables["binary"]
    renamed = data.assign(g=data["g"].map({"u": 10.5, "v": 11.0, "w": 1e7}).astype("category"))
    same(ask("ate", data), ask("ate", renamed))


@pytest.mark.parametrize("verb", CONTRASTS)
@pytest.mark.parametrize(("level", "unit"), [(5.0, 1.0), (0.0, 1e-6), (-3e4, 1e3), (0.0, -2.0)])
@pytest.mark.parametrize("learner", ["linear", "ols"])
def test_units_of_the_outcome(
    tables: dict[str, pd.DataFrame], verb: str, level: float, unit: float, learner: str
) -> None:
    data = for_table(tables, verb)
    changed = data.assign(y=level + unit * data["y"])
    same(ask(verb, data, learner), ask(verb, changed, learner), 1e-6, sign=np.sign(unit), unit=abs(unit))


@pytest.mark.parametrize("verb", CONTRASTS)
@pytest.mark.parametrize(("level", "unit"), [(1e4, 1.0), (0.0, 1e-5), (-40.0, 1e5)])
def test_units_of_a_covariate(tables: dict[str, pd.DataFrame], verb: str, level: float, unit: float) -> None:
    data = for_table(tables, verb)
    same(ask(verb, data), ask(verb, data.assign(x2=level + unit * data["x2"])), 1e-6)


@pytest.mark.parametrize("verb", CONTINUOUS)
@pytest.mark.parametrize("level", [10.0, 1e4, 1e6])
@pytest.mark.parametrize("formula", ["y ~ treat(a) + x1 + x2 + g", "y ~ treat(a) * (x1 + x2) + g"])
def test_zero_of_the_treatment(tables: dict[str, pd.DataFrame], verb: str, level: float, formula: str) -> None:
    data = tables["continuous"]
    same(ask(verb, data, formula=formula), ask(verb, data.assign(a=data["a"] + level), formula=formula), 1e-3)


@pytest.mark.parametrize("unit", [1e-6, 0.1, 1e6])
def test_units_of_the_treatment(tables: dict[str, pd.DataFrame], unit: float) -> None:
    """The slope is per unit: multiplying the treatment divides it."""
    data = tables["continuous"]
    first = ask("ade", data, formula="y ~ treat(a) * (x1 + x2) + g")
    second = ask("ade", data.assign(a=data["a"] * unit), formula="y ~ treat(a) * (x1 + x2) + g")
    same(first, second, 1e-6, unit=1 / unit)


@pytest.mark.parametrize("verb", VERBS)
def test_unique_clusters_are_robust_errors(tables: dict[str, pd.DataFrame], verb: str) -> None:
    data = for_table(tables, verb)
    same(ask(verb, data), ask(verb, data.assign(row=np.arange(len(data))), cluster="row"))


@pytest.mark.parametrize("verb", VERBS)
def test_split_weights(tables: dict[str, pd.DataFrame], verb: str) -> None:
    """A row of weight w is two rows of weights w/3 and 2w/3, as long as clusters mark them as one unit."""
    data = for_table(tables, verb).assign(row=lambda frame: np.arange(len(frame)))
    split = pd.concat([data.assign(w=data["w"] / 3), data.assign(w=data["w"] * 2 / 3)], ignore_index=True)
    whole = ask(verb, data, weights="w", cluster="row")
    same(whole, ask(verb, split, weights="w", cluster="row"))


@pytest.mark.parametrize("verb", VERBS)
def test_frequencies_are_duplicated_rows(tables: dict[str, pd.DataFrame], verb: str) -> None:
    """The same estimate and, robust, the same error; clusters mark the duplicates as one unit, so that none is left out alone."""
    data = for_table(tables, verb).assign(row=lambda frame: np.arange(len(frame)))
    counted = ask(verb, data, freq_weights="f")
    repeated = ask(verb, data.loc[data.index.repeat(data["f"])].reset_index(drop=True), cluster="row")
    assert counted.nobs == repeated.nobs == data["f"].sum()
    same(counted, repeated.with_cov())


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("verb", VERBS)
def test_files_and_pickle(tables: dict[str, pd.DataFrame], verb: str, learner: str, tmp_path: Path) -> None:
    fit = ask(verb, for_table(tables, verb), learner)
    fit.save(tmp_path / "fit.riesz")
    for again in (riesz.load(tmp_path / "fit.riesz"), pickle.loads(pickle.dumps(fit))):
        assert str(again.summary()) == str(fit.summary())
        assert again.params.equals(fit.params)
        pd.testing.assert_frame_equal(again.augment(), fit.augment())


CONVERSIONS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "polars": polars.from_pandas,
    "lazy polars": lambda frame: polars.from_pandas(frame).lazy(),
    "polars, categorical": lambda frame: polars.from_pandas(frame).with_columns(
        polars.col("g").cast(polars.Categorical)
    ),
    "pyarrow": lambda frame: pyarrow.Table.from_pandas(frame, preserve_index=False),
    "pyarrow, dictionary": lambda frame: _with_dictionary(frame),
    "pandas, arrow types": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "pandas, nullable types": lambda frame: frame.convert_dtypes(),
    "pandas, categorical": lambda frame: frame.astype({"g": "category"}),
}


def _with_dictionary(frame: pd.DataFrame) -> Any:
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    at = table.schema.get_field_index("g")
    return table.set_column(at, "g", table.column("g").dictionary_encode())


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", CONVERSIONS)
def test_kinds_of_data_frame(tables: dict[str, pd.DataFrame], verb: str, kind: str) -> None:
    """With missing values among numbers and labels, which every library writes in its own way."""
    data = for_table(tables, verb).copy()
    data.loc[[3, 50], "x1"] = np.nan
    data.loc[[7, 50, 99], "g"] = None
    first, second = ask(verb, data), ask(verb, CONVERSIONS[kind](data))
    assert first.nobs == second.nobs == len(data) - 4
    same(first, second)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("verb", VERBS)
def test_jobs(tables: dict[str, pd.DataFrame], verb: str, learner: str) -> None:
    data = for_table(tables, verb)
    first, second = (ask(verb, data, learner, n_jobs=jobs) for jobs in (1, 2))
    assert first.params.equals(second.params)
    assert first.bse.equals(second.bse)
