"""A study's file holds one study and only whole draws; its workers end with it; bad arguments are errors before any fit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest

import riesz
from riesz import montecarlo

ROOT = Path(__file__).parents[1]
USUAL: dict[str, Any] = {"simulation": "binary", "n": 100, "verbs": ["ate", "att"], "learner": "linear"}


def run(path: Path | None, draws: Any = range(4), **changes: Any) -> pd.DataFrame:
    options = {**USUAL, **changes}
    return montecarlo.study(options.pop("simulation"), options.pop("n"), draws, path=path, progress=False, **options)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"simulation": "weak_overlap"}, "simulation is 'binary' in the file and 'weak_overlap' in this call"),
        ({"n": 120}, "n is 100 in the file and 120 in this call"),
        ({"formula": "y ~ treat(a) + x1"}, r"formula is .* in the file and 'y ~ treat\(a\) \+ x1' in this call"),
        ({"verbs": ["ate"]}, r"verbs is \['ate', 'att'\] in the file and \['ate'\] in this call"),
        ({"learner": riesz.Linear(penalty=0)}, "learner.penalty is 'loo' in the file and 0 in this call"),
        ({"learner": "kernel_embedding"}, "learner is 'Linear' in the file and 'KernelEmbedding' in this call"),
        ({"folds": 2}, "folds is 5 in the file and 2 in this call"),
        ({"seed": 3}, "seed is 'that of the draw' in the file and 3 in this call"),
        ({"trim": 20}, "trim is None in the file and 20 in this call"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_another_study_refuses_the_file(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = tmp_path / "draws.csv"
    before = run(path, range(2))
    text = path.read_text()
    with pytest.raises(riesz.RieszError, match=words) as caught:
        run(path, range(2), **changes)
    assert "draws.csv" in str(caught.value)
    assert "another path" in str(caught.value)
    assert path.read_text() == text
    pd.testing.assert_frame_equal(run(path, range(2)), before)


def test_the_same_study_resumes_with_equivalent_arguments(tmp_path: Path) -> None:
    """Defaults that are spelt out, threads, processes and bars do not make it another study."""
    path = tmp_path / "draws.csv"
    run(path, range(2), n_jobs=1)
    run(path, range(3), learner=riesz.Linear(), folds=5, n_jobs=2)
    alone = run(None, range(4))
    pd.testing.assert_frame_equal(run(path, range(4), processes=1, verbs=("ate", "att"), family="gaussian"), alone)
    assert len(pd.read_csv(path)) == 8


def test_only_the_requested_draws_are_returned(tmp_path: Path) -> None:
    path = tmp_path / "draws.csv"
    run(path, range(4))
    assert run(path, [2, 1])["draw"].tolist() == [1, 1, 2, 2]


def test_the_file_is_read_to_the_last_digit(tmp_path: Path) -> None:
    path = tmp_path / "draws.csv"
    alone = run(path, range(6))
    pd.testing.assert_frame_equal(run(path, range(6)), alone, check_exact=True)


@pytest.mark.parametrize("cut", [1, 12, 60, 150, 230])
def test_an_incomplete_end_is_dropped_and_run_again(tmp_path: Path, cut: int) -> None:
    """Killed while writing: in the last field, in the last line, in the line before it (one draw has two lines)."""
    path = tmp_path / "draws.csv"
    whole = run(path)
    content = path.read_bytes()
    path.write_bytes(content[:-cut])
    found = run(path)
    assert found[["estimate", "std_error", "truth"]].notna().all().all()
    pd.testing.assert_frame_equal(found, whole, check_exact=True)
    pd.testing.assert_frame_equal(pd.read_csv(path).sort_values("draw", kind="stable", ignore_index=True), whole)


def test_an_incomplete_line_in_the_middle_is_dropped_and_run_again(tmp_path: Path) -> None:
    """An earlier version continued the file after an incomplete line."""
    path = tmp_path / "draws.csv"
    whole = run(path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:4], lines[4][:30] + lines[5], *lines[6:]]))
    pd.testing.assert_frame_equal(run(path), whole, check_exact=True)
    assert len(path.read_text().splitlines()) == 9


def test_rows_that_were_written_twice_count_once(tmp_path: Path) -> None:
    path = tmp_path / "draws.csv"
    whole = run(path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, *lines[1:5]]))
    pd.testing.assert_frame_equal(run(path), whole, check_exact=True)


def test_missing_standard_errors_are_not_incomplete_lines(tmp_path: Path) -> None:
    """A learner of mu alone has none."""
    path = tmp_path / "draws.csv"
    whole = run(path, range(2), learner="kernel_embedding")
    assert whole["std_error"].isna().all()
    text = path.read_text()
    pd.testing.assert_frame_equal(run(path, range(2), learner="kernel_embedding"), whole)
    assert path.read_text() == text


def test_a_file_that_does_not_name_its_study_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "draws.csv"
    run(path, range(2))
    Path(f"{path}.json").unlink()
    with pytest.raises(riesz.RieszError, match=r"draws\.csv\.json, which describes their study, is missing"):
        run(path, range(2))


def test_another_kind_of_file_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(riesz.RieszError, match=r"notes\.csv is not the file of a study"):
        run(path)
    assert path.read_text() == "a,b\n1,2\n"


def test_after_a_file_is_removed_another_study_may_use_its_path(tmp_path: Path) -> None:
    path = tmp_path / "draws.csv"
    run(path, range(2))
    path.unlink()
    assert len(run(path, range(2), n=120)) == 4
    assert json.loads(Path(f"{path}.json").read_text())["n"] == 120


def children(pid: int) -> list[psutil.Process]:
    """Worker processes, except the tracker of shared resources."""
    return [
        one for one in psutil.Process(pid).children(recursive=True) if "resource_tracker" not in " ".join(one.cmdline())
    ]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[str], tuple[subprocess.Popen[bytes], list[psutil.Process]]]]:
    """Start a study in a separate process, and wait until its two workers are busy."""
    processes: list[psutil.Process] = []

    def start(options: str) -> tuple[subprocess.Popen[bytes], list[psutil.Process]]:
        script = tmp_path / "script.py"
        path = tmp_path / "draws.csv"
        script.write_text(
            "import signal\n"
            "from riesz import montecarlo\n"
            "if __name__ == '__main__':\n"
            "    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have set it to be ignored\n"
            f"    montecarlo.study('binary', 100, range(4000), verbs=['ate', 'att'], path={str(path)!r}, processes=2,\n"
            f"                     progress=False, {options})\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        parent = subprocess.Popen([sys.executable, str(script)], cwd=ROOT, env=environment, stderr=subprocess.PIPE)
        processes.append(psutil.Process(parent.pid))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(children(parent.pid)) < 2:
            time.sleep(0.05)
        workers = children(parent.pid)
        processes.extend(workers)
        assert len(workers) == 2
        return parent, workers

    yield start
    for one in processes:
        if one.is_running():
            one.kill()


def test_workers_end_with_a_killed_parent_and_the_study_resumes(started: Any, tmp_path: Path) -> None:
    path = tmp_path / "draws.csv"
    parent, workers = started("learner='linear'")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(path.read_bytes()) < 1000:
        time.sleep(0.02)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert not alive
    last = int(pd.read_csv(path)["draw"].max())
    found = run(path, range(last - 2, last + 2))
    pd.testing.assert_frame_equal(found, run(None, range(last - 2, last + 2)), check_exact=True)


def test_an_interrupt_ends_a_study_and_its_workers(started: Any) -> None:
    """A chunk of networks would take minutes; half a minute is enough to end all processes, even on a busy machine."""
    parent, workers = started("learner='madnet'")
    time.sleep(3)
    parent.send_signal(signal.SIGINT)
    _, errors = parent.communicate(timeout=30)
    assert b"KeyboardInterrupt" in errors
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert not alive


def test_a_draw_that_fails_ends_the_study(tmp_path: Path) -> None:
    """At once, not after the waiting chunks."""
    begun = time.monotonic()
    with pytest.raises(riesz.RieszError, match="folds=60"):
        run(tmp_path / "draws.csv", range(20_000), processes=2, folds=60)
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verbs": ["nope"]}, "verbs has 'nope'.* The verbs of binary are `ate`, `att`"),
        ({"verbs": ["atee"]}, "Did you mean `ate`"),
        ({"verbs": []}, "verbs is empty"),
        ({"verbs": ["ate", "ate"]}, "verbs has 'ate' twice"),
        ({"verbs": 3}, "verbs is 3"),
        ({"simulation": "nope"}, "no simulation 'nope'"),
        ({"simulation": 7}, "simulation is 7"),
        ({"n": 0}, "n=0"),
        ({"n": -5}, "n=-5"),
        ({"n": 2.5}, "n=2.5"),
        ({"n": "100"}, "n='100'"),
        ({"n": 10**30}, "n=1000"),
        ({"n": True}, "n=True"),
        ({"draws": []}, "draws is empty"),
        ({"draws": 5}, "draws is 5"),
        ({"draws": [-1]}, "draws has -1"),
        ({"draws": [1.5]}, "draws has 1.5"),
        ({"draws": ["a"]}, "draws has 'a'"),
        ({"draws": [1, 2, 1]}, "draws has 1 twice"),
        ({"processes": 0}, "processes=0"),
        ({"processes": 1.5}, "processes=1.5"),
        ({"processes": 10**30}, "processes=1000"),
        ({"formula": 3}, "formula is a int"),
        ({"foldz": 3}, "no keyword 'foldz'.* Did you mean `folds`"),
        ({"learner": "orchard"}, "learner='orchard'"),
        ({"path": 3}, "path=3"),
        ({"path": "."}, "is a folder"),
        ({"path": "no/such/folder/draws.csv"}, "no/such/folder"),
    ],
    ids=str,
)
def test_bad_arguments_are_errors_before_any_fit(
    changes: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("a draw was made")

    monkeypatch.setattr(montecarlo, "_chunk", refuse)
    options: dict[str, Any] = {"draws": range(3), "path": None, **changes}
    with pytest.raises(riesz.RieszError, match=words):
        run(options.pop("path"), options.pop("draws"), **options)


def test_a_bad_option_begins_no_draws(tmp_path: Path) -> None:
    path = tmp_path / "draws.csv"
    with pytest.raises(riesz.RieszError, match="folds=0"):
        run(path, folds=0)
    assert not path.exists()


def test_numbers_of_numpy_and_one_verb_are_fine() -> None:
    found = run(None, np.arange(2), n=np.int64(100), verbs="ate", processes=np.int64(1))
    assert found["verb"].tolist() == ["ate", "ate"]
