"""Watching the user's own loop: its loss and its rate, drawn under the cell while it runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nbdebug.graph.source import Line
from nbdebug.loop import Follower
from nbdebug.probes.calls import calls
from nbdebug.probes.loss_call import loss_call
from nbdebug.probes.losses import Roots, backwards
from nbdebug.probes.steps import steps
from nbdebug.record import Record
from nbdebug.replay import Replay, Ring, replay
from nbdebug.replay.hearing import hearing
from nbdebug.replay.ring import gradients_are_finite
from nbdebug.report import Report, merged
from nbdebug.result import Result
from nbdebug.setup import Setup
from nbdebug.tools.checkup import judged
from nbdebug.views.curves import Curves
from nbdebug.views.screen import show

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.base import View

FETCH_SECONDS = 0.1


@dataclass(frozen=True)
class Watched(Result):
    """A run that was watched: its loss and learning rate by step, and what the rules say of the loop.

    ``overhead`` is the share of the time that watching cost, ``trouble`` what ended it before the loop, if anything.
    """

    loss: tuple[tuple[float, float], ...]
    rate: tuple[tuple[float, float], ...]
    steps: int
    interrupted: bool = False
    overhead: float = 0.0
    report: Report = field(default_factory=Report)
    trouble: str = ""

    def view(self) -> View:
        """The loss by step."""
        status = f"{self.steps} steps{', interrupted' if self.interrupted else ''}; watching took {self.cost}"
        return Curves(title="Training", x_label="step", y_label="loss", series={"loss": list(self.loss)}, status=status)

    def to_frame(self) -> pandas.DataFrame:
        """One row a recorded step: step, loss, learning rate."""
        import pandas as pd

        rates = dict(self.rate)
        rows = [(int(step), value, rates.get(step)) for step, value in self.loss]
        return pd.DataFrame(rows, columns=["step", "loss", "learning_rate"])

    def draw(self, ax: Axes) -> None:
        """The loss by step."""
        ax.plot(*zip(*self.loss, strict=True) if self.loss else ([], []))
        ax.set(xlabel="step", ylabel="loss")

    def __str__(self) -> str:
        """Steps, and the loss at both ends."""
        ends = f", loss {self.loss[0][1]:.4g} → {self.loss[-1][1]:.4g}" if self.loss else ", no backward pass was seen"
        cut = " (interrupted)" if self.interrupted else ""
        head = f"nbdebug watch: {self.steps} steps{ends}{cut}; watching took {self.cost}"
        early = f"watching ended early: {self.trouble}" if self.trouble else ""
        return "\n\n".join(filter(None, [head, early, *map(str, self.report.loud)]))

    @property
    def cost(self) -> str:
        """The overhead in words."""
        return f"{self.overhead:.1%} of the time"


class Watch:
    """A block around the user's own training loop; its ``result`` is there when the block ends.

    Losses stay on their device and are fetched together every few steps; nothing else is touched. ``keep`` is given
    what the rules say of the loop; ``loss_line`` is the line that called the loss first.
    """

    def __init__(self, setup: Setup, keep: Callable[[Report], None] = lambda _: None) -> None:
        self.setup, self.keep, self.record = setup, keep, Record()
        self.step, self.fetched = 0, time.monotonic()
        self.started = self.spent = 0.0
        self.pending: list[tuple[int, Tensor, float]] = []
        self.since_step: list[Tensor] = []
        self.result: Watched | None = None
        self.trouble = ""
        self.loss_line: Line | None = None
        self.ring = Ring(setup)

    def replay(self) -> Replay | None:
        """The first step whose loss or gradient was not finite, run again; None where there was none."""
        return replay(self.setup, self.ring.incident) if self.ring.incident else None

    def __enter__(self) -> Watch:
        """Opens the probes and the live view."""
        self.follower = follower = Follower(self.setup)
        self.stack, self.probes = ExitStack(), ExitStack()
        self.screen = self.stack.enter_context(show(Curves(title="Training", x_label="step", y_label="loss")))
        probes = [
            backwards(self.timed(self.backward_begins), self.timed(self.seen_backward)),
            steps(self.setup.optimizers, self.timed(self.step_begins), self.timed(self.seen_step)),
            calls(torch.optim.Optimizer, "zero_grad", self.timed(follower.cleared)),
            calls(nn.Module, "zero_grad", self.timed(follower.cleared)),
            loss_call(self.setup.loss_fn, partial(setattr, self, "loss_line")),
        ]
        if self.setup.scheduler is not None:
            probes.append(calls(type(self.setup.scheduler), "step", self.timed(follower.schedule)))
        probes.append(hearing(self.ring, self.timed))
        for probe in probes:
            self.probes.enter_context(probe)
        self.started = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Closes the probes and leaves a static picture in place of the live view; exceptions pass through."""
        overhead = self.spent / (time.perf_counter() - self.started)
        self.probes.close()
        with self.stack:
            if self.since_step:
                self.row(float("nan"))
            self.fetch()
            stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
            loss, rate = (tuple(zip(*self.record.series(name), strict=True)) for name in ("loss", "lr"))
            report = self.judged([one for _, one in rate])
            self.result = Watched(loss, rate, self.step, stopped, overhead, report, self.trouble)
            self.screen.finish(self.result)
        if report.loud:
            with show(report.view()) as screen:
                screen.finish(report)

    def judged(self, rates: list[float]) -> Report:
        """What the rules say of the loop; nothing where it was not seen."""
        if self.trouble or not self.follower.backwards:
            return Report()
        try:
            seen = self.replay()
            said = judged(self.setup, loop=self.follower.seen(rates), record=self.record, incident=seen)
            report = merged([said, seen.report]) if seen else said
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"
            return Report()
        self.keep(report)
        return report

    def backward_begins(self, roots: Roots) -> None:
        """A backward pass is about to run."""
        self.follower.backward_begins(roots)
        self.ring.backward_begins(roots)

    def step_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to step."""
        self.follower.step_begins(optimizer)
        self.ring.step_begins(optimizer, gradients_are_finite(self.setup))

    def timed(self, act: Callable[..., None]) -> Callable[..., None]:
        """The same, with its time added to what watching costs; what it raises ends the watching, never the loop."""

        def call(*values: Any) -> None:
            if self.trouble:
                return
            begun = time.perf_counter()
            try:
                act(*values)
            except Exception as error:
                self.trouble = f"{type(error).__name__}: {error}"
            finally:
                self.spent += time.perf_counter() - begun

        return call

    def seen_backward(self, roots: Roots) -> None:
        """Keeps the loss until its step; where no optimizer is known, each backward pass counts as a step."""
        self.follower.backward_done()
        self.ring.backward_done()
        self.since_step += [one.detach().reshape(()) for one in roots if one.numel() == 1]
        if not self.setup.optimizers:
            self.row(float("nan"))

    def seen_step(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has stepped; a step of the first one is a row."""
        self.follower.step_done(optimizer)
        self.ring.step_done(optimizer)
        if optimizer is self.setup.optimizers[0]:
            self.row(float(optimizer.param_groups[0]["lr"]))

    def row(self, rate: float) -> None:
        """One row: the mean of the losses since the last step, and the rate."""
        self.step += 1
        if self.since_step:
            mean = torch.stack([one.float() for one in self.since_step]).mean()
            self.pending.append((self.step, mean, rate))
            self.since_step.clear()
        if time.monotonic() - self.fetched > FETCH_SECONDS:
            self.fetch()

    def fetch(self) -> None:
        """Brings the losses that wait from their device, all at once."""
        self.fetched = time.monotonic()
        if not self.pending:
            return
        values = torch.stack([loss for _, loss, _ in self.pending]).tolist()
        for (step, _, rate), value in zip(self.pending, values, strict=True):
            seen = math.copysign(math.inf, value) if not math.isfinite(value) else value
            self.record.run.append(step, {"loss": seen, "lr": rate})
            self.screen.append({"step": step, "loss": value})
        self.pending.clear()
