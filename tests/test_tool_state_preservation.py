"""Every tool on six kinds of model: nothing of the user's changes, however the tool ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from nbdebug.debugger import Debugger
from tests.preserve.fingerprint import Fingerprint, fingerprint
from tests.preserve.interruption import CallPathHook, fail, first_calls, interrupt, last_calls, record_call_paths
from tests.programs import PROGRAMS, Program, train

TOOLS: dict[str, Callable[[Debugger], Any]] = {
    "checkup": lambda debugger: debugger.checkup(),
    "overfit": lambda debugger: debugger.overfit(examples=6, steps=8),
    "lr_range": lambda debugger: debugger.lr_range(steps=10, seeds=2, val=True),
    "summary": lambda debugger: debugger.summary(),
    "compare_optimizers": lambda debugger: debugger.compare_optimizers(["yours", "SGD"], steps=10, seeds=1),
    "batch_size": lambda debugger: debugger.batch_size(seconds=0.01, noise=False),
    "errors": lambda debugger: debugger.errors(),
    "explain": lambda debugger: debugger.explain(0),
    "importance": lambda debugger: debugger.importance(samples=8, repeats=1),
    "thorough checkup": lambda debugger: debugger.checkup("thorough"),
}
every_tool = pytest.mark.parametrize("tool", TOOLS)
every_program = pytest.mark.parametrize("name", PROGRAMS)


class Passes(CallPathHook):
    """A tripwire on the forward passes of the whole model alone."""

    def attach(self, program: Program) -> None:
        """One moment before and after each forward pass."""
        program.model.register_forward_pre_hook(self)
        program.model.register_forward_hook(self)


class Case:
    """A program after three steps, with gradients lying about, and its fingerprint."""

    def __init__(self, name: str, wire: CallPathHook | None = None) -> None:
        self.program = PROGRAMS[name]()
        self.loader = self.program.loader()
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.program.optimizer, 2)
        train(self.program, self.loader, 3)
        if wire is not None:
            wire.attach(self.program)
        model, loss_fn, optimizer, _ = self.program
        self.before: Fingerprint = fingerprint(model, loss_fn, optimizer, self.scheduler, loaders=[self.loader])

    def debugger(self) -> Debugger:
        """A debugger that knows nothing of it yet."""
        model, loss_fn, optimizer, _ = self.program
        loader = self.loader
        return Debugger(model, loader, loader, loss_fn=loss_fn, optimizer=optimizer, scheduler=self.scheduler)


@every_tool
@every_program
def test_a_tool_leaves_no_trace(name: str, tool: str) -> None:
    case = Case(name)
    TOOLS[tool](case.debugger())
    case.before.check()


@every_tool
@every_program
@pytest.mark.parametrize("act", [fail, interrupt])
def test_a_tool_that_is_cut_short_leaves_no_trace(name: str, tool: str, act: Callable[[], None]) -> None:
    """However the package comes to run the model, its first pass from there is cut short, or else its last.

    What fails first in one program is interrupted last, and the next program is treated the other way round.
    """
    case = Case(name, Passes())
    known = record_call_paths(lambda: case.debugger().checkup()) if tool == "thorough checkup" else ()
    places = record_call_paths(lambda: TOOLS[tool](case.debugger()))
    early = (act is fail) == (list(PROGRAMS).index(name) % 2 == 0)
    moments = (first_calls if early else last_calls)(places, exclude=known)
    assert moments
    for moment in moments:
        record_call_paths(lambda: TOOLS[tool](case.debugger()), moment, act)
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
