"""The default learner: what verbs use if no learner is given, and how to change it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pandas as pd
import pytest

import riesz
from riesz import montecarlo
from riesz.settings import Defaults, chosen

TINY = riesz.MADNet(width=8, head_width=4, networks=1, stages=(riesz.Stage(1e-2, 2, 2),))


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = riesz.defaults.learner
    yield
    riesz.defaults.learner = before


def test_verbs_use_a_stack_by_default() -> None:
    """In another process, because the tests set another default in this one."""
    code = "import riesz; from riesz.settings import chosen; print(chosen(None) == riesz.Stack(), riesz.defaults)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split(maxsplit=1) == ["True", "Defaults(learner='auto')\n"]
    assert Defaults().learner == "auto"


def test_a_verb_takes_the_default_when_no_learner_is_given(binary_frame: pd.DataFrame) -> None:
    riesz.defaults.learner = TINY
    formula = "y ~ treat(a) + x1 + x2"
    fit = riesz.ate(formula, binary_frame, folds=2)
    assert fit.model.learner == TINY
    assert len(fit.history) > 0
    assert "MADNet" in str(fit.summary())
    pd.testing.assert_series_equal(fit.params, riesz.ate(formula, binary_frame, folds=2, learner=None).params)
    assert riesz.ate(formula, binary_frame, folds=2, learner="linear").model.learner == riesz.Linear()
    fits = riesz.estimate_many(formula, [binary_frame, binary_frame], riesz.ATE(), folds=2)
    assert [fit.model.learner for fit in fits] == [TINY, TINY]


def test_using_holds_inside_its_block_only() -> None:
    riesz.defaults.learner = "linear"
    with riesz.defaults.using(learner="propensity"):
        assert riesz.defaults.learner == "propensity"
        with riesz.defaults.using(learner=TINY):
            assert chosen(None) is TINY
        assert chosen(None) == riesz.Propensity()
    assert riesz.defaults.learner == "linear"


def test_using_ends_with_an_exception_too() -> None:
    riesz.defaults.learner = "linear"
    with pytest.raises(ZeroDivisionError), riesz.defaults.using(learner="propensity"):
        raise ZeroDivisionError
    assert riesz.defaults.learner == "linear"


@pytest.mark.parametrize("wrong", ["nonsense", "madnett", None, 3, riesz.MADNet])
def test_an_unknown_default_is_refused_as_a_verb_would_refuse_it(wrong: object, binary_frame: pd.DataFrame) -> None:
    before = riesz.defaults.learner
    with pytest.raises(riesz.LearnerError, match=r"is not known|is a class") as refusal:
        riesz.defaults.learner = wrong
    with pytest.raises(riesz.LearnerError, match=re.escape(str(refusal.value))), riesz.defaults.using(learner=wrong):
        pass
    assert riesz.defaults.learner is before
    if wrong is not None:  # which asks a verb for the default
        with pytest.raises(riesz.LearnerError) as verbs:
            riesz.ate("y ~ treat(a) + x1", binary_frame, learner=wrong)
        assert str(verbs.value) == str(refusal.value)


@pytest.mark.parametrize(("name", "hint"), [("folds", ""), ("learnr", r" Did you mean `learner`\?")])
def test_other_settings_are_refused(name: str, hint: str) -> None:
    with pytest.raises(
        riesz.RieszError, match=f"has no '{name}'.{hint} Its only setting is learner; everything else is a keyword"
    ):
        setattr(riesz.defaults, name, 3)
    assert not hasattr(riesz.defaults, name)


def test_defaults_have_a_repr() -> None:
    assert repr(Defaults()) == "Defaults(learner='auto')"
    assert repr(Defaults(riesz.Linear(penalty=0.5))).startswith("Defaults(learner=Linear(penalty=0.5")


def test_workers_of_a_study_use_the_default() -> None:
    """The penalty belongs to no named learner, so a worker can have it only from the default."""
    riesz.defaults.learner = riesz.Linear(penalty=50.0, rr_penalty=50.0)
    frames = [montecarlo.study("binary", 100, [1], verbs=["ate"], processes=k, progress=False) for k in (1, 2)]
    pd.testing.assert_frame_equal(*frames)
    plain = montecarlo.study("binary", 100, [1], verbs=["ate"], learner="linear", progress=False)
    assert plain["estimate"].item() != frames[0]["estimate"].item()
