"""Fits in tables: ours, statsmodels', maketables' and stargazer's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.iolib.summary2 import summary_col

import riesz


@pytest.fixture(scope="module")
def fit(binary_frame: pd.DataFrame) -> riesz.Results:
    return riesz.estimate("y ~ treat(a) * x1 + g", binary_frame, [riesz.ATE(), riesz.ATT()], cluster="village")


@pytest.fixture(scope="module")
def ols(binary_frame: pd.DataFrame) -> object:
    return smf.ols("y ~ a + x1", binary_frame).fit()


def test_compare_shows_every_number(fit: riesz.Results, ols: object, binary_frame: pd.DataFrame) -> None:
    other = riesz.ate("y ~ treat(a) * x1", binary_frame, estimator="tmle")
    table = riesz.compare(fit, other, ols, names=["both", "tmle", "OLS"], stars=True)
    for text in (str(table), table.as_html(), table.as_latex(), table.as_markdown()):
        for one in (fit, other, ols):
            for name, value in one.params.items():
                assert name.replace("_", r"\_") in text or name in text
                assert f"{value:.4f}" in text
                assert f"({one.bse[name]:.4f})" in text
        for piece in ("both", "OLS", "400", "cluster", "robust", "Linear (ridge, rr constrained)"):
            assert piece in text
    latex = table.as_latex()
    assert [latex.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 2, 1]
    assert (
        len({line.count("&") for line in latex.splitlines() if line.endswith(r"\\") and "multicolumn" not in line}) == 1
    )
    assert "***" in str(table)
    assert "***" not in str(riesz.compare(fit, ols))
    lines = str(table).splitlines()
    assert len({len(line) for line in lines[1:-2] if not set(line) <= {"-", "="}}) == 1
    assert "(1) y" in str(riesz.compare(fit))


def test_compare_holds_derived_parameters(fit: riesz.Results) -> None:
    text = str(riesz.compare(fit, fit.by("g"), riesz.contrast({"gap": "ATE - ATT"}, fit)))
    for piece in ("ATE_u", "ATT_w", "gap"):
        assert piece in text


def test_compare_errors_say_what_is_expected(fit: riesz.Results) -> None:
    with pytest.raises(riesz.RieszError, match="no fits"):
        riesz.compare()
    with pytest.raises(riesz.RieszError, match="has no params"):
        riesz.compare(fit, 3)
    with pytest.raises(riesz.RieszError, match="one name per fit, 2 in all"):
        riesz.compare(fit, fit, names="ab c")


def test_compare_keeps_and_renames(fit: riesz.Results, binary_frame: pd.DataFrame) -> None:
    ols = smf.ols("y ~ a + x1", binary_frame).fit(cov_type="HC3")
    for keep in (["ATE"], ["ATE", "a"]):
        table = riesz.compare(fit, ols, keep=keep, rename={"a": "ATE"})
        values = tuple(f"{one.params[name]:.4f}" for one, name in ((fit, "ATE"), (ols, "a")))
        assert table.estimates[0] == ("ATE", values)
        assert len(table.estimates) == 2
    assert dict(table.facts)["Std. errors"] == ("cluster", "HC3")
    assert [name for name, _ in riesz.compare(fit, ols, keep=["ATT", "x1"]).estimates if name] == ["ATT", "x1"]
    ax = riesz.plots.forest(fit, ols, names=["riesz", "OLS"], keep=["ATE"], rename={"a": "ATE"})
    assert [label.get_text() for label in ax.get_yticklabels()] == ["riesz", "OLS"]
    for options, message in (
        ({"keep": "ATE"}, r"expected a list of names, such as keep=\['ATE'\]"),
        ({"keep": ["ate"]}, "Did you mean `ATE`"),
        ({"rename": {"aa": "ATE"}}, "rename names 'aa', which no fit has"),
        ({"rename": {"x1": "a"}}, "two parameters of one fit the name `a`"),
    ):
        with pytest.raises(riesz.RieszError, match=message):
            riesz.compare(fit, ols, **options)


def test_html_is_escaped(binary_frame: pd.DataFrame) -> None:
    fit = riesz.ate("`<b>y` ~ treat(a) + x1", binary_frame.rename(columns={"y": "<b>y"}))
    assert "<b>" not in riesz.compare(fit).as_html()


def test_summary_col(fit: riesz.Results, ols: object) -> None:
    text = str(summary_col([fit, ols, fit.by("g")], stars=True))
    for one in (fit, ols):
        for name in one.params.index:
            assert f"{one.params[name]:.4f}" in text
            assert f"({one.bse[name]:.4f})" in text


def test_maketables(fit: riesz.Results, ols: object) -> None:
    maketables = pytest.importorskip("maketables")
    text = maketables.ETable([fit, ols, fit.blp("~ x1")]).make(type="tex")
    for one in (fit, ols):
        for name in one.params.index:
            assert f"{one.params[name]:.3f}" in text
            assert f"({one.bse[name]:.3f})" in text
    assert "400" in text


def test_stargazer(fit: riesz.Results, ols: object) -> None:
    stargazer = pytest.importorskip("stargazer.stargazer")
    riesz.register_stargazer()
    made = stargazer.Stargazer([fit, ols])
    for text in (made.render_html(), made.render_latex()):
        assert f"{fit.params['ATT']:.3f}" in text
        assert f"{np.asarray(fit.bse)[0]:.3f}" in text
