r"""Training a batch of networks: stages, minibatches, early stopping, all members at once.

Members share every step but nothing else: each has its own rows, shuffles, optimiser state, stage and stopping. A member
that stops is removed from the batch and costs no further time. No global state is changed (seed, thread count, default dtype).

In a game each member is two networks, its own and its adversary's, whose parameters stand one after the other in the member's row:
a batch of M members is one of 2M networks, in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from riesz.crossfit.folds import draw_part
from riesz.crossfit.threads import go_on
from riesz.errors import LearnerError
from riesz.learners.base import Watch
from riesz.learners.neural.engine.batching import Batch, Feed, Scales
from riesz.learners.neural.engine.fit import Trained
from riesz.learners.neural.engine.network import NetworkBatch, Shape, initial
from riesz.learners.neural.engine.scaling import Scale
from riesz.learners.neural.engine.schedule import USUAL_MOMENTUM, Schedule
from riesz.learners.neural.objectives.base import Objective, Outputs, make_outputs, pull_back

MOST_VALIDATION_ROWS = 20_000
GATHERED = 2_000_000  # inputs gathered at once, at most


@dataclass(frozen=True)
class Member:
    """One network to train.

    Attributes
    ----------
    parts : tuple of (ndarray of int, ndarray of int)
        Row numbers in the feed, for training and for validation: one pair for each stage, or one for all stages.
    scale : Scale
    origin : int
        The position of its sample in the feed.
    seeds : (int, int)
        Seeds of the starting values and of the shuffles.
    """

    parts: tuple[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]], ...]
    scale: Scale
    origin: int
    seeds: tuple[int, int]

    def layout(self, batch_size: int) -> tuple[int, int, int]:
        """Batches per epoch, rows per batch, validation rows after filling up; members that share these can train together."""
        most_train, most_valid = (max(len(part[kind]) for part in self.parts) for kind in (0, 1))
        batches = -(-most_train // batch_size)
        return batches, -(-most_train // batches), -(-min(most_valid, MOST_VALIDATION_ROWS) // 32) * 32

    def rows(self, stage: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Training rows and validation rows of a stage."""
        return self.parts[min(stage, len(self.parts) - 1)]


@dataclass
class _Progress:
    """The progress of one member."""

    number: int
    shuffle: np.random.Generator
    stage: int = 0
    epoch: int = 0
    epoch_in_stage: int = 0
    best: dict[str, float] = field(default_factory=dict)
    lowest: dict[str, float] = field(default_factory=dict)
    kept: dict[str, Tensor] = field(default_factory=dict)
    kept_at: int = 0
    since_best: int = 0
    since_halved: int = 0
    halvings: int = 0
    steps: int = 0
    history: list[tuple[float, ...]] = field(default_factory=list)


#: The columns of every history, followed by those that the objective reports.
COMMON = ("epoch", "stage", "loss", "valid_loss")


def train(
    feed: Feed,
    members: Sequence[Member],
    shape: Shape,
    objective: Objective,
    schedule: Schedule,
    side_by_side: int,
    watch: Watch,
) -> list[Trained]:
    """Train members that share a layout.

    Parameters
    ----------
    feed : Feed
    members : sequence of Member
        All with the same layout.
    shape : Shape
    objective : Objective
    schedule : Schedule
    side_by_side : int
        Most members trained at the same time; when one stops, the next one starts.
    watch : Watch
        Receives progress after every epoch and when a member stops.
    """
    finished: dict[int, Trained] = {}
    run = _Run(feed, members, shape, objective, schedule, side_by_side)
    while run.active:
        run.epoch()
        facts = run.facts()
        for progress, weights in run.leave():
            mu, rr = (progress.kept.get(name, weights) for name in ("mu", "rr"))
            if schedule.game is not None:  # the adversary has done its work
                mu, rr = (mu[: shape.size].clone(),) * 2 if mu is rr else (mu[: shape.size], rr[: shape.size])
            columns = (*COMMON, *objective.reported)
            history = np.array(progress.history)
            losses = history[:, columns.index("valid_loss")]
            kept = {"best": progress.kept_at, "last": len(history) - 1, "each": int(losses.argmin())}
            finished[progress.number] = Trained(mu, rr, history, columns, kept[schedule.keep])
            watch.done()
        watch.tell(**facts)
    return [finished[number] for number in range(len(members))]


