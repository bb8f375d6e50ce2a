"""A fit to Parquet files against a plain scan of them that computes one Gram matrix: time and peak memory.

    OMP_NUM_THREADS=1 python benchmarks/stream.py --rows 1000000 --columns 20

The data are made in a temporary folder. Each measurement runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from provenance import PACKAGES, record

RESULTS = Path(__file__).parent / "results"


def make(folder: Path, rows: int, columns: int, files: int = 8) -> None:
    """Write files of equal size."""
    for number in range(files):
        rng = np.random.default_rng([rows, number])
        size = rows // files
        x = rng.normal(size=(size, columns))
        a = (rng.uniform(size=size) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
        y = a * (1 + x[:, 1]) + x[:, :3].sum(axis=1) + rng.normal(size=size)
        data = pd.DataFrame(x, columns=[f"x{j}" for j in range(columns)]).assign(a=a, y=y)
        data.to_parquet(folder / f"part{number}.parquet", index=False)


def scan(folder: Path) -> dict[str, float]:
    """The Gram matrix of all columns, file by file and batch by batch."""
    from pyarrow import parquet

    gram: np.ndarray | float = 0.0
    for file in sorted(folder.glob("*.parquet")):
        for batch in parquet.ParquetFile(file).iter_batches():
            z = np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])
            gram = gram + z.T @ z
    return {"trace": float(np.trace(gram))}


def fit(folder: Path, formula: str) -> dict[str, float]:
    """The streamed fit."""
    import riesz

    results = riesz.ate(formula, folder, learner="linear")
    return {"estimate": float(results.params.iloc[0]), "std_error": float(results.bse.iloc[0])}


def measure(task: str, folder: str, formula: str) -> None:
    """Run one task and write its time and peak memory to standard output."""
    import riesz  # noqa: F401  # both tasks start with the same packages in memory

    before, cpu = time.perf_counter(), time.process_time()
    found = scan(Path(folder)) if task == "scan" else fit(Path(folder), formula)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    facts = {"seconds": time.perf_counter() - before, "cpu_seconds": time.process_time() - cpu, "peak_mb": used}
    sys.stdout.write(json.dumps({**facts, **found}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--task", nargs=3, help="used by the script itself")
    arguments = parser.parse_args()
    if arguments.task:
        measure(*arguments.task)
        return
    names = " + ".join(f"x{j}" for j in range(arguments.columns))
    formulas = {"additive": f"y ~ treat(a) + {names}", "interacted": f"y ~ treat(a) * ({names})"}
    table: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), arguments.rows, arguments.columns)
        for name, task, formula in [("scan", "scan", ""), *((n, "fit", f) for n, f in formulas.items())]:
            command = [sys.executable, __file__, "--task", task, folder, formula]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            table[name] = {key: round(value, 4) for key, value in json.loads(done.stdout).items()}
            sys.stdout.write(f"{name:12} {table[name]}\n")
    ratios = {name: round(table[name]["cpu_seconds"] / table["scan"]["cpu_seconds"], 2) for name in formulas}
    facts = {"rows": arguments.rows, "columns": arguments.columns, "measured": table, "cpu_over_scan": ratios}
    command = f"OMP_NUM_THREADS=1 python benchmarks/stream.py --rows {arguments.rows} --columns {arguments.columns}"
    file = RESULTS / f"stream_{arguments.rows}_{arguments.columns}.json"
    record(file, command, facts, (*PACKAGES, "pyarrow"))


if __name__ == "__main__":
    main()
