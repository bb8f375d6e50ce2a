"""Continuous treatments with atoms."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riesz


@pytest.fixture(scope="module")
def data(curved_frame: pd.DataFrame) -> pd.DataFrame:
    return curved_frame


@pytest.mark.parametrize(("verb", "options"), [("ade", {}), ("ipe", {"policy": "x1 > 0"}), ("shift", {"delta": 0.1})])
def test_treatments_with_atoms_give_a_warning(data: pd.DataFrame, verb: str, options: dict[str, Any]) -> None:
    ask = getattr(riesz, verb)
    rng = np.random.default_rng(3)
    bunched = data.assign(d=np.where(rng.uniform(size=600) < 0.4, 0.0, data["d"]))
    with pytest.warns(riesz.RieszWarning, match=r"Treatment `d` is heavily tied.*0 alone 4\d%.*leave those rows out"):
        ask("y ~ treat(d) + x1", bunched, **options)
    whole = data.assign(d=rng.integers(0, 12, 600).astype(float))
    with pytest.warns(riesz.RieszWarning, match=r"5 commonest values account for 4\d%.*`riesz.ate` on grouped values"):
        ask("y ~ treat(d) + x1", whole, **options)
    few = data.assign(d=np.where(np.arange(600) < 30, 2.5, data["d"]))
    with pytest.warns(riesz.RieszWarning, match=r"2.5 alone 5%"):
        ask("y ~ treat(d) + x1", few, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask("y ~ treat(d) + x1", data.assign(d=np.where(np.arange(600) < 29, 2.5, data["d"])), **options)
        ask("y ~ treat(d) + x1", data.iloc[:60], **options)


@pytest.mark.parametrize("name", ["continuous", "gasoline"])
def test_simulations_have_no_atoms(name: str) -> None:
    simulation = riesz.datasets.get(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        riesz.estimate(simulation.formula, simulation.draw(300, seed=1).data, next(iter(simulation.questions.values())))
