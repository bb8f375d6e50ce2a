"""Diagnostics, each compared with a known answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from known import Known
from scipy.special import expit

import riesz
from riesz.datasets.hard_cases import HARD_CASES
from riesz.design.moment import Evaluation, Linked
from riesz.diagnostics import warnings as concerns
from riesz.diagnostics.concerns import Concerns
from riesz.diagnostics.influence import heterogeneity
from riesz.diagnostics.overlap import implied_propensity
from riesz.diagnostics.weights import concentration, tail_index, weighting_origin
from riesz.predictions import Predictions
from riesz.results.checks import gather_evidence

FORMULA = "y ~ treat(a) * (x1 + x2)"
EXACT = riesz.Linear(penalty=0, rr_penalty=0)


def draw(n: int, seed: int) -> tuple[pd.DataFrame, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Data, the true mu(0) and mu(1), and the true propensity."""
    rng = np.random.default_rng(seed)
    x1, x2 = rng.normal(size=(2, n))
    p = 0.1 + 0.8 * expit(x1)
    a = (rng.uniform(size=n) < p).astype(float)
    mu = (x1 + x2, 1.5 * x1 + x2 + 1)
    y = np.where(a == 1, mu[1], mu[0]) + rng.normal(size=n)
    frame = pd.DataFrame({"y": y, "a": a, "x1": x1, "x2": x2, "w": rng.uniform(0.5, 2, n)})
    return frame.assign(village=[f"v{code:02d}" for code in rng.integers(0, 30, n)]), mu, p


def without(frame: pd.DataFrame, mu: tuple[np.ndarray, np.ndarray], p: np.ndarray, keep: np.ndarray, **options):
    return riesz.att(
        FORMULA, frame[keep], learner=Known((mu[0][keep], mu[1][keep]), p[keep], "ATT"), folds=1, **options
    )


# influence


@pytest.mark.parametrize("weights", [None, "w"])
def test_leaving_out_a_row_is_exact_when_nothing_is_learned(weights: str | None) -> None:
    frame, mu, p = draw(120, seed=1)
    everyone = np.ones(120, dtype=bool)
    fit = without(frame, mu, p, everyone, weights=weights)
    table = fit.leave_one_out()
    for row in (0, 17, 63):
        keep = everyone.copy()
        keep[row] = False
        change = without(frame, mu, p, keep, weights=weights).params["ATT"] - fit.params["ATT"]
        np.testing.assert_allclose(table["change"].iloc[row], change, rtol=1e-9)
    np.testing.assert_allclose(table["change_in_se"], table["change"] / fit.bse["ATT"])
    np.testing.assert_allclose(table["share_of_variance"].sum(), 1)


def test_leaving_out_a_cluster_is_exact_when_nothing_is_learned() -> None:
    frame, mu, p = draw(200, seed=2)
    fit = without(frame, mu, p, np.ones(200, dtype=bool), cluster="village")
    table = fit.leave_one_out()
    assert table.index.tolist() == sorted(frame["village"].unique())
    for village in ("v00", "v13"):
        keep = (frame["village"] != village).to_numpy()
        change = without(frame, mu, p, keep).params["ATT"] - fit.params["ATT"]
        np.testing.assert_allclose(table.loc[village, "change"], change, rtol=1e-9)
    shown = fit.influential(3)
    assert shown["rows"].tolist() == [int((frame["village"] == village).sum()) for village in shown.index]
    assert shown["change"].abs().is_monotonic_decreasing
    np.testing.assert_allclose(table["share_of_variance"].sum(), 1)


def test_leave_one_out_agrees_with_a_refit_to_the_expected_order() -> None:
    """Learning anew changes the estimate by a term of order 1/n more: four times the rows, a quarter of the relative error."""

    def error(n: int) -> float:
        gaps = []
        for seed in range(3):
            frame = draw(n, seed)[0]
            fit = riesz.ate(FORMULA, frame, learner=EXACT, folds=1)
            table = fit.leave_one_out()
            refits = [riesz.ate(FORMULA, frame.drop(index=i), learner=EXACT, folds=1).params["ATE"] for i in range(30)]
            change = np.array(refits) - fit.params["ATE"]
            gaps.append(np.abs(table["change"].iloc[:30] - change).sum() / np.abs(change).sum())
        return float(np.mean(gaps))

    small, large = error(100), error(400)
    assert small < 0.1
    assert 3 < small / large < 6


