"""Derived representers: against hand-written AIPW, DoubleML and known truths; clipping, seeds, weights and clear errors."""

from __future__ import annotations

import sys
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz import datasets
from riesz.design.moment import Evaluation
from riesz.estimands.linear_form import Mu
from riesz.learners.propensity.fits import _normal
from riesz.learners.propensity.representer import arm_coefficients, arm_representer, linked_at_arms

pytest.importorskip("sklearn")
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FOLDS = np.arange(400) % 3
LEARNER = riesz.Propensity(Ridge(2.0), LogisticRegression(C=0.5))


def nuisances(data: pd.DataFrame, arms: list[Any], column: str, clip: float) -> tuple[np.ndarray, np.ndarray]:
    """Cross-fitted mu and p at every arm, both (n, arms)."""
    x, y, a = data[["x1", "x2"]].to_numpy(), data["y"].to_numpy(), data[column].to_numpy()
    mu, p = np.zeros((2, len(data), len(arms)))
    for fold in range(3):
        train, test = fold != FOLDS, fold == FOLDS
        classifier = LogisticRegression(C=0.5).fit(x[train], a[train])
        p[test] = classifier.predict_proba(x[test])[:, [list(classifier.classes_).index(arm) for arm in arms]]
        for j, arm in enumerate(arms):
            mu[test, j] = Ridge(2.0).fit(x[train & (a == arm)], y[train & (a == arm)]).predict(x[test])
    return mu, np.clip(p, clip, 1 - clip)


@pytest.mark.parametrize("clip", [0.01, 0.3])
@pytest.mark.parametrize("verb", ["ate", "att", "atc", "ape", "mean", "policy"])
def test_aipw_by_hand(binary_frame: pd.DataFrame, verb: str, clip: float) -> None:
    """The classical formulas, one by one, estimate and standard error."""
    y, a, x1 = (binary_frame[name].to_numpy() for name in ("y", "a", "x1"))
    mu, p = nuisances(binary_frame, [0.0, 1.0], "a", clip)
    (mu0, mu1), (p0, p1) = mu.T, p.T
    pi = 0.2 + 0.6 * (x1 > 0)
    one, zero = mu1 + a / p1 * (y - mu1), mu0 + (1 - a) / p0 * (y - mu0)
    sends = x1 > 0  # the policy: everyone with x1 > 0 is treated, the others stay where they are
    here = np.where(a == 1, mu1, mu0)
    score, norm, estimand = {
        "ate": (one - zero, np.ones(400), riesz.ATE()),
        "att": (a * (y - mu0) - (1 - a) * p1 / p0 * (y - mu0), a, riesz.ATT()),
        "atc": ((1 - a) * (mu1 - y) + a * p0 / p1 * (y - mu1), 1 - a, riesz.ATC()),
        "ape": (pi * one + (1 - pi) * zero, np.ones(400), riesz.APE("0.2 + 0.6 * (x1 > 0)")),
        "mean": (one, np.ones(400), riesz.Mean(1)),
        "policy": (
            np.where(sends, mu1 + a * (p0 + p1) / p1 * (y - mu1), here + (y - here)),
            np.ones(400),
            riesz.Mean("where(x1 > 0, 1, a)"),
        ),
    }[verb]
    psi = score.mean() / norm.mean()
    influence = (score - psi * norm) / norm.mean()
    learner = riesz.Propensity(LEARNER.outcome, LEARNER.propensity, clip=clip)
    fit = riesz.estimate("y ~ treat(a) + x1 + x2", binary_frame, estimand, learner=learner, folds=FOLDS)
    np.testing.assert_allclose(fit.params.iloc[0], psi, rtol=1e-9)
    np.testing.assert_allclose(fit.bse.iloc[0], influence.std(ddof=1) / 20, rtol=1e-9)
    assert fit.details()["clipped"].mean() == pytest.approx(
        np.mean((p == clip).any(axis=1)), abs=0.005
    )  # the mean over folds of unequal size


