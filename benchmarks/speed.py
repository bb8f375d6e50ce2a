"""The training loop's speed relative to matrix products alone, and the cost of MADNet's defaults relative to the paper's settings.

    python benchmarks/speed.py --data ../shared/data

Useful work is the matrix products of forward and backward passes, outcome heads at the observed arm only: 90 MFLOP for one step
of the fully-connected network with 60 rows x 2 arms (``ratio``). The forward pass on the validation rows after each epoch is
further work of the same kind (``ratio_with_validation``). ``torch.bmm`` computes the same products, with the same shapes
and orientations. Both alternate on one thread, in processor time, so that other load on the machine affects both alike;
ratios are computed per round, and the median over rounds is reported. Wider vector instructions speed up products more
than the rest: MKL_ENABLE_INSTRUCTIONS=AVX2 and ATEN_CPU_CAPABILITY=avx2 in the environment make a machine with AVX-512 use
AVX2. The summary goes to benchmarks/results/speed.json, or to speed_<capability>.json if the environment sets one.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from math import prod
from pathlib import Path

import numpy as np
import torch
from provenance import record
from semisynthetic import IHDP

import riesz
from riesz.learners.neural.engine import groups as networks
from riesz.learners.neural.engine.network import Shape

HERE = Path(__file__).parent
EPOCHS = 20
NETWORKS = {
    "fully_connected": ({"architecture": "fully_connected", "depth": 4}, Shape(26, 1, 2, 200, 4, 0, 0)),
    "multihead": ({}, Shape(26, 1, 2, 200, 3, 100, 2)),
}


class Clock:
    """Wraps the training loop and measures its time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._train = networks.train

    def __call__(self, *arguments: object, **keywords: object) -> object:
        start = time.process_time()
        trained = self._train(*arguments, **keywords)
        self.seconds += time.process_time() - start
        return trained


def sizes(shape: Shape) -> list[tuple[int, int, int]]:
    """Rows, inputs and outputs of a step's products, with 60 rows x 2 arms; outcome heads use only the observed arm."""
    shapes = [(120, shape.inputs, shape.width), *[(120, shape.width, shape.width)] * (shape.depth - 1)]
    width = shape.head_width if shape.head_depth else 1
    shapes += [(120, shape.width, shape.components), (60, shape.width, shape.outcomes * width)]
    for depth in range(shape.head_depth):
        shapes += [(60, width, 1 if depth == shape.head_depth - 1 else width)] * shape.outcomes
    return shapes


def products(shape: Shape, side_by_side: int, seconds: float) -> float:
    """Seconds that ``torch.bmm`` alone needs for the products of one step of several networks."""
    tasks = []
    for number, (rows, before, after) in enumerate(sizes(shape)):
        x, w, g = (torch.randn(side_by_side, *size) for size in ((rows, before), (before, after), (rows, after)))
        pairs = [(x, w), (x.transpose(1, 2), g), (g, w.transpose(1, 2))]
        tasks += [(*pair, torch.bmm(*pair)) for pair in (pairs if number else pairs[:2])]  # inputs have no gradient
    start, count = time.process_time(), 0
    while time.process_time() - start < seconds:
        for left, right, out in tasks:
            torch.bmm(left, right, out=out)
        count += 1
    return (time.process_time() - start) / count


def efficiency(source: IHDP, kind: str, side_by_side: int, rounds: int) -> dict[str, float]:
    """Useful GFLOP/s of the training loop and of bmm."""
    changes, shape = NETWORKS[kind]
    learner = riesz.MADNet.paper(stages=(riesz.Stage(1e-4, EPOCHS, EPOCHS),), side_by_side=side_by_side, **changes)
    tables = [source.draw(number)[0] for number in range(side_by_side)]
    steps = EPOCHS * -(-598 // 64)  # 598 training rows of 747
    forward = 2 * sum(map(prod, sizes(shape))) * side_by_side / 1e9
    work = 3 * forward * steps
    validation = forward * 149 / 60 * EPOCHS  # the forward pass that decides when to stop
    ours, theirs = [], []
    for turn in range(rounds + 1):
        clock = networks.train = Clock()  # type: ignore[assignment]
        riesz.estimate_many(source.formula, tables, source.verb, learner=learner, folds=1, progress=False)
        networks.train = clock._train
        alone = products(shape, side_by_side, 0.5)
        if turn:  # the first round is a warm-up
            ours.append(work / clock.seconds)
            theirs.append(work / (alone * steps))
    ratio = np.array(ours) / np.array(theirs)
    return {
        "side_by_side": side_by_side,
        "training_gflops": round(float(np.median(ours)), 1),
        "bmm_gflops": round(float(np.median(theirs)), 1),
        "ratio": round(float(np.median(ratio)), 3),
        "ratio_with_validation": round(float(np.median(ratio)) * (1 + validation / work), 3),
        "ratio_lowest": round(float(ratio.min()), 3),
        "ratio_highest": round(float(ratio.max()), 3),
    }


def cost(source: IHDP, numbers: range) -> dict[str, float]:
    """Processor time of MADNet's default and of the paper's settings, five folds each, alternating."""
    learners = {"default": riesz.MADNet(), "paper": riesz.MADNet.paper()}
    seconds = dict.fromkeys(learners, 0.0)
    for number in numbers:
        table = source.draw(number)[0]
        for name, learner in learners.items():
            start = time.process_time()
            riesz.ate(source.formula, table, learner=learner, folds=5, progress=False)
            seconds[name] += (time.process_time() - start) / len(numbers)
    rounded = {f"{name}_cpu_seconds": round(value, 2) for name, value in seconds.items()}
    return {"data_sets": len(numbers), **rounded, "ratio": round(seconds["default"] / seconds["paper"], 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--side-by-side", type=int, default=8)
    parser.add_argument(
        "--fits", type=int, default=4, help="data sets on which the default and the paper's settings are timed"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    source = IHDP(Path(arguments.data))
    capability = os.environ.get("ATEN_CPU_CAPABILITY")
    facts = {
        "instructions": torch.backends.cpu.get_cpu_capability(),
        **{kind: efficiency(source, kind, arguments.side_by_side, arguments.rounds) for kind in NETWORKS},
        "five_folds": cost(source, range(arguments.fits)),
    }
    print(json.dumps(facts, indent=2))
    name = "speed" if capability is None else f"speed_{capability}"
    command = f"python benchmarks/speed.py --rounds {arguments.rounds} --side-by-side {arguments.side_by_side}"
    record(HERE / "results" / f"{name}.json", command, facts)


if __name__ == "__main__":
    main()
