"""What a careful reader would worry about, in plain words.

Each rule looks at one table and says nothing when all is well. The thresholds stand here with their reasons. They come from
three places: what is known or usual elsewhere (a tail index of 2 is where a variance ends; 0.25 is Rubin's limit of imbalance);
what a clean case shows (normal weights, a well-specified linear rr), from which a threshold keeps its distance; and tests, for
what sampling noise could pass, at levels so small that a clean design is rarely flagged. The rest, such as half a standard
error, are judgements of what would change a reader's mind. None is a law, and a number just below one is no proof.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence, Set
from html import escape
from itertools import permutations

import numpy as np
import pandas as pd

from riesz.arrays import Array
from riesz.diagnostics.influence import Codes, heterogeneity, variance_parts
from riesz.diagnostics.weights import MUCH, concentration
from riesz.errors import listing
from riesz.inference import Weights

# E_n[rr beta] misses h_n(beta), which is known, by more than this share and by more than so many of its standard errors. Chosen on
# the simulations `binary` and `continuous` at even seeds (0 of 3,000 parameters flagged with `linear`, 0 of 320 with the default)
# and tried on even seeds from 200 on: 0 of 2,000 with `linear` (300 and 1,000 rows), 0 of 120 with the default (500 and 1,000).
# A share of 5% flags 3 of 90 ATTs of the default, whose standard error here is tiny. A true rr, which is not fitted to the rows,
# is beyond three standard errors with probability 0.3%. Not counted is `linear` for the IPE, whose rr it cannot represent: it
# misses by 15%, and is flagged in 0%, 3% and 100% of the samples of 300, 1,000 and 4,000 rows.
ANCHOR_GAP = 0.1
ANCHOR_Z = 3.0
EFFECTIVE_ROWS = 30  # fewer effective rows are too few for a normal approximation
TAIL_INDEX = 2.0  # below it the variance of rr is infinite; told when Hill's index is clearly (one-sided 5%) below
VARIANCE_SHARE = 0.5  # of the variance, on a few rows; when rr and residuals are normal 2% of the rows carry a third
OUTSIDE = 0.25  # share of rows whose implied propensity is no probability; a linear rr strays on 10% at its best
IMBALANCE = 0.25  # standardized: the usual limit for covariates (Rubin 2001),
IMBALANCE_Z = 5.0  # where sampling noise, over many functions, cannot explain it
IMPLIED_BIAS = 0.5  # standard errors that the estimate would move by
FOLDS_P = 1e-3  # p-value of the same estimate in all folds
REPEATS_SPREAD = 0.5  # standard deviation over repeats, in standard errors
PERFECT = 1e-3  # share of the outcome's variance that mu leaves; less is rarely honest
ARM_ROWS = 10  # two arms of fewer rows may lie apart by chance; of so many, once in 1e5 covariates
CLUSTERS = 20  # fewer are too few for normal intervals,
ARM_CLUSTERS = 10  # and fewer of one arm: of 40, normal 95% intervals held 84% with 2 treated, 88% with 5, 94% with 10

_WIDTH = 90


class Concerns(list[str]):
    """Texts, one a concern: a list of str that is wrapped when printed and short HTML in notebooks.

    Parameters
    ----------
    texts : iterable of str
    nothing : str
        What is said when there are none.

    Examples
    --------
    >>> from riesz.diagnostics.warnings import Concerns
    >>> Concerns(["Only 3 clusters: normal intervals are then too short."])
    - Only 3 clusters: normal intervals are then too short.
    >>> Concerns([])
    These checks found no problems.
    """

    def __init__(self, texts: Iterable[str] = (), nothing: str = "These checks found no problems.") -> None:
        super().__init__(texts)
        self._nothing = nothing

    def __repr__(self) -> str:
        lines = [textwrap.fill(text, _WIDTH, initial_indent="- ", subsequent_indent="  ") for text in self]
        return "\n".join(lines) or self._nothing

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(text)}</li>" for text in self)
        style = "max-width:56em;margin:0"
        inside = f'<ul style="{style}">{items}</ul>' if items else f'<div style="{style}">{escape(self._nothing)}</div>'
        return f'<div class="riesz-warnings">{inside}</div>'


def about_representer(health: pd.DataFrame, rows: float) -> list[str]:
    """What the table of :func:`~riesz.diagnostics.weights.representer_health` shows, for so many rows.

    Parameters
    ----------
    health : pandas.DataFrame
        With a column ``anchor_std_error`` beside its own: the standard error of ``rr_anchor - anchor_moment``.
    rows : float
    """
    found = []
    gap = (health["rr_anchor"] / health["anchor_moment"] - 1).abs()
    z = (health["rr_anchor"] - health["anchor_moment"]).abs() / health["anchor_std_error"]
    clear = gap[(gap > ANCHOR_GAP) & (z > ANCHOR_Z)]
    if len(clear):
        name = clear.idxmax()
        found.append(
            f"The Riesz representer of {name} misses a value it should have by {clear.max():.0%}, which is {z[name]:.1f} standard "
            "errors: rr and anchor disagree, so the estimate relies on mu. The formula may be too rich for these rows or too plain "
            "for rr; compare another formula or learner."
        )
    heavy = health.loc[health["heavy_share"].idxmax()]
    if heavy["heavy_share"] >= MUCH:
        found.append(
            f"{_count(heavy['heavy_rows'], 'row carries', 'rows carry')} {heavy['heavy_share']:.0%} of the weight of {heavy.name}: "
            "the estimate rests on so little (see fit.influential())."
        )
    thin = health.loc[health["effective_n"].idxmin()]
    if thin["effective_n"] < EFFECTIVE_ROWS:
        found.append(
            f"The weights of {thin.name} leave an effective sample of {thin['effective_n']:.0f} of {rows:,.0f} rows, too few for a "
            "normal interval."
        )
    limit = health["tail_index"] * (1 + 1.645 / np.sqrt(np.floor(np.sqrt(rows))))
    if limit.min() < TAIL_INDEX:
        found.append(
            f"The largest weights of {limit.idxmin()} have a heavy tail (index {health.loc[limit.idxmin(), 'tail_index']:.1f}, "
            f"wanted {TAIL_INDEX:g} or more): its variance may be infinite."
        )
    return found


def about_overlap(shares: pd.Series, effects: Set[str]) -> list[str]:
    """Whether rr is no inverse probability on many rows.

    Parameters
    ----------
    shares : pandas.Series
        From :func:`~riesz.diagnostics.overlap.share_outside`, one for each parameter.
    effects : set of str
        The parameters that are effects on everyone, for which the effect on the treated is an alternative.
    """
    if not (shares > OUTSIDE).any():
        return []
    name = shares.idxmax()
    other = (
        ", or the effect on the treated (riesz.att), which needs overlap on one side only" if name in effects else ""
    )
    return [
        f"For {shares.max():.0%} of the rows where a propensity can be recovered from rr ({name}), it falls outside [0, 1]: "
        f"overlap is weak, or rr is poorly learned there. See fit.overlap(), and compare learner='propensity'{other}."
    ]


def about_balance(table: pd.DataFrame) -> list[str]:
    """What the table of :func:`~riesz.diagnostics.balance.balance_table` shows."""
    found = []
    bias = table["implied_bias"].abs()
    if bias.max() > IMPLIED_BIAS:
        name, function = bias.idxmax()
        found.append(
            f"mu and rr both miss {function}: correcting mu for it would move {name} by {bias.max():.2g} standard errors. See "
            "fit.balance()."
        )
    # an rr that cannot balance interactions harms only where mu misses them too; the anchor has a rule of its own
    judged = table[~table["kind"].isin(["anchor", "interaction"])]
    clear = judged[(judged["z"].abs() > IMBALANCE_Z) & (judged["standardized"].abs() > IMBALANCE)]
    if len(clear):
        name, function = clear["standardized"].abs().idxmax()
        others = f" (and {_count(len(clear) - 1, 'other', 'others')})" if len(clear) > 1 else ""
        found.append(
            f"rr does not balance {function}{others} for {name}: a standardized imbalance of "
            f"{clear['standardized'].abs().max():.2f}, more than chance. See fit.balance()."
        )
    return found


def about_outcome(y: Array, mu: Array, weights: Array) -> list[str]:
    """Whether mu knows the outcome too well, out of fold."""
    spread = np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)
    left = np.average((y - mu) ** 2, weights=weights)
    if spread == 0 or left >= PERFECT * spread:
        return []
    return [
        f"mu leaves {left / spread:.1g} of the outcome's variance: is a covariate the outcome in disguise, or a part of it? "
        "With `.` every column of the data is a covariate."
    ]


def about_treatment(
    covariates: Mapping[str, Sequence[Array]], arm: Codes | None, arms: Sequence[str], name: str
) -> list[str]:
    """Whether a covariate tells two arms apart without error.

    Parameters
    ----------
    covariates : mapping of str to sequence of ndarray, each of shape (n,)
        The user's columns, and what the formula makes of each.
    arm : ndarray of int, shape (n,), or None
        Arm of each row; None for a continuous treatment.
    arms : sequence of str
        What the arms are called.
    name : str
        The treatment.
    """
    if arm is None:
        return []
    rows = [np.flatnonzero(arm == code) for code in range(len(arms))]
    pairs = [(i, j) for i, j in permutations(range(len(arms)), 2) if min(len(rows[i]), len(rows[j])) >= ARM_ROWS]
    found = {}
    for column, versions in covariates.items():
        apart = ((i, j, x) for x in versions for i, j in pairs if x[rows[i]].max() < x[rows[j]].min())
        if (first := next(apart, None)) is not None:
            found[column] = first
    if not found:
        return []
    column, (i, j, x) = next(iter(found.items()))
    tells, it, them = ("tells", "it", "it") if len(found) == 1 else ("tell", f"`{column}`", "them")
    return [
        f"{listing(found, 3)} {tells} `{name}` without error: {it} is {x[rows[i]].max():.4g} or less where {name}={arms[i]} and "
        f"{x[rows[j]].min():.4g} or more where {name}={arms[j]}. This may be the treatment in disguise; leave {them} out."
    ]


def about_influence(variation: Array, weights: Weights, codes: Codes | None, names: Sequence[str]) -> list[str]:
    """Whether the variance rests on a few rows or clusters; ``variation`` has shape (n, K)."""
    found = []
    for name, column in zip(names, variation.T, strict=True):
        parts = variance_parts(column, weights, codes)
        if not parts.any():
            found.append(f"No row varies in what it says of {name}, so its standard error is zero and tells nothing.")
            continue
        count = weights.frequency if codes is None else np.ones(len(parts))
        rows, share = concentration(parts / count, count, VARIANCE_SHARE)
        if share >= VARIANCE_SHARE:
            what = ("row makes", "rows make") if codes is None else ("cluster makes", "clusters make")
            found.append(f"{_count(rows, *what)} {share:.0%} of the variance of {name}. See fit.influential().")
    return found


def about_stability(table: pd.DataFrame, errors: pd.Series) -> list[str]:
    """What the table of :func:`~riesz.diagnostics.influence.by_fold` shows."""
    found = []
    p = heterogeneity(table)
    if p < FOLDS_P:
        found.append(
            f"The folds disagree about the estimate more than chance allows (p = {p:.1g}): rows are ordered or clustered, or the "
            "learner is unstable. See fit.stability()."
        )
    spread = table[table["fold"] == "all"].groupby("parameter")["estimate"].std() / errors
    if spread.max() > REPEATS_SPREAD:
        found.append(
            f"{spread.idxmax()} depends on how the folds fall: its standard deviation over repeats is {spread.max():.2g} standard "
            "errors. Use more repeats or a steadier learner."
        )
    return found


def about_clusters(
    codes: Sequence[Codes], names: Sequence[str], arm: Codes | None, arms: Sequence[str], treatment: str
) -> list[str]:
    """Whether there are enough clusters, and enough of them in every arm.

    Parameters
    ----------
    codes : sequence of ndarray of int, each of shape (n,)
        Cluster of each row, for every kind of clusters.
    names : sequence of str
        What the kinds are called.
    arm : ndarray of int, shape (n,), or None
        Arm of each row; None for a continuous treatment.
    arms : sequence of str
        What the arms are called.
    treatment : str
    """
    found = []
    for kind, name in zip(codes, names, strict=True):
        count = len(np.unique(kind))
        if count < CLUSTERS:
            found.append(f"Only {count} clusters of `{name}`: normal intervals are then too short.")
        held = [] if arm is None else [len(np.unique(kind[arm == code])) for code in range(len(arms))]
        if held and min(held) < min(ARM_CLUSTERS, count):
            rare = int(np.argmin(held))
            found.append(
                f"Only {held[rare]} of {count} clusters of `{name}` have rows with {treatment}={arms[rare]}: standard errors are "
                "then too small, and normal intervals too short."
            )
    return found


def _count(number: float, one: str, several: str) -> str:
    return f"{number:.0f} {one if number == 1 else several}"
