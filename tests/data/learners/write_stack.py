"""Write stack.riesz and its entry in expected.json: ``python tests/data/learners/write_stack.py``.

Only while no release writes stacks; from then on the file must stay as it is, and still load.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

import riesz

FOLDER = Path(__file__).parent
FILE, EXPECTED = FOLDER / "stack.riesz", FOLDER / "expected.json"
NEW = pd.DataFrame({"y": [float("nan")], "a": [1.0], "x1": [0.3], "x2": [-0.2]})


def write() -> None:
    data = riesz.datasets.get("binary").draw(150, seed=1).data
    network = riesz.MADNet(width=4, head_width=4, networks=1, stages=(riesz.Stage(1e-2, 20, 5),), device="cpu")
    stack = riesz.Stack([riesz.Splines(), riesz.Boosting(trees=20, leaves=3, boosters=1), network], repeats=1)
    fit = riesz.ate("y ~ treat(a) + x1 + x2", data, learner=stack, folds=2, seed=3)
    fit.save(FILE)
    columns = ["estimate", "std_error", "weight_mu", "weight_rr"]
    expected = {
        "params": fit.params.tolist(),
        "estimates": fit.estimates.to_numpy().tolist(),
        "mean_mu": float(fit.fittedvalues.mean()),
        "bse": fit.bse.tolist(),
        "predicted": fit.predict(NEW).iloc[0].tolist(),
        "candidates": fit.candidates[columns].to_numpy().tolist(),
    }
    EXPECTED.write_text(json.dumps({**json.loads(EXPECTED.read_text()), "stack": expected}, indent=1) + "\n")


if __name__ == "__main__":
    write()
