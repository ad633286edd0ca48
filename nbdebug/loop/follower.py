"""Follows the user's own loop from event to event."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.graph.source import Line, caller
from nbdebug.loop.clips import Clipping
from nbdebug.loop.drawing import Drawing
from nbdebug.loop.ends import Ends
from nbdebug.loop.held import Holding
from nbdebug.loop.interval import Stepper
from nbdebug.loop.ledger import Ledger
from nbdebug.loop.loop import Loop
from nbdebug.loop.lost import Lost
from nbdebug.loop.matches import Matching
from nbdebug.loop.modes import Modes
from nbdebug.loop.operands import Operands, operands
from nbdebug.loop.pulls import Touch
from nbdebug.loop.reloads import Reloading
from nbdebug.loop.scaling import Scalers
from nbdebug.loop.schedules import Scheduling
from nbdebug.loop.seen import seen
from nbdebug.loop.shadows import Shadows
from nbdebug.loop.sums import Summing, is_divided
from nbdebug.loop.twice import Doubling
from nbdebug.loop.waits import Waiting
from nbdebug.probes.calls import arguments, calls
from nbdebug.probes.clipping import Clip, clipping
from nbdebug.probes.modes import switchings
from nbdebug.probes.scaling import Scaled, scaling
from nbdebug.probes.syncs import Sync, syncs
from nbdebug.setup import Setup

MARKED, SELDOM = 64, 16  # so many steps are followed and their graphs marked; of later ones at least one in 16
EAGER = 8  # steps that are looked at one by one; later ones at powers of two
SAMPLE = 64  # parameters whose gradients tell whether a backward pass was one of this model
MOST_PASSES = 32  # backward passes between two steps that are looked at
Guard = Callable[[Callable[[Any], None]], Callable[[Any], None]]


class Follower:
    """Hears of backward passes, cleared gradients, steps and schedules, and counts them in order.

    The steps of the ``first`` optimizer count as those of the loop.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup, self.ledger = setup, Ledger(setup.eager)
        self.clipping, self.scalers, self.summing = Clipping(), Scalers(), Summing()
        self.modes, self.holding, self.lost = Modes(setup.eager), Holding(), Lost(setup.eager)
        self.waiting, self.doubling, self.scheduling = Waiting(), Doubling(), Scheduling()
        self.drawing, self.matching = Drawing(setup), Matching()
        self.own = {id(p): tuple(p.shape) for p in setup.eager.parameters()}
        self.reloading, self.shadows = Reloading(self.own), Shadows(setup.eager)
        self.sample = [*setup.eager.parameters()][:: 1 + len(self.own) // SAMPLE]
        self.touch = Touch(self.sample)
        self.concerned, self.ever, self.alone = True, False, True
        self.first: torch.optim.Optimizer | None = None
        self.steppers: dict[int, Stepper] = {}
        self.holders: dict[int, Stepper] = {}
        self.strangers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        for one in setup.optimizers:
            self.adopt(one)
        self.backwards = self.followed = self.passes = self.marked = 0
        self.ends = Ends()
        self.operands: Operands | None = None
        self.from_scaled = self.undivided = self.resting = False
        self.due = self.marking = True
        self.line: Line | None = None
        self.lines: dict[str, Line] = {}

    def probes(self, guard: Guard) -> list[AbstractContextManager[None]]:
        """What hears all events but forward and backward passes, steps and batches; ``guard`` wraps each callback."""
        heard: list[AbstractContextManager[None]] = [
            calls(torch.optim.Optimizer, "zero_grad", self.awake(guard(self.cleared))),
            calls(nn.Module, "zero_grad", self.awake(guard(self.cleared))),
            arguments(nn.Module, "load_state_dict", guard(self.reloading.heard)),
            arguments(Tensor, "__eq__", self.matching.hears(guard)),
            clipping(guard(self.clipped)),
            scaling(guard(self.scaled)),
            switchings(guard(self.modes.switched)),
        ]
        if (kind := self.setup.home.type) == "cuda":
            heard.append(syncs(kind, guard(self.waited)))
        if self.setup.scheduler is not None:
            heard.append(arguments(type(self.setup.scheduler), "step", guard(self.scheduling.heard)))
        return heard

    def awake(self, act: Callable[[Any], None]) -> Callable[[Any], None]:
        """The same, left out in a step that is not followed."""
        return lambda value: None if self.resting else act(value)

    def rest(self, wish: bool) -> None:
        """Leaves out the order of events in the step that begins, if that is wished and can be done.

        It cannot where losses are scaled, or where several optimizers or models take turns.
        """
        can = len(self.steppers) == 1 and self.alone and self.scalers.scaler is None
        self.resting = wish and can and not (self.due or self.marking)

    @property
    def steps(self) -> int:
        """The steps of all optimizers; backward passes where none has stepped."""
        return sum([one.steps for one in self.steppers.values()]) or self.backwards

    @property
    def looking(self) -> bool:
        """Whether this step is one to look at, for which the device must be waited for."""
        return self.due and self.passes < MOST_PASSES

    def next_step(self, steps: int) -> None:
        """So many steps are over; whether the next one is looked at, and whether its graphs are marked, is settled."""
        self.due = steps < EAGER or steps & (steps - 1) == 0
        self.marked = steps if self.marking and not self.resting else self.marked
        self.marking, self.passes = steps < MARKED or steps - self.marked >= SELDOM, 0

    def concerns(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer is one of those given, or holds parameters of the model; such a one is adopted."""
        if id(optimizer) in self.steppers:
            return True
        held = (id(p) for group in optimizer.param_groups for p in group.get("params", ()))
        if optimizer not in self.strangers and not self.own.keys().isdisjoint(held):
            self.adopt(optimizer)
            return True
        self.strangers.add(optimizer)
        return False

    def adopt(self, optimizer: torch.optim.Optimizer) -> None:
        """Follows the steps of an optimizer."""
        stepper = self.steppers[id(optimizer)] = Stepper(optimizer)
        self.first = self.first or optimizer
        self.doubling.adopts(stepper)
        self.holders.update((id(p), stepper) for p in stepper.parameters)

    def drawn(self, event: tuple[Any, Any, float]) -> None:
        """A batch was drawn from some loader: (iterator, batch, seconds waited)."""
        self.modes.split = self.drawing.drawn(*event[:2])
        if self.modes.split == "train":
            for one in self.steppers.values():
                one.interval.draws += 1

    def wants_output(self) -> bool:
        """Whether what the model puts out now tells anything."""
        return (self.marking and not self.resting) or self.modes.shape is None

    def passed(self, output: Any) -> None:
        """A forward pass of the whole model is over."""
        self.modes.ends(output)
        if self.marking:
            self.holding.mark(output, self.steps, self.modes.split == "val")

    def backward_begins(self, roots: Sequence[Tensor]) -> None:
        """A backward pass is about to run from some roots."""
        if self.resting:
            return
        self.mark("backward")
        self.from_scaled = self.scalers.begins_from(roots)
        self.touch = Touch(self.sample)
        if self.marking and not self.modes.under_way:
            self.holding.mark(roots, self.steps)
        if not self.looking:
            return
        self.passes += 1
        for one in self.steppers.values():
            if not one.interval.cleared:
                one.interval.found(not one.has_gradients)
            one.touch = Touch(one.parameters)
        if not self.ends.reached:
            self.ends = Ends.of(roots, self.own)
        self.operands = self.operands or operands(roots)
        self.undivided = not any(is_divided(root, self.from_scaled) for root in roots)
        self.line = caller(sys._getframe(1))

    def plain(self, root: Tensor) -> Tensor:
        """The loss that the latest backward pass began from, without the factor of a GradScaler."""
        scale = self.scalers.factor if self.from_scaled else None
        return root.detach() / scale if scale is not None else root

    def backward_done(self) -> None:
        """A backward pass has run; one that adds to no gradient of the model is another's, once others have.

        What is told of it then is in ``concerned``.
        """
        if self.resting:
            return self.rests()
        unsure = len(self.sample) < len(self.own) and self.modes.under_way is not None
        added = self.touch.added or unsure
        self.ever |= added
        self.concerned = added or not self.ever
        if not self.concerned:
            self.alone = False
            return
        self.backwards += 1
        self.doubling.backward()
        self.modes.pulled()
        if self.marking:
            self.holding.pulled(self.steps)
        for one in self.steppers.values():
            one.interval.pulled()
            self.added(one)
        if self.looking:
            self.ledger.look_at_gradients()
        if not self.steppers:
            self.modes.stepped()
            self.next_step(self.steps)

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
            if one.optimizer is owner or (isinstance(owner, nn.Module) and one.shares(owner)):
                one.interval.clear()

    def clipped(self, clip: Clip) -> None:
        """Gradients were clipped."""
        self.mark("clip")
        holder = next((one for p in clip.parameters if (one := self.holders.get(id(p)))), None)
        self.clipping.heard(clip, holder)

    def scaled(self, event: Scaled) -> None:
        """A GradScaler was called."""
        self.mark(event.kind)
        self.scalers.heard(event, self.steppers.get(id(event.optimizer)))
        if event.kind == "skipped":
            self.modes.before_step, self.passes = None, 0

    def waited(self, sync: Sync) -> None:
        """A value was fetched from the device."""
        if self.due:
            self.waiting.heard(sync)

    def step_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to step."""
        if self.resting:
            return
        self.mark("optimizer")
        stepper = self.steppers[id(optimizer)]
        stepper.begin()
        self.doubling.begins(stepper)
        self.scalers.stepped(stepper.interval)
        self.summing.stepped(stepper)
        if self.lost.names and self.looking:
            self.lost.begins(stepper)

    def step_done(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has stepped."""
        stepper = self.steppers[id(optimizer)]
        if self.resting:
            return self.rested(stepper)
        stepper.done()
        self.doubling.done(stepper)
        self.followed += 1
        self.lost.done()
        self.modes.stepped()
        self.waiting.known += self.due
        self.next_step(self.steps)
        if self.due:
            self.holding.look(self.steps)
            self.shadows.look(sys._getframe(1))
        if self.steps == EAGER:
            self.ledger.look_at_values()

    def rests(self) -> None:
        """A backward pass runs that is not followed."""
        self.backwards += 1
        for one in self.steppers.values():
            one.interval.backward = True

    def rested(self, stepper: Stepper) -> None:
        """The only optimizer has stepped, and the step was not followed; nothing is kept of its interval."""
        stepper.steps += 1
        stepper.interval.backward, stepper.interval.draws, stepper.interval.clip = False, 0, None
        self.next_step(stepper.steps)

    def mark(self, event: str) -> None:
        """Keeps the user's line that an event comes from, the first time."""
        if event not in self.lines and self.backwards < EAGER and (line := caller(sys._getframe(2))):
            self.lines[event] = line

    def seen(self, rates: Sequence[float]) -> Loop:
        """All that was seen so far; ``rates`` are the learning rates of the steps."""
        return seen(self, rates)
