"""What ``make demo`` prints: two summaries, one for a binary and one for a continuous treatment."""

from __future__ import annotations

import riesz

DOCTOR_VISITS = """
The RAND health insurance experiment: does an individual-deductible plan change visits to the doctor?

    riesz.ate("{formula}", data)
"""

GASOLINE = """
A simulated gasoline market with a continuous price: what is the average price elasticity of demand?

    riesz.ade("{formula}", data)
"""


def main() -> None:
    data = riesz.datasets.load_rand()
    visits = "visits ~ treat(individual_deductible) * (log_incentive + physical_limitation + chronic_diseases + health)"
    print(DOCTOR_VISITS.format(formula=visits))
    print(riesz.ate(visits, data).summary())

    market = riesz.datasets.get("gasoline")
    print(GASOLINE.format(formula=market.formula))
    print(riesz.ade(market.formula, market.draw(3000, seed=1).data).summary())
    print(f"\nThe truth that the simulation carries: {market.truth(riesz.ADE())[0]:.4f}")


if __name__ == "__main__":
    main()
