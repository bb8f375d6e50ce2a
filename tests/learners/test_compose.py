"""Compositions: mu is the first learner's, rr the second's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riesz

FORMULA = "y ~ treat(a) * x1 + x2 + g"
DOSE = "y ~ treat(d) * x1 + x2 + g"
QUICK = riesz.MADNet(width=8, head_width=4, stages=(riesz.Stage(1e-2, 3, 3),), networks=1, repeats=3)


def fit(data: pd.DataFrame, learner: Any, **options: Any) -> riesz.Results:
    return riesz.estimate(FORMULA, data, riesz.ATE(), learner=learner, **{"folds": 2, **options})


def same(left: Any, right: Any) -> None:
    for part in ("observed", "values", "slopes"):
        np.testing.assert_array_equal(getattr(left, part), getattr(right, part))


@pytest.mark.parametrize("outcome", ["linear", "splines", "kernel_embedding"])
@pytest.mark.parametrize("rr", ["linear", riesz.Linear(rr="riesz"), "splines", "kernel"])
def test_mu_and_rr_are_those_of_the_learners(binary_frame: pd.DataFrame, outcome: str, rr: Any) -> None:
    """Bit by bit, and the scale of rr is that of its learner: scale-free or claimed."""
    composed = fit(binary_frame, riesz.Compose(outcome, rr), weights="w")
    same(composed.predictions.mu, fit(binary_frame, outcome, weights="w").predictions.mu)
    alone = fit(binary_frame, rr, weights="w")
    same(composed.predictions.rr, alone.predictions.rr)
    assert composed.predictions.scale_free == alone.predictions.scale_free
    np.testing.assert_array_equal(composed._crossfit.scales, alone._crossfit.scales)
    np.testing.assert_allclose(composed.estimates.loc[("ATE", "ipw")], alone.estimates.loc[("ATE", "ipw")])


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
@pytest.mark.parametrize("name", ["linear", "splines", "kernel"])
def test_a_learner_with_itself_is_that_learner(binary_frame: pd.DataFrame, name: str, family: Any) -> None:
    data = binary_frame.assign(y=(binary_frame["y"] > 1).astype(float))
    alone, composed = (fit(data, learner, family=family) for learner in (name, riesz.Compose(name, name)))
    pd.testing.assert_frame_equal(composed.estimates, alone.estimates)
    assert composed.predictions.tilted == alone.predictions.tilted


def test_a_derived_rr_is_not_rescaled(binary_frame: pd.DataFrame) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    propensity = riesz.Propensity(linear.LinearRegression(), linear.LogisticRegression())
    composed = fit(binary_frame, riesz.Compose("linear", propensity))
    assert not composed.predictions.scale_free
    same(composed.predictions.rr, fit(binary_frame, propensity).predictions.rr)


def test_rr_of_a_logit_is_learned_for_all_functions(binary_frame: pd.DataFrame) -> None:
    """Alone it is for the errors of its own logit, which the other learner's mu does not make."""
    data = binary_frame.assign(y=(binary_frame["y"] > 1).astype(float))
    composed = fit(data, riesz.Compose("splines", "linear"), family="binomial")
    assert not composed.predictions.tilted
    same(composed.predictions.rr, fit(data, "linear").predictions.rr)
    same(composed.predictions.mu, fit(data, "splines", family="binomial").predictions.mu)
    assert fit(data, riesz.Compose("splines", "linear"), family="binomial", estimator="ipw").params.notna().all()


def test_a_stack_of_compositions(binary_frame: pd.DataFrame) -> None:
    pairs = [riesz.Compose("linear", "splines"), riesz.Compose("kernel_embedding", "linear")]
    stacked = fit(binary_frame, riesz.Stack(pairs))
    names = [pair.describe("gaussian") for pair in pairs]
    assert stacked.candidates.index.get_level_values("learner").tolist() == [*names, "stack"]
    alone = fit(binary_frame, riesz.Stack(pairs[:1]))
    pd.testing.assert_frame_equal(alone.estimates, fit(binary_frame, pairs[0]).estimates)


def test_estimands_and_clusters(binary_frame: pd.DataFrame, continuous_frame: pd.DataFrame) -> None:
    several = [riesz.ATE(), riesz.ATT(), riesz.Mean(1)]
    result = riesz.estimate(FORMULA, binary_frame, several, learner="compose", folds=2, cluster="village")
    assert (result.bse > 0).all()
    slope = riesz.ade(DOSE, continuous_frame, learner=riesz.Compose("splines", "linear"), folds=2)
    same(slope.predictions.mu, riesz.ade(DOSE, continuous_frame, learner="splines", folds=2).predictions.mu)


def test_a_simulation_with_its_truth() -> None:
    simulation = riesz.datasets.get("binary")
    learner = riesz.Compose("splines", "linear")
    result = riesz.ate("y ~ treat(a) * .", simulation.draw(1000, seed=4).data, learner=learner)
    truth = simulation.truth(simulation.questions["ate"])
    assert abs(result.params.iloc[0] - truth[0]) < 3 * result.bse.iloc[0]


def test_what_it_reports(binary_frame: pd.DataFrame) -> None:
    learner = riesz.Compose("linear", "splines")
    assert learner == riesz.Compose(riesz.Linear(), riesz.Splines())
    assert learner.describe("gaussian") == "Compose (mu: Linear (ridge, rr constrained), rr: Splines)"
    result = riesz.ate("y ~ treat(a) + x1", binary_frame, learner=learner, folds=2)
    assert {"outcome_penalty", "penalty", "clipped"} <= set(result.details())
    text = " ".join(str(result.summary()).split())
    assert "Compose (mu: Linear" in text
    assert text.count("assumes that the effect is the same for everyone") == 1
    assert riesz.Compose(QUICK, "linear").usual_repeats(500) == QUICK.usual_repeats(500) == 3
    assert riesz.Compose("linear", QUICK).usual_repeats(500) == 3
    assert riesz.Compose("linear", "splines").usual_repeats(500) == 1


