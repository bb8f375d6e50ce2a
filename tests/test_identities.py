"""Identities that hold exactly for any data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from questions import QUESTIONS, frame_of, is_continuous

import riesz

EXACT = 1e-8
BINARY = "y ~ treat(a) * (x1 + g) + bs(x2, df=5)"
CONTINUOUS = "y ~ bs(treat(d), df=6) * x1 + cr(x2, df=4) + g"

#: verb -> (frame, formula, estimand), of every registered estimand
CASES = {
    verb: (frame_of(question), CONTINUOUS if is_continuous(question) else BINARY, question)
    for verb, question in QUESTIONS.items()
}
CASES["shift"] = ("continuous_frame", "y ~ poly(treat(d), 3) * x1 + cr(x2, df=4) + g", QUESTIONS["shift"])
EXTRA = {
    "ate, three arms": ("arms_frame", "y ~ treat(arm, reference='placebo') * x1 + bs(x2, df=5) + g", riesz.ATE()),
    "att, three arms": ("arms_frame", "y ~ treat(arm, reference='placebo') * x1 + bs(x2, df=5) + g", riesz.ATT()),
    "ipe, ratio anchor": ("continuous_frame", CONTINUOUS, riesz.IPE("where(x1 > 0, 1, -0.5)", anchor="ratio")),
    "mean, modified policy": (
        "continuous_frame",
        "y ~ (treat(d) + I(treat(d)**2)) * x1 + bs(x2, df=5) + g",
        riesz.Mean("where(x1 > 0, d + 0.2, d)"),
    ),
    "custom": (
        "continuous_frame",
        CONTINUOUS,
        riesz.CustomMoment(lambda mu, data: data["x1"] ** 2 * mu.derivative(data, wrt="d")),
    ),
    "several": ("binary_frame", BINARY, [riesz.ATE(), riesz.ATT(), riesz.Mean(1)]),
    "no intercept": ("binary_frame", "y ~ 0 + treat(a) * x1 + g", riesz.ATE()),
}
ALL = CASES | EXTRA


def fit(request: pytest.FixtureRequest, case: str, **options: object) -> riesz.Results:
    frame, formula, estimand = ALL[case]
    return riesz.estimate(formula, request.getfixturevalue(frame), estimand, **options)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("case", ALL)
def test_linear_class_without_penalty(request: pytest.FixtureRequest, case: str, weights: str | None) -> None:
    """Constrained rr == Riesz-loss rr, and direct == ipw == dr == tmle, in a linear class without penalty or splitting."""
    constrained = fit(request, case, learner=riesz.Linear(0, 0), folds=1, weights=weights)
    loss = fit(request, case, learner=riesz.Linear(0, 0, rr="riesz"), folds=1, weights=weights)
    scale = np.abs(loss.riesz_representer).max().max()
    np.testing.assert_allclose(constrained.riesz_representer / scale, loss.riesz_representer / scale, atol=EXACT)
    for result in (constrained, loss):
        values = result.estimates["estimate"].unstack()
        spread = values.max(axis=1) - values.min(axis=1)
        assert (spread < EXACT * (1 + values.abs().max(axis=1))).all(), values


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("case", ALL)
def test_scale_free_rr(request: pytest.FixtureRequest, case: str, weights: str | None) -> None:
    """After rescaling h_n(rr) == E_n[rr^2], and dr == tmle, with penalties and folds too."""
    result = fit(request, case, weights=weights, folds=4)
    design, predictions = result.model.blueprint.design, result.predictions
    h = design.mean(design.apply(predictions.rr))
    np.testing.assert_allclose(h, design.mean(predictions.rr.observed**2), rtol=EXACT)
    values = result.estimates["estimate"].unstack()
    np.testing.assert_allclose(values["dr"], values["tmle"], rtol=EXACT)


@pytest.mark.parametrize("case", ["ate", "att", "ade", "shift", "ate, three arms"])
@pytest.mark.parametrize("learner", [riesz.Linear(), riesz.Linear(rr="riesz"), riesz.Linear(0.01, 0.1)])
def test_outcome_units(request: pytest.FixtureRequest, case: str, learner: riesz.Linear) -> None:
    """Adding a constant to y does not change contrasts; scaling y scales estimates and errors."""
    frame, formula, estimand = ALL[case]
    data = request.getfixturevalue(frame)
    plain = riesz.estimate(formula, data, estimand, learner=learner)
    moved = riesz.estimate(formula, data.assign(y=data["y"] + 1000), estimand, learner=learner)
    scaled = riesz.estimate(formula, data.assign(y=data["y"] * -40), estimand, learner=learner)
    for name in ("dr", "tmle"):
        at = (slice(None), name)
        np.testing.assert_allclose(moved.estimates.loc[at, "estimate"], plain.estimates.loc[at, "estimate"], rtol=1e-7)
        np.testing.assert_allclose(
            moved.estimates.loc[at, "std_error"], plain.estimates.loc[at, "std_error"], rtol=1e-7
        )
        np.testing.assert_allclose(scaled.estimates.loc[at, "estimate"], -40 * plain.estimates.loc[at, "estimate"])
        np.testing.assert_allclose(scaled.estimates.loc[at, "std_error"], 40 * plain.estimates.loc[at, "std_error"])


@pytest.mark.parametrize("unit", [1e-3, 1e4])
def test_covariate_and_treatment_units(continuous_frame: pd.DataFrame, unit: float) -> None:
    """Units of covariates do not matter; the unit of the treatment scales the derivative."""
    formula = "y ~ treat(d) * x1 + x2 + g"
    plain = riesz.ade(formula, continuous_frame)
    changed = continuous_frame.assign(x2=continuous_frame["x2"] * unit + 5, d=continuous_frame["d"] * unit)
    other = riesz.ade(formula, changed)
    np.testing.assert_allclose(other.params * unit, plain.params, rtol=1e-6)
    np.testing.assert_allclose(other.bse * unit, plain.bse, rtol=1e-6)


@pytest.mark.parametrize("times", [2, 5])
@pytest.mark.parametrize("case", ["ate", "ade", "att"])
def test_duplicated_rows(request: pytest.FixtureRequest, case: str, times: int) -> None:
    """k copies of every row, clustered by the original row, change nothing at a fixed penalty."""
    frame, formula, estimand = ALL[case]
    data = request.getfixturevalue(frame).reset_index(names="id")
    options = {"learner": riesz.Linear(0.01, 0.01), "folds": 1}
    formula = f"{formula} - id"
    once = riesz.estimate(formula, data, estimand, **options)
    copies = riesz.estimate(formula, pd.concat([data] * times), estimand, cluster="id", **options)
    np.testing.assert_allclose(copies.params, once.params, rtol=EXACT)
    np.testing.assert_allclose(copies.bse, once.bse, rtol=EXACT)
    counted = riesz.estimate(formula, data, estimand, freq_weights=np.full(len(data), times), **options)
    stacked = riesz.estimate(formula, pd.concat([data] * times), estimand, **options)
    np.testing.assert_allclose(counted.params, stacked.params, rtol=EXACT)
    np.testing.assert_allclose(counted.bse, stacked.bse, rtol=EXACT)
    assert counted.nobs == stacked.nobs == times * len(data)


@pytest.mark.parametrize("case", ["ate", "ade", "several"])
def test_row_order_does_not_matter(request: pytest.FixtureRequest, case: str) -> None:
    frame, formula, estimand = ALL[case]
    data = request.getfixturevalue(frame)
    shuffled = data.sample(frac=1.0, random_state=1)
    labels = np.arange(len(data)) % 5
    options = {"learner": riesz.Linear()}
    plain = riesz.estimate(formula, data.assign(f=labels), estimand, folds="f", **options)
    other = riesz.estimate(formula, shuffled.assign(f=labels[shuffled.index]), estimand, folds="f", **options)
    np.testing.assert_allclose(other.params, plain.params, rtol=1e-9)
    np.testing.assert_allclose(other.cov_params(), plain.cov_params(), rtol=1e-9)
    np.testing.assert_allclose(other.influence.loc[plain.influence.index], plain.influence, atol=1e-8)


def test_sampling_weights_scale(binary_frame: pd.DataFrame) -> None:
    """Only relative sampling weights matter; equal weights are no weights."""
    one = riesz.ate(BINARY, binary_frame, weights="w")
    ten = riesz.ate(BINARY, binary_frame.assign(w=10 * binary_frame["w"]), weights="w")
    np.testing.assert_allclose(ten.params, one.params)
    np.testing.assert_allclose(ten.bse, one.bse)
    equal = riesz.ate(BINARY, binary_frame, weights=np.full(len(binary_frame), 3.0))
    np.testing.assert_allclose(equal.bse, riesz.ate(BINARY, binary_frame).bse)


def test_anchor_does_not_matter_without_penalty(binary_frame: pd.DataFrame) -> None:
    """Any anchor with h(beta) != 0 gives the same rr in closed form."""

    def effect(anchor: object) -> riesz.Results:
        moment = riesz.CustomMoment(lambda mu, data: mu(data.assign(a=1)) - mu(data.assign(a=0)), anchor=anchor)
        return riesz.estimate(BINARY, binary_frame, moment, folds=1, learner=riesz.Linear(0, 0))

    plain = riesz.ate(BINARY, binary_frame, folds=1, learner=riesz.Linear(0, 0))
    for anchor in (None, lambda frame: frame["a"], lambda frame: np.exp(frame["a"]) * (2 + np.sin(frame["x2"]))):
        np.testing.assert_allclose(effect(anchor).riesz_representer, plain.riesz_representer, atol=EXACT)


def test_constraint_holds_exactly(continuous_frame: pd.DataFrame) -> None:
    """h_n(beta_perp) = 0 on the training sample: h_n(r) = h_n(projected beta), with a penalty too."""
    result = riesz.ade("y ~ treat(d) * x1 + g", continuous_frame, folds=1, learner=riesz.Linear(0.1, 0.3))
    fitted = result._crossfit.fits[0]
    design = result.model.blueprint.design
    r = fitted.predict(design).rr
    np.testing.assert_allclose(design.mean(design.apply(r)), design.mean(design.apply(design.anchor)), rtol=EXACT)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("rr", ["constrained", "riesz"])
@pytest.mark.parametrize("case", ["ate", "att", "ape", "mean", "ade", "ipe", "ate, three arms", "several"])
def test_logistic_class_without_penalty(
    request: pytest.FixtureRequest, case: str, rr: str, weights: str | None
) -> None:
    """direct == dr == tmle in the logistic class: rr is orthogonal to the errors of the logit."""
    frame, _, estimand = ALL[case]
    data = request.getfixturevalue(frame)
    data = data.assign(y=(data["y"] > data["y"].median()).astype(float))
    formula = {
        "binary_frame": "y ~ treat(a) * x1 + g",
        "continuous_frame": "y ~ treat(d) * x1 + g",
        "arms_frame": "y ~ treat(arm, reference='placebo') * x1 + g",
    }[frame]
    learner = riesz.Linear(0, 0, rr=rr)
    fit = riesz.estimate(formula, data, estimand, learner=learner, folds=1, family="binomial", weights=weights)
    values = fit.estimates["estimate"].unstack()
    np.testing.assert_allclose(values["dr"], values["direct"], atol=1e-6)
    np.testing.assert_allclose(values["tmle"], values["direct"], atol=1e-4)
