"""Results that were once wrong, or ended in an error of another package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from known import Known
from patsy import DesignInfo

import riesz
from riesz.diagnostics import warnings as concerns
from riesz.predictions import times
from riesz.results.checks import gather_evidence
from riesz.results.restrictions import read_restrictions


@pytest.fixture(scope="module")
def fit(binary_frame: pd.DataFrame) -> riesz.Results:
    asked = {"ATE": riesz.ATE(), "ATT": riesz.ATT(), "level: one": riesz.Mean(1), "ATC": riesz.ATC()}
    return riesz.estimate("y ~ treat(a) * (x1 + x2)", binary_frame, asked)


@pytest.mark.parametrize(
    "hypothesis",
    [
        "ATE = ATT = ATC",
        "ATE = 0 = ATT",
        "ATE = ATT, ATC = ATT = 1",
        "2 * ATE = ATT = 3 * ATC - 1",
        "ATE = ATT = ATC = 1, ATE",
        "ATE = -1",
        "-(ATE + ATT) / 2 = ATC",
        "2 * -ATE = 1",
        "1.5 = ATE",
        "ATE",
    ],
)
def test_hypotheses_are_read_as_in_patsy(hypothesis: str) -> None:
    """A chain A = B = C is two restrictions (it was A - B + C = 0)."""
    names = ["ATE", "ATT", "ATC"]
    known = DesignInfo(names).linear_constraint(hypothesis)
    r, q = read_restrictions(hypothesis, names)
    np.testing.assert_array_equal(r, known.coefs)
    np.testing.assert_array_equal(q, known.constants.ravel())


def test_a_chain_is_tested_as_in_statsmodels() -> None:
    """The same estimates and covariance: a fit of arm means equals least squares on indicators."""
    rng = np.random.default_rng(0)
    arm = rng.integers(0, 3, 300)
    data = pd.DataFrame({"y": rng.normal(size=300) + 0.3 * arm, "arm": [f"m{k}" for k in arm]})
    fit = riesz.mean("y ~ treat(arm)", data, at=["m0", "m1", "m2"], learner=riesz.Linear(0, 0), folds=1)
    names = ["mean_m0", "mean_m1", "mean_m2"]
    assert list(fit.params.index) == names
    dummies = pd.get_dummies(data["arm"]).astype(float).set_axis(names, axis=1)
    ols = sm.OLS(data["y"], dummies).fit(cov_type="HC0", use_t=False)
    ols_covariance = fit.cov_params().to_numpy()
    np.testing.assert_allclose(fit.params, ols.params, rtol=1e-10)
    for chain in ("mean_m0 = mean_m1 = mean_m2", "mean_m0 = 0 = mean_m1", "mean_m0 = mean_m1 = mean_m2 = 0.1"):
        wald = ols.wald_test(chain, cov_p=ols_covariance, use_f=False, scalar=True)
        mine = fit.wald_test(chain)
        np.testing.assert_allclose(float(mine.statistic), float(wald.statistic), rtol=1e-8)
        np.testing.assert_allclose(float(mine.pvalue), float(wald.pvalue), rtol=1e-8)
        assert mine.df_denom == len(DesignInfo(names).linear_constraint(chain).coefs)
        t = ols.t_test(chain, cov_p=ols_covariance)
        np.testing.assert_allclose(fit.t_test(chain).effect, t.effect, rtol=1e-10)
        np.testing.assert_allclose(fit.t_test(chain).pvalue, t.pvalue, rtol=1e-8)


def test_other_ways_to_write_a_hypothesis(fit: riesz.Results) -> None:
    text = fit.wald_test("ATE = `level: one` = 1")
    assert text.df_denom == 2
    for same in (
        ["ATE = `level: one`", "`level: one` = 1"],
        ("ATE = `level: one`", "`level: one` = 1"),
        {"ATE - `level: one`": 0, "`level: one`": 1},
        ([[1, 0, -1, 0], [0, 0, 1, 0]], [0, 1]),
        (np.array([[1, 0, -1, 0], [0, 0, 1, 0]]), np.array([[0], [1]])),
    ):
        np.testing.assert_allclose(fit.wald_test(same).statistic, text.statistic, rtol=1e-12)
    by_frame = fit.wald_test(pd.DataFrame([[1, 0, -1, 0], [0, 0, 1, 0]]))
    np.testing.assert_allclose(by_frame.statistic, fit.wald_test("ATE = `level: one`, `level: one`").statistic)


@pytest.mark.parametrize(
    ("hypothesis", "words"),
    [
        ("ATE == 1", "a single ="),
        ("ATE > 1", "a single ="),
        ("ATE = ", "cannot be read"),
        ("", "cannot be read"),
        ("ATE = ATE", "has no parameter, or the same ones on both sides"),
        ("ATE = 1 = 2", "has no parameter"),
        ("ATE * ATT = 1", "not linear"),
        ("1 / ATE = 1", "not linear"),
        ("ATE / 0 = 1", "divides by zero"),
        ("ATE = 1e999", "too large"),
        (f"ATE = 1{'0' * 400}", "too large"),
        ("exp(ATE) = 1", "not linear arithmetic"),
        ("ATEE = 1", "no parameter `ATEE`. Did you mean `ATE`?"),
        ({"ATE = ATT": 1}, "must not have a ="),
        ({"ATE": "one"}, "expected a number"),
        ([], "cannot be read"),
        ({}, "is empty"),
        (None, "cannot be read"),
        ([1, 2], "one column per parameter, 4 in all"),
        ([np.nan, 0, 0, 1], "missing or infinite"),
        ([[0, 0, 0, 0]], "restricts no parameter"),
        (([1, 0, 0, 0], [1, 2]), "cannot be read"),
    ],
)
def test_a_hypothesis_that_cannot_be_read_says_why(fit: riesz.Results, hypothesis: object, words: str) -> None:
    for test in (fit.t_test, fit.wald_test):
        with pytest.raises(riesz.RieszError) as caught:
            test(hypothesis)
        assert words in str(caught.value)


def test_contradictory_restrictions_are_refused(fit: riesz.Results) -> None:
    with pytest.raises(riesz.RieszError, match="contradict each other"):
        fit.wald_test("ATE = 0, ATE = 1")
    assert len(fit.t_test("ATE = 0, ATE = 1").effect) == 2  # one by one they are fine


def test_parameters_that_are_the_same_have_no_difference_to_test(binary_frame: pd.DataFrame) -> None:
    same = riesz.estimate("y ~ treat(a) * x1", binary_frame, {"one": riesz.ATE(), "two": riesz.ATE()})
    test = same.t_test("one = two")
    assert test.effect[0] == 0
    assert test.sd.ravel()[0] < 1e-9


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda fit: fit.conf_int(alpha="a"), "alpha='a': expected a number between 0 and 1"),
        (lambda fit: fit.conf_int(alpha=None), "alpha=None: expected"),
        (lambda fit: fit.conf_int(alpha=np.nan), "alpha=nan: expected"),
        (lambda fit: fit.conf_int(alpha=True), "alpha=True: expected"),
        (lambda fit: fit.conf_int(alpha=[0.05]), "expected a number between 0 and 1"),
        (lambda fit: fit.summary(alpha="5%"), "alpha='5%': expected"),
        (lambda fit: fit.tidy(alpha="5%"), "alpha='5%': expected"),
        (lambda fit: fit.by("g").tidy(alpha=2), "alpha=2: expected"),
        (lambda fit: fit.sensitivity(null=np.inf), "null=inf: expected a finite number"),
        (lambda fit: fit.sensitivity(null=np.nan), "null=nan: expected a finite number"),
        (lambda fit: fit.sensitivity(null="zero"), "null='zero': expected a finite number"),
        (lambda fit: fit.sensitivity(null=None), "null=None: expected a finite number"),
        (lambda fit: fit.sensitivity(null=10**400), "expected a finite number"),
        (lambda fit: fit.sensitivity(null={"ATE": np.inf}), r"null\['ATE'\]=inf: expected a finite number"),
        (
            lambda fit: fit.sensitivity(null={"ATE": 0, "ATX": 0}),
            "null has a value for `ATX`; the parameters are `ATE`",
        ),
        (lambda fit: fit.sensitivity(cf_y="a"), "cf_y='a': expected a share"),
        (lambda fit: fit.sensitivity(cf_d=np.nan), "cf_d=nan: expected a share"),
        (lambda fit: fit.sensitivity(rho=None), "rho=None: expected a correlation"),
        (lambda fit: fit.sensitivity(level="95%"), "level='95%': expected a number"),
        (lambda fit: fit.sensitivity().at("a", 0.1), "cf_y='a': expected a share"),
        (lambda fit: fit.sensitivity().contour(upto="a"), "upto='a': expected a share"),
        (lambda fit: fit.sensitivity().contour(upto=(0.1, 0.1, 0.1)), "expected a share"),
        (lambda fit: fit.sensitivity().contour(points=0), "points=0: expected a whole number"),
    ],
)
def test_invalid_numbers_are_refused_in_plain_words(ate: riesz.Results, call, words: str) -> None:
    with pytest.raises(riesz.RieszError, match=words):
        call(ate)


@pytest.fixture(scope="module")
def ate(binary_frame: pd.DataFrame) -> riesz.Results:
    return riesz.ate("y ~ treat(a) * (x1 + x2)", binary_frame)


def test_a_null_far_away_takes_a_confounder_that_explains_all(ate: riesz.Results) -> None:
    for null in (1e300, -1e300):
        assert ate.sensitivity(null=null).table.loc["ATE", ["rv", "rva"]].tolist() == [1.0, 1.0]
    assert ate.sensitivity(null=10.0).table.loc["ATE", "rv"] < 1
    assert ate.sensitivity(null=ate.params["ATE"]).table.loc["ATE", ["rv", "rva"]].tolist() == [0.0, 0.0]


def test_an_outcome_without_residuals_has_no_sensitivity(binary_frame: pd.DataFrame) -> None:
    exact = binary_frame.assign(y=2 * binary_frame["a"] + binary_frame["x1"])
    fit = riesz.ate("y ~ treat(a) + x1", exact, learner=riesz.Linear(0, 0))
    with pytest.raises(riesz.RieszError, match="mu fits the outcome without error"):
        fit.sensitivity()


def test_a_misspelt_keyword_is_refused_in_the_same_words_everywhere(binary_frame: pd.DataFrame) -> None:
    formula = "y ~ treat(a) * x1"
    calls = {
        "riesz.ate()": lambda: riesz.ate(formula, binary_frame, fold=2),
        "riesz.mean()": lambda: riesz.mean(formula, binary_frame, at=1, fold=2),
        "riesz.estimate()": lambda: riesz.estimate(formula, binary_frame, riesz.ATE(), fold=2),
        "riesz.estimate_many()": lambda: riesz.estimate_many(formula, [binary_frame], riesz.ATE(), fold=2),
        "riesz.montecarlo.study()": lambda: riesz.montecarlo.study("binary", 100, range(2), fold=2),
    }
    for who, call in calls.items():
        with pytest.raises(riesz.errors.ArgumentError) as caught:
            call()
        assert str(caught.value).startswith(f"{who} has no keyword 'fold'. Did you mean `folds`? Its keywords are ")
        assert "freq_weights" in str(caught.value)
    with pytest.raises(riesz.errors.ArgumentError, match=r"riesz\.estimate_many\(\) .*Did you mean `seeds`"):
        riesz.estimate_many(formula, [binary_frame], riesz.ATE(), seedss=[1])
    with pytest.raises(
        riesz.errors.ArgumentError, match=r"riesz\.compare\(\) has no keyword 'star'. Did you mean `stars`"
    ):
        riesz.compare(riesz.ate(formula, binary_frame), star=True)


class Counting(riesz.Linear):
    """Linear, which counts its calls and notes how many threads and which bar it was given."""

    calls: ClassVar[list[int]] = []

    def fit(self, designs, seeds, watch):
        self.calls.append(len(designs))
        return super().fit(designs, seeds, watch)


def test_benchmarks_check_all_arguments_before_the_first_refit(binary_frame: pd.DataFrame) -> None:
    formula = "y ~ treat(a) * (x1 + x2)"
    fit = riesz.ate(formula, binary_frame, learner=Counting())
    direct = riesz.ate(formula, binary_frame, learner=Counting(), estimator="direct")
    Counting.calls.clear()
    wrong = [
        (lambda: fit.sensitivity_benchmark("x1", "x9"), "not a covariate of the formula"),
        (lambda: fit.sensitivity_benchmark("x1", ["x2", 3]), "expected the name of a covariate"),
        (lambda: fit.sensitivity_benchmark("x1", []), "expected the name of a covariate"),
        (lambda: fit.sensitivity_benchmark("x1", None), "expected the name of a covariate"),
        (lambda: fit.sensitivity_benchmark("x1", n_jobs=0), "n_jobs=0: expected a whole number"),
        (lambda: fit.sensitivity_benchmark("x1", n_jobs="2"), "n_jobs='2': expected a whole number"),
        (lambda: direct.sensitivity_benchmark("x1"), "debiased estimate"),
    ]
    for call, words in wrong:
        with pytest.raises(riesz.RieszError, match=words):
            call()
    assert not Counting.calls
    fit.sensitivity_benchmark("x1", "x1")
    assert Counting.calls == [5]  # and once for the same columns


def test_benchmarks_use_the_threads_and_the_bar_of_the_fit(
    binary_frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    formula, learner = "y ~ treat(a) * (x1 + x2)", Counting()
    fit = riesz.ate(formula, binary_frame, learner=learner, n_jobs=2, progress=False)
    asked = []
    honest = riesz.settings.cross_fit

    def spy(problems, learner, n_jobs, progress):
        asked.append((n_jobs, progress))
        return honest(problems, learner, n_jobs, progress)

    monkeypatch.setattr(riesz.settings, "cross_fit", spy)
    found = fit.sensitivity_benchmark("x1", ["x1", "x2"])
    assert asked == [(2, False)] * 2
    again = fit.sensitivity_benchmark("x1", ["x1", "x2"], n_jobs=1)
    assert asked[2:] == [(1, False)] * 2
    pd.testing.assert_frame_equal(found, again)
    line = found.loc[("x1", "ATE")]  # by hand: fits with and without, on the same folds
    without = riesz.ate("y ~ treat(a) * x2", binary_frame)
    np.testing.assert_allclose(line["change"], without.params["ATE"] - fit.params["ATE"], rtol=1e-10)
    gain = (without.resid**2).mean() / (fit.resid**2).mean() - 1
    np.testing.assert_allclose(line["cf_y"], gain, rtol=1e-10)


@pytest.mark.parametrize("formula", ["~ 0", "~ -1", "~ 0 + 0"])
def test_a_projection_on_nothing_is_refused(ate: riesz.Results, formula: str) -> None:
    with pytest.raises(riesz.FormulaError, match="has no columns to project on"):
        ate.blp(formula)


def test_a_projection_on_missing_values_says_so(binary_frame: pd.DataFrame) -> None:
    fit = riesz.ate("y ~ treat(a) * x1", binary_frame.assign(z=np.nan))
    with pytest.raises(riesz.DataError, match=r"Every row has a missing value among the columns of '~ z': `z`"):
        fit.blp("~ z")


@pytest.mark.parametrize("kind", riesz.plots.PLOTS)
def test_plots_refuse_wrong_arguments_in_plain_words(ate: riesz.Results, kind: str) -> None:
    needed = ["g"] if kind == "groups" else []
    with pytest.raises(riesz.errors.ArgumentError, match=rf"fit\.plot\('{kind}'\) has no keyword 'nope'"):
        ate.plot(kind, *needed, nope=1)
    draw = riesz.plots.PLOTS[kind]
    with pytest.raises(riesz.RieszError, match=r"expected a fit|expected fits"):
        draw(3, *needed)
    if kind != "forest":  # which takes any number of fits
        with pytest.raises(riesz.errors.ArgumentError, match="arguments without a keyword; it takes"):
            ate.plot(kind, "ATE", 3, 4)
        with pytest.raises(riesz.errors.ArgumentError, match=rf"riesz\.plots\.{kind}\(\) needs `fit`"):
            draw()
        with pytest.raises(riesz.RieszError, match="expected a fit"):
            draw(ate.by("g"), *needed)
    if kind not in ("panels", "history"):
        with pytest.raises(riesz.RieszError, match=r"ax=3: expected matplotlib axes"):
            ate.plot(kind, *needed, ax=3)
        draw(fit=ate, **({"by": "g"} if needed else {})) if kind != "forest" else draw(ate)
        plt.close("all")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda fit: fit.plot("groups"), r"fit\.plot\('groups'\) needs `by`, as in fit\.plot\('groups', by=\.\.\.\)"),
        (lambda fit: fit.plot([]), r"plot\(\[\]\): there is no such plot"),
        (lambda fit: fit.plot("groups", "g", by="g"), "got `by` twice"),
        (lambda fit: fit.plot("groups", "g", alpha="a"), "alpha='a': expected"),
        (lambda fit: fit.plot("groups", "g", null="a"), "null='a': expected a finite number"),
        (lambda fit: fit.plot("forest", 3), "expected fits, with params"),
        (lambda fit: fit.plot("forest", null=np.inf), "null=inf: expected a finite number"),
        (lambda fit: fit.plot("forest", names=3), "names=3: expected a list"),
        (lambda fit: fit.plot("forest", keep=[]), r"keep=\[\]: expected a list with at least one name"),
        (lambda fit: fit.plot("forest", keep=3), "keep=3: expected a list"),
        (lambda fit: fit.plot("forest", rename=3), "rename=3: expected a mapping"),
        (lambda fit: fit.plot("estimators", null="a"), "null='a': expected"),
        (lambda fit: fit.plot("representer", bins="many"), "bins='many': expected a whole number"),
        (lambda fit: fit.plot("representer", bins=10**9), "from 1 to 10,000"),
        (lambda fit: fit.plot("overlap", bins=0), "bins=0: expected a whole number"),
        (lambda fit: fit.plot("balance", most=True), "most=True: expected a whole number"),
        (lambda fit: fit.plot("influence", k=1.5), "k=1.5: expected a whole number"),
        (lambda fit: fit.influential(True), "k=True: expected a whole number"),
        (lambda fit: fit.plot("sensitivity", benchmarks=3), "benchmarks=3: expected a list of covariates"),
        (lambda fit: fit.plot("sensitivity", null=np.nan), "null=nan: expected"),
        (lambda fit: fit.sensitivity().plot(benchmarks="x1"), r"the table that fit\.sensitivity_benchmark\(\) returns"),
        (lambda fit: fit.sensitivity().plot(nope=1), r"plot\(\) has no keyword 'nope'"),
        (lambda fit: fit.by("g").plot("forest"), r"plot\(\) got 1 argument without a keyword; it takes none"),
        (lambda fit: fit.by("g").plot(nope=1), "has no keyword 'nope'"),
        (lambda fit: riesz.compare(fit, names=3), "names=3: expected a list"),
        (lambda fit: riesz.contrast("1", fit), "does not change with the parameters"),
        (lambda fit: riesz.contrast("ATE - ATE", fit), "does not change with the parameters"),
        (lambda fit: riesz.contrast(lambda p: {}, fit), "gives no numbers"),
    ],
)
def test_wrong_arguments_of_plots_and_tables(ate: riesz.Results, call, words: str) -> None:
    with pytest.raises(riesz.RieszError, match=words):
        call(ate)


def test_one_benchmark_may_be_a_name(ate: riesz.Results) -> None:
    """It was taken for a list of letters."""
    ax = ate.plot("sensitivity", benchmarks="x1")
    assert [text.get_text() for text in ax.get_legend().get_texts()][1:] == ["x1"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("robust", "with_cov() without an argument gives them"),
        ("HC1", "with_cov() without an argument gives them"),
        ("hc3", "with_cov() without an argument gives them"),
        ("nonrobust", "only robust and clustered standard errors are available"),
        ("cluster", "name the column that holds the clusters, as in with_cov(cluster='school')"),
        ("CLUSTERED", "name the column that holds the clusters"),
        ("HAC", "serial correlation are not available"),
        ("vilage", "is not a column of the data"),
    ],
)
def test_names_of_covariances_get_advice_that_can_be_followed(ate: riesz.Results, name: str, words: str) -> None:
    with pytest.raises(riesz.RieszError) as caught:
        ate.with_cov(name)
    assert words in str(caught.value)
    with pytest.raises(
        riesz.errors.ArgumentError, match=r"fit\.with_cov\(\) has no keyword 'cov_type'. Its keyword is cluster"
    ):
        ate.with_cov(cov_type=name)


def test_a_column_may_be_called_like_a_covariance(binary_frame: pd.DataFrame) -> None:
    named = binary_frame.rename(columns={"village": "robust"})
    fit = riesz.ate("y ~ treat(a) * x1", named, folds=1)
    assert fit.with_cov("robust").cov_type == "cluster"


def test_an_effect_on_the_treated_is_not_told_to_compare_itself() -> None:
    simulation = riesz.datasets.get("weak_overlap")
    told = {}
    for verb, seeds in (("ate", [11]), ("att", range(30))):
        for seed in seeds:
            data = simulation.draw(800, seed=seed).data
            evidence = gather_evidence(riesz.estimate(simulation.formula, data, simulation.questions[verb])._parts)
            told.update((verb, text) for text in concerns.weak_overlap(replace(evidence, positivity=None)))
    assert "compare learner='propensity', or the effect on the treated (riesz.att)" in told["ate"]
    assert "compare learner='propensity'." in told["att"]
    assert "riesz.att" not in told["att"]


def known(n: int, seed: int, factor: float) -> riesz.Results:
    """A fit with the true mu, and the true rr of the ATE times a factor."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    p = 1 / (1 + np.exp(-0.5 * x))
    a = (rng.uniform(size=n) < p).astype(float)
    data = pd.DataFrame({"y": a + x + rng.normal(size=n), "a": a, "x": x})
    fit = riesz.ate("y ~ treat(a) + x", data, learner=Known((x, 1 + x), p), folds=1)
    crossfit = fit._crossfit
    scaled = tuple(times(one, np.array([factor])) for one in crossfit.predictions)
    return riesz.Results(
        fit.model,
        replace(crossfit, predictions=scaled, untrimmed=scaled, uncalibrated=scaled, calibration=()),
        fit.clusters,
    )


