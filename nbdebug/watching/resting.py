"""What is done at the events of a step of which the order of events is not followed.

After a backward pass the caches hold nothing of ours: each function that is entered costs microseconds, each call of
torch ten. So a plain step, of one optimizer on the CPU and without a GradScaler, goes through few of them.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import torch

from nbdebug.probes.losses import Roots

if TYPE_CHECKING:
    from nbdebug.watching.session import Session


class Resting:
    """The short way through the events of a session; it comes to what the long one comes to in such a step.

    Each method but ``slept`` gives whether it could be gone; nothing is done where it could not.
    """

    def __init__(self, session: Session) -> None:
        self.session, self.meter, self.ring = session, session.meter, session.ring
        self.follower, self.recorder, self.strides = session.follower, session.recorder, session.strides

    def backward(self, roots: Roots) -> bool:
        """A backward pass is about to run; what is done after it is done now."""
        session, ring, follower = self.session, self.ring, self.follower
        plain = not ring.deferred and not ring.stepping and ring.scaler is None and follower.steppers
        if not plain or len(roots) != 1 or self.recorder.evaluation:
            return False
        try:
            loss = float(roots[0].item())
        except (RuntimeError, TypeError):  # of more than one value, or a complex one
            return False
        if not (self.meter.asleep and math.isfinite(loss)):
            self.meter.attempt("replay", ring.backward_begins, roots, loss)
        self.recorder.row.losses.append(loss)
        follower.rests()
        if session.batches and follower.backwards % session.batches == 0:
            session.ended = True
        return True

    def step_begins(self, optimizer: torch.optim.Optimizer | None) -> bool:
        """An optimizer is about to step."""
        if optimizer is None or optimizer is not self.follower.first or self.strides.look or self.meter.norming:
            return False
        if self.follower.steppers[id(optimizer)].interval.clip:
            self.session.clipped(optimizer)
        self.meter.attempt("replay", self.ring.step_begins, optimizer)
        return True

    def step_done(self, optimizer: torch.optim.Optimizer) -> bool:
        """An optimizer has stepped; where nothing is due, the next step is such a one again."""
        session, follower, recorder, now = self.session, self.follower, self.recorder, time.perf_counter()
        if optimizer is not follower.first or self.strides.look or self.strides.square is not None or session.ended:
            return False
        follower.rested(follower.steppers[id(optimizer)])
        self.ring.step_done(optimizer)
        recorder.finish(optimizer, now)
        session.boundary = True
        if follower.due or follower.marking or not self.meter.goes_on(recorder.step, now):
            session.prepare()
        return True

    def slept(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has stepped in a step of which nothing is heard but its loss."""
        session, follower, now = self.session, self.follower, time.perf_counter()
        if optimizer is not follower.first:
            return
        follower.rested(follower.steppers[id(optimizer)])
        self.ring.leave_out()
        self.recorder.leave_out(optimizer, now)
        session.boundary = True
        if session.ended:
            session.epoch_ends()
        if follower.due or not self.meter.sleeps_on(self.recorder.step, now):
            session.prepare()
