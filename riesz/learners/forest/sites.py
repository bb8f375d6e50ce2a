r"""Where rows and readings are among the covariates, and the moments of b(a) there.

Rows are at their covariates: the first site. A reading that changes covariates is at another site; the others are at the row's.
For component c, :math:`m_c(b' \theta)_i = \sum_s M_{sci}' \theta(x_{si})` with the sites s. Of M only the pairs of a component and
a function of the treatment that it reads are kept: with 100 arms 198 pairs instead of 9,900.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array
from riesz.design.design import Design
from riesz.design.moment import Points
from riesz.learners.forest.dictionary import Dictionary
from riesz.learners.inputs.evaluation_points import changes_covariates

Numbers = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Sites:
    """Covariates of rows and readings.

    Attributes
    ----------
    covariates : tuple of ndarray, shape (n, c)
        One table per site, first the rows'. In single precision, in which trees compare.
    of_reading : tuple of int, length R
        The site of each reading.
    """

    covariates: tuple[npt.NDArray[np.float32], ...]
    of_reading: tuple[int, ...]


@dataclass(frozen=True)
class Moments:
    """The moments M of the module's docstring.

    Attributes
    ----------
    component, function : ndarray of int, shape (P,)
        The pairs, sorted by component.
    at_sites : tuple of ndarray, shape (n, P)
        One table per site.
    """

    component: Numbers
    function: Numbers
    at_sites: tuple[Array, ...]


def find_sites(design: Design) -> Sites:
    """The sites of the rows of a design and of their readings."""
    x = design.x
    tables, of_reading = [_single(x)], []
    for reading in design.readings():
        if changes_covariates(design, reading):
            of_reading.append(len(tables))
            tables.append(_single(_changed(design, x, reading)))
        else:
            of_reading.append(0)
    return Sites(tuple(tables), tuple(of_reading))


def read_functions(dictionary: Dictionary, reading: Points) -> tuple[Array, Array | None]:
    """The functions b where a reading is, and their derivatives at a derivative reading; one row if all are the same."""
    treatment = reading.kept_treatment.distinct()
    derivative = reading.tangents is not None
    return dictionary.values(treatment), dictionary.slopes(treatment) * reading.treatment_slope if derivative else None


def find_moments(design: Design, dictionary: Dictionary, sites: Sites) -> Moments:
    """The moments of b on the rows of a design. Of a treatment that is a number all functions of b are kept."""
    components, numbers = design.links.component.tolist(), design.links.reading.tolist()
    read = []
    for reading in design.readings():
        values, slopes = read_functions(dictionary, reading)
        read.append(values if slopes is None else slopes)
    active = [np.flatnonzero(b.any(axis=0)) if dictionary.arms else np.arange(dictionary.size) for b in read]
    found = {(c, f) for c, k in zip(components, numbers, strict=True) for f in active[k].tolist()}
    pairs = {pair: place for place, pair in enumerate(sorted(found))}
    tables = tuple(np.zeros((len(design), len(pairs))) for _ in sites.covariates)
    for weight, c, k in zip(design.link_weights, components, numbers, strict=True):
        table = tables[sites.of_reading[k]]
        for f in active[k].tolist():
            table[:, pairs[c, f]] += weight * read[k][:, f]
    listed = np.array(list(pairs), dtype=np.intp).reshape(-1, 2)
    return Moments(listed[:, 0], listed[:, 1], tables)


def _changed(design: Design, x: Array, reading: Points) -> Array:
    """Covariates with the values of a reading."""
    place = {int(column): j for j, column in enumerate(design.covariates)}
    moved = x.copy()
    for k, column in enumerate(reading.columns.tolist()):
        if column in place:
            moved[:, place[column]] = reading.values[:, k]
    return moved


def _single(x: Array) -> npt.NDArray[np.float32]:
    """Covariates in single precision; one constant column if there are none."""
    return np.ascontiguousarray(x if x.shape[1] else np.zeros((len(x), 1)), dtype=np.float32)


def slopes_along_covariates(design: Design) -> bool:
    """Whether some reading is a derivative along a covariate."""
    for reading in design.readings():
        read = np.isin(reading.columns, design.covariates)
        if reading.tangents is not None and bool(reading.tangents[:, read].any()):
            return True
    return False
