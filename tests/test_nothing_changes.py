"""Every tool on six kinds of model: nothing of the user's changes, however the tool ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch

from nbdebug.debugger import Debugger
from tests.preserve.fingerprint import Fingerprint, fingerprint
from tests.preserve.tripwire import Tripwire, fail, interrupt
from tests.programs import PROGRAMS, Program, train

TOOLS: dict[str, Callable[[Debugger], Any]] = {
    "checkup": lambda debugger: debugger.checkup(),
    "overfit": lambda debugger: debugger.overfit(examples=6, steps=8),
    "lr_range": lambda debugger: debugger.lr_range(steps=10, seeds=2, val=True),
    "summary": lambda debugger: debugger.summary(),
    "compare_optimizers": lambda debugger: debugger.compare_optimizers(["yours", "SGD"], steps=10, seeds=1),
    "batch_size": lambda debugger: debugger.batch_size(seconds=0.01, noise=False),
    "errors": lambda debugger: debugger.errors(),
    "thorough checkup": lambda debugger: debugger.checkup("thorough"),
}
# Of longer runs every second, third … step is cut short.
MANY = {"checkup": 60, "overfit": 100, "lr_range": 100, "summary": 60, "thorough checkup": 15}
MANY |= {"compare_optimizers": 12, "batch_size": 12, "errors": 60}
every_tool = pytest.mark.parametrize("tool", TOOLS)
every_program = pytest.mark.parametrize("name", PROGRAMS)


class Wire(Tripwire):
    """A tripwire on forward passes that a copy of the model shares.

    It counts in its class, since what it holds itself is put back with the rest of the program.
    """

    moments = 0

    def __init__(self, at: int = -1, act: Callable[[], Any] = int) -> None:
        Wire.moments = 0
        self.at, self.act = at, act

    def __call__(self, *_: Any) -> None:
        Wire.moments += 1
        if Wire.moments - 1 == self.at:
            self.act()

    def __deepcopy__(self, _: Any) -> Wire:
        return self

    def attach(self, program: Program) -> None:
        """One moment before and after each forward pass."""
        program.model.register_forward_pre_hook(self)
        program.model.register_forward_hook(self)


class Case:
    """A program after three steps, with gradients lying about, its debugger and its fingerprint."""

    def __init__(self, name: str, wire: Wire | None = None) -> None:
        self.program = PROGRAMS[name]()
        self.loader = self.program.loader()
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.program.optimizer, 2)
        train(self.program, self.loader, 3)
        if wire is not None:
            wire.attach(self.program)
        model, loss_fn, optimizer, _ = self.program
        self.debugger = Debugger(
            model, self.loader, self.loader, loss_fn=loss_fn, optimizer=optimizer, scheduler=self.scheduler
        )
        self.before: Fingerprint = fingerprint(model, loss_fn, optimizer, self.scheduler, loaders=[self.loader])


@every_tool
@every_program
def test_a_tool_leaves_no_trace(name: str, tool: str) -> None:
    case = Case(name)
    TOOLS[tool](case.debugger)
    case.before.check()


@every_tool
@every_program
@pytest.mark.parametrize("act", [fail, interrupt])
def test_a_tool_that_is_cut_short_leaves_no_trace(name: str, tool: str, act: Callable[[], None]) -> None:
    TOOLS[tool](Case(name, Wire()).debugger)
    moments = Wire.moments
    assert moments
    for moment in range(0, moments, 1 + moments // MANY[tool]):
        case = Case(name, Wire(moment, act))
        with suppress(ValueError, KeyboardInterrupt):
            TOOLS[tool](case.debugger)
        case.before.check()


@every_program
def test_twenty_steps_with_the_debugger_equal_twenty_without(name: str) -> None:
    torch.manual_seed(7)
    alone = PROGRAMS[name]()
    losses = train(alone, alone.loader(), 10) + train(alone, alone.loader(), 10)
    torch.manual_seed(7)
    used = PROGRAMS[name]()
    loader = used.loader()
    debugger = Debugger(used.model, loader, loss_fn=used.loss_fn, optimizer=used.optimizer)
    debugger.checkup()
    with debugger.watch():
        seen = train(used, loader, 10)
    debugger.overfit(examples=4, steps=5)
    debugger.lr_range(steps=10)
    seen += train(used, used.loader(), 10)
    assert seen == losses
    assert all(torch.equal(a, b) for a, b in zip(alone.model.parameters(), used.model.parameters(), strict=True))
