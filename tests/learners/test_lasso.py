"""The lasso: its conditions, identities, an independent reference, and more columns than rows with a known truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import riesz
from riesz.design.design import Design
from riesz.learners.sparse.gram_lasso import NoSolution, least_factor, solve_lasso, violation
from riesz.learners.sparse.penalties import plug_in, rate
from riesz.learners.sparse.second_moments import held_out, make_columns, noise, sums_of
from riesz.learners.sparse.solve import Choices, learn, make_sample
from riesz.learners.sparse.targets import AnchorShadow, Outcome, Representer

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
    "no intercept": ("binary_frame", "y ~ 0 + treat(a) * x1 + g", riesz.ATE()),
}


def design_of(request: pytest.FixtureRequest, case: str, **options: object) -> Design:
    frame, formula, estimand = CASES[case]
    data = request.getfixturevalue(frame)
    return riesz.estimate(formula, data, estimand, folds=1, **options).model.blueprint.design


def correlated(n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Second moments of correlated columns, and of a sparse regression on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) @ (np.eye(p) + rng.normal(size=(p, p)) / np.sqrt(p))
    x /= x.std(axis=0)
    return x.T @ x / n, x.T @ (x[:, :3].sum(axis=1) + rng.normal(size=n)) / n


# The solver.


@pytest.mark.parametrize(("n", "p"), [(200, 10), (200, 150), (60, 200)])
@pytest.mark.parametrize("lam", [1.0, 0.1, 0.01, 1e-4])
def test_solutions_satisfy_the_conditions(n: int, p: int, lam: float) -> None:
    gram, linear = correlated(n, p)
    penalty = lam * np.linspace(0.5, 1.5, p)
    penalty[0] = 0.0
    theta = solve_lasso(gram, linear, penalty)
    assert violation(gram, linear, penalty, theta) < 1e-10
    again = solve_lasso(gram, linear, penalty, start=solve_lasso(gram, linear, 3 * penalty))
    np.testing.assert_allclose(gram @ again, gram @ theta, atol=1e-8)


def test_duplicate_columns_share_a_coefficient() -> None:
    gram, linear = correlated(100, 5)
    twice = np.ix_([0, 0, 1, 2, 3, 4], [0, 0, 1, 2, 3, 4])
    theta = solve_lasso(gram[twice], linear[[0, 0, 1, 2, 3, 4]], np.full(6, 0.1))
    alone = solve_lasso(gram, linear, np.full(5, 0.1))
    np.testing.assert_allclose(np.r_[theta[0] + theta[1], theta[2:]], alone, atol=1e-8)


def test_the_least_penalty_with_a_solution_is_that_of_the_linear_program() -> None:
    """With more columns than rows a moment outside of G's range bounds the penalty from below: min_v max_j |M - G v|_j."""
    gram, _ = correlated(40, 80)
    moments = np.random.default_rng(1).normal(size=80)
    ones = -np.ones((80, 1))
    program = linprog(
        np.r_[np.zeros(80), 1.0],
        A_ub=np.block([[-gram, ones], [gram, ones]]),
        b_ub=np.r_[-moments, moments],
        bounds=[(None, None)] * 80 + [(0, None)],
    )
    least = least_factor(gram, moments, np.ones(80))
    assert program.fun <= least <= 1.02 * program.fun
    with pytest.raises(NoSolution):
        solve_lasso(gram, moments, np.full(80, 0.99 * program.fun))
    theta = solve_lasso(gram, moments, np.full(80, 1.01 * program.fun))
    assert violation(gram, moments, np.full(80, 1.01 * program.fun), theta) < 1e-9


@pytest.mark.parametrize("lam", [0.02, 0.2])
def test_mu_is_that_of_scikit_learn(binary_frame: pd.DataFrame, lam: float) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    learner = riesz.Lasso(penalty=lam, rr_penalty=0.1)
    fit = riesz.ate(BINARY, binary_frame, learner=learner, folds=1, weights="w")
    design = fit.model.blueprint.design
    share = design.weights / design.weights.sum()
    centred = design.z - share @ design.z
    x = centred[:, 1:] / np.sqrt(share @ centred**2)[1:]
    reference = linear_model.Lasso(alpha=lam, tol=1e-12, max_iter=100_000).fit(x, design.y, sample_weight=share)
    np.testing.assert_allclose(fit.fittedvalues, reference.predict(x), atol=1e-6)
    assert fit.details()["columns"].iloc[0] == (reference.coef_ != 0).sum()


