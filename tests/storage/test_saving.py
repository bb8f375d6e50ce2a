"""A reloaded fit equals the fit that was saved; a bad file raises an error and runs nothing."""

from __future__ import annotations

import copy
import io
import json
import pickle
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from forging import forge

import riesz
from riesz.storage.archive import FORMAT, checksum

NET = riesz.MADNet(width=16, head_width=8, stages=(riesz.Stage(1e-2, 4, 4),), device="cpu", repeats=1)
RICH = "y ~ treat(a) * (scale(x1) + bs(x2, df=5)) + g"


def around(fit: riesz.Results, path: Path) -> riesz.Results:
    fit.save(path / "fit.riesz")
    return riesz.load(path / "fit.riesz")


def assert_same(fit: riesz.Results, again: riesz.Results) -> None:
    assert str(fit.summary()) == str(again.summary())
    assert fit.summary().as_latex() == again.summary().as_latex()
    for name in ("params", "bse", "fittedvalues", "resid"):
        pd.testing.assert_series_equal(getattr(fit, name), getattr(again, name), check_index_type=False)
    for name in ("estimates", "riesz_representer", "influence", "history", "trimming"):
        pd.testing.assert_frame_equal(getattr(fit, name), getattr(again, name), check_index_type=False)
    for name in (
        "tidy",
        "glance",
        "augment",
        "diagnostics",
        "details",
        "cov_params",
        "conf_int",
        "balance",
        "stability",
    ):
        pd.testing.assert_frame_equal(getattr(fit, name)(), getattr(again, name)(), check_index_type=False)
    parameter = fit.params.index[0]
    for name in ("leave_one_out", "influence_quantiles"):
        pd.testing.assert_frame_equal(
            getattr(fit, name)(parameter), getattr(again, name)(parameter), check_index_type=False
        )
    pd.testing.assert_frame_equal(
        fit.influential(5, parameter), again.influential(5, parameter), check_index_type=False
    )
    assert fit.warnings() == again.warnings()
    pd.testing.assert_frame_equal(fit.sensitivity().table, again.sensitivity().table)


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("ate", {}),
        ("ate", {"cluster": "village", "weights": "w", "estimator": "tmle", "trim": "98%", "repeats": 2}),
        ("att", {"learner": NET, "folds": 2}),
        ("ate", {"learner": riesz.MADNet(**{**vars(NET), "constraint": "exact", "keep": "best"}), "folds": 2}),
        ("ate", {"family": "gaussian", "target": "sample", "folds": 1, "freq_weights": "count"}),
    ],
    ids=["plain", "everything", "network", "exact", "sample"],
)
def test_a_reloaded_fit_is_the_same(
    binary_frame: pd.DataFrame, tmp_path: Path, verb: str, options: dict[str, Any]
) -> None:
    data = binary_frame.assign(count=1 + binary_frame.index % 3)
    data.index = [f"row {i}" for i in range(len(data))]
    fit = getattr(riesz, verb)(RICH, data, **options)
    again = around(fit, tmp_path)
    assert_same(fit, again)
    pd.testing.assert_frame_equal(fit.by("g").tidy(), again.by("g").tidy())
    pd.testing.assert_frame_equal(fit.blp("~ x1").tidy(), again.blp("~ x1").tidy())
    pd.testing.assert_frame_equal(fit.predict(data.head(20)), again.predict(data.head(20)))
    pd.testing.assert_frame_equal(fit.sensitivity_benchmark("x1"), again.sensitivity_benchmark("x1"))
    pd.testing.assert_frame_equal(fit.overlap().rows, again.overlap().rows, check_index_type=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the folds cut these clusters
        pd.testing.assert_frame_equal(again.with_cov("village").tidy(), fit.with_cov("village").tidy())
        pd.testing.assert_frame_equal(again.with_cov(["village", "g"]).tidy(), fit.with_cov(["village", "g"]).tidy())
    pd.testing.assert_frame_equal(again.with_cov().tidy(), fit.with_cov().tidy())
    np.testing.assert_array_equal(riesz.contrast("a.x - b.x", a=alias(fit), b=alias(again)).params, [0.0])


def alias(fit: riesz.Results) -> riesz.Effects:
    return riesz.contrast({"x": fit.params.index[0]}, fit)


def test_kinds_of_columns_and_rows(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    n = len(binary_frame)
    data = binary_frame.assign(
        whole=pd.array(np.arange(n) % 4, dtype="Int64"),
        flag=np.arange(n) % 2 == 0,
        day=pd.date_range("2020-01-01", periods=n),
        band=pd.cut(binary_frame["x1"], 3),
        label=pd.Categorical(np.where(np.arange(n) % 2, "b", "a"), categories=["b", "a"], ordered=True),
        nested=[[1]] * n,
        holes=binary_frame["g"].where(binary_frame.index > 5),
    )
    data.loc[3, "x1"] = np.nan
    data = data.set_index(pd.MultiIndex.from_arrays([np.arange(n), data["g"]], names=["i", "j"]))
    fit = riesz.ate("y ~ treat(a) * x1 + label + flag", data)
    again = around(fit, tmp_path)
    assert_same(fit, again)
    for name in ("whole", "flag", "band", "label", "holes"):
        pd.testing.assert_series_equal(fit.by(name).params, again.by(name).params)
    with pytest.raises(riesz.DataError, match="'nested' is not a column"):
        again.by("nested")
    pd.testing.assert_frame_equal(fit.predict(data), again.predict(data))


@pytest.mark.parametrize(
    "index",
    [
        pd.period_range("2020-01", periods=400, freq="D"),
        pd.date_range("2020-01-01", periods=400, tz="Europe/Berlin"),
        pd.Index([("row", i) for i in range(400)], tupleize_cols=False),
    ],
    ids=["periods", "time zone", "tuples"],
)
def test_row_labels_that_a_file_does_not_know_stay_readable(
    binary_frame: pd.DataFrame, tmp_path: Path, index: pd.Index
) -> None:
    fit = riesz.ate("y ~ treat(a) * x1", binary_frame.set_axis(index, axis=0))
    again = around(fit, tmp_path)
    assert str(again) == str(fit)
    assert again.influential(5).index.tolist() == [str(label) for label in fit.influential(5).index]


def test_polars_and_arms(arms_frame: pd.DataFrame, tmp_path: Path) -> None:
    fit = riesz.ate("y ~ treat(arm, reference='placebo') * x1", polars.from_pandas(arms_frame))
    again = around(fit, tmp_path)
    assert_same(fit, again)
    pd.testing.assert_frame_equal(fit.predict(arms_frame), again.predict(arms_frame))


def test_saved_again_is_the_same(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    fit = riesz.ate(RICH, binary_frame)
    again = around(around(fit, tmp_path), tmp_path)
    assert_same(fit, again)


def test_what_cannot_be_stored_raises_an_error_when_used(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    custom = riesz.CustomMoment(lambda mu, data: mu(data.assign(a=1)) - mu(data.assign(a=0)))
    fit = riesz.estimate("y ~ treat(a) * x1", binary_frame, custom)
    again = around(fit, tmp_path)
    assert_same(fit, again)
    with pytest.raises(riesz.EstimandError, match="a moment or policy that is a function"):
        again.predict(binary_frame)

    def half(x: pd.Series) -> pd.Series:
        return x / 2

    own = around(riesz.ate("y ~ treat(a) * half(x1)", binary_frame), tmp_path)
    with pytest.raises(riesz.FormulaError, match="not known to be safe"):
        own.predict(binary_frame)
    policy = around(riesz.ape("y ~ treat(a) * x1", binary_frame, policy="where(x1 > 0, 0.9, 0.2)"), tmp_path)
    assert policy.predict(binary_frame)["mu"].notna().all()


def test_a_user_defined_learner_leaves_its_description(
    binary_frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from riesz.storage import coding

    fit = riesz.ate("y ~ treat(a) + x1", binary_frame)
    monkeypatch.delitem(coding.TYPES, "Linear")
    monkeypatch.delitem(coding.TYPES, "LinearFit")
    again = around(fit, tmp_path)
    assert_same(fit, again)
    with pytest.raises(riesz.LearnerError, match="not the fitted learner"):
        again.predict(binary_frame)


class Renamed(riesz.MADNet):
    """A learner that no registry knows, with fits that a file can hold."""


def test_fits_of_an_unknown_learner_leave_their_numbers(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    learner = Renamed(width=8, depth=1, head_width=4, networks=1, repeats=1, stages=(riesz.Stage(1e-2, 3, 3),))
    fit = riesz.ate("y ~ treat(a) + x1", binary_frame, learner=learner, folds=2)
    again = around(fit, tmp_path)
    assert str(again.summary()) == str(fit.summary())
    assert again.params.equals(fit.params)
    with pytest.raises(riesz.LearnerError, match="not the fitted learner"):
        again.predict(binary_frame)


def test_two_stored_types_cannot_share_a_name() -> None:
    from riesz.storage.coding import TYPES, stored

    before = TYPES["Linear"]
    with pytest.raises(TypeError, match="Two stored types have the name Linear"):
        stored(type("Linear", (), {"__module__": "elsewhere"}))
    assert TYPES["Linear"] is before


def test_reading_imports_only_what_is_registered(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    """A file of a linear fit does not import torch, and a made-up type imports nothing of that name."""
    riesz.ate("y ~ treat(a) + x1", binary_frame, learner="linear").save(tmp_path / "fit.riesz")
    code = (
        "import sys, riesz; fit = riesz.load(sys.argv[1]); assert fit.predict(fit.model.table.export()) is not None; "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "fit.riesz"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

    def forged(content: Any, arrays: Any) -> None:
        content["learner"] = {"type": "antigravity", "fields": {}}

    with pytest.raises(riesz.DataError, match="unknown content"):
        riesz.load(forge(tmp_path / "fit.riesz", forged))
    assert "antigravity" not in sys.modules


def test_a_learner_of_mu_alone(binary_frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from riesz.storage import coding

    fit = riesz.ate("y ~ treat(a) * x1", binary_frame, learner="kernel_embedding", folds=2)
    again = around(fit, tmp_path)
    assert str(fit) == str(again)
    pd.testing.assert_frame_equal(fit.glance(), again.glance())
    pd.testing.assert_frame_equal(fit.predict(binary_frame), again.predict(binary_frame))
    assert list(fit.predict(binary_frame)) == ["mu", "moment_ATE"]
    monkeypatch.delitem(coding.TYPES, "KernelEmbedding")
    again = around(fit, tmp_path)
    assert str(fit) == str(again)
    with pytest.raises(riesz.RieszError, match="no Riesz representer"):
        again.balance()


def test_models_of_scikit_learn_are_not_stored(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    from sklearn.linear_model import LinearRegression, LogisticRegression

    own = riesz.Propensity(outcome=LinearRegression(), propensity=LogisticRegression())
    fit = riesz.ate("y ~ treat(a) * x1", binary_frame, learner=own, folds=2)
    again = around(fit, tmp_path)
    assert_same(fit, again)
    for ask in (lambda: again.predict(binary_frame), lambda: again.sensitivity_benchmark("x1")):
        with pytest.raises(riesz.LearnerError, match=r"was not stored|not the fitted learner"):
            ask()
    plain = around(riesz.ate("y ~ treat(a) * x1", binary_frame, learner="propensity", folds=2), tmp_path)
    with pytest.raises(riesz.LearnerError, match="do not hold the function of the moment"):
        plain.sensitivity_benchmark("x1")


# bad files


@pytest.fixture
def file(binary_frame: pd.DataFrame, tmp_path: Path) -> Path:
    riesz.ate("y ~ treat(a) * x1", binary_frame).save(tmp_path / "fit.riesz")
    return tmp_path / "fit.riesz"


def rewrite(
    file: Path,
    change: Callable[[Any], Any] | None = None,
    members: dict[str, bytes] | None = None,
    forged: bool = True,
) -> None:
    """Alter a file; a forger also computes a new checksum."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    if change is not None:
        document = json.loads(contents["riesz.json"])
        document = change(document) or document
        if forged and isinstance(document, dict):
            arrays = {name[:-4]: np.load(io.BytesIO(raw)) for name, raw in contents.items() if name.endswith(".npy")}
            document["checksum"] = checksum(document["content"], arrays)
        contents["riesz.json"] = json.dumps(document).encode()
    contents |= members or {}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def test_no_pickle_inside(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        assert {Path(name).suffix for name in archive.namelist()} == {".json", ".npy"}
        for name in archive.namelist():
            if name.endswith(".npy"):
                assert b"'|O'" not in archive.read(name)[:200]


def test_wrong_files(file: Path, tmp_path: Path) -> None:
    with pytest.raises(riesz.DataError, match="There is no file"):
        riesz.load(tmp_path / "none.riesz")
    other = tmp_path / "data.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(riesz.DataError, match="is not a file that fit"):
        riesz.load(other)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("x.txt", "x")
    with pytest.raises(riesz.DataError, match="zip archive, but not one"):
        riesz.load(tmp_path / "other.zip")


def test_truncated_and_flipped(file: Path) -> None:
    whole = file.read_bytes()
    for cut in (10, len(whole) // 2, len(whole) - 5):
        file.write_bytes(whole[:cut])
        with pytest.raises(riesz.DataError, match="cut short or damaged"):
            riesz.load(file)
    flipped = bytearray(whole)
    for place in range(len(whole) // 3, len(whole) // 3 + 40):
        flipped[place] ^= 0xFF
    file.write_bytes(bytes(flipped))
    with pytest.raises(riesz.DataError, match="damaged"):
        riesz.load(file)


def test_newer_version(file: Path) -> None:
    def newer(document: Any) -> None:
        document["format"], document["version"] = FORMAT + 1, "9.0.0"

    rewrite(file, newer)
    with pytest.raises(riesz.DataError, match=r"written by riesz 9\.0\.0 .* Update riesz"):
        riesz.load(file)


def test_every_alteration_is_detected_when_loading(file: Path) -> None:
    """Also those at which only a later call would fail."""
    whole = file.read_bytes()

    def name(document: Any) -> None:
        document["content"]["parts"]["dict"]["treatment"]["fields"]["name"] = "b"

    def words(document: Any) -> None:
        document["content"]["components"][0][2] = True

    def learned(document: Any) -> None:
        document["content"]["fits"][2] = None

    def unsealed(document: Any) -> None:
        del document["checksum"]

    for change in (name, words, learned, unsealed):
        file.write_bytes(whole)
        rewrite(file, change, forged=False)
        with pytest.raises(riesz.DataError, match=r"damaged or was altered .*checksum"):
            riesz.load(file)
    file.write_bytes(whole)
    with zipfile.ZipFile(file) as archive:
        y = np.load(io.BytesIO(archive.read("a0.npy")))
    y.flat[0] += 1
    changed = io.BytesIO()
    np.save(changed, y)
    rewrite(file, members={"a0.npy": changed.getvalue()})
    with pytest.raises(riesz.DataError, match="does not match its checksum"):
        riesz.load(file)
    rewrite(file, members={"a0.npy": changed.getvalue().replace(b"}", b"{", 1)})
    with pytest.raises(riesz.DataError, match="damaged or was altered"):
        riesz.load(file)


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("trapped"),))


def test_altered_files_run_nothing(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole = file.read_bytes()

    def unknown_type(document: Any) -> None:
        document["content"]["parts"]["dict"]["weights"] = {"type": "Popen", "fields": {"args": ["touch", "trapped"]}}

    def other_numbers(document: Any) -> None:
        document["content"]["settings"]["estimator"] = "tmle"
        document["content"]["fitted"]["dict"]["params"] = {"array": "a0"}

    def lost_part(document: Any) -> None:
        del document["content"]["fitted"]["dict"]["folds"]

    def no_text(document: Any) -> None:
        document["content"]["learner"] = {"type": "Linear", "fields": {"penalty": -1}}

    def not_a_document(document: Any) -> Any:
        return [1]

    for change in (unknown_type, other_numbers, lost_part, no_text, not_a_document):
        file.write_bytes(whole)
        rewrite(file, change)
        with pytest.raises(riesz.DataError, match=r"damaged or was altered|is not a file"):
            riesz.load(file)
    objects = np.empty(1, dtype=object)
    objects[0] = Trap()
    np.save(tmp_path / "o.npy", objects, allow_pickle=True)
    file.write_bytes(whole)
    rewrite(file, members={"a0.npy": (tmp_path / "o.npy").read_bytes()})
    with pytest.raises(riesz.DataError, match="damaged or was altered"):
        riesz.load(file)
    file.write_bytes(whole)
    rewrite(file, members={"a0.npy": pickle.dumps(Trap())})
    with pytest.raises(riesz.DataError, match="damaged or was altered"):
        riesz.load(file)
    assert not Path("trapped").exists()


def test_an_altered_formula_is_not_evaluated(
    file: Path, binary_frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def trap(document: Any) -> None:
        document["content"]["recipe"]["formula"] = (
            "y ~ treat(a) * {__import__('pathlib').Path('trapped').touch() or x1}"
        )

    rewrite(file, trap)
    fit = riesz.load(file)
    with pytest.raises(riesz.FormulaError, match="not known to be safe"):
        fit.predict(binary_frame)
    assert not Path("trapped").exists()


def test_loading_without_networks_leaves_torch_alone(file: Path) -> None:
    code = f"import sys, riesz; riesz.load({str(file)!r}).summary(); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_pickle_sends_what_a_file_holds(binary_frame: pd.DataFrame) -> None:
    """Processes may send fits to each other; a copy in the same process keeps its functions."""
    fit = riesz.ate("y ~ treat(a) * x1", binary_frame, learner="linear")
    again = pickle.loads(pickle.dumps(fit))
    assert str(again.summary()) == str(fit.summary())
    np.testing.assert_array_equal(
        again.predict(binary_frame[:9])["moment_ATE"], fit.predict(binary_frame[:9])["moment_ATE"]
    )
    assert copy.deepcopy(fit) is copy.copy(fit) is fit
