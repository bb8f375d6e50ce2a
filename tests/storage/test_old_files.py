"""Files that version 0.1.0 wrote, one per learner, still load with the same numbers and still predict.

Sums are rounded differently by different processors, so numbers are compared to 13 digits.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riesz

FOLDER = Path(__file__).parents[1] / "data" / "learners"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
DATA = riesz.datasets.get("binary").draw(60, seed=1).data
NEW = pd.DataFrame({"y": [np.nan], "a": [1.0], "x1": [0.3], "x2": [-0.2]})


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_of_each_learner_loads(name: str) -> None:
    expected = EXPECTED[name]
    fit = riesz.load(FOLDER / f"{name}.riesz")
    np.testing.assert_allclose(fit.params, expected["params"], rtol=1e-13)
    np.testing.assert_allclose(fit.bse, expected["bse"], rtol=1e-13)
    np.testing.assert_allclose(fit.estimates, expected["estimates"], rtol=1e-13)
    assert fit.fittedvalues.mean() == pytest.approx(expected["mean_mu"], rel=1e-13)
    assert "ATE" in str(fit.summary())


def test_networks_blended_with_splines_keep_their_description_and_diagnostics(tmp_path: Path) -> None:
    """This version does not blend; estimates, history and the weights of the blend are still shown, and saved again."""
    fit = riesz.load(FOLDER / "madnet.riesz")
    assert EXPECTED["madnet"]["describes"] in str(fit.summary())
    details = fit.details()
    weights = details.filter(like="closed_form")
    assert list(weights) == ["closed_form_mu_0", "closed_form_mu_1", "closed_form_rr_0"]
    assert weights.apply(lambda column: column.between(0, 1)).all(axis=None)
    assert (details["epochs"] > 0).all()
    assert {"epoch", "network"} <= set(fit.history.columns)
    assert len(fit.balance())
    fit.save(tmp_path / "again.riesz")
    again = riesz.load(tmp_path / "again.riesz")
    assert str(again.summary()) == str(fit.summary())
    pd.testing.assert_frame_equal(again.details(), details)
    pd.testing.assert_frame_equal(again.history, fit.history)
    with pytest.raises(riesz.RieszError, match="cannot be fitted again"):
        riesz.ate("y ~ treat(a) + x1 + x2", DATA, learner=fit.model.learner)


def test_a_stack_keeps_its_learners_and_weights() -> None:
    """The file holds a stack of splines, trees and a network, of two folds."""
    fit = riesz.load(FOLDER / "stack.riesz")
    assert fit.candidates.index.tolist() == [("ATE", name) for name in ("Splines", "Boosting", "MADNet", "stack")]
    columns = ["estimate", "std_error", "weight_mu", "weight_rr"]
    np.testing.assert_allclose(fit.candidates[columns], EXPECTED["stack"]["candidates"], rtol=1e-13, atol=1e-15)
    assert fit.stacking.loc["mu, a=1", "weight"].to_dict() == {
        "Splines": 1.0,
        "Boosting": 0.0,
        "MADNet": 0.0,
        "stack": 1.0,
    }
    assert len(fit.details()) == 6
    assert "stack of Splines, Boosting, MADNet" in str(fit.summary())


def test_a_stack_of_format_3_combines_its_candidates_in_each_repeat(tmp_path: Path) -> None:
    """Stacks now combine all repeats; the file's stack of two learners has weights, scores and estimates for each of three."""
    fit = riesz.load(FOLDER / "stack-of-repeats.riesz")
    columns = ["estimate", "std_error", "weight_mu", "weight_rr"]
    np.testing.assert_allclose(
        fit.candidates[columns], EXPECTED["stack-of-repeats"]["candidates"], rtol=1e-13, atol=1e-15
    )
    assert fit.stability()["repeat"].nunique() == 3
    fit.save(tmp_path / "again.riesz")
    again = riesz.load(tmp_path / "again.riesz")
    pd.testing.assert_frame_equal(again.stacking, fit.stacking)
    pd.testing.assert_frame_equal(again.predict(DATA), fit.predict(DATA))


@pytest.mark.parametrize("name", [name for name in EXPECTED if "predicted" in EXPECTED[name]])
def test_it_predicts_as_it_did(name: str) -> None:
    predicted = riesz.load(FOLDER / f"{name}.riesz").predict(NEW).iloc[0]
    expected = pd.Series(EXPECTED[name]["predicted"], index=predicted.index)
    known = [column for column in predicted.index if not column.startswith("pseudo")]
    np.testing.assert_allclose(predicted[known], expected[known], rtol=1e-10)


@pytest.mark.parametrize("name", [name for name in EXPECTED if "refuses" in EXPECTED[name]])
def test_what_a_file_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(riesz.RieszError, match=EXPECTED[name]["refuses"]):
        riesz.load(FOLDER / f"{name}.riesz").predict(NEW)
