"""TMLE with bounds of the outcome."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz


@pytest.fixture(scope="module")
def data(confounded_frame: pd.DataFrame) -> pd.DataFrame:
    return confounded_frame


@pytest.mark.parametrize("top", [1e2, 1e4, 1e6])
def test_wide_bounds_change_little(data: pd.DataFrame, top: float) -> None:
    frame = data.assign(y=data["y"] + 50)
    fit = riesz.ate("y ~ treat(t) * x", frame, estimator="tmle", bounds=(0, top))
    plain = riesz.ate("y ~ treat(t) * x", frame, estimator="tmle")
    np.testing.assert_allclose(fit.params, plain.params, atol=0.2 * plain.bse["ATE"])
    np.testing.assert_allclose(fit.bse, plain.bse, rtol=0.05)
