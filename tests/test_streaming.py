"""Fits to a source: the numbers of the in-memory fit, whatever the chunks, in little memory, with clear errors."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.api.stream import stream
from riesz.learners.linear import ridge
from riesz.sources.fold_hash import fold_of, row_hashes
from riesz.sources.parquet import open_source

pytest.importorskip("pyarrow")
CUTS = [0, 3_000, 9_500, 20_000]


def draw(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x1, x2 = rng.normal(size=(2, n))
    g = rng.choice(["u", "v", "w"], n)
    arm = rng.choice(["placebo", "low", "high"], n, p=[0.5, 0.3, 0.2])
    a = (rng.uniform(size=n) < 1 / (1 + np.exp(-0.7 * x1))).astype(float)
    d = 3 + 0.5 * x1 + rng.normal(size=n)
    y = 1 + a * (1 + x1) + np.sin(x2) + (g == "v") + d * (1 + 0.2 * x2) + (arm == "low") + rng.normal(size=n)
    k = rng.integers(0, 4, n)
    return pd.DataFrame(
        {"y": y, "a": a, "d": d, "x1": x1, "x2": x2, "g": g, "arm": arm, "k": k}
        | {"w": rng.uniform(0.5, 2, n), "times": rng.integers(1, 4, n)}
    )


def write(data: pd.DataFrame, folder: Path, cuts: list[int]) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Write several files; return the folds that a fit draws."""
    labels = []
    for number, (first, last) in enumerate(pairwise(cuts)):
        data[first:last].to_parquet(folder / f"part{number}.parquet", row_group_size=1_500, index=False)
        labels.append(fold_of(row_hashes(0, number, 0, last - first), 5))
    return np.concatenate(labels)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Path, Any]:
    data, folder = draw(CUTS[-1]), tmp_path_factory.mktemp("parquet")
    data.loc[::97, "x2"] = np.nan
    data.loc[5::197, "g"] = None
    data.loc[7::301, "w"] = 0.0
    return data, folder, write(data, folder, CUTS)


