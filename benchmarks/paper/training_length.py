"""How the errors of RieszNet and DragonNet on IHDP depend on how long their second stage may train.

    python benchmarks/paper/training_length.py --data DATA

Data sets 0 to 31, the paper's settings, at most so many epochs in the second stage (the paper: 600). Writes
benchmarks/paper/results/training_length.csv as it goes, one row a learner, length and data set, and its sum to
training_length.json. A finished length is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pandas as pd
from tqdm import tqdm

import riesz

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from provenance import record  # noqa: E402
from semisynthetic import IHDP, ipw_centred  # noqa: E402

OUT = HERE / "results" / "training_length.csv"
LENGTHS = (100, 300, 600)
LEARNERS = {"RieszNet": riesz.RieszNet, "DragonNet": riesz.DragonNet}


def errors(source: IHDP, numbers: range, name: str, length: int) -> pd.DataFrame:
    """Absolute errors of both estimators, one row a data set."""
    first, second = LEARNERS[name].paper().stages
    learner = LEARNERS[name].paper(stages=(first, riesz.Stage(second.learning_rate, length, second.patience)))
    tables, truths = zip(*(source.draw(number) for number in numbers), strict=True)
    fits = riesz.estimate_many(source.formula, tables, source.verb, learner=learner, folds=1, progress=False)
    rows = [
        {
            "learner": name,
            "length": length,
            "dataset": number,
            "epochs": fit.details()["epochs"].mean(),
            "ipw_centred": abs(ipw_centred(fit) - truth),
            "dr": abs(fit.params.iloc[0] - truth),
        }
        for number, fit, truth in zip(numbers, fits, truths, strict=True)
    ]
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    source, numbers = IHDP(Path(parser.parse_args().data)), range(32)
    OUT.parent.mkdir(exist_ok=True)
    found = pd.read_csv(OUT) if OUT.exists() else pd.DataFrame(columns=["learner", "length"])
    for name, length in tqdm([(name, length) for name in LEARNERS for length in LENGTHS]):
        if not (found["learner"].eq(name) & found["length"].eq(length)).any():
            found = pd.concat([found, errors(source, numbers, name, length)], ignore_index=True)
            found.round(5).to_csv(OUT, index=False)
    found = pd.read_csv(OUT)  # as the file has it
    means = found.groupby(["learner", "length"])[["epochs", "ipw_centred", "dr"]].mean()
    facts = {f"{name}, at most {length} epochs": row.round(4).to_dict() for (name, length), row in means.iterrows()}
    record(OUT.with_suffix(".json"), "python benchmarks/paper/training_length.py", facts)
    print(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()
