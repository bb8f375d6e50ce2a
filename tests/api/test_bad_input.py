"""Wrong input is refused before any fit, with what was got, what is expected and what to do; unusual valid input works."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import riesz
from riesz.design.design import Design
from riesz.learners import Fit, Learner
from riesz.learners.base import Watch

N = 120
ATE = "y ~ treat(a) + x1 + x2"
ADE = "y ~ treat(d) + x1 + x2"
ARMS = "y ~ treat(g) + x1"


@dataclass(frozen=True)
class NeverFit(Learner):
    """A learner that must not be reached."""

    def check(self, design: Design, rows: int) -> None:
        pass

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        raise AssertionError("bad input reached the learner")

    def remarks(self, design: Design, details: pd.DataFrame) -> list[str]:
        return []

    def describe(self, family: str) -> str:
        return "never"


def make_frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x1, x2 = rng.normal(size=(2, N))
    a = (np.arange(N) + (x1 > 1)) % 2
    d = 0.5 * x1 + rng.normal(size=N)
    y = a + x1 + 0.3 * d + rng.normal(size=N)
    columns = {"y": y, "a": a, "d": d, "x1": x1, "x2": x2, "g": rng.choice(["u", "v", "w"], N)}
    return pd.DataFrame({**columns, "w": rng.uniform(0.5, 2.0, N), "village": np.arange(N) // 6})


FRAME = make_frame()
GAPS = np.arange(N) % 17 == 0
LONG = np.linspace(0.0, 1.0, N)  # in the scope where formulas look up names


def refused(error: type[riesz.RieszError], words: str | Sequence[str], verb: Any, *args: Any, **options: Any) -> None:
    """The call raises this error with all these words in its message, before any fit."""
    options.setdefault("learner", NeverFit())
    with pytest.raises(error) as caught:
        verb(*args, **options)
    message = str(caught.value)
    for fragment in [words] if isinstance(words, str) else words:
        assert fragment in message
    assert caught.type is error
    assert isinstance(caught.value, ValueError)
    assert "\x1b" not in message
    assert re.search(r"[.?]$", message.strip())


def reached(verb: Any, *args: Any, **options: Any) -> None:
    """The call passes every check and gets to the learner."""
    with pytest.raises(AssertionError, match="reached the learner"):
        verb(*args, learner=NeverFit(), **options)


def healthy(fit: riesz.Results) -> riesz.Results:
    """Finite estimates and positive standard errors, and a summary that prints."""
    assert np.isfinite(fit.params).all()
    assert (fit.bse > 0).all()
    assert fit.params.index[0] in str(fit.summary())
    return fit


class TestFormula:
    @pytest.mark.parametrize(
        ("formula", "words"),
        [
            ("y ~ a + x1", ["marks no treatment", "treat()", "'y ~ treat(a) + x1 + x2'"]),
            ("y ~ treat + x1", "marks no treatment"),
            ("y ~ treat(a) + treat(d)", ["marks 2 treatments: `a`, `d`", "let the others enter as covariates"]),
            ("y ~ treat(a, d)", ["treat(a, d) cannot be read", "treat(column, reference=level)"]),
            ("y ~ treat() + x1", "expected treat(column)"),
            ("y ~ treat(a, base=0)", "expected treat(column) or treat(column, reference=level)"),
            ("treat(a) ~ x1", ["treat() on the left of ~", "where the outcome is expected"]),
            ("y ~ treat(villages) + x1", ["Treatment `villages` is not a column", "Did you mean `village`?"]),
            ("y ~ treat('a') + x1", "names no column of the data"),
            ("y ~ treat(a) + vilage", ["`vilage`", "is not a column", "Did you mean `village`?"]),
            ("y ~ treat(a) + log(vilage)", ["`vilage`", "neither a column of the data nor a variable", "`village`?"]),
            ("yy ~ treat(a) + x1", ["`yy`", "Did you mean `y`?"]),
            ("1 ~ treat(a)", ["names no column", "expected the outcome"]),
            ("y ~ treat(a) + sclae(x1)", ["sclae() in", "is not a known function", "Did you mean `scale`?"]),
            ("y ~ treat(g, reference=u) + x1", ["reference=u is not a plain value", "reference='u'"]),
            ("y ~ treat(g, reference='u') + treat(g, reference='v'):x1", ["several references: `u`, `v`", "Give one"]),
            ("y ~ treat(a) - a + x1", ["removes the treatment `a`", "Keep it"]),
            ("y ~ treat(d + x1) + x1", ["`x1` is inside treat(d + x1)", "Remove it from the covariates"]),
            ("y ~ treat(a) + x1 | x2", ["several parts", "without `|`"]),
        ],
    )
    def test_marks_and_names(self, formula: str, words: str | list[str]) -> None:
        refused(riesz.FormulaError, words, riesz.ate, formula, FRAME)

    @pytest.mark.parametrize(
        "formula",
        [
            "y ~ treat(a) + y",
            "y ~ treat(a) + y:x1",
            "y ~ treat(a) + log(y)",
            "log(y) ~ treat(a) + y",
            "scale(y) ~ treat(a) + bs(y, df=4)",
            "y ~ treat(y) + x1",
            "y ~ treat(y > x1) + x2",
        ],
    )
    def test_outcome_on_the_right(self, formula: str) -> None:
        words = ["the outcome `y` is also on the right-hand side", "Remove it there"]
        refused(riesz.FormulaError, words, riesz.ate, formula, FRAME)

    @pytest.mark.parametrize("left", ["y", "scale(y)", "`y`", "{y * 2}", "I(y * 2)", "np.exp(y)"])
    @pytest.mark.parametrize("right", ["treat(a) + .", "treat(a) * .", ". + treat(a)"])
    def test_dot_does_not_leak_the_outcome(self, left: str, right: str) -> None:
        fit = riesz.ate(f"{left} ~ {right}", FRAME[["y", "a", "x1", "g"]], learner=riesz.Linear())
        assert set(fit.model.column_names) <= {
            *("Intercept", "a", "x1", "g[T.v]", "g[T.w]", "a:x1", "a:g[T.v]", "a:g[T.w]")
        }
        assert {"Intercept", "a", "x1", "g[T.v]", "g[T.w]"} <= set(fit.model.column_names)

    @pytest.mark.parametrize(
        ("formula", "words"),
        [
            ("y ~ treat(a) + (x1", "there is an unmatched parenthesis"),
            ("y ~ treat(a) + x1)", "there is an unmatched parenthesis"),
            ("y ~ treat(a", "a closing ) is missing"),
            ("y ~ treat(a) + `x1", "a closing ` is missing"),
            ("y ~ treat(a) + {x1", "a closing } is missing"),
            ("y ~ treat(a) + 'x1", "a closing ' is missing"),
            ("y ~ treat(a) +", "an operand of `+` is missing"),
            ("y ~ treat(a) * * x1", "cannot be read"),
            ("y ~ treat(a) + I(x1 **)", "invalid syntax in 'I(x1 **)'"),
            ("y ~ treat(a) + I(x1 x2)", "in 'I(x1 x2)'"),
            ("y ~ treat(a +) + x1", "in 'treat(a +)'"),
            ("y ~ treat(a) = x1", "Unknown operator '='"),
            ("y ~ treat(a) + 3", "cannot be read"),
            (
                "y treat(a) + x1",
                ["has 0 ~ signs", "expected one, between the outcome and the treatment and covariates"],
            ),
            ("y ~ treat(a) ~ x1", "has 2 ~ signs"),
            ("", "has 0 ~ signs"),
            ("~ treat(a)", "has nothing on the left of ~"),
            ("y ~", "has nothing on the right of ~"),
            (None, ["The formula must be a string", "got NoneType"]),
        ],
    )
    def test_syntax(self, formula: Any, words: str | list[str]) -> None:
        refused(riesz.FormulaError, words, riesz.ate, formula, FRAME)

    @pytest.mark.parametrize(
        ("formula", "words"),
        [
            ("y ~ treat(a) + log(g)", ["columns cannot be computed", "`log(g)`", "Change that part"]),
            ("y ~ treat(a) + bs(x1, df=-1)", ["columns cannot be computed", "`df` must be greater than"]),
            ("y ~ treat(a) + x1.nothing()", ["columns cannot be computed", "no attribute 'nothing'"]),
            ("y ~ treat(a) + np.nothing(x1)", ["columns cannot be computed", "no attribute 'nothing'"]),
        ],
    )
    def test_columns_that_cannot_be_computed(self, formula: str, words: list[str]) -> None:
        refused(riesz.FormulaError, words, riesz.ate, formula, FRAME)

    @pytest.mark.parametrize("right", ["log(x1)", "np.log(x1)", "I(1 / a)", "np.sqrt(x1)"])
    def test_columns_that_are_not_finite(self, right: str) -> None:
        words = ["is not finite on", "the logarithm of zero, a division by zero?", "drop those rows"]
        refused(riesz.DataError, words, riesz.ate, f"y ~ treat(a) + {right}", FRAME)

    def test_outcome_or_treatment_that_is_not_finite(self) -> None:
        refused(riesz.DataError, ["The outcome 'log(y)' is not finite on"], riesz.ate, "log(y) ~ treat(a)", FRAME)
        refused(riesz.DataError, ["The treatment 'log(d)' is not finite"], riesz.ade, "y ~ treat(log(d))", FRAME)
        refused(
            riesz.DataError,
            ["outcome 'poly(y, 2)'", "2 columns; expected one"],
            riesz.ate,
            "poly(y, 2) ~ treat(a)",
            FRAME,
        )

    @pytest.mark.parametrize(
        "value", [LONG, LONG.tolist(), pd.Series(LONG), LONG[:, None]], ids=["1d", "list", "Series", "2d"]
    )
    def test_array_from_the_scope_in_place_of_a_column(self, value: Any) -> None:
        words = ["`other`", "is not a column of the data, but an array in the caller's scope", "Add it to the data"]
        refused(riesz.FormulaError, words, riesz.ate, "y ~ treat(a) + I(x1 + other)", FRAME, context={"other": value})

    def test_array_in_the_scope_of_the_caller(self) -> None:
        refused(
            riesz.FormulaError,
            ["`LONG`", "an array in the caller's scope"],
            riesz.ate,
            "y ~ treat(a) + scale(LONG)",
            FRAME,
        )

    def test_few_numbers_from_the_scope_are_fine(self) -> None:
        reached(
            riesz.ate,
            "y ~ treat(a) + bs(x1, knots=few) + I(x2 * half)",
            FRAME,
            context={"few": [0.0], "half": np.array(0.5)},
        )

    def test_context_is_a_mapping(self) -> None:
        refused(riesz.FormulaError, ["context is a int", "expected a mapping"], riesz.ate, ATE, FRAME, context=3)

    def test_dot_that_stands_for_nothing(self) -> None:
        words = ["`.` stands for no column", "leaves out the outcome, treatment, weights and clusters"]
        refused(riesz.FormulaError, words, riesz.ate, "y ~ treat(a) + .", FRAME[["y", "a", "w"]], weights="w")


class TestTreatment:
    @pytest.mark.parametrize("verb", [riesz.ate, riesz.att, riesz.atc])
    def test_arms_are_not_a_number(self, verb: Any) -> None:
        words = [
            "Treatment `d` has 120 distinct values",
            f"`{verb.__name__}` needs two",
            "`riesz.ade`",
            "`riesz.shift`",
        ]
        refused(riesz.EstimandError, words, verb, ADE, FRAME)

    @pytest.mark.parametrize(
        ("verb", "options"), [(riesz.ade, {}), (riesz.ipe, {"policy": "x1 > 0"}), (riesz.shift, {"delta": 0.1})]
    )
    class TestNumberWanted:
        def test_of_two_arms(self, verb: Any, options: dict[str, Any]) -> None:
            words = ["Treatment `a` is binary (0, 1)", f"`{verb.__name__}` needs a continuous", "Use `riesz.ate`"]
            refused(riesz.EstimandError, words, verb, ATE, FRAME, **options)

        def test_of_labels(self, verb: Any, options: dict[str, Any]) -> None:
            words = ["Treatment `g` holds labels (`u`, `v`, `w`)", "needs a continuous number", "`riesz.ate`"]
            refused(riesz.EstimandError, words, verb, ARMS, FRAME, **options)

        def test_of_few_values(self, verb: Any, options: dict[str, Any]) -> None:
            words = ["Treatment `d` has only 9 distinct values", "at least 10", "`riesz.ate`"]
            refused(riesz.EstimandError, words, verb, ADE, FRAME.assign(d=np.arange(N) % 9), **options)

        def test_of_tied_values(self, verb: Any, options: dict[str, Any]) -> None:
            tied = FRAME.assign(d=np.where(np.arange(N) < 80, np.arange(N) % 3, FRAME["d"]))
            with pytest.warns(
                riesz.RieszWarning, match=r"Treatment `d` is heavily tied: its 5 commonest values account for 68%"
            ):
                reached(verb, ADE, tied, **options)

        def test_of_a_reference(self, verb: Any, options: dict[str, Any]) -> None:
            words = ["reference=0", "names an arm", "needs `d` to be a number"]
            refused(riesz.EstimandError, words, verb, "y ~ treat(d, reference=0)", FRAME, **options)

    @pytest.mark.parametrize(("verb", "formula"), [(riesz.ate, ATE), (riesz.ade, ADE)])
    def test_constant(self, verb: Any, formula: str) -> None:
        words = ["is constant: every row used has the value 1", "at least two values", "check the filter"]
        refused(riesz.EstimandError, words, verb, formula, FRAME.assign(a=1, d=1.0))

    def test_constant_once_missing_rows_are_gone(self) -> None:
        refused(riesz.EstimandError, "is constant", riesz.ate, ATE, FRAME.assign(x1=FRAME["x1"].where(FRAME["a"] == 0)))

    @pytest.mark.parametrize(
        ("formula", "words"),
        [
            ("y ~ treat(g, reference='z') + x1", ["reference='z'", "`g` does not have this level", "`u`, `v`, `w`"]),
            (
                "y ~ treat(a, reference=7) + x1",
                ["reference=7", "`a` does not have this level", "Its levels are `0`, `1`"],
            ),
        ],
    )
    def test_reference_never_seen(self, formula: str, words: list[str]) -> None:
        refused(riesz.EstimandError, words, riesz.ate, formula, FRAME)

    @pytest.mark.parametrize(
        ("formula", "at", "words"),
        [
            (ATE, 2, ["at=2", "`a` does not have this level", "Its levels are `0`, `1`"]),
            (ATE, "a + 1", ["at moves `a` to `2`", "a level that is not in the data", "Its levels are `0`, `1`"]),
            (ATE, np.nan, "does not have this level"),
            (ATE, None, "at is missing or infinite on 120 rows"),
            (ATE, [], ["at is an empty list", "expected at least one"]),
            (ARMS, "z", ["at='z'", "`g` does not have this level", "`u`, `v`, `w`"]),
            (ARMS, "where(x1 > 0, 'u', 'v')", ["needs a number", "`g` holds labels", "Give a level"]),
            (ADE, 1.0, ["at=1 fixes the continuous treatment `d`", "no Riesz representer", "`riesz.shift`"]),
            (ADE, [0.5, 1.0], "at=0.5 fixes the continuous treatment `d`"),
            (ADE, np.float32(1), "at=1 fixes the continuous treatment `d`"),
            (ADE, "1.0", "at=1 fixes the continuous treatment `d`"),
            (ADE, lambda frame: 1.0, "at=1 fixes the continuous treatment `d`"),
        ],
    )
    def test_levels_of_mean(self, formula: str, at: Any, words: str | list[str]) -> None:
        refused(riesz.EstimandError, words, riesz.mean, formula, FRAME, at)

    def test_a_policy_that_piles_rows_up(self) -> None:
        match = r"moves \d+% of the rows to d=1 \(0.0% have this value.*no Riesz representer.*shifts the treatment"
        with pytest.warns(riesz.RieszWarning, match=match):
            reached(riesz.mean, ADE, FRAME, at="minimum(d, 1.0)")

    def test_an_arm_with_fewer_rows_than_folds(self) -> None:
        rare = FRAME.assign(a=(np.arange(N) < 3).astype(int))
        words = ["Arm a=1 has 3 rows, fewer than folds=5", "Use fewer folds, merge arms, or drop this one"]
        refused(riesz.DataError, words, riesz.ate, ATE, rare)
        words = ["training rows of split 1 have no row with a=0", "Use fewer folds"]
        refused(riesz.DataError, words, riesz.ate, ATE, rare, folds=rare["a"])

    @pytest.mark.parametrize(
        ("delta", "words"),
        [
            (0, ["delta=0 moves no row", "expected a non-zero shift"]),
            ([0.1, 0], "delta=0 moves no row"),
            ([], ["delta is an empty list", "at least one number"]),
            (np.nan, "delta is missing or infinite on 120 rows"),
            ("vilage / 10", ["delta 'vilage / 10' uses `vilage`", "Did you mean `village`?"]),
            ([0.1, 0.1], ["Two estimands are called 'shift_0.1'", "Leave one out"]),
        ],
    )
    def test_delta(self, delta: Any, words: str | list[str]) -> None:
        refused(riesz.EstimandError, words, riesz.shift, ADE, FRAME, delta)

    @pytest.mark.parametrize(
        ("verb", "options"), [(riesz.shift, {"delta": 0.5}), (riesz.mean, {"at": "where(x1 > 0, d + 1, d)"})]
    )
    def test_out_of_a_splines_range(self, verb: Any, options: dict[str, Any]) -> None:
        words = [
            "counterfactual rows have `d` outside the range of the data [",
            "bs()",
            "Use cr() or cs()",
            "smaller shift",
        ]
        refused(riesz.EstimandError, words, verb, "y ~ bs(treat(d), df=5) + x1", FRAME, **options)
        reached(verb, "y ~ cr(treat(d), df=5) + x1", FRAME, **options)

    def test_out_of_a_logarithms_range(self) -> None:
        words = ["is not finite at", "counterfactual rows", "Use a smaller shift"]
        refused(riesz.EstimandError, words, riesz.shift, "y ~ log(treat(w)) + x1", FRAME, -1.0)


class TestPolicy:
    @pytest.mark.parametrize(
        ("verb", "formula", "policy", "words"),
        [
            (riesz.ape, ATE, "x1", ["policy ranges from -", "in [0, 1]", "`riesz.ipe`"]),
            (riesz.ape, ATE, -0.5, "policy ranges from -0.5 to -0.5"),
            (riesz.ipe, ADE, "2 * x1", ["policy ranges from -", "in [-1, 1]", "Divide it by its largest"]),
            (riesz.ipe, ADE, 0, ["policy is zero on every row", "expected a policy that is not zero on some rows"]),
            (riesz.ape, ARMS, 0.5, ["`g` has 3 arms", "`ape` needs two", "`riesz.mean`"]),
        ],
    )
    def test_range(self, verb: Any, formula: str, policy: Any, words: str | list[str]) -> None:
        refused(riesz.EstimandError, words, verb, formula, FRAME, policy)

    @pytest.mark.parametrize(("verb", "formula"), [(riesz.ape, ATE), (riesz.ipe, ADE)])
    @pytest.mark.parametrize(
        ("policy", "words"),
        [
            (np.ones(5), ["policy has the wrong length: shape (5,)", "expected 120 values"]),
            (np.ones((N, 1)), "policy has the wrong length: shape (120, 1)"),
            (np.where(GAPS, np.nan, 0.5), ["policy is missing or infinite on 8 rows", "expected a finite number"]),
            ("vilage > 3", ["policy 'vilage > 3' uses `vilage`", "not a column", "Did you mean `village`?"]),
            ("x1 >", ["policy 'x1 >' cannot be read", "such as 'age > 40'"]),
            ("(x1 > 0", ["cannot be read", "'(' was never closed"]),
            ("x1 = 2", "cannot be read"),
            ("", "cannot be read"),
            ("x1 > 0 and x2 > 0", ["cannot be computed", "Write & and | for `and` and `or`"]),
            ("g > 1", ["cannot be computed", "compares numbers with strings"]),
            ("x1.nothing()", ["'x1.nothing()' cannot be computed", "Compute it beforehand", "a function of the frame"]),
            ("log(x1)", "policy is missing or infinite on"),
            ("1 / (village // 100)", "policy is missing or infinite on 120 rows"),
            ("LONG[:5]", ["'LONG[:5]' cannot be computed", "Compute it as a column first"]),
            (FRAME["g"], ["policy gave values that are not numbers", "expected one number per row"]),
            (lambda frame: frame["nothing"], "policy failed: KeyError: 'nothing'"),
            (lambda frame: frame["g"], "policy gave values that are not numbers"),
            (None, "policy is missing or infinite"),
            ({"x1": 1}, "policy gave values that are not numbers (dict)"),
        ],
    )
    def test_values(self, verb: Any, formula: str, policy: Any, words: str | list[str]) -> None:
        refused(riesz.EstimandError, words, verb, formula, FRAME, policy)

    def test_a_policy_may_not_change_the_data(self) -> None:
        def greedy(frame: pd.DataFrame) -> Any:
            frame["x1"] = 0.5
            return frame["x1"]

        half = riesz.ape(ATE, FRAME, 0.5)
        np.testing.assert_array_equal(riesz.ape(ATE, FRAME, greedy).params, half.params)


class TestData:
    @pytest.mark.parametrize(
        "data",
        [FRAME.to_numpy(), FRAME.to_dict(), FRAME["y"], "data", None, [1, 2]],
        ids=lambda d: type(d).__name__,
    )
    def test_not_a_table(self, data: Any) -> None:
        words = [f"data is a {type(data).__name__}", "expected a pandas, polars or pyarrow table", "pandas.DataFrame({"]
        refused(riesz.DataError, words, riesz.ate, ATE, data)

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (FRAME.head(0), ["The data are empty (0 rows, 8 columns)", "Check the filter"]),
            (FRAME[[]], "(120 rows, 0 columns)"),
            (pd.DataFrame(), "(0 rows, 0 columns)"),
            (pl.DataFrame(), "(0 rows, 0 columns)"),
            (pa.table({"y": pa.array([], pa.float64())}), "(0 rows, 1 columns)"),
            (pd.concat([FRAME, FRAME[["x1"]]], axis=1), ["duplicate column names: `x1`", "Rename or drop"]),
            (FRAME.rename(columns={"w": 3}), ["Column names must be text; got `3`", "Rename them"]),
            (FRAME.assign(x1=np.nan), ["Every row has a missing value", "`x1` (120) of 120", "Leave the emptiest"]),
            (FRAME.assign(x1=None), "Every row has a missing value"),
            (
                FRAME.assign(x1=FRAME["x1"].mask(GAPS, np.inf)),
                ["Column `x1` has 8 infinite values", "Set them to missing"],
            ),
            (FRAME.assign(y=FRAME["y"].mask(GAPS, -np.inf)), "Column `y` has 8 infinite values"),
            (FRAME.assign(x1=FRAME["x1"] * 1e200), "Column `x1` has 120 infinite values (or beyond 1e+100)"),
            (FRAME.assign(y=1), ["The outcome `y` is constant (1 on every row used)", "no effect can be estimated"]),
        ],
    )
    def test_contents(self, data: Any, words: str | list[str]) -> None:
        refused(riesz.DataError, words, riesz.ate, ATE, data)

    def test_missing_values_that_may_not_be_dropped(self) -> None:
        words = ["Missing values in `x1` (8)", "na_action='raise'", "use na_action='drop'"]
        gaps = FRAME.assign(x1=FRAME["x1"].mask(GAPS))
        refused(riesz.DataError, words, riesz.ate, ATE, gaps, na_action="raise")
        reached(riesz.ate, "y ~ treat(a) + x2", gaps, na_action="raise")  # only columns in use matter

    @pytest.mark.parametrize("n", [N, 40])
    def test_identifier_swept_in_by_the_dot(self, n: int) -> None:
        data = FRAME.head(n).assign(id=[f"p{i}" for i in range(n)])
        words = [f"Column `id` has {n} distinct labels in {n} rows", "like an identifier", "`. - id`"]
        refused(riesz.DataError, words, riesz.ate, "y ~ treat(a) + .", data)
        reached(riesz.ate, "y ~ treat(a) + . - id", data)

    @pytest.mark.parametrize(
        "values",
        [
            pd.date_range("2020", periods=N),
            pd.date_range("2020", periods=N, tz="UTC"),
            pd.period_range("2020", periods=N, freq="M"),
            pd.to_timedelta(np.arange(N) % 5, unit="D"),
            [datetime.date(2020, 1, 1 + i % 5) for i in range(N)],
            [[1, 2]] * N,
            np.ones(N) * 1j,
        ],
        ids=["datetime", "zone", "period", "timedelta", "date", "list", "complex"],
    )
    def test_what_is_neither_number_nor_label(self, values: Any) -> None:
        data = FRAME.assign(when=values)
        words = ["Column `when` is ", "expected numbers, booleans or labels", "`. - when`"]
        refused(riesz.DataError, words, riesz.ate, "y ~ treat(a) + .", data)
        refused(riesz.DataError, words[:2], riesz.ate, "when ~ treat(a)", data)
        reached(riesz.ate, "y ~ treat(a) + . - when", data)

    def test_dates_of_other_libraries(self) -> None:
        day = [datetime.date(2020, 1, 1 + i % 5) for i in range(N)]
        for table in (pl.from_pandas(FRAME).with_columns(q=pl.Series(day)), pa.Table.from_pandas(FRAME.assign(q=day))):
            refused(riesz.DataError, ["Column `q` is ", "`. - q`"], riesz.ate, "y ~ treat(a) + .", table)

    @pytest.mark.parametrize("family", ["gaussian", "binomial"])
    def test_outcome_of_labels(self, family: Any) -> None:
        words = ["The outcome `g` holds labels (3 of them)", "it must be numeric", "family='binomial'"]
        refused(riesz.DataError, words, riesz.ate, "g ~ treat(a) + x1", FRAME, family=family)

    def test_outcome_of_two_labels(self) -> None:
        data = FRAME.assign(y=np.where(FRAME["y"] > 0, "yes", "no"))
        refused(riesz.DataError, "holds labels (2 of them)", riesz.ate, ATE, data)
        reached(riesz.ate, ATE, data, family="binomial")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"family": "binomial"}, ["The outcome `y` ranges from -", "family='binomial' expects values in [0, 1]"]),
            ({"bounds": (0, 1)}, ["The outcome `y` ranges from -", "bounds=(0, 1) were given"]),
            ({"bounds": (1, 0)}, ["bounds=(1, 0)", "expected two finite numbers, the smaller first"]),
            ({"bounds": (0, 0)}, "the smaller first"),
            ({"bounds": (0, np.inf)}, "expected two finite numbers"),
            ({"bounds": (0, np.nan)}, "expected two finite numbers"),
            ({"bounds": (0, 1, 2)}, "expected two finite numbers"),
            ({"bounds": 3}, "expected two finite numbers"),
            ({"bounds": ("0", "1")}, "expected two finite numbers"),
        ],
    )
    def test_limits_of_the_outcome(self, options: dict[str, Any], words: str | list[str]) -> None:
        refused(riesz.DataError, words, riesz.ate, ATE, FRAME, **options)


class TestWeightsAndClusters:
    @pytest.mark.parametrize("name", ["weights", "freq_weights"])
    @pytest.mark.parametrize(
        ("values", "words"),
        [
            (-FRAME["w"], ["are negative on 120 rows", "expected numbers, 0 or larger"]),
            (np.zeros(N), ["are zero on every row", "expected at least two positive numbers"]),
            (np.arange(N) == 3, "or on all but one"),
            (np.ones(5), ["has the wrong length: shape (5,)", "each of the 120 rows", "or a column's name"]),
            (np.ones((N, 2)), "has the wrong length: shape (120, 2)"),
            (1.0, "has the wrong length: shape ()"),
            ("ww", ["='ww' is not a column of the data", "Did you mean `w`?"]),
            ("g", "must be numbers, one per row"),
            (np.where(GAPS, np.inf, 1.0), ["have infinite values", "expected finite numbers"]),
            (np.full(N, np.nan), "Every row has a missing value"),
        ],
    )
    def test_weights(self, name: str, values: Any, words: str | list[str]) -> None:
        named = [words] if isinstance(words, str) else words
        refused(riesz.DataError, [name, *named], riesz.ate, ATE, FRAME, **{name: values})

    @pytest.mark.parametrize("values", ["w", FRAME["w"]], ids=["column", "array"])
    def test_frequencies_are_whole(self, values: Any) -> None:
        words = ["freq_weights count rows", "must be whole numbers", "For survey weights use weights="]
        refused(riesz.DataError, words, riesz.ate, ATE, FRAME, freq_weights=values)

    def test_weights_that_leave_no_arm_or_no_outcome(self) -> None:
        """Rows of weight zero are not in the sample."""
        words = ["Treatment `a` is constant", "every row used has the value 0"]
        refused(riesz.EstimandError, words, riesz.ate, ATE, FRAME, weights=1 - FRAME["a"])
        flat = FRAME.assign(y=FRAME["y"].where(FRAME["x1"] > 0, 0.0))
        refused(riesz.DataError, "is constant (0", riesz.ate, ATE, flat, weights=FRAME["x1"] <= 0)
        first_rows = (np.arange(N) < 60).astype(int)
        refused(
            riesz.DataError, "folds has a single label", riesz.ade, ADE, FRAME, weights=first_rows, folds=first_rows
        )

    @pytest.mark.parametrize(
        ("cluster", "words"),
        [
            (np.ones(5), ["cluster has the wrong length: shape (5,)", "each of the 120 rows"]),
            ([1, 2, 3, 4, 5], "cluster has the wrong length: shape (5,)"),
            (3, "cluster has the wrong length: shape ()"),
            ("vilage", ["cluster='vilage' is not a column", "Did you mean `village`?"]),
            (["village", "gg"], ["cluster='gg' is not a column", "Did you mean `g`?"]),
            (["village", "g", "a"], ["cluster names 3 ways to cluster", "expected one or two"]),
            (["village", "g", "typo"], "cluster names 3 ways to cluster"),
            ([FRAME["village"], FRAME["g"], FRAME["a"]], "cluster names 3 ways to cluster"),
            (FRAME[["village", "g", "a"]], "cluster names 3 ways to cluster"),
            (np.ones((N, 3)), "cluster names 3 ways to cluster"),
            ([], "cluster names 0 ways to cluster"),
            (["village", "village"], ["called 'village'", "expected two different ones"]),
            (np.ones(N), ["has a single value", "at least two clusters"]),
            ("g", ["folds=5, but cluster `g` has only 3 clusters", "Use fewer folds"]),
        ],
    )
    def test_clusters(self, cluster: Any, words: str | list[str]) -> None:
        refused(riesz.DataError, words, riesz.ate, ATE, FRAME, cluster=cluster)

    def test_cluster_columns(self) -> None:
        words = ["cluster `one` has a single value", "at least two clusters"]
        refused(riesz.DataError, words, riesz.ate, ATE, FRAME.assign(one=1), cluster="one")
        words = ["cluster `q` holds object values", "must be text or numbers"]
        refused(riesz.DataError, words, riesz.ate, ATE, FRAME.assign(q=[[1]] * N), cluster="q")

    def test_clusters_that_hold_an_arm_each(self) -> None:
        words = ["training rows of split 1 have no row with a=", "Use fewer folds"]
        refused(riesz.DataError, words, riesz.ate, ATE, FRAME.assign(q=FRAME["a"]), cluster="q", folds=2)


class TestSettings:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"learner": "liner"}, ["learner='liner' is not known", "Did you mean `linear`?", "riesz.Linear(...)"]),
            ({"learner": riesz.Linear}, "learner=Linear is a class; expected a learner: write riesz.Linear()."),
            ({"learner": 3}, "learner=3 is not known"),
            ({"estimator": "aipw"}, ["estimator='aipw' is not known", "Expected one of 'direct', 'ipw', 'dr', 'tmle'"]),
            ({"estimator": ["dr"]}, "estimator=['dr'] is not known"),
            ({"family": "binomal"}, ["family='binomal'", "Did you mean `binomial`?", "'gaussian', 'binomial'"]),
            ({"target": "sampel"}, ["target='sampel'", "Did you mean `sample`?", "'population', 'sample'"]),
            ({"na_action": "omit"}, ["na_action='omit'", "'drop', 'raise'"]),
            ({"folds": 0}, ["folds=0", "expected a whole number", "or fold labels"]),
            ({"folds": 2.5}, "folds=2.5: expected a whole number"),
            ({"folds": -1}, "folds=-1: expected a whole number"),
            ({"folds": None}, "folds=None: expected a whole number"),
            ({"folds": True}, "folds=True: expected a whole number"),
            ({"folds": np.nan}, "folds=nan: expected a whole number"),
            ({"folds": np.inf}, "folds=inf: expected a whole number"),
            ({"repeats": 0}, "repeats=0: expected a whole number, 1 or larger"),
            ({"repeats": 1.5}, "repeats=1.5: expected a whole number"),
            ({"n_jobs": -1}, "n_jobs=-1: expected a whole number, 1 or larger"),
            ({"seed": -1}, "seed=-1: expected a whole number, 0 or larger"),
            ({"seed": None}, "seed=None: expected a whole number"),
            ({"seed": 1.5}, "seed=1.5: expected a whole number"),
        ],
    )
    def test_keywords(self, options: dict[str, Any], words: str | list[str]) -> None:
        refused(riesz.LearnerError, words, riesz.ate, ATE, FRAME, **options)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"folds": 121}, ["folds=121, but only 120 rows are in use", "Use fewer folds"]),
            ({"folds": np.arange(5)}, ["folds has the wrong length: shape (5,)", "each of the 120 rows"]),
            ({"folds": "fold"}, "folds='fold' is not a column of the data"),
            ({"folds": np.zeros(N)}, ["folds has a single label", "folds=1 for no sample splitting"]),
            (
                {"folds": np.arange(N) % 2, "repeats": 2},
                ["folds gives labels and repeats is larger than 1", "Use repeats=1"],
            ),
        ],
    )
    def test_folds(self, options: dict[str, Any], words: str | list[str]) -> None:
        refused(riesz.DataError, words, riesz.ate, ATE, FRAME, **options)

    @pytest.mark.parametrize("name", ["penalty", "rr_penalty"])
    def test_more_columns_than_rows_without_a_penalty(self, name: str) -> None:
        wide = pd.DataFrame(np.random.default_rng(1).normal(size=(40, 60))).rename(columns=lambda i: f"v{i}")
        wide = wide.assign(a=np.arange(40) % 2, y=wide["v0"])
        words = ["62 columns", "only 32 rows", f"Linear({name}=0) sets no penalty", f"Use {name}='loo'"]
        learner = riesz.Linear(**{name: 0.0})
        refused(riesz.LearnerError, words, riesz.ate, "y ~ treat(a) + .", wide, learner=learner)

    @pytest.mark.parametrize("options", [{"penalty": -1}, {"rr_penalty": "cv"}, {"penalty": np.nan}, {"rr": "free"}])
    def test_linear(self, options: Mapping[str, Any]) -> None:
        with pytest.raises(riesz.LearnerError, match=r"Linear\(\w+=.*\): expected"):
            riesz.Linear(**options)


def effect(mu: Any, data: pd.DataFrame) -> Any:
    return mu(data.assign(a=1)) - mu(data.assign(a=0))


class TestEstimand:
    @pytest.mark.parametrize(
        "estimand",
        ["ATE", riesz.ATE, riesz.ate, None, [], (), {}, [riesz.ATE(), "ATT"], {"one": "ATE"}, {"one": [riesz.ATE()]}],
        ids=lambda estimand: (
            "verb" if estimand is riesz.ate else repr(estimand)
        ),  # the repr of a function has its address
    )
    def test_type(self, estimand: Any) -> None:
        words = [
            "estimand is ",
            "expected an estimand such as riesz.ATE(), a list of them, or a mapping from names to them",
        ]
        refused(riesz.EstimandError, words, riesz.estimate, ATE, FRAME, estimand)

    @pytest.mark.parametrize("name", [1, "", " ", None, ("a", "b")], ids=repr)
    def test_names(self, name: Any) -> None:
        words = [f"a mapping with the key {name!r}", "expected names of parameters"]
        refused(riesz.EstimandError, words, riesz.estimate, ATE, FRAME, {name: riesz.ATE()})

    @pytest.mark.parametrize(
        ("estimands", "name"),
        [
            ([riesz.ATE(), riesz.ATE()], "ATE"),
            ([riesz.Mean(0), riesz.Mean(1)], "mean"),
            ([riesz.CustomMoment(effect), riesz.CustomMoment(effect)], "psi"),
            ([riesz.ATE(), riesz.CustomMoment(effect, name="ATE")], "ATE"),
        ],
    )
    def test_two_of_a_name(self, estimands: Any, name: str) -> None:
        words = [f"Two estimands are called '{name}'", "Leave one out", "a mapping from names to estimands"]
        refused(riesz.EstimandError, words, riesz.estimate, ATE, FRAME, estimands)

    def test_arms_and_a_number_at_once(self) -> None:
        words = ["The estimands ate, ade cannot be fitted together", "with arms, others a continuous one", "separately"]
        refused(riesz.EstimandError, words, riesz.estimate, ATE, FRAME, [riesz.ATE(), riesz.ADE()])

    @pytest.mark.parametrize(
        ("moment", "words"),
        [
            (lambda mu, data: mu(data) * mu(data), "multiplies two readings"),
            (lambda mu, data: mu(data) ** 2, "raises a reading to a power"),
            (lambda mu, data: np.exp(mu(data)), "applies exp() to a reading"),
            (lambda mu, data: np.log(mu(data)), "applies log() to a reading"),
            (lambda mu, data: np.mean(mu(data)), "applies mean() to a reading"),
            (lambda mu, data: np.where(data["x1"] > 0, mu(data), 0), "applies where() to a reading"),
            (lambda mu, data: np.maximum(mu(data), 0), "applies maximum() to a reading"),
            (lambda mu, data: mu(data) + 1, "an affine term"),
            (lambda mu, data: 1 - mu(data), "an affine term"),
            (lambda mu, data: data["y"] - mu(data), "an affine term"),
            (lambda mu, data: data["y"].to_numpy() - mu(data), "an affine term"),
            (lambda mu, data: abs(mu(data)), "takes an absolute value"),
            (lambda mu, data: mu(data) > 0, "compares a reading"),
            (lambda mu, data: mu(data) == mu(data), "compares a reading"),
            (lambda mu, data: max(mu(data), mu(data.assign(a=1))), "compares a reading"),
            (lambda mu, data: mu(data) if mu(data) else 0, "branches on a reading"),
            (lambda mu, data: float(mu(data)), "turns a reading into a number"),
            (lambda mu, data: 1 / mu(data), "divides by a reading"),
            (lambda mu, data: mu(data) / mu(data), "divides by a reading"),
        ],
    )
    def test_not_linear(self, moment: Any, words: str) -> None:
        said = ["A moment must be linear in mu", words, "Allowed: adding and subtracting readings"]
        refused(riesz.EstimandError, said, riesz.estimate, ATE, FRAME, riesz.CustomMoment(moment))

    @pytest.mark.parametrize(
        ("moment", "words"),
        [
            (lambda mu, data: None, ["returned a NoneType", "expected a linear form"]),
            (lambda mu, data: 1.0, ["returned a float", "expected a linear form"]),
            (lambda mu, data: np.ones(len(data)), ["returned a ndarray", "without calling .mean()"]),
            (lambda mu, data: (mu(data), mu(data)), "returned a tuple"),
            (lambda mu, data: mu, "returned a Mu"),
            (lambda mu, data: mu(data).mean(), ["failed: AttributeError", "'mean'", "returns a linear form such as"]),
            (lambda mu, data: mu(data)[0], ["failed: TypeError", "returns a linear form such as"]),
            (lambda mu, data: mu(data) % 2, "failed: TypeError"),
            (lambda mu, data: 2 ** mu(data), "failed: TypeError"),
            (lambda mu, data: mu(data) * data["nothing"], "failed: KeyError: 'nothing'"),
            (3, "failed: TypeError"),
            (lambda mu, data: mu(data.to_numpy()), ["mu was called on a ndarray", "expected a frame"]),
            (
                lambda mu, data: mu(data) * data["g"],
                ["multiplied by values that are not numbers", "Compare labels first"],
            ),
            (lambda mu, data: mu(data) * np.ones(3), ["array of shape (3,)", "each of the 120 rows"]),
            (lambda mu, data: mu(data) / 0, ["missing or infinite value", "weights must be finite"]),
            (lambda mu, data: mu(data) * np.nan, "missing or infinite value"),
            (lambda mu, data: mu(data.head(10)), ["has 10 rows", "expected the 120 rows", "data.assign(...)"]),
            (lambda mu, data: mu(data[data["x1"] > 0]), "expected the 120 rows"),
            (lambda mu, data: mu(data.sort_values("x1")), ["another index than the data", "data.assign(...)"]),
            (lambda mu, data: mu(data.drop(columns="x1")), ["lacks the column `x1`", "which the formula needs"]),
            (lambda mu, data: mu(data.assign(g="z")), ["sets `g` to `z`", "never seen", "levels are `u`, `v`, `w`"]),
            (lambda mu, data: mu(data.assign(g=None)), "sets `g` to "),
            (
                lambda mu, data: mu(data.assign(a=np.nan)),
                ["sets `a` to a missing or infinite value", "expected finite numbers"],
            ),
            (lambda mu, data: mu(data.assign(a="yes")), "sets `a` to values that are not numbers"),
            (lambda mu, data: mu.derivative(data, wrt="dd"), "the frame has no column `dd`"),
            (lambda mu, data: mu.derivative(data, wrt="g"), ["`g` holds labels", "a derivative needs numbers"]),
            (lambda mu, data: mu(data) - mu(data), ["h_n(beta) = 0", "not significantly different from zero"]),
        ],
    )
    def test_custom_moment(self, moment: Any, words: str | list[str]) -> None:
        refused(riesz.EstimandError, words, riesz.estimate, "y ~ treat(a) + x1 + g", FRAME, riesz.CustomMoment(moment))

    @pytest.mark.parametrize(
        ("anchor", "words"),
        [
            (lambda frame: 1.0, ["h_n(beta) = 0", "not significantly different from zero", "Pass another anchor"]),
            (
                lambda frame: (frame["a"] - 0.5) * np.sign(frame["x1"]),
                ["not significantly different from zero", "standard error"],
            ),
            (lambda frame: np.ones(3), ["The anchor of psi has shape (3,)", "expected one value for each of 120 rows"]),
            (lambda frame: frame[["a"]], "has shape (120, 1)"),
            (lambda frame: frame["a"] * np.nan, ["missing or infinite", "must be a known function with finite values"]),
            (lambda frame: frame["g"], "gave values that are not numbers"),
            (lambda frame: frame["nothing"], "The anchor of psi failed: KeyError: 'nothing'"),
            ("a", ["The anchor of psi is a str", "expected a function"]),
        ],
    )
    def test_anchor(self, anchor: Any, words: str | list[str]) -> None:
        moment = riesz.CustomMoment(effect, anchor=anchor)
        refused(riesz.EstimandError, words, riesz.estimate, "y ~ treat(a) + x1 + g", FRAME, moment)

    @pytest.mark.parametrize(
        ("normalizer", "words"),
        [
            (lambda data: 0 * data["x1"], ["normalizer of psi is zero on average", "no row belongs to its group"]),
            (lambda data: data["x1"] - data["x1"].mean(), "is zero on average"),
            (
                lambda data: np.ones(3),
                ["The normalizer of psi has the wrong length: shape (3,)", "expected 120 values"],
            ),
            (lambda data: data["x1"] * np.nan, "is missing or infinite on 120 rows"),
            (lambda data: data["g"], "gave values that are not numbers"),
            (lambda data: data["nothing"], "The normalizer of psi failed: KeyError: 'nothing'"),
            (3, ["The normalizer of psi is a int", "expected a function"]),
        ],
    )
    def test_normalizer(self, normalizer: Any, words: str | list[str]) -> None:
        moment = riesz.CustomMoment(effect, normalizer=normalizer)
        refused(riesz.EstimandError, words, riesz.estimate, "y ~ treat(a) + x1 + g", FRAME, moment)

    @pytest.mark.parametrize(
        "same",
        [
            lambda mu, data: np.subtract(mu(data.assign(a=1)), mu(data.assign(a=0))),
            lambda mu, data: np.add(mu(data.assign(a=1)), -mu(data.assign(a=0))),
            lambda mu, data: np.float64(2) * effect(mu, data) / 2,
            lambda mu, data: sum([mu(data.assign(a=1)), -mu(data.assign(a=0))]),
            lambda mu, data: -np.negative(effect(mu, data)),
        ],
    )
    def test_ways_to_write_a_linear_moment(self, same: Any) -> None:
        expected = riesz.estimate(ATE, FRAME, riesz.CustomMoment(effect)).params
        np.testing.assert_allclose(riesz.estimate(ATE, FRAME, riesz.CustomMoment(same)).params, expected)

    def test_a_moment_that_changes_its_frame_in_place(self) -> None:
        def in_place(mu: Any, data: pd.DataFrame) -> Any:
            data["a"] = 1
            one = mu(data)
            data["a"] = 0
            return one - mu(data)

        expected = riesz.estimate(ATE, FRAME, riesz.CustomMoment(effect)).params
        np.testing.assert_allclose(riesz.estimate(ATE, FRAME, riesz.CustomMoment(in_place)).params, expected)


class TestOddNames:
    """Columns whose names have another meaning in formulas or in Python."""

    @pytest.mark.parametrize("name", ["treat", "C", "np", "log", "y hat", "a:b", "x.1", "été", "0", "(x)", "mu"])
    @pytest.mark.parametrize("right", ["treat(a) + {name} + g", "treat(a) * .", "treat(a) * bs({name}, df=4)"])
    def test_covariate(self, name: str, right: str) -> None:
        quoted = name if name.isidentifier() else f"`{name}`"
        plain, data = FRAME[["y", "a", "x1", "g"]], FRAME[["y", "a", "x1", "g"]].rename(columns={"x1": name})
        expected = riesz.ate(f"y ~ {right.format(name='x1')}", plain)
        fit = healthy(riesz.ate(f"y ~ {right.format(name=quoted)}", data))
        np.testing.assert_allclose(fit.params, expected.params)

    @pytest.mark.parametrize("name", ["treat", "C", "np", "y hat", "if", "0"])
    def test_outcome_and_treatment(self, name: str) -> None:
        quoted = name if name.isidentifier() and name != "if" else f"`{name}`"
        plain = FRAME[["y", "a", "x1", "g"]]
        expected = riesz.ate("y ~ treat(a) * x1 + g", plain).params
        fit = riesz.ate(f"{quoted} ~ treat(a) * x1 + .", plain.rename(columns={"y": name}))
        np.testing.assert_allclose(healthy(fit).params, expected)
        fit = riesz.ate(f"y ~ treat({quoted}) * x1 + .", plain.rename(columns={"a": name}))
        np.testing.assert_allclose(healthy(fit).params, expected)

    def test_policy(self) -> None:
        data = FRAME.rename(columns={"x1": "x hat"})
        expected = riesz.ape("y ~ treat(a) + x1", FRAME, "x1 > 0").params
        fit = healthy(riesz.ape("y ~ treat(a) + `x hat`", data, "`x hat` > 0"))
        np.testing.assert_allclose(fit.params, expected)

    @pytest.mark.parametrize("name", ["1", ".", "Intercept"])
    @pytest.mark.parametrize("formula", ["y ~ treat(a) + .", "y ~ treat(a) + `{name}`", "y ~ treat(`{name}`) + x2"])
    def test_reserved_names(self, name: str, formula: str) -> None:
        """formulaic reads a column called 1 as the intercept, even in back-ticks, and so would drop it silently."""
        data = FRAME[["y", "a", "x1", "x2"]].rename(columns={"x1": name})
        words = [f"A column is called `{name}`", "has another meaning in a formula", "Rename or drop the column"]
        refused(riesz.FormulaError, words, riesz.ate, formula.format(name=name), data)
        reached(riesz.ate, "y ~ treat(a) + x2", data)

    def test_a_function_and_a_column_of_one_name(self) -> None:
        data = FRAME.rename(columns={"x1": "C", "x2": "log"})
        words = ["`C` is both a column and a function", "Rename the column"]
        refused(riesz.FormulaError, words, riesz.ate, "y ~ treat(a) + C + C(g)", data)
        healthy(riesz.ate("y ~ treat(a) + C(g) + log(w)", data))  # no clash while the columns are not in use
        moment = riesz.CustomMoment(effect, anchor=lambda frame: frame["a"])
        healthy(riesz.estimate("y ~ treat(a) + C(g) + log(w)", data, moment))

    def test_keyword_inside_a_call(self) -> None:
        data = FRAME.rename(columns={"x1": "if"})
        refused(riesz.FormulaError, "cannot be read", riesz.ate, "y ~ treat(a) + I(`if` ** 2)", data)


BASE = FRAME[["y", "a", "x1", "g"]]


def with_gaps(**columns: pd.Series) -> pd.DataFrame:
    return BASE.assign(**{name: column.mask(GAPS) for name, column in columns.items()})


POLARS = pl.from_pandas(BASE)
ABSENT = pl.when(pl.Series(GAPS))


class TestOddTypes:
    """The estimates are the same whichever type the table has for numbers, booleans or labels."""

    @pytest.mark.parametrize(
        "data",
        [
            with_gaps(x1=BASE["x1"]),
            with_gaps(a=(BASE["a"] == 1).astype("boolean")),
            with_gaps(a=(BASE["a"] == 1).astype(object)),
            with_gaps(a=BASE["a"].astype("Int64")),
            with_gaps(x1=BASE["x1"].astype("Float64")),
            with_gaps(g=BASE["g"].astype("string")),
            with_gaps(g=BASE["g"].astype("string[pyarrow]")),
            with_gaps(g=BASE["g"].astype("category")),
            BASE.assign(g=BASE["g"].astype(object).where(~GAPS, None)),
            with_gaps(**dict(BASE.items())).convert_dtypes(),
            with_gaps(**dict(BASE.items())).convert_dtypes(dtype_backend="pyarrow"),
            pl.from_pandas(with_gaps(x1=BASE["x1"], g=BASE["g"])),
            pl.from_pandas(with_gaps(x1=BASE["x1"])).lazy(),
            POLARS.with_columns(x1=ABSENT.then(float("nan")).otherwise(pl.col("x1"))),
            POLARS.with_columns(a=ABSENT.then(None).otherwise(pl.col("a") == 1)),
            POLARS.with_columns(g=ABSENT.then(None).otherwise(pl.col("g")).cast(pl.Categorical)),
            pa.Table.from_pandas(with_gaps(a=BASE["a"] == 1, g=BASE["g"])),
            with_gaps(x1=BASE["x1"]).set_axis([0] * N),
        ],
    )
    def test_missing_values(self, data: Any) -> None:
        expected = riesz.ate("y ~ treat(a) * x1 + g", BASE[~GAPS])
        fit = healthy(riesz.ate("y ~ treat(a) * x1 + g", data))
        assert fit.nobs == N - GAPS.sum()
        np.testing.assert_allclose(fit.params, expected.params)
        np.testing.assert_allclose(fit.bse, expected.bse)

    @pytest.mark.parametrize(
        "codes",
        [
            (0, 1),
            (1, 2),
            (-1.0, 1.0),
            (False, True),
            ("no", "yes"),
            ("False", "True"),
            pd.CategoricalDtype(["c", "t"]),
            pd.CategoricalDtype(["unused", "c", "t"], ordered=True),
            pd.CategoricalDtype([False, True]),
        ],
        ids=repr,
    )
    def test_codes_of_two_arms(self, codes: Any) -> None:
        if isinstance(codes, pd.CategoricalDtype):
            low, high = codes.categories[-2:]
            arm = pd.Categorical(np.where(BASE["a"] == 1, high, low), dtype=codes)
        else:
            arm = np.where(BASE["a"] == 1, codes[1], codes[0])
        expected = riesz.ate("y ~ treat(a) * x1 + g", BASE)
        fit = healthy(riesz.ate("y ~ treat(a) * x1 + g", BASE.assign(a=arm)))
        assert fit.params.index.tolist() == ["ATE"]
        np.testing.assert_allclose(fit.params, expected.params)

    def test_levels_only_seen_in_dropped_rows(self) -> None:
        first = np.arange(N) == 0
        data = BASE.assign(x1=BASE["x1"].mask(first), a=BASE["a"].mask(first, 2), g=BASE["g"].mask(first, "solo"))
        fit = healthy(riesz.ate("y ~ treat(a) * x1 + g", data))
        assert fit.params.index.tolist() == ["ATE"]
        assert not any("solo" in name for name in fit.model.column_names)


class TestOddDesigns:
    @pytest.mark.parametrize(
        "formula",
        [
            "y ~ treat(a)",
            "y ~ treat(a) - 1 + x1",
            "y ~ 0 + treat(a) + g",
            "y ~ treat(a):x1",
            "y ~ x1 + treat(a):x1",
            "y ~ treat(a):g",
            "y ~ treat(x1 > 0) * x2",
            "y ~ C(treat(g)) + x1",
            "y ~ (treat(a) + x1 + g)**3",
        ],
    )
    @pytest.mark.parametrize("estimator", ["dr", "tmle"])
    def test_formula(self, formula: str, estimator: Any) -> None:
        healthy(riesz.ate(formula, FRAME, estimator=estimator))

    def test_without_covariates_it_is_the_difference_in_means(self) -> None:
        fit = riesz.ate("y ~ treat(a)", FRAME, folds=1, learner=riesz.Linear(0, 0))
        means = FRAME.groupby("a")["y"].mean()
        np.testing.assert_allclose(fit.params["ATE"], means[1] - means[0])

    @pytest.mark.parametrize(
        "changes",
        [
            {"q": 1.0},
            {"q": 0.0},
            {"q": "only"},
            {"q": 2 * FRAME["x1"], "r": FRAME["x1"] + 1},
            {"g": FRAME["g"].where(np.arange(N) != 5, "solo")},
            {"x1": FRAME["x1"] * 1e12},
            {"x1": FRAME["x1"] * 1e-12},
            {"x1": FRAME["x1"] + 1e6},
            {"y": FRAME["y"] * 1e12},
            {"g": [1, "a"] * (N // 2)},
        ],
        ids=[
            "constant",
            "zero",
            "one label",
            "collinear",
            "rare label",
            "huge",
            "tiny",
            "far",
            "huge y",
            "mixed labels",
        ],
    )
    @pytest.mark.parametrize("formula", ["y ~ treat(a) + .", "y ~ treat(a) * ."])
    def test_covariates(self, changes: dict[str, Any], formula: str) -> None:
        data = FRAME.drop(columns=["d", "w", "village"]).assign(**changes)
        if "solo" in set(data["g"]) and "*" in formula:  # one row cannot be in both arms
            with pytest.raises(riesz.LearnerError, match=r"not identified.*has no rows in one of the arms"):
                riesz.ate(formula, data)
            return
        healthy(riesz.ate(formula, data))

    def test_collinear_without_a_penalty(self) -> None:
        twice = FRAME.assign(q=2 * FRAME["x1"])
        fit = riesz.ate("y ~ treat(a) + x1 + q", twice, learner=riesz.Linear(0, 0))
        np.testing.assert_allclose(fit.params, riesz.ate("y ~ treat(a) + x1", FRAME, learner=riesz.Linear(0, 0)).params)

    @pytest.mark.parametrize("family", ["gaussian", "binomial"])
    def test_more_columns_than_rows(self, family: Any) -> None:
        wide = pd.DataFrame(np.random.default_rng(1).normal(size=(30, 30))).rename(columns=lambda i: f"v{i}")
        wide = wide.assign(a=np.arange(30) % 2, y=(wide["v0"] > 0).astype(float))
        healthy(riesz.ate("y ~ treat(a) + .", wide, family=family))

    def test_index_labels_twice(self) -> None:
        fit = riesz.ate(ATE, FRAME.set_axis([0] * N), cluster="village", weights="w")
        expected = riesz.ate(ATE, FRAME, cluster="village", weights="w")
        np.testing.assert_array_equal(fit.params, expected.params)
        np.testing.assert_array_equal(fit.bse, expected.bse)

    @pytest.mark.parametrize("name", ["weights", "freq_weights"])
    def test_zeros_among_the_weights(self, name: str) -> None:
        """A row of weight zero has no effect, whatever its outcome."""
        zeros = np.arange(N) % 4 > 0
        fit = healthy(riesz.ate(ATE, FRAME, **{name: zeros.astype(float)}))
        odd = riesz.ate(ATE, FRAME.assign(y=FRAME["y"].where(zeros, 1e6)), **{name: zeros.astype(float)})
        np.testing.assert_allclose(fit.params, odd.params)
        np.testing.assert_allclose(fit.bse, odd.bse)

    def test_labels_of_folds_and_clusters(self) -> None:
        healthy(riesz.ate(ATE, FRAME, folds="g"))
        healthy(riesz.ate(ATE, FRAME, folds=list("ab") * (N // 2)))
        healthy(riesz.ate(ATE, FRAME, cluster=FRAME["village"].astype(str).tolist()))
        gaps = FRAME.assign(village=FRAME["village"].where(FRAME["village"] > 1))
        assert healthy(riesz.ate(ATE, gaps, cluster="village")).nobs == N - 12


def test_networks_refuse_a_copy_of_the_treatment(binary_frame: pd.DataFrame) -> None:
    """A copy of the treatment among the covariates: the closed form refuses it, and so do networks."""
    twins = binary_frame.assign(twin=binary_frame["a"])
    for learner in ("linear", "madnet", "riesznet", "dragonnet", "tarnet"):
        with pytest.raises(riesz.LearnerError, match="not identified"):
            riesz.ate("y ~ treat(a) + x1 + twin", twins, learner=learner)


def test_suggestions_ignore_case() -> None:
    for typo, meant in (("VILLAGE", "village"), ("Vilage", "village"), ("X1", "x1")):
        refused(riesz.FormulaError, f"Did you mean `{meant}`?", riesz.ate, f"y ~ treat(a) + {typo}", FRAME)
    capitals = FRAME.assign(IQ=FRAME["x1"], iqr=FRAME["x2"])
    refused(riesz.FormulaError, "Did you mean `IQ`?", riesz.ate, "y ~ treat(a) + iq", capitals)


def test_columns_are_counted_once() -> None:
    wide = FRAME.assign(**{f"v{k}": FRAME["x1"] for k in range(6)})
    for formula in ("y ~ treat(a) + zzz", "y ~ treat(zzz) + x1", "zzz ~ treat(a) + x1"):
        refused(riesz.FormulaError, f"and {len(wide.columns) - 8} more.", riesz.ate, formula, wide)


def test_factors_of_other_languages() -> None:
    refused(riesz.FormulaError, ["factor()", "Write C(village)."], riesz.ate, "y ~ treat(a) + factor(village)", FRAME)


def test_swapped_arguments_and_names_of_files() -> None:
    refused(riesz.DataError, ["formula a DataFrame", "the formula comes first"], riesz.ate, FRAME, ATE)
    for name in ("wages.csv", "data/wages"):
        words = ["the name of a file", f"pandas.read_csv('{name}')"]
        refused(riesz.DataError, words, riesz.ate, ATE, name)
    refused(riesz.DataError, "data is a str; expected a pandas", riesz.ate, ATE, ATE)