def test_files(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    for rr in ("splines", QUICK):
        result = fit(binary_frame, riesz.Compose("linear", rr), repeats=1)
        result.save(tmp_path / "fit.riesz")
        again = riesz.load(tmp_path / "fit.riesz")
        assert again.model.learner == result.model.learner
        assert str(again.summary()) == str(result.summary())
        new = binary_frame.head(5)
        pd.testing.assert_frame_equal(again.predict(new), result.predict(new))
        pd.testing.assert_frame_equal(again.details(), result.details())
        assert len(again.history) == len(result.history)


class TestModelsOfScikitLearn:
    @pytest.fixture(autouse=True)
    def models(self) -> None:
        pytest.importorskip("sklearn")

    def test_least_squares_is_linear_without_penalty(self, binary_frame: pd.DataFrame) -> None:
        from sklearn.linear_model import LinearRegression

        model = LinearRegression()
        composed = fit(binary_frame, riesz.Compose(model, "linear"), weights="w")
        linear = fit(binary_frame, riesz.Compose(riesz.Linear(0, 0), "linear"), weights="w")
        np.testing.assert_allclose(composed.predictions.mu.values, linear.predictions.mu.values, atol=1e-8)
        np.testing.assert_allclose(composed.estimates, linear.estimates, atol=1e-8)
        assert not hasattr(model, "coef_")  # it was cloned

    def test_a_classifier_gives_probabilities(self, binary_frame: pd.DataFrame) -> None:
        from sklearn.linear_model import LogisticRegression

        data = binary_frame.assign(y=(binary_frame["y"] > 1).astype(float))
        model = LogisticRegression(C=1e10, max_iter=10_000, tol=1e-10)
        composed = fit(data, riesz.Compose(model, "splines"), family="binomial")
        logit = fit(data, riesz.Linear(0, 0), family="binomial")
        np.testing.assert_allclose(composed.predictions.mu.values, logit.predictions.mu.values, atol=1e-4)

    def test_seeds(self, binary_frame: pd.DataFrame) -> None:
        from sklearn.ensemble import RandomForestRegressor

        learner = riesz.Compose(RandomForestRegressor(20, min_samples_leaf=10), "linear")
        one, two, other = (fit(binary_frame, learner, seed=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one.fittedvalues, two.fittedvalues)
        assert not np.array_equal(one.fittedvalues, other.fittedvalues)

    def test_a_file_keeps_description_and_numbers(self, binary_frame: pd.DataFrame, tmp_path: Path) -> None:
        from sklearn.linear_model import LinearRegression

        result = fit(binary_frame, riesz.Compose(LinearRegression(), "linear"))
        result.save(tmp_path / "fit.riesz")
        again = riesz.load(tmp_path / "fit.riesz")
        assert str(again.summary()) == str(result.summary())
        pd.testing.assert_frame_equal(again.details(), result.details())
        with pytest.raises(riesz.LearnerError, match=r"was not stored|not the fitted learner"):
            again.predict(binary_frame)

    def test_derivatives_are_refused(self, continuous_frame: pd.DataFrame) -> None:
        from sklearn.ensemble import RandomForestRegressor

        learner = riesz.Compose(RandomForestRegressor(), "splines")
        with pytest.raises(riesz.LearnerError, match=r"which RandomForestRegressor does not give.*riesz\.Splines"):
            riesz.ade(DOSE, continuous_frame, learner=learner)
        assert riesz.shift(DOSE, continuous_frame, delta=0.1, learner=learner, folds=2).bse.notna().all()

    def test_models_that_do_not_suit_are_refused(self, binary_frame: pd.DataFrame) -> None:
        from sklearn.linear_model import LogisticRegression
        from sklearn.neighbors import KNeighborsRegressor

        classifier = riesz.Compose(LogisticRegression(), "linear")
        with pytest.raises(riesz.LearnerError, match="classifier, but family='gaussian' needs a regressor"):
            fit(binary_frame, classifier)
        shares = binary_frame.assign(y=np.linspace(0.1, 0.9, len(binary_frame)))
        with pytest.raises(riesz.LearnerError, match="needs an outcome of zeros and ones"):
            fit(shares, classifier, family="binomial")
        with pytest.raises(riesz.LearnerError, match="accepts no sample weights"):
            fit(binary_frame, riesz.Compose(KNeighborsRegressor(), "linear"), weights="w")
        with pytest.raises(riesz.LearnerError, match="Write the class with parentheses"):
            riesz.Compose(KNeighborsRegressor, "linear")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (("linear", "kernel_embedding"), "learns mu alone"),
        (("linear", "auto"), "Put compositions into the stack instead"),
        ((riesz.Stack(["linear"]), "linear"), "Put compositions into the stack instead"),
        (("linear", 3), "expected a learner"),
        ((3, "linear"), "expected a learner or a scikit-learn regressor"),
        (("linear", riesz.Splines), "is a class; expected a learner"),
        (("linnear", "linear"), "Did you mean `linear`"),
    ],
)
def test_settings_are_checked(parts: tuple[Any, Any], words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        riesz.Compose(*parts)


def test_refusals_of_the_learners_are_passed_on(binary_frame: pd.DataFrame) -> None:
    formula = "y ~ treat(a) + treat(a):x1"
    for learner in (riesz.Compose("splines", "linear"), riesz.Compose("linear", "splines")):
        with pytest.raises(riesz.LearnerError, match="enters the formula only together with the treatment"):
            riesz.ate(formula, binary_frame, learner=learner)
