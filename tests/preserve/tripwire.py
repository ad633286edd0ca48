"""Hooks on every part of a program, one of which raises: an error or a Ctrl-C at a chosen moment of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.programs import Program


class Tripwire:
    """Counts the moments of training (each forward, gradient and step) and acts at the one with the given number."""

    def __init__(self, at: int = -1, act: Callable[[], Any] = int) -> None:
        self.at, self.act, self.count = at, act, 0

    def __call__(self, *_: Any) -> None:
        """A hook of any kind."""
        self.count += 1
        if self.count - 1 == self.at:
            self.act()

    def attach(self, program: Program) -> None:
        """Hang on every module, parameter and step; whoever restores the program takes the hooks off."""
        for module in program.model.modules():
            module.register_forward_pre_hook(self)
            module.register_forward_hook(self)
        for parameter in program.model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self)
        program.optimizer.register_step_pre_hook(self)
        program.optimizer.register_step_post_hook(self)


def fail() -> None:
    """What a broken model does."""
    raise ValueError("the model is broken here")


def interrupt() -> None:
    """What Ctrl-C does."""
    raise KeyboardInterrupt
