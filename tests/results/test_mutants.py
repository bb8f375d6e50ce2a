"""Errors that could be put into the code without a test noticing: each test here fails with one of them.

Every reference is an exact identity or written out by hand from the fit's own rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import stats

import riesz
from riesz.diagnostics.influence import heterogeneity
from riesz.estimators import ESTIMATORS
from riesz.inference import with_variances

Array = npt.NDArray[np.float64]
PLAIN = riesz.Linear(0, 0)


def residual_part(fit: riesz.Results) -> Array:
    """rr (y - mu) of every row, shape (n,)."""
    return (fit.riesz_representer.iloc[:, 0] * fit.resid).to_numpy()


def test_the_sample_target_divides_by_the_normalizer(binary_frame: pd.DataFrame) -> None:
    """Mutant: (a) the variation of target='sample' without / E[n]."""
    fit = riesz.att("y ~ treat(a) * x1", binary_frame, target="sample")
    n, share = len(binary_frame), binary_frame["a"].mean()
    error = np.sqrt(n / (n - 1) * (residual_part(fit) ** 2).sum()) / n / share
    np.testing.assert_allclose(fit.bse["ATT"], error, rtol=1e-10)


def test_groups_of_a_sample_target_vary_by_their_residuals(binary_frame: pd.DataFrame) -> None:
    """Mutant: (b) `project` ignoring target='sample'."""
    fit = riesz.att("y ~ treat(a) * x1", binary_frame, target="sample")
    residual, treated = residual_part(fit), binary_frame["a"].to_numpy()
    effects = fit.by("g")
    for level, error in zip("uvw", effects.bse, strict=True):
        own = (binary_frame["g"] == level).to_numpy()
        count = own.sum()
        by_hand = np.sqrt(count / (count - 1) * (residual[own] ** 2).sum()) / treated[own].sum()
        np.testing.assert_allclose(error, by_hand, rtol=1e-10)


def test_frequencies_in_clusters_are_duplicated_rows(binary_frame: pd.DataFrame) -> None:
    """Mutant: (c) a clustered covariance without frequencies."""
    counts = np.random.default_rng(0).integers(1, 5, len(binary_frame))
    long = binary_frame.loc[binary_frame.index.repeat(counts)].reset_index(drop=True)
    options = {"learner": PLAIN, "folds": 1, "cluster": "village"}
    for ask in (riesz.ate, riesz.att):
        one = ask("y ~ treat(a) * x1 + g", binary_frame, freq_weights=counts, **options)
        two = ask("y ~ treat(a) * x1 + g", long, **options)
        np.testing.assert_allclose(one.params, two.params, rtol=1e-9)
        np.testing.assert_allclose(one.bse, two.bse, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::riesz.errors.RieszWarning")
def test_a_two_way_covariance_has_no_negative_eigenvalue() -> None:
    """Mutant: (d) negative eigenvalues kept."""
    indefinite = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        a, x = rng.integers(0, 2, 60).astype(float), rng.normal(size=60)
        data = pd.DataFrame({"y": a + rng.normal(size=60), "a": a, "x": x, "v": rng.integers(0, 4, 60)})
        data["t"] = rng.integers(0, 4, 60)
        fit = riesz.mean("y ~ treat(a) * x", data, at=[0, 1], learner=PLAIN, folds=1, cluster=["v", "t"])
        phi = fit.influence.to_numpy() / len(data)

        def clustered(codes: pd.Series, phi: Array = phi) -> Array:
            sums = pd.DataFrame(phi).groupby(codes.to_numpy()).sum().to_numpy()
            return len(sums) / (len(sums) - 1) * sums.T @ sums

        raw = clustered(data["v"]) + clustered(data["t"]) - clustered(10 * data["v"] + data["t"])
        indefinite += np.linalg.eigvalsh(raw)[0] < 0
        assert np.linalg.eigvalsh(fit.cov_params())[0] > 0
        assert (fit.bse > 0).all()
    assert indefinite >= 5


@pytest.mark.parametrize("frame", ["binary_frame", "continuous_frame"])
def test_targeting_solves_the_weighted_equation(request: pytest.FixtureRequest, frame: str) -> None:
    """Mutant: (e) `_tmle_linear` without weights. mu* = mu + t rr has E_w[rr (y - mu*)] = 0."""
    data = request.getfixturevalue(frame)
    formula, ask = ("y ~ treat(a) * x1", riesz.ate) if frame == "binary_frame" else ("y ~ treat(d) * x1", riesz.ade)
    learner = riesz.Linear(0.1, 0.3, rr="riesz")  # with its own scale: dr and tmle differ
    fit = ask(formula, data, learner=learner, weights="w", estimator="tmle", folds=2)
    w, rr, resid = data["w"].to_numpy(), fit.riesz_representer.iloc[:, 0].to_numpy(), fit.resid.to_numpy()
    t = np.average(rr * resid, weights=w) / np.average(rr**2, weights=w)
    design, predictions = fit.model.blueprint.design, fit.predictions
    scores = ESTIMATORS["tmle"](predictions, design)
    np.testing.assert_allclose(np.average(scores.residuals[0], weights=w), 0, atol=1e-12)
    plug_in = design.apply(predictions.mu)[0] + t * design.apply(predictions.rr)[0]
    np.testing.assert_allclose(fit.params.iloc[0], np.average(plug_in, weights=w), rtol=1e-10)
    assert abs(fit.params.iloc[0] - fit.estimates["estimate"].xs("dr", level="estimator").iloc[0]) > 1e-6


def test_the_slope_of_the_curvature_counts(continuous_frame: pd.DataFrame) -> None:
    """Mutant: (f) v'z dropped for a binomial derivative. The moment of v z'theta, by differences along the treatment."""
    data = continuous_frame.assign(y=(continuous_frame["y"] > 1).astype(float))
    fit = riesz.ade("y ~ treat(d) * x1", data, learner=PLAIN, folds=1, family="binomial")
    design, fitted = fit.model.blueprint.design, fit._crossfit.fits[0]
    d, x1 = data["d"].to_numpy(), data["x1"].to_numpy()
    names = fit.model.column_names
    assert names == ["Intercept", "d", "x1", "d:x1"]

    def columns(at: Array) -> Array:
        return np.column_stack([np.ones_like(at), at, x1, at * x1])

    def tilted(at: Array) -> Array:
        p = 1 / (1 + np.exp(-columns(at) @ fitted.mu))
        return (p * (1 - p))[:, None] * columns(at)

    step = 1e-5
    by_differences = (tilted(d + step) - tilted(d - step)) / (2 * step)
    p = 1 / (1 + np.exp(-columns(d) @ fitted.mu))
    slope = (1 - 2 * p) * p * (1 - p) * (fitted.mu[1] + fitted.mu[3] * x1)
    v = riesz.design.moment.Evaluation(p * (1 - p), (p * (1 - p))[None], slope[None])
    rows = design.moment_rows(0, columns(d), v)
    np.testing.assert_allclose(rows, by_differences, atol=1e-8)
    assert np.abs(slope).max() > 0.05


def test_groups_use_the_clusters(binary_frame: pd.DataFrame) -> None:
    """Mutant: (g) `by` ignoring clusters."""
    copies = pd.concat([binary_frame.assign(id=binary_frame.index)] * 3, ignore_index=True)
    options = {"learner": PLAIN, "folds": 1}
    one = riesz.ate("y ~ treat(a) * x1", binary_frame, **options).by("g")
    three = riesz.ate("y ~ treat(a) * x1", copies, cluster="id", **options).by("g")
    np.testing.assert_allclose(three.params, one.params, rtol=1e-10)
    np.testing.assert_allclose(three.bse, one.bse, rtol=1e-10)
    naive = riesz.ate("y ~ treat(a) * x1", copies, **options).by("g")
    assert (naive.bse < 0.6 * one.bse).all()


def test_columns_are_collinear_on_the_rows_that_count(binary_frame: pd.DataFrame) -> None:
    """Mutant: (h) `blp`'s rank check ignoring weights. z varies only on rows of next to no weight."""
    rows = np.arange(len(binary_frame))
    data = binary_frame.assign(z=np.where(rows < 20, rows, 1.0), weight=np.where(rows < 20, 1e-16, 1.0))
    fit = riesz.ate("y ~ treat(a) * x1", data, weights="weight", learner=riesz.Linear(0.1, 0.1))
    with pytest.raises(
        riesz.DataError, match=r"`Intercept`, `z` of '~ z' are collinear on the rows that contribute to ATE"
    ):
        fit.blp("~ z")
    assert len(riesz.ate("y ~ treat(a) * x1", data).blp("~ z").params) == 2