def test_the_row_that_was_spoilt_is_found() -> None:
    frame = draw(300, seed=3)[0].set_index(pd.Index([f"r{i}" for i in range(300)]))
    frame.loc["r42", "y"] += 60
    fit = riesz.ate(FORMULA, frame)
    shown = fit.influential(5)
    assert shown.index[0] == "r42"
    assert shown.loc["r42", "y"] == frame.loc["r42", "y"]
    assert shown.loc["r42", "share_of_variance"] > 0.5
    assert fit.influence_quantiles().index[[0, -1]].isin(["r42"]).any()
    assert any("1 row makes" in words and "of the variance of ATE" in words for words in fit.warnings())
    assert "1 row makes" in str(fit.summary())


def test_identical_rows_may_be_counted_or_repeated() -> None:
    """A row of frequency three has three times the variance share of one of its copies, and leaves as three rows."""
    frame, mu, p = draw(100, seed=4)
    frame = frame.assign(f=np.where(np.arange(100) < 10, 3, 1))
    copies = np.repeat(np.arange(100), frame["f"])
    counted = riesz.ate(FORMULA, frame, freq_weights="f", learner=Known(mu, p), folds=1)
    learner = Known((mu[0][copies], mu[1][copies]), p[copies])
    repeated = riesz.ate(FORMULA, frame.iloc[copies].reset_index(drop=True), learner=learner, folds=1)
    one, three = counted.leave_one_out(), repeated.leave_one_out()
    np.testing.assert_allclose(one["share_of_variance"], three["share_of_variance"].groupby(copies).sum(), rtol=1e-10)
    keep = np.arange(100) != 4
    gone = riesz.ate(
        FORMULA, frame[keep], freq_weights="f", learner=Known((mu[0][keep], mu[1][keep]), p[keep]), folds=1
    )
    np.testing.assert_allclose(one["change"].iloc[4], gone.params["ATE"] - counted.params["ATE"], rtol=1e-9)


def test_quantiles_of_a_normal_influence_are_normal() -> None:
    n = 2000
    rng = np.random.default_rng(5)
    a = np.arange(n) % 2.0
    frame = pd.DataFrame({"y": rng.normal(size=n), "a": a, "x1": rng.normal(size=n), "x2": rng.normal(size=n)})
    zero = np.zeros(n)
    table = riesz.ate(FORMULA, frame, learner=Known((zero, zero), zero + 0.5), folds=1).influence_quantiles()
    assert table["sample"].is_monotonic_increasing
    assert np.abs(table["sample"] - table["theoretical"])[50:-50].max() < 0.15
    np.testing.assert_allclose([table["sample"].mean(), table["sample"].std(ddof=0)], [0, 1], atol=1e-10)


def test_a_parameter_must_be_named_if_there_are_several(binary_frame: pd.DataFrame) -> None:
    fit = riesz.estimate("y ~ treat(a) * x1", binary_frame, [riesz.ATE(), riesz.ATT()])
    with pytest.raises(riesz.RieszError, match=r"Choose one, .* expected one of 'ATE', 'ATT'"):
        fit.influential()
    assert len(fit.influential(4, "ATT")) == 4
    with pytest.raises(riesz.RieszError, match="k=0: expected a whole number"):
        fit.influential(0, "ATT")


