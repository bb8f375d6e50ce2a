"""Adversarial estimation: identities with ridge and balancing, and the saddle point solved by other means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist, pdist

import riesz
from riesz.learners.linear.ridge import GRID
from riesz.learners.sparse.second_moments import make_columns, sums_of

BINARY = "y ~ treat(a) * (x1 + g) + bs(x2, df=5)"
DOSE = "y ~ (treat(d) + I(treat(d)**2)) * x1 + cr(x2, df=4) + g"
ARMS = "y ~ treat(arm, reference='placebo') * x1 + x2 + g"
CASES = {
    "ate": ("binary_frame", BINARY, riesz.ATE()),
    "att": ("binary_frame", BINARY, riesz.ATT()),
    "mean": ("binary_frame", BINARY, riesz.Mean(1)),
    "ade": ("continuous_frame", DOSE, riesz.ADE()),
    "shift": ("continuous_frame", DOSE, riesz.Shift(0.5)),
    "arms": ("arms_frame", ARMS, riesz.ATE()),
}
ALL = 10**6  # landmarks: every distinct row and reading


def fit(request: pytest.FixtureRequest, case: str, learner: object, **options: object) -> riesz.Results:
    frame, formula, estimand = CASES[case]
    data = request.getfixturevalue(frame)
    return riesz.estimate(formula, data, estimand, learner=learner, **{"folds": 1, **options})


def same(left: riesz.Results, right: riesz.Results) -> None:
    scale = np.abs(right.riesz_representer).max().max()
    for name in ("observed", "values", "slopes"):
        one, other = (getattr(result.predictions.rr, name) / scale for result in (left, right))
        np.testing.assert_allclose(one, other, atol=1e-6)


def effective_rows(result: riesz.Results) -> float:
    weights = result.model.blueprint.design.weights
    return float(weights.sum() ** 2 / (weights @ weights))


def saddle(gram: np.ndarray, moments: np.ndarray, norm: np.ndarray, lam: float, kappa: float) -> np.ndarray:
    """Coefficients of r from both players' first-order conditions: M - G r = 2 (G + lam D) f, and G f = 2 kappa D r."""
    size = len(moments)
    left = np.block([[2 * (gram + lam * norm), gram], [gram, -2 * kappa * norm]])
    return np.linalg.lstsq(left, np.append(moments, np.zeros(size)), rcond=1e-14)[0][size:]


# a linear class


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("lam", [0.01, 0.3])
@pytest.mark.parametrize("case", CASES)
def test_minimax_linear_weights_are_ridge_and_a_ball(
    request: pytest.FixtureRequest, case: str, lam: float, weights: str | None
) -> None:
    """Noise of n lambda, or the class itself with lambda / 4 and an adversary whose norm costs nothing."""
    ridge = fit(request, case, riesz.Linear(rr_penalty=lam, rr="riesz"), weights=weights)
    noise = lam * effective_rows(ridge)
    minimax = fit(request, case, riesz.Adversarial("linear", noise=noise), weights=weights)
    same(minimax, ridge)
    same(fit(request, case, riesz.Adversarial("linear", penalty=0, rr_penalty=lam / 4), weights=weights), ridge)
    np.testing.assert_allclose(minimax.details()["noise_0"], noise)
    if minimax.predictions.rr.observed.shape[0] == 1:
        design = minimax.model.blueprint.design
        columns = make_columns(design)
        b, rr = columns.standard.apply(design.z), minimax.predictions.rr.observed
        tolerance = float(np.linalg.norm((rr * columns.shares) @ b - sums_of(columns).moments))
        balancing = riesz.Balancing(ball="euclidean", tolerance=tolerance)
        same(minimax, fit(request, case, balancing, weights=weights))


@pytest.mark.parametrize("noise", [0.5, 40.0])
def test_minimax_linear_weights_minimise_their_criterion(binary_frame: pd.DataFrame, noise: float) -> None:
    """Over all weights in R^n: the squared bias of the worst function of norm one, plus the variance."""
    learner = riesz.Adversarial("linear", noise=noise)
    result = riesz.ate("y ~ treat(a) * x1 + x2", binary_frame, learner=learner, folds=1)
    n, columns = len(binary_frame), make_columns(result.model.blueprint.design)
    b, m = columns.standard.apply(result.model.blueprint.design.z), sums_of(columns).moments[0]
    held, free = b[:, 1:], b[:, :1]  # the intercept has norm zero, so it is balanced exactly
    left = np.block([[held @ held.T / n**2 + noise / n**2 * np.eye(n), free / n], [free.T / n, np.zeros((1, 1))]])
    gamma = np.linalg.solve(left, np.r_[held @ m[1:] / n, m[:1]])[:n]
    np.testing.assert_allclose(result.riesz_representer["ATE"], gamma, atol=1e-6)


