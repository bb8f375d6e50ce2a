"""The notes below a summary."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz


@pytest.fixture(scope="module")
def data(confounded_frame: pd.DataFrame) -> pd.DataFrame:
    return confounded_frame


def test_notes_name_problems_of_the_fit(data: pd.DataFrame) -> None:
    assert "no interaction with the treatment" in str(riesz.ate("y ~ treat(t) + x", data).summary())
    assert "no interaction" not in str(riesz.ate("y ~ treat(t) * x", data).summary())
    few = riesz.ate("y ~ treat(t) * x", data.assign(c=np.arange(len(data)) % 8), cluster="c")
    assert "Only 8 clusters" in str(few.summary())
    rng = np.random.default_rng(3)
    wide = pd.DataFrame(rng.normal(size=(150, 50)), columns=[f"v{j}" for j in range(50)]).assign(
        t=np.arange(150) % 2, y=rng.normal(size=150)
    )
    poor = riesz.ate("y ~ treat(t) * .", wide, learner=riesz.Linear(0, 0), folds=5)
    assert "misses a known value" in str(poor.summary())
