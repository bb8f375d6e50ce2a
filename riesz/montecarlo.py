"""Monte Carlo studies: errors, standard errors and coverage of a learner on many draws of a simulation.

``study`` estimates all estimands of a simulation on many draws and returns a tidy frame, one row per draw and parameter;
``coverage`` summarises it. Work can be spread over processes, saved to a file as it goes, and resumed where it stopped.

Examples
--------
>>> import riesz
>>> draws = riesz.montecarlo.study("binary", n=200, draws=range(3), verbs=["ate"], learner="linear")
>>> riesz.montecarlo.coverage(draws)[["parameter", "draws", "coverage"]].round(2).to_dict("records")
[{'parameter': 'ATE', 'draws': 3, 'coverage': 0.67}]
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any, Unpack

import numpy as np
import pandas as pd
from scipy import stats

from riesz.api.estimate import estimate
from riesz.api.signature import takes_settings
from riesz.crossfit.progress import progress_bar
from riesz.datasets import Simulation, get
from riesz.errors import DataError, FormulaError, listing, nearest
from riesz.learners import Learner
from riesz.settings import Options, Settings
from riesz.settings import keywords as setting_keywords
from riesz.storage.studies import COLUMNS, StudyFile, settings_of, words
from riesz.syntax.check_arguments import checked, is_count
from riesz.version import __version__

_CHUNK = 25  # draws between two writes
_MOST_ROWS = 10**9
_MOST_PROCESSES = 61 if sys.platform == "win32" else 1024
_NOT_IDENTIFYING = ("learner", "seed", "n_jobs", "progress")  # no effect on the numbers, or part of the identity anyway


@takes_settings("riesz.montecarlo.study()")
def study(
    simulation: str,
    n: int,
    draws: Iterable[int],
    *,
    formula: str | None = None,
    verbs: Sequence[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    processes: int = 1,
    **options: Unpack[Options],
) -> pd.DataFrame:
    """Estimate the estimands of a simulation on many draws.

    The keywords of :func:`riesz.estimate` apply to every draw, except that ``seed`` is the seed of the draw by default and
    ``progress`` shows one bar for the whole study.

    Parameters
    ----------
    simulation : str
        A name in ``riesz.datasets.SIMULATIONS``.
    n : int
        Rows per draw.
    draws : iterable of int
        The seeds of the draws.
    formula : str, optional
        By default the formula of the simulation, which is correctly specified for a linear learner.
    verbs : sequence of str, optional
        Which estimands of the simulation to estimate, by verb; by default all of them, in one fit.
    path : path, optional
        A CSV file to which results are appended as they come; draws in the file are not run again. A file beside it, with
        ``.json`` added to its name, identifies the study (simulation, rows, formula, verbs, learner with its settings, options,
        version): a different study is refused. Draws that were cut off when a study was killed are run again.
    processes : int
        Number of processes, each with one thread. They end with this process, even if it is killed.
    **options

    Returns
    -------
    pandas.DataFrame
        Columns simulation, n, draw, verb, parameter, truth, oracle, estimate, std_error, covered. ``oracle`` is the one-step
        estimate from the true mu and the true Riesz representer on the same draw.

    Examples
    --------
    >>> from riesz import montecarlo
    >>> frame = montecarlo.study("binary", n=300, draws=range(4), verbs=["ate"], learner="linear")
    >>> frame[["draw", "truth", "estimate", "covered"]].round(1)
       draw  truth  estimate  covered
    0     0    1.0       1.0     True
    1     1    1.0       1.0     True
    2     2    1.0       0.9     True
    3     3    1.0       0.9     True
    """
    chosen_verbs, seeds = _check_arguments(simulation, n, formula, verbs), _seeds(draws)
    _check_processes(processes)
    definition, rows = get(simulation), int(n)
    all_options: dict[str, Any] = {**definition.keywords, **options}
    settings = Settings(**all_options)  # checks the options before the first draw
    # changes of riesz.defaults do not reach other processes, so the learner itself is passed to them
    keywords = {**options, "learner": settings.learner, "progress": False}
    file = None
    pieces = []
    if path is not None:
        count = sum(len(definition.truth(definition.questions[verb])) for verb in chosen_verbs)
        identity = _identity(definition, rows, formula, chosen_verbs, settings.learner, all_options)
        file = StudyFile(_path(path), identity, count)
        pieces.append(file.open())
    done = set() if file is None else set(pieces[0]["draw"])
    todo = [seed for seed in seeds if seed not in done]
    jobs = [
        (simulation, rows, todo[start : start + _CHUNK], formula, chosen_verbs, keywords)
        for start in range(0, len(todo), _CHUNK)
    ]
    hidden = None if settings.progress is None else not settings.progress
    with progress_bar(total=len(todo), desc=f"{simulation}, n={n}", unit="draw", disable=hidden) as bar:
        for piece in _run(jobs, int(processes)):
            pieces.append(piece)
            bar.update(piece["draw"].nunique())
            if file is not None:
                file.append(piece)
    frame = pd.concat([piece for piece in pieces if len(piece)], ignore_index=True)
    frame = frame[frame["draw"].isin(seeds)]
    return frame.sort_values(["draw"], kind="stable", ignore_index=True)


def _check_arguments(simulation: object, n: object, formula: object, verbs: object) -> list[str]:
    """Check these arguments of a study, and return the verbs, by default all of the simulation's."""
    if not isinstance(simulation, str):
        raise DataError(f"simulation is {simulation!r}; expected a name, such as 'binary'.")
    available = list(get(simulation).questions)
    if not is_count(n, 1, _MOST_ROWS):
        raise DataError(f"n={n!r}: expected a whole number of rows between 1 and {_MOST_ROWS:,}.")
    if formula is not None and not isinstance(formula, str):
        raise FormulaError(
            f"formula is a {type(formula).__name__}; expected text, such as 'y ~ treat(a) + x1', or None."
        )
    if verbs is None:
        return available
    chosen = [verbs] if isinstance(verbs, str) else verbs
    if not isinstance(chosen, (list, tuple)):
        raise DataError(f"verbs is {verbs!r}; expected a list of verbs, such as {available[:1]}.")
    if not chosen:
        raise DataError(f"verbs is empty; expected at least one of {listing(available)}, or None for all of them.")
    for place, verb in enumerate(chosen):
        if verb not in available:
            raise DataError(
                f"verbs has {verb!r}.{nearest(str(verb), available)} The verbs of {simulation} are {listing(available)}."
            )
        if verb in chosen[:place]:
            raise DataError(f"verbs has {verb!r} twice; give it once.")
    return list(chosen)


