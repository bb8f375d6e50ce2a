"""Which values are arms, and which arm a policy assigns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz


@pytest.fixture(scope="module")
def data(confounded_frame: pd.DataFrame) -> pd.DataFrame:
    return confounded_frame


def test_few_numeric_values_are_arms_for_every_estimand() -> None:
    rng = np.random.default_rng(2)
    dose = rng.integers(0, 3, 1500)
    x = rng.normal(size=1500)
    frame = pd.DataFrame({"dose": dose, "x": x, "y": 3 * (dose == 1) + x + rng.normal(size=1500)})
    first = riesz.CustomMoment(lambda mu, data: mu(data.assign(dose=1)) - mu(data.assign(dose=0)), name="one")
    fit = riesz.estimate("y ~ treat(dose) + x", frame, [riesz.ATE(), first])
    alone = riesz.estimate("y ~ treat(dose) + x", frame, first)
    np.testing.assert_allclose(fit.params["one"], alone.params["one"], rtol=1e-9)
    np.testing.assert_allclose(fit.params["one"], fit.params["ATE_1"], rtol=1e-3)
    capped = riesz.mean("y ~ treat(dose) + x", frame, at="where(dose == 2, 1, dose)")
    assert abs(capped.params["mean"] - 2.0) < 0.2
    with pytest.raises(riesz.EstimandError, match="a level that is not in the data"):
        riesz.mean("y ~ treat(dose) + x", frame, at="dose + 1")


def test_policy_effect_names_the_arm(data: pd.DataFrame) -> None:
    frame = data.assign(t=np.where(data["t"] == 1, "drug", "placebo"))
    with_reference = riesz.ape("y ~ treat(t, reference='placebo') * x", frame, policy="x > 0")
    assert "assigned t=drug" in str(with_reference.summary())
    without_reference = riesz.ape("y ~ treat(t) * x", frame, policy="x > 0")
    assert "assigned t=placebo" in str(without_reference.summary())
