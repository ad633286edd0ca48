"""Watching the user's own loop: its loss and its rate, drawn under the cell while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from nbdebug.graph.source import Line
from nbdebug.probes.loss_call import loss_call
from nbdebug.probes.losses import losses
from nbdebug.probes.steps import steps
from nbdebug.record import Record
from nbdebug.result import Result
from nbdebug.setup import Setup
from nbdebug.views.curves import Curves
from nbdebug.views.screen import show

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.base import View

FETCH_SECONDS = 0.1
Value = TypeVar("Value")


@dataclass(frozen=True)
class Watched(Result):
    """A run that was watched: its loss and learning rate by step; ``overhead`` is the share of the time it cost."""

    loss: tuple[tuple[float, float], ...]
    rate: tuple[tuple[float, float], ...]
    steps: int
    interrupted: bool = False
    overhead: float = 0.0

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
        return f"nbdebug watch: {self.steps} steps{ends}{cut}; watching took {self.cost}"

    @property
    def cost(self) -> str:
        """The overhead in words."""
        return f"{self.overhead:.1%} of the time"


class Watch:
    """A block around the user's own training loop; its ``result`` is there when the block ends.

    Losses stay on their device and are fetched together every few steps; nothing else is touched. ``loss_line`` is the
    line that called the loss first.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup, self.record = setup, Record()
        self.step, self.fetched = 0, time.monotonic()
        self.started = self.spent = 0.0
        self.pending: list[tuple[int, Tensor, float]] = []
        self.since_step: list[Tensor] = []
        self.result: Watched | None = None
        self.loss_line: Line | None = None

    def __enter__(self) -> Watch:
        """Opens the probes and the live view."""
        self.stack = ExitStack()
        self.screen = self.stack.enter_context(show(Curves(title="Training", x_label="step", y_label="loss")))
        self.stack.enter_context(losses(self.timed(self.seen_loss)))
        self.stack.enter_context(loss_call(self.setup.loss_fn, partial(setattr, self, "loss_line")))
        self.stack.enter_context(steps(self.setup.optimizers, self.timed(self.seen_step)))
        self.started = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Closes the probes and leaves a static picture in place of the live view; exceptions pass through."""
        overhead = self.spent / (time.perf_counter() - self.started)
        with self.stack:
            if self.since_step:
                self.seen_step(float("nan"))
            self.fetch()
            stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
            loss, rate = tuple(self.record.column("loss")), tuple(self.record.column("lr"))
            self.result = Watched(loss, rate, self.step, stopped, overhead)
            self.screen.finish(self.result)

    def timed(self, act: Callable[[Value], None]) -> Callable[[Value], None]:
        """The same, with its time added to what watching costs."""

        def call(value: Value) -> None:
            begun = time.perf_counter()
            try:
                act(value)
            finally:
                self.spent += time.perf_counter() - begun

        return call

    def seen_loss(self, loss: Tensor) -> None:
        """Keeps a loss until its step; where no optimizer is known, each backward pass counts as a step."""
        self.since_step.append(loss)
        if not self.setup.optimizers:
            self.seen_step(float("nan"))

    def seen_step(self, rate: float) -> None:
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
            self.record.append({"step": step, "loss": value, "lr": rate})
            self.screen.append({"step": step, "loss": value})
        self.pending.clear()
