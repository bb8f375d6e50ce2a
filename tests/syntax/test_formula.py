"""Formulas: the marked treatment, the expanded terms and their columns; and the facts about formulaic that this relies on."""

from __future__ import annotations

import formulaic
import numpy as np
import pandas as pd
import pytest
from formulaic.parser.algos.tokenize import tokenize

import riesz
from riesz.syntax.formula import parse_formula

COLUMNS = ["y", "a", "x1", "x2", "my var", "treat", "id", "price", "g"]


@pytest.mark.parametrize(
    ("text", "terms", "treatment"),
    [
        ("y ~ treat(a) + .", "1 + a + x1 + x2 + my var + treat + id + price + g", "a"),
        ("y ~ treat(a) + . - id - treat", "1 + a + x1 + x2 + my var + price + g", "a"),
        ("y ~ treat(treat) + x1", "1 + treat + x1", "treat"),
        ("y ~ treat(a)*x1", "1 + a + x1 + a:x1", "a"),
        ("y ~ treat(a):x1 + x1", "1 + x1 + a:x1", "a"),
        ("y ~ treat(a) + a:x1", "1 + a + a:x1", "a"),
        ("y ~ 0 + treat(a) + x1", "a + x1", "a"),
        ("y ~ treat(a) + x1 - 1", "a + x1", "a"),
        ("log(y) ~ bs(treat(price), df=4) + C(g)", "1 + bs(price, df=4) + C(g)", "price"),
        ("y ~ treat(`my var`) + {treat(`my var`)**2}", "1 + my var + `my var` ** 2", "my var"),
        ("y ~ treat(np.log(price)) + x1", "1 + np.log(price) + x1", "np.log(price)"),
        ("y ~ treat(C(g)) + poly(x1, 2)", "1 + g + poly(x1, 2)", "g"),
        ("y ~ (treat(a) + x1)**2", "1 + a + x1 + a:x1", "a"),
        ("y ~ treat(a, reference='b') + x1", "1 + a + x1", "a"),
    ],
)
def test_terms(text: str, terms: str, treatment: str) -> None:
    formula = parse_formula(text, COLUMNS, [], {})
    assert str(formula.rhs) == terms
    assert formula.treatment == treatment


def test_dot_leaves_out_outcome_treatment_and_reserved() -> None:
    formula = parse_formula("scale(y) ~ treat(np.log(price)) + .", COLUMNS, ["id", "g"], {})
    assert formula.covariates == ("a", "x1", "x2", "my var", "treat")
    assert "y" in formula.variables
    assert "price" in formula.variables


def test_removed_columns_are_not_needed() -> None:
    """A column that `- id` removes may hold anything, missing values too."""
    assert "id" not in parse_formula("y ~ treat(a) + . - id", COLUMNS, [], {}).variables


def test_reference_is_read() -> None:
    assert parse_formula("y ~ treat(a, reference='b')", COLUMNS, [], {}).reference == "b"
    assert parse_formula("y ~ treat(a, reference=2)*x1", COLUMNS, [], {}).reference == 2


def test_column_named_treat(binary_frame: pd.DataFrame) -> None:
    renamed = binary_frame.rename(columns={"a": "treat"})
    plain = riesz.ate("y ~ treat(a) + x1 + g", binary_frame)
    np.testing.assert_array_equal(riesz.ate("y ~ treat(treat) + x1 + g", renamed).params, plain.params)


def test_dot_is_every_other_column(binary_frame: pd.DataFrame) -> None:
    data = binary_frame[["y", "a", "x1", "x2", "g", "w", "village"]]
    dotted = riesz.ate("y ~ treat(a) + .", data, weights="w", cluster="village")
    assert dotted.model.column_names == ["Intercept", "a", "x1", "x2", "g[T.v]", "g[T.w]"]
    spelled = riesz.ate("y ~ treat(a) + x1 + x2 + g", data, weights="w", cluster="village")
    np.testing.assert_array_equal(dotted.bse, spelled.bse)


def test_treatment_expression(continuous_frame: pd.DataFrame) -> None:
    """treat(exp(d)) makes exp(d) the treatment, like a column that is computed beforehand."""
    computed = riesz.ade("y ~ treat(e) + x1", continuous_frame.assign(e=np.exp(continuous_frame["d"])))
    written = riesz.ade("y ~ treat(np.exp(d)) + x1", continuous_frame)
    np.testing.assert_allclose(written.params, computed.params)
    assert "np.exp(d)" in str(written.summary())


def test_chain_rule(continuous_frame: pd.DataFrame) -> None:
    """exp(treat(d)) keeps d as the treatment: its derivative has the chain rule's factor."""
    data = continuous_frame
    options = {"folds": 1, "learner": riesz.Linear(0, 0)}
    fit = riesz.ade("y ~ np.exp(treat(d)) + x1", data, **options)
    z = np.column_stack([np.ones(len(data)), np.exp(data["d"]), data["x1"]])
    slope = np.linalg.lstsq(z, data["y"], rcond=None)[0][1]
    np.testing.assert_allclose(
        fit.estimates.loc[("ADE", "direct"), "estimate"], slope * np.exp(data["d"]).mean(), rtol=1e-8
    )