def test_noise_one_is_the_balls_own_rule(request: pytest.FixtureRequest) -> None:
    for weights in (None, "w"):
        ball = fit(request, "att", riesz.Balancing(ball="euclidean"), weights=weights)
        same(fit(request, "att", riesz.Adversarial("linear", noise=1.0), weights=weights), ball)


@pytest.mark.parametrize("penalties", [(0.0, 0.05), (0.4, 0.02), (None, 0.1), (0.2, "loo"), (None, "loo")])
@pytest.mark.parametrize("case", CASES)
def test_first_order_conditions_hold(request: pytest.FixtureRequest, case: str, penalties: tuple[Any, Any]) -> None:
    """In standardised columns; penalties that were chosen are read from the details."""
    result = fit(request, case, riesz.Adversarial("linear", *penalties), weights="w")
    columns = make_columns(result.model.blueprint.design)
    sums, b = sums_of(columns), columns.standard.apply(result.model.blueprint.design.z)
    norm = np.diag(columns.penalised)
    for c, rr in enumerate(result.predictions.rr.observed):
        details = result.details().iloc[0]
        lam, kappa = details[f"adversary_penalty_{c}"], details[f"rr_penalty_{c}"]
        expected = b @ saddle(sums.gram, sums.moments[c], norm, lam, kappa)
        np.testing.assert_allclose(rr, expected, atol=1e-6 * np.abs(expected).max())
        if penalties[0] is None:
            assert lam == kappa
        # the adversary's answer, and the derivative of its gain along r
        rho = np.linalg.lstsq(b, rr, rcond=None)[0]
        f = np.linalg.lstsq(2 * (sums.gram + lam * norm), sums.moments[c] - sums.gram @ rho, rcond=1e-13)[0]
        np.testing.assert_allclose(sums.gram @ f, 2 * kappa * norm @ rho, atol=1e-6 * np.abs(sums.moments[c]).max())


@pytest.mark.parametrize("case", CASES)
def test_without_a_price_of_rr_the_adversary_does_not_matter(request: pytest.FixtureRequest, case: str) -> None:
    exact = fit(request, case, riesz.Linear(0, 0, rr="riesz"))
    for lam in (0.0, 3.0):
        same(fit(request, case, riesz.Adversarial("linear", lam, 0.0, outcome_penalty=0)), exact)


def test_the_price_of_rr_leaves_rows_out(binary_frame: pd.DataFrame) -> None:
    """Against refits without each row: the loss of what was chosen is close to the least one."""
    data = binary_frame.iloc[:80]
    result = riesz.ate("y ~ treat(a) * (x1 + x2 + g)", data, learner=riesz.Adversarial("linear"), folds=1)
    design = result.model.blueprint.design
    columns, n = make_columns(design), len(design)
    b = columns.standard.apply(design.z)
    m = np.vstack([columns.standard.apply(data_at) for data_at in _at_arms(design)])
    m = m[:n] - m[n:]
    norm = np.diag(columns.penalised)

    def loss(kappa: float) -> float:
        total = 0.0
        for i in range(n):
            rows = np.delete(np.arange(n), i)
            rho = saddle(b[rows].T @ b[rows] / n, m[rows].sum(axis=0) / n, norm, kappa, kappa)
            total += (b[i] @ rho) ** 2 - 2 * m[i] @ rho
        return total / n

    losses = {kappa: loss(kappa) for kappa in GRID[5:15] / 4}
    chosen = float(result.details()["rr_penalty_0"].iloc[0])
    nearest = min(losses, key=lambda kappa: abs(np.log(kappa / chosen)))
    assert losses[nearest] < min(losses.values()) + 0.02 * abs(min(losses.values()))


def _at_arms(design: Any) -> list[np.ndarray]:
    """The columns at both readings of the ATE."""
    tables = []
    for reading in design.readings():
        z = design.z.copy()
        z[:, reading.columns] = reading.values
        tables.append(z)
    return tables


def test_a_formula_without_interactions_is_remarked_upon(binary_frame: pd.DataFrame) -> None:
    for formula, words in (("y ~ treat(a) + x1", True), ("y ~ treat(a) * x1", False)):
        fit = riesz.ate(formula, binary_frame, learner=riesz.Adversarial("linear"), folds=2)
        assert ("no interaction with the treatment" in " ".join(str(fit.summary()).split())) is words


# kernels


