"""IHDP and BHP: any learner on many semi-synthetic data sets, compared with the paper's tables.

    python benchmarks/semisynthetic.py ihdp --data ../shared/data --datasets 0-99 --jobs 2 --learner madnet-paper --folds 1

Data sets are fitted in groups of 16, side by side. The seed of each is its number: the data sets of IHDP have the same treatments
and covariates, so that with one seed for all they would also share an rr and its error. Each finished group is added to
benchmarks/results/<name>.csv, one row per data set, and the summary in <name>.json is updated; after an interruption the same
command resumes. For learners that correct mu by epsilon rr (SRR), further columns have the estimates of the same networks without
the correction; learners of mu alone have only the direct estimator.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from provenance import record
from tabulate import tabulate
from tqdm import tqdm
from workers import end_with_parent

import riesz
from riesz.estimators import ESTIMATORS
from riesz.learners import LEARNERS
from riesz.predictions import join

HERE = Path(__file__).parent
RESULTS = HERE / "results"
GROUP = 16  # data sets that are fitted together


def published() -> dict[tuple[str, str], dict[str, float]]:
    """The paper's mean absolute errors by scenario and learner, from Table 1 or, if they are not there, from the supplement."""
    errors: dict[tuple[str, str], dict[str, float]] = {}
    table = pd.read_csv(HERE / "paper" / "published.csv")
    for row in table.sort_values("table", ascending=False).itertuples():
        errors.setdefault((row.scenario, row.learner), {})[row.column] = row.mae
    return errors


