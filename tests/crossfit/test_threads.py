"""Fits in several threads: an interrupt ends them soon, and nobody's number of threads stays changed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import riesz
from riesz.crossfit.progress import progress_bar
from riesz.design.design import Design
from riesz.learners import Fit
from riesz.learners.base import Watch
from riesz.learners.linear.learner import Linear

ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have set it to be ignored
import numpy as np, pandas as pd, riesz
from riesz.learners.splines import learner as splines
rng = np.random.default_rng(0)
x = rng.normal(size=(4000, 60))
a = (rng.uniform(size=4000) < .5) * 1.
data = pd.DataFrame(x, columns=[f"x{j}" for j in range(60)]).assign(a=a, y=a + x[:, 0] + rng.normal(size=4000))
solve = splines.solve
def told(*arguments, **keywords):
    os.write(1, b"closed forms\\n")  # in one piece, whichever thread writes
    return solve(*arguments, **keywords)
splines.solve = told
riesz.ate("y ~ treat(a) + .", data, learner=riesz.Splines(), n_jobs=2, progress=False)
"""


def ended_children() -> float:
    """CPU seconds that child processes took, of those that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_an_interrupt_is_heard_in_the_closed_forms(tmp_path: Path) -> None:
    """They take ten seconds and more here, and report no progress. Counted is CPU time, since other programs may be busy, too."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, str(script)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "closed forms\n"
            time.sleep(1.0)
            before, ended = sum(psutil.Process(process.pid).cpu_times()[:2]), ended_children()
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)
            taken = ended_children() - ended - before
        finally:
            process.kill()
    assert "KeyboardInterrupt" in told
    assert taken < 4


class Sleepy(Linear):
    """Is busy for a minute with something that cannot be interrupted."""

    awake = threading.Event()

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        Sleepy.awake.wait(60)
        return super().fit(designs, seeds, watch)


def test_an_interrupt_does_not_wait_for_threads(binary_frame: pd.DataFrame) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            riesz.ate("y ~ treat(a) + x1", binary_frame, learner=Sleepy(), n_jobs=2)
        assert time.monotonic() - begun < 3
    finally:
        Sleepy.awake.set()
        signal.signal(signal.SIGINT, before)


def test_closed_forms_stop_when_they_should(binary_frame: pd.DataFrame) -> None:
    """One thread fails, the other would work on for as long as it takes: it ends within its next block of rows."""
    ends: list[str] = []

    class Uneven(Linear):
        def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
            if len(designs) == 1:  # the second of two batches of three folds
                time.sleep(0.3)
                raise riesz.LearnerError("no more")
            try:
                while True:
                    super().fit(designs, seeds, Quiet())
            finally:
                ends.append(threading.current_thread().name)

    class Quiet:
        def done(self) -> None: ...

        def tell(self, **facts: object) -> None: ...

    with pytest.raises(riesz.LearnerError, match="no more"):
        riesz.ate("y ~ treat(a) + x1", binary_frame, learner=Uneven(), folds=3, n_jobs=2)
    deadline = time.monotonic() + 5
    while not ends and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(ends) == 1


def blas() -> list[int]:
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_fits_that_overlap_leave_the_number_of_threads_as_it_was(binary_frame: pd.DataFrame) -> None:
    """The first one in is not the last one out: it used to leave what it found, and the last one what the first had set."""
    one_in, two_in, one_out = threading.Event(), threading.Event(), threading.Event()
    seen: list[int] = []

    class First(riesz.MADNet):
        def fit(self, designs: Any, seeds: Any, watch: Any) -> Any:
            one_in.set()
            assert two_in.wait(60)
            seen.extend(blas())
            return super().fit(designs, seeds, watch)

    class Second(riesz.MADNet):
        def fit(self, designs: Any, seeds: Any, watch: Any) -> Any:
            two_in.set()
            assert one_out.wait(60)
            seen.extend(blas())
            return super().fit(designs, seeds, watch)

    small: dict[str, Any] = {"width": 8, "head_width": 4, "repeats": 1, "stages": (riesz.Stage(1e-2, 2, 2),)}
    left: dict[str, int] = {}

    def fit(name: str, learner: riesz.MADNet) -> None:
        if name == "second":
            assert one_in.wait(60)
        riesz.ate("y ~ treat(a) + x1", binary_frame, learner=learner, folds=2)
        if name == "first":
            one_out.set()
        left[name] = torch.get_num_threads()

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(2, user_api="blas"):
            threads = [
                threading.Thread(target=fit, args=("first", First(**small))),
                threading.Thread(target=fit, args=("second", Second(**small))),
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            assert set(seen) == {1}
            assert set(blas()) == {2}
        found: list[int] = []
        new = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        new.start()
        new.join()
        assert found == [2]
        assert left == {"first": 2, "second": 2}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_many_fits_at_once_are_those_of_one_after_the_other(binary_frame: pd.DataFrame) -> None:
    small = riesz.MADNet(width=8, head_width=4, repeats=1, stages=(riesz.Stage(1e-2, 3, 3),))
    alone = [riesz.ate("y ~ treat(a) + x1", binary_frame, learner=small, folds=2, seed=seed) for seed in range(4)]
    found: dict[int, np.ndarray] = {}

    def fit(seed: int) -> None:
        found[seed] = riesz.ate(
            "y ~ treat(a) + x1", binary_frame, learner=small, folds=2, seed=seed, n_jobs=2
        ).influence

    with threadpool_limits(2, user_api="blas"):
        threads = [threading.Thread(target=fit, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert set(blas()) == {2}
    for seed, one in enumerate(alone):
        np.testing.assert_array_equal(found[seed], one.influence)


NOTEBOOK = """
import sys, types, warnings
sys.modules["ipykernel.zmqshell"] = types.ModuleType("ipykernel.zmqshell")  # what tqdm knows a kernel by
warnings.simplefilter("always")
heard = []
warnings.showwarning = lambda message, *_: heard.append(str(message))
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.config["IPKernelApp"] = type(shell.config)()
shell.display_pub = CapturingDisplayPublisher()
import riesz
from riesz.crossfit import crossfit as crossfitting
crossfitting.PATIENCE = 0.0
data = riesz.datasets.get("binary").draw(200, seed=1).data
learner = riesz.MADNet(width=8, head_width=4, repeats=1, stages=(riesz.Stage(1e-2, 3, 3),))
for options in ({}, {"n_jobs": 2}, {"progress": True}, {"progress": False}):
    riesz.ate("y ~ treat(a) + x1", data, learner=learner, **options)
riesz.montecarlo.study("binary", 100, range(2), verbs=["ate"], learner="linear")
assert not heard, heard  # tqdm swallows errors that are warnings
shown = {}
for one in shell.display_pub.outputs:
    assert set(one["data"]) <= {"text/plain"}, one
    shown.setdefault(one["transient"]["display_id"], []).append(one["data"])
for course in shown.values():
    assert any("it" in line.get("text/plain", "") or "/" in line.get("text/plain", "") for line in course), course
    assert course[-1] == {}, course[-1]
print(len(shown), "outputs")
"""


def test_a_notebook_keeps_no_bar_and_hears_no_warning(tmp_path: Path) -> None:
    """Without ipywidgets, too: bars are text, and the output they were shown in is empty in the end."""
    script = tmp_path / "cell.py"
    script.write_text(NOTEBOOK)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) >= 3
    assert "fitting" not in done.stderr


def test_a_terminal_gets_a_bar_on_the_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(total=2, desc="fitting", disable=False) as bar:
        bar.update()
    assert "fitting" in capsys.readouterr().err
