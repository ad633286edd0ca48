"""Tests that no tool changes the user's objects where torch raises, at every call of model, loss, gradient and data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from traceback import walk_stack
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.preserve import open_blocks
from tests.preserve.fingerprint import fingerprint
from tests.preserve.interruption import PACKAGE, CallPathHook, first_calls
from tests.programs import PROGRAMS, Program, train

TOOLS: dict[str, Callable[[Debugger], Any]] = {
    "summary": lambda debugger: debugger.summary(),
    "checkup": lambda debugger: debugger.checkup(),
    "overfit": lambda debugger: debugger.overfit(examples=4, steps=2),
    "lr_range": lambda debugger: debugger.lr_range(steps=10, seeds=1),
    "errors": lambda debugger: debugger.errors(),
    "explain": lambda debugger: debugger.explain(0),
    "importance": lambda debugger: debugger.importance(samples=8, repeats=1),
    "batch_size": lambda debugger: debugger.batch_size(most=16, seconds=0.01, noise=False),
}
MAX_CALLS = 4  # of each tool and part, evenly spread over the call paths


class HookedDataset(TensorDataset):
    """A dataset that calls a hook for each sample."""

    hook: ClassVar[CallPathHook] = CallPathHook()

    def __getitem__(self, index: Any) -> Any:
        self.hook(self)
        return super().__getitem__(index)


def hook_forward(program: Program, loader: DataLoader[Any], hook: CallPathHook) -> None:
    for module in program.model.modules():
        module.register_forward_hook(hook)


def hook_loss(program: Program, loader: DataLoader[Any], hook: CallPathHook) -> None:
    program.loss_fn.register_forward_hook(hook)


def hook_backward(program: Program, loader: DataLoader[Any], hook: CallPathHook) -> None:
    def hook_gradient(module: nn.Module, inputs: Any, loss: torch.Tensor) -> None:
        if loss.requires_grad:
            loss.register_hook(hook)

    program.loss_fn.register_forward_hook(hook_gradient)


def hook_step(program: Program, loader: DataLoader[Any], hook: CallPathHook) -> None:
    program.optimizer.register_step_post_hook(hook)


def hook_loader(program: Program, loader: DataLoader[Any], hook: CallPathHook) -> None:
    loader.dataset.__class__ = HookedDataset


PARTS = {
    "forward": hook_forward,
    "loss": hook_loss,
    "backward": hook_backward,
    "step": hook_step,
    "loader": hook_loader,
}


def crash() -> None:
    """Raise an error of torch."""
    torch.ones(2, 3) @ torch.ones(2, 3)


def run_tool(run: Callable[[], Any], call: int = -1) -> list[Any]:
    """Run a tool in which torch raises at one call; return the paths of all calls."""
    CallPathHook.interruption, CallPathHook.paths = (call, crash), []
    try:
        run()
    except (RuntimeError, ValueError, nbdebug.SetupError):
        if call < 0:
            raise
    return CallPathHook.paths


def prepared(part: str, hook: CallPathHook) -> tuple[Program, DataLoader[Any]]:
    """A program after two steps that calls a hook in one of its parts."""
    program = PROGRAMS["mlp"]()
    loader = program.loader()
    train(program, loader, 2)
    PARTS[part](program, loader, hook)
    return program, loader


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("tool", TOOLS)
def test_crash_at_each_call_of_tool_preserves_state(tool: str, part: str) -> None:
    program, loader = prepared(part, HookedDataset.hook)
    before = fingerprint(program.model, program.loss_fn, program.optimizer, loaders=[loader])

    def run() -> None:
        model, loss_fn, optimizer, _ = program
        TOOLS[tool](Debugger(model, loader, loader, loss_fn=loss_fn, optimizer=optimizer))

    calls = first_calls(run_tool(run))
    before.check()
    for call in calls[:: max(1, len(calls) // MAX_CALLS)]:
        run_tool(run, call)
        before.check()


class LoopHook(CallPathHook):
    """A hook that counts only the calls of the loop, or only those of rules and their measurements inside it."""

    counts_rules = False

    def __call__(self, *arguments: Any) -> None:
        files = (frame.f_code.co_filename for frame, _ in walk_stack(None))
        is_of_rules = bool(open_blocks) or any(file.startswith(f"{PACKAGE}/rule_engine") for file in files)
        if is_of_rules == LoopHook.counts_rules:
            super().__call__(*arguments)


def state_after_loop(
    part: str, monkeypatch: pytest.MonkeyPatch, *, call: int = -1, is_watched: bool = True, counts_rules: bool = False
) -> tuple[int, list[Any]]:
    """Return the number of calls and the state after two steps of a loop in which torch raises at one call."""
    hook = LoopHook()
    monkeypatch.setattr(LoopHook, "counts_rules", counts_rules)
    monkeypatch.setattr(HookedDataset, "hook", hook)
    program, loader = prepared(part, hook)
    model, loss_fn, optimizer, _ = program
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    torch.manual_seed(3)

    def run() -> None:
        with debugger.watch(final_tests=False) if is_watched else nullcontext():
            train(program, loader, 2)

    paths = run_tool(run, call)
    gradients = [parameter.grad for parameter in model.parameters()]
    states = [value for state in optimizer.state.values() for value in state.values()]
    return len(paths), [*model.state_dict().values(), *gradients, *states, torch.get_rng_state()]


def assert_equal_states(first: list[Any], second: list[Any]) -> None:
    for pair in zip(first, second, strict=True):
        assert pair == (None, None) or torch.equal(*pair)


@pytest.mark.parametrize("part", PARTS)
def test_crash_at_each_call_of_watched_loop_leaves_state_of_plain_loop(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, _ = state_after_loop(part, monkeypatch, is_watched=False)
    assert count > 1
    for call in range(count):
        _, plain = state_after_loop(part, monkeypatch, call=call, is_watched=False)
        _, watched = state_after_loop(part, monkeypatch, call=call)
        assert_equal_states(watched, plain)


@pytest.mark.parametrize("part", [part for part in PARTS if part != "step"])
def test_crash_at_call_of_rules_inside_watched_loop_does_not_stop_it(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, plain = state_after_loop(part, monkeypatch, is_watched=False)
    count, _ = state_after_loop(part, monkeypatch, counts_rules=True)
    assert count > 1
    for call in range(0, count, max(1, count // MAX_CALLS)):
        _, watched = state_after_loop(part, monkeypatch, call=call, counts_rules=True)
        assert_equal_states(watched, plain)