def test_stability_adds_up(binary_frame: pd.DataFrame) -> None:
    fit = riesz.estimate("y ~ treat(a) * x1", binary_frame, [riesz.ATE(), riesz.ATT()], repeats=3, weights="w")
    table = fit.stability()
    assert len(table) == 2 * 3 * 6
    whole = table[table["fold"] == "all"]
    np.testing.assert_allclose(whole.groupby("parameter")["estimate"].median(), fit.params, rtol=1e-12)
    first = table[(table["repeat"] == 1) & (table["fold"] != "all")]
    weight = binary_frame["w"].groupby(fit._crossfit.folds[0]).sum().to_numpy()
    own = first[first["parameter"] == "ATE"]
    np.testing.assert_allclose(own["estimate"] @ weight / weight.sum(), whole["estimate"].iloc[0], rtol=1e-10)
    treated = (binary_frame["w"] * binary_frame["a"]).groupby(fit._crossfit.folds[0]).sum().to_numpy()
    own = first[first["parameter"] == "ATT"]
    np.testing.assert_allclose(own["estimate"] @ treated / treated.sum(), whole["estimate"].iloc[1], rtol=1e-10)
    np.testing.assert_allclose(
        whole["riesz_loss"].iloc[0],
        first[first["parameter"] == "ATE"]["riesz_loss"] @ weight / weight.sum(),
        rtol=1e-10,
    )
    single = riesz.ate("y ~ treat(a) * x1", binary_frame)
    np.testing.assert_allclose(single.stability()["std_error"].iloc[0], single.bse["ATE"], rtol=1e-12)


# balance

EVERY = [
    ("binary_frame", "y ~ treat(a) * (x1 + g)", riesz.ATE()),
    ("binary_frame", "y ~ treat(a) * (x1 + g)", riesz.ATT()),
    ("binary_frame", "y ~ treat(a) * (x1 + g)", riesz.Mean([0, 1])),
    ("binary_frame", "y ~ treat(a) * (x1 + g)", riesz.APE("x1 > 0")),
    ("arms_frame", "y ~ treat(arm) * (x1 + g)", riesz.ATE()),
    ("continuous_frame", "y ~ treat(d) * (x1 + g)", riesz.ADE()),
    ("continuous_frame", "y ~ treat(d) * (x1 + g)", riesz.Shift(0.3)),
    ("continuous_frame", "y ~ treat(d) * (x1 + g)", riesz.IPE("x1 > 0")),
]


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize(("data", "formula", "estimand"), EVERY, ids=lambda value: str(value)[:12])
def test_balance_is_exact_where_theory_says_so(
    data: str, formula: str, estimand: riesz.ATE, weights: str | None, request: pytest.FixtureRequest
) -> None:
    """Unpenalised and without splitting, rr balances every function in the formula's span."""
    frame = request.getfixturevalue(data)
    table = riesz.estimate(formula, frame, estimand, learner=EXACT, folds=1, weights=weights).balance()
    spanned = table if not isinstance(estimand, (riesz.APE, riesz.IPE)) else table[table["kind"] != "anchor"]
    assert spanned["imbalance"].abs().max() < 1e-9
    assert spanned["implied_bias"].abs().max() < 1e-9
    assert (table["std_error"] > 0).all()
    assert {"constant", "covariate", "interaction"} <= set(table["kind"])


def test_balance_by_hand(binary_frame: pd.DataFrame) -> None:
    """For the ATE: differences of weighted means; unadjusted, of plain means."""
    fit = riesz.ate("y ~ treat(a) * x1 + g", binary_frame, learner=riesz.Linear(0.3, 0.3))
    table = fit.balance().loc["ATE"]
    rr, a = fit.riesz_representer["ATE"], binary_frame["a"]
    x = binary_frame["x1"] - binary_frame["x1"].mean()
    row, n = table.loc["x1"], len(x)
    np.testing.assert_allclose(row["weighted"], (rr * x).mean())
    np.testing.assert_allclose(row["moment"], 0, atol=1e-12)
    np.testing.assert_allclose(row["std_error"], (rr * x).std(ddof=1) / np.sqrt(n))
    np.testing.assert_allclose(row["standardized"], (rr * x).mean() / x.std(ddof=0))
    plain = x[a == 1].mean() - x[a == 0].mean()
    np.testing.assert_allclose(row["unadjusted"], plain / x.std(ddof=0))
    assert abs(row["standardized"]) < abs(row["unadjusted"])
    both = table.loc["a:x1"]
    np.testing.assert_allclose(both["weighted"], (rr * a * x).mean())
    np.testing.assert_allclose(both["moment"], x.mean(), atol=1e-12)
    assert table.loc["anchor", "moment"] == 1
    assert "a" not in table.index  # the anchor is the treatment


