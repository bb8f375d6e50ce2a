"""IHDP and BHP: any learner over many semi-synthetic data sets, beside the paper's table.

    python benchmarks/semisynthetic.py ihdp --data ../shared/data --datasets 0-99 --jobs 2 --learner madnet-paper --folds 1

Data sets are fitted in groups of 16, side by side. Each finished group is added to benchmarks/results/<name>.csv, one row a data
set; stop at any time, and the same command goes on from there. The sum goes to <name>.json beside it. Learners that correct mu by
epsilon rr (SRR) have further columns without the correction, from the same networks; learners of mu alone have the direct
estimator only.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

import numpy as np
import pandas as pd
from provenance import record
from tabulate import tabulate
from tqdm import tqdm

import riesz
from riesz.estimators import ESTIMATORS
from riesz.predictions import join

HERE = Path(__file__).parent
RESULTS = HERE / "results"
GROUP = 16  # data sets that are fitted together


def published() -> dict[tuple[str, str], dict[str, float]]:
    """The paper's mean absolute errors by scenario and learner: Table 1's where it has one, else the supplement's."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    table = pd.read_csv(HERE / "paper" / "published.csv")
    for row in table.sort_values("table", ascending=False).itertuples():
        found.setdefault((row.scenario, row.learner), {})[row.column] = row.mae
    return found


def learners() -> dict[str, object]:
    connected = {"architecture": "fully_connected", "depth": 4}
    return {
        "linear": riesz.Linear(),
        "madnet": riesz.MADNet(),
        "madnet-paper": riesz.MADNet.paper(),
        "madnet-paper-fc": riesz.MADNet.paper(**connected),
        "madnet-paper-penalty1": riesz.MADNet.paper(penalty=1.0),
        "madnet-paper-penalty1-fc": riesz.MADNet.paper(penalty=1.0, **connected),
        "madnet-paper-ade": riesz.MADNet.paper("ade"),
        "madnet-paper-ade-fc": riesz.MADNet.paper("ade", **connected),
        "madnet-paper-ade-penalty1": riesz.MADNet.paper("ade", penalty=1.0),
        "madnet-paper-ade-penalty1-fc": riesz.MADNet.paper("ade", penalty=1.0, **connected),
        "riesznet": riesz.RieszNet(),
        "riesznet-paper": riesz.RieszNet.paper(),
        "riesznet-paper-fc": riesz.RieszNet.paper(**connected),
        "riesznet-paper-ade": riesz.RieszNet.paper("ade"),
        "riesznet-paper-ade-fc": riesz.RieszNet.paper("ade", **connected),
        "dragonnet": riesz.DragonNet(),
        "dragonnet-paper": riesz.DragonNet.paper(srr=True),
        "tarnet": riesz.TARNet(),
        "tarnet-paper": riesz.TARNet.paper(),
        "neural-embedding": riesz.NeuralEmbedding(),
        "kernel-embedding": riesz.KernelEmbedding(),
        "kernel-embedding-plain": riesz.KernelEmbedding(bandwidth=0.5**0.5, standardise=False),
        "propensity": riesz.Propensity(),
    }


class IHDP:
    formula = "y ~ treat(a) + . - row"
    verb = riesz.ATE()

    def __init__(self, data: Path) -> None:
        self.covariates = pd.read_parquet(data / "ihdp_covariates.parquet")
        self.coefficients = pd.read_parquet(data / "ihdp_coefficients.parquet").set_index("dataset")
        self.outcomes = pd.read_parquet(data / "ihdp_outcomes.parquet").set_index("dataset")

    def effects(self, number: int) -> np.ndarray:
        """mu(1, x) - mu(0, x), row by row."""
        k = self.coefficients.loc[number]
        x = self.covariates[[f"x{j}" for j in range(1, 26)]]
        index = x.to_numpy(dtype=float) @ k[[f"b{j}" for j in range(1, 26)]].to_numpy(dtype=float)
        return np.asarray(k["c1"] + index - np.exp(k["c0"] + index))

    def draw(self, number: int) -> tuple[pd.DataFrame, float]:
        y = self.outcomes.loc[number].sort_values("row")["y"].to_numpy(dtype=float)
        return self.covariates.assign(y=y), float(self.effects(number).mean())


