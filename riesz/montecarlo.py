"""Many samples of one simulation through one learner: errors, standard errors and coverage.

``study`` fits every question of a simulation on many draws and returns a tidy frame, one row for each draw and
parameter; ``coverage`` sums it up. Work can be spread over processes, written to a file as it goes, and taken up again
where it stopped.

Examples
--------
>>> import riesz
>>> draws = riesz.montecarlo.study("binary", n=200, draws=range(3), verbs=["ate"], learner="linear")
>>> riesz.montecarlo.coverage(draws)["draws"].tolist()
[3]
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from scipy import stats
from tqdm.auto import tqdm

from riesz.datasets import get
from riesz.default_settings import chosen
from riesz.errors import DataError
from riesz.estimation import Options, estimate
from riesz.keywords import refuse_unknown

_CHUNK = 25  # draws between two writes


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
    """Estimate the questions of a simulation on many draws.

    Parameters
    ----------
    simulation : str
        A name in ``riesz.datasets.SIMULATIONS``.
    n : int
        Rows of a draw.
    draws : iterable of int
        The seeds of the draws.
    formula : str, optional
        By default the simulation's own, which is correctly specified for a linear learner.
    verbs : sequence of str, optional
        Which of its questions to ask; by default all of them, in one fit.
    path : path, optional
        A CSV file that results are appended to as they come; draws found there are not run again.
    processes : int
        How many processes to use; each keeps to one thread.
    **options
        For :func:`riesz.estimate`; ``progress`` shows one bar for the whole study.

    Returns
    -------
    pandas.DataFrame
        Columns simulation, n, draw, verb, parameter, truth, oracle, estimate, std_error, covered. ``oracle`` is the one-step
        estimate from the true mu and the true Riesz representer on the same draw.

    Examples
    --------
    >>> from riesz import montecarlo
    >>> frame = montecarlo.study("binary", n=300, draws=range(4), verbs=["ate"], learner="linear")
    >>> frame["parameter"].tolist()
    ['ATE', 'ATE', 'ATE', 'ATE']
    """
    taken = ("formula", "verbs", "path", "processes", *Options.__annotations__)
    refuse_unknown("riesz.montecarlo.study()", options, taken)
    file = None if path is None else Path(path)
    done = pd.read_csv(file) if file is not None and file.exists() else None
    known = set() if done is None else set(done["draw"])
    todo = [draw for draw in draws if draw not in known]
    chunks = [todo[start : start + _CHUNK] for start in range(0, len(todo), _CHUNK)]
    progress = options.pop("progress", None)
    # found here, since other processes do not know what riesz.defaults was set to in this one
    settings = {**options, "learner": chosen(options.get("learner")), "progress": False}
    jobs = [(simulation, n, chunk, formula, verbs, settings) for chunk in chunks]
    pieces = [] if done is None else [done]
    hidden = None if progress is None else not progress
    with tqdm(total=len(todo), desc=f"{simulation}, n={n}", unit="draw", disable=hidden) as bar:
        for piece in _run(jobs, processes):
            pieces.append(piece)
            bar.update(piece["draw"].nunique())
            if file is not None:
                piece.to_csv(file, mode="a", header=not file.exists(), index=False)
    if not pieces:
        raise DataError("draws is empty; wanted at least one seed.")
    return pd.concat(pieces, ignore_index=True).sort_values(["draw"], kind="stable", ignore_index=True)


def _run(jobs: Sequence[tuple[Any, ...]], processes: int) -> Iterable[pd.DataFrame]:
    if processes == 1:
        yield from (_chunk(*job) for job in jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        for future in as_completed([pool.submit(_chunk, *job) for job in jobs]):
            yield future.result()


def _one_thread() -> None:
    """Two processes that each use every core are slower than two that use one; only this worker is affected."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def _chunk(
    name: str, n: int, draws: Sequence[int], formula: str | None, verbs: Sequence[str] | None, options: Any
) -> pd.DataFrame:
    simulation = get(name)
    asked = list(verbs or simulation.questions)
    estimands = [simulation.questions[verb] for verb in asked]
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
                "verb": np.repeat(asked, [len(truth) for truth in truths]),
                "parameter": fit.params.index,
                "truth": np.concatenate(truths),
                "oracle": np.concatenate([simulation.oracle(estimand, drawn) for estimand in estimands]),
                "estimate": fit.params.to_numpy(),
                "std_error": fit.bse.to_numpy(),
            }
        )
        frame["covered"] = (interval[0].to_numpy() <= frame["truth"]) & (frame["truth"] <= interval[1].to_numpy())
        rows.append(frame)
    return pd.concat(rows, ignore_index=True)


def coverage(frame: pd.DataFrame, level: float = 0.95, family_error: float = 0.01) -> pd.DataFrame:
    """Sum a study (or several, concatenated) up, one row for each parameter.

    Parameters
    ----------
    frame : pandas.DataFrame
        From :func:`study`.
    level : float
        The nominal coverage.
    family_error : float
        A row is ``rejected`` when an exact binomial test of the nominal coverage rejects at this level divided by the number of
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
    >>> montecarlo.coverage(frame)["draws"].tolist()
    [4]
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
    hits = (table["coverage"] * table["draws"]).round().astype(int)
    table["p_value"] = [
        stats.binomtest(int(k), int(n), level).pvalue for k, n in zip(hits, table["draws"], strict=True)
    ]
    table["rejected"] = table["p_value"] < family_error / len(table)
    return table
