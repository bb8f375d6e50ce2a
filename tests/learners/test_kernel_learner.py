"""The kernel learner against the linear closed form, scikit-learn, and its formulas written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.learners.kernel import learner as module
from riesz.learners.kernel.sections import Inputs, Sites, measure_inputs
from riesz.learners.linear.ridge import GRID

ALL = 10**6  # landmarks: every distinct row and reading
SECTIONS = ("additive", "gaussian", "matern")


def design_of(formula: str, data: pd.DataFrame, estimand: Any, **options: Any) -> Any:
    return riesz.estimate(formula, data, estimand, learner="linear", folds=1, **options).model.blueprint.design


def gram(inputs: Inputs, left: Sites, right: Sites) -> np.ndarray:
    return inputs.with_treatment(left, right, inputs.of_covariates(left, right)).value


# identities


@pytest.mark.parametrize("landmarks", [None, 300])
@pytest.mark.parametrize("rr", ["constrained", "riesz"])
@pytest.mark.parametrize("penalties", [(0.0, 0.0), (0.05, 0.2), ("loo", "loo")])
@pytest.mark.parametrize(
    ("frame", "formula", "estimand"),
    [
        ("binary_frame", "y ~ treat(a) * (x1 + g) + bs(x2, df=5)", riesz.ATE()),
        ("binary_frame", "y ~ treat(a) * (x1 + g) + x2", riesz.ATT()),
        ("arms_frame", "y ~ treat(arm, reference='placebo') * x1 + x2", riesz.ATE()),
        ("continuous_frame", "y ~ (treat(d) + I(treat(d)**2)) * x1 + x2 + g", riesz.ADE()),
    ],
)
def test_linear_kernel_is_linear(
    request: pytest.FixtureRequest,
    frame: str,
    formula: str,
    estimand: Any,
    penalties: tuple[Any, Any],
    rr: Any,
    landmarks: int | None,
) -> None:
    """With the columns as sections, and with sections at rows and readings, which span them."""
    data = request.getfixturevalue(frame)
    learners = (riesz.Linear(*penalties, rr=rr), riesz.Kernel("linear", "median", *penalties, rr, landmarks))
    options: Any = {"folds": 1, "weights": "w"}
    linear, kernel = (riesz.estimate(formula, data, estimand, learner=learner, **options) for learner in learners)
    np.testing.assert_allclose(kernel.fittedvalues, linear.fittedvalues, atol=1e-6)
    for part in ("observed", "values", "slopes"):
        expected = getattr(linear.predictions.rr, part)
        np.testing.assert_allclose(
            getattr(kernel.predictions.rr, part), expected, atol=1e-6 * (1 + np.abs(expected).max())
        )
    np.testing.assert_allclose(kernel.estimates, linear.estimates, rtol=1e-6, atol=1e-6)


def test_constrained_is_proportional_to_riesz(binary_frame: pd.DataFrame) -> None:
    fits = [
        riesz.att("y ~ treat(a) + x1 + x2", binary_frame, learner=riesz.Kernel(rr_penalty=0.01, rr=rr), folds=1)
        for rr in ("constrained", "riesz")
    ]
    one, two = (fit.predictions.rr.observed[0] for fit in fits)
    np.testing.assert_allclose(np.corrcoef(one, two)[0, 1], 1.0, atol=1e-10)


# independent references


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", SECTIONS)
def test_mu_is_kernel_ridge_of_scikit_learn(binary_frame: pd.DataFrame, kernel: Any, weighted: bool) -> None:
    """A free intercept is the same as centring kernel and outcome; scikit-learn's alpha is n times the penalty."""
    ridge = pytest.importorskip("sklearn.kernel_ridge")
    lam = 0.02
    learner = riesz.Kernel(kernel, penalty=lam, rr_penalty=0.1, landmarks=ALL)
    options: Any = {"weights": "w"} if weighted else {}
    fit = riesz.ate("y ~ treat(a) + x1 + x2 + g", binary_frame, learner=learner, folds=1, **options)
    design = fit.model.blueprint.design
    inputs = measure_inputs(design, kernel, 1.0)
    rows = inputs.at(design)
    treated = inputs.at(design, design.readings()[0])
    share = design.weights / design.weights.sum()
    k, k_treated = gram(inputs, rows, rows), gram(inputs, treated, rows)
    column, level = share @ k, share @ k @ share
    centred = k - column - column[:, None] + level
    at_treated = k_treated - column - (k_treated @ share)[:, None] + level
    mean = share @ design.y
    model = ridge.KernelRidge(alpha=len(design) * lam, kernel="precomputed")
    model.fit(centred, design.y - mean, sample_weight=share * len(design))
    np.testing.assert_allclose(fit.predictions.mu.observed, mean + model.predict(centred), atol=1e-6)
    np.testing.assert_allclose(fit.predictions.mu.values[0], mean + model.predict(at_treated), atol=1e-6)