def learners() -> dict[str, object]:
    connected = {"architecture": "fully_connected", "depth": 4}
    return {
        "linear": riesz.Linear(),
        **({"auto": LEARNERS["auto"]()} if "auto" in LEARNERS else {}),
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
        "riesznet-original": riesz.RieszNet.original(),
        "riesznet-paper": riesz.RieszNet.paper(),
        "riesznet-paper-fc": riesz.RieszNet.paper(**connected),
        "riesznet-paper-fc-same-rows": riesz.RieszNet.paper(redraw=False, **connected),
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
        """mu(1, x) - mu(0, x) in each row."""
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
        draw = self.draws.loc[number].sort_values("row")
        table = self.covariates.assign(a=draw["a"].to_numpy(dtype=float), y=draw["y"].to_numpy(dtype=float))
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
        seeds=numbers,
        target="sample",
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
                "seed": fit.model.settings.seed,
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
    """E_n[rr (y - mean y)], because E_n[rr y] changes if a constant is added to y, unless E_n[rr] is zero."""
    design = fit.model.blueprint.design
    return float(design.mean(fit.predictions.rr.observed[0] * (design.y - design.mean(design.y))))


def without_srr(fit: riesz.Results) -> dict[str, float]:
    """The estimates with the uncorrected mu of the same networks."""
    crossfit, design = fit._crossfit, fit.model.blueprint.design
    fits, estimates = iter(crossfit.fits), {name: [] for name in ("direct", "ipw", "dr")}
    for splits in crossfit.splits:
        parts = []
        for split in splits:
            fitted = next(fits)
            plain = replace(fitted, objective=replace(fitted.objective, srr=False))
            parts.append(plain.predict(design.take(split.test)))
        whole = join(parts, [split.test for split in splits])
        for name, values in estimates.items():
            scores = ESTIMATORS[name](whole, design).values
            values.append(float(design.mean(scores)[0] / design.mean(design.normalizer)[0]))
    return {f"{name}_without_srr": float(np.median(values)) for name, values in estimates.items()}


def prepare_worker() -> None:
    """Use one thread in this worker, and end it with the process that started it."""
    import torch

    torch.set_num_threads(1)
    end_with_parent()


def chosen(text: str) -> list[int]:
    """Numbers of data sets, such as 0-99 or 7."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def _pieces(work: Sequence[tuple[Any, ...]], jobs: int) -> Iterator[pd.DataFrame]:
    """What ``run`` returns for each group, as it is finished; with 0 jobs in this process."""
    if jobs == 0 or not work:
        yield from (run(*arguments) for arguments in work)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=prepare_worker) as pool:
        futures = [pool.submit(run, *arguments) for arguments in work]
        try:
            for future in as_completed(futures):
                yield future.result()
        except KeyboardInterrupt:
            print("\nStopped. Finished groups of data sets are kept; the same command resumes.", flush=True)
            os._exit(130)  # a pool would first finish the running groups; workers end with this process
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # otherwise all waiting groups would run first
            raise


@dataclass(frozen=True)
class Study:
    """One learner on many data sets, and its result files."""

    source: str
    learner: str
    folds: int = 1
    repeats: int = 1

    @property
    def file(self) -> Path:
        return RESULTS / f"{self.source}_{self.learner}_folds{self.folds}_repeats{self.repeats}.csv"

    def run(self, data: str, selected: list[int], jobs: int) -> pd.DataFrame:
        """Fit the data sets missing in the file, add each finished group to it, and return the rows of the selected data sets."""
        todo = self.missing(selected)
        groups = [todo[start : start + GROUP] for start in range(0, len(todo), GROUP)]
        options = {"folds": self.folds, "repeats": self.repeats}
        work = [(self.source, data, group, self.learner, options) for group in groups]
        title = f"{self.source}, {self.learner}"
        with tqdm(total=len(selected), initial=len(selected) - len(todo), desc=title, unit="data set") as bar:
            for piece in _pieces(work, jobs):
                self.keep(piece)
                bar.update(len(piece))
        return pd.read_csv(self.file).query("dataset in @selected")

    def missing(self, selected: list[int]) -> list[int]:
        """The data sets that are missing in the file, or are there with a seed other than their number."""
        if not self.file.exists():
            return selected
        rows = pd.read_csv(self.file, usecols=["dataset", "seed"])
        done = set(rows.loc[rows["seed"] == rows["dataset"], "dataset"])
        return [number for number in selected if number not in done]

    def keep(self, piece: pd.DataFrame) -> None:
        """Put rows into the file, replacing older ones of the same data sets, and update the summary."""
        whole = piece.round(6)
        if self.file.exists():
            earlier = pd.read_csv(self.file)
            if list(earlier) != list(piece):
                raise SystemExit(f"{self.file} has other columns than this run. Move it away and run again.")
            whole = pd.concat([earlier[~earlier["dataset"].isin(piece["dataset"])], whole]).sort_values("dataset")
        self.file.parent.mkdir(exist_ok=True)
        partial = self.file.with_suffix(".partial")
        whole.to_csv(partial, index=False)
        partial.replace(self.file)  # in one step: after an interrupt the file is the old one or the new one
        command = (
            f"python benchmarks/semisynthetic.py {self.source} --datasets {whole['dataset'].min()}-{whole['dataset'].max()} "
            f"--learner {self.learner} --folds {self.folds} --repeats {self.repeats}"
        )
        errors = self.errors(whole)
        facts = {
            "data_sets": len(whole),
            **({"coverage": round(float(whole["covered"].mean()), 4)} if whole["covered"].notna().any() else {}),
            "cpu_seconds": round(float(whole["cpu_seconds"].mean()), 2),
            **{name: values.round(4).to_dict() for name, values in errors.iterrows()},
        }
        record(self.file.with_suffix(".json"), command, facts)

    def errors(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Mean absolute errors of each estimator, with their standard errors, and medians."""
        table = {}
        names = ["ipw_centred", *(f"{name}{end}" for name in ("direct", "ipw", "dr") for end in ("", "_without_srr"))]
        for name in frame.columns.intersection(names, sort=False):
            error = (frame[name] - frame["truth"]).abs()
            table[name] = {"mae": error.mean(), "std_error": error.sem(), "median": error.median()}
            if self.source == "bhp":  # the paper compares with the truth divided by the treatment's range
                error_as_printed = (frame[name] - frame["truth"] / frame["range"]).abs()
                table[name] |= {"paper_mae": error_as_printed.mean(), "paper_std_error": error_as_printed.sem()}
        return pd.DataFrame(table).T

    def show(self, frame: pd.DataFrame) -> None:
        """Print errors, the paper's errors (for BHP comparable with ``paper_mae``), coverage and time."""
        table = self.errors(frame)
        table["paper"] = pd.Series(published().get((self.source, self.learner), {}), dtype=float)
        covered = f"{frame['covered'].mean():.1%}" if frame["covered"].notna().any() else "none"
        seconds = frame["cpu_seconds"].mean()
        print(tabulate(table, headers="keys", floatfmt=".4f", missingval="", tablefmt="simple"))
        print(f"{len(frame)} data sets, coverage {covered}, {seconds:.2f} CPU seconds per data set")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", choices=SOURCES)
    parser.add_argument("--data", required=True)
    parser.add_argument("--datasets", default="0-99")
    parser.add_argument("--learner", default="madnet-paper", choices=learners())
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes with one thread each; 0: in this process")
    arguments = parser.parse_args()
    study = Study(arguments.source, arguments.learner, arguments.folds, arguments.repeats)
    study.show(study.run(arguments.data, chosen(arguments.datasets), arguments.jobs))


if __name__ == "__main__":
    main()
