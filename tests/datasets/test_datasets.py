"""The simulations' truths are right: their grids, draws, means, propensities and representers agree with each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.datasets import SIMULATIONS, Simulation, get, load_rand
from riesz.datasets.assignment import Arms, Gaussian
from riesz.datasets.covariates import Choice
from riesz.datasets.outcomes import Bernoulli
from riesz.design.table import Table
from riesz.errors import DataError, EstimandError, RieszWarning
from riesz.estimands import Sample
from riesz.estimands.arms import APE, ATE, ATT
from riesz.estimands.custom import CustomMoment
from riesz.estimands.derivatives import ADE, IPE
from riesz.estimands.linear_form import Mu
from riesz.estimands.shifts import Mean, Shift
from riesz.estimands.treatment import describe_treatment
from riesz.families import find_family
from riesz.settings import Settings
from riesz.syntax.columns import Columns
from riesz.syntax.formula import parse_formula

VERBS = {
    "binary": {"ate", "att", "atc", "ape", "mean"},
    "weak_overlap": {"ate", "att", "atc", "ape", "mean"},
    "arms": {"ate", "att", "atc", "mean"},
    "binary_outcome": {"ate", "att", "ape", "mean"},
    "continuous": {"ade", "ipe", "shift", "mean"},
    "gasoline": {"ade", "ipe", "shift"},
    "clustered": {"ate", "att"},
    "counts": {"ate", "att", "ape", "mean"},
    "costs": {"ade", "ipe", "shift"},
    "skewed": {"ate", "att", "ape", "mean"},
    "skewed_dose": {"ade", "ipe", "shift"},
}
QUESTIONS = [(name, verb) for name, verbs in VERBS.items() for verb in sorted(verbs)]
each_simulation = pytest.mark.parametrize("name", list(VERBS))
each_question = pytest.mark.parametrize(("name", "verb"), QUESTIONS)
only_with_arms = pytest.mark.parametrize("name", [name for name in VERBS if "ade" not in VERBS[name]])


def bound(simulation: Simulation, estimand: Any, data: pd.DataFrame) -> tuple[Any, pd.DataFrame]:
    """The components as a fit would bind them to a draw, from the formula and the data alone."""
    columns = list(data.columns)
    formula = parse_formula(simulation.formula, columns, list(simulation.keywords.get("cluster", "")), {})
    data = Table(data).to_pandas(columns)
    column = data[formula.treatment]
    treatment, column = describe_treatment(column, formula.reference, estimand.treatment_kind(column), estimand.verb)
    data = data.assign(**{formula.treatment: column})
    return estimand.components(Sample(data, treatment, np.arange(len(data)), len(data))), data


def test_the_registry_is_complete():
    assert set(SIMULATIONS) == set(VERBS)
    for name, simulation in SIMULATIONS.items():
        assert get(name) is simulation
        assert simulation.name == name
        assert set(simulation.questions) == VERBS[name]
        assert all(question.verb == verb for verb, question in simulation.questions.items())
    assert get("clustered").keywords == {"cluster": "village"}
    assert get("binary_outcome").keywords == {"family": "binomial"}
    assert get("counts").keywords == {"family": "poisson"}
    assert get("costs").keywords == {"family": "gamma"}
    assert get("skewed").keywords == {"family": riesz.Quantile(0.75)}


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(DataError, match="Did you mean `binary`"):
        get("binery")


@each_simulation
def test_a_seed_fixes_the_draw(name):
    simulation = get(name)
    one, same, other = simulation.draw(50, seed=3), simulation.draw(50, seed=3), simulation.draw(50, seed=4)
    pd.testing.assert_frame_equal(one.data, same.data)
    assert not one.data.equals(other.data)
    np.testing.assert_array_equal(one.mu, simulation.mu(one.data))
    assert len(simulation.draw(1, seed=0).data) == 1
    assert 3 <= len(simulation.covariates) <= 6


def test_no_rows_is_an_error():
    with pytest.raises(DataError, match="n must be at least 1"):
        get("binary").draw(0, seed=1)


@each_simulation
def test_signal_to_noise_is_moderate(name):
    simulation = get(name)
    grid, mu = simulation.grid, simulation.mu(simulation.grid.frame)
    ratio = grid.mean((mu - grid.mean(mu)) ** 2) / grid.mean(simulation.outcome.variance(mu))
    low = 0.3 if isinstance(simulation.outcome, Bernoulli) else 0.5
    assert low < ratio < 2


@only_with_arms
def test_arms_have_probabilities_away_from_zero(name):
    assignment = get(name).assignment
    assert isinstance(assignment, Arms)
    data = get(name).draw(100_000, seed=1).data
    corners = get(name).grid.frame
    for frame in (data, corners):
        p = assignment.probabilities(frame)
        np.testing.assert_allclose(p.sum(axis=1), 1)
        assert p.min() >= 0.02
        assert p.max() <= 0.98
    if name == "weak_overlap":
        assert p.min() < 0.03


@pytest.mark.parametrize("name", [name for name in VERBS if "ade" in VERBS[name]])
def test_a_continuous_treatment_has_spread(name):
    simulation = get(name)
    assert isinstance(simulation.assignment, Gaussian)
    sd = simulation.assignment.sd(simulation.grid.frame)
    assert sd.min() > 0.4 * sd.max()
    assert sd.max() > 1.2 * sd.min()


@each_simulation
def test_the_formula_spans_mu(name):
    simulation = get(name)
    draw = simulation.draw(2000, seed=5)
    formula = parse_formula(simulation.formula, list(draw.data.columns), [], {})
    data = Table(draw.data).to_pandas(list(draw.data.columns))
    z = Columns(formula.rhs, data, {}).matrix
    target = find_family(Settings(**simulation.keywords).family).link(draw.mu)
    residual = target - z @ np.linalg.lstsq(z, target)[0]
    assert residual.var() / target.var() < 1e-10
    assert np.linalg.matrix_rank(z) == z.shape[1]


@each_question
def test_components_are_those_of_a_fit(name, verb):
    simulation = get(name)
    estimand = simulation.questions[verb]
    components, data = bound(simulation, estimand, simulation.draw(2000, seed=2).data)
    assert simulation.truth(estimand).shape == (len(components),)
    assert simulation.riesz_representer(estimand, data.head(30)).shape == (len(components), 30)
    levels = simulation.assignment.treatment.levels
    kind = estimand.treatment_kind(data[simulation.assignment.treatment.name])
    treatment, _ = describe_treatment(
        data[simulation.assignment.treatment.name], levels[0] if levels else None, kind, verb
    )
    assert treatment.levels == levels


def within(phi: np.ndarray, villages: pd.Series | None) -> bool:
    """Whether an average is within four (clustered) standard errors of zero."""
    sums = phi if villages is None else np.bincount(villages, weights=phi)
    return abs(sums.sum()) <= 4 * np.sqrt((sums**2).sum()) + 1e-12 * len(phi)


@each_simulation
def test_truth_agrees_with_monte_carlo(name):
    simulation = get(name)
    draw = simulation.draw(2_000_000 if name in ("binary", "continuous") else 100_000, seed=11)
    villages = draw.data.get(simulation.villages.name) if simulation.villages else None
    treatment = simulation.assignment.treatment.name
    data = draw.data.assign(**{treatment: simulation.assignment.column(draw.data[treatment])})
    for verb, estimand in simulation.questions.items():
        for value, component in zip(simulation.truth(estimand), simulation._bind(estimand, data), strict=True):
            m = component.moment(Mu(), data).apply(simulation.mu)
            assert within(m - value * component.normalizer(data), villages), verb


@each_simulation
def test_draws_have_the_mean_and_the_treatment_they_claim(name):
    """rr times the errors, such as y - mu, and rr mu - m(mu) have mean zero."""
    simulation = get(name)
    draw = simulation.draw(30_000, seed=12)
    y = draw.data[simulation.outcome.name].to_numpy()
    villages = draw.data.get(simulation.villages.name) if simulation.villages else None
    for verb, estimand in simulation.questions.items():
        components, data = bound(simulation, estimand, draw.data)
        for row, component in zip(simulation.riesz_representer(estimand, data), components, strict=True):
            assert within(row * simulation.outcome.errors(y, draw.mu), villages), verb
            assert within(row * draw.mu - component.moment(Mu(), data).apply(simulation.mu), villages), verb


IDLE = ("x4", "age")  # neither mu nor treatment nor any question looks at them


def lean(simulation: Simulation) -> Simulation:
    """The simulation with one point per panel for irrelevant covariates: a smaller grid with the same averages."""
    covariates = tuple(replace(c, nodes=1) if c.name in IDLE else c for c in simulation.covariates)
    return replace(simulation, covariates=covariates)


def refined(simulation: Simulation) -> list[Simulation]:
    """The simulation with twice the points along each axis in turn."""
    simulation = lean(simulation)
    covariates, assignment = simulation.covariates, simulation.assignment
    finer = [
        replace(simulation, covariates=(*covariates[:i], replace(c, nodes=2 * c.nodes), *covariates[i + 1 :]))
        for i, c in enumerate(covariates)
        if not isinstance(c, Choice) and c.name not in IDLE
    ]
    if isinstance(assignment, Gaussian):
        finer.append(replace(simulation, assignment=replace(assignment, size=2 * assignment.size)))
    return finer


@each_simulation
def test_more_points_do_not_change_the_truth(name):
    simulation = get(name)
    assert len(simulation.grid.frame) < 500_000
    np.testing.assert_allclose(simulation.grid.probability.sum(), 1, rtol=1e-12)
    finer_grids = refined(simulation)
    for estimand in simulation.questions.values():
        truth = simulation.truth(estimand)
        for finer in finer_grids:
            np.testing.assert_allclose(truth, finer._expectation(estimand, finer.grid)[0], rtol=1e-6)


def smooth_functions(simulation: Simulation) -> list[Callable[[pd.DataFrame], Any]]:
    """A few functions of treatment and covariates, not all of them polynomials."""
    treatment = simulation.assignment.treatment
    first, second = simulation.covariates[:2]

    def a(frame: pd.DataFrame) -> np.ndarray:
        if not treatment.levels:
            return treatment.values(frame)
        return sum(j * treatment.indicator(frame, level) for j, level in enumerate(treatment.levels))

    def x(frame: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
        return frame[first.name] - (10.5 if first.name == "log_income" else 0), frame[second.name]

    return [
        lambda frame: np.ones(len(frame)),
        lambda frame: a(frame) ** 2 * x(frame)[0],
        lambda frame: np.sin(a(frame) + x(frame)[1]),
        lambda frame: np.exp(0.3 * a(frame) * x(frame)[0]) / (3 + x(frame)[1]),
        lambda frame: np.tanh(0.4 * a(frame) - x(frame)[0]),
        simulation.mu,
    ]


@each_question
def test_the_representer_represents(name, verb):
    simulation = lean(get(name))
    estimand, grid = simulation.questions[verb], simulation.grid
    rr = simulation.riesz_representer(estimand, grid.frame)
    forms = [component.moment(Mu(), grid.frame) for component in simulation._bind(estimand, grid.frame)]
    for f in smooth_functions(simulation):
        m = np.stack([form.apply(f) for form in forms])
        scale = np.sqrt(grid.mean(rr**2) * grid.mean(np.square(f(grid.frame))))
        assert np.all(np.abs(grid.mean(rr * np.asarray(f(grid.frame))) - grid.mean(m)) <= 1e-6 * scale)


def test_representers_have_the_textbook_form():
    binary, continuous = get("binary"), get("continuous")
    data = binary.draw(500, seed=1).data
    a, p = data["a"].to_numpy(), binary.assignment.probabilities(data)[:, 1]
    policy = (data["x1"] > 0).to_numpy()
    for estimand, expected in [
        (ATE(), a / p - (1 - a) / (1 - p)),
        (ATT(), a - (1 - a) * p / (1 - p)),
        (APE("x1 > 0"), np.where(policy, a / p, (1 - a) / (1 - p))),
        (Mean(1), a / p),
    ]:
        np.testing.assert_allclose(binary.riesz_representer(estimand, data)[0], expected)
    data = continuous.draw(500, seed=1).data
    a, m, s = (np.asarray(v) for v in (data["a"], continuous.assignment.mean(data), continuous.assignment.sd(data)))
    moved = np.exp(((a - m) ** 2 - (a - 0.3 - m) ** 2) / (2 * s**2))
    policy = (data["x1"] > 0).to_numpy()
    for estimand, expected in [
        (ADE(), (a - m) / s**2),
        (IPE("x1 > 0"), policy * (a - m) / s**2),
        (Shift(0.3), moved - 1),
        (Mean("where(x1 > 0, a + 0.3, a)"), np.where(policy, moved, 1)),
    ]:
        np.testing.assert_allclose(continuous.riesz_representer(estimand, data)[0], expected)


def test_weak_overlap_is_weaker():
    def size(name: str) -> float:
        simulation = get(name)
        return simulation.grid.mean(simulation.riesz_representer(ATE(), simulation.grid.frame) ** 2).item()

    assert 4 < size("binary") < 6
    assert 2 * size("binary") < size("weak_overlap") < 25


def test_custom_moments_have_a_truth_too():
    simulation = get("binary")
    among = CustomMoment(
        lambda mu, data: (data["x4"] > 0) * data["a"] * (mu(data.assign(a=1)) - mu(data.assign(a=0))),
        normalizer=lambda data: (data["x4"] > 0) * data["a"],
    )
    np.testing.assert_allclose(simulation.truth(among), simulation.truth(ATT()))
    np.testing.assert_allclose(
        simulation.riesz_representer(among, simulation.grid.frame),
        simulation.riesz_representer(ATT(), simulation.grid.frame) * (simulation.grid.frame["x4"] > 0).to_numpy(),
    )
    slope = CustomMoment(lambda mu, data: mu.derivative(data, wrt="x1"))
    np.testing.assert_allclose(simulation.truth(slope), 0.8 + 0.5 * simulation.grid.mean(simulation.grid.frame["a"]))


def test_an_inexact_truth_warns():
    with pytest.warns(RieszWarning, match="jumps or bends"):
        get("binary").truth(APE("x1 > 0.5"))


def test_estimands_that_do_not_apply_are_errors():
    with pytest.raises(EstimandError, match="is continuous"):
        get("continuous").truth(ATE())
    with pytest.raises(EstimandError, match="has arms"):
        get("arms").truth(ADE())
    data = get("continuous").draw(100, seed=1).data
    for at in ("where(a > 0, a - 0.3, a)", "0.9 * a"):
        with pytest.raises(EstimandError, match="depends on `a` itself"):
            get("continuous").riesz_representer(Mean(at), data)
    with pytest.raises(EstimandError, match="also changes `x1`"):
        get("continuous").riesz_representer(CustomMoment(lambda mu, data: mu(data.assign(x1=0.0))), data)
    with pytest.raises(EstimandError, match="which has arms"):
        get("binary").riesz_representer(
            CustomMoment(lambda mu, data: mu.derivative(data, wrt="a")), get("binary").draw(100, seed=1).data
        )


def test_villages_share_treatment_and_noise():
    draw = get("clustered").draw(50_000, seed=1)
    village, residual = draw.data["village"], draw.data["y"] - draw.mu
    sizes = village.value_counts()
    assert 9 < sizes.mean() < 11
    assert sizes.max() == 15
    assert draw.data.groupby("village")["a"].nunique().mean() > 1.5
    means = residual.groupby(village).mean()
    assert means.var() > 3 * residual.var() / sizes.mean()


def test_confounding_is_nonlinear():
    """A formula that is linear in the covariates misses the ATE by far; the right one does not."""
    draw = get("binary").draw(200_000, seed=1)
    z = np.column_stack([np.ones(len(draw.data)), draw.data.drop(columns="y")])
    assert np.linalg.lstsq(z, draw.data["y"])[0][1] > 1.2


def test_rand_has_the_documented_columns():
    rand = load_rand()
    assert rand.shape == (20190, 9)
    assert not rand.isna().any().any()
    assert rand["health"].cat.categories.tolist() == ["excellent", "good", "fair", "poor"]
    assert rand["health"].value_counts()["excellent"] == 11019
    np.testing.assert_allclose(np.log1p(rand["coinsurance"]), rand["log_coinsurance"], atol=1e-4)


@pytest.mark.parametrize("name", SIMULATIONS)
def test_the_oracle_is_unbiased_and_the_plain_formula_works(name):
    """Over many rows the one-step estimate from true mu and rr is within a few standard errors of the truth."""
    simulation = get(name)
    draw = simulation.draw(20_000, seed=5)
    for estimand in simulation.questions.values():
        found, truth = simulation.oracle(estimand, draw), simulation.truth(estimand)
        known = np.isfinite(found)
        assert known.any()
        assert np.abs(found - truth)[known].max() < 0.12 * max(1.0, np.abs(truth).max())
    small = simulation.draw(300, seed=5).data
    fit = riesz.estimate(
        simulation.plain_formula, small, list(simulation.questions.values()), learner="linear", **simulation.keywords
    )
    assert len(fit.params) == sum(len(simulation.truth(estimand)) for estimand in simulation.questions.values())