def test_folds_are_compared_once_for_each_parameter_and_repeat() -> None:
    """Mutants: Cochran's test without Bonferroni's factor, or with one degree of freedom too many."""
    estimates = {
        ("ATE", 1): [1.0, 1.4, 0.7],
        ("ATE", 2): [1.0, 1.1, 0.9],
        ("ATT", 1): [2.0, 2.1, 1.9],
        ("ATT", 2): [2, 2, 2.1],
    }
    lines = [
        (parameter, repeat, fold, estimate, 0.1)
        for (parameter, repeat), values in estimates.items()
        for fold, estimate in enumerate(values, start=1)
    ]
    lines += [(*key, "all", 1.0, 0.05) for key in estimates]
    table = pd.DataFrame(lines, columns=["parameter", "repeat", "fold", "estimate", "std_error"])
    worst = np.array(estimates["ATE", 1])
    p = stats.chi2.sf(((worst - worst.mean()) ** 2).sum() / 0.1**2, 2)
    np.testing.assert_allclose(heterogeneity(table), 4 * p, rtol=1e-12)


def test_repeats_average_derivatives_too(continuous_frame: pd.DataFrame) -> None:
    """Mutant: `average` taking the slopes of the first repeat. Of two repeats the median is the mean."""
    fit = riesz.ade("y ~ treat(d) * x1 + {treat(d) ** 2}", continuous_frame, repeats=2, folds=2)
    rows = fit.augment()
    np.testing.assert_allclose(rows[".moment_ADE"].mean(), fit.estimates.loc[("ADE", "direct"), "estimate"], rtol=1e-10)
    first = fit.model.blueprint.design.apply(fit._crossfit.predictions[0].mu)[0]
    assert abs(first.mean() - rows[".moment_ADE"].mean()) > 1e-5


