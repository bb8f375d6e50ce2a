"""Functions of parameters, checked against closed forms; expressions may hold arithmetic only."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.syntax.contrast_arithmetic import read_expression


@pytest.fixture(scope="module")
def means(binary_frame: pd.DataFrame) -> riesz.Results:
    return riesz.mean("y ~ treat(a) * x1", binary_frame, at=[0, 1])


def test_linear_contrast_is_a_t_test(binary_frame: pd.DataFrame) -> None:
    fit = riesz.estimate("y ~ treat(a) * x1", binary_frame, [riesz.ATE(), riesz.ATT()], cluster="village", repeats=3)
    made, test = riesz.contrast("ATE - ATT", fit), fit.t_test("ATE = ATT")
    np.testing.assert_allclose(made.params, test.effect, rtol=1e-9)
    np.testing.assert_allclose(made.bse, test.sd.ravel(), rtol=1e-8)
    np.testing.assert_allclose(made.pvalues, test.pvalue, rtol=1e-6)
    assert "cluster: village (40)" in str(made)
    assert made.cov_type == "cluster"


def test_risk_ratio_by_hand(means: riesz.Results) -> None:
    p, v = means.params, means.cov_params()
    gradient = np.array([-p["mean_1"] / p["mean_0"] ** 2, 1 / p["mean_0"]])
    for expression in (
        "mean_1 / mean_0",
        lambda p: p["mean_1"] / p["mean_0"],
        lambda p: np.exp(np.log(p["mean_1"]) - np.log(p["mean_0"])),
        {"ratio": "exp(log(mean_1) - log(mean_0))"},
    ):
        made = riesz.contrast(expression, means)
        np.testing.assert_allclose(made.params.iloc[0], p["mean_1"] / p["mean_0"], rtol=1e-12)
        np.testing.assert_allclose(made.bse.iloc[0], np.sqrt(gradient @ v @ gradient), rtol=1e-8)
    assert riesz.contrast("mean_1 / mean_0", means).tidy()["term"].tolist() == ["mean_1 / mean_0"]


def test_difference_of_means_is_the_ate(binary_frame: pd.DataFrame) -> None:
    """The same influence function, from one fit or from two."""
    options = {"learner": riesz.Linear(penalty=0, rr_penalty=0, rr="riesz"), "weights": "w"}
    formula = "y ~ treat(a) * x1"
    ate = riesz.ate(formula, binary_frame, **options)
    one, zero = (riesz.mean(formula, binary_frame, at=level, **options) for level in (1, 0))
    made = riesz.contrast("one.mean - zero.mean", one=one, zero=zero)
    np.testing.assert_allclose(made.params.iloc[0], ate.params["ATE"], rtol=1e-9)
    np.testing.assert_allclose(made.bse.iloc[0], ate.bse["ATE"], rtol=1e-7)
    nothing = riesz.contrast("a.ATE - b.ATE", a=ate, b=ate)
    assert abs(nothing.params.iloc[0]) < 1e-12
    assert nothing.bse.iloc[0] < 1e-8


def test_several_contrasts_and_contrasts_of_contrasts(means: riesz.Results) -> None:
    made = riesz.contrast({"lift": "mean_1 / mean_0 - 1", "gap": "mean_1 - mean_0"}, means)
    assert made.params.index.tolist() == ["lift", "gap"]
    listed = riesz.contrast(["mean_1 / mean_0 - 1", "mean_1 - mean_0"], means)
    np.testing.assert_allclose(listed.cov_params(), made.cov_params(), rtol=1e-9)
    asked = riesz.contrast(lambda p: {"lift": p["mean_1"] / p["mean_0"] - 1, "gap": p["mean_1"] - p["mean_0"]}, means)
    np.testing.assert_allclose(asked.cov_params(), made.cov_params(), rtol=1e-7)
    assert made.conf_int(joint=True).shape == (2, 2)
    again = riesz.contrast("gap * 2", made)
    np.testing.assert_allclose(again.bse.iloc[0], 2 * made.bse["gap"], rtol=1e-8)
    assert made.heterogeneity().empty
    assert "delta method" in str(made.summary())


def test_group_effects_enter_contrasts(binary_frame: pd.DataFrame) -> None:
    fit = riesz.ate("y ~ treat(a) * x1", binary_frame)
    effects = fit.by("g")
    made = riesz.contrast("groups.ATE_u - whole.ATE", groups=effects, whole=fit)
    n, own = len(binary_frame), (binary_frame["g"] == "u").sum()
    phi = np.sqrt(own / (own - 1)) * effects.variation()[:, 0] - np.sqrt(n / (n - 1)) * fit.influence["ATE"]
    np.testing.assert_allclose(made.bse.iloc[0], np.sqrt((phi**2).sum()) / n, rtol=1e-8)


def test_names_in_back_ticks(continuous_frame: pd.DataFrame) -> None:
    fit = riesz.shift("y ~ treat(d) * x1", continuous_frame, delta=[0.1, 0.2])
    p = fit.params
    made = riesz.contrast("`shift_0.2` / `shift_0.1`", fit)
    np.testing.assert_allclose(made.params.iloc[0], p["shift_0.2"] / p["shift_0.1"])
    both = riesz.contrast("a.`shift_0.2` - b.`shift_0.2`", a=fit, b=fit)
    assert abs(both.params.iloc[0]) < 1e-12


def test_fits_on_different_rows_are_refused(binary_frame: pd.DataFrame) -> None:
    formula = "y ~ treat(a) * x1"
    fit = riesz.ate(formula, binary_frame)
    others = {
        "different rows": riesz.ate(formula, binary_frame.iloc[:300]),
        "column `y` differs|labelled differently": riesz.ate(formula, binary_frame.sample(frac=1, random_state=1)),
        "comes? from different data": riesz.ate(formula, binary_frame.assign(y=lambda d: d["y"] + 1)),
        "weights differ": riesz.ate(formula, binary_frame, weights="w"),
        "clustered differently": riesz.ate(formula, binary_frame, cluster="village"),
    }
    for message, other in others.items():
        with pytest.raises(riesz.RieszError, match=message):
            riesz.contrast("a.ATE - b.ATE", a=fit, b=other)
    with pytest.raises(riesz.RieszError, match="name them all"):
        riesz.contrast("ATE", fit, fit)
    with pytest.raises(riesz.RieszError, match="expected a fit, as riesz"):
        riesz.contrast("ATE", 3)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__",
        "mean_1.real",
        "mean_1 if mean_0 else 1",
        "[mean_1]",
        "lambda: 1",
        "open('x')",
        "mean_1 and mean_0",
        "mean_1 < mean_0",
        "'a' * 3",
        "exp(mean_1, mean_0)",
        "exp.__self__",
        "(mean_1 := 3)",
        "True",
        "mean_1 +",
        "",
    ],
)
def test_only_arithmetic_is_read(text: str) -> None:
    with pytest.raises(riesz.RieszError):
        read_expression(text, ["mean_0", "mean_1"])


def test_error_messages_say_what_is_expected(means: riesz.Results) -> None:
    with pytest.raises(riesz.RieszError, match="Did you mean `mean_1`"):
        riesz.contrast("mean_11 - mean_0", means)
    with pytest.raises(riesz.RieszError, match="not finite"):
        riesz.contrast(lambda p: p["mean_1"] * np.inf, means)
    with pytest.raises(riesz.RieszError, match="not finite"):
        riesz.contrast("mean_1 / (mean_0 - mean_0)", means)
    with pytest.raises(riesz.RieszError, match="failed at the estimates"):
        riesz.contrast("mean_1 + 9 ** 9 ** 9", means)
    with pytest.raises(riesz.RieszError, match="KeyError: 'ATE'"):
        riesz.contrast(lambda p: p["ATE"], means)
    with pytest.raises(riesz.RieszError, match="does not give numbers"):
        riesz.contrast(lambda p: "a", means)
    with pytest.raises(riesz.RieszError, match="expected a formula"):
        riesz.contrast(3, means)


def test_contrasts_of_plug_in_estimates_have_no_standard_error(binary_frame: pd.DataFrame) -> None:
    direct = riesz.mean("y ~ treat(a) * x1", binary_frame, at=[0, 1], estimator="direct")
    made = riesz.contrast("mean_1 - mean_0", direct)
    np.testing.assert_allclose(made.params.iloc[0], direct.params["mean_1"] - direct.params["mean_0"])
    assert made.bse.isna().all()
