"""Stacking: exact properties of the weights, and stacks as learners."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import riesz
from riesz.crossfit.stacking import mu_apart, nonnegative, simplex, stack
from riesz.design.design import Design
from riesz.learners import Learner
from riesz.learners.base import Fit, Watch
from riesz.learners.linear.learner import Linear
from riesz.predictions import Predictions

OLS = riesz.Linear(penalty=0, rr_penalty=0)
RIDGE = riesz.Linear(penalty=1.0, rr_penalty=1.0)
SHRUNK = riesz.Linear(penalty=30.0, rr_penalty=0.3)
FORMULA = "y ~ treat(a) * (x1 + x2)"


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return riesz.datasets.get("binary").draw(400, seed=1).data


def predictions(fit: riesz.Results) -> Predictions:
    return fit._crossfit.predictions[0]


def design_of(fit: riesz.Results) -> Design:
    return fit.model.blueprint.design


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_those_of_a_general_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(4, 6))
    gram, moments = factor @ factor.T, rng.normal(size=4)
    sum_to_one = {"type": "eq", "fun": lambda w: w.sum() - 1}
    options: dict[str, Any] = {"bounds": [(0, None)] * 4, "method": "SLSQP", "options": {"ftol": 1e-14, "maxiter": 500}}
    convex = minimize(lambda w: w @ gram @ w, np.full(4, 0.25), constraints=sum_to_one, **options)
    free = minimize(lambda w: w @ gram @ w - 2 * w @ moments, np.full(4, 0.25), **options)
    np.testing.assert_allclose(simplex(gram), convex.x, atol=1e-5)
    np.testing.assert_allclose(nonnegative(gram, moments), free.x, atol=1e-5)


def test_the_moment_of_the_stacked_rr_equals_its_square(data: pd.DataFrame) -> None:
    fit = riesz.ate(FORMULA, data, learner=riesz.Stack([OLS, RIDGE, SHRUNK]))
    design, rr = design_of(fit), predictions(fit).rr
    np.testing.assert_allclose(design.mean(design.apply(rr)), design.mean(rr.observed**2), rtol=1e-12)
    estimates = fit.estimates["estimate"].loc["ATE"]
    assert estimates["dr"] == pytest.approx(estimates["tmle"], rel=1e-12)


def test_one_learner_is_that_learner_to_the_last_bit(data: pd.DataFrame) -> None:
    alone = riesz.ate(FORMULA, data, learner=RIDGE, repeats=2)
    stacked = riesz.ate(FORMULA, data, learner=riesz.Stack([RIDGE]), repeats=2)
    assert alone.params.equals(stacked.params)
    assert alone.bse.equals(stacked.bse)
    assert alone.predict(data).equals(stacked.predict(data))
    assert stacked.stacking.empty
    assert len(stacked.candidates) == 1


def test_all_repeats_of_all_learners_are_combined(data: pd.DataFrame) -> None:
    fit = riesz.ate(FORMULA, data, learner=riesz.Stack([OLS, SHRUNK]), repeats=3, calibrate=None)
    single = [riesz.ate(FORMULA, data, learner=learner, repeats=3) for learner in (OLS, SHRUNK)]
    unscaled = [repeat for alone in single for repeat in alone._crossfit.predictions]
    stacked, _ = stack(unscaled, design_of(fit))
    np.testing.assert_allclose(fit.fittedvalues, stacked.mu.observed, rtol=1e-8)
    np.testing.assert_allclose(fit.riesz_representer["ATE"], stacked.rr.observed[0], rtol=1e-7, atol=1e-8)
    assert len(fit._crossfit.folds) == 3
    assert fit.stability()["repeat"].nunique() == 1
    estimates = fit.candidates.loc["ATE", "estimate"].iloc[:2]
    np.testing.assert_allclose(estimates, [alone.params["ATE"] for alone in single], rtol=1e-12)
    weights = fit.candidates.loc["ATE", ["weight_mu", "weight_rr"]].iloc[:2].sum()
    np.testing.assert_allclose(weights, 1.0)
    table = fit.stacking["loss"].unstack("function").dropna(axis=1)
    assert (table.loc["stack"] <= table.min() + 1e-12).all()


def test_repeats_that_are_alike_change_nothing(data: pd.DataFrame) -> None:
    """With one fold, every repeat of a closed form is the same."""
    learner = riesz.Stack([OLS, SHRUNK])
    once, thrice = (riesz.ate(FORMULA, data, learner=learner, folds=1, repeats=repeats) for repeats in (1, 3))
    np.testing.assert_allclose(once.params, thrice.params, rtol=1e-7)
    np.testing.assert_allclose(once.bse, thrice.bse, rtol=1e-6)


def test_order_does_not_matter(data: pd.DataFrame) -> None:
    members = [OLS, RIDGE, SHRUNK, riesz.Propensity()]
    first = riesz.ate(FORMULA, data, learner=riesz.Stack(members))
    second = riesz.ate(FORMULA, data, learner=riesz.Stack(members[::-1]))
    np.testing.assert_allclose(first.params, second.params, rtol=1e-8)
    np.testing.assert_allclose(first.bse, second.bse, rtol=1e-8)


def test_the_scale_of_a_candidates_rr_does_not_matter(data: pd.DataFrame) -> None:
    fits = [riesz.ate(FORMULA, data, learner=learner) for learner in (OLS, SHRUNK)]
    design, (one, two) = design_of(fits[0]), (predictions(fit) for fit in fits)
    longer = replace(two, rr=two.rr.map(lambda values: 1e4 * values))
    stacked, rescaled = stack([one, two], design)[0], stack([one, longer], design)[0]
    np.testing.assert_allclose(stacked.rr.observed, rescaled.rr.observed, rtol=1e-7, atol=1e-9)


def test_each_arm_takes_the_learner_that_knows_it(data: pd.DataFrame) -> None:
    good = predictions(riesz.ate(FORMULA, data, learner=OLS))
    design = design_of(riesz.ate(FORMULA, data, learner=OLS))
    arm = design.strata
    assert arm is not None
    noise = 20 * np.random.default_rng(0).normal(size=len(design))
    bad = [
        replace(good, mu=replace(good.mu, observed=good.mu.observed + np.where(arm == code, noise, 0.0)))
        for code in (0, 1)
    ]
    _, stacking = stack(bad, design)
    np.testing.assert_allclose(stacking.mu, [[0, 1], [1, 0]], atol=0.02)


def test_a_useless_candidate_changes_nothing(data: pd.DataFrame) -> None:
    fit = riesz.ate(FORMULA, data, learner=OLS)
    design, good = design_of(fit), predictions(fit)
    useless = Predictions(good.mu.map(lambda v: v * 0 + 1e6), good.rr.map(lambda v: -v), scale_free=True)
    stacked, stacking = stack([good, useless], design)
    np.testing.assert_allclose(stacking.mu[:, 0], 1, atol=1e-6)
    assert stacking.rr[0, 1] == 0
    np.testing.assert_allclose(stacked.mu.observed, good.mu.observed, atol=0.02)


@dataclass(frozen=True)
class Counting(Learner):
    """Counts its fits."""

    name: str
    counts: dict[str, int]

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        self.counts[self.name] = self.counts.get(self.name, 0) + len(designs)
        return Linear(penalty=float(len(self.name))).fit(designs, seeds, watch)


def test_every_candidate_is_fitted_once_per_split(data: pd.DataFrame) -> None:
    counts: dict[str, int] = {}
    stacked = riesz.Stack([Counting("a", counts), Counting("bb", counts), Counting("ccc", counts)])
    fit = riesz.ate(FORMULA, data, learner=stacked, folds=4, repeats=2)
    fit.summary()
    assert counts == {"a": 8, "bb": 8, "ccc": 8}
    assert list(fit.candidates.index.get_level_values("learner")) == [
        "Counting (1)",
        "Counting (2)",
        "Counting (3)",
        "stack",
    ]


def test_frequencies_count_as_copies(data: pd.DataFrame) -> None:
    learner = riesz.Stack([OLS, RIDGE])
    often = data.assign(f=1 + data.index % 3)
    copies = data.loc[data.index.repeat(often["f"])].reset_index(drop=True)
    weighted = riesz.ate(FORMULA, often, learner=learner, folds=1, freq_weights="f")
    copied = riesz.ate(FORMULA, copies, learner=learner, folds=1)
    np.testing.assert_allclose(weighted.params, copied.params, rtol=1e-8)
    np.testing.assert_allclose(weighted.bse, copied.bse, rtol=1e-6)


def test_a_learner_that_cannot_be_used_is_left_out() -> None:
    data = riesz.datasets.get("continuous").draw(300, seed=1).data
    fit = riesz.ade("y ~ treat(a) * (x1 + x2)", data, learner=riesz.Stack([riesz.Linear(), riesz.DragonNet()]))
    assert "DragonNet" in str(fit.summary())
    assert "is not in the stack here" in " ".join(str(fit.summary()).split())
    assert fit.params.equals(riesz.ade("y ~ treat(a) * (x1 + x2)", data, learner=riesz.Linear()).params)
    with pytest.raises(riesz.LearnerError, match="one outcome head for each arm"):
        riesz.ade("y ~ treat(a) * (x1 + x2)", data, learner=riesz.Stack([riesz.DragonNet()]))


def test_a_learner_of_mu_alone_takes_part_in_mu(data: pd.DataFrame) -> None:
    fit = riesz.ate(FORMULA, data, learner=riesz.Stack([riesz.KernelEmbedding(), RIDGE]))
    shown = fit.candidates.loc["ATE"]
    assert shown["weight_rr"].tolist() == [0.0, 1.0, 1.0]
    assert np.isnan(shown.loc["KernelEmbedding", "estimate"])
    assert np.isfinite(fit.bse).all()


def test_an_rr_for_the_errors_of_a_logit_takes_part_in_mu_alone() -> None:
    data = riesz.datasets.get("binary_outcome").draw(500, seed=1).data
    network = riesz.MADNet.example()
    fit = riesz.ate("y ~ treat(a) + .", data, learner=riesz.Stack([riesz.Linear(), network]), family="binomial")
    shown = fit.candidates.loc["ATE"]
    assert shown["weight_rr"].iloc[:2].tolist() == [0.0, 1.0]
    assert shown["weight_mu"].iloc[:2].sum() == pytest.approx(1.0)
    mixed = predictions(fit).mu.observed
    assert ((mixed > 0) & (mixed < 1)).all()


def test_the_log_loss_of_the_stack_is_the_smallest() -> None:
    data = riesz.datasets.get("binary_outcome").draw(500, seed=1).data
    stacked = riesz.Stack([riesz.Linear(penalty=10.0), riesz.Linear(penalty=1e-3), riesz.Linear(penalty=0.3)])
    fit = riesz.ate("y ~ treat(a) * .", data, learner=stacked, family="binomial")
    losses = fit._crossfit.stacking[0].mu_loss
    assert losses[-1] <= losses[:-1].min() + 1e-6


def test_the_spread_of_the_candidates_is_in_the_error(data: pd.DataFrame) -> None:
    fit = riesz.ate(FORMULA, data, learner=riesz.Stack([OLS, SHRUNK]))
    table = fit.candidates.loc["ATE"]
    stacked, design = predictions(fit), design_of(fit)
    between = 0.0
    for place, candidate in enumerate(fit._crossfit.candidates):
        alone = candidate.predictions[0]
        for name, swapped in (("mu", replace(stacked, mu=alone.mu)), ("rr", replace(stacked, rr=alone.rr))):
            score = design.apply(swapped.mu)[0] + swapped.rr.observed[0] * (design.y - swapped.mu.observed)
            between += table[f"weight_{name}"].iloc[place] * (score.mean() - fit.params["ATE"]) ** 2
    influence = fit.augment()[".influence_ATE"].to_numpy()
    variance = (influence**2).sum() / len(influence) / (len(influence) - 1)
    assert fit.bse["ATE"] == pytest.approx(np.sqrt(variance + between), rel=1e-10)
    groups = fit.by(data["x1"] > 0)
    assert (groups.bse > 0).all()


@pytest.mark.parametrize("send", ["file", "pickle"])
def test_files_keep_the_whole_stack(data: pd.DataFrame, tmp_path: Any, send: str) -> None:
    fit = riesz.estimate(
        FORMULA,
        data.assign(g=data.index % 40),
        [riesz.ATE(), riesz.ATT()],
        learner=riesz.Stack([OLS, RIDGE]),
        repeats=2,
        cluster="g",
    )
    if send == "file":
        fit.save(tmp_path / "stack.riesz")
        again = riesz.load(tmp_path / "stack.riesz")
    else:
        again = pickle.loads(pickle.dumps(fit))
    assert str(again) == str(fit)
    pd.testing.assert_frame_equal(again.candidates, fit.candidates)
    pd.testing.assert_frame_equal(again.stacking, fit.stacking)
    pd.testing.assert_frame_equal(again.predict(data), fit.predict(data))
    pd.testing.assert_series_equal(again.with_cov().bse, fit.with_cov().bse)
    pd.testing.assert_frame_equal(again.by(data["x1"] > 0).tidy(), fit.by(data["x1"] > 0).tidy())


def test_predictions_of_new_rows_are_combined_as_those_of_the_fit(data: pd.DataFrame) -> None:
    fit = riesz.ate(FORMULA, data, learner=riesz.Stack([OLS, SHRUNK]), folds=1, repeats=2, trim="95%")
    table = fit.predict(data)
    np.testing.assert_allclose(table["mu"], fit.fittedvalues, rtol=1e-10)
    np.testing.assert_allclose(table["rr_ATE"], fit.riesz_representer["ATE"], rtol=1e-10)


def test_arms_and_several_components() -> None:
    simulation = riesz.datasets.get("arms")
    data = simulation.draw(500, seed=1).data
    fit = riesz.ate(
        simulation.formula, data, learner=riesz.Stack([riesz.Linear(), riesz.Linear(penalty=0.01, rr_penalty=0.01)])
    )
    weights = fit.stacking["weight"].unstack("learner").drop(columns="stack").dropna()
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert len(fit.candidates) == 3 * len(fit.params)


def test_many_tables_are_as_one_by_one() -> None:
    tables = [riesz.datasets.get("binary").draw(200, seed=seed).data for seed in (1, 2)]
    learner = riesz.Stack([OLS, RIDGE])
    many = riesz.estimate_many(FORMULA, tables, riesz.ATE(), learner=learner)
    for fit, table in zip(many, tables, strict=True):
        assert fit.params.equals(riesz.ate(FORMULA, table, learner=learner).params)


def test_trimming_reaches_the_candidates(data: pd.DataFrame) -> None:
    fit = riesz.ate(FORMULA, data, learner=riesz.Stack([OLS, RIDGE]), trim=4.0)
    alone = riesz.ate(FORMULA, data, learner=RIDGE, trim=4.0)
    name = RIDGE.describe("gaussian")
    rows = fit.candidates.loc["ATE"]
    assert rows["estimate"].iloc[1] == pytest.approx(alone.params["ATE"], rel=1e-12), name


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: riesz.Stack("linear"), "expected a list of learners"),
        (lambda: riesz.Stack([OLS, OLS]), "in the stack twice"),
        (lambda: riesz.Stack(["lineal"]), "Did you mean .linear."),
        (lambda: riesz.Stack([OLS], repeats=0), "a whole number, 1 or larger"),
    ],
)
def test_wrong_stacks_are_refused(make: Any, words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        make()


def test_a_stack_of_stacks_is_one_stack() -> None:
    assert riesz.Stack([riesz.Stack([OLS, RIDGE]), SHRUNK]).learners == (OLS, RIDGE, SHRUNK)


def test_learners_that_disagree_are_the_first_note() -> None:
    """The threshold is half a standard error."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=1500)
    inside = np.abs(x) < 0.5
    a = (rng.uniform(size=1500) < np.where(inside, 0.8, 0.3)).astype(float)
    table = pd.DataFrame({"y": a + 6 * inside + rng.normal(size=1500), "a": a, "x": x})
    fit = riesz.ate(
        "y ~ treat(a) + x", table, learner=riesz.Stack([OLS, riesz.Linear(penalty=0.5, rr_penalty=0.5)]), calibrate=None
    )
    assert not any("disagree" in text for text in fit.warnings())
    mixed = replace(fit._parts.inference, disagreement=fit.bse.to_numpy())
    object.__setattr__(fit._parts, "inference", mixed)
    assert "learners of the stack disagree about ATE" in fit.warnings()[0]
    assert "disagree" in fit.summary().notes[0]


