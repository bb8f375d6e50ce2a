"""The formula's columns, fitted once on the full sample and evaluated at any frame.

In: the right-hand side that ``formula.py`` read and the rows in use. Out: the design matrix, and for a counterfactual
frame only the columns that its changes reach, with their derivatives along the treatment where asked. Splines, factors
and interactions keep the knots, levels and centres of the full sample.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.arrays import Array
from riesz.errors import DataError, EstimandError, FormulaError, RieszError, listing, nearest
from riesz.syntax.counterfactual import replace_columns
from riesz.syntax.evaluation import (
    EvaluationError,
    depend_on_other_rows,
    evaluate,
    extent,
    never_seen,
    rows_apart,
    shuffled_rows,
    unusable,
    values_of,
)
from riesz.syntax.finite_differences import STEP, derivatives
from riesz.syntax.labels import label, labels
from riesz.syntax.terms import term_columns

_WHOLE_LEVEL = re.compile(r"\[(T\.)?(-?\d+)\.0\]")  # numbers are floats here, so a level 5 of C(x) comes as 5.0
_FACTOR = re.compile(r"C\(\s*(`[^`]+`|[^\W\d]\w*)\s*[,)]")  # C() of a plain column
_LARGEST, _SMALLEST = 1e50, 1e-50  # learners take products of columns, and squares of those
_LEAST_SPREAD = 1e-8  # of the level, below which derivatives are lost in rounding


class Columns:
    """A fitted right-hand side.

    Attributes
    ----------
    matrix : ndarray, shape (n, p)
    names : tuple of str, length p
    reads : tuple of frozenset of str, length p
        The variables that each column is made from.
    """

    def __init__(self, rhs: Any, data: pd.DataFrame, context: Mapping[str, Any]) -> None:
        self._context = context
        self._data = self._fitted = data
        known = list(data.columns)  # once: there may be thousands of terms
        read = sorted(set().union(*(term_columns(term, known) for term in rhs)))
        try:
            self.matrix, self._spec = evaluate(rhs, data[read], context)
            self._read_terms()
            self._refuse_terms_of_other_rows()
        except EvaluationError as error:
            raise unusable(error, f"The formula's columns of {len(data):,} rows") from error.__cause__
        self._refuse_extremes()

    def _read_terms(self) -> None:
        """What the columns are called, and which variables they read."""
        data = self._data
        self.names = _plain_levels(tuple(self._spec.column_names))
        known = list(data.columns)  # once: there may be thousands of terms
        self._reads = {term: term_columns(term, known) for term in self._spec.terms}
        self.used = frozenset().union(*self._reads.values())
        own = {index: term for term in self._spec.terms for index in self._spec.term_indices[term]}
        self.reads = tuple(frozenset(self._reads[own[index]]) for index in range(len(self.names)))

    def _refuse_terms_of_other_rows(self) -> None:
        """A term such as ``x - np.mean(x)`` would move with a counterfactual treatment, and be another on new rows."""
        computed = [t for t in self._spec.terms if any(f.eval_method.value == "python" for f in t.factors)]
        if not computed or not len(self._data):
            return
        some, size = shuffled_rows(len(self._data)), extent(self.matrix)
        apart = {name: rows_apart(self._data[name]) for name in set().union(*(self._reads[term] for term in computed))}
        guilty = []
        for term in computed:
            read, where = sorted(self._reads[term]), self._spec.term_indices[term]
            again = partial(values_of, self._spec.subset([term]), self._context)
            if any(
                depend_on_other_rows(
                    again, self._data[read].iloc[rows], self.matrix[np.ix_(rows, where)], size[:, where]
                )
                for rows in (some, *(rows for name in read for rows in apart[name]))
            ):
                guilty.append(str(term))
        if guilty:
            raise FormulaError(
                f"{listing(guilty)} is not computed row by row: its value at a row depends on the other rows or their order, so "
                "that it would move with a counterfactual treatment and differ on new rows. Use center(), scale(), standardize(), "
                "bs(), cr() or poly(), which remember what they measured, or make the column beforehand: data.assign(...)."
            )

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
                f"{_SMALLEST:g} and {_LARGEST:g}, whose squares and products can be computed. Rescale the columns it is made from."
            )

    def on(self, data: pd.DataFrame) -> Columns:
        """The same columns, with their knots, levels and centres, on new rows that conform with the data."""
        made = copy.copy(self)
        made._data = data
        made.matrix = self._evaluate(self._spec, data, "new")
        return made

    def changed(self, frame: pd.DataFrame) -> dict[str, pd.Series]:
        """The columns in which a counterfactual frame differs from the data, made to conform with it.

        A level that the data never show, a number that is not finite, a missing column or another number of rows is an error.
        """
        if len(frame) != len(self._data):
            raise EstimandError(
                f"A reading of mu has {len(frame)} rows; wanted the {len(self._data)} rows of the data, changed in place with "
                "data.assign(...)."
            )
        if not frame.index.equals(self._data.index):
            raise EstimandError(
                "A reading of mu has the rows in another order; wanted them as in the data, changed in place with "
                "data.assign(...)."
            )
        lost = sorted(self.used - set(frame.columns))
        if lost:
            raise EstimandError(f"A reading of mu lacks the column {listing(lost)}, which the formula needs.")
        found = {}
        for name in sorted(self.used):
            column = _conform(frame[name], self._data[name])
            if not _same(column, self._data[name]):
                found[name] = column
        self._refuse_strays(frame, bool(found))
        return found

    def _refuse_strays(self, frame: pd.DataFrame, changes: bool) -> None:
        """A misspelt column would change nothing, and the moment would be another than was meant."""
        new = [str(name) for name in frame.columns if name not in self._data.columns]
        if new:
            hint = nearest(new[0], sorted(self.used)) or nearest(new[0], list(self._data.columns))
            raise EstimandError(
                f"A reading of mu has the column {listing(new)}, which the data do not have.{hint} Change columns of the formula, "
                "such as mu(data.assign(a=0)), and keep other new columns out of the frame that mu reads."
            )
        if changes:
            return
        idle = [name for name in frame.columns if name not in self.used and not frame[name].equals(self._data[name])]
        if idle:
            raise EstimandError(
                f"A reading of mu changes {listing(idle)} alone, which the formula does not read, so that mu stays the same. The "
                f"formula reads {listing(sorted(self.used))}."
            )

    def interact(self, name: str) -> bool:
        """Whether some term reads a variable together with another one."""
        return any(name in reads and len(reads) > 1 for reads in self._reads.values())

    def hidden(self, name: str) -> tuple[str, ...]:
        """Variables that enter only together with another one, such as x in ``a + a:x``."""
        beside = {read for reads in self._reads.values() if name not in reads for read in reads}
        return tuple(sorted(self.used - beside - {name}))

    def without(self, changed: set[str]) -> npt.NDArray[np.intp]:
        """The columns that changes in some variables do not reach, the intercept left out."""
        reached = set(self._reached(changed)[0].tolist())
        return np.array(
            [j for j, name in enumerate(self.names) if j not in reached and name != "Intercept"], dtype=np.intp
        )

    def at(self, changes: Mapping[str, pd.Series]) -> tuple[npt.NDArray[np.intp], Array]:
        """The columns that these changes reach, and their values there, shapes (q,) and (n, q)."""
        where, spec = self._reached(set(changes))
        return where, self._evaluate(spec, replace_columns(self._data, changes))

    @np.errstate(all="ignore")  # what is not finite is told
    def tangent(self, changes: Mapping[str, pd.Series], wrt: str) -> tuple[npt.NDArray[np.intp], Array, Array]:
        """The reached columns, their values and their derivatives along the column ``wrt``.

        Differences in float64 (see ``finite_differences.py``) inside the data's range, which splines must not leave.

        Returns
        -------
        ndarray of int, shape (q,)
        ndarray, shape (n, q)
        ndarray, shape (n, q)
        """
        if wrt not in self.used:
            raise EstimandError(
                f"mu.derivative(..., wrt={wrt!r}): the formula does not read `{wrt}`, so that the derivative is zero by "
                f"definition. It reads {listing(sorted(self.used))}."
            )
        frame = replace_columns(self._data, changes)
        where, spec = self._reached({*changes, wrt})
        if self._data[wrt].dtype != np.float64:
            raise EstimandError(f"mu.derivative(..., wrt={wrt!r}): `{wrt}` holds labels; a derivative wants a number.")
        _refuse_tiny_spread(self._fitted[wrt])
        a = frame[wrt].to_numpy()
        known = self._fitted[wrt].to_numpy()
        limits = float(min(a.min(), known.min())), float(max(a.max(), known.max()))
        here = self._evaluate(spec, frame)

        def at(values: Array, rows: npt.NDArray[np.bool_], which: npt.NDArray[np.bool_]) -> Array:
            columns, own = self._some(spec, which)
            return self._evaluate(own, replace_columns(frame[rows], {wrt: values[rows]}))[:, columns]

        slopes = derivatives(at, a, here, STEP * _local_spread(a, known), limits)
        if not np.isfinite(slopes).all():
            raise EstimandError(
                f"The formula has no finite derivative along `{wrt}` on {int((~np.isfinite(slopes)).any(axis=1).sum())} rows. Use "
                "another transformation, or drop those rows."
            )
        return where, here, slopes

    def _some(self, spec: Any, which: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.intp] | slice, Any]:
        """The terms of a specification that some of its columns belong to, and where these stand among the terms' columns."""
        if which.all():
            return slice(None), spec
        terms = [term for term in spec.terms if which[spec.term_indices[term]].any()]
        there = [index for term in terms for index in spec.term_indices[term]]
        return np.flatnonzero(which[there]), spec.subset(terms)

    def _reached(self, changed: set[str]) -> tuple[npt.NDArray[np.intp], Any]:
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
            raise (
                self._unseen(spec, frame, rows) if error.unseen else self._out_of_reach(frame, error, rows)
            ) from error.__cause__
        bad = ~np.isfinite(values)
        if bad.any():
            raise EstimandError(
                f"The formula is not finite at {int(bad.any(axis=1).sum())} {rows} rows (the logarithm of a number below zero?). "
                "Use a smaller shift, other rows or another transformation."
            )
        largest = np.abs(extent(values)).max(initial=0.0)
        if largest > _LARGEST:
            raise EstimandError(
                f"The formula's columns reach {largest:.3g} at {rows} rows; expected numbers up to {_LARGEST:g}, whose squares can "
                "be computed. Use a smaller shift, or rescale the columns."
            )
        return values

    def _unseen(self, spec: Any, frame: pd.DataFrame, rows: str) -> RieszError:
        """Which levels the factors of some rows have that the fitted ones do not."""
        for expression, (_, state) in self._spec.encoder_state.items():
            column = _FACTOR.match(expression)
            name = column.group(1).strip("`") if column else expression
            known = state.get("categories")
            if known is None or name not in frame.columns:
                continue
            levels = labels(level for level in frame[name].dropna().unique() if level not in set(known))
            if levels:
                return never_seen(
                    f"the level {listing(levels)} of `{name}`", f" Its levels are {listing(labels(known))}.", rows
                )
        factors = {expression for expression, (_, state) in self._spec.encoder_state.items() if "categories" in state}
        terms = [str(term) for term in spec.terms if any(factor.expr in factors for factor in term.factors)]
        return never_seen(f"a level of {listing(terms)}", "", rows)

    def _out_of_reach(self, frame: pd.DataFrame, error: Exception, rows: str) -> EstimandError:
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