def test_implied_bias_is_the_move_of_the_one_step_estimate() -> None:
    """Correct mu for what its residuals show of f, estimate again, compare."""
    frame, mu, p = draw(1000, seed=6)
    wrong = (mu[0] - frame["x2"].to_numpy(), mu[1] - frame["x2"].to_numpy())  # mu misses x2
    tilted = np.clip(p + 0.1 * np.tanh(frame["x2"].to_numpy()), 0.05, 0.95)  # and so does rr
    fit = riesz.ate(FORMULA, frame, learner=Known(wrong, tilted), folds=1)
    x = (frame["x2"] - frame["x2"].mean()).to_numpy()
    delta = (fit.resid * x).mean() / (x**2).mean()
    corrected = riesz.ate(FORMULA, frame, learner=Known((wrong[0] + delta * x, wrong[1] + delta * x), tilted), folds=1)
    move = (corrected.params["ATE"] - fit.params["ATE"]) / fit.bse["ATE"]
    row = fit.balance().loc[("ATE", "x2")]
    np.testing.assert_allclose(row["implied_bias"], move, rtol=1e-9)
    assert abs(move) > 0.5
    assert any("mu and rr both miss x2" in words for words in fit.warnings())


def test_with_the_true_representer_imbalance_is_noise() -> None:
    z = []
    for seed in range(40):
        frame, mu, p = draw(200, seed=50 + seed)
        z += riesz.ate(FORMULA, frame, learner=Known(mu, p), folds=1).balance()["z"].tolist()
    assert 0.8 < np.std(z) < 1.2


def test_a_derivative_is_balanced_by_its_own_rule(continuous_frame: pd.DataFrame) -> None:
    """h(d x) is the mean of x, and unadjusted means the slope of a simple regression."""
    fit = riesz.ade("y ~ treat(d) + x1 + g", continuous_frame)
    table = fit.balance().loc["ADE"]
    d, x = (continuous_frame[name] - continuous_frame[name].mean() for name in ("d", "x1"))
    np.testing.assert_allclose(table.loc["anchor", "moment"], 1)
    np.testing.assert_allclose(table.loc["d:x1", "moment"], 0, atol=1e-12)
    np.testing.assert_allclose(table.loc["x1", "unadjusted"], (d @ x) / (d @ d) / x.std(ddof=0))


# the representer's weights


def test_tail_index_of_a_pareto() -> None:
    rng = np.random.default_rng(7)
    for index in (1.0, 3.0):
        x = rng.uniform(size=40_000) ** (-1 / index)
        assert abs(tail_index(x, np.ones_like(x)) / index - 1) < 0.25
    assert tail_index(np.ones(100), np.ones(100)) == np.inf
    assert np.isnan(tail_index(np.ones(20), np.ones(20)))
    x, f = rng.exponential(size=100), rng.integers(1, 5, 100).astype(float)
    repeated = np.repeat(x, f.astype(int))
    np.testing.assert_allclose(tail_index(x, f), tail_index(repeated, np.ones_like(repeated)))
    assert concentration(x, f, 0.2) == pytest.approx(concentration(repeated, np.ones_like(repeated), 0.2))


def test_concentration_counts_the_fewest_rows() -> None:
    x = np.ones(1000)
    x[:3] = 200.0
    rows, share = concentration(x, np.ones(1000), 0.2)
    assert (rows, round(share, 3)) == (2, round(400 / 1597, 3))
    assert concentration(np.ones(1000), np.ones(1000), 0.2) == (10, 0.01)


def test_representer_numbers_by_hand(binary_frame: pd.DataFrame) -> None:
    fit = riesz.ate("y ~ treat(a) * x1", binary_frame, learner=riesz.Linear(0, 0, rr="riesz"))
    rr, health = fit.predictions.rr, fit.diagnostics().loc["ATE"]
    one, zero = rr.values
    np.testing.assert_allclose(health["rr_moment"], (one - zero).mean())
    np.testing.assert_allclose(health["rr_length"], (rr.observed[0] ** 2).mean())
    np.testing.assert_allclose(health["riesz_loss"], health["rr_length"] - 2 * health["rr_moment"])
    whole = fit.stability().iloc[0]
    np.testing.assert_allclose(whole["riesz_loss"], health["riesz_loss"])
    np.testing.assert_allclose(whole["violation"], 1 - health["rr_moment"] / health["rr_length"])


