"""The rules behind ``fit.warnings()``, which describe problems of a fit in plain words.

Each rule is a function of the :class:`Evidence` that returns texts, or none if it finds no problem; :data:`RULES` lists the rules
in the order in which they are reported. The thresholds are set here, with their reasons. They have three sources: known results
and conventions (below a tail index of 2 the variance is infinite; 0.25 is Rubin's limit of imbalance); values in a clean case
(normal weights, a well-specified linear rr), from which a threshold keeps its distance; and tests, if sampling noise could be the
cause, at levels so small that a clean design is rarely flagged. The others, such as half a standard error, are judgements of what
would change a reader's conclusion. A number just below a threshold proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from riesz.diagnostics.balance import joint_p_values
from riesz.diagnostics.evidence import Evidence
from riesz.diagnostics.influence import heterogeneity, variance_parts
from riesz.diagnostics.overlap import share_outside
from riesz.diagnostics.weights import MUCH, concentration
from riesz.errors import listing

# E_n[rr beta] differs from h_n(beta), which is known, by more than this share and by more than this many standard errors. Chosen
# on the simulations `binary` and `continuous` at even seeds (0 of 3,000 parameters flagged with `linear`, 0 of 320 with the
# default) and tried on even seeds from 200 on: 0 of 2,000 with `linear` (300 and 1,000 rows), 0 of 120 with the default (500 and
# 1,000). A share of 5% flags 3 of 90 ATTs of the default, whose standard error here is tiny. A true rr, which is not fitted to the
# rows, is beyond three standard errors with probability 0.3%. Not counted is `linear` for the IPE, whose rr it cannot represent:
# it misses by 15%, and is flagged in 0%, 3% and 100% of the samples of 300, 1,000 and 4,000 rows.
ANCHOR_GAP = 0.1
ANCHOR_Z = 3.0
EFFECTIVE_ROWS = 30  # fewer effective rows are too few for a normal approximation
TAIL_INDEX = 2.0  # below it the variance of rr is infinite; reported if Hill's index is clearly (one-sided 5%) below
# Of the variance, on a few rows; if rr and residuals are normal, 2% of the rows carry a third. In 300 binary random worlds (even
# seeds) the few rows carry half of the oracle's own variance in 13% and two thirds in 2%, with weak overlap; all of 36 intervals
# of the default learner with half covered.
VARIANCE_SHARE = 2 / 3
# Overlap, judged by a propensity learned separately and out of fold: the largest share of a moment where an arm has almost no
# comparable rows. At even seeds of `random_world` it was at most 0.1% with good, 2% with fair and 4% with weak overlap of two arms
# (100 worlds), and at least 14% with a logit of standard deviation 4 (320 draws of 1,000 and 2,000 rows, 5 to 20 covariates, linear
# and nonlinear).
SCARCE_SHARE = 0.05
# Root mean square distance of a stack's estimate from those with the mu or the rr of one learner, in standard errors; above 0.5
# it makes up more than a quarter of the variance.
APART = 0.5
MU_APART = 0.7  # share of the mean squared error of the stack's mu that two learners' mu are apart,
MU_GAIN = 0.1  # if the best learner's is larger than the stack's by this share: in none of 80 even random worlds
SCALE_OFF = 0.25  # distance from 1 of the scale of an rr that is learned with its scale, as a share,
SCALE_Z = 4.0  # if sampling noise cannot explain it
ONE_SIDED = 0.01  # the largest such share at which the effect on the rows of one arm is recommended instead
EXPLAINED = 0.9  # share of a continuous treatment's variance that covariates predict; 80% in the worst `random_world`
MOVED = 2.0  # residual standard deviations; moving a normal treatment so far leaves 1.8% of the rows, exp(-4), as effective rows
OUTSIDE = 0.25  # share of rows whose implied propensity is outside [0, 1]; for a linear rr, 10% at its best
IMBALANCE = 0.25  # standardized: the usual limit for covariates (Rubin 2001),
IMBALANCE_Z = 5.0  # if sampling noise, over many functions, cannot explain it
IMPLIED_BIAS = 0.5  # standard errors that the estimate would move by,
# if chance cannot explain it. The level is for all rows of `fit.balance(functions="all")` together, by Bonferroni's bound, half of
# it for the formula's functions, which are few: it holds if for every function mu or rr is right, whatever the other misses.
FAMILY = 0.01
FOLDS_P = 1e-3  # p-value of the hypothesis that all folds have the same estimate
REPEATS_SPREAD = 0.5  # standard deviation over repeats, in standard errors
PERFECT = 1e-3  # share of the outcome's variance that mu leaves unexplained; less is rarely plausible
ARM_ROWS = 10  # two smaller arms may be separated by chance; two of this size, for one in 1e5 covariates
CLUSTERS = 20  # fewer are too few for normal intervals,
# and fewer in one arm: with 40 clusters, normal 95% intervals covered 84% with 2 treated, 88% with 5, 94% with 10
ARM_CLUSTERS = 10


def overlap_fails(evidence: Evidence) -> list[str]:
    """Arms have no comparable rows where a moment reads them."""
    positivity = evidence.positivity
    if positivity is None or not np.nanmax(positivity.scarce, initial=0.0) > SCARCE_SHARE:
        return []
    worst = int(np.nanargmax(positivity.scarce))
    name, share = evidence.names[worst], positivity.scarce[worst]
    where = "its rows" if evidence.names[worst] in _effects_on_all(evidence) else "the rows it averages over"
    low = f" (propensity {positivity.cut:.2g} to {1 - positivity.cut:.2g})" if len(evidence.arms) == 2 else ""
    advice = (
        f"Instead, estimate the effect on the {positivity.share:.0%} of the rows with overlap{low}: the same call with "
        "data[fit.overlap_rows()]"
    )
    sides = [verb for verb, part in zip(("atc", "att"), positivity.scarce_in, strict=False) if part <= ONE_SIDED]
    if len(evidence.arms) == 2 and sides and name in _effects_on_all(evidence):
        advice += f"; or riesz.{sides[-1]}, which needs overlap on one side only, where it holds"
    return [
        f"Overlap fails for {name}: on {share:.0%} of {where} an arm has almost no comparable rows, by a propensity learned "
        f"separately and out of fold. There the estimate extrapolates, and its interval may be too short. {advice}."
    ]


def learners_disagree(evidence: Evidence) -> list[str]:
    """The answer depends on which learner of a stack is used."""
    apart = pd.Series(evidence.disagreement, index=evidence.names) / evidence.errors
    if not apart.max() > APART:
        return []
    return [
        f"The learners of the stack disagree about {apart.idxmax()}: with the mu or the rr of one of them in place of the stack's, "
        f"the estimate moves by {evidence.disagreement[int(np.argmax(apart))]:.2g} (root mean square). The standard error allows "
        "for it, but the answer depends on how mu and rr are learned. See fit.candidates, fit.stacking and, if the "
        "treatment has two arms, fit.overlap()."
    ]


def mu_is_not_learned(evidence: Evidence) -> list[str]:
    """The best learners of a stack are about as far from each other as from the outcome, and their combination is better."""
    if not (evidence.mu_apart > MU_APART and evidence.mu_gain > MU_GAIN):
        return []
    return [
        f"No learner of the stack has learned mu: the mu of the two best ones differ by {evidence.mu_apart:.0%} of what the stack "
        "leaves of the outcome's variance, so that much of it is their error, not noise. The estimate then depends on how well rr "
        "was learned, and its interval may be too short. Transform covariates, add what explains the outcome, or add a learner to "
        "the stack that suits its shape, and compare fit.candidates."
    ]


def scale_is_off(evidence: Evidence) -> list[str]:
    """An rr that is learned with its scale has the wrong scale."""
    scale = evidence.scale
    clear = (scale["scale"] - 1).abs()[(scale["scale"] - 1).abs() > SCALE_Z * scale["std_error"]]
    clear = clear[(scale["scale"] < 1 - SCALE_OFF) | (scale["scale"] > 1 + SCALE_OFF)]
    if clear.empty or overlap_fails(evidence):
        return []
    name = clear.idxmax()
    return [
        f"The Riesz representer of {name} has the wrong scale: h_n(rr) is {scale.loc[name, 'scale']:.2g} times E_n[rr^2], expected "
        "1. Overlap is weak, or rr is poorly learned; compare another learner, and the same call with data[fit.overlap_rows()]."
    ]


def little_treatment_variation(evidence: Evidence) -> list[str]:
    """Covariates explain most of a continuous treatment, or the moment moves it far."""
    variation = evidence.treatment_variation
    if variation is None:
        return []
    if variation.moves.max() > MOVED:
        name = evidence.names[int(variation.moves.argmax())]
        return [
            f"Overlap fails for {name}: it moves `{evidence.treatment}` by {variation.moves.max():.1f} residual standard "
            "deviations given the covariates, to values that are rare among rows with the same covariates. There the estimate "
            "extrapolates, and its interval may be too short. Use a smaller shift, or riesz.ade, the effect of a very small one."
        ]
    if variation.explained > EXPLAINED:
        return [
            f"Overlap is weak: covariates predict {variation.explained:.0%} of the variance of `{evidence.treatment}` out of fold, "
            "so it varies little between rows with the same covariates, and the estimate relies on the formula. Leave out "
            "covariates that predict the treatment but not the outcome, or compare richer formulas."
        ]
    return []


def treatment_in_disguise(evidence: Evidence) -> list[str]:
    """A covariate separates two arms perfectly."""
    arm, arms, name = evidence.design.strata, evidence.arms, evidence.treatment
    if arm is None:
        return []
    rows = [np.flatnonzero(arm == code) for code in range(len(arms))]
    large = [code for code, of_arm in enumerate(rows) if len(of_arm) >= ARM_ROWS]
    separating = {}
    for column, versions in evidence.covariates.items():
        for x in versions:
            highest, lowest = (np.array([extreme(x[rows[code]]) for code in large]) for extreme in (np.max, np.min))
            apart = np.argwhere(np.less.outer(highest, lowest))
            if len(apart):
                separating[column] = large[apart[0, 0]], large[apart[0, 1]], x
                break
    if not separating:
        return []
    column, (i, j, x) = next(iter(separating.items()))
    determine, it, them = ("determines", "it", "it") if len(separating) == 1 else ("determine", f"`{column}`", "them")
    return [
        f"{listing(separating, 3)} {determine} `{name}` without error: {it} is {x[rows[i]].max():.4g} or less where "
        f"{name}={arms[i]} and {x[rows[j]].min():.4g} or more where {name}={arms[j]}. This may be the treatment in disguise; leave "
        f"{them} out."
    ]


def anchor_missed(evidence: Evidence) -> list[str]:
    """E_n[rr beta] is far from its known value."""
    health = evidence.health
    gap = (health["rr_anchor"] / health["anchor_moment"] - 1).abs()
    z = (health["rr_anchor"] - health["anchor_moment"]).abs() / health["anchor_std_error"]
    clear = gap[(gap > ANCHOR_GAP) & (z > ANCHOR_Z)]
    if clear.empty:
        return []
    name = clear.idxmax()
    return [
        f"The Riesz representer of {name} misses a known value by {clear.max():.0%}, which is {z[name]:.1f} standard errors: rr "
        "and anchor disagree, so the estimate relies on mu. The formula may be too rich for these rows or too simple for rr; "
        "compare another formula or learner."
    ]


def heavy_rows(evidence: Evidence) -> list[str]:
    """A few rows carry much of the weight."""
    row = evidence.health.loc[evidence.health["heavy_share"].idxmax()]
    if not row["heavy_share"] >= MUCH:
        return []
    return [
        f"{_count(row['heavy_rows'], 'row carries', 'rows carry')} {row['heavy_share']:.0%} of the weight of {row.name}: the "
        "estimate depends on very few rows (see fit.influential())."
    ]


def few_effective_rows(evidence: Evidence) -> list[str]:
    """The weights leave a small effective sample."""
    row = evidence.health.loc[evidence.health["effective_n"].idxmin()]
    if not row["effective_n"] < EFFECTIVE_ROWS:
        return []
    return [
        f"The weights of {row.name} leave an effective sample of {row['effective_n']:.0f} of {evidence.rows:,.0f} rows, too few "
        "for a normal interval."
    ]


def heavy_tail(evidence: Evidence) -> list[str]:
    """The weights may have an infinite variance."""
    index = evidence.health["tail_index"]
    limit = index * (1 + 1.645 / np.sqrt(np.floor(np.sqrt(evidence.rows))))
    if not limit.min() < TAIL_INDEX:
        return []
    return [
        f"The largest weights of {limit.idxmin()} have a heavy tail (index {index[limit.idxmin()]:.1f}, expected {TAIL_INDEX:g} or "
        "more): its variance may be infinite."
    ]


def perfect_outcome(evidence: Evidence) -> list[str]:
    """Mu predicts the outcome too well, out of fold."""
    y, weights = evidence.design.y, evidence.design.weights
    spread = np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)
    left = np.average((y - evidence.predictions.mu.observed) ** 2, weights=weights)
    if spread == 0 or left >= PERFECT * spread:
        return []
    return [
        f"mu leaves only {left / spread:.1g} of the outcome's variance unexplained: is a covariate the outcome in disguise, or a "
        "part of it? With `.` every column of the data is a covariate."
    ]


def weak_overlap(evidence: Evidence) -> list[str]:
    """Rr implies propensities outside [0, 1] on many rows."""
    if len(evidence.arms) != 2 or overlap_fails(evidence):
        return []
    shares = share_outside(evidence.predictions, evidence.design, evidence.names)
    if not (shares > OUTSIDE).any():
        return []
    name = shares.idxmax()
    alternative = (
        ", or the effect on the treated (riesz.att), which needs overlap on one side only"
        if name in _effects_on_all(evidence)
        else ""
    )
    return [
        f"For {shares.max():.0%} of the rows where a propensity can be recovered from rr ({name}), it falls outside [0, 1]: "
        f"overlap is weak, or rr is poorly learned there. See fit.overlap(), and compare learner='propensity'{alternative}."
    ]


def _effects_on_all(evidence: Evidence) -> set[str]:
    """The parameters that are effects (a constant has none) on all rows."""
    design, weights = evidence.design, evidence.design.link_weights
    return {
        name
        for c, (name, normalizer) in enumerate(zip(evidence.names, design.normalizer, strict=True))
        if not weights[design.links.of(c)].sum(axis=0).any() and (normalizer == 1).all()
    }


def mu_and_rr_miss(evidence: Evidence) -> list[str]:
    """Both mu and rr miss the same function, so that the estimate is biased."""
    clusters = np.inf if evidence.codes is None else float(len(np.unique(evidence.codes)))
    tables = [table for table in (evidence.balance, evidence.shapes) if len(table)]
    clear = [table[joint_p_values(table, clusters) * len(table) <= FAMILY / 2] for table in tables]
    bias = pd.concat(clear)["implied_bias"].abs()
    if not bias.max() > IMPLIED_BIAS:
        return []
    name, function = bias.idxmax()
    also = " (and more)" if (bias > IMPLIED_BIAS).sum() > 1 else ""
    return [
        f"mu and rr both miss {function}{also}, by more than chance: correcting mu for it would move {name} by {bias.max():.2g} "
        "standard errors. Add it to the formula, or use a nonlinear learner; see fit.balance(functions='all')."
    ]


def imbalance(evidence: Evidence) -> list[str]:
    """Rr does not balance a covariate.

    Interactions are left out, because an rr that does not balance them is a problem only if mu misses them, too. The anchor has its
    own rule.
    """
    functions = evidence.balance[~evidence.balance["kind"].isin(["anchor", "interaction"])]
    clear = functions[(functions["z"].abs() > IMBALANCE_Z) & (functions["standardized"].abs() > IMBALANCE)]
    if clear.empty:
        return []
    name, function = clear["standardized"].abs().idxmax()
    others = f" (and {_count(len(clear) - 1, 'other', 'others')})" if len(clear) > 1 else ""
    return [
        f"rr does not balance {function}{others} for {name}: a standardized imbalance of "
        f"{clear['standardized'].abs().max():.2f}, more than chance explains. See fit.balance()."
    ]


def concentrated_variance(evidence: Evidence) -> list[str]:
    """A few rows or clusters make up most of the variance."""
    texts, codes = [], evidence.codes
    for name, column in zip(evidence.names, evidence.variation.T, strict=True):
        parts = variance_parts(column, evidence.weights, codes)
        if not parts.any():
            texts.append(f"No row adds to the variance of {name}, so its standard error is zero and means nothing.")
            continue
        count = evidence.weights.frequency if codes is None else np.ones(len(parts))
        rows, share = concentration(parts / count, count, VARIANCE_SHARE)
        if share >= VARIANCE_SHARE:
            verbs = ("row makes", "rows make") if codes is None else ("cluster makes", "clusters make")
            texts.append(f"{_count(rows, *verbs)} up {share:.0%} of the variance of {name}. See fit.influential().")
    return texts


def folds_disagree(evidence: Evidence) -> list[str]:
    """The estimates of the folds differ by more than chance."""
    p = heterogeneity(evidence.stability)
    if not p < FOLDS_P:
        return []
    return [
        f"The estimates of the folds differ by more than chance (p = {p:.1g}): rows are ordered or clustered, or the learner is "
        "unstable. See fit.stability()."
    ]


def repeats_disagree(evidence: Evidence) -> list[str]:
    """The estimates of the repeats differ a lot."""
    whole = evidence.stability[evidence.stability["fold"] == "all"]
    spread = whole.groupby("parameter")["estimate"].std() / evidence.errors
    if not spread.max() > REPEATS_SPREAD:
        return []
    return [
        f"{spread.idxmax()} depends on how the folds are drawn: its standard deviation over repeats is {spread.max():.2g} standard "
        "errors. Use more repeats or a more stable learner."
    ]


def few_clusters(evidence: Evidence) -> list[str]:
    """There are few clusters, or few with rows in some arm."""
    texts, arm = [], evidence.design.strata
    for codes, name in zip(evidence.clusters, evidence.cluster_names, strict=True):
        count = len(np.unique(codes))
        if count < CLUSTERS:
            texts.append(f"Only {count} clusters of `{name}`: normal intervals are then too short.")
        per_arm = [] if arm is None else [len(np.unique(codes[arm == j])) for j in range(len(evidence.arms))]
        if per_arm and min(per_arm) < min(ARM_CLUSTERS, count):
            rare = int(np.argmin(per_arm))
            texts.append(
                f"Only {per_arm[rare]} of {count} clusters of `{name}` have rows with {evidence.treatment}={evidence.arms[rare]}: "
                "standard errors are then too small, and normal intervals too short."
            )
    return texts


def _count(number: float, singular: str, plural: str) -> str:
    return f"{number:.0f} {singular if number == 1 else plural}"


Rule = Callable[[Evidence], list[str]]

#: The rules that a summary reports before anything else.
ALARMS: list[Rule] = [
    overlap_fails,
    little_treatment_variation,
    learners_disagree,
    mu_is_not_learned,
]

#: All rules, in the order in which ``fit.warnings()`` reports them. A new warning is one function and one line here.
RULES: list[Rule] = [
    *ALARMS,
    treatment_in_disguise,
    anchor_missed,
    heavy_rows,
    few_effective_rows,
    heavy_tail,
    perfect_outcome,
    scale_is_off,
    weak_overlap,
    mu_and_rr_miss,
    imbalance,
    concentrated_variance,
    folds_disagree,
    repeats_disagree,
    few_clusters,
]
