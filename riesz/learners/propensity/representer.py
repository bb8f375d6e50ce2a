r"""Riesz representers that follow from the distribution of the treatment given the covariates.

A component's moment is a sum of readings :math:`w(A, X) f(d(A, X), X)`, or of derivatives of f there. Only the treatment may
be moved. Then each reading's share in the representer is a closed form, whatever the estimand is called:

- arms, with propensities p: :math:`\sum_j p_j(x) w(j, x) 1\{d(j, x) = a\} / p_a(x)`, summed over the observed
  arms j. The ATE gives :math:`a/p - (1-a)/(1-p)`, the ATT :math:`a - (1-a) p/(1-p)` (over its normalizer).
- a treatment that is normal given x with mean m and standard deviation s, moved by :math:`\delta(x)`: :math:`w\,\rho` with the
  density ratio :math:`\rho = p(a - \delta | x) / p(a | x)`, and for a derivative
  :math:`w\,\rho\,(a - \delta - m)/s^2`. The ADE gives :math:`(a - m)/s^2`.

In: the readings of a sample's moment for any treatment (``Design.looks``). Out: coefficients and, from these and the treatment's
distribution, rr at any treatment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType

import numpy as np
import numpy.typing as npt

from riesz.arrays import Array, Rows
from riesz.design.arm_numbers import arm_numbers, arms_of_readings
from riesz.design.constant_columns import Compact
from riesz.design.design import Design
from riesz.design.moment import Evaluation, Linked, Look
from riesz.errors import LearnerError

_WHO = "riesz.Propensity"
_INSTEAD = "Use learner='linear' or learner='madnet', which learn the representer without a formula for it."
NOTABLE = 0.01  # share of rows with changed propensities from which the summary mentions them


@dataclass(frozen=True)
class ArmWeight:
    """The weight of a component on an arm, for rows that are observed in any of some arms, the sources.

    Attributes
    ----------
    sources : ndarray of bool, shape (arms,)
    weight : ndarray, shape (n,)
    """

    sources: npt.NDArray[np.bool_]
    weight: Array


@dataclass(frozen=True)
class ArmCoefficients:
    """The weight of each component on arm j for a row observed in arm i.

    Kept only where it is not zero, and once if it is the same for several i: of J arms, a moment reads few, and its weights seldom
    depend on the arm that a row is observed in.

    Attributes
    ----------
    arms : int
    weights : tuple of mapping, one per component
        From an arm j to its weights, whose sources i differ.
    n : int
        Number of rows.
    """

    arms: int
    weights: tuple[Mapping[int, Sequence[ArmWeight]], ...]
    n: int

    def __getitem__(self, key: tuple[EllipsisType, Rows]) -> ArmCoefficients:
        """Some of the rows: ``coefficients[..., rows]``."""
        _, rows = key
        weights = tuple(
            {arm: [ArmWeight(part.sources, part.weight[rows]) for part in parts] for arm, parts in by_arm.items()}
            for by_arm in self.weights
        )
        return ArmCoefficients(self.arms, weights, len(range(self.n)[rows]) if isinstance(rows, slice) else len(rows))

    def dense(self) -> Array:
        """All of them, shape (K, arms i, arms j, n)."""
        table = np.zeros((len(self.weights), self.arms, self.arms, self.n))
        for component, by_arm in enumerate(self.weights):
            for arm, parts in by_arm.items():
                for part in parts:
                    table[component, part.sources, arm] = part.weight
        return table


def need_arms(sample: Design, who: str) -> None:
    """Refuse a treatment without arms, a formula without covariates, and moments from which rr cannot be derived.

    The errors are about a setting ``rr='propensity'`` and name the learner ``who``.
    """
    if sample.strata is None:
        raise LearnerError(
            f"{who} derives the Riesz representer from the arms' propensities, but the treatment is a number. Use rr='constrained'."
        )
    if not sample.covariates.size:
        raise LearnerError(
            f"{who} learns propensities from covariates, but the formula has none besides the treatment. Add some, as in "
            "'y ~ treat(a) + x', or use rr='constrained'."
        )
    arm_coefficients(sample, who)


def arm_coefficients(sample: Design, who: str = _WHO) -> ArmCoefficients:
    """The weight of each component on arm j for a row observed in arm i.

    Refuses a moment that has no such weights; the error names the learner ``who``.
    """
    n, arms = len(sample), sample.treatment.shape[1] + 1
    collected: list[dict[int, list[ArmWeight]]] = [{} for _ in range(sample.components)]
    for source in range(arms):
        for by_arm, looks in zip(collected, _looks(sample, np.full(n, float(source)), who), strict=True):
            for look in looks:
                _need_treatment_only(look, who)
                if look.along != "value":
                    raise LearnerError(
                        f"{who} derives the Riesz representer from the arms' propensities, but this moment reads a derivative "
                        f"of mu. {_INSTEAD}"
                    )
            for arm, weight in _sums_by_arm((look.kept_treatment, look.weight) for look in looks).items():
                _add_source(by_arm.setdefault(arm, []), np.arange(arms) == source, weight)
    coefficients = ArmCoefficients(arms, tuple(collected), n)
    _need_row_by_row(sample, coefficients, who)
    return coefficients


def _sums_by_arm(reads: Iterable[tuple[Compact, Array]]) -> dict[int, Array]:
    """The sums of weights on each arm, given the treatment and the weight of each reading; arms without weight are left out."""
    sums: dict[int, Array] = {}
    for treatment, weight in reads:
        arms = arm_numbers(treatment.distinct())
        for arm in map(int, np.unique(arms)):
            here = weight if treatment.is_constant else np.where(arms == arm, weight, 0.0)
            sums[arm] = sums[arm] + here if arm in sums else here
    return {arm: weight for arm, weight in sums.items() if weight.any()}


def _add_source(parts: list[ArmWeight], source: npt.NDArray[np.bool_], weight: Array) -> None:
    """Add the weight of rows that are observed in one more arm to those of the others."""
    for place, part in enumerate(parts):
        if np.array_equal(part.weight, weight):
            parts[place] = ArmWeight(part.sources | source, part.weight)
            return
    parts.append(ArmWeight(source, weight))


def _need_row_by_row(sample: Design, coefficients: ArmCoefficients, who: str) -> None:
    """Refuse a moment whose weights of a row depend on the arms of other rows."""
    codes, links = arm_numbers(sample.treatment), sample.links
    readings, weights, zero = sample.readings(), sample.link_weights, np.zeros(len(sample))
    expected = [
        _sums_by_arm((readings[links.reading[place]].kept_treatment, weights[place]) for place in links.of(component))
        for component in range(sample.components)
    ]
    largest = max((np.abs(weight).max() for by_arm in expected for weight in by_arm.values()), default=0.0)
    for parts_by_arm, by_arm in zip(coefficients.weights, expected, strict=True):
        for arm in parts_by_arm.keys() | by_arm.keys():
            observed = sum(
                (np.where(part.sources[codes], part.weight, 0.0) for part in parts_by_arm.get(arm, ())), zero
            )
            if not np.allclose(observed, by_arm.get(arm, zero), rtol=1e-6, atol=1e-9 * largest):
                raise LearnerError(
                    f"{who} evaluates the moment of each row in every arm, but here that depends on the arms of other rows "
                    "(on the treatment's mean, say). Write such a statistic as a number, computed beforehand, or divide by it "
                    f"through a normalizer. {_INSTEAD}"
                )


@dataclass(frozen=True)
class ArmFunctions:
    """A function of the treatment and the covariates for each component.

    Attributes
    ----------
    arms : int
    values : tuple of mapping, one per component
        From an arm to the function's values there, shape (n,); in other arms it is zero.
    n : int
        Number of rows.
    """

    arms: int
    values: tuple[Mapping[int, Array], ...]
    n: int

    def dense(self) -> Array:
        """The values in every arm, shape (K, arms, n)."""
        table = np.zeros((len(self.values), self.arms, self.n))
        for component, by_arm in enumerate(self.values):
            for arm, values in by_arm.items():
                table[component, arm] = values
        return table


def arm_representer(
    coefficients: ArmCoefficients, p: Array, clip: float = 0.0, highest: float | None = None
) -> ArmFunctions:
    """The representer at every arm.

    If an arm's propensity is clipped, the other arms share the remaining probability in proportion to their propensities, for this
    arm's representer only. With two arms this equals clipping both propensities beforehand.

    Parameters
    ----------
    coefficients : ArmCoefficients
    p : ndarray, shape (n, arms)
        Propensities, which sum to one.
    clip : float
        They are kept in [clip, highest].
    highest : float, optional
        By default 1 - clip. With 1 only the propensities that rr divides by are changed.

    Returns
    -------
    ArmFunctions
    """
    clipped = np.clip(p, clip, 1.0 - clip if highest is None else highest)
    p = np.maximum(p, 1e-12)  # avoids division by zero
    odds = (1.0 - clipped) / (p @ (1.0 - np.eye(p.shape[1])) * clipped)

    def at_arm(arm: int, parts: Sequence[ArmWeight]) -> Array:
        total = np.zeros(len(p))
        for part in parts:
            others = part.sources & (np.arange(len(part.sources)) != arm)
            if others.any():
                total += part.weight * (p @ others.astype(float)) * odds[:, arm]
            if part.sources[arm]:
                total += part.weight
        return total

    values = tuple({arm: at_arm(arm, parts) for arm, parts in by_arm.items()} for by_arm in coefficients.weights)
    return ArmFunctions(coefficients.arms, values, len(p))


def at_arms(values: Array, design: Design) -> Evaluation:
    """A function given by its values in every arm, shape (arms, n), at a design's rows and readings."""
    rows = np.arange(len(design))
    read = np.stack([values[arms, rows] for arms in arms_of_readings(design)])
    return Evaluation(values[arm_numbers(design.treatment), rows], read, np.zeros_like(read))


