"""Overlap, judged by a separate propensity: its accuracy, its warnings, and the alternatives that they recommend."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from known import Known
from scipy.special import expit

import riesz
from riesz.diagnostics import warnings as concerns
from riesz.diagnostics.positivity import crump
from riesz.results.checks import gather_evidence


def strong(n: int, p: int, seed: int, spread: float = 4.0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Confounding with a logit of that standard deviation, mu bent where overlap is weak: data, propensity, effects."""
    rng = np.random.default_rng([seed, n, p])
    x = rng.normal(size=(n, p))
    index = (x[:, 0] + x[:, 1] - x[:, 2]) / np.sqrt(3)
    propensity = expit(spread * index)
    a = (rng.uniform(size=n) < propensity).astype(float)
    effect = 1 + 0.5 * x[:, 0]
    bent = 2 * np.sign(index) * np.maximum(np.abs(index) - 1, 0) ** 1.5
    y = index + bent + a * effect + rng.normal(size=n)
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(p)]).assign(a=a, y=y), propensity, effect


def test_propensities_are_learned_out_of_fold() -> None:
    frame, truth, _ = strong(3000, 5, seed=1, spread=1.5)
    fit = riesz.ate("y ~ treat(a) + .", frame)
    judged = fit._parts.positivity
    assert judged is not None
    np.testing.assert_allclose(judged.propensity.sum(axis=1), 1)
    assert np.sqrt(np.mean((judged.propensity[:, 1] - truth) ** 2)) < 0.06
    noise = frame.assign(a=np.random.default_rng(2).integers(0, 2, 3000) * 1.0)
    fit = riesz.ate("y ~ treat(a) + .", noise)
    assert fit._parts.positivity.propensity.std() < 0.03  # type: ignore[union-attr]


def test_crumps_rule_minimises_the_variance_bound() -> None:
    """Among all cuts, alpha makes E[1/(p(1-p)) | kept] / P(kept) smallest: the bound of the effect on the rows kept."""
    rng = np.random.default_rng(3)
    p = expit(3 * rng.normal(size=4000))
    weights = rng.uniform(0.5, 2, 4000)
    kept, gamma = crump(np.column_stack([1 - p, p]), weights)
    g = 1 / (p * (1 - p))
    assert (kept == (g <= gamma)).all()

    def bound(rows: np.ndarray) -> float:
        share = weights[rows].sum() / weights.sum()
        return float(np.average(g[rows], weights=weights[rows]) / share)

    best = bound(kept)
    cuts = np.linspace(0.005, 0.3, 120)
    assert best <= min(bound((p > cut) & (p < 1 - cut)) for cut in cuts) * (1 + 1e-9)
    everywhere, none = crump(np.full((50, 2), 0.5), np.ones(50))
    assert everywhere.all()
    assert np.isinf(none)


def test_failing_overlap_is_the_first_note_of_every_biased_fit() -> None:
    missed = 0
    for seed in range(10):
        frame, _, effect = strong(1000 + 100 * seed, 5 + seed % 6, seed)
        fit = riesz.ate("y ~ treat(a) * .", frame)
        missed += abs(fit.params["ATE"] - effect.mean()) > 1.96 * fit.bse["ATE"]
        assert fit.warnings()[0].startswith("Overlap fails for ATE")
        assert fit.summary().notes[0] == fit.warnings()[0]
    assert missed >= 8


def test_failing_overlap_is_found_where_rr_looks_unproblematic() -> None:
    frame, p, effect = strong(1000, 5, seed=4)
    mu = frame["y"].to_numpy() * 0
    fit = riesz.ate("y ~ treat(a) + .", frame, learner=Known((mu, mu + effect), np.clip(p, 0.2, 0.8)), folds=1)
    assert fit.diagnostics().loc["ATE", "largest_rr"] < 6
    assert fit.warnings()[0].startswith("Overlap fails for ATE")


