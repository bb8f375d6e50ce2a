"""Write ebal.json: entropy balancing weights of the package ebal (Eddie Yang) on the rows of rows.csv.

    python3 -m venv /tmp/ebal && /tmp/ebal/bin/pip install ebal==1.0.0
    /tmp/ebal/bin/python tests/data/references/write_ebal.py

ebal is not a dependency of the tests: ``tests/test_references.py`` reads the numbers. The weights are those of the
untreated rows, in their order: with them, the untreated have the means of x1 and x2 of the treated.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent


def main() -> None:
    from ebal import ebal_bin

    rows = pd.read_csv(HERE / "rows.csv")
    model = ebal_bin(PCA=False, constraint_tolerance=1e-10, print_level=-1, effect="ATT")
    result = model.ebalance(rows["a"], rows[["x1", "x2"]], rows["y"])
    weights = np.ravel(result["w"])[rows["a"] == 0]
    text = json.dumps({"ebal": "1.0.0", "weights": (weights / weights.sum()).round(10).tolist()})
    (HERE / "ebal.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
