"""Closed forms on splines, and their blend with networks: exact where theory says so, weights that follow the better one."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz import datasets
from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.companion.blending import Blended, blend
from riesz.learners.companion.splines import ClosedForm, make_closed_form, refit
from riesz.learners.linear.ridge import make_basis
from riesz.learners.neural.engine.ensemble import Ensemble
from riesz.learners.neural.engine.features import make_expansions
from riesz.learners.neural.engine.points import make_stations
from riesz.learners.neural.engine.scaling import units
from riesz.predictions import Predictions

QUICK = riesz.MADNet(width=8, head_width=4, stages=(riesz.Stage(1e-2, 5, 5),), networks=2, repeats=1)


def design_of(formula: str, data: pd.DataFrame, *estimands: riesz.estimands.Estimand, **options: object) -> Design:
    return riesz.estimate(formula, data, list(estimands), learner="linear", **options).model.blueprint.design


def closed_form(design: Design) -> tuple[ClosedForm, Evaluation, Evaluation]:
    stations = make_stations(design, make_expansions(design, expand=True))
    made = make_closed_form(design, stations)
    return made, *made.evaluate(stations, design)


@pytest.mark.parametrize("name", ["binary", "continuous", "arms"])
def test_the_closed_form_finds_a_truth_in_its_span(name: str) -> None:
    """Mu linear in the inputs and their products with the treatment, no noise: exact, with its derivatives."""
    simulation = datasets.get(name)
    data = simulation.draw(400, seed=2).data
    treatment = simulation.assignment.treatment.name
    a = pd.factorize(data[treatment])[0] if name == "arms" else data[treatment].astype(float)
    data[simulation.outcome.name] = 1.0 + a * (0.5 + data["x1"]) - data["x2"]
    questions = [simulation.questions[verb] for verb in simulation.questions if verb not in ("policy", "ipe")]
    treat = re.search(r"treat\([^)]*\)", simulation.formula)
    assert treat is not None
    design = design_of(f"{simulation.outcome.name} ~ {treat[0]} + x1 + x2", data, *questions)
    _, mu, _ = closed_form(design)
    np.testing.assert_allclose(mu.observed, design.y, atol=1e-3)
    slopes = design.is_derivative
    if slopes.any():
        np.testing.assert_allclose(mu.slopes[slopes][0], 0.5 + data["x1"], atol=1e-2)


def test_the_closed_form_bends_when_the_truth_does() -> None:
    generator = np.random.default_rng(0)
    data = pd.DataFrame({"x": generator.uniform(-2, 2, 1000), "a": generator.integers(0, 2, 1000)})
    data["y"] = np.sin(2 * data["x"]) + data["a"] + 0.2 * generator.standard_normal(1000)
    design = design_of("y ~ treat(a) + x", data, riesz.ATE())
    _, mu, _ = closed_form(design)
    truth = np.sin(2 * data["x"]) + data["a"]
    assert np.mean((mu.observed - truth) ** 2) < 0.01 * np.var(truth)


def test_slopes_of_the_closed_form_are_derivatives_of_its_values(continuous_frame: pd.DataFrame) -> None:
    step = 1e-5
    design = design_of("y ~ treat(d) + x1 + x2", continuous_frame, riesz.ADE())
    made, mu, rr = closed_form(design)
    found = []
    for sign in (1, -1):
        moved = continuous_frame.assign(d=continuous_frame["d"] + sign * step)
        there = design_of("y ~ treat(d) + x1 + x2", moved, riesz.ADE())
        found.append(made.evaluate(made.stations(there), there))
    for at, own in enumerate((mu, rr)):
        difference = (found[0][at].observed - found[1][at].observed) / (2 * step)
        np.testing.assert_allclose(own.slopes[..., 0, :], difference, rtol=1e-4, atol=1e-5)


def test_refitting_on_the_same_rows_changes_nothing(binary_frame: pd.DataFrame) -> None:
    design = design_of("y ~ treat(a) + x1 + x2", binary_frame, riesz.ATE(), riesz.ATT())
    made, mu, rr = closed_form(design)
    stations = made.stations(design)
    again = refit(made, design, stations).evaluate(stations, design)
    np.testing.assert_allclose(again[0].observed, mu.observed)
    np.testing.assert_allclose(again[1].values, rr.values)


def test_arms_may_have_regressions_of_their_own() -> None:
    """One arm is a noisy line, the other bends without noise: each gets its own features and penalty, as by hand."""
    generator = np.random.default_rng(3)
    x, a = generator.uniform(-2, 2, (600, 6)), generator.integers(0, 2, 600)
    data = pd.DataFrame(x, columns=[f"x{j}" for j in range(6)]).assign(a=a)
    data["y"] = np.where(a == 1, x @ np.full(6, 0.3) + 2 * generator.standard_normal(600), 3 * np.sin(2 * x[:, 0]))
    design = design_of("y ~ treat(a) + .", data, riesz.ATE())
    made, mu, _ = closed_form(design)
    assert [len(part.coefficients) for part in made.mu.parts][1] == 7
    for arm, part in enumerate(made.mu.parts):
        own = data[a == arm]
        if arm == 1:
            z = own[[f"x{j}" for j in range(6)]].to_numpy()
            z = (z - z.mean(0)) / z.std(0)
            slope = np.linalg.solve(
                z.T @ z / len(z) + part.penalty * np.eye(6), z.T @ (own["y"] - own["y"].mean()) / len(z)
            )
            np.testing.assert_allclose(mu.observed[a == 1], own["y"].mean() + z @ slope, atol=1e-8)
        else:
            assert np.mean((mu.observed[a == 0] - own["y"]) ** 2) < 0.01 * own["y"].var()
    readings = mu.values[0 if np.allclose(mu.values[0][a == 1], mu.observed[a == 1]) else 1]
    np.testing.assert_allclose(readings[a == 1], mu.observed[a == 1])
    stations = made.stations(design)
    again = refit(made, design, stations).evaluate(stations, design)[0]
    np.testing.assert_allclose(again.values, mu.values)


def test_small_arms_share_a_regression(binary_frame: pd.DataFrame) -> None:
    few = pd.concat([binary_frame[binary_frame["a"] == 0], binary_frame[binary_frame["a"] == 1].head(20)])
    made, _, _ = closed_form(design_of("y ~ treat(a) + x1 + x2", few, riesz.ATE()))
    assert made.mu.parts == ()


class Known:
    """An objective whose networks are predictions, by row of the sample."""

    def readout(self, network: Predictions, design: Design) -> Predictions:
        def pick(values: np.ndarray) -> np.ndarray:
            return values[..., design.index]

        return Predictions(network.mu.map(pick), network.rr.map(pick), scale_free=True)


def known(*networks: tuple[Evaluation, Evaluation]) -> Ensemble:
    """Networks that predict the given mu and rr."""
    predictions = tuple(Predictions(mu, rr, scale_free=True) for mu, rr in networks)
    return Ensemble(predictions, Known())  # type: ignore[arg-type]


@pytest.mark.parametrize("good", [True, False])
def test_weights_follow_what_predicts_unseen_rows(good: bool) -> None:
    """A network that knows the truth gets the weight; one that talks nonsense gets none of it."""
    simulation = datasets.get("weak_overlap")
    draw = simulation.draw(2000, seed=3)
    design = design_of("y ~ treat(a) + .", draw.data, riesz.ATE())
    closed, mu, rr = closed_form(design)
    noise = np.random.default_rng(1).standard_normal(2000)
    if good:
        ones, zeros = (simulation.mu(draw.data.assign(a=value)) for value in (1, 0))
        mu = replace(mu, observed=draw.mu, values=np.stack([ones, zeros]))
        own = [simulation.riesz_representer(riesz.ATE(), draw.data.assign(a=value))[0] for value in (1, 0)]
        rr = Evaluation(
            simulation.riesz_representer(riesz.ATE(), draw.data), np.stack(own)[None], np.zeros((1, 2, 2000))
        )
    else:
        mu = mu.map(lambda values: values + 5 * noise)
        rr = rr.map(lambda values: values + 20 * noise)
    parts = np.array_split(np.random.default_rng(2).permutation(2000), 4)
    found = blend(known(*[(mu, rr)] * len(parts)), closed, closed.stations(design), design, parts).blend
    weights = np.array([*found.mu, found.rr[0]])
    assert weights.shape == (3,)
    assert (weights < 0.35).all() if good else (weights > 0.95).all()


def test_networks_are_judged_as_the_average_they_are() -> None:
    """Each row was kept by one network, but their mean is what predicts; their disagreement tells how much better it is."""
    generator = np.random.default_rng(4)
    simulation = datasets.get("binary")
    draw = simulation.draw(4000, seed=5)
    data = draw.data.assign(y=draw.mu + 0.1 * generator.standard_normal(4000))
    design = design_of("y ~ treat(a) + .", data, riesz.ATE())
    closed, mu, rr = closed_form(design)
    stations = closed.stations(design)
    parts = np.array_split(generator.permutation(4000), 5)
    error = np.mean((mu.observed - draw.mu) ** 2)
    noisy = [
        replace(mu, observed=draw.mu + np.sqrt(5 * error) * generator.standard_normal(4000)) for _ in range(5)
    ]  # alone five times the closed form's error, together the same

    def weights(networks: list[Evaluation]) -> np.ndarray:
        ensemble = known(*((network, rr) for network in networks))
        return blend(ensemble, closed, stations, design, parts).blend.mu

    assert 0.3 < weights(noisy).mean() < 0.7
    assert weights(noisy[:1] * 5).mean() > 0.75


def test_each_arm_has_the_mu_that_suits_it() -> None:
    """Networks that know one arm and talk nonsense in the other are heard where they know, at rows and at readings."""
    simulation = datasets.get("weak_overlap")
    draw = simulation.draw(2000, seed=3)
    design = design_of("y ~ treat(a) + .", draw.data, riesz.ATE())
    closed, mu, rr = closed_form(design)
    treated = draw.data["a"].to_numpy() == 1
    nonsense = mu.observed + 5 * np.random.default_rng(1).standard_normal(2000)
    truth = simulation.mu(draw.data.assign(a=1))
    partly = replace(mu, observed=np.where(treated, truth, nonsense), values=np.stack([truth, nonsense]))
    parts = np.array_split(np.random.default_rng(2).permutation(2000), 4)
    networks = known(*[(partly, rr)] * len(parts))
    stations = closed.stations(design)
    found = blend(networks, closed, stations, design, parts)
    untreated, in_treated = found.blend.mu
    assert untreated > 0.95
    assert in_treated < 0.35
    blended = found.predict(design).mu
    at_one, at_zero = blended.values
    np.testing.assert_allclose(at_one, in_treated * mu.values[0] + (1 - in_treated) * truth)
    np.testing.assert_allclose(at_zero, untreated * mu.values[1] + (1 - untreated) * nonsense)
    np.testing.assert_allclose(blended.observed, np.where(treated, at_one, at_zero))


def test_an_arm_with_few_unseen_rows_is_weighed_with_everyone() -> None:
    draw = datasets.get("arms").draw(900, seed=2)
    levels = sorted(draw.data["arm"].unique())
    rare = np.flatnonzero(draw.data["arm"] == levels[1])[40:]
    data = draw.data.drop(index=draw.data.index[rare])
    design = design_of("y ~ treat(arm) + .", data, riesz.ATE())
    closed, mu, rr = closed_form(design)
    n = len(data)
    noisy = mu.map(lambda values: values + np.random.default_rng(1).standard_normal(n))
    networks = known((noisy, rr), (noisy, rr))
    seen = np.random.default_rng(2).permutation(n)[: n // 3]
    parts = [seen[: len(seen) // 2], seen[len(seen) // 2 :]]
    found = blend(networks, closed, closed.stations(design), design, parts)
    counts = np.bincount(design.strata[seen])
    assert counts.min() < 20 < np.sort(counts)[1]
    held = design.take(seen)
    others = [refit(closed, design.take(np.setdiff1d(np.arange(n), part)), closed.stations(design)) for part in parts]
    apart = np.concatenate(
        [
            one.evaluate(closed.stations(design), design.take(part))[0].observed
            for one, part in zip(others, parts, strict=True)
        ]
    )
    gap = apart - noisy.observed[seen]
    everyone = np.clip(np.sum(gap * (held.y - noisy.observed[seen])) / np.sum(gap**2), 0, 1)
    assert found.blend.mu[counts.argmin()] == pytest.approx(everyone)
    assert found.blend.mu.shape == (len(levels),)


def test_units_are_ranges_of_dummies_and_deviations_of_the_rest() -> None:
    columns = np.array([[0.0, 0.0, 5.0, 1.0], [0.0, 1.0, 5.0, 2.0], [1e-10, 2.0, 5.0, 2.0], [0.0, 3.0, 5.0, 1.0]])
    share = np.array([0.1, 0.2, 0.3, 0.4])
    mean = share @ columns[:, 1]
    want = [1e-10, np.sqrt(share @ (columns[:, 1] - mean) ** 2), np.inf, 1.0]
    np.testing.assert_allclose(units(columns, share, constant=np.inf), want)


def test_a_rare_dummy_is_penalised_in_its_own_units() -> None:
    """With two-valued columns alone, the ridge regression is that of the raw columns."""
    generator = np.random.default_rng(6)
    data = pd.DataFrame(generator.integers(0, 2, (400, 12)), columns=[f"x{j}" for j in range(12)])
    data["rare"] = (np.arange(400) % 40 == 0).astype(int)
    data["a"] = generator.integers(0, 2, 400)
    data["y"] = data["x0"] + 0.3 * generator.standard_normal(400)
    design = design_of("y ~ treat(a) + .", data, riesz.ATE())
    z = design.z
    basis = make_basis(
        design, design.weights, design.y[None], units=units(z, design.weights / design.weights.sum(), constant=1.0)
    )
    names, lam = design.names, 0.5
    kept = [name != "Intercept" for name in names]
    centred = z - z.mean(axis=0)
    gram = centred[:, kept].T @ centred[:, kept] / 400
    direct = np.linalg.solve(gram + lam * np.eye(len(gram)), centred[:, kept].T @ design.y / 400)
    np.testing.assert_allclose(basis.solve(basis.projections[:, 0], lam)[kept], direct, atol=1e-10)


def test_a_blend_stands_between_its_parts(binary_frame: pd.DataFrame) -> None:
    fit = riesz.estimate("y ~ treat(a) + x1 + x2", binary_frame, [riesz.ATE(), riesz.ATT()], learner=QUICK, folds=2)
    design = fit.model.blueprint.design
    for one in fit._crossfit.fits:
        assert isinstance(one, Blended)
        networks, whole = one.networks.predict(design).mu.observed, one.predict(design).mu.observed
        stations = one.blend.closed.stations(design)
        closed, _ = one.blend.closed.evaluate(stations, design)
        share = one.blend.mu[design.strata]
        expected = share * closed.observed + (1 - share) * networks
        np.testing.assert_allclose(whole, expected)
    shares = fit.details().filter(like="closed_form")
    assert list(shares) == ["closed_form_mu_0", "closed_form_mu_1", "closed_form_rr_0", "closed_form_rr_1"]
    assert ((shares >= 0) & (shares <= 1)).all(axis=None)


def test_probabilities_stay_probabilities() -> None:
    simulation = datasets.get("binary_outcome")
    data = simulation.draw(300, seed=1).data
    fit = riesz.ate("y ~ treat(a) + .", data, learner=QUICK, folds=2, family="binomial")
    assert fit.fittedvalues.between(0, 1).all()


def test_many_columns_leave_out_the_larger_sets() -> None:
    generator = np.random.default_rng(0)
    data = pd.DataFrame(generator.standard_normal((120, 150)), columns=[f"x{j}" for j in range(150)])
    data["a"] = np.arange(120) % 2
    data["y"] = data["x0"] + data["a"]
    fit = riesz.ate("y ~ treat(a) + .", data, learner=replace(QUICK, networks=1), folds=2)
    assert np.isfinite(fit.params).all()
