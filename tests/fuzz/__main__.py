"""``python -m fuzz --linear 3000 --network 300``: many cases, spread over processes; defects are told with their seeds."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context

from tqdm import tqdm

from fuzz.checks import attempt


def main() -> int:
    """Run the cases that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--linear", type=int, default=3000, help="cases with learner='linear'")
    parser.add_argument("--network", type=int, default=300, help="cases with small networks")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--refusals", action="store_true", help="print what was refused, too")
    chosen = parser.parse_args()
    bad = 0
    for count, network in ((chosen.linear, False), (chosen.network, True)):
        seeds = range(chosen.first, chosen.first + count)
        refused, failed = 0, 0
        with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
            done = pool.map(attempt, seeds, repeat(network), chunksize=5)
            for seed, call, outcome in tqdm(done, total=count, desc="networks" if network else "linear", unit="case"):
                refused += bool(outcome.refused)
                failed += bool(outcome.defects)
                for defect in outcome.defects:
                    tqdm.write(f"seed {seed}: {defect}\n    {call}")
                if chosen.refusals and outcome.refused:
                    tqdm.write(f"seed {seed} refused: {outcome.refused}")
        print(
            f"{'networks' if network else 'linear'}: {count} cases, {refused} refused, {failed} with defects",
            flush=True,
        )
        bad += failed
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