def test_a_wrong_representer_is_told_by_its_standard_error() -> None:
    """E_n[rr * anchor] was 0.898 beside `Nothing to worry about was found`: what counts is whether chance explains it."""
    clear, unclear = known(4000, 1, 0.85), known(150, 1, 0.85)
    for fit in (clear, unclear):
        health = fit.diagnostics().loc["ATE"]
        rr, a = fit.riesz_representer["ATE"], fit.model.blueprint.data["a"]
        error = (rr * a - 1).std(ddof=1) / np.sqrt(len(a))
        np.testing.assert_allclose(health["anchor_std_error"], error, rtol=1e-10)
        line = f"E_n[rr * anchor] = {health['rr_anchor']:.4g} (std err {error:.2g}), known value 1"
        assert line in " ".join(str(fit).split())
    assert any("misses a known value by 1" in text for text in clear.warnings())
    assert not any("misses a known value" in text for text in unclear.warnings())


def test_a_true_representer_is_hardly_ever_told_to_be_wrong() -> None:
    told = [
        seed for seed in range(100) if any("misses a known value" in text for text in known(400, seed, 1.0).warnings())
    ]
    assert len(told) <= 2


def test_no_concerns_are_reported_in_plain_words(ate: riesz.Results) -> None:
    assert repr(ate.warnings()) == "These checks found no problems."
    assert "These checks found no problems." in ate.warnings()._repr_html_()


