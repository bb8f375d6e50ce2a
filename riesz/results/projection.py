r"""The best linear projection of the effect on functions of covariates, from the scores of a fit.

The coefficients solve :math:`E_n[b (s - n\, b'\theta)] = 0` with the scores s and the normalizer n of the fit (Semenova and
Chernozhukov 2021); b are functions of covariates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.errors import DataError, FormulaError, listing
from riesz.inference import Projection
from riesz.results.effects import Effects, Words, projected_effects
from riesz.results.model import Model
from riesz.results.parts import FitParts
from riesz.syntax.columns import Columns
from riesz.syntax.counterfactual import replace_columns
from riesz.syntax.formula import parse_projection
from riesz.syntax.terms import term_columns


def best_linear_projection(parts: FitParts, formula: str, context: Mapping[str, Any]) -> Effects:
    """The coefficients of all parameters on the columns of a formula; see ``Results.blp``."""
    model, names = parts.model, parts.names
    columns, b, complete = _regressors(model, formula, context)
    incomplete = int((~complete).sum())
    pairs = [(name, column) for name in names for column in columns]
    labels = pd.DataFrame(
        [(f"{name}_{column}" if len(names) > 1 else column, name, column) for name, column in pairs],
        columns=["term", "parameter", "column"],
    )
    used = None if complete.all() else np.tile(complete[:, None], len(labels))
    words = Words(
        title=f"Best linear projection of {', '.join(names)}",
        subtitle="E[b (score - normalizer b'theta)] = 0",
        facts=[("Regressors", str(len(columns)))],
        notes=[f"{incomplete:,} rows with missing values were left out."] if incomplete else [],
        hypothesis="All slopes zero",
    )
    projection = Projection([b] * len(names), used)
    return projected_effects(parts, projection, labels, words, _zero_slopes(labels), complete)


def _zero_slopes(labels: pd.DataFrame) -> dict[str, Array]:
    """For each parameter the matrix that selects its coefficients other than the intercept."""
    identity, slopes = np.eye(len(labels)), {}
    for name in labels["parameter"].unique():
        rows = identity[((labels["parameter"] == name) & (labels["column"] != "Intercept")).to_numpy()]
        if len(rows):
            slopes[str(name)] = rows
    return slopes


def _regressors(
    model: Model, formula: str, context: Mapping[str, Any]
) -> tuple[tuple[str, ...], Array, npt.NDArray[np.bool_]]:
    """Names and values of the projection's columns, zero on rows with missing values, and which rows are complete."""
    table = model.table
    rhs = parse_projection(formula, table.columns, model.covariates, context)
    needed = sorted(set().union(*(term_columns(term, table.columns) for term in rhs)))
    frame = table.to_pandas(needed).iloc[model.kept].reset_index(drop=True)
    complete = frame.notna().all(axis=1).to_numpy()
    if not complete.any():
        raise DataError(
            f"Every row has a missing value among the columns of {formula!r}: {listing(needed)}. Leave out the column with the "
            "most missing values."
        )
    used = frame[complete].reset_index(drop=True)
    factors = [name for name in needed if isinstance(used[name].dtype, pd.CategoricalDtype)]
    used = replace_columns(used, {name: used[name].cat.remove_unused_categories() for name in factors})
    columns = Columns(rhs, used, context)
    if not columns.names:
        raise FormulaError(
            f"{formula!r} has no columns to project on. '~ 1' gives the average effect; add covariates, as in '~ x1 + x2'."
        )
    b = np.zeros((len(frame), len(columns.names)))
    b[complete] = columns.matrix
    _check_rank(model, b, columns.names, formula)
    return columns.names, b, complete


def _check_rank(model: Model, b: Array, names: Sequence[str], formula: str) -> None:
    for n, parameter in zip(model.blueprint.design.normalizer, model.exog_names, strict=True):
        gram = (b.T * (n * model.weights.total)) @ b
        size = np.sqrt(np.diag(gram))
        if (size == 0).any() or np.linalg.eigvalsh(gram / np.outer(size, size))[0] < 1e-10:
            raise DataError(
                f"The columns {listing(names)} of {formula!r} are collinear on the rows that contribute to {parameter}; "
                "leave one out."
            )