def test_mu_of_a_binary_outcome_is_that_of_scikit_learn(binary_frame: pd.DataFrame) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    data = binary_frame.assign(y=(binary_frame["y"] > 1).astype(float))
    fit = riesz.ate("y ~ treat(a) * x1 + x2", data, learner=riesz.Lasso(0.02, 0.1), folds=1, family="binomial")
    z = fit.model.blueprint.design.z[:, 1:]
    x = (z - z.mean(axis=0)) / z.std(axis=0)
    options = {"solver": "saga", "tol": 1e-10, "max_iter": 100_000, "C": 1 / (0.02 * len(x)), "l1_ratio": 1.0}
    reference = linear_model.LogisticRegression(**options).fit(x, data["y"])
    np.testing.assert_allclose(fit.fittedvalues, reference.predict_proba(x)[:, 1], atol=1e-5)


# Identities.


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("case", CASES)
def test_without_penalty_it_is_linear(request: pytest.FixtureRequest, case: str, weights: str | None) -> None:
    """Both forms: these anchors are in the span of the columns, or nearly."""
    frame, formula, estimand = CASES[case]
    data, options = request.getfixturevalue(frame), {"folds": 1, "weights": weights}
    linear = riesz.estimate(formula, data, estimand, learner=riesz.Linear(0, 0, rr="riesz"), **options)
    scale = np.abs(linear.riesz_representer).max().max()
    for rr in ("riesz", "constrained"):
        lasso = riesz.estimate(formula, data, estimand, learner=riesz.Lasso(0, 0, rr=rr), **options)
        np.testing.assert_allclose(lasso.fittedvalues, linear.fittedvalues, atol=1e-6)
        np.testing.assert_allclose(lasso.riesz_representer / scale, linear.riesz_representer / scale, atol=1e-6)
        np.testing.assert_allclose(lasso.params, linear.params, atol=1e-6)
        np.testing.assert_allclose(lasso.bse, linear.bse, atol=1e-6)


