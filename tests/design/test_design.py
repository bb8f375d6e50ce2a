"""A design shows its rows and no others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.design.design import Design


@pytest.fixture
def design(binary_frame: pd.DataFrame) -> Design:
    options = {"learner": "linear", "cluster": "village", "weights": "w"}
    frame = binary_frame.assign(village=np.arange(len(binary_frame)) // 3)
    return riesz.estimate("y ~ treat(a) * x1 + x2", frame, [riesz.ATE(), riesz.ATT()], **options).model.blueprint.design


ARRAYS = ["y", "z", "x", "treatment", "strata", "weights", "frequency", "groups"]


@pytest.mark.parametrize("name", ARRAYS)
def test_a_fold_has_its_rows_alone(design: Design, name: str) -> None:
    rows = np.array([7, 3, 100, 4])
    np.testing.assert_array_equal(getattr(design.take(rows), name), getattr(design, name)[rows])


def test_the_moment_of_a_fold_is_that_of_its_rows(design: Design) -> None:
    rows = np.array([7, 3, 100, 4])
    fold = design.take(rows)
    np.testing.assert_array_equal(fold.index, rows)
    np.testing.assert_array_equal(fold.normalizer, design.normalizer[:, rows])
    np.testing.assert_array_equal(fold.apply(fold.anchor), design.apply(design.anchor)[:, rows])
    np.testing.assert_array_equal(fold.moment_rows(1), design.moment_rows(1)[rows])
    for small, large in zip(fold.readings(), design.readings(), strict=True):
        np.testing.assert_array_equal(small.values, large.values[rows])
        np.testing.assert_array_equal(small.treatment, large.treatment[rows])


def test_rows_are_taken_by_position(design: Design) -> None:
    fold = design.take([10, 20, 30]).take([2, 0])
    np.testing.assert_array_equal(fold.index, [30, 10])
    np.testing.assert_array_equal(fold.y, design.y[[30, 10]])
    with pytest.raises(IndexError):
        design.take([10, 20, 30]).take([3])


@pytest.mark.parametrize("rows", [None, np.arange(5, 205)])
def test_blocks_cover_every_row_once(design: Design, rows: np.ndarray | None) -> None:
    whole = design if rows is None else design.take(rows)
    parts = list(whole.blocks(64))
    assert [len(block) for _, block in parts[:-1]] == [64] * (len(parts) - 1)
    np.testing.assert_array_equal(np.concatenate([block.index for _, block in parts]), whole.index)
    np.testing.assert_array_equal(np.concatenate([block.z for _, block in parts]), whole.z)
    np.testing.assert_array_equal(np.concatenate([inner.y for _, b in parts for _, inner in b.blocks(10)]), whole.y)


def test_folds_of_one_sample_share_its_key(design: Design) -> None:
    fold = design.take([1, 2])
    assert fold.key == design.key == fold.sample.key
    assert len(fold.sample) == len(design)
