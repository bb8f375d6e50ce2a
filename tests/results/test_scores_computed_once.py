"""Predictions become estimates in one place, and once per fit."""

from __future__ import annotations

import ast
import inspect
import pickle
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.diagnostics import warnings as concerns
from riesz.diagnostics.evidence import Evidence
from riesz.estimators import ESTIMATORS
from riesz.inference import Projection, Sampling, infer
from riesz.results.effects import Effects, EffectsParts
from riesz.results.fit import Results

FORMULA = "y ~ treat(a) * (x1 + x2)"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each estimator is computed."""
    counter: Counter[str] = Counter()

    def counting(name: str, estimator: riesz.estimators.Estimator) -> riesz.estimators.Estimator:
        def scores(predictions, design):
            counter[name] += 1
            return estimator.scores(predictions, design)

        return replace(estimator, scores=scores)

    for name, estimator in list(ESTIMATORS.items()):
        monkeypatch.setitem(ESTIMATORS, name, counting(name, estimator))
    return counter


def test_a_summary_computes_every_score_once(binary_frame: pd.DataFrame, calls: Counter[str]) -> None:
    fit = riesz.ate(FORMULA, binary_frame, learner="linear", repeats=2)
    assert calls == {"dr": 2}  # one per repeat
    fit.summary()
    once = dict.fromkeys(("direct", "ipw", "dr", "tmle"), 2)
    assert calls == once
    fit.summary()
    fit.warnings()
    fit.influential()
    fit.stability()
    fit.augment()
    fit.by("g")
    fit.blp("~ x1")
    fit.sensitivity()
    robust = fit.with_cov()
    assert calls == once
    robust.summary()
    assert calls == {**once, "direct": 4, "ipw": 4, "tmle": 4}


def test_trimmed_fits_compute_the_scores_without_trimming_once(binary_frame: pd.DataFrame, calls: Counter[str]) -> None:
    fit = riesz.ate(FORMULA, binary_frame, learner="linear", trim="95%")
    fit.summary()
    fit.summary()
    assert calls == {"direct": 1, "ipw": 1, "dr": 2, "tmle": 1}


def test_no_other_module_turns_scores_into_estimates() -> None:
    """Only inference.py calls estimate() and project(); only it and the tables of estimators call estimators."""
    root = Path(inspect.getfile(riesz)).parent
    for path in root.rglob("*.py"):
        if path.name == "inference.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "riesz.inference":
                names = {alias.name for alias in node.names}
                assert not names & {"estimate", "project"}, f"{path} turns scores into estimates itself"


@pytest.mark.parametrize("cluster", [None, "village", ["village", "g"]])
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.filterwarnings("ignore::riesz.RieszWarning")
def test_the_projection_on_a_constant_is_the_estimate(
    binary_frame: pd.DataFrame, cluster: str | list[str] | None, repeats: int
) -> None:
    fit = riesz.ate(FORMULA, binary_frame, learner="linear", cluster=cluster, repeats=repeats, folds=3)
    projected = fit.blp("~ 1")
    np.testing.assert_allclose(projected.params, fit.params, rtol=1e-12)
    np.testing.assert_allclose(projected.bse, fit.bse, rtol=1e-10)
    np.testing.assert_allclose(projected.variation(), fit.variation(), atol=1e-12)


def test_given_scores_are_not_computed_again(binary_frame: pd.DataFrame, calls: Counter[str]) -> None:
    fit = riesz.ate(FORMULA, binary_frame, learner="linear")
    model, crossfit = fit.model, fit._crossfit
    sampling = Sampling(model.weights, (), model.settings.target)
    arguments = (crossfit.predictions, model.blueprint.design, ESTIMATORS["dr"], sampling)
    calls.clear()
    fresh = infer(*arguments)
    known = infer(*arguments, scores=fresh.scores, projection=Projection([np.ones((len(binary_frame), 1))]))
    assert calls == {"dr": 1}
    np.testing.assert_allclose(known.value, fresh.value, rtol=1e-12)
    np.testing.assert_array_equal(fit.params, fresh.value)
    np.testing.assert_array_equal(fit.bse, fresh.errors())


def test_effects_are_made_of_their_parts(binary_frame: pd.DataFrame) -> None:
    """Made again from the parts, and through pickle, they are the same."""
    effects = riesz.ate(FORMULA, binary_frame, learner="linear", cluster="village").by("g")
    for again in (Effects(effects.parts), pickle.loads(pickle.dumps(effects))):
        assert str(again) == str(effects)
        pd.testing.assert_frame_equal(again.tidy(joint=True), effects.tidy(joint=True))
        pd.testing.assert_frame_equal(again.heterogeneity(), effects.heterogeneity())
        np.testing.assert_array_equal(again.variation(), effects.variation())
        assert set(vars(again.parts)) == {field.name for field in fields(EffectsParts)}


def test_classes_are_abstract_or_final() -> None:
    for kind in (Results, Effects):
        assert kind.__final__
        assert [base.__name__ for base in kind.__mro__[1:-2]] == ["Parameters"]
        assert inspect.isabstract(kind.__mro__[1])


def test_a_warning_is_one_function_and_one_line(binary_frame: pd.DataFrame) -> None:
    def large_errors(evidence: Evidence) -> list[str]:
        return [f"The standard error of {name} is {error:.2f}." for name, error in evidence.errors.items()]

    fit = riesz.ate(FORMULA, binary_frame, learner="linear")
    before = list(fit.warnings())
    concerns.RULES.append(large_errors)
    try:
        text = f"The standard error of ATE is {fit.bse['ATE']:.2f}."
        assert list(fit.warnings()) == [*before, text]
        assert text in " ".join(str(fit.summary()).split())
    finally:
        concerns.RULES.remove(large_errors)


def test_what_a_fit_returns_can_be_changed_without_changing_the_fit(binary_frame: pd.DataFrame) -> None:
    fit = riesz.ate(FORMULA, binary_frame, learner="linear")
    before = fit.influence.copy()
    influence, balance = fit.influence, fit.balance()
    influence.loc[:, "ATE"] = 0.0
    balance["z"] = 0.0
    fit.variation()[:] = 0.0
    pd.testing.assert_frame_equal(fit.influence, before)
    np.testing.assert_array_equal(fit.variation(), before.to_numpy())
    assert fit.balance()["z"].any()
