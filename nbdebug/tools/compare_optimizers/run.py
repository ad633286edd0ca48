"""Train one candidate with one seed, from the user's weights, on the batches that all candidates receive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import isfinite

import torch

from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tools.compare_optimizers.candidates import OptimizerCandidate
from nbdebug.tools.compare_optimizers.result import CandidateRun
from nbdebug.training.divergence import DivergenceDetector
from nbdebug.training.trainer import BatchStream, Trainer

_VALIDATIONS_PER_RUN = 6  # evaluations of the validation sample, the last one after the last step
_SEED_STRIDE = 100_003


@dataclass
class CandidateTrainer:
    """Training of one candidate; must run inside a Preserve. ``seen`` is called after each step; if True, it stops.

    The random generators are seeded at every step, by seed and step, so that batches, augmentation and dropout are the
    same for all candidates, however many random numbers their optimizers draw.
    """

    setup: Setup
    candidate: OptimizerCandidate
    seed: int
    steps: int
    validation_batches: Sequence[Batch]
    should_stop: Callable[[], bool]
    accumulate: int = 1
    max_norm: float | None = None
    ended: str = "stopped"
    losses: list[float] = field(default_factory=list)
    validations: list[tuple[int, tuple[float, ...]]] = field(default_factory=list)

    def run(self) -> None:
        """Train until all steps are done, the loss diverges, or the user stops."""
        with self.user_code_context(), torch.enable_grad():
            optimizers = self.candidate.optimizers()
            schedule_factory = self.candidate.schedule
            schedulers = (
                [schedule_factory(item, self.steps) for item in optimizers] if schedule_factory is not None else []
            )
            seed_all(self.seed)
            trainer = Trainer(
                self.setup, optimizers, BatchStream(self.setup, self.seed), self.accumulate, self.max_norm
            )
            guard = DivergenceDetector(self.steps)
            while len(self.losses) < self.steps:
                seed_all(self.seed * _SEED_STRIDE + len(self.losses))
                loss = trainer.step()
                if not self.record_loss(loss, guard):
                    return
                for item in schedulers:
                    item.step()
                self.measure_validation()
            self.ended = "finished"

    def record_loss(self, loss: float, guard: DivergenceDetector) -> bool:
        """Record a loss; return False if the run ends here."""
        if not isfinite(loss):
            self.ended = "not finite"
            return False
        self.losses.append(loss)
        if guard.update_and_check(loss):
            self.ended = "diverged"
            return False
        return not self.should_stop()

    def user_code_context(self) -> AbstractContextManager[None]:
        """Return a context manager that attributes errors to the user's code."""
        return UserCodeErrors(lambda: f"in step {len(self.losses)} of the comparison, with {self.candidate.full_name}")

    @torch.no_grad()
    def measure_validation(self) -> None:
        """Measure the loss on the validation sample in eval mode, at the steps where it is due."""
        step = len(self.losses)
        if (
            not self.validation_batches
            or step * _VALIDATIONS_PER_RUN // self.steps == (step - 1) * _VALIDATIONS_PER_RUN // self.steps
        ):
            return
        with in_mode(self.setup.eager_model, training=False):
            losses = tuple(
                float(self.setup.output_and_loss(batch, self.setup.model)[1]) for batch in self.validation_batches
            )
        self.validations.append((step, losses))
        if not all(map(isfinite, losses)):
            self.validations.pop()

    def result(self) -> CandidateRun:
        """Return the run as plain data."""
        return CandidateRun(self.seed, tuple(self.losses), tuple(self.validations), self.ended)


@torch.no_grad()
def initial_losses(
    setup: Setup, seed: int, count: int, validation_batches: Sequence[Batch]
) -> tuple[list[float], list[float]]:
    """Return the losses before any step: of the first batches in train mode, of the validation sample in eval mode."""
    seed_all(seed)
    feed = BatchStream(setup, seed)
    with UserCodeErrors(lambda: "before the first step of the comparison"):
        train = [float(setup.output_and_loss(next(feed), setup.model)[1]) for _ in range(count)]
        with in_mode(setup.eager_model, training=False):
            return train, [float(setup.output_and_loss(batch, setup.model)[1]) for batch in validation_batches]
