"""The output of ``make demo``: the README's example, and a continuous treatment with a known average slope."""

from __future__ import annotations

import readme

import riesz

GASOLINE = """
A simulated gasoline market with a continuous price: what is the average price elasticity of demand?

    riesz.ade("{formula}", data)
"""


def main() -> None:
    code = readme.example(readme.README.read_text())["code"]
    print("Smoking during pregnancy and birth weight, the README's example. Each fit takes a few seconds.\n")
    print("".join(f"    {line}\n" for line in code.splitlines()))
    print(readme.run(code))

    market = riesz.datasets.get("gasoline")
    print(GASOLINE.format(formula=market.plain_formula))
    print(riesz.ade(market.plain_formula, market.draw(3000, seed=1).data).summary())
    print(f"\nThe true value in this simulation: {market.truth(riesz.ADE())[0]:.4f}")


if __name__ == "__main__":
    main()
