"""Training runs of three models on random inputs, which time their own steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from models import mlp, resnet, teacher_labels, transformer
from torch import Tensor, nn

AfterStep = Callable[[int, float], object]
BATCHES = 16


class StepTime(NamedTuple):
    """CPU seconds and wall seconds of one step."""

    cpu: float
    wall: float


class BlockSize(NamedTuple):
    """Numbers of timed steps and of warm-up steps in a block."""

    steps: int
    warmup: int


BLOCK_SIZES = {"mlp": BlockSize(200, 60), "resnet": BlockSize(20, 6), "transformer": BlockSize(12, 4)}


@dataclass
class TrainingRun:
    """A model in training; its random state is separate, so that several runs can alternate in one process."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: list[tuple[Tensor, Tensor]]
    loss_fn: nn.Module = field(default_factory=nn.CrossEntropyLoss)
    losses: list[float] = field(default_factory=list)
    random_state: Tensor = field(default_factory=torch.get_rng_state)

    def run_steps(self, count: int, after_step: AfterStep) -> list[StepTime]:
        """Train for ``count`` steps; the times include ``after_step(step, loss)``."""
        times = []
        with self.own_random_state():
            for _ in range(count):
                cpu, wall = time.process_time(), time.perf_counter()
                self.run_step(after_step)
                times.append(StepTime(time.process_time() - cpu, time.perf_counter() - wall))
        return times

    def run_step(self, after_step: AfterStep) -> None:
        """Train for one step."""
        x, y = self.batches[len(self.losses) % len(self.batches)]
        self.optimizer.zero_grad()
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        after_step(len(self.losses), self.losses[-1])

    @contextmanager
    def own_random_state(self) -> Iterator[None]:
        """Use the random state of this run during the block."""
        outer_state = torch.get_rng_state()
        torch.set_rng_state(self.random_state)
        yield
        self.random_state = torch.get_rng_state()
        torch.set_rng_state(outer_state)

    def is_equal(self, other: TrainingRun) -> bool:
        """Return whether the losses and the weights of two runs are equal bit for bit."""
        pairs = zip(self.model.state_dict().values(), other.model.state_dict().values(), strict=True)
        return self.losses == other.losses and all(torch.equal(a, b) for a, b in pairs)


def create_run(name: str) -> TrainingRun:
    """Create the run of a model, with the same initial weights and batches each time."""
    torch.manual_seed(0)
    if name == "mlp":
        model, x = mlp(), torch.randn(BATCHES, 128, 784)
        return TrainingRun(model, torch.optim.Adam(model.parameters(), 1e-3), _create_batches(x))
    if name == "resnet":
        model, x = resnet(), torch.randn(BATCHES, 64, 3, 32, 32)
        optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
        return TrainingRun(model, optimizer, _create_batches(x))
    model, x = transformer(), torch.randint(0, 1000, (BATCHES, 32, 64))
    return TrainingRun(model, torch.optim.AdamW(model.parameters(), 3e-4), _create_batches(x))


def _create_batches(x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return labeled batches of inputs with shape (batches, samples, …)."""
    return list(zip(x, teacher_labels(x.flatten(0, 1)).view(x.shape[:2]), strict=True))
