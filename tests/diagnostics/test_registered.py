"""What every registered diagnostic must do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.diagnostics import DIAGNOSTICS


@pytest.mark.parametrize("name", DIAGNOSTICS)
def test_one_row_per_parameter(binary_frame: pd.DataFrame, name: str) -> None:
    fit = riesz.estimate("y ~ treat(a) * x1", binary_frame, [riesz.ATE(), riesz.Mean([0, 1])], learner="linear")
    table = DIAGNOSTICS[name](fit.predictions, fit.model.blueprint.design)
    assert len(table) == 3
    assert np.isfinite(table.to_numpy(dtype=float)).all()
    shown = fit.diagnostics()
    np.testing.assert_array_equal(shown[table.columns], table)
    assert shown.index.tolist() == fit.params.index.tolist()