def test_the_effect_on_the_rows_with_overlap_is_found() -> None:
    inside = []
    for seed in range(30):
        frame, propensity, effect = strong(1500, 5, seed)
        kept = riesz.ate("y ~ treat(a) * .", frame).overlap_rows()
        assert 0.3 < kept.mean() < 0.7
        assert ((propensity[kept] > 0.01) & (propensity[kept] < 0.99)).all()
        fit = riesz.ate("y ~ treat(a) * .", frame[kept])
        assert not any("Overlap fails" in text for text in fit.warnings())
        inside.append(abs(fit.params["ATE"] - effect[kept].mean()) < 1.96 * fit.bse["ATE"])
    assert sum(inside) >= 24  # 22 or fewer of 30 have probability 0.02% at 95%, 3% at 87%


def test_the_mask_has_the_index_of_the_data() -> None:
    frame = strong(600, 5, seed=5)[0].set_index(pd.Index([f"r{i}" for i in range(600)]))
    frame.loc["r7", "x1"] = np.nan
    kept = riesz.ate("y ~ treat(a) + .", frame).overlap_rows()
    assert kept.index.equals(frame.index)
    assert kept.dtype == bool
    assert not kept["r7"]
    assert len(frame[kept]) == kept.sum()


def test_good_overlap_raises_no_alarm() -> None:
    """At even seeds; a level of 5% is stated."""
    alarms, fits = 0, 0
    for seed in range(0, 120, 2):
        world = riesz.datasets.random_world(seed, "binary")
        if world.factors["overlap"] == "good" and world.n < 2500:
            fit = riesz.estimate(world.formula, world.draw(), [riesz.ATE(), riesz.ATT()], folds=2, **world.keywords)
            alarms += any(text.startswith("Overlap") for text in fit.warnings())
            fits += 1
    assert fits >= 10
    assert alarms == 0


@pytest.mark.parametrize("name", ["binary", "continuous", "arms", "clustered", "binary_outcome"])
def test_simulations_with_overlap_raise_no_alarm(name: str) -> None:
    simulation = riesz.datasets.get(name)
    for seed in range(4):
        data, estimand = simulation.draw(500, seed=seed).data, next(iter(simulation.questions.values()))
        fit = riesz.estimate(simulation.formula, data, estimand, **simulation.keywords)
        assert not any("Overlap" in text for text in fit.warnings())


def test_one_sided_overlap_recommends_the_effect_that_it_identifies() -> None:
    """Some rows are never treated; every treated row has controls: the ATT has overlap, the ATE has not."""
    rng = np.random.default_rng(6)
    x1, x2 = rng.normal(size=(2, 3000))
    a = (rng.uniform(size=3000) < 0.6 * expit(4 * x1)).astype(float)
    frame = pd.DataFrame({"y": a + x1 + rng.normal(size=3000), "a": a, "x1": x1, "x2": x2})
    fit = riesz.estimate("y ~ treat(a) * (x1 + x2)", frame, [riesz.ATE(), riesz.ATT()])
    assert "Overlap fails for ATE" in fit.warnings()[0]
    assert "or riesz.att, which needs overlap on one side only, where it holds" in fit.warnings()[0]
    assert not any("Overlap fails" in text for text in riesz.att("y ~ treat(a) * (x1 + x2)", frame).warnings())
    both = riesz.ate("y ~ treat(a) * .", strong(1000, 5, seed=7)[0])
    assert "riesz.att" not in both.warnings()[0]


def test_a_rare_arm_is_not_a_failure() -> None:
    rng = np.random.default_rng(8)
    x1, x2 = rng.normal(size=(2, 4000))
    a = (rng.uniform(size=4000) < expit(-3.9 + 0.4 * x1)).astype(float)
    frame = pd.DataFrame({"y": a + x1 + rng.normal(size=4000), "a": a, "x1": x1, "x2": x2})
    assert 0.01 < frame["a"].mean() < 0.04
    assert not any("Overlap fails" in text for text in riesz.ate("y ~ treat(a) * (x1 + x2)", frame).warnings())


