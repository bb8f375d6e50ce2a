"""The architecture: imports point left only, modules and functions are short, and no code is repeated."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "riesz"

#: left to right, as data flow; a module belongs to the longest name here that it begins with
ORDER = [
    {"arrays", "errors", "registry", "version", "crossfit.threads"},
    {"families", "storage"},
    {"syntax"},
    {"estimands"},
    {"datasets"},
    {"design", "crossfit.folds"},
    {"sources"},
    {"predictions"},
    {"learners"},
    {"crossfit"},
    {"estimators"},
    {"inference"},
    {"diagnostics", "settings"},
    {"streaming"},
    {"plots"},
    {"results"},
    {"api"},
    {"montecarlo"},
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}


def place(module: str) -> str:
    """The entry of the order that a module belongs to."""
    names = [name for name in RANK if module == name or module.startswith(name + ".")]
    assert names, f"{module} has no place in the order of imports"
    return max(names, key=len)


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "riesz":
            inside = node.module.partition(".")[2]
            names |= {inside} if inside else {alias.name for alias in node.names}
            if inside and (ROOT / inside.replace(".", "/")).is_dir():  # from riesz.crossfit import folds
                files = {
                    alias.name
                    for alias in node.names
                    if (ROOT / inside.replace(".", "/") / f"{alias.name}.py").exists()
                }
                names = (names - {inside} if files else names) | {f"{inside}.{name}" for name in files}
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[2] for alias in node.names if alias.name.startswith("riesz.")}
    return names


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_left(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    if module == "__init__":
        return
    here = place(module)
    for name in sorted(imported(path)):
        there = place(name)
        assert there == here or RANK[there] < RANK[here], f"{module} imports {name}, which stands to its right"


def code_lines(text: str) -> set[int]:
    """Numbers of the lines that hold code: blank lines, comments and docstrings do not count."""
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in layout:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return lines


def test_code_is_counted_without_docstrings_and_comments() -> None:
    text = '"""What it holds.\n\nMore.\n"""\n\nx = """a\nb"""  # three\n\n\n# a comment\ndef f():\n    """Doc."""\n'
    assert code_lines(text) == {6, 7, 11}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_stay_small_and_say_what_they_hold(path: Path) -> None:
    text = path.read_text()
    assert len(code_lines(text)) <= 400
    assert ast.get_docstring(ast.parse(text))
    assert not re.search(r"^\s*print\(", text, flags=re.MULTILINE)


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_stay_short(path: Path) -> None:
    """At most 60 lines of code; their complexity is a rule of ruff."""
    text = path.read_text()
    lines = code_lines(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = lines & set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            assert len(inside) <= 60, f"{node.name} has {len(inside)} lines of code"


def test_no_eight_lines_of_code_are_repeated() -> None:
    """Imports do not count."""
    places: dict[tuple[str, ...], str] = {}
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        imports = {
            line
            for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        written = text.splitlines()
        lines = [written[number - 1].strip() for number in sorted(code_lines(text) - imports)]
        for start in range(len(lines) - 7):
            run = tuple(lines[start : start + 8])
            here = f"{path.relative_to(ROOT)} from `{run[0]}`"
            assert run not in places, f"{places[run]} is also in {here}"
            places[run] = here


def test_import_is_fast_and_quiet() -> None:
    """No heavy optional package, no network, no output at import."""
    code = "import sys, riesz; heavy = {'matplotlib', 'sklearn', 'torch', 'lightgbm'} & set(sys.modules); assert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stdout


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_design_package_reads_the_shared_arrays(path: Path) -> None:
    """Elsewhere a design shows only its rows, so that a learner cannot use those of another fold by accident."""
    if path.parent == ROOT / "design":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        assert not (isinstance(node, ast.Attribute) and node.attr in ("_base", "_rows") and _is_design(node.value)), (
            f"line {node.lineno} reads {node.attr} of a design"
        )


def _is_design(node: ast.expr) -> bool:
    """Whether an expression is not ``self``: classes outside of riesz.design have private attributes of their own."""
    return not (isinstance(node, ast.Name) and node.id == "self")


#: Modules that may use the whole sample of a fold's design, and for what.
WHOLE_SAMPLE = {
    "learners.adversarial.learner": "scales of the kernel",
    "learners.balancing.learner": "the dictionary is made once per sample; the signs of rr in its arms",
    "learners.linear.learner": "the signs of rr in its arms",
    "learners.boosting.fits": "the moment is a function of the whole sample",
    "learners.boosting.learner": "points and bins are made once per sample",
    "learners.compose": "one copy of the sample, with another family, for all folds",
    "learners.kernel.learner": "scales of the kernel",
    "learners.linear.standardise": "sums of squares are taken around a row that all folds share",
    "learners.neural.base": "networks of several folds share one feed",
    "learners.neural.dragonnet": "the moment is a function of the whole sample",
    "learners.neural.engine.fit": "a feed of new rows",
    "learners.neural.objectives.propensity_loss": "the moment is a function of the whole sample",
    "learners.sparse.learner": "the dictionary is made once per sample",
    "learners.splines.learner": "knots, mass points and scales; the arms",
    "learners.propensity.fits": "the moment is a function of the whole sample; the share of clipped rows",
    "learners.propensity.learner": "the moment is a function of the whole sample",
}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "learners").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_learners_that_use_the_whole_sample_are_listed(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    asks = any(
        isinstance(node, ast.Attribute) and node.attr == "sample" and _is_design(node.value)
        for node in ast.walk(ast.parse(path.read_text()))
    )
    assert asks == (module in WHOLE_SAMPLE), module
