"""Estimates centre on the truth and intervals cover it (the long version is benchmarks/coverage.py)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from questions import QUESTIONS, is_continuous
from scipy import stats

import riesz
from riesz import datasets, montecarlo
from riesz.estimands import ESTIMANDS

DRAWS = 60


#: registered estimands that no simulation asks about
OTHERS = ESTIMANDS.keys() - {verb for simulation in datasets.SIMULATIONS.values() for verb in simulation.questions}


@pytest.mark.parametrize("verb", sorted(OTHERS))
def test_estimands_of_no_simulation(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    question = QUESTIONS[verb]
    simulation = datasets.get("continuous" if is_continuous(question) else "binary")
    monkeypatch.setitem(datasets.SIMULATIONS, "asked", replace(simulation, questions={verb: question}))
    test_estimates_centre_on_the_truth_and_intervals_cover("asked")


@pytest.mark.parametrize("name", datasets.SIMULATIONS)
def test_estimates_centre_on_the_truth_and_intervals_cover(name: str) -> None:
    """With a correctly specified formula, at a level at which a valid method fails about once in ten thousand runs."""
    table = montecarlo.coverage(montecarlo.study(name, n=500, draws=range(DRAWS)), family_error=0.001)
    assert (table["bias"].abs() < 4.5 * table["bias_std_error"]).all(), table
    assert not table["rejected"].any(), table
    ratio = table["mean_std_error"] / table["spread"]
    assert ratio.between(0.7, 1.45).all(), table


def test_a_wrong_formula_is_caught() -> None:
    """The test above fails if the confounders are left out."""
    frame = montecarlo.study("binary", n=500, draws=range(DRAWS), formula="y ~ treat(a)", verbs=["ate"])
    table = montecarlo.coverage(frame, family_error=0.001)
    assert table["rejected"].all()


@pytest.mark.parametrize(
    ("name", "formula", "verbs"),
    [
        ("binary", "y ~ treat(a) * (bs(x1, df=5) + bs(x2, df=8) + bs(x3, df=5))", ["ate", "att", "atc", "ape", "mean"]),
        (
            "continuous",
            "y ~ treat(a) * (bs(x1, df=4) + bs(x2, df=7)) + poly(treat(a), 4) + bs(x3, df=4)",
            ["ade", "ipe"],
        ),
        ("arms", "y ~ treat(arm, reference='placebo') * (bs(x1, df=5) + bs(x2, df=6))", ["ate", "mean"]),
    ],
)
def test_rr_is_close_to_the_true_one(name: str, formula: str, verbs: list[str]) -> None:
    """A rich formula recovers most of the true Riesz representer's variation."""
    simulation = datasets.get(name)
    data = simulation.draw(4000, seed=1).data
    for verb in verbs:
        fit = riesz.estimate(formula, data, simulation.questions[verb])
        true = simulation.riesz_representer(simulation.questions[verb], data)
        for learned, known in zip(fit.riesz_representer.to_numpy().T, true, strict=True):
            assert np.mean((learned - known) ** 2) < 0.25 * np.mean(known**2), verb


def test_doubly_robust() -> None:
    """A linear mu is wrong here, but rr is nearly right: the one-step estimate is correct, and the plug-in is not."""
    simulation = datasets.get("weak_overlap")
    truth = simulation.truth(riesz.ATE())[0]
    data = simulation.draw(20_000, seed=2).data
    rich = "y ~ treat(a) * (bs(x1, df=6) + bs(x2, df=10) + bs(x3, df=6))"
    good = riesz.ate(rich, data)
    assert abs(good.params["ATE"] - truth) < 3.5 * good.bse["ATE"]
    poor = riesz.ate("y ~ treat(a) + x1", data)
    assert abs(poor.estimates.loc[("ATE", "direct"), "estimate"] - truth) > 5 * good.bse["ATE"]


def test_clusters_matter() -> None:
    """Ignoring the villages understates the standard error."""
    simulation = datasets.get("clustered")
    data = simulation.draw(1500, seed=3).data
    fit = riesz.ate(simulation.formula, data, cluster="village")
    assert fit.bse["ATE"] > 1.1 * fit.with_cov().bse["ATE"]


def test_sampling_weights_undo_a_biased_sample() -> None:
    simulation = datasets.get("binary")
    truth = simulation.truth(riesz.ATE())[0]
    data = simulation.draw(40_000, seed=4).data
    chance = 1 / (1 + np.exp(-1.5 * data["x1"]))
    sample = data[np.random.default_rng(0).uniform(size=len(data)) < chance].assign(w=lambda d: 1 / chance[d.index])
    weighted = riesz.ate(simulation.formula, sample, weights="w")
    plain = riesz.ate(simulation.formula, sample)
    assert abs(weighted.params["ATE"] - truth) < 3.5 * weighted.bse["ATE"]
    assert abs(plain.params["ATE"] - truth) > 5 * plain.bse["ATE"]


def test_sample_target_is_covered_with_a_smaller_error() -> None:
    """The sample's own average effect, which differs from draw to draw, is covered by target='sample'."""
    simulation = datasets.get("binary")
    hits, narrower = 0, []
    for seed in range(80):
        draw = simulation.draw(600, seed=seed)
        effect = (simulation.mu(draw.data.assign(a=1)) - simulation.mu(draw.data.assign(a=0))).mean()
        fit = riesz.ate(simulation.formula, draw.data, target="sample")
        low, high = fit.conf_int().loc["ATE"]
        hits += low <= effect <= high
        narrower.append(fit.bse["ATE"] < riesz.ate(simulation.formula, draw.data).bse["ATE"])
    assert stats.binomtest(hits, 80, 0.95).pvalue > 0.001
    assert np.mean(narrower) > 0.9


def test_study_resumes_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "draws.csv"
    first = montecarlo.study("binary", n=200, draws=range(3), verbs=["ate"], path=path)
    whole = montecarlo.study("binary", n=200, draws=range(6), verbs=["ate"], path=path)
    alone = montecarlo.study("binary", n=200, draws=range(6), verbs=["ate"])
    assert len(first) == 3
    pd.testing.assert_frame_equal(whole, alone)
    assert len(pd.read_csv(path)) == 6