def _seeds(draws: object) -> list[int]:
    """The draws as whole numbers, without repetitions."""
    if not isinstance(draws, Iterable) or isinstance(draws, (str, bytes)):
        raise DataError(f"draws is {draws!r}; expected several seeds, such as range(100).")
    seeds: dict[int, None] = {}
    for draw in draws:
        if not is_count(draw, 0):
            raise DataError(f"draws has {draw!r}; expected whole numbers, 0 or larger, such as range(100).")
        if int(draw) in seeds:
            raise DataError(f"draws has {draw} twice. Give each seed once.")
        seeds[int(draw)] = None
    if not seeds:
        raise DataError("draws is empty; expected at least one seed, such as range(100).")
    return list(seeds)


def _check_processes(processes: object) -> None:
    if not is_count(processes, 1, _MOST_PROCESSES):
        raise DataError(f"processes={processes!r}: expected a whole number between 1 and {_MOST_PROCESSES}.")


def _path(path: object) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise DataError(f"path={path!r}: expected the name of a CSV file, or None.")
    return Path(path)


def _identity(
    simulation: Simulation,
    n: int,
    formula: str | None,
    verbs: Sequence[str],
    learner: Learner,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """What distinguishes this study from others: studies with equal identities have equal rows."""
    return {
        "riesz": __version__,
        "simulation": simulation.name,
        "n": n,
        "formula": formula or simulation.formula,
        "verbs": list(verbs),
        "seed": words(options.get("seed", "that of the draw")),
        **{
            name: words(options.get(name, field.default))
            for name, (field, _) in setting_keywords().items()
            if name not in _NOT_IDENTIFYING
        },
        **settings_of("learner", learner),
    }


def _run(jobs: Sequence[tuple[Any, ...]], processes: int) -> Iterable[pd.DataFrame]:
    processes = min(processes, len(jobs))
    if processes <= 1:
        yield from (_chunk(*job) for job in jobs)
        return
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    with sender, ProcessPoolExecutor(processes, context, _begin_worker, (receiver,)) as pool:
        try:
            for future in as_completed([pool.submit(_chunk, *job) for job in jobs]):
                yield future.result()
        except BaseException:  # also on an interrupt: waiting and running chunks are no longer needed
            pool.shutdown(wait=False, cancel_futures=True)
            sender.close()
            raise


def _begin_worker(receiver: Connection) -> None:
    """In a new process: use one thread, and end when the other end of a pipe is closed.

    Two processes that each use every core are slower than two that use one each. The other end is closed when the study stops or
    its process is killed; otherwise a worker would wait for work forever.
    """
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process of the study handles interrupts
    Thread(target=_end_with, args=(receiver,), daemon=True).start()


def _end_with(receiver: Connection) -> None:
    """Wait until the other end of the pipe is closed, then end this process."""
    with contextlib.suppress(EOFError, OSError):
        receiver.recv_bytes()
    os._exit(1)


def _chunk(
    name: str, n: int, draws: Sequence[int], formula: str | None, verbs: Sequence[str], options: Any
) -> pd.DataFrame:
    simulation = get(name)
    estimands = [simulation.questions[verb] for verb in verbs]
    truths = [simulation.truth(estimand) for estimand in estimands]
    rows = []
    for draw in draws:
        drawn = simulation.draw(n, seed=draw)
        fit = estimate(
            formula or simulation.formula, drawn.data, estimands, **{**simulation.keywords, "seed": draw, **options}
        )
        interval = fit.conf_int()
        frame = pd.DataFrame(
            {
                "simulation": name,
                "n": n,
                "draw": draw,
                "verb": np.repeat(verbs, [len(truth) for truth in truths]),
                "parameter": fit.params.index,
                "truth": np.concatenate(truths),
                "oracle": np.concatenate([simulation.oracle(estimand, drawn) for estimand in estimands]),
                "estimate": fit.params.to_numpy(),
                "std_error": fit.bse.to_numpy(),
            }
        )
        frame["covered"] = (interval[0].to_numpy() <= frame["truth"]) & (frame["truth"] <= interval[1].to_numpy())
        rows.append(frame[list(COLUMNS)])
    return pd.concat(rows, ignore_index=True)


@checked("riesz.montecarlo.coverage()")
def coverage(frame: pd.DataFrame, level: float = 0.95, family_error: float = 0.01) -> pd.DataFrame:
    """Summarise a study, or several concatenated ones, in one row per parameter.

    Parameters
    ----------
    frame : pandas.DataFrame
        From :func:`study`.
    level : float
        The nominal coverage.
    family_error : float
        A row is ``rejected`` if an exact binomial test of the nominal coverage rejects at this level divided by the number of
        rows (Bonferroni).

    Returns
    -------
    pandas.DataFrame
        Draws, bias, its standard error, root mean squared error and its ratio to the oracle's on the same draws, spread of the
        estimates, mean standard error, coverage and the test.

    Examples
    --------
    >>> from riesz import montecarlo
    >>> frame = montecarlo.study("binary", n=300, draws=range(4), verbs=["ate"], learner="linear")
    >>> montecarlo.coverage(frame)[["parameter", "draws", "bias", "coverage"]].round(1).to_dict("records")
    [{'parameter': 'ATE', 'draws': 4, 'bias': -0.1, 'coverage': 1.0}]
    """
    keys = ["simulation", "n", "verb", "parameter"]
    error = frame["estimate"] - frame["truth"]
    oracle = (frame["oracle"] - frame["truth"]) ** 2
    grouped = frame.assign(error=error, square=error**2, oracle=oracle).groupby(keys, sort=False)
    table = grouped.agg(
        draws=("draw", "size"),
        truth=("truth", "first"),
        bias=("error", "mean"),
        spread=("error", "std"),
        mean_std_error=("std_error", "mean"),
        rmse=("square", lambda values: np.sqrt(values.mean())),
        rmse_ratio=("oracle", "mean"),
        coverage=("covered", "mean"),
    ).reset_index()
    table["rmse_ratio"] = table["rmse"] / np.sqrt(table["rmse_ratio"])
    table.insert(7, "bias_std_error", table["spread"] / np.sqrt(table["draws"]))
    covered = (table["coverage"] * table["draws"]).round().astype(int)
    table["p_value"] = [
        stats.binomtest(int(k), int(n), level).pvalue for k, n in zip(covered, table["draws"], strict=True)
    ]
    table["rejected"] = table["p_value"] < family_error / len(table)
    return table