@pytest.mark.parametrize("clip", [0.01, 0.3])
@pytest.mark.parametrize("verb", ["ate", "att"])
def test_three_arms_by_hand(arms_frame: pd.DataFrame, verb: str, clip: float) -> None:
    """A clipped propensity of one arm must not change the weights of others."""
    arms = ["placebo", "high", "low"]
    mu, p = nuisances(arms_frame, arms, "arm", 1e-9)
    held = np.clip(p, clip, 1 - clip)
    assert ((p < clip).sum() > 100) == (clip == 0.3)
    y, arm = arms_frame["y"].to_numpy(), arms_frame["arm"].to_numpy()
    fit = riesz.estimate(
        "y ~ treat(arm, reference='placebo') + x1 + x2",
        arms_frame,
        riesz.ATE() if verb == "ate" else riesz.ATT(),
        learner=riesz.Propensity(LEARNER.outcome, LEARNER.propensity, clip=clip),
        folds=FOLDS,
    )
    at = {name: (arm == name).astype(float) for name in arms}
    zero = y - mu[:, 0]
    for j, name in ((1, "high"), (2, "low")):
        one = y - mu[:, j]
        if verb == "ate":
            score = mu[:, j] - mu[:, 0] + at[name] / held[:, j] * one - at["placebo"] / held[:, 0] * zero
            psi = score.mean()
        else:
            odds = p[:, j] / (1 - p[:, 0]) * (1 - held[:, 0]) / held[:, 0]  # p_j / p_0 unless p_0 is clipped
            score = at[name] * (y - mu[:, 0]) - at["placebo"] * odds * zero
            psi = score.mean() / at[name].mean()
        np.testing.assert_allclose(fit.params[f"{verb.upper()}_{name}"], psi, rtol=1e-9)


def test_normal_dose_by_hand(continuous_frame: pd.DataFrame) -> None:
    """(a - m) / s^2 for the derivative, density ratios for shifts, with residuals from inner folds."""
    formula = "y ~ treat(d) * x1 + x2"
    learner = riesz.Propensity(LinearRegression(), LinearRegression())
    estimands = [riesz.ADE(), riesz.IPE("x1 > 0"), riesz.Shift(0.3)]
    fit = riesz.estimate(formula, continuous_frame, estimands, learner=learner, folds=FOLDS)
    y, d, x1, x2 = (continuous_frame[name].to_numpy() for name in ("y", "d", "x1", "x2"))
    x = np.column_stack([np.ones(400), x1, x2])

    def columns(d: np.ndarray) -> np.ndarray:
        return np.column_stack([x, d, d * x1])

    mu, slope, move = np.zeros((3, 400))
    rr = np.zeros((3, 400))
    for fold in range(3):
        train, test = fold != FOLDS, fold == FOLDS
        theta = np.linalg.lstsq(columns(d)[train], y[train], rcond=None)[0]
        mean = x @ np.linalg.lstsq(x[train], d[train], rcond=None)[0]
        s = fit.details()["residual_scale"][fold]
        assert s == pytest.approx(np.std(d[train] - mean[train]), rel=0.03)
        mu[test], slope[test] = (columns(d) @ theta)[test], (theta[3] + theta[4] * x1)[test]
        move[test] = 0.3 * slope[test]
        z = (d - mean) / s
        ade, ratio = z / s, np.exp((z**2 - ((d - 0.3 - mean) / s) ** 2) / 2)
        rr[:, test] = np.stack([ade, (x1 > 0) * ade, ratio - 1])[:, test]
    moments = np.stack([slope, (x1 > 0) * slope, move])
    np.testing.assert_allclose(fit.riesz_representer.T, rr, rtol=1e-8)
    np.testing.assert_allclose(fit.params, (moments + rr * (y - mu)).mean(axis=1), rtol=1e-7)


