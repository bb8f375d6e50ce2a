"""The wheel can be installed and used: tests what users get, not the working tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

EXAMPLE = """
import riesz
data = riesz.datasets.get("binary").draw(300, seed=1).data
fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
print(riesz.__file__, riesz.__version__, fit.nobs, sep="|")
"""


def run(*command: str, cwd: Path, **variables: str) -> str:
    """Standard output of a command; its error output if it fails."""
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy, because setuptools would also pack what an earlier build left in the tree."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    for name in ("pyproject.toml", "setup.cfg", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "riesz", source / "riesz", ignore=shutil.ignore_patterns("__pycache__"))
    # without isolation pip downloads nothing: setuptools comes from the dev extra
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(target), ".", cwd=source)
    (built,) = target.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "riesz").rglob("*.py")}
    assert modules | {"riesz/py.typed"} == {name for name in names if name.startswith("riesz/")}
    assert {name.split("/")[0].split("-")[0] for name in names} == {"riesz"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_installed_wheel_fits_from_another_directory(wheel: Path, tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(site), str(wheel), cwd=elsewhere)
    # dependencies come from the current environment; PYTHONPATH is searched before it
    printed = run(sys.executable, "-c", EXAMPLE, cwd=elsewhere, PYTHONPATH=str(site), OMP_NUM_THREADS="1")
    place, version, rows = printed.strip().split("|")
    assert Path(place).is_relative_to(site)
    assert wheel.name.startswith(f"riesz-{version}-")
    assert rows == "300"
