"""Files under stress: hostile, concurrent, on a full disk, with large numbers and with invalid content."""

from __future__ import annotations

import bz2
import copy
import datetime
import errno
import io
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import threading
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from forging import Arrays, forge, pack, unpack

import riesz
from riesz.errors import ArgumentError
from riesz.learners import LEARNERS
from riesz.storage import archive
from riesz.storage.annotations import conforms
from riesz.storage.coding import TYPES

OLD = Path(__file__).parents[1] / "data" / "format1.riesz"
BIG = 2**53 + 1  # the first whole number that floating point does not have


@pytest.fixture(scope="module")
def fit(binary_frame: pd.DataFrame) -> riesz.Results:
    return riesz.ate("y ~ treat(a) * x1", binary_frame, folds=2)


@pytest.fixture
def file(fit: riesz.Results, tmp_path: Path) -> Path:
    fit.save(tmp_path / "fit.riesz")
    return tmp_path / "fit.riesz"


# how much a file may take


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> int:
    """The same rule with 2 MB in place of 1 GB, so that bombs need not be gigabytes."""
    monkeypatch.setattr(archive, "ALLOWED", 2**21)
    monkeypatch.setattr(archive, "RATIO", 20)
    return 2**21


def refused_in_little_memory(file: Path, words: str, most: float = 4e6) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(riesz.DataError, match=words):
            riesz.load(file)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def repacked(file: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(file) as old:
        content = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(file, "w", compression) as new:
        for name, raw in (content | members).items():
            new.writestr(name, raw)
    return file


def array_bytes(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def test_an_array_that_unpacks_to_much_more_than_its_file(file: Path, small_limit: int) -> None:
    repacked(file, {"a0.npy": array_bytes(np.zeros(10_000_000))})  # 80 MB in 80 kB
    assert file.stat().st_size < 500_000
    refused_in_little_memory(file, r"would take 7\d\.\d MB when unpacked; the limit is .* load it with largest=8")


def test_a_document_that_unpacks_to_much_more_than_its_file(file: Path, small_limit: int) -> None:
    whole = b'{"content": [' + b"{}," * 1_000_000 + b"{}]}"
    repacked(file, {"riesz.json": whole})
    refused_in_little_memory(file, "would take .* when unpacked; the limit is")


def test_a_header_that_declares_more_than_there_is(file: Path) -> None:
    honest = array_bytes(np.zeros(400))
    for shape in (b"(10000000000,)", b"(400, 100000000,)", b"(400, 0, )"):
        raw = honest.replace(b"(400,), }" + b" " * (len(shape) - len(b"(400,)")), shape + b", }")
        assert raw != honest
        repacked(file, {"a0.npy": raw})
        refused_in_little_memory(file, "an array whose size is not what its header says")


def test_content_that_is_named_again_and_again(file: Path, small_limit: int) -> None:
    """A document of a megabyte can name one array a thousand times, and each column is a copy."""

    def change(content: dict[str, Any], arrays: Arrays) -> None:
        spec = content["table"]["columns"][0][1]
        content["table"]["columns"] += [[f"c{k}", spec] for k in range(1_000)]
        arrays[spec["values"]] = np.zeros(100_000)

    refused_in_little_memory(repacked(forge(file, change), {}), "refers to the same content too often", most=2e7)


def test_labels_without_end(file: Path, small_limit: int) -> None:
    def change(content: dict[str, Any], arrays: Arrays) -> None:
        content["table"]["columns"][4][1]["labels"] = {"lengths": "n", "bytes": "b"}
        arrays |= {"n": np.zeros(200_000, dtype=np.int64), "b": np.zeros(0, dtype=np.uint8)}

    refused_in_little_memory(repacked(forge(file, change), {}), "refers to the same content too often", most=2e7)


@pytest.mark.parametrize("depth", [900, 100_000])
def test_a_document_that_is_nested_deeply(file: Path, depth: int) -> None:
    with zipfile.ZipFile(file) as old:
        document = json.loads(old.read("riesz.json"))
    document["content"]["learner"] = 0
    raw = json.dumps(document).replace('"learner": 0', '"learner": ' + '{"list": [' * depth + "]}" * depth)
    with pytest.raises(riesz.DataError, match="damaged or was altered"):
        riesz.load(repacked(file, {"riesz.json": raw.encode()}))


def test_ways_to_pack_that_save_does_not_use(file: Path) -> None:
    whole = file.read_bytes()
    for compression in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with pytest.raises(riesz.DataError, match="packed in a way that fit"):
            riesz.load(repacked(file, {}, compression))
        file.write_bytes(whole)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(file, "a") as twice:
            twice.writestr("a0.npy", b"x")
    with pytest.raises(riesz.DataError, match="packed in a way that fit"):
        riesz.load(file)
    at = whole.rindex(b"PK\x01\x02")  # the last entry of the list of members
    file.write_bytes(whole[: at + 8] + bytes([whole[at + 8] | 1]) + whole[at + 9 :])  # says that it is encrypted
    with pytest.raises(riesz.DataError, match="packed in a way that fit"):
        riesz.load(file)
    file.write_bytes(bz2.compress(whole))
    with pytest.raises(riesz.DataError, match="is not a file that fit"):
        riesz.load(file)


def test_numbers_that_json_does_not_have(file: Path) -> None:
    with zipfile.ZipFile(file) as old:
        raw = old.read("riesz.json")
    for number in (b"NaN", b"Infinity", b"1" * 5000):
        with pytest.raises(riesz.DataError, match="damaged or was altered"):
            riesz.load(repacked(file, {"riesz.json": raw.replace(b'"seed": 0', b'"seed": ' + number)}))


def test_the_limit_can_be_raised(file: Path, fit: riesz.Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "ALLOWED", 1000)
    monkeypatch.setattr(archive, "RATIO", 1)
    with pytest.raises(riesz.DataError, match=r"load it with largest=(\S+)\.$") as caught:
        riesz.load(file)
    said = float(str(caught.value).rsplit("=", 1)[1].rstrip("."))
    assert str(riesz.load(file, largest=said)) == str(fit)
    assert str(pickle.loads(pickle.dumps(fit))) == str(fit)  # not a stranger's
    for wrong in (0, -1, "1 GB", float("nan")):
        with pytest.raises(riesz.RieszError, match="expected a number of bytes"):
            riesz.load(file, largest=wrong)  # type: ignore[arg-type]


# where files go


def test_many_save_at_once(fit: riesz.Results, file: Path) -> None:
    """75 saves to one path, from threads and from two other processes, and a reader that always finds a whole file."""
    own = file.with_name(file.name + ".unfinished")
    own.write_text("my notes")
    code = (
        "import sys, riesz\nfit = riesz.load(sys.argv[1]); print('ready', flush=True); sys.stdin.readline()\n"
        "for _ in range(15): fit.save(sys.argv[1])"
    )
    others = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for other in others:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
    wrong: list[BaseException] = []

    def work(ask: Callable[[Path], object], times: int) -> None:
        try:
            for _ in range(times):
                ask(file)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(fit.save, 5)) for _ in range(9)]
    threads.append(threading.Thread(target=work, args=(riesz.load, 10)))
    for thread in threads:
        thread.start()
    done = [other.communicate("go\n", timeout=120) for other in others]
    for thread in threads:
        thread.join()
    assert not wrong
    assert [other.returncode for other in others] == [0, 0], done
    assert str(riesz.load(file)) == str(fit)
    assert own.read_text() == "my notes"
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name, own.name]