def test_arms_clusters_and_weights(arms_frame: pd.DataFrame) -> None:
    clustered = arms_frame.assign(c=np.arange(len(arms_frame)) % 2, w=np.linspace(0.5, 2, len(arms_frame)))
    for options in ({}, {"weights": "w"}, {"cluster": "c", "folds": 2}):
        fit = riesz.ate("y ~ treat(arm) * (x1 + g)", clustered, **options)
        judged = fit._parts.positivity
        assert judged is not None
        assert judged.propensity.shape == (len(arms_frame), 3)
        assert (judged.scarce == 0).all()
        assert fit.overlap_rows().mean() > 0.5


def test_a_moment_that_does_more_than_set_the_arm_is_left_alone() -> None:
    frame = strong(600, 5, seed=9)[0]
    moment = riesz.CustomMoment(lambda mu, data: mu(data.assign(a=1.0, x1=data["x1"] + 1)), name="moved")
    fit = riesz.estimate("y ~ treat(a) * .", frame, moment)
    assert np.isnan(fit._parts.positivity.scarce).all()  # type: ignore[union-attr]
    assert not any("Overlap fails" in text for text in fit.warnings())


# continuous treatments


def dose(spread: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x1, x2 = rng.normal(size=(2, 1000))
    d = x1 + np.sin(x2) + spread * rng.normal(size=1000)
    return pd.DataFrame({"y": d + x1 + rng.normal(size=1000), "d": d, "x1": x1, "x2": x2})


def test_residual_variation_of_a_dose() -> None:
    fit = riesz.shift("y ~ treat(d) + x1 + x2", dose(1.0, 1), delta=0.5)
    variation = fit._parts.treatment_variation
    assert variation is not None
    assert variation.explained == pytest.approx(1 - 1 / (1 + 1 + (1 - np.exp(-2)) / 2), abs=0.04)
    assert variation.moves[0] == pytest.approx(0.5, abs=0.04)
    assert fit.warnings() == []
    with pytest.raises(riesz.RieszError, match="needs a treatment with arms"):
        fit.overlap_rows()


def test_a_shift_beyond_the_data_and_a_dose_without_variation_are_reported() -> None:
    far = riesz.shift("y ~ treat(d) + x1 + x2", dose(1.0, 2), delta=2.5)
    assert far.warnings()[0].startswith("Overlap fails for")
    assert "it moves `d` by 2.5 residual standard deviations given the covariates" in far.warnings()[0]
    tight = riesz.ade("y ~ treat(d) + x1 + x2", dose(0.2, 3))
    assert tight.warnings()[0].startswith("Overlap is weak: covariates predict 9")
    assert tight.summary().notes[0] == tight.warnings()[0]


# the scale of rr


def test_a_wrong_scale_is_reported_and_a_right_one_is_not() -> None:
    frame, _, _ = strong(1000, 5, seed=10, spread=1.0)
    learner = riesz.Linear(rr="riesz")
    fit = riesz.ate("y ~ treat(a) * .", frame, learner=learner)
    evidence = gather_evidence(fit._parts)
    scale = evidence.scale.loc["ATE", "scale"]
    health = fit.diagnostics().loc["ATE"]
    np.testing.assert_allclose(scale, health["rr_moment"] / health["rr_length"])
    assert concerns.scale_is_off(evidence) == []
    zero = np.zeros(1000)
    half = riesz.ate("y ~ treat(a) * .", frame, learner=Known((zero, zero), np.full(1000, 0.5)), folds=1)
    assert gather_evidence(half._parts).scale.loc["ATE", "scale"] == pytest.approx(1)
    shrunk = evidence.scale.assign(scale=1.6, std_error=0.1)
    (text,) = concerns.scale_is_off(replace(evidence, scale=shrunk))
    assert "wrong scale: h_n(rr) is 1.6 times E_n[rr^2], expected 1" in text
    assert concerns.scale_is_off(replace(evidence, scale=shrunk.assign(std_error=0.3))) == []
