from __future__ import annotations

import os

# with matrices this small, several threads would slow each other down, above all on a busy machine
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

import riesz


@pytest.fixture(autouse=True, scope="module")
def closed_form() -> Iterator[None]:
    """Use the closed form if a test names no learner: such tests are not about learning, and networks would take minutes.

    The scope is the module because fixtures of that scope fit, too, and so that examples in docstrings use the default of readers.
    """
    with riesz.defaults.using(learner="linear"):
        yield


@pytest.fixture(scope="session")
def binary_frame() -> pd.DataFrame:
    """Binary treatment, a factor, two numbers, weights and clusters."""
    rng = np.random.default_rng(7)
    n = 400
    x1, x2 = rng.normal(size=(2, n))
    g = rng.choice(["u", "v", "w"], n)
    a = (rng.uniform(size=n) < 1 / (1 + np.exp(-0.7 * x1))).astype(float)
    y = 1 + a * (1 + x1) + np.sin(x2) + (g == "v") + rng.normal(size=n)
    return pd.DataFrame(
        {"y": y, "a": a, "x1": x1, "x2": x2, "g": g, "w": rng.uniform(0.5, 2, n), "village": rng.integers(0, 40, n)}
    )


@pytest.fixture(scope="session")
def continuous_frame() -> pd.DataFrame:
    """Continuous treatment, a factor and two numbers."""
    rng = np.random.default_rng(8)
    n = 400
    x1, x2 = rng.normal(size=(2, n))
    g = rng.choice(["u", "v", "w"], n)
    d = 0.5 * x1 + (1 + 0.3 * np.tanh(x2)) * rng.normal(size=n)
    y = d + 0.3 * d**2 + d * x1 + np.sin(x2) + (g == "v") + rng.normal(size=n)
    return pd.DataFrame({"y": y, "d": d, "x1": x1, "x2": x2, "g": g, "w": rng.uniform(0.5, 2, n)})


@pytest.fixture(scope="session")
def arms_frame(binary_frame: pd.DataFrame) -> pd.DataFrame:
    """Three arms coded as text."""
    rng = np.random.default_rng(9)
    arm = rng.choice(["placebo", "low", "high"], len(binary_frame), p=[0.4, 0.3, 0.3])
    y = binary_frame["y"] + 0.5 * (arm == "low") + (arm == "high") * (1 + binary_frame["x1"])
    return binary_frame.drop(columns="a").assign(arm=arm, y=y)


@pytest.fixture(scope="session")
def confounded_frame() -> pd.DataFrame:
    """Binary treatment t with effect 1 + x, and a factor of four levels."""
    rng = np.random.default_rng(11)
    n = 1200
    x = rng.normal(size=n)
    g = rng.choice(["a", "b", "c", "d"], n, p=[0.4, 0.3, 0.2, 0.1])
    t = (rng.uniform(size=n) < 1 / (1 + np.exp(-x))).astype(float)
    return pd.DataFrame({"y": t * (1 + x) + x + rng.normal(size=n), "t": t, "x": x, "g": g})


@pytest.fixture(scope="session")
def curved_frame() -> pd.DataFrame:
    """Continuous treatment d with a quadratic effect, binary treatment a, two numbers, a count and a boolean."""
    rng = np.random.default_rng(29)
    n = 600
    x1, x2 = rng.normal(size=(2, n))
    k = rng.integers(0, 4, n)
    d = 1 + 0.5 * x1 + rng.normal(size=n)
    a = (rng.uniform(size=n) < 1 / (1 + np.exp(-x1))).astype(float)
    y = d + 0.3 * (d - 1) ** 2 + x1 + 0.5 * (k == 2) + rng.normal(size=n)
    return pd.DataFrame({"y": y, "d": d, "a": a, "x1": x1, "x2": x2, "k": k, "b": x2 > 0})
