"""One candidate under one seed: its steps, from the user's weights, on the batches that all candidates get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import isfinite

import torch

from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.modes import in_mode
from nbdebug.setup.users_code import users_code
from nbdebug.tools.contest.candidates import Candidate
from nbdebug.tools.contest.result import Run
from nbdebug.tools.lr_range.feed import Feed
from nbdebug.tools.lr_range.smoothing import Guard
from nbdebug.tools.lr_range.trainer import Trainer

LOOKS = 6  # at the validation sample, the last one after the last step
SEEDS_APART = 100_003


@dataclass
class Race:
    """A run under way; must live inside a Preserve. ``seen`` is called after each step and says whether to stop.

    Random numbers begin anew at every step, by seed and step, so that batches, augmentation and dropout are the same
    for all candidates, however many numbers their optimizers draw.
    """

    setup: Setup
    candidate: Candidate
    seed: int
    steps: int
    sample: Sequence[Batch]
    seen: Callable[[], bool]
    accumulate: int = 1
    max_norm: float | None = None
    ended: str = "stopped"
    losses: list[float] = field(default_factory=list)
    validations: list[tuple[int, tuple[float, ...]]] = field(default_factory=list)

    def run(self) -> None:
        """Steps until all are made, the loss is lost, or the user stops."""
        with self.told(), torch.enable_grad():
            optimizers = self.candidate.optimizers()
            make = self.candidate.schedule
            schedulers = [make(one, self.steps) for one in optimizers] if make is not None else []
            seed_all(self.seed)
            trainer = Trainer(self.setup, optimizers, Feed(self.setup, self.seed), self.accumulate, self.max_norm)
            guard = Guard(self.steps)
            while len(self.losses) < self.steps:
                seed_all(self.seed * SEEDS_APART + len(self.losses))
                loss = trainer.step()
                if not self.goes_on(loss, guard):
                    return
                for one in schedulers:
                    one.step()
                self.look()
            self.ended = "finished"

    def goes_on(self, loss: float, guard: Guard) -> bool:
        """Takes in a loss; False where the run ends there."""
        if not isfinite(loss):
            self.ended = "not finite"
            return False
        self.losses.append(loss)
        if guard.diverged(loss):
            self.ended = "diverged"
            return False
        return not self.seen()

    def told(self) -> AbstractContextManager[None]:
        """The border to the user's code."""
        return users_code(lambda: f"in step {len(self.losses)} of the contest, with {self.candidate.full_name}")

    @torch.no_grad()
    def look(self) -> None:
        """The loss on the validation sample where it is due, in eval mode."""
        step = len(self.losses)
        if not self.sample or step * LOOKS // self.steps == (step - 1) * LOOKS // self.steps:
            return
        with in_mode(self.setup.eager, training=False):
            found = tuple(float(self.setup.run(batch, self.setup.model)[1]) for batch in self.sample)
        self.validations.append((step, found))
        if not all(map(isfinite, found)):
            self.validations.pop()

    def result(self) -> Run:
        """The run as plain data."""
        return Run(self.seed, tuple(self.losses), tuple(self.validations), self.ended)


@torch.no_grad()
def untrained(setup: Setup, seed: int, count: int, sample: Sequence[Batch]) -> tuple[list[float], list[float]]:
    """The losses before any step: of the first batches in train mode, of the validation sample in eval mode."""
    seed_all(seed)
    feed = Feed(setup, seed)
    with users_code(lambda: "before the first step of the contest"):
        train = [float(setup.run(next(feed), setup.model)[1]) for _ in range(count)]
        with in_mode(setup.eager, training=False):
            return train, [float(setup.run(batch, setup.model)[1]) for batch in sample]
