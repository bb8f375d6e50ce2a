"""Write genriesz.json: estimates of the package genriesz on the rows of rows.csv.

    python3 -m venv /tmp/genriesz && /tmp/genriesz/bin/pip install genriesz==0.2.5
    /tmp/genriesz/bin/python tests/data/references/write_genriesz.py

genriesz is not a dependency of the tests: ``tests/test_references.py`` reads the numbers. The basis is 1, x1 and x2 for each arm,
and 1, d, x1, x2 and their products for the average derivative; nothing is penalised or cross-fitted.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def positive(row: np.ndarray) -> int:
    """The representers of the ATE and the ATT are positive for the treated and negative for the untreated."""
    return int(row[0] == 1)


def main() -> None:
    import genriesz as g

    rows = np.genfromtxt(HERE / "rows.csv", delimiter=",", names=True)
    arms, dose = (np.column_stack([rows[name], rows["x1"], rows["x2"]]) for name in ("a", "d"))
    plain = {
        "cross_fit": False,
        "riesz_penalty": "l2",
        "riesz_lam": 0.0,
        "outcome_penalty": "l2",
        "outcome_lam": 0.0,
        "outcome_models": "separate",
        "outcome_link": "identity",
        "max_iter": 20_000,
        "tol": 1e-14,
    }
    per_arm = g.TreatmentInteractionBasis(base_basis=g.PolynomialBasis(1))
    generators = {"squared": g.SquaredGenerator(), "entropy": g.UKLGenerator(C=0.0, branch_fn=positive)}
    fits = {}
    for name, generator in generators.items():
        options = {"basis": per_arm, "outcome_basis": per_arm, "generator": generator, **plain}
        fits[f"ate {name}"] = g.grr_ate(X=arms, Y=rows["y"], **options)
        fits[f"att {name}"] = g.grr_att(X=arms, Y=rows["y"], **options)
    squares = g.PolynomialBasis(2)
    options = {"basis": squares, "outcome_basis": squares, "generator": generators["squared"], **plain}
    fits["ade squared"] = g.grr_ame(X=dose, Y=rows["y"], coordinate=0, **options)
    numbers = {
        name: {method: [one.estimate, one.se] for method, one in fit.estimates.items()} for name, fit in fits.items()
    }
    text = json.dumps({"genriesz": "0.2.5", "estimate and standard error": numbers}, indent=1)
    (HERE / "genriesz.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