def test_the_constraint_holds_on_the_rows_it_was_imposed_on(binary_frame: pd.DataFrame) -> None:
    """h(beta_perp) = 0 exactly without splitting; on held-out rows it is what h_k(beta) - h_k(r) leaves."""
    formula = "y ~ treat(a) * x1"
    whole = riesz.ate(formula, binary_frame, folds=1).stability()
    np.testing.assert_allclose(whole["violation"], 0, atol=1e-10)
    fit = riesz.ate(formula, binary_frame)
    split = fit._crossfit.splits[0][2]
    raw = fit._crossfit.fits[2].predict(fit.model.blueprint.design.take(split.test)).rr
    one, zero = raw.values
    np.testing.assert_allclose(fit.stability()["violation"].iloc[3], 1 - (one - zero).mean(), rtol=1e-8)


# overlap


def test_overlap_gives_the_propensity_back() -> None:
    frame, mu, p = draw(300, seed=8)
    a = frame["a"].to_numpy()
    ate = riesz.ate(FORMULA, frame, learner=Known(mu, p), folds=1).overlap()
    np.testing.assert_allclose(ate.rows["propensity"], p)
    assert (ate.summary["share_outside"] == 0).all()
    att = riesz.att(FORMULA, frame, learner=Known(mu, p, "ATT"), folds=1).overlap()
    np.testing.assert_allclose(att.rows["propensity"], p[a == 0])
    assert att.rows["arm"].unique().tolist() == ["0"]
    assert "Propensity implied" in repr(ate)
    assert "<table" in ate._repr_html_()


@pytest.mark.parametrize("verb", ["ate", "att", "atc", "ape", "mean"])
def test_every_true_representer_implies_the_true_propensity(verb: str) -> None:
    simulation = riesz.datasets.get("binary")
    data = simulation.draw(200, seed=9).data
    estimand = simulation.questions[verb]
    design = riesz.estimate("y ~ treat(a) + x1", data, estimand).model.blueprint.design
    rr = simulation.riesz_representer(estimand, data)
    p = 1 / simulation.riesz_representer(riesz.Mean(1), data.assign(a=1.0))[0]
    readings = np.zeros((len(design.readings()), len(data)))
    mu = Evaluation(np.zeros(len(data)), readings, readings)
    links = np.zeros(design.link_weights.shape)
    found = implied_propensity(Predictions(mu, Linked(rr, links, links, design.links), False), design)
    told = ~np.isnan(found)
    np.testing.assert_allclose(found[told], np.broadcast_to(p, found.shape)[told])
    assert told.mean() > 0.3


def test_overlap_needs_two_arms(continuous_frame: pd.DataFrame, arms_frame: pd.DataFrame) -> None:
    for fit in (riesz.ade("y ~ treat(d) + x1", continuous_frame), riesz.ate("y ~ treat(arm) + x1", arms_frame)):
        with pytest.raises(riesz.RieszError, match="needs a treatment with two arms"):
            fit.overlap()


def test_a_moment_that_implies_no_propensity(binary_frame: pd.DataFrame) -> None:
    moment = riesz.CustomMoment(lambda mu, data: mu(data.assign(a=1.0, x1=data["x1"] + 1)), name="moved")
    fit = riesz.estimate("y ~ treat(a) * x1", binary_frame, moment)
    with pytest.raises(riesz.RieszError, match="No propensity can be recovered"):
        fit.overlap()
    assert len(fit.balance()) > 3
    assert isinstance(fit.warnings(), list)


# warnings


