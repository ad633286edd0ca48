"""Tests of training inside a Preserve block that ends normally, in an error or in an interrupt."""

from __future__ import annotations

import signal
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import torch

from nbdebug.preserve import Preserve
from tests.preserve.fingerprint import Fingerprint, fingerprint
from tests.preserve.interruption import InterruptingHook, fail, interrupt
from tests.programs import PROGRAMS, Program, step, train

OPTIMIZERS: dict[str, Any] = {
    "adam": partial(torch.optim.Adam, lr=0.01),
    "momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "lbfgs": partial(torch.optim.LBFGS, max_iter=3),
}


class TrainingCase:
    """A program with optimizer, scheduler and loader, fresh or after some steps, and its fingerprint."""

    def __init__(self, program: Program, steps: int) -> None:
        self.program, self.loader = program, program.loader()
        self.scheduler = torch.optim.lr_scheduler.StepLR(program.optimizer, 2)
        train(program, self.loader, steps)
        self.before: Fingerprint = fingerprint(*self._objects(), loaders=[self.loader])

    def preserve(self) -> Preserve:
        return Preserve(*self._objects(), loaders=[self.loader])

    def train_two_steps(self, hook: InterruptingHook) -> None:
        """Train for two steps, step the schedule, and leave the model in another mode."""
        hook.attach(self.program)
        train(self.program, self.loader, 2)
        self.scheduler.step()
        self.program.model.eval().requires_grad_(False)

    def _objects(self) -> tuple[Any, ...]:
        return self.program.model, self.program.loss_fn, self.program.optimizer, self.scheduler


def make_case(name: str, optimizer: str | None = None, steps: int = 2) -> TrainingCase:
    program = PROGRAMS[name]()
    if optimizer is not None:
        parameters = [parameter for parameter in program.model.parameters() if parameter.requires_grad]
        program = program._replace(optimizer=OPTIMIZERS[optimizer](parameters))
    return TrainingCase(program, steps)


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_block_around_training_restores_state(name: str, optimizer: str, steps: int) -> None:
    case = make_case(name, optimizer, steps)
    with case.preserve():
        case.train_two_steps(InterruptingHook())
        assert case.before.differences()
    case.before.check()


@pytest.mark.parametrize("action", [fail, interrupt])
@pytest.mark.parametrize("name", PROGRAMS)
def test_block_stopped_at_any_hook_call_restores_state(name: str, action: Any) -> None:
    case, counting_hook = make_case(name), InterruptingHook()
    with case.preserve():
        case.train_two_steps(counting_hook)
    for call in range(counting_hook.call_count):
        hook = InterruptingHook(call, action)
        with pytest.raises((ValueError, KeyboardInterrupt)), case.preserve():
            case.train_two_steps(hook)
        case.before.check()


@pytest.mark.parametrize("name", PROGRAMS)
def test_block_stopped_by_signal_restores_state(name: str) -> None:
    case = make_case(name)
    with pytest.raises(KeyboardInterrupt), case.preserve():
        case.train_two_steps(InterruptingHook(5, lambda: signal.raise_signal(signal.SIGINT)))
    case.before.check()


LOADER_CASES = [(name, loader_kind) for name in PROGRAMS for loader_kind in ("default", "custom generator")]
LOADER_CASES += [("mlp", "persistent workers"), ("dropout", "persistent workers")]


@pytest.mark.parametrize(("name", "loader_kind"), LOADER_CASES)
def test_training_with_blocks_equals_training_without(name: str, loader_kind: str) -> None:
    assert train_twenty_steps(name, loader_kind, block=True) == train_twenty_steps(name, loader_kind, block=False)


def train_twenty_steps(name: str, loader_kind: str, block: bool) -> tuple[list[float], list[list[float]]]:
    program = PROGRAMS[name]()
    loader = program.loader(**make_loader_options(loader_kind))
    losses: list[float] = []
    while len(losses) < 20:
        for inputs, targets in loader:
            losses.append(step(program, inputs, targets))
            if len(losses) in (4, 9, 12) and block:
                with suppress(ValueError), Preserve(program.model, program.optimizer, loaders=[loader]):
                    train(program, loader, 8)
                    fail()
    return losses, [tensor.flatten().tolist() for tensor in program.model.state_dict().values()]


def make_loader_options(loader_kind: str) -> dict[str, Any]:
    if loader_kind == "custom generator":
        return {"generator": torch.Generator().manual_seed(7)}
    return {"num_workers": 1, "persistent_workers": True} if loader_kind == "persistent workers" else {}
