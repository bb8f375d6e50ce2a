"""Checks of a treatment with many arms: the numbers by hand, row by row, and memory in proportion to what must be kept."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import riesz
from riesz.design.derived import with_parameters
from riesz.diagnostics.positivity import SCARCE, arm_weights
from riesz.inference import Weights, covariance, variances

OPTIONS = [{}, {"weights": "w"}, {"freq_weights": "f"}, {"cluster": "c"}]


def draw(arms: int, n: int, seed: int = 1) -> pd.DataFrame:
    """Arms that depend on x1, a treatment effect that grows with the arm's number, and a covariate with many zeros."""
    rng = np.random.default_rng([seed, arms, n])
    x1, x2 = rng.normal(size=(2, n))
    arm = np.floor(arms * expit(0.5 * x1 + rng.logistic(size=n))).astype(int)
    frame = pd.DataFrame({"x1": x1, "x2": np.maximum(x2, 0.0), "arm": [f"g{k:03d}" for k in arm]})
    frame["y"] = x1 + 0.1 * arm + rng.normal(size=n)
    frame["w"], frame["f"], frame["c"] = rng.uniform(0.5, 2, n), rng.integers(1, 4, n), rng.permutation(n) % 50
    return frame


def variance(terms: np.ndarray, share: np.ndarray, frequency: np.ndarray, codes: np.ndarray | None) -> float:
    """Of the weighted mean of terms."""
    centred = share * (terms - share @ terms)
    if codes is not None:
        return 50 / 49 * float((np.bincount(codes, centred) ** 2).sum())
    return frequency.sum() / (frequency.sum() - 1) * float((centred**2 / frequency).sum())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rows_of_the_balance_table_by_hand(options: dict[str, str]) -> None:
    """Of every arm's effect, for every function: f = t(a) g(x) has the moment E[f(arm, x) - f(reference, x)]."""
    frame = draw(8, 500)
    fit = riesz.ate("y ~ treat(arm) + x1 + x2", frame, **options)
    table = fit.balance(functions="all")
    frequency = frame["f"].to_numpy(float) if "freq_weights" in options else np.ones(500)
    share = frequency * (frame["w"].to_numpy() if "weights" in options else 1.0)
    share = share / share.sum()
    codes = frame["c"].to_numpy() if "cluster" in options else None
    residual, labels = fit.resid.to_numpy(), sorted(frame["arm"].unique())

    def centred(values: pd.Series) -> np.ndarray:
        return values.to_numpy(float) - share @ values.to_numpy(float)

    shapes = {"x1": centred(frame["x1"]), "x2": centred(frame["x2"]), "x2=0": centred(frame["x2"] == 0)}
    compared = 0
    for label in labels[1:]:
        name = f"ATE_{label}"
        rr = fit.riesz_representer[name].to_numpy()
        for t in ["", *labels[1:]]:
            at = np.ones(500) if not t else (frame["arm"] == t).to_numpy(float)
            read = 1.0 if t == label else 0.0  # t at the parameter's arm, minus t at the reference
            for g, values in {"1": np.ones(500), **shapes}.items():
                function = ":".join(filter(None, [t and f"arm[{t}]", g if g != "1" or not t else ""]))
                if (name, function) not in table.index:
                    continue
                row, f, moment = table.loc[(name, function)], at * values, read * values
                gap = rr * f - moment
                left, square = residual * f, share @ f**2
                expected = {
                    "moment": share @ moment,
                    "weighted": share @ (rr * f),
                    "imbalance": share @ gap,
                    "standardized": share @ gap / np.sqrt(square),
                    "residual_z": share @ left / np.sqrt(variance(left, share, frequency, codes)),
                    "effective_rows": square**2 / ((f**2 * share) ** 2 / frequency).sum(),
                    "implied_bias": -(share @ left) / square * (share @ gap) / fit.bse[name],
                }
                np.testing.assert_allclose(row[list(expected)].astype(float), list(expected.values()), atol=1e-12)
                error = np.sqrt(variance(gap, share, frequency, codes))
                if g == "x2=0":  # the larger of two
                    assert row["std_error"] >= error * (1 - 1e-12)
                else:
                    np.testing.assert_allclose(row["std_error"], error, rtol=1e-12, atol=1e-15)
                compared += 1
    assert compared == 7 * (4 + 7 * 4)


