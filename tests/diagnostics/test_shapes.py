"""Balance of squares, bins, mass points and products: by hand, at its level, and where both mu and rr miss something."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from known import Known
from scipy.special import expit

import riesz
from riesz.diagnostics.balance import joint_p_values
from riesz.diagnostics.shapes import shapes
from riesz.diagnostics.warnings import FAMILY
from riesz.results.checks import gather_evidence

FORMULA = "y ~ treat(a) * (x1 + x2 + x3)"


def zero_inflated(n: int, seed: int) -> pd.DataFrame:
    """A confounder with 40% zeros and a jump there; the effect is 1."""
    rng = np.random.default_rng(seed)
    z = np.where(rng.uniform(size=n) < 0.4, 0.0, rng.exponential(size=n))
    a = (rng.uniform(size=n) < np.where(z == 0, 0.75, 0.25)).astype(float)
    return pd.DataFrame({"y": a + 3 * (z == 0) + np.log1p(z) + rng.normal(size=n), "a": a, "z": z})


def draw(n: int, seed: int) -> tuple[pd.DataFrame, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Data with a skewed, a discrete and a zero-inflated covariate; mu is linear in each arm."""
    rng = np.random.default_rng([seed, n])
    x1, x2 = rng.normal(size=n), rng.poisson(2.0, n).astype(float)
    x3 = np.where(rng.uniform(size=n) < 0.4, 0.0, rng.exponential(size=n))
    p = 0.05 + 0.9 * expit(x1 + 0.7 * (x3 - 0.6))
    a = (rng.uniform(size=n) < p).astype(float)
    mu = (x1 + x3, 1 + 1.5 * x1 + 0.2 * x2)
    y = np.where(a == 1, mu[1], mu[0]) + rng.normal(size=n)
    frame = pd.DataFrame({"y": y, "a": a, "x1": x1, "x2": x2, "x3": x3, "w": rng.uniform(0.3, 3, n)})
    frame["f"], frame["c"] = rng.integers(1, 4, n), np.sort(rng.integers(0, 60, n))
    return frame.assign(d=x1 + rng.normal(size=n)), mu, p


def one(table: pd.DataFrame, name: str) -> pd.Series:
    return table.loc[("ATE", name)]


@pytest.mark.parametrize("options", [{}, {"weights": "w"}, {"freq_weights": "f"}, {"cluster": "c"}], ids=str)
def test_rows_by_hand(options: dict[str, str]) -> None:
    """For the ATE: weighted differences of f between arms, f centred; errors as those of any weighted mean."""
    frame = draw(600, seed=1)[0]
    fit = riesz.ate(FORMULA, frame, **options)
    table = fit.balance(functions="all")
    rr, a = fit.riesz_representer["ATE"].to_numpy(), frame["a"].to_numpy()
    sampling = frame["w"].to_numpy() if "weights" in options else np.ones(600)
    frequency = frame["f"].to_numpy() if "freq_weights" in options else np.ones(600)
    share = sampling * frequency / (sampling * frequency).sum()
    f = (frame["x3"] == 0).to_numpy().astype(float)
    f -= share @ f
    for name, t, known in (("x3=0", np.ones(600), 0 * f), ("a:x3=0", a, f)):
        row, gap = one(table, name), rr * t * f - known
        np.testing.assert_allclose(row["imbalance"], share @ gap)
        np.testing.assert_allclose([row["weighted"], row["moment"]], [share @ (rr * t * f), share @ known], atol=1e-12)
        centred = (gap - share @ gap) * share
        if "cluster" in options:
            square = 60 / 59 * (np.bincount(frame["c"], centred) ** 2).sum()
        else:
            square = frequency.sum() / (frequency.sum() - 1) * (centred**2 / frequency).sum()
        assert row["std_error"] >= np.sqrt(square) * (1 - 1e-9)
        assert row["std_error"] <= 1.5 * np.sqrt(square)
        residual = fit.resid.to_numpy()
        delta = (share @ (residual * t * f)) / (share @ (t * f) ** 2)
        np.testing.assert_allclose(row["implied_bias"], -delta * row["imbalance"] / fit.bse["ATE"])
        assert row["z"] == pytest.approx(row["imbalance"] / row["std_error"])
    assert set(table["kind"]) >= {"covariate", "square", "mass point", "bin", "product"}


