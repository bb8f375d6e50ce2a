"""Designs of the chunks of a source, with the levels, knots and centres of all rows.

In: the formula, the estimands and the :class:`~riesz.sources.first_pass.Facts`. Out: a :class:`Plan`, which makes a
:class:`~riesz.design.design.Design` from the rows of a chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.design.build import bind, bind_quietly, outcome_values, stack_anchors, stack_moment
from riesz.design.design import Base, Design
from riesz.errors import DataError, EstimandError, FormulaError
from riesz.estimands import Component, Estimand, Sample
from riesz.estimands.linear_form import Mu
from riesz.estimands.treatment import Treatment, TreatmentKind, describe_treatment
from riesz.sources.first_pass import Facts
from riesz.sources.rows import CleanRows, with_levels
from riesz.syntax.columns import Columns
from riesz.syntax.counterfactual import replace_columns
from riesz.syntax.evaluation import evaluate, evaluate_term
from riesz.syntax.formula import Formula
from riesz.syntax.terms import read_expression_term

#: Verbs whose moment and anchor are computed row by row, given the mean of the treatment.
VERBS = ("ate", "att", "atc", "ade")


@dataclass(frozen=True)
class Plan:
    """How rows become designs.

    Attributes
    ----------
    formula : Formula
    estimands : tuple of Estimand
    context : mapping
        The caller's variables.
    facts : Facts
    treatment : Treatment
    columns : Columns
        Fitted on the reference rows, with the constants of all rows.
    reference : pandas.DataFrame
    components : tuple of Component
        Of the reference rows, for names and words.
    """

    formula: Formula
    estimands: tuple[Estimand, ...]
    context: Mapping[str, Any]
    facts: Facts
    treatment: Treatment
    columns: Columns
    reference: pd.DataFrame
    components: tuple[Component, ...]

    def design(self, rows: CleanRows) -> Design:
        """The design of some rows."""
        frame = with_levels(rows.frame, self._levels)
        sample = self._sample(frame)
        components = bind_quietly(self.estimands, sample)
        columns = self.columns.on(frame)
        forms = [component.moment(Mu(), frame) for component in components]
        moment, readings = stack_moment(forms, components, columns, self.treatment, frame)
        anchors = [component.anchor for component in components if component.anchor is not None]
        sampling = rows.sampling / self.facts.sampling_mean
        base = Base(
            y=self.outcome(frame),
            z=columns.matrix,
            names=columns.names,
            moment=moment,
            anchor=stack_anchors(anchors, readings, moment.links, components, frame),
            treatment=self.treatment.inputs(frame),
            covariates=columns.without({self.treatment.name}),
            weights=sampling * rows.frequency,
            frequency=rows.frequency,
            groups=None,
            strata=self.treatment.codes(frame),
            family="gaussian",
            bounds=None,
            interacted=columns.interact(self.treatment.name),
            reads=columns.reads,
            hidden=columns.hidden(self.treatment.name),
            looks=None,
        )
        return Design(base, slice(None))

    def reference_design(self) -> Design:
        """The design of the reference rows, whose columns are used as they are."""
        n = len(self.reference)
        ones, hashes = np.ones(n), np.zeros(n, dtype=np.uint64)
        return self.design(CleanRows(self.reference, ones, ones, hashes, None, n))

    def outcome(self, frame: pd.DataFrame) -> Array:
        """The outcome of some rows."""
        if self.formula.outcome.strip("`") in frame.columns:
            return outcome_values(self.formula, frame, "gaussian", self.context)
        column = evaluate_term(self.formula.outcome, frame, self.context, "outcome", self.facts.reference)
        return np.asarray(column, dtype=float)

    def _sample(self, frame: pd.DataFrame) -> Sample:
        n = len(frame)
        return Sample(
            data=frame,
            treatment=self.treatment,
            kept=np.arange(n),
            total=n,
            context=self.context,
            columns=self.formula.columns,
            fitted=self.reference,
            covariates=self.formula.covariates,
            centre=self.facts.weighted_mean.get(self.treatment.name),
        )

    @property
    def _levels(self) -> dict[str, pd.CategoricalDtype]:
        """The levels of the factors; those of the treatment with the reference arm first."""
        levels = dict(self.facts.levels)
        if self.treatment.categorical:
            levels[self.treatment.name] = self.reference[self.treatment.name].dtype
        return levels


def check_estimands(estimands: Sequence[Estimand]) -> None:
    """Refuse estimands whose moment needs more than a row and the mean of the treatment."""
    for estimand in estimands:
        if estimand.verb not in VERBS:
            raise EstimandError(
                f"`{estimand.verb}` cannot be computed from a source yet; expected {', '.join(VERBS)}. Read the columns that it "
                "needs into memory: data = pandas.read_parquet(path, columns=[...])."
            )


def make_plan(formula: Formula, estimands: Sequence[Estimand], facts: Facts, context: Mapping[str, Any]) -> Plan:
    """Fit the formula on the reference rows, and give it the constants of all rows."""
    reference, name = facts.reference, formula.treatment
    kinds: set[TreatmentKind] = {estimand.treatment_kind(reference[name]) for estimand in estimands}
    if {"arms", "number"} <= kinds:
        raise EstimandError("Some estimands need a treatment with arms, others a continuous one. Fit them separately.")
    kind: TreatmentKind = next(iter(kinds - {"any"}), "any")
    treatment, column = describe_treatment(reference[name], formula.reference, kind, estimands[0].verb)
    reference = replace_columns(reference, {name: column})
    _check_outcome(formula, facts, context)
    columns = Columns(formula.rhs, reference, context).with_constants(facts.location, facts.used)
    plan = Plan(formula, tuple(estimands), context, facts, treatment, columns, reference, ())
    components = bind(estimands, plan._sample(reference))
    return Plan(formula, tuple(estimands), context, facts, treatment, columns, reference, components)


def _check_outcome(formula: Formula, facts: Facts, context: Mapping[str, Any]) -> None:
    """Refuse a constant outcome, and one that is computed with constants of all rows."""
    name = formula.outcome.strip("`")
    if name in facts.reference.columns:
        if facts.location.get(name, (0.0, 1.0))[1] == 0:
            raise DataError(f"The outcome `{name}` is constant; no effect can be estimated.")
        return
    evaluate_term(formula.outcome, facts.reference, context, "outcome")
    if evaluate(read_expression_term(formula.outcome), facts.reference, context)[1].transform_state:
        raise FormulaError(
            f"The outcome `{formula.outcome}` needs all rows at once, so it cannot be computed from a source. Add it to the files "
            "as a column."
        )
