"""What all learners that train networks share: which designs train together, rows for validation, device, settings.

In: designs, seeds and settings. Out: trained members, in the order of the designs. What a network minimises is defined in
``objectives/``, and how it is trained in ``training.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from riesz.crossfit.folds import Labels, draw_labels
from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.learners.base import Fit, Watch, need_covariates
from riesz.learners.linear.learner import need_identification
from riesz.learners.neural.engine.batching import Feed
from riesz.learners.neural.engine.fit import Trained
from riesz.learners.neural.engine.network import Shape
from riesz.learners.neural.engine.scaling import Scale
from riesz.learners.neural.engine.schedule import Schedule
from riesz.learners.neural.engine.training import Member, train
from riesz.learners.neural.objectives.base import Objective

_FEWEST_ROWS = 20


def fit_by_signature(
    designs: Sequence[Design], seeds: Sequence[int], fit: Callable[[list[Design], list[int]], Sequence[Fit]]
) -> list[Fit]:
    """Fit designs; those that can share a feed are fitted together."""
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for number, design in enumerate(designs):
        groups[_signature(design)].append(number)
    fits: dict[int, Fit] = {}
    for numbers in groups.values():
        group_fits = fit([designs[number] for number in numbers], [seeds[number] for number in numbers])
        fits |= dict(zip(numbers, group_fits, strict=True))
    return [fits[number] for number in range(len(designs))]


def train_members(
    feed: Feed,
    members: Sequence[Member],
    shape: Shape,
    objective: Objective,
    schedule: Schedule,
    side_by_side: int | None,
    watch: Watch,
) -> list[Trained]:
    """Train members of any layout; for the parameters see :func:`~riesz.learners.neural.engine.training.train`."""
    by_layout: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, member in enumerate(members):
        by_layout[member.layout(schedule.batch_size)].append(number)
    trained: dict[int, Trained] = {}
    size = side_by_side or _members_at_once(shape, schedule.batch_size * feed.points * (2 if feed.dual else 1))
    for numbers in by_layout.values():
        group = [members[number] for number in numbers]
        networks = train(feed, group, shape, objective, schedule, size, watch)
        trained |= dict(zip(numbers, networks, strict=True))
    return [trained[number] for number in range(len(members))]


def draw_members(
    design: Design,
    seed: int,
    feed: Feed,
    scale: Scale,
    networks: int,
    validation: float,
    draws: int,
) -> list[Member]:
    """Draw the training and validation rows of each network to train, once or for each of several stages."""
    state = [int(word) for word in np.random.SeedSequence(seed).generate_state(1 + 2 * networks)]
    rows, strata = feed.rows_of(design), design.strata
    groups = None if design.groups is None else np.unique(design.groups, return_inverse=True)[1].astype(np.intp)
    parts = min(max(2, round(1 / validation)), len(rows))
    rng = np.random.default_rng(state[0])
    drawn = [_draw_parts(len(rows), parts, strata, groups, rng) for _ in range(draws)]
    return [
        Member(
            tuple((rows[labels != k % parts], rows[labels == k % parts]) for labels in drawn),
            scale,
            feed.origins[design.key],
            (state[1 + 2 * k], state[2 + 2 * k]),
        )
        for k in range(networks)
    ]


def _draw_parts(n: int, parts: int, strata: Labels | None, groups: Labels | None, rng: np.random.Generator) -> Labels:
    """Divide rows into parts. Clusters stay whole unless a part, or all other parts together, would then lack an arm."""
    labels = draw_labels(n, parts, strata, groups, rng)
    if groups is None:
        return labels
    arms = np.zeros(n, dtype=np.intp) if strata is None else strata
    counts = np.zeros((parts, int(arms.max()) + 1))
    np.add.at(counts, (labels, arms), 1.0)
    total = counts.sum(axis=0)
    arms_on_both_sides = ((counts > 0) & (counts < total) | (total == 0)).all()
    return labels if arms_on_both_sides else draw_labels(n, parts, strata, None, rng)


class Countdown:
    """Reports a design as fitted once all its ``per_design`` networks are trained; there are ``total`` networks."""

    def __init__(self, watch: Watch, per_design: int, total: int) -> None:
        self.watch, self.per_design, self.total, self.count = watch, per_design, total, 0

    def tell(self, **facts: object) -> None:
        """Report progress, with the number of networks trained so far."""
        self.watch.tell(networks=f"{self.count} of {self.total}", **facts)

    def done(self) -> None:
        """Count a trained network."""
        self.count += 1
        if self.count % self.per_design == 0:
            self.watch.done()


def need_rows(rows: int) -> None:
    """Refuse training sets that are too small to hold out rows."""
    if rows < _FEWEST_ROWS:
        raise LearnerError(
            f"A training set has {rows} rows; a network needs at least {_FEWEST_ROWS}, because some are held out to decide when to "
            "stop. Use fewer folds, or learner='linear'."
        )


def check_design(design: Design, rows: int, device: str, who: str) -> None:
    """Refuse designs, training sets and devices on which no network can be trained."""
    need_rows(rows)
    need_covariates(design, who)
    need_identification(design, rows)
    find_device(device)


def outcome_layers(architecture: str, width: int, depth: int) -> tuple[int, int]:
    """Width and depth of the outcome heads; zero depth for a fully connected network."""
    return (width, depth) if architecture == "multihead" else (0, 0)


def find_device(name: str) -> torch.device:
    """The device on which networks are trained."""
    if not isinstance(name, str):
        raise LearnerError(f"device={name!r}: expected 'auto' or the name of a device, such as 'cpu' or 'cuda'.")
    if name == "auto":
        chosen = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        return torch.device(chosen)
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    kind = name.split(":")[0]
    if not available.get(kind, False):
        names = ", ".join(repr(device) for device, usable in available.items() if usable)
        raise LearnerError(f"device={name!r} is not available on this machine; expected 'auto' or one of {names}.")
    return torch.device(name)


def _members_at_once(shape: Shape, rows: int) -> int:
    """How many networks are trained side by side: enough to amortise overheads, few enough for the caches."""
    return max(2, min(32, 1_200_000 // shape.size, 500_000 // (rows * shape.width)))


def _signature(design: Design) -> tuple[Any, ...]:
    """Designs of one signature can share a feed."""
    moment = design.components, *design.is_derivative, *design.links.component, *design.links.reading
    return len(design.covariates), design.treatment.shape[1], moment, design.family