def test_the_default_table_stays_short_and_words_are_checked() -> None:
    fit = riesz.ate(FORMULA, draw(300, seed=2)[0])
    short, full = fit.balance(), fit.balance(functions="all")
    pd.testing.assert_frame_equal(full.iloc[: len(short)], short)
    assert set(short["kind"]) == {"anchor", "constant", "covariate", "interaction"}
    with pytest.raises(riesz.RieszError, match="functions='every': expected 'formula' or 'all'"):
        fit.balance(functions="every")  # type: ignore[arg-type]


def test_several_parameters_keep_their_rows_together() -> None:
    fit = riesz.estimate(FORMULA, draw(300, seed=3)[0], [riesz.ATE(), riesz.ATT()])
    table = fit.balance(functions="all")
    names = table.index.get_level_values("parameter")
    assert list(dict.fromkeys(names)) == ["ATE", "ATT"]
    assert (names == "ATE").sum() == (names == "ATT").sum() == len(table) / 2


def test_frequencies_are_copies() -> None:
    frame, mu, p = draw(200, seed=4)
    copies = np.repeat(np.arange(200), frame["f"])
    counted = riesz.ate(FORMULA, frame, freq_weights="f", learner=Known(mu, p), folds=1)
    repeated = riesz.ate(
        FORMULA,
        frame.iloc[copies].reset_index(drop=True),
        learner=Known((mu[0][copies], mu[1][copies]), p[copies]),
        folds=1,
    )
    columns = ["imbalance", "z", "implied_bias", "residual_z", "effective_rows"]
    left, right = (fit.balance(functions="all")[columns] for fit in (counted, repeated))
    names = ["x3=0", "a:x3=0"]
    np.testing.assert_allclose(left.loc[("ATE", names), :], right.loc[("ATE", names), :], rtol=1e-8)


def test_a_derivative_balances_functions_of_covariates_alone() -> None:
    """The slope of f(x) along the treatment is zero, that of (d - mean) f(x) is f(x)."""
    frame = draw(500, seed=5)[0]
    fit = riesz.ade("y ~ treat(d) * (x1 + x3)", frame)
    table = fit.balance(functions="all").loc["ADE"]
    rr, f = fit.riesz_representer["ADE"].to_numpy(), (frame["x3"] == 0).to_numpy().astype(float)
    f -= f.mean()
    np.testing.assert_allclose(
        table.loc["x3=0", ["moment", "weighted"]].astype(float), [0, (rr * f).mean()], atol=1e-12
    )
    d = (frame["d"] - frame["d"].mean()).to_numpy()
    np.testing.assert_allclose(table.loc["d:x3=0", "weighted"], (rr * d * f).mean())
    np.testing.assert_allclose(table.loc["d:x3=0", "moment"], f.mean(), atol=1e-12)


def test_a_covariate_that_a_reading_moves_is_evaluated_there() -> None:
    moment = riesz.CustomMoment(lambda mu, data: mu(data.assign(a=1.0, x1=data["x1"] + 1)), name="moved")
    frame = draw(400, seed=6)[0]
    table = riesz.estimate("y ~ treat(a) * (x1 + x3)", frame, moment).balance(functions="all").loc["moved"]
    x = (frame["x1"] - frame["x1"].mean()).to_numpy()
    np.testing.assert_allclose(table.loc["x1^2", "moment"], ((x + 1) ** 2).mean() - (x**2).mean())
    assert "x3=0" in table.index
    assert not any(name.startswith("x1<") for name in table.index)  # bins of x1 are not known at the readings


