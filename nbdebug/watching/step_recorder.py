"""Collects the numbers of each step, and the metadata of a run."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.records import Record
from nbdebug.setup import Setup, loaders

FETCH_SECONDS = 0.1
Number = float | Tensor


@dataclass(slots=True)
class _StepRow:
    """The numbers of one step; tensors are still on their device."""

    step: int
    numbers: dict[str, Number] = field(default_factory=dict)
    losses: list[Number] = field(default_factory=list)


class StepRecorder:
    """Rows that wait for their numbers; on an accelerator it synchronizes with the device at most ten times a second.

    ``step`` is the number of the current step, from 1, and ``row`` its numbers so far. ``wait_seconds`` is the time in
    seconds spent waiting for its batches; ``epoch`` counts from 1. ``part_ends`` are the numbers of losses after each
    step in this row of an optimizer whose steps do not end rows.
    """

    def __init__(self, record: Record) -> None:
        self.record, self.pending, self.last_fetch = record, list[_StepRow](), time.perf_counter()
        self.step, self.row = 1, _StepRow(1)
        self.epoch, self.wait_seconds, self.last_step_time = 0, 0.0, time.perf_counter()
        self.evaluation_losses: list[Number] = []
        self.non_finite_losses: list[tuple[int, float]] = []
        self.backward_passes = Counter[int]()
        self.part_ends: list[int] = []
        self.optimizer_starts: list[tuple[int, int]] = []  # (first step, id of the optimizer) at each change

    def end_evaluation(self) -> None:
        """Record the mean loss of the user's validation pass that has ended."""
        if self.evaluation_losses:
            losses = fetch_values(self.evaluation_losses)
            self.record.evaluations.append(self.step - 1, {"eval_loss": sum(losses) / len(losses)}, "own")
            self.evaluation_losses.clear()

    def finish_step(self, optimizer: torch.optim.Optimizer | None, now: float) -> None:
        """Finish the row of a step with its duration, and the learning rate and momentum of the first group."""
        numbers = self.row.numbers
        numbers["step_seconds"], numbers["wait_seconds"] = now - self.last_step_time, self.wait_seconds
        self.wait_seconds, self.last_step_time = 0.0, now
        if self.epoch:
            numbers["epoch"] = float(self.epoch)
        if optimizer is not None:
            group = optimizer.param_groups[0]
            self._record_rate(optimizer)
            momentum = group["momentum"] if "momentum" in group else group.get("betas", (None,))[0]
            if isinstance(momentum, (int, float)):
                numbers["momentum"] = float(momentum)
        self.next_row()

    def finish_loss_only_step(self, optimizer: torch.optim.Optimizer, now: float) -> None:
        """Finish the row of a step that recorded only its loss."""
        self._record_rate(optimizer)
        self.wait_seconds, self.last_step_time = 0.0, now
        self.next_row()

    def _record_rate(self, optimizer: torch.optim.Optimizer) -> None:
        self.row.numbers["lr"] = float(optimizer.param_groups[0]["lr"])
        if not self.optimizer_starts or self.optimizer_starts[-1][1] != id(optimizer):
            self.optimizer_starts.append((self.step, id(optimizer)))

    def relative_rates(self) -> list[float]:
        """Return the learning rate of each step, divided by the highest one of its optimizer if that is not 0."""
        steps, rates = (list(map(float, values)) for values in self.record.series("lr"))
        starts = [start for start, _ in self.optimizer_starts]
        owners = [self.optimizer_starts[bisect_right(starts, step) - 1][1] for step in steps]
        peaks: dict[int, float] = {}
        for owner, rate in zip(owners, rates, strict=True):
            peaks[owner] = max(peaks.get(owner, 0.0), rate)
        return [rate / (peaks[owner] or 1.0) for owner, rate in zip(owners, rates, strict=True)]

    def next_row(self) -> None:
        """Queue the current row and begin the next one."""
        self.pending.append(self.row)
        self.step += 1
        self.row = _StepRow(self.step)
        self.part_ends.clear()

    def record_other_losses(self, losses: list[Number]) -> None:
        """Record the loss of another model that the loop trains."""
        if losses:
            self.row.numbers["other_loss"] = losses[-1]

    def end_part(self) -> None:
        """Note the end of a step of an optimizer whose steps do not end rows."""
        self.part_ends.append(len(self.row.losses))

    def split_row(self, optimizer: torch.optim.Optimizer) -> int:
        """Make each part of the current row a row, as the steps of ``optimizer`` end rows; return their number."""
        losses, ends, begin = self.row.losses, self.part_ends.copy(), 0
        for end in ends:
            self.row.losses, begin = losses[begin:end], end
            self.finish_loss_only_step(optimizer, time.perf_counter())
        self.row.losses = losses[begin:]
        return len(ends)

    @property
    def fetch_is_due(self) -> bool:
        """True if it is time to fetch pending numbers."""
        return time.perf_counter() - self.last_fetch > FETCH_SECONDS

    def fetch(self) -> None:
        """Fetch all pending numbers from their device at once, and write their rows."""
        self.last_fetch = time.perf_counter()
        rows, self.pending = self.pending, []
        numbers = fetch_values([number for row in rows for number in (*row.losses, *row.numbers.values())])
        values, finished_rows = iter(numbers), []
        for row in rows:
            losses = [next(values) for _ in row.losses]
            cells = {name: next(values) for name in row.numbers}
            self.backward_passes[len(losses)] += 1
            if losses:
                cells["loss"] = sum(losses) / len(losses)
                if not math.isfinite(cells["loss"]):
                    self.non_finite_losses.append((row.step, cells["loss"]))
            finished_rows.append((row.step, {name: _nan_to_infinity(value) for name, value in cells.items()}))
        self.record.run.extend(finished_rows)
        if self.backward_passes:
            self.record.about["backward_passes_per_step"] = self.backward_passes.most_common(1)[0][0]


