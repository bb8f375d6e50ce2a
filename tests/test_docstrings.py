"""Every public name has a docstring with an example, which the doctests run, and is in the reference."""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import riesz

VIGNETTES = Path(__file__).parents[1] / "vignettes"
REFERENCE = VIGNETTES / "reference"
sys.path.insert(0, str(VIGNETTES))

from registered import BLOCKS, expand  # noqa: E402

#: not called, so nothing to show
PLAIN = {"riesz.__version__", "riesz.datasets.SIMULATIONS", "riesz.plots.PLOTS"}


def names() -> Iterator[tuple[str, Any]]:
    """Public names: those of the package, of its modules, and the members of the results of a fit."""
    for name in riesz.__all__:
        yield f"riesz.{name}", getattr(riesz, name)
    for module in (riesz.datasets, riesz.plots):
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)
    for name, value in vars(riesz.montecarlo).items():
        if inspect.isfunction(value) and value.__module__ == "riesz.montecarlo" and not name.startswith("_"):
            yield f"riesz.montecarlo.{name}", value
    for kind in (riesz.Results, riesz.Effects, riesz.Comparison, type(riesz.defaults)):
        for name, value in inspect.getmembers_static(kind):
            if not name.startswith("_") and hasattr(value, "__get__"):  # methods and properties
                yield f"riesz.{kind.__name__}.{name}", value


PUBLIC = {name: value for name, value in names() if name not in PLAIN}


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring_has_an_example(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name])
    assert text, f"{name} has no docstring"
    assert doctest.DocTestParser().get_examples(text), f"the docstring of {name} has no example"


def test_there_are_public_names() -> None:
    """So that the test above cannot pass because it checks nothing."""
    assert {"riesz.ate", "riesz.Results.influence", "riesz.Effects.heterogeneity", "riesz.plots.qq"} <= set(PUBLIC)
    assert len(PUBLIC) > 120


@pytest.mark.parametrize("name", riesz.__all__)
def test_reference_has_every_name(name: str) -> None:
    pages = "\n".join(expand(page.read_text(encoding="utf-8")) for page in REFERENCE.glob("*.md"))
    directive = rf"(auto(function|class|exception|module)|py:data):: riesz\.{name}\b"
    assert name == "__version__" or re.search(directive, pages), f"riesz.{name} is on no page of {REFERENCE}"


def test_reference_pages_name_existing_lists() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    assert set(re.findall(r"^\.\. registered:: (.+)$", pages, flags=re.MULTILINE)) == BLOCKS.keys()
    assert "registered" not in expand(pages).replace("registered here", "")


def test_reference_has_every_member_of_results() -> None:
    page = (REFERENCE / "results.md").read_text(encoding="utf-8")
    assert [name for name in PUBLIC if name.startswith("riesz.Results.") and f":: {name}\n" not in page] == []


@pytest.mark.parametrize("module", [riesz.datasets, riesz.plots, riesz.montecarlo], ids=lambda m: m.__name__)
def test_reference_has_the_functions_of_a_module(module: Any) -> None:
    page = (REFERENCE / f"{module.__name__.split('.')[1]}.md").read_text(encoding="utf-8")
    for name in PUBLIC:
        if name.startswith(module.__name__ + "."):
            assert f":: {name}\n" in page, f"{name} is not in the reference"
