"""The forest learner against least squares, its formulas written out, and known truths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import riesz

pytest.importorskip("sklearn")

from riesz.learners.forest.grow import Growth, Problem, draw_halves, grow
from riesz.learners.forest.learner import Forest

ONE_LEAF: dict[str, Any] = {
    "start": "constant",
    "rows_per_leaf": 1e9,
    "share": 1.0,
    "honest": False,
    "penalty": 0.0,
    "rr_penalty": 0.0,
    "trees": 3,
}
GROWTH = Growth(trees=20, share=0.5, least=5.0, honest=True, columns=2)


def compare_fits(one: riesz.Results, two: riesz.Results, tolerance: float = 1e-6) -> None:
    for function in ("mu", "rr"):
        for part in ("observed", "values", "slopes"):
            left, right = (getattr(getattr(fit.predictions, function), part) for fit in (one, two))
            np.testing.assert_allclose(left, right, atol=tolerance * (1 + np.abs(right).max()))
    np.testing.assert_allclose(one.estimates, two.estimates, rtol=tolerance, atol=tolerance)


# identities


@pytest.mark.parametrize("form", ["riesz", "constrained"])
@pytest.mark.parametrize(
    ("frame", "formula", "columns", "estimand"),
    [
        ("binary_frame", "y ~ treat(a) + x1", "y ~ treat(a)", riesz.ATE()),
        ("binary_frame", "y ~ treat(a) + x1", "y ~ treat(a)", riesz.ATT()),
        ("arms_frame", "y ~ treat(arm) + x1", "y ~ treat(arm)", riesz.ATE()),
        ("continuous_frame", "y ~ treat(d) + x1", "y ~ treat(d) + I(treat(d)**2)", riesz.ADE()),
        ("continuous_frame", "y ~ treat(d) + x1", "y ~ treat(d) + I(treat(d)**2)", riesz.Shift(0.5)),
    ],
)
def test_one_leaf_is_least_squares(
    request: pytest.FixtureRequest, frame: str, formula: str, columns: str, estimand: Any, form: Any
) -> None:
    data = request.getfixturevalue(frame)
    options: Any = {"folds": 1, "weights": "w"}
    forest = riesz.estimate(formula, data, estimand, learner=Forest(rr=form, **ONE_LEAF), **options)
    linear = riesz.estimate(columns, data, estimand, learner=riesz.Linear(0.0, 0.0, "riesz"), **options)
    compare_fits(forest, linear)


def test_an_infinite_penalty_leaves_the_linear_start(binary_frame: pd.DataFrame) -> None:
    learner = Forest(rr="riesz", penalty=1e12, rr_penalty=1e12, trees=5)
    formula, options = "y ~ treat(a) * x1 + x2", {"folds": 2, "weights": "w"}
    forest = riesz.att(formula, binary_frame, learner=learner, **options)
    linear = riesz.att(formula, binary_frame, learner=riesz.Linear(rr="riesz"), **options)
    np.testing.assert_allclose(forest.params, linear.params, atol=0.1 * float(linear.bse.iloc[0]))
    assert np.corrcoef(forest.predictions.rr.observed[0], linear.predictions.rr.observed[0])[0, 1] > 0.999


def test_constrained_is_riesz_up_to_scale(binary_frame: pd.DataFrame) -> None:
    fits = [
        riesz.ate("y ~ treat(a) + x1", binary_frame, learner=Forest(rr=form, trees=10), folds=1)
        for form in ("riesz", "constrained")
    ]
    one, two = (fit.predictions.rr.observed[0] for fit in fits)
    np.testing.assert_allclose(one / two, (one / two)[0], rtol=1e-8)
    np.testing.assert_allclose(
        fits[1].estimates.loc[("ATE", "dr"), "estimate"], fits[1].estimates.loc[("ATE", "tmle"), "estimate"]
    )


def problem_of(numbers: np.ndarray, **changes: Any) -> Problem:
    rng = np.random.default_rng(3)
    n = len(numbers)
    x = rng.normal(size=(n, 2)).astype(np.float32)
    plain: dict[str, Any] = {
        "units": np.arange(n),
        "weights": np.ones(n),
        "points": [x],
        "scores": [x[:, :1] + 0.5 * rng.normal(size=(n, 1))],
        "numbers": [numbers],
    }
    return Problem(**{**plain, **changes})


def test_weights_of_the_forest_sum_to_one_and_prefer_neighbours() -> None:
    """The mean of the indicator of row i is its weight."""
    problem = problem_of(np.eye(150), weights=np.random.default_rng(1).uniform(0.5, 1.5, 150))
    points = problem.points[0]
    alpha, count = grow(problem, GROWTH, 0).forest.average(points)
    assert count.min() > 0
    assert alpha.min() >= 0
    np.testing.assert_allclose(alpha.sum(axis=1), 1.0)
    distance = np.abs(points[:, None, 0] - points[None, :, 0])
    assert (alpha * distance).sum(axis=1).mean() < 0.8 * distance.mean()


def test_out_of_bag_averages_do_not_use_the_row_or_its_cluster() -> None:
    units = np.arange(150) // 3
    grown = grow(problem_of(np.eye(150), units=units), GROWTH, 0)
    same = units[:, None] == units
    assert (grown.out_of_bag[0][same] == 0).all()
    inside = grown.count[0] > 0
    np.testing.assert_allclose(grown.out_of_bag[0][inside].sum(axis=1), 1.0)


def test_halves_are_disjoint() -> None:
    role = draw_halves(101, GROWTH, np.random.default_rng(0))
    assert [int((role == part).sum()) for part in (0, 1, 2)] == [51, 25, 25]


def test_honest_leaves_do_not_depend_on_the_structure_rows_outcome() -> None:
    """The numbers of the rows that give structure may be anything."""
    growth = Growth(1, 0.5, 5.0, True, 2)
    numbers = np.arange(150.0)[:, None]
    role = draw_halves(150, growth, np.random.default_rng(0))
    changed = np.where((role == 1)[:, None], 1e6, numbers)
    one, two = (grow(problem_of(values), growth, 0).forest for values in (numbers, changed))
    np.testing.assert_array_equal(one.means, two.means)
    np.testing.assert_array_equal(one.threshold, two.threshold)


def test_arrays_give_the_leaves_of_scikit_learn() -> None:
    """The average over trees that do not use a row, from scikit-learn's own trees, from arrays."""
    problem = problem_of(np.eye(150))
    growth = Growth(1, 0.5, 5.0, True, 2)
    grown = grow(problem, growth, 0)
    averages, _ = grown.forest.average(problem.points[0])
    outside = draw_halves(150, growth, np.random.default_rng(0)) == 0
    np.testing.assert_array_equal(averages[outside], grown.out_of_bag[0][outside])


