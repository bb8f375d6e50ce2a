"""One million rows: wall time compared with one statsmodels OLS fit, and peak memory compared with the design matrix.

    python benchmarks/scale.py [--rows 1000000] [--covariates 20] [--folds 5] [--repeats 3]

Ratios are measured in one run on one machine. Memory is the growth of the process while ``riesz.ate`` runs, without the
data themselves. Writes benchmarks/results/scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import statsmodels.api as sm
from provenance import record

import riesz

RESULT = Path(__file__).parent / "results" / "scale.json"


def make_data(rows: int, covariates: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, covariates))
    a = (rng.uniform(size=rows) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
    y = a * (1 + x[:, 1]) + x[:, 0] + x[:, 1] + rng.normal(size=rows)
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(covariates)]).assign(a=a, y=y)


def peak_growth(work: Callable[[], object]) -> float:
    """The largest growth of the process's memory during the work, in bytes, sampled every 2 ms."""
    process = psutil.Process(os.getpid())
    start, peak, done = process.memory_info().rss, 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, process.memory_info().rss - start)
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    done.set()
    watcher.join()
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--covariates", type=int, default=20)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    data = make_data(arguments.rows, arguments.covariates)

    def ours() -> riesz.Results:
        return riesz.ate("y ~ treat(a) + .", data, learner="linear", folds=arguments.folds)

    growth = peak_growth(ours)
    design = np.column_stack([np.ones(len(data)), data.drop(columns="y").to_numpy()])
    times: dict[str, list[float]] = {"riesz": [], "ols": []}
    for _ in range(arguments.repeats):
        for name, work in (("riesz", ours), ("ols", lambda: sm.OLS(data["y"].to_numpy(), design).fit().bse)):
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    fit = ours()
    best = {name: min(values) for name, values in times.items()}
    facts = {
        "rows": arguments.rows,
        "columns": design.shape[1],
        "folds": arguments.folds,
        "seconds_riesz": round(best["riesz"], 2),
        "seconds_ols": round(best["ols"], 2),
        "time_ratio": round(best["riesz"] / best["ols"], 2),
        "design_megabytes": round(design.nbytes / 1e6),
        "peak_growth_megabytes": round(growth / 1e6),
        "memory_ratio": round(growth / design.nbytes, 2),
        "memory_ratio_with_data": round((growth + data.memory_usage().sum()) / design.nbytes, 2),
        "estimate": round(float(fit.params["ATE"]), 4),
        "std_error": round(float(fit.bse["ATE"]), 4),
    }
    print(json.dumps(facts, indent=2))
    record(RESULT, f"python benchmarks/scale.py --rows {arguments.rows} --covariates {arguments.covariates}", facts)


if __name__ == "__main__":
    main()
