"""Traps that a careful reader would set: each once gave a wrong number without a word."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import riesz


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    n = 1200
    x = rng.normal(size=n)
    g = rng.choice(["a", "b", "c", "d"], n, p=[0.4, 0.3, 0.2, 0.1])
    t = (rng.uniform(size=n) < 1 / (1 + np.exp(-x))).astype(float)
    return pd.DataFrame({"y": t * (1 + x) + x + rng.normal(size=n), "t": t, "x": x, "g": g})


def test_a_copy_of_the_treatment_among_the_covariates(data: pd.DataFrame) -> None:
    for copy in (data["t"], np.where(data["t"] == 1, "T", "C"), 3 - 2 * data["t"]):
        with pytest.raises(riesz.LearnerError, match=r"not identified.*repeats the treatment"):
            riesz.ate("y ~ treat(t) + .", data.assign(copy=copy))


def test_a_cell_without_treated_rows(data: pd.DataFrame) -> None:
    hole = data[~((data["g"] == "d") & (data["t"] == 1))]
    with pytest.raises(riesz.LearnerError, match=r"t:g\[T.d\].*no rows in one of the arms"):
        riesz.ate("y ~ treat(t) * (x + g)", hole)
    assert np.isfinite(riesz.ate("y ~ treat(t) * x + g", hole).bse).all()


def test_innocent_collinearity_changes_nothing(data: pd.DataFrame) -> None:
    options = {"learner": riesz.Linear(0, 0), "folds": np.arange(len(data)) % 5}
    plain = riesz.ate("y ~ treat(t) * x + g", data, **options)
    twice = riesz.ate("y ~ treat(t) * x + g + z + one", data.assign(z=2 * data["x"] - 3, one=1.0), **options)
    np.testing.assert_allclose(twice.params, plain.params, rtol=1e-8)
    np.testing.assert_allclose(twice.bse, plain.bse, rtol=1e-8)


@pytest.mark.parametrize("sigma", [0.5, 2.0, 3.0])
def test_derivative_of_a_skewed_treatment(sigma: float) -> None:
    """The tangents of log(treat(income)) are 1 / income, however skewed income is."""
    rng = np.random.default_rng(0)
    income = np.exp(sigma * rng.normal(size=2000))
    frame = pd.DataFrame({"y": np.log(income) + rng.normal(size=2000), "income": income})
    fit = riesz.ade("y ~ log(treat(income))", frame, folds=1, learner=riesz.Linear(0, 0))
    tangent = fit.model.blueprint.design.readings()[0].tangents[:, 0]
    np.testing.assert_allclose(tangent * income, 1.0, atol=1e-5)


def test_derivative_with_an_outlier() -> None:
    rng = np.random.default_rng(1)
    a, x = rng.normal(size=(2, 2000))
    frame = pd.DataFrame({"a": a, "x": x, "y": np.sin(a) + x + 0.1 * rng.normal(size=2000)})
    frame.loc[0, "a"] = 1e6
    fit = riesz.ade("y ~ {np.sin(treat(a))} + x", frame, folds=1, learner=riesz.Linear(0, 0))
    assert abs(fit.params["ADE"] - np.exp(-0.5)) < 0.03


def test_few_numeric_values_are_arms_for_every_estimand() -> None:
    rng = np.random.default_rng(2)
    dose = rng.integers(0, 3, 1500)
    x = rng.normal(size=1500)
    frame = pd.DataFrame({"dose": dose, "x": x, "y": 3 * (dose == 1) + x + rng.normal(size=1500)})
    one = riesz.CustomMoment(lambda mu, data: mu(data.assign(dose=1)) - mu(data.assign(dose=0)), name="one")
    fit = riesz.estimate("y ~ treat(dose) + x", frame, [riesz.ATE(), one])
    alone = riesz.estimate("y ~ treat(dose) + x", frame, one)
    np.testing.assert_allclose(fit.params["one"], alone.params["one"], rtol=1e-9)
    np.testing.assert_allclose(fit.params["one"], fit.params["ATE_1"], rtol=1e-3)
    capped = riesz.mean("y ~ treat(dose) + x", frame, at="where(dose == 2, 1, dose)")
    assert abs(capped.params["mean"] - 2.0) < 0.2
    with pytest.raises(riesz.EstimandError, match="a level that is not in the data"):
        riesz.mean("y ~ treat(dose) + x", frame, at="dose + 1")


def test_policy_effect_names_the_arm(data: pd.DataFrame) -> None:
    frame = data.assign(t=np.where(data["t"] == 1, "drug", "placebo"))
    said = riesz.ape("y ~ treat(t, reference='placebo') * x", frame, policy="x > 0")
    assert "assigned t=drug" in str(said.summary())
    unsaid = riesz.ape("y ~ treat(t) * x", frame, policy="x > 0")
    assert "assigned t=placebo" in str(unsaid.summary())


@pytest.mark.parametrize("top", [1e2, 1e4, 1e6])
def test_limits_far_away_do_no_harm(data: pd.DataFrame, top: float) -> None:
    frame = data.assign(y=data["y"] + 50)
    fit = riesz.ate("y ~ treat(t) * x", frame, estimator="tmle", bounds=(0, top))
    plain = riesz.ate("y ~ treat(t) * x", frame, estimator="tmle")
    np.testing.assert_allclose(fit.params, plain.params, atol=0.2 * plain.bse["ATE"])
    np.testing.assert_allclose(fit.bse, plain.bse, rtol=0.05)


def test_a_series_with_another_index(data: pd.DataFrame) -> None:
    shuffled = data.sample(frac=1.0, random_state=0)
    weights = pd.Series(np.random.default_rng(0).uniform(1, 2, len(data)), index=data.index)
    for keyword in ("weights", "cluster", "folds"):
        with pytest.raises(riesz.DataError, match="index differs from the data's"):
            riesz.ate("y ~ treat(t) + x", shuffled, **{keyword: weights})
    with pytest.raises(riesz.DataError, match="index differs from the data's"):
        riesz.ape("y ~ treat(t) + x", shuffled, policy=weights - 1)
    aligned = riesz.ate("y ~ treat(t) + x", shuffled, weights=weights.reindex(shuffled.index), folds=1)
    np.testing.assert_allclose(aligned.params, riesz.ate("y ~ treat(t) + x", data, weights=weights, folds=1).params)


def test_rows_of_weight_zero_are_not_in_the_sample(data: pd.DataFrame) -> None:
    frame = data.assign(w=(data["x"] > -0.5).astype(float), id=np.arange(len(data)) // 20)
    part = frame[frame["w"] > 0]
    options = {"cluster": "id", "folds": 1}
    zero = riesz.ate("y ~ treat(t) * bs(x, df=4)", frame, weights="w", **options)
    gone = riesz.ate("y ~ treat(t) * bs(x, df=4)", part, **options)
    np.testing.assert_allclose(zero.params, gone.params, rtol=1e-10)
    np.testing.assert_allclose(zero.bse, gone.bse, rtol=1e-10)
    assert zero.nobs == gone.nobs


def test_effective_sample_size_counts_frequencies(data: pd.DataFrame) -> None:
    options = {"folds": 1, "learner": riesz.Linear(0.01, 0.01)}
    counted = riesz.ate("y ~ treat(t) * x", data, freq_weights=np.full(len(data), 3), **options)
    stacked = riesz.ate("y ~ treat(t) * x", pd.concat([data] * 3), **options)
    np.testing.assert_allclose(counted.diagnostics(), stacked.diagnostics(), rtol=1e-8)


def test_remarks(data: pd.DataFrame) -> None:
    assert "no interaction with the treatment" in str(riesz.ate("y ~ treat(t) + x", data).summary())
    assert "no interaction" not in str(riesz.ate("y ~ treat(t) * x", data).summary())
    few = riesz.ate("y ~ treat(t) * x", data.assign(c=np.arange(len(data)) % 8), cluster="c")
    assert "Only 8 clusters" in str(few.summary())
    rng = np.random.default_rng(3)
    wide = pd.DataFrame(rng.normal(size=(150, 50)), columns=[f"v{j}" for j in range(50)]).assign(
        t=np.arange(150) % 2, y=rng.normal(size=150)
    )
    poor = riesz.ate("y ~ treat(t) * .", wide, learner=riesz.Linear(0, 0), folds=5)
    assert "misses a known value" in str(poor.summary())


def test_a_misspelt_keyword(data: pd.DataFrame) -> None:
    with pytest.raises(TypeError, match=r"riesz.ate\(\) has no keyword 'clusters'. Did you mean `cluster`"):
        riesz.ate("y ~ treat(t)", data, clusters="g")


def test_the_logit_penalty_is_the_one_asked_for(data: pd.DataFrame) -> None:
    frame = data.assign(y=(data["y"] > 0).astype(float))
    fit = riesz.ate("y ~ treat(t) * x", frame, family="binomial", learner=riesz.Linear(0.1, 0.1))
    np.testing.assert_allclose(fit.details()["penalty"], 0.1, rtol=1e-6)


def test_policies_in_a_fresh_process() -> None:
    """numpy imports parts of itself when a function is first called, also where policies cannot."""
    code = (
        "import riesz; data = riesz.datasets.get('binary').draw(200, seed=1).data; mean = data['x1'].mean()\n"
        "fit = riesz.ape('y ~ treat(a) + x1', data, policy='clip(x1 > mean, 0.1, 0.9)', learner='linear', folds=2)\n"
        "print(fit.nobs)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "200", done.stderr
