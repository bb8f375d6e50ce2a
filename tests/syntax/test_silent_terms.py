"""Terms, levels, moments and anchors that once gave a wrong number without a word."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import riesz
from riesz.syntax.columns import Columns
from riesz.syntax.evaluation import evaluate
from riesz.syntax.formula import parse_formula

EXACT = riesz.Linear(0, 0)


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(29)
    n = 600
    x1, x2 = rng.normal(size=(2, n))
    k = rng.integers(0, 4, n)
    d = 1 + 0.5 * x1 + rng.normal(size=n)
    a = (rng.uniform(size=n) < 1 / (1 + np.exp(-x1))).astype(float)
    y = d + 0.3 * (d - 1) ** 2 + x1 + 0.5 * (k == 2) + rng.normal(size=n)
    return pd.DataFrame({"y": y, "d": d, "a": a, "x1": x1, "x2": x2, "k": k, "b": x2 > 0})


# Fixed effects


@pytest.fixture(scope="module")
def panel() -> pd.DataFrame:
    """120 people in 8 years; the person's effect moves treatment and outcome, the true slope is 0.083."""
    rng = np.random.default_rng(0)
    people, years = 120, 8
    nr, effect = np.repeat(np.arange(people), years), rng.normal(size=people)
    x, noise, error = rng.normal(size=(3, people * years))
    d = 0.8 * effect[nr] + 0.3 * x + noise
    return pd.DataFrame({"y": 0.083 * d + effect[nr] + 0.5 * x + 0.5 * error, "d": d, "x": x, "nr": nr})


@pytest.mark.parametrize("factor", ["C(nr)", "person"])
def test_fixed_effects_that_no_fold_trains(panel: pd.DataFrame, factor: str) -> None:
    data = panel.assign(person=panel["nr"].map("p{}".format))
    formula = f"y ~ treat(d) + x + {factor}"
    with pytest.raises(
        riesz.DataError, match=r"960 of 960 rows have a level of a factor .* never be trained"
    ) as caught:
        riesz.ade(formula, data, cluster="nr")
    assert "folds=1, learner=riesz.Linear(0, 0)" in str(caught.value)
    within = smf.ols("y ~ d + x + C(nr)", panel).fit().params["d"]
    assert abs(within - 0.083) < 0.03 < 0.4 < smf.ols("y ~ d + x", panel).fit().params["d"]
    fit = riesz.ade(formula, data, cluster="nr", folds=1, learner=riesz.Linear(0, 0))
    np.testing.assert_allclose(fit.params["ADE"], within, rtol=1e-6)


def test_other_ways_out_of_untrained_fixed_effects(panel: pd.DataFrame) -> None:
    """What the message says: subtract each unit's mean, or add the means of treatment and covariates."""
    means = panel.groupby("nr")[["y", "d", "x"]].transform("mean")
    demeaned = riesz.ade("y ~ treat(d) + x", panel.assign(**(panel[["y", "d", "x"]] - means)), cluster="nr")
    mundlak = riesz.ade("y ~ treat(d) + x + dm + xm", panel.assign(dm=means["d"], xm=means["x"]), cluster="nr")
    for fit in (demeaned, mundlak):
        assert abs(fit.params["ADE"] - 0.083) < 2 * fit.bse["ADE"] < 0.05


def test_fixed_effects_that_every_fold_trains(panel: pd.DataFrame) -> None:
    fit = riesz.ade("y ~ treat(d) + x + C(nr)", panel, learner=EXACT)
    assert abs(fit.params["ADE"] - 0.083) < 2.5 * fit.bse["ADE"]


def test_a_few_untrained_rows_are_a_warning(data: pd.DataFrame) -> None:
    folds, rows = np.arange(600) // 120, np.arange(600)
    for level, named in (("z", r"`g\[T.z\]`"), ("A", "`the reference level of g`")):
        rare = data.assign(g=data["b"].astype(str).where(rows >= 5, level))
        with pytest.warns(riesz.RieszWarning, match=rf"5 of 600 rows have a level \({named}\)"):
            riesz.ate("y ~ treat(a) + x1 + g", rare, folds=folds)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            riesz.ate("y ~ treat(a) + x1 + g", rare, folds=1, learner=EXACT)
            riesz.ate("y ~ treat(a) + x1 + g", rare.assign(g=rare["g"].where(rows > 2, "True")), folds=folds)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        riesz.ate("y ~ treat(a) + x1 + C(k) + b", data)


