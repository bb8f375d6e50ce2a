"""Trimming: what is capped, what is reported, and that nothing moves when the cap does not bind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz

FORMULA = "y ~ treat(a) * (x1 + x2)"


def test_a_cap_that_does_not_bind_changes_nothing(binary_frame: pd.DataFrame) -> None:
    plain = riesz.ate(FORMULA, binary_frame, estimator="tmle")
    loose = riesz.ate(FORMULA, binary_frame, estimator="tmle", trim=1e6)
    pd.testing.assert_series_equal(plain.params, loose.params)
    pd.testing.assert_series_equal(plain.bse, loose.bse)
    row = loose.trimming.loc["ATE"]
    assert (row["share"], row["change"]) == (0, 0)
    assert plain.trimming.empty
    assert "Trim" not in str(plain)


def test_cap_by_hand(binary_frame: pd.DataFrame) -> None:
    plain, capped = riesz.ate(FORMULA, binary_frame), riesz.ate(FORMULA, binary_frame, trim=2.5)
    rr = plain.riesz_representer["ATE"]
    held = capped.riesz_representer["ATE"]
    np.testing.assert_array_equal(held, rr.clip(-2.5, 2.5))
    phi = plain.influence["ATE"] + plain.params["ATE"]
    by_hand = (phi + (held - rr) * plain.resid).mean()
    np.testing.assert_allclose(capped.params["ATE"], by_hand, rtol=1e-12)
    row = capped.trimming.loc["ATE"]
    np.testing.assert_allclose(row["share"], (rr.abs() > 2.5).mean())
    np.testing.assert_allclose(row["change"], capped.params["ATE"] - plain.params["ATE"])
    np.testing.assert_allclose(row["untrimmed_std_error"], plain.bse["ATE"])
    text = str(capped)
    assert "Trimmed:" in text
    assert "|rr| at 2.5" in text
    assert f"{row['share']:.2%}" in text
    assert f"{plain.params['ATE']:.4f} to {capped.params['ATE']:.4f}" in " ".join(text.split())


def test_a_quantile_touches_that_share(binary_frame: pd.DataFrame) -> None:
    capped = riesz.estimate(FORMULA, binary_frame, [riesz.ATE(), riesz.ATT()], trim="95%", repeats=2)
    np.testing.assert_allclose(capped.trimming["share"], 0.05)
    rr = riesz.ate(FORMULA, binary_frame, trim="95%").riesz_representer["ATE"].abs()
    assert (rr == rr.max()).sum() == 21  # the twenty above the cap, and the one that is the cap
    assert riesz.ate(FORMULA, binary_frame, trim=" 99.5 % ").trimming.loc["ATE", "share"] == 0.005


def test_a_row_that_stands_for_many_counts_as_many(binary_frame: pd.DataFrame) -> None:
    counts = np.where(np.arange(400) % 3 == 0, 2, 1)
    options = {"folds": 1, "learner": riesz.Linear(penalty=0.1, rr_penalty=0.1), "trim": "90%"}
    short = riesz.ate(FORMULA, binary_frame, freq_weights=counts, **options)
    long = riesz.ate(FORMULA, binary_frame.loc[np.repeat(np.arange(400), counts)].reset_index(drop=True), **options)
    np.testing.assert_allclose(short.params, long.params, rtol=1e-8)
    np.testing.assert_allclose(short.trimming["cap"], long.trimming["cap"], rtol=1e-8)


def test_derivative_readings_are_flat_where_held(continuous_frame: pd.DataFrame) -> None:
    """The targeted estimator reads rr's slope: the capped rr's own."""
    fit = riesz.ade("y ~ treat(d) * x1 + bs(d, df=5)", continuous_frame, trim=1.5, estimator="tmle")
    rr = fit.predictions.rr
    held = np.abs(rr.values) == 1.5
    assert 0.05 < held.mean() < 0.3
    assert (rr.slopes[held] == 0).all()
    assert (rr.slopes[~held] != 0).all()


@pytest.mark.parametrize("trim", [0, -1, "99", "0%", "100%", "x", True, np.nan, np.inf, [1]])
def test_bad_values(binary_frame: pd.DataFrame, trim: object) -> None:
    with pytest.raises(riesz.LearnerError, match="such as 20"):
        riesz.ate(FORMULA, binary_frame, trim=trim)


def test_a_cap_that_holds_most_rows_is_questioned(binary_frame: pd.DataFrame) -> None:
    with pytest.warns(riesz.RieszWarning, match="trim='99%'"):
        riesz.ate(FORMULA, binary_frame, trim=0.99)
