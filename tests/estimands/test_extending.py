"""Estimands, estimators and diagnostics that a user adds. A learner that a user adds is in ``known.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.design.design import Design
from riesz.diagnostics import DIAGNOSTICS
from riesz.estimands import Component, Estimand, Sample
from riesz.estimators import ESTIMATORS, Estimator, Scores
from riesz.predictions import Predictions

FORMULA = "y ~ treat(a) * x1 + x2"


@dataclass(frozen=True)
class Proportional(Estimand):
    verb: ClassVar[str] = "proportional"

    def treatment_kind(self, column: pd.Series) -> Any:
        return "number"

    def specifications(self) -> Sequence[Any]:
        return ()

    def components(self, sample: Sample) -> tuple[Component, ...]:
        a = sample.treatment
        return (
            Component(
                name="proportional",
                moment=lambda mu, data: a.values(data) * mu.derivative(data, wrt=a.name),
                anchor=lambda data: np.log(a.values(data)),
                symbol="E[a d mu / d a]",
                words="Effect of a proportional rise",
            ),
        )


def half(predictions: Predictions, design: Design) -> Scores:
    """Half of the one-step correction: biased, but tables show it like any other estimator."""
    residuals = 0.5 * predictions.rr.observed * (design.y - predictions.mu.observed)
    return Scores(design.apply(predictions.mu) + residuals, residuals)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ESTIMATORS, "half", Estimator(half, "half a step", debiased=True))


def test_an_estimand_follows_the_chain_rule(continuous_frame: pd.DataFrame, tmp_path: Path) -> None:
    """a d/da is d / d log a."""
    frame = continuous_frame.assign(dose=np.exp(continuous_frame["d"]))
    logs = riesz.ade("y ~ treat(d) * x1 + x2", frame, learner="linear")
    new = riesz.estimate("y ~ log(treat(dose)) * x1 + x2", frame, Proportional(), learner="linear")
    np.testing.assert_allclose(new.params, logs.params, rtol=1e-6)
    np.testing.assert_allclose(new.bse, logs.bse, rtol=1e-6)
    new.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    assert str(again) == str(new)
    with pytest.raises(riesz.RieszError, match="a function, which a file does not hold"):
        again.predict(frame)


@pytest.mark.usefixtures("registered")
def test_an_estimator_is_used_by_its_name(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    fit = riesz.ate(FORMULA, binary_frame, learner="linear", estimator="half")
    assert "half (half a step)" in str(fit.summary())
    rows = fit.estimates.loc["ATE", "estimate"]
    np.testing.assert_allclose(rows["half"], (rows["direct"] + rows["dr"]) / 2)
    assert fit.params["ATE"] == rows["half"]
    assert np.isfinite(fit.bse["ATE"])
    assert fit.by("g").params.notna().all()
    assert fit.with_cov().bse.notna().all()
    assert "ATE" in str(fit.sensitivity())
    pytest.importorskip("matplotlib").use("Agg")
    labels = [label.get_text() for label in riesz.plots.estimators(fit).get_yticklabels()]
    assert labels[-1] == "half (half a step)"
    fit.save(tmp_path / "fit.riesz")
    assert riesz.load(tmp_path / "fit.riesz").params["ATE"] == fit.params["ATE"]
    del ESTIMATORS["half"]
    with pytest.raises(riesz.DataError, match=r"estimator='half', which is not registered here.*ESTIMATORS"):
        riesz.load(tmp_path / "fit.riesz")
    ESTIMATORS["half"] = Estimator(half, "half a step", debiased=True)  # the fixture takes it away


def test_an_estimator_that_is_not_debiased(binary_frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ESTIMATORS, "half", Estimator(half, "half a step", debiased=False))
    fit = riesz.ate(FORMULA, binary_frame, learner="linear", estimator="half")
    assert fit.bse.isna().all()
    assert "half estimator has no valid standard error" in str(fit.summary())
    plug_in = riesz.ate(FORMULA, binary_frame, learner="kernel_embedding", folds=1)
    assert plug_in.estimates.index.get_level_values("estimator").tolist() == ["direct"]
    with pytest.raises(riesz.LearnerError, match="estimator='half' needs a Riesz representer"):
        riesz.ate(FORMULA, binary_frame, learner="kernel_embedding", estimator="half")


def test_a_diagnostic_gets_its_columns(binary_frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = riesz.estimate(FORMULA, binary_frame, [riesz.ATE(), riesz.ATT()], learner="linear")
    before, words = fit.diagnostics(), str(fit.summary())

    def spread(predictions: Predictions, design: Design) -> pd.DataFrame:
        return pd.DataFrame({"rr_spread": predictions.rr.observed.std(axis=1)}, index=["any", "labels"])

    monkeypatch.setitem(DIAGNOSTICS, "spread", spread)
    after = fit.diagnostics()
    assert after.columns.tolist() == [*before.columns, "rr_spread"]
    pd.testing.assert_frame_equal(after[before.columns], before)
    np.testing.assert_allclose(after["rr_spread"], fit.riesz_representer.std(ddof=0))
    monkeypatch.setitem(DIAGNOSTICS, "spread", lambda predictions, design: pd.DataFrame({"one": [1.0]}))
    with pytest.raises(riesz.RieszError, match=r"'spread' returned 1 rows; expected .* one row for each of ATE, ATT"):
        fit.diagnostics()
    assert str(fit.summary()) == words  # an error in a user's function does not break the summary
