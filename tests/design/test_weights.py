"""Weights, and series whose index differs from the data's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz


@pytest.fixture(scope="module")
def data(confounded_frame: pd.DataFrame) -> pd.DataFrame:
    return confounded_frame


def test_a_series_with_another_index(data: pd.DataFrame) -> None:
    shuffled = data.sample(frac=1.0, random_state=0)
    weights = pd.Series(np.random.default_rng(0).uniform(1, 2, len(data)), index=data.index)
    for keyword in ("weights", "cluster", "folds"):
        with pytest.raises(riesz.DataError, match="index differs from the data's"):
            riesz.ate("y ~ treat(t) + x", shuffled, **{keyword: weights})
    with pytest.raises(riesz.DataError, match="index differs from the data's"):
        riesz.ape("y ~ treat(t) + x", shuffled, policy=weights - 1)
    aligned = riesz.ate("y ~ treat(t) + x", shuffled, weights=weights.reindex(shuffled.index), folds=1)
    np.testing.assert_allclose(aligned.params, riesz.ate("y ~ treat(t) + x", data, weights=weights, folds=1).params)


def test_rows_of_weight_zero_are_not_in_the_sample(data: pd.DataFrame) -> None:
    frame = data.assign(w=(data["x"] > -0.5).astype(float), id=np.arange(len(data)) // 20)
    part = frame[frame["w"] > 0]
    options = {"cluster": "id", "folds": 1}
    zero = riesz.ate("y ~ treat(t) * bs(x, df=4)", frame, weights="w", **options)
    gone = riesz.ate("y ~ treat(t) * bs(x, df=4)", part, **options)
    np.testing.assert_allclose(zero.params, gone.params, rtol=1e-10)
    np.testing.assert_allclose(zero.bse, gone.bse, rtol=1e-10)
    assert zero.nobs == gone.nobs


def test_effective_sample_size_counts_frequencies(data: pd.DataFrame) -> None:
    options = {"folds": 1, "learner": riesz.Linear(0.01, 0.01)}
    counted = riesz.ate("y ~ treat(t) * x", data, freq_weights=np.full(len(data), 3), **options)
    stacked = riesz.ate("y ~ treat(t) * x", pd.concat([data] * 3), **options)
    np.testing.assert_allclose(counted.diagnostics(), stacked.diagnostics(), rtol=1e-8)
