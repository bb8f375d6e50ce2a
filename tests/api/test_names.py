"""A mapping from names to estimands: the same numbers under other names, wherever parameters are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riesz

FORMULA = "y ~ treat(a) * (x1 + x2)"
POLICIES = {"when positive": riesz.APE("x1 > 0"), "otherwise": riesz.APE("x1 <= 0")}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return riesz.datasets.get("binary").draw(400, seed=1).data


def fitted(data: pd.DataFrame, estimand: Any) -> riesz.Results:
    return riesz.estimate(FORMULA, data, estimand, learner="linear")


@pytest.fixture(scope="module")
def named(data: pd.DataFrame) -> riesz.Results:
    return fitted(data, POLICIES)


def test_two_of_a_kind_have_the_numbers_of_each_alone(data: pd.DataFrame, named: riesz.Results) -> None:
    assert named.params.index.tolist() == list(POLICIES)
    for name, question in POLICIES.items():
        alone = fitted(data, question)
        assert named.params[name] == pytest.approx(alone.params["APE"], rel=1e-12)
        assert named.bse[name] == pytest.approx(alone.bse["APE"], rel=1e-12)


def test_an_estimand_with_several_components_is_a_prefix(data: pd.DataFrame) -> None:
    fit = fitted(data, {"level": riesz.Mean([0, 1]), "effect": riesz.ATE()})
    assert fit.params.index.tolist() == ["level: mean_0", "level: mean_1", "effect"]
    gap = riesz.contrast("`level: mean_1` - `level: mean_0`", fit)
    assert gap.params.iloc[0] == pytest.approx(fit.params["level: mean_1"] - fit.params["level: mean_0"])
    assert float(fit.wald_test("`level: mean_1` = 0, effect = 0").pvalue) < 0.05


def test_a_custom_moment_takes_the_name(data: pd.DataFrame) -> None:
    moment = riesz.CustomMoment(lambda mu, data: mu(data.assign(a=1)))
    assert fitted(data, {"treated": moment, "again": moment}).params.index.tolist() == ["treated", "again"]


def test_names_that_collide_with_a_prefix(data: pd.DataFrame) -> None:
    with pytest.raises(riesz.EstimandError, match="Two estimands are called 'level: mean_0'"):
        fitted(data, {"level": riesz.Mean([0, 1]), "level: mean_0": riesz.Mean(0)})


def test_names_reach_every_table(data: pd.DataFrame, named: riesz.Results) -> None:
    text = str(named.summary())
    assert "when positive: Mean outcome under the policy x1 > 0" in text
    assert "otherwise" in str(riesz.compare(named))
    assert named.by(data["x2"] > 0).params.index.tolist() == [
        f"{name}_{group}" for name in POLICIES for group in ("False", "True")
    ]
    assert {"moment_when positive", "rr_otherwise"} <= set(named.predict(data.head(3)).columns)
    assert named.riesz_representer.columns.tolist() == list(POLICIES)
    assert len(named.leave_one_out("when positive")) == len(data)
    assert set(named.sensitivity().table.index) == set(POLICIES)


def test_names_in_contrasts_and_tests(named: riesz.Results) -> None:
    gap = named.params["when positive"] - named.params["otherwise"]
    for made in (
        riesz.contrast("`when positive` - otherwise", named),
        riesz.contrast("f.`when positive` - f.otherwise", f=named),
        riesz.contrast(lambda p: p["when positive"] - p["otherwise"], named),
    ):
        assert made.params.iloc[0] == pytest.approx(gap, rel=1e-9)
    assert float(named.t_test("`when positive` - otherwise = 0").effect[0]) == pytest.approx(gap)


def test_names_survive_a_file(data: pd.DataFrame, named: riesz.Results, tmp_path: Path) -> None:
    named.save(tmp_path / "fit.riesz")
    again = riesz.load(tmp_path / "fit.riesz")
    assert str(again) == str(named)
    assert again.params.index.tolist() == list(POLICIES)
    pd.testing.assert_frame_equal(again.predict(data.head(5)), named.predict(data.head(5)))


def test_many_tables_share_the_names(data: pd.DataFrame) -> None:
    fits = riesz.estimate_many(FORMULA, [data, data.head(300)], POLICIES, learner="linear")
    assert [fit.params.index.tolist() for fit in fits] == [list(POLICIES)] * 2
    assert np.isfinite(fits[1].bse).all()