@contextmanager
def files_of_at_most_5_kb() -> Iterator[None]:
    """A write that fails half-way, as on a full disk; for a moment only, since pytest may write a log."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_that_fails_half_way(fit: riesz.Results, file: Path) -> None:
    with (
        pytest.raises(riesz.DataError, match=rf"cannot be saved to '{file}': no space is left there.* it is unchanged"),
        files_of_at_most_5_kb(),
    ):
        fit.save(file)
    assert str(riesz.load(file)) == str(fit)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space is left there. Free some, or save to another disk"),
        (errno.EDQUOT, "no space is left there"),
        (errno.EROFS, "its folder is not writable. Save to another folder"),
        (errno.EACCES, "its folder is not writable"),
        (errno.EIO, "Input/output error. Save to another path"),
    ],
)
@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_what_the_system_refuses(
    fit: riesz.Results, file: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str, step: str
) -> None:
    from riesz.storage import paths

    def fail(*args: Any) -> None:
        raise OSError(number, os.strerror(number))

    if step == "open":
        monkeypatch.setattr(paths, "open", fail, raising=False)
    else:
        monkeypatch.setattr(paths.os, step, fail)
    with pytest.raises(riesz.DataError, match=words) as caught:
        fit.save(file)
    assert str(file) in str(caught.value)
    monkeypatch.undo()
    assert str(riesz.load(file)) == str(fit)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_paths_that_name_no_file(fit: riesz.Results, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("x")
    for ask, verb in ((fit.save, r"save\(\)"), (riesz.load, r"load\(\)")):
        with pytest.raises(ArgumentError, match=rf"{verb} got an open file, .*; expected a path, such as 'fit.riesz'"):
            ask(io.BytesIO())
        with open(tmp_path / "handle", "wb") as handle, pytest.raises(ArgumentError, match="an open file"):
            ask(handle)
        with pytest.raises(ArgumentError, match=rf"{verb} got a NoneType, None; expected a path"):
            ask(None)
        with pytest.raises(ArgumentError, match=rf"{verb} got a int, 3; expected a path"):
            ask(3)
        for path in ("", "a\0b"):
            with pytest.raises(riesz.DataError, match="is not the path of a file"):
                ask(path)
        with pytest.raises(riesz.DataError, match=f"'{tmp_path}' is a folder"):
            ask(tmp_path)
        with pytest.raises(riesz.DataError, match=r"name too long|There is no file"):
            ask(tmp_path / ("x" * 300))
    with pytest.raises(riesz.DataError, match=f"there is no folder '{tmp_path}/none'. Create it first"):
        fit.save(tmp_path / "none" / "fit.riesz")
    with pytest.raises(riesz.DataError, match=r"cannot be saved to .*Not a directory"):
        fit.save(tmp_path / "text" / "fit.riesz")
    with pytest.raises(riesz.DataError, match="not a file that can be replaced"):
        fit.save(tmp_path / "pipe")
    with pytest.raises(riesz.DataError, match="There is no file"):
        riesz.load(tmp_path / "text" / "fit.riesz")


def test_a_file_that_may_not_be_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from riesz.storage import paths

    def fail(*args: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(paths, "open", fail, raising=False)
    with pytest.raises(riesz.DataError, match=f"The file '{file}' cannot be opened: Permission denied"):
        riesz.load(file)


def test_links_bytes_and_rights(fit: riesz.Results, tmp_path: Path) -> None:
    """The target of a link is written; the file has the permissions of any new file."""
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "fit.riesz").write_text("old")
    link = tmp_path / "link.riesz"
    link.symlink_to(tmp_path / "far" / "fit.riesz")
    fit.save(os.fsencode(link))
    assert link.is_symlink()
    assert str(riesz.load(os.fsencode(link))) == str(riesz.load(tmp_path / "far" / "fit.riesz")) == str(fit)
    (tmp_path / "plain").touch()
    assert (tmp_path / "far" / "fit.riesz").stat().st_mode == (tmp_path / "plain").stat().st_mode
    long = tmp_path / ("x" * 249 + ".riesz")  # the longest name there is
    fit.save(long)
    assert riesz.load(long).nobs == 400


# whole numbers, intervals and dates


def around(fit: riesz.Results, folder: Path) -> riesz.Results:
    fit.save(folder / "around.riesz")
    return riesz.load(folder / "around.riesz")


def test_whole_numbers_beyond_floating_point(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    numbers = BIG + np.arange(400) // 10
    with_gaps = pd.array(numbers, dtype="Int64")
    with_gaps[3] = pd.NA
    data = binary_frame.assign(
        plain=numbers,
        nullable=with_gaps,
        unsigned=(numbers.astype(np.uint64) + np.uint64(2**63)),
        nullable_unsigned=pd.array(numbers.astype(np.uint64) + np.uint64(2**63), dtype="UInt64"),
        arrow=pd.Series(pd.arrays.ArrowExtensionArray(pa.array(numbers.tolist()))),
        objects=pd.Series([None, *numbers.tolist()[1:]], dtype=object),
        levels=pd.Categorical(numbers),
        huge=pd.Series([10**30] * 400, dtype=object),
        flags=pd.array([True, None] * 200, dtype="boolean"),
        small=pd.array([1.5, None] * 200, dtype="Float32"),
    )
    data.index = pd.Index(pd.array(BIG + np.arange(400), dtype="Int64"), name="id")
    for cluster in ("plain", "nullable_unsigned", "arrow"):
        fit = riesz.ate("y ~ treat(a) * x1", data, folds=2, cluster=cluster)
        again = around(fit, tmp_path)
        assert again.clusters.labels[0].tolist() == fit.clusters.labels[0].tolist()
        assert len(set(again.leave_one_out().index)) == 40
    table, old = again.model.table.export(), data.reset_index(drop=True)
    for name in ("plain", "nullable", "unsigned", "nullable_unsigned", "flags", "small", "levels"):
        pd.testing.assert_series_equal(table[name].reset_index(drop=True), old[name])
    assert table["arrow"].tolist() == numbers.tolist()
    assert table["objects"].tolist()[1:] == numbers.tolist()[1:]
    assert table["objects"].isna().sum() == 1
    assert table["huge"].tolist() == [1e30] * 400
    assert table.index.tolist() == data.index.tolist()
    assert again.fittedvalues.index.tolist() == (BIG + np.arange(400)).tolist()
    several = data.set_index([data.index, "plain"])
    assert (
        around(riesz.ate("y ~ treat(a) + x1", several, folds=2), tmp_path).resid.index.tolist()
        == several.index.tolist()
    )


def test_levels_that_are_intervals(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    """predict() on a loaded fit knows the levels of pd.cut, and groups are called as before."""
    data = binary_frame.assign(
        band=pd.cut(binary_frame["x1"], [-10, -0.5, 0.5, 10]),
        whole=pd.cut(binary_frame["village"], [-1, 10, 20, 40], right=False),
        share=pd.qcut(binary_frame["x2"], 3),
        labelled=pd.cut(binary_frame["x2"], 3, labels=["low", "middle", "high"]),
        time=pd.cut(pd.date_range("2020-01-01", periods=400), 4),
    )
    data["loose"] = data["band"].astype("interval[float64]")
    fit = riesz.ate("y ~ treat(a) * band + C(whole) + labelled + time", data, folds=2)
    again = around(fit, tmp_path)
    pd.testing.assert_frame_equal(again.predict(data), fit.predict(data))
    pd.testing.assert_frame_equal(again.predict(data.head(3)), fit.predict(data.head(3)))
    for name in ("band", "whole", "share", "labelled", "time"):
        pd.testing.assert_frame_equal(again.by(name).tidy(), fit.by(name).tidy())
    table = again.model.table.export()
    for name in ("band", "whole", "share", "labelled", "time", "loose"):
        pd.testing.assert_series_equal(table[name], data[name])
    other = data.assign(band=pd.cut(data["x1"], [-10, 0, 10]))
    with pytest.raises(riesz.DataError, match="which does not occur in the fit"):
        again.predict(other)


def test_arms_that_are_intervals_or_dates(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    days = pd.to_datetime(["2020-01-01", "2020-02-01", "2020-03-01"])
    rows = np.arange(400) % 3
    for arms in (
        pd.cut(binary_frame["x2"], [-10, 0, 10]),
        pd.Categorical(days[rows]),
        pd.Categorical([day.date() for day in days[rows]]),
        pd.Categorical(rows + BIG),
    ):
        data = binary_frame.assign(arm=arms)
        fit = riesz.ate("y ~ treat(arm) + x1", data, folds=2)
        again = around(fit, tmp_path)
        assert str(again) == str(fit)
        pd.testing.assert_frame_equal(again.predict(data), fit.predict(data))
        assert again.model.blueprint.treatment == fit.model.blueprint.treatment


def test_levels_of_every_kind(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    rows = np.arange(400) % 2
    kinds = {
        "text": ["a", "b"],
        "odd text": ["it's", "z\u00e9ro \U0001f600"],
        "numbers": [1.5, 2.5],
        "truth": [False, True],
        "days": [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)],
        "times": [pd.Timestamp("2020-01-01 10:00"), pd.Timestamp("2021-01-01")],
        "mixed": [1, "b"],
        "tuples": [("a", 1), ("b", 2)],
        "zones": [pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2021-01-01", tz="UTC")],
    }
    levels = {name: pd.Series([values[row] for row in rows]).astype("category") for name, values in kinds.items()}
    data = binary_frame.assign(**levels)
    fit = riesz.ate("y ~ treat(a) + x1", data, folds=2)
    again = around(fit, tmp_path)
    for name in kinds:
        pd.testing.assert_frame_equal(again.by(name).tidy(), fit.by(name).tidy())
        if name not in ("tuples", "zones"):  # these become what is printed of them
            assert again.model.table.export()[name].tolist() == data[name].tolist()


# files of format 1


def old_frame() -> pd.DataFrame:
    """What tests/data/format1.riesz was fitted on."""
    data = riesz.datasets.get("binary").draw(60, seed=1).data.iloc[:, :4].round(3)
    return data.assign(
        band=pd.cut(data["x1"], [-10, 0, 10]),
        village=[f"v{i % 12}" for i in range(60)],
        whole=pd.array(np.arange(60) % 5, dtype="Int64"),
        day=pd.date_range("2020-01-01", periods=60),
    )


def test_a_file_of_format_1_still_loads(tmp_path: Path) -> None:
    """Written by the version before, with riesz.ate("y ~ treat(a) * x1 + band", ..., folds=2, cluster="village")."""
    data = old_frame()
    assert unpack(OLD)[0]["format"] == 1
    old = riesz.load(OLD)
    new = riesz.ate("y ~ treat(a) * x1 + band", data, learner="linear", folds=2, cluster="village")
    np.testing.assert_allclose(old.params, new.params, rtol=1e-10)
    pd.testing.assert_series_equal(old.by("whole").params, new.by("whole").params)
    pd.testing.assert_frame_equal(old.model.table.export().drop(columns="band"), data.drop(columns="band"))
    assert old.model.table.export()["band"].astype(str).tolist() == data["band"].astype(str).tolist()
    as_text = data.assign(band=data["band"].astype(str))  # levels of pd.cut were text in those files
    np.testing.assert_allclose(old.predict(as_text)["mu"], new.predict(data)["mu"], rtol=1e-10)
    again = around(old, tmp_path)
    assert str(again) == str(old)
    assert unpack(tmp_path / "around.riesz")[0]["format"] == archive.FORMAT == 4


# effects through pickle


def test_effects_through_pickle_and_copies(fit: riesz.Results, binary_frame: pd.DataFrame) -> None:
    for effects in (
        fit.by("g"),
        fit.by(pd.cut(binary_frame["x2"], 3)),
        fit.blp("~ x1 + bs(x2, df=4)"),
        riesz.contrast({"double": "2 * ATE", "square": "ATE**2"}, fit),
        riesz.contrast(lambda p: p["ATE"] / 2, fit),
    ):
        again = pickle.loads(pickle.dumps(effects))
        assert type(again) is riesz.Effects
        assert str(again.summary()) == str(effects.summary())
        pd.testing.assert_frame_equal(again.tidy(joint=True), effects.tidy(joint=True))
        pd.testing.assert_frame_equal(again.cov_params(), effects.cov_params())
        pd.testing.assert_frame_equal(again.heterogeneity(), effects.heterogeneity())
        np.testing.assert_array_equal(again.variation(), effects.variation())
        assert again.nobs == effects.nobs
        assert str(pickle.loads(pickle.dumps(again))) == str(effects)
        assert copy.copy(effects) is effects
        assert copy.deepcopy(effects) is effects
        name = effects.params.index[0]
        difference = riesz.contrast(lambda p: p.iloc[0] - p.iloc[len(p) // 2], a=effects, b=again)
        assert abs(difference.params.iloc[0]) < 1e-12, name
        assert str(riesz.compare(effects, again)) == str(riesz.compare(effects, effects))
        assert len(again.plot().get_yticklabels()) == len(effects.params)


def test_effects_of_fits_with_functions_through_pickle(binary_frame: pd.DataFrame) -> None:
    """Policies, moments and learners that a file cannot hold do not stand in the way."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    def half(values: pd.Series) -> pd.Series:
        return values / 2

    own = riesz.Propensity(outcome=LinearRegression(), propensity=LogisticRegression())
    fits = [
        riesz.ape("y ~ treat(a) * half(x1)", binary_frame, policy=lambda data: data["x1"] > 0, folds=2),
        riesz.ate("y ~ treat(a) * x1", binary_frame, learner=own, folds=2, weights="w", cluster="village"),
        riesz.mean("y ~ treat(a) * x1", binary_frame, at=[0, 1], trim="95%", folds=2, repeats=2, target="sample"),
        riesz.ate("y ~ treat(a) + x1", binary_frame, learner="kernel_embedding", folds=2),
    ]
    for fit in fits:
        effects = fit.by("g")
        assert str(pickle.loads(pickle.dumps(effects))) == str(effects)


