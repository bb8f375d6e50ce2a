"""The supplement's figure of the constraint: the multiplier method oscillates at low damping, the absolute penalty does not.

    python benchmarks/paper/damping.py --data DATA --out damping.png

One IHDP data set, 200 epochs, the paper's network and settings. Writes benchmarks/paper/results/damping.csv (the signed violation
h_n(beta_perp) on the validation rows, one row per epoch and one column per setting) and damping.json (the size of the
oscillation), and draws the figure. A finished setting is not run again. The paper does not state the step size of its
multiplier; here a step adds 0.1 times the violation. Larger steps oscillate more.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

import riesz

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from provenance import record  # noqa: E402
from semisynthetic import IHDP  # noqa: E402

EPOCHS = 200
RATE = 1e-4
ASCENT = 0.1
SETTINGS = {
    "multiplier, damping 0": {"constraint": "multiplier", "ascent": ASCENT, "damping": 0.0},
    "multiplier, damping 0.1": {"constraint": "multiplier", "ascent": ASCENT, "damping": 0.1},
    "multiplier, damping 1": {"constraint": "multiplier", "ascent": ASCENT, "damping": 1.0},
    "absolute, penalty 1": {"penalty": 1.0},
    "absolute, penalty 5": {"penalty": 5.0},
    "absolute, penalty 10": {"penalty": 10.0},
}


def course(source: IHDP, number: int, changes: dict[str, object]) -> pd.Series:
    """The violation by epoch."""
    learner = riesz.MADNet.paper(stages=(riesz.Stage(RATE, EPOCHS, EPOCHS),), **changes)
    fit = riesz.ate(source.formula, source.draw(number)[0], learner=learner, folds=1, progress=False)
    return fit.history.set_index("epoch")["signed_violation"]


def swings(violation: pd.Series) -> dict[str, float]:
    """The root mean square of the violation in each half of the epochs."""
    halves = np.array_split(violation.to_numpy(), 2)
    return {
        f"{name}_{half}": round(float(value), 4)
        for half, part in zip(("first_half", "second_half"), halves, strict=True)
        for name, value in (("root_mean_square", np.sqrt(np.mean(part**2))), ("largest", np.abs(part).max()))
    }


def draw(courses: pd.DataFrame, path: str) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(9, 4.5), sharex=True, sharey=True, layout="constrained")
    for ax, (name, violation) in zip(axes.flat, courses.items(), strict=True):
        ax.axhline(0.0, color="0.6", linewidth=0.8)
        ax.plot(violation.index, violation)
        ax.set_title(name, fontsize=10)
    figure.supxlabel("epoch")
    figure.supylabel(r"$h_n(\hat\beta_\perp) / |h_n(\beta)|$")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--dataset", type=int, default=0)
    parser.add_argument("--out", default="damping.png")
    arguments = parser.parse_args()
    stem = "damping" if arguments.dataset == 0 else f"damping_{arguments.dataset}"
    source, out = IHDP(Path(arguments.data)), HERE / "results" / f"{stem}.csv"
    out.parent.mkdir(exist_ok=True)
    courses = pd.read_csv(out, index_col="epoch") if out.exists() else pd.DataFrame()
    for name in tqdm([name for name in SETTINGS if name not in courses]):
        courses[name] = course(source, arguments.dataset, SETTINGS[name])
        courses.round(5).to_csv(out)
    courses = pd.read_csv(out, index_col="epoch")[list(SETTINGS)]  # as in the file
    facts = {name: swings(violation) for name, violation in courses.items()}
    record(out.with_suffix(".json"), f"python benchmarks/paper/damping.py --dataset {arguments.dataset}", facts)
    print(json.dumps(facts, indent=2))
    draw(courses, arguments.out)


if __name__ == "__main__":
    main()
