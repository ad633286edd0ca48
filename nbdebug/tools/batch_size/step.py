"""One training step on one batch, its memory and its time."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.tools.batch_size.memory import peak
from nbdebug.tools.overfit.attempt import needs_closure

FEWEST, MOST, SECONDS = 3, 30, 0.25


class Steps:
    """Training steps with the user's own optimizers, whose state is there from the first one on."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.device = setup, setup.home
        self.trained = trained(setup)

    def step(self, batch: Batch) -> None:
        """Forward, backward, and a step of every optimizer."""
        with torch.enable_grad():
            loss = self.passed(batch)
            for one in self.setup.optimizers:
                if needs_closure(one):
                    one.step(lambda: float(self.passed(batch).detach()))
                else:
                    one.step()
        del loss

    def passed(self, batch: Batch) -> Tensor:
        """The loss, with gradients in place."""
        self.clear()
        loss = self.setup.run(batch)[1]
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def clear(self) -> None:
        """Frees the gradients."""
        for p in self.trained:
            p.grad = None

    @property
    def held(self) -> list[Tensor]:
        """What lies in memory between two steps: weights, buffers, state of the optimizers."""
        states = [state for one in self.setup.optimizers for state in one.state.values() if isinstance(state, dict)]
        moments = [value for state in states for value in state.values() if isinstance(value, Tensor)]
        parts = modules(self.setup)
        kept = [one for part in parts for one in (*part.parameters(), *part.buffers())]
        return [one for one in (*kept, *moments) if one.device.type == self.device.type]

    def memory(self, batch: Batch) -> int:
        """The bytes at the peak of a step of this batch."""
        seed_all(0)
        self.clear()
        return peak(lambda: self.step(batch), self.held, self.device)

    def times(self, batch: Batch, ends: Callable[[], bool]) -> list[float]:
        """The seconds of a few steps, unless ``ends`` says to leave."""
        seed_all(0)
        found: list[float] = []
        while len(found) < FEWEST or (len(found) < MOST and sum(found) < SECONDS):
            found.append(self.timed(batch))
            if ends():
                break
        self.clear()
        return found

    def timed(self, batch: Batch) -> float:
        """The seconds of one step."""
        self.wait()
        started = time.perf_counter()
        self.step(batch)
        self.wait()
        return time.perf_counter() - started

    def wait(self) -> None:
        """Until the device has done what it was asked."""
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)


def modules(setup: Setup) -> list[nn.Module]:
    """The model, and the loss where it is a module."""
    return [one for one in (setup.eager, setup.loss_fn) if isinstance(one, nn.Module)]


def trained(setup: Setup) -> list[Tensor]:
    """Every parameter that may get a gradient."""
    held = [p for one in setup.optimizers for group in one.param_groups for p in group["params"]]
    return list(dict.fromkeys([*(p for part in modules(setup) for p in part.parameters()), *held]))
