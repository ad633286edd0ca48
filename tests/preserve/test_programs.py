"""Six kinds of model, trained inside a block that ends well, in an error at every moment, or in an interrupt."""

from __future__ import annotations

import signal
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import torch

from nbdebug.preserve import Preserve
from tests.preserve.fingerprint import Fingerprint, fingerprint
from tests.preserve.tripwire import Tripwire, fail, interrupt
from tests.programs import PROGRAMS, Program, step, train

OPTIMIZERS: dict[str, Any] = {
    "adam": partial(torch.optim.Adam, lr=0.01),
    "momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "lbfgs": partial(torch.optim.LBFGS, max_iter=3),
}


class Case:
    """A program with optimizer, scheduler and loader, fresh or after some steps, and its fingerprint."""

    def __init__(self, program: Program, steps: int) -> None:
        self.program, self.loader = program, program.loader()
        self.scheduler = torch.optim.lr_scheduler.StepLR(program.optimizer, 2)
        train(program, self.loader, steps)
        self.before: Fingerprint = fingerprint(*self._owned(), loaders=[self.loader])

    def preserve(self) -> Preserve:
        return Preserve(*self._owned(), loaders=[self.loader])

    def work(self, wire: Tripwire) -> None:
        """Two steps of training, an epoch of the schedule, the model left in another mode."""
        wire.attach(self.program)
        train(self.program, self.loader, 2)
        self.scheduler.step()
        self.program.model.eval().requires_grad_(False)

    def _owned(self) -> tuple[Any, ...]:
        return self.program.model, self.program.loss_fn, self.program.optimizer, self.scheduler


def _case(name: str, optimizer: str | None = None, steps: int = 2) -> Case:
    program = PROGRAMS[name]()
    if optimizer is not None:
        trained = [one for one in program.model.parameters() if one.requires_grad]
        program = program._replace(optimizer=OPTIMIZERS[optimizer](trained))
    return Case(program, steps)


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_training_inside_leaves_no_trace(name: str, optimizer: str, steps: int) -> None:
    case = _case(name, optimizer, steps)
    with case.preserve():
        case.work(Tripwire())
        assert case.before.differences()
    case.before.check()


@pytest.mark.parametrize("act", [fail, interrupt])
@pytest.mark.parametrize("name", PROGRAMS)
def test_stopping_at_any_moment_leaves_no_trace(name: str, act: Any) -> None:
    case, counted = _case(name), Tripwire()
    with case.preserve():
        case.work(counted)
    for moment in range(counted.count):
        wire = Tripwire(moment, act)
        with pytest.raises((ValueError, KeyboardInterrupt)), case.preserve():
            case.work(wire)
        case.before.check()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_real_interrupt_leaves_no_trace(name: str) -> None:
    case = _case(name)
    with pytest.raises(KeyboardInterrupt), case.preserve():
        case.work(Tripwire(5, lambda: signal.raise_signal(signal.SIGINT)))
    case.before.check()


HOWS = [(name, how) for name in PROGRAMS for how in ("plain", "own generator")]
HOWS += [("mlp", "persistent workers"), ("dropout", "persistent workers")]


@pytest.mark.parametrize(("name", "how"), HOWS)
def test_twenty_steps_with_a_block_equal_twenty_without(name: str, how: str) -> None:
    assert _twenty(name, how, block=True) == _twenty(name, how, block=False)


def _twenty(name: str, how: str, block: bool) -> tuple[list[float], list[list[float]]]:
    program = PROGRAMS[name]()
    loader = program.loader(**_options(how))
    losses: list[float] = []
    while len(losses) < 20:
        for inputs, targets in loader:
            losses.append(step(program, inputs, targets))
            if len(losses) in (4, 9, 12) and block:
                with suppress(ValueError), Preserve(program.model, program.optimizer, loaders=[loader]):
                    train(program, loader, 8)
                    fail()
    return losses, [one.flatten().tolist() for one in program.model.state_dict().values()]


def _options(how: str) -> dict[str, Any]:
    if how == "own generator":
        return {"generator": torch.Generator().manual_seed(7)}
    return {"num_workers": 1, "persistent_workers": True} if how == "persistent workers" else {}
