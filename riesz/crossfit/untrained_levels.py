"""Factor levels whose rows are all in one fold, so that the fit which predicts them was not trained on them.

If a person's rows are all in one fold, the dummy of the person is zero on every row that its coefficient is learned from. The
prediction is then that of the reference level, and the fixed effects in the formula would silently be lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from riesz.crossfit.splits import Split
from riesz.design.design import Design
from riesz.errors import DataError, listing
from riesz.syntax.caller import warn

#: Smallest share of rows with untrained levels that is an error. By chance, all rows of a rare level may be in one fold: with five
#: folds, this happens to two rows with probability 1/5, to four rows with probability 1/125. Such levels are a small share of any
#: sample, and so is the confounding that is not removed. If levels are nested in clusters, the share is close to one.
MOST_UNTRAINED = 0.1
#: Warn if there are more untrained rows than this, in units of sqrt(n). If k such rows differ from the others by one standard
#: deviation of the outcome, they move the estimate by k / n standard deviations; its standard error is about 2 / sqrt(n), here
#: twenty times as much.
_FEW = 0.1
_FEWEST_REFUSED = 10  # rows: in a sample of fewer than a hundred, a share of a tenth may be chance
_LOOK = 512  # training rows that are checked first: most columns vary among them


def refuse_untrained(design: Design, splits: Sequence[Sequence[Split]]) -> None:
    """Refuse a design with many rows whose level is not in their training rows; warn if there are a few."""
    references = _reference_levels(design)
    for repeat in splits:
        rows, columns = np.zeros(len(design), dtype=bool), set()
        for split in repeat:
            for z, names in ((design.z, design.names), references):
                constant = _constant(z, split.train)
                differs = z[np.ix_(split.test, constant)] != z[split.train[0], constant]
                rows[split.test] |= differs.any(axis=1)
                columns |= {names[j] for j in constant[differs.any(axis=0)]}
        count, share = int(rows.sum()), float(rows.mean())
        if count <= _FEW * np.sqrt(len(rows)):
            continue
        levels = listing(sorted(columns), 3)
        if share >= MOST_UNTRAINED and count >= _FEWEST_REFUSED:
            raise DataError(
                f"{count:,} of {len(rows):,} rows have a level of a factor ({levels}) that no row outside their fold has, so its "
                "effect would never be trained, and the formula's fixed effects would be lost. Remove them beforehand: "
                "subtract each unit's mean from outcome, treatment and covariates, or replace the factor by each unit's mean of "
                "treatment and covariates. Or fit without sample splitting: folds=1, learner=riesz.Linear(0, 0), the "
                "within estimator. If the levels are only rare, merge them."
            )
        warn(
            f"{count:,} of {len(rows):,} rows have a level ({levels}) that no row outside their fold has; they are predicted as "
            "another level. Merge rare levels, or drop these rows."
        )
        return


def _reference_levels(design: Design) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """Indicators of the reference levels, which have no dummy in the formula, shape (n, factors)."""
    factors: dict[frozenset[str], list[int]] = {}
    for j, reads in enumerate(design.reads):
        factors.setdefault(reads, []).append(j)
    indicators, names = [np.empty((len(design), 0))], []
    for reads, columns in factors.items():
        dummies = design.z[:, columns]
        if reads and len(columns) > 1 and np.isin(dummies, (0.0, 1.0)).all() and dummies.sum(axis=1).max() == 1:
            indicators.append(1.0 - dummies.sum(axis=1, keepdims=True))
            names.append(f"the reference level of {', '.join(sorted(reads))}")
    return np.hstack(indicators), tuple(names)


def _constant(z: npt.NDArray[np.float64], train: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """The columns with a single value on the training rows."""
    first = z[train[0]]
    sample = train[:: max(1, len(train) // _LOOK)]
    candidates = np.flatnonzero((z[sample] == first).all(axis=0))
    constant: npt.NDArray[np.intp] = candidates[(z[np.ix_(train, candidates)] == first[candidates]).all(axis=0)]
    return constant
