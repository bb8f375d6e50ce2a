"""What learners did wrong without a word: samples that follow the order of the rows, origins and units, copies of rows."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.crossfit.copies import find_copies
from riesz.design.design import Design
from riesz.learners import kernel_embedding as kernel
from riesz.learners.linear import ridge
from riesz.learners.linear.learner import fit_linear
from riesz.learners.neural.engine import training
from riesz.learners.neural.objectives import embedding, moment_constrained
from riesz.learners.splines import learner as splines

QUICK = riesz.MADNet(width=8, head_width=4, stages=(riesz.Stage(1e-2, 5, 5),), networks=2, repeats=1)


def design_of(formula: str, data: pd.DataFrame, *estimands: riesz.estimands.Estimand, **options: object) -> Design:
    return riesz.estimate(formula, data, list(estimands), learner="linear", **options).model.blueprint.design


# Rows in pairs: a control, then its treated twin. Every second row is a control.


@pytest.fixture(scope="module")
def pairs() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=400), 2)
    a = np.tile([0.0, 1.0], 400)
    return pd.DataFrame(
        {"y": x + a * (2 + x) + 0.3 * rng.normal(size=800), "a": a, "x": x, "pair": np.arange(800) // 2}
    )


def test_closed_forms_use_both_arms_of_sorted_pairs(pairs: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splines, "MOST_ROWS", 400)
    monkeypatch.setattr(splines, "_LEAST_ROWS", 400)
    fit = riesz.ate("y ~ treat(a) + x", pairs, learner=riesz.Splines(), folds=1)
    np.testing.assert_allclose(fit.params["ATE"], 2 + pairs["x"].mean(), atol=0.1)
    treated = pairs["a"].to_numpy() == 1
    rr = fit.predictions.rr.observed[0]
    assert rr[treated].mean() > 0 > rr[~treated].mean()


def test_the_exact_constraint_uses_both_arms_of_sorted_pairs(
    pairs: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moment_constrained, "MOST_ROWS", 400)
    learner = riesz.MADNet(width=8, head_width=4, stages=(riesz.Stage(1e-2, 3, 3),), networks=1, constraint="exact")
    result = riesz.ate("y ~ treat(a) + x", pairs, learner=learner, folds=1, repeats=1)
    treated = pairs["a"].to_numpy() == 1
    rr = result.predictions.rr.observed[0]
    # the representer is 2 for the treated and -2 for the others; without treated rows the solution was zero or arbitrary
    assert abs(rr[treated].mean() - 2) < 0.3
    assert abs(rr[~treated].mean() + 2) < 0.3


def test_the_neural_embedding_uses_both_arms_of_sorted_pairs(
    pairs: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "MOST_ROWS", 400)
    learner = riesz.NeuralEmbedding(width=16, stages=(riesz.Stage(1e-2, 10, 5),))
    result = riesz.ate("y ~ treat(a) + x", pairs, learner=learner, folds=1)
    assert abs(result.params["ATE"] - 2 - pairs["x"].mean()) < 0.3


def test_validation_uses_both_arms_of_sorted_pairs(pairs: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters stay whole, so that validation rows are pairs, too."""
    monkeypatch.setattr(training, "MOST_VALIDATION_ROWS", 64)
    shares: list[float] = []
    gather_rows = training._Run._gather_rows

    def watched(self: training._Run) -> None:
        gather_rows(self)
        is_row = self.validation.weights > 0
        treated = self.validation.observed_shares[..., 1]
        shares.extend(float(member[mask].mean()) for member, mask in zip(treated, is_row, strict=True))

    monkeypatch.setattr(training._Run, "_gather_rows", watched)
    riesz.ate("y ~ treat(a) + x", pairs, learner=QUICK, folds=2, cluster="pair")
    assert len(shares) >= 4
    assert all(0.2 < share < 0.8 for share in shares)


