"""The formula's columns: fitted once on the full sample, then evaluated on any frame.

In: the right-hand side that ``formula.py`` parsed and the rows in use. Out: the design matrix and, for a counterfactual frame,
only the columns that its changes affect, with their derivatives along the treatment if needed. Splines, factors and
interactions keep the knots, levels and centres of the full sample.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.errors import DataError, EstimandError, FormulaError, RieszError, listing
from riesz.syntax.counterfactual import changed_columns, replace_columns
from riesz.syntax.evaluation import (
    EvaluationError,
    depend_on_other_rows,
    evaluate,
    extent,
    extreme_rows,
    shuffled_rows,
    unseen_level,
    unusable,
    values_of,
)
from riesz.syntax.finite_differences import STEP, derivatives
from riesz.syntax.labels import label, labels
from riesz.syntax.terms import term_columns

# numbers are floats here, so that formulaic writes the level 5 of C(x) as 5.0
_WHOLE_LEVEL = re.compile(r"\[(T\.)?(-?\d+)\.0\]")
_FACTOR = re.compile(r"C\(\s*(`[^`]+`|[^\W\d]\w*)\s*[,)]")  # C() of a plain column
_LOCATED = re.compile(  # means and standard deviations of a plain column
    r"center\(\s*(`[^`]+`|[^\W\d]\w*)\s*\)|(?:scale|standardize)\(\s*(`[^`]+`|[^\W\d]\w*)\s*(?:,\s*ddof\s*=\s*\d+\s*)?\)"
)
_KNOTS = re.compile(r"^(?:bs|cr|cs)\(\s*(?:`[^`]+`|[^\W\d]\w*)\s*,.*\bknots\s*=")  # of a plain column
_FROM_DATA = re.compile(r"\b(?:df|constraints|extrapolation)\s*=")
_LARGEST, _SMALLEST = 1e50, 1e-50  # learners compute products of columns, and squares of those
_LEAST_SPREAD = 1e-8  # of the level; with less, derivatives are lost in rounding


class Columns:
    """A fitted right-hand side.

    Parameters
    ----------
    rhs : formulaic.SimpleFormula
    data : pandas.DataFrame, n rows
    context : mapping
        The caller's variables.

    Attributes
    ----------
    matrix : ndarray, shape (n, p)
    names : tuple of str, length p
    reads : tuple of frozenset of str, length p
        The variables from which each column is computed.
    used : frozenset of str
        The variables that any column reads.

    Examples
    --------
    >>> import pandas as pd
    >>> from riesz.syntax.columns import Columns
    >>> from riesz.syntax.formula import parse_formula
    >>> data = pd.DataFrame({"y": [1.0, 2.0, 4.0], "a": [0.0, 1.0, 1.0], "x": [1.0, 2.0, 4.0]})
    >>> columns = Columns(parse_formula("y ~ treat(a) * x", list(data), [], {}).rhs, data, {})
    >>> pd.DataFrame(columns.matrix, columns=columns.names).astype(int)
       Intercept  a  x  a:x
    0          1  0  1    0
    1          1  1  2    2
    2          1  1  4    4
    """

    def __init__(self, rhs: Any, data: pd.DataFrame, context: Mapping[str, Any]) -> None:
        self._context = context
        self._data = self._fitted = data
        variables = list(data.columns)  # once, because there may be thousands of terms
        read = sorted(set().union(*(term_columns(term, variables) for term in rhs)))
        try:
            self.matrix, self._spec = evaluate(rhs, data[read], context)
            self._read_terms()
            self._refuse_terms_of_other_rows()
        except EvaluationError as error:
            raise unusable(error, f"The formula's columns of {len(data):,} rows") from error.__cause__
        self._refuse_extremes()

    def _read_terms(self) -> None:
        """Set the columns' names and the variables that they read."""
        self.names = _plain_levels(tuple(self._spec.column_names))
        variables = list(self._data.columns)  # once, because there may be thousands of terms
        self._reads = {term: term_columns(term, variables) for term in self._spec.terms}
        self.used = frozenset().union(*self._reads.values())
        term_of = {index: term for term in self._spec.terms for index in self._spec.term_indices[term]}
        self.reads = tuple(frozenset(self._reads[term_of[index]]) for index in range(len(self.names)))

    def _refuse_terms_of_other_rows(self) -> None:
        """Refuse ``x - np.mean(x)``: it would change with a counterfactual treatment, and differ on new rows."""
        computed = [t for t in self._spec.terms if any(f.eval_method.value == "python" for f in t.factors)]
        if not computed or not len(self._data):
            return
        shuffled, limits = shuffled_rows(len(self._data)), extent(self.matrix)
        read = set().union(*(self._reads[term] for term in computed))
        extremes = {name: extreme_rows(self._data[name]) for name in read}

        def dependent(term: Any) -> bool:
            samples = [shuffled, *(rows for name in sorted(self._reads[term]) for rows in extremes[name])]
            return any(self._depends_on_other_rows(term, rows, limits) for rows in samples)

        if refused := [str(term) for term in computed if dependent(term)]:
            raise FormulaError(
                f"{listing(refused)} is not computed row by row: its value in a row depends on the other rows or their order, so "
                "that it would change with a counterfactual treatment and differ on new rows. Use center(), scale(), "
                "standardize(), bs(), cr() or poly(), whose constants are those of the fit, or compute the column beforehand: "
                "data.assign(...)."
            )

    def _depends_on_other_rows(self, term: Any, rows: npt.NDArray[np.intp], limits: Array) -> bool:
        """Whether a term has other values when it is evaluated on a few rows alone."""
        where = self._spec.term_indices[term]
        evaluate_on = partial(values_of, self._spec.subset([term]), self._context)
        sample = self._data[sorted(self._reads[term])].iloc[rows]
        return depend_on_other_rows(evaluate_on, sample, self.matrix[np.ix_(rows, where)], limits[:, where])

    def _refuse_extremes(self) -> None:
        names, size = np.asarray(self.names), np.abs(extent(self.matrix)).max(axis=0)
        bad = ~np.isfinite(size)
        if bad.any():
            rows = int((~np.isfinite(self.matrix[:, bad])).any(axis=1).sum())
            raise DataError(
                f"{listing(names[bad])} in the design is not finite on {rows} rows (the logarithm of zero, a division by zero?). "
                "Change the formula or drop those rows."
            )
        wrong = (size > _LARGEST) | ((size > 0) & (size < _SMALLEST))
        if wrong.any():
            raise DataError(
                f"{listing(names[wrong])} in the design reaches {size[wrong][0]:.3g} in absolute value; expected numbers between "
                f"{_SMALLEST:g} and {_LARGEST:g}, whose squares and products can be computed. Rescale the columns it uses."
            )

    def on(self, data: pd.DataFrame) -> Columns:
        """The same columns, with the same knots, levels and centres, on new rows with the data's types."""
        columns = copy.copy(self)
        columns._data = data
        columns.matrix = self._evaluate(self._spec, data, "new")
        return columns

    def with_constants(self, location: Mapping[str, tuple[float, float]], rows: int) -> Columns:
        """The same columns with the constants of other rows, which are not in memory; for :meth:`on`.

        The fitted rows must have all levels and the extremes of every number, so that only means are missing.

        Parameters
        ----------
        location : mapping from str to (float, float)
            Mean and standard deviation (divided by n - 1) of every number.
        rows : int
            How many rows they are of.
        """
        state = {expression: dict(known) for expression, known in self._spec.transform_state.items()}
        for expression, known in state.items():
            located = _LOCATED.fullmatch(expression)
            name = "" if located is None else (located.group(1) or located.group(2)).strip("`")
            if name in location:
                mean, deviation = location[name]
                known["center"] = mean
                if known["scale"] is not None:
                    known["scale"] = deviation * np.sqrt((rows - 1) / (rows - known["ddof"]))
            elif not (_KNOTS.search(expression) and not _FROM_DATA.search(expression)):
                raise FormulaError(
                    f"`{expression}` needs all rows at once, so it cannot be computed from a source; expected center(x) or "
                    "scale(x) of a column, or bs(x, knots=[...]) and cr(x, knots=[...]) with given knots. Change the formula, or "
                    "add the column to the files."
                )
        columns = copy.copy(self)
        columns._spec = self._spec.update(transform_state=state)
        return columns

    def changed(self, frame: pd.DataFrame) -> dict[str, pd.Series]:
        """The columns in which a counterfactual frame differs from the data, with the data's types."""
        return changed_columns(frame, self._data, self.used)

    def interact(self, name: str) -> bool:
        """Whether a term reads this variable together with another one."""
        return any(name in reads and len(reads) > 1 for reads in self._reads.values())

    def hidden(self, name: str) -> tuple[str, ...]:
        """Variables that enter only in interactions with this one, such as x in ``a + a:x``."""
        beside = {read for reads in self._reads.values() if name not in reads for read in reads}
        return tuple(sorted(self.used - beside - {name}))

    def without(self, changed: set[str]) -> npt.NDArray[np.intp]:
        """The columns that do not read these variables, except the intercept."""
        affected = set(self._affected(changed)[0].tolist())
        return np.array(
            [j for j, name in enumerate(self.names) if j not in affected and name != "Intercept"], dtype=np.intp
        )

    def at(self, changes: Mapping[str, pd.Series]) -> tuple[npt.NDArray[np.intp], Array]:
        """The columns that these changes affect, and their values after the changes, shapes (q,) and (n, q)."""
        where, spec = self._affected(set(changes))
        return where, self._evaluate(spec, replace_columns(self._data, changes))

    @np.errstate(all="ignore")  # values that are not finite are an error below
    def tangent(self, changes: Mapping[str, pd.Series], wrt: str) -> tuple[npt.NDArray[np.intp], Array, Array]:
        """The affected columns, their values and their derivatives along the column ``wrt``.

        Derivatives are finite differences in float64 inside the data's range, outside of which splines are not defined.

        Returns
        -------
        ndarray of int, shape (q,)
        ndarray, shape (n, q)
        ndarray, shape (n, q)
        """
        self._check_derivative(wrt)
        frame = replace_columns(self._data, changes)
        where, spec = self._affected({*changes, wrt})
        a, fitted = frame[wrt].to_numpy(), self._fitted[wrt].to_numpy()
        limits = float(min(a.min(), fitted.min())), float(max(a.max(), fitted.max()))
        values = self._evaluate(spec, frame)

        def at(treatment: Array, rows: npt.NDArray[np.bool_], which: npt.NDArray[np.bool_]) -> Array:
            columns, smaller = _subset(spec, which)
            return self._evaluate(smaller, replace_columns(frame[rows], {wrt: treatment[rows]}))[:, columns]

        slopes = derivatives(at, a, values, STEP * _local_spread(a, fitted), limits)
        if not np.isfinite(slopes).all():
            raise EstimandError(
                f"The formula has no finite derivative along `{wrt}` on {int((~np.isfinite(slopes)).any(axis=1).sum())} rows. Use "
                "another transformation, or drop those rows."
            )
        return where, values, slopes

    def _check_derivative(self, wrt: str) -> None:
        if wrt not in self.used:
            raise EstimandError(
                f"mu.derivative(..., wrt={wrt!r}): the formula does not read `{wrt}`, so that the derivative is zero. It reads "
                f"{listing(sorted(self.used))}."
            )
        if self._data[wrt].dtype != np.float64:
            raise EstimandError(f"mu.derivative(..., wrt={wrt!r}): `{wrt}` holds labels; a derivative needs numbers.")
        _refuse_tiny_spread(self._fitted[wrt])

    def _affected(self, changed: set[str]) -> tuple[npt.NDArray[np.intp], Any]:
        """The columns that read any of these variables, and the specification of their terms alone."""
        terms = [term for term in self._spec.terms if self._reads[term] & changed]
        where = [index for term in terms for index in self._spec.term_indices[term]]
        return np.asarray(where, dtype=np.intp), self._spec.subset(terms) if terms else None

    def _evaluate(self, spec: Any, frame: pd.DataFrame, rows: str = "counterfactual") -> Array:
        if spec is None:
            return np.empty((len(frame), 0))
        read = sorted(set().union(*(self._reads[term] for term in spec.terms)))
        try:
            values = values_of(spec, self._context, frame[read])
        except EvaluationError as error:
            if error.memory:
                raise unusable(error, f"The formula's columns of {len(frame):,} {rows} rows") from error.__cause__
            failure = self._unseen_levels(spec, frame, rows) if error.unseen else self._failure(frame, error, rows)
            raise failure from error.__cause__
        bad = ~np.isfinite(values)
        if bad.any():
            raise EstimandError(
                f"The formula is not finite at {int(bad.any(axis=1).sum())} {rows} rows (the logarithm of a number below zero?). "
                "Use a smaller shift, other rows or another transformation."
            )
        largest = np.abs(extent(values)).max(initial=0.0)
        if largest > _LARGEST:
            raise EstimandError(
                f"The formula's columns reach {largest:.3g} at {rows} rows; expected at most {_LARGEST:g}, so that squares can be "
                "computed. Use a smaller shift, or rescale the columns."
            )
        return values

    def _unseen_levels(self, spec: Any, frame: pd.DataFrame, rows: str) -> RieszError:
        """The error that names the levels of factors that the fitted rows do not have."""
        for name, fitted in self._factor_levels():
            if name not in frame.columns:
                continue
            new = labels(level for level in frame[name].dropna().unique() if level not in set(fitted))
            if new:
                return unseen_level(
                    f"the level {listing(new)} of `{name}`", f" Its levels are {listing(labels(fitted))}.", rows
                )
        factors = {expression for expression, (_, state) in self._spec.encoder_state.items() if "categories" in state}
        terms = [str(term) for term in spec.terms if any(factor.expr in factors for factor in term.factors)]
        return unseen_level(f"a level of {listing(terms)}", "", rows)

    def _factor_levels(self) -> Iterator[tuple[str, Any]]:
        """The factors' columns (or expressions), and the levels that were fitted."""
        for expression, (_, state) in self._spec.encoder_state.items():
            if state.get("categories") is not None:
                column = _FACTOR.match(expression)
                yield (column.group(1).strip("`") if column else expression), state["categories"]

    def _failure(self, frame: pd.DataFrame, error: Exception, rows: str) -> EstimandError:
        """The error for rows at which formulaic cannot evaluate the formula, usually because a spline is outside its range."""
        for name in sorted(self.used):
            column = self._fitted[name]
            if column.dtype != np.float64:
                continue
            outside = int(((frame[name] < column.min()) | (frame[name] > column.max())).sum())
            if outside:
                return EstimandError(
                    f"{outside} {rows} rows have `{name}` outside the range of the data [{label(column.min())}, "
                    f"{label(column.max())}], where a spline such as bs() is not defined. Use cr() or cs() (natural splines, which "
                    "extend in a straight line), a polynomial, or a smaller shift."
                )
        return EstimandError(f"The formula cannot be evaluated at {rows} rows: {error}")