@pytest.mark.parametrize("name", ["binary", "arms", "continuous"])
def test_rr_is_close_to_the_true_one(name: str) -> None:
    """With the right columns and parametric models, for every question of a simulation."""
    simulation = datasets.get(name)
    data = simulation.draw(4000, seed=1).data
    arms = bool(simulation.assignment.treatment.levels)
    propensity = make_pipeline(StandardScaler(), LogisticRegression()) if arms else LinearRegression()
    learner = riesz.Propensity(LinearRegression(), propensity, spread="constant" if arms else "modelled")
    treat = 'treat(arm, reference="placebo")' if name == "arms" else "treat(a)"
    formula = f"y ~ {treat} + bs(x1, df=4) + bs(x2, df=7) + bs(x3, df=4)"
    for verb, estimand in simulation.questions.items():
        fit = riesz.estimate(formula, data, estimand, learner=learner)
        true = simulation.riesz_representer(estimand, data)
        for learned, known in zip(fit.riesz_representer.to_numpy().T, true, strict=True):
            assert np.mean((learned - known) ** 2) < 0.1 * np.mean(known**2), verb


@pytest.mark.parametrize("verb", ["ade", "shift"])
def test_rr_of_a_dose_is_a_smooth_function(continuous_frame: pd.DataFrame, verb: str) -> None:
    """The representer's slope at derivative readings is its derivative, as TMLE needs it."""
    h = 1e-5

    def near(mu: Any, data: pd.DataFrame) -> Any:
        return (mu(data.assign(d=data["d"] + h)) - mu(data.assign(d=data["d"] - h))) / (2 * h)

    def slope(mu: Any, data: pd.DataFrame) -> Any:
        return mu.derivative(data, "d")

    def asked(mu: Any, data: pd.DataFrame) -> Any:
        """The estimand, which also reads mu wherever the others do."""
        estimand = slope(mu, data) if verb == "ade" else mu(data.assign(d=data["d"] + 0.4)) - mu(data)
        return estimand + 0 * near(mu, data) + 0 * slope(mu, data)

    others = [riesz.CustomMoment(moment, name=moment.__name__) for moment in (asked, near, slope)]
    learner = riesz.Propensity(LinearRegression(), LinearRegression())
    fit = riesz.estimate("y ~ treat(d) * x1 + x2", continuous_frame, others, learner=learner, folds=1)
    design, rr = fit.model.blueprint.design, fit.predictions.rr
    places = rr.links.of(0)
    np.testing.assert_array_equal(rr.links.reading[places], np.arange(len(design.readings())))
    applied = design.apply(Evaluation(rr.observed[0], rr.values[places], rr.slopes[places]))
    np.testing.assert_allclose(applied[1], applied[2], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("score", ["ATE", "ATTE"])
def test_doubleml(score: str) -> None:
    """DoubleML's interactive regression model, with the same folds and models."""
    doubleml = pytest.importorskip("doubleml")
    data = datasets.get("binary").draw(600, seed=3).data
    labels = np.arange(600) % 4
    outcome, propensity = HistGradientBoostingRegressor(max_iter=20), LogisticRegression()
    verb = riesz.ate if score == "ATE" else riesz.att
    ours = verb("y ~ treat(a) + .", data, learner=riesz.Propensity(outcome, propensity), folds=labels)
    source = doubleml.DoubleMLData(data, "y", "a")
    theirs = doubleml.DoubleMLIRM(source, outcome, propensity, score=score, draw_sample_splitting=False)
    theirs.set_sample_splitting([(np.flatnonzero(labels != k), np.flatnonzero(labels == k)) for k in range(4)])
    theirs.fit()
    np.testing.assert_allclose(ours.params.iloc[0], theirs.coef[0], rtol=1e-9)
    np.testing.assert_allclose(ours.bse.iloc[0] * np.sqrt(599 / 600), theirs.se[0], rtol=1e-9)


def test_frequency_weights_are_repeated_rows(binary_frame: pd.DataFrame) -> None:
    counts = np.random.default_rng(0).integers(1, 4, 400)
    long = binary_frame.loc[binary_frame.index.repeat(counts)].reset_index(drop=True)
    learner = riesz.Propensity(Ridge(2.0), LogisticRegression(C=0.5, tol=1e-8))
    weighted = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=learner, folds=1, freq_weights=counts)
    repeated = riesz.ate("y ~ treat(a) + x1 + x2", long, learner=learner, folds=1)
    np.testing.assert_allclose(weighted.params, repeated.params, rtol=1e-5)
    np.testing.assert_allclose(weighted.bse, repeated.bse, rtol=1e-5)
    piped = riesz.Propensity(make_pipeline(Ridge(2.0)), make_pipeline(learner.propensity))
    same = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=piped, folds=1, freq_weights=counts)
    np.testing.assert_allclose(same.params, weighted.params)