def test_concerns_are_a_list_that_reads_well(binary_frame: pd.DataFrame) -> None:
    fit = riesz.ate("y ~ treat(a) * x1", binary_frame.assign(y=binary_frame["y"].where(binary_frame.index != 7, 1e4)))
    words = fit.warnings()
    assert isinstance(words, list)
    assert words
    assert all(type(text) is str for text in words)
    lines = repr(words).splitlines()
    assert str(words) == repr(words)
    assert max(map(len, lines)) <= 90
    assert sum(line.startswith("- ") for line in lines) == len(words)
    assert " ".join(line[2:] for line in lines) == " ".join(words)
    html = Concerns(["a < b", "c"])._repr_html_()
    assert "<li>a &lt; b</li><li>c</li>" in html


def test_no_concerns_are_reported_as_such(binary_frame: pd.DataFrame) -> None:
    none = Concerns()
    assert none == []
    assert repr(none) == "These checks found no problems."
    assert "<li>" not in none._repr_html_()
    alone = riesz.ate("y ~ treat(a) + x1", binary_frame, learner=riesz.KernelEmbedding()).warnings()
    assert alone == []
    assert "Nothing was checked" in repr(alone)
    assert "learns mu alone" in alone._repr_html_()


@pytest.mark.parametrize("name", ["binary", "continuous", "arms", "clustered", "binary_outcome"])
def test_a_clean_design_is_not_flagged(name: str) -> None:
    simulation = riesz.datasets.get(name)
    data = simulation.draw(800, seed=11).data
    for estimand in simulation.questions.values():
        assert riesz.estimate(simulation.formula, data, estimand, **simulation.keywords).warnings() == []


def test_weak_overlap_is_flagged() -> None:
    simulation = riesz.datasets.get("weak_overlap")
    fit = riesz.ate(simulation.formula, simulation.draw(800, seed=11).data)
    words = fit.warnings()
    assert words[0].startswith("Overlap fails for ATE")
    assert not any("outside [0, 1]" in text for text in words)  # it is said once
    evidence = gather_evidence(fit._parts)
    assert evidence.positivity is not None
    fine = replace(evidence, positivity=replace(evidence.positivity, scarce=np.zeros(1)))
    assert "outside [0, 1]" in concerns.weak_overlap(fine)[0]


def test_a_few_heavy_rows_are_flagged() -> None:
    frame, mu, p = draw(300, seed=12)
    heavy = np.flatnonzero(frame["a"] == 1)[:3]
    p[heavy] = 0.004
    fit = riesz.ate(FORMULA, frame, learner=Known(mu, p), folds=1)
    weight = fit.riesz_representer["ATE"].abs().sort_values(ascending=False)
    rows = fit.diagnostics().loc["ATE", "heavy_rows"]
    share = weight.iloc[:rows].sum() / weight.sum()
    text = " ".join(fit.warnings())
    assert rows <= 3
    assert f"{rows} row{'s carry' if rows > 1 else ' carries'} {share:.0%} of the weight of ATE" in text
    health = fit.diagnostics().loc[
        "ATE"
    ]  # rr misses its anchor by far, but the rows that do it make the error as large
    assert 1 < health["rr_anchor"] - health["anchor_moment"] < 3 * health["anchor_std_error"]
    assert "rr and anchor disagree" not in text
    assert "effective sample of" in text
    assert "folds" not in text


def test_a_heavy_tail_is_flagged() -> None:
    frame, mu, _ = draw(2000, seed=13)
    rng = np.random.default_rng(13)
    heavy = np.clip(rng.uniform(size=2000) ** 1.2, 1e-6, 1 - 1e-6)
    fit = riesz.ate(FORMULA, frame, learner=Known(mu, np.where(frame["a"] == 1, heavy, 1 - heavy)), folds=1)
    assert any("heavy tail (index 0." in text for text in fit.warnings())


def test_a_representer_that_ignores_a_covariate_is_flagged() -> None:
    frame, mu, p = draw(1000, seed=14)
    fit = riesz.ate(FORMULA, frame, learner=Known(mu, np.full(1000, p.mean())), folds=1)
    assert any("rr does not balance x1" in text for text in fit.warnings())