def test_weights_are_repeated_rows(binary_frame: pd.DataFrame) -> None:
    """Copies of rows are kept together, so trees see the same data."""
    counts = np.random.default_rng(5).integers(1, 4, len(binary_frame))
    formula, learner = "y ~ treat(a) + x1 + x2", Forest(trees=20)
    weighted = riesz.ate(formula, binary_frame, learner=learner, folds=1, freq_weights=counts)
    repeated = riesz.ate(formula, binary_frame.loc[binary_frame.index.repeat(counts)], learner=learner, folds=1)
    np.testing.assert_allclose(repeated.params, weighted.params, rtol=1e-6)
    np.testing.assert_allclose(repeated.bse, weighted.bse, rtol=1e-6)


def test_the_units_of_outcome_and_treatment_do_not_matter(continuous_frame: pd.DataFrame) -> None:
    learner = Forest(trees=20, start="constant")
    plain = riesz.ade("y ~ treat(d) + x1", continuous_frame, learner=learner, folds=2)
    other = continuous_frame.assign(y=1000 * continuous_frame["y"] + 5, d=100 * continuous_frame["d"] - 3)
    changed = riesz.ade("y ~ treat(d) + x1", other, learner=learner, folds=2)
    np.testing.assert_allclose(changed.params, 10 * plain.params, rtol=1e-4)


def test_rr_of_arms_is_the_inverse_of_their_local_shares(binary_frame: pd.DataFrame) -> None:
    """1/rr = p(x) in the treated, and 1 - p(x) in the others: they sum to one."""
    learner = Forest(rr="riesz", start="constant", rr_penalty=0.1, trees=20)
    rr = riesz.ate("y ~ treat(a) + x1", binary_frame, learner=learner, folds=2).predictions.rr
    np.testing.assert_allclose(1 / rr.values[0] - 1 / rr.values[1], 1.0)


def test_changed_covariates_are_evaluated_there(binary_frame: pd.DataFrame) -> None:
    """A reading at x2 + 0.5 is mu at a row whose x2 is larger by 0.5."""
    moved = riesz.CustomMoment(lambda mu, data: mu(data.assign(a=1, x2=data["x2"] + 0.5)), name="moved")
    fit = riesz.estimate("y ~ treat(a) + x1 + x2", binary_frame, moved, learner=Forest(trees=20), folds=1)
    at = binary_frame.assign(a=1.0, x2=binary_frame["x2"] + 0.5)
    np.testing.assert_allclose(fit.predictions.mu.values[0], fit.predict(at)["mu"], rtol=1e-6)


def test_slopes_are_derivatives(continuous_frame: pd.DataFrame) -> None:
    h = 1e-4

    def near(mu: Any, data: pd.DataFrame) -> Any:
        up, down = (data.assign(d=data["d"] + s * h) for s in (1, -1))
        return (mu(up) - mu(down)) / (2 * h)

    both = [riesz.ADE(), riesz.CustomMoment(near, name="differences")]
    fit = riesz.estimate("y ~ treat(d) + x1 + x2", continuous_frame, both, learner=Forest(trees=20), folds=2)
    moments = fit.model.blueprint.design.apply(fit.predictions.mu)
    np.testing.assert_allclose(moments[0], moments[1], atol=1e-5)