def test_shapes_of_a_covariate() -> None:
    rng = np.random.default_rng(7)
    numeric = {"z": np.where(rng.uniform(size=1000) < 0.4, 0.0, rng.exponential(size=1000)), "b": np.arange(1000) % 2.0}
    rows = [(kind, name, values) for kind, name, values in shapes(numeric, {"z": 1.0, "b": 0.5})]
    names = {name: values for _, name, values in rows}
    assert names["z=0"].sum() == (numeric["z"] == 0).sum()
    bins = [values for kind, name, values in rows if kind == "bin"]
    assert (sum(bins) <= 1).all()
    assert min(values.sum() for values in bins) >= 20
    assert not any(name.startswith(("b=", "b^", "b<", "b>")) for name in names)  # two values have no shape
    assert "z:b" in names
    many = {f"x{j}": rng.normal(size=300) for j in range(30)}
    products = [name for kind, name, _ in shapes(many, {name: float(name[1:]) for name in many}) if kind == "product"]
    assert len(products) == 15
    assert "x29:x28" in products


# level and power


def family(fit: riesz.Results) -> bool:
    """Whether any row is significant at the level of the family, however small its bias."""
    evidence = gather_evidence(fit._parts)
    clusters = np.inf if evidence.codes is None else len(np.unique(evidence.codes))
    return any(
        (joint_p_values(table, clusters) * len(table)).min() <= FAMILY / 2
        for table in (evidence.balance, evidence.shapes)
    )


RIGHT: dict[str, Callable[[pd.DataFrame, tuple[np.ndarray, np.ndarray], np.ndarray], riesz.Results]] = {
    "linear": lambda frame, mu, p: riesz.ate(FORMULA, frame),
    "both known": lambda frame, mu, p: riesz.ate(FORMULA, frame, learner=Known(mu, p), folds=1),
    "mu known": lambda frame, mu, p: riesz.ate(FORMULA, frame, learner=Known(mu, np.full_like(p, p.mean())), folds=1),
    "rr known": lambda frame, mu, p: riesz.ate(FORMULA, frame, learner=Known((0 * p, 0 * p), p), folds=1),
    "clusters": lambda frame, mu, p: riesz.ate(FORMULA, frame, cluster="c"),
    "weights": lambda frame, mu, p: riesz.ate(FORMULA, frame, weights="w"),
    "derivative": lambda frame, mu, p: riesz.ade(
        "y ~ treat(d) * (x1 + x2 + x3)", frame.assign(y=frame["y"] + frame["d"])
    ),
}


@pytest.mark.parametrize("name", ["linear", "both known", "mu known", "rr known"])
def test_false_alarms_are_as_rare_as_stated(name: str) -> None:
    """At most 1% of fits in which mu or rr is right: of 40, three or more would have probability 0.7%."""
    alarms = sum(family(RIGHT[name](*draw(400, seed))) for seed in range(40))
    assert alarms <= 2


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 1000])
@pytest.mark.parametrize("name", RIGHT)
def test_false_alarms_of_many_fits(name: str, n: int) -> None:
    """Of 300 fits with probability 1%, eight or more would have probability 1%."""
    assert sum(family(RIGHT[name](*draw(n, seed))) for seed in range(300)) <= 7


@pytest.mark.parametrize("n", [1000, 4000])
@pytest.mark.parametrize("formula", ["y ~ treat(a) + z", "y ~ treat(a) * z"])
def test_a_jump_at_zero_is_reported(n: int, formula: str) -> None:
    for seed in range(8):
        fit = riesz.ate(formula, zero_inflated(n, seed))
        assert abs(fit.params["ATE"] - 1) > 3 * fit.bse["ATE"]
        assert any("mu and rr both miss z=0" in text for text in fit.warnings())


def test_the_jump_in_the_formula_is_not() -> None:
    for seed in range(8):
        fit = riesz.ate("y ~ treat(a) + np.log1p(z) + I(z == 0)", zero_inflated(1000, seed))
        assert fit.warnings() == []