def test_a_mu_that_no_learner_has_learned_is_flagged() -> None:
    """Kang and Schafer's covariates hide what the outcome is linear in; the noise is 1, and mu is off by more than that."""
    case = HARD_CASES["kang_schafer"]
    data = case.draw(2).data
    fit = riesz.ate(case.formula, data, learner="auto", folds=2, repeats=1)
    assert any("No learner of the stack has learned mu" in text for text in fit.warnings())
    (stacking,) = fit._crossfit.stacking
    assert np.mean((data["y"] - fit.fittedvalues) ** 2) > 2.0  # of which the noise is 1
    assert stacking.apart > 0.7
    evidence = gather_evidence(fit._parts)
    assert concerns.mu_is_not_learned(replace(evidence, mu_gain=0.05)) == []
    assert concerns.mu_is_not_learned(replace(evidence, mu_apart=np.nan)) == []


def test_folds_that_disagree_are_flagged() -> None:
    frame = draw(500, seed=15)[0]
    season = np.repeat(np.arange(5), 100)
    frame["y"] += frame["a"] * np.where(season == 4, 3.0, 0.0)
    fit = riesz.ate(FORMULA, frame, folds=season)
    assert heterogeneity(fit.stability()) < 1e-3
    assert any("estimates of the folds differ by more than chance" in text for text in fit.warnings())
    mixed = riesz.ate(FORMULA, frame, folds=5).stability()
    assert heterogeneity(mixed) > 0.01


def test_repeats_that_disagree_are_flagged() -> None:
    table = pd.DataFrame({"parameter": "ATE", "repeat": [1, 2, 3], "fold": "all", "estimate": [1.0, 2.0, 3.0]})
    evidence = replace(gather_evidence(riesz.ate(FORMULA, draw(100, seed=15)[0])._parts), stability=table)
    (text,) = concerns.repeats_disagree(replace(evidence, errors=pd.Series({"ATE": 1.5})))
    assert "depends on how the folds are drawn" in text
    assert concerns.repeats_disagree(replace(evidence, errors=pd.Series({"ATE": 3.0}))) == []


def test_diagnostics_for_clusters_of_two_kinds_and_labels(binary_frame: pd.DataFrame) -> None:
    frame = binary_frame.assign(year=np.arange(400) % 25)
    fit = riesz.ate("y ~ treat(a) * x1", frame, cluster=["village", "year"], folds=2)
    assert fit.leave_one_out().index.name == "village"
    assert fit.balance()["std_error"].notna().all()
    assert fit.sensitivity_benchmark("x1")["cf_y"].between(0, 1).all()
    assert isinstance(fit.warnings(), list)


def test_diagnostics_of_networks() -> None:
    stages = (riesz.Stage(1e-2, 40, 40),)
    learner = riesz.MADNet(width=8, depth=1, head_width=4, head_depth=1, stages=stages, batch_size=64, repeats=1)
    fit = riesz.ate("y ~ treat(a) + x1 + x2", draw(200, seed=16)[0], learner=learner, folds=2)
    assert fit.sensitivity_benchmark("x1").notna().all(axis=None)
    assert fit.balance()["std_error"].gt(0).all()
    assert fit.stability()["violation"].notna().all()
    assert fit.overlap().summary.shape == (2, 6)


def test_every_diagnostic_works_without_a_standard_error(binary_frame: pd.DataFrame) -> None:
    fit = riesz.ate("y ~ treat(a) * x1", binary_frame, estimator="direct")
    assert fit.leave_one_out()["change_in_se"].isna().all()
    assert fit.balance()["implied_bias"].isna().all()
    assert fit.warnings() == []
    assert fit.influence_quantiles().notna().all(axis=None)


def test_a_copy_of_the_outcome_among_the_covariates_is_reported(binary_frame: pd.DataFrame) -> None:
    copied = binary_frame.assign(twin=binary_frame["y"] + 1e-6 * binary_frame["x1"])
    fit = riesz.ate("y ~ treat(a) + x1 + x2 + twin", copied, learner="linear")
    assert any("outcome in disguise" in text for text in fit.warnings())
    assert not any(
        "disguise" in text for text in riesz.ate("y ~ treat(a) + x1 + x2", copied, learner="linear").warnings()
    )


# notes on weighting estimates that a constant added to y would change