# what it does with data


@pytest.mark.parametrize("start", ["linear", "constant"])
@pytest.mark.parametrize(("verb", "name"), [("ate", "binary"), ("ade", "continuous")])
def test_it_recovers_the_truth(verb: str, name: str, start: Any) -> None:
    """Much closer than without covariates, and within three standard errors if it starts from a line."""
    simulation = riesz.datasets.get(name)
    data = simulation.draw(2000, seed=2).data
    truth = simulation.truth(simulation.questions[verb])[0]
    fit = getattr(riesz, verb)("y ~ treat(a) + .", data, learner=Forest(start=start, trees=100))
    raw = getattr(riesz, verb)("y ~ treat(a)", data, learner="linear")
    assert abs(fit.params.iloc[0] - truth) < 0.4 * abs(raw.params.iloc[0] - truth)
    if start == "linear":
        assert abs(fit.params.iloc[0] - truth) < 3 * fit.bse.iloc[0]


def test_jumps_are_learned() -> None:
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(2, 2000))
    near = np.abs(x) < 0.5
    a = (rng.uniform(size=2000) < np.where(near, 0.8, 0.3)).astype(float)
    data = pd.DataFrame({"y": a + 3 * near + rng.normal(size=2000), "a": a, "x": x, "z": z})
    forest, linear = (
        riesz.ate("y ~ treat(a) + x + z", data, learner=learner) for learner in (Forest(trees=100), riesz.Linear())
    )
    assert abs(forest.params["ATE"] - 1) < 0.25 * abs(linear.params["ATE"] - 1)


def test_a_binary_outcome_has_probabilities(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(y=(binary_frame["y"] > 1).astype(float))
    fit = riesz.ate("y ~ treat(a) + x1 + x2", data, learner=Forest(trees=20), family="binomial", folds=2)
    assert 0 <= fit.predictions.mu.values.min() < fit.predictions.mu.values.max() <= 1


def test_a_file_predicts_as_before(continuous_frame: pd.DataFrame, tmp_path: Any) -> None:
    fit = riesz.ade("y ~ treat(d) + x1 + g", continuous_frame, learner=Forest(trees=10), folds=2)
    fit.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    assert again.model.learner == Forest(trees=10)
    new = continuous_frame.head(7)
    pd.testing.assert_frame_equal(again.predict(new), fit.predict(new))


def test_threads_do_not_matter(binary_frame: pd.DataFrame) -> None:
    fits = [riesz.ate("y ~ treat(a) + x1", binary_frame, learner=Forest(trees=10), n_jobs=jobs) for jobs in (1, 2)]
    np.testing.assert_array_equal(fits[0].params, fits[1].params)


def test_no_covariates(binary_frame: pd.DataFrame) -> None:
    learner = Forest(trees=10, penalty=0, rr_penalty=1e6, share=1.0, honest=False)
    fit = riesz.ate("y ~ treat(a)", binary_frame, learner=learner, folds=1)
    a, y = binary_frame["a"] == 1, binary_frame["y"]
    np.testing.assert_allclose(fit.params["ATE"], y[a].mean() - y[~a].mean(), rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rr": "loss"}, "expected one of 'constrained', 'riesz'"),
        ({"start": "zero"}, "expected one of 'linear', 'constant'"),
        ({"trees": 0}, "expected a whole number, 1 or larger"),
        ({"rows_per_leaf": 0}, "expected a number, 1 or larger"),
        ({"share": 1.5}, "expected a number above 0 and up to 1"),
        ({"penalty": "loo"}, "expected a number, 0 or larger, or 'oob'"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        Forest(**settings)


def test_refusals(binary_frame: pd.DataFrame) -> None:
    slope = riesz.CustomMoment(lambda mu, data: mu.derivative(data, wrt="x1"))
    with pytest.raises(riesz.LearnerError, match="reads a derivative of mu along a covariate"):
        riesz.estimate("y ~ treat(a) + x1", binary_frame, slope, learner="forest")
    with pytest.raises(riesz.LearnerError, match="enters the formula only together with the treatment"):
        riesz.ate("y ~ treat(a) + treat(a):x1", binary_frame, learner="forest")


def test_counts_are_refused_before_fitting(binary_frame: pd.DataFrame) -> None:
    with pytest.raises(riesz.LearnerError, match=r"Forest .* does not learn mu with family='poisson'"):
        riesz.ate(
            "y ~ treat(a) + x1", binary_frame.assign(y=1.0 + binary_frame["a"]), learner=Forest(), family="poisson"
        )
