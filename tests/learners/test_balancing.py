"""Balancing weights: identities with linear, sparse and ridge Riesz regressions, and references that solve the primal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import riesz
from riesz.learners.sparse.second_moments import make_columns, sums_of

BINARY = "y ~ treat(a) * (x1 + g) + bs(x2, df=5)"
DOSE = "y ~ (treat(d) + I(treat(d)**2)) * x1 + cr(x2, df=4) + g"
ARMS = "y ~ treat(arm, reference='placebo') * x1 + x2 + g"
CASES = {
    "ate": ("binary_frame", BINARY, riesz.ATE()),
    "att": ("binary_frame", BINARY, riesz.ATT()),
    "atc": ("binary_frame", BINARY, riesz.ATC()),
    "mean": ("binary_frame", BINARY, riesz.Mean(1)),
    "ade": ("continuous_frame", DOSE, riesz.ADE()),
    "shift": ("continuous_frame", DOSE, riesz.Shift(0.5)),
    "arms": ("arms_frame", ARMS, riesz.ATE()),
}
OF_KNOWN_SIGN = ["ate", "att", "atc", "mean", "arms"]


def fit(request: pytest.FixtureRequest, case: str, learner: object, **options: object) -> riesz.Results:
    frame, formula, estimand = CASES[case]
    data = request.getfixturevalue(frame)
    return riesz.estimate(formula, data, estimand, learner=learner, **{"folds": 1, **options})


def same_representer(left: riesz.Results, right: riesz.Results, exact: float = 1e-6) -> None:
    scale = np.abs(right.riesz_representer).max().max()
    np.testing.assert_allclose(left.riesz_representer / scale, right.riesz_representer / scale, atol=exact)
    for name in ("observed", "values", "slopes"):
        one, other = (getattr(result.predictions.rr, name) / scale for result in (left, right))
        np.testing.assert_allclose(one, other, atol=exact * 10)


def imbalances(result: riesz.Results) -> np.ndarray:
    """Of every standardised column, for each component."""
    design = result.model.blueprint.design
    columns = make_columns(design)
    b, rr = columns.standard.apply(design.z), result.predictions.rr.observed
    return np.asarray((rr * columns.shares) @ b - sums_of(columns).moments)


# Identities with other learners.


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("case", CASES)
def test_exact_balance_is_the_linear_riesz_regression(
    request: pytest.FixtureRequest, case: str, weights: str | None
) -> None:
    linear = fit(request, case, riesz.Linear(0, 0, rr="riesz"), weights=weights)
    for ball in ("max", "euclidean"):
        exact = fit(request, case, riesz.Balancing(tolerance=0, penalty=0, ball=ball), weights=weights)
        same_representer(exact, linear)
        np.testing.assert_allclose(exact.params, linear.params, atol=1e-6)
        np.testing.assert_allclose(exact.bse, linear.bse, atol=1e-6)


@pytest.mark.parametrize("delta", [0.003, 0.05, 0.3])
@pytest.mark.parametrize("case", CASES)
def test_a_tolerance_is_the_penalty_of_the_riesz_lasso(request: pytest.FixtureRequest, case: str, delta: float) -> None:
    balancing = fit(request, case, riesz.Balancing(tolerance=delta), weights="w")
    same_representer(balancing, fit(request, case, riesz.Lasso(0.1, delta), weights="w"))
    assert np.abs(imbalances(balancing)).max() < delta * (1 + 1e-8)
    assert np.abs(imbalances(balancing)[:, 0]).max() < 1e-9


@pytest.mark.parametrize("delta", [0.01, 0.2])
@pytest.mark.parametrize("case", CASES)
def test_a_euclidean_ball_is_ridge(request: pytest.FixtureRequest, case: str, delta: float) -> None:
    balancing = fit(request, case, riesz.Balancing(tolerance=delta, ball="euclidean"), weights="w")
    np.testing.assert_allclose(np.linalg.norm(imbalances(balancing), axis=1), delta, rtol=1e-7)
    if balancing.predictions.rr.observed.shape[0] == 1:
        lam = float(balancing.details()["rr_penalty_0"].iloc[0])
        same_representer(balancing, fit(request, case, riesz.Linear(rr_penalty=lam, rr="riesz"), weights="w"))


def test_it_is_minimax_linear(binary_frame: pd.DataFrame) -> None:
    """The weights that minimise the worst squared bias over a unit ball of functions plus sigma^2 / n^2 sum gamma^2."""
    result = riesz.ate(
        "y ~ treat(a) * x1 + x2", binary_frame, learner=riesz.Balancing(ball="euclidean", tolerance=0.1), folds=1
    )
    n, lam = len(binary_frame), float(result.details()["rr_penalty_0"].iloc[0])
    columns = make_columns(result.model.blueprint.design)
    b, m = columns.standard.apply(result.model.blueprint.design.z), sums_of(columns).moments[0]
    sigma2 = n * lam
    # columns without penalty are balanced exactly: a Lagrange multiplier for the intercept
    held, free = b[:, 1:], b[:, :1]
    left = np.block([[held @ held.T / n**2 + sigma2 / n**2 * np.eye(n), free / n], [free.T / n, np.zeros((1, 1))]])
    gamma = np.linalg.solve(left, np.r_[held @ m[1:] / n, m[:1]])[:n]
    np.testing.assert_allclose(result.riesz_representer["ATE"], gamma, atol=1e-6)


def test_the_rule_of_athey_imbens_and_wager(request: pytest.FixtureRequest) -> None:
    """The tolerance minimises E_n[gamma^2] / n + delta^2."""
    chosen = fit(request, "ate", riesz.Balancing())
    best = float(chosen.details()["tolerance_0"].iloc[0])
    losses = []
    for delta in (0.8 * best, best, 1.25 * best):
        gamma = fit(request, "ate", riesz.Balancing(tolerance=delta)).riesz_representer["ATE"]
        losses.append(np.mean(gamma**2) / len(gamma) + delta**2)
    assert losses[1] < min(losses[0], losses[2])


# Weights of a known sign.


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("learner", [{"objective": "entropy"}, {"sign": True}], ids=["entropy", "variance"])
@pytest.mark.parametrize("case", OF_KNOWN_SIGN)
def test_weights_of_the_known_sign_balance(
    request: pytest.FixtureRequest, case: str, learner: dict[str, object], weights: str | None
) -> None:
    for tolerance in (0, 0.02):
        result = fit(request, case, riesz.Balancing(tolerance=tolerance, **learner), weights=weights)
        assert np.abs(imbalances(result)).max() < tolerance + 1e-7
        design, rr = result.model.blueprint.design, result.predictions.rr.observed
        arm = design.strata
        if case in ("ate", "att", "atc"):
            assert (rr[0] * np.where(arm == 1, 1, -1) >= 0).all()
        if case == "mean":
            assert (rr[0] >= 0).all()
            assert (rr[0][arm == 0] == 0).all()
        if case == "arms":
            assert all((rr[c][arm == 2 - c] == 0).all() for c in (0, 1))
    assert np.isfinite(result.bse).all()


def test_entropy_balancing_is_its_dual_by_hand(binary_frame: pd.DataFrame) -> None:
    """For the ATT (Hainmueller 2012): the untreated get weights exp(x'l), by which they have the means of the treated."""
    learner = riesz.Balancing(tolerance=0, objective="entropy")
    result = riesz.att("y ~ treat(a) * (x1 + x2 + g)", binary_frame, learner=learner, folds=1)
    a = binary_frame["a"].to_numpy() == 1
    x = np.column_stack([binary_frame[["x1", "x2"]], pd.get_dummies(binary_frame["g"], drop_first=True).astype(float)])
    gaps = x[~a] - x[a].mean(axis=0)
    dual = minimize(
        lambda v: np.log(np.exp(gaps @ v).sum()),
        np.zeros(4),
        jac=lambda v: gaps.T @ np.exp(gaps @ v) / np.exp(gaps @ v).sum(),
        tol=1e-14,
    )
    w = np.exp(gaps @ dual.x)
    rr = result.riesz_representer["ATT"].to_numpy()
    share = -rr[~a] / -rr[~a].sum()
    np.testing.assert_allclose(share, w / w.sum(), atol=1e-8)
    np.testing.assert_allclose(rr[a], rr[a][0], rtol=1e-6)  # the treated count equally
    np.testing.assert_allclose(rr[a].sum(), -rr[~a].sum(), rtol=1e-6)


@pytest.mark.parametrize("sign", [True, False])
def test_weights_are_those_of_a_quadratic_program(binary_frame: pd.DataFrame, sign: bool) -> None:
    """The primal, solved directly for 60 rows."""
    data = binary_frame.head(60)
    learner = riesz.Balancing(tolerance=0.05, sign=sign)
    result = riesz.ate("y ~ treat(a) + x1 + x2", data, learner=learner, folds=1)
    columns = make_columns(result.model.blueprint.design)
    b, m = columns.standard.apply(result.model.blueprint.design.z), sums_of(columns).moments[0]
    g = np.where(data["a"] == 1, 1.0, -1.0)
    n = len(data)

    def imbalance(w: np.ndarray) -> np.ndarray:
        return (g * w) @ b / n - m

    constraints = [
        {"type": "eq", "fun": lambda w: imbalance(w)[:1], "jac": lambda w: (g[:, None] * b).T[:1] / n},
        {"type": "ineq", "fun": lambda w: 0.05 - imbalance(w)[1:], "jac": lambda w: -(g[:, None] * b).T[1:] / n},
        {"type": "ineq", "fun": lambda w: 0.05 + imbalance(w)[1:], "jac": lambda w: (g[:, None] * b).T[1:] / n},
    ]
    primal = minimize(
        lambda w: w @ w / n,
        np.full(n, 2.0),
        jac=lambda w: 2 * w / n,
        bounds=[(0 if sign else None, None)] * n,
        constraints=constraints,
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(result.riesz_representer["ATE"], g * primal.x, atol=1e-5)
    free = riesz.ate("y ~ treat(a) + x1 + x2", data, learner=riesz.Balancing(tolerance=0.05), folds=1)
    assert np.mean(result.riesz_representer["ATE"] ** 2) >= np.mean(free.riesz_representer["ATE"] ** 2) - 1e-12


@pytest.mark.parametrize("learner", [{"objective": "entropy"}, {"sign": True}], ids=["entropy", "variance"])
def test_representers_are_the_same_functions_where_they_are_read(
    binary_frame: pd.DataFrame, learner: dict[str, object]
) -> None:
    rr = riesz.ate("y ~ treat(a) * x1 + x2", binary_frame, learner=riesz.Balancing(**learner), folds=2).predictions.rr
    treated, untreated = rr.values
    np.testing.assert_allclose(rr.observed[0], np.where(binary_frame["a"] == 1, treated, untreated), rtol=1e-10)


def test_approximate_residual_balancing(binary_frame: pd.DataFrame) -> None:
    """The one-step estimate with these weights: the plug-in plus the weighted residuals."""
    result = riesz.ate("y ~ treat(a) * x1 + x2", binary_frame, learner=riesz.Balancing(), folds=1)
    mu, rr = result.predictions.mu, result.riesz_representer["ATE"]
    by_hand = np.mean(mu.values[0] - mu.values[1]) + np.mean(rr * (binary_frame["y"] - mu.observed))
    np.testing.assert_allclose(result.params["ATE"], by_hand)


# Simulations, splines, binary outcomes, files and refusals.


@pytest.mark.parametrize(
    "learner",
    [
        riesz.Balancing("cv"),
        riesz.Balancing("cv", ball="euclidean"),
        riesz.Balancing("cv", objective="entropy"),
        riesz.Balancing(ball="euclidean"),
        riesz.Balancing(sign=True, dictionary="splines"),
        riesz.Balancing(objective="entropy", dictionary="splines"),
    ],
    ids=str,
)
def test_settings_give_estimates_and_files(
    binary_frame: pd.DataFrame, tmp_path: Path, learner: riesz.Balancing
) -> None:
    data = binary_frame.assign(y=(binary_frame["y"] > 1).astype(float))
    options = {"learner": learner, "folds": 2, "weights": "w", "cluster": "village", "family": "binomial"}
    result = riesz.ate("y ~ treat(a) * x1 + x2 + g", data, **options)
    assert np.isfinite(result.bse).all()
    assert result.fittedvalues.between(0, 1).all()
    result.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    assert again.model.learner == learner
    assert str(again.summary()) == str(result.summary())
    pd.testing.assert_frame_equal(again.predict(data.head(9)), result.predict(data.head(9)))


def test_chosen_tolerances_rise_until_there_are_weights_of_the_sign() -> None:
    """Without overlap in x no positive weights balance it exactly, but signed ones do."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=200)
    data = pd.DataFrame({"x": x, "a": (x > 0).astype(float), "y": x + rng.normal(size=200)})
    formula = "y ~ treat(a) * x"
    for options in ({"objective": "entropy"}, {"sign": True}):
        with pytest.raises(riesz.LearnerError, match=r"No weights of the representer's sign balance .* tolerance=0"):
            riesz.ate(formula, data, learner=riesz.Balancing(tolerance=0, **options), folds=1)
        raised = riesz.ate(formula, data, learner=riesz.Balancing(**options), folds=1)
        assert raised.details()["tolerance_0"].iloc[0] > 0.03
        assert np.isfinite(raised.bse).all()


@pytest.mark.parametrize("case", ["ade", "shift"])
@pytest.mark.parametrize("options", [{"objective": "entropy"}, {"sign": True}], ids=str)
def test_moments_without_a_known_sign_are_refused_before_fitting(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, case: str, options: dict[str, object]
) -> None:
    monkeypatch.setattr(riesz.Balancing, "fit", lambda *_: pytest.fail("refused too late"))
    with pytest.raises(riesz.LearnerError, match="needs a Riesz representer whose sign is known"):
        fit(request, case, riesz.Balancing(**options))


def test_a_policy_of_a_continuous_treatment_has_a_known_sign(continuous_frame: pd.DataFrame) -> None:
    learner = riesz.Balancing(objective="entropy")
    result = riesz.mean("y ~ treat(d) * x1", continuous_frame, at="d + 0.2", learner=learner, folds=1)
    assert (result.riesz_representer["mean"] > 0).all()
    np.testing.assert_allclose(result.riesz_representer["mean"].mean(), 1.0)


def test_a_tolerance_without_weights_is_refused() -> None:
    rng = np.random.default_rng(3)
    data = pd.DataFrame(rng.normal(size=(60, 50))).add_prefix("x")
    data = data.assign(a=rng.integers(0, 2, 60).astype(float), y=rng.normal(size=60))
    for ball, words in (("max", r"Use a tolerance of \S+ or more"), ("euclidean", r"Use a tolerance above \S+")):
        with pytest.raises(riesz.LearnerError, match=rf"No weights balance .* tolerance=1e-05\. {words}"):
            riesz.ate("y ~ treat(a) * .", data, learner=riesz.Balancing(1e-5, ball=ball), folds=2)
        for tolerance in ("aiw", "cv"):
            learner = riesz.Balancing(tolerance, ball=ball)
            assert np.isfinite(riesz.ate("y ~ treat(a) * .", data, learner=learner, folds=2).bse).all()
    with pytest.raises(riesz.LearnerError, match=r"so that Balancing\(tolerance=0\) has no unique solution"):
        riesz.ate("y ~ treat(a) * .", data, learner=riesz.Balancing(0), folds=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": -1.0}, r"Balancing\(tolerance=-1.0\): expected a number, 0 or larger, 'aiw' or 'cv'"),
        ({"tolerance": "loo"}, r"Balancing\(tolerance='loo'\): expected a number"),
        ({"objective": "size"}, r"Balancing\(objective='size'\): expected one of 'variance', 'entropy'"),
        ({"ball": "euclidean", "sign": True}, r"ball='euclidean'\) is a ridge, whose weights may have either sign"),
        ({"ball": "cube"}, r"Balancing\(ball='cube'\): expected one of"),
        ({"penalty": "cv"}, r"Balancing\(penalty='cv'\): expected a number, 0 or larger, or 'loo'"),
    ],
)
def test_settings_are_checked(options: dict[str, object], words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        riesz.Balancing(**options)  # type: ignore[arg-type]
