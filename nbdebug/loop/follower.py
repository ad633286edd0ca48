"""Follows the user's own loop from event to event."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.graph.reader import read
from nbdebug.graph.source import Line, caller
from nbdebug.loop.interval import Interval, Stepper
from nbdebug.loop.ledger import Ledger
from nbdebug.loop.loop import Loop
from nbdebug.setup import Setup

EAGER = 8  # steps that are looked at one by one; later ones at powers of two


class Follower:
    """Hears of backward passes, cleared gradients, steps and schedules, and counts them in order."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.ledger = setup, Ledger(setup.eager)
        self.steppers = {id(one): Stepper(one, Interval()) for one in setup.optimizers}
        self.own = {id(p): tuple(p.shape) for p in setup.eager.parameters()}
        self.backwards = self.scheduled = self.fresh = self.copies = 0
        self.reached = False
        self.lines: dict[str, Line] = {}

    @property
    def steps(self) -> int:
        """The steps of all optimizers; backward passes where there is none."""
        return sum(one.steps for one in self.steppers.values()) if self.steppers else self.backwards

    @property
    def looking(self) -> bool:
        """Whether this step is one to look at, for which the device must be waited for."""
        return self.steps < EAGER or self.steps & (self.steps - 1) == 0

    def backward_begins(self, roots: Sequence[Tensor]) -> None:
        """A backward pass is about to run from some roots."""
        self.mark("backward")
        if not self.looking:
            return
        for one in self.steppers.values():
            if not one.interval.cleared:
                one.interval.found(not one.has_gradients)
        if not self.reached:
            self.trace(roots)

    def trace(self, roots: Sequence[Tensor]) -> None:
        """Where a backward pass ends: in the model, in tensors made on the way, in parameters of the same shapes."""
        leaves = [leaf for root in roots for leaf in (read(root.grad_fn, []).leaves if root.grad_fn else [root])]
        shapes = set(self.own.values())
        others = [leaf for leaf in leaves if isinstance(leaf, nn.Parameter) and tuple(leaf.shape) in shapes]
        self.reached = any(id(leaf) in self.own for leaf in leaves)
        self.fresh, self.copies = len(leaves) - len(others), len(others)

    def backward_done(self) -> None:
        """A backward pass has run."""
        self.backwards += 1
        for one in self.steppers.values():
            one.interval.pulled()
        if self.looking:
            self.ledger.look_at_gradients()

    def cleared(self, owner: Any) -> None:
        """The gradients of an optimizer or a module were cleared."""
        self.mark("zero_grad")
        for one in self.steppers.values():
            if one.optimizer is owner or (isinstance(owner, nn.Module) and holds(owner, one)):
                one.interval.clear()

    def step_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to step."""
        self.steppers[id(optimizer)].begin()

    def step_done(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has stepped."""
        self.steppers[id(optimizer)].done()
        if self.steps == EAGER:
            self.ledger.look_at_values()

    def schedule(self, _: Any) -> None:
        """The scheduler has stepped."""
        self.mark("schedule")
        self.scheduled += 1

    def mark(self, event: str) -> None:
        """Keeps the user's line that an event comes from, the first time."""
        if event not in self.lines and self.backwards < EAGER and (line := caller(sys._getframe(2))):
            self.lines[event] = line

    def seen(self, rates: Sequence[float]) -> Loop:
        """All that was seen so far; ``rates`` are the learning rates of the steps."""
        self.ledger.look_at_values()
        worst = max(self.steppers.values(), key=lambda one: one.uncleared, default=None)
        peak = max(rates, default=0.0)
        return Loop(
            steps=sum(one.steps for one in self.steppers.values()),
            backwards=self.backwards,
            known=worst.known if worst else 0,
            uncleared=worst.uncleared if worst else 0,
            emptied=sum(one.emptied for one in self.steppers.values()),
            reached=self.reached,
            fresh=self.fresh,
            copies=self.copies,
            looks=self.ledger.looks,
            pulled=self.ledger.always_pulled,
            changed=frozenset(self.ledger.changed),
            scheduled=self.scheduled,
            slow=sum(rate < peak / 100 for rate in rates) / max(len(rates), 1),
            lines=dict(self.lines),
        )


def holds(module: nn.Module, one: Stepper) -> bool:
    """Whether an optimizer holds a parameter of a module."""
    held = {id(p) for p in one.parameters}
    return any(id(p) in held for p in module.parameters())