def waves(n: int = 400, size: int = 1) -> pd.DataFrame:
    """Units of ``size`` rows; the outcome of every second one is noise, that of the others a line in ten covariates."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n * size, 10))
    unit = np.arange(n * size) // size
    a = rng.integers(0, 2, n * size).astype(float)
    y = np.where(unit % 2 == 0, rng.normal(size=n * size), 4 * x.sum(axis=1) + a)
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(10)]).assign(y=y, a=a, unit=unit)


@pytest.mark.parametrize("clustered", [False, True])
def test_rows_and_clusters_left_out_in_turn_are_a_random_part(clustered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every second one the noise alone chose: the largest penalty there is, though the line is plain."""
    data = waves(size=2 if clustered else 1)
    options = {"cluster": "unit"} if clustered else {}
    design = design_of("y ~ treat(a) + " + " + ".join(f"x{j}" for j in range(10)), data, riesz.ATE(), **options)
    name = "_MOST_CLUSTERS" if clustered else "_MOST_LEFT_OUT"
    monkeypatch.setattr(ridge, "_WORK", 0.0)
    monkeypatch.setattr(ridge, name, 10**9)
    whole = fit_linear(design, "loo", "loo", constrained=True).details()
    monkeypatch.setattr(ridge, name, 200)
    part = fit_linear(design, "loo", "loo", constrained=True).details()
    for penalty in ("penalty", "rr_penalty_0"):
        places = [int(np.flatnonzero(one[penalty] == ridge.GRID)[0]) for one in (whole, part)]
        assert abs(places[0] - places[1]) <= 2, penalty