def _subset(spec: Any, which: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.intp] | slice, Any]:
    """The terms of a specification to which these columns belong, and the columns' positions in the smaller matrix."""
    if which.all():
        return slice(None), spec
    terms = [term for term in spec.terms if which[spec.term_indices[term]].any()]
    indices = [index for term in terms for index in spec.term_indices[term]]
    return np.flatnonzero(which[indices]), spec.subset(terms)


def _refuse_tiny_spread(column: pd.Series) -> None:
    """Differences of numbers that agree in most of their 16 digits are mostly rounding error."""
    level, spread = float(column.abs().max()), float(column.std())
    if spread == 0:
        raise EstimandError(f"`{column.name}` is constant, so that it has no derivative.")
    if spread < _LEAST_SPREAD * level:
        raise EstimandError(
            f"`{column.name}` varies little around a large number (standard deviation {spread:.3g}, level {level:.3g}), so that "
            "derivatives along it would be lost in rounding. Subtract a constant from it beforehand, such as its first value."
        )


def _local_spread(a: Array, fitted: Array) -> Array:
    """The range of the 4 per cent of the fitted values nearest to each a: small where they are dense."""
    fitted = np.sort(fitted)
    k = max(1, len(fitted) // 50)
    position = np.clip(np.searchsorted(fitted, a), 0, len(fitted) - 1)
    spread = fitted[np.minimum(position + k, len(fitted) - 1)] - fitted[np.maximum(position - k, 0)]
    full_range = float(fitted[-1] - fitted[0])
    return np.where(spread > 1e-9 * full_range, spread, full_range)  # at heavy ties the spread is zero


def _plain_levels(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of columns with whole numbers as the user wrote them: ``C(x)[T.5]`` for ``C(x)[T.5.0]``."""
    plain = tuple(_WHOLE_LEVEL.sub(r"[\1\2]", name) for name in names)
    return plain if len(set(plain)) == len(set(names)) else names  # the labels "5" and "5.0" stay different
