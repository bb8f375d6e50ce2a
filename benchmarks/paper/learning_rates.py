"""The paper's figure of stability, top row: E_n[A rr] - 1 over epochs, for two learning rates, MADNet and RieszNet.

    python benchmarks/paper/learning_rates.py --data DATA

Twenty IHDP data sets, each with a seed of its own for the validation rows and the first weights (treatments and covariates are the
same in all of them). The paper's networks and settings, but one stage with one learning rate and no early stopping. E_n[A rr] is
taken on the 20% of the rows that are held out for validation, where it should be 1. The paper does not say which two rates it drew:
here its own for IHDP and BHP, 1e-4 and 1e-3. Writes benchmarks/paper/results/learning_rates.csv, one row a learner, rate and epoch
with the mean and its standard error over data sets, and learning_rates.json. The figure is drawn by vignettes/10-replication.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pandas as pd

import riesz

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from provenance import provenance  # noqa: E402
from semisynthetic import IHDP, chosen  # noqa: E402

LEARNERS = {"MADNet": riesz.MADNet, "RieszNet": riesz.RieszNet}
RATES = (1e-4, 1e-3)


def course(source: IHDP, numbers: list[int], name: str, rate: float, epochs: int) -> pd.DataFrame:
    """E_n[A rr] - 1 on the validation rows by epoch: mean over the data sets, and its standard error."""
    learner = LEARNERS[name].paper(stages=(riesz.Stage(rate, epochs, epochs),))
    settings = {"learner": learner, "folds": 1, "progress": False}
    fits = {number: riesz.ate(source.formula, source.draw(number)[0], seed=number, **settings) for number in numbers}
    error = pd.DataFrame({number: fit.history.set_index("epoch")["rr_anchor"] - 1 for number, fit in fits.items()})
    return pd.DataFrame(
        {"learner": name, "rate": rate, "rr_anchor_error": error.mean(axis=1), "std_error": error.sem(axis=1)}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--datasets", default="0-19")
    parser.add_argument("--epochs", type=int, default=100)
    arguments = parser.parse_args()
    source, numbers = IHDP(Path(arguments.data)), chosen(arguments.datasets)
    pieces = []
    for name in LEARNERS:
        for rate in RATES:
            pieces.append(course(source, numbers, name, rate, arguments.epochs))
            print(name, rate, pieces[-1].iloc[-1].to_dict(), flush=True)
    table = pd.concat(pieces)
    table.index = table.index.astype(int)
    (HERE / "results").mkdir(exist_ok=True)
    table.round(5).to_csv(HERE / "results" / "learning_rates.csv")
    last = table.groupby(["learner", "rate"]).last().round(4)
    found = {
        **provenance(
            f"python benchmarks/paper/learning_rates.py --datasets {arguments.datasets} --epochs {arguments.epochs}"
        ),
        "data_sets": len(numbers),
        "after_the_last_epoch": {f"{name}, {rate:g}": row.to_dict() for (name, rate), row in last.iterrows()},
    }
    (HERE / "results" / "learning_rates.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