def test_untrained_levels_of_given_folds(data: pd.DataFrame) -> None:
    with pytest.raises(riesz.DataError, match="no row outside their fold has"):
        riesz.ate("y ~ treat(a) + C(k)", data, folds="k")


# Terms that are not computed row by row


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
def test_terms_that_remember_or_need_nothing(data: pd.DataFrame, term: str) -> None:
    context = {"center": 1.0} if "- center" in term else {}
    formula = parse_formula(f"y ~ treat(d) + {term}", list(data.columns), [], context)
    assert Columns(formula.rhs, data.assign(k=data["k"].astype(float)), context).matrix.shape[0] == 600


def test_shift_with_a_square_that_remembers_its_centre(data: pd.DataFrame) -> None:
    """E[mu(d + .5) - mu(d)] = .5 + .3 E[(d - .5)^2 - (d - 1)^2] = .5 + .3 (.25 + E[d - 1]), about 0.575."""
    fit = riesz.shift("y ~ treat(d) + {center(treat(d)) ** 2} + x1 + C(k)", data, delta=0.5, learner=EXACT, folds=1)
    truth = 0.5 + 0.3 * (0.25 + (data["d"] - 1).mean())
    assert abs(fit.params["shift"] - truth) < 2.5 * fit.bse["shift"]
    poly = riesz.shift("y ~ poly(treat(d), 2) + x1 + C(k)", data, delta=0.5, learner=EXACT, folds=1)
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


# Levels that a factor does not have


@pytest.mark.parametrize(
    "term",
    ["C(k)", "C(k):x1", "x1:C(k, contr.sum)", "C(k, levels=[0, 1, 2, 3])", "x1 * C(k)", "C(k, spans_intercept=False)"],
)
def test_new_rows_with_a_level_never_seen(data: pd.DataFrame, term: str) -> None:
    fit = riesz.ate(f"y ~ treat(a) + {term}", data)
    with pytest.raises(
        riesz.DataError, match=r"the level `7` of `k`, which the fit never saw. Its levels are `0`, `1`, `2`, `3`"
    ):
        fit.predict(data.assign(k=7))
    assert len(fit.predict(data.iloc[:5])) == 5


def test_new_rows_with_a_level_never_seen_of_other_factors(data: pd.DataFrame) -> None:
    fit = riesz.ate("y ~ treat(a) + C(np.floor(x1))", data.assign(x1=data["x1"].clip(-1, 1)))
    with pytest.raises(riesz.DataError, match=r"a level of `C\(np.floor\(x1\)\)`, which the fit never saw"):
        fit.predict(data.assign(x1=9.5))
    some = data[data["x2"] < 0]
    fit = riesz.ate("y ~ treat(a) + x1 + C(x2 > 9)", some.assign(x2=np.where(some.index % 2, 10.0, some["x2"])))
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


# Moments that read something else than was meant


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


# Shifts whose amounts average zero


def test_shift_whose_amounts_average_zero(data: pd.DataFrame) -> None:
    """E[delta(X) (1 + .6 (d - 1) + ...)]: with delta = +-.2 by the sign of x1 the slope in d meets x1 there."""
    formula, delta = "y ~ treat(d) + {treat(d) ** 2} + treat(d):x1 + x1 + C(k)", "where(x1 > 0, .2, -.2)"
    fit = riesz.shift(formula, data, delta=delta)
    move = np.where(data["x1"] > 0, 0.2, -0.2)
    truth = float(np.mean(move + 0.3 * ((data["d"] + move - 1) ** 2 - (data["d"] - 1) ** 2)))
    assert abs(fit.params["shift"] - truth) < 3 * fit.bse["shift"]
    anchor = move * (data["d"] - data["d"].mean())
    np.testing.assert_allclose(fit.anchor["shift"], anchor, rtol=1e-12)
    design = fit.model.blueprint.design
    np.testing.assert_allclose(design.apply(design.anchor).mean(), 0.04, rtol=1e-8)  # h = E[delta^2]
    assert len(fit.predict(data.iloc[:20])) == 20


