"""The batches whose gradients each step sums, by their position in the epoch and by the loader they come from."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.loop_monitor.gradient_accumulation import nonzero_gradients
from nbdebug.loop_monitor.validation_steps import ValidationStepCounter

_MAX_EPOCHS = 10_000  # of which the first step is recorded
_MAX_CARRIED = 1000  # steps with batches of two epochs of which size and position are recorded


@dataclass(frozen=True)
class _CarriedGroups:
    """Steps that sum batches of two epochs, if each of them comes at the same ``position`` in its epoch.

    ``batches`` is the number that each of the ``steps`` sums; a group that begins with the epoch has ``position``. A
    loop that counts its groups across epochs has groups of one size, at positions that change, and none of these.
    """

    steps: int = 0
    batches: int = 0
    position: int = 0


@dataclass(frozen=True)
class StepGroups:
    """Counts of batches and steps of a loop.

    ``lost_batches`` of the ``batches`` with a backward pass were the last ones of their epoch, and their gradients were
    cleared before any step. ``contaminated_steps`` of the ``steps`` used gradients of training batches that had been
    added to those of validation batches.
    """

    batches: int = 0
    steps: int = 0
    lost_batches: int = 0
    lost_epochs: int = 0
    carried: _CarriedGroups = _CarriedGroups()
    contaminated_steps: int = 0


class StepGroupMonitor:
    """Counts the batches between steps in all steps of a loop, also in those whose other events are not tracked.

    The gradients are inspected only at the first backward pass of an epoch and at the first one after a backward pass
    on a validation batch, and only if gradients of earlier batches may be left.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters, self.split = parameters, ""
        self.validation = ValidationStepCounter()
        self.iterator: weakref.ref[Any] | None = None
        self.batch = self.position = self.counted_batch = 0
        self.group = self.batches = self.steps = self.lost_batches = self.lost_epochs = self.contaminated_steps = 0
        self.begins_epoch = self.spans_epochs = self.has_validation_gradients = self.is_contaminated = False
        self.carried: list[tuple[int, int]] = []
        self.epoch_starts: list[int] = []

    def on_batch(self, split: str, iterator: Any) -> None:
        """Record a batch of a loader."""
        self.split = split
        self.validation.on_batch(split)
        if split != "train":
            return
        self.batch, self.position = self.batch + 1, self.position + 1
        if self.iterator is None or self.iterator() is not iterator:
            self.iterator, self.position, self.begins_epoch = weakref.ref(iterator), 1, True
            if len(self.epoch_starts) < _MAX_EPOCHS:
                self.epoch_starts.append(self.steps)

    @property
    def is_at_epoch_start(self) -> bool:
        """True if no step has ended since the first batch of an epoch."""
        return self.split == "train" and self.epoch_starts[-1:] == [self.steps]

    def on_forward_begin(self, split: str) -> None:
        """Record a forward pass by the split of its input."""
        self.validation.on_forward_begin(split)

    def on_backward_begin(self) -> None:
        """Record the start of a backward pass."""
        self.validation.on_backward()
        if self.split == "val":
            self.has_validation_gradients = True
        if self.split != "train" or self.counted_batch == self.batch:
            return
        if self.has_validation_gradients:
            self.is_contaminated, self.has_validation_gradients = self.has_gradients, False
        if self.begins_epoch and self.group:
            self.spans_epochs = self.has_gradients
            if not self.spans_epochs:
                self.lost_batches, self.lost_epochs = self.lost_batches + self.group, self.lost_epochs + 1
                self.group = 0
        self.begins_epoch, self.counted_batch = False, self.batch
        self.group, self.batches = self.group + 1, self.batches + 1

    @property
    def has_gradients(self) -> bool:
        """True if any gradient is nonzero; synchronizes the device."""
        return any(nonzero_gradients(self.parameters))

    def on_step_end(self, optimizer: torch.optim.Optimizer) -> None:
        """Record a step."""
        self.validation.on_step_end(optimizer)
        self.on_step_skipped()

    def on_step_skipped(self) -> None:
        """Record that a step ended, or that a GradScaler skipped it."""
        self.steps += 1
        if self.spans_epochs and len(self.carried) < _MAX_CARRIED:
            self.carried.append((self.group, self.position))
        self.contaminated_steps += self.is_contaminated
        self.group, self.spans_epochs, self.is_contaminated, self.has_validation_gradients = 0, False, False, False

    def summary(self) -> StepGroups:
        """Return all counts."""
        is_constant = len(set(self.carried)) == 1
        size, position = self.carried[0] if is_constant else (0, 0)
        return StepGroups(
            self.batches,
            self.steps,
            self.lost_batches,
            self.lost_epochs,
            _CarriedGroups(len(self.carried), size, position) if is_constant else _CarriedGroups(),
            self.contaminated_steps,
        )
