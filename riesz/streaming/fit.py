"""A fit of the linear learner to a source: the passes in their order.

1. Levels, means, arms and folds (:mod:`riesz.sources.first_pass`).
2. Gram matrices and moments per fold; rows that are left out in turn to choose penalties. Nearly collinear columns need a third
   pass in better coordinates.
3. Scores of every row by the fit that was not trained on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from riesz.errors import DataError, LearnerError
from riesz.estimands import Estimand
from riesz.learners.linear.from_sums import (
    Coordinates,
    FoldSums,
    TrainingSums,
    fit_from_sums,
    refined,
    total,
)
from riesz.learners.linear.learner import Linear, LinearFit
from riesz.learners.linear.standardise import parts_of_products
from riesz.settings import Settings
from riesz.sources.designs import Plan, make_plan
from riesz.sources.first_pass import Facts, first_pass
from riesz.sources.rows import RowReader
from riesz.streaming.gram_pass import LeftOut, gram_pass
from riesz.streaming.score_pass import ScoreSums, score_pass
from riesz.syntax.formula import Formula
from riesz.syntax.terms import term_columns


@dataclass(frozen=True)
class StreamedFit:
    """What the passes found.

    Attributes
    ----------
    plan : Plan
    fits : tuple of LinearFit, one per fold
    sums : ScoreSums
    passes : int
        How often the data were read.
    """

    plan: Plan
    fits: tuple[LinearFit, ...]
    sums: ScoreSums
    passes: int


def fit_source(
    reader: RowReader,
    formula: Formula,
    estimands: Sequence[Estimand],
    settings: Settings,
    learner: Linear,
    context: Mapping[str, Any],
) -> StreamedFit:
    """Fit the linear learner to a source; every argument has been checked."""
    # 1. what all rows say, and every check that needs no fitting
    folds = int(settings.folds) if reader.folds is None else None
    facts = first_pass(reader, formula.treatment, folds, _factors(formula))
    plan = make_plan(formula, estimands, facts, context)
    _check_folds(plan, learner)
    # 2. sums per fold, and the fits
    fits, passes = _fit_folds(reader, plan, settings, learner)
    # 3. the scores of every row
    sums = score_pass(reader, plan, fits)
    if sums.frequency != facts.frequency:
        raise DataError("The data changed between two passes over them. Do not change files while a fit reads them.")
    return StreamedFit(plan, tuple(fits), sums, passes + 2)


def _factors(formula: Formula) -> frozenset[str]:
    """The columns inside C(...)."""
    columns = [*formula.columns]
    return frozenset().union(
        *(
            term_columns(term, columns)
            for term in formula.rhs
            if any(factor.expr.startswith("C(") for factor in term.factors)
        )
    )


def _fit_folds(reader: RowReader, plan: Plan, settings: Settings, learner: Linear) -> tuple[list[LinearFit], int]:
    """One fit per fold, and how often the data were read."""
    facts = plan.facts
    folds = len(facts.fold_rows)
    sizes = [facts.used] if folds == 1 else [facts.used - int(rows) for rows in facts.fold_rows]
    seeds = [int(child.generate_state(1)[0]) for child in np.random.SeedSequence([settings.seed, 1]).spawn(folds)]
    choose = "loo" in (learner.penalty, learner.rr_penalty)
    left_out = LeftOut.draw(sizes, seeds) if choose else None
    reference = plan.reference_design()
    coordinates = Coordinates.around(reference)
    first = gram_pass(reader, plan, coordinates, left_out)
    better = refined(coordinates, total(first))
    last = first if better is None else gram_pass(reader, plan, better)
    designs = [None] * folds if left_out is None else left_out.designs(plan)
    parts = parts_of_products(reference)
    fits = [
        fit_from_sums(
            learner,
            TrainingSums(
                _training(first, fold), _training(last, fold), better or coordinates, parts, _words(fold, folds)
            ),
            designs[fold],
            sizes[fold],
            seeds[fold],
        )
        for fold in range(folds)
    ]
    return fits, 1 + (better is not None)


def _training(sums: Sequence[FoldSums], fold: int) -> FoldSums:
    everything = total(sums)
    return everything if len(sums) == 1 else everything.without(sums[fold])


def _words(fold: int, folds: int) -> str:
    return "all rows" if folds == 1 else f"the training rows of split {fold + 1}"


def _check_folds(plan: Plan, learner: Linear) -> None:
    """Every fold must have rows, every training set every arm, and more rows than columns."""
    facts, treatment = plan.facts, plan.treatment
    rows, folds = facts.fold_rows, len(facts.fold_rows)
    if facts.used < 2 or rows.min() == 0:
        raise DataError(f"{facts.used} rows are in use, too few for {folds} folds. Use fewer folds.")
    fewest = facts.used if folds == 1 else facts.used - int(rows.max())
    columns = len(plan.columns.names)
    if columns >= fewest:
        raise LearnerError(
            f"The design has {columns} columns and a training set only {fewest} rows; a source needs more rows than columns. "
            "Read it into memory: data = pandas.read_parquet(path)."
        )
    if treatment.levels:
        _check_arms(facts, treatment.levels, treatment.name, [treatment.label(level) for level in treatment.levels])


def _check_arms(facts: Facts, levels: Sequence[Any], name: str, labels: Sequence[str]) -> None:
    arms: Counter[tuple[Any, int]] = facts.arms or Counter()
    folds = range(len(facts.fold_rows))
    for level, label in zip(levels, labels, strict=True):
        for fold in folds:
            if not arms[level, fold]:
                rows = sum(arms[level, other] for other in folds)
                raise DataError(
                    f"Fold {fold + 1} of {len(folds)} has no row with {name}={label}, which has {rows} rows in all. Use fewer "
                    "folds, merge arms, or drop this one."
                )