@pytest.mark.parametrize("kind", ["array", "function", "other column", "treatment"])
def test_other_amounts_that_average_zero(data: pd.DataFrame, kind: str) -> None:
    move = np.where(data["x1"] > data["x1"].median(), 0.2, -0.2)
    wide = data.assign(move=move)
    delta: Any = {
        "array": move,
        "function": lambda frame: np.where(frame["x1"] > data["x1"].median(), 0.2, -0.2),
        "other column": "move",
        "treatment": "where(d > 1, -.2, .2) + 0 * x1",
    }[kind]
    formula = "y ~ treat(d) + {treat(d) ** 2} + treat(d):x1 + x1 + C(k)"
    fit = riesz.shift(formula, wide, delta=delta, learner=EXACT, folds=1)
    moved = np.where(data["d"] > 1, -0.2, 0.2) if kind == "treatment" else move
    design = np.column_stack(
        [np.ones(600), data["d"], data["d"] ** 2, data["d"] * data["x1"], data["x1"], pd.get_dummies(data["k"])]
    )
    coefficients = np.linalg.lstsq(design.astype(float), data["y"], rcond=None)[0]
    there = design.copy().astype(float)
    there[:, 1:4] = np.column_stack([data["d"] + moved, (data["d"] + moved) ** 2, (data["d"] + moved) * data["x1"]])
    np.testing.assert_allclose(fit.params["shift"], ((there - design) @ coefficients).mean(), rtol=1e-6)
    if kind == "function":
        assert len(fit.predict(wide.iloc[:50])) == 50


def test_constant_amounts_keep_their_anchor(data: pd.DataFrame) -> None:
    for delta in (0.5, "0.5", np.full(600, 0.5), lambda frame: 0.5):
        fit = riesz.shift("y ~ treat(d) * x1", data, delta=delta)
        np.testing.assert_array_equal(fit.anchor["shift"], data["d"] - data["d"].mean())


def test_advice_on_anchors_can_be_followed(data: pd.DataFrame) -> None:
    noise = np.random.default_rng(1).permutation(np.repeat([-0.2, 0.2], 300))
    with pytest.raises(riesz.EstimandError, match=r"cannot be told from zero.*riesz\.CustomMoment\(..., anchor=...\)"):
        riesz.shift("y ~ treat(d) + x1", data, delta=noise)


def test_arrays_of_a_few_numbers_were_meant_as_a_list(data: pd.DataFrame) -> None:
    with pytest.raises(
        riesz.EstimandError, match=r"delta is an array of 5 values, but the data have 600 rows.*delta=list\("
    ):
        riesz.shift("y ~ treat(d) + x1", data, delta=np.linspace(0.1, 0.5, 5))
    fit = riesz.shift("y ~ treat(d) + x1", data, delta=list(np.linspace(0.1, 0.5, 5)))
    assert fit.params.index.tolist() == ["shift_0.1", "shift_0.2", "shift_0.3", "shift_0.4", "shift_0.5"]
    with pytest.raises(riesz.EstimandError, match=r"at is an array of 2 values.*at=list\("):
        riesz.mean("y ~ treat(a) + x1", data, at=np.array([0, 1]))
    with pytest.raises(riesz.EstimandError, match="wrong length"):
        riesz.shift("y ~ treat(d) + x1", data, delta=np.ones(599))


@pytest.mark.parametrize("treatment", ["a", "d", "arm"])
def test_mean_at_none(data: pd.DataFrame, treatment: str) -> None:
    arms = data.assign(arm=np.where(data["k"] > 1, "high", "low"))
    with pytest.raises(riesz.EstimandError, match=r"at is missing|at='None'"):
        riesz.mean(f"y ~ treat({treatment}) + x1", arms, at=None)
    with pytest.raises(riesz.EstimandError, match="delta is missing"):
        riesz.shift("y ~ treat(d) + x1", data, delta=[0.1, None])