def test_names_inside_calls_come_from_the_calling_scope(binary_frame: pd.DataFrame) -> None:
    knots = 4  # noqa: F841, used by the formula

    def square(values: pd.Series) -> pd.Series:
        return values**2

    fit = riesz.ate("y ~ treat(a) + bs(x2, df=knots) + square(x1)", binary_frame)
    assert len(fit.model.column_names) == 7
    given = riesz.ate("y ~ treat(a) + twice(x1)", binary_frame, context={"twice": lambda v: 2 * v})
    assert "twice(x1)" in given.model.column_names


@pytest.mark.parametrize("formula", ["y ~ bs(treat(d), df=5, degree=1) + x1", "y ~ np.abs(treat(d) - 0.25) + x1"])
def test_kinks_have_a_one_sided_slope(continuous_frame: pd.DataFrame, formula: str) -> None:
    """At a knot the tangent is one of the two slopes, not their mean."""
    data = continuous_frame.assign(d=np.round(continuous_frame["d"], 2))
    data.loc[:3, "d"] = 0.25
    design = riesz.ade(formula, data).model.blueprint.design
    tangent = design.readings()[0].tangents
    if "abs" in formula:
        assert set(np.round(np.unique(tangent), 9)) == {-1.0, 1.0}
    slopes = np.unique(np.round(tangent, 6), axis=0)
    assert len(slopes) <= 5  # one for each linear piece


def test_tangents_at_the_ends_of_a_spline(continuous_frame: pd.DataFrame) -> None:
    """Central differences inside and one-sided ones at the ends agree with the spline's exact derivative."""
    data = continuous_frame
    formula = "y ~ bs(treat(d), df=6) + x1"
    result = riesz.ade(formula, data)
    design = result.model.blueprint.design
    point = design.readings()[0]
    spec = formulaic.model_matrix("bs(d, df=6)", data).model_spec
    inner = data["d"].clip(data["d"].min() + 1e-3, data["d"].max() - 1e-3)
    h = 1e-4
    up, down = (np.asarray(spec.get_model_matrix(data.assign(d=inner + s * h)))[:, 1:] for s in (1, -1))
    np.testing.assert_allclose(point.tangents, (up - down) / (2 * h), atol=0.05)
    ends = data["d"].isin([data["d"].min(), data["d"].max()])
    assert ends.sum() == 2
    assert np.abs(point.tangents[ends]).max() > 0.5


class TestCanaries:
    """Facts about formulaic that this package relies on; a failure here shows what changed."""

    def test_brace_tokens_span_the_opening_brace_only(self) -> None:
        text = "{x + 1} + z"
        token = next(iter(tokenize(text)))
        assert (token.source_start, text[token.source_end + 1]) == (0, "}")

    def test_dot_expands_to_the_available_variables(self) -> None:
        formula = formulaic.Formula("a * .", _context={"__formulaic_variables_available__": ["x"]})
        assert str(formula) == "1 + a + x + a:x"

    def test_subset_reproduces_the_parent(self, binary_frame: pd.DataFrame) -> None:
        spec = formulaic.model_matrix("a * x1 + bs(x2, df=4) + g", binary_frame).model_spec
        terms = [term for term in spec.terms if "a" in str(term).split(":")]
        part = spec.subset(terms).get_model_matrix(binary_frame.assign(a=1.0))
        whole = spec.get_model_matrix(binary_frame.assign(a=1.0))
        np.testing.assert_array_equal(part, whole[list(part.columns)])

    def test_unseen_levels_pass_with_a_warning_only(self) -> None:
        spec = formulaic.model_matrix("g", pd.DataFrame({"g": ["u", "v"]})).model_spec
        with pytest.warns(Warning, match="categories"):
            matrix = spec.get_model_matrix(pd.DataFrame({"g": ["z"]}))
        assert matrix["g[T.v]"].iloc[0] == 0

    def test_bs_refuses_to_extrapolate(self) -> None:
        spec = formulaic.model_matrix("bs(x, df=4)", pd.DataFrame({"x": np.arange(10.0)})).model_spec
        with pytest.raises(Exception, match="bounds"):
            spec.get_model_matrix(pd.DataFrame({"x": [11.0]}))


def test_levels_that_are_whole_numbers_have_no_decimal_point(binary_frame: pd.DataFrame) -> None:
    region = pd.Series(np.arange(400) % 3 + 4.0).where(np.arange(400) > 5)
    frame = binary_frame.assign(region=region, half=np.arange(400) % 2 / 2)
    fit = riesz.ate("y ~ treat(a) * C(region) + C(half)", frame)
    columns = ["C(region)[T.5]", "C(region)[T.6]", "C(half)[T.0.5]", "a:C(region)[T.5]", "a:C(region)[T.6]"]
    assert fit.model.column_names == ["Intercept", "a", *columns]
    assert ("ATE", "C(region)[T.5]") in fit.balance().index
    assert np.isfinite(fit.predict(frame.dropna().head())).all(axis=None)
    texts = binary_frame.assign(region=np.resize(["4", "5", "5.0", "4", "4"], 400))
    assert "region[T.5.0]" in riesz.ate("y ~ treat(a) + region", texts).model.column_names