def test_unadjusted_imbalance_is_that_of_plain_means() -> None:
    frame = draw(8, 500)
    fit = riesz.ate("y ~ treat(arm) + x1", frame)
    x = frame["x1"] - frame["x1"].mean()
    means = x.groupby(frame["arm"]).mean()
    for label in means.index[1:]:
        expected = (means[label] - means.iloc[0]) / x.std(ddof=0)
        np.testing.assert_allclose(fit.balance().loc[(f"ATE_{label}", "x1"), "unadjusted"], expected)


def test_shares_of_scarce_rows_by_hand() -> None:
    """Rows where the parameter's arm or the reference has a propensity below a fraction of its size."""
    frame = draw(12, 900)
    frame["x1"] *= 3
    frame["arm"] = frame["arm"].where(frame["x1"] < 2, "g011")
    for estimand, within in ((riesz.ATE(), None), (riesz.ATT(), "own"), (riesz.ATC(), "g000")):
        fit = riesz.estimate("y ~ treat(arm) + x1 + x2", frame, estimand, weights="w")
        judged, labels = fit._parts.positivity, sorted(frame["arm"].unique())
        assert judged is not None
        share = (frame["w"] / frame["w"].sum()).to_numpy()
        scarce = judged.propensity < [SCARCE * share[frame["arm"] == label].sum() for label in labels]
        assert scarce.any()
        for place, label in enumerate(labels[1:]):
            rows = np.ones(900) if within is None else (frame["arm"] == (label if within == "own" else within)) * 1.0
            low = scarce[:, 0] | scarce[:, place + 1]
            np.testing.assert_allclose(judged.scarce[place], share @ (rows * low) / (share @ rows))
        for place, label in enumerate(labels):
            rows = (frame["arm"] == label).to_numpy()
            np.testing.assert_allclose(judged.scarce_in[place], share @ (rows & scarce.any(axis=1)) / (share @ rows))


def test_weights_of_arms_that_differ_between_rows() -> None:
    frame = draw(4, 300)
    low = (frame["x1"] < 0).to_numpy()
    policy = riesz.CustomMoment(
        lambda mu, data: 2 * mu(data.assign(arm=np.where(data["x1"] < 0, "g001", "g002"))) - mu(data), name="policy"
    )
    design = riesz.estimate("y ~ treat(arm) + x1", frame, policy)._parts.design
    (weights,) = arm_weights(design)
    assert weights is not None
    for code in range(4):
        expected = 2.0 * (low if code == 1 else ~low if code == 2 else np.zeros(300)) - (design.strata == code)
        np.testing.assert_array_equal(weights[code], expected)


def test_some_parameters_of_a_design() -> None:
    fit = riesz.ate("y ~ treat(arm) + x1", draw(6, 300))
    design, predictions, some = fit._parts.design, fit.predictions, np.array([1, 3, 4])
    part = design.links.part(some)
    fewer = with_parameters(design, part)
    np.testing.assert_array_equal(fewer.apply(predictions.rr.only(part)), design.apply(predictions.rr)[some])
    np.testing.assert_array_equal(fewer.apply(predictions.mu.only(part)), design.apply(predictions.mu)[some])
    np.testing.assert_array_equal(fewer.normalizer, design.normalizer[some])
    assert len(fewer.readings()) == 4  # three arms and the reference
    for column in range(5):
        assert design.readers(column).tolist() == [column]  # each indicator matters for one effect alone


@pytest.mark.parametrize("clusters", [0, 1, 2])
def test_variances_are_the_diagonal_of_the_covariance(clusters: int) -> None:
    rng = np.random.default_rng(3)
    variation, weights = rng.normal(size=(200, 4)), Weights(rng.uniform(1, 2, 200), rng.integers(1, 3, 200))
    codes = tuple(rng.integers(0, 20, 200) for _ in range(clusters))
    expected = np.diag(covariance(variation, weights, codes))
    np.testing.assert_allclose(variances(variation, weights, codes), expected, rtol=1e-12)


def test_a_summary_needs_little_memory() -> None:
    """A few arrays of a number per row and parameter, besides the fit and the table of shapes."""
    arms, n = 60, 8000
    fit = riesz.ate("y ~ treat(arm) + x1 + x2", draw(arms, n), learner=riesz.Linear(penalty=1.0, rr_penalty=1.0))
    tracemalloc.start()
    try:
        fit.summary()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    one_array, table = 8 * n * (arms - 1), 8 * 13 * len(fit.balance(functions="all"))
    assert peak < 12 * one_array + 4 * table
