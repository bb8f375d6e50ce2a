"""Who is trained on what."""

from __future__ import annotations

from threading import Event
from typing import Any

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info
from tqdm.auto import tqdm

import riesz
from riesz.crossfit import crossfit as crossfitting
from riesz.crossfit.folds import draw_labels
from riesz.crossfit.splits import make_splits


def test_every_row_is_predicted_once_by_a_fit_that_has_not_seen_it() -> None:
    labels = draw_labels(103, 5, None, None, np.random.default_rng(0))
    splits = make_splits([labels])
    assert sorted(np.concatenate([split.test for split in splits])) == list(range(103))
    for split in splits:
        assert not set(split.train) & set(split.test)
        assert len(split.train) + len(split.test) == 103


def test_arms_are_spread_evenly() -> None:
    rng = np.random.default_rng(1)
    arms = rng.choice(3, 200, p=[0.7, 0.2, 0.1])
    labels = draw_labels(200, 5, arms, None, rng)
    counts = pd.crosstab(labels, arms)
    assert (counts.max() - counts.min() <= 1).all()
    assert counts.sum(axis=1).max() - counts.sum(axis=1).min() <= 1


def test_clusters_stay_whole_and_arms_stay_even() -> None:
    rng = np.random.default_rng(2)
    groups = rng.integers(0, 60, 900)
    arms = (rng.uniform(size=900) < 0.3).astype(int)
    labels = draw_labels(900, 5, arms, groups, rng)
    assert (pd.Series(labels).groupby(groups).nunique() == 1).all()
    shares = pd.Series(arms).groupby(labels).mean()
    assert shares.between(0.22, 0.38).all()
    assert pd.Series(labels).value_counts().between(140, 220).all()


def test_treatment_constant_within_clusters_is_stratified() -> None:
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(20), 10)
    arms = (groups < 6).astype(int)
    for seed in range(10):
        labels = draw_labels(200, 5, arms, groups, np.random.default_rng(seed))
        assert (pd.crosstab(labels, arms) > 0).all().all(), rng


def test_two_way_splits_share_no_cluster_of_either_kind() -> None:
    rng = np.random.default_rng(4)
    firm, year = rng.integers(0, 30, 600), rng.integers(0, 20, 600)
    labels = [draw_labels(600, 3, None, codes, rng) for codes in (firm, year)]
    splits = make_splits(labels)
    assert len(splits) == 9
    assert sorted(np.concatenate([split.test for split in splits])) == list(range(600))
    for split in splits:
        assert not set(firm[split.train]) & set(firm[split.test])
        assert not set(year[split.train]) & set(year[split.test])


def test_seed_determines_everything(binary_frame: pd.DataFrame) -> None:
    formula = "y ~ treat(a) * x1 + bs(x2, df=4)"
    one, two, other = (riesz.ate(formula, binary_frame, repeats=2, seed=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.influence, two.influence)
    assert not np.array_equal(one.influence, other.influence)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    riesz.ate(formula, binary_frame)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_jobs_do_not_change_the_numbers(binary_frame: pd.DataFrame) -> None:
    formula = "y ~ treat(a) * x1 + bs(x2, df=4)"
    alone = riesz.ate(formula, binary_frame, repeats=3)
    many = riesz.ate(formula, binary_frame, repeats=3, n_jobs=4)
    np.testing.assert_array_equal(alone.influence, many.influence)


@pytest.mark.parametrize("labels", ["list", "column", "text"])
def test_own_folds(binary_frame: pd.DataFrame, labels: str) -> None:
    own = np.arange(400) % 4
    given = {"list": own.tolist(), "column": "f", "text": np.array(["north", "south", "east", "west"])[own]}[labels]
    data = binary_frame.assign(f=own)[["y", "a", "x1", "x2", "f"]]
    fit = riesz.ate("y ~ treat(a) + . - f" if labels != "column" else "y ~ treat(a) + .", data, folds=given)
    assert fit.glance()["folds"].iloc[0] == 4
    assert "f" not in fit.model.column_names
    assert (pd.Series(fit._crossfit.folds[0]).groupby(own).nunique() == 1).all()


def test_two_way_fit(binary_frame: pd.DataFrame) -> None:
    data = binary_frame.assign(year=np.random.default_rng(0).integers(0, 12, 400))
    fit = riesz.ate("y ~ treat(a) + x1", data, cluster=["village", "year"], folds=3)
    assert fit.glance()["folds"].iloc[0] == 9
    assert fit.cov_type == "cluster"
    assert "village (40) and year (12)" in str(fit.summary())


def test_two_way_folds_do_not_cut_their_own_clusters(binary_frame: pd.DataFrame) -> None:
    """A cluster is in several splits then, but never on both sides of one, so that with_cov has nothing to warn of."""
    data = binary_frame.assign(year=np.random.default_rng(0).integers(0, 12, 400), row=np.arange(400) % 100)
    fit = riesz.ate("y ~ treat(a) + x1", data, cluster=["village", "year"], folds=3)
    for cluster in ("village", "year", ["village", "year"]):
        fit.with_cov(cluster)
    with pytest.warns(riesz.RieszWarning, match="clusters of `row`"):
        fit.with_cov("row")


def test_own_folds_that_cut_clusters_are_told(binary_frame: pd.DataFrame) -> None:
    with pytest.warns(riesz.RieszWarning, match="split 40 of 40 clusters of `village`"):
        riesz.ate("y ~ treat(a) + x1", binary_frame, folds=np.arange(400) % 4, cluster="village")
    riesz.ate("y ~ treat(a) + x1", binary_frame, folds=binary_frame["village"] % 4, cluster="village")


def test_the_bar_shows_how_training_stands(binary_frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    """After a moment's patience: fits done, networks, epoch and losses."""
    with tqdm(total=2, disable=False, delay=0.0) as bar:
        watch = crossfitting.Bar(bar, Event())
        watch.tell(epoch=1)
        assert not bar.postfix
        watch._next = 0.0
        watch.tell(networks="1 of 5", epoch=7, loss="0.3")
        assert "networks=1 of 5, epoch=7" in str(bar.postfix)
        watch.done()
        assert bar.n == 1
    assert "epoch=7" in capsys.readouterr().err


def test_learners_tell_of_epochs(binary_frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, object]] = []
    monkeypatch.setattr(crossfitting.Bar, "tell", lambda self, **facts: told.append(facts))
    learner = riesz.MADNet(width=8, head_width=4, networks=2, repeats=1, stages=(riesz.Stage(1e-2, 3, 3),))
    riesz.ate("y ~ treat(a) + x1", binary_frame, learner=learner, folds=2)
    assert told[-1]["epoch"] == 3
    assert told[-1]["networks"] == "4 of 4"
    assert {"loss", "validation"} <= set(told[-1])


def test_networks_train_on_one_thread_and_leave_the_rest_as_it_was(binary_frame: pd.DataFrame) -> None:
    """Small products on several threads mostly wait, most of all on a busy machine; nothing stays changed."""
    seen: list[int] = []

    class Watched(riesz.MADNet):
        def fit(self, designs: Any, seeds: Any, watch: Any) -> Any:
            seen.extend(one["num_threads"] for one in threadpool_info())
            return super().fit(designs, seeds, watch)

    learner = Watched(width=8, head_width=4, networks=1, repeats=1, stages=(riesz.Stage(1e-2, 2, 2),))
    before = [one["num_threads"] for one in threadpool_info()]
    riesz.ate("y ~ treat(a) + x1", binary_frame, learner=learner, folds=2)
    assert set(seen) == {1}
    assert [one["num_threads"] for one in threadpool_info()] == before