@pytest.mark.parametrize("clustered", [False, True])
def test_the_loss_of_a_part_is_that_of_the_whole(clustered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses of several sets of features are compared, each on rows of its own number."""
    data = waves(size=2 if clustered else 1)
    options = {"cluster": "unit"} if clustered else {}
    design = design_of("y ~ treat(a) + " + " + ".join(f"x{j}" for j in range(10)), data, riesz.ATE(), **options)
    basis = ridge.make_basis(design, design.weights, design.y[None])
    name = "_MOST_CLUSTERS" if clustered else "_MOST_LEFT_OUT"
    monkeypatch.setattr(ridge, "_WORK", 0.0)
    losses = []
    for most in (10**9, 200):
        monkeypatch.setattr(ridge, name, most)
        losses.append(
            ridge.choose_outcome_penalty(design, basis, design.y, basis.projections[:, 0], np.array([0.01]))[1]
        )
    assert losses[1] == pytest.approx(losses[0], rel=0.2)


def test_the_median_distance_is_that_of_a_random_part(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=400) * np.tile([0.001, 1.0], 200)
    data = pd.DataFrame({"y": x + rng.normal(size=400), "a": rng.integers(0, 2, 400), "x": x})
    design = design_of("y ~ treat(a) + x", data, riesz.ATE())
    whole = kernel.make_kernel(design, np.ones(400), 1.0, False).scale
    monkeypatch.setattr(kernel, "_MOST_PAIRED", 200)
    part = kernel.make_kernel(design, np.ones(400), 1.0, False).scale
    np.testing.assert_allclose(part, whole, rtol=0.4)


def test_parts_of_rows_follow_the_seed(pairs: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """One seed, one answer; alone or with other tables; another seed leaves other rows out."""
    monkeypatch.setattr(ridge, "_MOST_LEFT_OUT", 50)
    monkeypatch.setattr(splines, "MOST_ROWS", 300)
    monkeypatch.setattr(splines, "_LEAST_ROWS", 300)
    for learner in ("linear", riesz.Splines(), QUICK):
        one, again = (riesz.ate("y ~ treat(a) * x", pairs, learner=learner, seed=3) for _ in range(2))
        both = riesz.estimate_many("y ~ treat(a) * x", [pairs, pairs], riesz.ATE(), learner=learner, seeds=[4, 3])
        np.testing.assert_array_equal(one.influence, again.influence)
        np.testing.assert_array_equal(one.influence, both[1].influence)
    data = waves().assign(fold=np.arange(400) % 3)
    formula = "y ~ treat(a) + " + " + ".join(f"x{j}" for j in range(10))
    monkeypatch.setattr(ridge, "_MOST_LEFT_OUT", 20)
    found = {tuple(riesz.ate(formula, data, folds="fold", seed=seed).details()["penalty"]) for seed in range(6)}
    assert len(found) > 1


# Results do not depend on the treatment's zero and unit.


def dose(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    x1, x2 = rng.normal(size=(2, n))
    d = 0.5 * x1 + (1 + 0.3 * np.tanh(x2)) * rng.normal(size=n)
    y = d + 0.3 * d**2 + d * x1 + np.sin(x2) + rng.normal(size=n)
    return pd.DataFrame({"y": y, "d": d, "x1": x1, "x2": x2})


def tangents_of(term: str, data: pd.DataFrame) -> np.ndarray:
    """Of the last column that a term adds."""
    point = design_of(f"y ~ treat(d) + x1 + {term}", data, riesz.ADE(), folds=1).readings()[0]
    assert point.tangents is not None
    return point.tangents[:, -1]


@pytest.mark.parametrize("origin", [0.0, 1e2, 1e4, 1e6])
def test_tangents_are_derivatives_wherever_zero_is(origin: float) -> None:
    data = dose()
    near = data["d"].to_numpy() - data["d"].min() + 1.0
    data["d"] = near + origin
    d, x1 = data["d"].to_numpy(), data["x1"].to_numpy()
    # to a share of what the term adds beyond a line in d, which is what an effect is made of
    np.testing.assert_allclose(tangents_of("treat(d):x1", data), x1, atol=1e-7)
    np.testing.assert_allclose(tangents_of("I(treat(d)**2)", data), 2 * d, atol=1e-3, rtol=0)
    np.testing.assert_allclose(tangents_of("I(treat(d)**2):x1", data), 2 * d * x1, atol=3e-3, rtol=0)
    np.testing.assert_allclose(tangents_of("log(treat(d))", data), 1 / d, rtol=1e-8)
    np.testing.assert_allclose(tangents_of("np.sqrt(treat(d))", data), 0.5 / np.sqrt(d), rtol=1e-8)
    np.testing.assert_allclose(
        tangents_of(f"np.sin(treat(d) - {origin!r})", data), np.cos(d - origin), atol=1e-7, rtol=0
    )
    np.testing.assert_allclose(
        tangents_of(f"np.maximum(treat(d), {origin + 3!r})", data), (near >= 3).astype(float), atol=1e-7
    )


def test_tangents_of_splines_do_not_move_with_zero() -> None:
    data = dose()
    found = []
    for origin in (0.0, 1e4, 1e6):
        moved = data.assign(d=data["d"] + origin)
        point = design_of("y ~ bs(treat(d), df=6) + x1", moved, riesz.ADE(), folds=1).readings()[0]
        assert point.tangents is not None
        found.append(point.tangents)
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    np.testing.assert_allclose(found[2], found[0], atol=1e-4)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_what_is_identified_does_not_depend_on_units(unit: float) -> None:
    """The columns of cr() sum to one on every row and everywhere else; a copy of the treatment does not follow it."""
    data = dose().assign(d=lambda frame: unit * frame["d"], copy=lambda frame: 3 * frame["d"])
    riesz.ade("y ~ cr(treat(d), df=4) + x1", data)
    with pytest.raises(riesz.LearnerError, match="not identified"):
        riesz.ade("y ~ treat(d) + copy + x1", data)


def moved(verb: str, formula: str, origin: float, unit: float) -> tuple[float, float]:
    """Estimate and standard error in the old units, with the treatment in new ones."""
    data = dose().assign(d=lambda frame: unit * frame["d"] + origin)
    options: dict[str, object] = {"ade": {}, "ipe": {"policy": "x2 > 0"}, "shift": {"delta": 0.3 * unit}}[verb]
    result = getattr(riesz, verb)(formula, data, learner="linear", **options)
    back = 1.0 if verb == "shift" else unit
    return float(result.params.iloc[0]) * back, float(result.bse.iloc[0]) * back


@pytest.mark.parametrize("verb", ["ade", "ipe", "shift"])
@pytest.mark.parametrize(
    "formula",
    [
        "y ~ treat(d) * (x1 + x2)",
        "y ~ treat(d) * x1 + I(treat(d)**2) + x2",
        "y ~ (treat(d) + I(treat(d)**2)) * x1 + x2",
        "y ~ cr(treat(d), df=5) * x1",
    ],
)
def test_estimates_do_not_depend_on_the_treatments_zero_or_unit(verb: str, formula: str) -> None:
    estimate, error = moved(verb, formula, 0.0, 1.0)
    for origin, unit in (
        (1.0, 1.0),
        (1e2, 1.0),
        (1e4, 1.0),
        (1e6, 1.0),
        (-1e6, 1.0),
        (0.0, 1e-6),
        (0.0, 1e6),
        (1e6, 1e3),
    ):
        found = moved(verb, formula, origin, unit)
        assert abs(found[0] - estimate) < 1e-3 * error, (origin, unit)
        assert abs(found[1] - error) < 1e-3 * error, (origin, unit)


def test_a_power_that_rounding_hides_is_refused() -> None:
    """A cube at a million has a hundred in its last digit, and adds about one to the square."""
    data = dose().assign(d=lambda frame: frame["d"] + 1e6)
    with pytest.raises(riesz.LearnerError, match=r"so far from zero that rounding hides .* center\(x\)"):
        riesz.ade("y ~ treat(d) + I(treat(d)**2) + I(treat(d)**3) + x1", data)


def test_a_product_that_repeats_its_parts_does_no_harm() -> None:
    """x1:one is x1 again, and treat(d):one the treatment: nothing is lost without a penalty."""
    data = dose().assign(one=1.0)
    twice, once = (
        riesz.ade(f"y ~ treat(d) * x1{more}", data, learner=riesz.Linear(0, 0))
        for more in (" + treat(d):one + treat(d):x1:one", "")
    )
    np.testing.assert_allclose(twice.params, once.params, rtol=1e-9)
    np.testing.assert_allclose(twice.bse, once.bse, rtol=1e-9)


# A row with a frequency and its copies are the same data.


def copied(name: str, seed: int, discrete: bool = False) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Data with frequencies, and the same with rows repeated; both with fold labels, the latter with the row's number."""
    rng = np.random.default_rng(seed)
    short = (
        riesz.datasets.get(name)
        .draw(300, seed=seed)
        .data.assign(k=rng.integers(1, 5, 300), fold=rng.integers(0, 5, 300))
    )
    if discrete:
        short["y"] = (short["y"] > short["y"].median()).astype(float)
    long = np.repeat(np.arange(300), short["k"])
    return short, short.iloc[long].reset_index(drop=True).assign(row=long)


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize(("name", "verb"), [("binary", "ate"), ("continuous", "ade")])
def test_frequencies_are_copies_in_clusters(name: str, verb: str, discrete: bool) -> None:
    short, long = copied(name, 1, discrete)
    formula = "y ~ treat(a) * x1 + x2 + x3"
    ask = getattr(riesz, verb)
    one = ask(formula, short, freq_weights="k", folds="fold")
    two = ask(formula, long, folds="fold", cluster="row")
    np.testing.assert_allclose(two.params, one.params, rtol=1e-10)
    np.testing.assert_allclose(two.details(), one.details(), rtol=1e-10)


@pytest.mark.parametrize("learner", ["linear", "kernel_embedding", "propensity"])
def test_frequencies_are_copies(learner: str) -> None:
    """Without clusters and labels, too: copies are kept in one fold, and that of the row they repeat."""
    short, long = copied("binary", 2)
    one = riesz.ate("y ~ treat(a) + x1 + x2 + x3", short, freq_weights="k", learner=learner)
    two = riesz.ate("y ~ treat(a) + x1 + x2 + x3", long, learner=learner)
    np.testing.assert_allclose(two.params, one.params, rtol=1e-8)
    np.testing.assert_allclose(two.bse, one.bse, rtol=1e-8)
    np.testing.assert_array_equal(one._crossfit.folds[0][long["row"]], two._crossfit.folds[0])


@pytest.mark.parametrize(("name", "verb"), [("binary", "ate"), ("continuous", "ade")])
def test_networks_learn_from_copies_as_from_frequencies(name: str, verb: str) -> None:
    """Copies in validation rows kept networks training long after they had begun to learn the noise."""
    short, long = copied(name, 3)
    ask, formula = getattr(riesz, verb), "y ~ treat(a) + x1 + x2 + x3"
    one = ask(formula, short, freq_weights="k", folds="fold", learner=QUICK)
    other = ask(formula, short, freq_weights="k", folds="fold", learner=QUICK, seed=1)
    reseeded = abs(other.params.iloc[0] - one.params.iloc[0])
    for options in ({}, {"cluster": "row"}):
        two = ask(formula, long, folds="fold", learner=QUICK, **options)
        assert abs(two.params.iloc[0] - one.params.iloc[0]) < max(reseeded, 0.02 * one.bse.iloc[0])


def test_given_folds_may_separate_copies() -> None:
    """Then a training set has the weight of the copies that are in it."""
    _, long = copied("binary", 4)
    long = long.assign(fold=np.arange(len(long)) % 3)
    result = riesz.ate("y ~ treat(a) + x1", long, folds="fold", learner=riesz.Linear(0, 0))
    mu = np.empty(len(long))
    for fold in range(3):
        train, test = long[long["fold"] != fold], long["fold"] == fold
        z = np.column_stack([np.ones(len(train)), train[["a", "x1"]]])
        theta = np.linalg.lstsq(z, train["y"], rcond=None)[0]
        mu[test] = np.column_stack([np.ones(test.sum()), long.loc[test, ["a", "x1"]]]) @ theta
    np.testing.assert_allclose(result.predictions.mu.observed, mu, rtol=1e-9)


def test_people_who_look_alike_are_not_copies(binary_frame: pd.DataFrame) -> None:
    """With a 0/1 outcome and two factors hundreds of rows are equal but different people; also with heaps in an outcome."""
    data = binary_frame.assign(x1=binary_frame["x1"] > 0)
    for y in (binary_frame["y"] > 1, binary_frame["y"].round(), binary_frame["y"].clip(lower=1).round(1)):
        design = design_of("y ~ treat(a) + x1 + g", data.assign(y=y.astype(float)), riesz.ATE())
        assert find_copies(design) is None


def test_two_copies_among_many_rows_are_found() -> None:
    data = dose()
    found = find_copies(design_of("y ~ treat(d) + x1", pd.concat([data, data.iloc[[7]]]), riesz.ADE()))
    assert found is not None
    assert found[-1] == found[7] == 7
    assert find_copies(design_of("y ~ treat(d) + x1", data, riesz.ADE())) is None


def test_more_folds_than_distinct_rows_are_refused() -> None:
    data = pd.concat([dose(30)] * 4)
    with pytest.raises(riesz.DataError, match="folds=40, but only 30 rows are distinct"):
        riesz.ade("y ~ treat(d) + x1", data, folds=40)


# More columns than rows, and very many.


def wide(n: int, p: int) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, p))
    a = (rng.uniform(size=n) < 0.5).astype(float)
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(p)]).assign(a=a, y=a + x[:, 0] + rng.normal(size=n))


