"""200 cases of the fuzzer; ``make fuzz`` runs thousands."""

from __future__ import annotations

import contextlib
import warnings

import pytest

import riesz
from fuzz.cases import draw_case
from fuzz.checks import fit_of, run

LINEAR, NETWORK = 170, 30


@pytest.mark.parametrize("seed", range(LINEAR))
def test_a_random_case_with_linear_is_answered_or_refused(seed: int) -> None:
    case = draw_case(seed, network=False)
    assert not run(case, network=False).defects, (case.verb, case.formula, case.options, case.words)


@pytest.mark.parametrize("seed", range(NETWORK))
def test_a_random_case_with_a_network_is_answered_or_refused(seed: int) -> None:
    case = draw_case(seed, network=True)
    assert not run(case, network=True).defects, (case.verb, case.formula, case.options, case.words)


def test_most_cases_are_fitted() -> None:
    """A fuzzer whose cases are nearly all refused at the door would test nothing."""
    fitted = 0
    for seed in range(60):
        with warnings.catch_warnings(), contextlib.suppress(riesz.RieszError):
            warnings.simplefilter("ignore", riesz.RieszWarning)
            fit_of(draw_case(seed, network=False), network=False)
            fitted += 1
    assert fitted > 36
