"""Default number of repeats of cross-fitting, and defaults of MADNet."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import riesz

QUICK = {"width": 8, "head_width": 4, "stages": (riesz.Stage(1e-2, 3, 3),), "networks": 1}


@pytest.mark.parametrize(
    ("learner", "options", "expected"),
    [
        (riesz.MADNet(**QUICK), {"folds": 2}, 3),
        (riesz.MADNet(**QUICK), {"folds": np.int64(2)}, 3),
        (riesz.MADNet(**QUICK, repeats=2), {"folds": 2}, 2),
        (riesz.MADNet(**QUICK), {"folds": 2, "repeats": 1}, 1),
        (riesz.MADNet(**QUICK), {"folds": 1}, 1),
        (riesz.MADNet(**QUICK), {"folds": np.arange(400) % 2}, 1),
        (riesz.MADNet.paper(**QUICK), {"folds": 2}, 1),
        ("linear", {"folds": 2}, 1),
    ],
)
def test_the_learner_recommends_the_number_of_repeats(
    binary_frame: pd.DataFrame, learner: str | riesz.learners.Learner, options: dict[str, object], expected: int
) -> None:
    fit = riesz.ate("y ~ treat(a) + x1 + x2", binary_frame, learner=learner, **options)
    assert len(fit.stability().query("fold == 'all'")) == expected


def test_large_samples_are_split_once() -> None:
    """With few clusters there is as much chance in the folds as with few rows."""
    data = riesz.datasets.get("binary").draw(2001, seed=1).data.assign(town=np.arange(2001) % 20)
    learner = riesz.MADNet(width=2, head_width=2, stages=(riesz.Stage(1e-2, 1, 1),), networks=1)
    for options, expected in (({}, 1), ({"cluster": "town"}, 3), ({"repeats": 2}, 2)):
        fit = riesz.ate("y ~ treat(a) + x1", data, learner=learner, folds=2, **options)
        assert len(fit.stability().query("fold == 'all'")) == expected


def test_patience_shrinks_as_epochs_grow_longer() -> None:
    stage = riesz.Stage(1e-3, 50)
    assert [stage.waits(rows) for rows in (50, 800, 3200, 100_000)] == [10, 10, 5, 3]
    assert riesz.Stage(1e-3, 50, 0).waits(800) == 0
    for patience in (2.5, True, -1):
        with pytest.raises(riesz.errors.LearnerError, match="or None"):
            riesz.Stage(1e-3, 50, patience)


def test_the_patience_of_networks_depends_on_their_rows() -> None:
    """With 3200 rows the default patience is 5: the same epochs; a longer patience trains longer."""
    data = riesz.datasets.get("binary").draw(3200, seed=1).data
    lengths = []
    for patience in (None, 5, 20):
        learner = riesz.MADNet(
            width=4, head_width=4, networks=1, batch_size=800, stages=(riesz.Stage(0.1, 60, patience),)
        )
        lengths.append(riesz.ate("y ~ treat(a) + x1 + x2", data, learner=learner, folds=1).details()["epochs"].iloc[0])
    assert lengths[0] == lengths[1] < lengths[2]


def test_the_anchor_of_a_slope_does_not_depend_on_the_origin(continuous_frame: pd.DataFrame) -> None:
    """A treatment with another origin has the same rr, with the same diagnostics."""
    learner = riesz.MADNet(**QUICK, repeats=1)
    for question in (riesz.ADE(), riesz.Shift(0.1)):
        fits = [
            riesz.estimate("y ~ treat(d) + x1 + x2", frame, question, learner=learner, folds=2)
            for frame in (continuous_frame, continuous_frame.assign(d=continuous_frame["d"] + 100))
        ]
        readings = [fit.diagnostics()["rr_anchor"].iloc[0] for fit in fits]
        assert readings[0] == pytest.approx(readings[1], rel=0.02)
        assert fits[0].params.iloc[0] == pytest.approx(fits[1].params.iloc[0], rel=0.02, abs=0.02)


def test_the_text_states_the_defaults() -> None:
    learner, text = riesz.MADNet(), " ".join(str(riesz.MADNet.__doc__).split())
    assert (learner.networks, learner.validation) == (2, 0.2)
    assert (learner.usual_repeats(2000), learner.usual_repeats(2001)) == (3, 1)
    assert "Two small networks are trained on each training set, each with a different fifth" in text
    assert "by default three times with up to 2000 rows" in text


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (riesz.MADNet(), "MADNet"),
        (riesz.MADNet.paper(), "MADNet"),
        (
            riesz.MADNet(architecture="fully_connected", constraint="exact"),
            "MADNet (fully connected, exact)",
        ),
    ],
)
def test_a_summary_of_the_default_fits_a_terminal(learner: riesz.MADNet, words: str) -> None:
    """Default settings are left out: the description of a learner widens every table that shows it."""
    assert learner.describe("gaussian") == words
