"""What the pages on benchmarks say is what the committed result files hold."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", BENCHMARKS / "paper" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_of_the_paper_are_those_of_the_files(tables: ModuleType) -> None:
    """`python benchmarks/paper/tables.py --write` makes them anew."""
    text = tables.README.read_text()
    assert tables.placed(text) == text


def test_a_table_without_a_place_is_told(tables: ModuleType) -> None:
    with pytest.raises(SystemExit, match="one place for table 1"):
        tables.placed("no marks")
