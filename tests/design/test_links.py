"""Arrays per component hold only the readings of that component: memory does not grow with the square of the arms."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from questions import QUESTIONS, frame_of, is_continuous

import riesz
from riesz.design.constant_columns import as_it_is, compact
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked, Links

MEGABYTE = 2**20
ARMS, ROWS = 40, 4000


def design_of(frame: pd.DataFrame, formula: str, *questions: riesz.estimands.Estimand) -> Design:
    return riesz.estimate(formula, frame, list(questions), learner="linear").model.blueprint.design


@pytest.fixture(scope="module")
def many_arms() -> pd.DataFrame:
    generator = np.random.default_rng(5)
    arm = np.arange(ROWS) % ARMS
    x1 = generator.normal(size=ROWS)
    y = x1 + arm / ARMS + generator.normal(size=ROWS)
    return pd.DataFrame({"y": y, "arm": pd.Categorical([f"arm {code:02d}" for code in arm]), "x1": x1})


def test_a_fit_of_many_arms_takes_little_memory(many_arms: pd.DataFrame) -> None:
    """One array of (components, readings, rows) would take 50 MB; there used to be ten of them at once."""
    dense = (ARMS - 1) * ARMS * ROWS * 8
    tracemalloc.start()
    try:
        fit = riesz.ate("y ~ treat(arm) + x1", many_arms, learner=riesz.Linear(0.01, 0.01), folds=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert dense > 45 * MEGABYTE
    assert peak < 1.5 * dense
    assert len(fit.model.blueprint.design.link_weights) == 2 * (ARMS - 1)


def test_arms_get_the_estimates_of_a_plain_regression(many_arms: pd.DataFrame) -> None:
    """With a saturated formula and no penalty the plug-in and the one-step estimate are regression coefficients."""
    fit = riesz.ate("y ~ treat(arm) + x1", many_arms, learner=riesz.Linear(0, 0), folds=1)
    z = np.column_stack([np.ones(ROWS), pd.get_dummies(many_arms["arm"], dtype=float).iloc[:, 1:], many_arms["x1"]])
    coefficients = np.linalg.lstsq(z, many_arms["y"], rcond=None)[0][1:ARMS]
    np.testing.assert_allclose(fit.params, coefficients, rtol=1e-9)


def test_links_are_the_readings_that_a_component_names(arms_frame: pd.DataFrame) -> None:
    design = design_of(arms_frame, "y ~ treat(arm) + x1", riesz.ATE(), riesz.Mean("low"))
    assert design.links.component.tolist() == [0, 0, 1, 1, 2]
    treatments = [reading.treatment[0].tolist() for reading in design.readings()]
    read = [treatments[reading] for reading in design.links.reading]
    low = read[-1]
    assert sum(treatment == low for treatment in read) == 2
    assert len(treatments) == 3
    assert design.link_weights.shape == (5, len(arms_frame))


@pytest.mark.parametrize("verb", QUESTIONS)
def test_the_moment_is_the_same_from_readings_and_from_links(verb: str, request: pytest.FixtureRequest) -> None:
    question = QUESTIONS[verb]
    frame = request.getfixturevalue(frame_of(question))
    design = design_of(frame, f"y ~ treat({'d' if is_continuous(question) else 'a'}) * x1", question, question_again())
    generator = np.random.default_rng(0)
    shape = design.components, len(design.readings()), len(design)
    each = Evaluation(generator.normal(size=shape[::2]), generator.normal(size=shape), generator.normal(size=shape))
    weights = np.zeros(shape)
    weights[design.links.component, design.links.reading] = design.link_weights
    read = np.where(design.is_derivative[:, None], each.slopes, each.values)
    np.testing.assert_allclose(design.apply(each.linked(design.links)), (weights * read).sum(axis=1), rtol=1e-12)
    first = each.map(lambda values: values[0])
    np.testing.assert_allclose(design.apply(first), (weights * read[0]).sum(axis=1), rtol=1e-12)
    assert design.apply(first).shape == (design.components, len(design))


def question_again() -> riesz.CustomMoment:
    return riesz.CustomMoment(lambda mu, data: mu(data.assign(x1=data["x1"] + 1.0)) - mu(data), name="moved")


def test_a_product_with_a_shared_function_is_taken_where_components_read() -> None:
    links = Links(np.array([0, 0, 1]), np.array([0, 1, 1]))
    generator = np.random.default_rng(1)
    each = Evaluation(*(generator.normal(size=size) for size in ((2, 5), (2, 2, 5), (2, 2, 5))))
    shared = Evaluation(*(generator.normal(size=size) for size in ((5,), (2, 5), (2, 5))))
    product = each.linked(links).times(shared)
    dense = each.times(shared).linked(links)
    for part in ("observed", "values", "slopes"):
        np.testing.assert_array_equal(getattr(product, part), getattr(dense, part))
    twice = each.linked(links).scaled(np.array([2.0, 3.0]))
    np.testing.assert_array_equal(twice.values, each.linked(links).values * np.array([[2.0], [2.0], [3.0]]))


def test_fewer_links_keep_their_values() -> None:
    values = np.arange(12.0).reshape(4, 3)
    whole = Linked(np.zeros((2, 3)), values, -values, Links(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])))
    part = whole.linked(Links(np.array([0, 1]), np.array([1, 0])))
    np.testing.assert_array_equal(part.values, values[[1, 2]])
    np.testing.assert_array_equal(part.slopes, -values[[1, 2]])
    with pytest.raises(KeyError):
        part.linked(whole.links)


@pytest.mark.parametrize("constant", [[], [0], [1, 2], [0, 1, 2]])
def test_constant_columns_are_kept_once(constant: list[int]) -> None:
    table = np.random.default_rng(2).normal(size=(6, 3))
    table[:, constant] = [[1.5, -2.0, 0.0][j] for j in constant]
    kept = compact(table)
    assert kept.varying.shape == (6, 3 - len(constant))
    assert kept.is_constant == (len(constant) == 3)
    np.testing.assert_array_equal(kept.dense(), table)
    for rows in (slice(1, 4), np.array([5, 0]), slice(0)):
        np.testing.assert_array_equal(kept.dense(rows), table[rows])
        np.testing.assert_array_equal(kept.take(rows).dense(), table[rows])
    which = np.array([True, False, True])
    for kind in (kept, as_it_is(table)):
        np.testing.assert_array_equal(kind.columns(which).dense(), table[:, which])


def test_a_file_of_many_arms_is_small(many_arms: pd.DataFrame, tmp_path: Path) -> None:
    fit = riesz.ate("y ~ treat(arm) + x1", many_arms, learner=riesz.Linear(0.01, 0.01), folds=2)
    fit.save(tmp_path / "arms.riesz")
    assert (tmp_path / "arms.riesz").stat().st_size < 10 * MEGABYTE
    again = riesz.load(tmp_path / "arms.riesz")
    np.testing.assert_array_equal(again.params, fit.params)
    np.testing.assert_array_equal(again.predictions.rr.values, fit.predictions.rr.values)
