"""The formula's columns, fitted once on the full sample and evaluated at any frame.

In: the right-hand side that ``formula.py`` read and the rows in use. Out: the design matrix, and for a counterfactual
frame only the columns that its changes reach, with their derivatives along the treatment where asked. Splines, factors
and interactions keep the knots, levels and centres of the full sample.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import formulaic
import numpy as np
import numpy.typing as npt
import pandas as pd

from riesz.differences import STEP, derivatives
from riesz.errors import DataError, EstimandError, FormulaError, listing
from riesz.formula import term_columns
from riesz.moment import Array

_WHOLE_LEVEL = re.compile(r"\[(T\.)?(-?\d+)\.0\]")  # numbers are floats here, so a level 5 of C(x) comes as 5.0


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
            with np.errstate(all="ignore"):  # what is not finite is told below
                fitted = rhs.get_model_matrix(data[read], context=context, na_action="ignore", output="numpy")
        except Exception as error:
            raise FormulaError(
                f"The formula's columns cannot be made: {_plain(error)} Change that part, or convert the column it reads."
            ) from error
        self._spec = fitted.model_spec
        self.names = _plain_levels(tuple(self._spec.column_names))
        self.matrix: Array = np.ascontiguousarray(fitted, dtype=float)
        self._reads = {term: term_columns(term, known) for term in self._spec.terms}
        self.used = frozenset().union(*self._reads.values())
        own = {index: term for term in self._spec.terms for index in self._spec.term_indices[term]}
        self.reads = tuple(frozenset(self._reads[own[index]]) for index in range(len(self.names)))
        bad = ~np.isfinite(self.matrix).all(axis=0)
        if bad.any():
            names = np.asarray(self.names)[bad]
            rows = int((~np.isfinite(self.matrix[:, bad])).any(axis=1).sum())
            raise DataError(
                f"{listing(names)} in the design is not finite on {rows} rows (the logarithm of zero, a division by zero?). "
                "Change the formula or drop those rows."
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
        return found

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
        return where, self._evaluate(spec, self._data.assign(**changes))

    def tangent(self, changes: Mapping[str, pd.Series], wrt: str) -> tuple[npt.NDArray[np.intp], Array, Array]:
        """The reached columns, their values and their derivatives along the column ``wrt``.

        Differences in float64 (see ``differences.py``) inside the data's range, which splines must not leave.

        Returns
        -------
        ndarray of int, shape (q,)
        ndarray, shape (n, q)
        ndarray, shape (n, q)
        """
        frame = self._data.assign(**changes)
        where, spec = self._reached({*changes, wrt})
        if self._data[wrt].dtype != np.float64:
            raise EstimandError(f"mu.derivative(..., wrt={wrt!r}): `{wrt}` holds labels; a derivative wants a number.")
        a = frame[wrt].to_numpy()
        known = self._fitted[wrt].to_numpy()
        limits = float(min(a.min(), known.min())), float(max(a.max(), known.max()))
        here = self._evaluate(spec, frame)

        def at(values: Array, rows: npt.NDArray[np.bool_], which: npt.NDArray[np.bool_]) -> Array:
            columns, own = self._some(spec, which)
            return self._evaluate(own, frame[rows].assign(**{wrt: values[rows]}))[:, columns]

        return where, here, derivatives(at, a, here, STEP * _local_spread(a, known), limits)

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
        try:
            with np.errstate(all="ignore"):
                read = sorted(set().union(*(self._reads[term] for term in spec.terms)))
                made = spec.get_model_matrix(frame[read], context=self._context, na_action="ignore", output="numpy")
        except Exception as error:
            raise self._out_of_reach(frame, error, rows) from error
        values = np.asarray(made, dtype=float)
        bad = ~np.isfinite(values)
        if bad.any():
            raise EstimandError(
                f"The formula is not finite at {int(bad.any(axis=1).sum())} {rows} rows (the logarithm of a number below zero?). "
                "Use a smaller shift, other rows or another transformation."
            )
        return values

    def _out_of_reach(self, frame: pd.DataFrame, error: Exception, rows: str) -> EstimandError:
        for name in sorted(self.used):
            column = self._fitted[name]
            if column.dtype != np.float64:
                continue
            outside = int(((frame[name] < column.min()) | (frame[name] > column.max())).sum())
            if outside:
                return EstimandError(
                    f"{outside} {rows} rows have `{name}` outside the range of the data [{column.min():g}, "
                    f"{column.max():g}], where a spline such as bs() is not defined. Use cr() or cs() (natural splines, which "
                    "extend in a straight line), a polynomial, or a smaller shift."
                )
        return EstimandError(f"The formula cannot be evaluated at {rows} rows: {_plain(error)}")


def _local_spread(a: Array, known: Array) -> Array:
    """The distance over which the few per cent of known values nearest to each a lie: small where they are dense."""
    known = np.sort(known)
    k = max(1, len(known) // 50)
    at = np.clip(np.searchsorted(known, a), 0, len(known) - 1)
    spread = known[np.minimum(at + k, len(known) - 1)] - known[np.maximum(at - k, 0)]
    whole = float(known[-1] - known[0])
    return np.where(spread > 1e-9 * whole, spread, whole)  # heavy ties


def evaluate_term(text: str, data: pd.DataFrame, context: Mapping[str, Any], what: str) -> pd.Series:
    """One column from a formula's expression, such as ``log(y)``."""
    if text.strip("`") in data.columns:
        return data[text.strip("`")]
    try:
        with np.errstate(all="ignore"):
            made = formulaic.Formula(f"0 + {{{text.strip('{}')}}}").get_model_matrix(
                data, context=context, na_action="ignore"
            )
    except Exception as error:
        raise DataError(f"The {what} {text!r} cannot be computed: {_plain(error)} Change that part.") from error
    if made.shape[1] != 1:
        raise DataError(f"The {what} {text!r} gives {made.shape[1]} columns; wanted one.")
    column = pd.Series(np.asarray(made, dtype=float)[:, 0], index=data.index, name=text)
    bad = int((~np.isfinite(column)).sum())
    if bad:
        raise DataError(
            f"The {what} {text!r} is not finite on {bad} rows (the logarithm of zero?). Change it or drop those rows."
        )
    return column


def _conform(column: pd.Series, like: pd.Series) -> pd.Series:
    if isinstance(like.dtype, pd.CategoricalDtype):
        if column.dtype == like.dtype:
            return column
        known = column.astype(object).isin(list(like.cat.categories)).to_numpy()
        if not known.all():
            unseen = sorted({str(value) for value in column.astype(object)[~known]})
            raise EstimandError(
                f"A reading of mu sets `{like.name}` to {listing(unseen)}, a level never seen in the data. Its levels are "
                f"{listing(like.cat.categories)}."
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


def _plain(error: Exception) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().split("\n")[0]
