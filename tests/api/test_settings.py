"""Every keyword of a verb is stated once, in Settings; signatures, docstrings, models, refits and files agree with it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.estimands import ESTIMANDS
from riesz.results.file_settings import STORED, _trim
from riesz.results.sensitivity import Sensitivity
from riesz.settings import Options, Settings, keywords

NAMES = [field.name for field in fields(Settings)]
TAKERS: dict[str, Callable[..., Any]] = {
    **{f"riesz.{verb}": getattr(riesz, verb) for verb in ESTIMANDS},
    "riesz.estimate": riesz.estimate,
    "riesz.estimate_many": riesz.estimate_many,
    "riesz.montecarlo.study": riesz.montecarlo.study,
}

#: A value per field that is not its default, for one fit to `table()`.
OTHER: dict[str, Any] = {
    "learner": riesz.Linear(penalty=0.5),
    "estimator": "tmle",
    "folds": 3,
    "repeats": 2,
    "family": "binomial",
    "bounds": (-0.5, 1.5),
    "target": "sample",
    "weights": "w",
    "freq_weights": "count",
    "cluster": "town",
    "calibrate": "levels",
    "trim": "97.5%",
    "na_action": "raise",
    "seed": 7,
    "n_jobs": 2,
    "progress": False,
    "context": {"half": 0.5},
}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 240
    x, a = rng.normal(size=n), rng.integers(0, 2, n)
    y = (rng.normal(size=n) + a + x > 0).astype(float)
    columns = {"w": rng.uniform(1, 2, n), "count": rng.integers(1, 3, n), "town": rng.integers(0, 40, n)}
    return pd.DataFrame({"y": y, "a": a, "x1": x, "x2": rng.normal(size=n), **columns})


@pytest.fixture(scope="module")
def fit() -> riesz.Results:
    return riesz.ate("y ~ treat(a) + x1 + I(half * x2)", table(), **OTHER)


def test_the_values_above_are_of_every_field_and_not_its_default() -> None:
    assert list(OTHER) == NAMES
    assert all(OTHER[field.name] != field.default for field in fields(Settings))


@pytest.mark.parametrize("name", NAMES)
def test_type_checkers_know_the_same_keywords(name: str) -> None:
    assert get_type_hints(Options)[name] == keywords()[name][1]
    assert list(Options.__annotations__) == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("taker", TAKERS)
def test_signature_and_docstring_show_each_keyword(taker: str, name: str) -> None:
    field, kind = keywords()[name]
    parameter = inspect.signature(TAKERS[taker]).parameters[name]
    assert parameter.default == field.default
    assert parameter.annotation == kind
    assert parameter.kind is parameter.KEYWORD_ONLY
    text = inspect.getdoc(TAKERS[taker])
    assert text is not None
    assert text.count(f"\n{name} : {field.metadata['kind']}\n") == 1
    assert field.metadata["text"] in " ".join(text.split())


@pytest.mark.parametrize("taker", TAKERS)
def test_no_catch_all_is_left(taker: str) -> None:
    assert "**options" not in str(inspect.getdoc(TAKERS[taker]))
    kinds = {parameter.kind for parameter in inspect.signature(TAKERS[taker]).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


@pytest.mark.parametrize("name", NAMES)
def test_a_model_carries_each_setting(fit: riesz.Results, name: str) -> None:
    assert getattr(fit.model.settings, name) == OTHER[name]


def test_a_benchmark_refit_changes_only_what_it_must(fit: riesz.Results, monkeypatch: pytest.MonkeyPatch) -> None:
    carried: list[Settings] = []
    honest = Settings.cross_fit

    def spy(settings: Settings, problems: Any) -> Any:
        carried.append(settings)
        return honest(settings, problems)

    monkeypatch.setattr(Settings, "cross_fit", spy)
    fit.sensitivity_benchmark("x1")
    fit.sensitivity_benchmark("x1", n_jobs=1, progress=None)
    for name in NAMES:
        assert getattr(carried[0], name) == OTHER[name]
        assert getattr(carried[1], name) == (1 if name == "n_jobs" else OTHER[name])


def test_a_file_carries_each_setting_that_it_can_hold(fit: riesz.Results, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.riesz")
    loaded = riesz.load(tmp_path / "fit.riesz").model.settings
    assert {*STORED, "learner"} == {*NAMES} - {"context"}
    for name in (*STORED, "learner"):
        assert getattr(loaded, name) == OTHER[name]
    assert loaded.context is None


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_arrays_become_columns_that_later_changes_do_not_reach(kind: str, tmp_path: Path) -> None:
    data = table()
    weights, town = data["w"].to_numpy(copy=True), data["town"].to_numpy(copy=True)
    town = town.astype(str).astype(object) if kind == "text" else town
    folds = (data["town"] % 3).to_numpy()
    data["block"] = data["town"] % 3
    given = {"weights": weights, "folds": folds, "cluster": [town, "block"]}
    fit = riesz.ate("y ~ treat(a) + x1", data, learner="linear", **given)
    weights[:] = 1.0
    town[:] = 0
    fit.save(tmp_path / "fit.riesz")
    for settings in (fit.model.settings, riesz.load(tmp_path / "fit.riesz").model.settings):
        np.testing.assert_array_equal(settings.weights, data["w"])
        np.testing.assert_array_equal(settings.folds, folds)
        labels, name = settings.cluster
        np.testing.assert_array_equal(labels.astype(str), data["town"].astype(str))
        assert (labels.name, name) == ("cluster 1", "block")


def test_old_files_convert() -> None:
    """A file that holds estimator, target, seed and trimming, but no settings."""
    file = Path(__file__).parents[1] / "data" / "learners" / "linear.riesz"
    settings = riesz.load(file).model.settings
    assert (settings.estimator, settings.target, settings.family, settings.bounds) == (
        "dr",
        "population",
        "gaussian",
        None,
    )


@pytest.mark.parametrize("trim", [None, 20.0, "99%", "97.5%", "99.9%", "33.3333333%", "0.1%", "57%"])
def test_a_stored_trimming_becomes_the_argument_that_gives_it(trim: float | str | None) -> None:
    trimming = Settings(learner="linear", trim=trim).trimming
    assert _trim(trimming) == trim


def test_settings_fill_in_learner_and_estimator() -> None:
    with riesz.defaults.using(learner="kernel_embedding"):
        settings = Settings()
    assert (settings.learner, settings.estimator) == (riesz.KernelEmbedding(), "direct")
    with riesz.defaults.using(learner="linear"):  # a change of the default does not reach settings that exist
        assert replace(settings, seed=1).learner == riesz.KernelEmbedding()


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in (riesz, riesz.datasets, riesz.plots, riesz.montecarlo):
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            here = module is not riesz.montecarlo or getattr(value, "__module__", None) == module.__name__
            if inspect.isfunction(value) and not name.startswith("_") and here:
                yield f"{module.__name__}.{name}", value


FUNCTIONS = dict(public_functions())


def test_the_public_functions_are_found() -> None:
    assert {*TAKERS, "riesz.load", "riesz.plots.forest", "riesz.datasets.get", "riesz.montecarlo.coverage"} <= {
        *FUNCTIONS
    }


def refusal(who: str, wrong: str, known: list[str]) -> str:
    """The message for a keyword that differs from the last known one by one letter."""
    if not known:
        return f"{who}() has no keyword {wrong!r}. It has no keywords."
    listed = f"Its keyword{' is' if len(known) == 1 else 's are'} {', '.join(known)}."
    return f"{who}() has no keyword {wrong!r}. Did you mean `{known[-1]}`? {listed}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_misspelt_keyword_is_refused_in_the_same_words(name: str) -> None:
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    known = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        assert name == "riesz.contrast"  # whose keywords are names of fits
        return
    wrong = f"{known[-1]}z" if known else "wrong"
    with pytest.raises(riesz.errors.ArgumentError) as caught:
        FUNCTIONS[name](**{wrong: 1})
    assert str(caught.value) == refusal(name, wrong, known)


CLASSES = [value for name in riesz.__all__ if inspect.isclass(value := getattr(riesz, name))]
SETTABLE = [cls for cls in CLASSES if issubclass(cls, (riesz.estimands.Estimand, riesz.learners.Learner, riesz.Stage))]


@pytest.mark.parametrize("cls", SETTABLE, ids=lambda cls: cls.__name__)
def test_a_misspelt_setting_of_a_class_is_refused_in_the_same_words(cls: type) -> None:
    assert len(SETTABLE) > 15
    known = [parameter.name for parameter in inspect.signature(cls).parameters.values()]
    wrong = f"{known[-1]}z" if known else "wrong"
    with pytest.raises(riesz.errors.ArgumentError) as caught:
        cls(**{wrong: 1})
    assert str(caught.value) == refusal(f"riesz.{cls.__name__}", wrong, known)


METHODS = [
    (cls, name, value)
    for cls in (riesz.Results, riesz.Effects, riesz.Comparison, Sensitivity)
    for name, value in inspect.getmembers(cls, inspect.isfunction)
    if not name.startswith("_")
]


@pytest.mark.parametrize(("cls", "name", "method"), METHODS, ids=lambda value: getattr(value, "__name__", value))
def test_a_misspelt_keyword_of_a_method_is_refused_in_the_same_words(cls: type, name: str, method: Any) -> None:
    parameters = list(inspect.signature(method).parameters.values())[1:]
    known = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        assert name == "plot"  # whose keywords are those of each kind of plot
        return
    wrong = f"{known[-1]}z" if known else "wrong"
    with pytest.raises(riesz.errors.ArgumentError) as caught:
        method(None, **{wrong: 1})
    assert str(caught.value).removeprefix("fit.") == refusal(name, wrong, known)


def test_static_type_checkers_accept_the_keywords_and_no_others(tmp_path: Path) -> None:
    calls = {
        'riesz.ate("y ~ treat(a)", data=data, folds=2, cluster="town", estimator="mine")': "",
        'riesz.ape("y ~ treat(a)", data, policy="x1 > 0", seed=1)': "",
        'riesz.estimate("y ~ treat(a)", data, riesz.ATE(), trim="99%", learner=riesz.Linear())': "",
        'riesz.estimate_many("y ~ treat(a)", [data], riesz.ATE(), seeds=[1], repeats=2)': "",
        'riesz.montecarlo.study("binary", 100, [1], verbs=["ate"], family="binomial")': "",
        'riesz.ate("y ~ treat(a)", data, fold=2)': 'Unexpected keyword argument "fold"',
        'riesz.estimate("y ~ treat(a)", data, riesz.ATE(), seed="a")': 'Argument "seed"',
    }
    file = tmp_path / "calls.py"
    file.write_text("\n".join(["from typing import Any", "import riesz", "data: Any = None", *calls]))
    command = [sys.executable, "-m", "mypy", str(file)]  # strict, as pyproject.toml says
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=root)
    for number, words in enumerate(calls.values(), start=4):
        lines = [line for line in done.stdout.splitlines() if f"calls.py:{number}: error" in line]
        assert (words in lines[0]) if words else not lines, done.stdout


def test_a_misspelt_keyword(confounded_frame: pd.DataFrame) -> None:
    with pytest.raises(TypeError, match=r"riesz.ate\(\) has no keyword 'clusters'. Did you mean `cluster`"):
        riesz.ate("y ~ treat(t)", confounded_frame, clusters="g")