class BHP:
    formula = "y ~ treat(a) + ."
    verb = riesz.ADE()

    def __init__(self, data: Path) -> None:
        self.covariates = pd.read_parquet(data / "bhp.parquet").drop(columns=["log_q", "log_p"])
        self.draws = pd.read_parquet(data / "bhp_draws.parquet").set_index("seed")
        self.truth = pd.read_parquet(data / "bhp_truth.parquet").set_index("seed")["truth"]

    def draw(self, number: int) -> tuple[pd.DataFrame, float]:
        own = self.draws.loc[number].sort_values("row")
        table = self.covariates.assign(a=own["a"].to_numpy(dtype=float), y=own["y"].to_numpy(dtype=float))
        return table, float(self.truth[number])


SOURCES = {"ihdp": IHDP, "bhp": BHP}


def run(source: str, data: str, numbers: list[int], learner: str, options: dict) -> pd.DataFrame:
    origin = SOURCES[source](Path(data))
    drawn = [origin.draw(number) for number in numbers]
    start = time.process_time()
    fits = riesz.estimate_many(
        origin.formula,
        [table for table, _ in drawn],
        origin.verb,
        learner=learners()[learner],
        progress=False,
        **options,
    )
    seconds = (time.process_time() - start) / len(numbers)
    rows = []
    for number, fit, (table, truth) in zip(numbers, fits, drawn, strict=True):
        low, high = fit.conf_int().iloc[0]
        rows.append(
            {
                "dataset": number,
                "truth": truth,
                **fit.estimates["estimate"].droplevel("parameter").to_dict(),
                **({"ipw_centred": ipw_centred(fit)} if fit.model.learner.learns_rr else {}),
                **(without_srr(fit) if getattr(fit.model.learner, "srr", False) else {}),
                "std_error": fit.bse.iloc[0],
                "covered": low <= truth <= high if np.isfinite(low) else np.nan,
                "range": float(np.ptp(table["a"])),
                "cpu_seconds": seconds,
                **fit.details().mean().to_dict(),
            }
        )
    return pd.DataFrame(rows)


def ipw_centred(fit: riesz.Results) -> float:
    """E_n[rr (y - mean y)]: both estimands are contrasts, but E_n[rr y] moves with the outcome's origin unless E_n[rr] is zero."""
    design = fit.model.blueprint.design
    return float(design.mean(fit.predictions.rr.observed[0] * (design.y - design.mean(design.y))))


def without_srr(fit: riesz.Results) -> dict[str, float]:
    """The estimates with mu as it is: the networks are the same, only what is read from them differs."""
    crossfit, design = fit._crossfit, fit.model.blueprint.design
    fits, found = iter(crossfit.fits), {name: [] for name in ("direct", "ipw", "dr")}
    for splits in crossfit.splits:
        parts = []
        for split in splits:
            own = next(fits)
            plain = replace(own, readings=tuple(replace(reading, srr=False) for reading in own.readings))
            parts.append(plain.predict(design.take(split.test)))
        whole = join(parts, [split.test for split in splits])
        for name, values in found.items():
            scores = ESTIMATORS[name](whole, design).values
            values.append(float(design.mean(scores)[0] / design.mean(design.base.moment.normalizer)[0]))
    return {f"{name}_without_srr": float(np.median(values)) for name, values in found.items()}


