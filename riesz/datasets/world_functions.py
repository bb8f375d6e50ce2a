r"""Functions of random worlds: sums of linear, bent, stepped, interacting and three-way terms in the covariates.

A covariate's score u has mean zero and variance about one. A term is a function of one to three scores. An :class:`Index` is a
weighted sum of terms, standardised on a large sample and then compressed smoothly into +-2.5 standard deviations, so that every
propensity stays away from 0 and 1.
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
HIERARCHY = {"interacting": 0.6, "three-way": 0.4}  # weights relative to terms in a single covariate
_LIMIT = 2.5  # bound of an index, in standard deviations


@dataclass(frozen=True)
class Style:
    """The terms that an index may have.

    Attributes
    ----------
    main : tuple of str
        Shapes of the terms in a single covariate.
    interacting, three_way : int
        The largest number of such terms.
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
        The covariates that it reads.
    bend : str
        One of :data:`BENDS`, for a bent term.
    cuts : tuple of float
        The positions of steps, one per covariate.
    """

    shape: str
    names: tuple[str, ...]
    bend: str
    cuts: tuple[float, ...]

    def __call__(self, scores: Scores) -> Array:
        """The term's values, shape (n,)."""
        u = [scores[name] for name in self.names]
        steps = [(score > cut).astype(float) for score, cut in zip(u, self.cuts, strict=True)]
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
    """Random terms: first in single covariates, then the interactions of the style."""
    main = [str(rng.choice(style.main)) for _ in range(int(rng.integers(2, 6)))]
    shapes = main + ["interacting"] * int(rng.integers(0, style.interacting + 1))
    shapes += ["three-way"] * int(rng.integers(0, style.three_way + 1))
    terms = []
    for number, shape in enumerate(shapes):
        size = {"interacting": 2, "three-way": 3}.get(shape, 1)
        if size > len(names):
            continue
        first = names[number % len(names)]
        others = [name for name in names if name != first]
        read = (first, *(str(name) for name in rng.choice(others, size=size - 1, replace=False)))
        cuts = tuple(float(cut) for cut in rng.uniform(-0.7, 0.7, size))
        terms.append(Term(shape, read, str(rng.choice(list(BENDS))), cuts))
    return tuple(terms)


def draw_weights(terms: Sequence[Term], rng: np.random.Generator) -> Array:
    """Weights of both signs; smaller for interactions, and smaller still for three-way terms."""
    sizes = np.array([HIERARCHY.get(term.shape, 1.0) for term in terms])
    return np.asarray(sizes * rng.uniform(0.5, 1.5, len(terms)) * rng.choice([-1.0, 1.0], len(terms)))


@dataclass(frozen=True)
class Index:
    """A weighted sum of terms with mean zero and standard deviation one, compressed into +-2.5.

    Attributes
    ----------
    terms : tuple of Term
    weights : ndarray, shape (terms,)
        Weights of the terms, which are not standardised.
    centre, spread : float
        Mean and standard deviation of the sum in the population.
    """

    terms: tuple[Term, ...]
    weights: Array
    centre: float
    spread: float

    def __call__(self, scores: Scores) -> Array:
        """The index's values, shape (n,)."""
        raw = sum((w * term(scores) for w, term in zip(self.weights, self.terms, strict=True)), start=np.zeros(1))
        return np.asarray(_LIMIT * np.tanh((raw - self.centre) / self.spread / _LIMIT))


def make_index(terms: Sequence[Term], weights: Array, population: Scores) -> Index:
    """Standardise each term and their weighted sum on a large sample of the population."""
    spreads = np.array([max(float(term(population).std()), 1e-6) for term in terms])
    plain = Index(tuple(terms), np.asarray(weights) / spreads, 0.0, 1.0)
    raw = sum((w * term(population) for w, term in zip(plain.weights, terms, strict=True)), start=np.zeros(1))
    return Index(plain.terms, plain.weights, float(raw.mean()), float(raw.std()) or 1.0)
