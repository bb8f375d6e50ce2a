"""Benchmarks go on where they stopped, and what their pages say is what the committed result files hold."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> object:
    """Import a script by its name, with its neighbours in reach."""
    for folder in (BENCHMARKS, BENCHMARKS / "paper"):
        monkeypatch.syspath_prepend(folder)
    return importlib.import_module


@pytest.fixture
def tables(script) -> ModuleType:
    return script("tables")


def test_tables_of_the_paper_are_those_of_the_files(tables: ModuleType) -> None:
    """`python benchmarks/paper/tables.py --write` makes them anew."""
    text = tables.README.read_text()
    assert tables.placed(text) == text


def test_a_table_without_a_place_is_told(tables: ModuleType) -> None:
    with pytest.raises(SystemExit, match="one place for table 1"):
        tables.placed("no marks")


def test_every_row_of_the_paper_has_a_run(script, tables: ModuleType) -> None:
    published, known = pd.read_csv(tables.HERE / "published.csv"), script("semisynthetic").learners()
    plans = [tables.planned(published, table) for table in (1, 2, 3)]
    assert {name for plan in plans for _, name in plan} == set(published["learner"])
    assert set(published["learner"]) <= known.keys()
    assert plans[0]["ihdp", "dragonnet-paper"] == plans[1]["ihdp", "dragonnet-paper"] == 1000
    assert plans[1]["bhp", "madnet-paper-ade-fc"] == plans[2]["bhp", "madnet-paper-ade-penalty1"] == 100


@pytest.fixture
def ihdp(tmp_path: Path) -> Path:
    """Files of the shape of IHDP's, with three data sets of 150 rows."""
    rng, n = np.random.default_rng(0), 150
    names = [f"x{j}" for j in range(1, 26)]
    x = pd.DataFrame(rng.normal(size=(n, 25)), columns=names)
    a = (rng.random(n) < 0.4).astype(np.uint8)
    x.assign(row=np.arange(n), a=a).to_parquet(tmp_path / "ihdp_covariates.parquet")
    k = pd.DataFrame(rng.choice([0, 0.1], size=(3, 25)), columns=[f"b{j}" for j in range(1, 26)])
    k.assign(c0=-0.5, c1=4.0, dataset=np.arange(3)).to_parquet(tmp_path / "ihdp_coefficients.parquet")
    index = k.to_numpy() @ x.to_numpy().T
    y = np.where(a == 1, 4 + index, np.exp(index - 0.5)) + rng.normal(size=index.shape)
    long = {"dataset": np.repeat(np.arange(3), n), "row": np.tile(np.arange(n), 3), "y": y.ravel()}
    pd.DataFrame(long).sample(frac=1, random_state=1).to_parquet(tmp_path / "ihdp_outcomes.parquet")
    return tmp_path


def test_a_study_goes_on_where_it_stopped(
    script, ihdp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    semisynthetic = script("semisynthetic")
    monkeypatch.setattr(semisynthetic, "RESULTS", ihdp / "results")
    study = semisynthetic.Study("ihdp", "linear")
    first = study.run(str(ihdp), [0, 1], 1)
    assert list(first["dataset"]) == [0, 1]
    assert ((first["dr"] - first["truth"]).abs() < 4 * first["std_error"]).all()
    assert first["truth"].to_numpy() == pytest.approx([semisynthetic.IHDP(ihdp).effects(d).mean() for d in (0, 1)])
    file = ihdp / "results" / "ihdp_linear_folds1_repeats1.csv"
    first.assign(dr=first["truth"] + 0.5).to_csv(file, index=False)  # a mark that a second fit would wipe out
    both = study.run(str(ihdp), [0, 1, 2], 1)
    assert list(both["dataset"]) == list(both["seed"]) == [0, 1, 2]
    assert (both["dr"] - both["truth"]).iloc[:2].to_numpy() == pytest.approx(0.5)
    pd.read_csv(file).replace({"seed": {1: 0}}).to_csv(file, index=False)
    again = study.run(str(ihdp), [0, 1, 2], 1)  # a row of another seed is fitted anew
    assert list(again["dataset"]) == list(again["seed"]) == [0, 1, 2]
    assert (again["dr"] - again["truth"]).abs().to_numpy()[:2] == pytest.approx(
        [0.5, abs(first["dr"] - first["truth"])[1]]
    )
    study.show(both.iloc[:2])
    assert "2 data sets" in capsys.readouterr().out
    kept = json.loads(file.with_suffix(".json").read_text())
    assert kept["data_sets"] == 3
    assert kept["dr"]["mae"] == pytest.approx((again["dr"] - again["truth"]).abs().mean(), abs=1e-4)


def test_a_record_keeps_its_date_until_its_facts_change(script, tmp_path: Path) -> None:
    record, file = script("provenance").record, tmp_path / "made.json"
    record(file, "python made.py", {"error": 0.1, "old": 1})
    earlier = {**json.loads(file.read_text()), "date": "2020-01-01"}
    assert earlier["versions"].startswith("Python 3")
    for command, facts, dated_anew in (
        ("python made.py", {"error": 0.1, "old": 1}, False),
        ("python made.py", {"error": 0.2, "old": 1}, True),
        ("python made.py", {"error": 0.1}, True),
        ("python made.py --all", {"error": 0.1, "old": 1}, True),
    ):
        file.write_text(json.dumps(earlier))
        record(file, command, facts)
        found = json.loads(file.read_text())
        assert (found["date"] != "2020-01-01") == dated_anew
        assert {key: found[key] for key in found if key not in ("date", "versions")} == {"command": command, **facts}


def test_coverage_of_one_simulation_keeps_that_of_others(script) -> None:
    coverage = script("coverage")
    cell = {"n": 1000, "verb": "ate", "parameter": "ATE", "draws": 200, "coverage": 0.9, "rejected": False}
    before = pd.DataFrame(
        [
            {**cell, "simulation": "arms", "p_value": 0.004},
            {**cell, "simulation": "binary", "p_value": 0.5},
            {**cell, "simulation": "clustered", "p_value": 0.5, "draws": 10},
        ]
    )
    new = pd.DataFrame([{**cell, "simulation": "binary", "p_value": 0.9}])
    found = coverage.joined(new, before)
    assert list(zip(found["simulation"], found["p_value"], strict=True)) == [("binary", 0.9), ("arms", 0.004)]
    assert list(found["rejected"]) == [False, True]  # two cells now, so 0.005 is the bound