def linked_at_arms(functions: ArmFunctions, design: Design) -> Linked:
    """A function per component, given by its values in the arms, where its component reads mu."""
    n, links = len(design), design.links
    arms = arms_of_readings(design)
    codes, observed, read = (
        arm_numbers(design.treatment),
        np.zeros((len(functions.values), n)),
        np.zeros((len(links.reading), n)),
    )
    for component, by_arm in enumerate(functions.values):
        for arm, values in by_arm.items():
            rows = codes == arm
            observed[component, rows] = values[rows]
            for link in links.of(component):
                np.copyto(read[link], values, where=arms[links.reading[link]] == arm)
    return Linked(observed, read, np.zeros_like(read), links)


def clipping(share: float, clip: float, what: str) -> list[str]:
    """A note for the summary if a notable share of rows had their propensities or density ratios clipped."""
    if share < NOTABLE:
        return []
    return [
        f"The {what} of {share:.0%} of the rows were clipped (clip={clip:g}): overlap is weak there, and the estimate depends on "
        "the clipping."
    ]


@dataclass(frozen=True)
class Piece:
    """One reading of a component of a continuous treatment.

    Attributes
    ----------
    weight, delta : ndarray, shape (n,)
        Its weight, and by how much it moves the treatment; neither depends on the treatment.
    derivative : bool
    """

    weight: Array
    delta: Array
    derivative: bool


