"""One file and one line add a part to the package: done in a copy of it, for an estimand, learners, an estimator and a diagnostic.

Whatever a part needs beside its file and its line in the registry would make these tests fail.
"""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import riesz
from riesz.api import verbs
from riesz.diagnostics import DIAGNOSTICS
from riesz.estimands import ESTIMANDS, Estimand
from riesz.estimators import ESTIMATORS, Estimator
from riesz.learners import LEARNERS, Learner

ROOT = Path(__file__).parents[1]

ESTIMAND = '''
"""The effect of raising a positive treatment in proportion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from riesz.estimands.base import Component, Estimand, Sample
from riesz.estimands.treatment import TreatmentKind
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Scaled(Estimand):
    r"""Average derivative effect times a factor.

    .. math:: \\psi = E[c \\, \\partial_a \\mu(A, X)].

    Parameters
    ----------
    factor : float

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("continuous").draw(300, seed=1).data
    >>> riesz.scaled("y ~ treat(a) * .", data, factor=2.0, learner="linear").params.index.tolist()
    ['scaled']
    """

    factor: float = 2.0
    verb: ClassVar[str] = "scaled"

    def treatment_kind(self, column: pd.Series) -> TreatmentKind:
        return "number"

    def components(self, sample: Sample) -> tuple[Component, ...]:
        a = sample.treatment.name
        return (
            Component(
                name="scaled",
                moment=lambda mu, data: self.factor * mu.derivative(data, wrt=a),
                anchor=sample.centred(),
                symbol="E[c d mu / d a]",
                words="Scaled derivative",
            ),
        )
'''

LEARNER = '''
"""The mean of the outcome, whatever the treatment and the covariates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riesz.design.design import Design
from riesz.design.moment import Evaluation
from riesz.learners.base import Fit, Learner, Watch
from riesz.predictions import Predictions, no_representer
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True)
class Constant(Learner):
    """Mu is the mean of the outcome in the training rows.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> riesz.ate("y ~ treat(a) + x1", data, learner=riesz.Constant()).params.to_dict()
    {'ATE': 0.0}
    """

    learns_rr: ClassVar[bool] = False

    def fit(self, designs: Sequence[Design], seeds: Sequence[int], watch: Watch) -> Sequence[Fit]:
        fits = []
        for design in designs:
            fits.append(ConstantFit(float(design.mean(design.y))))
            watch.done()
        return fits


@stored
@dataclass(frozen=True)
class ConstantFit(Fit):
    """The mean."""

    level: float

    def predict(self, design: Design) -> Predictions:
        readings = len(design.is_derivative), len(design)
        mu = Evaluation(np.full(len(design), self.level), np.full(readings, self.level), np.zeros(readings))
        return Predictions(mu, no_representer(design), scale_free=False)
'''

NETWORK = '''
"""A small RieszNet."""

from __future__ import annotations

from dataclasses import dataclass

from riesz.learners.neural.engine.schedule import Stage
from riesz.learners.neural.riesznet import RieszNet
from riesz.storage.coding import stored


@stored
@dataclass(frozen=True, kw_only=True)
class TinyNet(RieszNet):
    """RieszNet with settings for a quick trial.

    Examples
    --------
    >>> import riesz
    >>> riesz.TinyNet().width
    8
    """

    width: int = 8
    depth: int = 1
    head_width: int = 4
    head_depth: int = 1
    stages: tuple[Stage, ...] = (Stage(1e-2, 5, 5),)
'''

ESTIMATOR = '''
"""The mean of the plug-in and the one-step estimator."""

from __future__ import annotations

from riesz.design.design import Design
from riesz.estimators import ESTIMATORS
from riesz.estimators.base import Estimator, Scores
from riesz.predictions import Predictions


def _scores(predictions: Predictions, design: Design) -> Scores:
    plug_in, one_step = (ESTIMATORS[name](predictions, design) for name in ("direct", "dr"))
    return Scores((plug_in.values + one_step.values) / 2, one_step.residuals / 2)


half = Estimator(_scores, "half a step", debiased=True)
'''

DIAGNOSTIC = '''
"""How far the representer spreads."""

from __future__ import annotations

import pandas as pd

from riesz.design.design import Design
from riesz.predictions import Predictions


def rr_spread(predictions: Predictions, design: Design) -> pd.DataFrame:
    """The standard deviation of rr, one row per parameter."""
    return pd.DataFrame({"rr_spread": predictions.rr.observed.std(axis=1)})
'''


