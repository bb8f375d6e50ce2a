"""Every chapter runs in seconds, and its prose contains no typed number that a cell should compute."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

VIGNETTES = Path(__file__).parents[1] / "vignettes"
sys.path.insert(0, str(VIGNETTES))

import cells  # noqa: E402

CHAPTERS = sorted(VIGNETTES.glob("[0-9]*.md"))

#: CPU seconds of a chapter's process after imports; not affected by other load on the machine
BUDGET = 15.0
#: seconds on the clock after which a chapter counts as hanging
PATIENCE = 240.0


def execute(path: Path, patience: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run a chapter in a separate process, in fast mode and on one thread."""
    code = f"import sys, cells; sys.exit(cells.main([{str(path)!r}], {patience}))"
    threads = dict.fromkeys(["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "1")
    places = [str(VIGNETTES), str(VIGNETTES.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        **threads,
        "RIESZ_FAST": "1",
        "PYTHONPATH": os.pathsep.join(places),
        "MPLBACKEND": "agg",
    }
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=VIGNETTES, check=False
    )


def cpu_seconds(said: str) -> float:
    return float(re.search(r"([\d.]+) s of CPU time", said)[1])


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_runs_in_fast_mode(path: Path) -> None:
    done = execute(path)
    assert done.returncode == 0, done.stderr
    seconds = cpu_seconds(done.stdout)
    assert seconds <= BUDGET, f"{path.name} took {seconds:.1f} s of CPU time in fast mode; {BUDGET:.0f} s is the most"


@pytest.mark.parametrize("path", sorted(VIGNETTES.rglob("*.md")), ids=lambda path: path.stem)
def test_prose_types_no_result(path: Path) -> None:
    typed = cells.typed_numbers(path)
    advice = "use the eval role for results, $0.3$ or `0.3` for settings, a comment such as `% quoted: 0.3` for numbers of others"
    assert not typed, f"{path.name} types numbers (line: number): {typed}; {advice}"


def write(folder: Path, text: str) -> Path:
    path = folder / "99-trial.md"
    path.write_text(text, encoding="utf-8")
    return path


def complaint(path: Path) -> str:
    with pytest.raises(cells.ChapterError) as raised:
        cells.run(path)
    return str(raised.value)


def test_error_of_a_failing_cell_has_chapter_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, "# Trial\n\n```{code-cell} ipython3\n:tags: [hide-input]\nx = 1\ny = x / 0\n```\n")
    said = complaint(path)
    assert said.startswith("99-trial.md:5: this cell failed")
    assert "line 6" in said
    assert "ZeroDivisionError" in said


def test_error_of_a_failing_expression_has_chapter_and_line(tmp_path: Path) -> None:
    said = complaint(write(tmp_path, "# Trial\n\nThe answer is {eval}`1 + one`.\n"))
    assert said.startswith("99-trial.md:3: this eval failed")
    assert "NameError" in said


def test_error_of_a_hanging_cell_has_chapter_and_line(tmp_path: Path) -> None:
    done = execute(write(tmp_path, "```{code-cell} ipython3\nimport time\ntime.sleep(60)\n```\n"), patience=1.0)
    assert done.returncode == 1
    assert re.search(r"Timeout.*99-trial\.md.*line 3", done.stderr, flags=re.DOTALL)


def test_time_is_that_of_the_cells(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = "```{code-cell} ipython3\nimport time\nstart = time.process_time()\n"
    path = write(tmp_path, text + "while time.process_time() < start + 0.5:\n    pass\n```\n")
    assert cells.main([str(path)]) == 0
    assert 0.4 < cpu_seconds(capfd.readouterr().out) < 2


def test_warning_of_another_package_fails_the_chapter(tmp_path: Path) -> None:
    text = "```{code-cell} ipython3\nimport warnings\nwarnings.warn('old', FutureWarning, stacklevel=1)\n```\n"
    assert "FutureWarning: old" in complaint(write(tmp_path, text))


def test_steps_come_in_the_order_of_the_page(tmp_path: Path) -> None:
    text = (
        "---\nfile_format: mystnb\n---\n\n```{code-cell} ipython3\n:tags: [remove-cell]\nx = 1\n```\n\n"
        "Now {eval}`x`, shown as ``{eval}`x` ``.\n\n```python\nnot_run\n```\n\n"
        ":::{admonition} Solution\n:collapsible: closed\nIt is {eval}`x +\n 1`.\n:::\n\n"
        "```{code-cell} ipython3\n:tags: [raises-exception]\nx / 0\n```\n"
    )
    steps = cells.read(write(tmp_path, text)).steps
    assert [(step.kind, step.source, step.line) for step in steps] == [
        ("cell", "x = 1", 7),
        ("eval", "x", 10),
        ("eval", "x + 1", 18),
        ("cell", "x / 0", 24),
    ]
    assert steps[0].tags == {"remove-cell"}
    assert cells.run(tmp_path / "99-trial.md") == 4


def test_cell_inside_a_block_is_refused(tmp_path: Path) -> None:
    text = ":::{admonition} Solution\n```{code-cell} ipython3\nx = 1\n```\n:::\n"
    with pytest.raises(ValueError, match=r"99-trial.md:2: a cell inside another block"):
        cells.read(write(tmp_path, text))


@pytest.mark.parametrize(
    "line",
    [
        "The estimate is {eval}`fit.params['ATE']`, or `0.73` in code.",
        "In mathematics $0.73$ and $$0.73 + 1$$ are free.",
        "A 95% interval, a level of 0.05 and 1,000 draws are choices, not results.",
        "Table 2.1 of the paper, Python 3.11, and [a link](https://example.org/v0.73).",
        "Chapters end in 1., then 2., and 24-26.",
        "The paper says 0.094.\n\n% quoted: 0.094",
    ],
)
def test_prose_that_is_free_of_typed_results(tmp_path: Path, line: str) -> None:
    assert cells.typed_numbers(write(tmp_path, line)) == []


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("The estimate is 0.73.", "0.73"),
        ("The estimate is **-0.73**, which", "-0.73"),
        ("There are 9,275 rows", "9,275"),
        ("| ATE | 5.4 |", "5.4"),
        (":::{note}\nabout 12.5% of them\n:::", "12.5"),
        ("The paper says 0.094.\n\n% quoted: 0.105", "0.094"),
    ],
)
def test_prose_with_a_typed_result(tmp_path: Path, line: str, number: str) -> None:
    assert [entry.split(": ")[1] for entry in cells.typed_numbers(write(tmp_path, line))] == [number]
