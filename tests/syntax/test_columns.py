"""The formula's columns: computed row by row, with fitted levels, on observed, new and counterfactual rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.syntax.columns import Columns
from riesz.syntax.evaluation import evaluate
from riesz.syntax.formula import parse_formula


@pytest.fixture(scope="module")
def data(curved_frame: pd.DataFrame) -> pd.DataFrame:
    return curved_frame


@pytest.mark.parametrize(
    "term",
    [
        "I((treat(d) - np.mean(treat(d))) ** 2)",
        "{(treat(d) - treat(d).mean()) ** 2}",
        "treat(d) + {x2.rank()}",
        "treat(d) + {x2 / x2.max()}",
        "treat(d) + {x2 - x2.min()}",
        "treat(d) + {np.cumsum(x2)}",
        "treat(d) + {x2.sort_values().to_numpy()}",
        "treat(d) + {np.random.default_rng().normal(size=len(x2))}",
        "treat(d) + lag(x2)",
        "treat(d) + C(pd.qcut(x2, 3))",
        "treat(d) + {b / b.max()}",
        "treat(d) * {x2 > np.median(x2)}",
    ],
)
def test_terms_that_depend_on_other_rows(data: pd.DataFrame, term: str) -> None:
    named = term.replace("treat(d) + ", "").replace("treat(d) * ", "").replace("treat(d)", "d").strip("{}")
    for verb, options in ((riesz.shift, {"delta": 0.5}), (riesz.ade, {})):
        with pytest.raises(riesz.FormulaError) as caught:
            verb(f"y ~ treat(d) + x1 + {term}", data, **options)
        message = str(caught.value)
        assert f"`{named}" in message or f":{named}" in message
        assert "is not computed row by row" in message
        assert "center(), scale()" in message


def test_a_dummy_that_is_compared_with_its_own_maximum(data: pd.DataFrame) -> None:
    """On most parts of the rows the maximum of a dummy is the same; at the counterfactual rows it is not."""
    with pytest.raises(riesz.FormulaError, match="is not computed row by row"):
        riesz.ate("y ~ treat(a) + {treat(a) - treat(a).max()} + x1", data)


@pytest.mark.parametrize(
    "term",
    [
        "center(d)",
        "scale(d)",
        "standardize(d)",
        "bs(d, df=4)",
        "cr(d, df=4)",
        "poly(d, 2)",
        "cc(x1, df=4)",
        "C(k)",
        "C(k, contr.sum)",
        "C(k, contr.poly)",
        "hashed(k, levels=3)",
        "np.exp(d)",
        "{np.where(x1 > 0, d, x2)}",
        "C(b)",
        "{x1.clip(-1, 1)}",
        "C(np.floor(x1))",
        "bs(x1, df=4):C(k)",
        "{(d - center) ** 2}",
        "{1e9 + d}",
    ],
)
def test_terms_that_are_computed_row_by_row(data: pd.DataFrame, term: str) -> None:
    context = {"center": 1.0} if "- center" in term else {}
    formula = parse_formula(f"y ~ treat(d) + {term}", list(data.columns), [], context)
    assert Columns(formula.rhs, data.assign(k=data["k"].astype(float)), context).matrix.shape[0] == 600


def test_shift_with_a_square_that_keeps_its_centre(data: pd.DataFrame) -> None:
    """E[mu(d + .5) - mu(d)] = .5 + .3 E[(d - .5)^2 - (d - 1)^2] = .5 + .3 (.25 + E[d - 1]), about 0.575."""
    fit = riesz.shift(
        "y ~ treat(d) + {center(treat(d)) ** 2} + x1 + C(k)", data, delta=0.5, learner=riesz.Linear(0, 0), folds=1
    )
    truth = 0.5 + 0.3 * (0.25 + (data["d"] - 1).mean())
    assert abs(fit.params["shift"] - truth) < 2.5 * fit.bse["shift"]
    poly = riesz.shift("y ~ poly(treat(d), 2) + x1 + C(k)", data, delta=0.5, learner=riesz.Linear(0, 0), folds=1)
    np.testing.assert_allclose(poly.params, fit.params, rtol=1e-8)


def test_the_outcome_may_be_ranked(data: pd.DataFrame) -> None:
    fit = riesz.ate("{y.rank()} ~ treat(a) + x1", data)
    by_hand = riesz.ate("r ~ treat(a) + x1", data.assign(r=data["y"].rank()))
    np.testing.assert_allclose(fit.params, by_hand.params, rtol=1e-12)


def test_projections_on_terms_that_depend_on_other_rows(data: pd.DataFrame) -> None:
    fit = riesz.ate("y ~ treat(a) * x1", data)
    with pytest.raises(riesz.FormulaError, match="is not computed row by row"):
        fit.blp("~ {x1 - np.mean(x1)}")
    np.testing.assert_allclose(fit.blp("~ center(x1)").params["center(x1)"], fit.blp("~ x1").params["x1"], rtol=1e-9)


def test_a_treatment_that_is_centred_keeps_its_centre_on_new_rows(data: pd.DataFrame) -> None:
    fit = riesz.ade("y ~ treat(center(d)) + x1", data)
    new = data.assign(d=data["d"] + 3)
    plain = riesz.ade("y ~ treat(d) + x1", data)
    np.testing.assert_allclose(fit.predict(new), plain.predict(new), rtol=1e-6)
    ranked = riesz.ade("y ~ treat(d.rank()) + x1", data)
    with pytest.raises(riesz.DataError, match="not computed row by row, so it cannot be computed for new rows"):
        ranked.predict(new)


@pytest.mark.parametrize(
    "term",
    ["C(k)", "C(k):x1", "x1:C(k, contr.sum)", "C(k, levels=[0, 1, 2, 3])", "x1 * C(k)", "C(k, spans_intercept=False)"],
)
def test_new_rows_with_a_level_never_seen(data: pd.DataFrame, term: str) -> None:
    fit = riesz.ate(f"y ~ treat(a) + {term}", data)
    with pytest.raises(
        riesz.DataError,
        match=r"the level `7` of `k`, which does not occur in the fit. Its levels are `0`, `1`, `2`, `3`",
    ):
        fit.predict(data.assign(k=7))
    assert len(fit.predict(data.iloc[:5])) == 5


def test_new_rows_with_a_level_never_seen_of_other_factors(data: pd.DataFrame) -> None:
    fit = riesz.ate("y ~ treat(a) + C(np.floor(x1))", data.assign(x1=data["x1"].clip(-1, 1)))
    with pytest.raises(riesz.DataError, match=r"a level of `C\(np.floor\(x1\)\)`, which does not occur in the fit"):
        fit.predict(data.assign(x1=9.5))
    subset = data[data["x2"] < 0]
    fit = riesz.ate("y ~ treat(a) + x1 + C(x2 > 9)", subset.assign(x2=np.where(subset.index % 2, 10.0, subset["x2"])))
    assert len(fit.predict(data)) == 600


def test_counterfactual_rows_with_a_level_never_seen(data: pd.DataFrame) -> None:
    dose = data.assign(dose=(data["d"] * 4).round().clip(-4, 12))
    with pytest.raises(riesz.EstimandError, match=r"sets the level .* of `dose`, which is never seen in the data"):
        riesz.estimate(
            "y ~ treat(x1) + C(dose)",
            dose,
            riesz.CustomMoment(lambda mu, data: mu(data.assign(dose=data["dose"] + 0.5)) - mu(data), name="half"),
        )
    odd = riesz.CustomMoment(lambda mu, data: mu(data.assign(k=9)) - mu(data))
    with pytest.raises(
        riesz.EstimandError, match=r"sets the level `9` of `k`, which is never seen.*Its levels are `0`, `1`"
    ):
        riesz.estimate("y ~ treat(a) + C(k)", data, odd)


def test_listed_levels_must_be_complete(data: pd.DataFrame) -> None:
    with pytest.raises(riesz.FormulaError, match=r"levels that C\(..., levels=\[...\]\) .* does not list"):
        riesz.ate("y ~ treat(a) + C(k, levels=[0, 1, 2])", data)


def test_a_misspelt_column_in_a_custom_moment(data: pd.DataFrame) -> None:
    wide = data.rename(columns={"a": "e401k"})
    effect = riesz.CustomMoment(lambda mu, data: mu(data.assign(e401k=1)) - mu(data.assign(e401=0)))
    with pytest.raises(
        riesz.EstimandError, match=r"has the column `e401`, which the data do not have. Did you mean `e401k`\?"
    ):
        riesz.estimate("y ~ treat(e401k) + x1", wide, effect)
    slope = riesz.CustomMoment(lambda mu, data: mu.derivative(data.assign(dd=0), wrt="d"))
    with pytest.raises(riesz.EstimandError, match=r"has the column `dd`.*Did you mean `d`\?"):
        riesz.estimate("y ~ treat(d) + x1", data, slope)


def test_a_moment_that_changes_what_the_formula_does_not_read(data: pd.DataFrame) -> None:
    idle = riesz.CustomMoment(lambda mu, data: mu(data.assign(x2=1.0)) - mu(data.assign(a=0)))
    with pytest.raises(
        riesz.EstimandError, match=r"changes only `x2`, which the formula does not read.*reads `a`, `x1`"
    ):
        riesz.estimate("y ~ treat(a) + x1", data, idle)
    along = riesz.CustomMoment(lambda mu, data: mu.derivative(data, wrt="x2"))
    with pytest.raises(riesz.EstimandError, match=r"wrt='x2'\): the formula does not read `x2`"):
        riesz.estimate("y ~ treat(a) + x1", data, along)
    inner = riesz.CustomMoment(lambda mu, data: mu(data.assign(d=data["d"] + 1)) - mu(data))
    with pytest.raises(riesz.EstimandError, match=r"changes only `d`.*reads `exp\(d\)`"):
        riesz.estimate("y ~ treat(exp(d)) + x1", data, inner)


def noisy(x: Any) -> Any:
    warnings.warn("A warning of the user.", UserWarning, stacklevel=1)
    np.mean([])  # a RuntimeWarning of numpy
    warnings.warn("soon gone", FutureWarning, stacklevel=1)
    return x


def test_warnings_of_other_packages_are_suppressed(data: pd.DataFrame) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        riesz.ate("y ~ treat(a) + {noisy(x1)} + log(x2**2 + 1) + C(k)", data)
        riesz.ade("np.sqrt(np.exp(y)) ~ treat(d) + {np.log(np.abs(treat(d)) + 1)} + x1", data)
    assert {str(warning.message) for warning in caught} == {"A warning of the user."}
    assert all(warning.filename == __file__ for warning in caught)


def test_columns_that_are_not_finite_are_an_error(data: pd.DataFrame) -> None:
    with pytest.raises(riesz.DataError, match=r"`log\(x2\)` in the design is not finite on \d+ rows"):
        riesz.ate("y ~ treat(a) + log(x2)", data)
    with pytest.raises(riesz.DataError, match=r"not finite on \d+ rows"):
        riesz.ate("{1 / (x1 - x1)} ~ treat(a) + x2", data)
    with pytest.raises(riesz.EstimandError, match=r"not finite at \d+ counterfactual rows"):
        riesz.shift("y ~ log(treat(p)) + x1", data.assign(p=np.exp(data["d"])), delta=-1.0)
    with pytest.raises(riesz.FormulaError, match="complex numbers"):
        riesz.ate("y ~ treat(a) + {np.sqrt(x2 + 0j)}", data)


@pytest.mark.parametrize("place", ["columns", "outcome", "counterfactual"])
def test_running_out_of_memory_has_its_own_error(data: pd.DataFrame, place: str) -> None:
    def hungry(x: Any) -> Any:
        if place != "counterfactual" or (np.asarray(x) == 1).all():
            raise MemoryError("Unable to allocate 7 TiB")
        return x

    context = {"hungry": hungry}
    formula = {
        "columns": "y ~ treat(a) + {hungry(x1)}",
        "outcome": "{hungry(y)} ~ treat(a) + x1",
        "counterfactual": "y ~ treat(a) + {hungry(treat(a))}",
    }[place]
    with pytest.raises(riesz.DataError, match=r"do not fit in memory\. Use fewer rows") as caught:
        riesz.ate(formula, data, context=context)
    assert "Change that part" not in str(caught.value)


def test_evaluation_keeps_fitted_knots_and_levels(data: pd.DataFrame) -> None:
    """Rows evaluated in part equal those evaluated on the whole."""
    formula = parse_formula("y ~ treat(a) + bs(x1, df=4) + scale(x2) + C(k)", list(data.columns), [], {})
    whole, spec = evaluate(formula.rhs, data, {})
    np.testing.assert_allclose(evaluate(spec, data.iloc[::-7], {})[0], whole[::-7], rtol=1e-12)
