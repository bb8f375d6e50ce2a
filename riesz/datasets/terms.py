r"""Random functions of covariates: sums of linear, bent, stepped, interacting and three-way terms.

Symbols: a covariate's score u has mean zero and variance about one; a term is a function of one to three scores; an
:class:`Index` is a weighted sum of terms, centred and scaled on a large sample so that its standard deviation is known, and
bent smoothly into +-2.5 of them: tails are long, but every propensity stays away from 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from riesz.arrays import Array

Scores = Mapping[str, Array]

BENDS: dict[str, Callable[[Array], Array]] = {
    "square": lambda u: u**2,
    "hinge": lambda u: np.maximum(u, 0.0),
    "absolute": np.abs,
    "wave": lambda u: np.sin(1.7 * u),
    "saturating": lambda u: np.tanh(1.5 * u),
}
HIERARCHY = {"interacting": 0.6, "three-way": 0.4}  # sizes of higher terms beside those of single covariates
_LIMIT = 2.5  # standard deviations at which an index is bent back


@dataclass(frozen=True)
class Style:
    """What terms an index may have.

    Attributes
    ----------
    main : tuple of str
        Shapes of terms in a single covariate.
    interacting, three_way : int
        How many of those there may be.
    """

    main: tuple[str, ...]
    interacting: int = 0
    three_way: int = 0


@dataclass(frozen=True)
class Term:
    """One term of an index.

    Attributes
    ----------
    shape : {"linear", "bent", "stepped", "interacting", "three-way"}
    names : tuple of str
        The covariates it reads.
    bend : str
        Which of :data:`BENDS`, for a bent term and for the first factor of an interaction.
    cuts : tuple of float
        Where steps are, one for each covariate.
    """

    shape: str
    names: tuple[str, ...]
    bend: str
    cuts: tuple[float, ...]

    def __call__(self, scores: Scores) -> Array:
        """The term at some rows, shape (n,)."""
        u = [scores[name] for name in self.names]
        steps = [(one > cut).astype(float) for one, cut in zip(u, self.cuts, strict=True)]
        match self.shape:
            case "linear":
                return u[0]
            case "bent":
                return BENDS[self.bend](u[0])
            case "stepped":
                return steps[0]
            case "interacting":
                return BENDS["saturating"](u[0]) * u[1]
            case _:
                return np.asarray(steps[0] * steps[1] * BENDS["saturating"](u[2]))


def draw_terms(names: Sequence[str], style: Style, rng: np.random.Generator) -> tuple[Term, ...]:
    """Random terms: single covariates first, then what a style has of interactions."""
    main = [str(rng.choice(style.main)) for _ in range(int(rng.integers(2, 6)))]
    shapes = main + ["interacting"] * int(rng.integers(0, style.interacting + 1))
    shapes += ["three-way"] * int(rng.integers(0, style.three_way + 1))
    made = []
    for number, shape in enumerate(shapes):
        size = {"interacting": 2, "three-way": 3}.get(shape, 1)
        if size > len(names):
            continue
        first = names[number % len(names)]
        others = [name for name in names if name != first]
        own = (first, *(str(name) for name in rng.choice(others, size=size - 1, replace=False)))
        cuts = tuple(float(cut) for cut in rng.uniform(-0.7, 0.7, size))
        made.append(Term(shape, own, str(rng.choice(list(BENDS))), cuts))
    return tuple(made)


def draw_weights(terms: Sequence[Term], rng: np.random.Generator) -> Array:
    """Weights of both signs; interactions matter less than single covariates, and three-way terms less than those."""
    sizes = np.array([HIERARCHY.get(term.shape, 1.0) for term in terms])
    return np.asarray(sizes * rng.uniform(0.5, 1.5, len(terms)) * rng.choice([-1.0, 1.0], len(terms)))


@dataclass(frozen=True)
class Index:
    """A weighted sum of terms with mean zero and standard deviation one, bent back beyond 2.5.

    Attributes
    ----------
    terms : tuple of Term
    weights : ndarray, shape (terms,)
        Of the terms as they are.
    centre, spread : float
        Of the sum, in the population.
    """

    terms: tuple[Term, ...]
    weights: Array
    centre: float
    spread: float

    def __call__(self, scores: Scores) -> Array:
        """The index at some rows, shape (n,)."""
        raw = sum((w * term(scores) for w, term in zip(self.weights, self.terms, strict=True)), start=np.zeros(1))
        return np.asarray(_LIMIT * np.tanh((raw - self.centre) / self.spread / _LIMIT))


def make_index(terms: Sequence[Term], weights: Array, population: Scores) -> Index:
    """Scale a sum of terms on a large sample of the population; each term counts by its weight times its own spread."""
    spreads = np.array([max(float(term(population).std()), 1e-6) for term in terms])
    plain = Index(tuple(terms), np.asarray(weights) / spreads, 0.0, 1.0)
    raw = sum((w * term(population) for w, term in zip(plain.weights, terms, strict=True)), start=np.zeros(1))
    return Index(plain.terms, plain.weights, float(raw.mean()), float(raw.std()) or 1.0)