# content that makes no sense


def every_type() -> list[type]:
    list(LEARNERS.values())  # imports the modules that define them
    return list(TYPES.values())


def test_the_types_of_all_that_is_stored_are_understood() -> None:
    """Every annotation of a stored dataclass rejects some value: none is ignored."""
    from dataclasses import fields
    from typing import Any as Anything
    from typing import get_type_hints

    for kind in every_type():
        hints = get_type_hints(kind)
        for field in fields(kind):
            if hints[field.name] is not Anything and field.name != "learns_rr":
                assert not conforms(object(), hints[field.name]), (kind, field.name)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths_of(item, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


NONSENSE = [
    None,
    True,
    0,
    -1,
    10**6,
    10**30,
    -0.5,
    1e308,
    "x",
    "",
    "a0",
    [],
    {},
    [1],
    {"float": "nan"},
    {"float": "inf"},
]
NONSENSE += [{"array": "a0"}, {"array": "a3"}, {"tuple": []}, {"list": []}, {"dict": {}}, {"set": ["x"]}]
NONSENSE += [{"type": "ATE", "fields": {}}, {"type": "Linear", "fields": {}}, {"interval": [0, 1, "right"]}]


def alter_document(content: Any, draw: random.Random) -> str:
    path = draw.choice(list(paths_of(content)))
    parent = at(content, path[:-1])
    how = draw.choice(["delete", "twice", "elsewhere", *["nonsense"] * 5])
    if how == "delete":
        del parent[path[-1]]
    elif how == "twice" and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[path[-1]]))
    elif how == "elsewhere":
        parent[path[-1]] = copy.deepcopy(at(content, draw.choice(list(paths_of(content)))))
    else:
        parent[path[-1]] = copy.deepcopy(draw.choice(NONSENSE))
    return f"{how} {path}"


