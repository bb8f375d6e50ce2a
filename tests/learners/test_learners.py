"""Requirements for every registered learner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from questions import QUESTIONS, frame_of, is_continuous

import riesz
from riesz.estimands import ESTIMANDS
from riesz.learners import LEARNERS, Learner

BINARY = "y ~ treat(a) * x1 + x2 + g"
DOSE = "y ~ treat(d) * x1 + x2 + g"
ARMS = "y ~ treat(arm, reference='placebo') * x1 + x2"

#: questions for every learner: one per registered estimand, and harder ones
CASES: dict[str, tuple[str, str, Any]] = {
    verb: (frame_of(question), DOSE if is_continuous(question) else BINARY, question)
    for verb, question in QUESTIONS.items()
}
CASES |= {
    "mean, a policy that looks at the arm": ("binary_frame", BINARY, riesz.Mean("where(x1 > 0, 1, a)")),
    "ate, three arms": ("arms_frame", ARMS, riesz.ATE()),
    "att, three arms": ("arms_frame", ARMS, riesz.ATT()),
    "several": ("binary_frame", BINARY, [riesz.ATE(), riesz.ATT(), riesz.Mean(1)]),
    "mean, a policy that shifts": ("continuous_frame", DOSE, riesz.Mean("where(x1 > 0, d + 0.2, d)")),
    "mean, a policy that looks at the dose": ("continuous_frame", DOSE, riesz.Mean("where(d > 0, d - 0.2, d)")),
    "moved covariates": (
        "binary_frame",
        BINARY,
        riesz.CustomMoment(lambda mu, data: mu(data.assign(a=1, x2=data["x2"] + 0.5)) - mu(data.assign(a=0))),
    ),
    "a policy of the treated share": (
        "binary_frame",
        BINARY,
        riesz.APE(lambda data: np.full(len(data), data["a"].mean())),
    ),
    "slope of a covariate": (
        "binary_frame",
        BINARY,
        riesz.CustomMoment(lambda mu, data: mu.derivative(data, wrt="x1")),
    ),
}


def quick_propensity(kind: str) -> Learner:
    linear = pytest.importorskip("sklearn.linear_model")
    propensity = linear.LinearRegression() if kind == "number" else linear.LogisticRegression()
    return riesz.Propensity(linear.LinearRegression(), propensity)


DOSES = [case for case, (frame, *_) in CASES.items() if frame == "continuous_frame"]

#: learner -> questions it must refuse before fitting, with a part of the message
REFUSED: dict[str, dict[str, str]] = {
    "propensity": {
        "a policy of the treated share": "depends on the arms of other rows",
        "mean, a policy that looks at the dose": "depend on the treatment itself",
        "moved covariates": "moves, or differentiates along, a covariate",
        "slope of a covariate": "moves, or differentiates along, a covariate",
    },
    "boosting": {"slope of a covariate": "reads a derivative of mu along a covariate"},
    "forest": {"slope of a covariate": "reads a derivative of mu along a covariate"},
    "dragonnet": {
        "a policy of the treated share": "depends on the arms of other rows",
        **dict.fromkeys(DOSES, "the treatment is a number; expected arms"),
        **dict.fromkeys(["ate, three arms", "att, three arms"], "the treatment has 3 arms"),
        **dict.fromkeys(["moved covariates", "slope of a covariate"], "DragonNet derives .* a covariate"),
    },
    "tarnet": dict.fromkeys(DOSES, "the treatment is a number; expected arms"),
    "neural_embedding": dict.fromkeys(DOSES, "the treatment is a number; expected arms"),
}


#: learners and questions for which the table above is complete; others may be refused, too, with a reason
KNOWN = {
    "auto",
    "linear",
    "lasso",
    "balancing",
    "splines",
    "madnet",
    "boosting",
    "propensity",
    "kernel",
    "adversarial",
    "adversarial_net",
    "forest",
    "compose",
    "kernel_embedding",
    "riesznet",
    "dragonnet",
    "tarnet",
    "neural_embedding",
}
KNOWN_CASES = CASES.keys() - (ESTIMANDS.keys() - {"ate", "att", "atc", "ape", "mean", "ade", "ipe", "shift"})


def make(name: str, kind: str) -> Learner:
    """A learner with quick settings; the models of a propensity depend on the kind of treatment, "arms" or "number"."""
    if name == "forest":
        pytest.importorskip("sklearn")
    return quick_propensity(kind) if name == "propensity" else LEARNERS[name].example()


def fit(request: pytest.FixtureRequest, name: str, case: str, **options: Any) -> riesz.Results:
    frame, formula, estimand = CASES[case]
    learner = make(name, "number" if frame == "continuous_frame" else "arms")
    data = request.getfixturevalue(frame)
    return riesz.estimate(formula, data, estimand, **{"learner": learner, "folds": 2, **options})


def first_case(name: str) -> str:
    return next(case for case in CASES if case not in REFUSED.get(name, {}))


def healthy(result: riesz.Results) -> None:
    """Finite numbers, standard errors unless the learner has none, and tables that print."""
    assert np.isfinite(result.params).all()
    assert np.isfinite(result.fittedvalues).all()
    learned = result.model.learner.learns_rr
    assert ((result.bse > 0) if learned else result.bse.isna()).all()
    rr = result.predictions.rr
    for part in (rr.observed, rr.values, rr.slopes):
        assert (np.isfinite if learned else np.isnan)(part).all()
    assert result.params.index[0] in str(result.summary())
    assert len(result.details()) == len(result._crossfit.fits)
    assert result.glance()["nobs"].iloc[0] == result.nobs
    assert len(result.augment()) == len(result.fittedvalues)


def test_the_table_names_learners() -> None:
    assert REFUSED.keys() <= KNOWN <= set(LEARNERS)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", LEARNERS)
def test_every_question_is_answered_or_refused_before_fitting(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, name: str, case: str
) -> None:
    words = REFUSED.get(name, {}).get(case)
    if words is None:
        try:
            healthy(fit(request, name, case))
            return
        except riesz.LearnerError:
            if name in KNOWN and case in KNOWN_CASES:
                raise
    learner = type(make(name, "arms"))
    monkeypatch.setattr(learner, "fit", lambda *_: pytest.fail("refused too late"))
    with pytest.raises(riesz.LearnerError, match=words or ""):
        fit(request, name, case)


@pytest.mark.parametrize("case", ["ate", "ade"])
@pytest.mark.parametrize("name", LEARNERS)
def test_weights_count(request: pytest.FixtureRequest, name: str, case: str) -> None:
    if case in REFUSED.get(name, {}):
        return
    plain, weighted = (fit(request, name, case, weights=weights) for weights in (None, "w"))
    healthy(weighted)
    assert (plain.params != weighted.params).all()
    equal = fit(request, name, case, weights=np.full(400, 3.0))
    np.testing.assert_allclose(equal.params, plain.params, rtol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_rows_of_no_weight_have_no_effect(request: pytest.FixtureRequest, name: str) -> None:
    """Every other row has a nonsensical outcome and almost no weight: mu must not follow it."""
    frame, formula, estimand = CASES[first_case(name)]
    data = request.getfixturevalue(frame)
    spoilt = np.arange(len(data)) % 2 == 1
    table = data.assign(y=data["y"] + 50.0 * spoilt, weight=np.where(spoilt, 1e-6, 1.0))
    kind = "number" if frame == "continuous_frame" else "arms"
    result = riesz.estimate(formula, table, estimand, learner=make(name, kind), weights="weight", folds=2)
    away = (result.fittedvalues - data["y"])[~spoilt].mean()
    assert abs(away) < 5.0  # about 25 without the weights


@pytest.mark.parametrize("name", LEARNERS)
def test_clusters(request: pytest.FixtureRequest, name: str) -> None:
    result = fit(request, name, first_case(name), cluster="village")
    healthy(result)
    assert result.cov_type == "cluster"


@pytest.mark.parametrize("name", LEARNERS)
def test_several_components_have_a_joint_covariance(request: pytest.FixtureRequest, name: str) -> None:
    if "several" in REFUSED.get(name, {}):
        return
    result = fit(request, name, "several", repeats=2)
    healthy(result)
    assert result.cov_params().shape == (3, 3)
    if result.model.learner.learns_rr:
        assert np.linalg.eigvalsh(result.cov_params())[0] > 0


@pytest.mark.parametrize("name", LEARNERS)
def test_seeds(request: pytest.FixtureRequest, name: str) -> None:
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two, other = (fit(request, name, first_case(name), seed=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.fittedvalues, two.fittedvalues)
    np.testing.assert_array_equal(one.predictions.rr.observed, two.predictions.rr.observed)
    assert not np.array_equal(one.fittedvalues, other.fittedvalues)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("name", LEARNERS)
def test_a_fit_does_not_depend_on_other_fits(request: pytest.FixtureRequest, name: str) -> None:
    frame, formula, estimand = CASES[first_case(name)]
    tables = [request.getfixturevalue(frame), request.getfixturevalue(frame).iloc[:300]]
    options: Any = {"learner": make(name, "arms"), "folds": 2}
    together = riesz.estimate_many(formula, tables, estimand, seeds=[0, 7], **options)
    for table, seed, result in zip(tables, (0, 7), together, strict=True):
        alone = riesz.estimate(formula, table, estimand, **options, seed=seed, n_jobs=2)
        np.testing.assert_allclose(result.params, alone.params, rtol=1e-6)
        np.testing.assert_allclose(result.predictions.rr.observed, alone.predictions.rr.observed, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_mu_and_rr_are_the_same_functions_wherever_they_are_read(request: pytest.FixtureRequest, name: str) -> None:
    """A row in arm 1 is its own reading at a = 1."""
    if "ate" in REFUSED.get(name, {}):
        return
    predictions = fit(request, name, "ate").predictions
    a = request.getfixturevalue("binary_frame")["a"].to_numpy() == 1
    for f in (predictions.mu, predictions.rr):
        treated, untreated = f.values
        np.testing.assert_allclose(np.ravel(f.observed), np.where(a, treated, untreated), rtol=1e-5)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_origin_of_the_outcome_does_not_matter(request: pytest.FixtureRequest, name: str) -> None:
    frame, formula, estimand = CASES[first_case(name)]
    data = request.getfixturevalue(frame)
    options: Any = {"learner": make(name, "arms"), "folds": 2}
    plain = riesz.estimate(formula, data, estimand, **options)
    moved = riesz.estimate(formula, data.assign(y=data["y"] + 50), estimand, **options)
    np.testing.assert_allclose(moved.params, plain.params, atol=1e-3)


@pytest.mark.parametrize("name", LEARNERS)
def test_settings_do_not_change(name: str) -> None:
    learner = make(name, "arms")
    with pytest.raises(AttributeError):
        learner.anything = 1  # type: ignore[attr-defined]


ALONE = [name for name in LEARNERS if not LEARNERS[name]().learns_rr]


@pytest.mark.parametrize("name", ALONE)
class TestLearnersOfMuAlone:
    @pytest.mark.parametrize("estimator", ["dr", "ipw", "tmle"])
    def test_what_needs_rr_is_refused(self, request: pytest.FixtureRequest, name: str, estimator: str) -> None:
        with pytest.raises(riesz.LearnerError, match=r"needs a Riesz representer, and .* learns mu alone"):
            fit(request, name, first_case(name), estimator=estimator)

    def test_results_say_why_there_is_no_error(self, request: pytest.FixtureRequest, name: str) -> None:
        result = fit(request, name, first_case(name))
        assert result.model.settings.estimator == "direct"
        assert result.conf_int().isna().all().all()
        assert set(result.estimates.index.get_level_values("estimator")) == {"direct"}
        text = " ".join(str(result.summary()).split())
        assert "No standard error" in text
        assert "learns mu alone" in text
        assert "anchor" not in text
        wald = result.wald_test(np.eye(len(result.params))[:1])
        assert np.isnan([wald.statistic, wald.pvalue]).all()
        groups = result.by(np.arange(len(result.fittedvalues)) % 2)
        compared = riesz.compare(result, result)
        assert compared.facts[-1] == ("Std. errors", ("none", "none"))
        for table in (groups.summary(), result.blp("~ x1").summary(), compared):
            assert " ".join(str(table).split()).count("No standard error") == 1
        augmented = result.augment()
        assert not any(column.startswith((".rr", ".influence")) for column in augmented)
        assert sum(column.startswith(".moment") for column in augmented) == len(result.params)
        for ask in (lambda: result.riesz_representer, lambda: result.influence, result.diagnostics):
            with pytest.raises(riesz.RieszError, match="no Riesz representer"):
                ask()

    def test_the_estimate_is_the_mean_of_the_moment(self, request: pytest.FixtureRequest, name: str) -> None:
        result = fit(request, name, "ate", weights="w")
        mu, w = result.predictions.mu, request.getfixturevalue("binary_frame")["w"]
        assert isinstance(w, pd.Series)
        np.testing.assert_allclose(result.params["ATE"], np.average(mu.values[0] - mu.values[1], weights=w))