CASES: dict[str, tuple[str, list[riesz.ATE | riesz.ATT | riesz.ATC | riesz.ADE], dict[str, Any]]] = {
    "several": ("y ~ treat(a) * (x1 + x2 + g)", [riesz.ATE(), riesz.ATT(), riesz.ATC()], {}),
    "weights": ("y ~ treat(a) * (x1 + x2 + g)", [riesz.ATE()], {"weights": "w", "freq_weights": "times"}),
    "arms": ("y ~ treat(arm, reference='placebo') * (x1 + C(k))", [riesz.ATE(), riesz.ATT()], {}),
    "derivative": ("y ~ treat(d) * (x1 + x2) + I(d ** 2)", [riesz.ADE()], {"weights": "w"}),
    "constants": ("y ~ treat(a) * (center(x1) + scale(k)) + bs(x2, knots=[0.0])", [riesz.ATE()], {}),
    "sample": ("np.exp(y / 10) ~ treat(a) * x1", [riesz.ATT()], {"target": "sample", "estimator": "tmle"}),
    "no penalty": ("y ~ treat(a) + x1 + g", [riesz.ATE()], {"learner": riesz.Linear(0, 0, "riesz")}),
    "no intercept": ("y ~ 0 + treat(d) + x1 + x2", [riesz.ADE()], {}),
    "collinear, almost": ("y ~ treat(a) + x1 + I(x1 + 1e-3 * x2)", [riesz.ATE()], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_streamed_equals_in_memory(case: str, written: tuple[pd.DataFrame, Path, Any]) -> None:
    data, folder, labels = written
    formula, questions, options = CASES[case]
    options = {"learner": "linear", **options}
    streamed = riesz.estimate(formula, folder, questions, **options)
    memory = riesz.estimate(formula, data, questions, folds=labels, **options)
    assert list(streamed.params.index) == list(memory.params.index)
    assert streamed.nobs == memory.nobs
    for mine, reference in (
        (streamed.params, memory.params),
        (streamed.cov_params(), memory.cov_params()),
        (streamed.estimates, memory.estimates),
        (streamed.details(), memory.details()),
    ):
        np.testing.assert_allclose(mine, reference, rtol=1e-10 if case != "collinear, almost" else 1e-8)
    health = streamed.diagnostics()
    np.testing.assert_allclose(health, memory.diagnostics()[health.columns], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("case", ["weights", "derivative"])
def test_the_same_random_rows_are_left_out_in_turn(
    case: str, written: tuple[pd.DataFrame, Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In large samples penalties are chosen by a random part of the rows."""
    monkeypatch.setattr(ridge, "_MOST_LEFT_OUT", 60)
    data, folder, labels = written
    formula, questions, options = CASES[case]
    streamed = riesz.estimate(formula, folder, questions, **{"learner": "linear", **options})
    memory = riesz.estimate(formula, data, questions, folds=labels, **{"learner": "linear", **options})
    assert len(np.unique(memory.details())) > 2
    np.testing.assert_allclose(streamed.details(), memory.details(), rtol=1e-10)
    np.testing.assert_allclose(streamed.params, memory.params, rtol=1e-10)


@pytest.mark.parametrize("case", ["weights", "derivative", "arms"])
def test_chunks_change_nothing(case: str, written: tuple[pd.DataFrame, Path, Any]) -> None:
    formula, questions, options = CASES[case]
    source = open_source(written[1])
    assert source is not None
    settings = riesz.settings.Settings(**{"learner": "linear", **options})
    small, large = (stream(formula, source, questions, settings, {"np": np}, size) for size in (701, 10**6))
    np.testing.assert_allclose(small.params, large.params, rtol=1e-9)
    np.testing.assert_allclose(small.bse, large.bse, rtol=1e-9)


def test_chunks_in_one_arm_and_of_one_row(tmp_path: Path) -> None:
    """Chunks without one of the arms, or with a single row, change nothing."""
    data = draw(1_201).sort_values(["arm", "g"], ignore_index=True)
    labels = write(data, tmp_path, [0, 600, 1_201])
    source = open_source(tmp_path)
    assert source is not None
    settings = riesz.settings.Settings(learner="linear")
    formula, questions = "y ~ treat(arm) * (x1 + g)", [riesz.ATE(), riesz.ATT()]
    streamed = stream(formula, source, questions, settings, {}, 300)
    memory = riesz.estimate(formula, data, questions, folds=labels, learner="linear")
    np.testing.assert_allclose(streamed.params, memory.params, rtol=1e-10)
    np.testing.assert_allclose(streamed.cov_params(), memory.cov_params(), rtol=1e-10)


def test_rare_arms_are_refused(tmp_path: Path) -> None:
    data = draw(1_000).assign(arm=lambda frame: np.where(frame.index < 3, "rare", "usual"))
    write(data, tmp_path, [0, 1_000])
    with pytest.raises(riesz.DataError, match=r"Fold \d of 5 has no row with arm=.* 3 rows in all"):
        riesz.ate("y ~ treat(arm) + x1", tmp_path, learner="linear")


def test_every_kind_of_source_gives_the_same(written: tuple[pd.DataFrame, Path, Any]) -> None:
    from pyarrow import dataset

    data, folder, labels = written
    formula = "y ~ treat(a) * x1"
    fits = [riesz.ate(formula, path, learner="linear") for path in (folder, str(folder), str(folder / "part*.parquet"))]
    assert len({fit.params["ATE"] for fit in fits}) == 1
    one = riesz.ate(formula, folder / "part0.parquet", learner="linear")
    kept = slice(0, CUTS[1])
    same = riesz.ate(formula, data[kept], folds=labels[kept], learner="linear")
    np.testing.assert_allclose(one.params, same.params, rtol=1e-10)
    folds = fold_of(row_hashes(0, 0, 0, len(data)), 5)
    whole = riesz.ate(formula, dataset.dataset(folder), learner="linear")
    np.testing.assert_allclose(whole.params, riesz.ate(formula, data, folds=folds, learner="linear").params, rtol=1e-10)


def test_folds_of_a_column_and_without_splitting(written: tuple[pd.DataFrame, Path, Any]) -> None:
    data, folder, _ = written
    for folds in ("k", 1):
        streamed = riesz.ate("y ~ treat(a) * x1", folder, folds=folds, learner="linear")
        memory = riesz.ate("y ~ treat(a) * x1", data, folds=folds, learner="linear")
        np.testing.assert_allclose(streamed.params, memory.params, rtol=1e-10)
        np.testing.assert_allclose(streamed.bse, memory.bse, rtol=1e-10)


def test_results_say_what_needs_rows(written: tuple[pd.DataFrame, Path, Any]) -> None:
    fit = riesz.ate("y ~ treat(a) * x1", written[1], learner="linear")
    assert "read in chunks" in str(fit.summary())
    assert fit.wald_test("ATE = 0").pvalue < 0.05
    for name in ("by", "predict", "influence", "save", "variation"):
        with pytest.raises(riesz.RieszError, match=r"keeps sums alone.*read_parquet"):
            getattr(fit, name)()
    with pytest.raises(riesz.RieszError, match="keeps sums alone"):
        riesz.contrast({"twice": "2 * ATE"}, fit)
    other = riesz.ate("y ~ treat(a) + x1", written[1], learner="linear")
    with pytest.raises(riesz.RieszError, match="keeps sums alone"):
        riesz.contrast("one.ATE - two.ATE", one=fit, two=other)


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "learner": ("y ~ treat(a) + x1", {"learner": "splines"}, "learner='linear'"),
    "family": ("y ~ treat(a) + x1", {"family": "binomial"}, "family='gaussian'"),
    "cluster": ("y ~ treat(a) + x1", {"cluster": "g"}, "cluster=None"),
    "array": ("y ~ treat(a) + x1", {"weights": np.ones(3)}, "name of a column"),
    "weights": ("y ~ treat(a) + x1", {"weights": "ww"}, "not a column"),
    "treatment": ("y ~ treat(a > 0) + x1", {}, "Add the column"),
    "quantiles": ("y ~ treat(a) + bs(x1, df=5)", {}, "needs all rows at once"),
    "polynomials": ("y ~ treat(a) + poly(x1, 2)", {}, "needs all rows at once"),
    "outcome": ("center(y) ~ treat(a) + x1", {}, "needs all rows at once"),
    "collinear": ("y ~ treat(a) + x1 + I(2 * x1)", {}, "collinear on all rows"),
    "missing": ("y ~ treat(a) + x2", {"na_action": "raise"}, "`x2` of .*part0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_source_cannot_do_is_refused(case: str, written: tuple[pd.DataFrame, Path, Any]) -> None:
    formula, options, message = REFUSED[case]
    with pytest.raises(riesz.RieszError, match=message):
        riesz.ate(formula, written[1], **{"learner": "linear", **options})


def test_other_verbs_and_tables_are_refused(written: tuple[pd.DataFrame, Path, Any]) -> None:
    with pytest.raises(riesz.EstimandError, match="cannot be computed from a source yet"):
        riesz.shift("y ~ treat(d) + x1", written[1], delta=1, learner="linear")
    with pytest.raises(riesz.DataError, match="estimate_many"):
        riesz.estimate_many("y ~ treat(a) + x1", [written[1]], riesz.ATE(), learner="linear")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    def fit() -> None:
        riesz.ate("y ~ treat(a) + x1", tmp_path, learner="linear")

    with pytest.raises(riesz.DataError, match="has no Parquet files"):
        fit()
    with pytest.raises(riesz.DataError, match=r"There is no file .*none\.parquet"):
        riesz.ate("y ~ treat(a) + x1", tmp_path / "none.parquet", learner="linear")
    data = draw(3_000)
    write(data, tmp_path, [0, 1_000, 2_000, 3_000])
    last = tmp_path / "part2.parquet"
    whole = last.read_bytes()
    data[2_000:].assign(x1="a").to_parquet(last)
    with pytest.raises(riesz.DataError, match=r"Column `x1` is .*string in .*part2\.parquet but double in .*part0"):
        fit()
    data[2_000:].drop(columns="x1").to_parquet(last)
    with pytest.raises(riesz.DataError, match=r"part2\.parquet has no column `x1`"):
        fit()
    last.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(riesz.DataError, match=r"part2\.parquet cannot be read"):
        fit()
    broken = _damage(whole, last, "x1")
    last.write_bytes(broken)
    with pytest.raises(riesz.DataError, match=r"Column `x1` of .*part2\.parquet cannot be read"):
        fit()


def _damage(content: bytes, file: Path, column: str) -> bytes:
    """The file with the first pages of a column overwritten."""
    from pyarrow import parquet

    file.write_bytes(content)
    metadata = parquet.ParquetFile(file).metadata.row_group(0)
    names = [metadata.column(j).path_in_schema for j in range(metadata.num_columns)]
    place = metadata.column(names.index(column))
    start = place.dictionary_page_offset or place.data_page_offset
    size = place.total_compressed_size
    return content[:start] + b"\xff" * size + content[start + size :]


MEMORY = """
import resource, sys
import riesz
from riesz.api.stream import stream
from riesz.sources.parquet import open_source
def fit(name, formula):
    settings = riesz.settings.Settings(learner=riesz.Linear(0.1, 0.1), folds=2)
    return stream(formula, open_source(sys.argv[1] + "/" + name), [riesz.ATE()], settings, {}, size=8_192)
fit("small", "y ~ treat(a) * x0")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = fit("large", "y ~ treat(a) * x0 + " + " + ".join(f"x{j}" for j in range(1, 30))).nobs
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak memory in kilobytes")
def test_the_data_are_never_whole_in_memory(tmp_path: Path) -> None:
    """The peak of a process grows by less than half of what the columns take."""
    rows, columns, files = 50_000, 30, 8
    rng = np.random.default_rng(0)
    for name, count, size in (("small", 1, 2_000), ("large", files, rows)):
        (tmp_path / name).mkdir()
        x = rng.normal(size=(size, columns))
        data = pd.DataFrame(x, columns=[f"x{j}" for j in range(columns)])
        data["a"] = (rng.uniform(size=size) < 0.5).astype(float)
        data["y"] = data["a"] + data["x0"] + rng.normal(size=size)
        for number in range(count):
            data.to_parquet(tmp_path / name / f"part{number}.parquet", row_group_size=10_000, index=False)
    whole = rows * files * (columns + 2) * 8
    command = [sys.executable, "-c", MEMORY, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    used, grown = map(int, done.stdout.split())
    assert used == rows * files
    assert grown * 1024 < whole / 2