def alter_arrays(arrays: Arrays, draw: random.Random) -> str:
    name = draw.choice(sorted(arrays))
    values = arrays[name]
    how = draw.choice(
        ["float32", "int64", "bool", ">f8", "flat", "deeper", "shorter", "empty", "nan", "negative", "huge", "swap"]
    )
    made = values.copy()
    if how in ("float32", "int64", "bool", ">f8"):
        with np.errstate(all="ignore"):
            made = np.nan_to_num(values).astype(how)
    elif how in ("nan", "negative", "huge") and values.size and values.dtype.kind in "if":
        largest = np.iinfo(values.dtype).max if values.dtype.kind == "i" else 1e300
        made.flat[0] = {"nan": np.nan if values.dtype.kind == "f" else -7, "negative": -1, "huge": largest}[how]
    elif how == "swap":
        other = draw.choice(sorted(arrays))
        made, arrays[other] = arrays[other], values
    elif how in ("flat", "deeper", "shorter", "empty"):
        made = {"flat": values.ravel(), "deeper": values[None], "shorter": values[:-1], "empty": values[:0]}[how]
    arrays[name] = made
    return f"{how} {name} {values.shape} {values.dtype}"


SMALL_STACK = riesz.Stack([riesz.Linear(), riesz.Splines(interactions=0), riesz.Boosting(trees=5, boosters=1)])


