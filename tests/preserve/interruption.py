"""Hooks on every part of a program that raise an error or an interrupt at a chosen call."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from traceback import walk_stack
from typing import Any, ClassVar

import nbdebug
from tests.programs import Program

PACKAGE = str(Path(nbdebug.__file__).parent)


class InterruptingHook:
    """Counts its calls (each forward pass, gradient and step) and runs an action at one of them."""

    def __init__(self, call: int = -1, action: Callable[[], Any] = int) -> None:
        self.call, self.action, self.call_count = call, action, 0

    def __call__(self, *_: Any) -> None:
        self.call_count += 1
        if self.call_count - 1 == self.call:
            self.action()

    def attach(self, program: Program) -> None:
        """Register on every module, parameter and step; restoring the program removes the hooks."""
        for module in program.model.modules():
            module.register_forward_pre_hook(self)
            module.register_forward_hook(self)
        for parameter in program.model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self)
        program.optimizer.register_step_pre_hook(self)
        program.optimizer.register_step_post_hook(self)


class CallPathHook(InterruptingHook):
    """An interrupting hook that copies of the model share, and that records the path of each call.

    It counts in its class, since its own attributes are restored with the rest of the program. A path consists of the
    type that ran, the line of torch that called the hook, and all lines of the package that led to it.
    """

    interruption: tuple[int, Callable[[], Any]] = (-1, int)
    paths: ClassVar[list[Any]] = []

    def __call__(self, *arguments: Any) -> None:
        _, caller, *stack = ((frame.f_code.co_filename, line) for frame, line in walk_stack(None))
        package_lines = [line for line in stack if line[0].startswith(PACKAGE)]
        CallPathHook.paths.append((type(arguments[0]).__name__, caller, *package_lines))
        call, action = CallPathHook.interruption
        if len(CallPathHook.paths) - 1 == call:
            action()

    def __deepcopy__(self, _: Any) -> CallPathHook:
        return self


def record_call_paths(run: Callable[[], Any], call: int = -1, action: Callable[[], Any] = int) -> list[Any]:
    """Return the paths of all hook calls of a run in which ``action`` interrupts the given call."""
    CallPathHook.interruption, CallPathHook.paths = (call, action), []
    try:
        run()
    except (ValueError, KeyboardInterrupt):
        if call < 0:
            raise
    return CallPathHook.paths


def first_calls(paths: list[Any], exclude: Collection[Any] = ()) -> list[int]:
    """Return the first call of each path that is not in ``exclude``."""
    calls = {path: len(paths) - 1 - position for position, path in enumerate(reversed(paths))}
    return sorted(call for path, call in calls.items() if path not in exclude)


def last_calls(paths: list[Any], exclude: Collection[Any] = ()) -> list[int]:
    """Return the last call of each path that is not in ``exclude``."""
    calls = {path: call for call, path in enumerate(paths)}
    return sorted(call for path, call in calls.items() if path not in exclude)


def fail() -> None:
    """Raise the error of a faulty model."""
    raise ValueError("the model is broken here")


def interrupt() -> None:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt
