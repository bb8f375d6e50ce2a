"""Benchmarks resume where they stopped, and their pages agree with the committed result files."""

from __future__ import annotations

import importlib
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import riesz

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> object:
    """Import a script by its name, with the folder of the scripts in the search path."""
    for folder in (BENCHMARKS, BENCHMARKS / "paper"):
        monkeypatch.syspath_prepend(folder)
    return importlib.import_module


@pytest.fixture
def tables(script) -> ModuleType:
    return script("tables")


def test_tables_of_the_paper_agree_with_the_result_files(tables: ModuleType) -> None:
    """`python benchmarks/paper/tables.py --write` updates them."""
    text = tables.README.read_text()
    assert tables.placed(text) == text


def test_a_table_without_a_place_is_an_error(tables: ModuleType) -> None:
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


def test_a_study_resumes_where_it_stopped(
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
    both = study.run(str(ihdp), [0, 1, 2], 0)  # in this process
    assert list(both["dataset"]) == list(both["seed"]) == [0, 1, 2]
    assert (both["dr"] - both["truth"]).iloc[:2].to_numpy() == pytest.approx(0.5)
    pd.read_csv(file).replace({"seed": {1: 0}}).to_csv(file, index=False)
    again = study.run(str(ihdp), [0, 1, 2], 0)  # a row of another seed is fitted anew
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


def installed(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


needs_rivals = pytest.mark.skipif(not installed("doubleml", "lightgbm"), reason="needs doubleml and lightgbm")


@pytest.fixture
def worlds(script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = script("worlds")
    monkeypatch.setattr(module, "HERE", tmp_path)
    return module


def records_of(path: Path) -> dict[int, dict]:
    return {line["key"]: line for line in map(json.loads, path.read_text().splitlines()[1:])}


def test_worlds_record_the_fit_beside_the_truth_of_the_same_parameter(worlds: ModuleType, tmp_path: Path) -> None:
    worlds.main(["--kind", "arms", "--seeds", "even", "--count", "2", "--learner", "linear", "--jobs", "0"])
    entry = records_of(tmp_path / "raw" / "worlds_arms_linear_even.jsonl")[2]
    world = riesz.datasets.random_world(2, "arms")
    data = world.draw()
    fit = riesz.estimate(world.formula, data, world.estimand, learner="linear", seed=2, **world.keywords)
    oracle = world.oracle(data)
    assert [row["parameter"] for row in entry["parameters"]] == ["ATE_low", "ATE_high"]
    for place, row in enumerate(entry["parameters"]):
        assert row["truth"] == pytest.approx(world.truth[place])
        assert row["oracle"] == pytest.approx(oracle.estimate[place])
        assert row["oracle_std_error"] == pytest.approx(oracle.std_error[place])
        assert row["estimate"] == pytest.approx(fit.params[row["parameter"]], rel=1e-9)
        assert row["largest_rr"] == pytest.approx(fit.diagnostics().loc[row["parameter"], "largest_rr"], rel=1e-9)
        assert row["covered"] == (row["low"] <= row["truth"] <= row["high"])
    assert len(entry["warnings"]) == len(fit.warnings())
    assert "other" not in entry["warnings"]
    assert entry["labels"] == dict(world.factors)
    assert (entry["rows"], entry["covariates"]) == (world.n, len(world.covariates))
    table = pd.read_csv(tmp_path / "raw" / "worlds_arms_linear_even.csv")
    assert table.loc[0, ["factor", "fits", "intervals"]].tolist() == ["all", 2, 4]


def test_worlds_resume_where_they_stopped(worlds: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    arguments = ["--seeds", "even", "--learner", "linear", "--jobs", "0", "--count"]
    worlds.main([*arguments, "2"])
    file = tmp_path / "raw" / "worlds_binary_linear_even.jsonl"
    whole = file.read_text()
    file.write_text(whole.replace('"seconds": ', '"seconds": 1000.0, "was": ') + '{"key": 4, "libr')
    worlds.main([*arguments, "3"])
    again = records_of(file)
    assert list(again) == [0, 2, 4]
    assert [entry["seconds"] >= 1000 for entry in again.values()] == [True, True, False]  # only the third was fitted
    with pytest.raises(SystemExit, match=r"holds another study: options is \{\} there and \{'folds': 2\} here"):
        worlds.main([*arguments, "3", "--options", "folds=2"])
    with pytest.raises(SystemExit, match=r"holds another study: learner\.penalty"):
        worlds.main([*arguments[:3], "riesz.Linear(penalty=0)", "--name", "linear", "--jobs", "0", "--count", "3"])
    assert records_of(file) == again
    facts = json.loads((tmp_path / "raw" / "worlds_binary_linear_even.json").read_text())
    assert facts["overall"]["fits"] == 3
    assert "--learner linear" in facts["command"]
    assert "share_warned" in capsys.readouterr().out


def test_worlds_in_other_processes_are_the_same(worlds: ModuleType, tmp_path: Path) -> None:
    method = worlds.trials.method("linear")
    here = worlds.study("continuous", "even", method, [0, 2], 0)
    (tmp_path / "raw" / "worlds_continuous_linear_even.jsonl").unlink()
    there = worlds.study("continuous", "even", method, [0, 2], 2)
    for entry, other in zip(here, there, strict=True):
        assert {**entry, "seconds": 0} == {**other, "seconds": 0}


def test_a_fit_that_fails_is_recorded(worlds: ModuleType, tmp_path: Path) -> None:
    arguments = ["--seeds", "even", "--count", "2", "--learner", "linear", "--options", "folds=5001", "--jobs", "0"]
    worlds.main(arguments)
    file = tmp_path / "raw" / "worlds_binary_linear_even.jsonl"
    assert all("folds=5001" in entry["error"] for entry in records_of(file).values())
    facts = json.loads((tmp_path / "raw" / "worlds_binary_linear_even.json").read_text())
    assert (facts["overall"]["fits"], facts["overall"]["errors"], facts["overall"]["intervals"]) == (2, 2, 0)
    assert not any(entry["met"] for entry in facts["targets"].values())
    assert sum(facts["errors"].values()) == 2
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1].replace('"error": "', '"error": "before: '), lines[2]]) + "\n")
    worlds.main(arguments)
    assert any("before" in entry["error"] for entry in records_of(file).values())
    worlds.main([*arguments, "--retry"])
    assert not any("before" in entry["error"] for entry in records_of(file).values())


def test_learners_of_a_command_line(worlds: ModuleType) -> None:
    method = worlds.trials.method
    assert method("riesz.Linear(penalty=0)", "ols", ["folds=2"]).learner == riesz.Linear(penalty=0)
    assert method("linear", None, ["folds=2", "trim=99%"]).options == {"folds": 2, "trim": "99%"}
    for text, name, options, words in (
        ("lineer", None, [], "Did you mean `linear`"),
        ("riesz.Linear(penalty=0)", None, [], "needs a --name"),
        ("riesz.Nope()", "nope", [], "Nope"),
        ("linear", None, ["fold=2"], "fold"),
        ("doubleml-lightgbm", None, ["folds=2"], "do not apply"),
    ):
        with pytest.raises(SystemExit, match=words):
            method(text, name, options)
    assert worlds.seeds("odd", 10_001, 3) == worlds.seeds("odd", 10_000, 3) == [10_001, 10_003, 10_005]
    assert worlds.seeds("even", 1, 2) == [2, 4]


def fitted(
    key: int, estimate: float, se: float, warnings: tuple[str, ...] = (), note: str = "", **more: object
) -> dict:
    """A record of a fit of a parameter whose truth is 1, with an oracle of 1 (standard error 0.1)."""
    parameter = {
        "parameter": "ATE",
        "estimate": estimate,
        "std_error": se,
        "low": estimate - 1.96 * se,
        "high": estimate + 1.96 * se,
        "truth": 1.0,
        "oracle": 1.0,
        "oracle_std_error": 0.1,
        "covered": abs(estimate - 1) <= 1.96 * se,
    }
    facts = {"key": key, "library": "abc", "labels": {"rows": "300-800"}, "error": None, "seconds": 2.0 * key}
    return {**facts, "warnings": list(warnings), "first_note": note, "parameters": [parameter], **more}


def test_figures_of_records(script) -> None:
    tables = script("trial_tables")
    records = [
        fitted(1, 1.1, 0.1),
        fitted(2, 0.8, 0.1),
        fitted(3, 1.4, 0.1, ("weak_overlap", "imbalance"), labels={"rows": "2000-5000"}),
        {**fitted(4, 0, 1), "error": "DataError: no rows", "warnings": None},
    ]
    for name in ("estimate", "std_error", "low", "high", "covered"):
        records[3]["parameters"][0][name] = None
    frame = tables.intervals(records)
    found = tables.figures(frame)
    assert (found["fits"], found["errors"], found["intervals"]) == (4, 1, 3)
    assert found["coverage"] == pytest.approx(1 / 3)
    assert (found["coverage_unwarned"], found["coverage_warned"]) == (0.5, 0)
    assert found["share_warned"] == found["share_beyond_3"] == pytest.approx(1 / 3)
    assert found["rms_z"] == found["rms_distance"] == pytest.approx(np.sqrt((1 + 4 + 16) / 3))
    assert found["bias_oracle_error"] == pytest.approx(1)
    assert found["median_width"] == pytest.approx(1, abs=1e-4)
    assert found["median_seconds"] == 4
    by_factor = tables.by_factor(frame)
    assert by_factor["level"].tolist() == ["all", "300-800", "2000-5000"]
    assert by_factor["fits"].tolist() == [4, 3, 1]
    assert tables.warning_shares(records) == {"weak_overlap": 0.3333, "imbalance": 0.3333}
    assert tables.warning_shares(records, "rows") == {"300-800": {}, "2000-5000": {"weak_overlap": 1, "imbalance": 1}}
    judged = tables.judged(found)
    assert [name for name, entry in judged.items() if entry["met"]] == ["median_width"]
    assert tables.candidates(records) is None
    for record in records[:3]:
        estimate = record["parameters"][0]["estimate"]
        record["candidates"] = [
            {"parameter": "ATE", "candidate": "trees", "estimate": 1.0, "std_error": 0.2},
            {"parameter": "ATE", "candidate": "network", "estimate": estimate, "std_error": 0.1},
        ]
    alone = tables.candidates(records)
    assert alone.loc["trees"].tolist() == [3, 1, 0, 0, pytest.approx(2)]
    assert alone.loc["network", "coverage"] == pytest.approx(1 / 3)
    assert alone.loc["network", "rms_distance"] == pytest.approx(found["rms_distance"])


def test_values_as_json_holds_them(script) -> None:
    plain = script("trials").plain
    table = pd.DataFrame({"x": [1.0, np.nan]}, index=pd.Index(["a", "b"], name="name"))
    assert plain({"t": table, "n": np.float64(np.inf), 3: (np.int64(2), None)}) == {
        "t": [{"name": "a", "x": 1.0}, {"name": "b", "x": None}],
        "n": None,
        "3": [2, None],
    }
    levels = pd.MultiIndex.from_product([["ATE"], ["trees", "network"]], names=["parameter", "candidate"])
    assert plain(pd.DataFrame({"estimate": [1.0, 2.0]}, index=levels)) == [
        {"parameter": "ATE", "candidate": "trees", "estimate": 1.0},
        {"parameter": "ATE", "candidate": "network", "estimate": 2.0},
    ]