# Treatments with atoms


@pytest.mark.parametrize(("verb", "options"), [("ade", {}), ("ipe", {"policy": "x1 > 0"}), ("shift", {"delta": 0.1})])
def test_treatments_with_atoms_are_a_warning(data: pd.DataFrame, verb: str, options: dict[str, Any]) -> None:
    ask = getattr(riesz, verb)
    rng = np.random.default_rng(3)
    bunched = data.assign(d=np.where(rng.uniform(size=600) < 0.4, 0.0, data["d"]))
    with pytest.warns(riesz.RieszWarning, match=r"Treatment `d` is heavily tied.*0 alone 4\d%.*leave those rows out"):
        ask("y ~ treat(d) + x1", bunched, **options)
    whole = data.assign(d=rng.integers(0, 12, 600).astype(float))
    with pytest.warns(riesz.RieszWarning, match=r"5 commonest values account for 4\d%.*`riesz.ate` on grouped values"):
        ask("y ~ treat(d) + x1", whole, **options)
    few = data.assign(d=np.where(np.arange(600) < 30, 2.5, data["d"]))
    with pytest.warns(riesz.RieszWarning, match=r"2.5 alone 5%"):
        ask("y ~ treat(d) + x1", few, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask("y ~ treat(d) + x1", data.assign(d=np.where(np.arange(600) < 29, 2.5, data["d"])), **options)
        ask("y ~ treat(d) + x1", data.iloc[:60], **options)


@pytest.mark.parametrize("name", ["continuous", "gasoline"])
def test_simulations_have_no_atoms(name: str) -> None:
    simulation = riesz.datasets.get(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        riesz.estimate(simulation.formula, simulation.draw(300, seed=1).data, next(iter(simulation.questions.values())))


# Warnings and memory


def noisy(x: Any) -> Any:
    warnings.warn("The user's own word.", UserWarning, stacklevel=1)
    np.mean([])  # a RuntimeWarning of numpy
    warnings.warn("soon gone", FutureWarning, stacklevel=1)
    return x


def test_warnings_of_other_packages_stay_inside(data: pd.DataFrame) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        riesz.ate("y ~ treat(a) + {noisy(x1)} + log(x2**2 + 1) + C(k)", data)
        riesz.ade("np.sqrt(np.exp(y)) ~ treat(d) + {np.log(np.abs(treat(d)) + 1)} + x1", data)
    assert {str(warning.message) for warning in caught} == {"The user's own word."}
    assert all(warning.filename == __file__ for warning in caught)


def test_what_is_not_finite_is_told(data: pd.DataFrame) -> None:
    with pytest.raises(riesz.DataError, match=r"`log\(x2\)` in the design is not finite on \d+ rows"):
        riesz.ate("y ~ treat(a) + log(x2)", data)
    with pytest.raises(riesz.DataError, match=r"not finite on \d+ rows"):
        riesz.ate("{1 / (x1 - x1)} ~ treat(a) + x2", data)
    with pytest.raises(riesz.EstimandError, match=r"not finite at \d+ counterfactual rows"):
        riesz.shift("y ~ log(treat(p)) + x1", data.assign(p=np.exp(data["d"])), delta=-1.0)
    with pytest.raises(riesz.FormulaError, match="complex numbers"):
        riesz.ate("y ~ treat(a) + {np.sqrt(x2 + 0j)}", data)


@pytest.mark.parametrize("place", ["columns", "outcome", "counterfactual"])
def test_running_out_of_memory_is_called_that(data: pd.DataFrame, place: str) -> None:
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


def test_evaluating_keeps_what_was_learned(data: pd.DataFrame) -> None:
    """The rows of a part are those of the whole."""
    formula = parse_formula("y ~ treat(a) + bs(x1, df=4) + scale(x2) + C(k)", list(data.columns), [], {})
    whole, spec = evaluate(formula.rhs, data, {})
    np.testing.assert_allclose(evaluate(spec, data.iloc[::-7], {})[0], whole[::-7], rtol=1e-12)
