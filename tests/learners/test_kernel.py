"""The kernel mean embedding against its formulas written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist, pdist

import riesz
from riesz.learners.kernel_embedding import _GRID, KernelEmbedding, fit_kernel, make_kernel


def gaussian(x: np.ndarray, other: np.ndarray, length: float) -> np.ndarray:
    return np.exp(-cdist(x, other, "sqeuclidean") / (2 * length**2))


def test_mean_embedding_by_hand(binary_frame: pd.DataFrame) -> None:
    """theta(a) = y'(K_A * K_X + n lambda I)^{-1} (k_a * mean of k_x), the authors' formula, with a centred outcome."""
    data, lam = binary_frame, 0.01
    x = data[["x1", "x2"]].to_numpy()
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y, a = data["y"].to_numpy() - data["y"].mean(), data["a"].to_numpy()
    k_x = gaussian(x, x, np.median(pdist(x)))
    k_a = (a[:, None] == a).astype(float)
    inverse = np.linalg.inv(k_a * k_x + len(y) * lam * np.eye(len(y)))
    theta = [y @ inverse @ ((a == arm) * k_x.mean(axis=1)) + data["y"].mean() for arm in (0, 1)]
    fit = riesz.mean("y ~ treat(a) + x1 + x2", data, at=[0, 1], learner=KernelEmbedding(penalty=lam), folds=1)
    np.testing.assert_allclose(fit.params, theta, rtol=1e-8)


def test_continuous_treatment_by_hand(continuous_frame: pd.DataFrame) -> None:
    """Incremental response: the treatment's kernel is differentiated."""
    data, lam = continuous_frame, 0.02
    x, d = data[["x1", "x2"]].to_numpy(), data[["d"]].to_numpy()
    y = data["y"].to_numpy() - data["y"].mean()
    width = np.median(pdist(d)) * 0.8
    k_x, k_d = gaussian(x, x, np.median(pdist(x)) * 0.8), gaussian(d, d, width)
    c = np.linalg.solve(k_d * k_x + len(y) * lam * np.eye(len(y)), y)
    slope = ((d.T - d) / width**2 * k_d * k_x) @ c
    learner = KernelEmbedding(penalty=lam, bandwidth=0.8, standardise=False)
    fit = riesz.ade("y ~ treat(d) + x1 + x2", data, learner=learner, folds=1)
    np.testing.assert_allclose(fit.params["ADE"], slope.mean(), rtol=1e-8)