def test_variances_are_those_given() -> None:
    """Mutant: `with_variances` leaving the diagonal of the correlations as it comes out."""
    made = with_variances(np.array([[4.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), np.array([1.0, 9.0, 2.0]))
    np.testing.assert_allclose(made, [[1.0, 1.5, 0.0], [1.5, 9.0, 0.0], [0.0, 0.0, 2.0]])


def test_quantiles_of_counted_rows_are_those_of_repeated_ones(binary_frame: pd.DataFrame) -> None:
    """Mutant: `normal_quantiles` multiplying a row's influence by its frequency."""
    counts = np.random.default_rng(1).integers(1, 4, len(binary_frame))
    long = binary_frame.loc[binary_frame.index.repeat(counts)]
    options = {"learner": PLAIN, "folds": 1}
    one = riesz.ate("y ~ treat(a) * x1", binary_frame, freq_weights=counts, **options).influence_quantiles()
    two = riesz.ate("y ~ treat(a) * x1", long, **options).influence_quantiles()
    np.testing.assert_allclose(two["sample"], one.loc[two.index, "sample"], rtol=1e-8)
    middle = two["theoretical"].map(stats.norm.cdf).groupby(level=0).mean()  # of a row's copies, which stand together
    np.testing.assert_allclose(one["theoretical"].map(stats.norm.cdf), middle[one.index], rtol=1e-8)


def test_targeting_leaves_a_rare_outcome_as_it_is() -> None:
    """Mutant: mu kept .001 off its limits, however rare the outcome. A logit without penalty is targeted already."""
    rng = np.random.default_rng(2)
    x, a = rng.normal(size=6000), rng.integers(0, 2, 6000)
    y = (rng.uniform(size=6000) < 1 / (1 + np.exp(6.5 - 0.5 * a - 0.5 * x))).astype(float)
    data = pd.DataFrame({"y": y, "a": a, "x": x})
    fit = riesz.ate("y ~ treat(a) * x", data, learner=PLAIN, folds=1, family="binomial")
    assert 0.001 < y.mean() < 0.004
    assert fit.fittedvalues.quantile(0.1) < 0.001
    values = fit.estimates.loc["ATE", "estimate"]
    np.testing.assert_allclose(values["tmle"], values["direct"], rtol=1e-3)
