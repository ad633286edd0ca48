"""Collects the numbers of each step, and writes them to the record when they have arrived from their device."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nbdebug.record import Record

FETCH_SECONDS = 0.1
Number = float | Tensor


@dataclass(slots=True)
class Row:
    """The numbers of one step; tensors are still on their device."""

    step: int
    numbers: dict[str, Number] = field(default_factory=dict)
    losses: list[Number] = field(default_factory=list)


class Recorder:
    """Rows that wait for their numbers. On an accelerator nothing waits for the device more than ten times a second.

    ``step`` is the number of the step that is under way, from 1, and ``row`` what is known of it. ``waited`` are the
    seconds that it has waited for its batches, ``epoch`` counts from 1.
    """

    def __init__(self, record: Record) -> None:
        self.record, self.waiting, self.fetched = record, list[Row](), time.perf_counter()
        self.step, self.row = 1, Row(1)
        self.epoch, self.waited, self.stepped = 0, 0.0, time.perf_counter()
        self.evaluation: list[Number] = []
        self.wrong: list[tuple[int, float]] = []

    def evaluated(self) -> None:
        """A validation pass of the user's own has ended: the mean of its losses is one value."""
        if self.evaluation:
            losses = fetched(self.evaluation)
            self.record.evaluations.append(self.step - 1, {"eval_loss": sum(losses) / len(losses)}, "own")
            self.evaluation.clear()

    def finish(self, optimizer: torch.optim.Optimizer | None, now: float) -> None:
        """A step is done, at a time in seconds; its row has the rate and the momentum of the first group."""
        numbers = self.row.numbers
        numbers["step_seconds"], numbers["wait_seconds"] = now - self.stepped, self.waited
        self.waited, self.stepped = 0.0, now
        if self.epoch:
            numbers["epoch"] = float(self.epoch)
        if optimizer is not None:
            group = optimizer.param_groups[0]
            numbers["lr"] = float(group["lr"])
            momentum = group["momentum"] if "momentum" in group else group.get("betas", (None,))[0]
            if isinstance(momentum, (int, float)):
                numbers["momentum"] = float(momentum)
        self.next_row()

    def leave_out(self, optimizer: torch.optim.Optimizer, now: float) -> None:
        """A step is done of which only the loss was heard."""
        self.row.numbers["lr"] = float(optimizer.param_groups[0]["lr"])
        self.waited, self.stepped = 0.0, now
        self.next_row()

    def next_row(self) -> None:
        """A row is whole but for what is still on a device, and another begins."""
        self.waiting.append(self.row)
        self.step += 1
        self.row = Row(self.step)

    @property
    def due(self) -> bool:
        """Whether it is time to fetch what waits."""
        return time.perf_counter() - self.fetched > FETCH_SECONDS

    def fetch(self) -> None:
        """Brings the numbers that wait from their device, all at once, and writes their rows."""
        self.fetched = time.perf_counter()
        rows, self.waiting = self.waiting, []
        numbers = fetched([one for row in rows for one in (*row.losses, *row.numbers.values())])
        at, found = iter(numbers), []
        for row in rows:
            losses = [next(at) for _ in row.losses]
            cells = {name: next(at) for name in row.numbers}
            if losses:
                cells["loss"] = sum(losses) / len(losses)
                if not math.isfinite(cells["loss"]):
                    self.wrong.append((row.step, cells["loss"]))
            found.append((row.step, {name: seen(value) for name, value in cells.items()}))
        self.record.run.extend(found)


def kept(value: Tensor) -> Number:
    """A scalar to be read later: at once where nothing has to be waited for, else a copy on its device."""
    return float(value.item()) if value.is_cpu else value.detach().reshape(()).float().clone()


def total(numbers: list[Number]) -> float | None:
    """The sum of numbers that are known; None where there are none, or one is still on its device."""
    found = 0.0
    for one in numbers:
        if isinstance(one, Tensor):
            return None
        found += one
    return found if numbers else None


def fetched(numbers: list[Number]) -> list[float]:
    """The values of numbers, with one wait for the device that they lie on."""
    away = [one for one in numbers if isinstance(one, Tensor)]
    values = iter(torch.stack([one.to(away[0].device) for one in away]).tolist() if away else ())
    return [one if isinstance(one, float) else next(values) for one in numbers]


def seen(value: float) -> float:
    """A value as the record holds it: not finite is infinite, since NaN stands for what was not measured."""
    return value if value == value else math.inf
