"""Mu and rr of one training set by the lasso.

In: a design whose columns are the dictionary, and how penalties are chosen. Out: coefficients of those columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.families import Family, find_family
from riesz.learners.linear.learner import fit_glm
from riesz.learners.sparse.convex import Exponential, Logit, Psi, minimise
from riesz.learners.sparse.gram_lasso import NoSolution, least_factor
from riesz.learners.sparse.penalties import cross_validate, grid_of, plug_in, rate
from riesz.learners.sparse.second_moments import Columns, HeldOut, Sums, held_out, make_columns, noise, sums_of
from riesz.learners.sparse.targets import AnchorShadow, Outcome, Representer, Target

Penalty = float | Literal["plugin", "cv"]
Learned = tuple[Array, Array]  # coefficients and penalties, both of shape (p,)

_PSI: dict[str, Psi] = {"binomial": Logit(), "poisson": Exponential()}
_MARGIN = 1.02  # by how much a chosen penalty exceeds the least one that has a solution


@dataclass(frozen=True)
class Choices:
    """How penalties are chosen.

    Attributes
    ----------
    penalty, rr_penalty : float, "plugin" or "cv"
    constrained : bool
    c1, c2 : float
        See :mod:`riesz.learners.sparse.penalties`.
    """

    penalty: Penalty
    rr_penalty: Penalty
    constrained: bool
    c1: float
    c2: float


@dataclass(frozen=True)
class Solution:
    """Coefficients of the dictionary.

    Attributes
    ----------
    mu : ndarray, shape (p,)
        Of mu, or of its index.
    rr : ndarray, shape (p, K)
        Of rr, or of what is subtracted from the anchor.
    details : mapping of str to float
        The average penalty of each function, and how many columns it uses.
    """

    mu: Array
    rr: Array
    details: Mapping[str, float]


@dataclass(frozen=True)
class Sample:
    """A training set in second moments.

    Attributes
    ----------
    columns : Columns
    sums : Sums
    parts : sequence of HeldOut
        Empty if no penalty is chosen by held-out losses.
    factor : float
        The multiple of the noise in plug-in penalties.
    """

    columns: Columns
    sums: Sums
    parts: Sequence[HeldOut]
    factor: float


def solve(design: Design, choices: Choices, seed: int) -> Solution:
    """Learn mu and every rr."""
    sample = make_sample(design, choices, seed)
    columns = sample.columns
    family = find_family(design.family)
    if family.identity:
        theta, penalty = learn(Outcome(columns), choices.penalty, sample)
        mu = columns.coefficients(theta, columns.level)
    elif choices.penalty == 0:
        mu, penalty = fit_glm(design, 0.0)[0], np.zeros(len(columns.penalised))
    else:
        theta, penalty = _of_index(family, choices.penalty, sample)
        mu = columns.coefficients(theta)
    details, rr = _describe("penalty", "columns", mu, penalty, columns), []
    for c in range(design.components):
        target = AnchorShadow(columns, c) if choices.constrained else Representer(columns, c)
        theta, penalty = learn(target, choices.rr_penalty, sample)
        rr.append(columns.coefficients(theta))
        details |= _describe(f"rr_penalty_{c}", f"rr_columns_{c}", theta, penalty, columns)
    return Solution(mu, np.column_stack(rr), details)


def make_sample(design: Design, choices: Choices, seed: int) -> Sample:
    """Compute the second moments of a training set."""
    columns = make_columns(design)
    sums = sums_of(columns)
    parts = held_out(columns, seed) if "cv" in (choices.penalty, choices.rr_penalty) else []
    used = int((sums.gram.diagonal()[columns.penalised > 0] > 0.5).sum())  # others do not vary
    return Sample(columns, sums, parts, rate(choices.c1, choices.c2, used))


def learn(target: Target, penalty: Penalty, sample: Sample) -> Learned:
    """Solve one problem, with a given penalty or a chosen one."""
    sums, penalised = sample.sums, sample.columns.penalised
    if penalty == "plugin":

        def noise_of(theta: Array | None) -> Array:
            return noise(sample.columns, target.rows(theta, sums))

        return plug_in(penalised, sample.factor, noise_of(None), noise_of, partial(_solve_or_raise, target, sums))
    if penalty == "cv":
        return _solve_or_raise(target, sums, _validated(target, sample) * penalised, None)
    try:
        return target.solve(sums, penalty * penalised), penalty * penalised
    except NoSolution:
        least = least_factor(sums.gram, target.linear(sums), penalised)
        raise LearnerError(
            f"rr_penalty={penalty:g} is too small for these columns: no combination of them has the moments that the estimand "
            f"reads up to that number, so the Riesz representer has no solution. Use a penalty of {_MARGIN * least:.3g} or more, "
            "rr_penalty='plugin', or fewer columns."
        ) from None


def _solve_or_raise(target: Target, sums: Sums, penalty: Array, start: Array | None) -> Learned:
    """Solve with these penalties or, if there is no solution, with the least multiple of them that has one."""
    try:
        return target.solve(sums, penalty, start), penalty
    except NoSolution:
        raised = _MARGIN * least_factor(sums.gram, target.linear(sums), penalty) * penalty
        return target.solve(sums, raised), raised


def _validated(target: Target, sample: Sample) -> float:
    """The penalty with the smallest held-out loss."""
    penalised = sample.columns.penalised

    def solve_on(others: Sums, penalty: Array, start: Array | None) -> Learned:
        return target.solve(others, penalty, start), penalty

    parts = [
        (part.weight, partial(solve_on, part.others), partial(target.loss, part=part.part, others=part.others))
        for part in sample.parts
    ]
    return cross_validate(parts, grid_of(sample.sums.gram, target.linear(sample.sums), penalised), penalised)


def _of_index(family: Family, penalty: Penalty, sample: Sample) -> Learned:
    r"""The lasso of a logistic or Poisson regression.

    Its conditions :math:`|E_n[b (y - \mu)]|_j \le \lambda_j` are those of a least-squares regression with mu in place of the
    linear function. So a penalty that is chosen by held-out losses is chosen with least squares, which is much faster.
    """
    columns, sums, penalised = sample.columns, sample.sums, sample.columns.penalised
    psi, at = _PSI[family.kind], columns.standard.intercept
    linear = sums.outcome + (0.0 if at is None else columns.level * sums.gram[at])
    zero = np.zeros(len(linear))
    if at is not None:
        zero[at] = float(family.link(np.asarray(columns.level))) if 0 < columns.level < 1 or family.log_link else 0.0

    def blocks() -> Iterator[tuple[Array, Array]]:
        for place, _, _, b in columns.blocks():
            yield b, columns.shares[place]

    def solve_at(penalty: Array, start: Array | None) -> Learned:
        return minimise(psi, blocks, linear, penalty, zero if start is None else start), penalty

    def errors(theta: Array) -> Iterator[tuple[slice, Array]]:
        for place, block, _, b in columns.blocks():
            yield place, b * (block.y - psi.slope(b @ theta))[:, None]

    if penalty == "plugin":
        first = noise(columns, errors(zero))
        return plug_in(penalised, sample.factor, first, lambda theta: noise(columns, errors(theta)), solve_at)
    lam = _validated(Outcome(columns), sample) if penalty == "cv" else float(penalty)
    return solve_at(lam * penalised, None)


def _describe(penalty_name: str, count_name: str, theta: Array, penalty: Array, columns: Columns) -> dict[str, float]:
    """The average penalty of the penalised columns, and how many of them are used."""
    held = columns.penalised > 0
    average = float(penalty[held].mean()) if held.any() else 0.0
    return {penalty_name: average, count_name: float((theta[held] != 0).sum())}
