"""Calibration: exact properties of its blocks, what it mends, what it refuses, and its bootstrap."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from known import Known

import riesz
from riesz.crossfit.calibration import ROWS_OF_MU, ROWS_OF_RR, apply, blocks_of, find_calibration
from riesz.design.arm_numbers import reading_arms
from riesz.design.design import Design
from riesz.predictions import Predictions

FORMULA = "y ~ treat(a) * (x1 + x2)"
STACK = riesz.Stack([riesz.Linear(penalty=0, rr_penalty=0), riesz.Linear(penalty=30.0)])


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return riesz.datasets.get("binary").draw(600, seed=1).data


def parts(fit: riesz.Results) -> tuple[Predictions, Design]:
    return fit._crossfit.predictions[0], fit.model.blueprint.design


@pytest.mark.parametrize("kind", ["levels", "isotonic"])
@pytest.mark.parametrize("weights", [None, "w"])
def test_errors_of_mu_average_to_zero_in_every_block(data: pd.DataFrame, kind: Any, weights: str | None) -> None:
    weighted = data.assign(w=np.random.default_rng(0).uniform(0.5, 2, len(data)))
    fit = riesz.ate(FORMULA, weighted, learner="linear", calibrate=kind, weights=weights)
    crossfit, design = fit._crossfit, fit.model.blueprint.design
    arms = reading_arms(design)
    assert arms is not None
    mu, before = crossfit.predictions[0].mu.observed, crossfit.uncalibrated[0].mu.observed
    for arm, steps in enumerate(crossfit.calibration[0].mu):
        assert steps is not None
        assert (np.diff(steps.starts) > 0).all()
        rows = arms[0] == arm
        block = np.searchsorted(steps.starts, before[rows], side="right")
        sums = np.bincount(block, design.weights[rows] * (design.y[rows] - mu[rows]))
        np.testing.assert_allclose(sums, 0.0, atol=1e-9 * len(data))
        assert np.bincount(block).min() >= ROWS_OF_MU
        if kind == "isotonic":
            assert (np.diff(steps.values) > 0).all()


def test_calibrated_rr_balances_its_blocks_and_has_its_best_scale(data: pd.DataFrame) -> None:
    """E_n[rr g] = h_n(g) for every function g of arm and block; so h_n(rr) = E_n[rr^2], and dr and tmle agree."""
    fit = riesz.estimate(FORMULA, data, [riesz.ATE(), riesz.Mean(at=1)], learner="linear", calibrate="isotonic")
    predictions, design = parts(fit)
    np.testing.assert_allclose(design.mean(design.apply(predictions.rr)), design.mean(predictions.rr.observed**2))
    estimates = fit.estimates["estimate"].unstack("estimator")
    np.testing.assert_allclose(estimates["dr"], estimates["tmle"], rtol=1e-10)
    steps, arms = fit._crossfit.calibration[0], reading_arms(design)
    assert arms is not None
    before = fit._crossfit.uncalibrated[0].rr.observed[0]
    for arm, of_arm in enumerate(steps.rr[0]):
        assert of_arm is not None
        block = np.searchsorted(of_arm.starts, before[arms[0] == arm], side="right")
        assert np.bincount(block).min() >= ROWS_OF_RR
        assert np.isfinite(of_arm.values).all()
    assert (predictions.rr.observed[1][arms[0] == 0] == 0).all()  # the mean at 1 does not read arm 0


def test_isotonic_propensities_are_those_of_the_published_method() -> None:
    """In a block the calibrated weight of an arm is the number of rows over the number of rows in the arm."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=2000)
    p = 1 / (1 + np.exp(-x))
    a = (rng.uniform(size=2000) < p).astype(float)
    sample = pd.DataFrame({"y": a + x + rng.normal(size=2000), "a": a, "x": x})
    wrong = p**2  # a monotone function of the propensity
    fit = riesz.ate("y ~ treat(a) + x", sample, learner=Known((x, 1 + x), wrong), folds=1, calibrate="isotonic")
    steps = fit._crossfit.calibration[0].rr[0][1]
    assert steps is not None
    block = np.searchsorted(steps.starts, 1 / wrong, side="right")
    np.testing.assert_allclose(steps.values, np.bincount(block) / np.bincount(block, a))
    raw = riesz.ate("y ~ treat(a) + x", sample, learner=Known((x, 1 + x), wrong), folds=1)
    treated = a == 1
    error = [np.mean((f.riesz_representer["ATE"][treated] - 1 / p[treated]) ** 2) for f in (raw, fit)]
    assert error[1] < 0.2 * error[0]


