"""Fits on data with known truth: the record of a fit, the file of a study, and the processes that run it.

A :class:`Case` is one data set with its truth and the oracle's estimate. ``measure`` fits a learner to it and returns a record;
``run`` measures many cases in several processes with one thread each and adds each finished record to the study's file, as one
line of JSON. So a study that was stopped or killed resumes where it stopped. A fit that raises an error gives a record with that
error.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import rivals
from threadpoolctl import threadpool_limits
from tqdm import tqdm
from workers import end_with_parent

import riesz
from riesz.diagnostics.warnings import RULES
from riesz.errors import RieszWarning
from riesz.learners import Learner
from riesz.results.checks import gather_evidence
from riesz.storage.studies import settings_of, words

ROOT = Path(__file__).parents[1]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True, eq=False)
class Case:
    """One data set with known truth.

    Attributes
    ----------
    key : int
        Its number in the study; also the seed of the fit.
    labels : mapping of str to str
        Factors of the design, for tables.
    data : pandas.DataFrame
        Outcome y, treatment a and covariates.
    formula : str
    estimand : riesz.Estimand
    names : sequence of str, length K
        The parameters as a fit names them, in the order of ``truth``.
    truth, oracle, oracle_std_error : ndarray, shape (K,)
        The population value, and the one-step estimate from the true mu and rr with its standard error.
    keywords : mapping
        Keywords of the fit.
    """

    key: int
    labels: Mapping[str, str]
    data: pd.DataFrame
    formula: str
    estimand: riesz.Estimand
    names: Sequence[str]
    truth: np.ndarray
    oracle: np.ndarray
    oracle_std_error: np.ndarray
    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """The method of a fit: a learner of riesz, or a rival by its name.

    Attributes
    ----------
    name : str
        Used in the names of files.
    learner : Learner or str
    options : mapping
        Further keywords of :func:`riesz.estimate`; none for a rival.
    """

    name: str
    learner: Learner | str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_rival(self) -> bool:
        return isinstance(self.learner, str)

    def identity(self) -> dict[str, Any]:
        """What distinguishes this method from others."""
        if self.is_rival:
            return {"learner": self.learner, **rivals.identity(str(self.learner))}
        options = {name: words(value) for name, value in sorted(self.options.items())}
        return {"riesz": riesz.__version__, **settings_of("learner", self.learner), "options": options}


def method(text: str, name: str | None = None, options: Sequence[str] = ()) -> Method:
    """The method that a command line names.

    Parameters
    ----------
    text : str
        The name of a learner or of a rival, or an expression such as ``riesz.MADNet(networks=1)``.
    name : str, optional
        Used in the names of files; required for an expression.
    options : sequence of str
        Keywords of the fit, such as ``repeats=1``.
    """
    if text in rivals.RIVALS:
        if options:
            raise SystemExit(f"--options do not apply to {text}.")
        return Method(name or text, text)
    is_expression = "(" in text
    if is_expression and name is None:
        raise SystemExit(f"--learner {text!r} needs a --name, which is used in the names of its files.")
    keywords: dict[str, Any] = {}
    for option in options:
        keyword, _, value = option.partition("=")
        keywords[keyword] = _value(value)
    try:
        learner = eval(text, {"riesz": riesz}) if is_expression else text  # the user's own command line
        settings = riesz.settings.Settings(learner=learner, **keywords)  # refuses wrong names before any fit
    except (riesz.RieszError, AttributeError, TypeError) as error:
        raise SystemExit(f"--learner or --options: {error}") from error
    return Method(name or text, settings.learner, keywords)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# one fit


def measure(case: Case, method: Method) -> dict[str, Any]:
    """Fit, and return the record: facts about the fit, and under ``parameters`` one mapping per parameter."""
    shape = {"rows": len(case.data), "covariates": case.data.shape[1] - 2}
    record: dict[str, Any] = {"key": case.key, "library": library(), "labels": dict(case.labels), **shape}
    start = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table, facts = _rival(case, method, start) if method.is_rival else _learner(case, method, start)
        facts["advice"] = [str(entry.message) for entry in caught if issubclass(entry.category, RieszWarning)]
        record |= {"error": None, **facts}
    except Exception as error:
        table = pd.DataFrame(index=list(case.names), columns=["estimate", "std_error", "low", "high"], dtype=float)
        record |= {"error": f"{type(error).__name__}: {error}", "seconds": time.process_time() - start}
    table = table.loc[list(case.names)]  # a fit orders arms by their labels
    table = table.assign(truth=case.truth, oracle=case.oracle, oracle_std_error=case.oracle_std_error)
    covered = (table["low"] <= table["truth"]) & (table["truth"] <= table["high"])
    table["covered"] = [
        bool(c) if has_interval else None for c, has_interval in zip(covered, table["low"].notna(), strict=True)
    ]
    return plain({**record, "parameters": table.rename_axis("parameter")})


def _rival(case: Case, method: Method, start: float) -> tuple[pd.DataFrame, dict[str, Any]]:
    table = rivals.fit(str(method.learner), case.data, case.key)
    return table, {"seconds": time.process_time() - start}


def _learner(case: Case, method: Method, start: float) -> tuple[pd.DataFrame, dict[str, Any]]:
    keywords = {**case.keywords, "seed": case.key, "progress": False, **method.options}
    fit = riesz.estimate(case.formula, case.data, case.estimand, learner=method.learner, **keywords)
    seconds = time.process_time() - start  # without the checks that follow
    return parameters(fit), {"seconds": seconds, **remarks(fit)}


def parameters(fit: riesz.Results) -> pd.DataFrame:
    """One row per parameter: estimate, standard error, interval, largest weight and effective number of rows."""
    interval = fit.conf_int()
    table = pd.DataFrame({"estimate": fit.params, "std_error": fit.bse, "low": interval[0], "high": interval[1]})
    if not fit.model.learner.learns_rr:
        return table
    return table.join(fit.diagnostics()[["largest_rr", "effective_n"]])


def remarks(fit: riesz.Results) -> dict[str, Any]:
    """Warnings, the summary's first note and, for a stack, the candidates and their weights."""
    texts = list(fit.warnings())
    rules: dict[str, str] = {}
    if texts:
        evidence = gather_evidence(fit._parts)
        rules = {text: rule.__name__ for rule in RULES for text in rule(evidence)}
    notes = fit.summary().notes
    return {
        "warnings": [rules.get(text, "other") for text in texts],
        "first_warning": texts[0] if texts else None,
        "first_note": notes[0] if notes else None,
        "candidates": stack_table(fit, "candidates"),
        "stacking": stack_table(fit, "stacking"),
    }


