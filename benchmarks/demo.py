"""What ``make demo`` prints: the README's example, and a continuous treatment whose true slope is known."""

from __future__ import annotations

import readme

import riesz

GASOLINE = """
A simulated gasoline market with a continuous price: what is the average price elasticity of demand?

    riesz.ade("{formula}", data)
"""


def main() -> None:
    code = readme.example(readme.README.read_text())["code"]
    print("Smoking in pregnancy and birth weight, the README's example. Each fit takes some seconds.\n")
    print("".join(f"    {line}\n" for line in code.splitlines()))
    print(readme.run(code))

    market = riesz.datasets.get("gasoline")
    print(GASOLINE.format(formula=market.plain_formula))
    print(riesz.ade(market.plain_formula, market.draw(3000, seed=1).data).summary())
    print(f"\nThe true value in this simulation: {market.truth(riesz.ADE())[0]:.4f}")


if __name__ == "__main__":
    main()