@pytest.mark.parametrize("verb", [riesz.ate, riesz.att])
@pytest.mark.parametrize("weights", [None, "w"])
def test_the_summary_reports_that_weighting_depends_on_a_constant_in_y(verb: object, weights: str | None) -> None:
    """Centred weighting is that of an outcome whose mean is zero, moved back by what the estimand gives a constant."""
    frame = draw(400, seed=21)[0]
    mean = np.average(frame["y"], weights=frame["w"] if weights else None)
    near, far = (frame.assign(y=frame["y"] - mean + origin) for origin in (0.0, 500.0))
    centred = verb(FORMULA, near, weights=weights)  # type: ignore[operator]
    moved = verb(FORMULA, far, weights=weights)  # type: ignore[operator]
    name = centred.params.index[0]
    assert not any("a constant is added to y" in note for note in centred.summary().notes)
    told = [note for note in moved.summary().notes if "a constant is added to y" in note]
    assert len(told) == 1
    assert f"ipw is {centred.estimates.loc[(name, 'ipw'), 'estimate']:.4f}." in told[0]


def test_a_mean_is_moved_back_and_a_derivative_is_not(
    binary_frame: pd.DataFrame, continuous_frame: pd.DataFrame
) -> None:
    for verb, formula, frame, constant in (
        (riesz.mean, "y ~ treat(a) * x1", binary_frame, 1.0),
        (riesz.ade, "y ~ treat(d) * x1", continuous_frame, 0.0),
    ):
        options = {"at": 1} if verb is riesz.mean else {}
        fit = verb(formula, frame, repeats=2, **options)
        found = weighting_origin(fit._crossfit.predictions, fit._design).iloc[0]
        ipw = fit.estimates["estimate"].xs("ipw", level="estimator").iloc[0]
        assert found["constant_moment"] == pytest.approx(constant)
        assert found["centred"] == pytest.approx(ipw - found["shift"])


# the treatment in disguise


def test_a_covariate_that_determines_the_treatment_is_named() -> None:
    frame = draw(400, seed=22)[0]
    rng = np.random.default_rng(0)
    frame = frame.assign(educ=np.where(frame["a"] == 1, rng.integers(16, 19, 400), rng.integers(8, 16, 400)))
    for term in ("educ", "bs(educ, df=4)", "I(educ**2)"):
        told = [text for text in riesz.ate(f"y ~ treat(a) + x1 + {term}", frame).warnings() if "in disguise" in text]
        assert told == [
            "`educ` determines `a` without error: it is 15 or less where a=0 and 16 or more where a=1. This may be the treatment "
            "in disguise; leave it out."
        ]
    noisy = frame.assign(educ=frame["educ"].where(frame.index != frame.index[frame["a"] == 1][0], 15))
    assert not any("in disguise" in text for text in riesz.ate("y ~ treat(a) * (x1 + educ)", noisy).warnings())


def test_disguises_of_arms_and_few_rows() -> None:
    arm = np.repeat([0, 1, 2], 20)
    rng = np.random.default_rng(1)
    plain = rng.normal(size=60)
    low = np.where(arm == 2, 9.0, 0.0) + rng.uniform(size=60)
    many = {f"x{k}": [low + k] for k in range(5)}
    names = ["none", "half", "full"]
    evidence = gather_evidence(riesz.ate(FORMULA, draw(100, seed=22)[0])._parts)

    def texts(covariates: dict, arm: np.ndarray | None, arms: list[str]) -> list[str]:
        design = replace(evidence.design, _base=replace(evidence.design._base, strata=arm))
        return concerns.treatment_in_disguise(
            replace(evidence, design=design, covariates=covariates, arms=arms, treatment="dose")
        )

    (text,) = texts({"plain": [plain], **many}, arm, names)
    assert text.startswith("`x0`, `x1`, `x2` and 2 more determine `dose` without error: `x0` is ")
    assert "dose=full" in text
    assert texts({"plain": [plain]}, arm, names) == []
    assert texts(many, None, []) == []
    few = np.repeat([0, 1], [50, 10 - 1])
    assert texts({"x": [few + 0.0]}, few, ["0", "1"]) == []