def prepare_worker() -> None:
    """One thread a worker; let it end when the process that started it does, even if that was killed."""
    import torch

    torch.set_num_threads(1)
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def chosen(text: str) -> list[int]:
    """Numbers of data sets, such as 0-99 or 7."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def stem_of(source: str, learner: str, folds: int = 1, repeats: int = 1) -> str:
    """What the result files of a study are called."""
    return f"{source}_{learner}_folds{folds}_repeats{repeats}"


def study(source: str, data: str, datasets: str, learner: str, options: dict, jobs: int) -> pd.DataFrame:
    """Fit what is not in the result file yet, adding each finished group to it; then the rows of all data sets asked for."""
    raw = RESULTS / f"{stem_of(source, learner, options['folds'], options['repeats'])}.csv"
    raw.parent.mkdir(exist_ok=True)
    done = pd.read_csv(raw) if raw.exists() else pd.DataFrame({"dataset": []})
    wanted = chosen(datasets)
    todo = [number for number in wanted if number not in set(done["dataset"])]
    groups = [todo[start : start + GROUP] for start in range(0, len(todo), GROUP)]
    with (
        ProcessPoolExecutor(jobs, get_context("spawn"), initializer=prepare_worker) as pool,
        tqdm(total=len(wanted), initial=len(wanted) - len(todo), desc=f"{source}, {learner}", unit="data set") as bar,
    ):
        futures = [pool.submit(run, source, data, group, learner, options) for group in groups]
        try:
            for future in as_completed(futures):
                piece = future.result()
                if raw.exists() and list(pd.read_csv(raw, nrows=0)) != list(piece):
                    raise SystemExit(f"{raw} has other columns than a run has now. Move it away, and start anew.")
                piece.round(6).to_csv(raw, mode="a", header=not raw.exists(), index=False)
                bar.update(len(piece))
        except KeyboardInterrupt:
            bar.close()
            print("Stopped. Finished groups of data sets are kept; the same command goes on from there.", flush=True)
            os._exit(130)  # a pool would first finish what is under way; workers end with this process
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # or it would first run all groups that wait
            raise
    return pd.read_csv(raw).query("dataset in @wanted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", choices=SOURCES)
    parser.add_argument("--data", required=True)
    parser.add_argument("--datasets", default="0-99")
    parser.add_argument("--learner", default="madnet-paper", choices=learners())
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--target", default="sample")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    options = {"folds": arguments.folds, "repeats": arguments.repeats, "target": arguments.target}
    frame = study(arguments.source, arguments.data, arguments.datasets, arguments.learner, options, arguments.jobs)
    show(frame, arguments.source, arguments.datasets, arguments.learner, arguments.folds, arguments.repeats)


def show(frame: pd.DataFrame, source: str, datasets: str, learner: str, folds: int = 1, repeats: int = 1) -> None:
    """Mean absolute errors with their standard errors, coverage and time, on the screen and in a file."""
    table = {}
    names = ["ipw_centred", *(f"{name}{end}" for name in ("direct", "ipw", "dr") for end in ("", "_without_srr"))]
    for name in frame.columns.intersection(names, sort=False):
        error = (frame[name] - frame["truth"]).abs()
        table[name] = {"mae": error.mean(), "std_error": error.std() / np.sqrt(len(error)), "median": error.median()}
        if source == "bhp":  # the paper compares with the truth divided by the treatment's range
            slip = (frame[name] - frame["truth"] / frame["range"]).abs()
            table[name] |= {"paper_mae": slip.mean(), "paper_std_error": slip.std() / np.sqrt(len(slip))}
    found = {
        "data_sets": len(frame),
        **({"coverage": round(float(frame["covered"].mean()), 4)} if frame["covered"].notna().any() else {}),
        "cpu_seconds": round(float(frame["cpu_seconds"].mean()), 2),
        **{name: {key: round(float(value), 4) for key, value in values.items()} for name, values in table.items()},
    }
    print(beside_the_paper(table, published().get((source, learner), {})))
    print(
        f"{len(frame)} data sets, coverage {found.get('coverage', 'none')}, {found['cpu_seconds']} CPU seconds a data set"
    )
    command = (
        f"python benchmarks/semisynthetic.py {source} --datasets {datasets} --learner {learner} "
        f"--folds {folds} --repeats {repeats}"
    )
    record(RESULTS / f"{stem_of(source, learner, folds, repeats)}.json", command, found)


def beside_the_paper(table: dict[str, dict[str, float]], paper: dict[str, float]) -> str:
    """Our errors and the paper's, which for BHP are to be read beside ``paper_mae``."""
    frame = pd.DataFrame(table).T
    frame["paper"] = pd.Series(paper, dtype=float)
    return tabulate(frame, headers="keys", floatfmt=".4f", missingval="", tablefmt="simple")


if __name__ == "__main__":
    main()