def questions(fit: riesz.Results, data: pd.DataFrame, folder: Path) -> Iterator[Callable[[], object]]:
    """Calls of nearly everything that results offer."""
    yield lambda: str(fit)
    yield lambda: fit.summary().as_latex()
    for name in ("tvalues", "resid", "estimates", "riesz_representer", "influence", "history", "trimming", "anchor"):
        yield lambda name=name: getattr(fit, name)
    for name in ("candidates", "stacking"):
        yield lambda name=name: getattr(fit, name)
    for name in ("tidy", "glance", "augment", "diagnostics", "details", "balance", "stability", "overlap", "warnings"):
        yield lambda name=name: getattr(fit, name)()
    yield lambda: fit.conf_int(joint=True)
    yield lambda: fit.influential(5, fit.params.index[0])
    yield lambda: str(fit.by("g"))
    yield lambda: str(fit.blp("~ ."))
    yield lambda: str(fit.with_cov("village"))
    yield lambda: str(fit.sensitivity())
    yield lambda: str(riesz.contrast(lambda p: p.iloc[0] * 2, fit))
    yield lambda: str(riesz.compare(fit, fit))
    yield lambda: fit.predict(data)
    yield lambda: fit.sensitivity_benchmark("x1")
    yield lambda: str(around(fit, folder))
    yield lambda: pickle.loads(pickle.dumps(fit.by("g")))