def stack_table(fit: riesz.Results, name: str) -> Any:
    """A table that only fits of a stack have, as a property or a method; None if this fit has none."""
    try:
        table = getattr(fit, name, None)
        return table() if callable(table) else table
    except riesz.RieszError:
        return None


def plain(value: Any) -> Any:
    """A value that JSON can hold: a table becomes a list of its rows, and numbers that are not finite become None."""
    if isinstance(value, pd.DataFrame):
        table = value.reset_index() if any(value.index.names) or value.index.dtype != np.int64 else value
        return plain(table.to_dict("records"))
    if isinstance(value, pd.Series):
        return plain(value.rename(value.name or "value").to_frame())
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


@cache
def library() -> str:
    """The version of the folder riesz/: its checksum in git, with a mark if files were changed."""
    git = ["git", "-C", str(ROOT)]
    try:
        tree = subprocess.run([*git, "rev-parse", "--short", "HEAD:riesz"], capture_output=True, text=True, check=True)
        changes = subprocess.run([*git, "status", "--porcelain", "riesz"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return f"riesz {riesz.__version__}"
    return tree.stdout.strip() + ("-changed" if changes.stdout.strip() else "")


# many fits


@dataclass(frozen=True)
class StudyLines:
    """The file of a study: its identity in the first line, then one record per line.

    Attributes
    ----------
    path : Path
    identity : mapping
        What distinguishes this study from others, one entry per property.
    """

    path: Path
    identity: Mapping[str, Any]

    def open(self) -> dict[Any, dict[str, Any]]:
        """The finished records by key. Begins the file if there is none, and removes incomplete lines."""
        identity = plain(self.identity)
        if not self.path.exists() or not self.path.read_bytes():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._replace([identity])
            return {}
        lines = list(read_lines(self.path))
        if not lines or "key" in lines[0]:
            raise SystemExit(f"{self.path} is not the file of a study. Give another --name, or move it away.")
        header, *records = lines
        differing = [name for name in {**header, **identity} if header.get(name) != identity.get(name)]
        if differing:
            differences = "; ".join(
                f"{name} is {header.get(name)!r} there and {identity.get(name)!r} here" for name in differing
            )
            raise SystemExit(
                f"{self.path} holds another study: {differences}. Give another --name, or move the file away."
            )
        if len(lines) != self.path.read_bytes().count(b"\n") or not self.path.read_bytes().endswith(b"\n"):
            self._replace(lines)
        return {record["key"]: record for record in records}

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record, in one write."""
        with self.path.open("ab", buffering=0) as file:
            file.write((json.dumps(record, allow_nan=False) + "\n").encode())
            os.fsync(file.fileno())

    def drop_errors(self) -> None:
        """Remove the records of fits that raised an error, so that they are fitted again."""
        if self.path.exists():
            self._replace([line for line in read_lines(self.path) if not _has_error(line)])

    def _replace(self, lines: Sequence[Mapping[str, Any]]) -> None:
        partial = self.path.with_suffix(".partial")
        partial.write_text("".join(json.dumps(line) + "\n" for line in lines))
        partial.replace(self.path)


def _has_error(line: Mapping[str, Any]) -> bool:
    """Whether a fit of a record raised an error."""
    return any(entry.get("error") is not None for entry in (line, *line.get("fits", {}).values()))


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The complete lines of a study's file; incomplete ones are left out."""
    for line in path.read_text(errors="replace").split("\n")[:-1]:
        try:
            yield json.loads(line)
        except ValueError:
            continue


class Work(Protocol):
    """The work of the processes; it is pickled, so its functions must be defined in modules."""

    def __call__(self, key: Any) -> dict[str, Any]:
        """The record of this key, with the entry ``key``."""

    def warm_up(self) -> None:
        """Called once per process, so that the time of a fit does not include imports."""


@dataclass(frozen=True)
class OneFit:
    """One fit per key, to the case ``make(*arguments, key)``."""

    make: Callable[..., Case]
    arguments: tuple[Any, ...]
    method: Method

    def __call__(self, key: int) -> dict[str, Any]:
        return measure(self.make(*self.arguments, key), self.method)

    def warm_up(self) -> None:
        warm_up(self.method)


def warm_up(method: Method) -> None:
    """Fit once to a few rows, so that everything is imported."""
    data, zero = riesz.datasets.get("binary").draw(100, seed=0).data, np.zeros(1)
    measure(Case(0, {}, data, "y ~ treat(a) + .", riesz.ATE(), ["ATE"], zero, zero, zero), method)


def run(file: StudyLines, keys: Sequence[Any], work: Work, jobs: int, title: str) -> list[dict[str, Any]]:
    """Do the work that is missing in the file, and return the records of all keys.

    Parameters
    ----------
    file : StudyLines
    keys : sequence of int or str
    work : Work
    jobs : int
        Processes, each with one thread; 0 means in this process.
    title : str
        Of the progress bar.
    """
    done = file.open()
    todo = [key for key in keys if key not in done]
    with tqdm(total=len(keys), initial=len(keys) - len(todo), desc=title, unit="fit") as bar:
        for record in _records(work, todo, jobs):
            file.append(record)
            done[record["key"]] = record
            bar.update()
    return [done[key] for key in keys]


def _records(work: Work, todo: Sequence[Any], jobs: int) -> Iterator[dict[str, Any]]:
    if jobs == 0 or not todo:
        with threadpool_limits(1):
            yield from map(work, todo)
        return
    os.environ.update(dict.fromkeys(THREADS, "1"))  # new processes read it before they load any library
    with ProcessPoolExecutor(min(jobs, len(todo)), get_context("spawn"), _begin_worker, (work,)) as pool:
        futures = [pool.submit(work, key) for key in todo]
        try:
            for future in as_completed(futures):
                yield future.result()
        except KeyboardInterrupt:
            print("\nStopped. Finished fits are kept; the same command resumes.", flush=True)
            os._exit(130)  # a pool would first finish the running fits; workers end with this process
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _begin_worker(work: Work) -> None:
    """Prepare a worker process: it ignores interrupts, ends with the process of the study, and warms up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process of the study handles interrupts
    end_with_parent()
    work.warm_up()


def add_arguments(parser: argparse.ArgumentParser, jobs: int = 2) -> None:
    """The arguments that the scripts of studies share."""
    parser.add_argument("--learner", default="linear")
    parser.add_argument("--name", help="used in the names of files; by default that of the learner")
    parser.add_argument("--options", nargs="*", default=[], help="keywords of the fit, such as repeats=1")
    parser.add_argument("--jobs", type=int, default=jobs, help="processes with one thread each; 0: in this process")
    parser.add_argument("--retry", action="store_true", help="repeat the fits that raised an error")


def command(given: argparse.Namespace) -> str:
    """These arguments as they were given, apart from ``--jobs``."""
    name = f" --name {given.name}" if given.name else ""
    options = f" --options {shlex.join(given.options)}" if given.options else ""
    return f" --learner {shlex.quote(given.learner)}{name}{options}"