def add(tree: Path, file: str, text: str, line: str) -> None:
    """Write one file, and add one line to the registry in its folder or, for a network, in the folder of the learners."""
    path = tree / "riesz" / file
    assert not path.exists()
    path.write_text(text.lstrip())
    registry = tree / "riesz" / file.split("/")[0] / "__init__.py"
    before, after = registry.read_text().rsplit("    }\n)", 1)
    registry.write_text(f"{before}        {line},\n    }}\n){after}")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, its tests and the reference pages, to which one part of each kind is added."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "riesz", tree / "riesz", ignore=shutil.ignore_patterns("__pycache__"))
    add(tree, "estimands/scaled.py", ESTIMAND, '"scaled": "riesz.estimands.scaled:Scaled"')
    add(tree, "learners/constant.py", LEARNER, '"constant": "riesz.learners.constant:Constant"')
    add(tree, "learners/neural/tinynet.py", NETWORK, '"tinynet": "riesz.learners.neural.tinynet:TinyNet"')
    add(tree, "estimators/half.py", ESTIMATOR, '"half": "riesz.estimators.half:half"')
    add(tree, "diagnostics/spread.py", DIAGNOSTIC, '"spread": "riesz.diagnostics.spread:rr_spread"')
    return tree


@pytest.fixture
def run(tree: Path) -> Callable[[str], None]:
    """Run code in the copy, in a fresh process."""

    def run(code: str) -> None:
        start = """
            import sys
            import numpy as np, pandas as pd, pytest, riesz
            assert riesz.__file__.startswith(sys.argv[1]), riesz.__file__
            assert "torch" not in sys.modules
            binary = riesz.datasets.get("binary").draw(300, seed=1).data
            continuous = riesz.datasets.get("continuous").draw(300, seed=1).data

            def around(fit):
                fit.save(sys.argv[1] + "/fit.riesz")
                again = riesz.load(sys.argv[1] + "/fit.riesz")
                assert str(again.summary()) == str(fit.summary())
                assert again.params.equals(fit.params)
                return again
        """
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(start) + textwrap.dedent(code), str(tree)],
            capture_output=True,
            text=True,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"},
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    return run


def test_an_estimand(run: Callable[[str], None]) -> None:
    run("""
        import inspect
        fit = riesz.scaled("y ~ treat(a) * .", continuous, factor=3.0, learner="linear")
        slope = riesz.ade("y ~ treat(a) * .", continuous, learner="linear")
        np.testing.assert_allclose(fit.params["scaled"], 3 * slope.params["ADE"])
        np.testing.assert_allclose(fit.bse["scaled"], 3 * slope.bse["ADE"])
        assert "Scaled derivative" in str(fit.summary())
        same = riesz.estimate("y ~ treat(a) * .", continuous, riesz.Scaled(3.0), learner="linear")
        assert same.params.equals(fit.params)
        again = around(fit)
        pd.testing.assert_frame_equal(again.predict(continuous.head(5)), fit.predict(continuous.head(5)))
        assert {"scaled", "Scaled"} <= set(riesz.__all__) & set(dir(riesz))
        assert "factor : float" in riesz.scaled.__doc__ and "formula : str" in riesz.scaled.__doc__
        assert {"formula", "factor", "cluster"} <= set(inspect.signature(riesz.scaled).parameters)
        with pytest.raises(TypeError, match=r"riesz.scaled\\(\\) has no keyword 'facto'. Did you mean `factor`"):
            riesz.scaled("y ~ treat(a) * .", continuous, facto=2)
        with pytest.raises(riesz.EstimandError, match="`scaled` needs a continuous treatment"):
            riesz.scaled("y ~ treat(a) * .", binary)
    """)


def test_a_learner(run: Callable[[str], None]) -> None:
    run("""
        fit = riesz.mean("y ~ treat(a) + x1", binary, at=1, learner="constant", folds=1)
        np.testing.assert_allclose(fit.params["mean"], binary["y"].mean())
        assert "Constant" in str(fit.summary())
        again = around(fit)
        np.testing.assert_allclose(again.predict(binary.head(3))["mu"], binary["y"].mean())
        assert isinstance(again.model.learner, riesz.Constant)
        assert "Constant" in riesz.__all__
        with pytest.raises(riesz.LearnerError, match="'constant'"):
            riesz.ate("y ~ treat(a) + x1", binary, learner="constantt")
        assert "torch" not in sys.modules
    """)