KINDS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "everything": (
        "y ~ treat(a) * x1 + band",
        riesz.ATE(),
        {"folds": 2, "cluster": "village", "weights": "w", "trim": "95%", "repeats": 2},
    ),
    "several parameters": ("log(np.exp(y)) ~ treat(a) * (x1 + g)", [riesz.ATE(), riesz.APE("x1 > 0")], {"folds": 2}),
    "arms": ("y ~ treat(band) + x2", riesz.ATE(), {"folds": 2}),
    "mu alone": ("y ~ treat(a) + x1", riesz.ATE(), {"folds": 2, "learner": "kernel_embedding"}),
    "stack": ("y ~ treat(a) + x1 + x2", riesz.ATE(), {"folds": 2, "repeats": 2, "learner": SMALL_STACK}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_content_that_makes_no_sense(kind: str, binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    """A file with a valid checksum is refused, or each of its results works or raises an error in plain words."""
    data = binary_frame.head(60).assign(band=pd.cut(binary_frame["x1"], 3))
    formula, estimands, options = KINDS[kind]
    riesz.estimate(formula, data, estimands, **options).save(tmp_path / "fit.riesz")
    document, arrays = unpack(tmp_path / "fit.riesz")
    draw, loaded = random.Random(f"17 {kind}"), 0
    for _ in range(72):
        altered, others = copy.deepcopy(document), dict(arrays)
        done = alter_document(altered["content"], draw) if draw.random() < 0.6 else alter_arrays(others, draw)
        pack(tmp_path / "altered.riesz", altered, others)
        try:
            again = riesz.load(tmp_path / "altered.riesz")
        except riesz.DataError:
            continue
        loaded += 1
        for ask in questions(again, data, tmp_path):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    ask()
                except riesz.RieszError:
                    continue
                except Exception as error:
                    raise AssertionError(f"{done}: {error!r}") from error
    assert loaded >= 4  # some alterations do no harm, and their fits were asked


def test_scores_that_overflow_are_refused_without_a_warning(binary_frame: pd.DataFrame, tmp_path: Path) -> None:
    """Those with another learner, whose squared distance from those of the stack is part of the variance."""
    path = tmp_path / "fit.riesz"
    riesz.ate("y ~ treat(a) + x1 + x2", binary_frame.head(60), learner=SMALL_STACK, folds=2).save(path)
    document, arrays = unpack(path)
    scores = at(document["content"], ("alternatives", "tuple", 0, "fields", "swapped", "tuple", 0, "fields", "values"))
    arrays[scores["array"]] = np.full_like(arrays[scores["array"]], 1e300)
    pack(path, document, arrays)
    with pytest.raises(riesz.DataError, match="do not follow from its predictions"):
        riesz.load(path)


def set_in(content: Any, path: str, value: Any) -> None:
    *keys, last = path.split("/")
    at(content, tuple(int(key) if key.isdigit() else key for key in keys))[last] = value


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("parts/dict/treatment/fields/name", "nothing", "a column of the formula is not a covariate"),
        ("parts/dict/treatment/fields/levels", {"tuple": ["u", "v"]}, "the treatment's levels"),
        ("settings/target", "everyone", "target='everyone' is not known"),
        ("settings/seed", -1, "seed=-1: expected a whole number"),
        ("parts/dict/base/fields/family", "tweedie", "the family"),
        ("parts/dict/base/fields/family", "poisson", "an outcome outside of family='poisson'"),
        ("parts/dict/base/fields/names", {"tuple": ["x"]}, "the names of the columns"),
        ("parts/dict/covariates", {"tuple": ["nothing"]}, "a column of the formula is not in the data"),
        ("parts/dict/weights/fields/frequency", 1, "Weights.frequency is of the wrong type"),
        ("settings/trim", {"type": "Trimming", "fields": {}}, "trim=Trimming"),
        ("fitted/dict/trained", {"tuple": []}, "the folds have the wrong shape"),
        ("fitted/dict/predictions", {"tuple": []}, "the predictions"),
        ("learner", {"type": "Linear", "fields": {"penalty": -1}}, "penalty=-1"),
        ("learner", None, "the learner is of the wrong type"),
        ("fits", [], "not one fit for each fold"),
        ("recipe/estimands", {"tuple": [1]}, "Recipe.estimands is of the wrong type"),
        ("recipe/columns", [1], "Recipe.columns is of the wrong type"),
        ("components", [["ATE", "x", 1]], "components are not text"),
        ("components", [], "the names of the parameters"),
        ("table/index", {"kind": "range", "range": [0, 10**12, 1]}, "an index of the wrong length"),
        ("table/rows", 10**12, "columns of different lengths"),
    ],
)
def test_the_part_that_makes_no_sense_is_named(file: Path, path: str, value: Any, words: str) -> None:
    forge(file, lambda content, arrays: set_in(content, path, value))
    with pytest.raises(riesz.DataError, match=words) as caught:
        riesz.load(file)
    assert "damaged or was altered" in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda content: content["recipe"].update(formula="y ~ treat(a) + x1"),
            "give other columns than those of the fit",
        ),
        (lambda content: content["recipe"].update(formula="y ~ treat(x1) + a"), "its formula .* does not fit its data"),
        (
            lambda content: content["recipe"].update(estimands={"tuple": [{"type": "ATT", "fields": {}}]}),
            "give other parameters than those of the fit",
        ),
        (
            lambda content: content["recipe"].update(
                estimands={"tuple": [{"type": "Mean", "fields": {"at": {"dict": {}}}}]}
            ),
            "at gave values that are not numbers",
        ),
        (lambda content: content["recipe"].update(estimands=None), "a moment or policy that is a function"),
    ],
)
def test_a_question_that_the_file_cannot_answer(
    file: Path, binary_frame: pd.DataFrame, change: Callable[[Any], object], words: str
) -> None:
    """These fits load, since their estimates are right; predict() says what is wrong."""
    forge(file, lambda content, arrays: change(content))
    fit = riesz.load(file)
    with pytest.raises(riesz.RieszError, match=words):
        fit.predict(binary_frame)


def test_effects_keep_the_note_on_their_covariance() -> None:
    """Group effects whose two-way variance was replaced say so after pickle, too."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = 160
        data = pd.DataFrame({"x": rng.normal(size=n), "a": rng.integers(0, 2, n), "y": rng.normal(size=n)})
        data = data.assign(u=rng.integers(0, 4, n), v=rng.integers(0, 4, n))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", riesz.RieszWarning)
            effects = riesz.ate("y ~ treat(a) + x", data, cluster=["u", "v"], folds=2).by(data["x"] > 0)
        if effects._covariance_notes:
            break
    assert effects._covariance_notes
    assert str(pickle.loads(pickle.dumps(effects)).summary()) == str(effects.summary())