def test_gaussian_kernel_is_the_formula(binary_frame: pd.DataFrame) -> None:
    """{1 + 1{a = a'}} {1 + exp(-d^2 / 2 median^2)} - 1, dummies divided by their range."""
    from scipy.spatial.distance import cdist, pdist

    design = design_of("y ~ treat(a) + x1 + g", binary_frame, riesz.ATE())
    rows = (inputs := measure_inputs(design, "gaussian", 0.7)).at(design)
    x1, g = binary_frame["x1"].to_numpy(), binary_frame["g"]
    x = np.column_stack([x1 / x1.std(), g == "v", g == "w"])
    distances = pdist(x)
    length = 0.7 * np.median(distances[distances > 0])
    k = np.exp(-cdist(x, x, "sqeuclidean") / (2 * length**2))
    a = binary_frame["a"].to_numpy()
    np.testing.assert_allclose(gram(inputs, rows, rows), (1 + (a[:, None] == a)) * (1 + k) - 1, atol=1e-10)


@pytest.mark.parametrize("kernel", SECTIONS)
@pytest.mark.parametrize("case", ["ate", "ade", "slope of a covariate"])
def test_rr_is_the_representer_written_out(
    binary_frame: pd.DataFrame, continuous_frame: pd.DataFrame, kernel: Any, case: str
) -> None:
    r"""The Riesz loss over all functions: (C + lambda)^{-1} applied to the section of the moment, from Gram matrices alone.

    With features phi (a free intercept first) the solution is (Phi'Phi/n + lambda D)^{-1} M. Here the features are taken from a
    finite difference of sections, so that neither landmarks nor their derivatives enter.
    """
    frame, formula = (binary_frame, "y ~ treat(a) + x1") if case == "ate" else (continuous_frame, "y ~ treat(d) + x1")
    estimand: Any = {
        "ate": riesz.ATE(),
        "ade": riesz.ADE(),
        "slope of a covariate": riesz.CustomMoment(lambda mu, data: mu.derivative(data, wrt="x1")),
    }[case]
    data, lam, h = frame.iloc[:40], 0.05, 1e-4
    learner = riesz.Kernel(kernel, penalty=0.1, rr_penalty=lam, rr="riesz", landmarks=ALL)
    fit = riesz.estimate(formula, data, estimand, learner=learner, folds=1)
    design = fit.model.blueprint.design
    inputs = measure_inputs(design, kernel, 1.0)
    rows, n = inputs.at(design), len(design)

    def moved(name: str, by: float) -> Sites:
        changed = design_of(formula, data.assign(**{name: data[name] + by}), estimand)
        return inputs.at(changed)

    if case == "ate":
        plus, minus, factor = *(inputs.at(design, reading) for reading in design.readings()), 1.0
    else:
        name = "d" if case == "ade" else "x1"
        plus, minus, factor = moved(name, h), moved(name, -h), 1 / (2 * h)
    sites = [rows, plus, minus]
    whole = np.block([[gram(inputs, left, right) for right in sites] for left in sites])
    average = np.concatenate([np.zeros(n), np.full(n, factor / n), np.full(n, -factor / n)])  # the moment of sections
    # alpha = c + sum over rows of b_i k(z_i, .) + (section of the moment) / lambda; c and b from the first-order conditions
    k, section = whole[:n, :n], whole[:n] @ average
    system = np.block([[k / n + lam * np.eye(n), np.ones((n, 1)) / n], [k.sum(axis=0)[None] / n, np.ones((1, 1))]])
    right = np.append(-section / lam / n, -section.mean() / lam)
    *b, c = np.linalg.solve(system, right)
    expected = c + k @ np.array(b) + section / lam
    np.testing.assert_allclose(fit.predictions.rr.observed[0], expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("along", ["d", "x1"])
@pytest.mark.parametrize("kernel", SECTIONS)
def test_slopes_are_derivatives(continuous_frame: pd.DataFrame, kernel: Any, along: str) -> None:
    h = 1e-5

    def near(mu: Any, data: pd.DataFrame) -> Any:
        up, down = (data.assign(**{along: data[along] + s * h}) for s in (1, -1))
        return (mu(up) - mu(down)) / (2 * h)

    exact = riesz.CustomMoment(lambda mu, data: mu.derivative(data, wrt=along), name="exact")
    differences = riesz.CustomMoment(near, name="differences")
    formula = "y ~ treat(d) + x1 + I(x1**2) + x2"
    learner = riesz.Kernel(kernel, penalty=0.01, rr_penalty=0.01, landmarks=100)
    fit = riesz.estimate(formula, continuous_frame, [exact, differences], learner=learner, folds=2)
    moments = fit.model.blueprint.design.apply(fit.predictions.mu)
    np.testing.assert_allclose(moments[0], moments[1], atol=1e-5)
    rr = fit.predictions.rr
    own = [np.flatnonzero(rr.links.component == c) for c in (0, 1)]
    assert np.isfinite(rr.slopes[own[0]]).all()
    assert np.abs(rr.slopes[own[0]]).max() > 0


# what it does with data


@pytest.mark.parametrize(("verb", "name"), [("ate", "binary"), ("ade", "continuous")])
def test_it_recovers_the_truth(verb: str, name: str) -> None:
    simulation = riesz.datasets.get(name)
    fit = getattr(riesz, verb)("y ~ treat(a) + .", simulation.draw(1000, seed=2).data, learner="kernel")
    truth = simulation.truth(simulation.questions[verb])
    assert abs(fit.params.iloc[0] - truth[0]) < 3 * fit.bse.iloc[0]


@pytest.mark.parametrize("kind", ["binary", "continuous"])
def test_it_is_near_the_oracle_of_a_random_world(kind: Any) -> None:
    world = next(
        world
        for world in (riesz.datasets.random_world(seed, kind) for seed in range(0, 100, 2))
        if world.n < 1500 and world.outcome == "normal" and world.factors["overlap"] == "good"
    )
    data = world.draw()
    oracle = world.oracle(data)
    fit = riesz.estimate(world.formula, data, world.estimand, learner="kernel")
    assert abs(fit.params.iloc[0] - oracle.estimate[0]) < 3 * oracle.std_error[0]


def test_few_landmarks_come_close_to_all(binary_frame: pd.DataFrame) -> None:
    exact, few = (
        riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=riesz.Kernel(landmarks=most), folds=1)
        for most in (ALL, 100)
    )
    assert exact.details()["landmarks"].iloc[0] == 2 * len(binary_frame)
    assert few.details()["landmarks"].iloc[0] == 100
    assert abs(exact.params["ATE"] - few.params["ATE"]) < 0.2 * exact.bse["ATE"]


