r"""Random worlds: data-generating processes drawn from a seed, each with its truth and an oracle.

As in the ACIC competitions, a seed chooses the number of rows and covariates, the shapes of the propensity and of mu and how
much they have in common, overlap, noise, how effects vary and the distribution of the outcome. With index functions g (treatment),
b (baseline) and t (effect) of mean zero and standard deviation one (``world_functions.py``):

- ``"binary"``: :math:`\mathrm{logit} P(A=1|x) = c + s\, g(x)`; :math:`\mu(a, x) = b(x) + a\,\{\tau + h\, t(x)\}`;
- ``"arms"``: three arms, :math:`\mathrm{softmax}(0, c_1 + s\,g_1(x), c_2 + s\,g_2(x))`, with one effect per active arm;
- ``"continuous"``: :math:`A|x \sim N(s\, g(x), 1)`, :math:`\mu(a, x) = b(x) + a\,\{\tau + h\, t(x)\} + k\,\sin a`,

each mapped through the outcome's link: the mean itself (normal or t3 noise), a logit (binary) or a logarithm (counts). In a third
of the worlds s is between 1.5 and 2, in a third between 1 and 1.5, in a third between 0.3 and 1. The truth is the mean of m(mu)
over a million rows; its error is about a thousandth of the standard deviation of m(mu).

The worlds are frozen: the same seed gives the same world in every version. A test checks this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from riesz.arrays import Array
from riesz.datasets.world_covariates import Mixed, draw_mixed
from riesz.datasets.world_functions import Index, Scores, Style, draw_terms, draw_weights, make_index
from riesz.errors import DataError, nearest
from riesz.estimands import Estimand
from riesz.estimands.arms import ATE
from riesz.estimands.derivatives import ADE
from riesz.syntax.check_arguments import checked

Kind = Literal["binary", "arms", "continuous"]
KINDS: tuple[Kind, ...] = ("binary", "arms", "continuous")
ARMS = ("none", "low", "high")

_POPULATION, _CHUNKS = 2**16, 16  # rows per chunk, and chunks, for the truth
_STYLES = {
    "linear": Style(("linear",)),
    "bent": Style(("linear", "bent")),
    "stepped": Style(("linear", "stepped")),
    "interacting": Style(("linear", "bent"), interacting=3),
    "mixed": Style(("linear", "bent", "stepped"), interacting=2, three_way=2),
}
_OVERLAP = {"good": (0.3, 1.0), "fair": (1.0, 1.5), "weak": (1.5, 2.0)}
_OUTCOMES = {"normal": 0.5, "heavy-tailed": 0.15, "binary": 0.2, "count": 0.15}


@dataclass(frozen=True)
class Oracle:
    """The estimate with known mu and known Riesz representer.

    Attributes
    ----------
    estimate, std_error : ndarray, shape (K,)
    """

    estimate: Array
    std_error: Array


@dataclass(frozen=True, eq=False)
class World:
    """A random data-generating process; made by :func:`random_world`.

    Attributes
    ----------
    seed : int
    kind : {"binary", "arms", "continuous"}
    n : int
        Rows of a draw.
    factors : mapping of str to str
        What the seed chose, for tables: rows, covariates, style, overlap, effect, outcome, noise, confounding.
    covariates : tuple of Mixed
    assignment : tuple of Index
        g: one, or one per arm but the first.
    strength : float
        s above.
    levels : tuple of float
        c above, one per index of the assignment.
    baseline : Index
        b above.
    effects : tuple of (float, float, Index)
        tau, h and t above, one triple per contrast.
    curve : float
        k above, for a continuous treatment.
    outcome : str
    noise : float
        Standard deviation of the noise.

    Examples
    --------
    >>> from riesz import datasets
    >>> world = datasets.random_world(2, "arms")
    >>> world.formula
    "y ~ treat(a, reference='none') + ."
    >>> world.truth.round(2)
    array([-0.32,  0.18])
    """

    seed: int
    kind: Kind
    n: int
    factors: Mapping[str, str]
    covariates: tuple[Mixed, ...]
    assignment: tuple[Index, ...]
    strength: float
    levels: tuple[float, ...]
    baseline: Index
    effects: tuple[tuple[float, float, Index], ...]
    curve: float
    outcome: str
    noise: float

    @property
    def formula(self) -> str:
        """The treatment and every covariate, untransformed, so that it contains no information about the shape of mu."""
        return "y ~ treat(a, reference='none') + ." if self.kind == "arms" else "y ~ treat(a) + ."

    @property
    def estimand(self) -> Estimand:
        """The average treatment effect, or the average derivative of a continuous treatment."""
        return ADE() if self.kind == "continuous" else ATE()

    @property
    def keywords(self) -> dict[str, Any]:
        """Keywords to pass to :func:`riesz.estimate`: the family of a binary outcome."""
        return {"family": "binomial"} if self.outcome == "binary" else {}

    def draw(self, draw: int = 0) -> pd.DataFrame:
        """A sample of ``n`` rows; each number ``draw`` gives a different one.

        Examples
        --------
        >>> from riesz import datasets
        >>> world = datasets.random_world(3, "binary")
        >>> data = world.draw()
        >>> print(f"{len(data)} rows, {data['a'].mean():.0%} of them treated")
        381 rows, 54% of them treated
        """
        rng = np.random.default_rng([self.seed, KINDS.index(self.kind), 1, draw])
        x = self._covariates(self.n, rng, self.covariates)
        scores = self._scores(x)
        a = self._treatments(scores, rng)
        index = self._index(a, scores)
        label = np.asarray(ARMS)[a.astype(int)] if self.kind == "arms" else a
        return pd.DataFrame({"y": self._outcomes(index, rng), "a": label, **x})

    @cached_property
    def truth(self) -> Array:
        """The population value of the estimand, one number per contrast."""
        total = np.zeros(len(self.effects))
        for chunk in range(_CHUNKS):
            rng = np.random.default_rng([self.seed, KINDS.index(self.kind), 2, chunk])
            scores = self._scores(self._covariates(_POPULATION, rng, self._active))
            a = self._treatments(scores, rng)
            total += self._moment(a, scores).mean(axis=1)
        return total / _CHUNKS

    def oracle(self, data: pd.DataFrame) -> Oracle:
        """The one-step estimate from the true mu and the true Riesz representer, with its standard error.

        Examples
        --------
        >>> from riesz import datasets
        >>> world = datasets.random_world(3, "binary")
        >>> oracle = world.oracle(world.draw())
        >>> world.truth.round(2), oracle.estimate.round(2), oracle.std_error.round(2)
        (array([0.39]), array([0.44]), array([0.05]))
        """
        scores = self._scores(data)
        a = self._numbers(data["a"])
        rr = self._representer(a, scores)
        score = self._moment(a, scores) + rr * (data["y"].to_numpy(dtype=float) - self.mean(self._index(a, scores)))
        return Oracle(score.mean(axis=1), score.std(axis=1, ddof=1) / np.sqrt(len(data)))

    def mean(self, index: Array) -> Array:
        """Mu from its index, through the outcome's link."""
        if self.outcome == "binary":
            return np.asarray(expit(index))
        return np.exp(0.4 * index) if self.outcome == "count" else index

    @property
    def _active(self) -> tuple[Mixed, ...]:
        """The covariates that affect treatment or outcome."""
        indices = (*self.assignment, self.baseline, *(t for _, _, t in self.effects))
        names = {name for index in indices for term in index.terms for name in term.names}
        return tuple(covariate for covariate in self.covariates if covariate.name in names)

    def _covariates(self, n: int, rng: np.random.Generator, covariates: Sequence[Mixed]) -> dict[str, Any]:
        factor = rng.standard_normal(n)
        return {covariate.name: covariate.draw(factor, rng) for covariate in covariates}

    def _scores(self, x: Any) -> Scores:
        return {covariate.name: covariate.score(pd.Series(np.asarray(x[covariate.name]))) for covariate in self._active}

    def _numbers(self, column: pd.Series) -> Array:
        if self.kind == "arms":
            return np.asarray(column.map({arm: float(code) for code, arm in enumerate(ARMS)}), dtype=float)
        return np.asarray(column, dtype=float)

    def _probabilities(self, scores: Scores) -> Array:
        """Probabilities of the arms, shape (n, arms)."""
        logits = [c + self.strength * g(scores) for c, g in zip(self.levels, self.assignment, strict=True)]
        return np.asarray(softmax(np.column_stack([np.zeros_like(logits[0]), *logits]), axis=1))

    def _treatments(self, scores: Scores, rng: np.random.Generator) -> Array:
        """Values of a continuous treatment, or numbers of arms."""
        if self.kind == "continuous":
            return self.strength * self.assignment[0](scores) + rng.standard_normal(len(next(iter(scores.values()))))
        p = self._probabilities(scores)
        return np.asarray((rng.uniform(size=len(p))[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1), dtype=float)

    def _index(self, a: Array, scores: Scores) -> Array:
        index = self.baseline(scores)
        for arm, (tau, h, t) in enumerate(self.effects, start=1):
            share = a if self.kind == "continuous" else (a == arm).astype(float)
            index = index + share * (tau + h * t(scores))
        return np.asarray(index + self.curve * np.sin(a) if self.kind == "continuous" else index)

    def _moment(self, a: Array, scores: Scores) -> Array:
        """m(mu) in each row, shape (K, n)."""
        if self.kind == "continuous":
            tau, h, t = self.effects[0]
            slope = tau + h * t(scores) + self.curve * np.cos(a)
            mu = self.mean(self._index(a, scores))
            link_slope = {"binary": mu * (1 - mu), "count": 0.4 * mu}.get(self.outcome, np.ones_like(mu))
            return np.asarray(link_slope * slope)[None]
        at = [self.mean(self._index(np.full_like(a, float(arm)), scores)) for arm in range(len(self.effects) + 1)]
        return np.stack([treated - at[0] for treated in at[1:]])

    def _representer(self, a: Array, scores: Scores) -> Array:
        if self.kind == "continuous":
            return (a - self.strength * self.assignment[0](scores))[None]
        p = self._probabilities(scores)
        return np.stack([(a == arm) / p[:, arm] - (a == 0) / p[:, 0] for arm in range(1, p.shape[1])])

    def _outcomes(self, index: Array, rng: np.random.Generator) -> Array:
        mu = self.mean(index)
        if self.outcome == "binary":
            return (rng.uniform(size=len(mu)) < mu).astype(float)
        if self.outcome == "count":
            return rng.poisson(mu).astype(float)
        noise = (
            rng.standard_t(3, len(mu)) / np.sqrt(3) if self.outcome == "heavy-tailed" else rng.standard_normal(len(mu))
        )
        return np.asarray(mu + self.noise * noise)


@checked("riesz.datasets.random_world()")
def random_world(seed: int, kind: Kind = "binary") -> World:
    """A random data-generating process with known truth.

    Parameters
    ----------
    seed : int
        The same seed gives the same world.
    kind : {"binary", "arms", "continuous"}
        The kind of treatment.

    Returns
    -------
    World
        With ``draw()``, ``truth``, ``oracle()``, ``formula``, ``estimand``, ``keywords`` and the ``factors`` that the seed chose.

    Examples
    --------
    >>> from riesz import datasets
    >>> world = datasets.random_world(4, "continuous")
    >>> world.truth.round(2)
    array([0.06])
    >>> world.factors["overlap"], world.factors["effect"], world.factors["outcome"]
    ('good', 'varying', 'binary')
    """
    if kind not in KINDS:
        raise DataError(f"kind={kind!r} is not known.{nearest(str(kind), KINDS)} Expected one of {', '.join(KINDS)}.")
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0:
        raise DataError(f"seed={seed!r}: a seed must be a whole number, 0 or larger.")
    rng = np.random.default_rng([int(seed), KINDS.index(kind), 0])
    n = int(np.exp(rng.uniform(np.log(300), np.log(5000))))
    p = int(np.exp(rng.uniform(np.log(3), np.log(51))))
    style = str(rng.choice(list(_STYLES)))
    overlap = str(rng.choice(list(_OVERLAP)))
    outcome = str(rng.choice(list(_OUTCOMES), p=list(_OUTCOMES.values())))
    effect = str(rng.choice(["constant", "varying", "strongly varying"]))
    shared = float(rng.choice([0.2, 0.5, 0.9]))
    noise = float(rng.choice([0.5, 1.0, 2.0]))
    covariates = tuple(draw_mixed(f"x{j + 1}", rng) for j in range(p))
    contrasts = 2 if kind == "arms" else 1
    strength = float(rng.uniform(*_OVERLAP[overlap]))
    levels = tuple(float(c) for c in rng.uniform(-1.0, 1.0, contrasts))
    spread = {"constant": 0.0, "varying": 0.4, "strongly varying": 1.0}[effect]
    taus = rng.uniform(-1.0, 1.0, contrasts)
    curve = float(rng.uniform(0.3, 1.0)) if kind == "continuous" else 0.0
    assignment, baseline, modifiers = _indices(covariates, _STYLES[style], shared, contrasts, rng)
    factors = {
        "rows": "300-800" if n < 800 else "800-2000" if n < 2000 else "2000-5000",
        "covariates": "3-8" if p <= 8 else "9-20" if p <= 20 else "21-50",
        "style": style,
        "overlap": overlap,
        "effect": effect,
        "outcome": outcome,
        "noise": {0.5: "little", 1.0: "some", 2.0: "much"}[noise],
        "confounding": {0.2: "little", 0.5: "some", 0.9: "much"}[shared],
    }
    effects = tuple((float(tau), spread, t) for tau, t in zip(taus, modifiers, strict=True))
    return World(
        int(seed), kind, n, factors, covariates, assignment, strength, levels, baseline, effects, curve, outcome, noise
    )


def _indices(
    covariates: tuple[Mixed, ...], style: Style, shared: float, contrasts: int, rng: np.random.Generator
) -> tuple[tuple[Index, ...], Index, tuple[Index, ...]]:
    """Index functions of the assignment, the baseline (which shares terms with the assignment) and the effects."""
    factor = rng.standard_normal(20_000)
    population = {c.name: c.score(pd.Series(c.draw(factor, rng))) for c in covariates}
    names = list(population)
    active = [str(name) for name in rng.choice(names, size=min(len(names), int(rng.integers(2, 9))), replace=False)]

    def index() -> Index:
        terms = draw_terms(active, style, rng)
        return make_index(terms, draw_weights(terms, rng), population)

    assignment = tuple(index() for _ in range(contrasts))
    specific, common = draw_terms(active, style, rng), assignment[0].terms
    parts = (
        np.sqrt(1 - shared) * _unit(draw_weights(specific, rng)),
        np.sqrt(shared) * _unit(draw_weights(common, rng)),
    )
    same_sign = np.abs(parts[1]) * np.sign(assignment[0].weights)  # what raises the treatment raises the outcome
    baseline = make_index((*specific, *common), np.concatenate([parts[0], same_sign]), population)
    return assignment, baseline, tuple(index() for _ in range(contrasts))


def _unit(weights: Array) -> Array:
    return np.asarray(weights / np.sqrt(np.sum(weights**2)))
