"""What ``make demo`` prints: two summaries, one for a binary and one for a continuous treatment."""

from __future__ import annotations

import os

# matrices here are small: threads would spend their time waiting for each other, most of all on a busy machine
os.environ.setdefault("OMP_NUM_THREADS", "1")

import riesz

GASOLINE = """
A simulated gasoline market with a continuous price: what is the average price elasticity of demand? Networks learn it
from one line; this takes some ten seconds.

    riesz.ade("{formula}", data)
"""

DOCTOR_VISITS = """
The RAND health insurance experiment: does an individual-deductible plan change visits to the doctor? Networks take a
quarter of a minute on its 20,190 rows. The closed form is instant, but linear, so here the formula spells interactions out.

    riesz.ate("{formula}", data, learner="linear")
"""


def main() -> None:
    market = riesz.datasets.get("gasoline")
    print(GASOLINE.format(formula=market.plain_formula))
    print(riesz.ade(market.plain_formula, market.draw(3000, seed=1).data).summary())
    print(f"\nThe truth that the simulation carries: {market.truth(riesz.ADE())[0]:.4f}")

    data = riesz.datasets.load_rand()
    visits = "visits ~ treat(individual_deductible) * (log_incentive + physical_limitation + chronic_diseases + health)"
    print(DOCTOR_VISITS.format(formula=visits))
    print(riesz.ate(visits, data, learner="linear").summary())


if __name__ == "__main__":
    main()