@pytest.mark.parametrize("along", ["d", "x1"])
def test_slopes_are_derivatives(continuous_frame: pd.DataFrame, along: str) -> None:
    h = 1e-5

    def near(mu: Any, data: pd.DataFrame) -> Any:
        up, down = (data.assign(**{along: data[along] + s * h}) for s in (1, -1))
        return (mu(up) - mu(down)) / (2 * h)

    exact = riesz.CustomMoment(lambda mu, data: mu.derivative(data, wrt=along), name="exact")
    differences = riesz.CustomMoment(near, name="differences")
    formula = "y ~ treat(d) + x1 + I(x1**2) + x2"
    fit = riesz.estimate(formula, continuous_frame, [exact, differences], learner=KernelEmbedding(), folds=3)
    moments = fit.model.blueprint.design.apply(fit.predictions.mu)
    np.testing.assert_allclose(moments[0], moments[1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "options", [{}, {"cluster": "village"}, {"weights": "w"}, {"weights": "w", "cluster": "village"}]
)
def test_leave_one_out_by_force(binary_frame: pd.DataFrame, options: dict[str, str]) -> None:
    """The penalty that refitting without each row, or cluster, would choose."""
    data = binary_frame.iloc[:80]
    result = riesz.ate("y ~ treat(a) + x1 + x2", data, learner=KernelEmbedding(), folds=1, **options)
    design = result.model.blueprint.design
    w = design.weights / design.weights.mean()
    kernel = make_kernel(design, w, 1.0, True)
    gram = kernel.of_treatment(kernel.treatment)[0] * kernel.of_covariates(kernel.covariates)
    y = design.y - np.average(design.y, weights=w)
    groups = data["village"].to_numpy() if "cluster" in options else np.arange(80)
    losses = []
    for lam in _GRID:
        loss = 0.0
        for g in np.unique(groups):
            out, keep = groups == g, groups != g
            left = gram[np.ix_(keep, keep)] + 80 * lam * np.diag(1 / w[keep])
            loss += w[out] @ (y[out] - gram[np.ix_(out, keep)] @ np.linalg.solve(left, y[keep])) ** 2
        losses.append(loss)
    assert result.details()["penalty"][0] == _GRID[int(np.argmin(losses))]
    assert _GRID[0] < result.details()["penalty"][0] < _GRID[-1]


def test_weights_are_repeated_rows(binary_frame: pd.DataFrame) -> None:
    """At a fixed kernel; the median distance and the penalty per row are those of the rows there are."""
    counts = np.random.default_rng(0).integers(1, 4, 400)
    result = riesz.ate(
        "y ~ treat(a) + x1 + x2", binary_frame, learner=KernelEmbedding(0.01), folds=1, freq_weights=counts
    )
    design = result.model.blueprint.design
    kernel = fit_kernel(design, 0.01, 1.0, True).kernel
    gram = kernel.of_treatment(kernel.treatment)[0] * kernel.of_covariates(kernel.covariates)
    long = np.repeat(np.arange(400), counts)
    y = design.y[long] - design.y[long].mean()
    c = np.linalg.solve(gram[np.ix_(long, long)] + len(long) * 0.01 * np.eye(len(long)), y)
    np.testing.assert_allclose(result.fittedvalues, design.y[long].mean() + gram[:, long] @ c, rtol=1e-7, atol=1e-9)


def test_units_of_covariates_and_treatment_do_not_matter(continuous_frame: pd.DataFrame) -> None:
    plain = riesz.ade("y ~ treat(d) + x1 + x2", continuous_frame, learner=KernelEmbedding())
    other = continuous_frame.assign(x1=1000 * continuous_frame["x1"] + 5, d=0.01 * continuous_frame["d"])
    moved = riesz.ade("y ~ treat(d) + x1 + x2", other, learner=KernelEmbedding())
    np.testing.assert_allclose(moved.params, 100 * plain.params, rtol=1e-5)


def test_no_covariates(binary_frame: pd.DataFrame) -> None:
    fit = riesz.ate("y ~ treat(a)", binary_frame, learner=KernelEmbedding(1e-10), folds=1)
    means = binary_frame.groupby("a")["y"].mean()
    np.testing.assert_allclose(fit.params["ATE"], means[1] - means[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"penalty": 0}, "expected a positive number or 'loo'"),
        ({"penalty": "cv"}, "expected a positive number or 'loo'"),
        ({"penalty": True}, "penalty=True.*expected a positive number or 'loo'"),
        ({"bandwidth": -1}, "bandwidth=-1.*expected a positive number"),
        ({"bandwidth": True}, "bandwidth=True.*expected a positive number"),
        ({"standardise": "no"}, "standardise='no'.*expected one of True, False"),
    ],
)
def test_settings_check_themselves(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(riesz.LearnerError, match=words):
        KernelEmbedding(**settings)


def test_numbers_may_be_numpys() -> None:
    learners = (KernelEmbedding(np.float32(0.5), np.int64(2)), riesz.NeuralEmbedding(penalty=np.float32(0.5)))
    assert [type(learner.penalty) for learner in learners] == [float, float]


def test_unsuitable_designs_are_refused(binary_frame: pd.DataFrame) -> None:
    labels = binary_frame.assign(y=(binary_frame["y"] > 0).astype(float))
    with pytest.raises(riesz.LearnerError, match="family='binomial' needs probabilities"):
        riesz.ate("y ~ treat(a) + x1", labels, learner="kernel_embedding", family="binomial")
    many = riesz.datasets.get("binary").draw(8001, seed=0).data
    with pytest.raises(riesz.LearnerError, match=r"8,001 rows.*at most 8,000"):
        riesz.ate("y ~ treat(a) + .", many, learner="kernel_embedding", folds=1)