class _Run:
    """The state of a batch of networks in training."""

    def __init__(
        self,
        feed: Feed,
        members: Sequence[Member],
        shape: Shape,
        objective: Objective,
        schedule: Schedule,
        side_by_side: int,
    ) -> None:
        self.feed, self.members, self.shape, self.objective, self.schedule = feed, members, shape, objective, schedule
        self.batches, self.size, self.valid_size = members[0].layout(schedule.batch_size)
        self.waiting = iter([_Progress(number, np.random.default_rng(m.seeds[1])) for number, m in enumerate(members)])
        self.most = side_by_side
        self.active: list[_Progress] = []
        self.sides = 1 if schedule.game is None else 2
        no_members = torch.zeros(0, self.sides * shape.size, dtype=torch.float32, device=feed.device)
        none_moved = no_members if self.sides == 2 else no_members[:, :0]
        self._arrange(no_members, no_members, no_members, none_moved, no_members.new_zeros(0, feed.components))

    def _arrange(self, flat: Tensor, first: Tensor, second: Tensor, moved: Tensor, multipliers: Tensor) -> None:
        """Arrange the active members in one batch, and add as many waiting ones as there is room for."""
        fresh = list(islice(self.waiting, self.most - len(self.active)))
        if fresh:
            start = np.stack([self._start(self.members[progress.number].seeds[0]) for progress in fresh])
            empty = flat.new_zeros(start.shape)
            flat = torch.cat([flat, torch.as_tensor(start, device=flat.device)])
            first, second = torch.cat([first, empty]), torch.cat([second, empty])
            moved, multipliers = (torch.cat([part, empty[:, : part.shape[1]]]) for part in (moved, multipliers))
            self.active += fresh
        self.doubled = len(self.active) == 1 and self.sides == 1
        copies = 2 if self.doubled else 1  # a batch of one rounds differently, so a copy is trained with it
        state = (torch.cat([part] * copies) for part in (flat, first, second, moved, multipliers))
        self.flat, self.first, self.second, self.moved, self.multipliers = state
        self.networks = NetworkBatch(self.shape, self.flat.view(-1, self.shape.size))
        self.gradient = self.networks.gradient.view(self.flat.shape)
        if not self.active:
            return
        members = [self.members[progress.number] for progress in self.active] * (2 if self.doubled else 1)
        self.scales = Scales([(m.scale, m.origin) for m in members for _ in range(self.sides)], self.feed)
        self._gather_rows()
        self._plan()

    def _start(self, seed: int) -> npt.NDArray[np.float32]:
        """Starting values of a member and, in a game, of its adversary."""
        seeds = [seed] if self.sides == 1 else [seed, int(np.random.SeedSequence(seed).generate_state(1)[0])]
        return np.concatenate([initial(self.shape, of_player) for of_player in seeds])

    def _plan(self) -> None:
        """Group the parameters by learning rate: members by stage and halvings, the parts of a member as ``_paces`` has them."""
        self.plan: list[tuple[tuple[float, float, float], list[list[Tensor]], list[Tensor], Tensor]] = []
        for pace in sorted({(progress.stage, progress.halvings) for progress in self.active}):
            members = [at for at, progress in enumerate(self.active) if (progress.stage, progress.halvings) == pace]
            for cut, rate, decay, momentum in self._paces(self.schedule.stages[pace[0]].learning_rate):
                state = (self.flat, self.gradient, self.first, self.second)
                steps = self._tensor([self.active[at].steps for at in members])
                tensors = [[part[at, cut] for at in members] for part in state]
                self.plan.append(((rate * 0.5 ** pace[1], decay, momentum), tensors, list(steps.unbind()), steps))

    def _paces(self, rate: float) -> list[tuple[slice, float, float, float]]:
        """Parts of a member's parameters: the outcome heads' output biases may have their own rate, and so may the adversary.

        Each with its learning rate, weight decay and momentum.
        """
        schedule, size = self.schedule, self.shape.size
        first = size if schedule.bias_learning_rate is None else size - self.shape.outcomes + 1
        paces = [(slice(0, first), rate, schedule.weight_decay, schedule.momentum)]
        if schedule.bias_learning_rate is not None:
            paces.append((slice(first, size), schedule.bias_learning_rate, 0.0, USUAL_MOMENTUM))
        if schedule.game is not None:
            game = schedule.game
            paces.append((slice(size, 2 * size), game.pace * rate, game.weight_decay, schedule.momentum))
        return paces

    def _gather_rows(self) -> None:
        """Gather the validation rows, and the mean weights of the training rows."""
        members = self.active * (2 if self.doubled else 1)
        parts = [self.members[progress.number].rows(progress.stage) for progress in members]
        index = np.zeros((len(members), self.valid_size), dtype=np.int64)
        filled = np.zeros((len(members), self.valid_size), dtype=np.float32)
        for at, (progress, (_, rows)) in enumerate(zip(members, parts, strict=True)):
            seed = (*self.members[progress.number].seeds, progress.stage)
            rows = rows[draw_part(len(rows), MOST_VALIDATION_ROWS, seed)]
            index[at, : len(rows)], filled[at, : len(rows)] = rows, 1.0
        self.validation = self._gather(index, filled)
        self.mean_weights = self.feed.mean_weights([train for train, _ in parts for _ in range(self.sides)])

    def _gather(
        self, index: npt.NDArray[np.int64], filled: npt.NDArray[np.float32], mean_weights: Tensor | None = None
    ) -> Batch:
        device = self.feed.device
        rows, is_row = torch.as_tensor(index, device=device), torch.as_tensor(filled, device=device)
        if self.sides > 1:
            rows, is_row = (part.repeat_interleave(self.sides, dim=-2) for part in (rows, is_row))
        return self.feed.batch(rows, is_row, self.scales, mean_weights)

    def epoch(self) -> None:
        """Train every active member on its training rows once, then evaluate it on its validation rows."""
        dual = self.feed.dual
        epochs = self._tensor([progress.epoch for progress in self.active] * (2 if self.doubled else 1))
        total = torch.zeros_like(epochs)
        for batch in self._batches():
            go_on()
            outputs = self._outputs(batch)
            objective = self.objective.at(epochs, self.multipliers)
            terms, slopes = objective.slopes(outputs, batch, self.scales)
            self.networks.backward(*pull_back(slopes, batch, dual), batch.observed_rows, dual)
            self.networks.gradient[:, : self.shape.extras] = slopes.extras
            self._step()
            self.multipliers = objective.ascend(terms, self.multipliers)
            total += terms.loss.detach()
        batch = self.validation
        outputs = self._outputs(batch)
        # with the penalty of the first epoch: under a growing penalty losses could not be compared
        objective = self.objective.at(torch.zeros_like(epochs), self.multipliers)
        terms = objective.validation(outputs, batch, self.scales)
        reported = objective.report(outputs, batch, self.scales, terms)
        rows = torch.stack([total / self.batches, terms.loss, *reported.values()]).T
        for progress, row in zip(self.active, rows.tolist(), strict=False):
            self._note(progress, row)

    def _tensor(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.float32, device=self.feed.device)

    def _outputs(self, batch: Batch) -> Outputs:
        components, outcomes = self.networks.forward_to_train(batch.rows, batch.observed_rows, self.feed.dual)
        return make_outputs(components, outcomes, batch, self.networks.extras)

    def _batches(self) -> Iterator[Batch]:
        """The batches of an epoch, many gathered at once."""
        index = np.zeros((self.batches, len(self.active), self.size), dtype=np.int64)
        filled = np.zeros(index.shape, dtype=np.float32)
        for at, progress in enumerate(self.active):
            rows = progress.shuffle.permutation(self.members[progress.number].rows(progress.stage)[0])
            # one row to each batch in turn, so that no batch is empty
            place = (np.arange(len(rows)) % self.batches, at, np.arange(len(rows)) // self.batches)
            index[place], filled[place] = rows, 1.0
        if self.doubled:
            index, filled = np.repeat(index, 2, axis=1), np.repeat(filled, 2, axis=1)
        cost = index[0].size * self.feed.points * self.feed.inputs * (2 if self.feed.dual else 1)
        at_once = max(1, GATHERED // cost)
        for start in range(0, self.batches, at_once):
            part = slice(start, start + at_once)
            yield from self._gather(index[part], filled[part], self.mean_weights).split()

    def _step(self) -> None:
        """One AdamW step for each member at the learning rate of its stage; an optimistic one in a game."""
        before = self.flat.clone() if self.sides == 2 else self.flat
        for (rate, decay, momentum), (values, slopes, first, second), counts, steps in self.plan:
            steps += 1
            # what torch.optim.AdamW(fused=True) calls in the end, without an optimiser for each member and stage
            torch._fused_adamw_(
                values,
                slopes,
                first,
                second,
                [],
                counts,
                lr=rate,
                beta1=momentum,
                beta2=0.999,
                weight_decay=decay,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )
        if self.sides == 2:
            moved = self.flat - before
            self.flat.add_(moved - self.moved)
            self.moved = moved
        for progress in self.active:
            progress.steps += 1

    def _note(self, progress: _Progress, row: list[float]) -> None:
        """Record an epoch of a member, and keep its weights if they are the best so far."""
        loss = row[1]
        if not np.isfinite(loss) or not np.isfinite(row[0]):
            raise LearnerError(
                f"The loss of network {progress.number + 1} is not finite in stage {progress.stage + 1}, epoch "
                f"{progress.epoch + 1}. "
                "Use a smaller learning rate or inputs='standard', or look for outliers in outcome and covariates."
            )
        progress.history.append((progress.epoch + 1, progress.stage + 1, *row))
        progress.epoch += 1
        progress.epoch_in_stage += 1
        progress.since_best += 1
        progress.since_halved += 1
        outcome = self.objective.outcome_share(row[len(COMMON) - 2 + self.objective.reported.index("outcome_loss")])
        criteria = {"mu": outcome, "rr": loss - outcome} if self.schedule.keep == "each" else {"all": loss}
        least_gain = self.schedule.stages[progress.stage].min_delta
        for name, value in criteria.items():
            if value < progress.lowest.get(name, np.inf):
                progress.lowest[name], progress.since_halved = value, 0
            if value < progress.best.get(name, np.inf) - least_gain:
                progress.best[name], progress.since_best = value, 0
                if self.schedule.keep != "last":
                    progress.kept[name] = self.flat[self.active.index(progress)].clone()
                    progress.kept_at = progress.epoch - 1

    def facts(self) -> dict[str, object]:
        """The progress of the active member with the most epochs."""
        last = max(self.active, key=lambda progress: progress.epoch)
        return {"epoch": last.epoch, "loss": f"{last.history[-1][2]:.3g}", "validation": f"{last.history[-1][3]:.3g}"}

    def leave(self) -> list[tuple[_Progress, Tensor]]:
        """End the stages and the members that are finished, and rearrange the batch if there are any; return the latter."""
        finished, active, replan = [], [], False
        for at, progress in enumerate(self.active):
            stage = self.schedule.stages[progress.stage]
            member = self.members[progress.number]
            patience = stage.waits(sum(map(len, member.rows(progress.stage))))
            if progress.since_best <= patience and progress.epoch_in_stage < stage.epochs:
                active.append(at)
                if stage.plateau is not None and progress.since_halved > stage.plateau:
                    progress.halvings, progress.since_halved, replan = progress.halvings + 1, 0, True
                continue
            if "all" in progress.kept:
                self.flat[at] = progress.kept["all"]
            if progress.stage + 1 < len(self.schedule.stages):
                progress.stage, progress.epoch_in_stage, progress.steps = progress.stage + 1, 0, 0
                progress.since_best, progress.since_halved, progress.halvings = 0, 0, 0
                if self.schedule.keep == "last" or len(member.parts) > 1:  # losses on different rows cannot be compared
                    progress.best.clear()
                    progress.lowest.clear()
                self.first[at], self.second[at], self.moved[at] = 0.0, 0.0, 0.0
                active.append(at)
                replan = True
            else:
                finished.append((progress, self.flat[at].clone()))
        if finished:
            self.active = [self.active[at] for at in active]
            pick = torch.as_tensor(active, dtype=torch.long, device=self.feed.device)
            state = (self.flat, self.first, self.second, self.moved, self.multipliers)
            self._arrange(*(part[pick] for part in state))
        elif replan:
            if any(len(self.members[progress.number].parts) > 1 for progress in self.active):
                self._gather_rows()
            self._plan()
        return finished