def test_designs_are_run_and_judged(script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    designs = script("designs")
    monkeypatch.setattr(designs, "HERE", tmp_path)
    cases = ["zero_inflated_1000", "strong_confounding"]
    designs.main(["--learner", "linear", "--seeds", "even", "--count", "2", "--jobs", "0", "--only", *cases])
    table = pd.read_csv(tmp_path / "raw" / "designs_linear.csv", index_col="case")
    assert table["fits"].tolist() == [2, 2]
    assert table.loc["zero_inflated_1000", "rms_distance"] > 5  # a linear mu and rr miss the jump at zero
    assert table.loc["zero_inflated_1000", "coverage"] == 0
    assert list(records_of(tmp_path / "raw" / "designs_zero_inflated_1000_linear_even.jsonl")) == [0, 2]
    misses, covers = (fitted(1, 1.5, 0.1, ("weak_overlap",), "Overlap fails."), fitted(2, 1.0, 0.1))
    silent = fitted(3, 1.5, 0.1, note="Largest |rr| 3.")
    assert designs.line("wave_20", [misses, covers])["met"]  # all that miss are warned
    assert designs.line("wave_20", [silent, *([covers] * 11)])["met"]  # 11 of 12 cover
    assert not designs.line("wave_20", [silent, *([covers] * 9)])["met"]
    assert designs.line(designs.STRONG, [misses, covers])["met"]
    row = designs.line(designs.STRONG, [misses, covers, {**silent, "warnings": ["imbalance"]}])
    assert not row["met"]
    assert (row["missed_told"], row["missed_unwarned"], row["overlap_alarm"]) == (0.5, 0, pytest.approx(1 / 3))
    assert row["rmse"] == pytest.approx(np.sqrt(0.5 / 3))


def test_results_are_compared_in_pairs(script, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare = script("compare")
    rng, n = np.random.default_rng(0), 60
    truth, noise = rng.normal(size=n), rng.normal(size=n)
    frames = {
        name: pd.DataFrame({"dataset": numbers, "truth": truth, "dr": truth + scale * noise, "covered": covered})
        for name, numbers, scale, covered in (
            ("before", np.arange(n), 0.1, True),
            ("after", np.arange(n), 0.2, False),
            ("shifted", np.arange(n) + 1, 0.2, False),
        )
    }
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    before, after = (compare.read(tmp_path / f"{name}.csv", "dr") for name in ("before", "after"))
    result = compare.paired(before, after)
    test = stats.ttest_rel(0.2 * np.abs(noise), 0.1 * np.abs(noise), alternative="greater")
    assert (result["t"], result["p_worse"]) == pytest.approx((test.statistic, test.pvalue))
    assert result["significantly_worse"]
    assert (result["coverage_before"], result["coverage_after"]) == (1, 0)
    assert result["rmse_ratio"] == pytest.approx(2)
    assert not compare.paired(after, before)["significantly_worse"]
    assert not compare.paired(before, before)["significantly_worse"]
    compare.main([str(tmp_path / "before.csv"), str(tmp_path / "after.csv"), "--datasets", "10-19"])
    assert "10 data sets in both files" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"truth of data set \d+ differs"):
        compare.paired(before, compare.read(tmp_path / "shifted.csv", "dr"))
    with pytest.raises(SystemExit, match="no column 'ddr'"):
        compare.read(tmp_path / "before.csv", "ddr")
    with pytest.raises(SystemExit, match="share no data sets"):
        compare.paired(before, after.assign(dataset="none " + after["dataset"]))


def test_draws_and_records_are_read_for_a_comparison(script, tmp_path: Path) -> None:
    compare = script("compare")
    draws = riesz.montecarlo.study("binary", n=100, draws=range(3), verbs=["ate", "att"], learner="linear")
    draws.to_csv(tmp_path / "draws.csv", index=False)
    frame = compare.read(tmp_path / "draws.csv", "dr")
    assert (frame["estimate"].tolist(), frame["dataset"].nunique()) == (draws["estimate"].tolist(), 3)
    lines = [
        {"study": "worlds"},
        fitted(1, 1.1, 0.1),
        {**fitted(2, 0.8, 0.1), "error": "DataError"},
        fitted(3, 0.8, 0.1),
    ]
    (tmp_path / "worlds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    frame = compare.read(tmp_path / "worlds.jsonl", "dr")
    assert frame["dataset"].tolist() == ["1", "3"]
    assert frame["covered"].tolist() == [1, 0]


def test_times_of_two_methods_on_the_same_draws(script) -> None:
    timing = script("time_against_doubleml")
    method = timing.trials.method
    both = timing.BothFits((method("linear"), method("riesz.Linear(penalty=0)", "ols")))
    keys = timing.keys([200, 300], [2, 1])
    assert keys == [
        "smooth 200 0",
        "smooth 200 2",
        "interacting 200 0",
        "interacting 200 2",
        "smooth 300 0",
        "interacting 300 0",
    ]
    records = [both(key) for key in keys[:3]]
    assert [list(entry["fits"]) for entry in records] == [["linear", "ols"], ["ols", "linear"], ["linear", "ols"]]
    for number, entry in enumerate(records):
        entry["fits"]["linear"]["seconds"], entry["fits"]["ols"]["seconds"] = 3.0 + number, 2.0
    table = timing.table(records, ("linear", "ols"))
    assert table[["case", "n", "draws", "errors"]].to_numpy().tolist() == [
        ["smooth", 200, 2, 0],
        ["interacting", 200, 1, 0],
    ]
    assert table["ratio"].tolist() == [1.75, 2.5]
    assert (table["median_width ols"] > 0.5).all()
    assert timing.judged(10_000, 2.004) == {"ratio": 2.0, "limit": 2.0, "met": False}


@needs_rivals
def test_rivals_estimate_the_effect(script) -> None:
    rivals = script("rivals")
    rng, n = np.random.default_rng(0), 400
    x = rng.normal(size=n)
    a = (rng.uniform(size=n) < 1 / (1 + np.exp(-x))).astype(float)
    data = pd.DataFrame({"y": 2 * a + x + rng.normal(size=n), "a": a, "x": x, "g": rng.choice(["u", "v", "w"], n)})
    row = rivals.fit("doubleml-lasso-rf", data, 2).loc["ATE"]
    assert abs(row["estimate"] - 2) < 4 * row["std_error"] < 3
    assert row["low"] < row["estimate"] < row["high"]
    assert 1 < row["largest_rr"] <= 100
    assert 0 < row["effective_n"] <= n
    pd.testing.assert_series_equal(rivals.fit("doubleml-lasso-rf", data, 2).loc["ATE"], row)
    binary = data.assign(y=(data["y"] > 1).astype(float))
    share = rivals.fit("doubleml-lightgbm", binary, 2).loc["ATE"]
    assert 0 < share["estimate"] < 1
    assert "LGBMClassifier" in " ".join(rivals.identity("doubleml-lightgbm")["settings"])


@needs_rivals
def test_rivals_are_for_binary_worlds(worlds: ModuleType) -> None:
    with pytest.raises(SystemExit, match="for binary worlds"):
        worlds.main(["--kind", "arms", "--learner", "doubleml-lasso-rf", "--count", "1", "--jobs", "0"])


def test_tables_that_only_stacks_have(script) -> None:
    stack_table = script("trials").stack_table
    data = riesz.datasets.get("binary").draw(200, seed=0).data
    fit = riesz.ate("y ~ treat(a) + x1", data, learner="kernel_embedding")
    assert stack_table(fit, "no_such_table") is None
    assert stack_table(fit, "diagnostics") is None  # refused, because this learner has no rr
    pd.testing.assert_frame_equal(stack_table(fit, "tidy"), fit.tidy())
    assert stack_table(fit, "estimates").equals(fit.estimates)