def test_a_network(run: Callable[[str], None]) -> None:
    run("""
        assert "TinyNet" in dir(riesz)
        assert "torch" not in sys.modules
        fit = riesz.ate("y ~ treat(a) + x1", binary, learner="tinynet", folds=2)
        assert fit.bse["ATE"] > 0
        again = around(fit)
        pd.testing.assert_frame_equal(again.predict(binary.head(5)), fit.predict(binary.head(5)))
        assert again.model.learner == riesz.TinyNet()
    """)
    run("""
        fit = riesz.load(sys.argv[1] + "/fit.riesz")  # in a process that has not imported networks
        assert fit.predict(binary.head(5)).notna().all().all()
    """)


def test_an_estimator(run: Callable[[str], None]) -> None:
    run("""
        fit = riesz.ate("y ~ treat(a) * .", binary, learner="linear", estimator="half")
        rows = fit.estimates.loc["ATE", "estimate"]
        np.testing.assert_allclose(rows["half"], (rows["direct"] + rows["dr"]) / 2)
        assert fit.params["ATE"] == rows["half"]
        assert fit.bse["ATE"] > 0
        assert "half (half a step)" in str(fit.summary())
        assert "half" in around(fit).estimates.index.get_level_values("estimator")
        with pytest.raises(riesz.LearnerError, match="'half'"):
            riesz.ate("y ~ treat(a) * .", binary, learner="linear", estimator="halff")
    """)


def test_a_diagnostic(run: Callable[[str], None]) -> None:
    run("""
        fit = riesz.ate("y ~ treat(a) * .", binary, learner="linear")
        spread = fit.riesz_representer.std(ddof=0)
        np.testing.assert_allclose(fit.diagnostics()["rr_spread"], spread)
        np.testing.assert_allclose(around(fit).diagnostics()["rr_spread"], spread)
    """)


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (
            ["test_identities.py", "test_docstrings.py", "test_recovery.py"],
            "scaled or Scaled",
        ),
        (
            ["learners/test_learners.py", "test_docstrings.py"],
            "tinynet or (constant and not weights)",
        ),
        (["test_estimators.py"], "half"),
        (["diagnostics/test_registered.py"], "spread"),
    ],
    ids=["estimand", "learners", "estimator", "diagnostic"],
)
def test_the_tests_of_its_kind_try_it(tree: Path, files: list[str], names: str) -> None:
    """The tests that loop over the registries include the new parts, and pass."""
    if not (tree / "tests").exists():
        shutil.copytree(ROOT / "tests", tree / "tests", ignore=shutil.ignore_patterns("__pycache__", "data"))
        shutil.copytree(ROOT / "vignettes", tree / "vignettes", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", names]
    done = subprocess.run(
        [*command, *(f"tests/{file}" for file in files)],
        capture_output=True,
        text=True,
        cwd=tree,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout  # 5 if none was collected


def test_every_line_of_a_registry_names_a_part() -> None:
    """A registry holds text until a part is used, so each line must be checked."""
    assert all(issubclass(kind, Estimand) and kind.verb == verb for verb, kind in ESTIMANDS.items())
    assert all(issubclass(kind, Learner) for kind in LEARNERS.values())
    assert all(isinstance(estimator, Estimator) for estimator in ESTIMATORS.values())
    assert all(callable(diagnostic) for diagnostic in DIAGNOSTICS.values())
    names = [*ESTIMANDS, *ESTIMANDS.definitions().values(), *LEARNERS.definitions().values()]
    assert set(names) <= set(riesz.__all__)
    assert all(getattr(riesz, name) is not None for name in names)


@pytest.mark.parametrize("verb", ESTIMANDS)
def test_type_checkers_know_the_arguments_of_verbs(verb: str) -> None:
    """The typed signature of a verb that riesz ships with names the settings of its estimand, in order."""
    typed = inspect.getsource(verbs).split(f"def {verb}(")[1].split("**options")[0]
    names = [part.split(":")[0].strip() for part in typed.split(",") if ":" in part]
    assert names == ["formula", "data", *inspect.signature(ESTIMANDS[verb]).parameters]