def test_the_default_does_without_lightgbm_where_it_cannot_load(
    data: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("riesz.learners.boosting.engine.available", lambda: False)
    fit = riesz.ate(FORMULA, data, learner=riesz.Stack([riesz.Splines(), RIDGE, riesz.Boosting()]), folds=2)
    assert list(fit._crossfit.left_out) == ["Boosting"]
    assert "Boosting is not in the stack here" in str(fit.summary())
    assert len(fit.candidates) == 3


@pytest.mark.parametrize("frame", ["binary", "arms", "continuous"])
def test_the_moment_of_a_constant_in_each_arm_is_exact(frame: str) -> None:
    simulation = riesz.datasets.get(frame)
    data = simulation.draw(400, seed=1).data
    verb = riesz.ade if frame == "continuous" else riesz.ate
    fit = verb(
        simulation.formula, data, learner=riesz.Stack([riesz.Linear(), riesz.Linear(penalty=0.01, rr_penalty=3.0)])
    )
    design, rr = design_of(fit), predictions(fit).rr
    if frame == "continuous":
        np.testing.assert_allclose(design.mean(rr.observed), 0, atol=1e-10)
        return
    arms = range(int(design.strata.max()) + 1)
    sums = np.stack([design.mean(rr.observed * (design.strata == arm)) for arm in arms], axis=1)
    expected = [[-1.0, *(float(arm == parameter) for arm in arms[1:])] for parameter in arms[1:]]
    np.testing.assert_allclose(sums, expected, atol=1e-10)
    higher = data.assign(y=data["y"] + 100)
    shifted = verb(simulation.formula, higher, learner=fit.model.learner)
    np.testing.assert_allclose(
        shifted.estimates["estimate"].xs("ipw", level=1), fit.estimates["estimate"].xs("ipw", level=1), rtol=1e-6
    )


def test_without_covariates_a_stack_is_the_difference_in_means(data: pd.DataFrame) -> None:
    fit = riesz.ate("y ~ treat(a)", data, learner=riesz.Stack([OLS, SHRUNK]))
    means = data.groupby("a")["y"].mean()
    assert fit.estimates.loc[("ATE", "ipw"), "estimate"] == pytest.approx(means[1] - means[0], rel=1e-9)


def test_new_rows_need_not_have_every_arm(data: pd.DataFrame) -> None:
    fit = riesz.ate(FORMULA, data, learner=riesz.Stack([OLS, SHRUNK]))
    together = fit.predict(data)
    treated = data.index[data["a"] == 1][:1]
    pd.testing.assert_frame_equal(fit.predict(data.loc[treated]), together.loc[treated])


def test_how_far_learners_are_apart() -> None:
    """Exactly known errors: two learners that each miss another half of the signal, and their mean."""
    rng = np.random.default_rng(0)
    first, second, noise = rng.choice([-1.0, 1.0], (3, 4000))
    data = pd.DataFrame({"y": first + second + 0.1 * noise, "a": np.arange(4000) % 2, "x": first})
    design = riesz.ate("y ~ treat(a) + x", data, learner="linear", folds=2).model.blueprint.design
    apart, gain = mu_apart([2 * first, 2 * second], first + second, design)
    np.testing.assert_allclose([apart, gain], [8 / 0.01, 2 / 0.01], rtol=0.2)
    assert mu_apart([first + second, first], first + second, design)[1] == 0.0
    assert np.isnan(mu_apart([first], first, design)).all()
    assert np.isnan(mu_apart([first, second], design.y, design)).all()