def _refuse_tiny_spread(column: pd.Series) -> None:
    """Differences of numbers that agree in most of their 16 digits are mostly rounding."""
    level, spread = float(column.abs().max()), float(column.std())
    if spread == 0:
        raise EstimandError(f"`{column.name}` is constant, so that there is no derivative along it.")
    if spread < _LEAST_SPREAD * level:
        raise EstimandError(
            f"`{column.name}` varies little around a large number (standard deviation {spread:.3g}, level {level:.3g}), so that "
            "derivatives along it would be lost in rounding. Subtract a constant from it beforehand, such as its first value."
        )


def _local_spread(a: Array, known: Array) -> Array:
    """The distance over which the few per cent of known values nearest to each a lie: small where they are dense."""
    known = np.sort(known)
    k = max(1, len(known) // 50)
    at = np.clip(np.searchsorted(known, a), 0, len(known) - 1)
    spread = known[np.minimum(at + k, len(known) - 1)] - known[np.maximum(at - k, 0)]
    whole = float(known[-1] - known[0])
    return np.where(spread > 1e-9 * whole, spread, whole)  # heavy ties


def _conform(column: pd.Series, like: pd.Series) -> pd.Series:
    if isinstance(like.dtype, pd.CategoricalDtype):
        if column.dtype == like.dtype:
            return column
        known = column.astype(object).isin(list(like.cat.categories)).to_numpy()
        if not known.all():
            unseen = sorted(labels(column.astype(object)[~known].unique()))
            raise EstimandError(
                f"A reading of mu sets `{like.name}` to {listing(unseen)}, a level never seen in the data. Its levels are "
                f"{listing(labels(like.cat.categories))}."
            )
        return pd.Series(pd.Categorical(column.astype(object), dtype=like.dtype), index=like.index, name=like.name)
    try:
        values = column.to_numpy(dtype=float)
    except (TypeError, ValueError):
        raise EstimandError(
            f"A reading of mu sets `{like.name}` to values that are not numbers ({column.dtype}), but the column holds numbers."
        ) from None
    if not np.isfinite(values).all():
        raise EstimandError(f"A reading of mu sets `{like.name}` to a missing or infinite value; wanted numbers.")
    return pd.Series(values, index=like.index, name=like.name)


def _same(left: pd.Series, right: pd.Series) -> bool:
    if isinstance(right.dtype, pd.CategoricalDtype):
        return bool(np.array_equal(left.cat.codes, right.cat.codes))
    return bool(np.array_equal(left.to_numpy(), right.to_numpy()))


def _plain_levels(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of columns with whole numbers as the user wrote them: ``C(x)[T.5]`` for ``C(x)[T.5.0]``."""
    made = tuple(_WHOLE_LEVEL.sub(r"[\1\2]", name) for name in names)
    return made if len(set(made)) == len(set(names)) else names  # labels "5" and "5.0" stay apart
