"""Results: the names that statsmodels uses, and what summaries show."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.iolib.summary2 import summary_col

import riesz


@pytest.fixture(scope="module")
def fit(binary_frame: pd.DataFrame) -> riesz.Results:
    return riesz.estimate("y ~ treat(a) * x1 + g", binary_frame, [riesz.ATE(), riesz.ATT()])


@pytest.fixture(scope="module")
def single(binary_frame: pd.DataFrame) -> riesz.Results:
    return riesz.ate("y ~ treat(a) * x1 + g", binary_frame, cluster="village")


def test_numbers_are_consistent(fit: riesz.Results) -> None:
    np.testing.assert_allclose(fit.tvalues, fit.params / fit.bse)
    np.testing.assert_allclose(fit.pvalues, 2 * stats.norm.sf(abs(fit.tvalues)))
    np.testing.assert_allclose(fit.bse**2, np.diag(fit.cov_params()))
    interval = fit.conf_int(0.1)
    np.testing.assert_allclose(interval[1] - interval[0], 2 * stats.norm.ppf(0.95) * fit.bse)
    n = fit.nobs
    np.testing.assert_allclose(fit.cov_params(), fit.influence.T @ fit.influence / (n * (n - 1)), rtol=1e-10)
    np.testing.assert_allclose(fit.influence.mean(), 0, atol=1e-12)
    assert fit.influence.shape == fit.riesz_representer.shape == (400, 2)
    np.testing.assert_allclose(fit.resid + fit.fittedvalues, fit.model.blueprint.design.y)


def test_hypotheses(fit: riesz.Results) -> None:
    gap = fit.params["ATE"] - fit.params["ATT"]
    variance = np.array([1, -1]) @ fit.cov_params() @ np.array([1, -1])
    by_text = fit.t_test("ATE = ATT")
    np.testing.assert_allclose(by_text.effect, gap)
    np.testing.assert_allclose(by_text.pvalue, 2 * stats.norm.sf(abs(gap) / np.sqrt(variance)))
    np.testing.assert_allclose(fit.t_test(np.array([1, -1])).pvalue, by_text.pvalue)
    joint = fit.wald_test("ATE = 0, ATT = 1")
    difference = fit.params - np.array([0, 1])
    statistic = difference @ np.linalg.solve(fit.cov_params(), difference)
    np.testing.assert_allclose(joint.statistic, statistic)
    np.testing.assert_allclose(joint.pvalue, stats.chi2.sf(statistic, 2))
    np.testing.assert_allclose(fit.wald_test(np.eye(2)).df_denom, 2)
    with pytest.raises(riesz.RieszError, match="ATE, ATT"):
        fit.t_test("ATU = 0")


def test_wald_tests_do_not_depend_on_units(fit: riesz.Results, binary_frame: pd.DataFrame) -> None:
    """A coefficient that is tiny because its regressor is in cents is still a separate restriction."""
    cents = 1e10 * np.exp(binary_frame["x2"])
    large = riesz.ate("y ~ treat(a) * x1", binary_frame.assign(sales=cents)).blp("~ x1 + sales").heterogeneity()
    small = riesz.ate("y ~ treat(a) * x1", binary_frame.assign(sales=cents / 1e10)).blp("~ x1 + sales").heterogeneity()
    assert large.loc["ATE", "df"] == 2
    np.testing.assert_allclose(large, small, rtol=1e-8)
    repeated = fit.wald_test("ATE = 0, ATT = 0, ATE + ATT = 0")
    assert repeated.df_denom == 2
    np.testing.assert_allclose(repeated.statistic, fit.wald_test("ATE = 0, ATT = 0").statistic)


def test_only_debiased_estimators_have_standard_errors(binary_frame: pd.DataFrame, fit: riesz.Results) -> None:
    errors = fit.estimates["std_error"].unstack()
    assert errors[["direct", "ipw"]].isna().all().all()
    assert errors[["dr", "tmle"]].notna().all().all()
    plain = riesz.ate("y ~ treat(a) + x1", binary_frame, estimator="direct")
    assert plain.bse.isna().all()
    assert "no valid standard error" in str(plain.summary())


def test_with_cov(single: riesz.Results, binary_frame: pd.DataFrame) -> None:
    robust = single.with_cov()
    assert (single.cov_type, robust.cov_type) == ("cluster", "robust")
    np.testing.assert_array_equal(robust.params, single.params)
    again = robust.with_cov(cluster="village")
    np.testing.assert_array_equal(again.bse, single.bse)
    np.testing.assert_allclose(robust.with_cov(cluster=np.arange(400)).bse, robust.bse, rtol=1e-12)
    with pytest.raises(riesz.RieszError, match="robust to heteroskedasticity by default"):
        single.with_cov("HC1")
    array = robust.with_cov(cluster=binary_frame["village"].to_numpy())
    np.testing.assert_array_equal(array.bse, single.bse)
    with pytest.warns(riesz.RieszWarning, match="split 3 of 3 clusters of `g`"):
        two = robust.with_cov(cluster=["village", "g"])
    assert "village (40) and g (3)" in str(two.summary())


def test_tables(fit: riesz.Results) -> None:
    tidy = fit.tidy()
    assert tidy["term"].tolist() == ["ATE", "ATT"]
    np.testing.assert_allclose(tidy["std_error"], fit.bse)
    assert fit.glance().shape[0] == 1
    augmented = fit.augment()
    assert len(augmented) == fit.nobs
    np.testing.assert_array_equal(augmented[".influence_ATT"], fit.influence["ATT"])
    for name, normalizer in {"ATE": np.ones(fit.nobs), "ATT": augmented["a"].astype(float)}.items():
        score = augmented[f".moment_{name}"] + augmented[f".rr_{name}"] * augmented[".resid"]
        by_hand = (score - fit.params[name] * normalizer) / normalizer.mean()
        np.testing.assert_allclose(by_hand, fit.influence[name], atol=1e-12)
    assert fit.to_markdown().count("\n") == 3
    assert fit.details().shape == (5, 3)
    assert fit.diagnostics().index.tolist() == ["ATE", "ATT"]


def test_anchor(fit: riesz.Results, tmp_path: Path) -> None:
    assert fit.anchor.columns.tolist() == ["ATE", "ATT"]
    assert fit.anchor.index.equals(fit.riesz_representer.index)
    weighted = (fit.anchor * fit.riesz_representer).mean()
    np.testing.assert_allclose(weighted, fit.diagnostics()["rr_anchor"])
    fit.save(tmp_path / "fit.riesz")
    pd.testing.assert_frame_equal(riesz.load(tmp_path / "fit.riesz").anchor, fit.anchor)


def test_summary_describes_the_request(single: riesz.Results) -> None:
    text = str(single.summary())
    for piece in (
        "Average treatment effect: a=1 against 0",
        "psi = E[mu(1, X) - mu(0, X)]",
        "a (1 vs 0)",
        "Observations:",
        "400",
        "5 x 1",
        "Linear (ridge, rr constrained)",
        "dr (one-step)",
        "cluster: village (40)",
        "Largest |rr|",
        "effective sample size",
        "E_n[rr * anchor]",
        "known value 1",
    ):
        assert piece in text, piece
    assert f"{single.params['ATE']:.4f}" in text
    assert max(map(len, text.splitlines())) <= 88
    for name in ("direct", "ipw", "dr", "tmle"):
        assert f"{single.estimates.loc[('ATE', name), 'estimate']:.4f}" in text


def test_summary_in_every_form(single: riesz.Results) -> None:
    summary = single.summary(alpha=0.1)
    value = f"{single.params['ATE']:.4f}"
    for text in (summary.as_html(), summary.as_latex(), summary.as_csv(), single._repr_html_(), repr(single)):
        assert value in text
    assert "[0.05" in str(summary)
    assert re.findall(r"<script|<style", summary.as_html()) == []
    latex = summary.as_latex()
    assert latex.count(r"\begin{") == latex.count(r"\end{")
    assert r"P$>$$|$z$|$" in latex


def test_html_escapes_names(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.rename(columns={"y": "<b>y</b>"})
    fit = riesz.ate("`<b>y</b>` ~ treat(a) + x1", data)
    assert "<b>y" not in fit._repr_html_()
    assert "&lt;b&gt;y" in fit._repr_html_()


def test_statsmodels_summary_col(fit: riesz.Results, single: riesz.Results) -> None:
    text = str(summary_col([fit, single], stars=True))
    assert f"{fit.params['ATT']:.4f}" in text


def test_health_lines_show_the_diagnostics(single: riesz.Results) -> None:
    rr = single.riesz_representer["ATE"]
    health = single.diagnostics().loc["ATE"]
    assert health["largest_rr"] == rr.abs().max()
    np.testing.assert_allclose(health["effective_n"], rr.abs().sum() ** 2 / (rr**2).sum())
    a = single.model.blueprint.data["a"]
    np.testing.assert_allclose(health["rr_anchor"], (rr * a).mean())
    assert health["anchor_moment"] == 1


def test_frequency_weights_count_rows(binary_frame: pd.DataFrame) -> None:
    """With frequency weights the summary's rows, and a group's, are those that the weights represent."""
    data = binary_frame.assign(count=1 + binary_frame.index % 3)
    fit = riesz.ate("y ~ treat(a) * x1", data, freq_weights="count")
    assert f"of {data['count'].sum():,} rows." in str(fit.summary())
    sizes = fit.by("g").tidy().set_index("group")["n"]
    assert sizes.to_dict() == data.groupby("g")["count"].sum().to_dict()


def test_rows_without_weight_are_not_called_missing(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(count=(binary_frame.index >= 50).astype(int))
    text = str(riesz.ate("y ~ treat(a) * x1", data, freq_weights="count").summary())
    assert "Rows dropped (missing, weight 0):" in text
    assert "Rows dropped (missing):" in str(riesz.ate("y ~ treat(a) * x1", data).summary())


def test_notes_in_latex_are_sentences(fit: riesz.Results) -> None:
    latex = fit.summary().as_latex()
    assert "a=1 against 0, E[mu(1, X) - mu(0, X)]. ATT:" in latex


def test_summary_reports_that_there_is_no_sample_splitting(binary_frame: pd.DataFrame) -> None:
    assert "No sample splitting" in str(riesz.ate("y ~ treat(a)", binary_frame, folds=1).summary())


def test_the_title_names_the_reference_label(binary_frame: pd.DataFrame) -> None:
    named = binary_frame.assign(degree=np.where(binary_frame["a"] == 1, "college", "none"))
    for treat, title in (
        ("degree", "degree=none against college (reference)"),
        ("degree, reference='none'", "degree=college against none (reference)"),
        ("a", "a=1 against 0"),
    ):
        summary = riesz.ate(f"y ~ treat({treat}) * x1", named).summary()
        assert summary.title == f"Average treatment effect: {title}"
        assert max(map(len, str(summary).splitlines())) <= 82