def test_only_readings_in_use_are_landmarks(binary_frame: pd.DataFrame) -> None:
    """The effect on the treated does not read mu of untreated rows in arm 1."""
    fit = riesz.att("y ~ treat(a) + x1 + x2", binary_frame, learner=riesz.Kernel(landmarks=ALL), folds=1)
    treated = int(binary_frame["a"].sum())
    assert fit.details()["landmarks"].iloc[0] == len(binary_frame) + treated


def test_penalties_leave_clusters_out(binary_frame: pd.DataFrame) -> None:
    """Four copies of every row with other noise: leaving one row out would choose a smaller penalty."""
    rng = np.random.default_rng(0)
    data = pd.concat([binary_frame.iloc[:150]] * 4, ignore_index=True)
    data = data.assign(unit=np.arange(600) % 150, y=data["y"] + 0.1 * rng.normal(size=600))
    learner = riesz.Kernel("gaussian", landmarks=100)
    formula = "y ~ treat(a) + x1 + x2"
    rows, clusters = (
        riesz.ate(formula, data, learner=learner, folds=1, **options).details()["penalty"].iloc[0]
        for options in ({}, {"cluster": "unit"})
    )
    assert clusters > rows
    assert {rows, clusters} <= set(GRID)


def test_a_binary_outcome_has_probabilities(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(y=(binary_frame["y"] > 1).astype(float))
    learner = riesz.Kernel(landmarks=100)
    fit = riesz.ate("y ~ treat(a) + x1 + x2", data, learner=learner, family="binomial", folds=2)
    assert fit.predictions.mu.values.min() > 0
    assert fit.predictions.mu.values.max() < 1
    linear = riesz.ate("y ~ treat(a) * x1 + x2", data, learner="linear", family="binomial", folds=2)
    assert abs(fit.params["ATE"] - linear.params["ATE"]) < 3 * linear.bse["ATE"]


def test_a_part_of_many_rows(binary_frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 150)
    monkeypatch.setattr(module, "_LEAST_ROWS", 150)
    fit = riesz.ate("y ~ treat(a) + x1", binary_frame, learner=riesz.Kernel(landmarks=50), folds=1)
    whole = riesz.ate("y ~ treat(a) * x1", binary_frame)
    assert abs(fit.params["ATE"] - whole.params["ATE"]) < 2 * whole.bse["ATE"]


def test_a_file_predicts_as_before(continuous_frame: pd.DataFrame, tmp_path: Any) -> None:
    fit = riesz.ade("y ~ treat(d) + x1 + g", continuous_frame, learner=riesz.Kernel(landmarks=60), folds=2)
    fit.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    assert again.model.learner == riesz.Kernel(landmarks=60)
    new = continuous_frame.head(7)
    pd.testing.assert_frame_equal(again.predict(new), fit.predict(new))


def test_no_covariates_and_constant_columns(binary_frame: pd.DataFrame) -> None:
    plain = riesz.ate("y ~ treat(a)", binary_frame, learner=riesz.Kernel(penalty=1e-8, rr_penalty=1e-8), folds=1)
    a, y = binary_frame["a"] == 1, binary_frame["y"]
    np.testing.assert_allclose(plain.params["ATE"], y[a].mean() - y[~a].mean(), rtol=1e-6)
    constant = binary_frame.assign(one=3.0)
    fits = [
        riesz.ate(formula, constant, learner=riesz.Kernel("gaussian", landmarks=80), folds=1)
        for formula in ("y ~ treat(a) + x1", "y ~ treat(a) + x1 + I(one - 3)")
    ]
    np.testing.assert_allclose(fits[0].params, fits[1].params, rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kernel": "cubic"}, "expected one of 'additive', 'gaussian', 'matern', 'linear'"),
        ({"scale": 0}, "expected a positive number, in median distances, or 'median'"),
        ({"penalty": -1}, "expected a number, 0 or larger, or 'loo'"),
        ({"rr_penalty": 0}, "a function could then pass through every row"),
        ({"rr": "loss"}, "expected one of 'constrained', 'riesz'"),
        ({"landmarks": 0}, "expected a whole number, 1 or larger"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        riesz.Kernel(**settings)


def test_covariates_that_enter_only_with_the_treatment_are_refused(binary_frame: pd.DataFrame) -> None:
    formula = "y ~ treat(a) + treat(a):x1"
    with pytest.raises(riesz.LearnerError, match="enters the formula only together with the treatment"):
        riesz.ate(formula, binary_frame, learner="kernel")
    riesz.ate(formula, binary_frame, learner=riesz.Kernel("linear"), folds=2)


def test_more_columns_than_rows_need_a_penalty() -> None:
    rng = np.random.default_rng(1)
    x = pd.DataFrame(rng.normal(size=(60, 90))).add_prefix("x")
    data = x.assign(a=rng.integers(0, 2, 60).astype(float), y=rng.normal(size=60))
    with pytest.raises(riesz.LearnerError, match="without a penalty there is no unique solution"):
        riesz.ate("y ~ treat(a) + .", data, learner=riesz.Kernel("linear", rr_penalty=0))
    for kernel in ("linear", "additive"):
        assert riesz.ate("y ~ treat(a) + .", data, learner=riesz.Kernel(kernel)).bse["ATE"] > 0
