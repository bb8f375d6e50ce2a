"""Imports point left only."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "riesz"

#: left to right; modules on one level do not import one another
LEVELS = [
    {"arrow", "errors", "formatting", "quoting", "replacement", "version"},
    {"arithmetic", "caller", "differences", "keywords", "progress", "selection", "study_files", "terms", "threads"},
    {"estimands", "formula", "frame"},
    {"allowlist", "moment"},
    {"evaluation", "harmless"},
    {"columns"},
    {"design"},
    {"assembly", "copies", "folds", "predictions"},
    {"extension", "learners"},
    {"crossfitting", "default_settings"},
    {"estimators", "trimming", "untrained"},
    {"inference"},
    {"diagnostics", "model", "summary"},
    {"plots", "remarks"},
    {"preparation", "storage"},
    {"results"},
    {"comparison", "contrasts", "estimation", "loading"},
    {"api"},
    {"datasets"},
    {"montecarlo"},
]
RANK = {name: rank for rank, level in enumerate(LEVELS) for name in level}


def package(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {name.split(".")[1] for name in names if name.startswith("riesz.")}
        if isinstance(node, ast.ImportFrom) and node.module == "riesz":
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_left(path: Path) -> None:
    here = package(path)
    if here == "__init__":
        return
    assert here in RANK, f"{here} has no place in the order of imports"
    for name in imported(path) - {here}:
        assert RANK[name] < RANK[here], f"{path.name} imports {name}, which stands to its right"


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_stay_small_and_say_what_they_hold(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text))
    assert not re.search(r"^\s*print\(", text, flags=re.MULTILINE)


def test_import_is_fast_and_quiet() -> None:
    """No heavy optional package, no network, no output at import."""
    code = "import sys, riesz; heavy = {'matplotlib', 'sklearn', 'torch'} & set(sys.modules); assert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stdout