def odd_fits() -> Iterator[tuple[str, riesz.Results]]:
    """Data and predictions at the edge of what can be divided."""
    rng = np.random.default_rng(0)
    n = 60
    x1, x2 = rng.normal(size=(2, n))
    a = (np.arange(n) % 2).astype(float)
    data = pd.DataFrame({"y": a + x1 + rng.normal(size=n), "a": a, "x1": x1, "x2": x2, "c": np.arange(n) // 6})
    formula, half, none = "y ~ treat(a) * (x1 + x2)", np.full(n, 0.5), np.zeros(n)
    yield "a constant covariate", riesz.ate(formula, data.assign(x2=3.0))
    yield "few rows", riesz.ate("y ~ treat(a) + x1", data.head(8), folds=2)
    yield "weights of zero", riesz.ate(formula, data, weights=np.where(data.index < 30, 0.0, 1.0))
    yield "two clusters", riesz.ate(formula, data.assign(c=data.index // 30), cluster="c", folds=1)
    yield "an outcome that is told exactly", riesz.ate("y ~ treat(a)", data.assign(y=a), family="binomial", folds=2)
    yield "rr all equal", riesz.ate(formula, data, learner=Known((none, none + 1), half), folds=2)
    yield "rr all zero", riesz.ate(formula, data, learner=Known((none, none + 1), np.full(n, np.inf)), folds=2)
    exact = Known((data["y"].to_numpy(), data["y"].to_numpy()), half)
    yield "no variance", riesz.ate(formula, data, learner=exact, folds=2)
    yield "no variance, clusters", riesz.ate(formula, data, learner=exact, folds=2, cluster="c")
    yield (
        "heavy weights",
        riesz.ate(formula, data, learner=Known((none, none), np.where(np.arange(n) == 7, 1e-12, half))),
    )


@pytest.mark.filterwarnings("ignore::riesz.errors.RieszWarning")
def test_odd_data_leak_no_warnings_of_other_packages() -> None:
    """All other warnings are errors here: divisions by zero in balance, weights and influence."""
    for name, fit in odd_fits():
        for text in (str(fit.summary()), repr(fit.warnings()), str(fit.by(np.arange(fit.model.table.rows) % 2))):
            assert text, name
        assert len(fit.balance()) >= 2
        assert fit.stability()["riesz_loss"].notna().all()
        table = fit.leave_one_out()
        assert np.isclose(table["share_of_variance"].sum(), 1) or table["share_of_variance"].isna().all()
        assert fit.influence_quantiles()["sample"].notna().all()
        assert fit.diagnostics()["effective_n"].between(0, fit.nobs * (1 + 1e-9)).all()
        assert (fit.bse["ATE"] > 0) or any("its standard error is zero" in text for text in fit.warnings()), name
        fit.plot()
        plt.close("all")