@pytest.mark.parametrize("kind", ["levels", "isotonic"])
def test_a_mu_that_is_monotone_in_the_truth_is_mended(kind: Any) -> None:
    """With a wrong rr as well, the one-step estimate is biased without calibration."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=4000)
    p = 1 / (1 + np.exp(-1.5 * x))
    a = (rng.uniform(size=4000) < p).astype(float)
    mu = np.exp(x)
    sample = pd.DataFrame({"y": a + mu + rng.normal(size=4000), "a": a, "x": x})
    known = Known((x, 1 + x), np.full(4000, 0.5))
    raw = riesz.ate("y ~ treat(a) + x", sample, learner=known, folds=1)
    fit = riesz.ate("y ~ treat(a) + x", sample, learner=known, folds=1, calibrate=kind)
    assert abs(raw.params["ATE"] - 1) > 0.5
    assert abs(fit.params["ATE"] - 1) < 0.25


def test_stacks_are_calibrated_by_default_and_single_learners_are_not(data: pd.DataFrame) -> None:
    stacked = riesz.ate(FORMULA, data, learner=STACK)
    assert len(stacked._crossfit.calibration) == 1
    assert stacked._crossfit.calibration[0].rr == ()
    assert "Calibrated" in str(stacked.summary())
    assert stacked.params.equals(riesz.ate(FORMULA, data, learner=STACK, calibrate="levels").params)
    assert not riesz.ate(FORMULA, data, learner=STACK, calibrate=None)._crossfit.calibration
    assert not riesz.ate(FORMULA, data, learner="linear")._crossfit.calibration


def test_questions_about_slopes_are_refused_when_asked_for() -> None:
    continuous = riesz.datasets.get("continuous").draw(300, seed=1).data
    stack = riesz.Stack([riesz.Linear(), riesz.Linear(penalty=30.0)])
    assert not riesz.ade("y ~ treat(a) + .", continuous, learner=stack)._crossfit.calibration
    with pytest.raises(riesz.LearnerError, match="a step has no slope"):
        riesz.ade("y ~ treat(a) + .", continuous, learner=stack, calibrate="levels")
    with pytest.raises(riesz.LearnerError, match=r"calibrate=.isotonc. is not known\. Did you mean .isotonic."):
        riesz.ade("y ~ treat(a) + .", continuous, calibrate="isotonc")


@pytest.mark.parametrize("kind", ["levels", "isotonic"])
def test_invariances(data: pd.DataFrame, kind: Any) -> None:
    def fit(frame: pd.DataFrame) -> riesz.Results:
        return riesz.ate(FORMULA, frame, learner="linear", calibrate=kind, folds="fold")

    given = data.assign(fold=np.arange(len(data)) % 5)
    base, shifted = fit(given), fit(given.assign(y=lambda d: 3 * d["y"] + 100))
    np.testing.assert_allclose(shifted.params, 3 * base.params, rtol=1e-9)
    np.testing.assert_allclose(shifted.bse, 3 * base.bse, rtol=1e-9)
    mixed = fit(given.sample(frac=1, random_state=1))
    np.testing.assert_allclose(mixed.params, base.params, rtol=1e-9)


def test_small_arms_and_binary_outcomes(data: pd.DataFrame) -> None:
    few = pd.concat([data[data["a"] == 1].head(30), data[data["a"] == 0].head(200)])
    fit = riesz.ate("y ~ treat(a) + x1", few, learner="linear", calibrate="isotonic")
    steps = fit._crossfit.calibration[0]
    assert steps.mu[1] is None
    assert steps.mu[0] is not None
    binary = data.assign(y=(data["y"] > 0.5).astype(float))
    mu = riesz.ate(FORMULA, binary, family="binomial", learner=STACK).fittedvalues
    assert mu.between(0, 1).all()


def test_blocks_of_clusters_have_two_of_them() -> None:
    s = np.arange(40.0)
    groups = np.repeat(np.arange(4), 10)
    labels = blocks_of(s, np.ones(40, dtype=bool), 5, groups)
    for block in np.unique(labels):
        assert len(np.unique(groups[labels == block])) >= 2
    assert len(np.unique(labels)) > 1


@pytest.mark.parametrize("kind", ["levels", "isotonic"])
def test_files_and_new_rows(data: pd.DataFrame, tmp_path: Any, kind: Any) -> None:
    fit = riesz.ate(FORMULA, data, learner=STACK, calibrate=kind, trim=8.0, folds=1)
    table = fit.predict(data)
    np.testing.assert_allclose(table["mu"], fit.fittedvalues, rtol=1e-10)
    np.testing.assert_allclose(table["rr_ATE"], fit.riesz_representer["ATE"], rtol=1e-10)
    fit.save(tmp_path / "fit.riesz")
    loaded = riesz.load(tmp_path / "fit.riesz")
    assert loaded.params.equals(fit.params)
    assert str(loaded.summary()) == str(fit.summary())
    pd.testing.assert_frame_equal(loaded.predict(data), table)
    pd.testing.assert_frame_equal(loaded.bootstrap(20), fit.bootstrap(20))


def test_applying_to_the_sample_gives_its_predictions(data: pd.DataFrame) -> None:
    fit = riesz.ate(FORMULA, data, learner="linear")
    predictions, design = parts(fit)
    calibration = find_calibration(predictions, design, "isotonic")
    once = apply(predictions, calibration, design)
    again = apply(once, find_calibration(once, design, "isotonic"), design)
    np.testing.assert_allclose(
        again.mu.observed, once.mu.observed, rtol=1e-9
    )  # calibrated predictions stay as they are


def test_the_bootstrap_agrees_with_the_influence_function(data: pd.DataFrame) -> None:
    plain = riesz.ate(FORMULA, data, learner="linear")
    table = plain.bootstrap(2000, seed=1)
    assert table.loc["ATE", "std_error"] == pytest.approx(plain.bse["ATE"], rel=0.06)
    low, high = plain.conf_int().loc["ATE"]
    np.testing.assert_allclose(table.loc["ATE", ["conf_low", "conf_high"]], [low, high], atol=0.15 * (high - low))
    assert table.equals(plain.bootstrap(2000, seed=1))
    calibrated = riesz.ate(FORMULA, data, learner="linear", calibrate="isotonic")
    assert calibrated.bootstrap(200).loc["ATE", "std_error"] == pytest.approx(calibrated.bse["ATE"], rel=0.3)


def test_the_bootstrap_draws_clusters_and_frequencies(data: pd.DataFrame) -> None:
    copies = pd.concat([data] * 4, ignore_index=True).assign(id=np.tile(np.arange(len(data)), 4), fold=0)
    copies["fold"] = copies["id"] % 5
    clustered = riesz.ate(FORMULA, copies, learner="linear", cluster="id", folds="fold")
    assert clustered.bootstrap(1000).loc["ATE", "std_error"] == pytest.approx(clustered.bse["ATE"], rel=0.08)
    weighted = riesz.ate(FORMULA, data.assign(f=3), learner="linear", freq_weights="f")
    assert weighted.bootstrap(1000).loc["ATE", "std_error"] == pytest.approx(weighted.bse["ATE"], rel=0.08)


def test_the_bootstrap_refuses_what_it_cannot_do(data: pd.DataFrame) -> None:
    fit = riesz.ate(FORMULA, data, learner="linear")
    with pytest.raises(riesz.RieszError, match="draws=1: expected a whole number, 2 or larger"):
        fit.bootstrap(1)
    with pytest.raises(riesz.RieszError, match="alpha"):
        fit.bootstrap(alpha=2)
    with pytest.raises(riesz.RieszError, match="target='sample'"):
        riesz.ate(FORMULA, data, learner="linear", target="sample").bootstrap()
    with pytest.raises(riesz.RieszError, match="direct"):
        riesz.ate(FORMULA, data, learner="linear", estimator="direct").bootstrap()


def test_a_calibration_that_was_tampered_with_is_refused(data: pd.DataFrame) -> None:
    from riesz.results.file_checks import check_calibration

    fit = riesz.ate(FORMULA, data, learner=STACK)
    (calibration,), design = fit._crossfit.calibration, fit.model.blueprint.design
    check_calibration((calibration,), 1, design)
    steps = calibration.mu[0]
    assert steps is not None
    for wrong in (
        replace(steps, starts=steps.starts[::-1]),
        replace(steps, values=steps.values[:-1]),
        replace(steps, values=np.full_like(steps.values, np.nan)),
    ):
        with pytest.raises(ValueError, match=r"calibrat|block"):
            check_calibration((replace(calibration, mu=(wrong, calibration.mu[1])),), 1, design)
    with pytest.raises(ValueError, match="arm"):
        check_calibration((replace(calibration, mu=calibration.mu[:1]),), 1, design)
