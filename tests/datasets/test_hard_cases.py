"""Hard cases have the truth, mu and rr that they state."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.datasets.hard_cases import HARD_CASES


@pytest.mark.parametrize("name", HARD_CASES)
def test_the_truth_is_the_mean_effect(name: str) -> None:
    case = HARD_CASES[name]
    draw = case.draw(0, n=400_000)
    error = draw.effect.std() / np.sqrt(len(draw.effect))
    assert abs(draw.effect.mean() - case.truth) < 4 * error + 1e-9
    residual = draw.data["y"] - draw.mu
    assert residual.std() == pytest.approx(case.noise, rel=0.01)
    assert abs(residual.mean()) < 4 * case.noise / np.sqrt(len(residual))


@pytest.mark.parametrize("name", HARD_CASES)
def test_rr_balances_the_covariates(name: str) -> None:
    """E[rr f(x)] = 0 and E[rr a f(x)] = E f(x) for bounded f, up to four standard errors."""
    draw = HARD_CASES[name].draw(1, n=100_000)
    a = draw.data["a"].to_numpy()
    for column in draw.data.columns[2:6]:
        f = np.tanh(draw.data[column].rank().to_numpy() / len(a) - 0.5)
        for gap in (draw.rr * f, draw.rr * a * f - f):
            assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(len(a))


@pytest.mark.parametrize("name", [name for name in HARD_CASES if name != "strong_confounding"])
def test_the_oracle_is_centred_and_its_error_is_right(name: str) -> None:
    case = HARD_CASES[name]
    oracles = [case.draw(number).oracle for number in range(200)]
    z = np.array([(oracle.estimate[0] - case.truth) / oracle.std_error[0] for oracle in oracles])
    assert abs(z.mean()) < 4 * z.std() / np.sqrt(len(z))
    assert 0.8 < z.std() < 1.2


def test_strong_confounding_is_strong() -> None:
    p = HARD_CASES["strong_confounding"].draw(0, n=100_000).propensity
    assert np.log(p / (1 - p)).std() == pytest.approx(4, rel=0.02)
    assert np.quantile(p, 0.01) < 2e-4


def test_kang_and_schafer_hide_their_covariates() -> None:
    case = HARD_CASES["kang_schafer"]
    draw = case.draw(0)
    x = draw.data
    z1 = 2 * np.log(x["x1"])
    z2 = (x["x2"] - 10) * (1 + np.exp(z1))
    z3 = (np.cbrt(x["x3"]) - 0.6) * 25 / z1
    z4 = np.sqrt(x["x4"]) - 20 - z2
    mu = 210 + 10 * x["a"] + 27.4 * z1 + 13.7 * (z2 + z3 + z4)
    assert np.allclose(mu, draw.mu)
    assert np.allclose(np.log(draw.propensity / (1 - draw.propensity)), -z1 + 0.5 * z2 - 0.25 * z3 - 0.1 * z4)


def test_draws_differ_and_repeat() -> None:
    case = HARD_CASES["wave_20"]
    pd.testing.assert_frame_equal(case.draw(3).data, case.draw(3).data)
    assert not case.draw(3).data["y"].equals(case.draw(4).data["y"])
    assert case.draw(3).data.shape == (2000, 22)
    assert case.draw(3, n=50).data.shape == (50, 22)


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(riesz.DataError, match="number=-1"):
        HARD_CASES["smooth"].draw(-1)