def test_seeds_of_models(binary_frame: pd.DataFrame) -> None:
    """A random state of None is set from the fit's seed; another one is kept."""

    def fit(state: int | None, seed: int) -> riesz.Results:
        forest = make_pipeline(RandomForestRegressor(5, random_state=state))
        learner = riesz.Propensity(forest, LogisticRegression())
        return riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=learner, folds=FOLDS, seed=seed)

    assert fit(None, 1).params["ATE"] == fit(None, 1).params["ATE"] != fit(None, 2).params["ATE"]
    assert fit(7, 1).params["ATE"] == fit(7, 2).params["ATE"]


def test_seeds_of_splitters(binary_frame: pd.DataFrame) -> None:
    """Splitters inside a search have no parameters to set, but they have a random state."""
    search = GridSearchCV(LogisticRegression(), {"C": np.geomspace(1e-4, 10, 12)}, cv=KFold(2, shuffle=True))
    learner = riesz.Propensity(LinearRegression(), search)
    first, again = (
        riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=learner, folds=2, seed=1) for _ in range(2)
    )
    assert first.params["ATE"] == again.params["ATE"]
    assert search.cv.random_state is None


def test_a_modelled_spread_has_its_scale_from_held_out_rows() -> None:
    """Trees overfit the squared residuals: on training rows the variance would be too small, and rr too large."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(600, 3))
    d = x[:, 0] + generator.normal(size=600)  # the same scatter everywhere
    data = pd.DataFrame(x, columns=["x1", "x2", "x3"]).assign(d=d, y=d + x[:, 1] + generator.normal(size=600))
    sums = []
    for spread in ("constant", "modelled"):
        learner = riesz.Propensity(LinearRegression(), None, spread=spread)
        fit = riesz.ade("y ~ treat(d) + .", data, learner=learner)
        rr, sd = fit.riesz_representer["ADE"], []
        for one, (split,) in zip(fit._crossfit.fits, ([s] for s in fit._crossfit.splits[0]), strict=True):
            normal = _normal(one.location, one.variance, one.scatter, x[split.test], 100.0)
            sd.append(((d[split.test] - normal.mean) / normal.sd) ** 2)
        sums.append((np.concatenate(sd).mean(), (rr**2).mean()))
    assert sums[0][0] == pytest.approx(1.0, abs=0.15)
    assert sums[1][0] == pytest.approx(1.0, abs=0.25)  # 1.6 with the scale of seen rows


def test_the_derivative_of_a_curve_is_not_smoothed_away() -> None:
    """The step of the central difference is short enough that its bias is small next to a standard error."""

    class Sine(RegressorMixin, BaseEstimator):  # type: ignore[misc]
        def fit(self, x: np.ndarray, y: np.ndarray) -> Any:
            return self

        def predict(self, x: np.ndarray) -> np.ndarray:
            return np.asarray(np.sin(2 * x[:, -1]))

    generator = np.random.default_rng(2)
    d = generator.normal(size=4000)
    data = pd.DataFrame({"d": d, "y": np.sin(2 * d) + generator.normal(size=4000)})
    fit = riesz.ade("y ~ treat(d)", data, learner=riesz.Propensity(Sine(), LinearRegression()), folds=2)
    smoothed = fit.predictions.mu.slopes[0] - 2 * np.cos(2 * d)
    assert abs(smoothed.mean()) < 0.1 * fit.bse["ADE"]


def test_binary_outcomes(binary_frame: pd.DataFrame) -> None:
    """Classifiers give probabilities, regressors are kept in [0, 1]; an arm with one outcome only is no obstacle."""
    data = binary_frame.assign(y=((binary_frame["y"] > 0) & (binary_frame["a"] == 1)).astype(float))
    for outcome in (None, LogisticRegression(), LinearRegression()):
        learner = riesz.Propensity(outcome, LogisticRegression())
        fit = riesz.ate("y ~ treat(a) + x1 + x2", data, learner=learner, family="binomial", folds=2)
        assert fit.fittedvalues.between(0, 1).all()
        assert (fit.fittedvalues[data["a"] == 0] == 0).all()
        assert np.isfinite(fit.estimates["estimate"]).all()
    shares = data.assign(y=np.clip(0.3 + 0.1 * binary_frame["y"], 0, 1))
    assert np.isfinite(
        riesz.ate("y ~ treat(a) + x1", shares, learner="propensity", family="binomial", folds=2).bse[0:1]
    ).all()


def test_the_summary_mentions_clipping() -> None:
    data = datasets.get("weak_overlap").draw(500, seed=1).data
    learner = riesz.Propensity(LinearRegression(), LogisticRegression(), clip=0.1)
    fit = riesz.ate("y ~ treat(a) + .", data, learner=learner)
    share = fit.details()["clipped"].mean()
    assert 0.05 < share < 0.9
    assert f"The propensities of {share:.0%} of the rows were clipped (clip=0.1)" in " ".join(
        str(fit.summary()).split()
    )
    assert fit.riesz_representer.abs().max().iloc[0] == pytest.approx(10)
    assert "clipped" not in str(riesz.ate("y ~ treat(a) + x4", data, learner=learner).summary())


def test_density_ratios_are_capped(continuous_frame: pd.DataFrame) -> None:
    learner = riesz.Propensity(LinearRegression(), LinearRegression(), clip=0.2)
    fit = riesz.shift("y ~ treat(d) + x1", continuous_frame, delta=2.0, learner=learner)
    assert fit.riesz_representer.max().iloc[0] == pytest.approx(4)
    assert "density ratios" in str(fit.summary())


def test_no_covariates(binary_frame: pd.DataFrame, continuous_frame: pd.DataFrame) -> None:
    """An experiment without covariates: the difference in means, and the slope of a straight line."""
    learner = riesz.Propensity(LinearRegression(), LogisticRegression())
    fit = riesz.ate("y ~ treat(a)", binary_frame, learner=learner, folds=1)
    means = binary_frame.groupby("a")["y"].mean()
    np.testing.assert_allclose(fit.params["ATE"], means[1] - means[0])
    line = riesz.Propensity(LinearRegression(), LinearRegression())
    slope = np.polyfit(continuous_frame["d"], continuous_frame["y"], 1)[0]
    np.testing.assert_allclose(riesz.ade("y ~ treat(d)", continuous_frame, learner=line, folds=1).params["ADE"], slope)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"outcome": Ridge}, r"expected a scikit-learn model, such as LogisticRegression\(\) \(with parentheses\)"),
        ({"propensity": "logit"}, "Propensity\\(propensity='logit'\\): expected a scikit-learn model"),
        ({"clip": 0.5}, "clip=0.5.*between 0 and 0.5"),
        ({"clip": "small"}, "clip='small'"),
        ({"spread": "wide"}, "'constant', 'modelled'"),
    ],
)
def test_settings_check_themselves(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        riesz.Propensity(**settings)


class TestRefusals:
    def refused(self, words: str, frame: pd.DataFrame, formula: str, verb: Any, learner: Any, **options: Any) -> None:
        with pytest.raises(riesz.LearnerError, match=words):
            verb(formula, frame, learner=learner, **options)

    def test_models_that_do_not_fit(self, binary_frame: pd.DataFrame, continuous_frame: pd.DataFrame) -> None:
        arms = ("y ~ treat(a) + x1", riesz.ate)
        shares = binary_frame.assign(y=np.linspace(0, 1, 400))
        classify, line = LogisticRegression(), LinearRegression()
        self.refused("family='gaussian' needs a regressor", binary_frame, *arms, riesz.Propensity(outcome=classify))
        self.refused("between 0 and 1", shares, *arms, riesz.Propensity(outcome=classify), family="binomial")
        self.refused("gives no probabilities", binary_frame, *arms, riesz.Propensity(propensity=line))
        dose = ("y ~ treat(d) + x1", riesz.ade)
        self.refused("treatment is continuous", continuous_frame, *dose, riesz.Propensity(propensity=classify))

    def test_weights_that_a_model_cannot_take(self, binary_frame: pd.DataFrame) -> None:
        arms = ("y ~ treat(a) + x1", riesz.ate)
        for learner in (riesz.Propensity(KNeighborsRegressor()), riesz.Propensity(None, KNeighborsClassifier())):
            self.refused("accepts no sample weights", binary_frame, *arms, learner, weights="w")
            assert np.isfinite(riesz.ate(*arms[:1], binary_frame, learner=learner, folds=2).params["ATE"])

    def test_hidden_covariates(self, binary_frame: pd.DataFrame) -> None:
        formula = "y ~ treat(a) + treat(a):x1 + x2"
        for learner in ("propensity", "kernel_embedding", "madnet"):
            self.refused(
                "`x1` enters the formula only together with the treat", binary_frame, formula, riesz.ate, learner
            )

    def test_too_few_rows_for_a_dose(self, continuous_frame: pd.DataFrame) -> None:
        self.refused("at least 20", continuous_frame[:24], "y ~ treat(d) + x1", riesz.ade, "propensity", folds=4)

    def test_a_dose_that_repeats_a_covariate(self, continuous_frame: pd.DataFrame) -> None:
        data = continuous_frame.assign(twice=2 * continuous_frame["d"])
        for learner in ("propensity", "kernel_embedding"):
            self.refused("not identified.*repeats the treatment", data, "y ~ treat(d) + x1 + twice", riesz.ade, learner)

    def test_a_dose_that_is_moved_by_its_own_amount_in_any_units(self, continuous_frame: pd.DataFrame) -> None:
        for unit in (1.0, 1e-9, 1e9):
            data = continuous_frame.assign(d=unit * continuous_frame["d"])
            question = partial(riesz.mean, at="1.5 * d")
            self.refused("depend on the treatment itself", data, "y ~ treat(d) + x1", question, "propensity")

    def test_a_share_of_the_treated_in_a_moment(self, binary_frame: pd.DataFrame) -> None:
        """With everyone in one arm the share is 0 or 1, so the closed form would belong to another moment."""
        moment = riesz.CustomMoment(
            lambda mu, data: data["a"] / max(data["a"].mean(), 0.01) * (mu(data.assign(a=1)) - mu(data.assign(a=0)))
        )
        question = partial(riesz.estimate, estimand=moment)
        for learner in (LEARNER, "dragonnet"):
            self.refused("depends on the arms of other rows", binary_frame, "y ~ treat(a) + x1", question, learner)

    def test_a_class_instead_of_a_learner(self, binary_frame: pd.DataFrame) -> None:
        self.refused(r"write riesz.Propensity\(\)", binary_frame, "y ~ treat(a) + x1", riesz.ate, riesz.Propensity)

    def test_a_model_that_fails(self, binary_frame: pd.DataFrame) -> None:
        broken = riesz.Propensity(Ridge(alpha=-1.0), LogisticRegression())
        self.refused(
            r"Ridge cannot be fitted on \d+ rows and 1 columns", binary_frame, "y ~ treat(a) + x1", riesz.ate, broken
        )

    def test_no_scikit_learn(self, binary_frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "sklearn", None)
        self.refused("pip install scikit-learn", binary_frame, "y ~ treat(a) + x1", riesz.ate, "propensity")


# the weights of arms

ARM_MOMENTS = {
    "ate": riesz.ATE(),
    "att": riesz.ATT(),
    "atc": riesz.ATC(),
    "mean": riesz.Mean(["low", "high"]),
    "policy": riesz.CustomMoment(
        lambda mu, data: mu(data.assign(arm=np.where(data["x1"] > 0, "low", "high"))) - mu(data), name="policy"
    ),
    "weights of the arm": riesz.CustomMoment(
        lambda mu, data: (data["arm"] == "low") * data["x1"] * (mu(data.assign(arm="high")) - 2 * mu(data)), name="low"
    ),
}


@pytest.mark.parametrize("name", ARM_MOMENTS)
@pytest.mark.parametrize("clip", [0.0, 0.1])
def test_weights_of_arms_and_their_representer_by_hand(name: str, clip: float, arms_frame: pd.DataFrame) -> None:
    """Row by row: what the moment multiplies each arm by if the row were in another, and the sum over these arms over p."""
    blueprint = riesz.estimate("y ~ treat(arm) * x1", arms_frame, ARM_MOMENTS[name], learner="linear").model.blueprint
    design, levels = blueprint.design, list(blueprint.treatment.levels)
    coefficients = arm_coefficients(design)
    expected = np.zeros((design.components, 3, 3, len(design)))
    for source, level in enumerate(levels):
        data = blueprint.treatment.set(blueprint.data, level)
        for c, component in enumerate(blueprint.components):
            for reading in component.moment(Mu(), data).readings:
                for j, arm in enumerate(levels):
                    expected[c, source, j] += np.where(reading.frame["arm"] == arm, reading.weight, 0.0)
    np.testing.assert_array_equal(coefficients.dense(), expected)
    p = np.random.default_rng(1).dirichlet(np.ones(3), len(design))
    clipped = np.clip(p, clip, 1 - clip)
    alpha = np.zeros((design.components, 3, len(design)))
    for j in range(3):
        others = [i for i in range(3) if i != j]
        share = np.stack([p[:, i] / p[:, others].sum(axis=1) for i in others]) * (1 - clipped[:, j])
        alpha[:, j] = expected[:, j, j] + (expected[:, others, j] * share).sum(axis=1) / clipped[:, j]
    functions = arm_representer(coefficients, p, clip)
    np.testing.assert_allclose(functions.dense(), alpha, rtol=1e-12, atol=1e-12)
    rr, rows = linked_at_arms(functions, design), np.arange(len(design))
    np.testing.assert_array_equal(rr.observed, functions.dense()[:, design.strata, rows])
    some = rows[::3]
    np.testing.assert_array_equal(coefficients[..., some].dense(), expected[..., some])


def test_representers_of_many_arms_need_little_memory() -> None:
    """In proportion to the number of arms times rows, not to a power of it."""
    arms, n = 12, 3000
    x, arm = np.random.default_rng(1).normal(size=n), np.arange(n) % arms
    frame = pd.DataFrame({"y": x + arm, "arm": [f"g{k:02d}" for k in arm], "x": x})
    design = riesz.ate("y ~ treat(arm) + x", frame, learner="linear").model.blueprint.design
    p = np.full((n, arms), 1 / arms)
    tracemalloc.start()
    try:
        linked_at_arms(arm_representer(arm_coefficients(design), p), design)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * 8 * arms * n