def test_a_ridge_with_more_columns_than_rows_by_hand() -> None:
    """Found among the rows, it is the same ridge."""
    data, lam = wide(60, 150), 0.03
    result = riesz.ate("y ~ treat(a) + .", data, learner=riesz.Linear(lam, lam, rr="riesz"), folds=1)
    design = result.model.blueprint.design
    z = design.z
    m = design.moment_rows(0)
    mean, sd = z.mean(axis=0), z.std(axis=0)
    mean[0], sd[0] = 0.0, 1.0
    z, m = (z - mean) / sd, (m - mean * m[:, :1]) / sd
    left = z.T @ z / 60 + lam * np.diag(np.r_[0.0, np.ones(z.shape[1] - 1)])
    np.testing.assert_allclose(
        result.predictions.mu.observed, z @ np.linalg.solve(left, z.T @ design.y / 60), atol=1e-8
    )
    np.testing.assert_allclose(result.predictions.rr.observed[0], z @ np.linalg.solve(left, m.mean(axis=0)), atol=1e-8)


@pytest.mark.parametrize("learner", ["linear", QUICK], ids=["linear", "networks"])
def test_more_columns_than_rows_take_seconds(learner: object) -> None:
    """Problems of the size of the columns took twenty times as long."""
    data = wide(150, 2000)
    begun = time.process_time()
    result = riesz.ate("y ~ treat(a) + .", data, learner=learner)
    assert time.process_time() - begun < 8
    assert np.isfinite(result.bse).all()


