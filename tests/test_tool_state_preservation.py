"""Tests that no tool changes the user's objects, on six programs, whether it finishes, fails or is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from nbdebug.debugger import Debugger
from tests.clock import real_time
from tests.preserve.fingerprint import Fingerprint, fingerprint
from tests.preserve.interruption import CallPathHook, fail, first_calls, interrupt, last_calls, record_call_paths
from tests.programs import PROGRAMS, Program, train

TOOLS: dict[str, Callable[[Debugger], Any]] = {
    "checkup": lambda debugger: debugger.checkup(),
    "overfit": lambda debugger: debugger.overfit(examples=6, steps=8),
    "lr_range": lambda debugger: debugger.lr_range(steps=10, seeds=2, val=True),
    "summary": lambda debugger: debugger.summary(),
    "display": lambda debugger: debugger._repr_html_(),
    "compare_optimizers": lambda debugger: debugger.compare_optimizers(["yours", "SGD"], steps=10, seeds=1),
    "data": lambda debugger: debugger.data(samples=24),
    "batch_size": lambda debugger: debugger.batch_size(most=16, seconds=0.01, noise=False),
    "profile": lambda debugger: profile(debugger, None),
    "profile of a loop": lambda debugger: profile(debugger, lambda: plain_loop(debugger)),
    "repeatable": lambda debugger: debugger.repeatable(steps=3),
    "checkpoint": lambda debugger: debugger.check_checkpoint(save=lambda path: save(debugger, path)),
    "snapshot": lambda debugger: debugger.changes_since(debugger.snapshot()),
    "errors": lambda debugger: debugger.errors(),
    "explain": lambda debugger: debugger.explain(0),
    "importance": lambda debugger: debugger.importance(samples=8, repeats=1),
    "triage": lambda debugger: debugger.triage("overfits"),
    "try_fix": lambda debugger: debugger.try_fix("weight decay=0.1", steps=5, seeds=2, checkup="quick"),
    "ablation": lambda debugger: debugger.ablation(["weight decay=0.1", "clipping"], steps=5, seeds=2),
    "bisect": lambda debugger: debugger.bisect(["weight decay=0.1", "learning rate=1e-9"], steps=5, runs=4),
    "bisect samples": lambda debugger: debugger.bisect(samples=True, fails=lambda copy: True, steps=1, runs=4),
    "bisect reference": lambda debugger: debugger.bisect(
        reference={name: tensor + 1 for name, tensor in debugger.setup.model.state_dict().items()}, runs=4
    ),
    "ladder": lambda debugger: debugger.ladder(steps=5, seeds=2),
    "thorough checkup": lambda debugger: debugger.checkup("thorough"),
}
TOOLS_WITHOUT_PASSES = {"data", "snapshot"}  # these never call the model
# Their passes are interrupted in try_fix, or run on copies that have no hooks.
TRAINED_AS_BY_TRY_FIX = {"ladder", "bisect reference"}
INCLUDED_TOOLS = {
    "thorough checkup": "checkup",
    "profile of a loop": "profile",
    "display": "summary",
}  # their calls are not stopped again
STOPPED_TOOLS = sorted(TOOLS.keys() - TOOLS_WITHOUT_PASSES - TRAINED_AS_BY_TRY_FIX)
every_program = pytest.mark.parametrize("name", PROGRAMS)
# A tool that is stopped in each program runs there to its end too, so that two of the programs run it without hooks.
RUNS_WITHOUT_HOOKS = [
    (name, tool)
    for turn, name in enumerate(PROGRAMS)
    for position, tool in enumerate(TOOLS)
    if tool not in STOPPED_TOOLS or (turn + position) % (len(PROGRAMS) // 2) == 0
]


# The least that a profile repeats: it restores by the same lines however often it measures.
FEWEST_MEASUREMENTS = {
    "latency._MIN_PASSES": 2,
    "latency._PASSES_PER_STEP": 1,
    "measured_gain._ALTERNATING": (False, True, False, True, False),
    "measured_gain._MIN_BLOCK_SECONDS": 0.0,
    "operations._ROUNDS": 1,
    "phases._CALIBRATION_ROUNDS": 1,
    "trials._MIN_BLOCK_STEPS": 1,
    "trials._ROUNDS": 2,
    "trials._SECONDS_PER_STEP": 0.0,
    "worker_sweep._COUNTS": (2,),
    "worker_sweep._MIN_STEPS": 1,
    "worker_sweep._SECONDS_PER_STEP": 0.0,
}


def profile(debugger: Debugger, train: Callable[[], None] | None) -> None:
    """Profile four steps in real time."""
    with real_time(), pytest.MonkeyPatch.context() as patch:
        for name, value in FEWEST_MEASUREMENTS.items():
            patch.setattr(f"nbdebug.tools.profile.{name}", value)
        debugger.profile(train, steps=4)


def save(debugger: Debugger, path: str) -> None:
    """Save the weights and the state of the optimizers."""
    setup = debugger.setup
    torch.save([item.state_dict() for item in (setup.eager_model, *setup.optimizers)], path)


def plain_loop(debugger: Debugger) -> None:
    """A loop of eight steps on the objects of a setup."""
    setup = debugger.setup
    for _ in range(8):
        for optimizer in setup.optimizers:
            optimizer.zero_grad()
        setup.output_and_loss(next(setup.batches(1)))[1].backward()
        for optimizer in setup.optimizers:
            optimizer.step()


class ModelPassHook(CallPathHook):
    """A call path hook on the forward passes of the whole model."""

    def attach(self, program: Program) -> None:
        """Call this before and after each forward pass."""
        program.model.register_forward_pre_hook(self)
        program.model.register_forward_hook(self)


class PreparedProgram:
    """A program after three steps, with gradients, and its fingerprint."""

    def __init__(self, name: str, hook: CallPathHook | None = None) -> None:
        self.program = PROGRAMS[name]()
        self.loader = self.program.loader()
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.program.optimizer, 2)
        train(self.program, self.loader, 3)
        if hook is not None:
            hook.attach(self.program)
        model, loss_fn, optimizer, _ = self.program
        self.before: Fingerprint = fingerprint(model, loss_fn, optimizer, self.scheduler, loaders=[self.loader])

    def debugger(self) -> Debugger:
        """A new debugger of the program."""
        model, loss_fn, optimizer, _ = self.program
        loader = self.loader
        return Debugger(model, loader, loader, loss_fn=loss_fn, optimizer=optimizer, scheduler=self.scheduler)


@pytest.mark.parametrize(("name", "tool"), RUNS_WITHOUT_HOOKS)
def test_tool_preserves_state(name: str, tool: str) -> None:
    prepared = PreparedProgram(name)
    TOOLS[tool](prepared.debugger())
    prepared.before.check()


@pytest.mark.parametrize("tool", STOPPED_TOOLS)
@every_program
def test_tool_that_fails_or_is_interrupted_preserves_state(name: str, tool: str) -> None:
    """Let a tool finish; then stop the first and the last pass on a sixth of its call paths to the model.

    They are stopped by a failure and by an interrupt. If failures stop the first passes of a program, interrupts stop
    the last; the next program swaps them. The programs share the call paths, since the same lines of the tool restore
    every program.
    """
    prepared = PreparedProgram(name, ModelPassHook())
    included = INCLUDED_TOOLS.get(tool)
    known = record_call_paths(lambda: TOOLS[included](prepared.debugger())) if included else ()
    call_paths = record_call_paths(lambda: TOOLS[tool](prepared.debugger()))
    prepared.before.check()
    turn = list(PROGRAMS).index(name)
    acts = (interrupt, fail) if turn % 2 else (fail, interrupt)
    for act, select_calls in zip(acts, (first_calls, last_calls), strict=True):
        calls = select_calls(call_paths, exclude=known)
        assert calls
        for call in calls[turn % len(calls) :: len(PROGRAMS)]:
            record_call_paths(lambda: TOOLS[tool](prepared.debugger()), call, act)
            prepared.before.check()


@every_program
def test_training_with_tools_in_between_equals_plain_training(name: str) -> None:
    torch.manual_seed(7)
    plain = PROGRAMS[name]()
    losses = train(plain, plain.loader(), 10) + train(plain, plain.loader(), 10)
    torch.manual_seed(7)
    debugged = PROGRAMS[name]()
    loader = debugged.loader()
    debugger = Debugger(debugged.model, loader, loss_fn=debugged.loss_fn, optimizer=debugged.optimizer)
    debugger.checkup()
    with debugger.watch():
        debugged_losses = train(debugged, loader, 10)
    debugger.overfit(examples=4, steps=5)
    debugger.lr_range(steps=10)
    debugged_losses += train(debugged, debugged.loader(), 10)
    assert debugged_losses == losses
    assert all(torch.equal(a, b) for a, b in zip(plain.model.parameters(), debugged.model.parameters(), strict=True))