@pytest.mark.parametrize("kernel", ["additive", "gaussian", "matern"])
@pytest.mark.parametrize("case", ["ate", "ade"])
def test_a_free_adversary_is_the_riesz_kernel_ridge(request: pytest.FixtureRequest, case: str, kernel: Any) -> None:
    """With lambda = 0 rr's penalty is 4 kappa, chosen or given; and so is sigma^2 / n."""
    ridge = fit(request, case, riesz.Kernel(kernel, rr="riesz", landmarks=100))
    game = fit(request, case, riesz.Adversarial(penalty=0, kernel=kernel, landmarks=100))
    same(game, ridge)
    np.testing.assert_array_equal(game.fittedvalues, ridge.fittedvalues)
    np.testing.assert_allclose(4 * game.details()["rr_penalty_0"], ridge.details()["rr_penalty_0"])
    same(fit(request, case, riesz.Adversarial(noise="loo", kernel=kernel, landmarks=100)), ridge)


@pytest.mark.parametrize("penalties", [(0.03, 0.01), (None, 0.02)])
def test_the_kernels_saddle_point_written_out(binary_frame: pd.DataFrame, penalties: tuple[Any, float]) -> None:
    """Sections at rows and readings from the formula of the kernel, and both players' conditions in their coefficients."""
    data, (lam, kappa) = binary_frame.iloc[:60], penalties
    learner = riesz.Adversarial("kernel", lam, kappa, kernel="gaussian", landmarks=ALL)
    result = riesz.ate("y ~ treat(a) + x1 + x2", data, learner=learner, folds=1)
    x = data[["x1", "x2"]].to_numpy() / data[["x1", "x2"]].to_numpy().std(axis=0)
    length, n, a = np.median(pdist(x)), len(data), data["a"].to_numpy()
    k_x = np.exp(-cdist(x, x, "sqeuclidean") / (2 * length**2))

    def k(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return (1 + (left[:, None] == right)) * (1 + k_x) - 1

    one, zero = np.ones(n), np.zeros(n)
    at_rows, at_one, at_zero = (np.hstack([np.ones((n, 1)), k(arm, one), k(arm, zero)]) for arm in (a, one, zero))
    norm = np.zeros((1 + 2 * n, 1 + 2 * n))
    norm[1:, 1:] = np.vstack([at_one, at_zero])[:, 1:]
    rho = saddle(at_rows.T @ at_rows / n, (at_one - at_zero).mean(axis=0), norm, kappa if lam is None else lam, kappa)
    expected = at_rows @ rho
    np.testing.assert_allclose(result.riesz_representer["ATE"], expected, atol=1e-5 * np.abs(expected).max())


def test_a_dearer_adversary_finds_less(binary_frame: pd.DataFrame) -> None:
    """For a given kappa rr shrinks as lambda rises."""
    sizes = [
        riesz.ate("y ~ treat(a) + x1", binary_frame, learner=riesz.Adversarial("kernel", lam, 0.01), folds=1)
        .riesz_representer["ATE"]
        .pow(2)
        .mean()
        for lam in (0.0, 0.1, 1.0)
    ]
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize(("verb", "name", "least"), [("ate", "binary", 0.93), ("ade", "continuous", 0.85)])
@pytest.mark.parametrize("learner", [riesz.Adversarial(), riesz.Adversarial(noise="loo")], ids=["function", "weights"])
def test_it_recovers_the_true_representer(verb: str, name: str, least: float, learner: riesz.Adversarial) -> None:
    simulation = riesz.datasets.get(name)
    data, question = simulation.draw(1000, seed=2).data, simulation.questions[verb]
    result = getattr(riesz, verb)("y ~ treat(a) + .", data, learner=learner)
    truth = simulation.riesz_representer(question, data)[0]
    rr = result.predictions.rr.observed[0]
    assert np.corrcoef(rr, truth)[0, 1] > least
    assert abs((rr @ truth) / (truth @ truth) - 1) < 0.15
    assert abs(result.params.iloc[0] - simulation.truth(question)[0]) < 3 * result.bse.iloc[0]


@pytest.mark.parametrize("kind", ["binary", "continuous"])
def test_it_is_near_the_oracle_of_a_random_world(kind: Any) -> None:
    world = next(
        world
        for world in (riesz.datasets.random_world(seed, kind) for seed in range(0, 100, 2))
        if world.n < 1500 and world.outcome == "normal" and world.factors["overlap"] == "good"
    )
    data = world.draw()
    oracle = world.oracle(data)
    result = riesz.estimate(world.formula, data, world.estimand, learner="adversarial")
    assert abs(result.params.iloc[0] - oracle.estimate[0]) < 3 * oracle.std_error[0]


def test_a_binary_outcome_has_probabilities(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(y=(binary_frame["y"] > 1).astype(float))
    for adversary in ("kernel", "linear"):
        learner = riesz.Adversarial(adversary, landmarks=100 if adversary == "kernel" else None)
        result = riesz.ate("y ~ treat(a) * x1 + x2", data, learner=learner, family="binomial", folds=2)
        assert 0 < result.predictions.mu.values.min() < result.predictions.mu.values.max() < 1
        linear = riesz.ate("y ~ treat(a) * x1 + x2", data, learner="linear", family="binomial", folds=2)
        assert abs(result.params["ATE"] - linear.params["ATE"]) < 3 * linear.bse["ATE"]


# as a learner


@pytest.mark.parametrize(
    "learner",
    [
        riesz.Adversarial(landmarks=60),
        riesz.Adversarial("linear", noise=2.0),
        riesz.Adversarial("kernel", 0.1, 0.05, landmarks=60),
    ],
    ids=["kernel", "weights", "given"],
)
def test_a_file_predicts_as_before(continuous_frame: pd.DataFrame, tmp_path: Path, learner: riesz.Adversarial) -> None:
    result = riesz.ade("y ~ treat(d) + x1 + g", continuous_frame, learner=learner, folds=2)
    result.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    assert again.model.learner == learner
    pd.testing.assert_frame_equal(again.predict(continuous_frame.head(7)), result.predict(continuous_frame.head(7)))


def test_it_stacks_and_composes(binary_frame: pd.DataFrame) -> None:
    learner = riesz.Adversarial(landmarks=60)
    stack = riesz.Stack([learner, riesz.Linear(), riesz.Adversarial("linear", noise="loo")])
    result = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=stack, folds=2)
    assert len(result.candidates) == 4
    alone = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=learner, folds=2)
    composed = riesz.Compose("linear", learner)
    pair = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=composed, folds=2)
    np.testing.assert_array_equal(pair.predictions.rr.observed, alone.predictions.rr.observed)