def defer_scalar(value: Tensor) -> Number:
    """Return a scalar to be read later: a float if it is on the CPU, otherwise a copy on its device."""
    return float(value.item()) if value.is_cpu else value.detach().reshape(()).float().clone()


def sum_if_on_host(numbers: list[Number]) -> float | None:
    """Return the sum, or None if there are no numbers or one is still on its device."""
    result = 0.0
    for number in numbers:
        if isinstance(number, Tensor):
            return None
        result += number
    return result if numbers else None


def fetch_values(numbers: list[Number]) -> list[float]:
    """Return the values of numbers with one device synchronization."""
    device_tensors = [number for number in numbers if isinstance(number, Tensor)]
    values = iter(
        torch.stack([number.to(device_tensors[0].device) for number in device_tensors]).tolist()
        if device_tensors
        else ()
    )
    return [number if isinstance(number, float) else next(values) for number in numbers]


def _nan_to_infinity(value: float) -> float:
    """Replace NaN by infinity, since NaN means "not measured" in a record."""
    return value if value == value else math.inf


def _may_carry_state(setup: Setup) -> bool:
    """Return whether the order of the batches may be intended: the model is recurrent, or the loader is a sequence."""
    is_recurrent = any(isinstance(m, (nn.RNNBase, nn.RNNCellBase)) for m in setup.eager_model.modules())
    return is_recurrent or isinstance(setup.train_loader, Sequence)


def describe_setup(setup: Setup) -> dict[str, Any]:
    """Return the metadata of a run: model, parameters that are zero, optimizer, loss, versions and dataset sizes."""
    loader = setup.train_loader
    metadata: dict[str, Any] = {
        "model": type(setup.eager_model).__name__,
        "parameters": sum(p.numel() for p in setup.eager_model.parameters()),
        "optimizer": ", ".join(type(optimizer).__name__ for optimizer in setup.optimizers),
        "loss": _loss_name(setup.loss_fn),
        "torch": torch.__version__,
        "zero_parameters": [name for name, p in setup.eager_model.named_parameters() if not bool(p.any())],
        "finished": False,
        "may_carry_state": _may_carry_state(setup),
    }
    counts = {
        "batches_per_epoch": loaders.batch_count(loader) or None,
        "train_samples": loaders.dataset_length(loader),
        "val_samples": loaders.dataset_length(setup.val_loader),
    }
    return {**metadata, **{name: count for name, count in counts.items() if count is not None}}


def _loss_name(loss_fn: Any) -> str:
    """Return the name of a loss function or of its class, without the options that a partial adds; "" for None."""
    while isinstance(loss_fn, partial):
        loss_fn = loss_fn.func
    return "" if loss_fn is None else str(getattr(loss_fn, "__name__", type(loss_fn).__name__))