@pytest.mark.parametrize("learner", ["linear", "splines"])
def test_very_many_columns_are_announced(learner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Began(Exception):
        pass

    def begin(*_: object) -> None:
        raise Began

    monkeypatch.setattr(riesz.Linear, "fit", begin)
    monkeypatch.setattr(riesz.Splines, "fit", begin)
    monkeypatch.setattr("riesz.learners.linear.learner.unidentified", lambda design: None)
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"g": np.arange(8000) % 4000, "a": rng.integers(0, 2, 8000), "y": rng.normal(size=8000)})
    with (
        pytest.warns(riesz.RieszWarning, match="makes 4,001 columns.* will take about (a minute|.* minutes)"),
        pytest.raises(Began),
    ):
        riesz.ate(
            "y ~ treat(a) + C(g)", data, learner=learner, folds=np.arange(8000) // 4000
        )  # every level in both folds
    with pytest.raises(Began):  # and nothing is said of an ordinary fit
        riesz.ate("y ~ treat(a) + g", data, learner=learner)


# The pages about the paper.


def test_the_shadow_of_a_derivatives_anchor_has_a_plus() -> None:
    """beta_perp = a + s / E[s^2] with the score s = p'/p: rr = -s, h(a) = 1, and the moment of beta_perp is zero."""
    simulation = riesz.datasets.get("continuous")
    sample, step = simulation.draw(20_000, seed=1).data, 1e-4

    def shadow(frame: pd.DataFrame, sign: float) -> np.ndarray:
        score = -simulation.riesz_representer(riesz.ADE(), frame)[0]
        return frame["a"].to_numpy() + sign * score / length

    length = np.mean(simulation.riesz_representer(riesz.ADE(), sample)[0] ** 2)
    moments = [
        np.mean(shadow(sample.assign(a=sample["a"] + step), sign) - shadow(sample.assign(a=sample["a"] - step), sign))
        / (2 * step)
        for sign in (1.0, -1.0)
    ]
    np.testing.assert_allclose(moments, [0.0, 2.0], atol=0.05)  # the paper's minus doubles the moment


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("benchmarks/README.md", "only fully connected networks"),
        ("benchmarks/paper/README.md", "only fully connected networks"),
        ("benchmarks/paper/README.md", "sign error"),
        ("vignettes/10-replication.md", "only fully connected networks"),
        ("vignettes/10-replication.md", "sign error"),
        ("vignettes/05-geometry.md", "sign error"),
        (
            "vignettes/05-geometry.md",
            r"a + E\left[\left(\frac{p'(A|X)}{p(A|X)}\right)^2\right]^{-1}\frac{p'(a|x)}{p(a|x)}",
        ),
    ],
)
def test_pages_mention_the_limits_of_the_comparison_with_the_paper(page: str, words: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text()
    assert words in " ".join(text.split())


# Numbers that single precision cannot hold are errors, and no warning of numpy appears.


@pytest.mark.parametrize(
    ("verb", "change", "words"),
    [
        ("ade", {"d": 1e-40}, "the treatment or a covariate exceeds"),
        ("ade", {"d": 1e40}, "the moment or its anchor exceeds"),
        ("shift", {}, "the treatment exceeds"),
        ("outlier in y", {}, "the outcome exceeds"),
        ("outlier in x1", {}, "the treatment or a covariate exceeds"),
    ],
)
def test_numbers_beyond_single_precision_are_refused(verb: str, change: dict[str, float], words: str) -> None:
    data = dose().assign(
        **{name: lambda frame, name=name, unit=unit: unit * frame[name] for name, unit in change.items()}
    )
    options = {"delta": 1e50} if verb == "shift" else {}
    if verb.startswith("outlier"):
        data.loc[0, verb.split()[-1]] = 1e45
        verb = "ade"
    with pytest.raises(riesz.LearnerError, match=f"single precision, which holds numbers up to 3e38, and {words}"):
        getattr(riesz, verb)("y ~ treat(d) + x1 + x2", data, learner=QUICK, folds=2, **options)


def test_tiny_units_of_a_covariate_do_not_break_splines() -> None:
    """Those whose squares vanish are refused."""
    data = dose().assign(x1=lambda frame: 1e-45 * frame["x1"])
    assert np.isfinite(riesz.ade("y ~ treat(d) + x1 + x2", data, learner=QUICK, folds=2).params).all()
    with pytest.raises(riesz.DataError, match="Column `x1` holds only numbers below 1e-100"):
        riesz.ade("y ~ treat(d) + x1 + x2", data.assign(x1=1e-75 * data["x1"]), learner=QUICK, folds=2)


# Absurd numbers of folds, repeats, threads and seeds.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"folds": 10**30}, "folds=1000000000000000000000000000000, but only 400 rows are in use"),
        ({"folds": 10**9999}, r"folds=about 10\*\*9999, but only 400 rows are in use"),
        ({"folds": 1e300}, "folds=1e\\+300, but only 400 rows are in use"),
        ({"folds": -(10**30)}, "folds=-10+: expected a whole number"),
        ({"folds": np.inf}, "folds=inf: expected a whole number"),
        ({"folds": 2.5}, "folds=2.5: expected a whole number"),
        ({"folds": True}, "folds=True: expected a whole number"),
        ({"repeats": 10**30}, "repeats=10+: must be at most 10,000"),
        ({"repeats": 10**6}, "repeats=1000000: must be"),
        ({"repeats": True}, "repeats=True: expected a whole number"),
        ({"repeats": 2.0}, "repeats=2.0: expected a whole number"),
        ({"n_jobs": 0}, "n_jobs=0: expected a whole number"),
        ({"n_jobs": True}, "n_jobs=True: expected a whole number"),
        ({"n_jobs": -1}, "n_jobs=-1: expected a whole number"),
        ({"seed": -1}, "seed=-1: expected a whole number"),
        ({"seed": 1.5}, "seed=1.5: expected a whole number"),
        ({"seed": True}, "seed=True: expected a whole number"),
        ({"seed": "a"}, "seed='a': expected a whole number"),
    ],
)
def test_absurd_numbers_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(riesz.RieszError, match=words):
        riesz.ade("y ~ treat(d) + x1", dose(), **options)


def test_large_numbers_that_make_sense_are_fine(tmp_path: Path) -> None:
    """More threads than fits, and a seed of any size, which a file keeps."""
    plain = riesz.ade("y ~ treat(d) + x1", dose(), seed=3)
    many = riesz.ade("y ~ treat(d) + x1", dose(), seed=np.int64(3), n_jobs=10**30, folds=np.float64(5))
    np.testing.assert_array_equal(many.influence, plain.influence)
    large = riesz.ade("y ~ treat(d) + x1", dose(), seed=10**30)
    large.save(tmp_path / "fit.riesz")
    assert riesz.load(tmp_path / "fit.riesz").model.settings.seed == 10**30
