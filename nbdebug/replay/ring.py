"""The last passes of a running loop, so that one that fails can be run again."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.graph.origins import Origin
from nbdebug.graph.source import caller
from nbdebug.preserve import Preserve
from nbdebug.probes.scaling import Scaled
from nbdebug.replay.blame import blame
from nbdebug.replay.buffers import Buffers
from nbdebug.replay.incident import Copies, Incident, Phase, copies, largest, modes, states, weigh
from nbdebug.replay.passes import Drawn, Forward, Pass, held, vary, versions
from nbdebug.replay.pulse import Pulse
from nbdebug.replay.spare import Spare
from nbdebug.replay.surroundings import casts, random_state
from nbdebug.setup import Setup

MOST_PASSES, MOST_FORWARDS, MOST_BYTES = 32, 8, 64 << 20
MOST_WEIGHTS = 1 << 30  # bytes of parameters and buffers that are copied when a loss is not finite
MOST_FREEZES = 8
KNOWN = 64  # steps of which each tells whether passes draw random numbers; later ones at such distances
OVERFLOWS = 16  # in a row: they bring a GradScaler from its first scale, 2**16, down to one


class Ring:
    """Hears of batches, forward calls, losses and steps, and freezes the first pass that is not finite.

    On the CPU a loss is looked at when its backward pass begins. On other devices nothing is waited for: whoever
    fetches the losses calls ``seen_non_finite``; with ``keep_weights`` the device then holds the weights of that step.
    """

    def __init__(self, setup: Setup, *, keep_weights: bool = False, deferred: bool | None = None) -> None:
        device = next(setup.eager.parameters()).device
        self.setup, self.place = setup, str(device)
        self.first = next(iter(setup.optimizers), None)
        self.deferred = device.type != "cpu" if deferred is None else deferred
        self.spare = Spare(states(setup), device) if keep_weights and self.deferred else None
        self.kinds = tuple(dict.fromkeys(("cpu", device.type)))
        self.buffers, self.largest = Buffers(setup.eager), largest(list(setup.eager.parameters()))
        self.now = Pass()
        self.drawn: Drawn | None = None
        self.random, self.casts = random_state(self.place), casts(self.kinds)
        self.varied = self.resting = False
        self.passes: deque[tuple[int, Pass]] = deque(maxlen=MOST_PASSES)
        self.pulse = Pulse(setup.eager)
        self.scaler: Any = None
        self.incidents: list[Incident] = []
        self.steps = self.freezes = self.overflows = 0
        self.wrong_at = -1
        self.stepping = self.asleep = False
        self.unheard = 0

    @property
    def incident(self) -> Incident | None:
        """The first step that was not finite; None where all were."""
        return self.incidents[0] if self.incidents else None

    @property
    def step(self) -> int:
        """The number of the step that is under way, from one."""
        return self.steps + 1

    def batch_drawn(self, batch: Any, indices: tuple[int, ...] | None = None) -> None:
        """The training loader has given a batch; ``indices`` are its places in the data set."""
        self.drawn = Drawn(batch, random_state(self.place) if self.setup.step_fn else {}, indices)

    def forward_begins(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The model, in training mode, is about to be called.

        What random numbers and autocast do not change for passes that were looked at is not asked again while
        ``resting``.
        """
        if len(self.now.forwards) == MOST_FORWARDS:
            del self.now.forwards[0]
        if self.buffers.held:
            self.buffers.look()
        if self.varied or not self.resting:
            self.random, self.casts = random_state(self.place), casts(self.kinds)
        kept, named = held(args), held(kwargs) if kwargs else kwargs
        self.now.forwards.append(Forward(kept, named, self.random, self.casts, versions(kept, named)))

    def loss_called(self, args: tuple[Any, ...]) -> None:
        """A loss that is a module is about to be called."""
        self.now.targets = held(args[1:])

    def loss_scaled(self, scaler: Any) -> None:
        """A GradScaler has scaled a loss: Inf is then by design, and NaN is not."""
        self.scaler = scaler

    def scaled(self, event: Scaled) -> None:
        """A GradScaler was called."""
        if event.kind == "scale":
            self.loss_scaled(event.scaler)
        elif event.kind == "skipped" and event.optimizer is not None:
            self.skipped(event.optimizer)

    def backward_begins(self, roots: Sequence[Tensor], loss: float | None = None) -> None:
        """A backward pass is about to run from some roots; ``loss`` is what they come to, where somebody has looked."""
        if not (self.varied or self.resting) and (self.steps < KNOWN or self.steps % KNOWN == 0):
            self.varied = vary(self.now.forwards, random_state(self.place))
        now, self.now = self.now, Pass()
        now.drawn = self.drawn
        self.passes.append((self.steps + 1, now))
        if len(self.passes) > 1:
            self.let_go()
        if self.deferred:
            if self.spare:
                self.spare.seen([one for one in roots if one.numel() == 1], scaled=self.scaler is not None)
        else:
            now.loss = self.seen(roots) if loss is None else loss
            if now.loss is not None and not math.isfinite(now.loss) and (math.isnan(now.loss) or self.scaler is None):
                self.wrong("loss", lambda: self.read(roots))

    def seen(self, roots: Sequence[Tensor]) -> float | None:
        """What some losses come to; None where there is none."""
        losses = [one.item() for one in roots if one.numel() == 1]
        return sum(losses) / (self.scaler.get_scale() if self.scaler else 1.0) if losses else None

    def backward_done(self) -> None:
        """A backward pass has run; its gradient is looked at now inside a step, as of LBFGS, or where none is heard."""
        now = self.stepping or (self.first is None and self.scaler is None)
        if now and not self.deferred and not self.pulse.is_finite():
            self.wrong("gradient")
        self.steps += self.first is None

    def step_begins(self, optimizer: torch.optim.Optimizer, finite: bool | Tensor | None = None) -> None:
        """An optimizer is about to step; ``finite`` says whether its gradients are, None where nobody has looked."""
        self.stepping, self.overflows, self.scaler = True, 0, None
        self.first = self.first or optimizer
        if self.spare and optimizer is self.first:
            self.spare.keep(True if finite is None else finite)
        elif self.deferred or getattr(optimizer, "found_inf", None) is not None:  # which lets it leave the step out
            return
        elif not (self.pulse.is_finite() if finite is None else finite):
            self.wrong("gradient")

    def leave_out(self) -> None:
        """A step of the first optimizer is done of which nothing was heard but its loss."""
        self.steps, self.unheard, self.drawn = self.steps + 1, self.unheard + 1, None
        if not self.deferred:
            self.passes.clear()

    def step_done(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has stepped."""
        self.stepping, self.unheard = False, 0
        if optimizer is self.first:
            self.steps += 1
            if not self.deferred:
                self.passes.clear()

    def skipped(self, optimizer: torch.optim.Optimizer) -> None:
        """A GradScaler has left a step out; that is by design, until scaling down no longer helps."""
        if optimizer not in (self.first, *self.setup.optimizers):
            return
        self.overflows, self.scaler = self.overflows + 1, None
        if self.overflows == OVERFLOWS and not self.deferred:
            self.wrong("gradient")
        self.steps += optimizer is self.first

    def wrong(self, phase: Phase, find: Callable[[], Origin | None] = lambda: None) -> None:
        """This step is not finite; what follows from one before is not looked into."""
        if self.wrong_at < self.step - 1:
            self.freeze(phase, find)
        self.wrong_at = self.step

    def seen_non_finite(self, step: int, phase: Phase = "loss", loss: float | None = None) -> None:
        """The values of a step have arrived from the device, and are not finite."""
        if self.incidents:
            return
        for at, one in self.passes:
            one.loss = loss if at == step else one.loss
        self.freeze(phase, step=step)

    def left_open(self) -> Incident | None:
        """The pass that the loop has left before its backward pass, as one does whose loss is seen to be NaN."""
        if not self.now.forwards or self.incidents or self.deferred:
            return None
        self.now.drawn = self.drawn
        self.passes.append((self.step, self.now))
        self.now = Pass()
        self.freeze("loss")
        return self.incidents.pop()

    def freeze(self, phase: Phase, find: Callable[[], Origin | None] = lambda: None, step: int | None = None) -> None:
        """Copies what the pass began with; of several incidents the first and the last are kept."""
        if self.freezes == MOST_FREEZES:
            return
        self.freezes += 1
        number = step or self.step
        passes = [one for at, one in self.passes if at == number]
        if phase == "loss" and not self.deferred:
            passes = passes[-1:]
        notes = [] if passes else ["Its batch was no longer held."]
        if any(call.changed for one in passes for call in one.forwards):
            notes.append("Its inputs were written to in place after the pass began.")
        weights = self.weights(notes)
        one = Incident(
            step=number,
            phase=phase,
            loss=passes[-1].loss if passes else None,
            passes=[part.copied() for part in passes],
            weights=weights,
            modes=modes(self.setup),
            largest=(self.largest, math.nan if weights is None and self.deferred else self.grown(weights)),
            blame=find(),
            line=caller(sys._getframe(1)),
            notes=notes,
            unheard=self.unheard + self.asleep,
        )
        self.incidents = [*self.incidents[:1], one]

    def read(self, roots: Sequence[Tensor]) -> Origin | None:
        """What the graph of a loss tells, where it is small enough to be read: a checkpoint in it runs the model."""
        if weigh(states(self.setup)) > MOST_WEIGHTS:
            return None
        with Preserve(*self.setup.owned):
            return blame(roots, caller(sys._getframe()))

    def weights(self, notes: list[str]) -> Copies | None:
        """What the pass began with; None, and a note that says why, where that is gone or too large to copy."""
        if self.spare:
            return list(zip(self.spare.held, self.spare.copies, strict=True))
        found = states(self.setup)
        if self.deferred:
            notes.append("The weights had moved on when the loss arrived from the device.")
        elif weigh(found) > MOST_WEIGHTS:
            notes.append(f"The weights take {weigh(found) / 1e9:.1f} GB and were not copied.")
        else:
            return copies(found, self.buffers)
        return None

    def grown(self, weights: Copies | None) -> float:
        """The largest weight that the pass began with."""
        kept = {id(one): value for one, value in weights or ()}
        return largest([kept.get(id(p), p) for p in self.setup.eager.parameters()])

    def let_go(self) -> None:
        """Forgets passes of steps that are over, and the oldest of the others where they hold much memory."""
        while not self.deferred and self.passes[0][0] <= self.steps:
            self.passes.popleft()
        if len(self.passes) > 1:
            self.passes[-1][1].weighed()
            while len(self.passes) > 2 and sum(one.bytes for _, one in self.passes) > MOST_BYTES:
                self.passes.popleft()