def test_a_logit_without_penalty_is_linear(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(y=(binary_frame["y"] > 1).astype(float))
    options = {"folds": 1, "family": "binomial"}
    linear, lasso = (
        riesz.ate("y ~ treat(a) * x1", data, learner=learner(0, 0), **options)
        for learner in (riesz.Linear, riesz.Lasso)
    )
    np.testing.assert_allclose(lasso.fittedvalues, linear.fittedvalues, atol=1e-8)
    small = riesz.ate("y ~ treat(a) * x1", data, learner=riesz.Lasso(1e-9, 0), **options)
    np.testing.assert_allclose(small.fittedvalues, linear.fittedvalues, atol=1e-6)


@pytest.mark.parametrize("choice", [0.05, "plugin", "cv"])
@pytest.mark.parametrize("case", CASES)
def test_representers_satisfy_their_conditions(request: pytest.FixtureRequest, case: str, choice: float | str) -> None:
    """The Riesz form: |M - G rho| <= lambda D. The constrained form: the same for the anchor, and h_n(f) = 0."""
    design = design_of(request, case)
    sample = make_sample(design, Choices(choice, choice, False, 1.0, 0.1), seed=0)
    sums, columns = sample.sums, sample.columns
    for c in range(design.components):
        theta, penalty = learn(Representer(columns, c), choice, sample)
        size = np.abs(sums.moments[c]).max()
        assert violation(sums.gram, sums.moments[c], penalty, theta) < 1e-9 * size
        target = AnchorShadow(columns, c)
        theta, penalty = learn(target, choice, sample)
        m, linear = sums.moments[c], sums.anchors[c]
        assert abs(m @ theta) < 1e-9 * np.linalg.norm(m) * max(np.linalg.norm(theta), 1e-9)
        # the multiplier, from the conditions of the columns that are used, without a penalty first
        used = theta != 0
        residual = (linear - sums.gram @ theta - penalty * np.sign(theta))[used]
        nu = -(m[used] @ residual) / (m[used] @ m[used]) if m[used].any() else 0.0
        if m[used].any():
            assert violation(sums.gram, linear + nu * m, penalty, theta) < 1e-8 * np.abs(linear).max()


def test_the_constrained_form_is_a_lasso_of_the_treatment_on_covariates(binary_frame: pd.DataFrame) -> None:
    """With the same effect for everyone, r is the treatment minus its sparse regression: partialling out."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    learner = riesz.Lasso(0.1, 0.02, rr="constrained")
    fit = riesz.ate("y ~ treat(a) + x1 + x2 + g", binary_frame, learner=learner, folds=1)
    z = fit.model.blueprint.design.z
    x, a = z[:, [k for k, name in enumerate(fit.model.blueprint.design.names) if name not in ("Intercept", "a")]], None
    a = binary_frame["a"].to_numpy()
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    r = a - linear_model.Lasso(alpha=0.02, tol=1e-12).fit(x, a).predict(x)
    r *= r[a == 1].mean() and 1.0 / np.mean(r**2)  # h_n(r) = 1, and the scale is h_n(r) / E_n[r^2]
    np.testing.assert_allclose(fit.riesz_representer["ATE"], r, atol=1e-6)


@pytest.mark.parametrize("rr", ["riesz", "constrained"])
def test_units_of_columns_and_outcome_do_not_matter(continuous_frame: pd.DataFrame, rr: str) -> None:
    formula, learner = "y ~ treat(d) * x1 + x2 + g", riesz.Lasso(rr=rr)
    plain = riesz.ade(formula, continuous_frame, learner=learner)
    changed = continuous_frame.assign(
        x2=5 + 1e3 * continuous_frame["x2"], d=0.01 * continuous_frame["d"] - 7, y=3 - 40 * continuous_frame["y"]
    )
    other = riesz.ade(formula, changed, learner=learner)
    np.testing.assert_allclose(other.params, -4000 * plain.params, rtol=1e-6)
    np.testing.assert_allclose(other.bse, 4000 * plain.bse, rtol=1e-6)


def test_the_order_of_columns_and_rows_does_not_matter(binary_frame: pd.DataFrame) -> None:
    labels = np.arange(len(binary_frame)) % 5
    data = binary_frame.assign(f=labels)
    options = {"learner": riesz.Lasso("plugin", "plugin"), "folds": "f"}
    plain = riesz.ate("y ~ treat(a) * x1 + x2 + g", data, **options)
    other = riesz.ate("y ~ g + x2 + x1 * treat(a)", data.sample(frac=1.0, random_state=1), **options)
    np.testing.assert_allclose(other.params, plain.params, rtol=1e-7)
    np.testing.assert_allclose(other.bse, plain.bse, rtol=1e-7)


def test_copies_in_clusters_change_nothing(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.reset_index(names="id").assign(fold=np.arange(len(binary_frame)) % 4)
    options = {"learner": riesz.Lasso("plugin", "plugin"), "folds": "fold"}
    formula = "y ~ treat(a) * x1 + x2"
    once = riesz.ate(formula, data, **options)
    copies = riesz.ate(formula, pd.concat([data] * 3), cluster="id", **options)
    np.testing.assert_allclose(copies.params, once.params, rtol=1e-8)
    np.testing.assert_allclose(copies.details(), once.details(), rtol=1e-8)


# Penalties.


def test_the_plug_in_penalty_by_hand(request: pytest.FixtureRequest) -> None:
    design = design_of(request, "ate", weights="w")
    sample = make_sample(design, Choices("plugin", "plugin", False, 1.0, 0.1), seed=0)
    theta, penalty = learn(Representer(sample.columns, 0), "plugin", sample)
    b, share = sample.columns.standard.apply(design.z), sample.columns.shares
    m = sample.columns.moment_rows(design, design.z, 0)
    deviation = np.sqrt(share**2 @ (m - b * (b @ theta)[:, None]) ** 2)[1:]
    typical = np.sqrt(np.mean(deviation**2))
    expected = rate(1.0, 0.1, b.shape[1] - 1) * np.maximum(deviation, 0.1 * typical)
    np.testing.assert_allclose(penalty[1:], expected, rtol=2e-3)
    assert penalty[0] == 0


def test_the_noise_of_clusters_is_that_of_their_sums(request: pytest.FixtureRequest) -> None:
    design = design_of(request, "ate", cluster="village")
    columns = make_columns(design)
    sums = sums_of(columns)
    rows = np.concatenate([u for _, u in Outcome(columns).rows(None, sums)])
    by_village = pd.DataFrame(rows * columns.shares[:, None]).groupby(design.groups).sum().to_numpy()
    np.testing.assert_allclose(
        noise(columns, Outcome(columns).rows(None, sums)), np.sqrt((by_village**2).sum(axis=0)), rtol=1e-10
    )


def test_held_out_parts_add_up_and_keep_clusters_whole(request: pytest.FixtureRequest) -> None:
    design = design_of(request, "ate", cluster="village", weights="w")
    columns = make_columns(design)
    sums, parts = sums_of(columns), held_out(columns, seed=3)
    for name in ("gram", "outcome", "moments", "anchors", "anchor_squares", "anchor_moments"):
        total = sum(part.weight * getattr(part.part, name) for part in parts)
        np.testing.assert_allclose(total, getattr(sums, name), atol=1e-9)
        both = parts[0].weight * getattr(parts[0].part, name) + (1 - parts[0].weight) * getattr(parts[0].others, name)
        np.testing.assert_allclose(both, getattr(sums, name), atol=1e-9)


def test_a_column_without_noise_is_penalised() -> None:
    ones = np.ones(3)

    def solve(penalty: np.ndarray, start: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(3), penalty

    _, penalty = plug_in(ones, 2.0, np.array([0.0, 1.0, 1.0]), lambda theta: np.array([0.0, 1.0, 1.0]), solve)
    np.testing.assert_allclose(penalty, [0.2 * np.sqrt(2 / 3), 2.0, 2.0])


# More columns than rows.


def sparse_draw(seed: int, n: int = 400, p: int = 500, arms: bool = True) -> pd.DataFrame:
    """A sparse linear mu with effect 1, and a sparse linear assignment; p > n."""
    rng = np.random.default_rng([seed, 77])
    x = rng.normal(size=(n, p))
    index = 0.4 * x[:, 0] + 0.4 * x[:, 1]
    treated = rng.uniform(size=n) < np.clip(0.5 + 0.2 * index, 0.1, 0.9)
    a = treated.astype(float) if arms else index + rng.normal(size=n)
    y = a + x[:, 0] + x[:, 1] + 0.5 * x[:, 2] + rng.normal(size=n)
    return pd.DataFrame(x).add_prefix("x").assign(a=a, y=y)


@pytest.mark.parametrize("rr", ["riesz", "constrained"])
@pytest.mark.parametrize("verb", ["ate", "ade"])
def test_more_columns_than_rows_with_a_known_truth(verb: str, rr: str) -> None:
    """The effect is 1; the difference in means is off by several standard errors."""
    z, naive = [], []
    for seed in range(8):
        data = sparse_draw(seed, arms=verb == "ate")
        fit = getattr(riesz, verb)("y ~ treat(a) + .", data, learner=riesz.Lasso(rr=rr), folds=3)
        z.append(float((fit.params.iloc[0] - 1) / fit.bse.iloc[0]))
        naive.append(float(np.polyfit(data["a"], data["y"], 1)[0] - 1) / float(fit.bse.iloc[0]))
    assert np.mean(naive) > 5
    assert abs(np.mean(z)) < 1.5
    assert np.mean(np.abs(z) < 1.96) >= 0.6


@pytest.mark.slow
@pytest.mark.parametrize("rr", ["riesz", "constrained"])
def test_coverage_with_more_columns_than_rows(rr: str) -> None:
    z = []
    for seed in range(60):
        data = sparse_draw(seed)
        fit = riesz.ate("y ~ treat(a) + .", data, learner=riesz.Lasso(rr=rr))
        z.append(float((fit.params["ATE"] - 1) / fit.bse["ATE"]))
    assert np.mean(np.abs(z) < 1.96) >= 0.75  # 10 of 12 draws with three folds: shrinkage leaves a bias


def test_a_penalty_without_a_solution_is_refused() -> None:
    """The example reads columns that rows do not determine: interactions, of which there are more than rows."""
    data = sparse_draw(1, n=80, p=60)
    with pytest.raises(
        riesz.LearnerError, match=r"rr_penalty=1e-06 is too small .* Use a penalty of (\S+) or more"
    ) as said:
        riesz.ate("y ~ treat(a) * .", data, learner=riesz.Lasso(rr_penalty=1e-6), folds=2)
    least = float(str(said.value).split("Use a penalty of ")[1].split(" ")[0])
    assert 0.001 < least < 1
    for learner in (riesz.Lasso(rr_penalty=2 * least), riesz.Lasso(), riesz.Lasso(rr_penalty="cv")):
        assert np.isfinite(riesz.ate("y ~ treat(a) * .", data, learner=learner, folds=2).bse).all()


def test_a_constant_plug_in_penalty_is_raised_until_there_is_a_solution() -> None:
    data = sparse_draw(1, n=80, p=60)
    fit = riesz.ate("y ~ treat(a) * .", data, learner=riesz.Lasso(c1=1e-6), folds=2)
    assert (fit.details()["rr_penalty_0"] > 1e-3).all()


# Simulations, splines, files and refusals.


def test_splines_follow_curves_that_the_formula_does_not_name() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(1000, 3))
    a = (rng.uniform(size=1000) < 1 / (1 + np.exp(-2 * np.sin(2 * x[:, 0])))).astype(float)
    data = pd.DataFrame(x, columns=["x1", "x2", "x3"]).assign(
        a=a, y=a + 2 * np.sin(2 * x[:, 0]) + rng.normal(size=1000)
    )
    fits = [
        riesz.ate("y ~ treat(a) + .", data, learner=riesz.Lasso(dictionary=name)) for name in ("splines", "formula")
    ]
    near, far = (abs(float(fit.params["ATE"]) - 1) / float(fit.bse["ATE"]) for fit in fits)
    assert near < 2.5
    assert far > 5


@pytest.mark.parametrize("dictionary", ["formula", "splines"])
@pytest.mark.parametrize("rr", ["riesz", "constrained"])
def test_files_keep_fits(binary_frame: pd.DataFrame, tmp_path: Path, dictionary: str, rr: str) -> None:
    learner = riesz.Lasso(rr=rr, dictionary=dictionary)
    fit = riesz.ate("y ~ treat(a) * x1 + x2 + g", binary_frame, learner=learner, folds=2)
    fit.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    assert again.model.learner == learner
    assert str(again.summary()) == str(fit.summary())
    pd.testing.assert_frame_equal(again.predict(binary_frame.head(9)), fit.predict(binary_frame.head(9)))


def test_it_can_be_stacked(binary_frame: pd.DataFrame) -> None:
    stack = riesz.Stack(["linear", riesz.Lasso(), riesz.Lasso(rr="constrained", dictionary="splines")])
    fit = riesz.ate("y ~ treat(a) * x1 + x2 + g", binary_frame, learner=stack, folds=2)
    assert list(fit.candidates.index.get_level_values("learner")) == [
        "Linear (ridge, rr constrained)",
        "Lasso (rr riesz)",
        "Lasso (on splines, rr constrained)",
        "stack",
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"penalty": -1.0}, r"Lasso\(penalty=-1.0\): expected a number, 0 or larger, 'plugin' or 'cv'"),
        ({"rr_penalty": "loo"}, r"Lasso\(rr_penalty='loo'\): expected a number"),
        ({"rr": "propensity"}, r"Lasso\(rr='propensity'\): expected one of 'riesz', 'constrained'"),
        ({"dictionary": "trees"}, r"Lasso\(dictionary='trees'\): expected one of"),
        ({"c1": 0.0}, r"Lasso\(c1=0.0\): expected a positive number"),
        ({"c2": 1.5}, r"Lasso\(c2=1.5\): expected a number between 0 and 1"),
    ],
)
def test_settings_are_checked(options: dict[str, object], words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        riesz.Lasso(**options)  # type: ignore[arg-type]


def test_no_penalty_with_more_columns_than_rows_is_refused() -> None:
    with pytest.raises(riesz.LearnerError, match=r"so that Lasso\(penalty=0\) has no unique solution"):
        riesz.ate("y ~ treat(a) + .", sparse_draw(1, n=80, p=100), learner=riesz.Lasso(penalty=0))


def test_more_columns_than_it_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riesz.learners.sparse.learner.MOST_COLUMNS", 50)
    with pytest.raises(riesz.LearnerError, match=r"The design has 102 columns; Lasso needs .* at most 50"):
        riesz.ate("y ~ treat(a) + .", sparse_draw(1, n=80, p=100), learner=riesz.Lasso())
