"""Predictions on new rows: they equal those of the fit, and do not depend on the other new rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import riesz

RICH = "y ~ treat(a) * (scale(x1) + bs(x2, df=5)) + g"
NET = riesz.MADNet(width=16, head_width=8, stages=(riesz.Stage(1e-2, 8, 8),), device="cpu", repeats=1)
FIXED = riesz.Linear(penalty=0.1, rr_penalty=0.1)
CLASSIC = riesz.Propensity(outcome=LinearRegression(), propensity=LogisticRegression())


def in_sample(fit: riesz.Results) -> pd.DataFrame:
    """The expected result of predict on the rows of the fit, with one fold."""
    moment = fit.model.blueprint.design.apply(fit.predictions.mu)
    columns = {"mu": fit.predictions.mu.observed}
    for c, name in enumerate(fit.params.index):
        rr = fit.predictions.rr.observed[c]
        columns |= {f"moment_{name}": moment[c], f"rr_{name}": rr, f"pseudo_{name}": moment[c] + rr * fit.resid}
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    "learner", [FIXED, NET, riesz.Linear(rr="riesz"), CLASSIC], ids=["linear", "network", "riesz", "propensity"]
)
@pytest.mark.parametrize("repeats", [1, 2])
def test_without_folds_it_is_the_fit_itself(binary_frame: pd.DataFrame, learner: riesz.Linear, repeats: int) -> None:
    options = {"folds": 1, "learner": learner, "repeats": repeats, "trim": "98%"}
    fit = riesz.estimate(RICH, binary_frame, [riesz.ATE(), riesz.ATT()], **options)
    predicted = fit.predict(binary_frame)
    expected = in_sample(fit)
    tolerance = 1e-3 if learner is NET else 1e-9
    np.testing.assert_allclose(predicted, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("learner", [FIXED, NET], ids=["linear", "network"])
def test_rows_do_not_depend_on_the_other_rows(
    binary_frame: pd.DataFrame, continuous_frame: pd.DataFrame, learner: riesz.Linear
) -> None:
    """One row at a time gives the same as all rows together: knots, levels and centres are those of the fit."""
    fits = {
        "a": riesz.ate(RICH, binary_frame, learner=learner, folds=2),
        "d": riesz.ade("y ~ treat(d) * x1 + cr(d, df=4) + g", continuous_frame, learner=learner, folds=2),
    }
    for fit, frame in zip(fits.values(), (binary_frame, continuous_frame), strict=True):
        whole = fit.predict(frame)
        for i in (0, 17, 399):
            one = fit.predict(frame.iloc[[i]])
            np.testing.assert_allclose(one.iloc[0], whole.iloc[i], rtol=2e-4, atol=2e-4)
        assert one.index.tolist() == [399]


def test_folds_are_averaged(binary_frame: pd.DataFrame) -> None:
    fit = riesz.ate(RICH, binary_frame, learner=FIXED, folds=3, repeats=2)
    predicted = fit.predict(binary_frame)
    design = fit.model.blueprint.design
    parts = [one.predict(design) for one in fit._crossfit.fits]
    np.testing.assert_allclose(predicted["mu"], np.mean([p.mu.observed for p in parts], axis=0), rtol=1e-10)
    scales = np.repeat(fit._crossfit.scales[:, 0], 3)
    rr = np.mean([s * p.rr.observed[0] for s, p in zip(scales, parts, strict=True)], axis=0)
    np.testing.assert_allclose(predicted["rr_ATE"], rr, rtol=1e-10)


@pytest.mark.parametrize(
    ("estimand", "frame", "formula"),
    [
        (riesz.APE("x1 > 0"), "binary", "y ~ treat(a) * x1"),
        (riesz.Mean([0, 1]), "binary", "y ~ treat(a) * x1"),
        (riesz.IPE("tanh(x1)"), "continuous", "y ~ treat(d) * x1"),
        (riesz.Shift([0.1, "0.1 + 0.05 * (x1 > 0)"]), "continuous", "y ~ treat(d) * x1"),
        (riesz.Mean("where(d > 1, d - 1, d)"), "continuous", "y ~ treat(d) * x1"),
        (riesz.ATE(), "arms", "y ~ treat(arm, reference='placebo') * x1"),
        (
            riesz.CustomMoment(lambda mu, data: mu(data.assign(a=1)) - mu(data.assign(a=0))),
            "binary",
            "y ~ treat(a) * x1",
        ),
    ],
    ids=["ape", "mean", "ipe", "shift", "policy", "arms", "custom"],
)
@pytest.mark.parametrize("learner", [FIXED, NET], ids=["linear", "network"])
def test_every_estimand(
    estimand: object, frame: str, formula: str, learner: riesz.Linear, request: pytest.FixtureRequest
) -> None:
    tanh = np.tanh
    data = request.getfixturevalue(f"{frame}_frame")
    fit = riesz.estimate(formula, data, estimand, learner=learner, folds=1, context={"tanh": tanh})
    predicted, expected = fit.predict(data), in_sample(fit)
    tolerance = 1e-3 if learner is NET else 1e-9
    np.testing.assert_allclose(predicted, expected, rtol=tolerance, atol=tolerance)
    few = fit.predict(data.iloc[5:8])
    np.testing.assert_allclose(few, predicted.iloc[5:8], rtol=5e-4, atol=5e-4)


@pytest.mark.parametrize("estimand", [riesz.ADE(), riesz.Shift(0.1), riesz.IPE("x1 > 0")], ids=lambda one: one.verb)
def test_densities_of_new_rows(continuous_frame: pd.DataFrame, estimand: riesz.ADE) -> None:
    learner = riesz.Propensity(outcome=LinearRegression(), propensity=LinearRegression())
    fit = riesz.estimate("y ~ treat(d) * x1 + g", continuous_frame, estimand, learner=learner, folds=1)
    predicted = fit.predict(continuous_frame)
    np.testing.assert_allclose(predicted, in_sample(fit), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fit.predict(continuous_frame.iloc[[7]]), predicted.iloc[[7]], rtol=1e-9, atol=1e-9)


def test_outcome_and_missing_values(binary_frame: pd.DataFrame) -> None:
    fit = riesz.ate(RICH, binary_frame)
    whole = fit.predict(binary_frame)
    blind = fit.predict(binary_frame.drop(columns="y"))
    assert blind["pseudo_ATE"].isna().all()
    pd.testing.assert_frame_equal(blind.drop(columns="pseudo_ATE"), whole.drop(columns="pseudo_ATE"))
    holes = binary_frame.assign(x1=binary_frame["x1"].where(binary_frame.index != 2))
    holes.loc[3, "y"] = np.nan
    predicted = fit.predict(holes.set_index(holes.index + 1000))
    assert predicted.index[0] == 1000
    assert predicted.loc[1002].isna().all()
    assert predicted.loc[1003, ["mu", "rr_ATE"]].notna().all()
    assert np.isnan(predicted.loc[1003, "pseudo_ATE"])
    np.testing.assert_allclose(predicted.iloc[4:], whole.iloc[4:], rtol=1e-12)


def test_unseen_levels_and_other_errors(binary_frame: pd.DataFrame, arms_frame: pd.DataFrame) -> None:
    fit = riesz.ate(RICH, binary_frame)
    with pytest.raises(
        riesz.DataError, match="Column `g` of the new data has the level `z`, which does not occur in the fit"
    ):
        fit.predict(binary_frame.assign(g="z"))
    with pytest.raises(riesz.DataError, match="Column `a` of the new data has the level `2`"):
        fit.predict(binary_frame.assign(a=2))
    with pytest.raises(riesz.DataError, match="lack the column `x2`"):
        fit.predict(binary_frame.drop(columns="x2"))
    with pytest.raises(riesz.DataError, match="it was numeric in the fit"):
        fit.predict(binary_frame.assign(x1="a"))
    with pytest.raises(riesz.RieszError, match="new rows have `x2` outside the range"):
        fit.predict(binary_frame.assign(x2=99.0))
    arms = riesz.ate("y ~ treat(arm) * x1", arms_frame)
    with pytest.raises(riesz.DataError, match="`arm` of the new data has the level `none`"):
        arms.predict(arms_frame.assign(arm="none"))
    policy = riesz.ape("y ~ treat(a) * x1", binary_frame, policy=(binary_frame["x1"] > 0).to_numpy())
    with pytest.raises(riesz.EstimandError, match="got an array with one value per row"):
        policy.predict(binary_frame)


def test_transformed_treatment_and_binomial_labels(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(won=np.where(binary_frame["y"] > 1.5, "yes", "no"), dose=np.exp(binary_frame["x2"]))
    fit = riesz.ade("won ~ treat(log(dose)) * x1", data, family="binomial", folds=1, learner=FIXED)
    np.testing.assert_allclose(fit.predict(data), in_sample(fit), rtol=1e-9)
    assert fit.predict(data)["mu"].between(0, 1).all()
