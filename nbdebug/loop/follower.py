"""Follows the user's own loop from event to event."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.graph.reader import read
from nbdebug.graph.source import Line, caller
from nbdebug.loop.clips import Clipping
from nbdebug.loop.held import Holding
from nbdebug.loop.interval import Stepper
from nbdebug.loop.ledger import Ledger
from nbdebug.loop.loop import Loop
from nbdebug.loop.lost import Lost
from nbdebug.loop.modes import Modes
from nbdebug.loop.pulls import Touch
from nbdebug.loop.scaling import Scalers
from nbdebug.loop.sums import Summing, is_divided
from nbdebug.probes.batches import comes_from
from nbdebug.probes.calls import calls
from nbdebug.probes.clipping import Clip, clipping
from nbdebug.probes.modes import passes, switchings
from nbdebug.probes.scaling import Scaled, scaling
from nbdebug.setup import Setup

EAGER = 8  # steps that are looked at one by one; later ones at powers of two
MOST_PASSES = 32  # backward passes between two steps that are looked at
Guard = Callable[[Callable[[Any], None]], Callable[[Any], None]]


class Follower:
    """Hears of backward passes, cleared gradients, steps and schedules, and counts them in order."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.ledger = setup, Ledger(setup.eager)
        self.clipping, self.scalers, self.summing = Clipping(), Scalers(), Summing()
        self.modes, self.holding, self.lost = Modes(setup.eager), Holding(), Lost(setup.eager)
        self.own = {id(p): tuple(p.shape) for p in setup.eager.parameters()}
        self.steppers: dict[int, Stepper] = {}
        self.holders: dict[int, Stepper] = {}
        self.strangers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        for one in setup.optimizers:
            self.adopt(one)
        self.backwards = self.scheduled = self.fresh = self.copies = self.passes = self.asked_at = 0
        self.reached = self.from_scaled = False
        self.iterator: weakref.ref[Any] | None = None
        self.lines: dict[str, Line] = {}

    def probes(self, guard: Guard) -> list[AbstractContextManager[None]]:
        """What hears all events but backward passes, steps and batches; ``guard`` wraps each callback."""
        heard: list[AbstractContextManager[None]] = [
            calls(torch.optim.Optimizer, "zero_grad", guard(self.cleared)),
            calls(nn.Module, "zero_grad", guard(self.cleared)),
            clipping(guard(self.clipped)),
            scaling(guard(self.scaled)),
            passes(self.setup.model, guard(self.modes.begins), guard(self.passed)),
            switchings(guard(self.modes.switched)),
        ]
        if self.setup.scheduler is not None:
            heard.append(calls(type(self.setup.scheduler), "step", guard(self.schedule)))
        return heard

    @property
    def first(self) -> torch.optim.Optimizer | None:
        """The optimizer whose steps count as those of the loop."""
        return next((one.optimizer for one in self.steppers.values()), None)

    @property
    def steps(self) -> int:
        """The steps of all optimizers; backward passes where there is none."""
        return sum(one.steps for one in self.steppers.values()) if self.steppers else self.backwards

    @property
    def looking(self) -> bool:
        """Whether this step is one to look at, for which the device must be waited for."""
        return (self.steps < EAGER or self.steps & (self.steps - 1) == 0) and self.passes < MOST_PASSES

    def concerns(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer is one of those given, or holds parameters of the model; such a one is adopted."""
        if id(optimizer) in self.steppers:
            return True
        if optimizer in self.strangers:
            return False
        if any(id(p) in self.own for group in optimizer.param_groups for p in group["params"]):
            self.adopt(optimizer)
            return True
        self.strangers.add(optimizer)
        return False

    def adopt(self, optimizer: torch.optim.Optimizer) -> None:
        """Follows the steps of an optimizer."""
        stepper = self.steppers[id(optimizer)] = Stepper(optimizer)
        self.holders.update((id(p), stepper) for p in stepper.parameters)

    def drawn(self, event: tuple[Any, Any, float]) -> None:
        """A batch was drawn from some loader: (iterator, batch, seconds waited)."""
        iterator = event[0]
        if self.iterator is None or self.iterator() is not iterator:
            self.iterator = weakref.ref(iterator)
            self.modes.split = "val" if comes_from(iterator, self.setup.val_loader) else "train"
        if self.modes.split == "train":
            for one in self.steppers.values():
                one.interval.draws += 1

    def passed(self, output: Any) -> None:
        """A forward pass of the whole model is over."""
        self.modes.ends(output)
        self.holding.mark(output, self.steps)

    def backward_begins(self, roots: Sequence[Tensor]) -> None:
        """A backward pass is about to run from some roots."""
        self.mark("backward")
        self.from_scaled = self.scalers.begins_from(roots)
        if not self.modes.under_way:
            self.holding.mark(roots, self.steps)
        if not self.looking:
            return
        self.passes += 1
        for one in self.steppers.values():
            if not one.interval.cleared:
                one.interval.found(not one.has_gradients)
            one.touch = Touch(one.parameters)
        if not self.reached:
            self.trace(roots)
        self.undivided = not any(is_divided(root, self.from_scaled) for root in roots)
        self.line = caller(sys._getframe(1))

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
        self.modes.pulled()
        for one in self.steppers.values():
            one.interval.pulled()
            self.added(one)
        if self.looking:
            self.ledger.look_at_gradients()
        if not self.steppers:
            self.modes.stepped()

    def added(self, one: Stepper) -> None:
        """Counts the pass for an optimizer whose gradients it added to."""
        touch, one.touch = one.touch, None
        one.interval.looked &= touch is not None
        if touch is not None and touch.added:
            one.interval.passes += 1
            one.interval.scaled += self.from_scaled
            one.interval.undivided += self.undivided
            one.interval.lines.add(self.line)

    def cleared(self, owner: Any) -> None:
        """The gradients of an optimizer or a module were cleared."""
        self.mark("zero_grad")
        for one in self.steppers.values():
            if one.optimizer is owner or (isinstance(owner, nn.Module) and holds(owner, one)):
                one.interval.clear()

    def clipped(self, clip: Clip) -> None:
        """Gradients were clipped."""
        self.mark("clip")
        holder = next((one for p in clip.parameters if (one := self.holders.get(id(p)))), None)
        self.clipping.heard(clip, holder)

    def scaled(self, event: Scaled) -> None:
        """A GradScaler was called."""
        self.mark(event.kind)
        one = self.steppers.get(id(event.optimizer))
        if event.kind == "scale":
            self.scalers.scaled(event)
        elif one is None:
            return
        elif event.kind == "unscale":
            one.interval.unscaled = True
        elif event.kind == "step":
            one.interval.through, self.asked_at = True, one.steps
            self.scalers.asked += 1
        elif event.kind == "skipped":
            self.skipped(one)

    def skipped(self, one: Stepper) -> None:
        """A GradScaler has left a step out, by not calling the optimizer or by telling it not to move."""
        self.scalers.skipped += 1
        self.modes.before_step = None
        if one.steps == self.asked_at:
            one.skip()
        else:
            one.skipped, one.last.skipped = one.skipped + 1, True

    def step_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to step."""
        self.mark("optimizer")
        stepper = self.steppers[id(optimizer)]
        stepper.begin()
        self.scalers.stepped(stepper.interval)
        self.summing.stepped(stepper.interval)
        if self.lost.names and self.looking:
            self.lost.begins(stepper)

    def step_done(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has stepped."""
        self.lost.done()
        self.steppers[id(optimizer)].done()
        self.modes.stepped()
        self.passes = 0
        if self.looking:
            self.holding.look(self.steps)
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
        self.holding.look(self.steps)
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
            clips=self.clipping.seen(),
            scaling=self.scalers.seen(),
            passes=self.modes.seen(),
            sums=self.summing.seen(),
            held=self.holding.worst,
            moved={name: tuple(looks) for name, looks in self.lost.seen.items()},
        )


def holds(module: nn.Module, one: Stepper) -> bool:
    """Whether an optimizer holds a parameter of a module."""
    held = {id(p) for p in one.parameters}
    return any(id(p) in held for p in module.parameters())