Pieces = tuple[tuple[Piece, ...], ...]


def shift_pieces(sample: Design) -> Pieces:
    """The readings of every component; refused unless their weights and displacements depend on covariates alone."""
    a = sample.treatment[:, 0]
    pieces = [_pieces(component, a) for component in _looks(sample, a, _WHO)]
    for other in (np.roll(a, 1), np.roll(a, len(a) // 2), a.min() + a.max() - a):
        other_pieces = [_pieces(component, other) for component in _looks(sample, other, _WHO)]
        if not all(_alike(first, second, a) for first, second in zip(pieces, other_pieces, strict=True)):
            raise LearnerError(
                f"{_WHO} derives the Riesz representer of a continuous treatment only if the amounts by which it is moved, and the "
                "weights of the rows, depend on covariates alone; in this moment they depend on the treatment itself. "
                f"{_INSTEAD}"
            )
    return tuple(pieces)


def _pieces(looks: Sequence[Look], a: Array) -> tuple[Piece, ...]:
    for look in looks:
        _need_treatment_only(look, _WHO)
    return tuple(Piece(look.weight, look.treatment[:, 0] - a, look.along == "treatment") for look in looks)


def _alike(first: Sequence[Piece], second: Sequence[Piece], a: Array) -> bool:
    """Whether weights and displacements are the same, the latter up to rounding of treatments a."""
    rounding = 1e-8 * np.ptp(a) + 8 * np.finfo(float).eps * np.abs(a).max()
    return len(first) == len(second) and all(
        p.derivative == q.derivative
        and np.allclose(p.weight, q.weight, atol=1e-8 * np.abs(p.weight).max())
        and np.allclose(p.delta, q.delta, atol=rounding)
        for p, q in zip(first, second, strict=True)
    )


def _looks(sample: Design, treatment: Array, who: str) -> tuple[tuple[Look, ...], ...]:
    looks = sample.looks(treatment)
    if looks is None:
        raise LearnerError(
            f"This fit was loaded from a file, and files do not hold the function of the moment, which {who} needs. Use the fit "
            "that was saved, or fit again."
        )
    return looks


def _need_treatment_only(look: Look, who: str) -> None:
    if look.moves_covariates or look.along == "other":
        raise LearnerError(
            f"{who} derives the Riesz representer from the treatment's distribution, but this moment moves, or differentiates "
            f"along, a covariate. {_INSTEAD}"
        )


@dataclass(frozen=True)
class Normal:
    """The distribution of a continuous treatment at some rows.

    Attributes
    ----------
    mean, sd : ndarray, shape (n,)
    cap : float
        Largest density ratio; larger ones are set to it.
    """

    mean: Array
    sd: Array
    cap: float

    def representer(self, pieces: Pieces, rows: Rows, a: Array) -> tuple[Array, Array]:
        """The representer at treatments a of these rows, and its derivative along the treatment, both (K, n)."""
        values, slopes = np.zeros((2, len(pieces), len(a)))
        for c, component in enumerate(pieces):
            for piece in component:
                weight, delta = piece.weight[rows], piece.delta[rows]
                ratio, capped = self.ratio(delta, a)
                ratio_slope = np.where(capped, 0.0, ratio * delta / self.sd**2)
                if piece.derivative:
                    score = (a - delta - self.mean) / self.sd**2
                    values[c] += weight * ratio * score
                    slopes[c] += weight * (ratio_slope * score + ratio / self.sd**2)
                else:
                    values[c] += weight * ratio
                    slopes[c] += weight * ratio_slope
        return values, slopes

    def ratio(self, delta: Array, a: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
        """p(a - delta) / p(a), at most ``cap``, and where it was capped."""
        log = delta * (a - self.mean - delta / 2) / self.sd**2
        capped = log > np.log(self.cap)
        return np.exp(np.where(capped, np.log(self.cap), log)), capped