def test_words(binary_frame: pd.DataFrame) -> None:
    assert riesz.Adversarial().describe("gaussian") == "Adversarial (additive kernel)"
    assert riesz.Adversarial("linear", noise=1.0).describe("gaussian") == "Adversarial (linear, minimax linear weights)"
    assert riesz.Adversarial("network").describe("gaussian") == "Adversarial (AdversarialNet)"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"adversary": "tree"}, "expected one of 'kernel', 'linear', 'network'"),
        ({"penalty": -1}, "expected a number, 0 or larger, or None for that of rr"),
        ({"penalty": "loo"}, "expected a number, 0 or larger, or None for that of rr"),
        ({"rr_penalty": "cv"}, "expected a number, 0 or larger, or 'loo'"),
        ({"rr_penalty": 0}, "a function could then pass through every row"),
        ({"noise": 0}, "a function could then pass through every row"),
        ({"noise": -1.0, "adversary": "linear"}, "expected a number, 0 or larger, or 'loo'"),
        ({"noise": 1.0, "penalty": 0.1}, "minimax linear weights have one price, noise. Leave penalty and rr_penalty"),
        ({"kernel": "linear"}, "expected one of 'additive', 'gaussian', 'matern'"),
        ({"adversary": "linear", "landmarks": 50}, r"landmarks has no meaning there. .* adversary='kernel'"),
        ({"adversary": "network", "penalty": 0.1}, r"penalty has no meaning there. .* riesz.AdversarialNet\("),
        ({"scale": 0}, "expected a positive number, in median distances, or 'median'"),
        ({"landmarks": 0}, "expected a whole number, 1 or larger"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        riesz.Adversarial(**settings)


def test_designs_are_refused_before_fitting(binary_frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(riesz.Adversarial, "fit", lambda *_: pytest.fail("refused too late"))
    with pytest.raises(riesz.LearnerError, match="enters the formula only together with the treatment"):
        riesz.ate("y ~ treat(a) + treat(a):x1", binary_frame, learner="adversarial")
    rng = np.random.default_rng(1)
    x = pd.DataFrame(rng.normal(size=(60, 90))).add_prefix("x")
    wide = x.assign(a=rng.integers(0, 2, 60).astype(float), y=rng.normal(size=60))
    for learner in (riesz.Adversarial("linear", rr_penalty=0), riesz.Adversarial("linear", noise=0)):
        with pytest.raises(riesz.LearnerError, match="without a penalty there is no unique solution"):
            riesz.ate("y ~ treat(a) + .", wide, learner=learner)


def test_more_columns_than_rows() -> None:
    rng = np.random.default_rng(1)
    x = pd.DataFrame(rng.normal(size=(60, 90))).add_prefix("x")
    data = x.assign(a=rng.integers(0, 2, 60).astype(float), y=rng.normal(size=60))
    for learner in (riesz.Adversarial(), riesz.Adversarial("linear"), riesz.Adversarial("linear", noise=1.0)):
        assert riesz.ate("y ~ treat(a) + .", data, learner=learner).bse["ATE"] > 0
