"""The README's example: prints its output and draws its figure.

python benchmarks/readme.py vignettes/_static/readme.png
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")

import riesz

FORMULA = "visits ~ treat(individual_deductible) + physical_limitation + chronic_diseases + health"


def main() -> None:
    fit = riesz.ate(FORMULA, riesz.datasets.load_rand())
    print(fit.summary())
    axes = fit.by("health").plot()
    axes.set_xlabel("effect of an individual deductible on visits a year, by health")
    axes.figure.set_facecolor("white")
    axes.figure.set_size_inches(6.5, 2.4)
    axes.figure.savefig(sys.argv[1], dpi=130, bbox_inches="tight")


if __name__ == "__main__":
    main()
